/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The model that judges what a fleet's lists came to (tests/lib/fleet_model.c): it allows what the contract leaves open, and
 * nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/fleet_model.h"

#define NOW   1000000ull
#define LATER (NOW + 100000)
#define LONG  (NOW + 900000)
#define OPEN  UINT64_MAX

#define ADD(h, s, c, end)                                                                          \
	{                                                                                          \
		.host = (h), .seq = (s), .confirmed = (c), .add = true, .end_ms = (end)            \
	}
#define DEL(h, s, c)                                                                               \
	{                                                                                          \
		.host = (h), .seq = (s), .confirmed = (c)                                          \
	}

static const struct fleet_seen nothing = {.there = false};

static bool allows(const struct fleet_op *op, size_t n, struct fleet_seen seen)
{
	return !fleet_judge(op, n, &seen, NOW);
}
#define ALLOWS(op, ...) allows(op, sizeof(op) / sizeof((op)[0]), __VA_ARGS__)
#define THERE(end, s)	((struct fleet_seen){.there = true, .end_ms = (end), .last = (s)})

static void changes_of_one_host_have_one_outcome(void **state)
{
	const struct fleet_op extended[] = {ADD(1, 1, OPEN, LONG), ADD(1, 2, OPEN, LATER)},
			      deleted[] = {ADD(1, 1, OPEN, LONG), DEL(1, 2, OPEN)},
			      anew[] = {ADD(1, 1, OPEN, LONG), DEL(1, 2, OPEN),
					ADD(1, 3, OPEN, LATER)};

	(void)state;
	assert_true(ALLOWS(extended, THERE(LONG, 2)));
	assert_false(ALLOWS(extended, THERE(LONG, 1))); /* the older reason */
	assert_false(ALLOWS(extended, THERE(LATER, 2)));
	assert_false(ALLOWS(extended, nothing));
	assert_true(ALLOWS(deleted, nothing));
	assert_false(ALLOWS(deleted, THERE(LONG, 1)));
	assert_true(ALLOWS(anew, THERE(LATER, 3)));
	assert_false(ALLOWS(anew, THERE(LONG, 3))); /* a part of it is back */
	assert_false(ALLOWS(anew, THERE(FLEET_FOREVER, 3)));
	assert_false(ALLOWS(anew, nothing));
}

static void concurrent_changes_may_come_in_either_order(void **state)
{
	const struct fleet_op op[] = {ADD(1, 1, OPEN, LONG), DEL(2, 2, OPEN)},
			      two[] = {ADD(1, 1, OPEN, LONG), ADD(2, 2, OPEN, LATER)},
			      tail[] = {DEL(2, 1, OPEN), ADD(1, 2, OPEN, LONG),
					ADD(1, 3, OPEN, LATER)};

	(void)state;
	assert_true(ALLOWS(op, nothing));
	assert_true(ALLOWS(op, THERE(LONG, 1)));
	assert_false(ALLOWS(op, THERE(LATER, 1)));
	assert_true(ALLOWS(two, THERE(LONG, 1)));
	assert_true(ALLOWS(two, THERE(LONG, 2)));
	assert_false(ALLOWS(two, THERE(LATER, 2)));
	assert_false(ALLOWS(two, nothing));
	/* the deletion comes before, between or after them */
	assert_true(ALLOWS(tail, THERE(LONG, 3)));
	assert_true(ALLOWS(tail, THERE(LATER, 3)));
	assert_true(ALLOWS(tail, nothing));
	assert_false(ALLOWS(tail, THERE(LONG, 2))); /* what comes after what counts, counts */
}

static void what_is_known_to_be_in_the_store_comes_first(void **state)
{
	const struct fleet_op op[] = {ADD(1, 1, 2, LONG), DEL(2, 2, OPEN)},
			      back[] = {DEL(2, 1, 2), ADD(1, 2, OPEN, LONG)},
			      two[] = {ADD(1, 1, 2, LONG), ADD(2, 2, OPEN, LATER)};

	(void)state;
	assert_true(ALLOWS(op, nothing));
	assert_false(ALLOWS(op, THERE(LONG, 1)));
	assert_true(ALLOWS(back, THERE(LONG, 2)));
	assert_false(ALLOWS(back, nothing));
	assert_true(ALLOWS(two, THERE(LONG, 2)));
	assert_false(ALLOWS(two, THERE(LONG, 1)));
}

static void between_two_deletions_nothing_survives(void **state)
{
	const struct fleet_op op[] = {ADD(1, 1, 2, LONG), DEL(2, 2, OPEN), DEL(3, 3, OPEN)},
			      own[] = {DEL(2, 1, OPEN), ADD(1, 2, OPEN, LONG), DEL(1, 3, OPEN)};

	(void)state;
	assert_true(ALLOWS(op, nothing));
	assert_false(ALLOWS(op, THERE(LONG, 1)));
	assert_true(ALLOWS(own, nothing));
	assert_false(ALLOWS(own, THERE(LONG, 2)));
}

static void what_may_not_have_counted_explains_both(void **state)
{
	struct fleet_op op[] = {ADD(1, 1, OPEN, LONG), DEL(1, 2, OPEN)},
			cut[] = {ADD(1, 1, OPEN, LATER), ADD(1, 2, OPEN, LONG)};

	(void)state;
	op[1].maybe = true;
	assert_true(ALLOWS(op, nothing));
	assert_true(ALLOWS(op, THERE(LONG, 1)));
	cut[1].maybe = true;
	assert_true(ALLOWS(cut, THERE(LATER, 1)));
	assert_true(ALLOWS(cut, THERE(LONG, 2)));
	assert_false(ALLOWS(cut, THERE(LATER, 2)));
	assert_false(ALLOWS(cut, nothing));
}

static void what_is_over_is_not_there(void **state)
{
	struct fleet_op op[] = {ADD(1, 1, OPEN, NOW - 5), ADD(1, 2, OPEN, NOW - 9)},
			mixed[] = {ADD(1, 1, OPEN, LONG), ADD(1, 2, OPEN, NOW - 9)};

	(void)state;
	op[0].maybe = op[1].maybe = mixed[1].maybe = true;
	assert_true(ALLOWS(op, nothing));
	assert_false(ALLOWS(op, THERE(LONG, 2)));
	assert_true(ALLOWS(mixed, THERE(LONG, 1)));
	assert_true(ALLOWS(mixed, THERE(LONG, 2))); /* its reason came in time */
	assert_false(ALLOWS(mixed, nothing));
}

static void what_nobody_made_is_not_allowed(void **state)
{
	const struct fleet_op op[] = {ADD(1, 1, OPEN, LONG)};

	(void)state;
	assert_non_null(fleet_judge(op, 1, &THERE(LONG, 7), NOW));
	assert_string_equal(fleet_judge(NULL, 0, &THERE(LONG, 7), NOW), "of nobody's making");
	assert_null(fleet_judge(NULL, 0, &nothing, NOW));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_of_one_host_have_one_outcome),
		cmocka_unit_test(concurrent_changes_may_come_in_either_order),
		cmocka_unit_test(what_is_known_to_be_in_the_store_comes_first),
		cmocka_unit_test(between_two_deletions_nothing_survives),
		cmocka_unit_test(what_may_not_have_counted_explains_both),
		cmocka_unit_test(what_is_over_is_not_there),
		cmocka_unit_test(what_nobody_made_is_not_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
