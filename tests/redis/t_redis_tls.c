/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rediss://: a server is believed by its certificate and its name. Where hiredis has no TLS the store says what is needed. */
#include "redis/cluster_case.h"

#include "lib/run.h"

static struct cluster cluster;
static struct redis_server sentinel;

static int teardown(void **state)
{
	struct fix *f = *state;

	fix_done(f);
	cluster_stop(&cluster);
	redis_stop(&sentinel);
	cluster = (struct cluster){};
	sentinel = (struct redis_server){};
	free(f);
	return 0;
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	fix_options(f);
	return 0;
}

#ifdef WEIR_HIREDIS_SSL
static uint16_t tls_port;

/* A certificate that is its own CA. */
static void make_certificate(struct fix *f, const char *names, char *ret, size_t size)
{
	char key[128], out[4096];
	int r;

	assert_int_equal(redis_file(&f->r, "cert.pem", "", ret, size), 0);
	(void)snprintf(key, sizeof(key), "%s/key.pem", f->r.dir);
	r = run_cmd(0, out, sizeof(out), "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
		    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test",
		    "-addext", names, "-keyout", key, "-out", ret);
	if (r)
		fail_msg("openssl: %s", out);
}

static void start(struct fix *f, const char *names)
{
	static char cert[128];
	char key[128], port[8];

	make_certificate(f, names, cert, sizeof(cert));
	(void)snprintf(key, sizeof(key), "%s/key.pem", f->r.dir);
	tls_port = redis_free_port();
	(void)snprintf(port, sizeof(port), "%u", tls_port);
	assert_int_equal(redis_start(&f->r, "--tls-port", port, "--tls-cert-file", cert,
				     "--tls-key-file", key, "--tls-ca-cert-file", cert,
				     "--tls-auth-clients", "no", NULL),
			 0);
	f->o.tls_ca = cert;
}

static void at(struct fix *f, const char *host)
{
	char url[80];

	(void)snprintf(url, sizeof(url), "rediss://%s:%u", host, tls_port);
	fix_store_at(f, url);
}

static void a_server_with_the_right_name_is_believed(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	const char *const hosts[] = {"127.0.0.1", "localhost"};
	struct fix *f = *state;
	bool admitted;

	f->o.timeout_ns = 2000 * MS;
	start(f, "subjectAltName=DNS:localhost,IP:127.0.0.1");
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		at(f, hosts[i]);
		for (int k = 0; k < 200; k++) {
			assert_int_equal(ask_one(f, &l, (__u64)k, 1, &admitted), 0);
			assert_true(admitted);
		}
		weir_store_free(f->s);
		f->s = NULL;
	}
}

static void refused(struct fix *f)
{
	struct weir_far_stats s;

	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	weir_store_far_stats(f->s, &s);
	if (!strstr(s.cause, "its certificate: "))
		fail_msg("%s", s.cause);
}

static void another_name_is_refused(void **state)
{
	struct fix *f = *state;

	start(f, "subjectAltName=DNS:other.example,IP:192.0.2.1");
	at(f, "localhost");
	refused(f);
	weir_store_free(f->s);
	at(f, "127.0.0.1");
	refused(f);
}

static void an_unknown_ca_is_refused(void **state)
{
	struct fix *f = *state;

	start(f, "subjectAltName=DNS:localhost");
	f->o.tls_ca = NULL; /* the system's */
	at(f, "localhost");
	refused(f);
}
/* Lines of redis.conf for @f's certificate. */
static void tls_lines(struct fix *f, const char *more, char *ret, size_t size)
{
	static char cert[128];

	make_certificate(f, "subjectAltName=IP:127.0.0.1", cert, sizeof(cert));
	f->o.tls_ca = cert;
	f->o.timeout_ns = 2000 * MS;
	(void)snprintf(ret, size,
		       "tls-cert-file %s\ntls-key-file %s/key.pem\ntls-ca-cert-file %s\n"
		       "tls-auth-clients no\ntls-replication yes\n%s\n",
		       cert, f->r.dir, cert, more);
}

/* Its map names the ports that speak TLS, and so do its redirections. */
static void all_nodes_of_a_cluster_speak_it(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	char lines[512], url[64];
	unsigned slot;
	bool admitted;
	__u64 client;

	tls_lines(f, "tls-cluster yes", lines, sizeof(lines));
	cluster.more = lines;
	cluster.tls = true;
	assert_int_equal(cluster_make(&cluster, 3, 3), 0);
	(void)snprintf(url, sizeof(url), "rediss+cluster://127.0.0.1:%u", cluster.port[0]);
	fix_store_at(f, url);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ask_one(f, &l, cluster_client(&cluster, i, 1), 1, &admitted), 0);
		assert_true(admitted);
	}
	client = cluster_client(&cluster, 0, 1);
	slot = cluster_slot(client);
	cluster_open_slot(&cluster, 0, 1, slot);
	cluster_move_keys(&cluster, 0, 1, slot);
	assert_int_equal(ask_one(f, &l, client, 1, &admitted), 0); /* ASK */
	cluster_close_slot(&cluster, 0, 1, slot);
	assert_int_equal(ask_one(f, &l, client, 1, &admitted), 0); /* MOVED */
}

static void sentinels_and_their_master_speak_it(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	char lines[512], text[1024], path[128], url[64], port[8];
	struct fix *f = *state;
	__u16 tls;
	bool admitted;

	tls_lines(f, "", lines, sizeof(lines));
	tls_port = redis_free_port();
	(void)snprintf(port, sizeof(port), "%u", tls_port);
	assert_int_equal(redis_file(&f->r, "more.conf", lines, path, sizeof(path)), 0);
	assert_int_equal(redis_start(&f->r, "--tls-port", port, "--include", path, NULL), 0);
	sentinel.sentinel = true;
	sentinel.port = redis_free_port();
	tls = redis_free_port();
	(void)snprintf(text, sizeof(text),
		       "port %u\nbind 127.0.0.1\ntls-port %u\n%s"
		       "sentinel monitor m 127.0.0.1 %u 1\n",
		       sentinel.port, tls, lines, tls_port);
	assert_int_equal(redis_file(&sentinel, "sentinel.conf", text, path, sizeof(path)), 0);
	assert_int_equal(redis_start(&sentinel, path, "--sentinel", NULL), 0);
	(void)snprintf(url, sizeof(url), "rediss+sentinel://127.0.0.1:%u/m", tls);
	fix_store_at(f, url);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
}
#else
static void a_build_without_tls_says_what_is_needed(void **state)
{
	struct fix *f = *state;
	struct weir_redis_url u;
	struct weir_error e = {};

	f->base = event_base_new();
	assert_int_equal(weir_redis_url_parse("rediss://localhost", &u, &e), 0);
	f->o.url = &u;
	assert_int_equal(weir_store_redis_new(f->base, &f->o, &f->s, &e), -EOPNOTSUPP);
	assert_non_null(strstr(e.text, "hiredis 1.0 or later"));
	weir_redis_url_done(&u);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef WEIR_HIREDIS_SSL
		cmocka_unit_test_setup_teardown(a_server_with_the_right_name_is_believed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(another_name_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unknown_ca_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(all_nodes_of_a_cluster_speak_it, setup, teardown),
		cmocka_unit_test_setup_teardown(sentinels_and_their_master_speak_it, setup,
						teardown),
#else
		cmocka_unit_test_setup_teardown(a_build_without_tls_says_what_is_needed, setup,
						teardown),
#endif
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
