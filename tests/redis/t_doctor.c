/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir doctor looks at the shared store's server: is it there, is it one that counts, what will it do when it is full?
 * And weir check at the files that the agent would read to reach it.
 */
#include "redis/cluster_case.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/run.h"

static struct redis_server server;
static struct cluster cluster;
static char conf[128], out[8192];

static int tear_down(void **state)
{
	(void)state;
	redis_stop(&server);
	cluster_stop(&cluster);
	server = (struct redis_server){};
	cluster = (struct cluster){};
	return 0;
}

/* Asks a command about a configuration. @more: lines of `store:` after the URL. */
static int ask(const char *command, const char *url, const char *more)
{
	const char *build = getenv("WEIR_BUILD");
	char text[768], program[256];

	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: /tmp\nadmin: {listen: /tmp/weir-doctor.sock}\n"
		       "http: {listeners: [{listen: \"unix:/tmp/weir-doctor-m.sock\", profile: "
		       "metrics}]}\n"
		       "store: {url: \"%s\"%s}\n",
		       url, more);
	assert_int_equal(redis_file(&server, "weir.yaml", text, conf, sizeof(conf)), 0);
	(void)snprintf(program, sizeof(program), "%s/weir", build ? build : "build");
	return run_cmd(0, out, sizeof(out), program, command, "-c", conf);
}

static int doctor_at(const char *url, const char *more)
{
	return ask("doctor", url, more);
}

static int doctor(const char *more)
{
	char url[160];

	(void)snprintf(url, sizeof(url), "redis+unix://%s", server.sock);
	return doctor_at(url, more);
}

static void says(const char *words)
{
	if (!strstr(out, words))
		fail_msg("not \"%s\": %s", words, out);
}

static bool server_is_valkey(void)
{
	redisContext *c = redis_open(&server);
	redisReply *reply = redis_do(c, "INFO server");
	bool yes = strstr(reply->str, "valkey_version:");

	freeReplyObject(reply);
	redisFree(c);
	return yes;
}

static void a_server_that_will_do_is_described(void **state)
{
	(void)state;
	assert_int_equal(redis_start(&server, "--maxmemory", "64mb", "--maxmemory-policy",
				     "volatile-ttl", NULL),
			 0);
	assert_int_equal(doctor(", timeout: 20ms"), 0);
	says("ok    store ");
	says(server_is_valkey() ? "Valkey " : "Redis ");
	says("ok    store memory");
	says("volatile-ttl");
	says("a round trip takes");
}

static void what_a_full_server_would_do_is_told(void **state)
{
	(void)state;
	assert_int_equal(redis_start(&server, "--maxmemory", "64mb", "--maxmemory-policy",
				     "allkeys-lru", NULL),
			 0);
	assert_int_equal(doctor(""), 0);
	says("warn  store memory");
	says("key secret");
	redis_stop(&server);
	server = (struct redis_server){};
	assert_int_equal(redis_start(&server, NULL), 0);
	assert_int_equal(doctor(""), 0);
	says("no maxmemory");
}

static void what_will_not_do_is_said(void **state)
{
	(void)state;
	server.password = "secret";
	assert_int_equal(redis_start(&server, "--requirepass", "secret", NULL), 0);
	assert_int_equal(doctor(""), 1);
	says("a password is needed");
	redis_kill(&server);
	assert_int_equal(doctor(""), 1);
	says("fail  store");
}

static void write_password(const char *text, char *ret, size_t size)
{
	assert_int_equal(redis_file(&server, "password", text, ret, size), 0);
}

/* What the agent would not start with is no configuration that is right. */
static void check_reads_the_files_of_the_store(void **state)
{
	static const struct {
		const char *key, *text, *says;
		int mode, status;
	} rows[] = {
		{"password_file", "pa55word\n", "is right", 0600, 0},
		{"password_file", "pa55word\n", "everybody on this host may read it (chmod o-r)",
		 0644, 0},
		{"password_file", "", "must hold the password alone", 0600, 2},
		{"password_file", "pa55word\nmore\n", "must hold the password alone, in one line",
		 0600, 2},
		{"key_secret_file", "pa55word\n", "must hold 64 hexadecimal digits", 0600, 2},
	};
	char path[128], more[192];

	(void)state;
	assert_int_equal(redis_start(&server, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		write_password(rows[i].text, path, sizeof(path));
		assert_int_equal(chmod(path, (mode_t)rows[i].mode), 0);
		(void)snprintf(more, sizeof(more), ", %s: %s", rows[i].key, path);
		assert_int_equal(ask("check", "redis://127.0.0.1", more), rows[i].status);
		says(rows[i].says);
		assert_null(strstr(out, "pa55"));
		assert_true(rows[i].mode != 0600 || !strstr(out, "everybody on"));
	}
	assert_int_equal(ask("check", "redis://127.0.0.1", ", password_file: /nowhere/pass"), 0);
	says("store.password_file /nowhere/pass: No such file");
	assert_int_equal(ask("check", "redis://127.0.0.1", ", password_file: /tmp"), 2);
	says("store.password_file /tmp: Is a directory");
}

static void a_password_in_the_place_of_a_user_is_not_said(void **state)
{
	(void)state;
	assert_int_equal(redis_start(&server, NULL), 0);
	assert_int_equal(doctor_at("redis://pa55word@127.0.0.1:1", ""), 1);
	says("the user of the store needs a password (password_file)");
	assert_null(strstr(out, "pa55"));
}

static void a_right_that_is_missing_is_named(void **state)
{
	static const struct {
		const char *rights, *says;
	} rows[] = {
		{"+ping +info +echo +client", "the user may not run script|load (ACL)"},
		{"+ping +info +echo +client +script|load", "the user may not run evalsha (ACL)"},
		{"+ping +info +echo +client +script|load +evalsha +time", "the user may not run "},
	};
	char path[128], more[200];
	redisContext *c;

	(void)state;
	assert_int_equal(redis_start(&server, NULL), 0);
	write_password("of-weir", path, sizeof(path));
	(void)snprintf(more, sizeof(more), ", user: weir, password_file: %s", path);
	c = redis_open(&server);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char line[200];
		redisReply *r;

		(void)snprintf(line, sizeof(line),
			       "ACL SETUSER weir reset on >of-weir ~weir:* -@all %s",
			       rows[i].rights);
		r = redis_do(c, line);
		assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
		freeReplyObject(r);
		assert_int_equal(doctor(more), 1);
		says(rows[i].says);
	}
	write_password("wrong", path, sizeof(path));
	assert_int_equal(doctor(more), 1);
	says("user or password is wrong");
	if (strstr(out, "of-weir"))
		fail_msg("%s", out);
	redisFree(c);
}

static void a_server_that_will_not_count_is_no_good_one(void **state)
{
	redisContext *c;

	(void)state;
	assert_int_equal(redis_start(&server, NULL), 0);
	c = redis_open(&server);
	assert_int_equal(redis_int(c, "REPLICAOF 127.0.0.1 1"), 0);
	assert_int_equal(doctor(""), 1);
	says("it is a replica");
	assert_int_equal(redis_int(c, "REPLICAOF NO ONE"), 0);
	assert_int_equal(redis_int(c, "CONFIG SET maxmemory 1"), 0);
	assert_int_equal(doctor(""), 1);
	says("maxmemory is reached and nothing may be evicted");
	redisFree(c);
}

static void what_sentinels_can_do_is_told(void **state)
{
	_cleanup_(redis_stop) struct redis_server s = {.sentinel = true};
	char text[256], path[128], url[96];
	redisContext *c;

	(void)state;
	server.tcp = true;
	assert_int_equal(redis_start(&server, NULL), 0);
	s.port = redis_free_port();
	(void)snprintf(text, sizeof(text),
		       "port %u\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 %u 1\n", s.port,
		       server.port);
	assert_int_equal(redis_file(&s, "sentinel.conf", text, path, sizeof(path)), 0);
	assert_int_equal(redis_start(&s, path, "--sentinel", NULL), 0);
	(void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u/m", s.port);
	assert_int_equal(doctor_at(url, ""), 0);
	says("master by Sentinel");
	says("ok    store sentinels");
	c = redis_open(&s);
	assert_int_equal(redis_int(c, "SENTINEL SET m quorum 2"), 0);
	redisFree(c);
	assert_int_equal(doctor_at(url, ""), 0);
	says("warn  store sentinels");
	says("too few are left to make a replica the master");
	(void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u/nobody", s.port);
	assert_int_equal(doctor_at(url, ""), 1);
	says("this Sentinel knows no master 'nobody'");
	redis_kill(&s);
	assert_int_equal(doctor_at(url, ""), 1);
	says("Connection refused");
}

static void on_all(const char *command)
{
	CLUSTER_EACH(&cluster, i)
	{
		redisReply *r = redis_do(cluster.c[i], command);

		freeReplyObject(r); /* an error where it is so already */
	}
}

static void all_masters_of_a_cluster_are_tried(void **state)
{
	char url[96];

	(void)state;
	cluster.more = "cluster-require-full-coverage no";
	assert_int_equal(cluster_make(&cluster, 3, 3), 0);
	(void)snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%u", cluster.port[0]);
	assert_int_equal(doctor_at(url, ""), 0);
	says("of a cluster");
	cluster_kill(&cluster, 2);
	assert_int_equal(doctor_at(url, ""), 1);
	says("a part of the cluster does not count, about 3");
	says("Connection refused");
	assert_int_equal(cluster_run(&cluster, 2), 0);
	assert_true(cluster_is_up(&cluster));
	assert_int_equal(redis_int(cluster.c[1], "CLUSTER DELSLOTSRANGE 5462 9999"), 0);
	on_all("CLUSTER DELSLOTSRANGE 5462 9999");
	assert_int_equal(doctor_at(url, ""), 1);
	says("a part of the cluster does not count, about 2");
	says("no node of the cluster has 4538 of its slots, the first is 5462");
	on_all("CONFIG SET cluster-require-full-coverage yes");
	assert_int_equal(redis_int(cluster.c[1], "CLUSTER DELSLOTS 10000"), 0);
	on_all("CLUSTER DELSLOTS 10000");
	assert_true(wait_for(cluster_all_say(&cluster, "cluster_state:fail"), 10000));
	assert_int_equal(doctor_at(url, ""), 1);
	says("the cluster is down");
}

static int unix_socket(const char *path, bool listening)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(listening ? bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 8)
				   : connect(fd, (struct sockaddr *)&a, sizeof(a)),
			 0);
	return fd;
}

/* Passes bytes on between @client and the server, whose version becomes 6.0. */
static void pass_on(int client)
{
	struct pollfd p[2] = {{.fd = client, .events = POLLIN},
			      {.fd = unix_socket(server.sock, false), .events = POLLIN}};
	char bytes[16384], *at;
	ssize_t n = 1;

	while (n > 0 && poll(p, 2, -1) > 0)
		for (int i = 0; i < 2 && n > 0; i++) {
			if (!p[i].revents)
				continue;
			n = read(p[i].fd, bytes, sizeof(bytes) - 1);
			bytes[n > 0 ? n : 0] = '\0';
			at = strstr(bytes, "redis_version:");
			if (at)
				memcpy(strchr(at, ':') + 1, "6.0", 3);
			if (n > 0)
				n = send(p[!i].fd, bytes, (size_t)n, MSG_NOSIGNAL);
		}
	(void)close(p[1].fd);
}

static void *pretend(void *arg)
{
	int *listener = arg, client;

	while ((client = accept4(*listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		pass_on(client);
		(void)close(client);
	}
	return NULL;
}

static void a_server_that_is_too_old_is_refused(void **state)
{
	pthread_t thread;
	char sock[128], url[160];
	int listener;

	(void)state;
	assert_int_equal(redis_start(&server, NULL), 0);
	(void)snprintf(sock, sizeof(sock), "%s/old", server.dir);
	listener = unix_socket(sock, true);
	assert_int_equal(pthread_create(&thread, NULL, pretend, &listener), 0);
	(void)snprintf(url, sizeof(url), "redis+unix://%s", sock);
	assert_int_equal(doctor_at(url, ""), 1);
	says("fail  store");
	says("Redis 6.0");
	says("is too old: 6.2 or later is needed");
	(void)shutdown(listener, SHUT_RDWR);
	(void)pthread_join(thread, NULL);
	(void)close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_server_that_will_do_is_described, tear_down),
		cmocka_unit_test_teardown(what_a_full_server_would_do_is_told, tear_down),
		cmocka_unit_test_teardown(what_will_not_do_is_said, tear_down),
		cmocka_unit_test_teardown(a_server_that_is_too_old_is_refused, tear_down),
		cmocka_unit_test_teardown(check_reads_the_files_of_the_store, tear_down),
		cmocka_unit_test_teardown(a_password_in_the_place_of_a_user_is_not_said, tear_down),
		cmocka_unit_test_teardown(a_right_that_is_missing_is_named, tear_down),
		cmocka_unit_test_teardown(a_server_that_will_not_count_is_no_good_one, tear_down),
		cmocka_unit_test_teardown(what_sentinels_can_do_is_told, tear_down),
		cmocka_unit_test_teardown(all_masters_of_a_cluster_are_tried, tear_down),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
