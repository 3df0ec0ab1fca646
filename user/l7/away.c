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
		if (__atomic_compare_exchange_n(&a->period, &period, period + 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			(void)__atomic_add_fetch(&a->version, 1, __ATOMIC_RELEASE);
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

static void work_out(struct weir_l7_use *use, const struct weir_l7 *l7)
{
	const struct weir_rules *rules = use->rules;
	__u64 salt = (get(&l7->away.period) + 1) * MIXER, parts = 1,
	      whole = __atomic_load_n(&l7->agents, __ATOMIC_RELAXED);

	if (rules->local_share_parts) {
		parts = rules->local_share_parts;
		whole = PARTS;
	}
	for (size_t i = 0; i < rules->n * rules->n_plan; i++) {
		const struct weir_rule *rule = &rules->rule[i / rules->n_plan];
		struct weir_l7_local *x = &use->local[i];

		weir_rule_local(rule, i % rules->n_plan, parts, whole, (rule->salt ^ salt) | 1,
				&x->store, &x->fresh);
	}
}

/* Without memory each limit is closed. */
void weir_l7_work_out_local(struct weir_l7_use *use, const struct weir_l7 *l7)
{
	const struct weir_rules *rules = use->rules;
	__u64 version = __atomic_load_n(&l7->away.version, __ATOMIC_ACQUIRE);

	if (!use->local)
		use->local = calloc(rules->n * rules->n_plan, sizeof(*use->local));
	if (!use->local)
		return;
	work_out(use, l7);
	use->local_version = version;
}

/* A cost that the whole limit would hold takes all of a part that is smaller. */
__u64 weir_l7_local_cost(const struct weir_l7_local *x, const struct weir_store_layer *y)
{
	__u64 room = weir_store_limit_room(&x->store);

	return y->cost > room && y->cost <= weir_store_limit_room(y->limit) ? room : y->cost;
}

/* --- sorting ---- */

enum weir_on_store_failure weir_l7_without_store(struct weir_l7_call *call,
						 const struct weir_rule *rule)
{
	struct weir_l7_counts *c = &call->w->counts;
	bool counts = !call->peek && !call->refund;

	if (counts)
		__atomic_store_n(&c->last_away_us[rule->slot], call->asked_us, __ATOMIC_RELAXED);
	if (rule->on_store_failure == WEIR_FAILURE_LOCAL)
		return weir_l7_judged_here(call, rule) ? WEIR_FAILURE_LOCAL : WEIR_FAILURE_CLOSED;
	if (rule->on_store_failure == WEIR_FAILURE_OPEN && counts)
		weir_l7_count_limit(c, rule->slot, WEIR_L7_UNJUDGED);
	return rule->on_store_failure;
}

static void set_done(struct weir_store_request *q, int r, void *data)
{
	(void)q;
	*(int *)data = r;
}

/* Of the limits of this host (@host) or the others, what each says without a store: open ones go, and what cannot be
 * judged here is marked. Returns how many are to be; *ret_refused if some enforcing one is not.
 */
static size_t sort_out(struct weir_l7_call *call, bool host, bool *ret_refused)
{
	size_t n = 0, local = 0;

	for (size_t i = 0; i < call->n; i++) {
		struct weir_l7_part p = call->part[i];

		if (p.state == WEIR_L7_PART_LAYER && p.host == host) {
			enum weir_on_store_failure f = weir_l7_without_store(call, p.rule);

			if (f == WEIR_FAILURE_OPEN)
				continue;
			local += f == WEIR_FAILURE_LOCAL;
			if (f == WEIR_FAILURE_CLOSED)
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
	to->charged = to->admitted = to->used_instead = false;
	if (!p->host)
		weir_l7_make_local(weir_l7_local_of(call->use, p->numbers), to);
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

/* What this host was to judge alone it could not either. */
static void give_up(struct weir_l7_call *call)
{
	size_t n = 0;

	for (size_t i = 0; i < call->n; i++) {
		struct weir_l7_part p = call->part[i];

		p.local = false;
		if (p.state == WEIR_L7_PART_LAYER &&
		    weir_l7_without_store(call, p.rule) == WEIR_FAILURE_OPEN)
			continue;
		if (p.state == WEIR_L7_PART_LAYER)
			p.state = WEIR_L7_PART_NO_STORE;
		call->part[n++] = p;
	}
	call->n = n;
}

void weir_l7_store_away(struct weir_l7_call *call)
{
	struct weir_l7_job *old = call->job, *job = NULL;
	bool refused = false, merge = call->host && !call->refund;
	size_t n;
	int r = -ENOMEM;

	if (call->away) {
		give_up(call);
		return;
	}
	if (call->w->l7->local)
		weir_l7_check_local(call->use, call->w->l7);
	n = sort_out(call, false, &refused);
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
	if ((n || merge) && r < 0)
		give_up(call);
}

void weir_l7_host_away(struct weir_l7_call *call)
{
	bool refused = false;

	(void)sort_out(call, true, &refused);
	weir_l7_job_put(call->host);
	call->host = NULL;
}
