/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A master, a replica and three real Sentinels: the master is found, killed, and its successor followed. */
#include <signal.h>

#include "redis/fake.h"

#define TRIO	      3
#define DOWN_AFTER_MS 300 /* Sentinels': from then on a master is dead */

struct set {
	/* set before start, may be left */
	const char *password; /* of master and replica */
	const char *sentinel_password;
	const char *more; /* lines for the Sentinels */
	const char *host; /* as they know it */

	struct fix f;
	struct redis_server node[2], sentinel[TRIO];
	char url[256];
};

static int start_sentinel(struct set *s, int i)
{
	struct redis_server *r = &s->sentinel[i];
	char conf[1024], path[128], login[160] = "", auth[80] = "";

	r->sentinel = true;
	r->port = redis_free_port();
	r->password = s->sentinel_password;
	if (r->password)
		(void)snprintf(login, sizeof(login), "requirepass %s\nsentinel sentinel-pass %s\n",
			       r->password, r->password);
	if (s->password)
		(void)snprintf(auth, sizeof(auth), "sentinel auth-pass m %s\n", s->password);
	(void)snprintf(
		conf, sizeof(conf),
		"port %u\nbind 127.0.0.1\n%s%s\nsentinel monitor m %s %u 2\n"
		"sentinel down-after-milliseconds m %d\nsentinel failover-timeout m 3000\n%s",
		r->port, login, s->more ? s->more : "", s->host ? s->host : "127.0.0.1",
		s->node[0].port, DOWN_AFTER_MS, auth);
	if (redis_file(r, "sentinel.conf", conf, path, sizeof(path)) < 0)
		return -1;
	return redis_start(r, path, "--sentinel", NULL);
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

	assert_non_null(s);
	*state = s;
	fix_options(&s->f);
	return 0;
}

static void start_node(struct set *s, int i)
{
	const char *word = s->password ? s->password : "";
	struct redis_server *r = &s->node[i];
	char port[8];

	(void)snprintf(port, sizeof(port), "%u", s->node[0].port);
	r->tcp = true;
	r->password = s->password;
	assert_int_equal(redis_start(r, "--requirepass", word, "--masterauth", word,
				     "--repl-diskless-sync-delay", "0", i ? "--replicaof" : NULL,
				     "127.0.0.1", port, NULL),
			 0);
}

static void start(struct set *s)
{
	start_node(s, 0);
	start_node(s, 1);
	for (int i = 0; i < TRIO; i++)
		assert_int_equal(start_sentinel(s, i), 0);
	(void)snprintf(s->url, sizeof(s->url),
		       "redis+sentinel://127.0.0.1:1,127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/m",
		       s->sentinel[0].port, s->sentinel[1].port, s->sentinel[2].port);
	for (int i = 0; i < TRIO; i++)
		assert_true(wait_for(known(s, i, "num-slaves") == 1 &&
					     known(s, i, "num-other-sentinels") == TRIO - 1,
				     30000));
}

/* One Sentinel alone: nobody fails over. */
static void start_one(struct set *s)
{
	start_node(s, 0);
	assert_int_equal(start_sentinel(s, 0), 0);
	(void)snprintf(s->url, sizeof(s->url), "redis+sentinel://127.0.0.1:%u/m",
		       s->sentinel[0].port);
}

/* The store has found node @i. */
static bool is_at(struct set *s, int i)
{
	struct weir_far_stats st;
	char where[32];

	(void)snprintf(where, sizeof(where), ":%u, ", s->node[i].port);
	weir_store_far_stats(s->f.s, &st);
	return strstr(st.server, where) && st.health != WEIR_FAR_OPEN;
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
	struct set *s = *state;
	struct fix *f = &s->f;
	uint64_t took_ns;
	bool admitted;

	start(s);
	fix_store_at(f, s->url);
	assert_true(fix_wait(f, is_at(s, 0), 5000));
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
	assert_true(is_at(s, 1));
}

static void a_master_that_was_demoted_alive_is_left(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000, SEC);
	struct set *s = *state;
	struct fix *f = &s->f;
	redisContext *c;
	bool admitted;

	start(s);
	fix_store_at(f, s->url);
	assert_true(fix_wait(f, is_at(s, 0), 5000));
	c = redis_open(&s->sentinel[1]);
	assert_int_equal(redis_int(c, "SENTINEL FAILOVER m"), 0);
	redisFree(c);
	assert_true(fix_wait(f, is_at(s, 1), 30000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
}

static void says(struct fix *f, const char *words)
{
	struct weir_far_stats st;

	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	weir_store_far_stats(f->s, &st);
	if (!strstr(st.cause, words))
		fail_msg("%s", st.cause);
}

static void an_unknown_master_is_said(void **state)
{
	struct set *s = *state;
	char url[64];

	start_one(s);
	(void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u/nobody",
		       s->sentinel[0].port);
	fix_store_at(&s->f, url);
	says(&s->f, "knows no master 'nobody'");
}

static void one_sentinel_of_three_is_enough_to_find_it(void **state)
{
	struct set *s = *state;
	uint64_t began_ns;

	start(s);
	redis_kill(&s->sentinel[0]);
	assert_int_equal(kill(s->sentinel[1].pid, SIGSTOP), 0); /* takes connections, is silent */
	began_ns = wait_now_ns();
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
	print_message("found after %llu ms\n",
		      (unsigned long long)((wait_now_ns() - began_ns) / MS));
	assert_true(wait_now_ns() - began_ns < 2500 * MS);
}

static void a_name_that_sentinels_say_is_looked_up(void **state)
{
	struct weir_far_stats st;
	struct set *s = *state;

	s->more = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes";
	s->host = "localhost";
	start_one(s);
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
	weir_store_far_stats(s->f.s, &st);
	assert_non_null(strstr(st.server, "localhost:"));
}

/* --- who knows no better -------------------------------------------------------------------------------------------- */

static const char *names_the_first(struct fake *f, const struct redisReply *command)
{
	static char reply[64];
	struct set *s = f->arg;
	char port[8];

	if (!fake_is(command, "SENTINEL"))
		return "+OK\r\n";
	(void)snprintf(port, sizeof(port), "%u", s->node[0].port);
	(void)snprintf(reply, sizeof(reply), "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n",
		       strlen(port), port);
	return reply;
}

/* A Sentinel that is cut off from the others names the old master for ever; that is a replica now. */
static void a_sentinel_that_names_an_old_master_is_left(void **state)
{
	struct fake old = {.says = names_the_first};
	struct set *s = *state;
	redisContext *c;
	char url[256];

	start(s);
	s->f.base = event_base_new();
	old.arg = s;
	fake_start(&old, s->f.base);
	(void)snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m", old.port,
		       s->sentinel[1].port);
	fix_store_at(&s->f, url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
	c = redis_open(&s->sentinel[1]);
	assert_int_equal(redis_int(c, "SENTINEL FAILOVER m"), 0);
	redisFree(c);
	assert_true(fix_wait(&s->f, is_at(s, 1), 15000));
	fake_stop(&old);
}

/* --- logins --------------------------------------------------------------------------------------------------------- */

static void sentinels_may_have_another_password(void **state)
{
	struct set *s = *state;
	struct fix *f = &s->f;

	s->password = "of-the-master";
	s->sentinel_password = "of-the-sentinels";
	start_one(s);
	f->o.password = s->password;
	f->o.sentinel_password = s->sentinel_password;
	fix_store_at(f, s->url);
	assert_true(fix_wait(f, is_at(s, 0), 5000));
	weir_store_free(f->s);
	f->o.sentinel_password = NULL; /* the master's is tried where one is asked for */
	fix_store_at(f, s->url);
	says(f, "does not take the server's password (store.sentinel.password_file)");
	weir_store_free(f->s);
	f->o.sentinel_password = "wrong";
	fix_store_at(f, s->url);
	says(f, "this Sentinel's user or password is wrong (store.sentinel)");
	weir_store_free(f->s);
	f->o.password = f->o.sentinel_password = NULL;
	fix_store_at(f, s->url);
	says(f, "this Sentinel needs a password (store.sentinel.password_file)");
	weir_store_free(f->s);
	f->o.sentinel_password = s->sentinel_password;
	fix_store_at(f, s->url);
	says(f, "a password is needed (store.password_file)");
}

static void the_masters_password_does_where_sentinels_have_the_same(void **state)
{
	struct set *s = *state;

	s->password = s->sentinel_password = "of-all";
	start_one(s);
	s->f.o.password = s->password;
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
}

/* As docs/redis.md grants. */
static void a_user_of_the_sentinels_needs_no_more_than_the_page_says(void **state)
{
	struct set *s = *state;
	redisContext *c;
	redisReply *log;

	s->sentinel_password = "of-the-sentinels";
	s->more = "user weir on >narrow resetchannels -@all "
		  "+sentinel|get-master-addr-by-name +client|setname +info";
	start_one(s);
	s->f.o.sentinel_user = "weir";
	s->f.o.sentinel_password = "narrow";
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
	c = redis_open(&s->sentinel[0]);
	log = redis_do(c, "ACL LOG");
	assert_int_equal(log->type, REDIS_REPLY_ARRAY);
	assert_int_equal(log->elements, 0);
	freeReplyObject(log);
	assert_int_equal(redis_int(c, "ACL SETUSER weir -sentinel|get-master-addr-by-name"), 0);
	redisFree(c);
	weir_store_free(s->f.s);
	fix_store_at(&s->f, s->url);
	says(&s->f, "the user may not run sentinel|get-master-addr-by-name");
}

/* --- failover under load -------------------------------------------------------------------------------------------- */

struct load {
	struct fix *f;
	const struct weir_store_limit *l;
	struct ask a[16];
	size_t running, failed, decided;
	uint64_t longest_ns, last_failure_ns;
	bool stop;
};

static void load_next(struct load *l, struct ask *a);

static void load_again(evutil_socket_t fd, short what, void *arg)
{
	struct ask *a = arg;

	(void)fd;
	(void)what;
	load_next(a->owner, a);
}

static void load_done(struct weir_store_request *q, int r, void *data)
{
	struct timeval soon = {.tv_usec = 1000};
	struct ask *a = data;
	struct load *l = a->owner;
	uint64_t now_ns = wait_now_ns();

	(void)q;
	if (now_ns - a->began_ns > l->longest_ns)
		l->longest_ns = now_ns - a->began_ns;
	l->failed += r < 0;
	l->decided += r == 0;
	if (r < 0)
		l->last_failure_ns = now_ns;
	if (l->stop)
		l->running--;
	else
		(void)event_base_once(l->f->base, -1, EV_TIMEOUT, load_again, a, &soon);
}

static void load_next(struct load *l, struct ask *a)
{
	a->y[0] = request_layer(l->l, 1, 1);
	a->q = (struct weir_store_request){.layer = a->y, .n = 1, .now_us = EPOCH};
	a->owner = l;
	a->began_ns = wait_now_ns();
	l->f->s->ops->decide(l->f->s, &a->q, load_done, a);
}

/* Time that a failover may take: until Sentinels see it and agree, and until the store has asked them once more. */
#define ENFORCED_WITHIN_MS (DOWN_AFTER_MS + 3000 + 1000)
static void a_failover_under_load_ends_in_full_enforcement(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 100, DAY);
	struct load load = {.l = &l};
	struct set *s = *state;
	uint64_t killed_ns;
	size_t decided;

	start(s);
	load.f = &s->f;
	s->f.o.timeout_ns = 50 * MS;
	fix_store_at(&s->f, s->url);
	assert_true(fix_wait(&s->f, is_at(s, 0), 5000));
	load.running = ARRAY_LEN(load.a);
	for (size_t i = 0; i < ARRAY_LEN(load.a); i++)
		load_next(&load, &load.a[i]);
	assert_true(fix_wait(&s->f, load.decided > 500, 5000));
	assert_int_equal(load.failed, 0);
	redis_kill(&s->node[0]);
	killed_ns = wait_now_ns();
	assert_true(fix_wait(&s->f, is_at(s, 1), 30000));
	decided = load.decided;
	assert_true(fix_wait(&s->f, load.decided > decided + 1000, 5000));
	load.stop = true;
	assert_true(fix_wait(&s->f, !load.running, 5000));
	print_message(
		"full enforcement %llu ms after the kill; no decision took more than %llu ms\n",
		(unsigned long long)((load.last_failure_ns - killed_ns) / MS),
		(unsigned long long)(load.longest_ns / MS));
	assert_true(load.last_failure_ns - killed_ns < ENFORCED_WITHIN_MS * MS);
	assert_true(load.longest_ns < 500 * MS); /* 50 ms, on a busy machine */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_successor_of_a_killed_master_is_followed),
		TEST(a_master_that_was_demoted_alive_is_left),
		TEST(an_unknown_master_is_said),
		TEST(one_sentinel_of_three_is_enough_to_find_it),
		TEST(a_name_that_sentinels_say_is_looked_up),
		TEST(a_sentinel_that_names_an_old_master_is_left),
		TEST(sentinels_may_have_another_password),
		TEST(the_masters_password_does_where_sentinels_have_the_same),
		TEST(a_user_of_the_sentinels_needs_no_more_than_the_page_says),
		TEST(a_failover_under_load_ends_in_full_enforcement),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
