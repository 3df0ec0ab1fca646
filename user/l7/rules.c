/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration's request part, compiled; see rules.h. Called by engine.c when a configuration is loaded. */
#include "user/l7/rules.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NS_PER_US 1000
#define CHUNK	  16384
#define SHARED_AT offsetof(struct weir_rules, parent)

struct weir_rules_chunk {
	struct weir_rules_chunk *next;
	size_t used, room;
	_Alignas(16) unsigned char byte[];
};

void *weir_rules_alloc(struct weir_rules *r, size_t n, size_t size)
{
	struct weir_rules_chunk *c = r->memory;
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + 16) & ~(size_t)15; /* never nothing: every list has an address */
	if (!c || c->room - c->used < bytes) {
		size_t room = bytes > CHUNK ? bytes : CHUNK;

		c = calloc(1, sizeof(*c) + room);
		if (!c)
			return NULL;
		c->room = room;
		c->next = r->memory;
		r->memory = c;
	}
	p = c->byte + c->used;
	c->used += bytes;
	return p;
}

int weir_rules_text(struct weir_rules *r, const char *text, struct weir_text *ret)
{
	size_t n = strlen(text);
	char *p = weir_rules_alloc(r, n + 1, 1);

	if (!p)
		return -ENOMEM;
	memcpy(p, text, n);
	*ret = (struct weir_text){p, n};
	return 0;
}

struct weir_rules *weir_rules_ref(struct weir_rules *r)
{
	(void)__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	return r;
}

void weir_rules_unref(struct weir_rules *r)
{
	struct weir_rules *parent;
	struct weir_rules_chunk *c;

	for (; r && !__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL); r = parent) {
		parent = r->parent;
		while ((c = r->memory)) {
			r->memory = c->next;
			free(c);
		}
		for (size_t i = 0; !parent && i < r->n_calendar; i++)
			weir_calendar_free(r->calendar[i]);
		if (!parent)
			weir_plans_free(r->plans);
		free(r);
	}
}

const struct weir_rule *weir_rules_find(const struct weir_rules *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->rule[i].name, name) == 0)
			return &r->rule[i];
	return NULL;
}

/* --- whose refusals are counted ---- */

static int limits_of(const struct weir_rules *r, const struct weir_conf_refused *c, __u64 *ret,
		     struct weir_error *e)
{
	*ret = c->n_limits ? 0 : r->n == 64 ? ~0ull : (1ull << r->n) - 1;
	for (size_t i = 0; i < c->n_limits; i++) {
		const struct weir_rule *rule = weir_rules_find(r, c->limits[i]);

		if (!rule)
			return weir_error_set(e, -EINVAL, "there is no request limit named '%s'",
					      c->limits[i]);
		*ret |= 1ull << (rule - r->rule);
	}
	return 0;
}

/* A log of @room refusals within the rule's time; @what and @name make its state its own. */
static int refused_of(const struct weir_conf_refused *c, __u64 limits, __u64 room, const char *what,
		      const char *name, struct weir_rule_refused *ret, struct weir_error *e)
{
	struct weir_store_identity id;
	int r;

	ret->limits = limits;
	ret->count = c->count;
	ret->within_us = c->within_ns / NS_PER_US;
	r = weir_store_identity_of(name, WEIR_REQUEST_SLIDING_LOG, what, "", "", &id);
	if (r >= 0)
		r = weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_LOG, room, ret->within_us,
					    &ret->store);
	return r < 0 ? weir_error_set(e, r,
				      "refused: %llu is too many or its time none (1 to %d, more "
				      "than 0 s)",
				      c->count, WEIR_RULES_REFUSED_MAX)
		     : 0;
}

static int add_suspicion(struct weir_rules *r, const struct weir_conf_suspicious *s,
			 struct weir_error *e)
{
	__u64 limits;
	int error;

	r->suspicious_us = s->lasts_ns / NS_PER_US;
	r->packet_limit = weir_rules_alloc(r, s->n_packet_limits, sizeof(r->packet_limit[0]));
	if (!r->packet_limit)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (s->n_packet_limits)
		memcpy(r->packet_limit, s->packet_limits,
		       s->n_packet_limits * sizeof(r->packet_limit[0]));
	r->n_packet_limit = s->n_packet_limits;
	if (!s->refused.count)
		return 0;
	error = limits_of(r, &s->refused, &limits, e);
	if (error >= 0) /* the one that does not fit any more is the last of the count */
		error = refused_of(&s->refused, limits, s->refused.count - 1, "suspicious", "",
				   &r->suspicion, e);
	if (error >= 0)
		r->offending |= limits;
	return error < 0 ? weir_error_prefix(e, error, "suspicious") : 0;
}

static int at_most_of(const struct weir_conf_escalate *c, const char *what,
		      struct weir_store_limit *ret)
{
	struct weir_conf_request_limit l = {.algorithm = WEIR_REQUEST_TOKEN_BUCKET,
					    .key_text = (char *)what,
					    .rate = {c->at_most},
					    .burst = {c->at_most.count}};

	memcpy(l.name, c->name, sizeof(l.name));
	return weir_conf_store_limit(&l, 0, 0, ret);
}

static int add_escalate(struct weir_rules *r, const struct weir_conf_escalate *c,
			struct weir_rule_escalate *x, struct weir_error *e)
{
	__u64 limits;
	int error = limits_of(r, &c->refused, &limits, e);

	if (error < 0)
		return error;
	memcpy(x->name, c->name, sizeof(x->name));
	error = refused_of(&c->refused, limits, c->refused.count, "escalate", c->name, &x->refused,
			   e);
	if (error >= 0)
		error = refused_of(&c->refused, limits, c->refused.count, "escalate, monitor",
				   c->name, &x->would, e);
	if (error < 0)
		return error;
	if (!c->refused.count)
		return weir_error_set(e, -EINVAL, "refused must be at least 1");
	if (at_most_of(c, "at_most", &x->at_most) < 0 ||
	    at_most_of(c, "at_most, monitor", &x->at_most_would) < 0)
		return weir_error_set(e, -EINVAL, "at_most is none, or cannot be exact");
	if (c->unless_identities > WEIR_IDENTITIES_MAX)
		return weir_error_set(e, -EINVAL, "unless_identities is %llu (at most %d)",
				      c->unless_identities, WEIR_IDENTITIES_MAX);
	x->block_for_ns = c->block_for_ns;
	x->unless_identities = c->unless_identities;
	x->monitor = c->mode == WEIR_MODE_MONITOR;
	r->offending |= limits;
	if (c->unless_identities && r->identities_us < x->refused.within_us)
		r->identities_us = x->refused.within_us;
	return 0;
}

static int add_escalations(struct weir_rules *r, const struct weir_conf_request *c,
			   struct weir_error *e)
{
	struct weir_rule_escalate *list =
		weir_rules_alloc(r, c->n_escalate, sizeof(r->escalate[0]));
	int error;

	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < c->n_escalate; i++) {
		error = add_escalate(r, &c->escalate[i], &list[i], e);
		if (error < 0)
			return weir_error_prefix(e, error, "escalate '%s'", c->escalate[i].name);
	}
	r->escalate = list;
	r->n_escalate = c->n_escalate;
	return 0;
}

/* --- the rest ---- */

static int add_exempt(struct weir_rules *r, const struct weir_conf_request *c, struct weir_error *e)
{
	struct weir_rule_exempt *list = weir_rules_alloc(r, c->n_exempt, sizeof(*list));
	int error;

	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < c->n_exempt; i++) {
		const struct weir_conf_exempt *x = &c->exempt[i];
		struct weir_prefix *source =
			weir_rules_alloc(r, x->source.n, sizeof(x->source.item[0]));

		if (!source ||
		    weir_rules_texts(r, x->method, x->n_method, &list[i].match.method) < 0)
			return weir_error_set(e, -ENOMEM, "out of memory");
		if (x->source.n)
			memcpy(source, x->source.item, x->source.n * sizeof(*source));
		error = weir_rules_paths(r, x->path, x->n_path, &list[i].match.path, e);
		if (error < 0)
			return weir_error_prefix(e, error, "exempt");
		list[i].source = source;
		list[i].n_source = x->source.n;
		list[i].match.n_method = x->n_method;
		list[i].match.n_path = x->n_path;
		list[i].preflight = x->preflight;
	}
	r->exempt = list;
	r->n_exempt = c->n_exempt;
	return 0;
}

/* What a question may need of one limit, whose target servers read in several ways (add_rule in layers.c). */
static size_t layers_of(const struct weir_rule *rule)
{
	size_t n = rule->match.n_path;

	if (!rule->key_has_endpoint || rule->has_fresh || !n)
		return 1;
	return n < WEIR_PATH_READINGS ? n : WEIR_PATH_READINGS;
}

static int add_limits(struct weir_rules *r, const struct weir_conf_request *c,
		      const struct weir_rules_options *o, struct weir_error *e)
{
	int error = 0;

	r->n_always = c->n_limit;
	r->has_suspicion = c->suspicious.given;
	if (c->n_limit > WEIR_REQUEST_LIMITS_MAX)
		return weir_error_set(e, -E2BIG, "%zu request limits (at most %d)", c->n_limit,
				      WEIR_REQUEST_LIMITS_MAX);
	r->rule = weir_rules_alloc(r, WEIR_RULES_MAX, sizeof(r->rule[0]));
	if (!r->rule)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < c->n_limit + c->suspicious.given && error >= 0; i++) {
		error = weir_rules_limit(r, i, i < c->n_limit ? &c->limit[i] : &c->suspicious.limit,
					 o->now_us, e);
		if (error < 0)
			return error;
		r->n++;
		r->room += layers_of(&r->rule[i]);
		error = weir_rules_number(r, &r->rule[i], o->salt(o->arg, r->rule[i].name));
	}
	if (r->room > WEIR_STORE_LAYERS_MAX)
		r->room = WEIR_STORE_LAYERS_MAX;
	return error < 0 ? weir_error_set(e, error, "limit '%s': its numbers cannot be exact",
					  r->rule[r->n - 1].name)
			 : 0;
}

static int add_plans(struct weir_rules *r, const struct weir_conf_request *c, struct weir_error *e)
{
	r->n_plan = c->n_plan ? c->n_plan : 1;
	r->has_plans = c->n_plan > 0;
	r->plan = weir_rules_alloc(r, WEIR_PLANS_MAX, sizeof(r->plan[0]));
	if (!r->plan)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(r->plan, c->plan, c->n_plan * sizeof(r->plan[0]));
	if (!c->plans_file || !c->n_plan)
		return 0;
	return weir_plans_load(c->plans_file, (const char(*)[WEIR_NAME_MAX])r->plan, c->n_plan,
			       &r->plans, e);
}

int weir_rules_new(const struct weir_conf *conf, const struct weir_rules_options *o,
		   struct weir_rules **ret, struct weir_error *e)
{
	_cleanup_(weir_rules_unrefp) struct weir_rules *r = calloc(1, sizeof(*r));
	const struct weir_conf_request *c = &conf->request;
	int error;

	if (!r)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r->refs = 1;
	r->path = c->path;
	memcpy(r->key.secret, o->secret, sizeof(r->key.secret));
	memcpy(r->key.api_key, c->api_key, sizeof(r->key.api_key));
	r->key.n_api_key = c->n_api_key;
	r->budget_us = c->budget_ns / NS_PER_US;
	r->events_per_second = conf->events_per_second;
	r->local_share_parts = conf->store.local_share_parts;
	error = add_plans(r, c, e);
	if (error >= 0)
		error = add_limits(r, c, o, e);
	if (error >= 0)
		error = add_exempt(r, c, e);
	if (error >= 0 && c->suspicious.given)
		error = add_suspicion(r, &c->suspicious, e);
	if (error >= 0)
		error = add_escalations(r, c, e);
	if (error < 0)
		return error;
	*ret = TAKE_PTR(r);
	return 0;
}

int weir_rules_salted(struct weir_rules *old, const struct weir_rules_options *o,
		      struct weir_rules **ret)
{
	_cleanup_(weir_rules_unrefp) struct weir_rules *r = malloc(sizeof(*r));
	struct weir_rule *rule;
	int error;

	if (!r)
		return -ENOMEM;
	/* but for the references, which other threads count meanwhile */
	memcpy((char *)r + SHARED_AT, (const char *)old + SHARED_AT, sizeof(*r) - SHARED_AT);
	r->refs = 1;
	r->memory = NULL;
	r->parent = weir_rules_ref(old->parent ? old->parent : old);
	if (o->secret)
		memcpy(r->key.secret, o->secret, sizeof(r->key.secret));
	rule = weir_rules_alloc(r, WEIR_RULES_MAX, sizeof(*rule));
	if (!rule)
		return -ENOMEM;
	memcpy(rule, old->rule, old->n * sizeof(*rule));
	r->rule = rule;
	for (size_t i = 0; i < r->n; i++) {
		error = weir_rules_number(r, &rule[i], o->salt(o->arg, rule[i].name));
		if (error < 0)
			return error;
	}
	*ret = TAKE_PTR(r);
	return 0;
}
