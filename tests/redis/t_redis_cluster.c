/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real Cluster of six: layers in several slots, a slot that is moved and a node that is killed under load. */
#include "redis/cluster_case.h"

#define NODES	6
#define MASTERS 3

struct set {
	struct fix f;
	struct cluster k;
	char url[256];
};

/* Shared by all tests: it takes seconds to make. */
static struct set cluster;

static int make_cluster(void **state)
{
	struct set *s = &cluster;

	(void)state;
	if (cluster_make(&s->k, MASTERS, NODES) < 0)
		return -1;
	(void)snprintf(s->url, sizeof(s->url), "redis+cluster://127.0.0.1:%u,127.0.0.1:%u",
		       s->k.node[0].port, s->k.node[4].port);
	return 0;
}

static int drop_cluster(void **state)
{
	(void)state;
	cluster_stop(&cluster.k);
	return 0;
}

static int setup(void **state)
{
	struct set *s = &cluster;
	struct weir_far_stats st;

	*state = s;
	fix_options(&s->f);
	s->f.o.timeout_ns = 2000 * MS;
	fix_store_at(&s->f, s->url);
	return fix_wait(&s->f, (weir_store_far_stats(s->f.s, &st), st.server[0]), 10000) ? 0 : -1;
}

static int teardown(void **state)
{
	struct set *s = *state;

	fix_done(&s->f);
	return 0;
}

/* A client in the @node-th third of the slots. */
static __u64 client_at(unsigned node, unsigned i)
{
	return cluster_client(&cluster.k, node, i);
}

static void layers_in_several_slots_are_charged_all_or_none(void **state)
{
	struct set *s = *state;
	struct fix *f = &s->f;
	__u64 one = client_at(0, 0), two = client_at(1, 0), three = client_at(2, 0);

	for (int al = 0; al < WEIR_REQUEST_ALGORITHM_MAX; al++) {
		struct weir_store_limit narrow = request_limit("narrow",
							       (enum weir_request_algorithm)al, 3,
							       DAY),
					broad = request_limit("broad", WEIR_REQUEST_FIXED_WINDOW,
							      100, DAY),
					seen = request_limit("seen", WEIR_REQUEST_FIXED_WINDOW, 100,
							     DAY);

		for (int i = 0; i < 5; i++) {
			struct ask a = {
				.y = {request_layer(&broad, one + (unsigned)al * 100000, 1),
				      request_layer(&narrow, two, 1),
				      request_layer(&seen, three + (unsigned)al * 100000, 1)}};

			a.y[2].monitor = true;
			ask_start(f, &a, 3);
			assert_true(fix_wait(f, a.r != 1, 10000));
			assert_int_equal(a.r, 0);
			assert_int_equal(a.q.admitted, i < 3);
			assert_int_equal(a.y[0].charged, i < 3);
			assert_int_equal(a.y[1].charged, i < 3);
			assert_true(a.y[2].charged);
			assert_int_equal(a.y[1].admitted, i < 3);
		}
		assert_int_equal(remaining(f, &broad, one + (unsigned)al * 100000), 97);
		assert_int_equal(remaining(f, &seen, three + (unsigned)al * 100000), 95);
	}
}

static void new_keys_of_an_address_in_other_slots(void **state)
{
	struct weir_store_limit l = request_limit("api", WEIR_REQUEST_FIXED_WINDOW, 10, DAY),
				fresh = request_limit("fresh", WEIR_REQUEST_TOKEN_BUCKET, 2, DAY);
	struct set *s = *state;
	struct fix *f = &s->f;
	__u64 address = client_at(0, 3);

	for (unsigned i = 0; i < 6; i++) {
		struct ask a = {.y = {request_layer(&l, client_at(i % MASTERS, 40 + i), 1)}};
		struct weir_store_layer instead = request_layer(&l, address, 1);

		a.y[0].fresh = &fresh;
		memcpy(a.y[0].instead, instead.key, sizeof(instead.key));
		ask_start(f, &a, 1);
		assert_true(fix_wait(f, a.r != 1, 10000));
		assert_int_equal(a.r, 0);
		assert_true(a.q.admitted);
		assert_int_equal(a.y[0].used_instead, i >= 2);
		assert_int_equal(a.y[0].answer.remaining, i < 2 ? 9 : 9 - (i - 2));
		if (i != 5)
			continue;
		a.r = 1; /* given back where it was charged */
		f->s->ops->refund(f->s, &a.q, ask_done, &a);
		assert_true(fix_wait(f, a.r != 1, 10000));
		assert_int_equal(a.r, 0);
		assert_int_equal(remaining(f, &l, address), 10 - 3);
	}
}

static void two_slots_under_load_admit_exactly_the_limit(void **state)
{
	struct weir_store_limit l[2] = {request_limit("exact", WEIR_REQUEST_SLIDING_LOG, 300, DAY),
					request_limit("wide", WEIR_REQUEST_FIXED_WINDOW, 2000,
						      DAY)};
	static struct load load[2];
	struct set *s = *state;
	struct fix *f = &s->f;
	struct weir_store *other = f->s;

	fix_store_at(f, s->url); /* two agents */
	for (int i = 0; i < 2; i++) {
		load[i] = (struct load){
			.f = f, .s = i ? other : f->s, .l = l, .clients = 1, .layers = 2};
		load[i].client[0] = client_at(1, 7);
		load[i].client[1] = client_at(2, 7);
		load_start(&load[i]);
	}
	assert_true(fix_wait(f, load[0].refused > 1000 && load[1].refused > 1000, 30000));
	load_stop(&load[0]);
	load_stop(&load[1]);
	weir_store_free(other);
	assert_int_equal(load[0].failed + load[1].failed, 0);
	assert_int_equal(load[0].admitted + load[1].admitted, 300);
	assert_int_equal(remaining(f, &l[0], load[0].client[0]), 0);
	assert_int_equal(remaining(f, &l[1], load[0].client[1]), 2000 - 300);
}

static void a_slot_is_moved_under_load(void **state)
{
	struct weir_store_limit l =
		request_limit("moving", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	struct weir_far_stats st;
	static struct load load;
	struct set *s = *state;
	struct fix *f = &s->f;
	struct weir_store_layer y;
	unsigned slot;
	size_t n;

	load = (struct load){.f = f, .s = f->s, .l = &l, .clients = 3, .layers = 1};
	for (unsigned i = 0; i < 3; i++)
		load.client[i] = client_at(i, 11);
	y = request_layer(&l, load.client[0], 1);
	slot = weir_redis_layer_slot(&y);
	load_start(&load);
	assert_true(fix_wait(f, load.admitted > 500, 20000));
	assert_int_equal(redis_int(s->k.c[1], "CLUSTER SETSLOT %u IMPORTING %s", slot, s->k.id[0]),
			 0);
	assert_int_equal(redis_int(s->k.c[0], "CLUSTER SETSLOT %u MIGRATING %s", slot, s->k.id[1]),
			 0);
	n = load.admitted;
	assert_true(fix_wait(f, load.admitted > n + 300, 20000));
	cluster_move_keys(&s->k, 0, 1, slot);
	n = load.admitted;
	assert_true(fix_wait(f, load.admitted > n + 300, 20000)); /* ASK */
	assert_int_equal(redis_int(s->k.c[1], "CLUSTER SETSLOT %u NODE %s", slot, s->k.id[1]), 0);
	assert_int_equal(redis_int(s->k.c[0], "CLUSTER SETSLOT %u NODE %s", slot, s->k.id[1]), 0);
	n = load.admitted;
	assert_true(fix_wait(f, load.admitted > n + 300, 20000)); /* MOVED */
	load_stop(&load);
	weir_store_far_stats(f->s, &st);
	assert_true(st.redirects > 0);
	assert_int_equal(load.failed, 0);
	assert_int_equal(load.refused, 0);
	for (unsigned i = 0; i < 3; i++) /* nothing twice, nothing lost */
		assert_int_equal(remaining(f, &l, load.client[i]), 1000000 - load.by[i]);
}

/* 500 in a row without a failure: gossip may wobble for a moment. */
static bool goes_well(const struct load *l)
{
	static size_t failed, from;

	if (l->failed != failed || !from) {
		failed = l->failed;
		from = l->by[2];
	}
	return l->by[2] > from + 500;
}

static void a_killed_node_is_replaced_and_the_others_go_on(void **state)
{
	struct weir_store_limit l =
		request_limit("killed", WEIR_REQUEST_FIXED_WINDOW, 1000000, DAY);
	static struct load load;
	struct set *s = *state;
	struct fix *f = &s->f;
	size_t n, by;
	uint64_t began_ns;

	weir_store_free(f->s);
	f->o.timeout_ns = 100 * MS;
	fix_store_at(f, s->url);
	load = (struct load){.f = f, .s = f->s, .l = &l, .clients = 3, .layers = 1};
	for (unsigned i = 0; i < 3; i++)
		load.client[i] = client_at(i, 17);
	load_start(&load);
	assert_true(fix_wait(f, load.by[0] > 100 && load.by[2] > 100, 20000));
	redisFree(s->k.c[2]);
	s->k.c[2] = NULL;
	redis_kill(&s->k.node[2]);
	began_ns = wait_now_ns();
	n = load.failed;
	by = load.by[0];
	assert_true(fix_wait(f, load.failed > n + 10 && load.by[0] > by + 50, 5000));
	assert_false(*f->s->away); /* two of three are there */
	by = load.by[2];
	assert_true(fix_wait(f, load.by[2] > by + 100, 30000)); /* its replica has taken over */
	print_message("replaced after %llu ms\n",
		      (unsigned long long)((wait_now_ns() - began_ns) / MS));
	assert_true(fix_wait(f, goes_well(&load), 10000)); /* and all is whole again */
	load_stop(&load);
	assert_int_equal(load.refused, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(layers_in_several_slots_are_charged_all_or_none),
		TEST(new_keys_of_an_address_in_other_slots),
		TEST(two_slots_under_load_admit_exactly_the_limit),
		TEST(a_slot_is_moved_under_load),
		TEST(a_killed_node_is_replaced_and_the_others_go_on),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, make_cluster, drop_cluster);
}
