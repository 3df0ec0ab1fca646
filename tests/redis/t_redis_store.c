/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store on one real server. */
#include "redis/fixture.h"

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	fix_options(f);
	return redis_start(&f->r, NULL);
}

static int teardown(void **state)
{
	struct fix *f = *state;

	fix_done(f);
	free(f);
	return 0;
}

static void a_limit_of_three_admits_three(void **state)
{
	struct weir_store_limit l = request_limit("three", WEIR_REQUEST_FIXED_WINDOW, 3, DAY);
	struct fix *f = *state;
	bool admitted;

	fix_store(f);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
		assert_int_equal(admitted, i < 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_limit_of_three_admits_three, setup, teardown),
	};

	if (!redis_installed()) {
		(void)puts("skip: redis-server is not installed");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
