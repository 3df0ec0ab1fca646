/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a limit lets through over a long time, and that no number is so odd that it lets everything through. */
#include "engine_case.h"

/* Of 20 requests a second for ten minutes at limits of 10 a second. */
static unsigned admitted_at_twice_the_rate(const char *algorithm)
{
	_cleanup_(engine_freep) struct engine *e = NULL;
	_cleanup_free_ char *text = NULL;
	unsigned n = 0;

	assert_true(asprintf(&text, "request_limits:\n  - {name: a, key: ip, %s}\n", algorithm) >
		    0);
	e = engine_of(text);
	for (unsigned i = 0; i < 600 * 20; i++) {
		n += ASK(e, .target = "/", .no_wait = true) == WEIR_ANSWER_ALLOW;
		engine_advance(e, US_PER_S / 20);
	}
	return n;
}

/* Refusals cost nothing: an impatient client is not kept out, and gets no more than the limit either. */
static void who_asks_at_twice_the_rate_gets_the_rate(void **state)
{
	static const struct {
		const char *algorithm;
		unsigned least, most;
	} cases[] = {
		{"rate: 10/s, burst: 10", 6000, 6010},
		{"algorithm: leaky-bucket, rate: 10/s, queue: 5", 6000, 6001},
		{"algorithm: fixed-window, limit: 10, window: 1s", 6000, 6000},
		{"algorithm: sliding-window-log, limit: 10, window: 1s", 6000, 6000},
		/* what is left of the previous window is never rounded down: one in ten of so small a limit */
		{"algorithm: sliding-window-counter, limit: 10, window: 1s", 5400, 6005},
		{"algorithm: sliding-window-counter, limit: 600, window: 60s", 5900, 6600},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned n = admitted_at_twice_the_rate(cases[i].algorithm);

		if (n < cases[i].least || n > cases[i].most)
			fail_msg("%s: %u admitted, not %u to %u", cases[i].algorithm, n,
				 cases[i].least, cases[i].most);
	}
}

/* A burst of @burst is there at once, and not one more; the next one when the rate says so. */
static void expect_bucket(__u64 rate, const char *unit, __u64 unit_us, __u64 burst)
{
	_cleanup_(engine_freep) struct engine *e = NULL;
	_cleanup_free_ char *text = NULL;
	__u64 each_us = (unit_us + rate - 1) / rate;

	assert_true(asprintf(&text,
			     "request_limits:\n  - {name: a, key: ip, rate: %llu/%s, burst: %llu, "
			     "cost: {from: proxy, max: %llu}}\n"
			     "http: {proxy_headers: {cost: X-Cost}}\n",
			     rate, unit, burst, burst) > 0);
	e = engine_of(text);
	if (ASK(e, .target = "/", .cost_n = burst) != WEIR_ANSWER_ALLOW)
		fail_msg("%llu/%s, burst %llu: not even once", rate, unit, burst);
	if (ASK(e, .target = "/") != WEIR_ANSWER_RATE_LIMITED)
		fail_msg("%llu/%s, burst %llu: one more at once", rate, unit, burst);
	assert_in_range(e->answer.retry_after_s, 1, each_us / US_PER_S + 1);
	engine_advance(e, each_us + each_us / 1000000 + 1); /* a rate's error is 10^-6 */
	if (ASK(e, .target = "/") != WEIR_ANSWER_ALLOW)
		fail_msg("%llu/%s, burst %llu: never again", rate, unit, burst);
	engine_advance(e, 400ull * 86400 * US_PER_S); /* everything is idle by now */
	if (rate * 400 * 86400 / (unit_us / US_PER_S) < burst)
		return;
	assert_int_equal(ASK(e, .target = "/", .cost_n = burst), WEIR_ANSWER_ALLOW);
	assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_RATE_LIMITED);
}

static void no_rate_and_burst_are_so_odd_that_nothing_is_limited(void **state)
{
	static const __u64 rates[] = {1, 3, 7, 59, 1000, 999983, 10000000},
			   bursts[] = {1, 2, 10, 1000, 6007, 10000000};
	static const struct {
		const char *unit;
		__u64 us;
	} units[] = {{"s", US_PER_S},
		     {"m", 60ull * US_PER_S},
		     {"h", 3600ull * US_PER_S},
		     {"d", 86400ull * US_PER_S}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		for (size_t k = 0; k < ARRAY_LEN(bursts); k++)
			for (size_t u = 0; u < ARRAY_LEN(units); u++)
				expect_bucket(rates[i], units[u].unit, units[u].us, bursts[k]);
}

static void no_limit_and_window_are_so_odd_that_nothing_is_limited(void **state)
{
	static const char *const algorithms[] = {"fixed-window", "sliding-window-counter"};
	static const __u64 limits[] = {1, 3, 1000, 999983, 1000000000};
	static const struct {
		const char *window;
		__u64 us;
	} windows[] = {{"1ms", 1000},
		       {"7s", 7 * US_PER_S},
		       {"1d", 86400ull * US_PER_S},
		       {"366d", 366ull * 86400 * US_PER_S}};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(limits) * ARRAY_LEN(windows); i++) {
		__u64 limit = limits[i / 2 % ARRAY_LEN(limits)];
		const char *window = windows[i / 2 / ARRAY_LEN(limits)].window;
		_cleanup_(engine_freep) struct engine *e = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text,
				     "request_limits:\n  - {name: a, key: ip, algorithm: %s, "
				     "limit: %llu, window: %s, cost: {from: proxy, max: %llu}}\n"
				     "http: {proxy_headers: {cost: X-Cost}}\n",
				     algorithms[i % 2], limit, window, limit) > 0);
		e = engine_of(text);
		if (ASK(e, .target = "/", .cost_n = limit) != WEIR_ANSWER_ALLOW ||
		    ASK(e, .target = "/") != WEIR_ANSWER_RATE_LIMITED)
			fail_msg("%s, %llu in %s", algorithms[i % 2], limit, window);
		engine_advance(e, 2 * windows[i / 2 / ARRAY_LEN(limits)].us);
		assert_int_equal(ASK(e, .target = "/"), WEIR_ANSWER_ALLOW);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_at_twice_the_rate_gets_the_rate),
		cmocka_unit_test(no_rate_and_burst_are_so_odd_that_nothing_is_limited),
		cmocka_unit_test(no_limit_and_window_are_so_odd_that_nothing_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
