/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits of one request whose states are on two nodes of a Cluster: four agents, eight requests under way each, while
 * connections, nodes, scripts, slots and an agent go between judging, charging and giving back. Never is more admitted
 * than a limit says; what is charged and not admitted is at most what was under way.
 */
#include <signal.h>

#include "redis/cluster_case.h"

#define MASTERS	  3
#define AGENTS	  4
#define WIDE	  8
#define UNDER_WAY (AGENTS * WIDE)
#define LIMIT	  1000
#define ROUNDS	  2 /* of each thing that happens */
#define FIRST	  0 /* whose nodes are these */
#define SECOND	  1

struct set {
	struct fix f;
	struct cluster k;
	struct weir_store_limit l[2];
	struct load load[AGENTS];
	char url[128];
	__u64 seed;
};

static struct set lab;

static struct weir_store *new_agent(struct set *s)
{
	fix_store_at(&s->f, s->url);
	return s->f.s;
}

static size_t sum(const struct set *s, size_t at)
{
	size_t n = 0;

	for (int i = 0; i < AGENTS; i++)
		n += *(const size_t *)((const char *)&s->load[i] + at);
	return n;
}
#define SUM(s, field) sum(s, offsetof(struct load, field))

static int setup(void **state)
{
	struct set *s = &lab;

	(void)state;
	s->k.more = "cluster-require-full-coverage no\nappendonly yes\nappendfsync no";
	if (cluster_make(&s->k, MASTERS, MASTERS) < 0)
		return -1;
	fix_options(&s->f);
	s->f.o.timeout_ns = 100 * MS;
	(void)snprintf(s->url, sizeof(s->url), "redis+cluster://127.0.0.1:%u", s->k.port[0]);
	for (int i = 0; i < AGENTS; i++)
		s->load[i].s = new_agent(s);
	return 0;
}

static int teardown(void **state)
{
	struct set *s = &lab;

	(void)state;
	for (int i = 0; i < AGENTS; i++)
		weir_store_free(s->load[i].s);
	s->f.s = NULL;
	fix_done(&s->f);
	cluster_stop(&s->k);
	return 0;
}

/* --- what happens --------------------------------------------------------------------------------------------------- */

static void nothing(struct set *s)
{
	(void)s;
}

static void connections_of_the_first_go(struct set *s)
{
	(void)redis_int(s->k.c[FIRST], "CLIENT KILL TYPE normal");
}

static void connections_of_the_second_go(struct set *s)
{
	(void)redis_int(s->k.c[SECOND], "CLIENT KILL TYPE normal");
}

/* Longer than a decision may take: what was charged at the first is given back, late replies of the second too. */
static void the_second_is_silent_for_a_moment(struct set *s)
{
	assert_int_equal(kill(s->k.node[SECOND].pid, SIGSTOP), 0);
	fix_turn(&s->f, 130);
	assert_int_equal(kill(s->k.node[SECOND].pid, SIGCONT), 0);
}

/* … and longer than a connection is kept without a reply: then what it did with the last calls is never known. */
static void the_second_is_silent_for_long(struct set *s)
{
	assert_int_equal(kill(s->k.node[SECOND].pid, SIGSTOP), 0);
	fix_turn(&s->f, 400);
	assert_int_equal(kill(s->k.node[SECOND].pid, SIGCONT), 0);
}

static void the_second_forgets_the_script(struct set *s)
{
	assert_int_equal(redis_int(s->k.c[SECOND], "SCRIPT FLUSH"), 0);
}

static void the_slot_of_the_second_moves(struct set *s)
{
	unsigned slot = cluster_slot(s->load[0].client[1]);

	cluster_open_slot(&s->k, SECOND, 2, slot);
	fix_turn(&s->f, 10);
	cluster_move_keys(&s->k, SECOND, 2, slot);
	fix_turn(&s->f, 10);
	cluster_close_slot(&s->k, SECOND, 2, slot);
}

/* With all that it has under way. */
static void an_agent_dies(struct set *s)
{
	struct load *l = &s->load[1];

	weir_store_free(l->s);
	l->s = new_agent(s);
}

/* What it has acknowledged is in its file. */
static void the_second_is_killed(struct set *s)
{
	cluster_kill(&s->k, SECOND);
	fix_turn(&s->f, 50);
	assert_int_equal(cluster_run(&s->k, SECOND), 0);
	assert_true(cluster_is_up(&s->k));
}

/* --- and what must hold --------------------------------------------------------------------------------------------- */

/* So that it happens in any phase of what is under way. */
static void turn_for_a_moment(struct set *s)
{
	struct timeval t = {.tv_usec = (long)below(&s->seed, 1000)};

	(void)event_base_loopexit(s->f.base, &t);
	(void)event_base_dispatch(s->f.base);
}

static void run_load(struct set *s, unsigned round, void (*happens)(struct set *s))
{
	for (int i = 0; i < AGENTS; i++) {
		struct weir_store *store = s->load[i].s;

		s->load[i] = (struct load){.f = &s->f,
					   .s = store,
					   .l = s->l,
					   .clients = 1,
					   .layers = 2,
					   .wide = WIDE,
					   .at_once = true};
		s->load[i].client[0] = cluster_client(&s->k, FIRST, 10 + round);
		s->load[i].client[1] = cluster_client(&s->k, SECOND, 10 + round);
		load_start(&s->load[i]);
	}
	assert_true(fix_wait(&s->f, SUM(s, admitted) > LIMIT / 4, 20000));
	turn_for_a_moment(s);
	happens(s);
	assert_true(fix_wait(&s->f, SUM(s, refused) > 1000 && SUM(s, asks) > 32 * 1000 / ROUNDS,
			     60000));
	for (int i = 0; i < AGENTS; i++)
		load_stop(&s->load[i]);
	fix_turn(&s->f, 200); /* what comes late is given back */
}

static void never_over_admitted_and_over_charged_by_what_was_under_way(void **state)
{
	static const struct {
		const char *what;
		void (*happens)(struct set *s);
		size_t over_most;
	} rows[] = {
		{"nothing happens", nothing, 0},
		{"the first drops its connections", connections_of_the_first_go, UNDER_WAY},
		{"the second drops its connections", connections_of_the_second_go, UNDER_WAY},
		{"the second is silent for 130 ms", the_second_is_silent_for_a_moment, UNDER_WAY},
		{"the second is silent for 400 ms", the_second_is_silent_for_long, UNDER_WAY},
		{"the second forgets the script", the_second_forgets_the_script, 0},
		{"the slot of the second moves", the_slot_of_the_second_moves, 0},
		{"an agent dies", an_agent_dies, WIDE},
		{"the second is killed", the_second_is_killed, UNDER_WAY},
	};
	struct set *s = &lab;

	(void)state;
	s->seed = 11;
	s->l[0] = request_limit("first", WEIR_REQUEST_FIXED_WINDOW, LIMIT, DAY);
	s->l[1] = request_limit("second", WEIR_REQUEST_SLIDING_LOG, LIMIT, DAY);
	for (unsigned i = 0; i < ARRAY_LEN(rows) * ROUNDS; i++) {
		size_t admitted, failed, over[2];

		run_load(s, i, rows[i / ROUNDS].happens);
		admitted = SUM(s, admitted);
		failed = SUM(s, failed);
		assert_true(admitted <= LIMIT);
		s->f.s = s->load[0].s;
		for (unsigned k = 0; k < 2; k++)
			over[k] =
				LIMIT - remaining(&s->f, &s->l[k], s->load[0].client[k]) - admitted;
		print_message("%-33s %4zu admitted of %d, over-charged %zu and %zu; %4zu of %5zu "
			      "failed\n",
			      rows[i / ROUNDS].what, admitted, LIMIT, over[0], over[1], failed,
			      SUM(s, asks));
		for (unsigned k = 0; k < 2; k++) {
			assert_true(over[k] <= rows[i / ROUNDS].over_most);
			assert_true(over[k] <= failed);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_over_admitted_and_over_charged_by_what_was_under_way),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, setup, teardown);
}
