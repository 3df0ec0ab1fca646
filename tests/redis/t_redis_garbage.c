/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is no state of weir's where the state of a client would be: it counts as nothing, at once, and costs nobody who is
 * decided in the same call.
 */
#include "redis/fixture.h"
#include "user/redis/redis_int.h"

#define LIMIT  10
#define WINDOW (3600 * SEC)

static struct weir_store_limit limit_of(enum weir_request_algorithm a)
{
	struct weir_store_identity id;
	struct weir_store_limit l;

	assert_int_equal(weir_store_identity_of("l", a, "", "", "", &id), 0);
	if (a == WEIR_REQUEST_TOKEN_BUCKET)
		assert_int_equal(weir_store_limit_bucket(&id, 1, WINDOW, LIMIT, &l), 0);
	else if (a == WEIR_REQUEST_LEAKY_BUCKET)
		assert_int_equal(weir_store_limit_queue(&id, 1, WINDOW, LIMIT - 1, LIMIT * WINDOW,
							&l),
				 0);
	else
		assert_int_equal(weir_store_limit_window(&id, a, LIMIT, WINDOW, &l), 0);
	return l;
}

/* KEYS[1] is the client's. */
static const char *const spoiled[] = {
	"redis.call('SET', KEYS[1], 'garbage')",
	"redis.call('SET', KEYS[1], string.rep('x', 1000000))",
	"redis.call('SET', KEYS[1], string.rep('\\255', 14))",
	"redis.call('SET', KEYS[1], string.rep('\\255', 15))",
	"redis.call('SET', KEYS[1], string.rep('\\255', 28))",
	"redis.call('SET', KEYS[1], string.rep('A', 14))",
	"redis.call('SET', KEYS[1], string.rep('A', 15))",
	"redis.call('SET', KEYS[1], string.rep('A', 28))",
	"redis.call('SET', KEYS[1], string.rep('\\0', 28))",
	"redis.call('HSET', KEYS[1], 'a', 'b')",
	"redis.call('ZADD', KEYS[1], 1, 'a')",
	"redis.call('RPUSH', KEYS[1], 'x')",
	"redis.call('RPUSH', KEYS[1], 'inf')",
	"redis.call('RPUSH', KEYS[1], '-inf')",
	"redis.call('RPUSH', KEYS[1], 'nan')",
	"redis.call('RPUSH', KEYS[1], '1e308')",
	"redis.call('RPUSH', KEYS[1], '9007199254740991')",
	"redis.call('RPUSH', KEYS[1], '-5')",
	"for i = 1, 2000 do redis.call('RPUSH', KEYS[1], '9e15') end",
};

static void spoil(redisContext *c, const struct weir_store_limit *l, __u64 client, const char *how)
{
	struct weir_store_layer y = request_layer(l, client, 1);
	char key[128];
	redisReply *r;

	assert_true(weir_redis_layer_key("weir:", l, y.tag, y.key, key, sizeof(key)) > 0);
	freeReplyObject(redis_do(c, "DEL %s", key));
	r = redis_do(c, "EVAL %s 1 %s", how, key);
	if (r->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", how, r->str);
	freeReplyObject(r);
}

static void check(struct fix *f, redisContext *c, const struct weir_store_limit *l, const char *how)
{
	struct ask a[3] = {};
	bool admitted;

	spoil(c, l, 7, how);
	for (int i = 0; i < 3; i++) { /* in one call */
		a[i].y[0] = request_layer(l, (__u64)i + 6, 1);
		ask_start(f, &a[i], 1);
	}
	assert_true(fix_wait(f, a[0].r != 1 && a[1].r != 1 && a[2].r != 1, 10000));
	for (int i = 0; i < 3; i++)
		if (a[i].r != 0 || !a[i].q.admitted)
			fail_msg("algorithm %d, %s: client %d: %d, %s", l->algorithm, how, i + 6,
				 a[i].r, a[i].q.admitted ? "admitted" : "refused");
	for (int i = 1; i <= LIMIT; i++) { /* and its limit is what it was */
		assert_int_equal(ask_one(f, l, 7, 1, &admitted), 0);
		if (admitted != (i < LIMIT))
			fail_msg("algorithm %d, %s: number %d was %s", l->algorithm, how, i + 1,
				 admitted ? "admitted" : "refused");
	}
	freeReplyObject(redis_do(c, "FLUSHALL"));
}

static void whatever_is_in_the_place_of_a_state_counts_as_nothing(void **state)
{
	struct fix f = {};
	redisContext *c;

	(void)state;
	fix_options(&f);
	assert_int_equal(redis_start(&f.r, NULL), 0);
	c = redis_open(&f.r);
	fix_store(&f);
	for (unsigned a = WEIR_REQUEST_TOKEN_BUCKET; a <= WEIR_REQUEST_SLIDING_COUNTER; a++) {
		struct weir_store_limit l = limit_of((enum weir_request_algorithm)a);

		for (size_t i = 0; i < sizeof(spoiled) / sizeof(*spoiled); i++)
			check(&f, c, &l, spoiled[i]);
	}
	redisFree(c);
	fix_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_is_in_the_place_of_a_state_counts_as_nothing),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
