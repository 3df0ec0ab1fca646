/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of the agent itself, and of the tables of both layers. */
#include "user/agent/metrics_int.h"

#include <string.h>

static void put_build(struct weir_page *p)
{
	PUT(p, 1, "version", WEIR_VERSION);
}

static void put_start(struct weir_page *p)
{
	PUT(p, p->a->started_s);
}

static void put_generation(struct weir_page *p)
{
	PUT(p, weir_agent_generation(p->a));
}

static void put_reloaded(struct weir_page *p)
{
	PUT(p, p->a->reloaded_s);
}

static void put_reload_failed(struct weir_page *p)
{
	PUT(p, p->a->last_error[0] ? 1 : 0);
}

static void put_mode(struct weir_page *p)
{
	for (int m = WEIR_MODE_ENFORCE; m <= WEIR_MODE_MONITOR; m++)
		PUT(p, (int)p->a->in_force == m, "mode", weir_mode_name((enum weir_mode)m));
}

static void put_overrides(struct weir_page *p)
{
	PUT(p, p->a->n_override);
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
static void put_table(struct weir_page *p, bool size)
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

static void put_table_used(struct weir_page *p)
{
	put_table(p, false);
}

static void put_table_size(struct weir_page *p)
{
	put_table(p, true);
}

static void put_table_full(struct weir_page *p)
{
	if (p->a->dp)
		PUT(p, p->packets.bucket_full, "table", "sources");
	if (p->a->l7)
		PUT(p, p->requests.store.evicted + p->requests.store.full, "table", "request_keys");
}

static void put_events_lost(struct weir_page *p)
{
	if (p->a->dp)
		PUT(p, p->packets.events_lost, "layer", "packet");
	if (p->a->l7)
		PUT(p, p->requests.events_lost, "layer", "request");
}

static const struct weir_metric metrics[] = {
	{"weir_build_info", "gauge", "version", put_build, "always 1"},
	{"weir_start_timestamp_seconds", "gauge", "", put_start, "when the agent was started"},
	{"weir_generation", "gauge", "", put_generation,
	 "number of the configuration in force; grows with every change"},
	{"weir_reload_success_timestamp_seconds", "gauge", "", put_reloaded,
	 "when a configuration was last read and put in force as a whole"},
	{"weir_reload_failed", "gauge", "", put_reload_failed,
	 "1: the last reload failed, and the configuration before it is in force"},
	{"weir_mode", "gauge", "mode", put_mode, "1 for the mode in force"},
	{"weir_overrides", "gauge", "", put_overrides,
	 "settings of limits changed by command until the next reload"},
	{"weir_table_used", "gauge", "table", put_table_used,
	 "entries in use; request_bytes in bytes"},
	{"weir_table_size", "gauge", "table", put_table_size, "what fits"},
	{"weir_table_full_total", "counter", "table", put_table_full,
	 "what found no room: packets judged by a shared entry, states forgotten early"},
	{"weir_events_lost_total", "counter", "layer", put_events_lost,
	 "events that found their queue full"},
};

const struct weir_metrics weir_metrics_agent = {metrics, ARRAY_LEN(metrics), "both"};
