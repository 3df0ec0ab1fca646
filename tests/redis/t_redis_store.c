/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store on one real server. */
#include "redis/fixture.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	fix_options(f);
	return redis_start(&f->r, NULL);
}

static int teardown(void **state)
{
	struct fix *f = *state;

	fix_done(f);
	free(f);
	return 0;
}

static void counters(struct fix *f, struct weir_far_stats *ret)
{
	weir_store_far_stats(f->s, ret);
}

static bool is_ready(struct fix *f)
{
	struct weir_far_stats s;

	counters(f, &s);
	return s.server[0] && s.health != WEIR_FAR_OPEN;
}

static void start(struct fix *f)
{
	fix_store(f);
	assert_true(fix_wait(f, is_ready(f), 5000));
}

/* Keys under the prefix, each of which must expire. */
static size_t keys_that_expire(struct fix *f)
{
	redisContext *c = redis_open(&f->r);
	redisReply *all = redis_do(c, "KEYS *");
	size_t n = all->elements;

	for (size_t i = 0; i < n; i++) {
		if (strncmp(all->element[i]->str, "weir:1:", 7))
			fail_msg("a key outside of the scheme: %s", all->element[i]->str);
		if (redis_int(c, "PTTL %s", all->element[i]->str) <= 0)
			fail_msg("a key that never expires: %s", all->element[i]->str);
	}
	freeReplyObject(all);
	redisFree(c);
	return n;
}

static void every_algorithm_admits_its_limit_and_expires(void **state)
{
	struct fix *f = *state;
	bool admitted;

	start(f);
	for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
		struct weir_store_limit l =
			request_limit("three", (enum weir_request_algorithm)a, 3, DAY);

		for (int i = 0; i < 5; i++) {
			assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
			assert_int_equal(admitted, i < 3);
		}
	}
	assert_int_equal(keys_that_expire(f), WEIR_REQUEST_ALGORITHM_MAX);
}

static void decisions_of_one_turn_go_in_one_call(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 1000, DAY);
	struct weir_far_stats before, after;
	struct fix *f = *state;
	struct ask a[64];

	start(f);
	counters(f, &before);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		a[i] = (struct ask){.y = {request_layer(&l, i % 3, 1)}};
		ask_start(f, &a[i], 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		assert_true(fix_wait(f, a[i].r != 1, 5000));
		assert_int_equal(a[i].r, 0);
		assert_int_equal(a[i].y[0].answer.remaining, 1000 - 1 - i / 3);
	}
	counters(f, &after);
	assert_int_equal(after.decisions - before.decisions, ARRAY_LEN(a));
	assert_int_equal(after.calls - before.calls, 1);
}

static void refund_and_reset_reach_the_server(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_SLIDING_LOG, 10, DAY);
	struct fix *f = *state;
	struct ask a = {.y = {request_layer(&l, 1, 4)}}, b = {.y = {request_layer(&l, 1, 1)}};

	start(f);
	ask_start(f, &a, 1);
	assert_true(fix_wait(f, a.r != 1, 5000));
	assert_true(a.y[0].charged);
	a.r = 1;
	f->s->ops->refund(f->s, &a.q, ask_done, &a);
	assert_true(fix_wait(f, a.r != 1, 5000));
	assert_int_equal(a.r, 0);
	assert_false(a.y[0].charged);
	ask_start(f, &b, 1);
	assert_true(fix_wait(f, b.r != 1, 5000));
	assert_int_equal(b.y[0].answer.remaining, 9);
	b.r = 1;
	f->s->ops->reset(f->s, &b.q, ask_done, &b);
	assert_true(fix_wait(f, b.r != 1, 5000));
	assert_true(b.y[0].charged); /* there was one */
	assert_int_equal(keys_that_expire(f), 0);
}

/* --- load, in the background of what happens to the server -------------------------------------------------------- */

#define LOAD 64
struct load {
	struct fix *f;
	const struct weir_store_limit *l;
	struct ask a[LOAD];
	size_t running;
	bool stop;
	size_t admitted, failed, answered, over;
	uint64_t longest_ns;
	__u64 seed;
	int last_error;
};

static void load_done(struct weir_store_request *q, int r, void *data);

static void load_next(struct load *l, struct ask *a)
{
	a->y[0] = request_layer(l->l, below(&l->seed, 1000), 1);
	a->q = (struct weir_store_request){.layer = a->y, .n = 1, .now_us = EPOCH};
	a->began_ns = wait_now_ns();
	l->f->s->ops->decide(l->f->s, &a->q, load_done, a);
}

static struct load *load_of; /* there is one at a time */

static void load_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	load_next(load_of, arg);
}

static void load_done(struct weir_store_request *q, int r, void *data)
{
	struct timeval soon = {.tv_usec = 1000};
	struct load *l = load_of;
	struct ask *a = data;
	uint64_t took = wait_now_ns() - a->began_ns;

	l->answered++;
	l->failed += r < 0;
	l->admitted += r >= 0 && q->admitted;
	l->over += r >= 0 && !q->admitted;
	if (r < 0)
		l->last_error = r;
	if (took > l->longest_ns)
		l->longest_ns = took;
	if (l->stop)
		l->running--;
	else
		(void)event_base_once(l->f->base, -1, EV_TIMEOUT, load_again, a, &soon);
}

static void load_start(struct load *l, struct fix *f, const struct weir_store_limit *limit)
{
	*l = (struct load){.f = f, .l = limit, .seed = 7, .running = LOAD};
	load_of = l;
	for (size_t i = 0; i < LOAD; i++)
		load_next(l, &l->a[i]);
}

static void load_stop(struct load *l)
{
	l->stop = true;
	assert_true(fix_wait(l->f, !l->running, 10000));
}

static void a_flushed_script_is_loaded_once_and_nothing_fails(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000000, SEC);
	struct weir_far_stats before, after;
	static struct load load;
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);

	f->o.timeout_ns = 2000 * MS;
	start(f);
	load_start(&load, f, &l);
	counters(f, &before);
	for (int i = 0; i < 5; i++) {
		size_t answered = load.answered;

		assert_int_equal(redis_int(c, "SCRIPT FLUSH"), 0);
		assert_true(fix_wait(f, load.answered > answered + 500, 10000));
	}
	load_stop(&load);
	counters(f, &after);
	assert_int_equal(load.failed, 0);
	assert_int_equal(load.over, 0);
	assert_in_range(after.script_loads - before.script_loads, 1, 5);
	redisFree(c);
}

static void a_killed_server_is_noticed_at_once_and_its_return_too(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000000, SEC);
	static struct load load;
	struct weir_far_stats s;
	struct fix *f = *state;
	uint64_t back_ns;
	size_t n;

	f->o.timeout_ns = 50 * MS;
	start(f);
	load_start(&load, f, &l);
	assert_true(fix_wait(f, load.admitted > 200, 10000));
	redis_kill(&f->r);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 2000));
	counters(f, &s);
	n = strlen(f->r.sock);
	assert_int_equal(strncmp(s.cause, f->r.sock, n < 30 ? n : 30), 0); /* a long path is cut */
	load.longest_ns = 0;
	n = load.answered;
	assert_true(fix_wait(f, load.answered > n + 500, 5000));
	assert_int_equal(load.last_error, -EHOSTDOWN);
	assert_true(load.longest_ns < 5 * MS); /* at once: nothing waits */
	assert_true(*f->s->away);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	back_ns = wait_now_ns();
	n = load.admitted;
	assert_true(fix_wait(f, load.admitted > n, 5000));
	assert_true(wait_now_ns() - back_ns < 4 * f->o.probe_ns);
	assert_false(*f->s->away);
	load_stop(&load);
	assert_int_equal(load.over, 0);
}

static void a_stopped_server_makes_nobody_wait_beyond_the_deadline(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000000, SEC);
	static struct load load;
	struct fix *f = *state;
	size_t n;

	f->o.timeout_ns = 20 * MS;
	start(f);
	load_start(&load, f, &l);
	assert_true(fix_wait(f, load.admitted > 200, 10000));
	load.longest_ns = 0;
	assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 2000));
	n = load.answered;
	assert_true(fix_wait(f, load.answered > n + 2000, 10000));
	assert_true(load.longest_ns < 60 * MS);
	assert_int_equal(kill(f->r.pid, SIGCONT), 0);
	n = load.admitted;
	assert_true(fix_wait(f, load.admitted > n, 5000));
	load_stop(&load);
	assert_int_equal(load.over, 0);
}

static void a_late_reply_gives_back_what_it_charged(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_FIXED_WINDOW, 100, DAY),
				m = request_limit("y", WEIR_REQUEST_SLIDING_LOG, 100, DAY);
	struct weir_far_stats s;
	struct fix *f = *state;
	struct ask a = {.y = {request_layer(&l, 1, 5), request_layer(&m, 1, 3)}};
	bool admitted;

	f->o.timeout_ns = 20 * MS;
	f->o.probe_ns = 2000 * MS; /* the connection stays */
	start(f);
	assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
	ask_start(f, &a, 2);
	assert_true(fix_wait(f, a.r != 1, 5000));
	assert_int_equal(a.r, -ETIMEDOUT);
	assert_false(a.y[0].charged);
	assert_int_equal(kill(f->r.pid, SIGCONT), 0);
	assert_true(fix_wait(f, (counters(f, &s), s.late_refunds == 1), 5000));
	a = (struct ask){.y = {request_layer(&l, 1, 100), request_layer(&m, 1, 100)}};
	ask_start(f, &a, 2);
	assert_true(fix_wait(f, a.r != 1, 5000));
	assert_int_equal(a.r, 0);
	assert_true(a.q.admitted);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_false(admitted);
}

/* --- servers that cannot do it ------------------------------------------------------------------------------------- */

static void a_listener_that_never_answers_costs_no_more_than_the_deadline(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 1000000, SEC);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static struct load load;
	struct fix *f = *state;
	char url[64];
	size_t n;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	(void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", ntohs(at.sin_port));
	f->o.timeout_ns = 20 * MS;
	fix_store_at(f, url);
	load_start(&load, f, &l);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	assert_true(load.longest_ns < 60 * MS);
	n = load.answered;
	load.longest_ns = 0;
	assert_true(fix_wait(f, load.answered > n + 1000, 5000));
	assert_true(load.longest_ns < 5 * MS);
	assert_int_equal(load.admitted + load.over, 0);
	load_stop(&load);
	(void)close(fd);
}

static void a_server_that_is_not_there_yet_is_found_later(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	bool admitted = true;

	redis_kill(&f->r);
	fix_store(f);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), -EHOSTDOWN);
	assert_int_equal(redis_start(&f->r, NULL), 0);
	assert_true(fix_wait(f, fix_health(f) != WEIR_FAR_OPEN, 5000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
}

static void a_full_server_is_a_failure_and_no_refusal(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct weir_far_stats s;
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	bool admitted = false;

	f->o.breaker_errors = 3;
	start(f);
	assert_int_equal(redis_int(c, "CONFIG SET maxmemory 1"), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask_one(f, &l, 1, 1, &admitted), -EIO);
	counters(f, &s);
	assert_int_equal(s.health, WEIR_FAR_OPEN);
	assert_int_equal(s.errors[WEIR_FAR_ERROR_OOM], 3);
	assert_non_null(strstr(s.cause, "maxmemory"));
	fix_turn(f, 200); /* probes meet it too: no flapping */
	assert_int_equal(fix_health(f), WEIR_FAR_OPEN);
	assert_int_equal(redis_int(c, "CONFIG SET maxmemory 0"), 0);
	assert_true(fix_wait(f, fix_health(f) != WEIR_FAR_OPEN, 2000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
	redisFree(c);
}

static void what_others_put_under_our_keys_counts_as_nothing(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	redisReply *all;
	bool admitted;

	start(f);
	for (int round = 0; round < 3; round++) {
		for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
			struct weir_store_limit l =
				request_limit("one", (enum weir_request_algorithm)a, 1, DAY);

			assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
			assert_true(admitted);
			assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
			assert_false(admitted);
		}
		all = redis_do(c, "KEYS *");
		for (size_t i = 0; i < all->elements; i++) {
			const char *key = all->element[i]->str;

			(void)redis_int(c, "DEL %s", key);
			if (round)
				freeReplyObject(redis_do(c, "SET %s rubbish", key));
			else
				(void)redis_int(c, "HSET %s a b", key);
		}
		freeReplyObject(all);
	}
	redisFree(c);
}

static void a_wrong_password_is_said_without_it(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct weir_far_stats s;
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	bool admitted;

	assert_int_equal(redis_int(c, "ACL SETUSER weir on >right ~weir:* +@all"), 0);
	f->o.user = "weir";
	f->o.password = "secret-and-wrong";
	fix_store(f);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	counters(f, &s);
	assert_non_null(strstr(s.cause, "user or password is wrong"));
	assert_null(strstr(s.cause, "secret"));
	weir_store_free(f->s);
	f->o.password = "right";
	start(f);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	redisFree(c);
}

/* What docs say an operator grants. */
static void the_least_rights_are_enough(void **state)
{
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	bool admitted;

	assert_int_equal(redis_int(c,
				   "ACL SETUSER weir on >right ~weir:* +evalsha +script|load +info "
				   "+client|setname +time +get +set +del +llen +lindex +lrem "
				   "+ltrim +rpush +pexpire"),
			 0);
	f->o.user = "weir";
	f->o.password = "right";
	start(f);
	for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++) {
		struct weir_store_limit l =
			request_limit("x", (enum weir_request_algorithm)a, 3, DAY);
		struct ask b = {.y = {request_layer(&l, 1, 1)}};

		assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
		ask_start(f, &b, 1);
		assert_true(fix_wait(f, b.r != 1, 5000));
		b.r = 1;
		f->s->ops->refund(f->s, &b.q, ask_done, &b);
		assert_true(fix_wait(f, b.r != 1, 5000));
		assert_int_equal(b.r, 0);
		b.r = 1;
		f->s->ops->reset(f->s, &b.q, ask_done, &b);
		assert_true(fix_wait(f, b.r != 1, 5000));
		assert_int_equal(b.r, 0);
	}
	redisFree(c);
}

static void a_replica_is_said_and_left(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct weir_far_stats s;
	struct fix *f = *state;
	redisContext *c = redis_open(&f->r);
	bool admitted;

	start(f);
	assert_int_equal(redis_int(c, "REPLICAOF 127.0.0.1 1"), 0);
	assert_true(ask_one(f, &l, 1, 1, &admitted) < 0);
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 5000));
	counters(f, &s);
	assert_true(strstr(s.cause, "replica") || strstr(s.cause, "READONLY"));
	assert_int_equal(redis_int(c, "REPLICAOF NO ONE"), 0);
	assert_true(fix_wait(f, fix_health(f) != WEIR_FAR_OPEN, 5000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	redisFree(c);
}

static void names_are_looked_up_off_the_loop(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct weir_far_stats s;
	struct fix *f = *state;
	char url[64];
	bool admitted;

	redis_kill(&f->r);
	f->r.tcp = true;
	f->r.port = redis_free_port();
	assert_int_equal(redis_start(&f->r, NULL), 0);
	(void)snprintf(url, sizeof(url), "redis://localhost:%u/3", f->r.port);
	fix_store_at(f, url);
	assert_true(fix_wait(f, is_ready(f), 5000));
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	assert_true(admitted);
	weir_store_free(f->s);
	fix_store_at(f, "redis://no-such-name.invalid");
	assert_true(fix_wait(f, fix_health(f) == WEIR_FAR_OPEN, 20000));
	counters(f, &s);
	assert_non_null(strstr(s.cause, "name"));
}

/* --- what time was spent on ---------------------------------------------------------------------------------------- */

#define UNDER_WAY 4 /* calls to a node; what comes then waits for its turn */

/* The time in the queue is of the same budget. */
static void what_a_deadline_passed_for_is_counted_as_that(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	struct weir_far_stats was, s;
	struct ask a[UNDER_WAY + 2];

	f->o.timeout_ns = 500 * MS; /* all are asked before the first is over */
	f->o.breaker_errors = 100;
	f->o.probe_ns = 5000 * MS; /* nor is the connection given up */
	start(f);
	counters(f, &was);
	assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		a[i] = (struct ask){.y = {request_layer(&l, i, 1)}};
		ask_start(f, &a[i], 1);
		fix_turn(f, 5); /* a call of its own */
	}
	counters(f, &s);
	assert_int_equal(s.calls - was.calls, UNDER_WAY);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		assert_true(fix_wait(f, a[i].r != 1, 5000));
		assert_int_equal(a[i].r, -ETIMEDOUT);
		assert_true(a[i].ended_ns - a[i].began_ns < 1000 * MS); /* 500, busy machine */
	}
	assert_int_equal(kill(f->r.pid, SIGCONT), 0);
	counters(f, &s);
	assert_int_equal(s.errors[WEIR_FAR_ERROR_REPLY] - was.errors[WEIR_FAR_ERROR_REPLY],
			 UNDER_WAY);
	assert_int_equal(s.errors[WEIR_FAR_ERROR_QUEUE] - was.errors[WEIR_FAR_ERROR_QUEUE],
			 ARRAY_LEN(a) - UNDER_WAY);
	assert_int_equal(s.errors[WEIR_FAR_ERROR_CONNECT], was.errors[WEIR_FAR_ERROR_CONNECT]);
}

/* Neither the timer of its greeting nor anything else that was set before it was there. */
static void a_connection_that_was_made_is_left_alone(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	struct weir_far_stats s;
	bool admitted;

	start(f);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	fix_turn(f, 2500);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
	counters(f, &s);
	assert_int_equal(s.reconnects, 1);
	assert_int_equal(s.errors[WEIR_FAR_ERROR_CONNECT], 0);
}

/* --- bounds -------------------------------------------------------------------------------------------------------- */

static void no_more_wait_than_may(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	struct ask a[11];

	f->o.waiting_max = 10;
	start(f);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		a[i] = (struct ask){.y = {request_layer(&l, i, 1)}};
		ask_start(f, &a[i], 1);
	}
	assert_int_equal(a[10].r, -EAGAIN);
	assert_true(fix_wait(f, a[9].r != 1, 5000));
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(a[i].r, 0);
}

static void what_is_pending_is_answered_when_the_store_goes(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC);
	struct fix *f = *state;
	struct ask a = {.y = {request_layer(&l, 1, 1)}}, b = a;

	start(f);
	assert_int_equal(kill(f->r.pid, SIGSTOP), 0);
	ask_start(f, &a, 1);
	fix_turn(f, 10);     /* sent */
	ask_start(f, &b, 1); /* waits */
	weir_store_free(f->s);
	f->s = NULL;
	assert_int_equal(a.r, -ECANCELED);
	assert_int_equal(b.r, -ECANCELED);
}

static void one_layer_twice_and_numbers_beyond_a_double_are_refused(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_TOKEN_BUCKET, 100, SEC), huge;
	struct weir_store_identity id = {};
	struct fix *f = *state;
	struct ask a = {.y = {request_layer(&l, 1, 1), request_layer(&l, 1, 1)}};
	bool admitted;

	start(f);
	ask_start(f, &a, 2);
	assert_int_equal(a.r, -EINVAL);
	assert_int_equal(weir_store_limit_bucket(&id, 1, 86400 * SEC, 1000000, &huge), 0);
	assert_false(weir_redis_limit_fits(&huge)); /* a million at one a day */
	assert_int_equal(ask_one(f, &huge, 1, 1, &admitted), -ERANGE);
	assert_int_equal(ask_one(f, &l, 1, 1, &admitted), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_algorithm_admits_its_limit_and_expires),
		TEST(decisions_of_one_turn_go_in_one_call),
		TEST(refund_and_reset_reach_the_server),
		TEST(a_flushed_script_is_loaded_once_and_nothing_fails),
		TEST(a_killed_server_is_noticed_at_once_and_its_return_too),
		TEST(a_stopped_server_makes_nobody_wait_beyond_the_deadline),
		TEST(a_late_reply_gives_back_what_it_charged),
		TEST(a_listener_that_never_answers_costs_no_more_than_the_deadline),
		TEST(a_server_that_is_not_there_yet_is_found_later),
		TEST(a_full_server_is_a_failure_and_no_refusal),
		TEST(what_others_put_under_our_keys_counts_as_nothing),
		TEST(a_wrong_password_is_said_without_it),
		TEST(the_least_rights_are_enough),
		TEST(a_replica_is_said_and_left),
		TEST(names_are_looked_up_off_the_loop),
		TEST(what_a_deadline_passed_for_is_counted_as_that),
		TEST(a_connection_that_was_made_is_left_alone),
		TEST(no_more_wait_than_may),
		TEST(what_is_pending_is_answered_when_the_store_goes),
		TEST(one_layer_twice_and_numbers_beyond_a_double_are_refused),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
