/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Request limits: token bucket, and leaky bucket as a queue, as GCRA with an exact rational time. The rate is @count
 * every @period_us; both are divided by their common divisor, and debt is counted in parts of a token: a token is
 * period parts, and count parts drain in a microsecond. Nothing is rounded. The state is a debt at a time, in tokens
 * and parts, so that a changed rate or plan keeps the count (what is less than a token is read in the new parts, as one
 * token at most). See algo_request.h for the verbs.
 *
 * The queue is a bucket of queue + 1 places (one leaves now, @queue wait behind it), no place later than max_wait; an
 * admitted request is answered delay_us after its arrival. A cost of n takes n places.
 */
#ifndef WEIR_ALGO_REQUEST_BUCKET_H
#define WEIR_ALGO_REQUEST_BUCKET_H

#include "weir/algo_request_types.h"

struct weir_request_bucket {
	__u64 count, period_us; /* without common divisor */
	__u64 size_parts;	/* debt that the bucket can hold; < 2^62 */
};
struct weir_request_bucket_state {
	__u64 us;
	__u64 tokens;
	__u64 part; /* 0 .. period_us - 1 */
};

#define WEIR_REQUEST_PARTS_MAX (1ull << 62)

/* Returns 1, or 0 if these numbers cannot be represented: burst * period / gcd(count, period) < 2^62 is (a million at
 * one a day is far within it). All numbers > 0.
 */
static __always_inline int weir_request_bucket_prepare(__u64 count, __u64 period_us, __u64 burst,
						       struct weir_request_bucket *ret)
{
	__u64 a = count, b = period_us, rest;

	if (!count || !period_us || !burst || count >> 53 || period_us >> 53)
		return 0;
	while (b) {
		rest = a % b;
		a = b;
		b = rest;
	}
	if (burst >= WEIR_REQUEST_PARTS_MAX / (period_us / a))
		return 0;
	ret->count = count / a;
	ret->period_us = period_us / a;
	ret->size_parts = burst * ret->period_us;
	return 1;
}

/* The same for a leaky bucket. */
static __always_inline int weir_request_queue_prepare(__u64 count, __u64 period_us, __u64 queue,
						      __u64 max_wait_us,
						      struct weir_request_bucket *ret)
{
	__u64 wait;

	if (queue == ~0ull || !weir_request_bucket_prepare(count, period_us, queue + 1, ret))
		return 0;
	if (max_wait_us > ret->size_parts / ret->count)
		return 1; /* longer than the whole queue: no bound */
	wait = max_wait_us * ret->count + ret->period_us;
	if (wait < ret->size_parts)
		ret->size_parts = wait;
	return 1;
}

/* Time that counts: never before the state's. */
static __always_inline __u64 weir_request_bucket_now(struct weir_request_bucket_state s,
						     __u64 now_us)
{
	return now_us > s.us ? now_us : s.us;
}

/* Debt that is left at @now_us: 0 .. size. */
static __always_inline __u64 weir_request_bucket_debt(struct weir_request_bucket_state s,
						      const struct weir_request_bucket *p,
						      __u64 now_us)
{
	__u64 debt = p->size_parts, part = s.part < p->period_us ? s.part : p->period_us;

	if (s.tokens <= p->size_parts / p->period_us)
		debt = s.tokens * p->period_us + part;
	if (debt > p->size_parts)
		debt = p->size_parts;
	if (now_us <= s.us)
		return debt;
	if (now_us - s.us > debt / p->count)
		return 0;
	return debt - (now_us - s.us) * p->count;
}

/* The state of a bucket that owes @debt parts at @now_us. */
static __always_inline struct weir_request_bucket_state
weir_request_bucket_state_of(const struct weir_request_bucket *p, __u64 now_us, __u64 debt)
{
	struct weir_request_bucket_state s = {now_us, debt / p->period_us, debt % p->period_us};

	return s;
}

/* A debt above a lowered burst becomes a full one; a state whose time is over becomes the one of an empty bucket. */
static __always_inline struct weir_request_bucket_state
weir_request_bucket_settle(struct weir_request_bucket_state s, const struct weir_request_bucket *p,
			   __u64 now_us)
{
	return weir_request_bucket_state_of(p, weir_request_bucket_now(s, now_us),
					    weir_request_bucket_debt(s, p, now_us));
}

static __always_inline void weir_request_bucket_look(struct weir_request_bucket_state s,
						     const struct weir_request_bucket *p,
						     __u64 now_us, __u64 cost,
						     struct weir_request_answer *ret)
{
	__u64 debt = weir_request_bucket_debt(s, p, now_us), room = p->size_parts - debt, need;
	__u64 behind = weir_request_bucket_now(s, now_us) - now_us;

	ret->remaining = room / p->period_us;
	ret->delay_us = 0;
	ret->reset_after_us = 0;
	need = (ret->remaining + 1) * p->period_us;
	if (need <= p->size_parts)
		ret->reset_after_us = behind + (need - room + p->count - 1) / p->count;
	ret->retry_after_us = 0;
	if (cost > p->size_parts / p->period_us)
		ret->retry_after_us = WEIR_REQUEST_NEVER;
	else if (cost > ret->remaining)
		ret->retry_after_us =
			behind + (cost * p->period_us - room + p->count - 1) / p->count;
}

/* Look of a leaky bucket: also the delay, rounded up. */
static __always_inline void weir_request_queue_look(struct weir_request_bucket_state s,
						    const struct weir_request_bucket *p,
						    __u64 now_us, __u64 cost,
						    struct weir_request_answer *ret)
{
	weir_request_bucket_look(s, p, now_us, cost, ret);
	ret->delay_us = weir_request_bucket_now(s, now_us) - now_us +
			(weir_request_bucket_debt(s, p, now_us) + p->count - 1) / p->count;
}

static __always_inline struct weir_request_bucket_state
weir_request_bucket_take(struct weir_request_bucket_state s, const struct weir_request_bucket *p,
			 __u64 now_us, __u64 cost)
{
	return weir_request_bucket_state_of(p, weir_request_bucket_now(s, now_us),
					    weir_request_bucket_debt(s, p, now_us) +
						    cost * p->period_us);
}

/* What has drained since the charge may have been drained from it and is not given back. */
static __always_inline struct weir_request_bucket_state
weir_request_bucket_refund(struct weir_request_bucket_state s, const struct weir_request_bucket *p,
			   __u64 now_us, struct weir_request_ticket t, __u64 cost)
{
	__u64 debt = weir_request_bucket_debt(s, p, now_us), back = p->size_parts, drained;

	if (cost <= p->size_parts / p->period_us)
		back = cost * p->period_us;
	if (now_us > t.us) {
		if (now_us - t.us > back / p->count)
			return s;
		drained = (now_us - t.us) * p->count;
		back -= drained < back ? drained : back;
	}
	return weir_request_bucket_state_of(p, weir_request_bucket_now(s, now_us),
					    debt - (back < debt ? back : debt));
}

/* Of a leaky bucket: when whoever comes after the last one in the queue may leave; says which place that was. */
static __always_inline struct weir_request_ticket
weir_request_queue_ticket(struct weir_request_bucket_state s, const struct weir_request_bucket *p,
			  __u64 now_us)
{
	__u64 debt = weir_request_bucket_debt(s, p, now_us);
	struct weir_request_ticket t = {weir_request_bucket_now(s, now_us) + debt / p->count,
					debt % p->count};

	return t;
}

/* A client that leaves the queue gives its place back if nobody is behind it and its turn has not come. Returns 1 and
 * *ret_state, or 0: the place stays taken.
 */
static __always_inline int weir_request_queue_cancel(struct weir_request_bucket_state s,
						     const struct weir_request_bucket *p,
						     __u64 now_us, struct weir_request_ticket t,
						     __u64 cost,
						     struct weir_request_bucket_state *ret_state)
{
	struct weir_request_ticket last = weir_request_queue_ticket(s, p, now_us);
	__u64 debt = weir_request_bucket_debt(s, p, now_us);

	if (last.us != t.us || last.part != t.part || cost > p->size_parts / p->period_us ||
	    debt < cost * p->period_us)
		return 0;
	*ret_state = weir_request_bucket_state_of(p, weir_request_bucket_now(s, now_us),
						  debt - cost * p->period_us);
	return 1;
}

static __always_inline __u64 weir_request_bucket_idle(struct weir_request_bucket_state s,
						      const struct weir_request_bucket *p)
{
	return s.us + (weir_request_bucket_debt(s, p, s.us) + p->count - 1) / p->count;
}

#endif
