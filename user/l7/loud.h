/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who is refused most: a bounded sketch per worker (Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, ICDT 2005). With
 * at most WEIR_LOUD_MAX addresses counts are exact; with more, whoever has over 1/WEIR_LOUD_MAX of all refusals is in
 * it, and the error says how much of a count may be somebody else's. Two of them follow each other, a minute each, so
 * what is shown are the last one to two minutes. Written by one worker, read by the agent.
 */
#ifndef WEIR_L7_LOUD_H
#define WEIR_L7_LOUD_H

#include <pthread.h>

#include "user/base/addr.h"

#define WEIR_LOUD_MAX 128
#define WEIR_LOUD_US  60000000ull

struct weir_loud_entry {
	struct weir_prefix client;
	__u64 count, error;
	unsigned slot; /* of the limit that refused it last */
};

struct weir_loud_half {
	__u64 minute;
	size_t n;
	__u32 hash[WEIR_LOUD_MAX]; /* looked through first */
	struct weir_loud_entry entry[WEIR_LOUD_MAX];
};

struct weir_loud {
	pthread_mutex_t lock;
	struct weir_loud_half half[2];
};

/* Empty. -errno of the mutex. */
int weir_loud_init(struct weir_loud *l);
void weir_loud_done(struct weir_loud *l);
/* One refusal of @client by the limit whose counters are at @slot. */
void weir_loud_count(struct weir_loud *l, const struct weir_prefix *client, unsigned slot,
		     __u64 now_us);
/* Adds what is in @l to @sum of @n entries (room for @max), which is sorted by address; returns the new @n. */
size_t weir_loud_sum(struct weir_loud *l, __u64 now_us, struct weir_loud_entry *sum, size_t n,
		     size_t max);

#endif
