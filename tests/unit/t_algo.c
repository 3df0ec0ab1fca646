/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The algorithms on words that two threads share, as two CPUs do; and when a word may be given to another source. */
#include <pthread.h>
#include <sched.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "weir/algo.h"
#include "weir/idle.h"

/* --- two threads ---- */

#define THREADS 2
#define TRIES	400000

struct shared {
	__u64 state;	/* the words */
	__u64 clock;	/* what time it is, moved by all */
	__u64 admitted; /* tokens */
	struct weir_limit l;
	int (*take)(const struct weir_limit *l, __u64 now_ns, __u64 state, __u64 *ret);
	__u64 step_ns; /* by which the clock moves with each try; 0: it stands still */
	pthread_barrier_t start;
};

static int take_bucket(const struct weir_limit *l, __u64 now_ns, __u64 state, __u64 *ret)
{
	__u32 word;

	if (!weir_bucket_take((__u32)state, weir_ticks(now_ns, l->mult, l->shift),
			      1u << l->frac_bits, l->burst, &word))
		return 0;
	*ret = word;
	return 1;
}

static int take_fixed32(const struct weir_limit *l, __u64 now_ns, __u64 state, __u64 *ret)
{
	__u32 word;

	if (!weir_fixed_take32((__u32)state,
			       weir_window_number(now_ns / l->window_ns, 32 - l->count_bits),
			       l->count_bits, 1, (__u32)l->limit, &word))
		return 0;
	*ret = word;
	return 1;
}

static int take_fixed64(const struct weir_limit *l, __u64 now_ns, __u64 state, __u64 *ret)
{
	return weir_fixed_take64(state,
				 weir_window_number(now_ns / l->window_ns,
						    WEIR_FIXED64_NUMBER_BITS),
				 1, l->limit, ret);
}

static int take_sliding(const struct weir_limit *l, __u64 now_ns, __u64 state, __u64 *ret)
{
	__u64 index = now_ns / l->window_ns;

	return weir_sliding_take(state, weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
				 (now_ns - index * l->window_ns) >> l->tick_shift,
				 l->window_ns >> l->tick_shift, 1, (__u32)l->limit, ret);
}

static void *charge(void *arg)
{
	struct shared *s = arg;
	__u64 admitted = 0, now, old, new;

	pthread_barrier_wait(&s->start);
	for (int i = 0; i < TRIES; i++) {
		now = __atomic_add_fetch(&s->clock, s->step_ns, __ATOMIC_RELAXED);
		if (i % 64 == 0)
			(void)sched_yield(); /* lets the other charge with a newer clock first */
		do {
			old = __atomic_load_n(&s->state, __ATOMIC_RELAXED);
			if (!s->take(&s->l, now, old, &new))
				goto next;
		} while (!__atomic_compare_exchange_n(&s->state, &old, new, false, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
		admitted++;
	next:;
	}
	(void)__atomic_fetch_add(&s->admitted, admitted, __ATOMIC_RELAXED);
	return NULL;
}

static __u64 admitted_by_threads(struct shared *s)
{
	pthread_t t[THREADS];

	s->state = 0;
	s->admitted = 0;
	assert_int_equal(pthread_barrier_init(&s->start, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, charge, s), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	pthread_barrier_destroy(&s->start);
	return s->admitted;
}

static struct weir_limit compile_one(struct limits *l)
{
	struct weir_compiled *c = limits_compile(l, NULL);
	struct weir_limit ret = c->policy.limit[0];

	weir_compiled_free(c);
	free(l);
	return ret;
}

static void two_threads_admit_exactly_the_limit(void **state)
{
	struct shared s = {.clock = 40 * MIN};
	struct limits *l;

	(void)state;
	l = limits_new();
	limits_bucket(l, "a", 100000, 200000);
	s.l = compile_one(l);
	s.take = take_bucket;
	assert_int_equal(admitted_by_threads(&s), 200000);
	l = limits_new();
	limits_window(l, "a", WEIR_ALGO_FIXED_WINDOW, 300000, SEC);
	s.l = compile_one(l);
	s.take = take_fixed32;
	assert_int_equal(admitted_by_threads(&s), 300000);
	s.take = take_fixed64;
	assert_int_equal(admitted_by_threads(&s), 300000);
	s.take = take_sliding;
	assert_int_equal(admitted_by_threads(&s), 300000);
}

/* Each thread acts on a clock that the other has moved on since; when the scheduler takes its turn, by far. All of the
 * run lasts 80 ms of that clock, which is less than a burst or a window, so that no clock is older than the algorithms
 * allow for. No burst is granted twice: what passes is burst + rate * time.
 */
static void clocks_that_differ_admit_no_more(void **state)
{
	struct shared s = {.clock = 40 * MIN, .step_ns = 100, .take = take_bucket};
	struct limits *l = limits_new();

	(void)state;
	limits_bucket(l, "a", 1000000, 200000);
	s.l = compile_one(l);
	assert_in_range(admitted_by_threads(&s), 279000, 280000 * 1.001);
}

/* One window's edge is crossed: the limit passes before it and after it, whichever window a thread believes to be in. */
static void windows_that_differ_admit_no_more(void **state)
{
	const __u64 start_ns = 40 * MIN + 60 * SEC / 1000;
	struct shared s = {.clock = start_ns, .step_ns = 100};
	struct limits *l = limits_new();

	(void)state;
	limits_window(l, "a", WEIR_ALGO_FIXED_WINDOW, 100000, SEC / 10);
	s.l = compile_one(l);
	s.take = take_fixed32;
	assert_int_equal(admitted_by_threads(&s), 200000);
	s.clock = start_ns;
	s.take = take_fixed64;
	assert_int_equal(admitted_by_threads(&s), 200000);
	/* after the edge 40 of 100 ms slide out */
	s.clock = start_ns;
	s.take = take_sliding;
	assert_in_range(admitted_by_threads(&s), 139000, 140001);
}

/* --- idle ---- */

static bool fixed_counts(__u32 stored, __u64 count, __u64 now_ns, __u64 window_ns, __u8 bits)
{
	__u32 number = weir_window_number(now_ns / window_ns, bits);

	return count && (stored == number || stored == weir_window_next(number, bits));
}

/* The interval form against the plain meaning, for words near every edge and random ones. */
static void check_word(const struct weir_limit *l, __u8 role, __u64 now_ns, __u32 word)
{
	struct weir_idle idle = weir_idle_of(l, role, now_ns);
	__u32 number;
	bool busy;

	if (role == WEIR_WORD_PENALTY) {
		if (!l->block_ms)
			return; /* no such word */
		busy = weir_penalty_active(word, now_ns, l->block_ms);
	} else if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		busy = weir_bucket_debt(word, weir_ticks(now_ns, l->mult, l->shift), l->burst) != 0;
	} else if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW) {
		number = weir_window_number(now_ns / l->window_ns, WEIR_SLIDING_NUMBER_BITS);
		busy = role == WEIR_WORD_HIGH && word &&
		       (fixed_counts(word >> 18, 1, now_ns, l->window_ns,
				     WEIR_SLIDING_NUMBER_BITS) ||
			weir_window_next(word >> 18, WEIR_SLIDING_NUMBER_BITS) == number);
	} else if (l->flags & WEIR_LIMIT_PAIR) {
		busy = role == WEIR_WORD_HIGH &&
		       fixed_counts(word >> 8, 1, now_ns, l->window_ns, WEIR_FIXED64_NUMBER_BITS);
	} else {
		busy = fixed_counts(word >> l->count_bits, word & ((1u << l->count_bits) - 1),
				    now_ns, l->window_ns, 32 - l->count_bits);
		/* Number 0 is never stored: between the last number and the first it may read either way. */
		if (!(word >> l->count_bits))
			return;
		/* The next window with a count of 0 is never stored either. */
		if (!(word & ((1u << l->count_bits) - 1)))
			return;
	}
	if (l->flags & WEIR_LIMIT_PAIR && role == WEIR_WORD_HIGH &&
	    !(word >> (l->algorithm == WEIR_ALGO_SLIDING_WINDOW ? 18 : 8)))
		return;
	assert_int_equal(weir_idle_busy(idle, word), busy);
	assert_false(weir_idle_busy(idle, 0));
}

static void busy_is_what_still_matters(void **state)
{
	static const __u64 ages[] = {0,	       1,	    40 * MIN,	 60 * MIN,
				     75 * MIN, 16382 * SEC, 16383 * SEC, 16384 * SEC};
	struct limits *l = limits_new();
	struct random r = {3};
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "bucket", 1000, 5000);
	limits_bucket(l, "blocking", 1000, 5000)->block_for_ns = MIN;
	limits_window(l, "fixed", WEIR_ALGO_FIXED_WINDOW, 500, SEC)->block_for_ns = MIN;
	limits_window(l, "pair", WEIR_ALGO_FIXED_WINDOW, 5000000, SEC);
	limits_window(l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 500, SEC)->block_for_ns = SEC;
	c = limits_compile(l, NULL);
	for (size_t a = 0; a < ARRAY_LEN(ages); a++) {
		for (unsigned k = 0; k < 5; k++) {
			const struct weir_limit *m = &c->policy.limit[k];

			for (__u8 role = WEIR_WORD_STATE; role <= WEIR_WORD_PENALTY; role++) {
				struct weir_idle idle = weir_idle_of(m, role, ages[a]);

				if (role == WEIR_WORD_HIGH && !(m->flags & WEIR_LIMIT_PAIR))
					continue;
				for (int d = -300; d < 300; d++) {
					check_word(m, role, ages[a], idle.lo + d);
					check_word(m, role, ages[a], idle.lo + idle.range + d);
				}
				for (int i = 0; i < 20000; i++)
					check_word(m, role, ages[a], (__u32)random_next(&r));
			}
		}
	}
	weir_compiled_free(c);
	free(l);
}

/* Across the wrap of window numbers, too: what was just charged is busy, and idle again when it is over. */
static void what_was_charged_is_busy_until_it_is_over(void **state)
{
	static const enum weir_algorithm algorithms[] = {WEIR_ALGO_FIXED_WINDOW,
							 WEIR_ALGO_SLIDING_WINDOW};
	struct weir_limit l;

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct limits *c = limits_new();
		__u64 wrap, now, pair = 0;
		__u32 word = 0;
		__u8 role;

		limits_window(c, "a", algorithms[k == 2], k == 1 ? 5000000 : 500, SEC);
		l = compile_one(c);
		wrap = weir_compile_wrap_ns(&l);
		role = l.flags & WEIR_LIMIT_PAIR ? WEIR_WORD_HIGH : WEIR_WORD_STATE;
		for (now = wrap - 6 * SEC; now < wrap + 6 * SEC; now += SEC) {
			if (k == 0) {
				assert_true(take_fixed32(&l, now, 0, &pair));
				word = (__u32)pair;
			} else {
				assert_true(
					(k == 1 ? take_fixed64 : take_sliding)(&l, now, 0, &pair));
				word = pair >> 32;
			}
			assert_true(weir_idle_busy(weir_idle_of(&l, role, now), word));
			assert_true(weir_idle_busy(weir_idle_of(&l, role, now - SEC),
						   word)); /* older clock */
			assert_int_equal(weir_idle_busy(weir_idle_of(&l, role, now + SEC), word),
					 k == 2);
			assert_false(weir_idle_busy(weir_idle_of(&l, role, now + 2 * SEC), word));
		}
	}
}

/* What the compiler prepares for the program's scan says the same as weir_idle_of. */
static void prepared_groups_agree(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	const struct weir_group *g;

	(void)state;
	limits_bucket(l, "bucket", 1000, 5000)->block_for_ns = MIN;
	limits_window(l, "fixed", WEIR_ALGO_FIXED_WINDOW, 500, SEC)->block_for_ns = MIN;
	c = limits_compile(l, NULL);
	g = &c->policy.group6[0];
	assert_int_equal(g->flags, WEIR_GROUP_WINDOWS);
	for (__u64 now = 0; now < 80 * MIN; now += MIN / 7) {
		for (int w = 0; w < WEIR_WORDS6; w++) {
			struct weir_idle i =
				weir_idle_of(&c->policy.limit[g->owner[w] & 31], g->role[w], now);

			if (g->role[w] == WEIR_WORD_STATE && g->owner[w] == 1)
				continue; /* a window: the program asks weir_idle_of itself */
			assert_int_equal(g->idle[w].range, i.range);
			if (i.range)
				assert_int_equal(weir_ticks(now, g->idle[w].mult,
							    g->idle[w].shift) +
							 1,
						 i.lo);
		}
	}
	weir_compiled_free(c);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_threads_admit_exactly_the_limit),
		cmocka_unit_test(clocks_that_differ_admit_no_more),
		cmocka_unit_test(windows_that_differ_admit_no_more),
		cmocka_unit_test(busy_is_what_still_matters),
		cmocka_unit_test(what_was_charged_is_busy_until_it_is_over),
		cmocka_unit_test(prepared_groups_agree),
	};

	return cmocka_run_group_tests_name("algo", tests, NULL, NULL);
}
