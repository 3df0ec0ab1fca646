/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a question to the layers that a store decides: read it, find its plan, match it against every limit, build keys.
 * Called by call.c for each question, in the worker's thread.
 */
#include <sodium.h>
#include <string.h>

#include "user/l7/engine_int.h"

/* --- reading ---- */

static const char *read_request(struct weir_l7_worker *w, const struct weir_rules *rules,
				const struct weir_l7_query *q)
{
	struct weir_l7_asked *a = &w->asked;
	struct weir_text host;

	if (weir_path_read(q->target, &rules->path, &w->path) < 0)
		return "bad-path";
	if (weir_method_normal(q->method, w->method) < 0)
		return "bad-method";
	host = w->path.authority.n ? w->path.authority : q->host;
	if (host.n && weir_host_normal(host, w->host) >= 0)
		a->rule.host = weir_text_of(w->host);
	else if (host.n && rules->uses_host)
		return "bad-host"; /* whoever serves it all the same would serve it uncounted */
	a->rule.path = &w->path;
	a->rule.method = weir_text_of(w->method);
	a->key.method = a->rule.method;
	a->key.path = weir_path_text(&w->path, 0);
	a->key.host = a->rule.host;
	a->key.query = w->path.query;
	return NULL;
}

static bool find_plan(const struct weir_rules *rules, struct weir_text name, unsigned *ret)
{
	for (size_t i = 0; name.n && i < rules->n_plan; i++) {
		if (weir_text_equal(name, weir_text_of(rules->plan[i]))) {
			*ret = (unsigned)i;
			return true;
		}
	}
	return false;
}

/* Not 0. Hashed with a secret: two users that share one cannot be found from outside. */
static __u32 identity_of_user(const struct weir_l7 *l7, struct weir_text user)
{
	unsigned char hash[crypto_shorthash_BYTES];
	__u32 id;

	(void)crypto_shorthash(hash, (const unsigned char *)user.p, user.n, l7->offences.key);
	memcpy(&id, hash, sizeof(id));
	return id ? id : 1;
}

/* The plan: the proxy's word, else that of the API key, else the first. Who asks, if that is certain: the proxy's word,
 * or an API key that is in plans_file. The key is hashed only where one of the two needs it.
 */
static void read_who(struct weir_l7_worker *w, const struct weir_rules *rules,
		     const struct weir_l7_query *q)
{
	bool planned = !rules->has_plans || find_plan(rules, q->plan, &w->asked.plan);
	bool wants_identity = rules->identities_us && q->client_seen && q->client;
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	struct weir_text api_key;
	unsigned plan;
	__u32 id;

	if (wants_identity && q->user.n) {
		w->asked.identity = identity_of_user(w->l7, q->user);
		wants_identity = false;
	}
	if (!rules->plans || (planned && !wants_identity))
		return;
	api_key = weir_key_api_key(&rules->key, &w->asked.key, w->api_key);
	w->asked.key.api_key = api_key;
	if (!api_key.n || weir_plans_find(rules->plans, api_key, &plan, hash) < 0)
		return;
	if (!planned)
		w->asked.plan = plan;
	if (wants_identity) {
		memcpy(&id, hash, sizeof(id));
		w->asked.identity = id ? id : 1;
	}
}

void weir_l7_read(struct weir_l7_worker *w, const struct weir_rules *rules,
		  const struct weir_l7_query *query)
{
	struct weir_l7_asked *a = &w->asked;

	w->serial++;
	memset(a, 0, sizeof(*a));
	a->query = query;
	a->rule.headers = a->key.headers = query->headers;
	a->rule.client = a->key.client = query->client;
	a->key.user = query->user;
	a->bad = read_request(w, rules, query);
	if (!a->bad)
		read_who(w, rules, query);
}

/* --- layers ---- */

/* Keys of one class are the same for all limits: hashed once for a question. */
static int key_of(struct weir_l7_worker *w, const struct weir_rules *rules,
		  const struct weir_rule *rule, struct weir_key *ret)
{
	struct weir_l7_known_key *k;

	if (rule->key_class == WEIR_RULES_NO_CLASS)
		return weir_key_build(rule->key, &rules->key, &w->asked.key, ret);
	k = &w->known[rule->key_class];
	if (k->serial != w->serial) {
		k->serial = w->serial;
		k->r = weir_key_build(rule->key, &rules->key, &w->asked.key, &k->key);
	}
	*ret = k->key;
	return k->r;
}

static int key_of_ip(struct weir_l7_worker *w, const struct weir_rules *rules,
		     const struct weir_rule *rule, __u8 ret[static WEIR_STORE_KEY_BYTES])
{
	struct weir_l7_known_key *k = &w->known[rule->ip_class];

	if (k->serial != w->serial) {
		k->serial = w->serial;
		k->r = weir_key_build_ip(rule->key, &rules->key, &w->asked.key, &k->key);
	}
	if (k->r >= 0)
		memcpy(ret, k->key.byte, WEIR_STORE_KEY_BYTES);
	return k->r;
}

/* The proxy's number; one that is none costs as much as anything may: it is not known to be cheap. */
static __u64 cost_of(const struct weir_conf_cost *c, const struct weir_l7_query *q)
{
	__u64 n = 0;

	if (q->cost_n)
		return q->cost_n;
	if (!c->from_proxy)
		return c->fixed ? c->fixed : 1;
	if (!q->cost.n)
		n = 1;
	for (size_t i = 0; i < q->cost.n; i++) {
		char digit = q->cost.p[i];

		if (digit < '0' || digit > '9' || n > c->max) {
			n = c->max;
			break;
		}
		n = n * 10 + (__u64)(digit - '0');
	}
	if (n > c->max)
		n = c->max;
	if (n < c->min)
		n = c->min;
	return n ? n : 1;
}

void weir_l7_layer(const struct weir_l7_asked *asked, const struct weir_rule *rule,
		   const struct weir_key *key, __u64 now_us, struct weir_store_layer *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->limit = &rule->numbers[asked->plan].store;
	memcpy(ret->key, key->byte, sizeof(ret->key));
	ret->cost = cost_of(&rule->cost, asked->query);
	ret->monitor = rule->monitor;
	ret->turn_now = !asked->query->may_wait;
	if (!rule->calendar)
		return;
	if (weir_calendar_window(rule->calendar, now_us, &ret->start_us, &ret->end_us) < 0) {
		/* a clock years away from when the rules were made */
		ret->start_us = now_us - now_us % rule->calendar_us;
		ret->end_us = ret->start_us + rule->calendar_us;
	}
}

static int add_part(struct weir_l7_call *call, const struct weir_rule *rule, unsigned plan,
		    enum weir_l7_part_state state)
{
	bool host = rule->host && call->beside;
	const struct weir_l7_job *job = host ? call->host : call->job;

	if (call->n ==
	    call->use->rules->room) /* that of the jobs; the call's may be of former rules */
		return -E2BIG;
	call->part[call->n++] = (struct weir_l7_part){.rule = rule,
						      .numbers = &rule->numbers[plan],
						      .state = state,
						      .layer = job ? (unsigned)job->q.n : 0,
						      .host = host};
	return 0;
}

/* The question that a limit's layer belongs to: of the fleet, or of this host beside it. NULL: no memory. */
static struct weir_l7_job *job_of(struct weir_l7_call *call, const struct weir_rule *rule)
{
	struct weir_l7_worker *w = call->w;

	if (!rule->host || !call->beside)
		return call->job;
	if (!call->host) {
		call->host = weir_l7_job_take(w, call->use->rules->room);
		if (!call->host)
			return NULL;
		call->host->call = call;
		call->host->store = w->l7->local;
		call->host->q.now_us = call->asked_us;
	}
	return call->host;
}

/* States of one address live on one node of a Cluster, where its key says which address it is. */
static void tag(struct weir_l7_worker *w, const struct weir_rules *rules,
		const struct weir_rule *rule, struct weir_store_layer *y)
{
	__u8 ip[WEIR_STORE_KEY_BYTES];

	if (key_of_ip(w, rules, rule, ip) >= 0)
		memcpy(y->tag, ip, sizeof(y->tag));
}

void weir_l7_tag(const struct weir_rules *rules, const struct weir_rule *rule,
		 const struct weir_key_request *request, struct weir_store_layer *y)
{
	struct weir_key ip;

	if (rule->tag_ip && weir_key_build_ip(rule->key, &rules->key, request, &ip) >= 0)
		memcpy(y->tag, ip.byte, sizeof(y->tag));
}

/* A new key of @rule is worth a token of its address. */
static int add_fresh(struct weir_l7_worker *w, const struct weir_rules *rules,
		     const struct weir_rule *rule, struct weir_store_layer *y)
{
	int r = key_of_ip(w, rules, rule, y->instead);

	if (r == -EADDRNOTAVAIL && rule->monitor)
		return 0;
	y->fresh = &rule->fresh;
	return r;
}

/* A limit whose store is away, and that this host does not judge alone: an open one says nothing. */
static int add_unjudged(struct weir_l7_call *call, const struct weir_rule *rule, unsigned plan)
{
	return weir_l7_without_store(call, rule) == WEIR_FAILURE_OPEN
		       ? 0
		       : add_part(call, rule, plan, WEIR_L7_PART_NO_STORE);
}

/* One key of @rule for this question. */
static int add_layer(struct weir_l7_worker *w, struct weir_l7_call *call,
		     const struct weir_rule *rule)
{
	const struct weir_rules *rules = call->use->rules;
	const struct weir_l7_local *local = NULL; /* how this host judges it, with its store away */
	unsigned plan = w->asked.plan;
	struct weir_store_layer *y;
	struct weir_l7_job *job;
	struct weir_key key;
	int r = key_of(w, rules, rule, &key);

	if (r == -ENOENT)
		return 0;
	call->met = true;
	/* without an address a limit that stops nothing stops nothing */
	if (r == -EACCES || (r == -EADDRNOTAVAIL && rule->monitor))
		return add_part(call, rule, plan, WEIR_L7_PART_NO_KEY);
	if (r < 0)
		return r;
	if (call->away && !rule->host) {
		if (!weir_l7_judged_here(call, rule))
			return add_unjudged(call, rule, plan);
		local = weir_l7_local_of(call->use, &rule->numbers[plan]);
	}
	job = job_of(call, rule);
	if (!job)
		return -ENOMEM;
	r = add_part(call, rule, plan, WEIR_L7_PART_LAYER);
	if (r < 0)
		return r;
	call->part[call->n - 1].local = local;
	y = &job->layer[job->q.n++];
	weir_l7_layer(&w->asked, rule, &key, call->asked_us, y);
	if (rule->has_fresh && key.client_chosen)
		r = add_fresh(w, rules, rule, y);
	if (local)
		weir_l7_make_local(local, y);
	else if (rule->tag_ip && w->l7->shared)
		tag(w, rules, rule, y);
	return r;
}

/* @path: the patterns that matched. A target that servers read differently may match several: it is counted as each of
 * them, so that no spelling gives an endpoint a count more. With new_per_ip as the first alone: two layers of a limit
 * must not meet at one address.
 */
static int add_rule(struct weir_l7_worker *w, struct weir_l7_call *call,
		    const struct weir_rule *rule, const struct weir_rule_path *const *path,
		    size_t n)
{
	struct weir_key_request *k = &w->asked.key;
	int r = 0;

	k->endpoint_is_limit = n == 0;
	k->endpoint = n ? path[0]->endpoint : weir_text_of(rule->name);
	if (!rule->key_has_endpoint || rule->has_fresh)
		n = 1;
	r = add_layer(w, call, rule);
	for (size_t i = 1; r >= 0 && i < n; i++) {
		k->endpoint = path[i]->endpoint;
		r = add_layer(w, call, rule);
	}
	return r;
}

int weir_l7_layers(struct weir_l7_worker *w, struct weir_l7_call *call)
{
	const struct weir_rule_path *path[WEIR_PATH_READINGS];
	const struct weir_rules *rules = call->use->rules;
	const struct weir_prefix *client = w->asked.query->client;
	size_t n;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < rules->n_always; i++)
		if (weir_rule_matches(&rules->rule[i].match, &w->asked.rule, path,
				      WEIR_PATH_READINGS, &n))
			r = add_rule(w, call, &rules->rule[i], path, n);
	if (r >= 0 && rules->has_suspicion && client &&
	    weir_suspects_until(w->l7->offences.suspects, client, call->asked_us))
		r = add_rule(w, call, &rules->rule[rules->n_always], NULL, 0);
	return r;
}
