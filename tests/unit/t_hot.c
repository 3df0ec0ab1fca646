/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/store/hot: what is answered without asking a far store, and that it says what the store would have said. The far
 * store is an embedded one behind a counter.
 */
#include "request.h"

#include <errno.h>

#include "user/store/hot.h"

struct far {
	struct weir_store store;
	struct weir_store *inner; /* not owned */
	unsigned asked, given_back;
	int fails; /* -errno */
	bool late; /* answers when it is told */
	struct {
		struct weir_store_request *q;
		weir_store_done_fn *done;
		void *data;
	} waiting[64];
	size_t n_waiting;
};

static void far_decide(struct weir_store *store, struct weir_store_request *q,
		       weir_store_done_fn *done, void *data)
{
	struct far *f = (struct far *)store;

	f->asked++;
	if (f->fails) {
		done(q, f->fails, data);
		return;
	}
	if (f->late) {
		assert_in_range(f->n_waiting, 0, 63);
		f->waiting[f->n_waiting].q = q;
		f->waiting[f->n_waiting].done = done;
		f->waiting[f->n_waiting++].data = data;
		return;
	}
	f->inner->ops->decide(f->inner, q, done, data);
}

static void far_answer_all(struct far *f)
{
	size_t n = f->n_waiting;

	f->n_waiting = 0;
	for (size_t i = 0; i < n; i++)
		f->inner->ops->decide(f->inner, f->waiting[i].q, f->waiting[i].done,
				      f->waiting[i].data);
}

static void far_refund(struct weir_store *store, struct weir_store_request *q,
		       weir_store_done_fn *done, void *data)
{
	struct far *f = (struct far *)store;

	f->given_back += (unsigned)q->layer[0].cost;
	f->inner->ops->refund(f->inner, q, done, data);
}

static void far_reset(struct weir_store *store, struct weir_store_request *q,
		      weir_store_done_fn *done, void *data)
{
	struct far *f = (struct far *)store;

	f->inner->ops->reset(f->inner, q, done, data);
}

static void far_free(struct weir_store *store)
{
	(void)store; /* the test's */
}

static const struct weir_store_ops far_ops = {.name = "far",
					      .decide = far_decide,
					      .refund = far_refund,
					      .reset = far_reset,
					      .free = far_free};

#define AGENTS 4
struct fleet {
	struct weir_store *shared;
	struct far far[AGENTS];
	struct weir_hot_agent agent[AGENTS];
	struct weir_store *hot[AGENTS];
	__u64 now_us;
};

static void fleet_begin(struct fleet *f, bool deny, bool lease)
{
	const struct weir_hot_options o = {.deny = deny, .lease = lease};

	*f = (struct fleet){.now_us = EPOCH};
	f->shared = request_store(100000, STORE_BYTES, 0);
	for (size_t i = 0; i < AGENTS; i++) {
		f->far[i] = (struct far){.store = {.ops = &far_ops}, .inner = f->shared};
		assert_int_equal(weir_store_hot_new(&f->far[i].store, &f->agent[i], &o, &f->hot[i]),
				 0);
	}
}

static void fleet_end(struct fleet *f)
{
	for (size_t i = 0; i < AGENTS; i++)
		weir_store_free(f->hot[i]);
	weir_store_free(f->shared);
}

static bool one(struct fleet *f, size_t agent, const struct weir_store_limit *l, __u64 client,
		__u64 cost)
{
	struct weir_store_layer y = request_layer(l, client, cost);

	return request_one(f->hot[agent], &y, f->now_us);
}

static struct weir_hot_stats stats_of(const struct fleet *f, size_t agent)
{
	struct weir_hot_stats s;

	weir_store_hot_stats(f->hot[agent], &s);
	return s;
}

/* --- refusals ---------------------------------------------------------------------------------------------------- */

static void a_flood_of_one_denied_key_asks_a_few_times_a_second(void **state)
{
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
		struct weir_store_limit l =
			request_limit("x", (enum weir_request_algorithm)a, 10, DAY);
		unsigned before, passed = 0;

		for (int i = 0; i < 10; i++)
			passed += one(&f, 0, &l, 1, 1);
		before = f.far[0].asked;
		for (int i = 0; i < 50000; i++, f.now_us += 100) /* five seconds */
			passed += one(&f, 0, &l, 1, 1);
		assert_int_equal(passed, 10);
		assert_in_range(f.far[0].asked - before, 1, 6);
	}
	fleet_end(&f);
}

/* With it and without it the same verdicts and the same times. */
static void the_tenth_passes_and_the_eleventh_fails(void **state)
{
	(void)state;
	for (int deny = 0; deny < 2; deny++) {
		for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
			struct weir_store_limit l =
				request_limit("x", (enum weir_request_algorithm)a, 10, 10 * SEC);
			struct weir_store_layer y;
			struct fleet f;

			fleet_begin(&f, deny, false);
			for (int i = 0; i < 10; i++)
				assert_true(one(&f, 0, &l, 1, 1));
			assert_false(one(&f, 0, &l, 1, 1));
			f.now_us += 300000;
			y = request_layer(&l, 1, 1);
			assert_false(request_one(f.hot[0], &y, f.now_us));
			f.now_us += y.answer.retry_after_us - 1;
			assert_false(one(&f, 0, &l, 1, 1));
			f.now_us++;
			assert_true(one(&f, 0, &l, 1, 1)); /* at its moment, not later */
			fleet_end(&f);
		}
	}
}

/* A random trace of costs through a hot store and a bare one: never another verdict. */
static void a_trace_has_the_verdicts_of_the_store_alone(void **state)
{
	__u64 seed = 4711;

	(void)state;
	for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
		struct weir_store_limit l =
			request_limit("x", (enum weir_request_algorithm)a, 20, 2 * SEC);
		struct weir_store *bare = request_store(1000, STORE_BYTES, 0);
		struct fleet f;

		fleet_begin(&f, true, true);
		for (int i = 0; i < 40000; i++) {
			__u64 client = below(&seed, 3), cost = below(&seed, 5) + 1;
			struct weir_store_layer y = request_layer(&l, client, cost), z = y;

			f.now_us += below(&seed, 60000);
			assert_int_equal(request_one(f.hot[0], &y, f.now_us),
					 request_one(bare, &z, f.now_us));
			assert_true(y.admitted ||
				    y.answer.retry_after_us <= z.answer.retry_after_us);
			assert_true(y.admitted || y.answer.retry_after_us > 0);
		}
		assert_true(stats_of(&f, 0).denied > 1000);
		weir_store_free(bare);
		fleet_end(&f);
	}
}

static void a_refusal_of_much_says_nothing_about_little(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 100, DAY);
	struct fleet f;
	unsigned asked;

	(void)state;
	fleet_begin(&f, true, false);
	assert_true(one(&f, 0, &l, 1, 60));
	assert_false(one(&f, 0, &l, 1, 50));
	asked = f.far[0].asked;
	assert_false(one(&f, 0, &l, 1, 50));
	assert_false(one(&f, 0, &l, 1, 51));
	assert_int_equal(f.far[0].asked, asked);
	assert_true(one(&f, 0, &l, 1, 1));
	assert_true(one(&f, 0, &l, 1, 39));
	assert_false(one(&f, 0, &l, 1, 1));
	asked = f.far[0].asked;
	assert_false(one(&f, 0, &l, 1, 50)); /* of cost 1 it says all */
	assert_int_equal(f.far[0].asked, asked);
	fleet_end(&f);
}

static void a_refund_and_a_reset_are_seen(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 2, DAY);
	struct weir_store_layer y = request_layer(&l, 1, 1);
	struct weir_store_request q = {.layer = &y, .n = 1};
	struct fleet f;
	int r = 1;

	(void)state;
	fleet_begin(&f, true, false);
	q.now_us = f.now_us;
	assert_true(request_one(f.hot[0], &y, f.now_us));
	assert_true(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 0, &l, 1, 1));
	request_refund(f.hot[0], &y, f.now_us);
	assert_true(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 1, &l, 1, 1));
	f.hot[0]->ops->reset(f.hot[0], &q, request_done, &r);
	assert_int_equal(r, 0);
	assert_true(one(&f, 0, &l, 1, 1));
	f.now_us += SEC; /* on another host within a second */
	assert_true(one(&f, 1, &l, 1, 1));
	fleet_end(&f);
}

static void changed_limits_forget_refusals(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1, DAY), more = l;
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, false);
	assert_true(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 0, &l, 1, 1));
	more.fixed.limit = 5; /* another plan of the same client */
	assert_true(one(&f, 0, &more, 1, 1));
	l.fixed.limit = 5;
	weir_hot_forget(&f.agent[0]);
	assert_true(one(&f, 0, &l, 1, 1));
	fleet_end(&f);
}

static void a_clock_that_is_set_back_refuses_nobody_for_long(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1, SEC);
	struct fleet f;
	unsigned asked;

	(void)state;
	fleet_begin(&f, true, false);
	assert_true(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 0, &l, 1, 1));
	asked = f.far[0].asked;
	f.now_us -= 3600 * SEC;
	(void)one(&f, 0, &l, 1, 1);
	assert_int_equal(f.far[0].asked, asked + 1);
	fleet_end(&f);
}

static void more_keys_than_places_are_only_asked_again(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1, DAY);
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, false);
	for (__u64 c = 1; c < 40000; c++) {
		assert_true(one(&f, 0, &l, c, 1));
		assert_false(one(&f, 0, &l, c, 1));
	}
	for (__u64 c = 1; c < 40000; c++)
		assert_false(one(&f, 0, &l, c, 1));
	assert_true(stats_of(&f, 0).denied < 40000);
	fleet_end(&f);
}

static void monitor_limits_count_what_others_refuse(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1, DAY);
	struct weir_store_limit m = request_limit("m", WEIR_REQUEST_FIXED_WINDOW, 3, DAY);
	struct weir_store_layer y[2], only;
	struct fleet f;
	bool admitted;

	(void)state;
	fleet_begin(&f, true, false);
	for (int i = 0; i < 5; i++) {
		y[0] = request_layer(&l, 1, 1);
		y[1] = request_layer(&m, 1, 1);
		y[1].monitor = true;
		assert_int_equal(request_decide(f.hot[0], y, 2, f.now_us, false, &admitted), 0);
		assert_int_equal(admitted, i == 0);
		assert_int_equal(y[0].admitted, i == 0);
		assert_int_equal(y[1].admitted, i < 3);
		assert_int_equal(y[1].charged, i < 3);
	}
	only = request_layer(&m, 1, 1);
	assert_false(request_one(f.shared, &only, f.now_us));
	fleet_end(&f);
}

static void a_peek_is_always_asked(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1, DAY);
	struct weir_store_layer y = request_layer(&l, 1, 1);
	struct fleet f;
	unsigned asked;
	bool admitted;

	(void)state;
	fleet_begin(&f, true, true);
	assert_true(one(&f, 0, &l, 1, 1));
	assert_false(one(&f, 0, &l, 1, 1));
	asked = f.far[0].asked;
	assert_int_equal(request_decide(f.hot[0], &y, 1, f.now_us, true, &admitted), 0);
	assert_false(admitted);
	assert_int_equal(f.far[0].asked, asked + 1);
	fleet_end(&f);
}

/* --- leases ------------------------------------------------------------------------------------------------------ */

static struct weir_store_limit leased(enum weir_request_algorithm a, __u64 limit, __u64 window_us,
				      __u64 lease)
{
	struct weir_store_limit l = request_limit("leased", a, limit, window_us);

	l.lease = lease;
	return l;
}

static void a_hot_key_is_asked_for_rarely_and_never_over_admits(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, 60 * SEC, 100);
	unsigned passed = 0, asked = 0;
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 20000; i++, f.now_us += 500) /* ten seconds, twice the limit */
		passed += one(&f, (size_t)i % AGENTS, &l, 1, 1);
	for (size_t i = 0; i < AGENTS; i++)
		asked += f.far[i].asked;
	assert_int_equal(passed, 10000);
	assert_in_range(asked, 100, 1500);
	fleet_end(&f);
}

/* What all hold when a window ends is lost, not spent in the next. */
static void leases_of_a_fixed_window_end_with_it(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 1000, SEC, 100);
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int w = 0; w < 20; w++) {
		unsigned passed = 0;

		for (int i = 0; i < 2000; i++, f.now_us += 500)
			passed += one(&f, (size_t)i % AGENTS, &l, 1, 1);
		assert_in_range(passed, 1000 - AGENTS * 100, 1000);
	}
	fleet_end(&f);
}

/* Over any time: the burst, what the rate brings, and what the agents may hold. */
static void buckets_admit_at_most_what_agents_hold_beside(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_TOKEN_BUCKET, 1000, 10 * SEC, 100);
	__u64 began, passed = 0;
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 8000; i++, f.now_us += 20000) /* half the rate: all hold leases */
		(void)one(&f, (size_t)i % AGENTS, &l, 1, 1);
	f.now_us += 20 * SEC;
	began = f.now_us;
	for (int i = 0; i < 100000; i++, f.now_us += 100)
		passed += one(&f, (size_t)i % AGENTS, &l, 1, 1);
	assert_in_range(passed, 1000 + (f.now_us - began) / 10000 - AGENTS * 100,
			1000 + (f.now_us - began) / 10000 + AGENTS * 100);
	fleet_end(&f);
}

static void what_is_not_spent_is_given_back(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, 3600 * SEC, 100);
	struct weir_store_layer y = request_layer(&l, 1, 1);
	struct fleet f;
	bool admitted;
	unsigned passed = 0;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 300; i++, f.now_us += 100)
		passed += one(&f, 0, &l, 1, 1);
	f.now_us += 60 * SEC;
	passed += one(&f, 0, &l, 1, 1);
	assert_true(f.far[0].given_back > 0);
	assert_int_equal(stats_of(&f, 0).given_back, f.far[0].given_back);
	assert_int_equal(request_decide(f.shared, &y, 1, f.now_us, true, &admitted), 0);
	assert_in_range(10000 - y.answer.remaining, passed, passed + 1); /* and one for later */
	fleet_end(&f);
}

static void a_key_that_is_asked_for_rarely_takes_nothing_for_later(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_TOKEN_BUCKET, 1000, 10 * SEC, 100);
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 50; i++, f.now_us += 30 * SEC)
		assert_true(one(&f, 0, &l, 1, 1));
	assert_int_equal(f.far[0].asked, 50);
	assert_int_equal(stats_of(&f, 0).taken, 0);
	fleet_end(&f);
}

static void a_refusal_by_another_limit_spends_nothing(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, DAY, 100);
	struct weir_store_limit other = request_limit("other", WEIR_REQUEST_FIXED_WINDOW, 500, DAY);
	struct weir_store_layer y[2], alone = request_layer(&l, 1, 1);
	struct fleet f;
	bool admitted;

	(void)state;
	fleet_begin(&f, false, true);
	for (int i = 0; i < 3000; i++, f.now_us += 10) {
		y[0] = request_layer(&l, 1, 1);
		y[1] = request_layer(&other, 1, 1);
		assert_int_equal(request_decide(f.hot[0], y, 2, f.now_us, false, &admitted), 0);
		assert_int_equal(admitted, i < 500);
		assert_true(y[0].admitted);
		assert_int_equal(y[0].charged, i < 500);
	}
	f.now_us += 60 * SEC;
	assert_true(one(&f, 0, &l, 1, 1)); /* gives back */
	assert_int_equal(request_decide(f.shared, &alone, 1, f.now_us, true, &admitted), 0);
	assert_in_range(10000 - alone.answer.remaining, 501, 502);
	fleet_end(&f);
}

/* Many at a time, and one take: what is under way is not taken once more. */
static void one_take_at_a_time(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, DAY, 100);
	struct weir_store_layer y[60], alone = request_layer(&l, 1, 1);
	struct weir_store_request q[60];
	struct fleet f;
	int r[60];
	bool admitted;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 300; i++, f.now_us += 10)
		assert_true(one(&f, 0, &l, 1, 1));
	request_decide(f.shared, &alone, 1, f.now_us, true, &admitted);
	f.far[0].late = true;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < 60; i++) {
			y[i] = request_layer(&l, 1, 1);
			q[i] = (struct weir_store_request){.layer = &y[i],
							   .n = 1,
							   .now_us = f.now_us};
			r[i] = 1;
			f.hot[0]->ops->decide(f.hot[0], &q[i], request_done, &r[i]);
		}
		far_answer_all(&f.far[0]);
		for (size_t i = 0; i < 60; i++)
			assert_true(r[i] == 0 && q[i].admitted);
	}
	request_decide(f.shared, &alone, 1, f.now_us, true, &admitted);
	/* 1500 passed; it holds at most one lease */
	assert_in_range(10000 - alone.answer.remaining, 1500, 1600);
	fleet_end(&f);
}

static void a_store_that_fails_takes_nothing_for_later(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, DAY, 100);
	struct weir_store_layer y = request_layer(&l, 1, 1);
	struct fleet f;
	bool admitted;
	unsigned held = 0;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 200; i++, f.now_us += 10)
		assert_true(one(&f, 0, &l, 1, 1));
	f.far[0].fails = -EHOSTDOWN;
	while (request_decide(f.hot[0], &y, 1, f.now_us, false, &admitted) == 0)
		held++; /* what it holds is charged already */
	assert_in_range(held, 0, 100);
	assert_int_equal(request_decide(f.hot[0], &y, 1, f.now_us, false, &admitted), -EHOSTDOWN);
	assert_false(y.charged);
	f.far[0].fails = 0;
	assert_true(one(&f, 0, &l, 1, 1));
	fleet_end(&f);
}

static void remaining_goes_down_while_a_lease_is_spent(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 10000, DAY, 100);
	__u64 before = 10000;
	struct fleet f;

	(void)state;
	fleet_begin(&f, true, true);
	for (int i = 0; i < 1000; i++, f.now_us += 10) {
		struct weir_store_layer y = request_layer(&l, 1, 1);

		assert_true(request_one(f.hot[0], &y, f.now_us));
		assert_int_equal(y.answer.remaining, before - 1);
		before = y.answer.remaining;
	}
	fleet_end(&f);
}

static void threads_of_an_agent_share_its_lease(void **state)
{
	struct weir_store_limit l = leased(WEIR_REQUEST_FIXED_WINDOW, 100000, DAY, 100);
	const struct weir_hot_options o = {.deny = true, .lease = true};
	struct weir_store *shared = request_store(1000, STORE_BYTES, 0), *hot[4];
	struct weir_hot_agent agent = {0};
	struct weir_store_layer y = request_layer(&l, 1, 1);
	struct far far[4];
	__u64 now_us = EPOCH, passed = 0;
	bool admitted;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		far[i] = (struct far){.store = {.ops = &far_ops}, .inner = shared};
		assert_int_equal(weir_store_hot_new(&far[i].store, &agent, &o, &hot[i]), 0);
	}
	for (int i = 0; i < 4000; i++, now_us += 10) {
		struct weir_store_layer z = request_layer(&l, 1, 1);

		passed += request_one(hot[i % 4], &z, now_us);
	}
	assert_int_equal(passed, 4000);
	request_decide(shared, &y, 1, now_us, true, &admitted);
	assert_in_range(100000 - y.answer.remaining, 4000, 4100);
	for (size_t i = 0; i < 4; i++)
		weir_store_free(hot[i]);
	assert_int_equal(agent.takers, 0);
	weir_store_free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_one_denied_key_asks_a_few_times_a_second),
		cmocka_unit_test(the_tenth_passes_and_the_eleventh_fails),
		cmocka_unit_test(a_trace_has_the_verdicts_of_the_store_alone),
		cmocka_unit_test(a_refusal_of_much_says_nothing_about_little),
		cmocka_unit_test(a_refund_and_a_reset_are_seen),
		cmocka_unit_test(changed_limits_forget_refusals),
		cmocka_unit_test(a_clock_that_is_set_back_refuses_nobody_for_long),
		cmocka_unit_test(more_keys_than_places_are_only_asked_again),
		cmocka_unit_test(monitor_limits_count_what_others_refuse),
		cmocka_unit_test(a_peek_is_always_asked),
		cmocka_unit_test(a_hot_key_is_asked_for_rarely_and_never_over_admits),
		cmocka_unit_test(leases_of_a_fixed_window_end_with_it),
		cmocka_unit_test(buckets_admit_at_most_what_agents_hold_beside),
		cmocka_unit_test(what_is_not_spent_is_given_back),
		cmocka_unit_test(a_key_that_is_asked_for_rarely_takes_nothing_for_later),
		cmocka_unit_test(a_refusal_by_another_limit_spends_nothing),
		cmocka_unit_test(one_take_at_a_time),
		cmocka_unit_test(a_store_that_fails_takes_nothing_for_later),
		cmocka_unit_test(remaining_goes_down_while_a_lease_is_spent),
		cmocka_unit_test(threads_of_an_agent_share_its_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
