/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a request is counted by, by which plan's numbers, and how much it costs. */
#include <sodium.h>

#include "engine_case.h"

static void an_endpoint_is_method_and_pattern(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n  - {name: a, key: [ip, endpoint], match: {path: [/a/*, /b]}, "
		"algorithm: fixed-window, limit: 2, window: 60s}\n");

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/a/1"), 2);
	assert_int_equal(PASSING(e, 2, .target = "/a/2"), 0); /* the pattern, not the path */
	assert_int_equal(PASSING(e, 2, .target = "/a"), 0);
	assert_int_equal(PASSING(e, 2, .target = "/a/1", .method = "HEAD"), 0);
	assert_int_equal(PASSING(e, 3, .target = "/a/1", .method = "POST"), 2);
	assert_int_equal(PASSING(e, 3, .target = "/b"), 2);
	/* as /a/x and, to servers that take %5C for a slash, as /b: neither is free */
	assert_int_equal(PASSING(e, 1, .target = "/a/..%5C..%5Cb", .ip = "192.0.2.9"), 1);
	assert_int_equal(e->n, 2);
	assert_int_equal(PASSING(e, 3, .target = "/b", .ip = "192.0.2.9"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/a/..%5C..%5Cb", .ip = "192.0.2.9"), 0);
	assert_int_equal(PASSING(e, 3, .target = "/a", .ip = "192.0.2.9"), 1);
}

static void prefix_lengths_are_each_limits_own(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, ipv6_prefix: 64, algorithm: fixed-window, limit: 2, "
		"window: 60s}\n"
		"  - {name: b, key: ip, ipv6_prefix: 48, algorithm: fixed-window, limit: 3, "
		"window: 60s}\n"
		"  - {name: c, key: {any: ['header:X'], new_per_ip: 1 per 60s}, missing: skip, "
		"ipv6_prefix: 64, algorithm: fixed-window, limit: 100, window: 60s}\n"
		"  - {name: d, key: {any: ['header:X'], new_per_ip: 1 per 60s}, missing: skip, "
		"ipv6_prefix: 48, algorithm: fixed-window, limit: 100, window: 60s}\n");

	(void)state;
	assert_int_equal(ASK(e, .ip = "2001:db8:0:1::1", .header = {"X: 1"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:1::2", .header = {"X: 2"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "a")->remaining, 0);
	assert_int_equal(engine_stats(e).fresh_counted_as_ip, 2);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:2::1", .header = {"X: 3"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "a")->remaining, 1);
	assert_int_equal(engine_limit(e, "b")->remaining, 0);
	assert_int_equal(engine_limit(e, "c")->remaining, 99); /* a new key of another /64 … */
	assert_int_equal(engine_limit(e, "d")->remaining, 98); /* … and of the same /48 */
	assert_int_equal(engine_stats(e).fresh_counted_as_ip, 3);
	assert_int_equal(ASK(e, .ip = "2001:db8:0:2::1"), WEIR_ANSWER_RATE_LIMITED);
	assert_string_equal(e->answer.limit, "b");
}

static void neighbours_of_ipv4_are_one_where_the_limit_says_so(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - {name: a, key: ip, algorithm: fixed-window, limit: 2, window: 60s}\n"
		"  - {name: b, key: ip, ipv4_prefix: 24, algorithm: fixed-window, limit: 9, "
		"window: 60s}\n");

	(void)state;
	assert_int_equal(ASK(e, .ip = "198.51.100.1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .ip = "198.51.100.254"), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "a")->remaining, 1);
	assert_int_equal(engine_limit(e, "b")->remaining, 7);
	assert_int_equal(ASK(e, .ip = "198.51.101.1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "b")->remaining, 8);
}

static void separators_in_values_do_not_collide(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n  - {name: a, key: [header:A, header:B], missing: "
			  "deny, algorithm: "
			  "fixed-window, limit: 1, window: 60s}\n");
	static const struct question each[] = {
		{.header = {"A: x", "B: y:z"}}, {.header = {"A: x:y", "B: z"}},
		{.header = {"A: xy", "B: z"}},	{.header = {"A: x", "B: yz"}},
		{.header = {"A: y", "B: x"}},	{.header = {"A: x,y", "B: z"}},
		{.header = {"A: x", "B: ,yz"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(each); i++)
		assert_int_equal(engine_ask(e, each[i]), WEIR_ANSWER_ALLOW);
	for (size_t i = 0; i < ARRAY_LEN(each); i++)
		assert_int_equal(engine_ask(e, each[i]), WEIR_ANSWER_RATE_LIMITED);
}

static void a_missing_key_is_the_address_or_skipped_or_denied(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"http: {proxy_headers: {user: X-User}}\n"
		"request_limits:\n"
		"  - {name: ip, key: user, missing: ip, match: {path: /ip}, algorithm: "
		"fixed-window, "
		"limit: 1, window: 60s}\n"
		"  - {name: skip, key: user, missing: skip, match: {path: /skip}, algorithm: "
		"fixed-window, limit: 1, window: 60s}\n"
		"  - {name: other, key: ip, match: {path: /deny}, algorithm: fixed-window, limit: "
		"9, "
		"window: 60s}\n"
		"  - {name: deny, key: user, missing: deny, match: {path: /deny}, algorithm: "
		"fixed-window, limit: 5, window: 60s}\n");

	(void)state;
	assert_int_equal(PASSING(e, 3, .target = "/ip"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/ip", .user = "ann"), 1);
	assert_int_equal(PASSING(e, 3, .target = "/skip"), 3);
	assert_int_equal(e->n, 0);
	assert_int_equal(ASK(e, .target = "/deny"), WEIR_ANSWER_KEY_MISSING);
	assert_int_equal(e->answer.client_status, 403);
	assert_string_equal(e->answer.limit, "deny");
	engine_expect(e, "Retry-After", NULL);
	assert_int_equal(engine_limit(e, "other")->remaining, 9); /* charged to none */
	assert_int_equal(engine_counts(e, "deny").n[WEIR_L7_NO_KEY], 1);
	assert_int_equal(ASK(e, .target = "/deny", .user = "ann"), WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "other")->remaining, 8);
}

static void forged_keys_gain_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n"
		"  - name: api\n"
		"    key: {any: [api-key, token, [ip, user-agent]], new_per_ip: 3 per 60s}\n"
		"    algorithm: fixed-window\n"
		"    limit: 5\n"
		"    window: 60s\n");
	unsigned passed = 0;
	char line[64];

	(void)state;
	/* three new keys are worth five each, all others are one */
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(line, sizeof(line), i % 2 ? "X-API-Key: forged%u" : "User-Agent: %u",
			       i);
		passed += ASK(e, .header = {line}) == WEIR_ANSWER_ALLOW;
	}
	assert_int_equal(passed, 3 + 5);
	assert_true(engine_stats(e).fresh_counted_as_ip >= 190);
	/* of others nobody takes notice, and known keys go on */
	assert_int_equal(ASK(e, .header = {"X-API-Key: own"}, .ip = "192.0.2.1"),
			 WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .header = {"X-API-Key: forged1"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.remaining, 3);
	/* the address: of IPv6 the /64 */
	for (unsigned i = 0, n = 0; i < 200; i++) {
		char ip[64];

		(void)snprintf(line, sizeof(line), "Authorization: Bearer %u", i);
		(void)snprintf(ip, sizeof(ip), "2001:db8::%x", i + 1);
		n += ASK(e, .header = {line}, .ip = ip) == WEIR_ANSWER_ALLOW;
		assert_true(n <= 3 + 5);
	}
}

static char *plans_file(const char *key, const char *plan)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(hash) + 1], *path = strdup("/tmp/weir-plans.XXXXXX");
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	assert_non_null(f);
	(void)crypto_hash_sha256(hash, (const unsigned char *)key, strlen(key));
	(void)fprintf(f, "# keys\n\n%s\t %s # bought\n",
		      sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash)), plan);
	assert_int_equal(fclose(f), 0);
	return path;
}

static void a_plan_is_the_proxys_word_or_the_keys(void **state)
{
	_cleanup_free_ char *path = plans_file("secret", "pro"), *text = NULL;
	_cleanup_(engine_freep) struct engine *e = NULL;

	(void)state;
	assert_true(
		asprintf(&text,
			 "http: {api_key: [header X-API-Key], proxy_headers: {plan: X-Plan}}\n"
			 "plans: [free, pro]\nplans_file: %s\n"
			 "request_limits:\n  - {name: a, key: ip, algorithm: fixed-window, limit: "
			 "{free: 2, pro: 5}, window: 60s}\n",
			 path) > 0);
	e = engine_of(text);
	assert_int_equal(ASK(e, .ip = "192.0.2.1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 2);
	assert_int_equal(ASK(e, .plan = "pro"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 5);
	assert_int_equal(ASK(e, .plan = "gold"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 2);
	assert_int_equal(ASK(e, .header = {"X-API-Key: secret"}), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.limit_n, 5);
	assert_int_equal(e->answer.remaining, 2); /* one count, whatever the plan */
	assert_int_equal(ASK(e, .header = {"X-API-Key: guessed"}), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(e->answer.limit_n, 2);
	/* a refusal by a small plan makes a big one forget nothing */
	assert_int_equal(PASSING(e, 5, .plan = "pro"), 2);
	assert_int_equal(PASSING(e, 5, .plan = "free"), 0);
	assert_int_equal(PASSING(e, 5, .plan = "pro"), 0);
	(void)unlink(path);
}

static void a_plans_file_that_is_wrong_is_refused_by_line(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{"xyz pro\n", ":1: this is no SHA-256"},
		{"\n5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 gold\n",
		 ":2: no plan has the name"},
		{"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 pro\n"
		 "5E884898DA28047151D0E56F8DC6292773603D0D6AABBDD62A11EF721D1542D8 free\n",
		 ":2: this key has another plan"},
		{"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8\n",
		 ":1: no plan has the name"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char path[] = "/tmp/weir-plans.XXXXXX";
		int fd = mkstemp(path);
		_cleanup_free_ char *text = NULL;
		_cleanup_(weir_conf_freep) struct weir_conf *conf = NULL;
		struct weir_error error = {""};
		struct weir_l7 *l7;

		assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)),
				 strlen(cases[i].text));
		(void)close(fd);
		assert_true(asprintf(&text, "plans: [free, pro]\nplans_file: %s\n", path) > 0);
		conf = engine_conf(text);
		assert_true(weir_l7_new(conf, NULL, &l7, &error) < 0);
		if (!strstr(error.text, cases[i].words))
			print_error("%s\n", error.text);
		assert_non_null(strstr(error.text, cases[i].words));
		(void)unlink(path);
	}
}

static void a_cost_is_fixed_or_the_proxys_within_its_bounds(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("http: {proxy_headers: {cost: X-Cost}}\n"
			  "request_limits:\n"
			  "  - {name: fixed, key: ip, match: {path: /f}, cost: 3, algorithm: "
			  "fixed-window, limit: "
			  "10, window: 60s}\n"
			  "  - {name: proxy, key: ip, match: {path: /p}, cost: {from: proxy, min: "
			  "2, max: 9}, "
			  "algorithm: fixed-window, limit: 100, window: 60s}\n");
	static const struct {
		const char *cost;
		__u64 charged;
	} cases[] = {{"5", 5},	{"1", 2},  {"0", 2},  {"10", 9}, {"99999999999999999999999", 9},
		     {NULL, 2}, {"5x", 9}, {"-1", 9}, {"1.5", 9}};
	__u64 left = 100;

	(void)state;
	assert_int_equal(PASSING(e, 9, .target = "/f"), 3);
	assert_int_equal(e->answer.remaining, 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(ASK(e, .target = "/p", .cost = cases[i].cost), WEIR_ANSWER_ALLOW);
		left -= cases[i].charged;
		assert_int_equal(e->answer.remaining, left);
	}
	/* json's number stands for itself */
	assert_int_equal(ASK(e, .target = "/p", .cost_n = 20), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->answer.remaining, left - 20);
	assert_int_equal(ASK(e, .target = "/p", .cost_n = 101), WEIR_ANSWER_COST_TOO_LARGE);
	assert_int_equal(e->answer.client_status, 413);
	engine_expect(e, "Retry-After", NULL);
	assert_int_equal(engine_counts(e, "proxy").n[WEIR_L7_TOO_LARGE], 1);
}

static void peek_changes_and_counts_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(PER_ADDRESS(1));

	(void)state;
	assert_int_equal(PASSING(e, 5, .peek = true), 5);
	assert_int_equal(engine_stats(e).checks, 0);
	assert_int_equal(PASSING(e, 5, .target = "/"), 1);
	assert_int_equal(PASSING(e, 5, .peek = true), 0);
	assert_int_equal(engine_counts(e, "per-address").n[WEIR_L7_REFUSED], 4);
}

static void a_refund_gives_back_what_the_question_would_charge(void **state)
{
	static const char *const algorithms[] = {
		"algorithm: token-bucket, rate: 5/m, burst: 5",
		"algorithm: fixed-window, limit: 5, window: 60s",
		"algorithm: sliding-window-log, limit: 5, window: 60s",
		"algorithm: sliding-window-counter, limit: 5, window: 60s",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		_cleanup_(engine_freep) struct engine *e = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "request_limits:\n  - {name: a, key: ip, %s}\n",
				     algorithms[i]) > 0);
		e = engine_of(text);
		assert_int_equal(PASSING(e, 9, .target = "/"), 5);
		assert_int_equal(ASK(e, .refund = true, .cost_n = 2), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 2);
		assert_int_equal(PASSING(e, 9, .target = "/"), 2);
		assert_int_equal(ASK(e, .refund = true, .cost_n = 100), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 5); /* never more than there was */
		assert_int_equal(ASK(e, .refund = true, .ip = "192.0.2.9"), WEIR_ANSWER_ALLOW);
		assert_int_equal(e->answer.remaining, 5);
		assert_int_equal(engine_counts(e, "a").n[WEIR_L7_PASSED], 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_endpoint_is_method_and_pattern),
		cmocka_unit_test(prefix_lengths_are_each_limits_own),
		cmocka_unit_test(neighbours_of_ipv4_are_one_where_the_limit_says_so),
		cmocka_unit_test(separators_in_values_do_not_collide),
		cmocka_unit_test(a_missing_key_is_the_address_or_skipped_or_denied),
		cmocka_unit_test(forged_keys_gain_nothing),
		cmocka_unit_test(a_plan_is_the_proxys_word_or_the_keys),
		cmocka_unit_test(a_plans_file_that_is_wrong_is_refused_by_line),
		cmocka_unit_test(a_cost_is_fixed_or_the_proxys_within_its_bounds),
		cmocka_unit_test(peek_changes_and_counts_nothing),
		cmocka_unit_test(a_refund_gives_back_what_the_question_would_charge),
	};

	return cmocka_run_group_tests_name("engine_key", tests, NULL, NULL);
}
