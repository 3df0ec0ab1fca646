/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine on a store that answers later, too late, never, or that it cannot: what each limit says for
 * that, within the budget, and that nothing is counted twice or for nobody.
 */
#include <event2/event.h>

#include "engine_case.h"

/* --- a store as a test wants it ---- */

enum how { NOW, LATER, FAILS };

struct waiting {
	struct weir_store_request *q;
	weir_store_done_fn *done;
	void *data;
	char op;
};
struct store {
	struct weir_store store;
	struct weir_store *inner;
	enum how how;
	struct waiting waiting[64];
	size_t n;
	unsigned decided, refunded;
};

static void count(struct store *s, char op)
{
	s->decided += op == 'd';
	s->refunded += op == 'r';
}

static void forward(struct store *s, struct waiting *x)
{
	const struct weir_store_ops *ops = s->inner->ops;

	(x->op == 'd'	? ops->decide
	 : x->op == 'r' ? ops->refund
			: ops->reset)(s->inner, x->q, x->done, x->data);
}

static void take(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		 void *data, char op)
{
	struct store *s = (struct store *)store;
	struct waiting x = {q, done, data, op};

	count(s, op);
	if (s->how == NOW) {
		forward(s, &x);
	} else if (s->how == FAILS) {
		done(q, -EHOSTDOWN, data);
	} else {
		assert_true(s->n < ARRAY_LEN(s->waiting));
		s->waiting[s->n++] = x;
	}
}

static void decide(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	take(s, q, done, data, 'd');
}

static void refund(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	take(s, q, done, data, 'r');
}

static void reset(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	take(s, q, done, data, 'x');
}

static void stats(struct weir_store *s, struct weir_store_stats *ret)
{
	struct weir_store *inner = ((struct store *)s)->inner;

	inner->ops->stats(inner, ret);
}

static void sweep(struct weir_store *s, __u64 now_us, size_t most)
{
	struct weir_store *inner = ((struct store *)s)->inner;

	inner->ops->sweep(inner, now_us, most);
}

/* Answers all that waits: really, or with an error. */
static void deliver(struct store *s, bool really)
{
	for (size_t i = 0; i < s->n; i++) {
		struct waiting x = s->waiting[i];

		if (really)
			forward(s, &x);
		else
			x.done(x.q, -EIO, x.data);
	}
	s->n = 0;
}

static void end(struct weir_store *store)
{
	struct store *s = (struct store *)store;

	s->how = NOW;
	deliver(s, false);
	weir_store_free(s->inner);
	free(s);
}

static const struct weir_store_ops ops = {.name = "double",
					  .decide = decide,
					  .refund = refund,
					  .reset = reset,
					  .stats = stats,
					  .sweep = sweep,
					  .free = end};

static struct store *store_new(enum how how)
{
	const struct weir_store_embedded_options o = {.entries_max = 1000, .bytes_max = 16 << 20};
	struct store *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(weir_store_embedded_new(&o, &s->inner), 0);
	s->store.ops = &ops;
	s->how = how;
	return s;
}

/* --- rules and a loop ---- */

struct fixture {
	struct store *s;
	struct event_base *base;
	struct engine *e;
};

static void begin(struct fixture *f, enum how how, bool loop, const char *text)
{
	f->s = store_new(how);
	f->base = loop ? event_base_new() : NULL;
	f->e = engine_with(text, &f->s->store, f->base);
}

static void done(struct fixture *f)
{
	engine_free(f->e);
	if (f->base)
		event_base_free(f->base);
}

/* Runs the loop until the question is answered: by its budget, since nothing else is in there. */
static void wait_for_budget(struct fixture *f)
{
	while (!f->e->done)
		assert_int_equal(event_base_loop(f->base, EVLOOP_ONCE), 0);
}

#define LIMIT(name, failure)                                                                       \
	"  - {name: " name ", match: {path: /" name "}, key: ip, algorithm: fixed-window, limit: " \
	"2, window: 60s, on_store_failure: " failure "}\n"
#define LIMITS                                                                                     \
	"http: {budget: 2ms}\n"                                                                    \
	"request_limits:\n" LIMIT("open", "open") LIMIT("closed", "closed")                        \
		LIMIT("local", "local")

/* --- tests ---- */

static void a_late_answer_within_the_budget_is_the_answer(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	for (unsigned i = 0; i < 3; i++) {
		engine_send(f.e, &(struct question){.target = "/closed"});
		assert_int_equal(f.e->done, 0);
		deliver(f.s, true);
		assert_int_equal(f.e->done, 1);
		engine_take_answer(f.e);
		assert_int_equal(f.e->answer.code,
				 i < 2 ? WEIR_ANSWER_ALLOW : WEIR_ANSWER_RATE_LIMITED);
		engine_end(f.e);
	}
	assert_int_equal(engine_stats(f.e).over_budget, 0);
	assert_int_equal(f.s->refunded, 0);
	done(&f);
}

static void each_limit_says_what_it_does_without_its_store(void **state)
{
	struct fixture f;
	struct weir_l7_limit_stats s;

	(void)state;
	begin(&f, FAILS, false, LIMITS);
	assert_int_equal(PASSING(f.e, 9, .target = "/open"), 9);
	assert_int_equal(f.e->n, 0);
	engine_expect(f.e, "X-RateLimit-Limit", NULL);
	s = engine_counts(f.e, "open");
	assert_int_equal(s.n[WEIR_L7_UNJUDGED], 9);
	assert_int_equal(s.n[WEIR_L7_PASSED], 0);

	assert_int_equal(ASK(f.e, .target = "/closed", .profile = WEIR_ANSWER_JSON),
			 WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(f.e->answer.status, 503);
	engine_expect(f.e, "Retry-After", "1");
	engine_expect(f.e, "X-RateLimit-Limit", NULL);
	assert_int_equal(ASK(f.e, .target = "/closed", .profile = WEIR_ANSWER_NGINX),
			 WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(f.e->answer.status, 403);
	engine_expect(f.e, "X-Weir-Status", "503");
	assert_int_equal(engine_counts(f.e, "closed").n[WEIR_L7_CLOSED], 2);
	assert_int_equal(engine_counts(f.e, "closed").n[WEIR_L7_REFUSED], 0);

	assert_int_equal(PASSING(f.e, 9, .target = "/local"), 2);
	assert_int_equal(f.e->answer.code, WEIR_ANSWER_RATE_LIMITED);
	s = engine_counts(f.e, "local");
	assert_int_equal(s.n[WEIR_L7_LOCAL], 9);
	assert_int_equal(s.n[WEIR_L7_PASSED], 2);
	assert_int_equal(s.n[WEIR_L7_REFUSED], 7);
	/* the store is back, and so are its counts */
	f.s->how = NOW;
	assert_int_equal(PASSING(f.e, 9, .target = "/local"), 2);
	assert_int_equal(engine_counts(f.e, "local").n[WEIR_L7_LOCAL], 9);
	done(&f);
}

static void a_closed_limit_without_its_store_charges_no_other(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, FAILS, false,
	      "request_limits:\n"
	      "  - {name: c, key: ip, match: {path: /c}, rate: 10/s, on_store_failure: closed}\n"
	      "  - {name: l, key: ip, algorithm: fixed-window, limit: 3, window: 60s}\n");
	assert_int_equal(PASSING(f.e, 9, .target = "/c"), 0);
	assert_int_equal(f.e->answer.code, WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(PASSING(f.e, 9, .target = "/"), 3);
	/* over a limit is over a limit */
	assert_int_equal(ASK(f.e, .target = "/c"), WEIR_ANSWER_RATE_LIMITED);
	done(&f);
}

static void monitor_mode_passes_without_a_store(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, FAILS, false, LIMITS);
	weir_l7_set_mode(f.e->l7, WEIR_MODE_MONITOR);
	assert_int_equal(ASK(f.e, .target = "/closed"), WEIR_ANSWER_ALLOW);
	engine_expect(f.e, "X-Weir-Would", "deny; limit=closed");
	done(&f);
}

static void over_the_budget_each_limit_says_the_same(void **state)
{
	static const struct {
		const char *target;
		enum weir_answer_code code;
	} cases[] = {{"/open", WEIR_ANSWER_ALLOW},
		     {"/closed", WEIR_ANSWER_STORE_UNAVAILABLE},
		     {"/local", WEIR_ANSWER_ALLOW}};
	struct fixture f;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		engine_send(f.e, &(struct question){.target = cases[i].target});
		wait_for_budget(&f);
		engine_take_answer(f.e);
		assert_int_equal(f.e->answer.code, cases[i].code);
		engine_end(f.e);
	}
	assert_int_equal(engine_stats(f.e).over_budget, 3);
	/* what it charged meanwhile: for who passed that is right, for who was refused it is given back */
	deliver(f.s, true);
	assert_int_equal(f.s->refunded, 1);
	f.s->how = NOW;
	deliver(f.s, true);
	assert_int_equal(ASK(f.e, .target = "/open", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(f.e->answer.remaining, 1);
	assert_int_equal(ASK(f.e, .target = "/closed", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(f.e->answer.remaining, 2);
	assert_int_equal(ASK(f.e, .target = "/local", .peek = true), WEIR_ANSWER_ALLOW);
	assert_int_equal(f.e->answer.remaining, 1);
	done(&f);
}

static void late_errors_are_harmless(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	for (unsigned i = 0; i < 8; i++) {
		engine_send(f.e, &(struct question){.target = i % 2 ? "/closed" : "/local"});
		wait_for_budget(&f);
		engine_end(f.e);
	}
	deliver(f.s, false);
	assert_int_equal(f.s->refunded, 0);
	done(&f);
}

static void a_store_that_never_answers_ends_with_the_engine(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	engine_send(f.e, &(struct question){.target = "/local"});
	wait_for_budget(&f);
	engine_end(f.e);
	/* its rules are gone, and so is its worker */
	engine_configure(f.e, "");
	assert_int_equal(ASK(f.e, .target = "/"), WEIR_ANSWER_ALLOW);
	weir_l7_worker_free(f.e->w);
	f.e->w = NULL;
	deliver(f.s, true);
	done(&f);
}

static void without_a_loop_nobody_waits(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, LATER, false, LIMITS);
	assert_int_equal(ASK(f.e, .target = "/closed"), WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(ASK(f.e, .target = "/local"), WEIR_ANSWER_ALLOW);
	done(&f);
}

static void a_question_that_nobody_waits_for_is_not_charged(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	engine_send(f.e, &(struct question){.target = "/closed"});
	engine_end(f.e); /* its connection is gone */
	assert_int_equal(f.e->done, 0);
	deliver(f.s, true);
	f.s->how = NOW;
	deliver(f.s, true);
	assert_int_equal(f.e->done, 0);
	assert_int_equal(ASK(f.e, .target = "/closed"), WEIR_ANSWER_ALLOW);
	assert_int_equal(f.e->answer.remaining, 1);
	done(&f);
}

static void whoever_leaves_a_queue_gives_its_place_back_later(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, NOW, true,
	      "request_limits:\n  - {name: q, key: ip, algorithm: leaky-bucket, rate: 1/s, queue: "
	      "3, "
	      "max_wait: 9s}\n");
	assert_int_equal(ASK(f.e, .target = "/"), WEIR_ANSWER_ALLOW);
	for (unsigned i = 0; i < 2; i++) {
		engine_send(f.e, &(struct question){.target = "/"});
		assert_int_equal(weir_l7_call_wait_us(f.e->call), 1000000);
		f.s->how = LATER;
		if (i) {
			weir_l7_call_abort(f.e->call);
			assert_int_equal(weir_l7_call_answer(f.e->call)->code,
					 WEIR_ANSWER_SHUTTING_DOWN);
			engine_end(f.e);
		} else {
			weir_l7_call_leave(f.e->call);
		}
		deliver(f.s, true);
		f.s->how = NOW;
		assert_int_equal(engine_stats(f.e).queue_abandoned, 0);
	}
	engine_send(f.e, &(struct question){.target = "/"});
	assert_int_equal(weir_l7_call_wait_us(f.e->call), 1000000);
	f.s->how = LATER;
	weir_l7_call_leave(f.e->call);
	deliver(f.s, false); /* it cannot: the place is lost, and that is known */
	assert_int_equal(engine_stats(f.e).queue_abandoned, 1);
	done(&f);
}

static void refunds_and_views_need_the_store(void **state)
{
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip};
	struct weir_error error;
	struct fixture f;
	size_t n;

	(void)state;
	begin(&f, LATER, true, LIMITS);
	engine_send(f.e, &(struct question){.target = "/local", .refund = true});
	assert_int_equal(f.e->done, 0);
	deliver(f.s, true); /* and what it shows after that */
	assert_int_equal(f.e->done, 1);
	assert_int_equal(f.s->refunded, 1);
	assert_int_equal(f.s->decided, 1);
	engine_take_answer(f.e);
	assert_int_equal(f.e->answer.remaining, 2);
	engine_end(f.e);
	done(&f);

	begin(&f, LATER, true, LIMITS);
	engine_send(f.e, &(struct question){.target = "/local", .refund = true});
	wait_for_budget(&f);
	engine_take_answer(f.e);
	assert_int_equal(f.e->answer.code, WEIR_ANSWER_STORE_UNAVAILABLE);
	engine_end(f.e);
	assert_int_equal(weir_l7_inspect(f.e->w, &who, NULL, NULL, NULL), -EAGAIN);
	assert_int_equal(weir_l7_reset(f.e->w, "local", &who, &n, &error), -EAGAIN);
	deliver(f.s, true);
	done(&f);
}

static void a_full_store_of_our_own_is_a_store_that_is_away(void **state)
{
	_cleanup_(engine_freep) struct engine *e =
		engine_of("memory: {request_keys: 100, request_bytes: 64 KiB}\n"
			  "request_limits:\n"
			  "  - {name: o, match: {path: /o}, key: ip, algorithm: "
			  "sliding-window-log, limit: 50000, "
			  "window: 60s, on_store_failure: open}\n"
			  "  - {name: c, match: {path: /c}, key: ip, algorithm: "
			  "sliding-window-log, limit: 50000, "
			  "window: 60s, on_store_failure: closed}\n"
			  "  - {name: l, match: {path: /l}, key: ip, algorithm: "
			  "sliding-window-log, limit: 50000, "
			  "window: 60s, on_store_failure: local}\n");

	(void)state;
	assert_int_equal(ASK(e, .target = "/o", .cost_n = 40000), WEIR_ANSWER_ALLOW);
	assert_int_equal(e->n, 0);
	assert_int_equal(engine_counts(e, "o").n[WEIR_L7_UNJUDGED], 1);
	assert_int_equal(ASK(e, .target = "/c", .cost_n = 40000), WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(ASK(e, .target = "/l", .cost_n = 40000), WEIR_ANSWER_STORE_UNAVAILABLE);
	assert_int_equal(engine_stats(e).store.full, 3);
	assert_int_equal(ASK(e, .target = "/l"), WEIR_ANSWER_ALLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_answer_within_the_budget_is_the_answer),
		cmocka_unit_test(each_limit_says_what_it_does_without_its_store),
		cmocka_unit_test(a_closed_limit_without_its_store_charges_no_other),
		cmocka_unit_test(monitor_mode_passes_without_a_store),
		cmocka_unit_test(over_the_budget_each_limit_says_the_same),
		cmocka_unit_test(late_errors_are_harmless),
		cmocka_unit_test(a_store_that_never_answers_ends_with_the_engine),
		cmocka_unit_test(without_a_loop_nobody_waits),
		cmocka_unit_test(a_question_that_nobody_waits_for_is_not_charged),
		cmocka_unit_test(whoever_leaves_a_queue_gives_its_place_back_later),
		cmocka_unit_test(refunds_and_views_need_the_store),
		cmocka_unit_test(a_full_store_of_our_own_is_a_store_that_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
