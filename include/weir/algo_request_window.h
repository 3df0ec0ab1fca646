/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Request limits: fixed window and sliding-window counter. See algo_request.h for the verbs. */
#ifndef WEIR_ALGO_REQUEST_WINDOW_H
#define WEIR_ALGO_REQUEST_WINDOW_H

#include "weir/algo_request_types.h"

/* --- fixed window ----
 * The window is [start, end): aligned to the Unix epoch, or a calendar day, week or month that the caller worked out.
 * A window is known by its end; a caller with an older clock counts in the stored window, which is then the later one.
 */
struct weir_request_fixed {
	__u64 limit;
	__u64 start_us, end_us;
};
struct weir_request_fixed_state {
	__u64 end_us;
	__u64 count;
};

/* Sets the window of @window_us (> 0) in which @now_us lies. */
static __always_inline void weir_request_fixed_align(struct weir_request_fixed *p, __u64 window_us,
						     __u64 now_us)
{
	p->start_us = now_us - now_us % window_us;
	p->end_us = p->start_us + window_us;
}

static __always_inline struct weir_request_fixed_state
weir_request_fixed_settle(struct weir_request_fixed_state s, const struct weir_request_fixed *p)
{
	if (s.end_us < p->end_us) {
		s.end_us = p->end_us;
		s.count = 0;
	}
	if (s.count > p->limit)
		s.count = p->limit;
	return s;
}

static __always_inline void weir_request_fixed_look(struct weir_request_fixed_state s,
						    const struct weir_request_fixed *p,
						    __u64 now_us, __u64 cost,
						    struct weir_request_answer *ret)
{
	__u64 left = s.end_us > now_us ? s.end_us - now_us : 1;

	ret->remaining = p->limit - s.count;
	ret->reset_after_us = s.count ? left : 0;
	ret->retry_after_us = cost > p->limit	      ? WEIR_REQUEST_NEVER
			      : cost > ret->remaining ? left
						      : 0;
	ret->delay_us = 0;
}

static __always_inline struct weir_request_fixed_state
weir_request_fixed_take(struct weir_request_fixed_state s, __u64 cost)
{
	s.count += cost;
	return s;
}

/* A charge of an earlier window is gone with it. */
static __always_inline struct weir_request_fixed_state
weir_request_fixed_refund(struct weir_request_fixed_state s, const struct weir_request_fixed *p,
			  struct weir_request_ticket t, __u64 cost)
{
	if (s.end_us == p->end_us && t.us >= p->start_us && t.us < p->end_us)
		s.count -= cost < s.count ? cost : s.count;
	return s;
}

/* --- sliding-window counter ----
 * Admits if current * W + previous * (W - e) + cost * W <= limit * W, W and e (time since the window began) in ticks:
 * the estimate of a true sliding window if the previous one's requests were spread evenly. Its worst case in one true
 * window is 2 * limit - 1, as the fixed window's is 2 * limit. A tick is a microsecond while limit * W < 2^53, else
 * 1/2^20 of the window: never admits more than the exact form, and less by at most two ticks' share of the previous
 * count. Counts above a lowered limit are clamped to it. limit < 2^32, 0 < window_us < 2^53.
 */
struct weir_request_sliding {
	__u64 limit;
	__u64 window_us;
	__u64 tick_us, ticks; /* by prepare */
};
struct weir_request_sliding_state {
	__u64 index; /* start of the window / its length */
	__u32 current;
	__u32 previous;
};

#define WEIR_REQUEST_EXACT_MAX (1ull << 53) /* integers that a double holds */

/* Returns 1, or 0 if these numbers cannot be represented. */
static __always_inline int weir_request_sliding_prepare(__u64 limit, __u64 window_us,
							struct weir_request_sliding *ret)
{
	if (!window_us || window_us >= WEIR_REQUEST_EXACT_MAX || limit >> 32)
		return 0;
	ret->limit = limit;
	ret->window_us = window_us;
	ret->tick_us = 1;
	if (limit >= (WEIR_REQUEST_EXACT_MAX + window_us - 1) / window_us)
		ret->tick_us = (window_us + (1 << 20) - 1) >> 20;
	ret->ticks = (window_us + ret->tick_us - 1) / ret->tick_us;
	return 1;
}

/* The state in the window of @now_us, without clamping: what a charge is added to, so that a request by a smaller plan
 * does not make a bigger one forget its count.
 */
static __always_inline struct weir_request_sliding_state
weir_request_sliding_roll(struct weir_request_sliding_state s, const struct weir_request_sliding *p,
			  __u64 now_us)
{
	__u64 index = now_us / p->window_us;

	if (index > s.index) {
		s.previous = index == s.index + 1 ? s.current : 0;
		s.current = 0;
		s.index = index;
	}
	return s;
}

static __always_inline struct weir_request_sliding_state
weir_request_sliding_settle(struct weir_request_sliding_state s,
			    const struct weir_request_sliding *p, __u64 now_us)
{
	s = weir_request_sliding_roll(s, p, now_us);
	if (s.current > p->limit)
		s.current = (__u32)p->limit;
	if (s.previous > p->limit)
		s.previous = (__u32)p->limit;
	return s;
}

/* The first moment, from the start of the state's window, at which @cost (<= limit) is admitted. */
static __always_inline __u64 weir_request_sliding_when(struct weir_request_sliding_state s,
						       const struct weir_request_sliding *p,
						       __u64 cost)
{
	__u64 e = 0;

	if (s.current + cost <= p->limit) {
		if (s.previous)
			e = (p->limit - s.current - cost) * p->ticks / s.previous;
		e = !s.previous || e >= p->ticks ? 0 : p->ticks - e;
		if (e < p->ticks)
			return e * p->tick_us;
	}
	e = s.current ? (p->limit - cost) * p->ticks / s.current : p->ticks;
	e = e >= p->ticks ? 0 : p->ticks - e;
	return e < p->ticks ? p->window_us + e * p->tick_us : 2 * p->window_us;
}

static __always_inline void weir_request_sliding_look(struct weir_request_sliding_state s,
						      const struct weir_request_sliding *p,
						      __u64 now_us, __u64 cost,
						      struct weir_request_answer *ret)
{
	__u64 start = s.index * p->window_us, at = now_us > start ? now_us : start;
	__u64 e = (at - start) / p->tick_us;
	__u64 used = s.current * p->ticks + s.previous * (p->ticks - e), all = p->limit * p->ticks;

	ret->remaining = used < all ? (all - used) / p->ticks : 0;
	ret->reset_after_us = 0;
	if (ret->remaining < p->limit)
		ret->reset_after_us =
			start + weir_request_sliding_when(s, p, ret->remaining + 1) - now_us;
	ret->retry_after_us = 0;
	if (cost > p->limit)
		ret->retry_after_us = WEIR_REQUEST_NEVER;
	else if (cost > ret->remaining)
		ret->retry_after_us = start + weir_request_sliding_when(s, p, cost) - now_us;
	ret->delay_us = 0;
}

static __always_inline struct weir_request_sliding_state
weir_request_sliding_take(struct weir_request_sliding_state s, __u64 cost)
{
	s.current += (__u32)cost;
	return s;
}

static __always_inline struct weir_request_sliding_state
weir_request_sliding_refund(struct weir_request_sliding_state s,
			    const struct weir_request_sliding *p, struct weir_request_ticket t,
			    __u64 cost)
{
	__u64 index = t.us / p->window_us;

	if (index == s.index)
		s.current -= cost < s.current ? (__u32)cost : s.current;
	else if (index + 1 == s.index)
		s.previous -= cost < s.previous ? (__u32)cost : s.previous;
	return s;
}

static __always_inline __u64 weir_request_sliding_idle(struct weir_request_sliding_state s,
						       const struct weir_request_sliding *p)
{
	return (s.index + (s.current ? 2 : s.previous ? 1 : 0)) * p->window_us;
}

#endif
