/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Questions to the engine: asked, under way, held, answered, given up. Called by mhd.c, hold.c and worker.c. */
#include <sys/socket.h>

#include "user/http/conn.h"

/* Nobody will read the answer; @held: its place in a queue can be given back. */
void weir_http_conn_drop(struct weir_http_conn *c, bool held)
{
	if (c->call && held)
		weir_l7_call_leave(c->call);
	else if (c->call)
		weir_l7_call_free(c->call);
	if (c->batch)
		weir_http_json_free(c->batch, held);
	c->call = NULL;
	c->batch = NULL;
}

/* Hands a suspended connection back; the daemon must be run after it. */
static void resume(struct weir_http_conn *c)
{
	if (c->leaves)
		event_free(c->leaves);
	c->leaves = NULL;
	c->suspended = false;
	c->phase = WEIR_HTTP_ANSWERING;
	c->port->run = true;
	MHD_resume_connection(c->mhd);
}

void weir_http_conn_release(struct weir_http_conn *c)
{
	resume(c);
}

static void on_left(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_conn *c = arg;

	(void)fd;
	(void)what;
	c->left = true;
	weir_http_worker_unhold(c->port->worker, c);
	weir_http_conn_drop(c, true);
	resume(c);
	weir_http_mhd_run(c->port);
}

static void suspend(struct weir_http_conn *c, enum weir_http_phase phase)
{
	c->phase = phase;
	c->suspended = true;
	MHD_suspend_connection(c->mhd);
}

/* Whether its client leaves, while it is held. Whoever waits for the store alone does so for the budget at most: that is
 * not worth two system calls, and is noticed when it is answered.
 */
static void watch(struct weir_http_conn *c)
{
	c->leaves = event_new(c->port->worker->base, c->fd, EV_CLOSED, on_left, c);
	if (c->leaves)
		(void)event_add(c->leaves, NULL); /* else as if it waited for the store */
}

static __u64 wait_us(const struct weir_http_conn *c)
{
	return c->batch ? weir_http_json_wait_us(c->batch) : weir_l7_call_wait_us(c->call);
}

static void abort_question(struct weir_http_conn *c)
{
	if (c->batch)
		weir_http_json_abort(c->batch);
	else
		weir_l7_call_abort(c->call);
}

/* True if the answer is held from now on. */
static bool hold(struct weir_http_conn *c, __u64 us)
{
	if (!us)
		return false;
	if (!c->port->closing && !c->port->worker->stop_at_ns &&
	    weir_http_worker_hold(c->port->worker, c, weir_http_now_ns() + us * 1000) == 0)
		return true;
	abort_question(c);
	return false;
}

void weir_http_conn_done(void *arg, struct weir_l7_call *call)
{
	struct weir_http_conn *c = arg;

	if (c->batch && !weir_http_json_done(c->batch))
		return;
	if (!c->batch)
		c->call = call;
	if (c->asking) {
		c->asking = false; /* whoever asks goes on */
		return;
	}
	if (c->left || c->cut)
		weir_http_conn_drop(c, true);
	else if (hold(c, wait_us(c))) {
		c->phase = WEIR_HTTP_HELD;
		watch(c);
		return;
	}
	resume(c);
	event_active(c->port->again, EV_TIMEOUT, 0); /* once for all that come in this turn */
}

enum MHD_Result weir_http_conn_reply(struct weir_http_conn *c)
{
	const struct weir_answer *a;
	enum MHD_Result r;

	if (c->batch)
		return weir_http_json_answer(c);
	a = weir_l7_call_answer(c->call);
	r = weir_http_conn_answer(c, a->status, a, NULL, 0);
	weir_l7_call_free(c->call);
	c->call = NULL;
	return r;
}

/* After everything was asked: the answer, or the connection waits for it. */
enum MHD_Result weir_http_conn_asked(struct weir_http_conn *c)
{
	if (c->asking) {
		c->asking = false;
		suspend(c, WEIR_HTTP_ASKED);
		return MHD_YES;
	}
	if (hold(c, wait_us(c))) {
		suspend(c, WEIR_HTTP_HELD);
		watch(c);
		return MHD_YES;
	}
	return weir_http_conn_reply(c);
}

enum MHD_Result weir_http_conn_ask(struct weir_http_conn *c, const char *method)
{
	struct weir_http_worker *w = c->port->worker;
	struct weir_http_lines *lines = weir_http_worker_lines(w);
	struct weir_l7_call *call = NULL;
	struct weir_prefix client;
	struct weir_l7_query q;

	if (lines->of != c) { /* a body came in between, and other requests with it */
		c->refusal = weir_http_profile_lines(c, lines);
		if (c->refusal)
			return weir_http_conn_refuse(c, c->refusal);
	}
	if (!weir_http_profile_query(c, method, lines, &client, &q))
		return weir_http_conn_refuse_path(c);
	weir_http_count(&w->counters.requests, 1);
	c->asking = true;
	if (weir_l7_ask(w->l7, &q, weir_http_conn_done, c, &call) < 0) {
		c->asking = false;
		return weir_http_conn_refuse(c, &weir_http_no_memory);
	}
	c->call = call;
	return weir_http_conn_asked(c);
}

void weir_http_conn_cut(struct weir_http_conn *c)
{
	c->cut = true;
	(void)shutdown(c->fd, SHUT_RDWR); /* ENOTCONN: the peer was faster */
	if (c->phase != WEIR_HTTP_HELD)
		return; /* asked: its end comes first */
	weir_http_worker_unhold(c->port->worker, c);
	weir_http_conn_drop(c, true);
	resume(c);
}

void weir_http_conn_end(struct weir_http_conn *c)
{
	if (c->phase == WEIR_HTTP_IDLE && !c->cut) {
		weir_http_conn_cut(c);
	} else if (c->phase == WEIR_HTTP_HELD) {
		weir_http_worker_unhold(c->port->worker, c);
		abort_question(c);
		resume(c);
	}
}
