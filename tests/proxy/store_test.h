/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What holds behind a proxy while the agent's store is away. Included by t_nginx.c and t_caddy.c after proxy_test.h. */
#ifndef WEIR_TESTS_STORE_TEST_H
#define WEIR_TESTS_STORE_TEST_H

#include "tests/lib/redis.h"
#include "tests/proxy/proxy_test.h"

#define STORE_SLOW_MS 1000 /* http.budget is 20 ms; and a loaded machine */
#define STORE_LIMIT(mode)                                                                          \
	"  - {name: " mode ", match: {path: /" mode "}, key: ip, algorithm: fixed-window, "        \
	"limit: 1000000, window: 1h, on_store_failure: " mode "}\n"

/* The agent decides: neither proxy's switch does, nor is anybody called rate limited. */
static void assert_store_modes(const struct proxy *p, bool away)
{
	static const char *const targets[] = {"/local", "/open", "/closed"};

	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		unsigned seen = app_seen();
		uint64_t began_ns = wait_now_ns();
		struct talk t = must_say(p, R(.from = "127.0.2.36", .target = targets[i]));

		assert_true(wait_now_ns() - began_ns < STORE_SLOW_MS * 1000000ULL);
		if (away && !strcmp(targets[i], "/closed")) {
			assert_refusal(&t.r, 503, "STORE_UNAVAILABLE", NULL);
			assert_int_equal(app_seen(), seen);
			assert_value(&t.r, "X-Weir-Decision", "deny");
			assert_int_equal(web_number(&t.r, "Retry-After"), 1);
		} else {
			if (t.r.status != 200)
				fail_msg("%s: %d %s", targets[i], t.r.status, t.r.body);
			assert_int_equal(app_seen(), seen + 1);
			assert_value(&t.r, "X-Weir-Decision", "allow");
		}
		hang_up(&t);
	}
}

static void a_store_that_is_killed_is_what_each_limit_says(void **state)
{
	static const char secret[] =
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	_cleanup_(redis_stop) struct redis_server redis = {};
	char conf[sizeof(stand.conf) + 1024];

	(void)state; /* stand */
	if (redis_is_missing())
		skip();
	assert_int_equal(redis_start(&redis, NULL), 0);
	assert_int_equal(agent_file(&stand.agent, "secret", secret), 0);
	(void)snprintf(conf, sizeof(conf),
		       "%s" STORE_LIMIT("local") STORE_LIMIT("open") STORE_LIMIT(
			       "closed") "store: {url: \"redis+unix://%s\", key_secret_file: "
					 "@DIR@/secret}\n",
		       stand.conf, redis.sock);
	assert_int_equal(agent_end(&stand.agent), 0);
	start_agent_with(conf);
	assert_true(
		wait_for(status(&stand.open, R(.from = "127.0.2.36", .target = "/closed")) == 200,
			 PROXY_WAIT_MS));
	assert_store_modes(&stand.open, false);
	assert_store_modes(&stand.closed, false);
	redis_kill(&redis);
	for (int i = 0; i < 12; i++) {
		assert_store_modes(&stand.open, true);
		assert_store_modes(&stand.closed, true);
	}
	assert_int_equal(agent_end(&stand.agent), 0);
	start_agent();
}

#endif
