/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes of a running agent, through its ports: which counts stay and which begin empty, and what happens to
 * listeners and their connections.
 */
#include "http_test.h"

#define LOG(name, path, n, window)                                                                 \
	"  - {name: " name ", match: {path: " path "}, key: ip, algorithm: sliding-window-log, "   \
	"limit: " n ", window: " window "}\n"
#define BUCKET(name, path, n)                                                                      \
	"  - {name: " name ", match: {path: " path "}, key: ip, rate: 1/h, burst: " n "}\n"

static const char first[] = LISTENERS "request_limits:\n" LOG("one", "/one", "10", "1h")
	LOG("two", "/two", "10", "1h") BUCKET("three", "/three", "10");

static int set_up(void **state)
{
	return start_case(state, first, false);
}

static long long left(struct web *w, const char *target)
{
	struct web_reply r;

	(void)ask(w, "caddy", Q(.target = target, .ip = "198.51.100.1"), &r);
	return r.status == 200 ? web_number(&r, "X-RateLimit-Remaining") : -1;
}

static void counts_stay_where_the_limit_is_the_same(void **state)
{
	static const char numbers[] = LISTENERS "request_limits:\n" BUCKET("three", "/three", "3")
		LOG("two", "/two", "7", "1h") LOG("one", "/elsewhere", "20", "1h");
	static const char others[] = LISTENERS "request_limits:\n" BUCKET("three", "/three", "10")
		LOG("two", "/two", "10", "2h") LOG("uno", "/one", "10", "1h");
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");

	for (int i = 9; i >= 5; i--) {
		assert_int_equal(left(&w, "/one"), i);
		assert_int_equal(left(&w, "/two"), i);
		assert_int_equal(left(&w, "/three"), i);
	}
	must_reload(a, first); /* nothing has changed */
	assert_int_equal(left(&w, "/one"), 4);
	/* another order, other numbers, another match: the same state; a debt is clamped to the new burst */
	must_reload(a, numbers);
	assert_int_equal(left(&w, "/elsewhere"), 13);
	assert_int_equal(left(&w, "/two"), 1);
	assert_int_equal(left(&w, "/two"), 0);
	assert_int_equal(left(&w, "/two"), -1);
	assert_int_equal(left(&w, "/three"), -1);
	/* another window, another name: another state */
	must_reload(a, others);
	assert_int_equal(left(&w, "/two"), 9);
	assert_int_equal(left(&w, "/one"), 9);
	/* a debt is clamped when it is charged anew, not by a refusal */
	assert_in_range(left(&w, "/three"), 4, 6);
	must_reload(a, first);
	web_close(&w);
}

static void limit_set_and_reset_act_at_once(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");

	must_reload(a, first);
	assert_int_equal(agent_cmd(a, "limit", "reset", "two"), 0);
	assert_int_equal(left(&w, "/two"), 9);
	assert_int_equal(agent_cmd(a, "limit", "set", "two", "limit=3"), 0);
	assert_int_equal(left(&w, "/two"), 1);
	assert_int_equal(left(&w, "/two"), 0);
	assert_int_equal(left(&w, "/two"), -1);
	assert_int_equal(agent_cmd(a, "limit", "reset", "two", "--ip", "198.51.100.2"), 0);
	assert_int_equal(left(&w, "/two"), -1); /* somebody else's */
	assert_int_equal(agent_cmd(a, "limit", "reset", "two", "--ip", "198.51.100.1"), 0);
	assert_int_equal(left(&w, "/two"), 2);
	must_reload(a, first); /* the file's number is back, the counts stay */
	assert_int_equal(left(&w, "/two"), 8);
	web_close(&w);
}

/* --- listeners ---- */

#define LIMITS "request_limits:\n" LOG("one", "/one", "1000", "1h")

static void listeners_come_and_go_and_the_others_do_not_notice(void **state)
{
	static const char stays[] = "http:\n  listeners:\n"
				    "    - {listen: \"unix:@DIR@/a.sock\", profile: caddy}\n";
	static const char other[] = "    - {listen: \"unix:@DIR@/b.sock\", profile: traefik}\n";
	static const char tcp[] = "    - {listen: 127.0.0.1:0, profile: caddy}\n";
	struct question q = Q(.target = "/one", .ip = "198.51.100.3");
	struct agent a = {};
	char text[2048], gone[128];
	struct web w, v, u;
	struct web_reply r;

	(void)state;
	(void)snprintf(text, sizeof(text), "%s%s", stays, LIMITS);
	assert_int_equal(agent_prepare(&a), 0);
	must_start(&a, text);
	w = must_open(&a, "caddy");
	assert_int_equal(ask(&w, "caddy", q, NULL), 200);
	(void)snprintf(text, sizeof(text), "%s%s%s%s", stays, other, tcp, LIMITS);
	must_reload(&a, text);
	v = must_open(&a, "traefik");
	assert_int_equal(ask(&v, "traefik", q, &r), 200);
	assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 998);
	assert_non_null(agent_where_nth(&a, "caddy", 1));
	(void)snprintf(gone, sizeof(gone), "%s", agent_where_nth(&a, "caddy", 1));
	assert_int_equal(web_open(&u, gone), 0);
	(void)ask(&u, "caddy", q, NULL);
	assert_int_equal(ask(&w, "caddy", q, NULL), 200); /* the same connection as ever */
	(void)snprintf(text, sizeof(text), "%s%s", stays, LIMITS);
	must_reload(&a, text);
	assert_null(agent_where(&a, "traefik"));
	assert_int_equal(web_wait_end(&v, 5000), 0);
	assert_int_equal(web_wait_end(&u, 5000), 0);
	web_close(&u);
	assert_int_equal(web_open(&u, gone), -ECONNREFUSED);
	assert_int_equal(ask(&w, "caddy", q, &r), 200);
	assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 996);
	web_close(&u);
	web_close(&v);
	web_close(&w);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

/* For the next request of a connection that is open. */
static void settings_of_a_listener_change_under_its_connections(void **state)
{
	static const char conf[] =
		"http:\n  listeners:\n"
		"    - {listen: 127.0.1.2:0, profile: caddy, trusted_proxies: [%s]}\n"
		"    - {listen: 127.0.1.5:0, profile: json, token_file: @DIR@/json.token}\n" LIMITS;
	struct question q = Q(.target = "/one", .ip = "198.51.100.6");
	static const char body[] = "{\"method\":\"GET\",\"path\":\"/one\",\"ip\":\"198.51.100.6\"}";
	struct agent a = {};
	char trusting[2048], wary[2048];
	struct web w, json;
	struct web_reply r;

	(void)state;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)snprintf(trusting, sizeof(trusting), conf, "127.0.0.1");
	(void)snprintf(wary, sizeof(wary), conf, "192.0.2.1");
#pragma GCC diagnostic pop
	must_start(&a, trusting);
	w = must_open(&a, "caddy");
	json = must_open(&a, "json");
	assert_int_equal(ask(&w, "caddy", q, &r), 200);
	assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 999);
	assert_int_equal(post(&json, "/v1/check", TOKEN, body, &r), 200);
	must_reload(&a, wary);
	assert_int_equal(ask(&w, "caddy", q, &r), 200); /* now of 127.0.0.1 for /check */
	assert_null(web_header(&r, "X-RateLimit-Remaining"));
	assert_int_equal(agent_file(&a, "json.token", "another-token-that-is-long-enough-1\n"), 0);
	must_reload(&a, trusting);
	assert_int_equal(ask(&w, "caddy", q, &r), 200);
	assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 997);
	assert_int_equal(post(&json, "/v1/check", "another-token-that-is-long-enough-1", body, &r),
			 200);
	assert_int_equal(post(&json, "/v1/check", TOKEN, body, &r), 401);
	web_close(&json);
	web_close(&w);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

static void plans_are_read_anew(void **state)
{
	static const char conf[] = LISTENERS
		"  api_key: [header X-API-Key]\n"
		"plans: [free, pro]\n"
		"plans_file: @DIR@/plans.txt\n"
		"request_limits:\n"
		"  - {name: one, match: {path: /one}, key: ip, algorithm: sliding-window-log, "
		"limit: {free: 2, pro: 5}, window: 1h}\n";
	struct question q = Q(.target = "/one", .ip = "198.51.100.7", .more = "X-API-Key: abc\r\n");
	struct agent a = {};
	struct web w;

	(void)state;
	assert_int_equal(agent_prepare(&a), 0);
	assert_int_equal(agent_file(&a, "plans.txt", "# nobody yet\n"), 0);
	must_start(&a, conf);
	w = must_open(&a, "caddy");
	assert_int_equal(admitted(&w, "caddy", q, 5), 2);
	/* SHA-256 of abc, the example of FIPS 180 */
	assert_int_equal(
		agent_file(
			&a, "plans.txt",
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad pro\n"),
		0);
	assert_int_equal(admitted(&w, "caddy", q, 2), 0);
	must_reload(&a, conf);
	assert_int_equal(admitted(&w, "caddy", q, 5), 3); /* the two of before count on */
	assert_int_equal(agent_file(&a, "plans.txt", "ba7816bf pro\n"), 0);
	assert_int_not_equal(agent_cmd(&a, "reload"), 0); /* the plans before stay */
	if (!strstr(a.out, "plans.txt"))
		fail_msg("does not say where: %s", a.out);
	assert_int_equal(agent_cmd(&a, "limit", "reset", "one", "--ip", "198.51.100.7"), 0);
	assert_int_equal(admitted(&w, "caddy", q, 7), 5);
	web_close(&w);
	assert_int_equal(agent_end(&a), 0);
	agent_stop(&a);
}

static void an_address_in_use_is_said_and_changes_nothing(void **state)
{
	struct agent *a = *state;
	struct web w = must_open(a, "caddy");
	struct agent b = {};
	char text[2048];

	must_reload(a, first);
	(void)snprintf(text, sizeof(text),
		       "http:\n  listeners:\n    - {listen: \"%s\", profile: caddy}\n" LIMITS,
		       must_where(a, "caddy"));
	assert_int_equal(agent_prepare(&b), 0);
	assert_true(agent_start(&b, text) < 0);
	if (!strstr(b.out, "127.0.1.2:"))
		fail_msg("does not say which address: %s", b.out);
	assert_null(strstr(b.out, "AddressSanitizer"));
	agent_stop(&b);
	assert_int_equal(ask(&w, "caddy", Q(.target = "/one", .ip = "198.51.100.4"), NULL), 200);
	web_close(&w);
}

/* What a client has used is gone with the agent, and its socket's file with it. */
static void a_start_after_an_end_is_a_new_one(void **state)
{
	static const char conf[] = "http:\n  listeners:\n"
				   "    - {listen: \"unix:@DIR@/a.sock\", profile: caddy}\n" LIMITS;
	struct question q = Q(.target = "/one", .ip = "198.51.100.5");
	struct agent a = {};
	struct web_reply r;
	struct web w;

	(void)state;
	for (int i = 0; i < 2; i++) {
		must_start(&a, conf);
		w = must_open(&a, "caddy");
		assert_int_equal(ask(&w, "caddy", q, &r), 200);
		assert_int_equal(web_number(&r, "X-RateLimit-Remaining"), 999);
		assert_int_equal(agent_end(&a), 0);
		assert_int_equal(web_wait_end(&w, 5000), 0);
		web_close(&w);
		assert_int_equal(web_open(&w, a.listener[0].where), -ENOENT);
	}
	agent_stop(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_stay_where_the_limit_is_the_same),
		cmocka_unit_test(limit_set_and_reset_act_at_once),
		cmocka_unit_test(listeners_come_and_go_and_the_others_do_not_notice),
		cmocka_unit_test(settings_of_a_listener_change_under_its_connections),
		cmocka_unit_test(plans_are_read_anew),
		cmocka_unit_test(an_address_in_use_is_said_and_changes_nothing),
		cmocka_unit_test(a_start_after_an_end_is_a_new_one),
	};

	return cmocka_run_group_tests(tests, set_up, end_case);
}
