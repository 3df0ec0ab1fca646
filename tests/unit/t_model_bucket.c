/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The token bucket in one word against two independent models, on random traces at every age of the clock: the same
 * bucket with an unwrapped clock and a plain level, decision by decision; and an ideal bucket in rationals at the rate
 * that the configuration names, which bounds what is admitted and what is refused.
 */
#include "limits.h"
#include "user/base/cleanup.h"
#include "weir/algo.h"

#define STEPS 100000

typedef __int128 i128;
typedef unsigned __int128 u128;

struct one {
	__u64 rate, per_ns, burst;
	__u64 cost_max; /* tokens a packet; 1 = packets */
};

/* As configurations have them: slow, ordinary, bytes, very fast. */
static const struct one limits[] = {
	{3, HOUR, 3, 1},
	{100, SEC, 200, 1},
	{20000, SEC, 20000, 400},
	{1000000, SEC, 64000, 1500},
	{25000000, SEC, 4000000, 1514},
	{1250000000, SEC, 25000000, 9018},
	{12500000000, SEC, 200000000, 65549},
};

static const __u64 ages[] = {0, 40 * MIN, 60 * MIN, 75 * MIN};

static struct weir_limit compile_one(const struct one *o, bool *ret_bytes)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_bucket(l, "a", o->rate, o->burst);
	struct weir_compiled *c;
	struct weir_limit ret;

	n->rate_per_ns = o->per_ns;
	n->bytes = o->cost_max > 1;
	*ret_bytes = n->bytes;
	c = limits_compile(l, NULL);
	ret = c->policy.limit[0];
	weir_compiled_free(c);
	free(l);
	return ret;
}

/* The clock in ticks, never wrapped. */
static u128 ticks_at(const struct weir_limit *l, __u64 now_ns)
{
	return (u128)now_ns * l->mult >> l->shift;
}

/* Random gaps: mostly about what the rate allows, sometimes none, sometimes until the bucket is full and beyond, but
 * less than would let a stale word come round again (the agent's sweep is for those).
 */
static __u64 gap(struct random *r, const struct one *o, const struct weir_limit *l, __u64 cost)
{
	__u64 token_ns = o->per_ns / o->rate, even = (__u64)((u128)cost * o->per_ns / o->rate) + 1;
	__u64 full = (__u64)((u128)o->burst * o->per_ns / o->rate);
	__u64 wrap = weir_compile_wrap_ns(l), max = wrap / 4;
	__u64 g;

	switch (random_below(r, 16)) {
	case 0:
		g = random_below(r, random_below(r, 1024) ? token_ns : 2 * full + 2);
		break;
	case 1:
	case 2:
		g = random_below(r, 4 * token_ns + 4);
		break;
	case 3:
	case 4:
	case 5:
		g = random_below(r, 3 * even);
		break;
	default:
		g = random_below(r, even / 4 + 2);
	}
	return g < max ? g : max;
}

static void run(const struct one *o, const struct weir_limit *l, __u64 start_ns, __u64 seed)
{
	i128 level = l->burst;
	u128 last = ticks_at(l, start_ns);
	/* In units of tokens * per_ns * 1000; what the ideal bucket has been charged. */
	const i128 unit = (i128)o->per_ns * 1000, tick = unit >> l->frac_bits;
	const i128 slack = 2 * tick + 2 * (i128)o->rate * 1000;
	i128 over = 0, under = 0;
	struct random r = {seed};
	__u64 now_ns = start_ns;
	unsigned admitted = 0, i;
	__u32 word = 0, new;

	for (i = 0; i < STEPS; i++) {
		__u64 cost = o->cost_max > 1 ? 60 + random_below(&r, o->cost_max - 59) : 1;
		__u64 dt = gap(&r, o, l, cost);
		__u32 ticks = (__u32)(cost << l->frac_bits);
		u128 at, passed;
		int want, got;

		now_ns += dt;
		at = ticks_at(l, now_ns);
		passed = at - last;
		last = at;
		level = level + (i128)passed < l->burst ? level + (i128)passed : l->burst;
		/* ideal buckets, a thousandth faster and slower */
		over -= (i128)dt * o->rate * 1001;
		over = over > 0 ? over : 0;
		under -= (i128)dt * o->rate * 999;
		under = under > 0 ? under : 0;

		want = ticks <= level;
		got = weir_bucket_take(word, weir_ticks(now_ns, l->mult, l->shift), ticks, l->burst,
				       &new);
		assert_int_equal(got, want);
		if (!got) {
			/* An ideal bucket that is slower by a thousandth has no room either. */
			assert_true(under + (i128)cost * unit > (i128)o->burst * unit - slack);
			continue;
		}
		word = new;
		assert_int_not_equal(word, 0);
		level -= ticks;
		if (!(__u32)(at + (u128)(l->burst - level)))
			level--; /* the word that would be 0 is 1: a tick more of debt */
		admitted++;
		over += (i128)cost * unit;
		under += (i128)cost * unit;
		assert_true(over <= (i128)o->burst * unit + slack);
	}
	assert_true(admitted > STEPS / 100 && admitted < STEPS);
}

static void agrees_at_every_age_of_the_clock(void **state)
{
	bool bytes;

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		struct weir_limit l = compile_one(&limits[k], &bytes);

		for (size_t i = 0; i < ARRAY_LEN(ages); i++)
			run(&limits[k], &l, ages[i], 1 + i + 10 * k);
	}
}

/* The trace begins shortly before the word wraps for the first time, the second, the 1000th, and before the 64-bit
 * product does.
 */
static void agrees_across_every_wrap(void **state)
{
	static const __u64 wraps[] = {1, 2, 1000, 1ull << 31};
	bool bytes;

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		struct weir_limit l = compile_one(&limits[k], &bytes);
		__u64 lead = (__u64)((u128)limits[k].burst * limits[k].per_ns / limits[k].rate);

		for (size_t i = 0; i < ARRAY_LEN(wraps); i++) {
			u128 at = ((u128)wraps[i] << (32 + l.shift)) / l.mult;

			if (wraps[i] == 1ull << 31) /* where the product passes 2^64 */
				at = ((u128)1 << 64) / l.mult;
			if (at > 1ull << 62 || at < lead)
				continue;
			run(&limits[k], &l, (__u64)at - lead, 77 + i + 10 * k);
		}
	}
}

static void admits_exactly_burst_at_once(void **state)
{
	struct random r = {5};
	bool bytes;

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct weir_limit l = compile_one(&limits[k], &bytes);

		for (int i = 0; i < 200; i++) {
			__u32 now = (__u32)random_next(&r), word = 0;
			unsigned n = 0;

			if (i < 8) /* so that the bucket fills exactly at the wrap, and around it */
				now = 0u - l.burst - 4 + i;
			while (n <= limits[k].burst &&
			       weir_bucket_take(word, now, 1u << l.frac_bits, l.burst, &word))
				n++;
			/* If the word passes 0 it is one tick ahead: up to one token fewer. */
			assert_in_range(n, limits[k].burst - (i < 8), limits[k].burst);
			/* and refuses from then on, at that moment */
			for (int j = 0; j < 3; j++)
				assert_false(weir_bucket_take(word, now, 1u << l.frac_bits, l.burst,
							      &word));
		}
	}
}

/* One source at ten times its rate for long: what passes is burst + rate * time. */
static void admits_burst_and_rate_over_time(void **state)
{
	bool bytes;

	(void)state;
	for (size_t k = 1; k < ARRAY_LEN(limits); k++) {
		const struct one *o = &limits[k];
		struct weir_limit l = compile_one(o, &bytes);
		__u64 cost = o->cost_max, step, now_ns = 59 * MIN, admitted = 0, tokens = 0;
		double want;
		__u32 word = 0;

		step = (__u64)((u128)cost * o->per_ns / o->rate / 10);
		step = step ? step : 1;
		for (unsigned i = 0; i < 3000000; i++, now_ns += step)
			if (weir_bucket_take(word, weir_ticks(now_ns, l.mult, l.shift),
					     (__u32)(cost << l.frac_bits), l.burst, &word))
				admitted++;
		tokens = admitted * cost;
		want = (double)o->burst +
		       (double)o->rate * ((double)(now_ns - 59 * MIN) / (double)o->per_ns);
		assert_true((double)tokens <= want * 1.001 + 1);
		assert_true((double)tokens >= (want - (double)cost) * 0.999);
	}
}

/* From the first unit to the last, at every age of the clock and across its wrap. */
static void block_for_lasts_as_long_as_it_says(void **state)
{
	static const __u64 starts[] = {0,
				       40 * MIN,
				       60 * MIN,
				       75 * MIN,
				       (1ull << 52) - 5 * SEC,
				       1ull << 52,
				       (1ull << 52) + 1,
				       (1ull << 52) - (1 << 20)};
	static const __u64 blocks[] = {SEC / 100, SEC, 10 * SEC, 7 * 24 * HOUR, 26 * 24 * HOUR};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		for (size_t k = 0; k < ARRAY_LEN(blocks); k++) {
			__u64 t = starts[i], unit = 1 << WEIR_PENALTY_SHIFT, left;
			__u32 block = (__u32)((blocks[k] + unit - 1) / unit);
			__u32 word = weir_penalty_word(t, block);

			assert_int_not_equal(word, 0);
			for (int step = 0; step < 1000; step++) {
				__u64 dt = (blocks[k] - unit) / 1000 * (unsigned)step;

				assert_true(weir_penalty_active(word, t + dt, block));
				left = (__u64)weir_penalty_left(word, t + dt, block) * unit;
				assert_in_range(left + dt, blocks[k] - unit, blocks[k] + 2 * unit);
			}
			/* one unit more where the word would be 0 */
			assert_false(weir_penalty_active(word, t + (block + 1) * unit, block));
			assert_false(
				weir_penalty_active(word, t + (block + 1) * unit + HOUR, block));
		}
	}
}

/* The coarse clock of a CPU may be a jiffy behind: a penalty that is a little too long is a whole one. */
static void an_older_clock_sees_the_whole_penalty(void **state)
{
	struct random r = {13};

	(void)state;
	for (int i = 0; i < 10000; i++) {
		__u64 newer = (1ull << 30) + random_below(&r, 1ull << 54);
		__u64 older = newer - random_below(&r, (WEIR_PENALTY_AHEAD - 1) << 20);
		__u32 block = 1 + (__u32)random_below(&r, WEIR_PENALTY_MAX);
		__u32 word = weir_penalty_word(newer, block);

		assert_int_equal(weir_penalty_left(word, older, block), block);
		assert_int_equal(weir_penalty_left(word, newer - (64ull << 20), block), 0);
	}
}

/* A CPU that has read the clock, and is then overtaken by another's charge, must not take a full bucket for an idle
 * one.
 */
static void an_older_clock_never_gets_a_new_burst(void **state)
{
	struct random r = {9};
	__u32 burst = 4000000;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		__u32 newer = (__u32)random_next(&r),
		      older = newer - (__u32)random_below(&r, burst / 16), word = 0;

		if (i < 100)
			newer = i, older = newer - 200;
		assert_true(
			weir_bucket_take(word, newer, burst, burst, &word)); /* full to the brim */
		assert_false(weir_bucket_take(word, older, 1514, burst, &word));
	}
}

static void zero_is_idle_at_every_age(void **state)
{
	struct random r = {11};

	(void)state;
	for (int i = 0; i < 100000; i++) {
		__u32 now = (__u32)random_next(&r), burst = 1 + (__u32)random_below(&r, 1u << 30),
		      new;

		if (i < 1000)
			now = 0u - 500 + i;
		assert_int_equal(weir_bucket_debt(0, now, burst), 0);
		assert_true(weir_bucket_take(0, now, burst, burst, &new));
		assert_false(weir_penalty_active(0, (__u64)now << WEIR_PENALTY_SHIFT, burst));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_at_every_age_of_the_clock),
		cmocka_unit_test(agrees_across_every_wrap),
		cmocka_unit_test(admits_exactly_burst_at_once),
		cmocka_unit_test(admits_burst_and_rate_over_time),
		cmocka_unit_test(block_for_lasts_as_long_as_it_says),
		cmocka_unit_test(an_older_clock_sees_the_whole_penalty),
		cmocka_unit_test(an_older_clock_never_gets_a_new_burst),
		cmocka_unit_test(zero_is_idle_at_every_age),
	};

	return cmocka_run_group_tests_name("model_bucket", tests, NULL, NULL);
}
