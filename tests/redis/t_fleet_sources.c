/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packet limits of the fleet in a real Redis: who is loud nowhere and too loud together is found and blocked on all hosts
 * in the stated time, who keeps to the limit never is, with clocks apart and a store that goes away.
 */
#include "redis/fleet_case.h"
#include "redis/rights.h"
#include "user/base/cleanup.h"
#include "user/fleet/sources.h"

#define MSEC	  1000000ull
#define RATE	  1000 /* a second, burst 100 */
#define WINDOW_NS (200 * MSEC)
#define PASS_NS	  (50 * MSEC)

struct host {
	struct fix *f;
	struct weir_fleet_sources *s;
	struct agent *a;
	__u64 began_ns, per_s; /* what the source sends here */
	__u64 rest;	       /* sent in windows that are over */
	__u64 window, pass_ns;
	bool blocked;
	__u64 blocked_ns, sent;
	unsigned found;
	__u64 block_ms;
};

static const struct weir_fleet_source_limit the_limit = {
	.name = "syn",
	.amount = RATE,
	.per_ns = 1000 * MSEC,
	.burst = 100,
	.least = 1,
	.window_ns = WINDOW_NS,
	.pass_ns = PASS_NS,
};

#define SOURCE "198.51.100.9"

static void on_over(void *arg, unsigned i, const struct weir_fleet_over *over, size_t n)
{
	struct host *h = arg;
	char text[WEIR_PREFIX_STRLEN];

	assert_int_equal(i, 0);
	assert_int_equal(n, 1);
	assert_string_equal(weir_prefix_format(&over->source, text), SOURCE);
	h->found++;
	h->block_ms = over->block_ms;
	add(h->a, SOURCE, "fleet:syn", over->block_ms, "");
}

static void start(struct fix *f, struct host *h, int n, const struct weir_fleet_source_limit *l)
{
	start_all(f, n);
	for (int i = 0; i < n; i++) {
		h[i] = (struct host){.f = f, .a = &f->a[i]};
		assert_true(fix_wait(f, follows(&f->a[i]), 3000));
		assert_int_equal(weir_fleet_sources_new(f->a[i].f, on_over, &h[i], &h[i].s), 0);
		assert_int_equal(weir_fleet_sources_set(h[i].s, l, 1), 0);
	}
	assert_true(fix_wait(f, weir_fleet_live_agents(f->a[0].f) == (unsigned)n, 5000));
	assert_true(fix_wait(f, weir_fleet_live_agents(f->a[n - 1].f) == (unsigned)n, 5000));
}

static void stop(struct host *h, int n)
{
	for (int i = 0; i < n; i++) {
		weir_fleet_sources_free(h[i].s);
		h[i].s = NULL;
	}
}

/* What the program and the agent's reading do: counts by window until the source is blocked, read in passes. */
static void step(struct host *h)
{
	__u64 now_ns = wait_now_ns(), window = now_ns / WINDOW_NS, total;
	struct weir_prefix source = key_of(SOURCE).prefix;
	__u64 count;

	if (!h->began_ns) {
		h->began_ns = now_ns;
		h->window = window;
	}
	if (!h->blocked && has(h->a, SOURCE)) {
		h->blocked = true;
		h->blocked_ns = now_ns;
	}
	total = (now_ns - h->began_ns) * h->per_s / (1000 * MSEC);
	if (h->blocked)
		total = h->sent;
	if (window != h->window) {
		h->rest = h->sent;
		h->window = window;
	}
	h->sent = total;
	count = total - h->rest;
	if (now_ns < h->pass_ns)
		return;
	/* the last pass of a window is right before its end */
	h->pass_ns = (now_ns / PASS_NS + 1) * PASS_NS - 5 * MSEC;
	if (h->pass_ns <= now_ns)
		h->pass_ns += PASS_NS;
	if (count > weir_fleet_sources_above(h->s, 0))
		weir_fleet_sources_saw(h->s, 0, &source, window, count);
	weir_fleet_sources_flush(h->s);
}

static bool run(struct host *h, int n)
{
	bool all = true;

	for (int i = 0; i < n; i++) {
		step(&h[i]);
		all = all && h[i].blocked;
	}
	return all;
}

static void loud_nowhere_and_too_loud_together_is_found_everywhere(void **state)
{
	struct fix *f = *state;
	struct host h[AGENTS];
	__u64 first_ns, last_ns = 0, sent = 0, room_ns = weir_fleet_sources_room_ns(&the_limit);
	__u64 must_ns, over, found = 0;

	start(f, h, AGENTS, &the_limit);
	for (int i = 0; i < AGENTS; i++)
		h[i].per_s = RATE * 4 / 10;
	assert_true(fix_wait(f, run(h, AGENTS), 10000));
	first_ns = h[0].began_ns;
	for (int i = 0; i < AGENTS; i++) {
		last_ns = h[i].blocked_ns > last_ns ? h[i].blocked_ns : last_ns;
		sent += h[i].sent;
		found += h[i].found;
	}
	/* twice the limit: its room is full after the same time, then a pass, a call and a poll */
	must_ns = room_ns + WINDOW_NS + PASS_NS + 750 * MSEC;
	over = sent - RATE * (last_ns - first_ns) / (1000 * MSEC);
	print_message(
		"at 2.0 times the limit: blocked on all %d hosts after %llu ms (at most %llu), "
		"%llu packets over\n",
		AGENTS, (last_ns - first_ns) / MSEC, must_ns / MSEC, over);
	assert_true(last_ns - first_ns <= must_ns);
	assert_true(over <= RATE * must_ns / (1000 * MSEC));
	assert_in_range(found, 1, 2); /* one change of the lists, not one for each host */
	/* paid back: as long as the limit needs for what got through */
	for (int i = 0; i < AGENTS; i++)
		if (h[i].found)
			assert_in_range(h[i].block_ms, WEIR_FLEET_BLOCK_MIN_MS,
					WEIR_FLEET_BLOCK_MIN_MS + must_ns / MSEC);
	/* all have the same, and one command undoes it */
	assert_true(fix_wait(f, all_same(f, AGENTS), 3000));
	assert_int_equal(del(&f->a[3], SOURCE, "fleet"), 1);
	assert_true(fix_wait(f, all_have(f, AGENTS, SOURCE, false), 3000));
	stop(h, AGENTS);
}

static void who_keeps_to_the_limit_over_all_hosts_is_never_found(void **state)
{
	struct fix *f = *state;
	struct host h[AGENTS];
	struct weir_fleet_sources_status s;

	f->a[1].skew_ms = 30000;
	f->a[2].skew_ms = -30000;
	start(f, h, AGENTS, &the_limit);
	for (int i = 0; i < AGENTS; i++)
		h[i].per_s = RATE * 199 / 1000;
	assert_false(fix_wait(f, run(h, AGENTS), 5000));
	for (int i = 0; i < AGENTS; i++) {
		weir_fleet_sources_status(h[i].s, &s);
		assert_int_equal(h[i].found, 0);
		assert_true(s.told > 10); /* but told it was */
		assert_int_equal(s.failures, 0);
	}
	stop(h, AGENTS);
}

static void clocks_of_hosts_that_are_apart_change_nothing(void **state)
{
	struct fix *f = *state;
	struct host h[AGENTS];

	f->a[0].skew_ms = 30000;
	f->a[1].skew_ms = -30000;
	start(f, h, AGENTS, &the_limit);
	for (int i = 0; i < AGENTS; i++)
		h[i].per_s = RATE * 4 / 10;
	assert_true(fix_wait(f, run(h, AGENTS), 5000));
	stop(h, AGENTS);
}

static void one_host_that_lets_through_all_it_may_is_not_too_much(void **state)
{
	struct fix *f = *state;
	struct host h[2];

	start(f, h, 2, &the_limit);
	h[0].per_s = RATE * 1005 / 1000; /* its own clock and units */
	assert_false(fix_wait(f, run(h, 2), 4000));
	assert_int_equal(h[0].found, 0);
	stop(h, 2);
}

static void without_the_store_nothing_is_told_and_nobody_blocked(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_sources_status s, later;
	struct host h[AGENTS];

	start(f, h, AGENTS, &the_limit);
	for (int i = 0; i < AGENTS; i++)
		h[i].per_s = RATE * 199 / 1000;
	assert_false(fix_wait(f, run(h, AGENTS), 500));
	for (int i = 0; i < AGENTS; i++)
		relay_cut(&f->a[i].relay);
	assert_true(fix_wait(f, (run(h, AGENTS), !follows(&f->a[0])), 5000));
	assert_false(fix_wait(f, run(h, AGENTS), 300));
	weir_fleet_sources_status(h[0].s, &s);
	assert_false(fix_wait(f, run(h, AGENTS), 1500));
	weir_fleet_sources_status(h[0].s, &later);
	assert_int_equal(later.calls, s.calls);
	assert_true(later.untold > s.untold);
	for (int i = 0; i < AGENTS; i++)
		relay_heal(&f->a[i].relay);
	assert_true(fix_wait(f, (run(h, AGENTS), follows(&f->a[0])), 5000));
	/* what was counted meanwhile is not told at once */
	assert_false(fix_wait(f, run(h, AGENTS), 2500));
	/* and it goes on */
	for (int i = 0; i < AGENTS; i++) {
		assert_int_equal(h[i].found, 0);
		h[i] = (struct host){.f = f, .a = h[i].a, .s = h[i].s, .per_s = RATE * 4 / 10};
	}
	assert_true(fix_wait(f, run(h, AGENTS), 8000));
	stop(h, AGENTS);
}

static void a_script_that_the_server_forgot_is_loaded_again(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_sources_status s, later;
	redisContext *c = redis_open(&f->r);
	struct host h[2];

	start(f, h, 2, &the_limit);
	h[0].per_s = h[1].per_s = RATE * 4 / 10;
	assert_true(fix_wait(f,
			     (run(h, 2), weir_fleet_sources_status(h[0].s, &s),
			      s.told && h[0].sent > 500),
			     5000));
	assert_true(redis_int(c, "SCRIPT FLUSH") >= 0);
	assert_true(fix_wait(f,
			     (run(h, 2), weir_fleet_sources_status(h[0].s, &later),
			      later.told > s.told + 5),
			     5000));
	assert_in_range(later.failures, 1, 2);
	redisFree(c);
	stop(h, 2);
}

/* As docs/redis.md grants them. */
static void a_user_with_the_documented_rights_will_do(void **state)
{
	char line[2048], command[2200];
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	struct host h[2];

	rights_line(line, sizeof(line));
	(void)snprintf(command, sizeof(command), "ACL SETUSER default resetkeys %s",
		       strstr(line, "resetchannels"));
	command[strlen(command) - 1] = '\0'; /* a blank */
	assert_true(redis_int(c, command) >= 0);
	start(f, h, 2, &the_limit);
	h[0].per_s = h[1].per_s = RATE;
	assert_true(fix_wait(f, run(h, 2), 8000));
	redisFree(c);
	stop(h, 2);
}

static void a_right_that_is_missing_is_named_until_it_is_granted(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	struct host h[2];
	const char *why;

	start(f, h, 2, &the_limit);
	assert_true(redis_int(c, "ACL SETUSER default -zscore") >= 0);
	h[0].per_s = h[1].per_s = RATE;
	assert_true(fix_wait(f, (run(h, 2), why = weir_fleet_sources_why(h[0].s)), 3000));
	assert_string_equal(why, "the user may not run zscore (ACL)");
	assert_false(h[0].blocked || h[1].blocked);
	assert_true(redis_int(c, "ACL SETUSER default +zscore") >= 0);
	assert_true(fix_wait(f, run(h, 2), 8000));
	assert_null(weir_fleet_sources_why(h[0].s));
	redisFree(c);
	stop(h, 2);
}

static void block_for_is_the_least_time(void **state)
{
	struct weir_fleet_source_limit l = the_limit;
	struct fix *f = *state;
	struct host h[2];

	l.block_for_ns = 60000 * MSEC;
	start(f, h, 2, &l);
	h[0].per_s = h[1].per_s = RATE;
	assert_true(fix_wait(f, run(h, 2), 8000));
	for (int i = 0; i < 2; i++)
		if (h[i].found)
			assert_int_equal(h[i].block_ms, 60000);
	stop(h, 2);
}

static void what_is_not_followed_is_counted(void **state)
{
	struct fix *f = *state;
	struct weir_fleet_sources_status s;
	struct host h[1];

	start(f, h, 1, &the_limit);
	for (__u32 i = 0; i < WEIR_FLEET_SOURCES_MAX + 10; i++) {
		struct weir_prefix p = {.family = 4, .len = 32};

		p.addr.word[0] = i + 1;
		weir_fleet_sources_saw(h[0].s, 0, &p, wait_now_ns() / WINDOW_NS + 2, 50);
	}
	weir_fleet_sources_status(h[0].s, &s);
	assert_int_equal(s.followed, WEIR_FLEET_SOURCES_MAX);
	assert_int_equal(s.untold, 10);
	/* in batches, and what is too old by then is dropped */
	weir_fleet_sources_flush(h[0].s);
	assert_true(
		fix_wait(f,
			 (weir_fleet_sources_flush(h[0].s), weir_fleet_sources_status(h[0].s, &s),
			  s.told + s.untold == WEIR_FLEET_SOURCES_MAX + 10),
			 5000));
	assert_true(s.told > 256);
	assert_int_equal(s.failures, 0);
	/* and forgotten when they are quiet */
	assert_true(fix_wait(f,
			     (weir_fleet_sources_flush(h[0].s),
			      weir_fleet_sources_status(h[0].s, &s), s.followed == 0),
			     3000));
	stop(h, 1);
}

static void an_end_while_a_reply_is_awaited_is_quiet(void **state)
{
	struct fix *f = *state;
	struct host h[1];
	struct weir_prefix p = key_of(SOURCE).prefix;

	start(f, h, 1, &the_limit);
	weir_fleet_sources_saw(h[0].s, 0, &p, wait_now_ns() / WINDOW_NS + 1, 5000);
	weir_fleet_sources_flush(h[0].s);
	stop(h, 1);
	turn(f);
	turn(f);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, fix_set_up, fix_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLEET_TEST(loud_nowhere_and_too_loud_together_is_found_everywhere),
		FLEET_TEST(who_keeps_to_the_limit_over_all_hosts_is_never_found),
		FLEET_TEST(clocks_of_hosts_that_are_apart_change_nothing),
		FLEET_TEST(one_host_that_lets_through_all_it_may_is_not_too_much),
		FLEET_TEST(without_the_store_nothing_is_told_and_nobody_blocked),
		FLEET_TEST(a_script_that_the_server_forgot_is_loaded_again),
		FLEET_TEST(a_user_with_the_documented_rights_will_do),
		FLEET_TEST(a_right_that_is_missing_is_named_until_it_is_granted),
		FLEET_TEST(block_for_is_the_least_time),
		FLEET_TEST(what_is_not_followed_is_counted),
		FLEET_TEST(an_end_while_a_reply_is_awaited_is_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
