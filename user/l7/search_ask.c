/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store's word on one state, here and now; see search.h. Where the store answers later, the worker's own loop is turned
 * until it has.
 */
#include "user/l7/search.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#define WAKE_US 100000 /* for a store's connection to come back */

static void on_now(struct weir_store_request *q, int r, void *data)
{
	struct weir_l7_job *job = data;

	(void)q;
	job->busy = false;
	job->r = r;
	if (job->then != WEIR_L7_THEN_ANSWER)
		weir_l7_job_put(job);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* Where the store answers later: turns the worker's own loop, at most for the budget. */
static void wait_for(struct weir_l7_worker *w, const struct weir_l7_job *job)
{
	__u64 us = w->use->rules->budget_us;
	const struct timeval in = {.tv_sec = (time_t)(us / 1000000),
				   .tv_usec = (suseconds_t)(us % 1000000)};
	struct event patience;
	bool over = false;

	if (!w->own_base || !job->busy ||
	    evtimer_assign(&patience, w->own_base, on_patience, &over) < 0 ||
	    evtimer_add(&patience, &in) < 0)
		return;
	while (job->busy && !over && event_base_loop(w->own_base, EVLOOP_ONCE) == 0)
		;
	(void)evtimer_del(&patience);
}

static int ask_once(struct weir_search *s, const struct weir_rule *rule, bool reset,
		    struct weir_store_layer *layer)
{
	struct weir_l7_job *job = weir_l7_job_take(s->w, s->rules->room);
	int r;

	if (!job)
		return -ENOMEM;
	job->layer[0] = *layer;
	job->q.n = 1;
	job->q.now_us = weir_l7_now_us(s->w->l7);
	job->q.peek = true;
	if (rule->host)
		job->store = weir_l7_host_store(s->w->l7);
	job->busy = true;
	(reset ? job->store->ops->reset : job->store->ops->decide)(job->store, &job->q, on_now,
								   job);
	wait_for(s->w, job);
	if (job->busy) {
		weir_l7_job_late(job, s->w->use->rules, WEIR_L7_THEN_NOTHING);
		return -EAGAIN;
	}
	r = job->r;
	*layer = job->layer[0];
	weir_l7_job_put(job);
	return r;
}

/* A connection that was lost, or not made yet, comes back only while the loop turns, which nobody does between two
 * questions.
 */
static int ask_now(struct weir_search *s, const struct weir_rule *rule, bool reset,
		   struct weir_store_layer *layer)
{
	const struct weir_store_layer asked = *layer;
	const struct timeval in = {.tv_usec = WAKE_US};
	struct event patience;
	bool over = false;
	int r = ask_once(s, rule, reset, layer);

	if (r != -EHOSTDOWN || !s->w->own_base ||
	    evtimer_assign(&patience, s->w->own_base, on_patience, &over) < 0 ||
	    evtimer_add(&patience, &in) < 0)
		return r;
	while (r == -EHOSTDOWN && !over && event_base_loop(s->w->own_base, EVLOOP_ONCE) == 0) {
		*layer = asked;
		r = ask_once(s, rule, reset, layer);
	}
	(void)evtimer_del(&patience);
	return r;
}

int weir_search_ask(struct weir_search *s, const struct weir_found *f, bool reset,
		    struct weir_store_layer *ret)
{
	weir_l7_layer(&s->asked, f->rule, f->key, weir_l7_now_us(s->w->l7), ret);
	weir_l7_tag(s->rules, f->rule, &s->asked.key, ret);
	return ask_now(s, f->rule, reset, ret);
}
