/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's engine without a listener: rules from text, a clock that stands until it is told, questions in a
 * line and what came of them.
 */
#ifndef WEIR_TEST_ENGINE_CASE_H
#define WEIR_TEST_ENGINE_CASE_H

#include <stdlib.h>

#include "conf_case.h"
#include "tests/lib/prefix.h"
#include "user/base/str.h"
#include "user/l7/engine.h"

#define US_PER_S 1000000ull
#define START_US (1800000000ull * US_PER_S) /* a multiple of ten seconds, a minute and an hour */

/* One limit: @n requests a minute of each address. */
#define PER_ADDRESS(n)                                                                             \
	"request_limits:\n  - {name: per-address, key: ip, algorithm: fixed-window, limit: " #n    \
	", window: 60s}\n"

/* A queue of three behind the one whose turn it is, half a second each, under a limit of all. */
#define QUEUE                                                                                      \
	"request_limits:\n  - {name: q, key: ip, algorithm: leaky-bucket, rate: 2/s, queue: 3, "   \
	"max_wait: 10s}\n  - {name: all, key: global, algorithm: fixed-window, limit: 100, "       \
	"window: 60s}\n"

struct engine {
	__u64 now_us;
	struct weir_l7 *l7;
	struct weir_l7_worker *w;
	struct weir_l7_call *call; /* of the last question; NULL: answered and freed */
	int done;		   /* how often it was told */
	struct weir_answer answer; /* of the last one; its texts are its own */
	struct weir_answer_limit limit[WEIR_ANSWER_LIMITS_MAX];
	size_t n;
};

/* A question; what is not given is usual. */
struct question {
	const char *method, *target, *host, *ip;
	const char *header[8]; /* "Name: value" */
	const char *user, *plan, *cost;
	__u64 cost_n;
	bool peek, no_wait, unseen, no_ip, refund;
	enum weir_answer_profile profile;
};
#define ASK(e, ...) engine_ask(e, (struct question){__VA_ARGS__})

static inline __u64 engine_clock(void *arg)
{
	return __atomic_load_n((__u64 *)arg, __ATOMIC_RELAXED);
}

static inline void engine_advance(struct engine *e, __u64 us)
{
	__atomic_store_n(&e->now_us, e->now_us + us, __ATOMIC_RELAXED);
}

static inline struct weir_conf *engine_conf(const char *text)
{
	_cleanup_free_ char *all = NULL;

	assert_true(asprintf(&all, "interfaces: []\n%s", text) > 0);
	return conf_of(all);
}

/* With a store and a loop of the test's own. */
static inline struct engine *engine_with(const char *text, struct weir_store *store,
					 struct event_base *base)
{
	_cleanup_(weir_conf_freep) struct weir_conf *conf = engine_conf(text);
	struct engine *e = calloc(1, sizeof(*e));
	struct weir_error error = {""};
	struct weir_l7_options o = {.clock = engine_clock, .store = store};

	assert_non_null(e);
	e->now_us = START_US;
	o.clock_arg = &e->now_us;
	if (weir_l7_new(conf, &o, &e->l7, &error) < 0)
		print_error("%s\n", error.text);
	assert_string_equal(error.text, "");
	assert_int_equal(weir_l7_worker_new(e->l7, base, &e->w), 0);
	return e;
}

static inline struct engine *engine_of(const char *text)
{
	return engine_with(text, NULL, NULL);
}

static inline void engine_configure(struct engine *e, const char *text)
{
	_cleanup_(weir_conf_freep) struct weir_conf *conf = engine_conf(text);
	_cleanup_free_ char *note = NULL;
	struct weir_error error = {""};

	if (weir_l7_configure(e->l7, conf, &note, &error) < 0)
		print_error("%s\n", error.text);
	assert_string_equal(error.text, "");
}

static inline void engine_free(struct engine *e)
{
	if (!e)
		return;
	weir_l7_worker_free(e->w);
	weir_l7_free(e->l7);
	free(e);
}
DEFINE_CLEANUP(struct engine, engine_free)

/* Copies the answer, with its texts, from the worker's. */
static inline void engine_take_answer(struct engine *e)
{
	const struct weir_answer *a = weir_l7_call_answer(e->call);
	const struct weir_answer_limit *l = weir_l7_call_limits(e->call, &e->n);

	memcpy(&e->answer, a, sizeof(*a));
	for (size_t i = 0; i < a->n_headers; i++)
		if (a->headers[i].value >= a->text &&
		    a->headers[i].value < a->text + sizeof(a->text))
			e->answer.headers[i].value =
				e->answer.text + (a->headers[i].value - a->text);
	if (a->body >= a->text && a->body < a->text + sizeof(a->text))
		e->answer.body = e->answer.text + (a->body - a->text);
	memcpy(e->limit, l, e->n * sizeof(*l));
}

static inline void engine_done(void *arg, struct weir_l7_call *call)
{
	struct engine *e = arg;

	assert_non_null(call);
	e->call = call;
	e->done++;
}

static inline void engine_add_header(struct weir_header_list *list, const char *line)
{
	const char *colon = strchr(line, ':');

	assert_non_null(colon);
	assert_int_equal(weir_header_list_add(list,
					      (struct weir_text){line, (size_t)(colon - line)},
					      weir_text_of(colon + 1)),
			 0);
}

/* Asks; the call is the test's to end (engine_end). */
static inline void engine_send(struct engine *e, const struct question *q)
{
	struct weir_header_list headers = {.n = 0};
	struct weir_prefix ip;
	struct weir_l7_query query = {
		.profile = q->profile,
		.method = weir_text_of(q->method ? q->method : "GET"),
		.target = weir_text_of(q->target ? q->target : "/"),
		.headers = &headers,
		.client_seen = !q->unseen,
		.cost_n = q->cost_n,
		.peek = q->peek,
		.may_wait = !q->no_wait,
	};
	struct weir_l7_call *call = NULL;
	const char *text = q->ip ? q->ip : "198.51.100.1";

	if (!q->no_ip) {
		ip = prefix_of(text);
		query.client = &ip;
	}
	if (q->host)
		query.host = weir_text_of(q->host);
	if (q->user)
		query.user = weir_text_of(q->user);
	if (q->plan)
		query.plan = weir_text_of(q->plan);
	if (q->cost)
		query.cost = weir_text_of(q->cost);
	for (size_t i = 0; i < ARRAY_LEN(q->header) && q->header[i]; i++)
		engine_add_header(&headers, q->header[i]);
	e->done = 0;
	e->call = NULL;
	assert_int_equal((q->refund ? weir_l7_refund : weir_l7_ask)(e->w, &query, engine_done, e,
								    &call),
			 0);
	if (!e->call)
		e->call = call;
	assert_ptr_equal(e->call, call);
}

static inline void engine_end(struct engine *e)
{
	weir_l7_call_free(e->call);
	e->call = NULL;
}

/* Asks, takes the answer, ends. Returns its code. */
static inline enum weir_answer_code engine_ask(struct engine *e, struct question q)
{
	engine_send(e, &q);
	assert_int_equal(e->done, 1);
	engine_take_answer(e);
	engine_end(e);
	return e->answer.code;
}

/* How many of @n such questions pass. */
static inline unsigned engine_passing(struct engine *e, unsigned n, struct question q)
{
	unsigned passed = 0;

	for (unsigned i = 0; i < n; i++)
		passed += engine_ask(e, q) == WEIR_ANSWER_ALLOW;
	return passed;
}
#define PASSING(e, n, ...) engine_passing(e, n, (struct question){__VA_ARGS__})

static inline const struct weir_answer_limit *engine_limit(const struct engine *e, const char *name)
{
	for (size_t i = 0; i < e->n; i++)
		if (strcmp(e->limit[i].name, name) == 0)
			return &e->limit[i];
	return NULL;
}

static inline void engine_expect(const struct engine *e, const char *header, const char *value)
{
	const char *v = weir_answer_header(&e->answer, header);

	if (!value) {
		assert_null(v);
		return;
	}
	if (!v)
		print_error("no %s\n", header);
	assert_non_null(v);
	assert_string_equal(v, value);
}

static inline struct weir_l7_stats engine_stats(const struct engine *e)
{
	struct weir_l7_stats s;

	weir_l7_stats(e->l7, &s);
	return s;
}

/* Counters of one limit. */
static inline struct weir_l7_limit_stats engine_counts(const struct engine *e, const char *name)
{
	struct weir_l7_limit_stats s[256];
	size_t n = weir_l7_limits(e->l7, s, ARRAY_LEN(s));

	for (size_t i = 0; i < n; i++)
		if (strcmp(s[i].name, name) == 0)
			return s[i];
	fail_msg("no counters of %s", name);
	return s[0];
}

#endif
