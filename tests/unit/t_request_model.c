/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every algorithm of request limits, through the embedded store, against plain slow models that keep each admitted
 * request and count them anew at every question: same verdict, remaining, delay and retry on random traces with costs,
 * refunds, peeks and clocks that step back.
 */
#include "request.h"

#define STEPS	 100000
#define KEPT_MAX 4096

typedef unsigned __int128 u128;

struct numbers {
	enum weir_request_algorithm algorithm;
	__u64 limit, window_us; /* buckets: tokens every window */
	__u64 burst;		/* token bucket; leaky bucket: queue */
	__u64 max_wait_us;
	__u64 cost_max;
};
struct model {
	const struct numbers *n;
	struct {
		__u64 us, cost;
	} kept[KEPT_MAX];
	size_t count;
	u128 tokens; /* bucket: in 1/window of a token, at .. */
	__u64 at_us;
	u128 next; /* queue: when the next may leave, in 1/limit us */
};

static __u64 sum(const struct model *m, __u64 from, __u64 to)
{
	__u64 n = 0;

	for (size_t i = 0; i < m->count; i++)
		if (m->kept[i].us >= from && m->kept[i].us < to)
			n += m->kept[i].cost;
	return n;
}

static u128 tokens_at(const struct model *m, __u64 us)
{
	u128 full = (u128)m->n->burst * m->n->window_us;
	u128 t = m->tokens + (u128)(us - m->at_us) * m->n->limit;

	return t < full ? t : full;
}

/* Places leave one after the other: is each in time, and are no more than the queue waiting? */
static bool queue_admits(const struct model *m, __u64 us, __u64 cost)
{
	u128 now = (u128)us * m->n->limit, leaves = m->next > now ? m->next : now, p = leaves;
	__u64 waiting = 0;

	while (p > now + m->n->window_us) { /* who is before us and has not left */
		p -= m->n->window_us;
		waiting++;
	}
	for (; cost; cost--) {
		if (leaves - now > (u128)m->n->max_wait_us * m->n->limit)
			return false;
		if (leaves > now && ++waiting > m->n->burst)
			return false;
		leaves += m->n->window_us;
	}
	return true;
}

static bool admits(const struct model *m, __u64 us, __u64 cost)
{
	__u64 w = m->n->window_us, start = us / w * w;

	switch (m->n->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		return sum(m, start, start + w) + cost <= m->n->limit;
	case WEIR_REQUEST_SLIDING_LOG:
		return sum(m, us - w + 1, us + 1) + cost <= m->n->limit;
	case WEIR_REQUEST_SLIDING_COUNTER:
		return (u128)(sum(m, start, start + w) + cost) * w +
			       (u128)sum(m, start - w, start) * (w - (us - start)) <=
		       (u128)m->n->limit * w;
	case WEIR_REQUEST_LEAKY_BUCKET:
		return queue_admits(m, us, cost);
	default:
		return (u128)cost * w <= tokens_at(m, us);
	}
}

static void charge(struct model *m, __u64 us, __u64 cost)
{
	u128 now = (u128)us * m->n->limit;
	size_t to = 0;

	m->tokens = tokens_at(m, us) - (u128)cost * m->n->window_us;
	m->at_us = us;
	m->next = (m->next > now ? m->next : now) + (u128)cost * m->n->window_us;
	if (m->n->algorithm <= WEIR_REQUEST_LEAKY_BUCKET)
		return;
	for (size_t i = 0; i < m->count; i++)
		if (m->kept[i].us + 2 * m->n->window_us >= us)
			m->kept[to++] = m->kept[i];
	m->count = to;
	assert_true(m->count < KEPT_MAX);
	m->kept[m->count].us = us;
	m->kept[m->count++].cost = cost;
}

static const struct numbers table[] = {
	{WEIR_REQUEST_FIXED_WINDOW, 10, 10 * SEC, 0, 0, 3},
	{WEIR_REQUEST_FIXED_WINDOW, 100, 777777, 0, 0, 120},
	{WEIR_REQUEST_SLIDING_LOG, 10, 10 * SEC, 0, 0, 3},
	{WEIR_REQUEST_SLIDING_LOG, 100, 777777, 0, 0, 120},
	{WEIR_REQUEST_SLIDING_LOG, 1, 1000, 0, 0, 1},
	{WEIR_REQUEST_SLIDING_COUNTER, 10, 10 * SEC, 0, 0, 3},
	{WEIR_REQUEST_SLIDING_COUNTER, 100, 777777, 0, 0, 120},
	{WEIR_REQUEST_SLIDING_COUNTER, 100, 60 * SEC, 0, 0, 1},
	{WEIR_REQUEST_TOKEN_BUCKET, 7, SEC, 20, 0, 3},
	{WEIR_REQUEST_TOKEN_BUCKET, 6000, SEC, 6000, 0, 7000},
	{WEIR_REQUEST_TOKEN_BUCKET, 300000, SEC, 3, 0, 3},
	{WEIR_REQUEST_TOKEN_BUCKET, 7, DAY, 1000, 0, 900},
	{WEIR_REQUEST_LEAKY_BUCKET, 50, SEC, 100, 60 * SEC, 3},
	{WEIR_REQUEST_LEAKY_BUCKET, 7, SEC, 20, 1234567, 9},
	{WEIR_REQUEST_LEAKY_BUCKET, 3, SEC, 0, SEC, 1},
	{WEIR_REQUEST_LEAKY_BUCKET, 3, SEC, 10, 0, 1},
};

static struct weir_store_limit limit_of(const struct numbers *n)
{
	struct weir_store_identity id;
	struct weir_store_limit l;

	if (n->algorithm != WEIR_REQUEST_TOKEN_BUCKET && n->algorithm != WEIR_REQUEST_LEAKY_BUCKET)
		return request_limit("m", n->algorithm, n->limit, n->window_us);
	assert_int_equal(weir_store_identity_of("m", n->algorithm, "", "", "", &id), 0);
	if (n->algorithm == WEIR_REQUEST_TOKEN_BUCKET)
		assert_int_equal(weir_store_limit_bucket(&id, n->limit, n->window_us, n->burst, &l),
				 0);
	else
		assert_int_equal(weir_store_limit_queue(&id, n->limit, n->window_us, n->burst,
							n->max_wait_us, &l),
				 0);
	return l;
}

static void check_answer(const struct model *m, const struct weir_store_layer *y, __u64 asked,
			 __u64 us)
{
	const struct weir_request_answer *a = &y->answer;
	u128 now = (u128)us * m->n->limit;

	if (a->remaining && !admits(m, us, a->remaining))
		fail_msg("algorithm %d limit %llu: not %llu remain", m->n->algorithm, m->n->limit,
			 a->remaining);
	assert_false(admits(m, us, a->remaining + 1));
	if (a->reset_after_us) {
		assert_true(admits(m, asked + a->reset_after_us, a->remaining + 1));
		assert_false(admits(m, asked + a->reset_after_us - 1, a->remaining + 1));
	}
	if (y->admitted) {
		assert_int_equal(a->retry_after_us, 0);
	} else if (a->retry_after_us == WEIR_REQUEST_NEVER) {
		assert_false(admits(m, us + 100 * m->n->window_us * (m->n->burst + 1), y->cost));
	} else {
		assert_true(admits(m, asked + a->retry_after_us, y->cost));
		assert_false(admits(m, asked + a->retry_after_us - 1, y->cost));
	}
	if (!y->charged && m->n->algorithm == WEIR_REQUEST_LEAKY_BUCKET && asked == us)
		assert_int_equal(a->delay_us,
				 m->next > now
					 ? (__u64)((m->next - now + m->n->limit - 1) / m->n->limit)
					 : 0);
}

static void one_trace(const struct numbers *n, __u64 seed)
{
	_cleanup_(weir_store_freep) struct weir_store *s = request_store(100, STORE_BYTES, 1);
	struct weir_store_limit l = limit_of(n);
	struct model *m = calloc(1, sizeof(*m));
	__u64 now = EPOCH, last = 0, asked, pace, refused = 0;
	bool got, peek;

	assert_non_null(m);
	m->n = n;
	m->tokens = (u128)n->burst * n->window_us;
	m->at_us = now;
	pace = n->window_us * (n->cost_max / 2 + 1) / n->limit;
	for (int i = 0; i < STEPS; i++) {
		struct weir_store_layer y = request_layer(&l, 1, 1 + below(&seed, n->cost_max));

		now += below(&seed, 8 * n->limit / n->cost_max + 40)
			       ? below(&seed, 3 * pace / 2 + 2)
			       : below(&seed, 3 * n->window_us);
		asked = now;
		if (i && !below(&seed, 20)) { /* a clock that steps back */
			now = last;
			asked = now - below(&seed, n->window_us + 1);
		}
		last = now;
		peek = !below(&seed, 10);
		assert_int_equal(request_decide(s, &y, 1, asked, peek, &got), 0);
		if (got != admits(m, now, y.cost))
			fail_msg("algorithm %d limit %llu: step %d differs", n->algorithm, n->limit,
				 i);
		refused += !got;
		if (y.charged)
			charge(m, now, y.cost);
		assert_int_equal(y.charged, got && !peek);
		check_answer(m, &y, asked, now);
		if (y.charged && !below(&seed, 10)) {
			request_refund(s, &y, now);
			assert_false(y.charged);
			m->tokens += (u128)y.cost * n->window_us;
			m->next -= (u128)y.cost * n->window_us;
			m->count -= n->algorithm > WEIR_REQUEST_LEAKY_BUCKET;
		}
	}
	if (refused < STEPS / 100 || refused > STEPS / 100 * 98)
		fail_msg("algorithm %d limit %llu: %llu refused", n->algorithm, n->limit, refused);
	free(m);
}

static void random_traces_equal_the_slow_model(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		one_trace(&table[i], 88172645463325252ull + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_traces_equal_the_slow_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
