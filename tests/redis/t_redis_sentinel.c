/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A master, a replica and three real Sentinels: the master is found, killed, and its successor followed. */
#include "redis/fixture.h"

#include <arpa/inet.h>
#include <signal.h>

#define TRIO 3

struct set {
	struct fix f;
	struct redis_server node[2], sentinel[TRIO];
	char url[256];
};

static int start_sentinel(struct set *s, int i)
{
	char conf[512], path[128];

	s->sentinel[i].sentinel = true;
	s->sentinel[i].port = redis_free_port();
	(void)snprintf(conf, sizeof(conf),
		       "port %u\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 %u 2\n"
		       "sentinel down-after-milliseconds m 300\nsentinel failover-timeout m 3000\n",
		       s->sentinel[i].port, s->node[0].port);
	if (redis_file(&s->sentinel[i], "sentinel.conf", conf, path, sizeof(path)) < 0)
		return -1;
	return redis_start(&s->sentinel[i], path, "--sentinel", NULL);
}

static long long known(struct set *s, int i, const char *what)
{
	redisContext *c = redis_open(&s->sentinel[i]);
	redisReply *r = redis_do(c, "SENTINEL MASTER m");
	long long n = -1;

	for (size_t k = 0; r->type == REDIS_REPLY_ARRAY && k + 1 < r->elements; k += 2)
		if (!strcmp(r->element[k]->str, what))
			n = r->element[k + 1]->str[0] - '0';
	freeReplyObject(r);
	redisFree(c);
	return n;
}

static int setup(void **state)
{
	struct set *s = calloc(1, sizeof(*s));
	char port[8];

	*state = s;
	fix_options(&s->f);
	s->node[0].tcp = s->node[1].tcp = true;
	if (redis_start(&s->node[0], NULL) < 0)
		return -1;
	(void)snprintf(port, sizeof(port), "%u", s->node[0].port);
	if (redis_start(&s->node[1], "--replicaof", "127.0.0.1", port, "--repl-diskless-sync-delay",
			"0", NULL) < 0)
		return -1;
	for (int i = 0; i < TRIO; i++)
		if (start_sentinel(s, i) < 0)
			return -1;
	(void)snprintf(s->url, sizeof(s->url),
		       "redis+sentinel://127.0.0.1:1,127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/m",
		       s->sentinel[0].port, s->sentinel[1].port, s->sentinel[2].port);
	for (int i = 0; i < TRIO; i++)
		if (!wait_for(known(s, i, "num-slaves") == 1 &&
				      known(s, i, "num-other-sentinels") == TRIO - 1,
			      30000))
			return -1;
	return 0;
}

static int teardown(void **state)
{
	struct set *s = *state;

	for (int i = 0; i < TRIO; i++)
		redis_stop(&s->sentinel[i]);
	redis_stop(&s->node[1]);
	redis_stop(&s->node[0]);
	fix_done(&s->f);
	free(s);
	return 0;
}

static void the_successor_of_a_killed_master_is_followed(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000, SEC);
	struct weir_far_stats st;
	struct set *s = *state;
	struct fix *f = &s->f;
	uint64_t took_ns;
	bool admitted;
	char where[32];

	fix_store_at(f, s->url);
	assert_true(fix_wait(f,
			     (weir_store_far_stats(f->s, &st),
			      st.server[0] && st.health != WEIR_FAR_OPEN),
			     5000));
	(void)snprintf(where, sizeof(where), "127.0.0.1:%u", s->node[0].port);
	assert_non_null(strstr(st.server, where));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	redis_kill(&s->node[0]);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), -EHOSTDOWN);
	took_ns = wait_now_ns();
	assert_true(fix_wait(f, fix_health(f) != WEIR_FAR_OPEN, 30000));
	print_message("followed after %llu ms\n",
		      (unsigned long long)((wait_now_ns() - took_ns) / MS));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
	(void)snprintf(where, sizeof(where), "127.0.0.1:%u", s->node[1].port);
	weir_store_far_stats(f->s, &st);
	assert_non_null(strstr(st.server, where));
}

static void a_master_that_was_demoted_alive_is_left(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000, SEC);
	struct weir_far_stats st;
	struct set *s = *state;
	struct fix *f = &s->f;
	redisContext *c;
	bool admitted;
	char where[32];

	fix_store_at(f, s->url);
	assert_true(fix_wait(f,
			     (weir_store_far_stats(f->s, &st),
			      st.server[0] && st.health != WEIR_FAR_OPEN),
			     5000));
	c = redis_open(&s->sentinel[1]);
	assert_int_equal(redis_int(c, "SENTINEL FAILOVER m"), 0);
	redisFree(c);
	(void)snprintf(where, sizeof(where), "127.0.0.1:%u", s->node[1].port);
	assert_true(
		fix_wait(f, (weir_store_far_stats(f->s, &st), strstr(st.server, where)), 30000));
	assert_true(fix_wait(f, fix_health(f) != WEIR_FAR_OPEN, 5000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
}

static void an_unknown_master_is_said(void **state)
{
	struct weir_far_stats st;
	struct set *s = *state;
	char url[64];

	(void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u/nobody",
		       s->sentinel[0].port);
	fix_store_at(&s->f, url);
	assert_true(fix_wait(&s->f, fix_health(&s->f) == WEIR_FAR_OPEN, 5000));
	weir_store_far_stats(s->f.s, &st);
	assert_non_null(strstr(st.cause, "knows no master 'nobody'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_successor_of_a_killed_master_is_followed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_master_that_was_demoted_alive_is_left, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_unknown_master_is_said, setup, teardown),
	};

	if (!redis_installed()) {
		(void)puts(REDIS_SKIP);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
