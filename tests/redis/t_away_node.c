/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent as a process with a Cluster of which one node is away: an operator is told which one, and that the others
 * answer; clients whose states are there are counted as if nothing were.
 */
#include <signal.h>

#include "http/http_test.h"
#include "redis/cluster_case.h"

#define MASTERS 3
#define CLIENTS 64
#define CONF                                                                                       \
	LISTENERS                                                                                  \
	"store: {url: \"redis+cluster://127.0.0.1:%u\", key_secret_file: @DIR@/secret}\n"          \
	"request_limits:\n  - {name: shut, key: ip, algorithm: fixed-window, limit: "              \
	"1000000, "                                                                                \
	"window: 1h, on_store_failure: closed}\n"

/* How many clients pass. */
static unsigned passing(struct agent *a)
{
	struct web w = must_open(a, "caddy");
	unsigned passed = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct web_reply r;
		char ip[32];

		(void)snprintf(ip, sizeof(ip), "198.51.100.%u", i + 1);
		passed += ask(&w, "caddy", Q(.target = "/", .ip = ip), &r) == 200;
	}
	web_close(&w);
	return passed;
}

static bool status_says(struct agent *a, const char *words)
{
	(void)passing(a);
	return agent_cmd(a, "status") == 0 && strstr(a->out, words);
}

static void a_node_that_is_away_is_named(void **state)
{
	static const char secret[] =
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	struct cluster k = {.more = "cluster-require-full-coverage no"};
	struct agent a = {.pid = 0};
	char conf[2048], words[128];
	unsigned passed;

	(void)state;
	assert_int_equal(cluster_make(&k, MASTERS, MASTERS), 0);
	assert_int_equal(agent_prepare(&a), 0);
	assert_int_equal(agent_file(&a, "secret", secret), 0);
	(void)snprintf(conf, sizeof(conf), CONF, k.port[0]);
	must_start(&a, conf);
	assert_true(wait_for(passing(&a) == CLIENTS, 10000));
	assert_int_equal(kill(k.node[1].pid, SIGSTOP), 0);
	(void)snprintf(words, sizeof(words), "of the store's 3 nodes 1 does not answer since 20");
	assert_true(wait_for(status_says(&a, words), 10000));
	(void)snprintf(words, sizeof(words), "Z, 127.0.0.1:%u (", k.port[1]);
	assert_non_null(strstr(a.out, words));
	assert_non_null(strstr(a.out, "closed for shut; the others answer"));
	assert_non_null(strstr(a.out, "store partly AWAY"));
	passed = passing(&a);
	assert_in_range(passed, 1, CLIENTS - 1);
	assert_int_equal(kill(k.node[1].pid, SIGCONT), 0);
	assert_true(wait_for(passing(&a) == CLIENTS, 10000));
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
	cluster_stop(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_is_away_is_named),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
