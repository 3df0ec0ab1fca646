/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Spares a store that is far away the questions whose answer is known here: a store around any other, one per thread.
 *
 * A refusal is remembered until the moment from which the same request would pass, for a second at most (so that a reset
 * or a refund on another host is seen by then): it holds for all that costs at least as much. Nothing is remembered of a
 * request that was counted for its address (new_per_ip), nor of one that costs more than its limit ever holds.
 *
 * Of limits with a lease a busy thread takes several at once, as many as it has lately spent in the time that a lease
 * lasts, and spends them without asking; what it has not spent by then is given back. They are charged when they are
 * taken: a fixed window's end ends its leases too, so that it never admits more than its limit; other limits may admit
 * what all threads hold, at most agents × lease, in one window more. Near the limit each request is asked for by itself,
 * so that the last one passes and the next does not. A request that another limit refuses spends nothing.
 */
#ifndef WEIR_USER_STORE_HOT_H
#define WEIR_USER_STORE_HOT_H

#include "user/store/store.h"

struct event_base;

/* Of all threads of an agent; zeroed. */
struct weir_hot_agent {
	__u64 generation; /* relaxed */
	unsigned takers;  /* threads that take leases: each gets its part of one */
};
/* Limits have changed, or states were forgotten: all that is remembered of them is void. Any thread. */
static inline void weir_hot_forget(struct weir_hot_agent *a)
{
	(void)__atomic_add_fetch(&a->generation, 1, __ATOMIC_RELEASE);
}

struct weir_hot_options {
	bool deny, lease;
	struct event_base *base; /* for what is given back in time; NULL: with the next question */
};

struct weir_hot_stats {
	__u64 denied;	  /* requests refused from memory */
	__u64 spent;	  /* requests admitted from leases alone */
	__u64 taken;	  /* leases */
	__u64 given_back; /* of what they held */
	__u64 lost;
};

/* @inner is taken over, also on error; @agent must outlive it. */
int weir_store_hot_new(struct weir_store *inner, struct weir_hot_agent *agent,
		       const struct weir_hot_options *o, struct weir_store **ret);
/* Of any thread. */
void weir_store_hot_stats(const struct weir_store *s, struct weir_hot_stats *ret);

#endif
