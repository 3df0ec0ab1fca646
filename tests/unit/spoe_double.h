/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doubles of the engine and of the worker for tests of SPOP connections: what is asked is kept as text, answers come when
 * the test wants.
 */
#ifndef WEIR_TEST_SPOE_DOUBLE_H
#define WEIR_TEST_SPOE_DOUBLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/wait.h"
#include "user/http/spoe_int.h"

#define CALLS_MAX 4096

struct weir_l7_call {
	weir_l7_done_fn *done;
	void *arg;
	enum weir_answer_code code;
	struct weir_answer answer;
};

static struct {
	char asked[4096]; /* the last question */
	unsigned n_asked, gone, noted;
	char note[128];
	bool later, no_memory, trusts;
	enum weir_answer_code
		code[16]; /* of the coming answers, in their order; after that ALLOW */
	unsigned n_code, at_code;
	struct weir_l7_call *call[CALLS_MAX]; /* of later */
	unsigned n_call, alive;
} world;

__u64 weir_http_now_ns(void)
{
	return wait_now_ns();
}

void weir_http_note(struct weir_http_worker *w, enum weir_http_note what,
		    const struct weir_http_port *port, const char *detail)
{
	(void)w; /* one of each in these tests */
	(void)what;
	(void)port;
	world.noted++;
	(void)snprintf(world.note, sizeof(world.note), "%s", detail);
}

bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer)
{
	(void)port; /* the test says it */
	(void)peer;
	return world.trusts;
}

void weir_http_gone(struct weir_http_port *port)
{
	(void)port; /* one port */
	world.gone++;
}

static inline int text(char *to, size_t n, const char *name, struct weir_text t)
{
	return t.n ? snprintf(to, n, " %s=%.*s", name, (int)t.n, t.p) : 0;
}

static inline void keep_question(const struct weir_l7_query *q)
{
	char client[WEIR_PREFIX_STRLEN] = "-";
	char *to = world.asked;
	size_t n = sizeof(world.asked);
	int used;

	if (q->client)
		(void)weir_prefix_format(q->client, client);
	used = snprintf(to, n, "%.*s %.*s from %s%s", (int)q->method.n, q->method.p,
			(int)q->target.n, q->target.p, client,
			q->client_seen && !q->may_wait && !q->peek ? "" : " ODD");
	used += text(to + used, n - (size_t)used, "host", q->host);
	used += text(to + used, n - (size_t)used, "user", q->user);
	used += text(to + used, n - (size_t)used, "plan", q->plan);
	used += text(to + used, n - (size_t)used, "cost", q->cost);
	for (size_t i = 0; i < q->headers->n && i < 16; i++)
		used += snprintf(to + used, n - (size_t)used, " [%.*s|%.*s]",
				 (int)q->headers->line[i].name.n, q->headers->line[i].name.p,
				 (int)q->headers->line[i].value.n, q->headers->line[i].value.p);
}

int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *query, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret_call)
{
	struct weir_l7_call *call;

	(void)w; /* none here */
	world.n_asked++;
	keep_question(query);
	if (world.no_memory)
		return -ENOMEM;
	call = malloc(sizeof(*call));
	assert_non_null(call);
	call->done = done;
	call->arg = arg;
	call->code = world.at_code < world.n_code ? world.code[world.at_code++] : WEIR_ANSWER_ALLOW;
	world.alive++;
	*ret_call = call;
	if (!world.later) {
		done(arg, call);
		return 0;
	}
	assert_true(world.n_call < CALLS_MAX);
	world.call[world.n_call++] = call;
	return 0;
}

const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *call)
{
	const struct weir_answer_limit limit = {.name = "login",
						.outcome = call->code == WEIR_ANSWER_RATE_LIMITED
								   ? WEIR_ANSWER_EXCEEDED
								   : WEIR_ANSWER_ADMITTED,
						.limit = 10,
						.remaining = call->code == WEIR_ANSWER_RATE_LIMITED
								     ? 0
								     : 7,
						.reset_after_ns = 19 * 1000000000ull,
						.retry_after_ns = 19 * 1000000000ull,
						.window_ns = 60 * 1000000000ull};

	assert_int_equal(weir_answer_make(WEIR_ANSWER_SPOE, &limit, 1, &call->answer), 0);
	return &call->answer;
}

void weir_l7_call_free(struct weir_l7_call *call)
{
	world.alive--;
	free(call);
}

static inline void answer(unsigned i)
{
	world.call[i]->done(world.call[i]->arg, world.call[i]);
}

#endif
