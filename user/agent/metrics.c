/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics page in Prometheus' text format. One table (at the end) makes the page and the list in the documentation.
 * Labels come from the configuration and from fixed words, never from a client, so that no traffic can make a new series.
 * Called by pages.c.
 */
#include <stdarg.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/metrics.h"

struct metric;
struct page {
	FILE *f;
	struct weir_agent *a;
	const struct metric *m;
	struct weir_counters packets;
	struct weir_l7_stats requests;
	struct weir_http_stats http;
	struct weir_l7_limit_stats row[WEIR_REQUEST_ROWS_MAX]; /* in force */
	size_t n_rows;
	struct weir_table_use table[64];
	int n_tables;
	struct weir_fleet_status fleet;
};

enum layer { ANY, PACKETS, REQUESTS, SHARED, FLEET };
struct metric {
	const char *name, *type, *labels, *help;
	enum layer layer;
	void (*put)(struct page *p);
};

/* --- samples ---- */

static void put_label_value(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"')
			(void)fputc('\\', f);
		if (*s == '\n')
			(void)fputs("\\n", f);
		else
			(void)fputc(*s, f);
	}
}

/* NAME SUFFIX {labels} value; labels are pairs "key", value, ended by NULL. Failures of a stream in memory show at its
 * end.
 */
__attribute__((sentinel)) static void put(struct page *p, const char *suffix, double value, ...)
{
	const char *key;
	bool any = false;
	va_list ap;

	(void)fprintf(p->f, "%s%s", p->m->name, suffix);
	va_start(ap, value);
	while ((key = va_arg(ap, const char *))) {
		(void)fprintf(p->f, "%s%s=\"", any ? "," : "{", key);
		put_label_value(p->f, va_arg(ap, const char *));
		(void)fputc('"', p->f);
		any = true;
	}
	va_end(ap);
	(void)fprintf(p->f, "%s %.15g\n", any ? "}" : "", value);
}
#define PUT(p, value, ...) put(p, "", (double)(value), ##__VA_ARGS__, NULL)

/* --- what there is ---- */

static void put_build(struct page *p)
{
	PUT(p, 1, "version", WEIR_VERSION);
}

static void put_start(struct page *p)
{
	PUT(p, p->a->started_s);
}

static void put_generation(struct page *p)
{
	PUT(p, weir_agent_generation(p->a));
}

static void put_reloaded(struct page *p)
{
	PUT(p, p->a->reloaded_s);
}

static void put_reload_failed(struct page *p)
{
	PUT(p, p->a->last_error[0] ? 1 : 0);
}

static void put_mode(struct page *p)
{
	for (int m = WEIR_MODE_ENFORCE; m <= WEIR_MODE_MONITOR; m++)
		PUT(p, (int)p->a->in_force == m, "mode", weir_mode_name((enum weir_mode)m));
}

static void put_overrides(struct page *p)
{
	PUT(p, p->a->n_override);
}

static void put_attached(struct page *p)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n = weir_datapath_attachments(p->a->dp, at, WEIR_INTERFACES_MAX);

	for (size_t i = 0; i < p->a->conf->n_interfaces; i++) {
		const char *name = p->a->conf->interfaces[i];
		int on = 0;

		for (int k = 0; k < n && k < WEIR_INTERFACES_MAX; k++)
			on = on || (at[k].attached && !strcmp(at[k].ifname, name));
		PUT(p, on, "interface", name);
	}
}

static void put_reasons(struct page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.reason);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		PUT(p, c[i].packets, "reason", weir_reason_name(i));
}

static void put_reason_bytes(struct page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.reason);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		PUT(p, c[i].bytes, "reason", weir_reason_name(i));
}

static void put_would(struct page *p)
{
	const struct weir_count *c = weir_meter_reasons(&p->packets.would);

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++)
		if (WEIR_REASON_DROPS(i))
			PUT(p, c[i].packets, "reason", weir_reason_name(i));
}

static void put_packet_limits(struct page *p)
{
	for (size_t i = 0; i < p->a->conf->n_limits; i++) {
		const struct weir_conf_limit *l = &p->a->conf->limits[i];
		const char *mode = weir_mode_name(l->mode);
		unsigned stat, limit;

		if (!weir_agent_find_limit(p->a, l->name, &stat, &limit))
			continue;
		PUT(p, p->packets.limit[stat].pass.packets, "limit", l->name, "verdict", "pass",
		    "mode", mode);
		PUT(p, p->packets.limit[stat].over.packets, "limit", l->name, "verdict", "over",
		    "mode", mode);
	}
}

static void put_contended(struct page *p)
{
	PUT(p, p->packets.contended);
}

static void put_guarded(struct page *p)
{
	PUT(p, p->packets.guarded);
}

static bool is_packet_table(const struct weir_table_use *t)
{
	static const char *const names[] = {"sources", "allows", "blocks", "guards"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strncmp(t->name, names[i], strlen(names[i])))
			return true; /* of both families */
	return false;
}

/* The tables that fill up with traffic or entries; request keys and bytes are the store's bounds. */
static void put_table(struct page *p, bool size)
{
	const struct weir_store_stats *s = &p->requests.store;

	for (int i = 0; i < p->n_tables; i++)
		if (is_packet_table(&p->table[i]))
			PUT(p, size ? p->table[i].entries : p->table[i].used, "table",
			    p->table[i].name);
	if (!p->a->l7)
		return;
	PUT(p, size ? s->entries_max : s->entries, "table", "request_keys");
	PUT(p, size ? s->bytes_max : s->bytes, "table", "request_bytes");
}

static void put_table_used(struct page *p)
{
	put_table(p, false);
}

static void put_table_size(struct page *p)
{
	put_table(p, true);
}

static void put_table_full(struct page *p)
{
	if (p->a->dp)
		PUT(p, p->packets.bucket_full, "table", "sources");
	if (p->a->l7)
		PUT(p, p->requests.store.evicted + p->requests.store.full, "table", "request_keys");
}

/* --- the shared store ---- */

static void put_store_state(struct page *p)
{
	for (unsigned i = 0; i < WEIR_FAR_HEALTH_MAX; i++)
		PUT(p, p->requests.far.health == i, "state", weir_far_health_name(i));
}

static void put_store_errors(struct page *p)
{
	static const char *const names[WEIR_FAR_ERROR_MAX] = {
		[WEIR_FAR_ERROR_CONNECT] = "connect", [WEIR_FAR_ERROR_QUEUE] = "queue",
		[WEIR_FAR_ERROR_REPLY] = "reply",     [WEIR_FAR_ERROR_OOM] = "oom",
		[WEIR_FAR_ERROR_SCRIPT] = "script",   [WEIR_FAR_ERROR_CLUSTER] = "cluster"};

	for (unsigned i = 0; i < WEIR_FAR_ERROR_MAX; i++)
		PUT(p, p->requests.far.errors[i], "kind", names[i]);
}

static void put_store_seconds(struct page *p)
{
	const struct weir_far_stats *s = &p->requests.far;
	__u64 sum = 0;
	char le[32];

	for (unsigned i = 0; i < WEIR_FAR_LATENCY_N; i++) {
		sum += s->latency_n[i];
		(void)snprintf(le, sizeof(le), "%g", weir_far_latency_us[i] / 1e6);
		put(p, "_bucket", (double)sum, "le", le, NULL);
	}
	sum += s->latency_n[WEIR_FAR_LATENCY_N];
	put(p, "_bucket", (double)sum, "le", "+Inf", NULL);
	put(p, "_sum", (double)s->latency_sum_us / 1e6, NULL);
	put(p, "_count", (double)sum, NULL);
}

static void put_store_decisions(struct page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->far.decisions, "by", "store");
	PUT(p, s->hot.denied, "by", "remembered refusal");
	PUT(p, s->hot.spent, "by", "lease");
}

static void put_store_calls(struct page *p)
{
	PUT(p, p->requests.far.calls);
}

static void put_store_reconnects(struct page *p)
{
	PUT(p, p->requests.far.reconnects);
}

static void put_leased(struct page *p)
{
	PUT(p, p->requests.hot.given_back, "end", "given back");
	PUT(p, p->requests.hot.lost, "end", "lost");
}

static void put_fallback(struct page *p)
{
	for (size_t i = 0; i < p->n_rows; i++)
		if (p->row[i].fleet)
			PUT(p, p->row[i].fallback, "limit", p->row[i].name);
}

static void put_agents(struct page *p)
{
	PUT(p, p->requests.agents);
}

/* --- the fleet ---- */

static void put_fleet_state(struct page *p)
{
	for (int i = WEIR_FLEET_AWAY; i <= WEIR_FLEET_FOLLOWS; i++)
		PUT(p, (int)p->fleet.state == i, "state",
		    weir_fleet_state_name((enum weir_fleet_state)i));
}

static void put_fleet_lag(struct page *p)
{
	PUT(p, (double)p->fleet.lag_ms / 1000);
}

static void put_fleet_agents(struct page *p)
{
	PUT(p, weir_fleet_live_agents(p->a->fleet));
}

static void put_fleet_entries(struct page *p)
{
	__u64 held = p->a->held ? p->a->held->list[WEIR_LIST_BLOCK].n : 0;

	PUT(p, p->fleet.entries > held ? p->fleet.entries - held : 0, "here", "in force");
	PUT(p, held, "here", "held back");
}

static void put_fleet_waiting(struct page *p)
{
	PUT(p, p->fleet.waiting);
}

static void put_fleet_changes(struct page *p)
{
	PUT(p, p->fleet.changes, "way", "taken");
	PUT(p, p->fleet.pushed, "way", "pushed");
}

static void put_fleet_restores(struct page *p)
{
	PUT(p, p->fleet.restores);
}

static void put_fleet_limits(struct page *p)
{
	struct weir_fleet_limits l;

	weir_fleet_limits(p->a->fleet, &l);
	PUT(p, l.generation, "which", "published");
	PUT(p, weir_agent_uses_pushed(p->a, p->a->conf) ? p->a->pushed.generation : 0, "which",
	    "in force");
}

static void put_fleet_sources(struct page *p)
{
	struct weir_sources_counts n = {};

	if (!weir_agent_sources_counts(p->a, &n))
		return;
	PUT(p, n.told, "what", "told");
	PUT(p, n.untold, "what", "untold");
	PUT(p, n.blocked, "what", "blocked");
	PUT(p, n.would_block, "what", "would_block");
	PUT(p, n.refused, "what", "refused");
}

static void put_fleet_limits_failed(struct page *p)
{
	PUT(p, p->a->pushed_failed ? 1 : 0);
}

static void put_blocks(struct page *p)
{
	static const char *const names[] = {"file", "list-file", "command", "escalation"};
	const struct weir_book_list *l = &p->a->book->list[WEIR_LIST_BLOCK];
	__u64 n[ARRAY_LEN(names)] = {};

	for (size_t i = 0; i < l->n; i++)
		n[weir_is_escalation(&l->item[i])	       ? 3
		  : l->item[i].origin == WEIR_ORIGIN_FILE      ? 0
		  : l->item[i].origin == WEIR_ORIGIN_LIST_FILE ? 1
							       : 2]++;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		PUT(p, n[i], "origin", names[i]);
}

static void put_requests(struct page *p)
{
	for (size_t i = 0; i < p->n_rows; i++)
		for (int v = 0; v < WEIR_L7_VERDICT_MAX; v++)
			PUT(p, p->row[i].n[v], "limit", p->row[i].name, "verdict",
			    weir_l7_verdict_name((enum weir_l7_verdict)v), "algorithm",
			    weir_request_algorithm_name(p->row[i].algorithm), "mode",
			    weir_mode_name(p->row[i].mode));
}

static void put_checks(struct page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->allowed, "result", "allowed");
	PUT(p, s->refused, "result", "refused");
}

static void put_check_notes(struct page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->exempt, "note", "exempt");
	PUT(p, s->no_limit, "note", "no_limit");
	PUT(p, s->bad_path, "note", "bad_path");
	PUT(p, s->no_address, "note", "no_address");
	PUT(p, s->over_budget, "note", "over_budget");
	PUT(p, s->fresh_counted_as_ip, "note", "new_keys_counted_as_ip");
}

static void put_check_seconds(struct page *p)
{
	const struct weir_l7_histogram *h = &p->requests.check;
	__u64 sum = 0;
	char le[32];

	for (int i = 0; i < WEIR_L7_LATENCY_N; i++) {
		sum += h->n[i];
		(void)snprintf(le, sizeof(le), "%g", weir_l7_latency_us[i] / 1e6);
		put(p, "_bucket", (double)sum, "le", le, NULL);
	}
	sum += h->n[WEIR_L7_LATENCY_N];
	put(p, "_bucket", (double)sum, "le", "+Inf", NULL);
	put(p, "_sum", (double)h->sum_us / 1e6, NULL);
	put(p, "_count", (double)sum, NULL);
}

static void put_held(struct page *p)
{
	PUT(p, p->http.held);
}

static void put_abandoned(struct page *p)
{
	PUT(p, p->requests.queue_abandoned);
}

static void put_suspicious(struct page *p)
{
	PUT(p, p->requests.suspicious);
}

static void put_escalations(struct page *p)
{
	for (int i = 0; i < WEIR_ESCALATION_MAX; i++)
		PUT(p, p->a->escalations[i], "result",
		    weir_escalation_name((enum weir_escalation)i));
	PUT(p, p->requests.escalations_capped, "result", "capped");
	PUT(p, p->requests.escalations_spared, "result", "spared");
}

static void put_events_lost(struct page *p)
{
	if (p->a->dp)
		PUT(p, p->packets.events_lost, "layer", "packet");
	if (p->a->l7)
		PUT(p, p->requests.events_lost, "layer", "request");
}

static void put_untrusted(struct page *p)
{
	PUT(p, p->http.untrusted_forwarded);
}

static void put_shared_address(struct page *p)
{
	PUT(p, p->http.shared_address);
}

static void put_connections(struct page *p)
{
	PUT(p, p->http.connections);
}

static void put_connections_max(struct page *p)
{
	PUT(p, p->http.connections_max);
}

static void put_accepted(struct page *p)
{
	PUT(p, p->http.accepted);
}

static void put_closed(struct page *p)
{
	PUT(p, p->http.closed_at_limit, "why", "connections");
	PUT(p, p->http.cut_by_deadline, "why", "deadline");
}

static void put_http_requests(struct page *p)
{
	PUT(p, p->http.requests);
}

static void put_http_bad(struct page *p)
{
	PUT(p, p->http.bad_requests, "why", "wrong");
	PUT(p, p->http.too_large, "why", "too_large");
	PUT(p, p->http.left, "why", "left");
	PUT(p, p->http.no_address, "why", "no_address");
	PUT(p, p->http.no_target, "why", "no_target");
	PUT(p, p->http.doubled, "why", "doubled");
	PUT(p, p->http.spop_errors, "why", "spop");
}

#define M(name, type, labels, layer, put, help)                                                    \
	{                                                                                          \
		"weir_" name, type, labels, help, layer, put                                       \
	}
static const struct metric metrics[] = {
	M("build_info", "gauge", "version", ANY, put_build, "always 1"),
	M("start_timestamp_seconds", "gauge", "", ANY, put_start, "when the agent was started"),
	M("generation", "gauge", "", ANY, put_generation,
	  "number of the configuration in force; grows with every change"),
	M("reload_success_timestamp_seconds", "gauge", "", ANY, put_reloaded,
	  "when a configuration was last read and put in force as a whole"),
	M("reload_failed", "gauge", "", ANY, put_reload_failed,
	  "1: the last reload failed, and the configuration before it is in force"),
	M("mode", "gauge", "mode", ANY, put_mode, "1 for the mode in force"),
	M("overrides", "gauge", "", ANY, put_overrides,
	  "settings of limits changed by command until the next reload"),
	M("interface_attached", "gauge", "interface", PACKETS, put_attached,
	  "1: the packets of this interface are judged"),
	M("packets_total", "counter", "reason", PACKETS, put_reasons,
	  "packets by what was done with them, and why"),
	M("packet_bytes_total", "counter", "reason", PACKETS, put_reason_bytes,
	  "the same in bytes of frames"),
	M("packets_would_total", "counter", "reason", PACKETS, put_would,
	  "packets that monitor mode let pass, by what would have dropped them"),
	M("packet_limit_total", "counter", "limit, verdict, mode", PACKETS, put_packet_limits,
	  "packets that a limit matched: pass, or over the limit (of a monitor limit: would have "
	  "been dropped)"),
	M("packets_contended_total", "counter", "", PACKETS, put_contended,
	  "packets admitted uncharged, since too many CPUs charged one source at once"),
	M("packets_guarded_total", "counter", "", PACKETS, put_guarded,
	  "packets of guarded addresses that a block or penalty spared"),
	M("requests_total", "counter", "limit, verdict, algorithm, mode", REQUESTS, put_requests,
	  "requests that a limit matched: passed, refused, would (refused, but for monitor), "
	  "unjudged, closed and local (the store is away), large (cost above the limit), no_key"),
	M("checks_total", "counter", "result", REQUESTS, put_checks, "requests by their answer"),
	M("check_notes_total", "counter", "note", REQUESTS, put_check_notes,
	  "requests of which something is to be told beside their answer"),
	M("check_seconds", "histogram", "", REQUESTS, put_check_seconds,
	  "time of one decision, without the time that an answer was held"),
	M("held_requests", "gauge", "", REQUESTS, put_held,
	  "answers that wait for their turn in a leaky bucket"),
	M("queue_abandoned_total", "counter", "", REQUESTS, put_abandoned,
	  "places in a leaky bucket whose client left, and which could not be given back"),
	M("suspicious_addresses", "gauge", "", REQUESTS, put_suspicious,
	  "addresses that meet the limit of suspicious"),
	M("store_state", "gauge", "state", SHARED, put_store_state,
	  "1 at what the worst worker finds: healthy, degraded (a failure not long ago), open (not "
	  "asked)"),
	M("store_errors_total", "counter", "kind", SHARED, put_store_errors,
	  "requests that the store did not decide: no connection, waited too long for their turn, "
	  "no "
	  "or a wrong reply, out of memory, script, cluster"),
	M("store_seconds", "histogram", "", SHARED, put_store_seconds,
	  "time of a call of the store, each of one decision or more"),
	M("store_decisions_total", "counter", "by", SHARED, put_store_decisions,
	  "decisions of limits of the fleet, by who made them"),
	M("store_calls_total", "counter", "", SHARED, put_store_calls, "calls of the store"),
	M("store_reconnects_total", "counter", "", SHARED, put_store_reconnects,
	  "connections to the store that were made anew"),
	M("store_leased_total", "counter", "end", SHARED, put_leased,
	  "requests' worth of leases that was not spent"),
	M("store_agents", "gauge", "", SHARED, put_agents,
	  "agents that share the store, as last heard: while it is away each grants its part"),
	M("fallback_active", "gauge", "limit", SHARED, put_fallback,
	  "1: the limit is not counted in the store now, on_store_failure decides"),
	M("fleet_state", "gauge", "state", FLEET, put_fleet_state,
	  "1 at what this host does: away (the store does not answer), restores, reads, follows"),
	M("fleet_lag_seconds", "gauge", "", FLEET, put_fleet_lag,
	  "since this host was last known to have all changes of the fleet's lists"),
	M("fleet_agents", "gauge", "", FLEET, put_fleet_agents, "agents seen within 10 s"),
	M("fleet_entries", "gauge", "here", FLEET, put_fleet_entries,
	  "entries of the fleet's lists; held back: this host guards or allows what they block"),
	M("fleet_waiting", "gauge", "", FLEET, put_fleet_waiting,
	  "changes of lists made here that are not in the store yet"),
	M("fleet_changes_total", "counter", "way", FLEET, put_fleet_changes,
	  "changes of lists taken from the store and pushed to it"),
	M("fleet_restores_total", "counter", "", FLEET, put_fleet_restores,
	  "times the store had lost entries and was told them again"),
	M("fleet_limits_generation", "gauge", "which", FLEET, put_fleet_limits,
	  "generation of limits published, and in force here (0: the file's)"),
	M("fleet_limits_failed", "gauge", "", FLEET, put_fleet_limits_failed,
	  "1: published limits are wrong here, and the last good ones are in force"),
	M("fleet_sources_total", "counter", "what", FLEET, put_fleet_sources,
	  "packet limits of the fleet: counts told to it and not (too many, or the store was "
	  "away); sources blocked, "
	  "or would have been, or refused (the list is full)"),
	M("table_used", "gauge", "table", ANY, put_table_used,
	  "entries in use; request_bytes in bytes"),
	M("table_size", "gauge", "table", ANY, put_table_size, "what fits"),
	M("table_full_total", "counter", "table", ANY, put_table_full,
	  "what found no room: packets judged by a shared entry, states forgotten early"),
	M("blocks", "gauge", "origin", PACKETS, put_blocks, "entries of the block list"),
	M("escalations_total", "counter", "result", REQUESTS, put_escalations,
	  "addresses that were refused too often, by what came of it: blocked, would (monitor), "
	  "refused_*, capped (at_most), spared (unless_identities)"),
	M("events_lost_total", "counter", "layer", ANY, put_events_lost,
	  "events that found their queue full"),
	M("http_connections", "gauge", "", REQUESTS, put_connections, "open connections"),
	M("http_connections_max", "gauge", "", REQUESTS, put_connections_max,
	  "over so many a new one is closed at once"),
	M("http_accepted_total", "counter", "", REQUESTS, put_accepted, "connections accepted"),
	M("http_closed_total", "counter", "why", REQUESTS, put_closed,
	  "connections closed at the limit of connections, or because a request took too long"),
	M("http_requests_total", "counter", "", REQUESTS, put_http_requests,
	  "requests of proxies and callers, right or wrong"),
	M("http_bad_requests_total", "counter", "why", REQUESTS, put_http_bad,
	  "requests that were wrong, too large, left by their client before they were whole, or "
	  "had not "
	  "once what the profile needs"),
	M("untrusted_forwarded_total", "counter", "", REQUESTS, put_untrusted,
	  "requests whose forwarded headers were ignored, since the peer is no trusted proxy"),
	M("shared_address_total", "counter", "", REQUESTS, put_shared_address,
	  "requests that count as one private address, as most of their listener's do: likely a "
	  "proxy's, whose clients share every limit by ip (weir status names it)"),
};

static bool has_layer(const struct weir_agent *a, enum layer l)
{
	return l == ANY || (l == PACKETS  ? a->dp != NULL
			    : l == SHARED ? a->shared != NULL
			    : l == FLEET  ? a->fleet != NULL
					  : a->l7 != NULL);
}

/* --- pages ---- */

static void collect(struct page *p)
{
	struct weir_agent *a = p->a;
	size_t n;

	if (a->dp) {
		if (weir_datapath_counters(a->dp, &p->packets) < 0)
			p->packets = a->meter.now; /* a second old at most */
		p->n_tables = weir_datapath_memory(a->dp, p->table, ARRAY_LEN(p->table));
		if (p->n_tables > (int)ARRAY_LEN(p->table))
			p->n_tables = ARRAY_LEN(p->table);
	}
	if (a->fleet)
		weir_fleet_status(a->fleet, &p->fleet);
	if (!a->l7)
		return;
	weir_l7_stats(a->l7, &p->requests);
	weir_http_stats(a->http, &p->http);
	n = weir_l7_limits(a->l7, p->row, ARRAY_LEN(p->row));
	for (size_t i = 0; i < n && i < ARRAY_LEN(p->row); i++)
		if (p->row[i].in_force)
			p->row[p->n_rows++] = p->row[i];
}

char *weir_agent_metrics(struct weir_agent *a, size_t *ret_n)
{
	_cleanup_free_ struct page *p = calloc(1, sizeof(*p));
	char *text = NULL;

	if (!p)
		return NULL;
	p->a = a;
	p->f = open_memstream(&text, ret_n);
	if (!p->f)
		return NULL;
	collect(p);
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		p->m = &metrics[i];
		if (!has_layer(a, p->m->layer))
			continue;
		(void)fprintf(p->f, "# HELP %s %s\n# TYPE %s %s\n", p->m->name, p->m->help,
			      p->m->name, p->m->type);
		p->m->put(p);
	}
	if (fclose(p->f) == EOF) {
		free(text);
		return NULL;
	}
	return text;
}

void weir_metrics_print(FILE *f)
{
	static const char *const layers[] = {"both", "packets", "requests", "shared store",
					     "fleet"};

	(void)fputs("| metric | type | labels | layer | |\n|---|---|---|---|---|\n", f);
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
		(void)fprintf(f, "| `%s` | %s | %s | %s | %s |\n", metrics[i].name, metrics[i].type,
			      metrics[i].labels, layers[metrics[i].layer], metrics[i].help);
}
