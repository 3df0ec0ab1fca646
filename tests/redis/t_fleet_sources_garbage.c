/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is no word of weir's where the fleet's packet limits have theirs: it counts as nothing, at once. Who is over a limit
 * is found as ever, and nobody who is not.
 */
#include "redis/fleet_case.h"
#include "user/fleet/sources.h"

#define MSEC	  1000000ull
#define WINDOW_NS (200 * MSEC)
#define LOUD	  "198.51.100.9"
#define QUIET	  "198.51.100.10" /* told of, and far from over */
#define OVER	  "weir:{fleet}:1:over:"

static const struct weir_fleet_source_limit limits[] = {
	{.name = "syn",
	 .amount = 1000,
	 .per_ns = 1000 * MSEC,
	 .burst = 100,
	 .least = 1,
	 .window_ns = WINDOW_NS,
	 .pass_ns = 50 * MSEC},
	{.name = "udp",
	 .amount = 1000,
	 .per_ns = 1000 * MSEC,
	 .burst = 100,
	 .least = 1,
	 .window_ns = WINDOW_NS,
	 .pass_ns = 50 * MSEC},
};

/* KEYS: debts and told of the first limit. */
static const char *const spoiled[] = {
	"redis.call('SET', KEYS[1], 'garbage')",
	"redis.call('SET', KEYS[2], 'garbage')",
	"redis.call('HSET', KEYS[1], 'a', 'b') redis.call('RPUSH', KEYS[2], 'a')",
	"redis.call('ZADD', KEYS[1], 'inf', '" QUIET "')",
	"redis.call('ZADD', KEYS[1], '9e15', '" QUIET "')",
	"redis.call('ZADD', KEYS[1], '1e308', '" QUIET "')",
	"redis.call('ZADD', KEYS[1], '-inf', '" LOUD "', '-1e308', '" QUIET "')",
	"redis.call('ZADD', KEYS[2], 'inf', '" LOUD "')",
	"redis.call('ZADD', KEYS[2], '9e15', '" LOUD "')",
	"local t = redis.call('TIME') redis.call('ZADD', KEYS[1], t[1] * 1000 + 60000,"
	" '" QUIET
	"\\0', t[1] * 1000 + 60000, '', t[1] * 1000 + 60000, '\\0\\255 x', t[1] * 1000 + "
	"60000,"
	" string.rep('x', 1000000))",
	"for i = 1, 200000 do redis.call('ZADD', KEYS[1], 'inf', i) end",
	"for i = 1, 200000 do redis.call('ZADD', KEYS[2], 'inf', i) end",
};

struct seen {
	unsigned loud[2], quiet;
};

static void on_over(void *arg, unsigned i, const struct weir_fleet_over *over, size_t n)
{
	struct seen *seen = arg;
	char text[WEIR_PREFIX_STRLEN];

	assert_in_range(i, 0, 1);
	for (size_t k = 0; k < n; k++) {
		(void)weir_prefix_format(&over[k].source, text);
		seen->loud[i] += !strcmp(text, LOUD);
		seen->quiet += strcmp(text, LOUD) != 0;
	}
}

/* Both in one call, of both limits. */
static void tell(struct weir_fleet_sources *s, __u64 window)
{
	struct weir_prefix loud = key_of(LOUD).prefix, quiet = key_of(QUIET).prefix;

	for (unsigned i = 0; i < 2; i++) {
		weir_fleet_sources_saw(s, i, &loud, window, 5000);
		weir_fleet_sources_saw(s, i, &quiet, window, 300);
	}
	weir_fleet_sources_flush(s);
}

static void whatever_lies_there_only_who_is_over_is_found(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	__u64 window = wait_now_ns() / WINDOW_NS + 2;
	struct weir_fleet_sources_status now;
	struct weir_fleet_sources *s;
	struct seen seen = {};

	start_all(f, 1);
	assert_true(fix_wait(f, follows(&f->a[0]), 3000));
	assert_int_equal(weir_fleet_sources_new(f->a[0].f, on_over, &seen, &s), 0);
	assert_int_equal(weir_fleet_sources_set(s, limits, 2), 0);
	weir_fleet_sources_flush(s); /* the script */
	for (size_t i = 0; i < ARRAY_LEN(spoiled); i++) {
		redisReply *r;

		freeReplyObject(redis_do(c, "DEL %s %s %s %s", OVER "syn", OVER "syn:told",
					 OVER "udp", OVER "udp:told"));
		r = redis_do(c, "EVAL %s 2 %s %s", spoiled[i], OVER "syn", OVER "syn:told");
		if (r->type == REDIS_REPLY_ERROR)
			fail_msg("%s: %s", spoiled[i], r->str);
		freeReplyObject(r);
		seen = (struct seen){};
		tell(s, window++);
		if (!fix_wait(f, seen.loud[0] == 1 && seen.loud[1] == 1, 3000) || seen.quiet)
			fail_msg("%s: found %u and %u times, %u who are not over", spoiled[i],
				 seen.loud[0], seen.loud[1], seen.quiet);
		assert_in_range(redis_int(c, "ZCARD %s", OVER "syn"), 2, 6);
		assert_in_range(redis_int(c, "PTTL %s", OVER "syn"), 1, 2 * 3600000);
		assert_in_range(redis_int(c, "PTTL %s", OVER "syn:told"), 1, 2000);
	}
	weir_fleet_sources_status(s, &now);
	assert_int_equal(now.failures, 0);
	assert_int_equal(now.calls, ARRAY_LEN(spoiled));
	weir_fleet_sources_free(s);
	redisFree(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whatever_lies_there_only_who_is_over_is_found,
						fix_set_up, fix_tear_down),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
