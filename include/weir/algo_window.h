/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fixed window and sliding-window counter on packed words. Windows are aligned to multiples of their length since
 * the clock's zero. A CPU whose clock is older than the stored window counts in the stored one: a window is never
 * reset backwards.
 *
 * A window's number is stored modulo the bits that are left for it, less one, plus one: it is never 0, so that a
 * zero word is "no state". A word is stale unless its number is the current one, the next (stored by a CPU with a
 * newer clock) or, for the sliding counter, the previous one. What remains: a source that is silent for exactly the
 * modulus (see weir_window_modulus) in windows meets its old count for at most one window.
 */
#ifndef WEIR_ALGO_WINDOW_H
#define WEIR_ALGO_WINDOW_H

#include "weir/types.h"

/* Number of window @index (now / length) in @number_bits bits: 1 .. 2^bits - 1. */
static __always_inline __u32 weir_window_number(__u64 index, __u8 number_bits)
{
	return (__u32)(index % ((1ull << (number_bits & 63)) - 1)) + 1;
}

/* The number that follows @number. */
static __always_inline __u32 weir_window_next(__u32 number, __u8 number_bits)
{
	return number == (__u32)((1ull << (number_bits & 63)) - 1) ? 1 : number + 1;
}

/* Fixed window in one word: number << count_bits | count. @limit < 2^count_bits, 1 <= count_bits <= 20.
 * @number is weir_window_number(now / length, 32 - count_bits). Returns 1 and *ret_word to admit @cost.
 */
static __always_inline int weir_fixed_take32(__u32 word, __u32 number, __u8 count_bits, __u32 cost,
					     __u32 limit, __u32 *ret_word)
{
	__u32 stored = word >> (count_bits & 31), count = word & ((1u << (count_bits & 31)) - 1);

	if (stored == weir_window_next(number, 32 - count_bits) && word)
		number = stored; /* our clock is the older one */
	else if (stored != number)
		count = 0;
	if (count > limit || cost > limit - count)
		return 0;
	*ret_word = number << (count_bits & 31) | (count + cost);
	return 1;
}

/* Fixed window in a pair (one 64-bit value): number << 40 | count. @limit < 2^40. @number has 24 bits. */
#define WEIR_FIXED64_COUNT_BITS	 40
#define WEIR_FIXED64_NUMBER_BITS 24
static __always_inline int weir_fixed_take64(__u64 word, __u32 number, __u64 cost, __u64 limit,
					     __u64 *ret_word)
{
	__u32 stored = (__u32)(word >> WEIR_FIXED64_COUNT_BITS);
	__u64 count = word & ((1ull << WEIR_FIXED64_COUNT_BITS) - 1);

	if (stored == weir_window_next(number, WEIR_FIXED64_NUMBER_BITS) && word)
		number = stored;
	else if (stored != number)
		count = 0;
	if (count > limit || cost > limit - count)
		return 0;
	*ret_word = (__u64)number << WEIR_FIXED64_COUNT_BITS | (count + cost);
	return 1;
}

/* Sliding-window counter in a pair: number << 50 | current << 25 | previous. @limit < 2^25.
 * Product form, in integers: admit if current * W + previous * (W - e) + cost * W <= limit * W, where e is the time
 * since the window began and W its length, both in ticks; limit * W < 2^62. It estimates a true sliding window by
 * assuming that the previous window's packets were spread evenly; its worst case in one true window is 2 * limit, as
 * for the fixed window.
 */
#define WEIR_SLIDING_COUNT_BITS	 25
#define WEIR_SLIDING_NUMBER_BITS 14
static __always_inline int weir_sliding_take(__u64 word, __u32 number, __u64 elapsed, __u64 window,
					     __u32 cost, __u32 limit, __u64 *ret_word)
{
	const __u64 mask = (1u << WEIR_SLIDING_COUNT_BITS) - 1;
	__u32 stored = (__u32)(word >> (2 * WEIR_SLIDING_COUNT_BITS));
	__u64 current = (word >> WEIR_SLIDING_COUNT_BITS) & mask, previous = word & mask;

	if (!word) {
		current = 0;
		previous = 0;
	} else if (stored == weir_window_next(number, WEIR_SLIDING_NUMBER_BITS)) {
		number = stored; /* our clock is the older one: at the start of the stored window */
		elapsed = 0;
	} else if (number == weir_window_next(stored, WEIR_SLIDING_NUMBER_BITS)) {
		previous = current;
		current = 0;
	} else if (stored != number) {
		current = 0;
		previous = 0;
	}
	if (cost > limit ||
	    current * window + previous * (window - elapsed) + cost * window > limit * window)
		return 0;
	*ret_word = (__u64)number << (2 * WEIR_SLIDING_COUNT_BITS) |
		    (current + cost) << WEIR_SLIDING_COUNT_BITS | previous;
	return 1;
}

#endif
