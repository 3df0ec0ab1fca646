/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the sweep releases: slots and words that are idle, those that sources share among them, and no charge of another
 * CPU.
 */
#include <pthread.h>

#include "table_case.h"

static void a_sweep_releases_what_is_idle_and_nothing_else(void **state)
{
	struct world w = every_kind();
	struct weir_sweep s = {}, again = {};
	char text[64];

	(void)state;
	for (int i = 0; i < 100; i++) {
		(void)snprintf(text, sizeof(text), "198.51.100.%d", i);
		assert_true(charge(&w, text, i % 2 ? 0 : 3, 1, i < 50 ? NOW : NOW + MIN));
		(void)snprintf(text, sizeof(text), "2001:db8:0:%x::1", i);
		assert_true(charge(&w, text, i % 2 ? 0 : 3, 1, i < 50 ? NOW : NOW + MIN));
	}
	weir_table_sweep(&w.t, NOW + MIN, 0, BUCKETS4 / 2, &s);
	weir_table_sweep(&w.t, NOW + MIN, BUCKETS4 / 2, BUCKETS4, &s);
	assert_int_equal(s.occupied4, 100);
	assert_int_equal(s.busy4, 50);
	assert_int_equal(s.occupied6, 100);
	assert_int_equal(s.busy6, 50);
	assert_int_equal(s.released, 100);
	weir_table_sweep(&w.t, NOW + MIN, 0, ~0u, &again);
	assert_int_equal(again.occupied4, 50);
	assert_int_equal(again.released, 0);
	for (int i = 50; i < 100; i++) {
		(void)snprintf(text, sizeof(text), "198.51.100.%d", i);
		assert_int_equal(state_of(&w, text, i % 2 ? 0 : 3, NOW + MIN).used, 1);
	}
	weir_table_sweep(&w.t, NOW + HOUR, 0, BUCKETS4, &again);
	for (size_t i = 0; i < BUCKETS4 * sizeof(struct weir_bucket4) / 4; i++)
		assert_int_equal(((const __u32 *)w.t.t4)[i], 0);
	for (size_t i = 0; i < BUCKETS6 * sizeof(struct weir_bucket6) / 4; i++)
		assert_int_equal(((const __u32 *)w.t.t6)[i], 0);
	world_done(&w);
}

/* A word that went idle beside a busy one would mean a debt again once its clock has come round. */
static void a_sweep_clears_idle_words_of_busy_slots(void **state)
{
	struct world w = {.l = limits_new()};
	struct weir_sweep s = {};
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "fast", 100000, 100000);
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, HOUR);
	world_start(&w);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW));
	assert_true(charge(&w, "198.51.100.7", 1, 5, NOW));
	weir_table_sweep(&w.t, NOW + MIN, 0, BUCKETS4, &s);
	assert_int_equal(s.busy4, 1);
	assert_int_equal(words[0], 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 1, NOW + MIN).used, 5);
	/* and the other way round */
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW + 3 * HOUR));
	weir_table_sweep(&w.t, NOW + 3 * HOUR, 0, BUCKETS4, &s);
	assert_int_equal(words[1], 0);
	assert_int_equal(words[2], 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW + 3 * HOUR).used, 5);
	world_done(&w);
}

#define RACE 200000

static void *count_up(void *arg)
{
	__u32 *word = arg, old, new;

	for (int i = 0; i < RACE; i++) {
		do {
			old = __atomic_load_n(word, __ATOMIC_RELAXED);
			if (!weir_fixed_take32(old, weir_window_number(NOW / HOUR, 12), 20, 1,
					       1000000, &new))
				return NULL;
		} while (!__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
	return NULL;
}

/* While another CPU charges, no charge is lost to the sweep or to a look. */
static void a_sweep_loses_no_charge(void **state)
{
	struct world w = {.l = limits_new()};
	struct weir_sweep s = {};
	pthread_t t;
	__u32 *words;

	(void)state;
	limits_window(w.l, "a", WEIR_ALGO_FIXED_WINDOW, 1000000, HOUR);
	world_start(&w);
	assert_int_equal(w.c->policy.limit[0].count_bits, 20);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_int_equal(pthread_create(&t, NULL, count_up, &words[0]), 0);
	for (int i = 0; i < 200; i++) {
		weir_table_sweep(&w.t, NOW, 0, BUCKETS4, &s);
		(void)state_of(&w, "198.51.100.7", 0, NOW);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(s.released, 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, RACE + 1);
	world_done(&w);
}

static const char *const nets[] = {"198.51.100.7", "0.0.0.0", "2001:db8::1", "::"};

/* Every kind of word, in both families and both banks. */
static void a_sweep_clears_idle_words_that_sources_share(void **state)
{
	(void)state;
	for (int bank = 0; bank < 2; bank++) {
		struct world w = every_kind();
		char *other;

		w.c->policy.sources_bank = bank;
		other = (char *)w.t.spill + (bank ? 0 : SPILL_BYTES / 2);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++)
			for (unsigned k = 0; k < KINDS; k++)
				assert_true(spill_charge(&w, nets[s], k, 3, NOW));
		assert_true(all_zero(other, SPILL_BYTES / 2));
		memset(other, 1, SPILL_BYTES / 2);
		weir_table_sweep_spill(&w.t, NOW);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++) {
			for (unsigned k = 0; k < KINDS; k++) {
				struct weir_limit_state st;

				weir_table_state(&w.c->policy, strchr(nets[s], ':') ? 6 : 4, k,
						 spilled(&w, nets[s], k), NOW, &st);
				assert_true(st.used >= 3);
			}
		}
		weir_table_sweep_spill(&w.t, NOW + HOUR);
		for (size_t i = 0; i < SPILL_BYTES / 2; i++)
			assert_int_equal(other[i], 1);
		memset(other, 0, SPILL_BYTES / 2);
		assert_true(all_zero(w.t.spill, SPILL_BYTES));
		world_done(&w);
	}
}

/* 100 Mbit/s wrap in six minutes: what was paid long ago would be owed again. */
static void a_swept_shared_word_is_no_debt_after_a_wrap(void **state)
{
	(void)state;
	for (int swept = 0; swept < 2; swept++) {
		struct world w = {.l = limits_new()};
		struct weir_limit_state st;
		__u64 wrap;

		limits_bucket(w.l, "bytes", 12500000, 12500000)->bytes = true;
		world_start(&w);
		wrap = weir_compile_wrap_ns(&w.c->policy.limit[0]);
		assert_true(spill_charge(&w, nets[0], 0, 12500000, NOW));
		if (swept)
			weir_table_sweep_spill(&w.t, NOW + 2 * SEC);
		weir_table_state(&w.c->policy, 4, 0, spilled(&w, nets[0], 0), NOW + wrap, &st);
		assert_int_equal(st.used > 0, !swept);
		assert_int_equal(spill_charge(&w, nets[0], 0, 1514, NOW + wrap), swept);
		world_done(&w);
	}
}

/* An entry does not say which group wrote it: each may find its own word there. */
static void a_shared_word_stays_while_any_group_may_count_on_it(void **state)
{
	struct world w = {.l = limits_new()};
	const struct weir_limit *l;
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "slow", 1, 100);
	limits_bucket(w.l, "fast", 100000, 100000)->ipv4_prefix = 24;
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, SEC);
	world_start(&w);
	l = w.c->policy.limit;
	assert_int_equal(l[0].word4, 0);
	assert_int_equal(l[1].word4, 0);
	assert_int_equal(w.c->policy.n_groups4, 3);
	words = spilled(&w, nets[0], 2); /* of the third group: whose words 1 and 2 no other has */
	assert_true(charge_words(&l[2], false, true, words, 5, NOW));
	assert_true(charge_words(&l[0], false, true, words, 50, NOW));
	weir_table_sweep_spill(&w.t, NOW + 30 * SEC);
	assert_true(words[0]);
	assert_true(!words[1] && !words[2]);
	weir_table_sweep_spill(&w.t, NOW + 51 * SEC);
	assert_int_equal(words[0], 0);
	/* the other way round, and beside a pair that is busy */
	assert_true(charge_words(&l[1], false, true, words, 100000, NOW + MIN));
	assert_true(charge_words(&l[2], false, true, words, 5, NOW + MIN));
	weir_table_sweep_spill(&w.t, NOW + MIN + SEC / 2);
	assert_true(words[0] && words[1] && words[2]);
	weir_table_sweep_spill(&w.t, NOW + 2 * MIN);
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	world_done(&w);
}

/* No penalty is ever in a shared entry: a word at its place is another group's, or stale. */
static void a_place_for_penalties_keeps_no_shared_word(void **state)
{
	struct world w = {.l = limits_new()};
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "a", 1000, 10)->block_for_ns = 24 * HOUR;
	world_start(&w);
	words = spilled(&w, nets[0], 0);
	words[w.c->policy.limit[0].penalty4] =
		weir_penalty_word(NOW, w.c->policy.limit[0].block_ms);
	weir_table_sweep_spill(&w.t, NOW);
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	world_done(&w);
}

static void a_sweep_of_shared_words_loses_no_charge(void **state)
{
	struct world w = {.l = limits_new()};
	pthread_t t;
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "beside", 1000, 1000);
	limits_window(w.l, "a", WEIR_ALGO_FIXED_WINDOW, 1000000, HOUR);
	limits_bucket(w.l, "stale", 1000, 1000);
	world_start(&w);
	words = spilled(&w, nets[0], 1);
	assert_int_equal(w.c->policy.limit[1].word4, 1);
	assert_true(spill_charge(&w, nets[0], 1, 1, NOW));
	assert_int_equal(pthread_create(&t, NULL, count_up, &words[1]), 0);
	for (int i = 0; i < 200; i++) {
		words[0] = words[2] = (__u32)i + 7; /* idle ones beside it */
		weir_table_sweep_spill(&w.t, NOW);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(words[1] & 0xfffff, RACE + 1);
	weir_table_sweep_spill(&w.t, NOW);
	assert_true(!words[0] && words[1] && !words[2]);
	world_done(&w);
}

static void reset_for_all_forgets_what_sources_share(void **state)
{
	struct world w = every_kind();
	__u8 family;
	union weir_addr a = addr_of(nets[0], &family);

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(nets); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(spill_charge(&w, nets[s], k, 3, NOW));
	weir_table_reset(&w.t, 0, &a, family); /* one source: its net keeps what it owes */
	assert_false(spill_charge(&w, nets[0], 0, 198, NOW));
	for (unsigned k = 0; k < KINDS; k++) {
		weir_table_reset(&w.t, k, NULL, 0);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++) {
			struct weir_limit_state st;

			weir_table_state(&w.c->policy, strchr(nets[s], ':') ? 6 : 4, k,
					 spilled(&w, nets[s], k), NOW, &st);
			assert_int_equal(st.used, 0);
		}
	}
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	free(w.t.spill);
	w.t.spill = NULL; /* tables of a program that is to be replaced come without */
	weir_table_sweep_spill(&w.t, NOW);
	weir_table_reset(&w.t, 0, NULL, 0);
	world_done(&w);
}

/* Of limits per: all: words that are idle go to zero, those that count and those of others stay. */
static void a_sweep_clears_idle_words_of_all(void **state)
{
	struct world w = {.l = limits_new()};
	struct weir_total totals[WEIR_TOTALS] = {};
	const struct weir_limit *l;

	(void)state;
	limits_bucket(w.l, "bucket", 1000, 2000)->per = WEIR_PER_ALL;
	limits_window(w.l, "fixed", WEIR_ALGO_FIXED_WINDOW, 50, SEC)->per = WEIR_PER_ALL;
	limits_window(w.l, "pair", WEIR_ALGO_FIXED_WINDOW, 2000000, SEC)->per = WEIR_PER_ALL;
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, SEC)->per = WEIR_PER_ALL;
	limits_bucket(w.l, "source", 1000, 2000);
	world_start(&w);
	w.t.totals = totals;
	totals[WEIR_TOTALS - 1].pair = 77; /* nobody's */
	for (unsigned i = 0; i < 4; i++) {
		struct weir_limit_state st[WEIR_LIMITS_MAX];

		l = &w.c->policy.limit[i];
		assert_true(charge_words(l, false, false, totals[l->total].word, 3, NOW));
		assert_int_equal(weir_totals_read(&w.t, NOW, st), i + 1);
		assert_int_equal(st[i].limit, i);
		assert_int_equal(st[i].used, 3);
	}
	weir_totals_sweep(&w.t, NOW);
	for (unsigned i = 0; i < 4; i++)
		assert_true(totals[w.c->policy.limit[i].total].pair != 0);
	weir_totals_sweep(&w.t, NOW + 3 * SEC);
	for (unsigned i = 0; i < 4; i++)
		assert_true(totals[w.c->policy.limit[i].total].pair == 0);
	assert_true(totals[WEIR_TOTALS - 1].pair == 77);
	for (unsigned i = 0; i < 4; i++) {
		l = &w.c->policy.limit[i];
		assert_true(charge_words(l, false, false, totals[l->total].word, 3, NOW));
	}
	weir_table_reset(&w.t, 2, NULL, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(totals[w.c->policy.limit[i].total].pair != 0, i != 2);
	w.t.totals = NULL;
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sweep_releases_what_is_idle_and_nothing_else),
		cmocka_unit_test(a_sweep_clears_idle_words_of_busy_slots),
		cmocka_unit_test(a_sweep_loses_no_charge),
		cmocka_unit_test(a_sweep_clears_idle_words_that_sources_share),
		cmocka_unit_test(a_swept_shared_word_is_no_debt_after_a_wrap),
		cmocka_unit_test(a_shared_word_stays_while_any_group_may_count_on_it),
		cmocka_unit_test(a_place_for_penalties_keeps_no_shared_word),
		cmocka_unit_test(a_sweep_of_shared_words_loses_no_charge),
		cmocka_unit_test(a_sweep_clears_idle_words_of_all),
		cmocka_unit_test(reset_for_all_forgets_what_sources_share),
	};

	return cmocka_run_group_tests_name("table_sweep", tests, NULL, NULL);
}
