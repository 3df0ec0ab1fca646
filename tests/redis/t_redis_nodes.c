/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real Cluster whose nodes change under an agent: all of them are replaced, one comes back elsewhere, slots have none, a
 * name or nothing is announced, a slot that is being moved has half of a client's states.
 */
#include <signal.h>

#include "redis/cluster_case.h"
#include "redis/fake.h"

#define MASTERS 3

struct set {
	struct fix f;
	struct cluster k;
	struct load load;
	char url[256];
};

static int setup(void **state)
{
	struct set *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	*state = s;
	fix_options(&s->f);
	s->f.o.timeout_ns = 2000 * MS;
	s->k.more = "cluster-require-full-coverage no";
	return 0;
}

static int teardown(void **state)
{
	struct set *s = *state;

	fix_done(&s->f);
	cluster_stop(&s->k);
	free(s);
	return 0;
}

static bool is_known(struct fix *f)
{
	struct weir_far_stats st;

	weir_store_far_stats(f->s, &st);
	return st.server[0];
}

/* A cluster of @nodes, and a store that knows its first alone. */
static void start(struct set *s, int nodes)
{
	assert_int_equal(cluster_make(&s->k, MASTERS, nodes), 0);
	(void)snprintf(s->url, sizeof(s->url), "redis+cluster://127.0.0.1:%u", s->k.port[0]);
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_known(&s->f), 10000));
}

/* One client for each of the first masters. */
static void load_all(struct set *s, const struct weir_store_limit *l)
{
	s->load = (struct load){.f = &s->f, .s = s->f.s, .l = l, .clients = MASTERS, .layers = 1};
	for (unsigned i = 0; i < MASTERS; i++)
		s->load.client[i] = cluster_client(&s->k, i, 5);
	load_start(&s->load);
}

/* Every third of the slots admits @n more. */
static bool all_go_on(struct set *s, size_t n)
{
	size_t by[MASTERS];

	memcpy(by, s->load.by, sizeof(by));
	return fix_wait(&s->f,
			s->load.by[0] > by[0] + n && s->load.by[1] > by[1] + n &&
				s->load.by[2] > by[2] + n,
			20000);
}

/* So many in a row without a failure: gossip may wobble for a moment. */
static bool goes_well(struct set *s)
{
	size_t failed = s->load.failed, from = s->load.answered;
	struct load *l = &s->load;

	return fix_wait(&s->f,
			l->failed == failed ? l->answered > from + 1000
					    : (failed = l->failed, from = l->answered, false),
			20000);
}

/* --- all of them ---------------------------------------------------------------------------------------------------- */

/* Node @to takes all slots of @from; those with keys one by one, since the others are just told of. */
static void hand_over(struct set *s, int from, int to)
{
	unsigned low = WEIR_REDIS_SLOTS * (unsigned)from / MASTERS,
		 high = WEIR_REDIS_SLOTS * ((unsigned)from + 1) / MASTERS;

	for (unsigned slot = low; slot < high; slot++) {
		if (redis_int(s->k.c[from], "CLUSTER COUNTKEYSINSLOT %u", slot) > 0) {
			cluster_open_slot(&s->k, from, to, slot);
			fix_turn(&s->f, 20);
			cluster_move_keys(&s->k, from, to, slot);
			fix_turn(&s->f, 20);
		}
		cluster_close_slot(&s->k, from, to, slot);
		if (slot % 256 == 0)
			fix_turn(&s->f, 1);
	}
	(void)redis_int(s->k.c[to], "CLUSTER BUMPEPOCH"); /* its word counts */
}

static void all_nodes_are_replaced(void **state)
{
	const struct weir_store_limit l =
		request_limit("all", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	struct cluster *k = &s->k;
	int old = 2 * MASTERS;

	start(s, old);
	load_all(s, &l);
	assert_true(all_go_on(s, 100));
	for (int i = 0; i < 2 * MASTERS; i++)
		assert_int_equal(cluster_add(k), 0);
	assert_true(cluster_knows(k, 2 * old) && cluster_is_up(k));
	for (int i = 0; i < MASTERS; i++)
		hand_over(s, i, old + i);
	assert_true(cluster_replicate(k, old + MASTERS, old));
	assert_true(all_go_on(s, 100));
	assert_int_equal(s->load.failed, 0); /* nobody noticed */
	for (int i = 0; i < old; i++) {
		for (int n = old; n < k->n; n++)
			(void)redis_int(k->c[n], "CLUSTER FORGET %s", k->id[i]);
	}
	for (int i = 0; i < old; i++)
		cluster_kill(k, i);
	assert_true(cluster_is_up(k));
	assert_true(all_go_on(s, 100) && goes_well(s));
	load_stop(&s->load);
	assert_int_equal(s->load.refused, 0);
	for (unsigned i = 0; i < MASTERS; i++)
		assert_true(remaining(&s->f, &l, s->load.client[i]) <= 1000000 - s->load.by[i]);
	/* Not one address of the URL is alive, and the next change is noticed all the same. */
	cluster_kill(k, old);
	load_all(s, &l);
	assert_true(all_go_on(s, 100) && goes_well(s));
	load_stop(&s->load);
}

/* --- one of them ---------------------------------------------------------------------------------------------------- */

static void a_node_that_comes_back_elsewhere_is_found(void **state)
{
	const struct weir_store_limit l =
		request_limit("back", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	struct cluster *k = &s->k;
	size_t by, failed;

	s->f.o.timeout_ns = 100 * MS;
	start(s, MASTERS);
	load_all(s, &l);
	assert_true(all_go_on(s, 100));
	cluster_kill(k, 1);
	by = s->load.by[2];
	failed = s->load.failed;
	assert_true(
		fix_wait(&s->f, s->load.failed > failed + 10 && s->load.by[2] > by + 100, 10000));
	k->node[1].port = redis_free_port(); /* its folder says who it is */
	k->bus[1] = 0;
	assert_int_equal(cluster_run(k, 1), 0);
	assert_true(all_go_on(s, 100) && goes_well(s));
	load_stop(&s->load);
	assert_int_equal(s->load.refused, 0);
}

/* Nobody asks for anything meanwhile, so no failure tells of it but the connection that is lost. */
static void a_node_that_comes_back_elsewhere_is_found_without_a_request(void **state)
{
	const struct weir_store_limit l =
		request_limit("quiet", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	struct cluster *k = &s->k;
	__u64 client;
	bool admitted;

	start(s, MASTERS);
	client = cluster_client(k, 1, 5);
	assert_true(fix_wait(&s->f, ask_one(&s->f, &l, client, 1, &admitted) == 0, 10000));
	fix_turn(&s->f, 1000); /* the doubts of the beginning are over */
	cluster_kill(k, 1);
	fix_turn(&s->f, 500);
	k->node[1].port = redis_free_port(); /* its folder says who it is */
	k->bus[1] = 0;
	assert_int_equal(cluster_run(k, 1), 0);
	assert_true(cluster_is_up(k));
	fix_turn(&s->f, 3000);
	assert_int_equal(ask_one(&s->f, &l, client, 1, &admitted), 0); /* the first one */
	assert_true(admitted);
}

static void an_orderly_failover_loses_nothing(void **state)
{
	const struct weir_store_limit l =
		request_limit("orderly", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	redisReply *r;

	start(s, 2 * MASTERS);
	load_all(s, &l);
	assert_true(all_go_on(s, 100));
	assert_true(wait_for(redis_int(s->k.c[MASTERS], "CLUSTER FAILOVER") == 0, 10000));
	assert_true(fix_wait(&s->f,
			     (r = redis_do(s->k.c[MASTERS], "ROLE"),
			      !strcmp(r->element[0]->str, "master") ? (freeReplyObject(r), true)
								    : (freeReplyObject(r), false)),
			     10000));
	assert_true(all_go_on(s, 100));
	load_stop(&s->load);
	assert_int_equal(s->load.failed + s->load.refused, 0);
	for (unsigned i = 0; i < MASTERS; i++)
		assert_int_equal(remaining(&s->f, &l, s->load.client[i]), 1000000 - s->load.by[i]);
}

/* --- addresses ------------------------------------------------------------------------------------------------------ */

static void everywhere(struct cluster *k, const char *name, const char *value)
{
	for (int i = 0; i < k->n; i++)
		assert_int_equal(redis_int(k->c[i], "CONFIG SET %s %s", name, value), 0);
}

static void nodes_may_announce_a_name_or_nothing(void **state)
{
	static const char *const kinds[] = {"hostname", "unknown-endpoint", "ip"};
	const struct weir_store_limit l =
		request_limit("name", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	struct cluster *k = &s->k;
	uint64_t end_ns;
	bool admitted;

	start(s, MASTERS);
	for (int i = 0; i < 2; i++) /* the third has none, and is "?" */
		assert_int_equal(redis_int(k->c[i],
					   "CONFIG SET cluster-announce-hostname localhost"),
				 0);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		__u64 moving = cluster_client(k, 0, 10 + (unsigned)i);
		unsigned slot = cluster_slot(moving);

		everywhere(k, "cluster-preferred-endpoint-type", kinds[i]);
		weir_store_free(s->f.s);
		fix_store_at(&s->f, s->url);
		assert_true(fix_wait(&s->f, is_known(&s->f), 10000));
		for (unsigned m = 0; m < MASTERS; m++)
			assert_int_equal(ask_one(&s->f, &l, cluster_client(k, m, 5), 1, &admitted),
					 0);
		assert_int_equal(ask_one(&s->f, &l, moving, 1, &admitted), 0);
		cluster_open_slot(k, 0, 2, slot);
		cluster_move_keys(k, 0, 2, slot);
		cluster_close_slot(k, 0, 2, slot); /* MOVED to a name, to "?", or to nothing */
		end_ns = wait_now_ns() + 5000 * MS;
		while (ask_one(&s->f, &l, moving, 1, &admitted) < 0 && wait_now_ns() < end_ns)
			fix_turn(&s->f, 10);
		assert_int_equal(remaining(&s->f, &l, moving), 1000000 - 2);
	}
}

static const char *says_nothing(struct fake *f, const struct redisReply *command)
{
	(void)f;
	(void)command;
	return NULL;
}

static void of_the_servers_in_the_url_the_last_will_do(void **state)
{
	const struct weir_store_limit l =
		request_limit("last", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct set *s = *state;
	uint64_t began_ns;
	bool admitted;
	struct fake silent = {.says = says_nothing};

	start(s, MASTERS);
	weir_store_free(s->f.s);
	fake_start(&silent, s->f.base);
	/* One refuses, one takes the connection and is silent, the name of one is unknown. */
	(void)snprintf(s->url, sizeof(s->url),
		       "redis+cluster://127.0.0.1:1,127.0.0.1:%u,no.such.name.invalid,127.0.0.1:%u",
		       silent.port, s->k.port[2]);
	began_ns = wait_now_ns();
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_known(&s->f), 10000));
	print_message("found after %llu ms\n",
		      (unsigned long long)((wait_now_ns() - began_ns) / MS));
	assert_true(wait_now_ns() - began_ns < 2500 * MS);
	assert_int_equal(ask_one(&s->f, &l, 1, 1, &admitted), 0);
	fake_stop(&silent);
}

/* --- slots ---------------------------------------------------------------------------------------------------------- */

static void slots_without_a_node_are_said_and_the_others_work(void **state)
{
	const struct weir_store_limit l =
		request_limit("hole", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct weir_far_stats st;
	struct set *s = *state;
	unsigned slot;
	bool admitted;
	__u64 client;

	start(s, MASTERS);
	client = cluster_client(&s->k, 1, 5);
	slot = cluster_slot(client);
	assert_int_equal(redis_int(s->k.c[1], "CLUSTER DELSLOTS %u", slot), 0); /* its own */
	(void)redis_int(s->k.c[0], "CLUSTER DELSLOTS %u", slot);
	for (int i = 0; i < 100; i++) /* who was asked may not know: that costs no other slot */
		assert_int_not_equal(ask_one(&s->f, &l, client, 1, &admitted), 0);
	assert_int_equal(ask_one(&s->f, &l, cluster_client(&s->k, 1, 6), 1, &admitted), 0);
	(void)redis_int(s->k.c[2], "CLUSTER DELSLOTS %u", slot);
	assert_true(fix_wait(&s->f, ask_one(&s->f, &l, client, 1, &admitted) == -EHOSTDOWN, 10000));
	assert_int_equal(ask_one(&s->f, &l, cluster_client(&s->k, 0, 5), 1, &admitted), 0);
	assert_int_equal(ask_one(&s->f, &l, cluster_client(&s->k, 1, 6), 1, &admitted), 0);
	weir_store_far_stats(s->f.s, &st);
	assert_int_equal(st.health, WEIR_FAR_DEGRADED);
	if (!strstr(st.cause, "no node of the cluster has 1 of its slots"))
		fail_msg("%s", st.cause);
	assert_int_equal(redis_int(s->k.c[2], "CLUSTER ADDSLOTS %u", slot), 0);
	assert_true(fix_wait(&s->f, ask_one(&s->f, &l, client, 1, &admitted) == 0, 10000));
	assert_true(fix_wait(&s->f, fix_health(&s->f) == WEIR_FAR_HEALTHY, 15000));
}

/* One of three is stopped: it is named, and nobody at the others hears of it. */
static void a_node_that_is_away_is_named_and_the_others_work(void **state)
{
	const struct weir_store_limit l =
		request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct weir_far_stats st;
	struct set *s = *state;
	bool admitted;
	char name[32];

	s->f.o.breaker_errors = 1;
	s->f.o.timeout_ns = 500 * MS;
	start(s, MASTERS);
	weir_store_far_stats(s->f.s, &st);
	assert_int_equal(st.nodes, MASTERS);
	assert_int_equal(st.away, 0);
	assert_string_equal(st.away_names, "");
	assert_int_equal(kill(s->k.node[1].pid, SIGSTOP), 0);
	assert_true(ask_one(&s->f, &l, cluster_client(&s->k, 1, 5), 1, &admitted) < 0);
	assert_int_equal(ask_one(&s->f, &l, cluster_client(&s->k, 0, 5), 1, &admitted), 0);
	weir_store_far_stats(s->f.s, &st);
	assert_int_equal(st.health, WEIR_FAR_OPEN);
	assert_int_equal(st.nodes, MASTERS);
	assert_int_equal(st.away, 1);
	(void)snprintf(name, sizeof(name), "127.0.0.1:%u", s->k.port[1]);
	assert_string_equal(st.away_names, name);
	assert_false(*s->f.s->away);
	assert_int_equal(kill(s->k.node[1].pid, SIGCONT), 0);
	assert_true(fix_wait(&s->f, fix_health(&s->f) != WEIR_FAR_OPEN, 10000));
	weir_store_far_stats(s->f.s, &st);
	assert_int_equal(st.away, 0);
}

/* Half of a client's states are here and half there, or none is anywhere yet: a node answers no call with both. */
static void clients_of_two_limits_in_a_slot_on_the_move(void **state)
{
	const struct weir_store_limit l[2] = {request_limit("first", WEIR_REQUEST_FIXED_WINDOW, 50,
							    DAY),
					      request_limit("second", WEIR_REQUEST_SLIDING_LOG,
							    100000, DAY)};
	struct weir_store_layer tag;
	struct set *s = *state;
	struct cluster *k = &s->k;
	struct load one, many;
	__u64 client;
	unsigned slot;

	start(s, MASTERS);
	client = cluster_client(k, 0, 5);
	slot = cluster_slot(client);
	tag = request_layer(&l[0], client, 1);
	one = (struct load){.f = &s->f,
			    .s = s->f.s,
			    .l = l,
			    .clients = 1,
			    .layers = 2,
			    .wide = 8,
			    .together = true,
			    .client = {client}};
	many = one;
	many.tag = tag.key;
	load_start(&one);
	load_start(&many);
	for (int round = 0; round < 4; round++) {
		int from = round % 2, to = 1 - from;

		cluster_open_slot(k, from, to, slot);
		for (int step = 0; step < 3; step++) {
			size_t n = one.answered, m = many.answered;

			assert_true(fix_wait(&s->f,
					     one.answered > n + 100 && many.answered > m + 100,
					     20000));
			if (step == 0)
				cluster_move_keys(k, from, to, slot);
			else if (step == 1)
				cluster_close_slot(k, from, to, slot);
		}
	}
	load_stop(&one);
	load_stop(&many);
	assert_int_equal(one.failed + many.failed, 0);
	assert_int_equal(one.admitted, 50);
	assert_int_equal(remaining(&s->f, &l[1], client), 100000 - 50);
	assert_int_equal(many.admitted, many.answered);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_nodes_are_replaced),
		TEST(a_node_that_comes_back_elsewhere_is_found),
		TEST(a_node_that_comes_back_elsewhere_is_found_without_a_request),
		TEST(an_orderly_failover_loses_nothing),
		TEST(nodes_may_announce_a_name_or_nothing),
		TEST(of_the_servers_in_the_url_the_last_will_do),
		TEST(slots_without_a_node_are_said_and_the_others_work),
		TEST(a_node_that_is_away_is_named_and_the_others_work),
		TEST(clients_of_two_limits_in_a_slot_on_the_move),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
