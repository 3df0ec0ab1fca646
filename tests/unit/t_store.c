/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The embedded store: exact under threads, all layers or none, bounded when full, peek, refund and reset, state that
 * outlives a reload, and what a client costs in memory.
 */
#include <pthread.h>

#include "request.h"

#define GROUPS	2
#define THREADS 25
#define TRIES	4 /* each: 200 in all */

static const enum weir_request_algorithm all[] = {WEIR_REQUEST_TOKEN_BUCKET,
						  WEIR_REQUEST_LEAKY_BUCKET,
						  WEIR_REQUEST_FIXED_WINDOW,
						  WEIR_REQUEST_SLIDING_LOG,
						  WEIR_REQUEST_SLIDING_COUNTER};

/* --- threads ---- */

struct hammer {
	struct weir_store *s;
	const struct weir_store_limit *l;
	pthread_barrier_t start;
	unsigned admitted;
};

static void *hammer(void *arg)
{
	struct hammer *h = arg;

	pthread_barrier_wait(&h->start);
	for (int i = 0; i < TRIES; i++) {
		struct weir_store_layer y[2] = {request_layer(&h->l[0], 1, 1),
						request_layer(&h->l[1], 1, 1)};
		struct weir_store_request q = {.layer = y, .n = 2, .now_us = EPOCH + (__u64)i};
		int r = 1;

		h->s->ops->decide(h->s, &q, request_done, &r);
		if (!r && q.admitted)
			(void)__atomic_add_fetch(&h->admitted, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void fifty_threads_get_exactly_a_hundred_of_two_hundred(void **state)
{
	pthread_t t[GROUPS * THREADS];

	(void)state;
	for (size_t i = 0; i < 3 * ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 16);
		struct weir_store_limit l[2] = {request_limit("narrow", all[i / 3], 100, DAY),
						request_limit("wide", WEIR_REQUEST_SLIDING_LOG, 150,
							      DAY)};
		struct weir_store_layer wide = request_layer(&l[1], 1, 1);
		struct hammer h = {.s = s, .l = l};
		bool got;

		assert_int_equal(pthread_barrier_init(&h.start, NULL, ARRAY_LEN(t)), 0);
		for (size_t k = 0; k < ARRAY_LEN(t); k++)
			assert_int_equal(pthread_create(&t[k], NULL, hammer, &h), 0);
		for (size_t k = 0; k < ARRAY_LEN(t); k++)
			assert_int_equal(pthread_join(t[k], NULL), 0);
		pthread_barrier_destroy(&h.start);
		assert_int_equal(h.admitted, 100);
		assert_int_equal(request_decide(s, &wide, 1, EPOCH + 9, true, &got), 0);
		assert_int_equal(wide.answer.remaining, 50); /* refusals charged it nothing */
	}
}

#define MANY 50000 /* tries of each of two threads */

static void *hammer_long(void *arg)
{
	struct hammer *h = arg;
	unsigned admitted = 0;

	pthread_barrier_wait(&h->start);
	for (int i = 0; i < MANY; i++) {
		struct weir_store_layer y = request_layer(h->l, 1, 1);
		struct weir_store_request q = {.layer = &y, .n = 1, .now_us = EPOCH};
		int r = 1;

		h->s->ops->decide(h->s, &q, request_done, &r);
		admitted += !r && q.admitted;
	}
	(void)__atomic_add_fetch(&h->admitted, admitted, __ATOMIC_RELAXED);
	return NULL;
}

static void two_threads_lose_no_count(void **state)
{
	pthread_t t[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 16);
		struct weir_store_limit l = request_limit("a", all[i], MANY + MANY / 2, DAY);
		struct hammer h = {.s = s, .l = &l};

		assert_int_equal(pthread_barrier_init(&h.start, NULL, ARRAY_LEN(t)), 0);
		for (size_t k = 0; k < ARRAY_LEN(t); k++)
			assert_int_equal(pthread_create(&t[k], NULL, hammer_long, &h), 0);
		for (size_t k = 0; k < ARRAY_LEN(t); k++)
			assert_int_equal(pthread_join(t[k], NULL), 0);
		pthread_barrier_destroy(&h.start);
		assert_int_equal(h.admitted, MANY + MANY / 2);
	}
}

/* --- layers ---- */

static void all_layers_are_charged_or_none(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit wide, narrow, watch;
	bool got;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		wide = request_limit("wide", all[i], 10, DAY);
		narrow = request_limit("narrow", all[i], 3, DAY);
		watch = request_limit("watch", all[i], 4, DAY);
		for (int k = 0; k < 6; k++) {
			struct weir_store_layer y[] = {request_layer(&wide, 1, 1),
						       request_layer(&narrow, 1, 1),
						       request_layer(&watch, 1, 1)};

			y[2].monitor = true;
			assert_int_equal(request_decide(s, y, 3, EPOCH, false, &got), 0);
			assert_int_equal(got, k < 3);
			assert_true(y[0].admitted);
			assert_int_equal(y[0].charged, k < 3);
			assert_int_equal(y[1].admitted, k < 3);
			assert_int_equal(y[0].answer.remaining, k < 3 ? 9 - k : 7);
			assert_int_equal(y[2].charged, k < 4); /* by itself, and stops nothing */
			assert_int_equal(y[0].answer.retry_after_us, 0);
			assert_int_equal(!y[1].answer.retry_after_us, k < 3);
		}
	}
}

static void what_breaks_the_contract_is_refused(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 0);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_FIXED_WINDOW, 3, DAY);
	struct weir_store_layer y[WEIR_STORE_LAYERS_MAX + 1];
	bool got;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(y); i++)
		y[i] = request_layer(&l, i + 1, 1);
	assert_int_equal(request_decide(s, y, ARRAY_LEN(y), EPOCH, false, &got), -EINVAL);
	assert_int_equal(request_decide(s, y, ARRAY_LEN(y) - 1, EPOCH, false, &got), 0);
	y[1] = y[0];
	assert_int_equal(request_decide(s, y, 2, EPOCH, false, &got), -EINVAL);
	assert_int_equal(request_decide(s, NULL, 0, EPOCH, false, &got), 0);
	assert_true(got);
}

static void a_cost_above_the_limit_is_never_admitted(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 0);
	struct weir_store_stats st;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct weir_store_limit l = request_limit("a", all[i], 3, DAY);
		struct weir_store_layer y = request_layer(&l, 1, 4);

		assert_false(request_one(s, &y, EPOCH));
		assert_true(y.answer.retry_after_us == WEIR_REQUEST_NEVER);
		y.cost = ~0ull;
		assert_false(request_one(s, &y, EPOCH));
	}
	s->ops->stats(s, &st);
	assert_int_equal(st.entries, 0); /* and leaves no state */
}

/* --- peek, refund, reset ---- */

static void peek_refund_and_reset(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 0);
		struct weir_store_limit l = request_limit("a", all[i], 5, DAY);
		struct weir_store_layer y = request_layer(&l, 1, 2), first, last;
		struct weir_store_request q = {.layer = &y, .n = 1, .now_us = EPOCH};
		struct weir_store_stats st;
		bool got;
		int r = 1;

		assert_int_equal(request_decide(s, &y, 1, EPOCH, true, &got), 0);
		assert_true(got && !y.charged && y.answer.remaining == 5);
		s->ops->stats(s, &st);
		assert_int_equal(st.entries, 0);
		first = y;
		assert_true(request_one(s, &first, EPOCH));
		last = y;
		assert_true(request_one(s, &last, EPOCH));
		assert_int_equal(last.answer.remaining, 1);
		assert_false(request_one(s, &y, EPOCH));
		request_refund(s, &first, EPOCH);
		/* a place in a queue that others stand behind is not free again */
		assert_int_equal(first.charged, all[i] == WEIR_REQUEST_LEAKY_BUCKET);
		request_refund(s, &last, EPOCH);
		assert_false(last.charged);
		request_refund(s, &last, EPOCH); /* once only */
		assert_int_equal(request_decide(s, &y, 1, EPOCH, true, &got), 0);
		assert_int_equal(y.answer.remaining, first.charged ? 3 : 5);
		assert_true(request_one(s, &y, EPOCH));
		s->ops->reset(s, &q, request_done, &r);
		assert_int_equal(r, 0);
		assert_int_equal(request_decide(s, &y, 1, EPOCH, true, &got), 0);
		assert_int_equal(y.answer.remaining, 5);
		request_refund(s, &last, EPOCH);
	}
}

static void a_refund_after_the_window_gives_nothing(void **state)
{
	static const enum weir_request_algorithm windows[] = {WEIR_REQUEST_FIXED_WINDOW,
							      WEIR_REQUEST_SLIDING_LOG};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(windows); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 0);
		struct weir_store_limit l = request_limit("a", windows[i], 5, 10 * SEC);
		struct weir_store_layer old = request_layer(&l, 1, 3), y = request_layer(&l, 1, 3);

		assert_true(request_one(s, &old, EPOCH));
		assert_true(request_one(s, &y, EPOCH + 11 * SEC));
		request_refund(s, &old, EPOCH + 12 * SEC);
		assert_false(request_one(s, &y, EPOCH + 12 * SEC));
	}
}

/* --- reload ---- */

static void changed_numbers_keep_counts_and_another_identity_begins_empty(void **state)
{
	struct weir_store_identity a, b;
	static const char *const parts[][4] = {{"b", "k", "w", "s"},
					       {"a", "kw", "", "s"},
					       {"a", "k", "x", "s"},
					       {"a", "k", "w", "t"},
					       {"ak", "", "w", "s"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 0);
		struct weir_store_limit ten = request_limit("a", all[i], 10, DAY);
		struct weir_store_limit more = request_limit("a", all[i], 20, DAY);
		struct weir_store_limit five = request_limit("a", all[i], 5, DAY);
		struct weir_store_limit other = request_limit("b", all[i], 10, DAY);
		struct weir_store_layer y = request_layer(&ten, 1, 8);

		assert_true(request_one(s, &y, EPOCH));
		y.cost = 1;
		y.limit = &more;
		assert_true(request_one(s, &y, EPOCH));
		assert_int_equal(y.answer.remaining, 11);
		y.limit = &five;
		assert_false(request_one(s, &y, EPOCH));
		/* a debt is no more than the new limit: one a fifth of a day */
		if (all[i] <= WEIR_REQUEST_LEAKY_BUCKET)
			assert_int_equal(y.answer.retry_after_us, DAY / 5);
		y.limit = &other;
		assert_true(request_one(s, &y, EPOCH));
		assert_int_equal(y.answer.remaining, 9);
	}
	assert_int_equal(weir_store_identity_of("a", 0, "k", "w", "s", &a), 0);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		assert_int_equal(weir_store_identity_of(parts[i][0], 0, parts[i][1], parts[i][2],
							parts[i][3], &b),
				 0);
		assert_memory_not_equal(&a, &b, sizeof(a));
	}
	assert_int_equal(weir_store_identity_of("a", 1, "k", "w", "s", &b), 0);
	assert_memory_not_equal(&a, &b, sizeof(a));
	assert_int_equal(weir_store_identity_of("a", 9, "k", "w", "s", &b), -EINVAL);
}

static void a_calendar_window_is_the_callers(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 0);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_FIXED_WINDOW, 2, 0);
	struct weir_store_layer y = request_layer(&l, 1, 2);

	(void)state;
	y.start_us = EPOCH;
	y.end_us = EPOCH + 3600 * SEC * 23;
	assert_true(request_one(s, &y, EPOCH + SEC));
	assert_false(request_one(s, &y, y.end_us - 5));
	assert_int_equal(y.answer.retry_after_us, 5);
	y.start_us = y.end_us;
	y.end_us += DAY;
	assert_true(request_one(s, &y, y.start_us));
}

/* --- bounds ---- */

static void a_full_store_forgets_what_would_be_over_soonest(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(64, STORE_BYTES, 1);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_TOKEN_BUCKET, 1000, DAY);
	struct weir_store_layer heavy = request_layer(&l, 1000000, 1000);
	struct weir_store_stats st;

	(void)state;
	assert_true(request_one(s, &heavy, EPOCH));
	for (__u64 i = 0; i < 10000; i++) {
		struct weir_store_layer y = request_layer(&l, i, 1);

		assert_true(request_one(s, &y, EPOCH));
	}
	s->ops->stats(s, &st);
	assert_int_equal(st.entries, 64);
	assert_int_equal(st.evicted, 10001 - 64);
	assert_int_equal(st.idle_dropped, 0);
	heavy.cost = 1;
	assert_false(request_one(s, &heavy, EPOCH)); /* a client at its limit stays at it */
	for (__u64 i = 0; i < 1000; i++) {	     /* when the light ones are over */
		struct weir_store_layer y = request_layer(&l, i + 20000, 1);

		assert_true(request_one(s, &y, EPOCH + 100 * SEC * (i + 1)));
	}
	s->ops->stats(s, &st);
	assert_int_equal(st.evicted, 10001 - 64);
	assert_true(st.idle_dropped > 900);
	s->ops->sweep(s, EPOCH + 30 * DAY, 1000);
	s->ops->stats(s, &st);
	assert_int_equal(st.entries, 0);
}

static void a_sweep_drops_a_state_when_it_is_over_and_not_before(void **state)
{
	struct weir_store_stats st;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 0);
		struct weir_store_limit l = request_limit("a", all[i], 7, 10 * SEC);
		struct weir_store_layer y = request_layer(&l, 1, 1);

		assert_true(request_one(s, &y, EPOCH + 3));
		s->ops->sweep(s, EPOCH + 3 + y.answer.reset_after_us - 1, 10000);
		s->ops->stats(s, &st);
		assert_int_equal(st.entries, 1);
		s->ops->sweep(s, EPOCH + 3 + y.answer.reset_after_us, 10000);
		s->ops->stats(s, &st);
		assert_int_equal(st.entries, 0);
		assert_int_equal(st.idle_dropped, 1);
	}
}

static void bytes_are_bounded_and_no_room_is_said(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(256, 64 << 10, 1);
	struct weir_store_embedded_options small = {1000000, 1 << 20, 0}, none = {0, 1 << 20, 0};
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_SLIDING_LOG, 2000, DAY);
	struct weir_store_limit huge = request_limit("h", WEIR_REQUEST_SLIDING_LOG, 20000, DAY);
	struct weir_store_layer y[2] = {request_layer(&l, 9999, 1), request_layer(&huge, 1, 20000)};
	struct weir_store_stats st;
	struct weir_store *no = NULL;
	bool got;

	(void)state;
	for (__u64 i = 0; i < 300; i++) {
		struct weir_store_layer one = request_layer(&l, i, 1 + i);

		assert_true(request_one(s, &one, EPOCH + i));
		s->ops->stats(s, &st);
		assert_true(st.bytes <= st.bytes_max);
	}
	assert_true(st.evicted > 0 && st.full == 0);
	assert_int_equal(request_decide(s, y, 2, EPOCH + 1000, false, &got), -ENOSPC);
	assert_false(y[0].charged || y[1].charged);
	s->ops->stats(s, &st);
	assert_int_equal(st.full, 1);
	assert_int_equal(request_decide(s, y, 1, EPOCH + 1000, true, &got), 0);
	assert_int_equal(y[0].answer.remaining, 2000); /* all or none */
	assert_int_equal(weir_store_embedded_new(&small, &no), -EINVAL);
	assert_int_equal(weir_store_embedded_new(&none, &no), -EINVAL);
	assert_null(no);
}

static void logs_take_at_most_12_bytes_an_entry(void **state)
{
	static const unsigned fill[] = {600, 500, 50, 20};
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_SLIDING_LOG, 600, 60 * SEC);
	struct weir_store_limit b = request_limit("b", WEIR_REQUEST_TOKEN_BUCKET, 600, 60 * SEC);
	enum { CLIENTS = 10000 };
	struct weir_store_stats empty, one, st;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(100000, 256 << 20, 0);
		double bytes;

		s->ops->stats(s, &empty);
		for (unsigned c = 0; c < CLIENTS; c++) {
			struct weir_store_layer y = request_layer(&b, c, 1);

			assert_true(request_one(s, &y, EPOCH));
		}
		s->ops->stats(s, &one);
		for (unsigned c = 0; c < CLIENTS; c++) {
			struct weir_store_layer y = request_layer(&b, c, 1);
			struct weir_store_request q = {.layer = &y, .n = 1, .now_us = EPOCH};
			int r;

			s->ops->reset(s, &q, request_done, &r);
			assert_int_equal(r, 0);
		}
		for (unsigned k = 0; k < fill[i]; k += 10)
			for (unsigned c = 0; c < CLIENTS; c++) {
				struct weir_store_layer y = request_layer(&l, c, 10);

				assert_true(request_one(s, &y, EPOCH + k));
			}
		s->ops->stats(s, &st);
		bytes = (double)(st.bytes - one.bytes) / CLIENTS;
		print_message("%d clients: %.1f bytes each (index for 100000: %.1f); a log of %u: "
			      "%.0f more, %.2f an entry\n",
			      CLIENTS, (double)(one.bytes - empty.bytes) / CLIENTS,
			      (double)empty.bytes / 100000, fill[i], bytes, bytes / fill[i]);
		assert_true(bytes / fill[i] <= 12);
		/* half of a log is over: the sweep gives the memory back */
		for (unsigned c = 0; c < CLIENTS; c++) {
			struct weir_store_layer y = request_layer(&l, c, 1);

			(void)request_one(s, &y, EPOCH + 59 * SEC);
		}
		s->ops->sweep(s, EPOCH + 61 * SEC, 200000);
		s->ops->stats(s, &one);
		assert_true(one.bytes < st.bytes && one.entries <= CLIENTS);
		s->ops->sweep(s, EPOCH + 200 * SEC, 200000);
		s->ops->stats(s, &one);
		assert_int_equal(one.entries, 0);
	}
}

static void numbers_out_of_range_are_refused(void **state)
{
	struct weir_store_identity id = {};
	struct weir_store_limit l;

	(void)state;
	assert_int_equal(weir_store_limit_bucket(&id, 0, SEC, 1, &l), -ERANGE);
	assert_int_equal(weir_store_limit_bucket(&id, 1, 0, 1, &l), -ERANGE);
	assert_int_equal(weir_store_limit_bucket(&id, 1, SEC, 0, &l), -ERANGE);
	assert_int_equal(weir_store_limit_bucket(&id, 1, DAY, 1 << 30, &l), -ERANGE);
	assert_int_equal(weir_store_limit_bucket(&id, 1, DAY, 1000000, &l), 0);
	assert_int_equal(weir_store_limit_bucket(&id, 999999937, SEC, 1000000000, &l), 0);
	assert_int_equal(weir_store_limit_queue(&id, 1, SEC, ~0ull, SEC, &l), -ERANGE);
	assert_int_equal(weir_store_limit_queue(&id, 50, SEC, 100, ~0ull, &l), 0);
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_LOG, 1000001, SEC, &l),
			 -ERANGE);
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_LOG, 1, 0, &l), -ERANGE);
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_TOKEN_BUCKET, 1, SEC, &l),
			 -EINVAL);
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_COUNTER, 1ull << 32, SEC,
						 &l),
			 -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fifty_threads_get_exactly_a_hundred_of_two_hundred),
		cmocka_unit_test(two_threads_lose_no_count),
		cmocka_unit_test(all_layers_are_charged_or_none),
		cmocka_unit_test(what_breaks_the_contract_is_refused),
		cmocka_unit_test(a_cost_above_the_limit_is_never_admitted),
		cmocka_unit_test(peek_refund_and_reset),
		cmocka_unit_test(a_refund_after_the_window_gives_nothing),
		cmocka_unit_test(changed_numbers_keep_counts_and_another_identity_begins_empty),
		cmocka_unit_test(a_calendar_window_is_the_callers),
		cmocka_unit_test(a_full_store_forgets_what_would_be_over_soonest),
		cmocka_unit_test(a_sweep_drops_a_state_when_it_is_over_and_not_before),
		cmocka_unit_test(bytes_are_bounded_and_no_room_is_said),
		cmocka_unit_test(logs_take_at_most_12_bytes_an_entry),
		cmocka_unit_test(numbers_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
