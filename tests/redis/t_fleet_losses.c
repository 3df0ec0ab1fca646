/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fleet's lists where knowledge was lost: the store emptied (also twice), put back from an older copy, its memory of
 * changes and deletions at an end; a host's file put back from a copy, its clock wrong. Whoever comes back, and in whichever
 * order: what was said is there, what was deleted is not.
 */
#include "redis/fleet_case.h"

#include <sqlite3.h>

#define FOREVER 0

static void settle(struct fix *f, int n)
{
	assert_true(fix_wait(f, all_same(f, n), 8000));
}

static void emptied(struct fix *f)
{
	redis_kill(&f->r);
	assert_int_equal(redis_start(&f->r, NULL), 0);
}

/* All that it was told is in the store. */
static void say(struct fix *f, struct agent *a)
{
	assert_true(fix_wait(f, follows(a) && !status_of(a).waiting, 5000));
}

/* Cut off, and it knows. */
static void cut(struct fix *f, int i)
{
	relay_cut(&f->a[i].relay);
	assert_true(fix_wait(f, !follows(&f->a[i]), 3000));
}

/* Back, and it has said and read what there is. */
static void back(struct fix *f, int i)
{
	relay_heal(&f->a[i].relay);
	say(f, &f->a[i]);
}

static void start_settled(struct fix *f, int n)
{
	start_all(f, n);
	settle(f, n);
}

static struct weir_fleet_entry only_entry(struct agent *a, const char *prefix)
{
	static struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of(prefix);

	assert_int_equal(weir_fleet_get(a->f, &k, e), 1);
	return e[0];
}

/* In its file, while it does not run. */
static void edit(struct agent *a, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(a->db, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
}

static void copy_file(const char *from, const char *to)
{
	assert_int_equal(run_cmd(0, NULL, 0, "cp", from, to), 0);
}

/* --- the store was lost ---- */

static void what_one_host_alone_knows_outlives_two_losses(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", 3600000, "older");
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "to go");
	settle(f, 3);
	cut(f, 0);
	cut(f, 1);
	add(&f->a[2], "192.0.2.1", "command", FOREVER, "newer");
	add(&f->a[2], "192.0.2.3", "command", FOREVER, "newer");
	(void)del(&f->a[2], "192.0.2.2", NULL);
	say(f, &f->a[2]);
	relay_cut(&f->a[2].relay);
	for (int i = 0; i < 2; i++) { /* the others tell the new store what they know, twice */
		emptied(f);
		back(f, 0);
		back(f, 1);
	}
	back(f, 2);
	settle(f, 3);
	assert_int_equal(only_entry(&f->a[0], "192.0.2.1").end_ms, 0);
	assert_string_equal(only_entry(&f->a[0], "192.0.2.1").reason, "newer");
	assert_true(all_have(f, 3, "192.0.2.3", true));
	assert_true(all_have(f, 3, "192.0.2.2", false));
}

static void an_older_word_does_not_extend_what_was_said_anew(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "before it was deleted");
	settle(f, 3);
	cut(f, 2);
	(void)del(&f->a[0], "192.0.2.1", NULL);
	add(&f->a[0], "192.0.2.1", "command", 3600000, "after it");
	settle(f, 2);
	emptied(f);
	cut(f, 0);
	cut(f, 1);
	back(f, 2); /* who knows least comes first */
	back(f, 1);
	back(f, 0);
	settle(f, 3);
	assert_string_equal(only_entry(&f->a[2], "192.0.2.1").reason, "after it");
	assert_in_range(only_entry(&f->a[2], "192.0.2.1").end_ms - weir_fleet_now_ms(f->a[2].f),
			3500000, 3600000);
}

/* Said again where the deletion was not known: of what was said before it nothing is left, of all after it the latest end. */
static void an_addition_on_what_was_deleted_elsewhere_stands_alone(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "before");
	settle(f, 3);
	cut(f, 0);
	cut(f, 1);
	(void)del(&f->a[2], "192.0.2.1", NULL);
	say(f, &f->a[2]);
	relay_cut(&f->a[2].relay);
	emptied(f);
	back(f, 0);
	add(&f->a[0], "192.0.2.1", "command", 7200000, "longer");
	add(&f->a[0], "192.0.2.1", "command", 3600000, "shorter");
	say(f, &f->a[0]);
	assert_int_equal(only_entry(&f->a[0], "192.0.2.1").end_ms, 0); /* as far as it knows */
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_string_equal(only_entry(&f->a[1], "192.0.2.1").reason, "shorter");
	assert_in_range(only_entry(&f->a[1], "192.0.2.1").end_ms - weir_fleet_now_ms(f->a[1].f),
			7100000, 7200000);
}

static void what_has_ended_keeps_what_was_deleted_before_it(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "");
	settle(f, 3);
	cut(f, 2);
	(void)del(&f->a[0], "192.0.2.1", NULL);
	(void)del(&f->a[0], "192.0.2.2", "command");
	add(&f->a[0], "192.0.2.1", "command", 1500, "");
	add(&f->a[0], "192.0.2.2", "command", 1500, "");
	settle(f, 2);
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.1", false), 4000));
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.2", false), 4000));
	assert_false(fix_wait(f, !follows(&f->a[0]), 2500)); /* beats, in which what is over goes */
	emptied(f);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", false));
	assert_true(all_have(f, 3, "192.0.2.2", false));
}

static void one_origin_deleted_stays_so_beside_others(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "drop.netset", FOREVER, "");
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	settle(f, 3);
	cut(f, 2);
	(void)del(&f->a[0], "192.0.2.1", "drop.netset");
	settle(f, 2);
	cut(f, 0);
	cut(f, 1);
	emptied(f);
	back(f, 2);
	add(&f->a[2], "192.0.2.1", "escalation:login", 3600000, ""); /* on what it knows */
	say(f, &f->a[2]);
	back(f, 0);
	back(f, 1);
	settle(f, 3);
	{
		struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
		struct weir_fleet_key k = key_of("192.0.2.1");

		assert_int_equal(weir_fleet_get(f->a[2].f, &k, e), 2);
		assert_string_not_equal(e[0].origin, "drop.netset");
		assert_string_not_equal(e[1].origin, "drop.netset");
	}
}

static void what_is_deleted_where_it_is_not_known_stays_so(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	cut(f, 0);
	cut(f, 1);
	add(&f->a[2], "192.0.2.1", "drop.netset", FOREVER, "");
	add(&f->a[2], "192.0.2.2", "command", FOREVER, "");
	say(f, &f->a[2]);
	relay_cut(&f->a[2].relay);
	emptied(f);
	back(f, 0);
	assert_int_equal(del(&f->a[0], "192.0.2.1", "drop.netset"), 0);
	assert_int_equal(del(&f->a[0], "192.0.2.2", NULL), 0);
	say(f, &f->a[0]);
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", false));
	assert_true(all_have(f, 3, "192.0.2.2", false));
}

/* Host 0 adds what it has already, after a deletion that it never heard of: that came first. */
static void adding_again_counts_also_where_it_changes_nothing(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "r");
	settle(f, 3);
	cut(f, 0);
	cut(f, 1);
	(void)del(&f->a[2], "192.0.2.1", NULL);
	say(f, &f->a[2]);
	relay_cut(&f->a[2].relay);
	emptied(f);
	back(f, 0);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "r");
	say(f, &f->a[0]);
	emptied(f); /* only host 0 knows that it was said again */
	say(f, &f->a[0]);
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", true));
}

/* --- an older copy of the store ---- */

static void save(struct fix *f)
{
	redisContext *c = redis_open(&f->r);

	assert_int_equal(redis_int(c, "SAVE"), 0);
	redisFree(c);
}

/* @changes are made on the copy before anybody comes who knows more than it; 2 were lost. */
static void copy_goes_on_before_it_is_told(struct fix *f, int changes)
{
	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "");
	settle(f, 3);
	save(f);
	cut(f, 0);
	add(&f->a[1], "192.0.2.3", "command", FOREVER, "new");
	(void)del(&f->a[1], "192.0.2.1", NULL);
	say(f, &f->a[1]);
	assert_true(fix_wait(f, has(&f->a[2], "192.0.2.3") && !has(&f->a[2], "192.0.2.1"), 3000));
	relay_cut(&f->a[1].relay);
	relay_cut(&f->a[2].relay);
	emptied(f); /* not quite: the copy is on its disk */
	back(f, 0);
	assert_true(has(&f->a[0], "192.0.2.1")); /* it is the copy */
	for (int i = 0; i < changes; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "198.51.100.%d", i);
		add(&f->a[0], prefix, "command", FOREVER, "");
		say(f, &f->a[0]);
	}
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.3", true));
	assert_true(all_have(f, 3, "192.0.2.1", false));
	assert_true(all_have(f, 3, "198.51.100.0", true));
}

static void an_older_copy_that_is_changed_at_once_is_found_out(void **state)
{
	copy_goes_on_before_it_is_told(*state, 1);
}

static void also_after_as_many_changes(void **state)
{
	copy_goes_on_before_it_is_told(*state, 2);
}

static void and_after_more(void **state)
{
	copy_goes_on_before_it_is_told(*state, 5);
}

/* Host 0 has heard that its change is there, and not yet the change itself. */
static void what_was_said_just_before_is_said_to_the_copy(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	settle(f, 3);
	save(f);
	cut(f, 1);
	cut(f, 2);
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "");
	assert_true(fix_wait(f, !status_of(&f->a[0]).waiting, 2000));
	agent_stop(&f->a[0]);
	emptied(f);
	back(f, 1);
	add(&f->a[1], "192.0.2.3", "command", FOREVER, "");
	say(f, &f->a[1]);
	back(f, 2);
	agent_start(f, &f->a[0]);
	settle(f, 3);
	for (int i = 1; i <= 3; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "192.0.2.%d", i);
		assert_true(all_have(f, 3, prefix, true));
	}
}

/* --- deletions are not remembered for ever ---- */

/* As after 30 days, or 100 000 deletions. */
static void forget_deletions(struct fix *f, const char *prefix)
{
	redisContext *c = redis_open(&f->r);
	redisReply *score, *v;
	char key[64];

	(void)snprintf(key, sizeof(key), "block %s", prefix);
	score = redis_do(c, "ZSCORE weir:{fleet}:1:gone %s", key);
	assert_int_equal(score->type, REDIS_REPLY_STRING);
	v = redis_do(c, "HSET weir:{fleet}:1:list forgot %s", score->str);
	freeReplyObject(v);
	freeReplyObject(score);
	assert_int_equal(redis_int(c, "ZREM weir:{fleet}:1:gone %s", key), 1);
	assert_int_equal(redis_int(c, "HDEL weir:{fleet}:1:list %s", key), 1);
	redisFree(c);
}

static void who_was_away_for_longer_than_that_says_nothing(void **state)
{
	struct fix *f = *state;
	redisContext *c;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "");
	settle(f, 3);
	cut(f, 2);
	add(&f->a[2], "192.0.2.5", "command", FOREVER, "while away");
	(void)del(&f->a[0], "192.0.2.1", NULL);
	add(&f->a[0], "192.0.2.3", "command", FOREVER, "");
	settle(f, 2);
	forget_deletions(f, "192.0.2.1");
	c = redis_open(&f->r);
	assert_true(redis_int(c, "XTRIM weir:{fleet}:1:changes MAXLEN 1") > 0);
	redisFree(c);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", false));
	assert_true(all_have(f, 3, "192.0.2.3", true));
	assert_true(all_have(f, 3, "192.0.2.5", true)); /* its own changes count */
	/* and so it is in the next store */
	cut(f, 2);
	add(&f->a[0], "192.0.2.6", "command", FOREVER, "");
	(void)del(&f->a[0], "192.0.2.2", NULL);
	settle(f, 2);
	forget_deletions(f, "192.0.2.2");
	add(&f->a[0], "192.0.2.7", "command", FOREVER, "");
	settle(f, 2);
	assert_false(fix_wait(f, !follows(&f->a[0]), 1500)); /* they have heard it in a beat */
	cut(f, 0);
	cut(f, 1);
	emptied(f);
	back(f, 0);
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.2", false));
	assert_true(all_have(f, 3, "192.0.2.7", true));
}

static void what_nobody_has_deleted_outlives_any_time(void **state)
{
	struct fix *f = *state;

	start_settled(f, 2);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	settle(f, 2);
	for (int i = 0; i < 2; i++) { /* the last they heard of it was in 1970 */
		agent_stop(&f->a[i]);
		edit(&f->a[i], "UPDATE word SET value='4096' WHERE key='last'");
	}
	emptied(f);
	start_all(f, 2);
	settle(f, 2);
	assert_true(all_have(f, 2, "192.0.2.1", true));
}

static void deletions_of_30_days_ago_are_forgotten_everywhere(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	char sql[512];
	__u64 old;

	start_settled(f, 1);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	(void)del(&f->a[0], "192.0.2.2", NULL);
	say(f, &f->a[0]);
	old = (weir_fleet_now_ms(f->a[0].f) - 31 * 86400000ull) << 12;
	agent_stop(&f->a[0]);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO item VALUES('block 192.0.2.9',%llu,'%llu'||char(10))",
		       (unsigned long long)old, (unsigned long long)old);
	edit(&f->a[0], sql);
	emptied(f);
	redisFree(c);
	c = redis_open(&f->r);
	agent_start(f, &f->a[0]);
	say(f, &f->a[0]);
	assert_true(fix_wait(f, redis_int(c, "ZCARD weir:{fleet}:1:gone") == 1, 5000));
	assert_int_equal(redis_int(c, "HEXISTS weir:{fleet}:1:list %s", "block 192.0.2.9"), 0);
	assert_int_equal(redis_int(c, "HEXISTS weir:{fleet}:1:list %s", "block 192.0.2.2"), 1);
	assert_true(fix_wait(f, status_of(&f->a[0]).gone == 1, 5000));
	redisFree(c);
}

/* --- a host's file and clock ---- */

static void a_batch_that_was_superseded_is_told_to_the_agent(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_key k = key_of("192.0.2.1");

	start_settled(f, 2);
	f->a[0].relay.mute_push = true;
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	assert_true(fix_wait(f, has(&f->a[1], "192.0.2.1"), 4000));
	(void)del(&f->a[1], "192.0.2.1", NULL);
	say(f, &f->a[1]);
	f->a[0].watched = &k;
	relay_cut(&f->a[0].relay);
	relay_heal(&f->a[0].relay);
	settle(f, 2);
	assert_false(has(&f->a[0], "192.0.2.1"));
	assert_false(f->a[0].sees_watched); /* as of the last that it was told */
}

/* As a crash leaves it: what is in the log counts, what is not written does not. */
static void copy_as_it_is(const char *from, const char *to)
{
	char a[180], b[180];

	copy_file(from, to);
	(void)snprintf(a, sizeof(a), "%s-wal", from);
	(void)snprintf(b, sizeof(b), "%s-wal", to);
	(void)unlink(b);
	if (access(a, F_OK) == 0)
		copy_file(a, b);
}

/* Host 0 deletes, host 1 adds after that; then all of them crash, and the store is lost. By host 0's clock, which stands,
 * nothing is written that could wait.
 */
static void what_the_store_has_acknowledged_is_not_said_once_more(void **state)
{
	struct fix *f = *state;
	char copy[160];

	(void)snprintf(copy, sizeof(copy), "%s.copy", f->a[0].db);
	start_settled(f, 2);
	add(&f->a[1], "192.0.2.1", "command", FOREVER, "first");
	settle(f, 2);
	f->a[0].frozen_ns = frozen_mono_ns(&f->a[0]);
	(void)del(&f->a[0], "192.0.2.1", NULL);
	assert_true(fix_wait(f, !status_of(&f->a[0]).waiting, 3000));
	add(&f->a[1], "192.0.2.1", "command", FOREVER, "after it");
	say(f, &f->a[1]);
	copy_as_it_is(f->a[0].db, copy);
	agent_stop(&f->a[0]);
	copy_as_it_is(copy, f->a[0].db);
	f->a[0].frozen_ns = 0;
	emptied(f);
	agent_start(f, &f->a[0]);
	settle(f, 2);
	assert_true(all_have(f, 2, "192.0.2.1", true));
}

/* A copy of the file from before the last batch: what is said from then on is no batch of that number. */
static void a_file_put_back_loses_nothing_that_is_said_then(void **state)
{
	struct fix *f = *state;
	char copy[160];

	(void)snprintf(copy, sizeof(copy), "%s.copy", f->a[0].db);
	start_settled(f, 2);
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	settle(f, 2);
	agent_stop(&f->a[0]);
	copy_file(f->a[0].db, copy);
	agent_start(f, &f->a[0]);
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "");
	settle(f, 2);
	agent_stop(&f->a[0]);
	copy_file(copy, f->a[0].db);
	agent_start(f, &f->a[0]);
	add(&f->a[0], "192.0.2.3", "command", FOREVER, "");
	settle(f, 2);
	for (int i = 1; i <= 3; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "192.0.2.%d", i);
		assert_true(all_have(f, 2, prefix, true));
	}
}

static void a_file_put_back_says_no_batch_again(void **state)
{
	struct fix *f = *state;
	char copy[160];

	(void)snprintf(copy, sizeof(copy), "%s.copy", f->a[0].db);
	start_settled(f, 2);
	f->a[0].relay.mute_push = true;
	add(&f->a[0], "192.0.2.1", "command", FOREVER, "");
	assert_true(fix_wait(f, has(&f->a[1], "192.0.2.1"), 4000));
	agent_stop(&f->a[0]); /* with the batch on its disk, in doubt */
	copy_file(f->a[0].db, copy);
	relay_cut(&f->a[0].relay);
	relay_heal(&f->a[0].relay);
	agent_start(f, &f->a[0]);
	settle(f, 2);
	add(&f->a[0], "192.0.2.2", "command", FOREVER, "another batch");
	(void)del(&f->a[1], "192.0.2.1", NULL);
	settle(f, 2);
	agent_stop(&f->a[0]);
	copy_file(copy, f->a[0].db);
	agent_start(f, &f->a[0]);
	settle(f, 2);
	assert_true(all_have(f, 2, "192.0.2.1", false));
	assert_true(all_have(f, 2, "192.0.2.2", true));
}

static void a_clock_set_back_shortens_and_loses_nothing(void **state)
{
	struct fix *f = *state;

	start_settled(f, 2);
	agent_stop(&f->a[0]); /* it has heard the server's clock, and knows how its own differs */
	relay_cut(&f->a[0].relay);
	f->a[0].skew_ms = -20ll * 365 * 86400000;
	agent_start(f, &f->a[0]); /* after a reboot without a clock, and without the store */
	add(&f->a[0], "192.0.2.1", "command", 3600000, "");
	relay_heal(&f->a[0].relay);
	settle(f, 2);
	assert_in_range(only_entry(&f->a[1], "192.0.2.1").end_ms - weir_fleet_now_ms(f->a[1].f),
			3500000, 3600000);
}

/* --- several hosts, one prefix ---- */

static void two_hosts_that_extend_while_cut_off_come_to_the_later_end(void **state)
{
	struct fix *f = *state;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "command", 60000, "first");
	settle(f, 3);
	cut(f, 1);
	cut(f, 2);
	add(&f->a[1], "192.0.2.1", "command", 7200000, "longer");
	add(&f->a[2], "192.0.2.1", "command", 3600000, "shorter");
	add(&f->a[2], "192.0.2.2", "command", 500, "over before anybody hears of it");
	assert_true(fix_wait(f, !has(&f->a[2], "192.0.2.2"), 2000));
	back(f, 1);
	back(f, 2);
	settle(f, 3);
	assert_true(only_entry(&f->a[0], "192.0.2.1").end_ms >
		    weir_fleet_now_ms(f->a[0].f) + 7000000);
	assert_string_equal(only_entry(&f->a[0], "192.0.2.1").reason, "shorter"); /* came last */
	assert_true(all_have(f, 3, "192.0.2.2", false));
}

static void an_escalation_deleted_while_cut_off_stays_so(void **state)
{
	struct fix *f = *state;
	struct weir_error e = {};
	size_t n = 0;

	start_settled(f, 3);
	add(&f->a[0], "192.0.2.1", "escalation:login", 3600000, "");
	add(&f->a[0], "192.0.2.2", "escalation:login", 3600000, "");
	settle(f, 3);
	cut(f, 1);
	assert_int_equal(del(&f->a[1], "192.0.2.1", "escalation"), 1);
	assert_int_equal(weir_fleet_del_origin(f->a[1].f, WEIR_LIST_BLOCK, "escalation", &n, &e),
			 0);
	assert_int_equal(n, 1);
	emptied(f);
	settle(f, 1);
	back(f, 1);
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", false));
	assert_true(all_have(f, 3, "192.0.2.2", false));
	add(&f->a[2], "192.0.2.1", "escalation:login", 3600000, "again");
	settle(f, 3);
	assert_true(all_have(f, 3, "192.0.2.1", true));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_set_up, fix_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(what_one_host_alone_knows_outlives_two_losses),
		TEST(an_older_word_does_not_extend_what_was_said_anew),
		TEST(an_addition_on_what_was_deleted_elsewhere_stands_alone),
		TEST(what_has_ended_keeps_what_was_deleted_before_it),
		TEST(one_origin_deleted_stays_so_beside_others),
		TEST(what_is_deleted_where_it_is_not_known_stays_so),
		TEST(adding_again_counts_also_where_it_changes_nothing),
		TEST(an_older_copy_that_is_changed_at_once_is_found_out),
		TEST(also_after_as_many_changes),
		TEST(and_after_more),
		TEST(what_was_said_just_before_is_said_to_the_copy),
		TEST(who_was_away_for_longer_than_that_says_nothing),
		TEST(what_nobody_has_deleted_outlives_any_time),
		TEST(deletions_of_30_days_ago_are_forgotten_everywhere),
		TEST(a_batch_that_was_superseded_is_told_to_the_agent),
		TEST(what_the_store_has_acknowledged_is_not_said_once_more),
		TEST(a_file_put_back_loses_nothing_that_is_said_then),
		TEST(a_file_put_back_says_no_batch_again),
		TEST(a_clock_set_back_shortens_and_loses_nothing),
		TEST(two_hosts_that_extend_while_cut_off_come_to_the_later_end),
		TEST(an_escalation_deleted_while_cut_off_stays_so),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
