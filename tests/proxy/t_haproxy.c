/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real HAProxy before an application and an agent, with docs/proxies/haproxy.cfg and weir-spoe.conf as they stand. */
#include "tests/lib/run.h"
#include "tests/proxy/proxy_test.h"

#define STREAMS 300
#define ROUNDS	10

static const char *const profile = "haproxy-spoe", *const program = "haproxy";

static int write_files(const char *dir, const char *where, bool closed, int bufsize)
{
	static const char refuse[] = "# http-request return status 503";
	char bind[80], spoe[200], agent[128], app[80], conf[160], first[240];
	const struct proxy_change cfg[] = {
		{"defaults\n", first},
		{"bind :80 #", bind},
		{"/etc/haproxy/weir-spoe.conf # <==", spoe},
		{"server weir 127.0.0.1:9472 ", agent},
		{"server app 127.0.0.1:8080 ", app},
		{refuse, closed ? refuse + 2 : refuse},
		{NULL, NULL},
	};
	/* a machine that runs all tests at once is slower than any proxy should wait for */
	const struct proxy_change patient[] = {{"timeout processing 100ms",
						"timeout processing 1s"},
					       {NULL, NULL}};
	int r;

	(void)snprintf(
		first, sizeof(first),
		"global\n\ttune.bufsize %d\n\tstats socket %s/s expose-fd listeners\ndefaults\n",
		bufsize, dir);
	(void)snprintf(bind, sizeof(bind), "bind %s #", where);
	(void)snprintf(spoe, sizeof(spoe), "%s/weir-spoe.conf", dir);
	(void)snprintf(agent, sizeof(agent), "server weir %s%s ", closed ? "unix@" : "",
		       closed ? stand.agent_unix : stand.agent_where);
	(void)snprintf(app, sizeof(app), "server app %s ", stand.app.where);
	(void)snprintf(conf, sizeof(conf), "%s/haproxy.cfg", dir);
	r = proxy_file("docs/proxies/haproxy.cfg", conf, cfg);
	return r < 0 ? r : proxy_file("docs/proxies/weir-spoe.conf", spoe, patient);
}

static int start_in(struct proxy *p, const char *dir, const char *where, const char *instead_of)
{
	char conf[160], log[160], sockets[160];
	/* -x: the new process takes the listeners themselves, or who waits in the old one's queue is reset */
	const char *const argv[] = {
		proxy_find(program), "-db", "-f",    conf, instead_of ? "-sf" : NULL,
		instead_of,	     "-x",  sockets, NULL};

	(void)snprintf(sockets, sizeof(sockets), "%s/s", dir);
	(void)snprintf(conf, sizeof(conf), "%s/haproxy.cfg", dir);
	(void)snprintf(log, sizeof(log), "%s/log", dir);
	return proxy_start(p, log, where, argv);
}

static int start_haproxy(struct proxy *p, const char *dir, const char *where, bool closed)
{
	int r = write_files(dir, where, closed, 16384);

	return r < 0 ? r : start_in(p, dir, where, NULL);
}

static int (*const start_proxy)(struct proxy *p, const char *dir, const char *where,
				bool closed) = start_haproxy;

/* --- what only SPOE has ---- */

/* The agent's count of what went wrong on its connections. */
static long long spop_errors(void)
{
	const char *name = "\"spop_errors_total\":", *at;
	long long n = -1;
	char digits[24];
	__u64 v;

	assert_int_equal(agent_cmd(&stand.agent, "status", "--json"), 0);
	at = strstr(stand.agent.out, name);
	if (!at)
		fail_msg("no %s in %s", name, stand.agent.out);
	at += strlen(name);
	at += strspn(at, " ");
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(at, "0123456789"), at);
	if (weir_str_u64(digits, UINT32_MAX, &v) == 0)
		n = (long long)v;
	return n;
}

static void hundreds_of_streams_at_once_are_all_decided(void **state)
{
	struct web *w = calloc(STREAMS, sizeof(*w));
	long long errors = spop_errors();
	struct web_reply r;

	(void)state; /* stand */
	assert_non_null(w);
	for (int i = 0; i < STREAMS; i++)
		assert_int_equal(web_open(&w[i], stand.open.where), 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < STREAMS; i++)
			assert_int_equal(web_say(&w[i],
						 "GET /s%d HTTP/1.1\r\nHost: app\r\n"
						 "Cookie: %0*d\r\n\r\n",
						 i, i * 5 + 1, round),
					 0);
		for (int i = 0; i < STREAMS; i++) {
			assert_int_equal(web_wait(&w[i], WEB_WAIT_MS, &r), 0);
			assert_int_equal(r.status, 200);
			assert_value(&r, "X-Weir-Decision", "allow");
		}
	}
	for (int i = 0; i < STREAMS; i++)
		web_close(&w[i]);
	free(w);
	assert_int_equal(spop_errors(), errors);
}

/* Only while it was asked is a request counted: as many as the limit, whatever comes at once. */
static void streams_at_once_get_no_more_than_the_limit(void **state)
{
	struct web w[40];
	struct web_reply r;
	unsigned yes = 0;

	(void)state; /* stand */
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		assert_int_equal(web_open_from(&w[i], stand.closed.where, "127.0.2.40"), 0);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		assert_int_equal(web_say(&w[i], "GET /limited/a HTTP/1.1\r\nHost: app\r\n\r\n"), 0);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		assert_int_equal(web_wait(&w[i], WEB_WAIT_MS, &r), 0);
		yes += r.status == 200;
		assert_true(r.status == 200 || r.status == 429);
		web_close(&w[i]);
	}
	assert_int_equal(yes, LIMIT);
}

static void ask_many(void)
{
	for (int k = 0; k < 100; k++) {
		struct talk t = must_say(&stand.open, R(.target = "/b"));

		assert_int_equal(t.r.status, 200);
		assert_value(&t.r, "X-Weir-Decision", "allow");
		hang_up(&t);
	}
}

/* The new process takes the port over and tells the old one to end when it is done: every answer of either is a
 * decision.
 */
static void a_reload_leaves_nothing_undecided(void **state)
{
	long long errors = spop_errors();
	struct proxy next = {};
	char dir[128], pid[16];
	struct web_reply r;
	struct web old;

	(void)state; /* stand */
	(void)snprintf(dir, sizeof(dir), "%s/open", stand.agent.dir);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(web_open(&old, stand.open.where), 0);
		assert_int_equal(web_ask(&old, &r, "GET /a HTTP/1.1\r\nHost: app\r\n\r\n"), 0);
		(void)snprintf(pid, sizeof(pid), "%d", (int)stand.open.pid);
		assert_int_equal(start_in(&next, dir, stand.open.where, pid), 0);
		ask_many();
		/* a kept connection is answered once more, or closed */
		if (web_ask(&old, &r, "GET /c HTTP/1.1\r\nHost: app\r\n\r\n") == 0)
			assert_value(&r, "X-Weir-Decision", "allow");
		web_close(&old);
		assert_int_equal(run_wait(stand.open.pid, PROXY_WAIT_MS), 0);
		stand.open = next;
		next = (struct proxy){};
		ask_many();
	}
	assert_int_equal(spop_errors(), errors);
}

/* With larger buffers HAProxy takes what does not fit into a frame. Such a request is refused, and no other one's
 * connection ends with it.
 */
static void what_does_not_fit_into_a_frame_is_refused(void **state)
{
	long long errors = spop_errors();
	struct proxy large = {};
	char where[64], dir[128], *text = malloc(70000);
	unsigned seen = app_seen();

	(void)state; /* stand */
	assert_non_null(text);
	assert_int_equal(proxy_free_port(where, sizeof(where)), 0);
	(void)snprintf(dir, sizeof(dir), "%s/large", stand.agent.dir);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(write_files(dir, where, false, 65536), 0);
	assert_int_equal(start_in(&large, dir, where, NULL), 0);
	for (size_t n = 16400; n < 60000; n += 6000) {
		size_t used = (size_t)snprintf(text, 70000, "X-Big: ");
		struct talk t;

		memset(text + used, 'a', n);
		(void)snprintf(text + used + n, 70000 - used - n, "\r\n");
		t = must_say(&large, R(.target = "/free", .headers = text));
		assert_int_equal(t.r.status, 431);
		hang_up(&t);
	}
	free(text);
	assert_int_equal(app_seen(), seen);
	assert_int_equal(spop_errors(), errors);
	assert_int_equal(proxy_stop(&large), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		COMMON_TESTS,
		cmocka_unit_test(hundreds_of_streams_at_once_are_all_decided),
		cmocka_unit_test(streams_at_once_get_no_more_than_the_limit),
		cmocka_unit_test(a_reload_leaves_nothing_undecided),
		cmocka_unit_test(what_does_not_fit_into_a_frame_is_refused),
	};

	return is_missing() ? 77 : cmocka_run_group_tests(tests, set_up, tear_down);
}
