/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request limit, compiled: match, key, numbers. Called by rules.c. */
#include <string.h>

#include "user/l7/rules.h"

#define NS_PER_S  1000000000ull
#define NS_PER_US 1000ull

int weir_rules_texts(struct weir_rules *r, char *const *text, size_t n,
		     const struct weir_text **ret)
{
	struct weir_text *list = weir_rules_alloc(r, n, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (weir_rules_text(r, text[i], &list[i]) < 0)
			return -ENOMEM;
	*ret = list;
	return 0;
}

static int add_path(struct weir_rules *r, const char *text, struct weir_rule_path *ret,
		    struct weir_error *e)
{
	struct weir_path_pattern p;
	struct weir_text kept;
	const char *more;
	char *endpoint;
	int n;

	n = weir_path_pattern_parse(text, &r->path, &p, e);
	if (n < 0)
		return n == -ENOMEM ? weir_error_set(e, n, "out of memory") : n;
	more = !p.below ? "" : p.n > 1 ? "/*" : "*";
	n = asprintf(&endpoint, "%.*s%s", (int)p.n, p.text, more);
	if (n < 0)
		endpoint = NULL;
	if (!endpoint || weir_rules_text(r, endpoint, &kept) < 0) {
		free(endpoint);
		weir_path_pattern_done(&p);
		return weir_error_set(e, -ENOMEM, "out of memory");
	}
	free(endpoint);
	ret->endpoint = kept;
	ret->pattern = (struct weir_path_pattern){.text = (char *)kept.p,
						  .n = p.n,
						  .below = p.below}; /* its first bytes */
	weir_path_pattern_done(&p);
	return 0;
}

int weir_rules_paths(struct weir_rules *r, char *const *path, size_t n,
		     const struct weir_rule_path **ret, struct weir_error *e)
{
	struct weir_rule_path *list = weir_rules_alloc(r, n, sizeof(*list));
	int error;

	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		error = add_path(r, path[i], &list[i], e);
		if (error < 0)
			return error;
	}
	*ret = list;
	return 0;
}

static int add_hosts(struct weir_rules *r, const struct weir_conf_request_match *m,
		     struct weir_rule_match *ret)
{
	struct weir_rule_host *list = weir_rules_alloc(r, m->n_host, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_host; i++) {
		const char *text = m->host[i];

		list[i].below = text[0] == '*' && text[1] == '.';
		if (weir_rules_text(r, text + list[i].below, &list[i].name) < 0)
			return -ENOMEM;
	}
	ret->host = list;
	ret->n_host = m->n_host;
	r->uses_host |= m->n_host > 0;
	return 0;
}

static int add_headers(struct weir_rules *r, const struct weir_conf_request_match *m,
		       struct weir_rule_match *ret)
{
	struct weir_rule_header *list = weir_rules_alloc(r, m->n_header, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_header; i++) {
		list[i].any_value = !m->header[i].value;
		if (weir_rules_text(r, m->header[i].name, &list[i].name) < 0 ||
		    (m->header[i].value &&
		     weir_rules_text(r, m->header[i].value, &list[i].value) < 0))
			return -ENOMEM;
	}
	ret->header = list;
	ret->n_header = m->n_header;
	return 0;
}

static int add_match(struct weir_rules *r, const struct weir_conf_request_match *m,
		     struct weir_rule_match *ret, struct weir_error *e)
{
	int error = weir_rules_paths(r, m->path, m->n_path, &ret->path, e);

	if (error < 0)
		return error;
	ret->n_path = m->n_path;
	ret->n_method = m->n_method;
	if (weir_rules_texts(r, m->method, m->n_method, &ret->method) < 0 ||
	    add_hosts(r, m, ret) < 0 || add_headers(r, m, ret) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	return 0;
}

/* --- keys ---- */

static bool spec_has(const struct weir_key_spec *k, enum weir_key_kind kind)
{
	for (size_t i = 0; i < k->n; i++)
		for (size_t j = 0; j < k->choice[i].n; j++)
			if (k->choice[i].part[j].kind == kind)
				return true;
	return false;
}

static bool same_choice(const struct weir_key_choice *a, const struct weir_key_choice *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->part[i].kind != b->part[i].kind ||
		    strcmp(a->part[i].name, b->part[i].name) != 0)
			return false;
	return true;
}

static bool same_key(const struct weir_key_spec *a, const struct weir_key_spec *b)
{
	if (a->n != b->n || a->missing != b->missing || a->ipv4_prefix != b->ipv4_prefix ||
	    a->ipv6_prefix != b->ipv6_prefix)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!same_choice(&a->choice[i], &b->choice[i]))
			return false;
	return true;
}

/* Rules with the same key share one hash of each question. */
static void set_classes(const struct weir_rules *r, size_t i)
{
	struct weir_rule *rule = &r->rule[i];

	rule->key_class = rule->key_has_endpoint ? WEIR_RULES_NO_CLASS : (unsigned)i;
	rule->ip_class = (unsigned)(WEIR_RULES_MAX + i);
	for (size_t k = 0; k < i; k++) {
		const struct weir_rule *other = &r->rule[k];

		if (other->key->ipv4_prefix == rule->key->ipv4_prefix &&
		    other->key->ipv6_prefix == rule->key->ipv6_prefix)
			rule->ip_class = other->ip_class;
		if (!rule->key_has_endpoint && same_key(other->key, rule->key))
			rule->key_class = other->key_class;
	}
}

/* --- numbers ---- */

/* How long @amount takes at @rate, where that is whole seconds. */
static __u64 seconds_for(__u64 amount, const struct weir_conf_rate *rate)
{
	unsigned __int128 ns = (unsigned __int128)amount * rate->per_ns;

	if (!rate->count || ns % rate->count)
		return 0;
	ns /= rate->count;
	return ns % NS_PER_S || ns >> 63 ? 0 : (__u64)ns;
}

static void show(const struct weir_conf_request_limit *l, size_t plan, struct weir_rule_numbers *n)
{
	switch (l->algorithm) {
	case WEIR_REQUEST_TOKEN_BUCKET:
		n->limit = l->burst[plan];
		n->window_ns = seconds_for(n->limit, &l->rate[plan]);
		return;
	case WEIR_REQUEST_LEAKY_BUCKET: /* max_wait may leave fewer places than the queue has */
		n->limit = n->store.bucket.size_parts / n->store.bucket.period_us;
		n->window_ns = seconds_for(n->limit, &l->rate[plan]);
		n->window_now_ns = seconds_for(1, &l->rate[plan]);
		return;
	default:
		break;
	}
	n->limit = l->limit[plan];
	if (l->window_kind == WEIR_WINDOW_LENGTH)
		n->window_ns = l->window_ns;
	else if (l->window_kind == WEIR_WINDOW_DAY)
		n->window_ns = 86400 * NS_PER_S;
	else if (l->window_kind == WEIR_WINDOW_WEEK)
		n->window_ns = 7 * 86400 * NS_PER_S; /* a month has no one length: left out */
}

/* The bucket of new keys is a limit by itself, with the same salt. */
static int number_fresh(struct weir_rule *rule, __u64 salt, struct weir_store_limit *ret)
{
	struct weir_conf_request_limit l = {.algorithm = WEIR_REQUEST_TOKEN_BUCKET,
					    .key_text = (char *)"new_per_ip",
					    .rate = {rule->conf->new_per_ip},
					    .burst = {rule->conf->new_per_ip.count},
					    .scope = rule->conf->scope};

	memcpy(l.name, rule->conf->name, sizeof(l.name));
	rule->has_fresh = l.rate[0].count > 0;
	return rule->has_fresh ? weir_conf_store_limit(&l, 0, salt, ret) : 0;
}

int weir_rules_number(struct weir_rules *r, struct weir_rule *rule, __u64 salt)
{
	struct weir_rule_numbers *list = weir_rules_alloc(r, r->n_plan, sizeof(*list));
	int error;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_plan; i++) {
		error = weir_conf_store_limit(rule->conf, i, salt, &list[i].store);
		if (error < 0)
			return error;
		list[i].store.calendar = rule->calendar;
		list[i].store.lease = rule->host ? 0 : rule->conf->lease[i];
		list[i].at = (size_t)(rule - r->rule) * r->n_plan + i;
		show(rule->conf, i, &list[i]);
	}
	rule->numbers = list;
	rule->salt = salt;
	return number_fresh(rule, salt, &rule->fresh);
}

/* --- a host's part of it ---- */

static __u64 part_of(__u64 n, __u64 parts, __u64 whole)
{
	unsigned __int128 v = (unsigned __int128)n * parts / whole;

	return v ? (__u64)v : 1;
}

/* Slower by parts / whole. */
static struct weir_conf_rate slower(const struct weir_conf_rate *rate, __u64 parts, __u64 whole)
{
	unsigned __int128 count = (unsigned __int128)rate->count * parts;
	unsigned __int128 per_ns = (unsigned __int128)rate->per_ns * whole;
	const __u64 most = WEIR_REQUEST_EXACT_MAX / 2;

	if (count < most && per_ns < most * NS_PER_US)
		return (struct weir_conf_rate){(__u64)count, (__u64)per_ns};
	per_ns = (per_ns / count / NS_PER_US + 1) * NS_PER_US; /* each by itself, rounded up */
	return (struct weir_conf_rate){1, per_ns < most * NS_PER_US ? (__u64)per_ns
								    : most * NS_PER_US};
}

void weir_rule_local(const struct weir_rule *rule, size_t plan, __u64 parts, __u64 whole,
		     __u64 salt, struct weir_store_limit *ret, struct weir_store_limit *ret_fresh)
{
	struct weir_conf_request_limit l = *rule->conf;
	struct weir_rule other = {.conf = rule->conf};

	l.limit[plan] = part_of(l.limit[plan], parts, whole);
	l.burst[plan] = part_of(l.burst[plan], parts, whole);
	l.queue[plan] = (__u64)((unsigned __int128)l.queue[plan] * parts / whole);
	l.rate[plan] = slower(&l.rate[plan], parts, whole);
	memcpy(other.name, rule->name, sizeof(other.name));
	if (weir_conf_store_limit(&l, plan, salt, ret) < 0 &&
	    weir_conf_store_limit(rule->conf, plan, salt, ret) < 0)
		*ret = rule->numbers[plan].store;
	ret->calendar = rule->calendar;
	if (!rule->has_fresh || number_fresh(&other, salt, ret_fresh) < 0)
		*ret_fresh = rule->fresh;
}

static int set_calendar(struct weir_rules *r, struct weir_rule *rule, __u64 now_us,
			struct weir_error *e)
{
	static const __u64 days[] = {1, 7, 31};
	const struct weir_conf_request_limit *l = rule->conf;
	struct weir_calendar *c;
	unsigned unit;
	int error;

	if (l->algorithm != WEIR_REQUEST_FIXED_WINDOW || l->window_kind == WEIR_WINDOW_LENGTH)
		return 0;
	unit = l->window_kind - WEIR_WINDOW_DAY;
	error = weir_calendar_new(l->timezone ? l->timezone : "UTC", (enum weir_calendar_unit)unit,
				  now_us, &c, e);
	if (error < 0)
		return error == -ENOMEM ? weir_error_set(e, error, "out of memory") : error;
	r->calendar[r->n_calendar++] = c;
	rule->calendar = c;
	rule->calendar_us = days[unit] * 86400 * 1000000;
	return 0;
}

static int copy_conf(struct weir_rules *r, const struct weir_conf_request_limit *l,
		     struct weir_conf_request_limit **ret)
{
	struct weir_conf_request_limit *c = weir_rules_alloc(r, 1, sizeof(*c));
	struct weir_text text = {"", 0}, zone = {NULL, 0};

	if (!c || (l->key_text && weir_rules_text(r, l->key_text, &text) < 0) ||
	    (l->timezone && weir_rules_text(r, l->timezone, &zone) < 0))
		return -ENOMEM;
	*c = *l;
	c->match = (struct weir_conf_request_match){.n_method = 0};
	c->key_text = (char *)text.p;
	c->timezone = (char *)zone.p;
	*ret = c;
	return 0;
}

int weir_rules_limit(struct weir_rules *r, size_t i, const struct weir_conf_request_limit *l,
		     __u64 now_us, struct weir_error *e)
{
	struct weir_rule *rule = &r->rule[i];
	struct weir_conf_request_limit *conf;
	int error;

	if (copy_conf(r, l, &conf) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(rule->name, l->name, sizeof(rule->name));
	rule->algorithm = l->algorithm;
	rule->monitor = l->mode == WEIR_MODE_MONITOR;
	rule->on_store_failure = l->on_store_failure;
	rule->host = l->scope == WEIR_SCOPE_HOST;
	rule->cost = l->cost;
	rule->conf = conf;
	rule->key = &conf->key;
	rule->key_has_endpoint = spec_has(&l->key, WEIR_KEY_ENDPOINT);
	rule->tag_ip = l->key.n == 1 && l->key.choice[0].n > 1 && spec_has(&l->key, WEIR_KEY_IP);
	r->uses_host |= spec_has(&l->key, WEIR_KEY_HOST);
	set_classes(r, i);
	error = add_match(r, &l->match, &rule->match, e);
	if (error >= 0)
		error = set_calendar(r, rule, now_us, e);
	return error < 0 ? weir_error_prefix(e, error, "limit '%s'", l->name) : 0;
}
