/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fleet's lists over a real server: a change on one host acts on all, whatever happens between them. */
#include "redis/fleet_case.h"

static void a_block_acts_on_all_within_a_second(void **state)
{
	struct fix *f = *state;
	uint64_t worst_ns = 0, sum_ns = 0;

	start_all(f, AGENTS);
	assert_true(fix_wait(f, all_settled(f, AGENTS), 5000));
	for (int i = 0; i < 20; i++) {
		char prefix[32];
		uint64_t began_ns = wait_now_ns(), took_ns;

		(void)snprintf(prefix, sizeof(prefix), "192.0.2.%d", i);
		add(&f->a[i % AGENTS], prefix, "command", 0, "scan");
		assert_true(has(&f->a[i % AGENTS], prefix)); /* here at once */
		assert_true(fix_wait(f, all_have(f, AGENTS, prefix, true), 5000));
		took_ns = wait_now_ns() - began_ns;
		sum_ns += took_ns;
		worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
	}
	print_message("reaction of 5 hosts: %llu ms on average, %llu ms at most\n",
		      (unsigned long long)(sum_ns / 20 / 1000000),
		      (unsigned long long)(worst_ns / 1000000));
	assert_true(worst_ns < 1000000000ull);
	assert_int_equal(del(&f->a[1], "192.0.2.0", NULL), 1);
	assert_true(fix_wait(f, all_have(f, AGENTS, "192.0.2.0", false), 1000));
	assert_true(all_same(f, AGENTS) || fix_wait(f, all_same(f, AGENTS), 2000));
}

static void origin_reason_author_and_host_are_kept(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of("2001:db8::/64");

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	add(&f->a[0], "2001:db8::/64", "escalation:login", 60000, "20 refusals\tof\nlogin");
	assert_true(fix_wait(f, has(&f->a[1], "2001:db8::/64"), 2000));
	assert_int_equal(weir_fleet_get(f->a[1].f, &k, e), 1);
	assert_string_equal(e[0].origin, "escalation:login");
	assert_string_equal(e[0].reason, "20 refusals of login");
	assert_string_equal(e[0].host, "host0");
	assert_string_equal(e[0].who, "root");
	assert_in_range(e[0].end_ms - weir_fleet_now_ms(f->a[1].f), 50000, 60000);
}

static void adding_again_extends_and_deleting_nothing_is_success(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of("192.0.2.1");

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	add(&f->a[0], "192.0.2.1", "command", 600000, "long");
	assert_true(fix_wait(f, has(&f->a[1], "192.0.2.1"), 2000));
	add(&f->a[1], "192.0.2.1", "command", 1000, "short");
	assert_true(fix_wait(f, all_same(f, 2), 3000));
	assert_int_equal(weir_fleet_get(f->a[0].f, &k, e), 1);
	assert_true(e[0].end_ms > weir_fleet_now_ms(f->a[0].f) + 500000);
	assert_string_equal(e[0].reason, "short"); /* the newer one */
	add(&f->a[1], "192.0.2.1", "command", 0, "");
	assert_true(fix_wait(f, all_same(f, 2) && weir_fleet_get(f->a[0].f, &k, e) && !e[0].end_ms,
			     3000));
	add(&f->a[0], "192.0.2.1", "drop.netset", 5000, "");
	assert_true(fix_wait(f, all_same(f, 2), 3000));
	assert_int_equal(weir_fleet_get(f->a[1].f, &k, e), 2);
	assert_int_equal(del(&f->a[1], "192.0.2.77", NULL), 0);
	assert_int_equal(del(&f->a[1], "192.0.2.1", "drop.netset"), 1);
	assert_true(fix_wait(f, all_same(f, 2) && weir_fleet_get(f->a[0].f, &k, e) == 1, 3000));
	assert_int_equal(del(&f->a[0], "192.0.2.1", NULL), 1);
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.1", false), 2000));
}

static void clocks_30_s_apart_end_at_the_same_moment(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of("192.0.2.5");
	__u64 least_ns = UINT64_MAX, most_ns = 0;

	for (int i = 0; i < AGENTS; i++)
		f->a[i].skew_ms = (i - 2) * 30000;
	/* before it has ever heard the server's clock */
	agent_start(f, &f->a[0]);
	add(&f->a[0], "192.0.2.5", "command", 20000, "");
	for (int i = 1; i < AGENTS; i++)
		agent_start(f, &f->a[i]);
	assert_true(fix_wait(f, all_have(f, AGENTS, "192.0.2.5", true) && all_settled(f, AGENTS),
			     5000));
	for (int i = 0; i < AGENTS; i++) {
		__u64 at_ns;

		assert_int_equal(weir_fleet_get(f->a[i].f, &k, e), 1);
		at_ns = weir_fleet_mono_ns(f->a[i].f, e[0].end_ms);
		least_ns = at_ns < least_ns ? at_ns : least_ns;
		most_ns = at_ns > most_ns ? at_ns : most_ns;
	}
	print_message("ends lie %llu ms apart\n",
		      (unsigned long long)((most_ns - least_ns) / 1000000));
	assert_true(most_ns - least_ns < 250000000ull);
	assert_in_range(least_ns - wait_now_ns(), 10ull * 1000000000, 20ull * 1000000000);
}

static void what_ends_goes_everywhere_and_from_the_server(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	add(&f->a[0], "192.0.2.6", "command", 1500, "");
	add(&f->a[0], "192.0.2.7", "command", 0, "");
	assert_true(fix_wait(f, all_have(f, 3, "192.0.2.6", true), 1000));
	assert_true(fix_wait(f, all_have(f, 3, "192.0.2.6", false), 3000));
	assert_true(fix_wait(f,
			     redis_int(c, "HEXISTS weir:{fleet}:1:list %s", "block 192.0.2.6") == 0,
			     3000));
	assert_true(fix_wait(f, redis_int(c, "ZCARD weir:{fleet}:1:ends") == 0, 3000));
	assert_true(all_have(f, 3, "192.0.2.7", true));
	redisFree(c);
}

static void what_is_changed_while_the_store_is_away_comes_in_order(void **state)
{
	struct fix *f = *state;

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	add(&f->a[0], "192.0.2.1", "command", 0, "kept");
	add(&f->a[0], "192.0.2.2", "command", 0, "to go");
	assert_true(fix_wait(f, all_same(f, 3), 3000));
	relay_cut(&f->a[1].relay);
	add(&f->a[1], "192.0.2.3", "command", 0, "while away");
	add(&f->a[1], "192.0.2.4", "command", 0, "and back");
	assert_int_equal(del(&f->a[1], "192.0.2.4", NULL), 1);
	assert_int_equal(del(&f->a[1], "192.0.2.2", NULL), 1);
	assert_false(has(&f->a[1], "192.0.2.2"));
	/* restarted without the store, it knows all of it */
	agent_stop(&f->a[1]);
	agent_start(f, &f->a[1]);
	assert_true(has(&f->a[1], "192.0.2.1") && has(&f->a[1], "192.0.2.3"));
	assert_false(has(&f->a[1], "192.0.2.2") || has(&f->a[1], "192.0.2.4"));
	assert_true(has(&f->a[0], "192.0.2.2"));
	relay_heal(&f->a[1].relay);
	assert_true(fix_wait(f, all_same(f, 3), 5000));
	assert_true(all_have(f, 3, "192.0.2.1", true) && all_have(f, 3, "192.0.2.3", true));
	assert_true(all_have(f, 3, "192.0.2.2", false) && all_have(f, 3, "192.0.2.4", false));
}

static void a_batch_whose_reply_is_lost_is_not_applied_twice(void **state)
{
	struct fix *f = *state;

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	f->a[0].relay.mute_push = true;
	add(&f->a[0], "192.0.2.1", "command", 0, "");
	assert_true(fix_wait(f, has(&f->a[1], "192.0.2.1"), 4000));
	assert_int_equal(status_of(&f->a[0]).waiting, 1); /* it does not know */
	assert_int_equal(del(&f->a[1], "192.0.2.1", NULL), 1);
	assert_true(fix_wait(f, !status_of(&f->a[1]).waiting, 2000));
	agent_stop(&f->a[0]);
	relay_cut(&f->a[0].relay);
	relay_heal(&f->a[0].relay);
	agent_start(f, &f->a[0]);
	assert_true(fix_wait(f, all_same(f, 2), 5000));
	assert_true(all_have(f, 2, "192.0.2.1", false));
}

static void a_host_that_was_away_too_long_reads_the_whole(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	__u64 reads;

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	add(&f->a[0], "192.0.2.1", "command", 0, "");
	add(&f->a[0], "192.0.2.2", "command", 0, "");
	assert_true(fix_wait(f, all_same(f, 2), 3000));
	reads = status_of(&f->a[1]).reads;
	relay_cut(&f->a[1].relay);
	assert_true(fix_wait(f, !follows(&f->a[1]), 3000));
	add(&f->a[0], "192.0.2.3", "command", 0, "");
	(void)del(&f->a[0], "192.0.2.1", NULL);
	assert_true(fix_wait(f, !status_of(&f->a[0]).waiting, 2000));
	assert_true(redis_int(c, "XTRIM weir:{fleet}:1:changes MAXLEN 1") > 0);
	relay_heal(&f->a[1].relay);
	assert_true(fix_wait(f, all_same(f, 2), 5000));
	assert_int_equal(status_of(&f->a[1]).reads, reads + 1);
	assert_true(all_have(f, 2, "192.0.2.3", true) && all_have(f, 2, "192.0.2.1", false));
	redisFree(c);
}

static void an_empty_store_makes_nobody_forget_and_nobody_resurrect(void **state)
{
	struct fix *f = *state;

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	for (int i = 0; i < 200; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "198.51.100.%d", i);
		add(&f->a[i % 3], prefix, "command", i % 2 ? 0 : 3600000, "r");
	}
	assert_true(fix_wait(f, all_same(f, 3), 5000));
	/* host 2 misses a deletion and an extension, and holds what was deleted */
	relay_cut(&f->a[2].relay);
	assert_true(fix_wait(f, !follows(&f->a[2]), 3000));
	(void)del(&f->a[0], "198.51.100.7", NULL);
	add(&f->a[1], "198.51.100.8", "command", 0, "for ever");
	assert_true(fix_wait(f,
			     !status_of(&f->a[0]).waiting && !status_of(&f->a[1]).waiting &&
				     all_have(f, 2, "198.51.100.7", false),
			     3000));
	redis_kill(&f->r);
	assert_true(fix_wait(f, !follows(&f->a[0]) && !follows(&f->a[1]), 5000));
	assert_true(has(&f->a[0], "198.51.100.9"));
	/* the one that was away comes first */
	relay_cut(&f->a[0].relay);
	relay_cut(&f->a[1].relay);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	relay_heal(&f->a[2].relay);
	assert_true(fix_wait(f, follows(&f->a[2]), 5000));
	add(&f->a[2], "198.51.100.9", "escalation:x", 5000, "meanwhile");
	assert_true(fix_wait(f, !status_of(&f->a[2]).waiting, 2000));
	relay_heal(&f->a[0].relay);
	relay_heal(&f->a[1].relay);
	assert_true(fix_wait(f, all_same(f, 3), 8000));
	assert_true(all_have(f, 3, "198.51.100.7", false));
	for (int i = 0; i < 200; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "198.51.100.%d", i);
		assert_true(i == 7 || all_have(f, 3, prefix, true));
	}
	assert_int_equal(server_entries(f), 199);
	{
		struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
		struct weir_fleet_key k = key_of("198.51.100.8");

		assert_int_equal(weir_fleet_get(f->a[2].f, &k, e), 1);
		assert_int_equal(e[0].end_ms, 0); /* the extension it had missed */
		k = key_of("198.51.100.9");
		assert_int_equal(weir_fleet_get(f->a[0].f, &k, e), 2);
	}
}

static void what_was_added_after_a_lost_deletion_comes_back(void **state)
{
	struct fix *f = *state;

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	add(&f->a[0], "192.0.2.1", "command", 0, "first");
	assert_true(fix_wait(f, all_same(f, 3), 3000));
	/* host 2 misses the deletion, host 1 what came after it */
	relay_cut(&f->a[2].relay);
	(void)del(&f->a[0], "192.0.2.1", NULL);
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.1", false) && !status_of(&f->a[0]).waiting,
			     3000));
	relay_cut(&f->a[1].relay);
	add(&f->a[0], "192.0.2.1", "command", 0, "second");
	assert_true(fix_wait(f, !status_of(&f->a[0]).waiting, 3000));
	relay_cut(&f->a[0].relay);
	redis_kill(&f->r);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	for (int i = 2; i >= 0; i--) { /* those who know least come first */
		relay_heal(&f->a[i].relay);
		assert_true(fix_wait(f, status_of(&f->a[i]).restores && follows(&f->a[i]), 5000));
	}
	assert_true(fix_wait(f, all_same(f, 3) && all_have(f, 3, "192.0.2.1", true), 3000));
}

static void an_older_copy_of_the_store_is_told_what_it_misses(void **state)
{
	struct fix *f = *state;
	redisContext *c;

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	add(&f->a[0], "192.0.2.1", "command", 0, "old");
	add(&f->a[0], "192.0.2.2", "command", 0, "old");
	assert_true(fix_wait(f, all_same(f, 3), 3000));
	c = redis_open(&f->r);
	assert_int_equal(redis_int(c, "SAVE"), 0);
	redisFree(c);
	add(&f->a[1], "192.0.2.3", "command", 0, "new");
	(void)del(&f->a[1], "192.0.2.1", NULL);
	add(&f->a[1], "192.0.2.2", "command", 0, "newer");
	assert_true(fix_wait(f, all_same(f, 3) && has(&f->a[2], "192.0.2.3"), 3000));
	redis_kill(&f->r);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	assert_true(fix_wait(f, status_of(&f->a[0]).restores && all_same(f, 3), 8000));
	assert_true(all_have(f, 3, "192.0.2.3", true) && all_have(f, 3, "192.0.2.1", false));
	{
		struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
		struct weir_fleet_key k = key_of("192.0.2.2");

		assert_int_equal(weir_fleet_get(f->a[0].f, &k, e), 1);
		assert_string_equal(e[0].reason, "newer");
	}
}

static void an_origin_goes_fleet_wide_also_where_it_was_not_known_yet(void **state)
{
	struct fix *f = *state;
	struct weir_error e = {};
	size_t n = 0;

	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	add(&f->a[0], "192.0.2.1", "escalation:login", 60000, "");
	add(&f->a[0], "192.0.2.2", "escalation", 60000, "");
	add(&f->a[0], "192.0.2.2", "command", 60000, "");
	add(&f->a[0], "192.0.2.3", "escalations", 60000, "");
	assert_true(fix_wait(f, all_same(f, 3), 3000));
	relay_cut(&f->a[1].relay);
	assert_true(fix_wait(f, !follows(&f->a[1]), 3000));
	add(&f->a[2], "192.0.2.4", "escalation:api", 60000, "");
	assert_int_equal(weir_fleet_del_origin(f->a[1].f, WEIR_LIST_BLOCK, "escalation", &n, &e),
			 0);
	assert_int_equal(n, 2);
	add(&f->a[1], "192.0.2.5", "escalation:api", 60000, "after it");
	assert_false(has(&f->a[1], "192.0.2.1"));
	relay_heal(&f->a[1].relay);
	assert_true(fix_wait(f, all_same(f, 3) && all_have(f, 3, "192.0.2.4", false), 5000));
	assert_true(all_have(f, 3, "192.0.2.1", false) && all_have(f, 3, "192.0.2.2", true));
	assert_true(all_have(f, 3, "192.0.2.3", true) && all_have(f, 3, "192.0.2.5", true));
}

static void scripts_may_be_flushed(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	assert_int_equal(redis_int(c, "SCRIPT FLUSH"), 0);
	add(&f->a[0], "192.0.2.1", "command", 0, "");
	assert_true(fix_wait(f, all_have(f, 2, "192.0.2.1", true), 2000));
	redisFree(c);
}

/* --- secret, agents, limits ---- */

static bool all_have_secrets(struct fix *f, int n)
{
	for (int i = 0; i < n; i++)
		if (!f->a[i].has_secret)
			return false;
	return true;
}

static void one_secret_is_made_and_survives_the_store(void **state)
{
	struct fix *f = *state;
	__u8 was[WEIR_FLEET_SECRET_BYTES];
	static const __u8 other[WEIR_FLEET_SECRET_BYTES] = {1, 2, 3};

	start_all(f, 3);
	assert_true(fix_wait(f, all_have_secrets(f, 3), 6000));
	for (int i = 1; i < 3; i++)
		assert_memory_equal(f->a[i].given, f->a[0].given, sizeof(was));
	memcpy(was, f->a[0].given, sizeof(was));
	f->a[3].secret = other;
	agent_start(f, &f->a[3]);
	assert_true(fix_wait(f, weir_fleet_unready(f->a[3].f) != NULL, 5000));
	assert_non_null(strstr(weir_fleet_unready(f->a[3].f), "key_secret_file"));
	assert_null(weir_fleet_unready(f->a[0].f));
	agent_stop(&f->a[3]);
	redis_kill(&f->r);
	agent_stop(&f->a[2]);
	f->a[2].has_secret = false;
	assert_int_equal(redis_start(&f->r, NULL), 0);
	agent_start(f, &f->a[4]); /* a new one is no faster than those who know it */
	agent_start(f, &f->a[2]);
	assert_true(weir_fleet_secret(f->a[2].f, f->a[2].given));
	assert_memory_equal(f->a[2].given, was, sizeof(was));
	assert_true(fix_wait(f, f->a[4].has_secret, 6000));
	assert_memory_equal(f->a[4].given, was, sizeof(was));
	assert_true(fix_wait(f, all_settled(f, AGENTS), 5000));
	for (int i = 0; i < 3; i++)
		assert_null(weir_fleet_unready(f->a[i].f));
}

static void agents_know_who_is_alive(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_agent a[8];
	size_t n;

	start_all(f, 3);
	assert_true(fix_wait(f,
			     weir_fleet_live_agents(f->a[0].f) == 3 &&
				     weir_fleet_live_agents(f->a[2].f) == 3,
			     6000));
	assert_true(fix_wait(f, weir_fleet_live_agents(f->a[1].f) == 3, 3000));
	n = weir_fleet_agents(f->a[1].f, a, 8);
	assert_int_equal(n, 3);
	assert_string_equal(a[0].host, "host0");
	assert_string_equal(a[0].version, WEIR_VERSION);
	assert_int_equal(a[0].generation, 7);
	assert_false(a[0].self);
	assert_true(a[1].self && a[1].live);
}

static int published;
static __u64 published_generation;
static char published_why[256];
static struct weir_fleet_limits published_known; /* by the first agent then */
static __u64 published_in_force;
static void on_published(void *arg, int r, __u64 generation, const char *why)
{
	(void)arg;
	published = r < 0 ? r : 1;
	published_generation = generation;
	if (r == 0) { /* whoever is told can pull it */
		struct fix *f = arg;

		weir_fleet_limits(f->a[0].f, &published_known);
		published_in_force = f->a[0].limits;
	}
	(void)snprintf(published_why, sizeof(published_why), "%s", why);
}

static void limits_are_published_once_and_outlive_the_store(void **state)
{
	struct fix *f = *state;
	struct weir_error e = {};

	published = 0;
	start_all(f, 3);
	assert_true(fix_wait(f, all_settled(f, 3), 5000));
	assert_int_equal(weir_fleet_publish(f->a[0].f, "request_limits: []\n", "root", on_published,
					    f, &e),
			 0);
	assert_true(fix_wait(f, published, 2000));
	assert_int_equal(published, 1);
	assert_int_equal(published_generation, 1);
	assert_int_equal(published_known.generation, 1);
	assert_int_equal(published_in_force, 1);
	assert_true(fix_wait(f, f->a[1].limits == 1 && f->a[2].limits == 1 && f->a[0].limits == 1,
			     2000));
	assert_string_equal(f->a[1].limits_text, "request_limits: []\n");
	/* somebody else is faster */
	relay_cut(&f->a[1].relay);
	assert_true(fix_wait(f, !follows(&f->a[1]), 3000));
	assert_true(weir_fleet_publish(f->a[1].f, "x: 1\n", "root", on_published, f, &e) < 0);
	assert_non_null(strstr(e.text, "the store is away"));
	published = 0;
	assert_int_equal(weir_fleet_publish(f->a[0].f, "packet_limits: []\n", "root", on_published,
					    f, &e),
			 0);
	assert_int_equal(weir_fleet_publish(f->a[2].f, "plans: []\n", "root", on_published, f, &e),
			 0);
	assert_true(fix_wait(f, f->a[0].limits == 2 && f->a[2].limits == 2, 3000));
	assert_true(published_generation == 2);
	relay_heal(&f->a[1].relay);
	assert_true(fix_wait(f, f->a[1].limits == 2, 5000));
	redis_kill(&f->r);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	agent_start(f, &f->a[3]);
	assert_true(fix_wait(f, f->a[3].limits == 2, 6000));
}

static int asked;

static void on_asked(void *arg, int r, const char *why)
{
	(void)arg;
	(void)why;
	asked = r ? r : 1;
}

/* By a clock that stands it does not poll. */
static void whoever_asks_hears_at_once_what_was_published(void **state)
{
	struct fix *f = *state;
	struct weir_error e = {};

	start_all(f, 2);
	assert_true(fix_wait(f, all_settled(f, 2), 5000));
	asked = published = 0;
	f->a[1].frozen_ns = frozen_mono_ns(&f->a[1]);
	assert_true(fix_wait(f, f->a[1].f->doing == WEIR_FLEET_IDLE, 2000));
	assert_int_equal(weir_fleet_publish(f->a[0].f, "plans: []\n", "root", on_published, f, &e),
			 0);
	assert_true(fix_wait(f, f->a[0].limits == 1, 3000));
	assert_int_equal(f->a[1].limits, 0);
	assert_int_equal(weir_fleet_ask_limits(f->a[1].f, on_asked, f, &e), 0);
	assert_int_equal(weir_fleet_ask_limits(f->a[1].f, on_asked, f, &e), -EBUSY);
	assert_true(fix_wait(f, asked, 3000));
	assert_int_equal(asked, 1);
	assert_int_equal(f->a[1].limits, 1);
	f->a[1].frozen_ns = 0;
	redis_kill(&f->r);
	asked = 0;
	if (weir_fleet_ask_limits(f->a[1].f, on_asked, f, &e) == 0) /* it does not know it yet */
		assert_true(fix_wait(f, asked == -EIO, 5000));
	assert_true(fix_wait(f, !follows(&f->a[1]), 5000));
	assert_int_equal(weir_fleet_ask_limits(f->a[1].f, on_asked, f, &e), -EHOSTDOWN);
}

/* Entries that a store has, of 10.0.0.0/8; said one after the other. */
static void fill(struct fix *f, unsigned from, unsigned n)
{
	static const char script[] =
		"local last = tonumber(redis.call('HGET', KEYS[1], 'last')) "
		"for i = ARGV[1], ARGV[2] - 1 do last = last + 1 "
		"local v = string.format('%.0f', last) "
		"redis.call('HSET', KEYS[1], string.format('block 10.%d.%d.%d', math.floor(i / "
		"65536), "
		"math.floor(i / 256) % 256, i % 256), "
		"v .. ' 0\\n' .. v .. '\\t0\\t0\\t1\\t0\\tcommand\\thost\\troot\\tscan\\n') end "
		"redis.call('HSET', KEYS[1], 'last', string.format('%.0f', last)) "
		"redis.call('DEL', KEYS[2]) redis.call('HINCRBY', KEYS[1], 'n', 1)";
	redisContext *c = redis_open(&f->r);
	redisReply *r = redis_do(c, "EVAL %s 2 weir:{fleet}:1:list weir:{fleet}:1:changes %d %d",
				 script, (int)from, (int)(from + n));

	if (r->type == REDIS_REPLY_ERROR)
		fail_msg("%s", r->str);
	freeReplyObject(r);
	redisFree(c);
}

static void a_long_list_is_read_at_once_and_is_on_disk_then(void **state)
{
	struct fix *f = *state;
	uint64_t began_ns;

	start_all(f, 1);
	assert_true(fix_wait(f, all_settled(f, 1), 5000));
	fill(f, 0, 100000);
	began_ns = wait_now_ns();
	agent_start(f, &f->a[1]);
	/* not by weir_fleet_status, which counts them all each time */
	assert_true(fix_wait(f, f->a[1].f->state == WEIR_FLEET_FOLLOWS, 60000));
	print_message("100 000 entries were read in %llu ms\n",
		      (unsigned long long)((wait_now_ns() - began_ns) / 1000000));
	agent_stop(&f->a[1]);
	relay_cut(&f->a[1].relay); /* from its disk */
	agent_start(f, &f->a[1]);
	assert_int_equal(status_of(&f->a[1]).entries, 100000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_set_up, fix_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_block_acts_on_all_within_a_second),
		TEST(origin_reason_author_and_host_are_kept),
		TEST(adding_again_extends_and_deleting_nothing_is_success),
		TEST(clocks_30_s_apart_end_at_the_same_moment),
		TEST(what_ends_goes_everywhere_and_from_the_server),
		TEST(what_is_changed_while_the_store_is_away_comes_in_order),
		TEST(a_batch_whose_reply_is_lost_is_not_applied_twice),
		TEST(a_host_that_was_away_too_long_reads_the_whole),
		TEST(an_empty_store_makes_nobody_forget_and_nobody_resurrect),
		TEST(what_was_added_after_a_lost_deletion_comes_back),
		TEST(an_older_copy_of_the_store_is_told_what_it_misses),
		TEST(an_origin_goes_fleet_wide_also_where_it_was_not_known_yet),
		TEST(scripts_may_be_flushed),
		TEST(one_secret_is_made_and_survives_the_store),
		TEST(agents_know_who_is_alive),
		TEST(limits_are_published_once_and_outlive_the_store),
		TEST(whoever_asks_hears_at_once_what_was_published),
		TEST(a_long_list_is_read_at_once_and_is_on_disk_then),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
