/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each algorithm of request limits admits where it matters: at an edge of windows, over a long time, and the
 * sliding-window counter beside the exact log, with its error printed.
 */
#include "request.h"

static unsigned burst(struct weir_store *s, const struct weir_store_limit *l, __u64 at_us,
		      unsigned n)
{
	unsigned admitted = 0;

	for (unsigned i = 0; i < n; i++) {
		struct weir_store_layer y = request_layer(l, 1, 1);

		admitted += request_one(s, &y, at_us + i * 1000);
	}
	return admitted;
}

static void ten_before_and_ten_after_an_edge(void **state)
{
	static const struct {
		enum weir_request_algorithm a;
		unsigned admitted;
	} lab[] = {{WEIR_REQUEST_FIXED_WINDOW, 20},
		   {WEIR_REQUEST_SLIDING_LOG, 10},
		   {WEIR_REQUEST_TOKEN_BUCKET, 10},
		   {WEIR_REQUEST_SLIDING_COUNTER, 10}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lab); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(100, STORE_BYTES, 0);
		struct weir_store_limit l = request_limit("lab", lab[i].a, 10, 10 * SEC);
		unsigned n = burst(s, &l, EPOCH - 20000, 10) + burst(s, &l, EPOCH + 1000, 10);

		assert_int_equal(n, lab[i].admitted);
	}
}

static void a_queue_lets_out_at_its_rate(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(100, STORE_BYTES, 0);
	struct weir_store_identity id = {};
	struct weir_store_limit l;
	unsigned admitted = 0;

	(void)state;
	assert_int_equal(weir_store_limit_queue(&id, 30, SEC, 100, 10 * SEC, &l), 0);
	for (int i = 0; i < 200; i++) {
		struct weir_store_layer y = request_layer(&l, 1, 1);

		if (!request_one(s, &y, EPOCH))
			continue;
		assert_int_equal(y.answer.delay_us, (admitted * SEC + 29) / 30);
		admitted++;
	}
	assert_int_equal(admitted, 101); /* one leaves now, 100 wait */
}

/* Largest number of admitted requests in any window that ends with one of them. */
static size_t most_in_a_window(const __u64 *at, size_t n, __u64 window)
{
	size_t most = 0, first = 0;

	for (size_t i = 0; i < n; i++) {
		while (at[i] - at[first] >= window)
			first++;
		if (i - first + 1 > most)
			most = i - first + 1;
	}
	return most;
}

static void counter_beside_the_log_on_random_traffic(void **state)
{
	enum { N = 200000 };
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(100, STORE_BYTES, 0);
	struct weir_store_limit counter =
		request_limit("c", WEIR_REQUEST_SLIDING_COUNTER, 100, 60 * SEC);
	struct weir_store_limit log = request_limit("l", WEIR_REQUEST_SLIDING_LOG, 100, 60 * SEC);
	static __u64 at[2][N];
	size_t n[2] = {}, differ = 0, most[2];
	__u64 now = EPOCH, seed = 7, busy = 1;

	(void)state;
	for (int i = 0; i < N; i++) {
		struct weir_store_layer c = request_layer(&counter, 1, 1);
		struct weir_store_layer l = request_layer(&log, 1, 1);
		bool a, b;

		if (i % 97 == 0)
			busy = 1 + below(&seed, 20);
		now += below(&seed, busy * SEC / 8);
		a = request_one(s, &c, now);
		b = request_one(s, &l, now);
		differ += a != b;
		if (a)
			at[0][n[0]++] = now;
		if (b)
			at[1][n[1]++] = now;
	}
	most[0] = most_in_a_window(at[0], n[0], 60 * SEC);
	most[1] = most_in_a_window(at[1], n[1], 60 * SEC);
	print_message(
		"limit 100 per 60 s, %d random requests: the log admits %zu, the counter %zu "
		"(%+.2f %%); %.2f %% of verdicts differ; most in a true window: %zu and %zu\n",
		N, n[1], n[0], 100.0 * ((double)n[0] - (double)n[1]) / (double)n[1],
		100.0 * (double)differ / N, most[1], most[0]);
	assert_int_equal(most[1], 100);
	assert_true(most[0] < 200);
	assert_true(n[0] > n[1] * 95 / 100 && n[0] < n[1] * 105 / 100);
}

static void counter_at_its_worst_admits_less_than_twice(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(100, STORE_BYTES, 0);
	struct weir_store_limit l = request_limit("c", WEIR_REQUEST_SLIDING_COUNTER, 100, 60 * SEC);
	__u64 first = EPOCH - 60000, now = first;
	unsigned admitted = 0;

	(void)state;
	while (now <
	       first + 60 * SEC) { /* a hundred at the end of a window, then at every moment */
		struct weir_store_layer y = request_layer(&l, 1, 1);

		if (request_one(s, &y, now))
			admitted++;
		else
			now += y.answer.retry_after_us;
	}
	print_message("limit 100 per 60 s at its worst: %u in one true window\n", admitted);
	assert_int_equal(admitted, 199);
}

static void coarse_ticks_never_admit_more(void **state)
{
	__u64 seed = 99, limit = 1000000000, refused = 0;
	struct weir_request_sliding p;
	struct weir_request_answer a;

	(void)state;
	assert_true(weir_request_sliding_prepare(limit, DAY, &p));
	assert_true(p.tick_us > 1 && p.limit * p.ticks < WEIR_REQUEST_EXACT_MAX);
	assert_false(weir_request_sliding_prepare(1ull << 32, DAY, &p));
	assert_true(weir_request_sliding_prepare(limit, DAY, &p));
	for (int i = 0; i < 100000; i++) {
		struct weir_request_sliding_state st = {.index = EPOCH / DAY,
							.previous = (__u32)below(&seed, limit + 1),
							.current = (__u32)below(&seed, limit + 1)};
		__u64 e = below(&seed, DAY);
		unsigned __int128 used = (unsigned __int128)st.current * DAY +
					 (unsigned __int128)st.previous * (DAY - e);
		__u64 cost = 1 + below(&seed, limit), now = st.index * DAY + e, exact = 0;

		if (used < (unsigned __int128)limit * DAY)
			exact = (__u64)(((unsigned __int128)limit * DAY - used) / DAY);
		weir_request_sliding_look(st, &p, now, cost, &a);
		assert_true(a.remaining <= exact);
		assert_true(exact - a.remaining <= 2 * limit / p.ticks + 2);
		refused += a.retry_after_us != 0;
		if (!a.retry_after_us)
			continue;
		st = weir_request_sliding_settle(st, &p, now + a.retry_after_us);
		weir_request_sliding_look(st, &p, now + a.retry_after_us, cost, &a);
		assert_int_equal(a.retry_after_us, 0);
	}
	assert_true(refused > 1000);
}

static void bucket_never_exceeds_burst_and_rate(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(100, STORE_BYTES, 0);
	struct weir_store_identity id = {};
	struct weir_store_limit l;
	__u64 seed = 5, admitted = 0, now = EPOCH, by_rate;

	(void)state;
	assert_int_equal(weir_store_limit_bucket(&id, 300000, SEC, 50, &l), 0);
	for (int i = 0; i < 200000; i++) {
		struct weir_store_layer y = request_layer(&l, 1, 1);

		now += below(&seed, 5);
		admitted += request_one(s, &y, now);
		by_rate = (now - EPOCH) * 300000 / SEC;
		assert_true(admitted <= 50 + by_rate);
	}
	assert_true(admitted > by_rate * 9 / 10); /* busy: whole microseconds would lose 17 % */
}

/* With the refund the debt is never below that of a bucket that was never charged. */
static void bucket_refund_never_gives_more_than_was_taken(void **state)
{
	struct weir_request_bucket p;
	struct weir_request_bucket_state with, without;
	__u64 seed = 11, now;

	(void)state;
	assert_true(weir_request_bucket_prepare(7, SEC, 10, &p));
	for (int i = 0; i < 20000; i++) {
		struct weir_request_ticket t = {.us = EPOCH};
		__u64 cost = 1 + below(&seed, 10);

		now = EPOCH;
		without = (struct weir_request_bucket_state){};
		with = weir_request_bucket_take(without, &p, now, cost);
		for (__u64 n = below(&seed, 6); n; n--) { /* what both admit */
			struct weir_request_answer a;

			now += below(&seed, SEC / 3);
			weir_request_bucket_look(with, &p, now, 1, &a);
			if (a.retry_after_us)
				continue;
			with = weir_request_bucket_take(with, &p, now, 1);
			without = weir_request_bucket_take(without, &p, now, 1);
		}
		now += below(&seed, SEC / 3);
		with = weir_request_bucket_refund(with, &p, now, t, cost);
		assert_true(weir_request_bucket_debt(with, &p, now) >=
			    weir_request_bucket_debt(without, &p, now));
		if (now == EPOCH)
			assert_int_equal(weir_request_bucket_debt(with, &p, now), 0);
	}
}

static void a_bucket_gains_nothing_from_an_older_clock(void **state)
{
	struct weir_request_bucket_state s = {};
	struct weir_request_bucket p;
	struct weir_request_answer a;

	(void)state;
	assert_true(weir_request_bucket_prepare(10, SEC, 10, &p));
	s = weir_request_bucket_take(s, &p, EPOCH, 9);
	s = weir_request_bucket_take(s, &p, EPOCH - SEC, 1);
	s = weir_request_bucket_settle(s, &p, EPOCH - SEC);
	weir_request_bucket_look(s, &p, EPOCH - SEC, 1, &a);
	assert_int_equal(a.retry_after_us, SEC + SEC / 10);
	weir_request_queue_look(s, &p, EPOCH - SEC, 1, &a);
	assert_int_equal(a.delay_us, 2 * SEC);
	weir_request_bucket_look(s, &p, EPOCH + SEC / 10, 1, &a);
	assert_true(!a.retry_after_us && a.remaining == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_before_and_ten_after_an_edge),
		cmocka_unit_test(a_queue_lets_out_at_its_rate),
		cmocka_unit_test(counter_beside_the_log_on_random_traffic),
		cmocka_unit_test(counter_at_its_worst_admits_less_than_twice),
		cmocka_unit_test(coarse_ticks_never_admit_more),
		cmocka_unit_test(a_bucket_gains_nothing_from_an_older_clock),
		cmocka_unit_test(bucket_never_exceeds_burst_and_rate),
		cmocka_unit_test(bucket_refund_never_gives_more_than_was_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
