/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of the request layer and of its listeners. */
#include "user/agent/metrics_int.h"

static void put_requests(struct weir_page *p)
{
	for (size_t i = 0; i < p->n_rows; i++)
		for (int v = 0; v < WEIR_L7_VERDICT_MAX; v++)
			PUT(p, p->row[i].n[v], "limit", p->row[i].name, "verdict",
			    weir_l7_verdict_name((enum weir_l7_verdict)v), "algorithm",
			    weir_request_algorithm_name(p->row[i].algorithm), "mode",
			    weir_mode_name(p->row[i].mode));
}

static void put_checks(struct weir_page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->allowed, "result", "allowed");
	PUT(p, s->refused, "result", "refused");
}

static void put_check_notes(struct weir_page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->exempt, "note", "exempt");
	PUT(p, s->no_limit, "note", "no_limit");
	PUT(p, s->bad_path, "note", "bad_path");
	PUT(p, s->no_address, "note", "no_address");
	PUT(p, s->over_budget, "note", "over_budget");
	PUT(p, s->fresh_counted_as_ip, "note", "new_keys_counted_as_ip");
}

static void put_check_seconds(struct weir_page *p)
{
	const struct weir_l7_histogram *h = &p->requests.check;

	weir_page_histogram(p, weir_l7_latency_us, h->n, WEIR_L7_LATENCY_N, h->sum_us);
}

static void put_held(struct weir_page *p)
{
	PUT(p, p->http.held);
}

static void put_abandoned(struct weir_page *p)
{
	PUT(p, p->requests.queue_abandoned);
}

static void put_suspicious(struct weir_page *p)
{
	PUT(p, p->requests.suspicious);
}

static void put_escalations(struct weir_page *p)
{
	for (int i = 0; i < WEIR_ESCALATION_MAX; i++)
		PUT(p, p->a->escalations[i], "result",
		    weir_escalation_name((enum weir_escalation)i));
	PUT(p, p->requests.escalations_capped, "result", "capped");
	PUT(p, p->requests.escalations_spared, "result", "spared");
}

static void put_untrusted(struct weir_page *p)
{
	PUT(p, p->http.untrusted_forwarded);
}

static void put_shared_address(struct weir_page *p)
{
	PUT(p, p->http.shared_address);
}

static void put_connections(struct weir_page *p)
{
	PUT(p, p->http.connections);
}

static void put_connections_max(struct weir_page *p)
{
	PUT(p, p->http.connections_max);
}

static void put_accepted(struct weir_page *p)
{
	PUT(p, p->http.accepted);
}

static void put_closed(struct weir_page *p)
{
	PUT(p, p->http.closed_at_limit, "why", "connections");
	PUT(p, p->http.cut_by_deadline, "why", "deadline");
}

static void put_http_requests(struct weir_page *p)
{
	PUT(p, p->http.requests);
}

static void put_http_bad(struct weir_page *p)
{
	PUT(p, p->http.bad_requests, "why", "wrong");
	PUT(p, p->http.too_large, "why", "too_large");
	PUT(p, p->http.left, "why", "left");
	PUT(p, p->http.no_address, "why", "no_address");
	PUT(p, p->http.no_target, "why", "no_target");
	PUT(p, p->http.doubled, "why", "doubled");
	PUT(p, p->http.spop_errors, "why", "spop");
}

static const struct weir_metric metrics[] = {
	{"weir_requests_total", "counter", "limit, verdict, algorithm, mode", put_requests,
	 "requests that a limit matched: passed, refused, would (refused, but for monitor), "
	 "unjudged, closed and local (the store is away), large (cost above the limit), no_key"},
	{"weir_checks_total", "counter", "result", put_checks, "requests by their answer"},
	{"weir_check_notes_total", "counter", "note", put_check_notes,
	 "requests of which something is to be told beside their answer"},
	{"weir_check_seconds", "histogram", "", put_check_seconds,
	 "time of one decision, without the time that an answer was held"},
	{"weir_held_requests", "gauge", "", put_held,
	 "answers that wait for their turn in a leaky bucket"},
	{"weir_queue_abandoned_total", "counter", "", put_abandoned,
	 "places in a leaky bucket whose client left, and which could not be given back"},
	{"weir_suspicious_addresses", "gauge", "", put_suspicious,
	 "addresses that meet the limit of suspicious"},
	{"weir_escalations_total", "counter", "result", put_escalations,
	 "addresses that were refused too often, by what came of it: blocked, would (monitor), "
	 "refused_*, capped (at_most), spared (unless_identities)"},
	{"weir_http_connections", "gauge", "", put_connections, "open connections"},
	{"weir_http_connections_max", "gauge", "", put_connections_max,
	 "over so many a new one is closed at once"},
	{"weir_http_accepted_total", "counter", "", put_accepted, "connections accepted"},
	{"weir_http_closed_total", "counter", "why", put_closed,
	 "connections closed at the limit of connections, or because a request took too long"},
	{"weir_http_requests_total", "counter", "", put_http_requests,
	 "requests of proxies and callers, right or wrong"},
	{"weir_http_bad_requests_total", "counter", "why", put_http_bad,
	 "requests that were wrong, too large, left by their client before they were whole, or had "
	 "not once what the profile needs"},
	{"weir_untrusted_forwarded_total", "counter", "", put_untrusted,
	 "requests whose forwarded headers were ignored, since the peer is no trusted proxy"},
	{"weir_shared_address_total", "counter", "", put_shared_address,
	 "requests that count as one private address, as most of their listener's do: likely a "
	 "proxy's, whose clients share every limit by ip (weir status names it)"},
};

const struct weir_metrics weir_metrics_requests = {metrics, ARRAY_LEN(metrics), "requests"};
