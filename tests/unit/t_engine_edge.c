/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine at its edges: memory of former rules, a clock that is set back, states of unusual methods. */
#include <stdio.h>

#include "engine_case.h"
#include "tests/lib/prefix.h"

static char *many_limits(unsigned n, const char *path)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	(void)fputs("exempt: [{path: /free}]\nrequest_limits:\n", f);
	for (unsigned i = 0; i < n; i++)
		(void)fprintf(
			f, "  - {name: l%u, match: {path: %s}, key: [ip, endpoint], rate: 9/s}\n",
			i, path);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* A call that was made for more limits has room for more layers than what is asked of the store now. */
static void fewer_limits_after_a_change_hold_fewer_layers(void **state)
{
	_cleanup_free_ char *many = many_limits(55, "/x"), *few = NULL;
	_cleanup_(engine_freep) struct engine *e = engine_of(many);

	(void)state;
	assert_int_equal(ASK(e, .target = "/free"), WEIR_ANSWER_ALLOW);
	few = many_limits(20, "[/a/b, \"/a%2Fb\"]");
	engine_configure(e, few);
	assert_int_equal(ASK(e, .target = "/a/b"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->n, 20);
	assert_int_equal(ASK(e, .target = "/a%2Fb"), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->n, 40);
}

/* However many limits there are: what a store takes is the bound, and what is above it is told apart. */
static void a_target_that_is_two_endpoints_counts_as_both_in_many_limits(void **state)
{
	static const char two[] = "[/a/b, \"/a%2Fb\", /other]";
	_cleanup_free_ char *nine = many_limits(9, two), *most = many_limits(32, two),
			    *more = many_limits(33, two);
	_cleanup_(engine_freep) struct engine *e = engine_of(nine);

	(void)state;
	assert_int_equal(PASSING(e, 12, .target = "/a%2Fb"), 9);
	assert_int_equal(PASSING(e, 12, .target = "/a/b"), 0); /* charged as well */
	assert_int_equal(PASSING(e, 12, .target = "/other"), 9);
	engine_configure(e, most);
	assert_int_equal(ASK(e, .target = "/a%2Fb", .ip = "192.0.2.2"), WEIR_ANSWER_ALLOW);
	engine_configure(e, more);
	assert_int_equal(ASK(e, .target = "/a%2Fb", .ip = "192.0.2.3"), WEIR_ANSWER_BAD_REQUEST);
	assert_string_equal(e->answer.limit, "ambiguous-path");
	assert_int_equal(engine_stats(e).bad_path, 1);
	assert_int_equal(ASK(e, .target = "/a/b", .ip = "192.0.2.3"), WEIR_ANSWER_ALLOW);
}

/* A machine that starts with next year's time and is put right: nobody must wait until next year. */
static void a_clock_that_is_set_back_locks_nobody_out(void **state)
{
	static const char *const algorithms[] = {
		"rate: 5/s, burst: 5",
		"algorithm: fixed-window, limit: 5, window: 1m",
		"algorithm: fixed-window, limit: 5, window: day",
		"algorithm: sliding-window-log, limit: 5, window: 1m",
		"algorithm: sliding-window-counter, limit: 5, window: 1m",
		"algorithm: leaky-bucket, rate: 5/s, queue: 4",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		_cleanup_(engine_freep) struct engine *e = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "request_limits:\n  - {name: a, key: ip, %s}\n",
				     algorithms[i]) > 0);
		e = engine_of(text);
		engine_advance(e, 365ull * 86400 * US_PER_S);
		assert_int_equal(PASSING(e, 9, .target = "/"), 5);
		e->now_us = START_US;
		weir_l7_sweep(e->l7);
		if (PASSING(e, 9, .target = "/") != 5)
			fail_msg("%s: refused after the clock was set back", algorithms[i]);
		engine_advance(e, 86400 * US_PER_S);
		weir_l7_sweep(e->l7);
		assert_int_equal(PASSING(e, 9, .target = "/"), 5);
	}
}

/* Threads that read the clock at slightly different times, or a clock that is corrected by a second, forget nothing. */
static void a_clock_that_is_a_moment_behind_forgets_nothing(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n  - {name: a, key: ip, algorithm: sliding-window-log, "
			  "limit: 5, window: 1m}\n");

	(void)state;
	assert_int_equal(PASSING(e, 9, .target = "/"), 5);
	e->now_us = START_US - US_PER_S;
	weir_l7_sweep(e->l7);
	assert_int_equal(PASSING(e, 9, .target = "/"), 0);
}

static void suspicion_ends_though_the_clock_was_set_back(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(
		"request_limits:\n  - {name: a, match: {path: /a}, key: ip, rate: 1/m, burst: 1}\n"
		"suspicious:\n  refused: {limits: [a], count: 2, within: 60s}\n  lasts: 10m\n"
		"  limit: {key: ip, rate: 1/h, burst: 1}\n");
	struct weir_prefix ip = prefix_of("198.51.100.1");

	(void)state;
	engine_advance(e, 365ull * 86400 * US_PER_S);
	assert_int_equal(PASSING(e, 9, .target = "/a"), 1);
	assert_true(weir_l7_suspicious_until(e->w, &ip) > 0);
	weir_l7_sweep(e->l7);
	e->now_us = START_US;
	weir_l7_sweep(e->l7);
	engine_advance(e, 601 * US_PER_S);
	weir_l7_sweep(e->l7);
	assert_int_equal(weir_l7_suspicious_until(e->w, &ip), 0);
	assert_int_equal(PASSING(e, 4, .target = "/"), 4);
}

static void a_reset_client_is_free_by_every_method(void **state)
{
	static const char *const methods[] = {"GET",   "POST",	  "PUT",   "DELETE", "OPTIONS",
					      "PATCH", "CONNECT", "TRACE", "PURGE"};
	_cleanup_(engine_freep) struct engine *e =
		engine_of("request_limits:\n  - {name: a, key: [ip, endpoint], algorithm: "
			  "fixed-window, limit: 1, window: 1h}\n");
	struct weir_error error = {""};
	struct weir_prefix ip = prefix_of("198.51.100.1");
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		assert_int_equal(PASSING(e, 2, .method = methods[i], .target = "/"), 1);
	assert_int_equal(weir_l7_reset(e->w, "a", &(struct weir_l7_who){.ip = &ip}, &n, &error), 0);
	assert_int_equal(n, ARRAY_LEN(methods));
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		assert_int_equal(PASSING(e, 2, .method = methods[i], .target = "/"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fewer_limits_after_a_change_hold_fewer_layers),
		cmocka_unit_test(a_target_that_is_two_endpoints_counts_as_both_in_many_limits),
		cmocka_unit_test(a_clock_that_is_set_back_locks_nobody_out),
		cmocka_unit_test(a_clock_that_is_a_moment_behind_forgets_nothing),
		cmocka_unit_test(suspicion_ends_though_the_clock_was_set_back),
		cmocka_unit_test(a_reset_client_is_free_by_every_method),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
