/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a decision to what it means: outcomes of all limits, how long an answer is held, counters, offences, events.
 * Called by call.c.
 */
#include <string.h>

#include "user/l7/engine_int.h"

#define US_PER_S       1000000ull
#define STORE_RETRY_NS 1000000000ull

/* --- outcomes ---- */

static __u64 ns(__u64 us)
{
	return us < ~0ull / NS_PER_US ? us * NS_PER_US : ~0ull;
}

void weir_l7_show(const struct weir_rule *rule, const struct weir_rule_numbers *numbers,
		  const struct weir_store_layer *layer, bool monitor, struct weir_answer_limit *ret)
{
	const struct weir_request_answer *a = &layer->answer;
	bool one_place = layer->turn_now && rule->algorithm == WEIR_REQUEST_LEAKY_BUCKET;

	ret->name = rule->name;
	ret->outcome = layer->admitted				 ? WEIR_ANSWER_ADMITTED
		       : a->retry_after_us == WEIR_REQUEST_NEVER ? WEIR_ANSWER_TOO_LARGE
								 : WEIR_ANSWER_EXCEEDED;
	ret->monitor = monitor;
	ret->limit = one_place ? 1 : numbers->limit;
	ret->remaining = a->remaining;
	ret->reset_after_ns = ns(a->reset_after_us);
	ret->retry_after_ns = ret->outcome == WEIR_ANSWER_EXCEEDED ? ns(a->retry_after_us) : 0;
	ret->window_ns = one_place ? numbers->window_now_ns : numbers->window_ns;
}

/* Of a part that no store has judged. */
static void show_unjudged(const struct weir_l7_part *p, bool monitor, struct weir_answer_limit *ret)
{
	bool no_key = p->state == WEIR_L7_PART_NO_KEY;

	*ret = (struct weir_answer_limit){.name = p->rule->name,
					  .outcome = no_key ? WEIR_ANSWER_NO_KEY
							    : WEIR_ANSWER_NO_STORE,
					  .monitor = monitor,
					  .limit = p->numbers->limit,
					  .retry_after_ns = no_key ? 0 : STORE_RETRY_NS,
					  .window_ns = p->numbers->window_ns};
}

static const struct weir_store_layer *layer_of(const struct weir_l7_call *call,
					       const struct weir_l7_part *p)
{
	return p->state != WEIR_L7_PART_LAYER ? NULL
	       : p->host		      ? &call->host->layer[p->layer]
					      : &call->job->layer[p->layer];
}

/* Returns whether an enforcing limit refuses. */
static bool show_all(struct weir_l7_call *call)
{
	bool refused = false;

	for (size_t i = 0; i < call->n; i++) {
		const struct weir_l7_part *p = &call->part[i];
		const struct weir_store_layer *y = layer_of(call, p);
		bool monitor = call->monitor || p->rule->monitor;
		struct weir_answer_limit *l = &call->limit[i];

		if (y)
			weir_l7_show(p->rule, p->numbers, y, monitor, l);
		else
			show_unjudged(p, monitor, l);
		refused |= !p->rule->monitor && l->outcome != WEIR_ANSWER_ADMITTED;
		if (y && y->charged && !monitor && y->answer.delay_us > call->wait_us)
			call->wait_us = y->answer.delay_us;
	}
	if (refused || !call->may_wait)
		call->wait_us = 0;
	return refused;
}

/* --- counters ---- */

void weir_l7_count_limit(struct weir_l7_counts *c, unsigned slot, enum weir_l7_verdict v)
{
	weir_l7_add(&c->limit[slot][v], 1);
}

/* A limit that admits counts as passed if the request was charged to it: passed is what used it up. */
static void count_part(const struct weir_l7_call *call, size_t i, bool refused)
{
	static const enum weir_l7_verdict verdicts[] = {[WEIR_ANSWER_EXCEEDED] = WEIR_L7_REFUSED,
							[WEIR_ANSWER_NO_STORE] = WEIR_L7_CLOSED,
							[WEIR_ANSWER_TOO_LARGE] = WEIR_L7_TOO_LARGE,
							[WEIR_ANSWER_NO_KEY] = WEIR_L7_NO_KEY};
	const struct weir_l7_part *p = &call->part[i];
	const struct weir_answer_limit *l = &call->limit[i];
	const struct weir_store_layer *y = layer_of(call, p);
	struct weir_l7_counts *c = &call->w->counts;
	unsigned slot = p->rule->slot;

	if (l->outcome == WEIR_ANSWER_EXCEEDED && l->monitor)
		weir_l7_count_limit(c, slot, WEIR_L7_WOULD);
	else if (l->outcome != WEIR_ANSWER_ADMITTED)
		weir_l7_count_limit(c, slot, verdicts[l->outcome]);
	else if (!refused || (p->rule->monitor && y->charged))
		weir_l7_count_limit(c, slot, WEIR_L7_PASSED);
	if (l->outcome != WEIR_ANSWER_ADMITTED && !l->monitor)
		__atomic_store_n(&c->last_refused_s[slot], call->asked_us / US_PER_S,
				 __ATOMIC_RELAXED);
	if (p->local)
		weir_l7_count_limit(c, slot, WEIR_L7_LOCAL);
	if (y && y->used_instead)
		weir_l7_add(&c->fresh_counted_as_ip, 1);
}

/* --- events ---- */

static void begin_event(const struct weir_l7_call *call, const char *limit,
			enum weir_answer_code code, bool monitor, struct weir_l7_event *ret)
{
	*ret = (struct weir_l7_event){.wall_ms = (__s64)(call->asked_us / 1000),
				      .has_client = call->has_client,
				      .code = code,
				      .monitor = monitor};
	if (call->has_client)
		ret->client = call->client;
	memcpy(ret->limit, limit, strnlen(limit, sizeof(ret->limit) - 1));
}

static void tell_refusal(const struct weir_l7_call *call, const char *limit,
			 enum weir_answer_code code, bool monitor)
{
	struct weir_l7_events *v = &call->w->l7->events;
	struct weir_l7_event event;

	if (!weir_l7_events_want(v, call->use->rules->events_per_second, call->asked_us))
		return;
	begin_event(call, limit, code, monitor, &event);
	event.kind = WEIR_L7_EVENT_REFUSED;
	weir_l7_events_put(v, &event);
}

static void tell_escalation(void *arg, const struct weir_rule_escalate *x, __u64 limits,
			    bool monitor)
{
	const struct weir_l7_call *call = arg;
	const struct weir_rule *rule = &call->use->rules->rule[__builtin_ctzll(limits)];
	struct weir_l7_event event;

	begin_event(call, rule->name, WEIR_ANSWER_RATE_LIMITED, monitor, &event);
	event.kind = WEIR_L7_EVENT_ESCALATE;
	event.client = weir_offence_client(&call->client);
	memcpy(event.rule, x->name, sizeof(event.rule));
	event.block_for_ns = x->block_for_ns;
	event.refused = x->refused.count;
	weir_l7_events_put(&call->w->l7->events, &event);
}

/* Only refusals over a limit are an offence: a store that is away or a missing key is not the client's doing. */
static void count_offence(struct weir_l7_call *call)
{
	const struct weir_rules *rules = call->use->rules;
	struct weir_offence o = {.rules = rules,
				 .monitor = call->monitor,
				 .now_us = call->asked_us};

	for (size_t i = 0; i < call->n; i++) {
		const struct weir_rule *rule = call->part[i].rule;
		__u64 bit = 1ull << (rule - rules->rule);

		if (call->limit[i].outcome != WEIR_ANSWER_EXCEEDED || !(rules->offending & bit))
			continue;
		*(rule->monitor ? &o.would : &o.refused) |= bit;
	}
	if (!(o.refused | o.would))
		return;
	o.client = weir_offence_client(&call->client);
	weir_offences_count(&call->w->l7->offences, &o, tell_escalation, call);
}

void weir_l7_note_identity(const struct weir_l7_call *call)
{
	struct weir_prefix client = weir_offence_client(&call->client);

	if (!call->identity || !call->seen)
		return;
	weir_identities_note(call->w->l7->offences.identities, &client, call->identity,
			     call->asked_us);
}

/* --- all of it ---- */

/* What some limit did not admit, enforced or not: who it was, and what there is to tell. */
static void report(struct weir_l7_call *call, bool refused)
{
	bool monitor = call->monitor || !refused;
	const struct weir_answer_limit *l = weir_answer_reported(call->limit, call->n, monitor);

	if (!l || l->outcome == WEIR_ANSWER_ADMITTED)
		return;
	if (refused && call->has_client)
		weir_loud_count(&call->w->loud, &call->client,
				call->part[l - call->limit].rule->slot, call->asked_us);
	tell_refusal(call, l->name, weir_answer_code_of(l), monitor);
	if (call->seen && call->has_client)
		count_offence(call);
}

void weir_l7_verdict(struct weir_l7_call *call)
{
	struct weir_l7_counts *c = &call->w->counts;
	bool refused, others = false;

	call->wait_us = 0;
	refused = show_all(call);
	if (call->refund)
		for (size_t i = 0; i < call->n; i++)
			if (call->part[i].state == WEIR_L7_PART_LAYER)
				call->limit[i].outcome = WEIR_ANSWER_ADMITTED;
	if (call->peek || call->refund)
		return;
	for (size_t i = 0; i < call->n; i++) {
		count_part(call, i, refused);
		others |= call->limit[i].outcome != WEIR_ANSWER_ADMITTED;
	}
	weir_l7_add(refused && !call->monitor ? &c->refused : &c->allowed, 1);
	if (call->wait_us)
		weir_l7_add(&c->held, 1);
	if (others)
		report(call, refused);
	if (!refused)
		weir_l7_note_identity(call);
}

void weir_l7_count_refusal(struct weir_l7_call *call, enum weir_answer_code code, const char *name)
{
	struct weir_l7_counts *c = &call->w->counts;

	if (call->peek || call->refund)
		return;
	weir_l7_add(strcmp(name, "bad-address") == 0 ? &c->no_address : &c->bad_path, 1);
	weir_l7_add(call->monitor ? &c->allowed : &c->refused, 1);
	tell_refusal(call, name, code, call->monitor);
}
