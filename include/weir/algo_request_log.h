/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Request limits: sliding-window log. A ring of the times of admitted requests, a cost of n being n equal times. A time
 * t counts at now while now - t < window: no window of that length, wherever it begins, holds more than the limit.
 * The caller owns the memory: settle only drops, push needs room. See algo_request.h for the verbs.
 */
#ifndef WEIR_ALGO_REQUEST_LOG_H
#define WEIR_ALGO_REQUEST_LOG_H

#include "weir/algo_request_types.h"

struct weir_request_log {
	__u64 limit; /* < 2^31 */
	__u64 window_us;
};
struct weir_request_log_state {
	__u64 *time_us; /* @room of them, never falling from @head on */
	__u32 room, head, count;
};

static __always_inline __u64 weir_request_log_at(const struct weir_request_log_state *s, __u32 i)
{
	__u32 at = s->head + i;

	return s->time_us[at < s->room ? at : at - s->room];
}

/* Time that counts: never before the newest entry. */
static __always_inline __u64 weir_request_log_now(const struct weir_request_log_state *s,
						  __u64 now_us)
{
	__u64 newest = s->count ? weir_request_log_at(s, s->count - 1) : 0;

	return now_us > newest ? now_us : newest;
}

/* How many of the oldest entries are over. */
static __always_inline __u32 weir_request_log_over(const struct weir_request_log_state *s,
						   const struct weir_request_log *p, __u64 now_us)
{
	__u64 now = weir_request_log_now(s, now_us);
	__u32 low = 0, high = s->count, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (now - weir_request_log_at(s, mid) >= p->window_us)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Drops what is over, and the oldest beyond a lowered limit: the newest decide alone then. */
static __always_inline void weir_request_log_settle(struct weir_request_log_state *s,
						    const struct weir_request_log *p, __u64 now_us)
{
	__u32 drop = weir_request_log_over(s, p, now_us);

	if (s->count - drop > p->limit)
		drop = s->count - (__u32)p->limit;
	if (!drop)
		return;
	s->head += drop;
	if (s->head >= s->room)
		s->head -= s->room;
	s->count -= drop;
}

/* Of any state, settled or not. */
static __always_inline void weir_request_log_look(const struct weir_request_log_state *s,
						  const struct weir_request_log *p, __u64 now_us,
						  __u64 cost, struct weir_request_answer *ret)
{
	__u32 over = weir_request_log_over(s, p, now_us), live = s->count - over;
	__u32 used = live > p->limit ? (__u32)p->limit : live;

	over += live - used;
	ret->remaining = p->limit - used;
	ret->reset_after_us = used ? weir_request_log_at(s, over) + p->window_us - now_us : 0;
	ret->retry_after_us = 0;
	if (cost > p->limit)
		ret->retry_after_us = WEIR_REQUEST_NEVER;
	else if (cost > ret->remaining)
		ret->retry_after_us =
			weir_request_log_at(s, over + (__u32)(cost - ret->remaining) - 1) +
			p->window_us - now_us;
	ret->delay_us = 0;
}

/* The take: room - count >= cost. */
static __always_inline void weir_request_log_push(struct weir_request_log_state *s, __u64 now_us,
						  __u64 cost)
{
	__u64 now = weir_request_log_now(s, now_us);
	__u32 at;

	for (; cost; cost--) {
		at = s->head + s->count++;
		s->time_us[at < s->room ? at : at - s->room] = now;
	}
}

/* Takes out up to @cost entries of exactly the ticket's time; there are none once they are over. */
static __always_inline void weir_request_log_refund(struct weir_request_log_state *s,
						    struct weir_request_ticket t, __u64 cost)
{
	__u32 to = 0, at;
	__u64 time;

	for (__u32 i = 0; i < s->count; i++) {
		time = weir_request_log_at(s, i);
		if (cost && time == t.us) {
			cost--;
			continue;
		}
		at = s->head + to++;
		s->time_us[at < s->room ? at : at - s->room] = time;
	}
	s->count = to;
}

static __always_inline __u64 weir_request_log_idle(const struct weir_request_log_state *s,
						   const struct weir_request_log *p)
{
	return s->count ? weir_request_log_at(s, s->count - 1) + p->window_us : 0;
}

#endif
