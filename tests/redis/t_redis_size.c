/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the keys under the prefix take, as the store samples it for weir status. */
#include "redis/fixture.h"

#define CLIENTS 3000

static int teardown(void **state)
{
	struct fix *f = *state;

	fix_done(f);
	free(f);
	return 0;
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	fix_options(f);
	f->o.sizes = true;
	return 0;
}

static bool is_known(struct fix *f, struct weir_far_stats *ret)
{
	weir_store_far_stats(f->s, ret);
	return ret->keys_known;
}

/* What the server says of a state: versions differ, Valkey 8.1 leaves out the key. */
static __u64 bytes_of_one(redisContext *c)
{
	redisReply *keys = redis_do(c, "KEYS weir:*");
	long long n = redis_int(c, "MEMORY USAGE %s", keys->element[0]->str);

	freeReplyObject(keys);
	assert_true(n > 0);
	return (__u64)n;
}

static void keys_under_the_prefix_are_sampled(void **state)
{
	struct weir_store_limit l = request_limit("sampled", WEIR_REQUEST_FIXED_WINDOW, 100, DAY);
	struct fix *f = *state;
	struct weir_far_stats s;
	redisContext *c;
	bool admitted;
	__u64 one;

	assert_int_equal(redis_start(&f->r, NULL), 0);
	fix_store(f);
	c = redis_open(&f->r);
	for (__u64 i = 1; i <= CLIENTS; i++)
		assert_int_equal(ask_one(f, &l, i, 1, &admitted), 0);
	for (unsigned i = 0; i < CLIENTS; i++) /* somebody else's */
		assert_true(redis_int(c, "SET other:%u %u", i, i) >= 0);
	assert_true(fix_wait(f, is_known(f, &s), 10000));
	if (s.keys < CLIENTS * 7 / 10 || s.keys > CLIENTS * 13 / 10)
		fail_msg("%llu keys of %u", s.keys, CLIENTS);
	one = bytes_of_one(c);
	if (s.key_bytes < s.keys * one * 9 / 10 || s.key_bytes > s.keys * one * 11 / 10)
		fail_msg("%llu keys of %llu take %llu bytes", s.keys, one, s.key_bytes);
	redisFree(c);
}

static void without_the_right_it_is_not_known(void **state)
{
	struct fix *f = *state;
	struct weir_far_stats s;
	redisContext *c;
	redisReply *log;

	assert_int_equal(redis_start(&f->r, NULL), 0);
	c = redis_open(&f->r);
	assert_true(redis_int(c, "ACL SETUSER default -dbsize -scan") >= 0);
	fix_store(f);
	fix_turn(f, 2000);
	assert_false(is_known(f, &s));
	assert_int_equal(fix_health(f), WEIR_FAR_HEALTHY);
	log = redis_do(c, "ACL LOG");
	assert_int_equal(log->elements, 1);
	freeReplyObject(log);
	redisFree(c);
}

static void a_store_that_goes_while_it_looks_is_no_harm(void **state)
{
	struct fix *f = *state;

	assert_int_equal(redis_start(&f->r, NULL), 0);
	for (unsigned ms = 1040; ms < 1100; ms += 10) {
		fix_store(f);
		fix_turn(f, ms);
		weir_store_free(f->s);
		f->s = NULL;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keys_under_the_prefix_are_sampled, setup, teardown),
		cmocka_unit_test_setup_teardown(without_the_right_it_is_not_known, setup, teardown),
		cmocka_unit_test_setup_teardown(a_store_that_goes_while_it_looks_is_no_harm, setup,
						teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
