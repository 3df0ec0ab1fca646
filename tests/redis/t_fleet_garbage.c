/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is no word of weir's under its keys in the store: it counts as nothing, and the fleet goes on by itself. */
#include "redis/fleet_case.h"

#define FLEET "weir:{fleet}:1:"

/* --- what somebody has done to the server ---- */

static const struct spoiled {
	const char *what, *command[2];
} spoiled[] = {
	{"list of another type", {"DEL " FLEET "list", "SET " FLEET "list garbage"}},
	{"changes of another type", {"DEL " FLEET "changes", "SET " FLEET "changes garbage"}},
	{"gone of another type", {"DEL " FLEET "gone", "SET " FLEET "gone garbage"}},
	{"ends of another type", {"DEL " FLEET "ends", "SET " FLEET "ends garbage"}},
	{"pushed of another type", {"DEL " FLEET "pushed", "SET " FLEET "pushed garbage"}},
	{"agents of another type", {"DEL " FLEET "agents", "SET " FLEET "agents garbage"}},
	{"limits of another type", {"DEL " FLEET "limits", "SET " FLEET "limits garbage"}},
	{"secret of another type", {"DEL " FLEET "secret", "HSET " FLEET "secret a b"}},
	{"key of another type", {"DEL " FLEET "key", "HSET " FLEET "key a b"}},
	{"an id that is none", {"HSET " FLEET "list id short"}},
	{"a count that is none", {"HSET " FLEET "list n banana"}},
	{"a count beyond what is exact", {"HSET " FLEET "list n 9007199254740992"}},
	{"a last version that is none", {"HSET " FLEET "list last nan"}},
	{"a last version beyond what is exact", {"HSET " FLEET "list last 9007199254740991"}},
	{"no first version", {"HDEL " FLEET "list born"}},
	{"a change with a later id", {"XADD " FLEET "changes 99999999999999-0 k x v y"}},
	{"a change of somebody else", {"XADD " FLEET "changes * a b"}},
	{"a deletion in the far future, and the list lost",
	 {"ZADD " FLEET "gone 1e300 x", "DEL " FLEET "list"}},
	{"ends of nothing", {"ZADD " FLEET "ends -inf x -inf id"}},
	{"numbers of changes that nobody made",
	 {"EVAL redis.call('HSET',KEYS[1],redis.call('HKEYS',KEYS[2])[1],'9006099742113791') "
	  "2 " FLEET "pushed " FLEET "agents"}},
	{"numbers of changes that are none",
	 {"EVAL redis.call('HSET',KEYS[1],redis.call('HKEYS',KEYS[2])[1],'-1e308') 2 " FLEET
	  "pushed " FLEET "agents"}},
	{"agents that are none",
	 {"HSET " FLEET "agents a 1 b x",
	  "EVAL redis.call('HSET',KEYS[1],'c','99999999999999\\32{}') 1 " FLEET "agents"}},
	{"a generation that is none", {"HSET " FLEET "limits generation banana"}},
	{"a broken generation", {"HSET " FLEET "limits generation 0.5"}},
	{"a secret that is none", {"SET " FLEET "secret garbage"}},
	{"a fingerprint that nobody has", {"SET " FLEET "key 0123456789abcdef"}},
};

/* Calls of the script that were made. */
static long long calls(redisContext *c)
{
	redisReply *r = redis_do(c, "INFO commandstats");
	const char *at = strstr(r->str, "cmdstat_evalsha:calls=");
	long long n = at ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;

	freeReplyObject(r);
	return n;
}

static bool all_idle(struct fix *f, int n)
{
	for (int i = 0; i < n; i++)
		if (f->a[i].f->doing != WEIR_FLEET_IDLE || f->a[i].f->sent_ns != f->a[i].frozen_ns)
			return false;
	return true;
}

#define MENDING 28 /* steps in which it is found and put right: seven seconds */
#define QUIET	8

/* By clocks that stand but for this, each of @n agents asks once a quarter of a second, and nothing else. */
static void nobody_asks_more_than_it_should(struct fix *f, redisContext *c, int n)
{
	for (int i = 0; i < n; i++)
		f->a[i].frozen_ns = frozen_mono_ns(&f->a[i]);
	for (int k = -MENDING; k <= QUIET; k++) {
		for (int i = 0; i < n; i++) {
			f->a[i].frozen_ns += WEIR_FLEET_POLL_NS;
			weir_fleet_run_soon(f->a[i].f);
		}
		assert_true(fix_wait(f, all_idle(f, n), 10000));
		for (int i = 0; i < 3; i++)
			turn(f); /* whoever has more to ask does so now */
		assert_true(fix_wait(f, all_idle(f, n), 10000));
		if (!k)
			freeReplyObject(redis_do(c, "CONFIG RESETSTAT"));
		else if (k > 0)
			assert_int_equal(calls(c), k * n);
	}
	for (int i = 0; i < n; i++) {
		f->a[i].ahead_ns = f->a[i].frozen_ns - wait_now_ns();
		f->a[i].frozen_ns = 0;
	}
}

static void do_all(redisContext *c, const struct spoiled *s)
{
	for (size_t i = 0; i < 2 && s->command[i]; i++) {
		redisReply *r = redis_do(c, s->command[i]);

		if (r->type == REDIS_REPLY_ERROR)
			fail_msg("%s: %s", s->what, r->str);
		freeReplyObject(r);
	}
}

static bool all_ready(struct fix *f, int n)
{
	for (int i = 0; i < n; i++)
		if (weir_fleet_unready(f->a[i].f) ||
		    memcmp(f->a[0].given, f->a[i].given, sizeof(f->a[0].given)) != 0)
			return false;
	return true;
}

static void whatever_lies_under_its_keys_the_fleet_goes_on(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);

	start_all(f, 2);
	assert_true(
		fix_wait(f, all_settled(f, 2) && f->a[0].has_secret && f->a[1].has_secret, 10000));
	add(&f->a[0], "198.51.100.1", "command", 0, "before");
	assert_true(fix_wait(f, all_have(f, 2, "198.51.100.1", true), 2000));
	for (size_t i = 0; i < sizeof(spoiled) / sizeof(*spoiled); i++) {
		char prefix[32];

		print_message("%s\n", spoiled[i].what);
		(void)snprintf(prefix, sizeof(prefix), "192.0.2.%zu", i);
		do_all(c, &spoiled[i]);
		add(&f->a[i % 2], prefix, "command", 600000, "after");
		assert_true(fix_wait(f, all_have(f, 2, prefix, true) && all_same(f, 2), 10000));
		assert_true(has(&f->a[0], "198.51.100.1"));
		assert_true(fix_wait(f, all_ready(f, 2), 10000));
		nobody_asks_more_than_it_should(f, c, 2);
	}
	assert_int_equal(weir_fleet_live_agents(f->a[0].f), 2);
	redisFree(c);
}

static void an_entry_that_is_none_blocks_nobody(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	char *huge = malloc(100000);

	memset(huge, 'x', 100000);
	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	freeReplyObject(
		redis_do(c, "HSET " FLEET "list %s %b", "block 192.0.2.1", huge, (size_t)100000));
	freeReplyObject(redis_do(c, "HSET " FLEET "list %s %s", "block 192.0.2.2",
				 "9007199254740000 0 0\n0\t1\t0\tcommand\th\tw\tlater than all\n"));
	freeReplyObject(redis_do(c, "HSET " FLEET "list %b x", huge, (size_t)100000));
	freeReplyObject(redis_do(c, "HSET " FLEET "list nonsense %s", "1 2 3"));
	freeReplyObject(redis_do(c, "DEL " FLEET "changes"));
	add(&f->a[0], "192.0.2.9", "command", 0, "makes all read");
	add(&f->a[0], "192.0.2.8", "command", 0, "again");
	assert_true(fix_wait(f, all_same(f, 2) && has(&f->a[1], "192.0.2.8"), 5000));
	agent_stop(&f->a[1]);
	(void)unlink(f->a[1].db);
	agent_start(f, &f->a[1]); /* reads the whole */
	assert_true(fix_wait(f, all_same(f, 2) && has(&f->a[1], "192.0.2.8"), 5000));
	assert_false(has(&f->a[1], "192.0.2.1"));
	assert_false(has(&f->a[1], "192.0.2.2"));
	/* what is said of such a prefix then holds */
	add(&f->a[0], "192.0.2.1", "command", 0, "right");
	add(&f->a[0], "192.0.2.2", "command", 0, "right");
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.1", true), 2000));
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.2", true), 2000));
	assert_int_equal(del(&f->a[1], "192.0.2.2", NULL), 1);
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.2", false) && all_same(f, 2), 2000));
	free(huge);
	redisFree(c);
}

static void more_than_a_megabyte_of_limits_is_not_taken(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	char *huge = malloc(3 << 20);

	memset(huge, '#', 3 << 20);
	start_all(f, 1);
	assert_true(fix_wait(f, all_settled(f, 1), 5000));
	freeReplyObject(redis_do(c, "HSET " FLEET "limits generation 5 host h who w at 1 text %b",
				 huge, (size_t)3 << 20));
	assert_true(fix_wait(f, f->a[0].f->limits_wrong == 5, 5000));
	nobody_asks_more_than_it_should(f, c, 1);
	assert_int_equal(f->a[0].limits, 0);
	freeReplyObject(redis_do(c, "HSET " FLEET "limits generation 6 text %s", "plans: []"));
	assert_true(fix_wait(f, f->a[0].limits == 6, 2000));
	free(huge);
	redisFree(c);
}

static void limits_with_a_nul_are_not_cut_there(void **state)
{
	static const char text[] = "\0plans: []";
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);

	start_all(f, 1);
	assert_true(fix_wait(f, all_settled(f, 1), 5000));
	freeReplyObject(redis_do(c, "HSET " FLEET "limits generation 5 host h who w at 1 text %b",
				 text, sizeof(text) - 1));
	assert_true(fix_wait(f, f->a[0].f->limits_wrong == 5, 5000));
	assert_int_equal(f->a[0].limits, 0);
	freeReplyObject(redis_do(c, "HSET " FLEET "limits generation 6 text %s", "plans: []"));
	assert_true(fix_wait(f, f->a[0].limits == 6, 2000));
	redisFree(c);
}

/* Of the scripts since then, by SLOWLOG. */
static long long longest_call_us(redisContext *c)
{
	redisReply *r = redis_do(c, "SLOWLOG GET 128");
	long long most = 0;

	for (size_t i = 0; i < r->elements; i++) {
		const redisReply *e = r->element[i];

		if (e->elements > 3 && !strcasecmp(e->element[3]->element[0]->str, "evalsha") &&
		    e->element[2]->integer > most)
			most = e->element[2]->integer;
	}
	freeReplyObject(r);
	return most;
}

static void deletions_without_number_hold_nobody_up(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	long long us;

	start_all(f, 2);
	add(&f->a[0], "198.51.100.1", "command", 0, "before");
	assert_true(fix_wait(f, all_have(f, 2, "198.51.100.1", true) && all_same(f, 2), 5000));
	freeReplyObject(redis_do(c, "EVAL %s 1 %s",
				 "for i = 1, 500000 do redis.call('ZADD', KEYS[1], i, i) end",
				 FLEET "gone"));
	freeReplyObject(redis_do(c, "SLOWLOG RESET"));
	add(&f->a[0], "198.51.100.2", "command", 0, "after");
	assert_true(fix_wait(f, all_have(f, 2, "198.51.100.2", true) && all_same(f, 2), 10000));
	assert_true(has(&f->a[0], "198.51.100.1"));
	us = longest_call_us(c);
	print_message("the longest call took %lld us\n", us);
	assert_in_range(us, 0, 200000);
	redisFree(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_set_up, fix_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(whatever_lies_under_its_keys_the_fleet_goes_on),
		TEST(an_entry_that_is_none_blocks_nobody),
		TEST(deletions_without_number_hold_nobody_up),
		TEST(more_than_a_megabyte_of_limits_is_not_taken),
		TEST(limits_with_a_nul_are_not_cut_there),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
