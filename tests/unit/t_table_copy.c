/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State that is taken along into tables with another layout: in the new units and places, clamped to the new limits. */
#include "table_case.h"

static void a_copy_keeps_what_was_used_in_new_units_and_places(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item, swap;
	__u64 used[ARRAY_LEN(sources)][KINDS];

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(charge(&w, sources[s], k, 3 + k, NOW));
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			used[s][k] = state_of(&w, sources[s], k, NOW).used;
	n[0].rate = 3; /* many more fraction bits */
	n[0].rate_per_ns = MIN;
	n[1].limit = 3000000; /* one word to a pair */
	n[1].block_for_ns = 0;
	n[2].limit = 1000; /* a pair to one word */
	n[3].limit = 1000;
	n[4].rate = 100000;
	n[4].burst = 100000;
	swap = n[0];
	n[0] = n[3];
	n[3] = swap;
	assert_int_equal(world_change(&w, NOW), 0);
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		for (unsigned k = 0; k < KINDS; k++) {
			unsigned at = k == 0 ? 3 : k == 3 ? 0 : k;

			assert_int_equal(state_of(&w, sources[s], at, NOW).used, used[s][k]);
		}
	}
	world_done(&w);
}

static void a_copy_clamps_to_smaller_limits(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;
	static const unsigned burst[] = {150, 40, 1500000, 80};

	(void)state;
	for (unsigned k = 0; k < 4; k++)
		assert_true(charge(&w, sources[0], k, burst[k], NOW));
	n[0].burst = 20;
	n[1].limit = 5;
	n[2].limit = 7;
	n[3].limit = 8;
	assert_int_equal(world_change(&w, NOW), 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 20);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 5);
	assert_int_equal(state_of(&w, sources[0], 2, NOW).used, 7);
	assert_int_equal(state_of(&w, sources[0], 3, NOW).used, 8);
	for (unsigned k = 0; k < 4; k++) {
		assert_false(charge(&w, sources[0], k, 1, NOW));
		assert_true(state_of(&w, sources[0], k, NOW).retry_ns > 0);
	}
	world_done(&w);
}

static void a_copy_keeps_penalties(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;

	(void)state;
	while (charge(&w, sources[0], 1, 1, NOW))
		;
	while (charge(&w, sources[0], 4, 1, NOW))
		;
	n[0].rate = 101;
	n[4].rate = 3; /* other ticks */
	n[4].rate_per_ns = MIN;
	assert_int_equal(world_change(&w, NOW + 4 * SEC), 0);
	assert_in_range(state_of(&w, sources[0], 1, NOW + 4 * SEC).blocked_ns, 5990000000,
			6010000000);
	assert_in_range(state_of(&w, sources[0], 4, NOW + 4 * SEC).blocked_ns, 5990000000,
			6010000000);
	/* shorter from now on: at most that long */
	n[1].block_for_ns = 2 * SEC;
	n[4].block_for_ns = 2 * SEC;
	assert_int_equal(world_change(&w, NOW + 5 * SEC), 0);
	assert_in_range(state_of(&w, sources[0], 1, NOW + 5 * SEC).blocked_ns, 1990000000,
			2010000000);
	assert_in_range(state_of(&w, sources[0], 4, NOW + 5 * SEC).blocked_ns, 1990000000,
			2010000000);
	assert_int_equal(state_of(&w, sources[0], 1, NOW + 8 * SEC).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 8 * SEC).blocked_ns, 0);
	/* none at all any more: it begins anew */
	n[4].block_for_ns = 0;
	assert_int_equal(world_change(&w, NOW + 6 * SEC), 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 6 * SEC).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 6 * SEC).used, 0);
	world_done(&w);
}

static void a_copy_leaves_other_limits_empty(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;

	(void)state;
	for (unsigned k = 0; k < KINDS; k++)
		assert_true(charge(&w, sources[0], k, 3, NOW));
	(void)snprintf(n[0].name, sizeof(n[0].name), "renamed");
	n[3].window_ns = SEC;
	n[5].ipv4_prefix = 25;
	assert_int_equal(world_change(&w, NOW), 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 3, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 5, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 3);
	world_done(&w);
}

/* 4096 slots are full; a limit more halves their region: what finds no room is counted, the rest is there. */
static void a_copy_says_what_found_no_room(void **state)
{
	struct world w = {.l = limits_new()};
	unsigned put = 0, found = 0;
	char text[32];
	__u64 lost;

	(void)state;
	limits_bucket(w.l, "a", 1, 10);
	world_start(&w);
	for (int i = 0; i < 65536 && put < 3900; i++) {
		(void)snprintf(text, sizeof(text), "10.0.%d.%d", i >> 8, i & 255);
		if (slot(&w, text, 0)) {
			assert_true(charge(&w, text, 0, 3, NOW));
			put++;
		}
	}
	for (int i = 0; i < 3; i++) {
		(void)snprintf(text, sizeof(text), "more%d", i);
		limits_bucket(w.l, text, 1, 10);
	}
	lost = world_change(&w, NOW);
	for (int i = 0; i < 65536; i++) {
		(void)snprintf(text, sizeof(text), "10.0.%d.%d", i >> 8, i & 255);
		found += state_of(&w, text, 0, NOW).used == 3;
	}
	assert_true(lost > 0);
	assert_int_equal(found + lost, put);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_keeps_what_was_used_in_new_units_and_places),
		cmocka_unit_test(a_copy_clamps_to_smaller_limits),
		cmocka_unit_test(a_copy_keeps_penalties),
		cmocka_unit_test(a_copy_leaves_other_limits_empty),
		cmocka_unit_test(a_copy_says_what_found_no_room),
	};

	return cmocka_run_group_tests_name("table_copy", tests, NULL, NULL);
}
