/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir doctor looks at the shared store's server: is it there, is it one that counts, what will it do when it is full? */
#include "redis/fixture.h"

#include "lib/run.h"

static struct redis_server server;
static char conf[128], out[8192];

static int tear_down(void **state)
{
	(void)state;
	redis_stop(&server);
	server = (struct redis_server){};
	return 0;
}

static int doctor(const char *more)
{
	const char *build = getenv("WEIR_BUILD");
	char text[512], program[256];

	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: /tmp\nadmin: {listen: /tmp/weir-doctor.sock}\n"
		       "http: {listeners: [{listen: \"unix:/tmp/weir-doctor-m.sock\", profile: "
		       "metrics}]}\n"
		       "store: {url: \"redis+unix://%s\"%s}\n",
		       server.sock, more);
	assert_int_equal(redis_file(&server, "weir.yaml", text, conf, sizeof(conf)), 0);
	(void)snprintf(program, sizeof(program), "%s/weir", build ? build : "build");
	return run_cmd(0, out, sizeof(out), program, "doctor", "-c", conf);
}

static void says(const char *words)
{
	if (!strstr(out, words))
		fail_msg("not \"%s\": %s", words, out);
}

static void a_server_that_will_do_is_described(void **state)
{
	(void)state;
	assert_int_equal(redis_start(&server, "--maxmemory", "64mb", "--maxmemory-policy",
				     "volatile-ttl", NULL),
			 0);
	assert_int_equal(doctor(", timeout: 20ms"), 0);
	says("ok    store ");
	says("Redis ");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_server_that_will_do_is_described, tear_down),
		cmocka_unit_test_teardown(what_a_full_server_would_do_is_told, tear_down),
		cmocka_unit_test_teardown(what_will_not_do_is_said, tear_down),
	};

	if (!redis_installed()) {
		(void)puts(REDIS_SKIP);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
