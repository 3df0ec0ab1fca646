/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fixed window and sliding-window counter in packed words against a plain model that keeps window numbers and counts
 * in full, decision by decision, on random traces: at every age of the clock, across every wrap of the number, and with
 * clocks that are a moment behind.
 */
#include "limits.h"
#include "user/base/cleanup.h"
#include "weir/algo.h"

#define STEPS 100000

typedef unsigned __int128 u128;

static const __u64 ages[] = {0, 40 * MIN, 60 * MIN, 75 * MIN};

struct one {
	__u64 limit, window_ns;
	__u64 cost_max;
};

static const struct one fixed[] = {
	{1, SEC, 1},
	{500, SEC, 1},
	{1000000, MIN, 9018},
	{1 << 20, SEC, 1514},
	{100000000000ull, 10 * SEC, 1000000000},
	{7, HOUR, 1},
	{20, 300 * (SEC / 1000), 3},
};
static const struct one sliding[] = {
	{1, SEC, 1},  {500, SEC, 1},	 {25000000, SEC, 1514}, {33554431, 48 * HOUR, 65549},
	{10, MIN, 3}, {100, SEC / 3, 1},
};

static struct weir_limit compile_one(const struct one *o, enum weir_algorithm algorithm)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	struct weir_limit ret;

	limits_window(l, "a", algorithm, o->limit, o->window_ns);
	c = limits_compile(l, NULL);
	ret = c->policy.limit[0];
	weir_compiled_free(c);
	free(l);
	return ret;
}

/* Mostly dense enough to meet the limit, now and then up to a few windows of silence. */
static __u64 gap(struct random *r, const struct one *o, __u64 cost)
{
	__u64 even = (__u64)((u128)cost * o->window_ns / o->limit) + 1;

	if (!random_below(r, 1 + 3 * o->limit / cost))
		return random_below(r, 4 * o->window_ns);
	return random_below(r, 1 + (random_below(r, 4) ? even : 3 * even));
}

static __u64 cost_of(struct random *r, const struct one *o)
{
	return o->cost_max > 1 ? 1 + random_below(r, o->cost_max) : 1;
}

/* The clock that a CPU acts on: up to @behind_ns older than the newest. */
static __u64 seen_at(struct random *r, __u64 now_ns, __u64 behind_ns)
{
	__u64 d = random_below(r, 3) ? 0 : random_below(r, behind_ns + 1);

	return now_ns > d ? now_ns - d : 0;
}

/* --- fixed window ---- */

static int take_fixed(const struct weir_limit *l, __u64 now_ns, __u64 cost, __u64 *state)
{
	__u64 index = now_ns / l->window_ns, new64;
	__u32 new32;

	if (l->flags & WEIR_LIMIT_PAIR) {
		if (!weir_fixed_take64(*state, weir_window_number(index, WEIR_FIXED64_NUMBER_BITS),
				       cost, l->limit, &new64))
			return 0;
		*state = new64;
		return 1;
	}
	if (!weir_fixed_take32((__u32)*state, weir_window_number(index, 32 - l->count_bits),
			       l->count_bits, (__u32)cost, (__u32)l->limit, &new32))
		return 0;
	*state = new32;
	return 1;
}

static void run_fixed(const struct one *o, const struct weir_limit *l, __u64 start_ns, __u64 seed,
		      __u64 behind_ns)
{
	__u64 now_ns = start_ns, state = 0, index = ~0ull, count = 0;
	struct random r = {seed};
	unsigned refused = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		__u64 cost = cost_of(&r, o), at, k;
		int want;

		now_ns += gap(&r, o, cost);
		at = seen_at(&r, now_ns, behind_ns);
		k = at / o->window_ns;
		/* An older clock counts in the window that is stored, which never goes back. */
		if (index == ~0ull || k != index) {
			if (index != ~0ull && k + 1 == index)
				k = index;
			else
				count = 0;
		}
		want = count + cost <= o->limit;
		assert_int_equal(take_fixed(l, at, cost, &state), want);
		if (want) {
			index = k;
			count += cost;
		} else {
			refused++;
			if (k != index)
				count = 0; /* a refusal stores nothing */
		}
		assert_true(count <= o->limit);
	}
	assert_true(refused > 100 && refused < STEPS - 100);
}

static void fixed_agrees_at_every_age(void **state)
{
	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(fixed); k++) {
		struct weir_limit l = compile_one(&fixed[k], WEIR_ALGO_FIXED_WINDOW);

		for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
			run_fixed(&fixed[k], &l, ages[i], 1 + i + 10 * k, 0);
			run_fixed(&fixed[k], &l, ages[i], 2 + i + 10 * k, fixed[k].window_ns / 64);
		}
	}
}

/* Also where the number of the window starts again, for the first time and later. */
static void fixed_agrees_across_every_wrap(void **state)
{
	static const __u64 wraps[] = {1, 2, 1000};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(fixed); k++) {
		struct weir_limit l = compile_one(&fixed[k], WEIR_ALGO_FIXED_WINDOW);

		for (size_t i = 0; i < ARRAY_LEN(wraps); i++) {
			u128 at = (u128)weir_compile_wrap_ns(&l) * wraps[i];

			if (at < 1ull << 62 && at > 5 * fixed[k].window_ns)
				run_fixed(&fixed[k], &l, (__u64)at - 5 * fixed[k].window_ns,
					  50 + i + 10 * k, fixed[k].window_ns / 64);
		}
	}
}

/* --- sliding-window counter ---- */

static int take_sliding(const struct weir_limit *l, __u64 now_ns, __u64 cost, __u64 *state)
{
	__u64 index = now_ns / l->window_ns, new;

	if (!weir_sliding_take(*state, weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
			       (now_ns - index * l->window_ns) >> l->tick_shift,
			       l->window_ns >> l->tick_shift, (__u32)cost, (__u32)l->limit, &new))
		return 0;
	*state = new;
	return 1;
}

static void run_sliding(const struct one *o, const struct weir_limit *l, __u64 start_ns, __u64 seed,
			__u64 behind_ns)
{
	__u64 now_ns = start_ns, state = 0, index = 0, current = 0, previous = 0;
	struct random r = {seed};
	unsigned refused = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		__u64 cost = cost_of(&r, o), at, k, e, w = o->window_ns >> l->tick_shift, c = 0,
		      p = 0;
		u128 load;
		int want;

		now_ns += gap(&r, o, cost);
		at = seen_at(&r, now_ns, behind_ns);
		k = at / o->window_ns;
		e = (at % o->window_ns) >> l->tick_shift;
		if (k == index) {
			c = current;
			p = previous;
		} else if (current &&
			   k + 1 == index) { /* an older clock: at the start of the stored window */
			c = current;
			p = previous;
			k = index;
			e = 0;
		} else if (k == index + 1) {
			p = current;
		}
		load = (u128)(c + cost) * w + (u128)p * (w - e);
		want = load <= (u128)o->limit * w;
		assert_int_equal(take_sliding(l, at, cost, &state), want);
		if (want) {
			index = k;
			current = c + cost;
			previous = p;
		} else {
			refused++;
		}
		assert_true(current <= o->limit);
	}
	assert_true(refused > 100 && refused < STEPS - 100);
}

static void sliding_agrees_at_every_age(void **state)
{
	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(sliding); k++) {
		struct weir_limit l = compile_one(&sliding[k], WEIR_ALGO_SLIDING_WINDOW);

		for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
			run_sliding(&sliding[k], &l, ages[i], 1 + i + 10 * k, 0);
			run_sliding(&sliding[k], &l, ages[i], 2 + i + 10 * k,
				    sliding[k].window_ns / 64);
		}
	}
}

static void sliding_agrees_across_every_wrap(void **state)
{
	static const __u64 wraps[] = {1, 2, 1000};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(sliding); k++) {
		struct weir_limit l = compile_one(&sliding[k], WEIR_ALGO_SLIDING_WINDOW);

		for (size_t i = 0; i < ARRAY_LEN(wraps); i++) {
			u128 at = (u128)weir_compile_wrap_ns(&l) * wraps[i];

			if (at < 1ull << 62)
				run_sliding(&sliding[k], &l, (__u64)at - 5 * sliding[k].window_ns,
					    50 + i + 10 * k, sliding[k].window_ns / 64);
		}
	}
}

/* With a full previous window, quota comes back evenly as it slides out. */
static void sliding_gives_back_as_the_window_slides(void **state)
{
	__u64 pair = 0, new;
	const __u64 w = SEC;
	int n;

	(void)state;
	for (n = 0; weir_sliding_take(pair, 5, w / 2, w, 1, 100, &new); n++)
		pair = new;
	assert_int_equal(n, 100);
	for (int tenth = 0; tenth <= 10; tenth++) {
		__u64 p = pair;

		for (n = 0; weir_sliding_take(p, 6, w / 10 * tenth, w, 1, 100, &new); n++)
			p = new;
		assert_int_equal(n, 10 * tenth);
	}
}

static void numbers_are_never_zero_and_follow_each_other(void **state)
{
	static const __u8 bits[] = {12, 14, 22, 24, 31};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
		__u64 last = (1ull << bits[i]) - 1;

		for (__u64 index = 0; index < 5000; index++) {
			__u64 at = index < 2500 ? index : last - 1250 + index - 2500;
			__u32 number = weir_window_number(at, bits[i]);

			assert_in_range(number, 1, last);
			assert_int_equal(weir_window_number(at + 1, bits[i]),
					 weir_window_next(number, bits[i]));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_agrees_at_every_age),
		cmocka_unit_test(fixed_agrees_across_every_wrap),
		cmocka_unit_test(sliding_agrees_at_every_age),
		cmocka_unit_test(sliding_agrees_across_every_wrap),
		cmocka_unit_test(sliding_gives_back_as_the_window_slides),
		cmocka_unit_test(numbers_are_never_zero_and_follow_each_other),
	};

	return cmocka_run_group_tests_name("model_window", tests, NULL, NULL);
}
