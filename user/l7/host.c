/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A question that meets limits of this host beside those of the fleet. Both must admit, and either could be charged by
 * somebody else meanwhile: this host is looked at first, then the fleet decides, then this host is charged; where it is
 * full by then, the fleet gets back what it charged. So nothing is admitted over a limit, and over-charged is at most
 * what is under way. Called by call.c.
 */
#include "user/l7/engine_int.h"

static void on_host(struct weir_store_request *q, int r, void *data)
{
	(void)q;
	*(int *)data = r;
}

/* The store of this host answers at once. */
static int ask_host(struct weir_l7_job *job)
{
	int r = -EIO;

	job->store->ops->decide(job->store, &job->q, on_host, &r);
	return r;
}

/* Monitor limits are charged by themselves, also for what others refuse. */
static void charge_monitors(struct weir_l7_call *call)
{
	struct weir_l7_job *host = call->host, *job = weir_l7_job_take(call->w, host->q.n);
	unsigned of[WEIR_STORE_LAYERS_MAX];

	if (!job)
		return;
	job->store = host->store;
	job->q.now_us = call->asked_us;
	for (size_t i = 0; i < host->q.n; i++) {
		if (!host->layer[i].monitor)
			continue;
		of[job->q.n] = (unsigned)i;
		job->layer[job->q.n++] = host->layer[i];
	}
	if (job->q.n && ask_host(job) >= 0)
		for (size_t i = 0; i < job->q.n; i++)
			host->layer[of[i]] = job->layer[i];
	weir_l7_job_put(job);
}

/* What the fleet has charged of enforcing limits. */
static void refund_fleet(struct weir_l7_call *call)
{
	struct weir_l7_job *job = call->job, *back = weir_l7_job_take(call->w, job->q.n);

	for (size_t i = 0; i < job->q.n; i++) {
		struct weir_store_layer *y = &job->layer[i];

		if (!y->charged || y->monitor)
			continue;
		if (back)
			back->layer[back->q.n++] = *y;
		y->charged = false;
	}
	if (!back)
		return;
	back->store = job->store;
	back->q.now_us = call->asked_us;
	weir_l7_job_late(back, call->use->rules, WEIR_L7_THEN_NOTHING);
	if (back->q.n)
		weir_l7_job_give_back(back, WEIR_L7_THEN_NOTHING);
	else
		weir_l7_job_put(back);
}

/* Does an enforcing limit refuse that no store has judged? */
static bool unjudged_refuses(const struct weir_l7_call *call)
{
	for (size_t i = 0; i < call->n; i++)
		if (call->part[i].state != WEIR_L7_PART_LAYER && !call->part[i].rule->monitor)
			return true;
	return false;
}

/* After the fleet's answer. */
void weir_l7_host_charge(struct weir_l7_call *call)
{
	struct weir_l7_job *host = call->host;

	if (call->peek || call->refund)
		return; /* looked at already */
	if (host->refused || !call->job->q.admitted || unjudged_refuses(call)) {
		charge_monitors(call);
		return;
	}
	host->q.peek = false;
	if (ask_host(host) < 0)
		weir_l7_host_away(call);
	else if (host->q.admitted)
		return;
	if (call->host || unjudged_refuses(call))
		refund_fleet(call);
}

/* A refusal of this host's: the fleet is asked about its monitor limits alone, or not at all. */
static void keep_monitors(struct weir_l7_call *call)
{
	struct weir_l7_job *job = call->job;
	size_t n = 0;

	job->q.n = 0;
	for (size_t i = 0; i < call->n; i++) {
		struct weir_l7_part p = call->part[i];

		if (!p.host && p.state == WEIR_L7_PART_LAYER) {
			if (!p.rule->monitor)
				continue; /* not judged: nothing is said of it */
			job->layer[job->q.n] = job->layer[p.layer];
			p.layer = (unsigned)job->q.n++;
		}
		call->part[n++] = p;
	}
	call->n = n;
}

/* Looks at this host's limits; all of it for peeks and refunds. */
void weir_l7_host_look(struct weir_l7_call *call)
{
	struct weir_l7_job *host = call->host;
	bool refused = false;
	int r = 0;

	if (call->refund) {
		host->q.newest = true;
		for (size_t i = 0; i < host->q.n; i++)
			host->layer[i].charged = true;
		host->store->ops->refund(host->store, &host->q, on_host, &r);
	}
	host->q.peek = true;
	if (r >= 0)
		r = ask_host(host);
	if (r < 0)
		weir_l7_host_away(call);
	else
		refused = !host->q.admitted;
	if (call->host)
		call->host->refused = refused;
	refused |= r < 0 && unjudged_refuses(call);
	if (refused && !call->peek && !call->refund)
		keep_monitors(call);
}
