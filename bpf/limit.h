/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Charges a packet to the limits of one group, on the state words of its source. Everything that changes shared state
 * does so by compare-and-swap with at most three tries.
 *
 * Order: limits are charged in the configuration's order, and what one of them drops is charged to none after it. A
 * monitor limit counts by itself and stops nothing.
 */
#ifndef WEIR_BPF_LIMIT_H
#define WEIR_BPF_LIMIT_H

#include "lists.h"
#include "maps.h"
#include "verdict.h"
#include "weir/algo.h"
#include "weir/policy.h"

#define WEIR_CAS_TRIES 3

enum { LIMIT_OK, LIMIT_OVER, LIMIT_CONTENDED };

/* What charging needs to know of the packet, in one place so that functions stay within their five arguments. */
struct charge {
	struct weir_policy *pol;
	struct weir_pkt *pkt;
	struct weir_counters *count;
	__u64 now_ns;
	bool shared; /* the words belong to a whole /24 or /48: no penalties there */
};

static __always_inline __u32 limit_cost(struct weir_limit *l, const struct weir_pkt *p)
{
	return l->flags & WEIR_LIMIT_BYTES ? p->len : 1;
}

/* The source went over a limit with block_for: from now on all its packets are dropped, for that time. Then it begins
 * anew, with its whole burst: @word is its bucket (of a window, the count stays until the window ends).
 */
static __always_inline void penalise(const struct charge *k, struct weir_limit *l, __u32 *penalty,
				     __u32 *word)
{
	__u32 old = *(volatile __u32 *)penalty;

	if (k->shared || weir_penalty_active(old, k->now_ns, l->block_ms))
		return; /* another CPU was first: the time is not extended */
	if (lists_guarded(k->pol, k->pkt, k->now_ns)) {
		k->count->guarded++;
		return;
	}
	/* If it fails, the next packet over the limit does it. */
	if (__sync_val_compare_and_swap(penalty, old, weir_penalty_word(k->now_ns, l->block_ms)) !=
	    old)
		return;
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		__sync_val_compare_and_swap(word, *(volatile __u32 *)word, 0);
}

static __always_inline int charge_bucket(const struct charge *k, struct weir_limit *l, __u32 *word)
{
	__u32 now = weir_ticks(k->now_ns, l->mult, l->shift), old, new, cost;
	__u64 ticks = (__u64)limit_cost(l, k->pkt) << (l->frac_bits & 31);
	int i;

	cost = ticks > ~0u ? ~0u : ticks;
	for (i = 0; i < WEIR_CAS_TRIES; i++) {
		old = *(volatile __u32 *)word;
		if (!weir_bucket_take(old, now, cost, l->burst, &new)) {
			if (i == 0 && old - now > l->burst) {
				/* A newer clock wrote it: this CPU (or its host) lost time since it read its own. */
				now = weir_ticks(clock_fresh(), l->mult, l->shift);
				continue;
			}
			return LIMIT_OVER;
		}
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return LIMIT_OK;
	}
	return LIMIT_CONTENDED;
}

/* The windows, as functions of their own: the verifier checks each once, and a division hides the cost of the call. */
__noinline int charge_fixed32(struct weir_limit *l, __u32 *word, __u64 now_ns, __u32 cost)
{
	__u32 number, old, new;
	int i;

	if (!l || !word || !l->window_ns)
		return LIMIT_OK;
	number = weir_window_number(now_ns / l->window_ns, 32 - l->count_bits);
	for (i = 0; i < WEIR_CAS_TRIES; i++) {
		old = *(volatile __u32 *)word;
		if (!weir_fixed_take32(old, number, l->count_bits, cost, l->limit, &new))
			return LIMIT_OVER;
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return LIMIT_OK;
	}
	return LIMIT_CONTENDED;
}

__noinline int charge_pair(struct weir_limit *l, __u64 *pair, __u64 now_ns, __u32 cost)
{
	__u64 index, elapsed, old, new;
	bool sliding;
	__u32 number;
	int i, r;

	if (!l || !pair || !l->window_ns)
		return LIMIT_OK;
	sliding = l->algorithm == WEIR_ALGO_SLIDING_WINDOW;
	index = now_ns / l->window_ns;
	elapsed = (now_ns - index * l->window_ns) >> (l->tick_shift & 63);
	number = weir_window_number(index,
				    sliding ? WEIR_SLIDING_NUMBER_BITS : WEIR_FIXED64_NUMBER_BITS);
	for (i = 0; i < WEIR_CAS_TRIES; i++) {
		old = *(volatile __u64 *)pair;
		r = sliding ? weir_sliding_take(old, number, elapsed,
						l->window_ns >> (l->tick_shift & 63), cost,
						l->limit, &new)
			    : weir_fixed_take64(old, number, cost, l->limit, &new);
		if (!r)
			return LIMIT_OVER;
		if (__sync_val_compare_and_swap(pair, old, new) == old)
			return LIMIT_OK;
	}
	return LIMIT_CONTENDED;
}

/* Index of the limit's first word and of its penalty word, in a slot of @v6. */
static __always_inline __u32 state_word(struct weir_limit *l, bool v6)
{
	return v6 ? l->word6 : l->word4;
}

static __always_inline __u32 penalty_word(struct weir_limit *l, bool v6)
{
	return v6 ? l->penalty6 : l->penalty4;
}

/* Word @w of the @n in a slot, or NULL. The barriers keep the compiler from testing one copy of @w and using another, or
 * from shifting it before the test: the verifier must see the test on the register that is used.
 */
static __always_inline __u32 *word_at(__u32 *words, __u64 w, __u64 n)
{
	__asm__ volatile("" : "+r"(w));
	if (w >= n)
		return NULL;
	__asm__ volatile("" : "+r"(w));
	return words + w;
}

/* One limit on the @n words of a slot. */
static __always_inline int charge_limit(const struct charge *k, struct weir_limit *l, __u32 *words,
					__u32 n, bool v6)
{
	__u32 *word = word_at(words, state_word(l, v6), n), *penalty, *pair;
	int r;

	if (!word)
		return LIMIT_OK;
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		r = charge_bucket(k, l, word);
	} else if (!(l->flags & WEIR_LIMIT_PAIR)) {
		r = charge_fixed32(l, word, k->now_ns, limit_cost(l, k->pkt));
	} else {
		/* 8-byte aligned: words 1 and 2 behind a 4-byte tag, any even one behind 8 bytes */
		pair = v6 ? word_at(words, state_word(l, v6) & ~1u, n - 1) : &words[1];
		if (!pair)
			return LIMIT_OK;
		r = charge_pair(l, (__u64 *)pair, k->now_ns, limit_cost(l, k->pkt));
	}
	if (r != LIMIT_OVER)
		return r;
	penalty = word_at(words, penalty_word(l, v6), n);
	if (penalty)
		penalise(k, l, penalty, word);
	return r;
}

/* Is the source in the block_for time of this limit? */
static __always_inline bool in_penalty(const struct charge *k, struct weir_limit *l, __u32 *words,
				       __u32 n, bool v6)
{
	__u32 *penalty = k->shared ? NULL : word_at(words, penalty_word(l, v6), n);

	return penalty && weir_penalty_active(*penalty, k->now_ns, l->block_ms);
}

static __always_inline void count_limit(const struct charge *k, struct weir_limit *l, int r)
{
	struct weir_limit_counts *c = &k->count->limit[l->stat & (WEIR_STATS_MAX - 1)];
	struct weir_count *n = r == LIMIT_OVER ? &c->over : &c->pass;

	n->packets++;
	n->bytes += k->pkt->len;
	/* A word that kept changing: admitted uncharged, and counted. Dropping could hit a polite source. */
	k->count->contended += r == LIMIT_CONTENDED;
}

/* All limits of @group that are in @matched, in order, on the words of a source. Returns 0 to go on, or JUDGED(). */
static __always_inline __u32 judge_words(const struct charge *k, const struct weir_group *group,
					 __u32 matched, __u32 *words, __u32 n, bool v6)
{
	struct weir_limit *l;
	__u32 i, id;
	int r;

	if (group->penalties) {
		for (i = 0; i < n; i++) {
			if (i >= group->n)
				break;
			id = group->limit[i] & (WEIR_LIMITS_MAX - 1);
			l = &k->pol->limit[id];
			if (!in_penalty(k, l, words, n, v6))
				continue;
			count_limit(k, l, LIMIT_OVER);
			if (!(l->flags & WEIR_LIMIT_MONITOR))
				return JUDGED(WEIR_DROP_PENALTY, l->stat);
			matched &= ~(1u << id);
		}
	}
	for (i = 0; i < n; i++) {
		if (i >= group->n)
			break;
		id = group->limit[i] & (WEIR_LIMITS_MAX - 1);
		if (!(matched >> id & 1))
			continue;
		l = &k->pol->limit[id];
		r = charge_limit(k, l, words, n, v6);
		count_limit(k, l, r);
		if (r == LIMIT_OVER && !(l->flags & WEIR_LIMIT_MONITOR))
			return JUDGED(k->shared ? WEIR_DROP_SHARED
				      : group->flags & WEIR_GROUP_DESTINATION
					      ? WEIR_DROP_DESTINATION
					      : WEIR_DROP_LIMIT,
				      l->stat);
	}
	return 0;
}

#endif
