/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The units in which a limit counts: how its clock and burst become ticks, how many bits a window's count gets, how
 * block_for is rounded, what is too slow, too fast or too large. Called by compile.c.
 */
#include <errno.h>

#include "user/base/str.h"
#include "user/datapath/compile_int.h"
#include "weir/algo.h"

/* A bucket's clock is always taken times 2^32: the finest that algo_bucket.h allows. */
#define SHIFT	     32
#define MULT_WANTED  (1u << 12) /* rate exact to 0.012 % */
#define MAX_FRAC     31
#define MAX_BURST    (1u << 30) /* twice that is half of a word: the rest must mean "idle" */
#define ONE_WORD_MAX 20		/* bits of count in a one-word window */
#define SLIDING_MAX  ((1u << WEIR_SLIDING_COUNT_BITS) - 1)
#define FIXED_MAX    ((1ull << WEIR_FIXED64_COUNT_BITS) - 1)

/* The coarse clock stands still for a jiffy. A source's tokens then arrive in lumps of a jiffy's worth, and a window's
 * edge is late by up to a jiffy. From 16 jiffies a burst holds 16 lumps (a steady source at its rate never meets an
 * empty bucket, and at no time is more than 1/16 of a burst given too early); from 64 jiffies a window's edge is off by
 * at most 1.6 %. Below, the program reads the fine clock, which costs every packet some 25 ns.
 */
#define COARSE_BURST_JIFFIES  16
#define COARSE_WINDOW_JIFFIES 64

typedef unsigned __int128 u128;

/* --- token bucket ---- */

/* rate * 2^(frac + SHIFT) / per, rounded. False if it does not fit. */
static bool mult_of(__u64 rate, __u64 per_ns, __u8 frac, __u64 *ret)
{
	u128 q = (((u128)rate << (frac + SHIFT)) + per_ns / 2) / per_ns;

	if (q > ~0ull)
		return false;
	*ret = (__u64)q;
	return true;
}

/* Is @mult within 0.1 % of the rate? */
static bool exact_enough(__u64 rate, __u64 per_ns, __u8 frac, __u64 mult)
{
	u128 want = (u128)rate << (frac + SHIFT), have = (u128)mult * per_ns;
	u128 off = want > have ? want - have : have - want;

	return mult && off <= want / 1000;
}

static __u64 ticks_to_ns(u128 ticks, __u64 mult)
{
	u128 ns = (ticks << SHIFT) / mult;

	return ns > ~0ull ? ~0ull : (__u64)ns;
}

/* Sets frac_bits, mult and burst if they are exact enough and fit. */
static bool bucket_with(const struct weir_conf_limit *l, __u8 frac, struct weir_limit *ret)
{
	u128 burst = (u128)l->burst << frac;
	__u64 mult;

	if (!mult_of(l->rate, l->rate_per_ns, frac, &mult) ||
	    !exact_enough(l->rate, l->rate_per_ns, frac, mult))
		return false;
	if (burst > MAX_BURST)
		return false;
	ret->mult = mult;
	ret->shift = SHIFT;
	ret->frac_bits = frac;
	ret->burst = (__u32)burst;
	return true;
}

/* Says which of rate and burst is in the way. */
static int bucket_refuse(const struct weir_conf_limit *l, struct weir_error *e)
{
	struct weir_rate rate = {.amount = l->rate, .per_ns = l->rate_per_ns, .bytes = l->bytes};
	char r[WEIR_STR_MAX], a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	__u64 mult = 0;
	__u8 frac = 0;

	weir_str_format_rate(&rate, r);
	if (!mult_of(l->rate, l->rate_per_ns, 0, &mult))
		return weir_error_set(e, -EINVAL,
				      "rate %s is too fast to be counted (at most 4 a nanosecond)",
				      r);
	while (!exact_enough(l->rate, l->rate_per_ns, frac, mult) && frac < MAX_FRAC) {
		frac++;
		if (!mult_of(l->rate, l->rate_per_ns, frac, &mult))
			break;
	}
	if (!exact_enough(l->rate, l->rate_per_ns, frac, mult))
		return weir_error_set(
			e, -EINVAL,
			"rate %s is too slow for a token bucket (use algorithm: fixed-window)", r);
	weir_str_format_amount(l->burst, l->bytes, a);
	weir_str_format_amount(MAX_BURST >> frac, l->bytes, b);
	return weir_error_set(e, -EINVAL,
			      "burst %s is too large at rate %s (set burst: to %s or less; without "
			      "one it is one second's worth)",
			      a, r, b);
}

static int bucket_units(const struct weir_conf_limit *l, const struct weir_limit *was,
			struct weir_limit *ret, struct weir_error *e)
{
	__u64 mult = 0;
	int frac;

	if (!l->rate || !l->rate_per_ns)
		return weir_error_set(e, -EINVAL,
				      "rate is 0 (at least one packet or byte in some time)");
	if (!l->burst)
		return weir_error_set(e, -EINVAL,
				      "burst is 0 and nothing would ever pass (at least 1)");
	/* The units in force, if the rate is the same: then state can stay where it is. */
	if (was && was->shift == SHIFT && was->frac_bits <= MAX_FRAC &&
	    mult_of(l->rate, l->rate_per_ns, was->frac_bits, &mult) && mult == was->mult &&
	    bucket_with(l, was->frac_bits, ret))
		return 0;
	/* As few fraction bits as make the rate exact: each one halves the time until the word wraps. */
	for (frac = 0; frac < MAX_FRAC; frac++)
		if (!mult_of(l->rate, l->rate_per_ns, frac, &mult) || mult >= MULT_WANTED)
			break;
	for (; frac >= 0; frac--)
		if (bucket_with(l, frac, ret))
			return 0;
	return bucket_refuse(l, e);
}

static bool bucket_needs_fine_clock(const struct weir_conf_limit *l, __u64 jiffy_ns)
{
	/* A burst is also how far the clocks of two CPUs may be apart (algo_bucket.h). */
	return (u128)l->burst * l->rate_per_ns < (u128)l->rate * jiffy_ns * COARSE_BURST_JIFFIES;
}

/* --- windows ---- */

static __u8 bit_length(__u64 v)
{
	return v ? 64 - __builtin_clzll(v) : 0;
}

static int window_units(const struct weir_conf_limit *l, const struct weir_limit *was,
			struct weir_limit *ret, struct weir_error *e)
{
	bool sliding = l->algorithm == WEIR_ALGO_SLIDING_WINDOW;
	__u64 max = sliding ? SLIDING_MAX : FIXED_MAX;
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	if (!l->window_ns)
		return weir_error_set(e, -EINVAL, "window is 0 (a time, such as 1s)");
	if (!l->limit)
		return weir_error_set(e, -EINVAL,
				      "limit is 0 and nothing would ever pass (at least 1; to "
				      "refuse all, block the sources)");
	if (l->limit > max)
		return weir_error_set(
			e, -EINVAL,
			"limit %s is too large for one window (at most %s; use a shorter window%s)",
			weir_str_format_amount(l->limit, l->bytes, a),
			weir_str_format_amount(max, l->bytes, b),
			sliding ? ", or algorithm: token-bucket" : "");
	ret->window_ns = l->window_ns;
	ret->limit = l->limit;
	if (sliding) {
		/* By the largest possible count, not by this limit, so that a new limit does not change the ticks. */
		while (l->window_ns >> ret->tick_shift >= 1ull << (62 - WEIR_SLIDING_COUNT_BITS))
			ret->tick_shift++;
		ret->flags |= WEIR_LIMIT_PAIR;
	} else if (bit_length(l->limit) > ONE_WORD_MAX) {
		ret->flags |= WEIR_LIMIT_PAIR;
	} else if (was && !(was->flags & WEIR_LIMIT_PAIR) && was->count_bits <= ONE_WORD_MAX &&
		   bit_length(l->limit) <= was->count_bits) {
		ret->count_bits = was->count_bits;
	} else {
		/* One bit more than needed: a limit may be doubled in place. */
		ret->count_bits = bit_length(l->limit) + 1;
		if (ret->count_bits > ONE_WORD_MAX)
			ret->count_bits = ONE_WORD_MAX;
	}
	return 0;
}

/* --- block_for ---- */

static int penalty_units(const struct weir_conf_limit *l, struct weir_limit *ret,
			 struct weir_error *e)
{
	__u64 unit_ns = 1ull << WEIR_PENALTY_SHIFT, block;
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	block = l->block_for_ns / unit_ns + !!(l->block_for_ns % unit_ns);
	if (block > WEIR_PENALTY_MAX)
		return weir_error_set(e, -EINVAL, "block_for %s is too long (at most %s)",
				      weir_str_format_duration(l->block_for_ns, a),
				      weir_str_format_duration(26 * 86400ull * 1000000000, b));
	ret->block_ms = (__u32)block;
	return 0;
}

int weir_units_of(const struct weir_conf_limit *l, const struct weir_limit *was, __u64 jiffy_ns,
		  struct weir_limit *ret, bool *ret_fine, struct weir_error *e)
{
	int r;

	if (l->per != WEIR_PER_SOURCE && l->block_for_ns)
		return weir_error_set(e, -EINVAL, "block_for is for limits per: source");
	if (l->ipv4_prefix > 32 || l->ipv6_prefix > 128)
		return weir_error_set(
			e, -EINVAL,
			"prefix length %u is out of range (ipv4_prefix 0-32, ipv6_prefix 0-128)",
			l->ipv4_prefix > 32 ? l->ipv4_prefix : l->ipv6_prefix);
	ret->algorithm = l->algorithm;
	ret->flags = (l->mode == WEIR_MODE_MONITOR ? WEIR_LIMIT_MONITOR : 0) |
		     (l->bytes ? WEIR_LIMIT_BYTES : 0) | (l->block_for_ns ? WEIR_LIMIT_BLOCK : 0) |
		     (l->per == WEIR_PER_DESTINATION ? WEIR_LIMIT_DESTINATION : 0) |
		     (l->per == WEIR_PER_ALL ? WEIR_LIMIT_ALL : 0);
	ret->word4 = ret->word6 = ret->penalty4 = ret->penalty6 = WEIR_NO_LIMIT;
	r = penalty_units(l, ret, e);
	if (r < 0)
		return r;
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		r = bucket_units(l, was, ret, e);
		if (r == 0)
			*ret_fine = bucket_needs_fine_clock(l, jiffy_ns);
		return r;
	}
	r = window_units(l, was, ret, e);
	if (r == 0)
		*ret_fine = l->window_ns / COARSE_WINDOW_JIFFIES < jiffy_ns;
	return r;
}

/* --- what `weir check` tells ---- */

__u64 weir_compile_new_sources_per_second(const struct weir_policy *p, unsigned limit, int family,
					  __u32 buckets, __u64 jiffy_ns)
{
	const struct weir_group *groups = family == 4 ? p->group4 : p->group6;
	unsigned n = family == 4 ? p->n_groups4 : p->n_groups6, i;
	const struct weir_limit *l = &p->limit[limit];
	u128 slots, busy_ns, rate;

	for (i = 0; i < n; i++)
		if (groups[i].limits >> limit & 1)
			break;
	if (i == n)
		return 0;
	slots = 1ull << groups[i].bits;
	slots = (slots < buckets ? slots : buckets) * WEIR_WAYS;
	/* How long one packet of a new source keeps its slot busy; of bytes, a full frame. */
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		busy_ns =
			ticks_to_ns((u128)(l->flags & WEIR_LIMIT_BYTES ? 1514 : 1) << l->frac_bits,
				    l->mult);
	else
		busy_ns = (u128)l->window_ns * (l->algorithm == WEIR_ALGO_SLIDING_WINDOW ? 2 : 1);
	/* The coarse clock moves, and so forgives, only once a jiffy. */
	if (!(p->flags & WEIR_POLICY_FINE_CLOCK) && busy_ns < jiffy_ns)
		busy_ns = jiffy_ns;
	rate = slots * 1000000000 / 4 / (busy_ns ? busy_ns : 1);
	return rate > ~0ull ? ~0ull : (__u64)rate;
}

double weir_compile_rate_error(const struct weir_conf_limit *l, const struct weir_limit *c)
{
	u128 want, have;

	if (c->algorithm != WEIR_ALGO_TOKEN_BUCKET || !l->rate)
		return 0;
	want = (u128)l->rate << (c->frac_bits + c->shift);
	have = (u128)c->mult * l->rate_per_ns;
	return (double)(want > have ? want - have : have - want) / (double)want;
}

__u64 weir_compile_wrap_ns(const struct weir_limit *c)
{
	u128 ns;

	if (c->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		return c->mult ? ticks_to_ns((u128)1 << 32, c->mult) : ~0ull;
	if (c->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		ns = (1 << WEIR_SLIDING_NUMBER_BITS) - 1;
	else if (c->flags & WEIR_LIMIT_PAIR)
		ns = (1 << WEIR_FIXED64_NUMBER_BITS) - 1;
	else
		ns = (1ull << (32 - c->count_bits)) - 1;
	ns *= c->window_ns;
	return ns > ~0ull ? ~0ull : (__u64)ns;
}
