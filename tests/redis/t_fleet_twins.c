/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two agents that take themselves for the same one: a virtual machine that was copied with its state_dir and its name. */
#include "redis/fleet_case.h"

static void copy_file(const char *from, const char *to)
{
	const char *const argv[] = {"cp", from, to, NULL};

	assert_int_equal(run_cmdv(0, NULL, 0, argv), 0);
}

static void make_twins(struct fix *f)
{
	agent_start(f, &f->a[0]);
	add(&f->a[0], "192.0.2.1", "command", 0, "before");
	assert_true(fix_wait(f, all_settled(f, 1) && f->a[0].has_secret, 10000));
	agent_stop(&f->a[0]);
	copy_file(f->a[0].db, f->a[1].db);
	(void)snprintf(f->a[1].host, sizeof(f->a[1].host), "%s", f->a[0].host);
	agent_start(f, &f->a[2]);
	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	assert_true(all_have(f, 3, "192.0.2.1", true));
}

static void what_either_of_two_twins_says_is_kept(void **state)
{
	struct fix *f = *state;
	char prefix[32];

	make_twins(f);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(prefix, sizeof(prefix), "198.51.100.%d", i);
		add(&f->a[i % 2], prefix, "command", 0, "of a twin");
		if (i % 4 == 1) /* both at once, and one after the other */
			assert_true(fix_wait(f, all_settled(f, 3), 5000));
	}
	assert_true(fix_wait(f, all_same(f, 3), 5000));
	for (int i = 0; i < 20; i++) {
		(void)snprintf(prefix, sizeof(prefix), "198.51.100.%d", i);
		if (!all_have(f, 3, prefix, true))
			fail_msg("%s was lost", prefix);
	}
}

/* Else each would grant half of a limit instead of a third while the store is away. */
static void twins_are_counted_as_two(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_agent of[8];

	make_twins(f);
	assert_true(fix_wait(f, weir_fleet_live_agents(f->a[2].f) == 3, 8000));
	assert_true(fix_wait(f, weir_fleet_live_agents(f->a[0].f) == 3, 3000));
	(void)fix_wait(f, false, 3000); /* and not more and more of them */
	assert_true(weir_fleet_agents(f->a[2].f, of, 8) <= 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_set_up, fix_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(what_either_of_two_twins_says_is_kept),
		TEST(twins_are_counted_as_two),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
