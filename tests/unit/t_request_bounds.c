/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the algorithms of request limits promise about every stretch of time, on the pure functions and random traces
 * with costs, pauses and clocks that step back: the log never holds more than its limit in any window, the bucket never
 * admits more than burst + rate * time, the queue never lets out more than its rate; and how far the sliding-window
 * counter is from the log, at which traffic, and at its worst.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "user/base/cleanup.h"
#include "weir/algo_request.h"

#define SEC	1000000ull
#define EPOCH	(1800000000ull * SEC)
#define STEPS	100000
#define LOG_MAX 4096

typedef __int128 i128;

static __u64 below(__u64 *seed, __u64 n)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * 0x2545f4914f6cdd1dull % n;
}

/* Traffic that is now thick, now thin; one question in twenty comes with a clock up to back_us older. */
struct traffic {
	__u64 seed, now, mean_us, busy, back_us;
};

static __u64 next(struct traffic *t)
{
	if (!below(&t->seed, 200))
		t->busy = 1 + below(&t->seed, 30);
	if (below(&t->seed, 4))
		t->now += below(&t->seed, t->mean_us * t->busy / 8 + 2);
	return below(&t->seed, 20) ? t->now : t->now - below(&t->seed, t->back_us + 1);
}

/* What was admitted, at the time that counted. */
struct record {
	__u64 us[STEPS], cost[STEPS];
	size_t n;
};

static void note(struct record *r, __u64 us, __u64 cost)
{
	assert_true(!r->n || us >= r->us[r->n - 1]);
	r->us[r->n] = us;
	r->cost[r->n++] = cost;
}

/* The largest sum of costs within less than @window_us, wherever it begins. */
static __u64 most_in_a_window(const struct record *r, __u64 window_us)
{
	__u64 sum = 0, most = 0;
	size_t first = 0;

	for (size_t i = 0; i < r->n; i++) {
		sum += r->cost[i];
		for (; r->us[i] - r->us[first] >= window_us; first++)
			sum -= r->cost[first];
		if (sum > most)
			most = sum;
	}
	return most;
}

/* The largest, over all stretches from one admission to a later one, of costs * @per_us - time * @count: how much
 * more than the rate alone was given, in 1 / @per_us of a request.
 */
static i128 most_above_the_rate(const struct record *r, __u64 count, __u64 per_us)
{
	i128 sum = 0, lowest = 0, most = 0, at;

	for (size_t i = 0; i < r->n; i++) {
		at = (i128)(r->us[i] - r->us[0]) * count;
		if (i == 0 || sum - at < lowest)
			lowest = sum - at;
		sum += (i128)r->cost[i] * per_us;
		if (sum - at - lowest > most)
			most = sum - at - lowest;
	}
	return most;
}

/* --- the log ---- */

static void log_trace(struct record *r, __u64 limit, __u64 window_us, __u64 cost_max, __u64 back_us)
{
	__u64 mean = window_us / limit * cost_max / 2;
	struct traffic t = {limit * 2654435761u + window_us, EPOCH, mean, 8, back_us};
	struct weir_request_log p = {limit, window_us};
	static __u64 room[LOG_MAX];
	struct weir_request_log_state s = {room, LOG_MAX, 0, 0};
	struct weir_request_answer a;

	r->n = 0;
	for (int i = 0; i < STEPS; i++) {
		__u64 now = next(&t), cost = 1 + below(&t.seed, cost_max);

		weir_request_log_settle(&s, &p, now);
		assert_true(s.count <= limit);
		weir_request_log_look(&s, &p, now, cost, &a);
		if (a.retry_after_us)
			continue;
		note(r, weir_request_log_now(&s, now), cost);
		weir_request_log_push(&s, now, cost);
	}
}

/* What is over by the newest clock is gone, also for a question with an older one: windows shorter by that difference. */
static void no_window_of_the_log_holds_more_than_its_limit(void **state)
{
	static const __u64 tries[][3] = {{1, 1000, 1},
					 {5, 60 * SEC, 1},
					 {10, 10 * SEC, 3},
					 {100, 777777, 120},
					 {600, 60 * SEC, 7}};
	struct record *r = calloc(1, sizeof(*r));
	__u64 most;

	(void)state;
	assert_non_null(r);
	for (size_t i = 0; i < 2 * ARRAY_LEN(tries); i++) {
		const __u64 *try = tries[i / 2];
		__u64 back_us = i % 2 ? try[1] / 10 : 0;

		log_trace(r, try[0], try[1], try[2], back_us);
		most = most_in_a_window(r, try[1] - back_us);
		print_message("log, %llu per %llu us, clocks up to %llu us older: %zu admitted, at "
			      "most %llu in any window\n",
			      try[0], try[1], back_us, r->n, most);
		assert_true(most <= try[0]);
		if (!back_us)
			assert_int_equal(most, try[0]); /* all of it, too */
	}
	free(r);
}

/* --- the bucket ---- */

static const struct {
	__u64 count, per_us, burst, cost_max;
} buckets[] = {{1, SEC, 10, 1},	     {7, SEC, 20, 3},		{6000, SEC, 6000, 700},
	       {300000, SEC, 50, 1}, {100, 3600 * SEC, 100, 9}, {999983, 86399 * SEC, 1000, 50}};

static void bucket_trace(struct record *r, size_t which)
{
	__u64 count = buckets[which].count, per_us = buckets[which].per_us;
	__u64 cost_max = buckets[which].cost_max;
	__u64 mean = per_us / count * cost_max / 2 + 1;
	struct traffic t = {which + 1, EPOCH, mean, 8, 50 * mean};
	struct weir_request_bucket_state s = {};
	struct weir_request_bucket p = {};
	struct weir_request_answer a;

	assert_true(weir_request_bucket_prepare(count, per_us, buckets[which].burst, &p));
	r->n = 0;
	for (int i = 0; i < STEPS; i++) {
		__u64 now = next(&t), cost = 1 + below(&t.seed, cost_max);

		s = weir_request_bucket_settle(s, &p, now);
		weir_request_bucket_look(s, &p, now, cost, &a);
		if (a.retry_after_us)
			continue;
		s = weir_request_bucket_take(s, &p, now, cost);
		note(r, s.us, cost);
	}
}

static void no_stretch_of_the_bucket_exceeds_burst_and_rate(void **state)
{
	struct record *r = calloc(1, sizeof(*r));
	i128 most, burst;

	(void)state;
	assert_non_null(r);
	for (size_t i = 0; i < ARRAY_LEN(buckets); i++) {
		bucket_trace(r, i);
		most = most_above_the_rate(r, buckets[i].count, buckets[i].per_us);
		burst = (i128)buckets[i].burst * buckets[i].per_us;
		print_message("bucket, %llu per %llu us, burst %llu: %zu admitted, at most %.6f "
			      "above the rate\n",
			      buckets[i].count, buckets[i].per_us, buckets[i].burst, r->n,
			      (double)most / (double)buckets[i].per_us);
		assert_true(most <= burst);
		assert_true(most > burst * 9 / 10); /* the trace was thick enough to tell */
	}
	free(r);
}

/* --- the queue ---- */

/* The order of leaving is that of coming, and a delay is rounded up to a microsecond: so much sooner may the next one
 * seem to leave.
 */
static void no_stretch_of_the_queue_lets_out_more_than_its_rate(void **state)
{
	static const __u64 tries[][3] = {{1, SEC, 5}, {50, SEC, 100}, {7, SEC, 20}, {300, SEC, 0}};
	struct record *r = calloc(1, sizeof(*r));
	struct weir_request_answer a;

	(void)state;
	assert_non_null(r);
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		__u64 count = tries[i][0], per_us = tries[i][1];
		struct traffic t = {i + 1, EPOCH, per_us / count, 8, 50 * per_us / count};
		struct weir_request_bucket_state s = {};
		struct weir_request_bucket p = {};

		assert_true(weir_request_queue_prepare(count, per_us, tries[i][2], 60 * SEC, &p));
		r->n = 0;
		for (int step = 0; step < STEPS; step++) {
			__u64 now = next(&t);

			s = weir_request_bucket_settle(s, &p, now);
			weir_request_queue_look(s, &p, now, 1, &a);
			if (a.retry_after_us)
				continue;
			s = weir_request_bucket_take(s, &p, now, 1);
			note(r, now + a.delay_us, 1);
		}
		assert_true(r->n > STEPS / 100);
		assert_true(most_above_the_rate(r, count, per_us) <= (i128)per_us + (i128)count);
	}
	free(r);
}

/* --- the counter beside the log ---- */

#define LIMIT  100
#define WINDOW (60 * SEC)

struct compared {
	size_t counter, log, differ;
	__u64 most; /* of the counter, in a true window */
};

static bool counter_admits(struct weir_request_sliding_state *s,
			   const struct weir_request_sliding *p, __u64 now, __u64 *ret_retry_us)
{
	struct weir_request_answer a;

	*s = weir_request_sliding_settle(*s, p, now);
	weir_request_sliding_look(*s, p, now, 1, &a);
	*ret_retry_us = a.retry_after_us;
	if (!a.retry_after_us)
		*s = weir_request_sliding_take(*s, 1);
	return !a.retry_after_us;
}

static bool log_admits(struct weir_request_log_state *s, const struct weir_request_log *p,
		       __u64 now)
{
	struct weir_request_answer a;

	weir_request_log_settle(s, p, now);
	weir_request_log_look(s, p, now, 1, &a);
	if (a.retry_after_us)
		return false;
	weir_request_log_push(s, now, 1);
	return true;
}

/* @load: requests per window over the limit. @bursts: they come in heaps. */
static struct compared compare(struct record *r, double load, bool bursts)
{
	__u64 mean = (__u64)((double)WINDOW / (LIMIT * load)), now = EPOCH, retry, seed = 42;
	struct weir_request_log lp = {LIMIT, WINDOW};
	static __u64 room[LOG_MAX];
	struct weir_request_log_state ls = {room, LOG_MAX, 0, 0};
	struct weir_request_sliding_state cs = {};
	struct weir_request_sliding cp = {};
	struct compared c = {};

	assert_true(weir_request_sliding_prepare(LIMIT, WINDOW, &cp));
	r->n = 0;
	for (int i = 0; i < STEPS; i++) {
		bool a, b;

		if (!bursts)
			now += below(&seed, 2 * mean + 1);
		else if (!below(&seed, 40))
			now += below(&seed, 80 * mean + 1);
		a = counter_admits(&cs, &cp, now, &retry);
		b = log_admits(&ls, &lp, now);
		c.counter += a;
		c.log += b;
		c.differ += a != b;
		if (a)
			note(r, now, 1);
	}
	c.most = most_in_a_window(r, WINDOW);
	return c;
}

static void the_counters_error_is_known(void **state)
{
	static const double loads[] = {0.5, 0.9, 1.1, 2, 10};
	struct record *r = calloc(1, sizeof(*r));

	(void)state;
	assert_non_null(r);
	print_message("sliding-window counter beside the log, %d per 60 s, %d random requests:\n",
		      LIMIT, STEPS);
	for (size_t i = 0; i < 2 * ARRAY_LEN(loads); i++) {
		struct compared c = compare(r, loads[i / 2], i % 2);
		double more = ((double)c.counter - (double)c.log) / (double)c.log;

		print_message("  %4.1f times the limit, %s: admits %zu, the log %zu (%+.2f %%); "
			      "%.2f %% of verdicts differ; most in a true window %llu\n",
			      loads[i / 2], i % 2 ? "in heaps" : "evenly  ", c.counter, c.log,
			      100 * more, 100.0 * (double)c.differ / STEPS, c.most);
		assert_true(c.most < 2 * LIMIT);
		assert_true(more > -0.25 && more < 0.25);
		if (!(i % 2))
			assert_true(more > -0.03 && more < 0.03 && c.most < LIMIT * 12 / 10);
	}
	free(r);
}

/* All of a limit at the end of a window, then whoever asks at every moment at which there is room again. */
static void the_counters_worst_is_two_limits_less_one(void **state)
{
	struct record *r = calloc(1, sizeof(*r));
	struct weir_request_sliding_state s = {};
	struct weir_request_sliding p = {};
	__u64 now = EPOCH - 1, retry, most;

	(void)state;
	assert_non_null(r);
	assert_true(weir_request_sliding_prepare(LIMIT, WINDOW, &p));
	while (now < EPOCH - 1 + WINDOW) {
		if (counter_admits(&s, &p, now, &retry))
			note(r, now, 1);
		else
			now += retry;
	}
	most = most_in_a_window(r, WINDOW);
	print_message("at its worst: %llu of %d in one true window\n", most, LIMIT);
	assert_int_equal(most, 2 * LIMIT - 1);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_window_of_the_log_holds_more_than_its_limit),
		cmocka_unit_test(no_stretch_of_the_bucket_exceeds_burst_and_rate),
		cmocka_unit_test(no_stretch_of_the_queue_lets_out_more_than_its_rate),
		cmocka_unit_test(the_counters_error_is_known),
		cmocka_unit_test(the_counters_worst_is_two_limits_less_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
