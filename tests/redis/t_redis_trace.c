/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One random trace through the C algorithms and through decide.lua in a real server: the same verdicts, answers and
 * tickets at every step. Time is the trace's own; what would have expired by then is taken away on both sides, and must
 * have been worth nothing.
 */
#include "redis/script.h"

#define STEPS	100000
#define CLIENTS 4
#define LIMITS	16
#define BATCH	8 /* requests in one call, sometimes */

struct trace {
	struct redis_server r;
	struct script script;
	struct weir_store *store;
	__u64 seed, now_us;
	struct weir_store_limit limit[LIMITS][2]; /* of two plans */
	struct weir_store_limit fresh;
	size_t step;
};

static __u64 pick(struct trace *t, __u64 n)
{
	return below(&t->seed, n);
}

static struct weir_store_limit bucket_of(const char *name, __u64 count, __u64 per, __u64 burst)
{
	struct weir_store_identity id;
	struct weir_store_limit l;

	assert_int_equal(weir_store_identity_of(name, WEIR_REQUEST_TOKEN_BUCKET, "", "", "", &id),
			 0);
	assert_int_equal(weir_store_limit_bucket(&id, count, per, burst, &l), 0);
	return l;
}

static struct weir_store_limit queue_of(const char *name, __u64 count, __u64 per, __u64 queue,
					__u64 wait)
{
	struct weir_store_identity id;
	struct weir_store_limit l;

	assert_int_equal(weir_store_identity_of(name, WEIR_REQUEST_LEAKY_BUCKET, "", "", "", &id),
			 0);
	assert_int_equal(weir_store_limit_queue(&id, count, per, queue, wait, &l), 0);
	return l;
}

static struct weir_store_limit window_of(const char *name, enum weir_request_algorithm a,
					 __u64 limit, __u64 window)
{
	struct weir_store_identity id;
	struct weir_store_limit l;

	assert_int_equal(weir_store_identity_of(name, a, "", "", "", &id), 0);
	assert_int_equal(weir_store_limit_window(&id, a, limit, window, &l), 0);
	return l;
}

static void make_limits(struct trace *t)
{
	const enum weir_request_algorithm fixed = WEIR_REQUEST_FIXED_WINDOW,
					  log = WEIR_REQUEST_SLIDING_LOG,
					  sliding = WEIR_REQUEST_SLIDING_COUNTER;

	for (int plan = 0; plan < 2; plan++) {
		__u64 k = plan ? 3 : 1;
		struct weir_store_limit l[LIMITS] = {
			bucket_of("b7", 7 * k, SEC, 10 * k),
			bucket_of("bslow", 3, 60 * SEC * k, 4 * k),
			bucket_of("bfast", 300007 * k, SEC, 50 * k),
			bucket_of("bodd", 1000003, 7 * SEC * k, 17),
			queue_of("q", 50 * k, SEC, 5 * k, SEC),
			queue_of("qwait", 3 * k, SEC, 100, 700000),
			window_of("f", fixed, 5 * k, 2 * SEC),
			window_of("fday", fixed, 100 * k, DAY),
			window_of("fcal", fixed, 6 * k, 0),
			window_of("s", sliding, 6 * k, SEC),
			window_of("sbig", sliding, 1000000000 * k, DAY),
			window_of("sodd", sliding, 13 * k, 999983),
			window_of("l", log, 5 * k, SEC),
			window_of("lbig", log, 40 * k, 3 * SEC),
			window_of("sedge", sliding, 104249 * k, DAY),	/* just below 2^53 */
			bucket_of("bedge", 999983, 86399999999, 50000), /* just below 2^52 */
		};

		for (size_t i = 0; i < LIMITS; i++) {
			t->limit[i][plan] = l[i];
			assert_true(weir_redis_limit_fits(&l[i]));
		}
	}
	t->fresh = bucket_of("fresh", 3, 5 * SEC, 3);
}

static int setup(void **state)
{
	struct trace *t = calloc(1, sizeof(*t));

	*state = t;
	t->seed = 20240229;
	t->now_us = EPOCH;
	make_limits(t);
	t->store = request_store(100000, STORE_BYTES, 1);
	return redis_start(&t->r, NULL) < 0 ? -1 : script_open(&t->script, &t->r);
}

static int teardown(void **state)
{
	struct trace *t = *state;

	weir_store_free(t->store);
	script_close(&t->script);
	redis_stop(&t->r);
	free(t);
	return 0;
}

/* --- one question to both ------------------------------------------------------------------------------------------ */

struct question {
	struct weir_store_request q[2]; /* for C; for Lua */
	struct weir_store_layer y[2][4];
	enum weir_redis_op op;
	size_t limit[4];
};

static void ask_c(struct trace *t, struct question *w)
{
	struct weir_store_request *q = &w->q[0];
	int r = 1;

	q->now_us = t->now_us;
	if (w->op == WEIR_REDIS_DECIDE)
		t->store->ops->decide(t->store, q, request_done, &r);
	else if (w->op == WEIR_REDIS_GIVE_BACK)
		t->store->ops->refund(t->store, q, request_done, &r);
	else
		t->store->ops->reset(t->store, q, request_done, &r);
	assert_int_equal(r, 0);
}

static void ask_lua(struct trace *t, struct question *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		script_add(&t->script, &w[i].q[1], w[i].op);
	script_ask(&t->script, t->now_us);
}

static void say(const char *who, const struct weir_store_request *q)
{
	(void)fprintf(stderr, "%s: admitted %d\n", who, q->admitted);
	for (size_t i = 0; i < q->n; i++) {
		const struct weir_store_layer *y = &q->layer[i];

		(void)fprintf(
			stderr,
			"  alg %d cost %llu mon %d: admitted %d charged %d instead %d remaining "
			"%llu reset %llu retry %lld delay %llu ticket %llu.%llu\n",
			y->limit->algorithm, y->cost, y->monitor, y->admitted, y->charged,
			y->used_instead, y->answer.remaining, y->answer.reset_after_us,
			(long long)y->answer.retry_after_us, y->answer.delay_us, y->ticket.us,
			y->ticket.part);
	}
}

static bool same_layer(const struct weir_store_layer *a, const struct weir_store_layer *b,
		       enum weir_redis_op op)
{
	if (a->charged != b->charged)
		return false;
	if (op != WEIR_REDIS_DECIDE)
		return true;
	return a->admitted == b->admitted && a->used_instead == b->used_instead &&
	       a->answer.remaining == b->answer.remaining &&
	       a->answer.reset_after_us == b->answer.reset_after_us &&
	       a->answer.retry_after_us == b->answer.retry_after_us &&
	       a->answer.delay_us == b->answer.delay_us &&
	       (!a->charged || (a->ticket.us == b->ticket.us && a->ticket.part == b->ticket.part));
}

static void compare(struct trace *t, const struct question *w)
{
	bool same = w->op != WEIR_REDIS_DECIDE || w->q[0].admitted == w->q[1].admitted;

	for (size_t i = 0; i < w->q[0].n; i++)
		same = same && same_layer(&w->y[0][i], &w->y[1][i], w->op);
	if (same)
		return;
	say("C", &w->q[0]);
	say("Lua", &w->q[1]);
	for (size_t i = 0; i < w->q[0].n; i++)
		(void)fprintf(stderr, "  limit %zu\n", w->limit[i]);
	fail_msg("step %zu at %llu, op %d: they differ", t->step, t->now_us - EPOCH, w->op);
}

/* --- expiry -------------------------------------------------------------------------------------------------------- */

/* When each state's key expires, in the trace's time; 0: it has none. */
static __u64 expires_us[LIMITS + 1][2 * CLIENTS];
static bool changed_plan[LIMITS + 1][2 * CLIENTS];

static const struct weir_store_limit *limit_at(struct trace *t, size_t l, size_t plan)
{
	return l < LIMITS ? &t->limit[l][plan] : &t->fresh;
}

static void set_calendar(struct trace *t, struct weir_store_layer *y)
{
	y->start_us = t->now_us - t->now_us % (3 * SEC);
	y->end_us = y->start_us + 3 * SEC;
}

static void expire(struct trace *t, size_t l, size_t client)
{
	struct question w = {.op = WEIR_REDIS_FORGET};

	for (int k = 0; k < 2; k++) {
		w.y[k][0] = request_layer(limit_at(t, l, 0), client, 1);
		set_calendar(t, &w.y[k][0]);
		w.q[k] = (struct weir_store_request){.layer = w.y[k], .n = 1};
	}
	ask_c(t, &w);
	ask_lua(t, &w, 1);
	if (w.y[0][0].charged && !changed_plan[l][client])
		fail_msg("step %zu: limit %zu expired (%llu, now %llu) and was worth something",
			 t->step, l, expires_us[l][client] - EPOCH, t->now_us - EPOCH);
	expires_us[l][client] = 0;
	changed_plan[l][client] = false;
}

static void expire_all(struct trace *t)
{
	for (size_t l = 0; l <= LIMITS; l++)
		for (size_t c = 0; c < 2 * CLIENTS; c++)
			if (expires_us[l][c] && expires_us[l][c] <= t->now_us)
				expire(t, l, c);
}

static void read_expiry(struct trace *t, size_t l, size_t client)
{
	struct weir_store_layer y = request_layer(limit_at(t, l, 0), client, 1);
	char key[128];
	long long ms;

	assert_true(weir_redis_layer_key("weir:", y.limit, y.tag, y.key, key, sizeof(key)) > 0);
	ms = redis_int(t->script.c, "PEXPIRETIME %s", key);
	if (ms == -1)
		fail_msg("step %zu: the state of limit %zu never expires", t->step, l);
	expires_us[l][client] = ms < 0 ? 0 : ((__u64)ms - SCRIPT_PATIENCE_MS) * 1000;
}

/* --- the trace ----------------------------------------------------------------------------------------------------- */

static __u64 some_cost(struct trace *t)
{
	switch (pick(t, 12)) {
	case 0:
		return 0;
	case 1:
		return 2 + pick(t, 5);
	case 2:
		return pick(t, 40);
	case 3:
		return pick(t, 3) ? 1 + pick(t, 60000) : pick(t, 2000000000);
	default:
		return 1;
	}
}

static size_t client_of(const struct weir_store_layer *y)
{
	for (size_t c = 0; c < 2 * CLIENTS; c++) {
		struct weir_store_layer z = request_layer(y->limit, c, 1);

		if (!memcmp(z.key, y->key, sizeof(z.key)))
			return c;
	}
	return 0;
}

static void make_question(struct trace *t, struct question *w)
{
	size_t plan = pick(t, 6) == 0, n = 1 + pick(t, 3), client = pick(t, CLIENTS);

	*w = (struct question){.op = WEIR_REDIS_DECIDE};
	w->q[0].peek = pick(t, 8) == 0;
	w->q[0].n = n;
	for (size_t i = 0; i < n; i++) {
		size_t l = (pick(t, LIMITS / n) + i * (LIMITS / n)) % LIMITS;
		struct weir_store_layer *y = &w->y[0][i];

		w->limit[i] = l;
		*y = request_layer(&t->limit[l][plan], client, some_cost(t));
		y->monitor = pick(t, 5) == 0;
		set_calendar(t, y);
		y->turn_now = pick(t, 4) == 0;
		if (pick(t, 6) == 0 && n == 1) {
			struct weir_store_layer z =
				request_layer(y->limit, CLIENTS + client / 2, 1);

			y->fresh = &t->fresh;
			memcpy(y->instead, z.key, sizeof(y->instead));
		}
	}
}

static void give_to_both(struct question *w)
{
	memcpy(w->y[1], w->y[0], sizeof(w->y[0]));
	w->q[1] = w->q[0];
	w->q[0].layer = w->y[0];
	w->q[1].layer = w->y[1];
}

static void note(struct trace *t, const struct question *w)
{
	for (size_t i = 0; i < w->q[0].n; i++) {
		const struct weir_store_layer *y = &w->y[0][i];
		size_t l = w->limit[i], c = client_of(y);

		read_expiry(t, l, c);
		if (y->limit == &t->limit[l][1])
			changed_plan[l][c] = true;
		if (!y->fresh)
			continue;
		c = CLIENTS + c / 2;
		read_expiry(t, l, c);
		read_expiry(t, LIMITS, c);
		if (y->limit == &t->limit[l][1])
			changed_plan[l][c] = true;
	}
}

static __u64 some_time(struct trace *t)
{
	switch (pick(t, 10)) {
	case 0:
		return 0;
	case 1:
		return pick(t, 4 * SEC);
	case 2:
		return pick(t, 40) ? pick(t, SEC) : pick(t, 2 * DAY);
	default:
		return pick(t, 100000);
	}
}

static void one_trace_through_c_and_lua(void **state)
{
	struct trace *t = *state;
	struct question w[BATCH], back;
	size_t n, admitted = 0, refused = 0;

	memset(expires_us, 0, sizeof(expires_us));
	while (t->step < STEPS) {
		t->now_us += some_time(t);
		expire_all(t);
		n = pick(t, 10) ? 1 : 1 + pick(t, BATCH);
		for (size_t i = 0; i < n; i++) {
			make_question(t, &w[i]);
			give_to_both(&w[i]);
			ask_c(t, &w[i]);
		}
		ask_lua(t, w, n);
		for (size_t i = 0; i < n; i++, t->step++) {
			compare(t, &w[i]);
			note(t, &w[i]);
			admitted += w[i].q[0].admitted;
			refused += !w[i].q[0].admitted;
		}
		if (pick(t, 6))
			continue;
		back = w[pick(t, n)]; /* give it back, now or a little later; or forget all of it */
		t->now_us += pick(t, 3) ? 0 : pick(t, 200000);
		expire_all(t);
		back.op = pick(t, 8) ? WEIR_REDIS_GIVE_BACK : WEIR_REDIS_FORGET;
		back.q[0].newest = pick(t, 6) == 0;
		for (size_t i = 0; i < back.q[0].n; i++)
			set_calendar(t, &back.y[0][i]);
		if (back.q[0].newest)
			for (size_t i = 0; i < back.q[0].n; i++)
				back.y[0][i].charged = back.y[0][i].cost > 0;
		give_to_both(&back);
		ask_c(t, &back);
		ask_lua(t, &back, 1);
		compare(t, &back);
		note(t, &back);
	}
	assert_true(admitted > STEPS / 10 && refused > STEPS / 10);
}

/* --- a clock that steps back --------------------------------------------------------------------------------------- */

/* The states of one key as the pure functions keep them. */
struct plain {
	struct weir_request_bucket_state bucket;
	struct weir_request_fixed_state fixed;
	struct weir_request_sliding_state sliding;
	struct weir_request_log_state log;
	__u64 time_us[4096];
};

static void take_states(struct plain *p, struct weir_store_layer *y, __u64 now_us)
{
	const struct weir_store_limit *l = y->limit;
	struct weir_request_fixed f = {.limit = l->fixed.limit};

	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		weir_request_fixed_align(&f, l->window_us, now_us);
		p->fixed = weir_request_fixed_settle(p->fixed, &f);
		weir_request_fixed_look(p->fixed, &f, now_us, y->cost, &y->answer);
		if (y->answer.retry_after_us)
			return;
		p->fixed = weir_request_fixed_take(p->fixed, y->cost);
		weir_request_fixed_look(p->fixed, &f, now_us, y->cost, &y->answer);
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		weir_request_log_settle(&p->log, &l->log, now_us);
		weir_request_log_look(&p->log, &l->log, now_us, y->cost, &y->answer);
		if (y->answer.retry_after_us)
			return;
		weir_request_log_push(&p->log, now_us, y->cost);
		weir_request_log_look(&p->log, &l->log, now_us, y->cost, &y->answer);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		p->sliding = weir_request_sliding_settle(p->sliding, &l->sliding, now_us);
		weir_request_sliding_look(p->sliding, &l->sliding, now_us, y->cost, &y->answer);
		if (y->answer.retry_after_us)
			return;
		p->sliding = weir_request_sliding_take(p->sliding, y->cost);
		weir_request_sliding_look(p->sliding, &l->sliding, now_us, y->cost, &y->answer);
		break;
	default:
		p->bucket = weir_request_bucket_settle(p->bucket, &l->bucket, now_us);
		weir_request_bucket_look(p->bucket, &l->bucket, now_us, y->cost, &y->answer);
		if (y->answer.retry_after_us)
			return;
		p->bucket = weir_request_bucket_take(p->bucket, &l->bucket, now_us, y->cost);
		weir_request_bucket_look(p->bucket, &l->bucket, now_us, y->cost, &y->answer);
	}
	y->answer.retry_after_us = 0;
	y->charged = true;
}

/* A refusal changes nothing. */
static void take_plain(struct plain *p, struct weir_store_layer *y, __u64 now_us)
{
	struct weir_request_bucket_state bucket = p->bucket;
	struct weir_request_fixed_state fixed = p->fixed;
	struct weir_request_sliding_state sliding = p->sliding;
	struct weir_request_log_state log = p->log;

	take_states(p, y, now_us);
	if (y->charged)
		return;
	p->bucket = bucket;
	p->fixed = fixed;
	p->sliding = sliding;
	p->log = log;
}

static void a_clock_that_steps_back_frees_nothing(void **state)
{
	struct trace *t = *state;
	struct plain *plain = calloc(LIMITS, sizeof(*plain));
	struct question w;
	size_t refused = 0;

	assert_non_null(plain);
	for (size_t i = 0; i < LIMITS; i++) {
		plain[i].log.time_us = plain[i].time_us;
		plain[i].log.room = ARRAY_LEN(plain[i].time_us);
	}
	t->now_us = EPOCH + DAY;
	for (t->step = 0; t->step < STEPS / 5; t->step++) {
		size_t l = pick(t, LIMITS);
		__u64 back = pick(t, 20) ? 0 : pick(t, 4 * SEC);

		if (l == 8 || t->limit[l][0].algorithm == WEIR_REQUEST_LEAKY_BUCKET)
			continue; /* a calendar's window is the asker's; a queue is a bucket */
		t->now_us += pick(t, 10) ? pick(t, 50000) : pick(t, SEC);
		t->now_us -= back;
		w = (struct question){.op = WEIR_REDIS_DECIDE};
		w.limit[0] = l;
		w.y[0][0] = request_layer(&t->limit[l][0], 1, 1 + pick(t, 2));
		w.q[0].n = 1;
		give_to_both(&w);
		ask_lua(t, &w, 1);
		take_plain(&plain[l], &w.y[0][0], t->now_us);
		w.q[0].admitted = w.y[0][0].charged;
		w.y[0][0].admitted = w.y[0][0].charged;
		w.y[0][0].ticket = w.y[1][0].ticket;
		compare(t, &w);
		refused += !w.q[0].admitted;
		t->now_us += pick(t, 2) ? back : 0;
	}
	assert_true(refused > STEPS / 100);
	free(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_trace_through_c_and_lua, setup, teardown),
		cmocka_unit_test_setup_teardown(a_clock_that_steps_back_frees_nothing, setup,
						teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
