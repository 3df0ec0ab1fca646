/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The embedded store's keys that a client chooses: new ones are counted against their address, in the same decision,
 * against a slow model; limits of several plans on one state; whoever cannot wait beside a queue; refunds by hearsay.
 */
#include "request.h"

#define STEPS	  100000
#define ADDRESSES 3
#define KEYS	  20 /* of each address */

/* --- new keys ---- */

#define LIMIT	  4 /* of the limit under test, in a fixed window */
#define WINDOW_US (10 * SEC)
#define NEW_COUNT 3 /* new keys of an address */
#define NEW_US	  (7 * SEC)
#define OTHER	  12 /* of a limit that all addresses share */
#define OTHER_US  (9 * SEC)

struct window {
	__u64 number, count;
};

/* Tokens in 1/NEW_US of one; a bucket that begins full. */
struct model {
	struct window key[ADDRESSES][KEYS], address[ADDRESSES], other;
	__u64 parts[ADDRESSES], at_us[ADDRESSES];
};

static __u64 used(struct window *w, __u64 window_us, __u64 now_us)
{
	if (w->number != now_us / window_us)
		*w = (struct window){now_us / window_us, 0};
	return w->count;
}

static __u64 parts(struct model *m, unsigned a, __u64 now_us)
{
	__u64 full = NEW_COUNT * NEW_US;
	__u64 p = m->parts[a] + (now_us - m->at_us[a]) * NEW_COUNT;

	m->parts[a] = p < full ? p : full;
	m->at_us[a] = now_us;
	return m->parts[a];
}

struct verdict {
	bool admitted, instead;
	__u64 remaining;
};

static struct verdict judge(struct model *m, unsigned a, unsigned k, __u64 cost, bool peek,
			    bool monitor, __u64 now_us)
{
	struct verdict v = {.admitted = true};
	bool fresh = !used(&m->key[a][k], WINDOW_US, now_us), other, fits;
	struct window *w = &m->key[a][k];

	if (fresh && parts(m, a, now_us) < NEW_US) {
		v.instead = true;
		fresh = false;
		w = &m->address[a];
	}
	fits = used(w, WINDOW_US, now_us) + cost <= LIMIT;
	other = used(&m->other, OTHER_US, now_us) + 1 <= OTHER;
	v.admitted = other && (fits || monitor);
	if (!peek && fits && (v.admitted || monitor)) {
		w->count += cost;
		m->parts[a] -= fresh ? NEW_US : 0;
	}
	m->other.count += !peek && v.admitted;
	v.remaining = LIMIT - w->count;
	return v;
}

static void new_keys_equal_the_slow_model(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(10000, STORE_BYTES, 16);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_FIXED_WINDOW, LIMIT, WINDOW_US);
	struct weir_store_limit o = request_limit("o", WEIR_REQUEST_FIXED_WINDOW, OTHER, OTHER_US);
	struct weir_store_limit f =
		request_limit("f", WEIR_REQUEST_TOKEN_BUCKET, NEW_COUNT, NEW_US);
	struct model m = {.at_us = {0}};
	__u64 seed = 5, now_us = EPOCH;
	unsigned instead = 0, admitted = 0;

	(void)state;
	for (unsigned i = 0; i < ADDRESSES; i++) {
		m.parts[i] = NEW_COUNT * NEW_US;
		m.at_us[i] = EPOCH;
	}
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned a = (unsigned)below(&seed, ADDRESSES), k = (unsigned)below(&seed, KEYS);
		struct weir_store_layer y[] = {request_layer(&o, 1, 1),
					       request_layer(&l, 1000 + a * KEYS + k,
							     1 + below(&seed, 3))};
		struct weir_store_layer ip = request_layer(&l, 10 + a, 1);
		struct weir_store_request q = {.layer = y, .n = 2, .peek = !below(&seed, 4)};
		struct verdict v;
		int r = 1;

		now_us += below(&seed, 32) ? below(&seed, SEC) : below(&seed, 12 * SEC);
		q.now_us = now_us;
		y[1].monitor = !below(&seed, 5);
		y[1].fresh = &f;
		memcpy(y[1].instead, ip.key, sizeof(ip.key));
		v = judge(&m, a, k, y[1].cost, q.peek, y[1].monitor, now_us);
		s->ops->decide(s, &q, request_done, &r);
		assert_int_equal(r, 0);
		assert_int_equal(q.admitted, v.admitted);
		assert_int_equal(y[1].used_instead, v.instead);
		assert_int_equal(y[1].answer.remaining, v.remaining);
		instead += v.instead;
		admitted += v.admitted;
	}
	assert_true(instead > STEPS / 20 && instead < STEPS - STEPS / 20);
	assert_true(admitted > STEPS / 20 && admitted < STEPS - STEPS / 20);
}

static struct weir_store_layer fresh_layer(const struct weir_store_limit *l,
					   const struct weir_store_limit *f, __u64 client)
{
	struct weir_store_layer y = request_layer(l, client, 1), ip = request_layer(l, 1, 1);

	y.fresh = f;
	memcpy(y.instead, ip.key, sizeof(ip.key));
	return y;
}

static void a_charge_is_given_back_where_it_was_made(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_SLIDING_LOG, 2, DAY);
	struct weir_store_limit f = request_limit("f", WEIR_REQUEST_TOKEN_BUCKET, 1, DAY);
	struct weir_store_layer own = fresh_layer(&l, &f, 100), other = fresh_layer(&l, &f, 101);
	struct weir_store_request q = {.layer = &other, .n = 1, .now_us = EPOCH, .newest = true};
	bool got;
	int r = 1;

	(void)state;
	assert_true(request_one(s, &own, EPOCH));
	assert_false(own.used_instead);
	assert_true(request_one(s, &other, EPOCH));
	assert_true(other.used_instead);
	request_refund(s, &other, EPOCH);
	assert_int_equal(request_decide(s, &own, 1, EPOCH, true, &got), 0);
	assert_int_equal(own.answer.remaining, 1);
	assert_int_equal(request_decide(s, &other, 1, EPOCH, true, &got), 0);
	assert_int_equal(other.answer.remaining, 2);
	/* without a ticket it is found where it must have been */
	assert_true(request_one(s, &other, EPOCH));
	other = fresh_layer(&l, &f, 101);
	other.charged = true;
	s->ops->refund(s, &q, request_done, &r);
	assert_int_equal(r, 0);
	assert_true(other.used_instead && !other.charged);
	assert_int_equal(request_decide(s, &other, 1, EPOCH, true, &got), 0);
	assert_int_equal(other.answer.remaining, 2);
	assert_true(other.used_instead); /* the new key stays counted */
}

static void one_state_twice_is_refused_whatever_it_is_for(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_FIXED_WINDOW, 2, DAY);
	struct weir_store_limit f = request_limit("f", WEIR_REQUEST_TOKEN_BUCKET, 1, DAY);
	struct weir_store_layer y[] = {fresh_layer(&l, &f, 100), fresh_layer(&l, &f, 101)};
	struct weir_store_layer z[] = {fresh_layer(&l, &f, 100), request_layer(&l, 1, 1)};
	bool got;

	(void)state;
	assert_int_equal(request_decide(s, y, 2, EPOCH, false, &got), -EINVAL);
	assert_int_equal(request_decide(s, z, 2, EPOCH, false, &got), -EINVAL);
}

/* --- numbers of several plans on one state ---- */

static const enum weir_request_algorithm all[] = {WEIR_REQUEST_TOKEN_BUCKET,
						  WEIR_REQUEST_FIXED_WINDOW,
						  WEIR_REQUEST_SLIDING_LOG,
						  WEIR_REQUEST_SLIDING_COUNTER};

/* Whatever smaller plans do in between, a bigger one never gets more than alone. */
static void a_small_plan_frees_nothing_of_a_big_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		_cleanup_(weir_store_freep) struct weir_store *mixed =
			request_store(1000, STORE_BYTES, 16);
		_cleanup_(weir_store_freep) struct weir_store *alone =
			request_store(1000, STORE_BYTES, 16);
		struct weir_store_limit big = request_limit("a", all[i], 1000, 60 * SEC);
		struct weir_store_limit small = request_limit("a", all[i], 10, 60 * SEC);
		unsigned with = 0, without = 0;
		__u64 seed = i + 1, now_us = EPOCH;

		for (unsigned k = 0; k < 20000; k++) {
			struct weir_store_layer b = request_layer(&big, 1, 1 + below(&seed, 20));
			struct weir_store_layer c = b, d = request_layer(&small, 1, 1);

			now_us += below(&seed, SEC);
			with += request_one(mixed, &b, now_us) ? b.cost : 0;
			without += request_one(alone, &c, now_us) ? c.cost : 0;
			if (!below(&seed, 3))
				with += request_one(mixed, &d, now_us);
			if (!below(&seed, 500))
				now_us += 90 * SEC;
		}
		/* the order of costs that just do not fit differs a little */
		if (with > without + without / 200)
			print_error("algorithm %d: %u beside %u\n", all[i], with, without);
		assert_true(with <= without + without / 200);
	}
}

static void a_sliding_counter_keeps_its_previous_window(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit big =
		request_limit("a", WEIR_REQUEST_SLIDING_COUNTER, 6000, 60 * SEC);
	struct weir_store_limit small =
		request_limit("a", WEIR_REQUEST_SLIDING_COUNTER, 60, 60 * SEC);
	struct weir_store_layer b = request_layer(&big, 1, 6000), c = request_layer(&small, 1, 1);
	bool got;

	(void)state;
	assert_true(request_one(s, &b, EPOCH));
	/* to the small plan its own number was used up: two seconds later there is one again */
	assert_true(request_one(s, &c, EPOCH + 62 * SEC));
	assert_int_equal(request_decide(s, &b, 1, EPOCH + 62 * SEC, true, &got), 0);
	assert_int_equal(b.answer.remaining, 199); /* 2/60 of 6000, less that one */
}

/* --- a queue where nobody can wait ---- */

static void no_waiting_leaves_the_queue_alone(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_LEAKY_BUCKET, 10, 10 * SEC);
	struct weir_store_layer wait = request_layer(&l, 1, 1), now = wait;

	(void)state;
	now.turn_now = true;
	assert_true(request_one(s, &now, EPOCH));
	assert_int_equal(now.answer.remaining, 0);
	assert_int_equal(now.answer.reset_after_us, SEC);
	assert_false(request_one(s, &now, EPOCH));
	assert_int_equal(now.answer.retry_after_us, SEC);
	for (unsigned i = 1; i <= 5; i++) {
		assert_true(request_one(s, &wait, EPOCH));
		assert_int_equal(wait.answer.delay_us, i * SEC);
		assert_false(request_one(s, &now, EPOCH));
		assert_int_equal(now.answer.retry_after_us, (i + 1) * SEC);
	}
	assert_false(request_one(s, &now, EPOCH + 6 * SEC - 1));
	assert_int_equal(now.answer.retry_after_us, 1);
	assert_true(request_one(s, &now, EPOCH + 6 * SEC));
}

/* --- refunds without a ticket ---- */

static void the_newest_charge_is_given_back_and_no_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all) + 1; i++) {
		enum weir_request_algorithm a =
			i < ARRAY_LEN(all) ? all[i] : WEIR_REQUEST_LEAKY_BUCKET;
		_cleanup_(weir_store_freep) struct weir_store *s =
			request_store(1000, STORE_BYTES, 16);
		struct weir_store_limit l = request_limit("a", a, 10, 100 * SEC);
		struct weir_store_layer y = request_layer(&l, 1, 3);
		struct weir_store_request q = {.layer = &y,
					       .n = 1,
					       .now_us = EPOCH + SEC,
					       .newest = true};
		bool got;
		int r = 1;

		assert_true(request_one(s, &y, EPOCH));
		assert_true(request_one(s, &y, EPOCH + SEC));
		memset(&y.ticket, 0, sizeof(y.ticket));
		y.charged = true;
		s->ops->refund(s, &q, request_done, &r);
		assert_int_equal(r, 0);
		assert_false(y.charged);
		assert_int_equal(request_decide(s, &y, 1, EPOCH + SEC, true, &got), 0);
		assert_int_equal(y.answer.remaining, 7);
		/* more than there is, and of nobody */
		y.cost = 10;
		y.charged = true;
		s->ops->refund(s, &q, request_done, &r);
		y = request_layer(&l, 2, 3);
		y.charged = true;
		s->ops->refund(s, &q, request_done, &r);
		assert_int_equal(request_decide(s, &y, 1, EPOCH + SEC, true, &got), 0);
		assert_int_equal(y.answer.remaining, 10);
	}
}

static void a_reset_says_what_was_there(void **state)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(1000, STORE_BYTES, 16);
	struct weir_store_limit l = request_limit("a", WEIR_REQUEST_FIXED_WINDOW, 2, 10 * SEC);
	struct weir_store_layer y[] = {request_layer(&l, 1, 1), request_layer(&l, 2, 1)};
	struct weir_store_request q = {.layer = y, .n = 2, .now_us = EPOCH};
	int r = 1;

	(void)state;
	assert_true(request_one(s, &y[1], EPOCH));
	s->ops->reset(s, &q, request_done, &r);
	assert_int_equal(r, 0);
	assert_true(!y[0].charged && y[1].charged);
	assert_true(request_one(s, &y[1], EPOCH));
	q.now_us = EPOCH + 10 * SEC; /* over by itself */
	s->ops->reset(s, &q, request_done, &r);
	assert_true(!y[0].charged && !y[1].charged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_keys_equal_the_slow_model),
		cmocka_unit_test(a_charge_is_given_back_where_it_was_made),
		cmocka_unit_test(one_state_twice_is_refused_whatever_it_is_for),
		cmocka_unit_test(a_small_plan_frees_nothing_of_a_big_one),
		cmocka_unit_test(a_sliding_counter_keeps_its_previous_window),
		cmocka_unit_test(no_waiting_leaves_the_queue_alone),
		cmocka_unit_test(the_newest_charge_is_given_back_and_no_more),
		cmocka_unit_test(a_reset_says_what_was_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
