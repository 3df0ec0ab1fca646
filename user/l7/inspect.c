/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One client as an operator knows it: every state that its address, key, user or token leads to, shown or forgotten.
 * Called by the agent, on its own worker, in its main thread.
 */
#include <sodium.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdarg.h>
#include <string.h>

#include "user/l7/engine_int.h"

#define SHOWN_METHODS                                                                              \
	2 /* GET and POST, of a limit on any method; what is forgotten is forgotten of all */

#define WAKE_US 100000 /* for a store's connection to come back */

/* One key that can be made from what is known. */
struct found {
	const struct weir_rule *rule;
	const struct weir_key *key;
	const char *words;
	bool everybodys; /* no part of it is the client's */
};
typedef int found_fn(void *arg, const struct found *f);

struct search {
	struct weir_l7_worker *w;
	const struct weir_rules *rules;
	const struct weir_l7_who *who;
	bool own_only;	  /* keys that hold a part of @who */
	bool all_methods; /* not only the usual ones */
	struct weir_l7_asked asked;
	struct weir_l7_query query;
	struct weir_header_list headers; /* none */
	found_fn *fn;
	void *arg;
	size_t n;
};

/* --- which keys ---- */

static void say(char *buf, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void say(char *buf, size_t size, const char *format, ...)
{
	size_t n = strlen(buf);
	va_list list;

	if (n + 1 >= size)
		return;
	va_start(list, format);
	(void)vsnprintf(buf + n, size - n, format, list); /* cut where it is too long */
	va_end(list);
}

/* Can all parts be made, and is one of them the client's? */
static bool is_known(const struct search *s, const struct weir_key_choice *c)
{
	const struct weir_l7_who *who = s->who;
	bool own = false;

	for (size_t i = 0; i < c->n; i++) {
		bool here = false;

		switch (c->part[i].kind) {
		case WEIR_KEY_IP:
			here = who->ip;
			break;
		case WEIR_KEY_USER:
			here = who->user.n;
			break;
		case WEIR_KEY_API_KEY:
			here = who->api_key.n;
			break;
		case WEIR_KEY_TOKEN:
			here = who->token.n;
			break;
		case WEIR_KEY_ENDPOINT:
		case WEIR_KEY_METHOD:
		case WEIR_KEY_GLOBAL:
			continue;
		default:
			break;
		}
		if (!here)
			return false;
		own = true;
	}
	return own || !s->own_only;
}

static bool is_everybodys(const struct weir_key_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind != WEIR_KEY_ENDPOINT && c->part[i].kind != WEIR_KEY_METHOD &&
		    c->part[i].kind != WEIR_KEY_GLOBAL)
			return false;
	return true;
}

static bool has_part(const struct weir_key_choice *c, enum weir_key_kind kind)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind == kind)
			return true;
	return false;
}

static void put_words(const struct search *s, const struct weir_key_choice *c, char *buf,
		      size_t size)
{
	const struct weir_key_request *k = &s->asked.key;

	for (size_t i = 0; i < c->n; i++) {
		const char *comma = i ? ", " : "";

		switch (c->part[i].kind) {
		case WEIR_KEY_ENDPOINT:
			say(buf, size, "%sendpoint %.*s ", comma, (int)k->method.n, k->method.p);
			if (k->endpoint_is_limit)
				say(buf, size, "(all paths)");
			else
				say(buf, size, "%.*s", (int)k->endpoint.n, k->endpoint.p);
			break;
		case WEIR_KEY_METHOD:
			say(buf, size, "%smethod %.*s", comma, (int)k->method.n, k->method.p);
			break;
		case WEIR_KEY_IP:
			say(buf, size, "%sip", comma);
			break;
		case WEIR_KEY_USER:
			say(buf, size, "%suser", comma);
			break;
		case WEIR_KEY_API_KEY:
			say(buf, size, "%sapi-key", comma);
			break;
		case WEIR_KEY_TOKEN:
			say(buf, size, "%stoken", comma);
			break;
		default:
			say(buf, size, "%sglobal", comma);
		}
	}
}

static int one_key(struct search *s, const struct weir_rule *rule, const struct weir_key_choice *c)
{
	struct weir_key_spec spec = {.n = 1,
				     .missing = WEIR_KEY_MISSING_SKIP,
				     .ipv4_prefix = rule->key->ipv4_prefix,
				     .ipv6_prefix = rule->key->ipv6_prefix};
	char words[sizeof(((struct weir_l7_view *)NULL)->key)] = "";
	struct weir_key key;
	int r;

	spec.choice[0] = *c;
	r = weir_key_build(&spec, &s->rules->key, &s->asked.key, &key);
	if (r < 0)
		return r == -EIO ? r : 0;
	put_words(s, c, words, sizeof(words));
	s->n++;
	return s->fn(s->arg, &(struct found){rule, &key, words, is_everybodys(c)});
}

/* Every endpoint of one method. */
static int each_endpoint(struct search *s, const struct weir_rule *rule,
			 const struct weir_key_choice *c)
{
	bool several = has_part(c, WEIR_KEY_ENDPOINT) && rule->match.n_path;
	int r = 0;

	s->asked.key.endpoint_is_limit = !rule->match.n_path;
	s->asked.key.endpoint = weir_text_of(rule->name);
	for (size_t i = 0; r >= 0 && i < (several ? rule->match.n_path : 1); i++) {
		if (several)
			s->asked.key.endpoint = rule->match.path[i].endpoint;
		r = one_key(s, rule, c);
	}
	return r;
}

static int each_method(struct search *s, const struct weir_rule *rule,
		       const struct weir_key_choice *c)
{
	struct weir_text usual[WEIR_KEY_METHODS];
	const struct weir_text *list = rule->match.n_method ? rule->match.method : usual;
	size_t n = rule->match.n_method ? rule->match.n_method
		   : s->all_methods	? ARRAY_LEN(usual)
					: SHOWN_METHODS;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		usual[i] = weir_text_of(weir_key_methods[i]);
	if (!has_part(c, WEIR_KEY_ENDPOINT) && !has_part(c, WEIR_KEY_METHOD))
		n = 1;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		s->asked.key.method = list[i];
		r = each_endpoint(s, rule, c);
	}
	return r;
}

/* Is there always such a key where the address is known? */
static bool is_always(const struct weir_key_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind != WEIR_KEY_IP && c->part[i].kind != WEIR_KEY_ENDPOINT &&
		    c->part[i].kind != WEIR_KEY_METHOD && c->part[i].kind != WEIR_KEY_GLOBAL)
			return false;
	return true;
}

/* All choices, and the address where it may stand in for them. */
static int each_choice(struct search *s, const struct weir_rule *rule)
{
	static const struct weir_key_choice ip = {.part = {{.kind = WEIR_KEY_IP}}, .n = 1};
	bool stands_in = rule->key->missing == WEIR_KEY_MISSING_IP;
	int r = 0;

	for (size_t i = 0; i < rule->key->n; i++)
		stands_in &= !is_always(&rule->key->choice[i]);
	stands_in |= rule->has_fresh;

	for (size_t i = 0; r >= 0 && i < rule->key->n; i++) {
		const struct weir_key_choice *c = &rule->key->choice[i];

		if (c->n == 1 && c->part[0].kind == WEIR_KEY_IP)
			stands_in = false;
		if (is_known(s, c))
			r = each_method(s, rule, c);
	}
	if (r >= 0 && stands_in && s->who->ip)
		r = one_key(s, rule, &ip);
	return r;
}

static int search(struct search *s, const char *limit)
{
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	int r = 0;

	s->query = (struct weir_l7_query){.headers = &s->headers, .may_wait = true, .cost_n = 1};
	s->asked = (struct weir_l7_asked){.query = &s->query};
	s->asked.key = (struct weir_key_request){.headers = &s->headers,
						 .client = s->who->ip,
						 .user = s->who->user,
						 .api_key = s->who->api_key,
						 .token = s->who->token};
	if (s->rules->plans && s->who->api_key.n)
		(void)weir_plans_find(s->rules->plans, s->who->api_key, &s->asked.plan, hash);
	for (size_t i = 0; r >= 0 && i < s->rules->n; i++)
		if (!limit || strcmp(limit, s->rules->rule[i].name) == 0)
			r = each_choice(s, &s->rules->rule[i]);
	return r;
}

/* --- the store, here and now ---- */

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

static int ask_once(struct search *s, const struct weir_rule *rule, bool reset,
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

/* One layer, shown or forgotten; @layer is filled in. -EAGAIN: the store does not answer at once. A connection that was
 * lost, or not made yet, comes back only while the loop turns, which nobody does between two questions.
 */
static int ask_now(struct search *s, const struct weir_rule *rule, bool reset,
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

/* --- inspect ---- */

struct view {
	struct search *s;
	weir_l7_view_fn *fn;
	void *arg;
};

static int show(void *arg, const struct found *f)
{
	struct view *v = arg;
	struct weir_answer_limit state;
	struct weir_store_layer layer;
	struct weir_l7_view view = {.limit = f->rule->name,
				    .state = &state,
				    .everybodys = f->everybodys,
				    .mode = f->rule->monitor ? WEIR_MODE_MONITOR
							     : WEIR_MODE_ENFORCE};
	int r;

	weir_l7_layer(&v->s->asked, f->rule, f->key, weir_l7_now_us(v->s->w->l7), &layer);
	weir_l7_tag(v->s->rules, f->rule, &v->s->asked.key, &layer);
	r = ask_now(v->s, f->rule, false, &layer);
	if (r < 0)
		return r;
	weir_l7_show(f->rule, &f->rule->numbers[v->s->asked.plan], &layer, f->rule->monitor,
		     &state);
	memcpy(view.key, f->words, strlen(f->words) + 1);
	v->fn(v->arg, &view);
	return 0;
}

int weir_l7_inspect(struct weir_l7_worker *w, const struct weir_l7_who *who, const char *limit,
		    weir_l7_view_fn *fn, void *arg)
{
	struct search s = {.w = w, .rules = weir_l7_worker_rules(w), .who = who, .fn = show};
	struct view v = {.s = &s, .fn = fn, .arg = arg};

	if (!s.rules)
		return -ENOMEM;
	if (limit && !weir_rules_find(s.rules, limit))
		return -ENOENT;
	s.arg = &v;
	return search(&s, limit);
}

__s64 weir_l7_suspicious_until(struct weir_l7_worker *w, const struct weir_prefix *ip)
{
	const struct weir_rules *rules = weir_l7_worker_rules(w);
	__u64 until_us;

	if (!rules || !rules->has_suspicion)
		return 0;
	until_us = weir_suspects_until(w->l7->offences.suspects, ip, weir_l7_now_us(w->l7));
	return (__s64)((until_us + 999999) / 1000000);
}

/* --- reset ---- */

struct forget {
	struct search *s;
	size_t n;
};

static int forget(void *arg, const struct found *f)
{
	struct forget *g = arg;
	struct weir_store_layer layer;
	int r;

	weir_l7_layer(&g->s->asked, f->rule, f->key, weir_l7_now_us(g->s->w->l7), &layer);
	weir_l7_tag(g->s->rules, f->rule, &g->s->asked.key, &layer);
	r = ask_now(g->s, f->rule, true, &layer);
	if (r >= 0)
		g->n += layer.charged;
	return r;
}

static bool is_for_everybody(const struct weir_rule *rule)
{
	for (size_t i = 0; i < rule->key->n; i++)
		if (!is_everybodys(&rule->key->choice[i]))
			return false;
	return true;
}

/* @who without any part: the states of a limit that counts all clients together. */
static int reset_client(struct weir_l7_worker *w, const struct weir_rules *rules, const char *limit,
			const struct weir_l7_who *who, bool own_only, size_t *ret_n,
			struct weir_error *e)
{
	struct search s = {.w = w,
			   .rules = rules,
			   .who = who,
			   .own_only = own_only,
			   .all_methods = true,
			   .fn = forget};
	struct forget g = {.s = &s};
	const char *key;
	int r;

	s.arg = &g;
	r = search(&s, limit);
	if (r < 0)
		return weir_error_set(e, r, "the store does not answer: %s", strerror(-r));
	if (!s.n && limit) {
		key = weir_rules_find(rules, limit)->conf->key_text;
		return weir_error_set(e, -EINVAL,
				      "limit '%s' does not count by what was given, its key is "
				      "%.*s%s",
				      limit, (int)strcspn(key, "/"), key,
				      is_for_everybody(weir_rules_find(rules, limit))
					      ? " (everybody's: reset it without a client)"
					      : "");
	}
	if (who->ip)
		weir_offences_forget(&w->l7->offences, rules, who->ip, weir_l7_now_us(w->l7));
	*ret_n = g.n;
	return 0;
}

/* Of a limit of the fleet this host alone would count under another name. */
static int refuse_fleet(const struct weir_l7 *l7, const struct weir_rules *rules, const char *limit,
			struct weir_error *e)
{
	for (size_t i = 0; l7->shared && i < rules->n; i++)
		if (!rules->rule[i].host && (!limit || strcmp(limit, rules->rule[i].name) == 0))
			return weir_error_set(
				e, -EINVAL,
				"limit '%s' counts for the whole fleet: reset one client of it "
				"(for example --ip)",
				rules->rule[i].name);
	return 0;
}

/* States have names: with another one they all begin anew, and the old ones are dropped once they are over. */
static int reset_all(struct weir_l7 *l7, const char *limit, struct weir_error *e)
{
	const struct weir_rules_options o = {.salt = weir_l7_salt_of, .arg = l7};
	struct weir_rules *rules;
	__u64 before[WEIR_L7_SLOTS];
	int r;

	pthread_mutex_lock(&l7->lock);
	for (size_t i = 0; i < WEIR_L7_SLOTS; i++) {
		before[i] = l7->slot[i].salt;
		if (l7->slot[i].name[0] && (!limit || strcmp(limit, l7->slot[i].name) == 0))
			randombytes_buf(&l7->slot[i].salt, sizeof(l7->slot[i].salt));
	}
	r = weir_rules_salted(l7->rules, &o, &rules);
	for (size_t i = 0; r < 0 && i < WEIR_L7_SLOTS; i++)
		l7->slot[i].salt = before[i];
	pthread_mutex_unlock(&l7->lock);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	weir_l7_put_in_force(l7, rules);
	return 0;
}

int weir_l7_reset(struct weir_l7_worker *w, const char *limit, const struct weir_l7_who *who,
		  size_t *ret_n, struct weir_error *e)
{
	const struct weir_rules *rules = weir_l7_worker_rules(w);
	size_t n;
	int r;

	if (!rules)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (limit && !weir_rules_find(rules, limit))
		return weir_error_set(e, -ENOENT, "there is no request limit named '%s'", limit);
	if (who)
		return reset_client(w, rules, limit, who, true, ret_n, e);
	if (w->l7->shared && limit && is_for_everybody(weir_rules_find(rules, limit))) {
		r = reset_client(w, rules, limit, &(struct weir_l7_who){0}, false, &n, e);
	} else {
		r = refuse_fleet(w->l7, rules, limit, e);
		if (r >= 0)
			r = reset_all(w->l7, limit, e);
	}
	if (r >= 0)
		*ret_n = 0;
	return r;
}
