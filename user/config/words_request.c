/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request limit in a sentence; explain_request.c has the rest of the request layer. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"
#include "user/config/words.h"

/* --- which requests ---- */

void weir_say_texts(struct weir_words *o, const char *before, char *const *item, size_t n)
{
	char shown[WEIR_SHOWN_MAX];

	if (n == 0)
		return;
	weir_say(o, "%s", before);
	for (size_t i = 0; i < n && i < WEIR_ITEMS_SHOWN; i++)
		weir_say(o, "%s%s", weir_comma(i, n, " or "),
			 weir_conf_shown(item[i], strlen(item[i]), shown));
	if (n > WEIR_ITEMS_SHOWN)
		weir_say(o, " and %zu more", n - WEIR_ITEMS_SHOWN);
}

static void say_match(struct weir_words *o, const struct weir_conf_request_match *m)
{
	char shown[WEIR_SHOWN_MAX];

	if (!m->n_method && !m->n_path && !m->n_host && !m->n_header)
		weir_say(o, "all ");
	weir_say_texts(o, "", m->method, m->n_method);
	weir_say(o, "%srequests", m->n_method ? " " : "");
	weir_say_texts(o, " to ", m->path, m->n_path);
	weir_say_texts(o, " at ", m->host, m->n_host);
	for (size_t i = 0; i < m->n_header; i++) {
		const struct weir_conf_header_match *h = &m->header[i];

		weir_say(o, "%s%s", i ? " and " : " with ", h->name);
		if (h->value)
			weir_say(o, ": %s", weir_conf_shown(h->value, strlen(h->value), shown));
	}
}

/* --- who is counted ---- */

const char *const weir_key_part_words[WEIR_KEY_KIND_MAX] = {
	[WEIR_KEY_NONE] = "",
	[WEIR_KEY_IP] = "address",
	[WEIR_KEY_USER] = "user",
	[WEIR_KEY_API_KEY] = "API key",
	[WEIR_KEY_TOKEN] = "bearer token",
	[WEIR_KEY_USER_AGENT] = "user agent",
	[WEIR_KEY_ENDPOINT] = "endpoint",
	[WEIR_KEY_METHOD] = "method",
	[WEIR_KEY_PATH] = "path",
	[WEIR_KEY_HOST] = "host",
	[WEIR_KEY_GLOBAL] = "all together",
	[WEIR_KEY_HEADER] = "header",
	[WEIR_KEY_COOKIE] = "cookie",
	[WEIR_KEY_QUERY] = "query parameter",
};

static void say_choice(struct weir_words *o, const struct weir_key_choice *c)
{
	char shown[WEIR_SHOWN_MAX];

	for (size_t i = 0; i < c->n; i++) {
		const struct weir_key_part *p = &c->part[i];

		weir_say(o, "%s%s%s%s", weir_comma(i, c->n, " with "), weir_key_part_words[p->kind],
			 *p->name ? " " : "", weir_conf_shown(p->name, strlen(p->name), shown));
	}
}

/* Can it be that nothing of the key is there? */
static bool may_miss(const struct weir_key_spec *key)
{
	for (size_t i = 0; i < key->n; i++) {
		const struct weir_key_choice *c = &key->choice[i];
		bool sure = true;

		for (size_t k = 0; k < c->n; k++)
			sure &= c->part[k].kind == WEIR_KEY_IP ||
				c->part[k].kind == WEIR_KEY_ENDPOINT ||
				c->part[k].kind == WEIR_KEY_METHOD ||
				c->part[k].kind == WEIR_KEY_GLOBAL ||
				c->part[k].kind == WEIR_KEY_PATH;
		if (sure)
			return false;
	}
	return key->n > 0;
}

static void say_key(struct weir_words *o, const struct weir_conf_request_limit *l)
{
	const struct weir_key_spec *key = &l->key;
	bool alone = key->n == 1 && key->choice[0].n == 1;
	char a[WEIR_STR_MAX];

	if (alone && key->choice[0].part[0].kind == WEIR_KEY_IP) {
		weir_say_source(o, key->ipv4_prefix, key->ipv6_prefix);
		return;
	}
	if (alone && key->choice[0].part[0].kind == WEIR_KEY_GLOBAL) {
		weir_say(o, "all clients together");
		return;
	}
	weir_say(o, "each ");
	for (size_t i = 0; i < key->n; i++) {
		weir_say(o, "%s", i ? ", else " : "");
		say_choice(o, &key->choice[i]);
	}
	if (weir_key_counts_ip(key) && (key->ipv4_prefix != 32 || key->ipv6_prefix != 64)) {
		weir_say(o, " (of addresses ");
		weir_say_source(o, key->ipv4_prefix, key->ipv6_prefix);
		weir_say(o, ")");
	}
	if (may_miss(key))
		weir_say(o, "%s",
			 key->missing == WEIR_KEY_MISSING_IP	 ? ", else address"
			 : key->missing == WEIR_KEY_MISSING_SKIP ? " (without one: no limit)"
								 : " (without one: refused)");
	if (l->new_per_ip.count)
		weir_say(o, " (one address may bring %llu new ones in %s)", l->new_per_ip.count,
			 weir_str_format_duration(l->new_per_ip.per_ns, a));
}

/* --- how many ---- */

static const char *rate_words(const struct weir_conf_rate *rate, char buf[static WEIR_STR_MAX])
{
	struct weir_rate r = {.amount = rate->count, .per_ns = rate->per_ns};

	return weir_str_format_rate(&r, buf);
}

/* The numbers of one plan: "50/s and 200 at once". */
static void say_numbers(struct weir_words *o, const struct weir_conf_request_limit *l, size_t plan)
{
	char a[WEIR_STR_MAX];

	switch (l->algorithm) {
	case WEIR_REQUEST_TOKEN_BUCKET:
		weir_say(o, "%s and %llu at once", rate_words(&l->rate[plan], a), l->burst[plan]);
		break;
	case WEIR_REQUEST_LEAKY_BUCKET:
		weir_say(o, "%s, while %llu wait", rate_words(&l->rate[plan], a), l->queue[plan]);
		weir_say(o, " for at most %s", weir_str_format_duration(l->max_wait_ns[plan], a));
		break;
	default:
		weir_say(o, "%llu", l->limit[plan]);
	}
}

static void say_window(struct weir_words *o, const struct weir_conf_request_limit *l)
{
	char a[WEIR_STR_MAX] = "";

	if (l->window_kind == WEIR_WINDOW_LENGTH)
		weir_str_format_duration(l->window_ns, a);
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		if (l->window_kind == WEIR_WINDOW_LENGTH)
			weir_say(o, " in each window of %s, twice as many around its edge", a);
		else
			weir_say(o, " in each %s (%s)",
				 weir_words_calendar[l->window_kind - WEIR_WINDOW_DAY],
				 l->timezone ? l->timezone : "UTC");
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		weir_say(o, " in any %s", a);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		weir_say(o, " in the last %s by estimate, at worst %llu in one true window", a,
			 2 * l->limit[0] - 1);
		break;
	default:
		break;
	}
}

static bool same_numbers(const struct weir_conf_request_limit *l, size_t a, size_t b)
{
	if (weir_request_has_window(l->algorithm))
		return l->limit[a] == l->limit[b];
	if (l->rate[a].count != l->rate[b].count || l->rate[a].per_ns != l->rate[b].per_ns)
		return false;
	return l->algorithm == WEIR_REQUEST_TOKEN_BUCKET
		       ? l->burst[a] == l->burst[b]
		       : l->queue[a] == l->queue[b] && l->max_wait_ns[a] == l->max_wait_ns[b];
}

static void say_plans(struct weir_words *o, const struct weir_conf_request *q,
		      const struct weir_conf_request_limit *l)
{
	bool differ = false;

	for (size_t i = 1; i < q->n_plan; i++)
		differ |= !same_numbers(l, 0, i);
	if (!differ)
		return;
	weir_say(o, " (");
	for (size_t i = 1; i < q->n_plan; i++) {
		weir_say(o, "%splan %s: ", i > 1 ? "; " : "", q->plan[i]);
		say_numbers(o, l, i);
	}
	weir_say(o, ")");
}

int weir_conf_request_words(const struct weir_conf_request *q,
			    const struct weir_conf_request_limit *l, char *buf, size_t n)
{
	struct weir_words o = {.buf = buf, .size = n};

	if (n)
		buf[0] = '\0';
	weir_say(&o, "%s: of ", l->name);
	say_match(&o, &l->match);
	weir_say(&o, ", ");
	say_key(&o, l);
	weir_say(&o, " may make ");
	say_numbers(&o, l, 0);
	say_window(&o, l);
	say_plans(&o, q, l);
	if (l->cost.from_proxy)
		weir_say(&o, "; one counts as %llu to %llu, as the proxy says", l->cost.min,
			 l->cost.max);
	else if (l->cost.fixed != 1)
		weir_say(&o, "; one counts as %llu", l->cost.fixed);
	weir_say(&o, "; more is refused");
	if (l->on_store_failure != WEIR_FAILURE_LOCAL)
		weir_say(&o, "; while the store is away %s",
			 l->on_store_failure == WEIR_FAILURE_OPEN ? "all pass" : "all are refused");
	weir_say(&o, l->mode == WEIR_MODE_MONITOR ? " (monitor: only counted)." : ".");
	return (int)o.n;
}
