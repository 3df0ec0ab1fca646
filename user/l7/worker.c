/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Workers: the rules as one thread holds them, and pools of calls and jobs, so that a check allocates nothing once the
 * pools are warm. Called by user/http for each of its threads, and by the agent for its own questions.
 */
#include <string.h>

#include "user/l7/engine_int.h"

#define POOL_MAX 1024 /* of each kind; more are given back to the system */

/* A store of this worker's own, on its loop. Who has none waits in one of its own for each question; it takes nothing for
 * later.
 */
static int make_store(struct weir_l7_worker *w)
{
	struct weir_hot_options o = {.deny = true, .lease = w->base, .base = w->base};
	struct weir_l7 *l7 = w->l7;
	struct weir_store *inner;
	int r = 0;

	if (!w->base) {
		w->own_base = event_base_new();
		w->base = w->own_base;
		r = w->base ? 0 : -ENOMEM;
	}
	if (r >= 0)
		r = l7->store_of(l7->store_arg, w->base, &inner);
	if (r >= 0)
		r = weir_store_hot_new(inner, &l7->hot, &o, &w->own_store);
	w->store = w->own_store;
	if (r >= 0)
		w->away = w->store->away;
	if (r < 0 && w->own_base)
		event_base_free(w->own_base);
	return r;
}

int weir_l7_worker_new(struct weir_l7 *l7, struct event_base *base, struct weir_l7_worker **ret)
{
	size_t bytes = (sizeof(struct weir_l7_worker) + WEIR_L7_LINE - 1) & ~(WEIR_L7_LINE - 1ul);
	struct weir_l7_worker *w = aligned_alloc(WEIR_L7_LINE, bytes);
	int r;

	if (!w)
		return -ENOMEM;
	memset(w, 0, sizeof(*w));
	r = weir_loud_init(&w->loud);
	if (r < 0) {
		free(w);
		return r;
	}
	w->l7 = l7;
	w->base = base;
	w->store = l7->store;
	r = l7->shared ? make_store(w) : 0;
	if (r < 0) {
		weir_loud_done(&w->loud);
		free(w);
		return r;
	}
	pthread_mutex_lock(&l7->lock);
	w->next = l7->workers;
	l7->workers = w;
	pthread_mutex_unlock(&l7->lock);
	*ret = w;
	return 0;
}

static void drop_use(struct weir_l7_use *use)
{
	if (!use || use->current || use->calls)
		return;
	weir_rules_unref(use->rules);
	free(use->local);
	free(use);
}

void weir_l7_worker_free(struct weir_l7_worker *w)
{
	struct weir_l7_worker **link;
	struct weir_l7_call *call;
	struct weir_l7_job *job;

	if (!w)
		return;
	pthread_mutex_lock(&w->l7->lock);
	weir_l7_keep_counts(w->l7, w);
	for (link = &w->l7->workers; *link != w; link = &(*link)->next)
		;
	*link = w->next;
	pthread_mutex_unlock(&w->l7->lock);
	weir_store_free(w->own_store); /* it answers what it still has */
	if (w->own_base)
		event_base_free(w->own_base);
	for (job = w->late; job; job = job->next)
		job->w = NULL; /* the store answers it later, or when it ends */
	while ((call = w->calls)) {
		w->calls = call->next;
		free(call);
	}
	while ((job = w->jobs)) {
		w->jobs = job->next;
		free(job);
	}
	if (w->use)
		w->use->current = false;
	drop_use(w->use);
	weir_loud_done(&w->loud);
	free(w);
}

/* New rules since the last question. Without memory the former ones go on. */
static void renew(struct weir_l7_worker *w)
{
	struct weir_l7_use *use = calloc(1, sizeof(*use)), *old = w->use;

	if (!use)
		return;
	pthread_mutex_lock(&w->l7->lock);
	use->rules = weir_rules_ref(w->l7->rules);
	w->generation = w->l7->generation;
	pthread_mutex_unlock(&w->l7->lock);
	use->current = true;
	w->use = use;
	if (old)
		old->current = false;
	drop_use(old);
}

struct weir_rules *weir_l7_worker_rules(struct weir_l7_worker *w)
{
	if (__atomic_load_n(&w->l7->generation, __ATOMIC_RELAXED) != w->generation)
		renew(w);
	return w->use ? w->use->rules : NULL;
}

/* --- calls ---- */

struct weir_l7_call *weir_l7_call_take(struct weir_l7_worker *w)
{
	size_t room = w->use->rules->room;
	struct weir_l7_call *call;

	while ((call = w->calls)) {
		w->calls = call->next;
		w->n_calls--;
		if (call->room >= room)
			break;
		free(call); /* of rules with fewer limits */
	}
	if (!call) {
		call = malloc(sizeof(*call) +
			      room * (sizeof(call->part[0]) + sizeof(call->limit[0])));
		if (!call)
			return NULL;
		call->room = room;
		call->part = (struct weir_l7_part *)(call + 1);
		call->limit = (struct weir_answer_limit *)(call->part + room);
	}
	call->w = w;
	call->use = w->use;
	call->use->calls++;
	call->job = call->host = NULL;
	call->n = 0;
	return call;
}

void weir_l7_call_put(struct weir_l7_call *call)
{
	struct weir_l7_worker *w = call->w;

	call->use->calls--;
	drop_use(call->use);
	if (w->n_calls >= POOL_MAX) {
		free(call);
		return;
	}
	call->next = w->calls;
	w->calls = call;
	w->n_calls++;
}

/* --- jobs ---- */

struct weir_l7_job *weir_l7_job_take(struct weir_l7_worker *w, size_t room)
{
	struct weir_l7_job *job;

	while ((job = w->jobs)) {
		w->jobs = job->next;
		w->n_jobs--;
		if (job->room >= room)
			break;
		free(job);
	}
	if (!job) {
		job = malloc(sizeof(*job) + room * sizeof(job->layer[0]));
		if (!job)
			return NULL;
		job->room = room;
	}
	job->w = w;
	job->call = NULL;
	job->back = NULL;
	job->then = WEIR_L7_THEN_ANSWER;
	job->busy = job->refused = false;
	job->r = 0;
	job->store = w->store;
	job->rules = NULL;
	job->q = (struct weir_store_request){.layer = job->layer};
	return job;
}

void weir_l7_job_put(struct weir_l7_job *job)
{
	struct weir_l7_worker *w = job->w;

	if (job->back && w) {
		*job->back = job->next;
		if (job->next)
			job->next->back = job->back;
	}
	weir_rules_unref(job->rules);
	if (!w || w->n_jobs >= POOL_MAX) {
		free(job);
		return;
	}
	job->next = w->jobs;
	w->jobs = job;
	w->n_jobs++;
}

void weir_l7_job_late(struct weir_l7_job *job, struct weir_rules *rules, enum weir_l7_then then)
{
	struct weir_l7_worker *w = job->w;

	job->rules = weir_rules_ref(rules);
	job->call = NULL;
	job->then = then;
	job->next = w->late;
	job->back = &w->late;
	if (job->next)
		job->next->back = &job->next;
	w->late = job;
}
