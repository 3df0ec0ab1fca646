/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a right file says about requests but rarely means: limits that a client walks around, answers that a proxy does
 * not wait for, rules that can never act. Called once a whole file is read.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"

#define SECOND_NS 1000000000ull

__attribute__((format(printf, 3, 4))) static void warn_at(const struct weir_reader *r, int line,
							  const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	weir_problems_vadd(r->problems, true, NULL, line, 0, format, ap);
	va_end(ap);
}

/* --- does one limit meet every request that another meets? ---- */

static bool path_within(const struct weir_path_options *o, const char *inner, const char *outer)
{
	struct weir_path_pattern a = {.n = 0}, b = {.n = 0};
	bool yes = false;

	if (weir_path_pattern_parse(inner, o, &a, NULL) == 0 &&
	    weir_path_pattern_parse(outer, o, &b, NULL) == 0) {
		if (a.n >= b.n && memcmp(a.text, b.text, b.n) == 0)
			yes = a.n == b.n ? b.below || !a.below
					 : b.below && (b.n == 1 || a.text[b.n] == '/');
	}
	weir_path_pattern_done(&a);
	weir_path_pattern_done(&b);
	return yes;
}

static bool host_within(const struct weir_path_options *o, const char *inner, const char *outer)
{
	size_t n = strlen(inner), m = strlen(outer);

	(void)o;
	if (strcmp(inner, outer) == 0)
		return true;
	return m > 1 && outer[0] == '*' && n > m - 1 && strcmp(inner + n - (m - 1), outer + 1) == 0;
}

static bool method_within(const struct weir_path_options *o, const char *inner, const char *outer)
{
	(void)o;
	return strcmp(inner, outer) == 0;
}

typedef bool within_fn(const struct weir_path_options *o, const char *inner, const char *outer);

/* Is each of @inner in one of @outer? None at all is everything. */
static bool all_within(const struct weir_path_options *o, char *const *inner, size_t n_inner,
		       char *const *outer, size_t n_outer, within_fn *within)
{
	if (n_outer == 0)
		return true;
	for (size_t i = 0; i < n_inner; i++) {
		bool found = false;

		for (size_t k = 0; k < n_outer && !found; k++)
			found = within(o, inner[i], outer[k]);
		if (!found)
			return false;
	}
	return n_inner > 0;
}

static bool headers_within(const struct weir_conf_request_match *inner,
			   const struct weir_conf_request_match *outer)
{
	for (size_t i = 0; i < outer->n_header; i++) {
		const struct weir_conf_header_match *h = &outer->header[i];
		bool found = false;

		for (size_t k = 0; k < inner->n_header && !found; k++)
			found = weir_text_equal_fold(weir_text_of(inner->header[k].name),
						     weir_text_of(h->name)) &&
				(!h->value || (inner->header[k].value &&
					       strcmp(inner->header[k].value, h->value) == 0));
		if (!found)
			return false;
	}
	return true;
}

static bool covers(const struct weir_path_options *o, const struct weir_conf_request_match *outer,
		   const struct weir_conf_request_match *inner)
{
	return all_within(o, inner->method, inner->n_method, outer->method, outer->n_method,
			  method_within) &&
	       all_within(o, inner->path, inner->n_path, outer->path, outer->n_path, path_within) &&
	       all_within(o, inner->host, inner->n_host, outer->host, outer->n_host, host_within) &&
	       headers_within(inner, outer);
}

/* Counts each address, whatever a client writes, and acts. */
static bool counts_address(const struct weir_conf_request_limit *l)
{
	return l->mode == WEIR_MODE_ENFORCE && l->key.n == 1 &&
	       weir_choice_has(&l->key.choice[0], WEIR_KEY_IP) &&
	       !weir_choice_is_chosen(&l->key.choice[0]) &&
	       !weir_choice_has(&l->key.choice[0], WEIR_KEY_USER);
}

/* The part of a key that a client can change with every request; NULL: none. Few paths or hosts are no choice. */
static const struct weir_key_part *rotating_part(const struct weir_conf_request_limit *l)
{
	const struct weir_conf_request_match *m = &l->match;
	bool few_paths = m->n_path > 0, few_hosts = m->n_host > 0;

	for (size_t i = 0; i < m->n_path; i++)
		few_paths &=
			strlen(m->path[i]) < 2 || strcmp(m->path[i] + strlen(m->path[i]) - 2, "/*");
	for (size_t i = 0; i < m->n_host; i++)
		few_hosts &= m->host[i][0] != '*';
	for (size_t i = 0; i < l->key.n; i++) {
		const struct weir_key_choice *c = &l->key.choice[i];

		for (size_t k = 0; k < c->n; k++) {
			struct weir_key_choice one = {.part = {c->part[k]}, .n = 1};

			if (weir_choice_is_chosen(&one) &&
			    !(c->part[k].kind == WEIR_KEY_PATH && few_paths) &&
			    !(c->part[k].kind == WEIR_KEY_HOST && few_hosts))
				return &c->part[k];
		}
	}
	return NULL;
}

static void warn_rotating(const struct weir_reader *r, const struct weir_conf_request *q,
			  const struct weir_conf_request_limit *l)
{
	const struct weir_key_part *part = rotating_part(l);

	if (!part)
		return;
	for (size_t i = 0; i < q->n_limit; i++)
		if (&q->limit[i] != l && counts_address(&q->limit[i]) &&
		    covers(&q->path, &q->limit[i].match, &l->match))
			return;
	if (l->new_per_ip.count) /* keys that stay in use stay: the sum has no bound */
		warn_at(r, l->line,
			"limit \"%s\": new_per_ip lets an address keep every %s%s%s that it goes "
			"on using, and no limit with key: ip bounds them all (add one)",
			l->name, weir_key_kind_name(part->kind), *part->name ? ":" : "",
			part->name);
	else
		warn_at(r, l->line,
			"limit \"%s\": a client that writes another %s%s%s into each request never "
			"meets it, and no limit with key: ip counts the same requests (add one, "
			"and new_per_ip)",
			l->name, weir_key_kind_name(part->kind), *part->name ? ":" : "",
			part->name);
}

/* --- leaky buckets hold answers, and proxies wait for so long ---- */

/* What a proxy waits if its configuration does not say; 0: it is not told of waiting at all; ~0: it has no bound. */
static __u64 patience_ns(enum weir_profile p)
{
	switch (p) {
	case WEIR_PROFILE_ENVOY:
	case WEIR_PROFILE_SPOE:
		return 0;
	case WEIR_PROFILE_NGINX:
		return 60 * SECOND_NS;
	case WEIR_PROFILE_TRAEFIK:
		return 30 * SECOND_NS;
	default:
		return ~0ull;
	}
}

static __u64 longest_wait(const struct weir_conf_request *q,
			  const struct weir_conf_request_limit *l)
{
	__u64 most = l->max_wait_ns[0];

	for (size_t i = 1; i < q->n_plan; i++)
		most = l->max_wait_ns[i] > most ? l->max_wait_ns[i] : most;
	return most;
}

static void warn_waiting(const struct weir_reader *r, const struct weir_conf_request *q,
			 const struct weir_conf_request_limit *l)
{
	bool seen[WEIR_PROFILE_MAX] = {false};
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	__u64 wait = longest_wait(q, l);

	if (l->algorithm != WEIR_REQUEST_LEAKY_BUCKET || !wait)
		return;
	for (size_t i = 0; i < q->n_listener; i++)
		seen[q->listener[i].profile] = true;
	if (seen[WEIR_PROFILE_ENVOY] || seen[WEIR_PROFILE_SPOE])
		warn_at(r, l->line,
			"limit \"%s\": no answer is held for %s%s%s, so there the leaky bucket "
			"admits only whose turn is now",
			l->name, seen[WEIR_PROFILE_ENVOY] ? "envoy" : "",
			seen[WEIR_PROFILE_ENVOY] && seen[WEIR_PROFILE_SPOE] ? " and " : "",
			seen[WEIR_PROFILE_SPOE] ? "haproxy-spoe" : "");
	for (unsigned p = 0; p < WEIR_PROFILE_MAX; p++)
		if (seen[p] && patience_ns(p) && wait > patience_ns(p))
			warn_at(r, l->line,
				"limit \"%s\": max_wait %s is longer than %s waits (%s unless told "
				"otherwise)",
				l->name, weir_str_format_duration(wait, a), weir_profile_name(p),
				weir_str_format_duration(patience_ns(p), b));
}

/* --- what never acts ---- */

static bool asks(const struct weir_conf_listener *l)
{
	return l->profile != WEIR_PROFILE_METRICS;
}

/* Does the address of some client come from a proxy, not from a caller's word? */
static bool sees_clients(const struct weir_conf_request *q)
{
	for (size_t i = 0; i < q->n_listener; i++)
		if (asks(&q->listener[i]) && q->listener[i].profile != WEIR_PROFILE_JSON)
			return true;
	return false;
}

static void warn_idle(const struct weir_reader *r, const struct weir_conf_request *q)
{
	bool asked = false, limits = q->n_limit || q->suspicious.given;

	for (size_t i = 0; i < q->n_listener; i++)
		asked |= asks(&q->listener[i]);
	if (q->n_limit && !asked)
		weir_reader_warn(
			r, weir_reader_top_at(r, "", "request_limits"),
			"request_limits: no proxy can ask (http: {listeners: [{listen: "
			"127.0.0.1:9470, profile: nginx, trusted_proxies: [127.0.0.1]}]})");
	if (asked && !limits)
		weir_reader_warn(r, weir_reader_top_at(r, "http", "listeners"),
				 "listeners: there are no request_limits, so every answer is yes");
	if (q->n_plan > 1 && !q->header_plan && !q->plans_file)
		weir_reader_warn(r, weir_reader_top_at(r, "", "plans"),
				 "plans: nothing says who has which, so everybody has %s "
				 "(plans_file, or http: {proxy_headers: {plan: X-Plan}})",
				 q->plan[0]);
	if (q->header_plan && !q->n_plan)
		weir_reader_warn(
			r, weir_reader_top_at(r, "http.proxy_headers", "plan"),
			"plan: there are no plans, so %s says nothing (plans: [free, pro])",
			q->header_plan);
}

static void warn_proxy_headers(const struct weir_reader *r, const struct weir_conf_request *q)
{
	const char *name[] = {q->header_user, q->header_plan, q->header_cost}, *given[3];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(name); i++)
		if (name[i])
			given[n++] = name[i];
	if (!n)
		return;
	weir_reader_warn(r, weir_reader_top_at(r, "http", "proxy_headers"),
			 "proxy_headers: your proxy must set or remove %s%s%s%s%s on every "
			 "request, or clients write what they like into %s",
			 given[0], n == 3 ? ", " : "", n == 3 ? given[1] : "", n > 1 ? " and " : "",
			 n > 1 ? given[n - 1] : "", n > 1 ? "them" : "it");
}

static void warn_layers(const struct weir_reader *r, const struct weir_conf *c)
{
	const struct weir_conf_request *q = &c->request;
	bool packets = c->n_interfaces || c->attach == WEIR_ATTACH_EXTERNAL;

	if (q->suspicious.n_packet_limits && !packets)
		weir_reader_warn(r, weir_reader_top_at(r, "suspicious", "packet_limits"),
				 "packet_limits: no interface is named, so nobody is ever over "
				 "them (unless -i names one)");
	for (size_t i = 0; i < q->n_escalate; i++) {
		const struct weir_conf_escalate *e = &q->escalate[i];

		if (!packets)
			warn_at(r, e->line,
				"escalate: %s: no interface is named, so it blocks nobody (unless "
				"-i names one)",
				e->name);
		if (!sees_clients(q))
			warn_at(r, e->line,
				"escalate: %s: only addresses that a proxy names are blocked, and "
				"no listener has a proxy's profile",
				e->name);
		if (e->unless_identities && !q->header_user && !q->plans_file)
			warn_at(r, e->line,
				"escalate: %s: unless_identities never spares anybody: weir knows "
				"of no users and no API keys with a plan (http: {proxy_headers: "
				"{user: X-User}}, or plans_file)",
				e->name);
	}
}

void weir_request_warn(struct weir_reader *r, const struct weir_conf *c)
{
	const struct weir_conf_request *q = &c->request;

	for (size_t i = 0; i < q->n_limit; i++) {
		warn_rotating(r, q, &q->limit[i]);
		warn_waiting(r, q, &q->limit[i]);
	}
	if (q->suspicious.given) {
		warn_rotating(r, q, &q->suspicious.limit);
		warn_waiting(r, q, &q->suspicious.limit);
	}
	warn_idle(r, q);
	warn_proxy_headers(r, q);
	warn_layers(r, c);
}
