/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Token bucket as GCRA (ITU-T I.371, ATM Forum TM 4.0 4.4.2) in one 32-bit word.
 *
 * The word is the time at which the bucket will be full again, in the limit's own ticks: a token (packet or byte) is
 * 1 << frac_bits ticks, and the *clock* is converted to ticks, not the cost. The charge is therefore exact and only
 * the rate is rounded, by at most half of 1 / mult.
 *
 *	debt = word - now, where 1 <= debt <= burst; what is far from that is no debt
 *	admit if debt + cost <= burst, then word = now + debt + cost
 *
 * Two CPUs read the clock a moment apart: one that reads it, is overtaken by another's charge and only then loads the
 * word sees a debt a little above burst. That is a full bucket, not a stale word: taken for no debt it would hand the
 * source a new burst at every such moment. So up to one burst more is read as full; the compiler of limits sees to it
 * that a burst lasts many steps of the clock in use.
 *
 * With debt 0 exactly `burst` ticks are admitted at once; then `rate`.
 */
#ifndef WEIR_ALGO_BUCKET_H
#define WEIR_ALGO_BUCKET_H

#include "weir/types.h"

/* Clock in ticks. @mult = ticks per second << shift, / 10^9; @shift <= 32: the product wraps modulo 2^64, and bits
 * shift..shift+31 of it are right whatever overflowed above them.
 */
static __always_inline __u32 weir_ticks(__u64 now_ns, __u64 mult, __u8 shift)
{
	return (__u32)((now_ns * mult) >> (shift & 63));
}

/* Debt of @word in ticks: 0 .. burst. A word up to @burst beyond that was written by a CPU whose clock is newer (the
 * coarse clock is used only where a burst lasts many of its steps); what is further away is stale.
 */
static __always_inline __u32 weir_bucket_debt(__u32 word, __u32 now, __u32 burst)
{
	__u32 debt = word - now;

	if (!word || debt > 2 * burst)
		return 0;
	return debt <= burst ? debt : burst;
}

/* A word that means @debt at @now; never 0, which is kept for "no state" (one tick more instead). */
static __always_inline __u32 weir_bucket_word(__u32 now, __u32 debt)
{
	__u32 word = now + debt;

	return word ? word : 1;
}

/* Takes @cost ticks. Returns 1 and *ret_word (to be stored) to admit, 0 to refuse. 2 * burst < 2^32. */
static __always_inline int weir_bucket_take(__u32 word, __u32 now, __u32 cost, __u32 burst,
					    __u32 *ret_word)
{
	__u32 debt = weir_bucket_debt(word, now, burst);

	if (cost > burst - debt)
		return 0;
	*ret_word = weir_bucket_word(now, debt + cost);
	return 1;
}

#endif
