/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A question's way to its answer: ask, wait for the store within the budget, answer, hold, leave. Called by user/http in
 * the worker's thread; a store answers in it too, at once or later.
 */
#include <string.h>

#include "user/l7/engine_int.h"

#define NOTE_US 10000 /* that the store is away still */

/* --- the end of it ---- */

static void finish(struct weir_l7_call *call)
{
	struct weir_l7_worker *w = call->w;
	__u64 now_us;

	if (call->timing) {
		call->timing = false;
		(void)evtimer_del(&call->timer);
	}
	if (!call->peek && !call->refund) {
		now_us = weir_l7_now_us(w->l7);
		weir_l7_count_check(&w->counts,
				    now_us > call->asked_us ? now_us - call->asked_us : 0);
	}
	call->ready = true;
	w->finished++;
	call->done(call->arg, call); /* it may be gone now */
}

/* By no count: a request that cannot be judged. In monitor mode it passes all the same. */
static void refuse(struct weir_l7_call *call, const char *name)
{
	call->n = 0;
	call->refuse = call->monitor ? WEIR_ANSWER_ALLOW : WEIR_ANSWER_BAD_REQUEST;
	call->refuse_name = name;
	weir_l7_count_refusal(call, WEIR_ANSWER_BAD_REQUEST, name);
	finish(call);
}

static bool passes(const struct weir_l7_call *call)
{
	for (size_t i = 0; i < call->n; i++)
		if (!call->limit[i].monitor && call->limit[i].outcome != WEIR_ANSWER_ADMITTED)
			return false;
	return true;
}

static void on_store(struct weir_store_request *q, int r, void *data);

void weir_l7_job_give_back(struct weir_l7_job *job, enum weir_l7_then then)
{
	job->then = then;
	job->busy = true;
	job->store->ops->refund(job->store, &job->q, on_store, job);
}

static bool any_charged(const struct weir_l7_job *job)
{
	for (size_t i = 0; i < job->q.n; i++)
		if (job->layer[i].charged)
			return true;
	return false;
}

/* --- the answer of the store ---- */

/* The store has answered (0) or not (-errno). */
static void conclude(struct weir_l7_call *call, int r)
{
	struct weir_l7_job *late = call->job->busy ? call->job : NULL;
	struct weir_l7 *l7 = call->w->l7;

	if (l7->local && call->job->store == call->w->store && call->job->q.n)
		(r < 0 ? weir_l7_note_failure : weir_l7_note_success)(l7, call->asked_us);
	if (r < 0)
		weir_l7_store_away(call);
	else if (call->host)
		weir_l7_host_charge(call);
	weir_l7_verdict(call);
	/* charged in the end after all: right for a request that passes */
	if (late && passes(call))
		late->then = WEIR_L7_THEN_NOTHING;
	finish(call);
}

/* --- the store ---- */

/* Nobody waits for this answer any more. */
static void on_late(struct weir_l7_job *job, int r)
{
	if (job->then == WEIR_L7_THEN_REFUND && r >= 0 && any_charged(job)) {
		weir_l7_job_give_back(job, WEIR_L7_THEN_NOTHING);
		return;
	}
	if (job->then == WEIR_L7_THEN_LEAVE && job->w && any_charged(job))
		weir_l7_add(&job->w->counts.queue_abandoned, 1);
	weir_l7_job_put(job);
}

/* After what was given back, what is there now. */
static bool shows_counts(struct weir_l7_job *job, int r)
{
	struct weir_l7_call *call = job->call;

	if (r < 0 || !call->refund || job->q.peek)
		return false;
	job->q.peek = true;
	job->busy = true;
	job->store->ops->decide(job->store, &job->q, on_store, job);
	return true;
}

static void on_store(struct weir_store_request *q, int r, void *data)
{
	struct weir_l7_job *job = data;
	struct weir_l7_call *call = job->call;

	(void)q;
	job->busy = false;
	job->r = r;
	if (job->then != WEIR_L7_THEN_ANSWER)
		on_late(job, r);
	else if (!shows_counts(job, r) && call->waiting)
		conclude(call, r);
}

static int set_timer(struct weir_l7_call *call, __u64 us);

/* The loop may have been late, or its turn so long that the timer began in the past: once, the store is waited for by as
 * much longer, and its sockets are read in any case.
 */
static bool waits_on(struct weir_l7_call *call)
{
	__u64 budget_us = call->use->rules->budget_us, due_us = call->asked_us + budget_us,
	      now_us = weir_l7_now_us(call->w->l7),
	      off_us = now_us > due_us ? now_us - due_us : due_us - now_us;

	if (call->was_due)
		return false;
	call->was_due = true;
	return set_timer(call, off_us < budget_us ? off_us : budget_us) >= 0;
}

static void on_budget(evutil_socket_t fd, short what, void *arg)
{
	struct weir_l7_call *call = arg;

	(void)fd;
	(void)what;
	call->timing = false;
	if (waits_on(call))
		return;
	weir_l7_add(&call->w->counts.over_budget, 1);
	conclude(call, -ETIMEDOUT);
}

static int set_timer(struct weir_l7_call *call, __u64 us)
{
	const struct timeval in = {.tv_sec = (time_t)(us / 1000000),
				   .tv_usec = (suseconds_t)(us % 1000000)};

	if (!call->w->base || evtimer_assign(&call->timer, call->w->base, on_budget, call) < 0 ||
	    evtimer_add(&call->timer, &in) < 0)
		return -EIO;
	call->timing = true;
	return 0;
}

static void put_question(struct weir_l7_call *call)
{
	struct weir_l7_job *job;
	struct weir_store *store;

	if (call->host && !call->job->q.n) { /* limits of this host alone */
		weir_l7_job_put(call->job);
		call->job = call->host;
		call->host = NULL;
		for (size_t i = 0; i < call->n; i++)
			call->part[i].host = false;
	}
	if (call->host)
		weir_l7_host_look(call);
	job = call->job;
	store = job->store;
	job->busy = job->q.n > 0;
	if (!job->busy) { /* missing keys alone, or refused here */
		job->r = 0;
		job->q.admitted = true;
	} else if (call->refund) {
		job->q.newest = true;
		for (size_t i = 0; i < job->q.n; i++)
			job->layer[i].charged = true;
		store->ops->refund(store, &job->q, on_store, job);
	} else {
		job->q.peek = call->peek;
		for (size_t i = 0; i < call->n; i++) /* refused already: nothing is charged */
			job->q.peek |= call->part[i].state != WEIR_L7_PART_LAYER &&
				       !call->part[i].rule->monitor;
		store->ops->decide(store, &job->q, on_store, job);
	}
	call->waiting = true;
	if (!job->busy)
		conclude(call, job->r);
	else if (set_timer(call, call->use->rules->budget_us) < 0)
		conclude(call, -ETIMEDOUT);
}

/* --- asking ---- */

/* Is its store known to be away? Or the fleet's secret not known yet: what is counted without it would be counted nowhere. */
static bool is_away(struct weir_l7_call *call)
{
	struct weir_l7_worker *w = call->w;
	struct weir_l7 *l7 = w->l7;

	if (!w->away || (!*w->away && __atomic_load_n(&l7->secret_known, __ATOMIC_RELAXED)))
		return false;
	if (call->asked_us - w->noted_us >= NOTE_US) {
		w->noted_us = call->asked_us;
		weir_l7_note_failure(l7, call->asked_us);
	}
	weir_l7_check_local(call->use, l7);
	return true;
}

static struct weir_l7_call *begin(struct weir_l7_worker *w, const struct weir_l7_query *q,
				  weir_l7_done_fn *done, void *arg)
{
	struct weir_l7_call *call;

	if (!weir_l7_worker_rules(w))
		return NULL;
	call = weir_l7_call_take(w);
	if (!call)
		return NULL;
	call->done = done;
	call->arg = arg;
	call->timing = call->was_due = call->ready = call->waiting = call->refund = false;
	call->peek = q->peek;
	call->may_wait = q->may_wait && !q->peek;
	call->monitor = __atomic_load_n(&w->l7->mode, __ATOMIC_RELAXED) == WEIR_MODE_MONITOR;
	call->profile = q->profile;
	call->refuse = WEIR_ANSWER_ALLOW;
	call->refuse_name = NULL;
	call->asked_us = call->shown_us = weir_l7_now_us(w->l7);
	call->wait_us = 0;
	call->has_client = q->client;
	call->seen = q->client_seen;
	if (q->client)
		call->client = *q->client;
	return call;
}

static void count_unlimited(const struct weir_l7_call *call, bool exempt)
{
	struct weir_l7_counts *c = &call->w->counts;

	if (call->peek || call->refund)
		return;
	weir_l7_add(exempt ? &c->exempt : &c->no_limit, 1);
	weir_l7_add(&c->allowed, 1);
	weir_l7_note_identity(call);
}

static int ask(struct weir_l7_worker *w, struct weir_l7_call *call, const struct weir_l7_query *q)
{
	const struct weir_rules *rules = call->use->rules;
	int r;

	weir_l7_read(w, rules, q);
	call->identity = w->asked.identity;
	if (w->asked.bad) {
		refuse(call, w->asked.bad);
		return 0;
	}
	if (weir_rules_exempt(rules, &w->asked.rule)) {
		count_unlimited(call, true);
		finish(call);
		return 0;
	}
	call->host = NULL;
	call->job = weir_l7_job_take(w, rules->room);
	if (!call->job)
		return -ENOMEM;
	call->job->call = call;
	call->job->q.now_us = call->asked_us;
	call->met = false;
	call->away = is_away(call);
	call->beside = w->l7->local && !call->away;
	if (call->away)
		call->job->store = w->l7->local;
	r = weir_l7_layers(w, call);
	if (r < 0 && r != -EADDRNOTAVAIL && r != -E2BIG)
		return -ENOMEM;
	if (r < 0) {
		refuse(call, r == -E2BIG ? "ambiguous-path" : "bad-address");
	} else if (!call->met) {
		count_unlimited(call, false);
		finish(call);
	} else {
		put_question(call);
	}
	return 0;
}

static int start(struct weir_l7_worker *w, const struct weir_l7_query *query, bool refund,
		 weir_l7_done_fn *done, void *arg, struct weir_l7_call **ret_call)
{
	struct weir_l7_call *call = begin(w, query, done, arg);
	__u64 finished;
	int r;

	if (!call)
		return -ENOMEM;
	call->refund = refund;
	if (!call->peek && !refund)
		weir_l7_add(&w->counts.checks, 1);
	*ret_call = call; /* done may come before this returns */
	finished = w->finished;
	r = ask(w, call, query);
	while (r >= 0 && w->own_base && w->finished == finished)
		if (event_base_loop(w->own_base, EVLOOP_ONCE) != 0)
			break; /* it has its budget's timer */
	if (r < 0) {
		*ret_call = NULL;
		call->ready = true;
		weir_l7_call_free(call);
	}
	return r;
}

int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *query, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret_call)
{
	return start(w, query, false, done, arg, ret_call);
}

int weir_l7_refund(struct weir_l7_worker *w, const struct weir_l7_query *query,
		   weir_l7_done_fn *done, void *arg, struct weir_l7_call **ret_call)
{
	return start(w, query, true, done, arg, ret_call);
}

/* --- the answer ---- */

__u64 weir_l7_call_wait_us(const struct weir_l7_call *call)
{
	return call->wait_us;
}

static __u64 less(__u64 ns, __u64 by_ns)
{
	return ns > by_ns ? ns - by_ns : 0;
}

/* Of an answer that was held: times count from now. */
static void count_from_now(struct weir_l7_call *call)
{
	__u64 now_us = weir_l7_now_us(call->w->l7);

	if (now_us <= call->shown_us)
		return;
	for (size_t i = 0; i < call->n; i++)
		call->limit[i].reset_after_ns =
			less(call->limit[i].reset_after_ns, (now_us - call->shown_us) * NS_PER_US);
	call->shown_us = now_us;
}

const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *call)
{
	struct weir_answer *a = &call->w->answer;
	struct weir_answer_limit would;

	if (call->refuse != WEIR_ANSWER_ALLOW) {
		weir_answer_refuse(call->profile, call->refuse, call->refuse_name, a);
		return a;
	}
	if (call->refuse_name) { /* monitor mode */
		would = (struct weir_answer_limit){.name = call->refuse_name,
						   .outcome = WEIR_ANSWER_NO_KEY,
						   .monitor = true};
		(void)weir_answer_make(call->profile, &would, 1, a); /* one good name */
		return a;
	}
	if (call->wait_us)
		count_from_now(call);
	if (weir_answer_make(call->profile, call->limit, call->n, a) < 0)
		weir_answer_refuse(call->profile, WEIR_ANSWER_BAD_REQUEST, "bad-name", a);
	return a;
}

const struct weir_answer_limit *weir_l7_call_limits(struct weir_l7_call *call, size_t *ret_n)
{
	if (call->wait_us)
		count_from_now(call);
	*ret_n = call->n;
	return call->limit;
}

/* The job goes its way alone. */
static void hand_over(struct weir_l7_call *call, struct weir_l7_job **from, enum weir_l7_then then)
{
	struct weir_l7_job *job = TAKE_PTR(*from);

	weir_l7_job_late(job, call->use->rules, then);
	weir_l7_job_give_back(job, then);
}

void weir_l7_call_leave(struct weir_l7_call *call)
{
	struct weir_l7_job **from[] = {&call->job, &call->host};

	/* only the place: what else was charged stays, or asking and leaving would be free */
	for (size_t k = 0; k < ARRAY_LEN(from); k++) {
		struct weir_l7_job *job = *from[k];

		for (size_t i = 0; job && i < job->q.n; i++)
			job->layer[i].charged &=
				job->layer[i].limit->algorithm == WEIR_REQUEST_LEAKY_BUCKET;
		if (job && call->wait_us && any_charged(job))
			hand_over(call, from[k], WEIR_L7_THEN_LEAVE);
	}
	weir_l7_call_free(call);
}

void weir_l7_call_abort(struct weir_l7_call *call)
{
	if (call->job && any_charged(call->job))
		hand_over(call, &call->job, WEIR_L7_THEN_NOTHING);
	if (call->host && any_charged(call->host))
		hand_over(call, &call->host, WEIR_L7_THEN_NOTHING);
	call->n = 0;
	call->wait_us = 0;
	call->refuse = WEIR_ANSWER_SHUTTING_DOWN;
	call->refuse_name = "shutting-down";
}

void weir_l7_call_free(struct weir_l7_call *call)
{
	if (!call)
		return;
	if (call->timing)
		(void)evtimer_del(&call->timer);
	if (call->job && call->job->busy) /* nobody is told: nothing stays charged */
		weir_l7_job_late(call->job, call->use->rules, WEIR_L7_THEN_REFUND);
	else if (call->job)
		weir_l7_job_put(call->job);
	if (call->host)
		weir_l7_job_put(call->host);
	weir_l7_call_put(call);
}
