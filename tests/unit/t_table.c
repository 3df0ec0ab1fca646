/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State tables from user space: found where the program puts it, told in tokens and times that are right to the tick, and
 * forgotten on demand.
 */
#include "table_case.h"

static void state_is_found_where_the_program_puts_it(void **state)
{
	struct world w = every_kind();

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		for (unsigned k = 0; k < KINDS; k++) {
			struct weir_limit_state before = state_of(&w, sources[s], k, NOW), st;

			assert_true(charge(&w, sources[s], k, 1, NOW));
			assert_true(charge(&w, sources[s], k, 2, NOW));
			st = state_of(&w, sources[s], k, NOW);
			assert_int_equal(st.used, before.used + 3);
			assert_int_equal(st.capacity, w.l->item[k].burst ? w.l->item[k].burst
									 : w.l->item[k].limit);
			assert_int_equal(st.blocked_ns, 0);
			assert_int_equal(st.retry_ns, 0);
			assert_true(st.full_again_ns > 0);
			/* and gone when it says so */
			st = state_of(&w, sources[s], k, NOW + st.full_again_ns);
			assert_int_equal(st.used, 0);
		}
	}
	world_done(&w);
}

/* Neighbours share what the prefix length says, and nothing else. */
static void sources_share_state_by_prefix(void **state)
{
	struct world w = every_kind();

	(void)state;
	assert_true(charge(&w, "192.0.2.1", 5, 7, NOW));
	assert_int_equal(state_of(&w, "192.0.2.200", 5, NOW).used, 7);
	assert_int_equal(state_of(&w, "192.0.3.1", 5, NOW).used, 0);
	assert_true(charge(&w, "192.0.2.1", 0, 7, NOW));
	assert_int_equal(state_of(&w, "192.0.2.2", 0, NOW).used, 0);
	assert_true(charge(&w, "2001:db8:1:2:3::4", 0, 7, NOW));
	assert_int_equal(state_of(&w, "2001:db8:1:2:5::6", 0, NOW).used, 7);
	assert_int_equal(state_of(&w, "2001:db8:1:3::4", 0, NOW).used, 0);
	assert_true(charge(&w, "2001:db8:1:2:3::4", 6, 7, NOW));
	assert_int_equal(state_of(&w, "2001:db8:1:2:3::4", 6, NOW).used, 7);
	assert_int_equal(state_of(&w, "2001:db8:1:2:3::5", 6, NOW).used, 0);
	/* clients behind a translator are told apart; other /64s of its /32 are not taken for them */
	assert_true(charge(&w, "64:ff9b::192.0.2.1", 0, 7, NOW));
	assert_int_equal(state_of(&w, "64:ff9b::192.0.2.2", 0, NOW).used, 0);
	assert_int_equal(state_of(&w, "64:ff9b::192.0.2.1", 0, NOW).used, 7);
	assert_int_equal(state_of(&w, "64:ff9b:1::192.0.2.1", 0, NOW).used, 0);
	world_done(&w);
}

/* What is sent to an address says nothing of what it sends. */
static void only_a_sender_has_state_as_a_source(void **state)
{
	struct world w = every_kind();
	__u8 family;
	union weir_addr a;

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		a = addr_of(sources[s], &family);
		assert_true(charge(&w, sources[s], 8, 3, NOW));
		assert_true(charge(&w, sources[s], 9, 3, NOW));
		assert_false(weir_table_has(&w.t, &a, family));
		assert_int_equal(state_of(&w, sources[s], 0, NOW).used, 0);
	}
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		a = addr_of(sources[s], &family);
		assert_true(charge(&w, sources[s], 0, 1, NOW));
		assert_true(weir_table_has(&w.t, &a, family));
	}
	world_done(&w);
}

static void the_highest_slot_counts(void **state)
{
	struct world w = {.l = limits_new()};
	__u32 *words, copy[4], i;
	struct weir_bucket4 *b;

	(void)state;
	limits_bucket(w.l, "a", 100, 200);
	world_start(&w);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW));
	b = (struct weir_bucket4 *)((uintptr_t)words & ~63ull);
	memcpy(copy, words - 1, sizeof(copy));
	assert_ptr_equal(&b->slot[3].word, words);
	memcpy(&b->slot[1], copy, sizeof(copy));
	b->slot[1].word[0] += 10 << w.c->policy.limit[0].frac_bits;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 5);
	for (i = 0; i < 4; i++)
		b->slot[3].word[i % 3] = 0;
	b->slot[3].addr = 0;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 15);
	world_done(&w);
}

/* What `weir explain` promises: refused until then, admitted from then on. */
static void retry_is_the_moment_of_the_next_admission(void **state)
{
	struct random r = {17};

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct world w = every_kind();
		__u64 now = NOW + random_below(&r, 3600 * SEC), slack;
		unsigned k = random_below(&r, KINDS), n = 0;
		struct weir_limit_state st;
		__u32 *words, saved[8];

		if (k == 2)
			assert_true(charge(&w, sources[3], k, 1999990, now));
		while (charge(&w, sources[3], k, 1, now)) {
			n++;
			now += random_below(&r, SEC / 2000);
		}
		st = state_of(&w, sources[3], k, now);
		assert_true(n && st.retry_ns > 0);
		assert_int_equal(st.blocked_ns > 0, k == 1 || k == 4);
		assert_true(st.blocked_ns <= 10 * SEC + (1 << 20) + SEC / 1000);
		assert_true(st.full_again_ns >= st.retry_ns);
		words = slot(&w, sources[3], k);
		memcpy(saved, words, 24);
		/* A tick of the bucket is about a millisecond, a penalty's 2^20 ns. */
		slack = w.l->item[k].algorithm == WEIR_ALGO_TOKEN_BUCKET || k == 1 ? 2 * (1 << 20)
										   : 1000;
		if (k == 1) { /* penalty and window: the later one */
			assert_true(st.retry_ns >= st.blocked_ns);
			assert_int_equal(state_of(&w, sources[3], k, now + st.retry_ns).blocked_ns,
					 0);
		} else if (st.retry_ns > slack) {
			assert_false(charge(&w, sources[3], k, 1, now + st.retry_ns - slack));
			memcpy(words, saved, 24);
		}
		assert_true(charge(&w, sources[3], k, 1, now + st.retry_ns));
		world_done(&w);
	}
}

struct seen {
	unsigned n, busy;
	char text[64][WEIR_PREFIX_STRLEN];
	unsigned group[64];
};

static int note(void *arg, const struct weir_prefix *source, unsigned group, const __u32 *words,
		bool busy)
{
	struct seen *s = arg;

	assert_non_null(words);
	assert_true(s->n < 64);
	s->group[s->n] = group;
	weir_prefix_format(source, s->text[s->n++]);
	s->busy += busy;
	return 0;
}

static int stop_at_once(void *arg, const struct weir_prefix *source, unsigned group,
			const __u32 *words, bool busy)
{
	(void)source;
	(void)group;
	(void)words;
	(void)busy;
	++*(int *)arg;
	return 7;
}

static bool has(const struct seen *s, const char *text)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->text[i], text))
			return true;
	print_error("%s was not seen\n", text);
	return false;
}

static void a_walk_tells_each_source(void **state)
{
	struct world w = every_kind();
	struct seen v4 = {}, v6 = {};
	int calls = 0;

	(void)state;
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_true(charge(&w, "0.0.0.0", 0, 1, NOW));
	assert_true(charge(&w, "192.0.2.77", 5, 1, NOW));
	assert_true(charge(&w, "192.0.2.77", 7, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 0, 1, NOW));
	assert_true(charge(&w, "64:ff9b::192.0.2.1", 0, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 5, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 6, 1, NOW));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW, note, &v4), 0);
	assert_int_equal(v4.n, 4);
	assert_int_equal(v4.busy, 4);
	assert_true(has(&v4, "198.51.100.7") && has(&v4, "0.0.0.0") && has(&v4, "192.0.2.0/24") &&
		    has(&v4, "0.0.0.0/0"));
	assert_int_equal(weir_table_walk(&w.t, 6, NOW, note, &v6), 0);
	assert_int_equal(v6.n, 4);
	assert_true(has(&v6, "2001:db8:1:2::/64") && has(&v6, "64:ff9b::c000:201") &&
		    has(&v6, "2001:db8:1::/48") && has(&v6, "2001:db8:1:2:3::4"));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW, stop_at_once, &calls), 7);
	assert_int_equal(calls, 1);
	memset(&v4, 0, sizeof(v4));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW + HOUR, note, &v4), 0);
	assert_int_equal(v4.n, 4);
	assert_int_equal(v4.busy, 0);
	world_done(&w);
}

static void reset_forgets_one_limit_of_one_source_or_of_all(void **state)
{
	struct world w = every_kind();
	__u8 family;
	union weir_addr a = addr_of(sources[0], &family);

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(charge(&w, sources[s], k, 3, NOW));
	while (charge(&w, sources[0], 1, 1, NOW))
		;
	assert_true(state_of(&w, sources[0], 1, NOW).blocked_ns > 0);
	weir_table_reset(&w.t, 1, &a, family);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 3);
	assert_int_equal(state_of(&w, sources[3], 1, NOW).used, 3);
	assert_true(charge(&w, sources[0], 1, 3, NOW));
	for (unsigned k = 0; k < KINDS; k++) {
		weir_table_reset(&w.t, k, NULL, 0);
		for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
			assert_int_equal(state_of(&w, sources[s], k, NOW).used, 0);
			if (k + 1 < KINDS)
				assert_true(state_of(&w, sources[s], k + 1, NOW).used >= 3);
		}
	}
	world_done(&w);
}

/* A policy that belongs to larger tables must not lead outside of these. */
static void a_region_outside_the_table_is_left_alone(void **state)
{
	struct world w = every_kind();
	struct weir_sweep s = {};

	(void)state;
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_true(charge(&w, "2001:db8::1", 0, 1, NOW));
	w.t.buckets4 = 16;
	w.t.buckets6 = 0;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 0);
	assert_int_equal(state_of(&w, "2001:db8::1", 0, NOW).used, 0);
	weir_table_sweep(&w.t, NOW, 0, ~0u, &s);
	weir_table_reset(&w.t, 0, NULL, 0);
	assert_int_equal(s.occupied4, 0);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_is_found_where_the_program_puts_it),
		cmocka_unit_test(sources_share_state_by_prefix),
		cmocka_unit_test(only_a_sender_has_state_as_a_source),
		cmocka_unit_test(the_highest_slot_counts),
		cmocka_unit_test(retry_is_the_moment_of_the_next_admission),
		cmocka_unit_test(a_walk_tells_each_source),
		cmocka_unit_test(reset_forgets_one_limit_of_one_source_or_of_all),
		cmocka_unit_test(a_region_outside_the_table_is_left_alone),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
