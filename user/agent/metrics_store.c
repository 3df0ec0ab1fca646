/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of the shared store, as the request layer's workers find it. */
#include "user/agent/metrics_int.h"

static void put_store_state(struct weir_page *p)
{
	for (unsigned i = 0; i < WEIR_FAR_HEALTH_MAX; i++)
		PUT(p, p->requests.far.health == i, "state", weir_far_health_name(i));
}

static void put_store_errors(struct weir_page *p)
{
	static const char *const names[WEIR_FAR_ERROR_MAX] = {
		[WEIR_FAR_ERROR_CONNECT] = "connect", [WEIR_FAR_ERROR_QUEUE] = "queue",
		[WEIR_FAR_ERROR_REPLY] = "reply",     [WEIR_FAR_ERROR_OOM] = "oom",
		[WEIR_FAR_ERROR_SCRIPT] = "script",   [WEIR_FAR_ERROR_CLUSTER] = "cluster"};

	for (unsigned i = 0; i < WEIR_FAR_ERROR_MAX; i++)
		PUT(p, p->requests.far.errors[i], "kind", names[i]);
}

static void put_store_seconds(struct weir_page *p)
{
	const struct weir_far_stats *s = &p->requests.far;

	weir_page_histogram(p, weir_far_latency_us, s->latency_n, WEIR_FAR_LATENCY_N,
			    s->latency_sum_us);
}

static void put_store_decisions(struct weir_page *p)
{
	const struct weir_l7_stats *s = &p->requests;

	PUT(p, s->far.decisions, "by", "store");
	PUT(p, s->hot.denied, "by", "remembered refusal");
	PUT(p, s->hot.spent, "by", "lease");
}

static void put_store_calls(struct weir_page *p)
{
	PUT(p, p->requests.far.calls);
}

static void put_store_reconnects(struct weir_page *p)
{
	PUT(p, p->requests.far.reconnects);
}

static void put_leased(struct weir_page *p)
{
	PUT(p, p->requests.hot.given_back, "end", "given back");
	PUT(p, p->requests.hot.lost, "end", "lost");
}

static void put_fallback(struct weir_page *p)
{
	for (size_t i = 0; i < p->n_rows; i++)
		if (p->row[i].fleet)
			PUT(p, p->row[i].fallback, "limit", p->row[i].name);
}

static void put_agents(struct weir_page *p)
{
	PUT(p, p->requests.agents);
}

static const struct weir_metric metrics[] = {
	{"weir_store_state", "gauge", "state", put_store_state,
	 "1 at what the worst worker finds: healthy, degraded (a failure not long ago), open (not "
	 "asked)"},
	{"weir_store_errors_total", "counter", "kind", put_store_errors,
	 "requests that the store did not decide: no connection, waited too long for their turn, "
	 "no or a wrong reply, out of memory, script, cluster"},
	{"weir_store_seconds", "histogram", "", put_store_seconds,
	 "time of a call of the store, each of one decision or more"},
	{"weir_store_decisions_total", "counter", "by", put_store_decisions,
	 "decisions of limits of the fleet, by who made them"},
	{"weir_store_calls_total", "counter", "", put_store_calls, "calls of the store"},
	{"weir_store_reconnects_total", "counter", "", put_store_reconnects,
	 "connections to the store, the first ones too"},
	{"weir_store_leased_total", "counter", "end", put_leased,
	 "requests' worth of leases that was not spent"},
	{"weir_store_agents", "gauge", "", put_agents,
	 "agents that share the store, as last heard: while it is away each grants its part"},
	{"weir_fallback_active", "gauge", "limit", put_fallback,
	 "1: the limit is not counted in the store now, on_store_failure decides"},
};

const struct weir_metrics weir_metrics_store = {metrics, ARRAY_LEN(metrics), "shared store"};
