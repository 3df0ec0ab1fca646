/* SPDX-License-Identifier: GPL-2.0-or-later */
/* block_for in a 32-bit word of its own, the same for every algorithm: the time at which the source is free again, in
 * units of 2^20 ns (about a millisecond). It is written once when the source exceeds the limit, and not extended by
 * what arrives while it lasts. When the time is over the source begins anew: a bucket's word was set to zero together
 * with it, so that the first packets find the whole burst; a window's count stays until its window ends.
 *
 * Two CPUs read the clock a moment apart (the coarse one moves in steps of up to 10 ms): a word a little further ahead
 * than block_for was written by a newer clock, and is a whole penalty, not a stale word.
 */
#ifndef WEIR_ALGO_PENALTY_H
#define WEIR_ALGO_PENALTY_H

#include "weir/types.h"

#define WEIR_PENALTY_SHIFT 20 /* ns to units */
#define WEIR_PENALTY_MAX                                                                           \
	(1u << 31)	      /* of block_ms, 26 days: half of the values must mean "no penalty" */
#define WEIR_PENALTY_AHEAD 32 /* units by which another CPU's clock may be newer */

/* The word of a source that has just exceeded a limit; never 0, which is "no state" (one unit more instead). */
static __always_inline __u32 weir_penalty_word(__u64 now_ns, __u32 block_ms)
{
	__u32 word = (__u32)(now_ns >> WEIR_PENALTY_SHIFT) + block_ms;

	return word ? word : 1;
}

/* Units of the penalty that are left: 0 (none) .. block_ms. */
static __always_inline __u32 weir_penalty_left(__u32 word, __u64 now_ns, __u32 block_ms)
{
	__u32 left = word - (__u32)(now_ns >> WEIR_PENALTY_SHIFT);

	if (!word || left > block_ms + WEIR_PENALTY_AHEAD)
		return 0;
	return left <= block_ms ? left : block_ms;
}

static __always_inline int weir_penalty_active(__u32 word, __u64 now_ns, __u32 block_ms)
{
	return weir_penalty_left(word, now_ns, block_ms) != 0;
}

#endif
