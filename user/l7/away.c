/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each limit says while its store is away: let through, refuse, or judge on this host alone by a part of its
 * numbers. Called by call.c. Local counts are never carried into the store, and dropped once it is back for good.
 */
#include <string.h>

#include "user/l7/engine_int.h"

#define US_PER_S 1000000ull
#define MIXER	 0x9e3779b97f4a7c15ull
#define PARTS	 1000000ull

/* --- periods ---- */

static __u64 get(const __u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Written only where it says something new: all threads read it. */
static void set(__u64 *p, __u64 v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

void weir_l7_note_failure(struct weir_l7 *l7, __u64 now_us)
{
	struct weir_l7_away *a = &l7->away;
	__u64 failed_us = get(&a->failed_us), period = get(&a->period);

	if (failed_us && get(&a->back_us) > failed_us && now_us > failed_us + WEIR_L7_AWAY_CALM_US)
		(void)__atomic_compare_exchange_n(&a->period, &period, period + 1, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (now_us > failed_us + US_PER_S / 10 || now_us < failed_us ||
	    get(&a->back_us) >= failed_us)
		set(&a->failed_us, now_us);
}

void weir_l7_note_success(struct weir_l7 *l7, __u64 now_us)
{
	struct weir_l7_away *a = &l7->away;
	__u64 failed_us = get(&a->failed_us);

	if (failed_us && get(&a->back_us) <= failed_us)
		set(&a->back_us, now_us > failed_us ? now_us : failed_us + 1);
}

/* --- a host's part ---- */

static void share_of(const struct weir_l7 *l7, const struct weir_rules *rules, __u64 *ret_parts,
		     __u64 *ret_whole)
{
	*ret_parts = rules->local_share_parts ? rules->local_share_parts : 1;
	*ret_whole =
		rules->local_share_parts ? PARTS : __atomic_load_n(&l7->agents, __ATOMIC_RELAXED);
}

/* Worked out anew when the share or the period changes. NULL: no memory. */
static const struct weir_l7_local *local_of(struct weir_l7_call *call, const struct weir_l7_part *p)
{
	struct weir_l7_use *use = call->use;
	const struct weir_rules *rules = use->rules;
	size_t plan = (size_t)(p->numbers - p->rule->numbers);
	__u64 parts, whole, period = get(&call->w->l7->away.period);
	struct weir_l7_local *x;

	if (!use->local)
		use->local = calloc(rules->n * rules->n_plan, sizeof(*use->local));
	if (!use->local)
		return NULL;
	share_of(call->w->l7, rules, &parts, &whole);
	x = &use->local[(size_t)(p->rule - rules->rule) * rules->n_plan + plan];
	if (x->known && x->period == period && x->parts == parts && x->whole == whole)
		return x;
	*x = (struct weir_l7_local){.known = true,
				    .period = period,
				    .parts = parts,
				    .whole = whole};
	weir_rule_local(p->rule, plan, parts, whole, (p->rule->salt ^ (period + 1) * MIXER) | 1,
			&x->store, &x->fresh);
	return x;
}

/* @y as this host alone judges it. A cost that the whole limit would hold takes all of a part that is smaller. */
static bool make_local(struct weir_l7_call *call, const struct weir_l7_part *p,
		       struct weir_store_layer *y)
{
	const struct weir_l7_local *x = local_of(call, p);
	__u64 room;

	if (!x)
		return false;
	room = weir_store_limit_room(&x->store);
	if (y->cost > room && y->cost <= weir_store_limit_room(y->limit))
		y->cost = room;
	y->limit = &x->store;
	if (y->fresh)
		y->fresh = &x->fresh;
	y->charged = y->admitted = y->used_instead = false;
	return true;
}

/* --- sorting ---- */

static void set_done(struct weir_store_request *q, int r, void *data)
{
	(void)q;
	*(int *)data = r;
}

static void note_away(const struct weir_l7_call *call, const struct weir_l7_part *p)
{
	struct weir_l7_counts *c = &call->w->counts;

	if (!call->peek && !call->refund)
		__atomic_store_n(&c->last_away_s[p->rule->slot], call->asked_us / US_PER_S,
				 __ATOMIC_RELAXED);
}

/* Of the limits of this host (@host) or the others, what each says without a store: open ones go, and what cannot be
 * judged here is marked. Returns how many are to be; *ret_refused if some enforcing one is not.
 */
static size_t sort_out(struct weir_l7_call *call, bool host, bool *ret_refused)
{
	struct weir_l7_worker *w = call->w;
	size_t n = 0, local = 0;

	for (size_t i = 0; i < call->n; i++) {
		struct weir_l7_part p = call->part[i];

		if (p.state == WEIR_L7_PART_LAYER && p.host == host) {
			note_away(call, &p);
			if (p.rule->on_store_failure == WEIR_FAILURE_OPEN) {
				if (!call->peek && !call->refund)
					weir_l7_count_limit(&w->counts, p.rule->slot,
							    WEIR_L7_UNJUDGED);
				continue;
			}
			if (p.rule->on_store_failure == WEIR_FAILURE_LOCAL && w->l7->local &&
			    !host && !call->refund)
				local++;
			else
				p.state = WEIR_L7_PART_NO_STORE;
		}
		*ret_refused |= p.state != WEIR_L7_PART_LAYER && !p.rule->monitor;
		call->part[n++] = p;
	}
	call->n = n;
	return local;
}

/* One part's layer at the end of @job. @y: may be in the same place. */
static void add_local(struct weir_l7_call *call, struct weir_l7_job *job, struct weir_l7_part *p,
		      const struct weir_store_layer *y)
{
	struct weir_store_layer *to = &job->layer[job->q.n];

	if (to != y)
		*to = *y;
	if (!p->host && !make_local(call, p, to)) {
		p->state = WEIR_L7_PART_NO_STORE;
		job->q.peek |= !p->rule->monitor;
		return;
	}
	p->layer = (unsigned)job->q.n++;
	p->local = !p->host;
	p->host = false;
}

/* All that this host can judge, as one question to its store: in the job that was not answered, unless somebody else has
 * it. NULL: no memory.
 */
static struct weir_l7_job *local_job(struct weir_l7_call *call, bool refused)
{
	struct weir_l7_job *old = call->job, *job = old;

	if (old->busy || call->host)
		job = weir_l7_job_take(call->w, call->use->rules->room);
	if (!job)
		return NULL;
	job->call = call;
	job->store = call->w->l7->local;
	job->q = (struct weir_store_request){.layer = job->layer,
					     .now_us = call->asked_us,
					     .peek = call->peek || refused};
	for (size_t i = 0; i < call->n; i++) {
		struct weir_l7_part *p = &call->part[i];

		if (p->state == WEIR_L7_PART_LAYER)
			add_local(call, job, p, &(p->host ? call->host : old)->layer[p->layer]);
	}
	return job;
}

void weir_l7_store_away(struct weir_l7_call *call)
{
	struct weir_l7_job *old = call->job, *job = NULL;
	bool refused = false, merge = call->host && !call->refund;
	size_t n = sort_out(call, false, &refused);
	int r = -ENOMEM;

	if (n || merge)
		job = local_job(call, refused);
	if (old != job && old->busy)
		weir_l7_job_late(old, call->use->rules, WEIR_L7_THEN_REFUND);
	else if (old != job)
		weir_l7_job_put(old);
	if (merge && job) {
		weir_l7_job_put(call->host);
		call->host = NULL;
	}
	call->job = job;
	if (job)
		job->store->ops->decide(job->store, &job->q, set_done, &r);
	for (size_t i = 0; (n || merge) && r < 0 && i < call->n; i++) {
		call->part[i].local = false;
		if (call->part[i].state == WEIR_L7_PART_LAYER)
			call->part[i].state = WEIR_L7_PART_NO_STORE;
	}
}

void weir_l7_host_away(struct weir_l7_call *call)
{
	bool refused = false;

	(void)sort_out(call, true, &refused);
	weir_l7_job_put(call->host);
	call->host = NULL;
}
