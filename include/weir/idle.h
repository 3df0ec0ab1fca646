/* SPDX-License-Identifier: GPL-2.0-or-later */
/* May a slot be given to another source? Only if each of its words is idle: holds neither debt, count nor penalty that
 * still matters at @now_ns. Used by the XDP program for a newcomer whose bucket has no free slot, and by the agent's
 * sweep. One form for all kinds of words, so that a scan computes it once per word of the group and then spends a
 * subtraction and a comparison per slot:
 *
 *	busy = word != 0 && (u32)(word - lo) < range
 *
 * bucket      debt = word - now is a debt if 1 <= debt <= burst, and up to burst above that if it was written by a
 *             CPU with a newer clock: lo = now + 1, range = 2 * burst
 * penalty     the same with now = now_ns >> 20, block_ms instead of burst, and 32 units for a newer clock
 * fixed       number << c | count with the current number or the next one (newer clock), which follow each other:
 *             lo = (number << c) + 1, range = (2 << c) - 1; the + 1 leaves out a count of 0. Counts up to `burst` are
 *             left out as well: they are not worth a slot
 * pair        its high word holds number << c | upper bits of a count, c = 8 (fixed) or 18 (sliding); a pair is only
 *             ever written with a count above 0. Fixed: lo = number << c, range = 2 << c. Sliding also needs the
 *             previous number: lo = previous << c, range = 3 << c. The low word says nothing: range 0
 *
 * Numbers run from 1 to 2^bits - 1, so that where they start again one value is left out, the never used 0; the range
 * is then one step longer. Arithmetic modulo 2^32 does the rest.
 */
#ifndef WEIR_IDLE_H
#define WEIR_IDLE_H

#include "weir/algo.h"
#include "weir/policy.h"
#include "weir/types.h"

struct weir_idle {
	__u32 lo;
	__u32 range; /* 0: never busy */
};

static __always_inline int weir_idle_busy(struct weir_idle i, __u32 word)
{
	return word && word - i.lo < i.range;
}

/* Words first << c | 0 .. (first + n) << c | all ones, where @number is the current window and @back of the n lie
 * before it.
 */
static __always_inline struct weir_idle weir_idle_window(__u32 number, __u8 number_bits, __u32 back,
							 __u32 n)
{
	__u32 last = (__u32)((1ull << (number_bits & 63)) - 1);
	__u32 first = number > back ? number - back : last + number - back;
	__u8 c = (32 - number_bits) & 31;
	struct weir_idle i;

	if (first > last - n + 1)
		n++; /* passes over the unused 0 */
	i.lo = first << c;
	i.range = n << c;
	return i;
}

/* When is a word with @role busy that holds state of @l (the word's owner)? */
static __always_inline struct weir_idle weir_idle_of(const struct weir_limit *l, __u8 role,
						     __u64 now_ns)
{
	struct weir_idle i = {0, 0};
	__u64 index;

	if (role == WEIR_WORD_PENALTY) {
		i.lo = (__u32)(now_ns >> WEIR_PENALTY_SHIFT) + 1;
		i.range = l->block_ms + WEIR_PENALTY_AHEAD;
		return i;
	}
	if (role == WEIR_WORD_STATE && l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		i.lo = weir_ticks(now_ns, l->mult, l->shift) + 1;
		i.range = 2 * l->burst;
		return i;
	}
	if (role != ((l->flags & WEIR_LIMIT_PAIR) ? WEIR_WORD_HIGH : WEIR_WORD_STATE) ||
	    !l->window_ns)
		return i;
	index = now_ns / l->window_ns;
	if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		return weir_idle_window(weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
					WEIR_SLIDING_NUMBER_BITS, 1, 3);
	if (l->flags & WEIR_LIMIT_PAIR)
		return weir_idle_window(weir_window_number(index, WEIR_FIXED64_NUMBER_BITS),
					WEIR_FIXED64_NUMBER_BITS, 0, 2);
	i = weir_idle_window(weir_window_number(index, 32 - l->count_bits), 32 - l->count_bits, 0,
			     2);
	i.lo += 1 + l->burst;
	i.range -= 1 + l->burst;
	return i;
}

/* Fills @g->idle and the flag of windows from owner, role and the policy's limits. For who makes a policy. */
static __always_inline void weir_group_prepare(const struct weir_limit *limit, struct weir_group *g)
{
	int i;

	g->flags &= (__u8)~WEIR_GROUP_WINDOWS;
	for (i = 0; i < WEIR_WORDS6; i++) {
		const struct weir_limit *l = &limit[g->owner[i] & (WEIR_LIMITS_MAX - 1)];
		struct weir_idle_word *w = &g->idle[i];

		w->mult = 0;
		w->range = 0;
		w->shift = 0;
		if (g->role[i] == WEIR_WORD_PENALTY) {
			w->mult = 1;
			w->shift = WEIR_PENALTY_SHIFT;
			w->range = l->block_ms + WEIR_PENALTY_AHEAD;
		} else if (g->role[i] == WEIR_WORD_STATE &&
			   l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
			w->mult = l->mult;
			w->shift = l->shift;
			w->range = 2 * l->burst;
		} else if (g->role[i] != WEIR_WORD_FREE) {
			g->flags |= WEIR_GROUP_WINDOWS;
		}
	}
}

#endif
