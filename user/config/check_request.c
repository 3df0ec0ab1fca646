/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the values of listeners, exemptions, suspicion and escalation mean together, and of the request layer's part of
 * a file as a whole. Called when such an entry, or the file, is read. Limits are in check_limit.c.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"

#define LISTENERS "http.listeners"

/* --- listeners ---- */

static bool is_wildcard(const struct weir_conf_listener *l)
{
	static const union weir_addr any;

	return !l->unix_path && memcmp(&l->addr, &any, sizeof(any)) == 0;
}

static const struct weir_prefix *loopback_of(const struct weir_conf_listener *l)
{
	static const struct weir_prefix local4 = {.addr.ip = {127}, .family = 4, .len = 8};
	static const struct weir_prefix local6 = {.addr.ip = {[15] = 1}, .family = 6, .len = 128};

	return l->family == 4 ? &local4 : &local6;
}

static bool is_loopback(const struct weir_conf_listener *l)
{
	struct weir_prefix p = {.addr = l->addr, .family = l->family};

	p.len = p.family == 4 ? 32 : 128;
	return weir_prefix_contains(loopback_of(l), &p);
}

/* Does the profile take the client's address from a header? */
static bool reads_address(enum weir_profile p)
{
	return p == WEIR_PROFILE_NGINX || p == WEIR_PROFILE_CADDY || p == WEIR_PROFILE_TRAEFIK ||
	       p == WEIR_PROFILE_ENVOY;
}

static bool listener_wrong(const struct weir_reader *r, const char *key)
{
	return r->marks->wrong[weir_setting_find(LISTENERS, key) - weir_settings];
}

static const yaml_node_t *listener_at(const struct weir_reader *r, const char *key)
{
	return weir_reader_at(r, LISTENERS, key);
}

static bool listener_has(const struct weir_reader *r, const char *key)
{
	return weir_reader_has(r, LISTENERS, key);
}

static bool same_place(const struct weir_conf_listener *a, const struct weir_conf_listener *b)
{
	if (a->unix_path || b->unix_path)
		return a->unix_path && b->unix_path && strcmp(a->unix_path, b->unix_path) == 0;
	return a->port && a->port == b->port && a->family == b->family &&
	       (is_wildcard(a) || is_wildcard(b) ||
		memcmp(&a->addr, &b->addr, sizeof(a->addr)) == 0);
}

static void check_place(const struct weir_reader *r, const struct weir_conf_listener *l)
{
	const struct weir_conf_request *q = &r->conf->request;

	if (l->unix_path && strcmp(l->unix_path, r->conf->admin_listen) == 0)
		weir_reader_error(r, listener_at(r, "listen"),
				  "listen: %s is admin.listen already (another path)",
				  l->unix_path);
	for (size_t i = 0; i + 1 < q->n_listener; i++) {
		if (!q->listener[i].listen || !same_place(&q->listener[i], l))
			continue;
		weir_reader_error(r, listener_at(r, "listen"),
				  "listen: %s is taken (by the listener in line %d)", l->listen,
				  q->listener[i].line);
		return;
	}
}

static void check_socket(const struct weir_reader *r, const struct weir_conf_listener *l)
{
	static const char *const of_unix[] = {"mode", "group"};

	for (size_t i = 0; i < ARRAY_LEN(of_unix); i++)
		if (!l->unix_path && listener_has(r, of_unix[i]))
			weir_reader_error(r, listener_at(r, of_unix[i]),
					  "%s: only a Unix socket has one (listen: "
					  "\"unix:/run/weir/web.sock\")",
					  of_unix[i]);
	if (l->unix_path && l->unix_mode & 02)
		weir_reader_warn(r, listener_at(r, "mode"),
				 "mode: %04o lets every user of this machine speak for any client "
				 "(0660 and a group)",
				 l->unix_mode);
}

/* What a profile needs, and what means nothing to it. */
static void check_profile(const struct weir_reader *r, const struct weir_conf_listener *l)
{
	const char *profile = weir_profile_name(l->profile);

	if (listener_has(r, "trusted_proxies") && !reads_address(l->profile) &&
	    l->profile != WEIR_PROFILE_SPOE)
		weir_reader_error(r, listener_at(r, "trusted_proxies"),
				  "trusted_proxies: means nothing to %s (%s)", profile,
				  l->profile == WEIR_PROFILE_JSON
					  ? "whoever has the token says who the client is"
					  : "it answers about weir alone");
	else if (listener_has(r, "trusted_proxies") && l->profile == WEIR_PROFILE_SPOE &&
		 l->unix_path)
		weir_reader_error(r, listener_at(r, "trusted_proxies"),
				  "trusted_proxies: a Unix socket trusts whoever may connect (mode "
				  "and group)");
	if (l->token_file && l->profile != WEIR_PROFILE_JSON)
		weir_reader_error(r, listener_at(r, "token_file"),
				  "token_file: only the profile json has a token");
	if (l->profile == WEIR_PROFILE_JSON && !l->unix_path && !listener_has(r, "token_file"))
		weir_reader_error(r, listener_at(r, "listen"),
				  "listen: json on TCP needs a token_file, or a Unix socket "
				  "(\"unix:/run/weir/json.sock\"): its callers name any client");
}

/* Whoever connects to loopback comes from loopback. */
static bool trusts_loopback(const struct weir_conf_listener *l)
{
	for (size_t i = 0; i < l->trusted.n; i++)
		if (weir_prefix_overlaps(&l->trusted.item[i], loopback_of(l)))
			return true;
	return false;
}

static void warn_listener(const struct weir_reader *r, const struct weir_conf_listener *l)
{
	if (l->unix_path && l->trusted.n == 0)
		return;
	if (reads_address(l->profile) && l->trusted.n == 0)
		weir_reader_warn(r, listener_at(r, "listen"),
				 "listen: no trusted_proxies, so that every request counts as the "
				 "proxy's own (trusted_proxies: [127.0.0.1])");
	for (size_t i = 0; i < l->trusted.n; i++)
		if (l->trusted.item[i].len == 0)
			weir_problems_add(r->problems, true, NULL, l->trusted.line[i], 0,
					  "trusted_proxies: everybody is trusted, so that any "
					  "client can pass for another");
	if (l->unix_path)
		return;
	if (l->trusted.n && is_loopback(l) && !trusts_loopback(l))
		weir_problems_add(r->problems, true, NULL, l->trusted.line[0], 0,
				  l->profile == WEIR_PROFILE_SPOE
					  ? "trusted_proxies: only this host reaches %s, and it is "
					    "not among them: nobody may connect (%s)"
					  : "trusted_proxies: only this host reaches %s, and it is "
					    "not among them: what the proxy says is ignored (%s)",
				  l->listen, l->family == 4 ? "127.0.0.1" : "\"::1\"");
	if (l->profile == WEIR_PROFILE_SPOE && !is_loopback(l) && l->trusted.n == 0)
		weir_reader_warn(r, listener_at(r, "listen"),
				 "listen: SPOP has no password, so only this host may connect "
				 "(trusted_proxies: whoever else speaks for any client)");
	else if (is_wildcard(l))
		weir_reader_warn(r, listener_at(r, "listen"),
				 "listen: %s is open on every network that this machine is in (the "
				 "address that the %s uses)",
				 l->listen,
				 l->profile == WEIR_PROFILE_METRICS ? "monitoring" : "proxy");
}

static int finish_listener(struct weir_reader *r, void *entry)
{
	struct weir_conf_listener *l = entry;
	size_t before = r->problems->n_errors;

	if (!listener_has(r, "listen"))
		weir_reader_error(r, r->marks->node,
				  "a listener without listen (for example listen: 127.0.0.1:9470)");
	if (!listener_has(r, "profile"))
		weir_reader_error(r, r->marks->node,
				  "a listener without profile (nginx, caddy, traefik, envoy, "
				  "haproxy-spoe, json or metrics)");
	if (!l->listen)
		return 0; /* the rest depends on it */
	check_place(r, l);
	check_socket(r, l);
	if (!listener_has(r, "profile") || listener_wrong(r, "profile"))
		return 0;
	check_profile(r, l);
	if (r->problems->n_errors == before && !listener_wrong(r, "trusted_proxies"))
		warn_listener(r, l);
	return 0;
}

const struct weir_entries weir_entries_listeners = {
	.section = LISTENERS,
	.entry = "listener",
	.entries = "listeners",
	.needs = "listen and profile",
	.size = sizeof(struct weir_conf_listener),
	.items = offsetof(struct weir_conf, request.listener),
	.n = offsetof(struct weir_conf, request.n_listener),
	.line = offsetof(struct weir_conf_listener, line),
	.finish = finish_listener,
};

/* --- exemptions ---- */

static int finish_exempt(struct weir_reader *r, void *entry)
{
	const struct weir_conf_exempt *x = entry;
	static const char *const keys[] = {"source", "path", "method", "preflight"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (r->marks->wrong[weir_setting_find("exempt", keys[i]) - weir_settings])
			return 0;
	if (!x->source.n && !x->n_path && !x->n_method && !x->preflight) {
		weir_reader_error(r, r->marks->node,
				  "an exemption without a condition would exempt every request "
				  "(source, path, method or preflight: true)");
		return 0;
	}
	for (size_t i = 0; i < x->source.n; i++)
		if (x->source.item[i].len == 0 && !x->n_path && !x->n_method && !x->preflight)
			weir_problems_add(r->problems, true, NULL, x->source.line[i], 0,
					  "exempt: this exempts everybody: no limit acts");
	for (size_t i = 0; i < x->n_path; i++)
		if (strcmp(x->path[i], "/*") == 0 && !x->source.n && !x->n_method && !x->preflight)
			weir_reader_warn(r, weir_reader_at(r, "exempt", "path"),
					 "path: this exempts every request: no limit acts");
	return 0;
}

const struct weir_entries weir_entries_exempt = {
	.section = "exempt",
	.entry = "condition",
	.entries = "conditions",
	.needs = "for example {path: /healthz}",
	.size = sizeof(struct weir_conf_exempt),
	.items = offsetof(struct weir_conf, request.exempt),
	.n = offsetof(struct weir_conf, request.n_exempt),
	.line = offsetof(struct weir_conf_exempt, line),
	.finish = finish_exempt,
};

/* --- escalation and suspicion ---- */

static int finish_escalate(struct weir_reader *r, void *entry)
{
	static const struct {
		const char *key, *example;
	} needed[] = {{"name", "name: login-hammer"},
		      {"limits", "limits: [login]"},
		      {"refused", "refused: 20"},
		      {"block_for", "block_for: 10m"}};
	const struct weir_conf_escalate *x = entry;
	const struct weir_conf_request *q = &r->conf->request;

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!weir_reader_has(r, "escalate", needed[i].key))
			weir_reader_error(r, r->marks->node,
					  "escalate: a rule without %s (for example %s)",
					  needed[i].key, needed[i].example);
	for (size_t i = 0; *x->name && i + 1 < q->n_escalate; i++)
		if (strcmp(q->escalate[i].name, x->name) == 0)
			weir_reader_error(r, weir_reader_at(r, "escalate", "name"),
					  "name: \"%s\" is taken (by the rule in line %d)", x->name,
					  q->escalate[i].line);
	return 0;
}

const struct weir_entries weir_entries_escalate = {
	.section = "escalate",
	.entry = "rule",
	.entries = "rules",
	.needs = "name, limits, refused and block_for",
	.size = sizeof(struct weir_conf_escalate),
	.items = offsetof(struct weir_conf, request.escalate),
	.n = offsetof(struct weir_conf, request.n_escalate),
	.line = offsetof(struct weir_conf_escalate, line),
	.finish = finish_escalate,
};

int weir_suspicious_finish(struct weir_reader *r, struct weir_conf_suspicious *s)
{
	const yaml_node_t *where = weir_reader_top_at(r, "", "suspicious");
	bool refused = weir_reader_top_has(r, "suspicious", "refused");
	int line = weir_limit_name_line(r->conf, "suspicious", NULL);

	if (line)
		weir_reader_error(r, where,
				  "suspicious: the limit in line %d has this name already (give "
				  "that one another)",
				  line);
	if (!weir_reader_top_has(r, "suspicious", "limit"))
		weir_reader_error(r, where,
				  "suspicious: without limit nothing follows from it (for example "
				  "limit: {key: ip, rate: 1/s})");
	if (!refused && !weir_reader_top_has(r, "suspicious", "packet_limits"))
		weir_reader_error(r, where,
				  "suspicious: who? (packet_limits: [NAME], or refused: {limits: "
				  "[NAME], count: 5, within: 60s})");
	if (refused && !weir_reader_top_has(r, "suspicious.refused", "limits"))
		weir_reader_error(r, weir_reader_top_at(r, "suspicious", "refused"),
				  "refused: by which limits? (limits: [login])");
	if (refused && !weir_reader_top_has(r, "suspicious.refused", "count"))
		weir_reader_error(r, weir_reader_top_at(r, "suspicious", "refused"),
				  "refused: how often? (count: 5)");
	if (s->n_packet_limits && !r->conf->events_per_second)
		weir_reader_error(r, weir_reader_top_at(r, "suspicious", "packet_limits"),
				  "packet_limits: log.events_per_second is 0, and without events "
				  "the request layer never hears of them (20, for example)");
	return 0;
}

/* --- the file as a whole ---- */

/* A header says one thing only, and those that profiles read say other things. */
static void check_proxy_headers(const struct weir_reader *r, const struct weir_conf_request *q)
{
	const struct {
		const char *key, *name;
	} row[] = {{"user", q->header_user}, {"plan", q->header_plan}, {"cost", q->header_cost}};
	static const char *const taken[] = {"Host",
					    "X-Forwarded-For",
					    "X-Forwarded-Method",
					    "X-Forwarded-Uri",
					    "X-Forwarded-Host",
					    "X-Original-Method",
					    "X-Original-URI",
					    "Authorization"};

	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		for (size_t k = 0; row[i].name && k < ARRAY_LEN(taken); k++)
			if (weir_text_equal_fold(weir_text_of(row[i].name), weir_text_of(taken[k])))
				weir_reader_error(
					r, weir_reader_top_at(r, "http.proxy_headers", row[i].key),
					"%s: %s means something else already (a header of its own)",
					row[i].key, row[i].name);
	for (size_t i = 1; i < ARRAY_LEN(row); i++)
		for (size_t k = 0; k < i; k++)
			if (row[i].name && row[k].name &&
			    weir_text_equal_fold(weir_text_of(row[i].name),
						 weir_text_of(row[k].name)))
				weir_reader_error(r,
						  weir_reader_top_at(r, "http.proxy_headers",
								     row[i].key),
						  "%s: %s says the %s already (another header)",
						  row[i].key, row[i].name, row[k].key);
}

void weir_request_finish(struct weir_reader *r, struct weir_conf *c)
{
	struct weir_conf_request *q = &c->request;
	const yaml_node_t *file = weir_reader_top_at(r, "", "plans_file");
	struct weir_store_embedded_options o = {.entries_max = (size_t)q->keys,
						.bytes_max = q->bytes};
	char size[WEIR_STR_MAX], least[WEIR_STR_MAX], all[WEIR_STR_MAX];
	__u64 index, bytes = weir_store_embedded_bytes(&o, &index);

	q->plans_file_line = file ? (int)file->start_mark.line + 1 : 0;
	if (q->plans_file && !q->n_plan && !weir_reader_top_has(r, "", "plans"))
		weir_reader_error(r, file, "plans_file: there are no plans (plans: [free, pro])");
	check_proxy_headers(r, q);
	if (q->bytes < index && !weir_reader_top_wrong(r, "memory", "request_keys") &&
	    !weir_reader_top_wrong(r, "memory", "request_bytes"))
		weir_reader_error(r,
				  weir_reader_top_has(r, "memory", "request_bytes")
					  ? weir_reader_top_at(r, "memory", "request_bytes")
					  : weir_reader_top_at(r, "memory", "request_keys"),
				  "request_bytes: %s cannot even hold the index of %llu "
				  "request_keys (%sB; with the states themselves %sB)",
				  weir_str_format_size(q->bytes, size), q->keys,
				  weir_str_format_count(index, least),
				  weir_str_format_count(bytes, all));
}
