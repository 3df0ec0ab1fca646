/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/answer.h: what a client is told, per profile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "user/base/cleanup.h"
#include "user/base/str.h"
#include "user/l7/answer.h"

#define S	   1000000000ull
#define LIMIT(...) ((struct weir_answer_limit){__VA_ARGS__})
#define ADMIT(n, l, r, t)                                                                          \
	LIMIT(.name = (n), .limit = (l), .remaining = (r), .reset_after_ns = (t),                  \
	      .window_ns = 60 * S)
#define EXCEED(n, l, r, t)                                                                         \
	LIMIT(.name = (n), .outcome = WEIR_ANSWER_EXCEEDED, .limit = (l), .reset_after_ns = (t),   \
	      .retry_after_ns = (r), .window_ns = 60 * S)

static struct weir_answer answer;

static void make(enum weir_answer_profile profile, const struct weir_answer_limit *l, size_t n)
{
	assert_int_equal(weir_answer_make(profile, l, n, &answer), 0);
}

static void expect(const char *name, const char *value)
{
	const char *v = weir_answer_header(&answer, name);

	if (!value) {
		assert_null(v);
		return;
	}
	assert_non_null(v);
	assert_string_equal(v, value);
}

static void no_limit_allows_and_names_no_quota(void **state)
{
	(void)state;
	for (int p = WEIR_ANSWER_NGINX; p <= WEIR_ANSWER_JSON; p++) {
		make(p, NULL, 0);
		assert_int_equal(answer.status, 200);
		assert_int_equal(answer.n_headers, 1);
		expect("X-Weir-Decision", "allow");
		assert_int_equal(answer.body_n, 0);
		assert_null(answer.limit);
	}
}

static void success_speaks_of_the_tightest(void **state)
{
	struct weir_answer_limit l[] = {ADMIT("wide", 1000, 500, 3 * S),
					ADMIT("tight", 10, 4, 7 * S + 1)};

	(void)state;
	make(WEIR_ANSWER_ENVOY, l, 2);
	assert_int_equal(answer.status, 200);
	expect("X-Weir-Decision", "allow");
	expect("X-RateLimit-Limit", "10");
	expect("X-RateLimit-Remaining", "4");
	expect("X-RateLimit-Reset", "8");
	expect("RateLimit", "\"tight\";r=4;t=8");
	expect("RateLimit-Policy", "\"wide\";q=1000;w=60, \"tight\";q=10;w=60");
	expect("Retry-After", NULL);
	expect("X-Weir-Limit", NULL);
	expect("X-Weir-Status", NULL);
	expect("Cache-Control", NULL);
	assert_string_equal(answer.body, "");
}

static void tightness_needs_no_floating_point(void **state)
{
	/* as doubles both are 0.5 */
	struct weir_answer_limit l[] = {ADMIT("half", 2, 1, S),
					ADMIT("less", 2000000000000000001ull,
					      1000000000000000000ull, S)};
	struct weir_answer_limit most[] = {ADMIT("a", ~0ull, ~0ull - 1, S),
					   ADMIT("b", ~0ull, ~0ull, S)};
	struct weir_answer_limit equal[] = {ADMIT("short", 10, 5, S), ADMIT("long", 2, 1, 2 * S)};
	struct weir_answer_limit none[] = {ADMIT("one", 100, 1, S), ADMIT("zero", 0, 0, S)};

	(void)state;
	make(WEIR_ANSWER_JSON, l, 2);
	assert_string_equal(answer.limit, "less");
	make(WEIR_ANSWER_JSON, most, 2);
	assert_string_equal(answer.limit, "a");
	make(WEIR_ANSWER_JSON, equal, 2);
	assert_string_equal(answer.limit, "long");
	make(WEIR_ANSWER_JSON, none, 2);
	assert_string_equal(answer.limit, "zero");
}

static void refusal_waits_for_the_latest(void **state)
{
	struct weir_answer_limit l[] = {ADMIT("full", 10, 0, 500 * S), EXCEED("soon", 5, 2 * S, S),
					EXCEED("login", 5, 18 * S + 1, 18 * S + 1)};

	(void)state;
	make(WEIR_ANSWER_CADDY, l, 3);
	assert_int_equal(answer.status, 429);
	expect("X-Weir-Decision", "deny");
	expect("X-Weir-Limit", "login");
	expect("X-Weir-Status", "429");
	expect("Retry-After", "19");
	expect("X-RateLimit-Limit", "5");
	expect("X-RateLimit-Remaining", "0");
	expect("X-RateLimit-Reset", "19");
	expect("RateLimit", "\"login\";r=0;t=19");
	expect("Cache-Control", "no-store");
	expect("Content-Type", "application/json");
	assert_string_equal(
		answer.body,
		"{\"code\":\"RATE_LIMITED\",\"message\":\"Too many requests; try again in 19 "
		"seconds.\",\"limit\":\"login\",\"retry_after_seconds\":19}\n");
	assert_int_equal(answer.body_n, strlen(answer.body));
}

static void retry_after_is_never_early_and_at_least_one(void **state)
{
	static const struct {
		__u64 ns;
		const char *s;
	} cases[] = {{0, "1"},	   {1, "1"},	   {S - 1, "1"},       {S, "1"},
		     {S + 1, "2"}, {60 * S, "60"}, {60 * S + 1, "61"}, {~0ull, "18446744074"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct weir_answer_limit l = EXCEED("a", 1, cases[i].ns, 0);

		make(WEIR_ANSWER_TRAEFIK, &l, 1);
		expect("Retry-After", cases[i].s);
		expect("X-RateLimit-Reset", "1"); /* never 0 in a refusal */
	}
}

static void reset_is_never_after_retry(void **state)
{
	struct weir_answer_limit l = EXCEED("a", 1, 3 * S, 90 * S);

	(void)state;
	make(WEIR_ANSWER_TRAEFIK, &l, 1);
	expect("Retry-After", "3");
	expect("X-RateLimit-Reset", "3");
	expect("RateLimit", "\"a\";r=0;t=3");
}

static void status_is_the_profiles(void **state)
{
	static const struct {
		enum weir_answer_profile profile;
		int exceeded, too_large, no_store;
	} cases[] = {
		{WEIR_ANSWER_NGINX, 403, 403, 403},   {WEIR_ANSWER_CADDY, 429, 413, 503},
		{WEIR_ANSWER_TRAEFIK, 429, 413, 503}, {WEIR_ANSWER_ENVOY, 429, 413, 403},
		{WEIR_ANSWER_SPOE, 429, 413, 503},    {WEIR_ANSWER_JSON, 429, 413, 503},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct weir_answer_limit l = EXCEED("a", 5, S, S);

		make(cases[i].profile, &l, 1);
		assert_int_equal(answer.status, cases[i].exceeded);
		expect("X-Weir-Status", "429");
		l.outcome = WEIR_ANSWER_TOO_LARGE;
		make(cases[i].profile, &l, 1);
		assert_int_equal(answer.status, cases[i].too_large);
		expect("X-Weir-Status", "413");
		l.outcome = WEIR_ANSWER_NO_STORE;
		make(cases[i].profile, &l, 1);
		assert_int_equal(answer.status, cases[i].no_store);
		expect("X-Weir-Status", "503");
	}
}

static void a_store_that_is_away_is_not_called_rate_limited(void **state)
{
	struct weir_answer_limit l[] = {LIMIT(.name = "login", .outcome = WEIR_ANSWER_NO_STORE,
					      .limit = 5, .retry_after_ns = S / 2),
					ADMIT("other", 10, 1, S)};

	(void)state;
	make(WEIR_ANSWER_CADDY, l, 2);
	expect("X-Weir-Limit", "login");
	expect("Retry-After", "1");
	expect("X-RateLimit-Limit", NULL);
	expect("X-RateLimit-Remaining", NULL);
	expect("RateLimit", NULL);
	expect("RateLimit-Policy", NULL);
	assert_non_null(strstr(answer.body, "\"STORE_UNAVAILABLE\""));
	assert_null(strstr(answer.body, "RATE"));
	assert_null(strstr(answer.body, "many"));
	assert_non_null(strstr(answer.body, "in 1 second."));
}

static void a_cost_that_never_fits_promises_no_time(void **state)
{
	struct weir_answer_limit l[] = {EXCEED("slow", 10, 90 * S, S),
					LIMIT(.name = "search", .outcome = WEIR_ANSWER_TOO_LARGE,
					      .limit = 100, .remaining = 100),
					LIMIT(.name = "store", .outcome = WEIR_ANSWER_NO_STORE,
					      .retry_after_ns = 99 * S)};

	(void)state;
	make(WEIR_ANSWER_JSON, l, 3);
	expect("X-Weir-Limit", "search");
	expect("Retry-After", NULL);
	expect("X-RateLimit-Remaining", "100");
	assert_non_null(strstr(answer.body, "\"COST_TOO_LARGE\""));
	assert_null(strstr(answer.body, "retry_after"));
	make(WEIR_ANSWER_JSON, (struct weir_answer_limit[]){l[0], l[2]}, 2);
	expect("X-Weir-Limit", "slow"); /* that it is exceeded is known */
	expect("Retry-After", "99");	/* but it is no use to come before the store is back */
}

static void monitor_refuses_nothing_and_says_what_it_would(void **state)
{
	struct weir_answer_limit l[] = {EXCEED("trial", 5, 9 * S, S), ADMIT("real", 10, 9, S)};

	(void)state;
	l[0].monitor = true;
	make(WEIR_ANSWER_NGINX, l, 2);
	assert_int_equal(answer.status, 200);
	expect("X-Weir-Decision", "allow");
	expect("X-Weir-Would", "deny; limit=trial");
	expect("Retry-After", NULL);
	expect("X-RateLimit-Limit", "10");
	expect("RateLimit-Policy", "\"real\";q=10;w=60");
	make(WEIR_ANSWER_NGINX, l, 1);
	assert_int_equal(answer.status, 200);
	expect("X-Weir-Would", "deny; limit=trial");
	expect("X-RateLimit-Limit", NULL);
	l[0].outcome = WEIR_ANSWER_ADMITTED;
	make(WEIR_ANSWER_NGINX, l, 2);
	expect("X-Weir-Would", NULL);
	l[0].outcome =
		WEIR_ANSWER_EXCEEDED; /* a refusal by another one hides it; its wait is not added */
	l[1].outcome = WEIR_ANSWER_EXCEEDED;
	make(WEIR_ANSWER_NGINX, l, 2);
	expect("X-Weir-Would", NULL);
	expect("X-Weir-Limit", "real");
	expect("Retry-After", "1");
}

static void names_cannot_inject(void **state)
{
	static const char *const bad[] = {"",	   "A",	  "a b",      "a\r\nX: y", "a\"", "a\\",
					  "a;q=1", "a,b", "\xc3\xa9", "a\n",	   "a/b", "a.b"};
	char longest[WEIR_ANSWER_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct weir_answer_limit l = ADMIT(bad[i], 1, 1, 0);

		assert_false(weir_answer_name_ok(bad[i]));
		assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, &l, 1, &answer), -EINVAL);
		l.monitor = true;
		assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, &l, 1, &answer), -EINVAL);
	}
	memset(longest, 'x', sizeof(longest));
	longest[WEIR_ANSWER_NAME_MAX] = '\0';
	assert_false(weir_answer_name_ok(longest));
	longest[WEIR_ANSWER_NAME_MAX - 1] = '\0';
	assert_true(weir_answer_name_ok(longest));
	assert_true(weir_answer_name_ok("per-source_2"));
}

static void quantities_stay_structured_field_integers(void **state)
{
	struct weir_answer_limit l = ADMIT("a", ~0ull, ~0ull, 0);

	(void)state;
	l.window_ns = 1500000000; /* no whole seconds: no w */
	make(WEIR_ANSWER_JSON, &l, 1);
	expect("RateLimit-Policy", "\"a\";q=999999999999999");
	expect("RateLimit", "\"a\";r=999999999999999;t=0");
	l = ADMIT("a", 5, 9, 0); /* more left than there is */
	make(WEIR_ANSWER_JSON, &l, 1);
	expect("X-RateLimit-Remaining", "5");
}

static void the_longest_answer_fits(void **state)
{
	static char names[WEIR_ANSWER_LIMITS_MAX + 1][WEIR_ANSWER_NAME_MAX];
	struct weir_answer_limit l[WEIR_ANSWER_LIMITS_MAX + 1];
	json_t *body;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		memset(names[i], 'a' + (int)(i % 26), WEIR_ANSWER_NAME_MAX - 1);
		l[i] = EXCEED(names[i], ~0ull, ~0ull, ~0ull);
		l[i].remaining = ~0ull;
		l[i].window_ns = 18446744073ull * S;
	}
	for (size_t n = 1; n <= WEIR_ANSWER_LIMITS_MAX; n++) {
		const char *policy;
		size_t commas = 0;

		make(WEIR_ANSWER_JSON, l, n);
		assert_int_equal(answer.n_headers, 11);
		body = json_loads(answer.body, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(body);
		json_decref(body);
		policy = weir_answer_header(&answer, "RateLimit-Policy");
		for (const char *p = policy; *p; p++)
			commas += *p == ',';
		assert_int_equal(commas, n <= WEIR_ANSWER_POLICIES_MAX ? n - 1 : 0);
		assert_non_null(strstr(policy, answer.limit));
	}
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, l, ARRAY_LEN(l), &answer), -E2BIG);
}

static void a_missing_key_is_forbidden_and_counts_nothing(void **state)
{
	struct weir_answer_limit l[] = {
		ADMIT("wide", 10, 5, S),
		{.name = "over",
		 .outcome = WEIR_ANSWER_EXCEEDED,
		 .limit = 5,
		 .retry_after_ns = 9 * S},
		{.name = "large", .outcome = WEIR_ANSWER_TOO_LARGE, .limit = 5},
		{.name = "keyed", .outcome = WEIR_ANSWER_NO_KEY, .limit = 7}};

	(void)state;
	make(WEIR_ANSWER_CADDY, l, 4);
	assert_int_equal(answer.code, WEIR_ANSWER_KEY_MISSING);
	assert_int_equal(answer.status, 403);
	assert_int_equal(answer.retry_after_s, 0);
	expect("X-Weir-Limit", "keyed");
	expect("X-Weir-Status", "403");
	expect("X-RateLimit-Limit", NULL);
	expect("RateLimit", NULL);
	expect("RateLimit-Policy", NULL);
	expect("Retry-After", NULL);
	expect("Cache-Control", "no-store");
	assert_string_equal(answer.body,
			    "{\"code\":\"KEY_MISSING\",\"message\":\"This request lacks what it is "
			    "counted by.\",\"limit\":\"keyed\"}\n");
	make(WEIR_ANSWER_NGINX, l, 4);
	assert_int_equal(answer.status, 403);
	make(WEIR_ANSWER_ENVOY, l, 4);
	assert_int_equal(answer.status, 403);
	l[3].monitor = true;
	make(WEIR_ANSWER_ENVOY, l, 4);
	assert_int_equal(answer.code, WEIR_ANSWER_COST_TOO_LARGE);
	l[1].monitor = l[2].monitor = true;
	make(WEIR_ANSWER_ENVOY, l, 4);
	assert_int_equal(answer.code, WEIR_ANSWER_ALLOW);
	expect("X-Weir-Would", "deny; limit=keyed");
}

static void a_refusal_without_a_count_has_every_profiles_status(void **state)
{
	static const struct {
		enum weir_answer_code code;
		enum weir_answer_profile profile;
		__u16 status;
		const char *client, *retry;
	} cases[] = {
		{WEIR_ANSWER_BAD_REQUEST, WEIR_ANSWER_NGINX, 403, "400", NULL},
		{WEIR_ANSWER_BAD_REQUEST, WEIR_ANSWER_CADDY, 400, "400", NULL},
		{WEIR_ANSWER_BAD_REQUEST, WEIR_ANSWER_ENVOY, 400, "400", NULL},
		{WEIR_ANSWER_BAD_REQUEST, WEIR_ANSWER_SPOE, 400, "400", NULL},
		{WEIR_ANSWER_SHUTTING_DOWN, WEIR_ANSWER_NGINX, 403, "503", "1"},
		{WEIR_ANSWER_SHUTTING_DOWN, WEIR_ANSWER_TRAEFIK, 503, "503", "1"},
		{WEIR_ANSWER_SHUTTING_DOWN, WEIR_ANSWER_ENVOY, 403, "503", "1"},
		{WEIR_ANSWER_STORE_UNAVAILABLE, WEIR_ANSWER_NGINX, 403, "503", "1"},
		{WEIR_ANSWER_STORE_UNAVAILABLE, WEIR_ANSWER_ENVOY, 403, "503", "1"},
		{WEIR_ANSWER_STORE_UNAVAILABLE, WEIR_ANSWER_JSON, 503, "503", "1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *body;

		weir_answer_refuse(cases[i].profile, cases[i].code, "why-not", &answer);
		assert_int_equal(answer.code, cases[i].code);
		assert_int_equal(answer.status, cases[i].status);
		expect("X-Weir-Decision", "deny");
		expect("X-Weir-Status", cases[i].client);
		expect("X-Weir-Limit", "why-not");
		expect("Retry-After", cases[i].retry);
		expect("Cache-Control", "no-store");
		expect("Content-Type", "application/json");
		expect("X-RateLimit-Limit", NULL);
		expect("RateLimit", NULL);
		expect("X-Weir-Would", NULL);
		body = json_loadb(answer.body, answer.body_n, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(body);
		assert_string_equal(json_string_value(json_object_get(body, "code")),
				    weir_answer_code_text(cases[i].code));
		assert_int_equal(json_object_get(body, "retry_after_seconds") != NULL,
				 cases[i].retry != NULL);
		json_decref(body);
	}
}

static void the_reported_limit_can_be_asked_for(void **state)
{
	struct weir_answer_limit l[] = {EXCEED("soon", 5, 2 * S, S), EXCEED("late", 5, 9 * S, S),
					ADMIT("trial", 5, 1, S)};

	(void)state;
	l[2].monitor = true;
	assert_string_equal(weir_answer_reported(l, 3, false)->name, "late");
	assert_string_equal(weir_answer_reported(l, 3, true)->name, "trial");
	assert_null(weir_answer_reported(l, 2, true));
	assert_null(weir_answer_reported(NULL, 0, false));
	assert_int_equal(weir_answer_code_of(&l[0]), WEIR_ANSWER_RATE_LIMITED);
	assert_int_equal(weir_answer_code_of(&l[2]), WEIR_ANSWER_ALLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_limit_allows_and_names_no_quota),
		cmocka_unit_test(success_speaks_of_the_tightest),
		cmocka_unit_test(tightness_needs_no_floating_point),
		cmocka_unit_test(refusal_waits_for_the_latest),
		cmocka_unit_test(retry_after_is_never_early_and_at_least_one),
		cmocka_unit_test(reset_is_never_after_retry),
		cmocka_unit_test(status_is_the_profiles),
		cmocka_unit_test(a_store_that_is_away_is_not_called_rate_limited),
		cmocka_unit_test(a_cost_that_never_fits_promises_no_time),
		cmocka_unit_test(monitor_refuses_nothing_and_says_what_it_would),
		cmocka_unit_test(names_cannot_inject),
		cmocka_unit_test(quantities_stay_structured_field_integers),
		cmocka_unit_test(the_longest_answer_fits),
		cmocka_unit_test(a_missing_key_is_forbidden_and_counts_nothing),
		cmocka_unit_test(a_refusal_without_a_count_has_every_profiles_status),
		cmocka_unit_test(the_reported_limit_can_be_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
