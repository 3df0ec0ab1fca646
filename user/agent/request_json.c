/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the request layer says of itself for status, top, limit list and explain: objects with stable names; the words
 * are made by the commands. Called by status.c, explain.c and commands.c.
 */
#include <stdarg.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/describe.h"
#include "user/agent/json.h"
#include "user/base/str.h"

/* {"n","per_second"} */
static json_t *count_json(const struct weir_request_meter *m, __u64 now, __u64 before)
{
	json_t *o = json_object();

	weir_json_set_u64(o, "n", now);
	weir_json_set_u64(o, "per_second", weir_request_rate(m, now, before));
	return o;
}

static void set_acting(json_t *o, const struct weir_acting *acting)
{
	char when[WEIR_TIME_STRLEN];

	if (weir_acting_now(acting, weir_now().wall_s))
		weir_json_set_text(o, "acting_since", weir_clock_format(acting->since_s, when));
}

static json_t *limit_json(struct weir_agent *a, const struct weir_conf_request_limit *l)
{
	const struct weir_request_meter *m = &a->request;
	const struct weir_l7_limit_stats none = {}, *before = NULL, *now;
	const struct weir_acting *acting = NULL;
	char words[WEIR_DESCRIBE_REQUEST_MAX], when[WEIR_TIME_STRLEN];
	json_t *o = json_object(), *over = weir_agent_overrides_json(a, l->name);

	weir_json_set_text(o, "name", l->name);
	weir_json_set_text(o, "mode", weir_mode_name(l->mode));
	weir_json_set_text(o, "algorithm", weir_request_algorithm_name(l->algorithm));
	weir_json_set_text(o, "key", l->key_text);
	weir_json_set_text(o, "on_store_failure", weir_on_store_failure_name(l->on_store_failure));
	weir_json_set_text(o, "text", weir_describe_request_limit(&a->conf->request, l, words));
	if (over)
		weir_json_set(o, "overridden", over);
	now = weir_request_meter_row(m, l->name, &before, &acting);
	if (!now)
		now = &none;
	if (!before)
		before = now == &none ? &none : now;
	for (int v = 0; v < WEIR_L7_VERDICT_MAX; v++)
		weir_json_set(o, weir_l7_verdict_name((enum weir_l7_verdict)v),
			      count_json(m, now->n[v], before->n[v]));
	weir_json_set(o, "refused_all",
		      count_json(m, weir_request_refused(now), weir_request_refused(before)));
	if (now->fleet)
		weir_json_set_bool(o, "fallback", now->fallback);
	if (now->last_refused_s)
		weir_json_set_text(o, "last_refused",
				   weir_clock_format((__s64)now->last_refused_s, when));
	if (acting)
		set_acting(o, acting);
	return o;
}

json_t *weir_agent_request_limits_json(struct weir_agent *a)
{
	const struct weir_conf_request *c = &a->conf->request;
	json_t *list = json_array();

	for (size_t i = 0; i < c->n_limit; i++)
		(void)json_array_append_new(list, limit_json(a, &c->limit[i]));
	if (c->suspicious.given)
		(void)json_array_append_new(list, limit_json(a, &c->suspicious.limit));
	return list;
}

static json_t *listeners_json(struct weir_agent *a)
{
	struct weir_http_listener l[WEIR_LISTENERS_MAX];
	size_t n = weir_http_listeners(a->http, l, ARRAY_LEN(l));
	json_t *list = json_array();

	for (size_t i = 0; i < n && i < ARRAY_LEN(l); i++) {
		json_t *o = json_object();

		weir_json_set_text(o, "listen", l[i].listen);
		weir_json_set_text(o, "profile", weir_profile_name(l[i].profile));
		weir_json_set_u64(o, "connections", l[i].connections);
		if (l[i].shared_percent) {
			json_t *s = json_object();
			char who[WEIR_PREFIX_STRLEN];

			weir_json_set_text(s, "address",
					   weir_prefix_format(&l[i].shared_address, who));
			weir_json_set_u64(s, "percent", l[i].shared_percent);
			weir_json_set_text(s, "hint", l[i].shared_hint);
			weir_json_set(o, "shared_address", s);
		}
		(void)json_array_append_new(list, o); /* out of memory: not shown */
	}
	return list;
}

static json_t *store_json(const struct weir_store_stats *s)
{
	json_t *o = json_object();

	weir_json_set_text(o, "kind", "embedded");
	weir_json_set_u64(o, "entries", s->entries);
	weir_json_set_u64(o, "entries_max", s->entries_max);
	weir_json_set_u64(o, "bytes", s->bytes);
	weir_json_set_u64(o, "bytes_max", s->bytes_max);
	weir_json_set_u64(o, "idle_dropped_total", s->idle_dropped);
	weir_json_set_u64(o, "evicted_total", s->evicted);
	weir_json_set_u64(o, "full_total", s->full);
	weir_json_set_text(
		o, "when_full",
		"the state that would be over soonest is forgotten, a client at its limit last");
	return o;
}

/* In microseconds, as quantile_us below. */
static __u64 call_us(const struct weir_far_stats *s, __u64 part)
{
	__u64 seen = 0, all = 0;

	for (int i = 0; i <= WEIR_FAR_LATENCY_N; i++)
		all += s->latency_n[i];
	for (int i = 0; i < WEIR_FAR_LATENCY_N && all; i++) {
		seen += s->latency_n[i];
		if (seen * 1000 >= all * part)
			return weir_far_latency_us[i];
	}
	return 0;
}

static json_t *shared_json(struct weir_agent *a)
{
	const struct weir_l7_stats *n = &a->request.now, *b = &a->request.before;
	const struct weir_far_stats *s = &n->far;
	char when[WEIR_TIME_STRLEN], url[1024];
	json_t *o = json_object();
	__u64 errors = 0;

	for (unsigned i = 0; i < WEIR_FAR_ERROR_MAX; i++)
		errors += s->errors[i];
	weir_json_set_text(o, "url", weir_conf_store_shown(&a->conf->store, url, sizeof(url)));
	weir_json_set_text(o, "health", weir_far_health_name(s->health));
	if (s->since_s)
		weir_json_set_text(o, "since", weir_clock_format(s->since_s, when));
	if (s->cause[0])
		weir_json_set_text(o, "cause", s->cause);
	if (s->server[0])
		weir_json_set_text(o, "server", s->server);
	if (s->nodes > 1)
		weir_json_set_u64(o, "nodes", s->nodes);
	if (s->nodes > 1 && s->away) {
		weir_json_set_u64(o, "nodes_away", s->away);
		weir_json_set_text(o, "away", s->away_names);
	}
	weir_json_set_bool(o, "secret_known", n->secret_known);
	weir_json_set_u64(o, "agents", n->agents);
	weir_json_set(o, "decisions", count_json(&a->request, s->decisions, b->far.decisions));
	weir_json_set(o, "calls", count_json(&a->request, s->calls, b->far.calls));
	weir_json_set_u64(o, "errors_total", errors);
	weir_json_set_u64(o, "reconnects_total", s->reconnects);
	weir_json_set_u64(o, "late_refunds_total", s->late_refunds);
	weir_json_set_u64(o, "p50_us", call_us(s, 500));
	weir_json_set_u64(o, "p99_us", call_us(s, 990));
	if (s->keys_known) {
		weir_json_set_u64(o, "keys", s->keys);
		weir_json_set_u64(o, "key_bytes", s->key_bytes);
	}
	weir_json_set_u64(o, "remembered_refusals_total", n->hot.denied);
	weir_json_set_u64(o, "spent_leases_total", n->hot.spent);
	return o;
}

static json_t *http_json(const struct weir_http_stats *s)
{
	json_t *o = json_object();

	weir_json_set_u64(o, "connections", s->connections);
	weir_json_set_u64(o, "connections_max", s->connections_max);
	weir_json_set_u64(o, "accepted_total", s->accepted);
	weir_json_set_u64(o, "closed_at_limit_total", s->closed_at_limit);
	weir_json_set_u64(o, "cut_by_deadline_total", s->cut_by_deadline);
	weir_json_set_u64(o, "requests_total", s->requests);
	weir_json_set_u64(o, "bad_requests_total", s->bad_requests);
	weir_json_set_u64(o, "too_large_total", s->too_large);
	weir_json_set_u64(o, "left_total", s->left);
	weir_json_set_u64(o, "untrusted_forwarded_total", s->untrusted_forwarded);
	weir_json_set_u64(o, "no_address_total", s->no_address);
	weir_json_set_u64(o, "no_target_total", s->no_target);
	weir_json_set_u64(o, "doubled_total", s->doubled);
	weir_json_set_u64(o, "shared_address_total", s->shared_address);
	weir_json_set_u64(o, "spop_errors_total", s->spop_errors);
	weir_json_set_u64(o, "held", s->held);
	return o;
}

/* Upper bound in microseconds below which @part of a thousand checks were; 0: none yet, or above the last bound. */
static __u64 quantile_us(const struct weir_l7_histogram *h, __u64 part)
{
	__u64 seen = 0;

	for (int i = 0; i < WEIR_L7_LATENCY_N && h->count; i++) {
		seen += h->n[i];
		if (seen * 1000 >= h->count * part)
			return weir_l7_latency_us[i];
	}
	return 0;
}

static json_t *checks_json(const struct weir_request_meter *m)
{
	const struct weir_l7_stats *n = &m->now, *b = &m->before;
	json_t *o = json_object();

	weir_json_set(o, "all", count_json(m, n->checks, b->checks));
	weir_json_set(o, "allowed", count_json(m, n->allowed, b->allowed));
	weir_json_set(o, "refused", count_json(m, n->refused, b->refused));
	weir_json_set(o, "exempt", count_json(m, n->exempt, b->exempt));
	weir_json_set(o, "no_limit", count_json(m, n->no_limit, b->no_limit));
	weir_json_set(o, "bad_path", count_json(m, n->bad_path, b->bad_path));
	weir_json_set(o, "no_address", count_json(m, n->no_address, b->no_address));
	weir_json_set(o, "over_budget", count_json(m, n->over_budget, b->over_budget));
	weir_json_set(o, "fresh_counted_as_ip",
		      count_json(m, n->fresh_counted_as_ip, b->fresh_counted_as_ip));
	weir_json_set_u64(o, "p50_us", quantile_us(&n->check, 500));
	weir_json_set_u64(o, "p99_us", quantile_us(&n->check, 990));
	return o;
}

static json_t *escalations_json(struct weir_agent *a)
{
	json_t *o = json_object();

	for (int i = 0; i < WEIR_ESCALATION_MAX; i++)
		weir_json_set_u64(o, weir_escalation_name((enum weir_escalation)i),
				  a->escalations[i]);
	weir_json_set_u64(o, "capped", a->request.now.escalations_capped);
	weir_json_set_u64(o, "spared", a->request.now.escalations_spared);
	return o;
}

static json_t *loud_json(struct weir_agent *a)
{
	struct weir_l7_loud loud[WEIR_LOUD_MAX];
	size_t n = weir_l7_loud(a->l7, loud, ARRAY_LEN(loud));
	json_t *list = json_array();

	for (size_t i = 0; i < n && i < ARRAY_LEN(loud); i++) {
		char text[WEIR_PREFIX_STRLEN];
		json_t *o = json_object();

		weir_json_set_text(o, "client", weir_prefix_format(&loud[i].client, text));
		weir_json_set_u64(o, "refused", loud[i].refused);
		weir_json_set_u64(o, "error", loud[i].error);
		weir_json_set_text(o, "limit", loud[i].limit);
		(void)json_array_append_new(list, o); /* out of memory: not shown */
	}
	return list;
}

json_t *weir_agent_request_json(struct weir_agent *a, bool whole)
{
	struct weir_http_stats http = {};
	json_t *o;

	if (!a->l7)
		return NULL;
	o = json_object();
	weir_json_set(o, "limits", weir_agent_request_limits_json(a));
	weir_json_set(o, "checks", checks_json(&a->request));
	weir_json_set_u64(o, "suspicious", a->request.now.suspicious);
	weir_json_set(o, "loudest", loud_json(a));
	if (!whole)
		return o;
	weir_http_stats(a->http, &http);
	weir_json_set(o, "listeners", listeners_json(a));
	weir_json_set(o, "http", http_json(&http));
	weir_json_set(o, "store", store_json(&a->request.now.store));
	if (a->shared)
		weir_json_set(o, "shared_store", shared_json(a));
	weir_json_set(o, "escalations", escalations_json(a));
	weir_json_set_u64(o, "held_total", a->request.now.held);
	weir_json_set_u64(o, "queue_abandoned_total", a->request.now.queue_abandoned);
	weir_json_set_u64(o, "events_lost_total", a->request.now.events_lost);
	return o;
}

/* --- what is wrong ---- */

static bool falls_back(const struct weir_agent *a)
{
	for (size_t i = 0; i < a->request.n; i++)
		if (a->request.row[i].fallback)
			return true;
	return false;
}

/* How on_store_failure decides now: "local for api, login; closed for pay". */
static void say_fallback(const struct weir_agent *a, char *buf, size_t size)
{
	static const enum weir_on_store_failure all[] = {WEIR_FAILURE_LOCAL, WEIR_FAILURE_OPEN,
							 WEIR_FAILURE_CLOSED};
	size_t at = 0;

	buf[0] = '\0';
	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		const char *before = at ? "; " : "", *word = weir_on_store_failure_name(all[k]);

		for (size_t i = 0; i < a->request.n && at < size; i++) {
			const struct weir_l7_limit_stats *row = &a->request.row[i];

			if (!row->fallback || row->on_store_failure != all[k])
				continue;
			at += (size_t)snprintf(buf + at, size - at, "%s%s%s%s", before, word,
					       word[0] ? " for " : "", row->name);
			before = ", ";
			word = "";
		}
	}
	if (!at)
		(void)weir_str_copy(buf, size, "no limit meets it");
}

void weir_agent_say_away(const struct weir_agent *a, char *buf, size_t size)
{
	const struct weir_far_stats *far = &a->request.now.far;
	bool open = far->health == WEIR_FAR_OPEN, known = a->request.now.secret_known;
	char says[256], when[WEIR_TIME_STRLEN], away[320] = "";

	buf[0] = '\0';
	if (!a->shared || !a->request.now_ns || (!open && known))
		return;
	say_fallback(a, says, sizeof(says));
	(void)weir_clock_format(far->since_s, when);
	if (known && far->away < far->nodes) {
		(void)snprintf(buf, size,
			       "of the store's %u nodes %u do%s not answer since %s, %s (%s): "
			       "on_store_failure decides for clients there, %s; the others answer",
			       far->nodes, far->away, far->away == 1 ? "es" : "", when,
			       far->away_names, far->cause, says);
		return;
	}
	if (open)
		(void)snprintf(away, sizeof(away), "%s does not answer since %s (%s)",
			       far->away < far->nodes ? "a part of the store" : "the store", when,
			       far->cause);
	(void)snprintf(buf, size, "%s%s%s: on_store_failure decides, %s", away,
		       open && !known ? ", and " : "",
		       known ? "" : "the fleet's secret is not known yet", says);
}

/* What is not counted with others now, and why. */
static void degraded_store(struct weir_agent *a, json_t *list)
{
	char says[256], away[WEIR_AGENT_AWAY_MAX];

	if (!a->l7 || !a->shared)
		return;
	weir_agent_say_away(a, away, sizeof(away));
	if (away[0]) {
		weir_json_say(list, "%s", away);
	} else if (falls_back(a)) {
		say_fallback(a, says, sizeof(says));
		weir_json_say(list,
			      "the store did not answer every request (%s): on_store_failure "
			      "decided some of them, %s",
			      a->request.now.far.cause, says);
	}
}

void weir_agent_degraded_requests(struct weir_agent *a, json_t *list)
{
	const struct weir_conf *c = a->conf;
	const struct weir_store_stats *now = &a->request.now.store,
				      *before = &a->request.before.store;
	const struct weir_http_stats *http = &a->http_seen;
	__s64 now_s = weir_now().wall_s;
	__u64 evicted;

	if (!a->dp && c->n_limits)
		weir_json_say(list, "packet_limits are not in force: no interface is configured, "
				    "so requests are limited alone");
	if (!a->l7)
		return;
	degraded_store(a, list);
	evicted = weir_request_rate(&a->request, now->evicted + now->full,
				    before->evicted + before->full);
	if (evicted)
		weir_json_say(list,
			      "the store is full: %llu states a second are forgotten before they "
			      "are over (raise memory.request_keys and memory.request_bytes)",
			      (unsigned long long)evicted);
	if (a->dp && c->request.suspicious.n_packet_limits && !c->events_per_second)
		weir_json_say(
			list,
			"suspicious.packet_limits hears of no packet: log.events_per_second is 0");
	if (weir_acting_now(&a->untrusted, now_s))
		weir_json_say(list,
			      "%llu requests had forwarded headers from peers that are not in "
			      "trusted_proxies: the peer's own address was counted, and all "
			      "clients behind it are one (is a proxy missing there?)",
			      (unsigned long long)http->untrusted_forwarded);
	if (weir_acting_now(&a->pathless, now_s))
		weir_json_say(list,
			      "%llu requests of proxies came without the client's address and %llu "
			      "without the path, which the profile of their listener expects: the "
			      "proxy's configuration is not the one in the documentation",
			      (unsigned long long)http->no_address,
			      (unsigned long long)http->no_target);
}

/* --- one client ---- */

struct viewer {
	struct weir_agent *a;
	const struct weir_asked *q;
	json_t *list;
};

/* Is the limit there already, by another key? Where nothing was counted by this one it need not be told. */
static bool is_empty_again(const struct viewer *v, const struct weir_l7_view *view)
{
	json_t *o;
	size_t i;

	if (view->state->outcome != WEIR_ANSWER_ADMITTED ||
	    view->state->remaining < view->state->limit)
		return false;
	json_array_foreach(v->list, i, o)
		if (!strcmp(weir_json_text_of(o, "limit"), view->limit))
			return true;
	return false;
}

static void on_view(void *arg, const struct weir_l7_view *view)
{
	struct viewer *v = arg;
	const struct weir_answer_limit *s = view->state;
	char lift[256];
	json_t *o;

	if (is_empty_again(v, view))
		return;
	o = json_object();
	weir_json_set_text(o, "limit", view->limit);
	weir_json_set_text(o, "key", view->key);
	weir_json_set_text(o, "mode", weir_mode_name(view->mode));
	weir_json_set_bool(o, "admits", s->outcome == WEIR_ANSWER_ADMITTED);
	weir_json_set_u64(o, "size", s->limit);
	weir_json_set_u64(o, "remaining", s->remaining);
	weir_json_set_u64(o, "reset_in_ms", (s->reset_after_ns + 999999) / 1000000);
	weir_json_set_u64(o, "retry_in_ms", (s->retry_after_ns + 999999) / 1000000);
	(void)snprintf(lift, sizeof(lift), "weir limit reset %s%s", view->limit,
		       view->everybodys ? "" : v->q->by);
	weir_json_set_text(o, "lift", lift);
	(void)json_array_append_new(v->list, o); /* out of memory: not shown */
}

json_t *weir_agent_inspect_json(struct weir_agent *a, const struct weir_asked *q)
{
	struct viewer v = {.a = a, .q = q};
	char when[WEIR_TIME_STRLEN];
	__s64 until_s;
	json_t *o;

	if (!a->l7)
		return NULL;
	o = json_object();
	v.list = json_array();
	if (weir_l7_inspect(a->asker, &q->who, NULL, on_view, &v) < 0)
		weir_json_set_text(o, "error", "the store did not answer");
	weir_json_set(o, "limits", v.list);
	until_s = q->who.ip ? weir_l7_suspicious_until(a->asker, q->who.ip) : 0;
	if (until_s)
		weir_json_set_text(o, "suspicious_until", weir_clock_format(until_s, when));
	return o;
}
