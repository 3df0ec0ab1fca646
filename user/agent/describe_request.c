/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What changed between two configurations in the request layer, a line each; see describe.h. Pure. Called by describe.c. */
#include <stdarg.h>
#include <string.h>

#include "user/agent/describe.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"
#include "user/config/request.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_texts(char *const *a, size_t n_a, char *const *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (!same_text(a[i], b[i]))
			return false;
	return true;
}

static bool same_prefixes(const struct weir_prefix_list *a, const struct weir_prefix_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (weir_prefix_compare(&a->item[i], &b->item[i]))
			return false;
	return true;
}

/* --- listeners ---- */

/* What listener @i of @from is in @r: port 0 may be there several times. */
static const struct weir_conf_listener *
find_listener(const struct weir_conf_request *r, const struct weir_conf_request *from, size_t i)
{
	const char *listen = from->listener[i].listen;
	size_t before = 0;

	for (size_t k = 0; k < i; k++)
		before += !strcmp(from->listener[k].listen, listen);
	for (size_t k = 0; k < r->n_listener; k++)
		if (!strcmp(r->listener[k].listen, listen) && !before--)
			return &r->listener[k];
	return NULL;
}

static bool same_listener(const struct weir_conf_listener *a, const struct weir_conf_listener *b)
{
	return a->profile == b->profile && a->unix_mode == b->unix_mode &&
	       same_text(a->token_file, b->token_file) && same_text(a->group, b->group) &&
	       same_prefixes(&a->trusted, &b->trusted);
}

static void diff_listeners(const struct weir_describe_to *d, const struct weir_conf_request *from,
			   const struct weir_conf_request *to)
{
	for (size_t i = 0; i < from->n_listener; i++) {
		const struct weir_conf_listener *a = &from->listener[i],
						*b = find_listener(to, from, i);

		if (!b)
			weir_describe_say(d, "http.listeners: - %s %s", a->listen,
					  weir_profile_name(a->profile));
		else if (a->profile != b->profile)
			weir_describe_say(d, "http.listeners: %s: profile %s -> %s", a->listen,
					  weir_profile_name(a->profile),
					  weir_profile_name(b->profile));
		else if (!same_listener(a, b))
			weir_describe_say(d, "http.listeners: %s: changed", a->listen);
	}
	for (size_t i = 0; i < to->n_listener; i++)
		if (!find_listener(from, to, i))
			weir_describe_say(d, "http.listeners: + %s %s", to->listener[i].listen,
					  weir_profile_name(to->listener[i].profile));
}

/* --- limits ---- */

const char *weir_describe_request_limit(const struct weir_conf_request *r,
					const struct weir_conf_request_limit *l,
					char buf[static WEIR_DESCRIBE_REQUEST_MAX])
{
	size_t name = strlen(l->name), n;

	buf[0] = '\0';
	(void)weir_conf_request_words(r, l, buf, WEIR_DESCRIBE_REQUEST_MAX); /* cut if long */
	n = strlen(buf);
	if (n && buf[n - 1] == '.')
		buf[--n] = '\0';
	if (!strncmp(buf, l->name, name) && !strncmp(buf + name, ": ", 2))
		memmove(buf, buf + name + 2, n - name - 1);
	return buf;
}

static const struct weir_conf_request_limit *find_limit(const struct weir_conf_request *r,
							const char *name)
{
	for (size_t i = 0; i < r->n_limit; i++)
		if (!strcmp(r->limit[i].name, name))
			return &r->limit[i];
	return NULL;
}

static bool same_match(const struct weir_conf_request_match *a,
		       const struct weir_conf_request_match *b)
{
	if (!same_texts(a->method, a->n_method, b->method, b->n_method) ||
	    !same_texts(a->path, a->n_path, b->path, b->n_path) ||
	    !same_texts(a->host, a->n_host, b->host, b->n_host) || a->n_header != b->n_header)
		return false;
	for (size_t i = 0; i < a->n_header; i++)
		if (!same_text(a->header[i].name, b->header[i].name) ||
		    !same_text(a->header[i].value, b->header[i].value))
			return false;
	return true;
}

/* All that a limit's numbers are, for every plan. */
static bool same_numbers(const struct weir_conf_request_limit *a,
			 const struct weir_conf_request_limit *b)
{
	return !memcmp(a->rate, b->rate, sizeof(a->rate)) &&
	       !memcmp(a->burst, b->burst, sizeof(a->burst)) &&
	       !memcmp(a->limit, b->limit, sizeof(a->limit)) &&
	       !memcmp(a->queue, b->queue, sizeof(a->queue)) &&
	       !memcmp(a->max_wait_ns, b->max_wait_ns, sizeof(a->max_wait_ns)) &&
	       a->cost.from_proxy == b->cost.from_proxy && a->cost.fixed == b->cost.fixed &&
	       a->cost.min == b->cost.min && a->cost.max == b->cost.max &&
	       a->new_per_ip.count == b->new_per_ip.count &&
	       a->new_per_ip.per_ns == b->new_per_ip.per_ns;
}

/* What the identity of its state is made of. */
static bool same_identity(const struct weir_conf_request_limit *a,
			  const struct weir_conf_request_limit *b)
{
	return a->algorithm == b->algorithm && same_text(a->key_text, b->key_text) &&
	       a->window_kind == b->window_kind && a->window_ns == b->window_ns &&
	       same_text(a->timezone, b->timezone) && a->scope == b->scope;
}

static void diff_limit(const struct weir_describe_to *d, const struct weir_conf_request *from,
		       const struct weir_conf_request_limit *a, const struct weir_conf_request *to,
		       const struct weir_conf_request_limit *b)
{
	char before[WEIR_DESCRIBE_REQUEST_MAX], after[WEIR_DESCRIBE_REQUEST_MAX];

	(void)weir_describe_request_limit(from, a, before);
	(void)weir_describe_request_limit(to, b, after);
	if (a->mode != b->mode)
		weir_describe_say(d, "request limit %s: mode %s -> %s", a->name,
				  weir_mode_name(a->mode), weir_mode_name(b->mode));
	if (!same_match(&a->match, &b->match))
		weir_describe_say(d, "request limit %s: match changed", a->name);
	if (!same_numbers(a, b) || !same_identity(a, b)) {
		if (strcmp(before, after) != 0)
			weir_describe_say(d, "request limit %s: %s -> %s", a->name, before, after);
		else if (a->scope != b->scope)
			weir_describe_say(d, "request limit %s: scope %s -> %s", a->name,
					  weir_words_scope[a->scope], weir_words_scope[b->scope]);
		else
			weir_describe_say(d, "request limit %s: numbers of some plan changed",
					  a->name);
	}
	if (a->on_store_failure != b->on_store_failure)
		weir_describe_say(d, "request limit %s: on_store_failure %s -> %s", a->name,
				  weir_on_store_failure_name(a->on_store_failure),
				  weir_on_store_failure_name(b->on_store_failure));
	if (memcmp(a->lease, b->lease, sizeof(a->lease)) != 0)
		weir_describe_say(d, "request limit %s: lease changed", a->name);
	if (a->key.missing != b->key.missing)
		weir_describe_say(d, "request limit %s: missing changed", a->name);
	if (!same_identity(a, b))
		weir_describe_say(d, "request limit %s: begins with empty state", a->name);
}

static void diff_limits(const struct weir_describe_to *d, const struct weir_conf_request *from,
			const struct weir_conf_request *to)
{
	char words[WEIR_DESCRIBE_REQUEST_MAX];

	for (size_t i = 0; i < from->n_limit; i++) {
		const struct weir_conf_request_limit *b = find_limit(to, from->limit[i].name);

		if (b)
			diff_limit(d, from, &from->limit[i], to, b);
		else
			weir_describe_say(d, "request limit %s: removed", from->limit[i].name);
	}
	for (size_t i = 0; i < to->n_limit; i++) {
		if (find_limit(from, to->limit[i].name))
			continue;
		weir_describe_say(d, "request limit %s: added: %s", to->limit[i].name,
				  weir_describe_request_limit(to, &to->limit[i], words));
	}
}

/* --- the rest ---- */

static bool same_names(const char (*a)[WEIR_NAME_MAX], size_t n_a, const char (*b)[WEIR_NAME_MAX],
		       size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}
#define NAMES(p) ((const char(*)[WEIR_NAME_MAX])(p))

static bool same_refused(const struct weir_conf_refused *a, const struct weir_conf_refused *b)
{
	return a->count == b->count && a->within_ns == b->within_ns &&
	       same_names(NAMES(a->limits), a->n_limits, NAMES(b->limits), b->n_limits);
}

static void diff_suspicious(const struct weir_describe_to *d, const struct weir_conf_request *from,
			    const struct weir_conf_request *to)
{
	const struct weir_conf_suspicious *a = &from->suspicious, *b = &to->suspicious;

	if (a->given != b->given)
		weir_describe_say(d, "suspicious: %s", b->given ? "added" : "removed");
	if (!a->given || !b->given)
		return;
	if (!same_refused(&a->refused, &b->refused) || a->lasts_ns != b->lasts_ns ||
	    !same_names(NAMES(a->packet_limits), a->n_packet_limits, NAMES(b->packet_limits),
			b->n_packet_limits))
		weir_describe_say(d, "suspicious: changed");
	diff_limit(d, from, &a->limit, to, &b->limit);
}

static const struct weir_conf_escalate *find_rule(const struct weir_conf_request *r,
						  const char *name)
{
	for (size_t i = 0; i < r->n_escalate; i++)
		if (!strcmp(r->escalate[i].name, name))
			return &r->escalate[i];
	return NULL;
}

static void diff_escalate(const struct weir_describe_to *d, const struct weir_conf_request *from,
			  const struct weir_conf_request *to)
{
	for (size_t i = 0; i < from->n_escalate; i++) {
		const struct weir_conf_escalate *a = &from->escalate[i],
						*b = find_rule(to, a->name);

		if (!b)
			weir_describe_say(d, "escalate %s: removed", a->name);
		else if (a->mode != b->mode)
			weir_describe_say(d, "escalate %s: mode %s -> %s", a->name,
					  weir_mode_name(a->mode), weir_mode_name(b->mode));
		else if (!same_refused(&a->refused, &b->refused) ||
			 a->block_for_ns != b->block_for_ns ||
			 a->at_most.count != b->at_most.count ||
			 a->at_most.per_ns != b->at_most.per_ns ||
			 a->unless_identities != b->unless_identities)
			weir_describe_say(d, "escalate %s: changed", a->name);
	}
	for (size_t i = 0; i < to->n_escalate; i++)
		if (!find_rule(from, to->escalate[i].name))
			weir_describe_say(d, "escalate %s: added", to->escalate[i].name);
}

static bool same_exempt(const struct weir_conf_request *a, const struct weir_conf_request *b)
{
	if (a->n_exempt != b->n_exempt)
		return false;
	for (size_t i = 0; i < a->n_exempt; i++) {
		const struct weir_conf_exempt *x = &a->exempt[i], *y = &b->exempt[i];

		if (!same_prefixes(&x->source, &y->source) || x->preflight != y->preflight ||
		    !same_texts(x->path, x->n_path, y->path, y->n_path) ||
		    !same_texts(x->method, x->n_method, y->method, y->n_method))
			return false;
	}
	return true;
}

static bool same_api_key(const struct weir_conf_request *a, const struct weir_conf_request *b)
{
	if (a->n_api_key != b->n_api_key)
		return false;
	for (size_t i = 0; i < a->n_api_key; i++)
		if (a->api_key[i].kind != b->api_key[i].kind ||
		    strcmp(a->api_key[i].name, b->api_key[i].name) != 0)
			return false;
	return true;
}

static void diff_http(const struct weir_describe_to *d, const struct weir_conf_request *a,
		      const struct weir_conf_request *b)
{
	char from[WEIR_STR_MAX], to[WEIR_STR_MAX];

	if (a->threads != b->threads)
		weir_describe_say(
			d, "http.threads: %u -> %u (0: one a CPU), takes effect at a restart",
			a->threads, b->threads);
	if (a->budget_ns != b->budget_ns)
		weir_describe_say(d, "http.budget: %s -> %s",
				  weir_str_format_duration(a->budget_ns, from),
				  weir_str_format_duration(b->budget_ns, to));
	if (a->headers_bytes != b->headers_bytes)
		weir_describe_say(
			d, "http.headers: %s -> %s%s", weir_str_format_size(a->headers_bytes, from),
			weir_str_format_size(b->headers_bytes, to),
			b->headers_bytes > a->headers_bytes
				? ", listeners that are open take more at a restart"
				: ""); /* the memory of a connection is set when its listener opens */
	if (a->connections != b->connections)
		weir_describe_say(d, "http.connections: %llu -> %llu",
				  (unsigned long long)a->connections,
				  (unsigned long long)b->connections);
	if (a->request_deadline_ns != b->request_deadline_ns)
		weir_describe_say(d, "http.request_deadline: %s -> %s",
				  weir_str_format_duration(a->request_deadline_ns, from),
				  weir_str_format_duration(b->request_deadline_ns, to));
	if (a->nat64 != b->nat64)
		weir_describe_say(d, "http.nat64: %s -> %s", a->nat64 ? "true" : "false",
				  b->nat64 ? "true" : "false");
	if (!same_text(a->header_user, b->header_user) ||
	    !same_text(a->header_plan, b->header_plan) ||
	    !same_text(a->header_cost, b->header_cost))
		weir_describe_say(d, "http.proxy_headers: changed");
	if (!same_api_key(a, b))
		weir_describe_say(d, "http.api_key: changed");
	if (memcmp(&a->path, &b->path, sizeof(a->path)) != 0)
		weir_describe_say(d, "http.path: changed");
}

static bool same_plans(const struct weir_conf_request *a, const struct weir_conf_request *b)
{
	return same_names(NAMES(a->plan), a->n_plan, NAMES(b->plan), b->n_plan) &&
	       same_text(a->plans_file, b->plans_file);
}

void weir_describe_request_diff(const struct weir_conf *from, const struct weir_conf *to,
				const struct weir_describe_to *d)
{
	const struct weir_conf_request *a = &from->request, *b = &to->request;

	diff_http(d, a, b);
	diff_listeners(d, a, b);
	if (!same_plans(a, b))
		weir_describe_say(d, "plans: changed");
	if (!same_exempt(a, b))
		weir_describe_say(d, "exempt: changed");
	diff_limits(d, a, b);
	diff_suspicious(d, a, b);
	diff_escalate(d, a, b);
	if (a->keys != b->keys)
		weir_describe_say(d, "memory.request_keys: %llu -> %llu, takes effect at a restart",
				  (unsigned long long)a->keys, (unsigned long long)b->keys);
	if (a->bytes != b->bytes)
		weir_describe_say(d,
				  "memory.request_bytes: %llu -> %llu, takes effect at a restart",
				  (unsigned long long)a->bytes, (unsigned long long)b->bytes);
}
