/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The breaker, by a clock of the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "user/redis/breaker.h"

#define MS 1000000ull
#define S  (1000 * MS)

static struct weir_redis_breaker fresh(void)
{
	struct weir_redis_breaker b;

	assert_int_equal(weir_redis_breaker_init(&b, 20, S), 0);
	return b;
}

static void so_many_failures_within_so_long_open_it(void **state)
{
	struct weir_redis_breaker b = fresh();

	(void)state;
	assert_true(weir_redis_breaker_failure(&b, 100 * S));
	assert_int_equal(b.health, WEIR_FAR_DEGRADED);
	for (unsigned i = 1; i < 19; i++)
		assert_false(weir_redis_breaker_failure(&b, 100 * S + i * MS));
	assert_true(weir_redis_breaker_failure(&b, 101 * S - 1));
	assert_int_equal(b.health, WEIR_FAR_OPEN);
	assert_false(weir_redis_breaker_failure(&b, 101 * S)); /* no second line for it */
	weir_redis_breaker_done(&b);
}

static void slow_failures_do_not(void **state)
{
	struct weir_redis_breaker b = fresh();

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		weir_redis_breaker_failure(&b, 100 * S + i * (S / 19 + 1));
	assert_int_equal(b.health, WEIR_FAR_DEGRADED);
	weir_redis_breaker_done(&b);
}

static void calm_heals(void **state)
{
	struct weir_redis_breaker b = fresh();

	(void)state;
	weir_redis_breaker_failure(&b, 100 * S);
	assert_false(weir_redis_breaker_tick(&b, 100 * S + WEIR_REDIS_BREAKER_CALM_NS - 1));
	assert_true(weir_redis_breaker_tick(&b, 100 * S + WEIR_REDIS_BREAKER_CALM_NS));
	assert_int_equal(b.health, WEIR_FAR_HEALTHY);
	assert_false(weir_redis_breaker_tick(&b, 200 * S));
	weir_redis_breaker_done(&b);
}

static void without_a_connection_it_opens_at_once_and_a_probe_closes_it(void **state)
{
	struct weir_redis_breaker b = fresh();

	(void)state;
	assert_true(weir_redis_breaker_down(&b, 100 * S));
	assert_false(weir_redis_breaker_down(&b, 101 * S));
	assert_false(weir_redis_breaker_tick(&b, 1000 * S)); /* time alone does not */
	assert_int_equal(b.health, WEIR_FAR_OPEN);
	assert_true(weir_redis_breaker_up(&b, 1000 * S));
	assert_int_equal(b.health, WEIR_FAR_DEGRADED);
	assert_false(weir_redis_breaker_up(&b, 1000 * S));
	assert_true(weir_redis_breaker_tick(&b, 1000 * S + WEIR_REDIS_BREAKER_CALM_NS));
	weir_redis_breaker_done(&b);
}

static void after_a_return_a_quarter_opens_it_again(void **state)
{
	struct weir_redis_breaker b = fresh();

	(void)state;
	weir_redis_breaker_down(&b, 100 * S);
	weir_redis_breaker_up(&b, 101 * S);
	for (unsigned i = 0; i < 4; i++)
		assert_false(weir_redis_breaker_failure(&b, 101 * S + i * MS));
	assert_true(weir_redis_breaker_failure(&b, 101 * S + 5 * MS));
	assert_int_equal(b.health, WEIR_FAR_OPEN);
	weir_redis_breaker_up(&b, 102 * S);
	weir_redis_breaker_tick(&b, 102 * S + WEIR_REDIS_BREAKER_CALM_NS);
	for (unsigned i = 0; i < 19; i++)
		weir_redis_breaker_failure(&b, 200 * S + i);
	assert_int_equal(b.health, WEIR_FAR_DEGRADED); /* all of it again */
	weir_redis_breaker_done(&b);
}

static void numbers_out_of_range_are_refused(void **state)
{
	struct weir_redis_breaker b;

	(void)state;
	assert_int_equal(weir_redis_breaker_init(&b, 0, S), -EINVAL);
	assert_int_equal(weir_redis_breaker_init(&b, WEIR_REDIS_BREAKER_ERRORS_MAX + 1, S),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_failures_within_so_long_open_it),
		cmocka_unit_test(slow_failures_do_not),
		cmocka_unit_test(calm_heals),
		cmocka_unit_test(without_a_connection_it_opens_at_once_and_a_probe_closes_it),
		cmocka_unit_test(after_a_return_a_quarter_opens_it_again),
		cmocka_unit_test(numbers_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
