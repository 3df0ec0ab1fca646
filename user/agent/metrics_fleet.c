/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics of what the agents of a fleet share. */
#include "user/agent/metrics_int.h"

static void put_fleet_state(struct weir_page *p)
{
	for (int i = WEIR_FLEET_AWAY; i <= WEIR_FLEET_FOLLOWS; i++)
		PUT(p, (int)p->fleet.state == i, "state",
		    weir_fleet_state_name((enum weir_fleet_state)i));
}

static void put_fleet_lag(struct weir_page *p)
{
	PUT(p, (double)p->fleet.lag_ms / 1000);
}

static void put_fleet_agents(struct weir_page *p)
{
	PUT(p, weir_fleet_live_agents(p->a->fleet));
}

static void put_fleet_entries(struct weir_page *p)
{
	__u64 held = p->a->held ? p->a->held->list[WEIR_LIST_BLOCK].n : 0;

	PUT(p, p->fleet.entries > held ? p->fleet.entries - held : 0, "here", "in force");
	PUT(p, held, "here", "held back");
}

static void put_fleet_waiting(struct weir_page *p)
{
	PUT(p, p->fleet.waiting);
}

static void put_fleet_changes(struct weir_page *p)
{
	PUT(p, p->fleet.changes, "way", "taken");
	PUT(p, p->fleet.pushed, "way", "pushed");
}

static void put_fleet_restores(struct weir_page *p)
{
	PUT(p, p->fleet.restores);
}

static void put_fleet_limits(struct weir_page *p)
{
	struct weir_fleet_limits l;

	weir_fleet_limits(p->a->fleet, &l);
	PUT(p, l.generation, "which", "published");
	PUT(p, weir_agent_uses_pushed(p->a, p->a->conf) ? p->a->pushed.generation : 0, "which",
	    "in force");
}

static void put_fleet_sources(struct weir_page *p)
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

static void put_fleet_limits_failed(struct weir_page *p)
{
	PUT(p, p->a->pushed_failed ? 1 : 0);
}

static const struct weir_metric metrics[] = {
	{"weir_fleet_state", "gauge", "state", put_fleet_state,
	 "1 at what this host does: away (the store does not answer), restores, reads, follows"},
	{"weir_fleet_lag_seconds", "gauge", "", put_fleet_lag,
	 "since this host was last known to have all changes of the fleet's lists"},
	{"weir_fleet_agents", "gauge", "", put_fleet_agents, "agents seen within 10 s"},
	{"weir_fleet_entries", "gauge", "here", put_fleet_entries,
	 "entries of the fleet's lists; held back: this host guards or allows what they block"},
	{"weir_fleet_waiting", "gauge", "", put_fleet_waiting,
	 "changes of lists made here that are not in the store yet"},
	{"weir_fleet_changes_total", "counter", "way", put_fleet_changes,
	 "changes of lists taken from the store and pushed to it"},
	{"weir_fleet_restores_total", "counter", "", put_fleet_restores,
	 "times the store was not where this host had last heard of it, and was told all that it "
	 "knows"},
	{"weir_fleet_limits_generation", "gauge", "which", put_fleet_limits,
	 "generation of limits published, and in force here (0: the file's)"},
	{"weir_fleet_limits_failed", "gauge", "", put_fleet_limits_failed,
	 "1: published limits are wrong here, and the last good ones are in force"},
	{"weir_fleet_sources_total", "counter", "what", put_fleet_sources,
	 "packet limits of the fleet: counts told to it and not (too many, or the store was away); "
	 "sources blocked, or would have been, or refused (the list is full)"},
};

const struct weir_metrics weir_metrics_fleet = {metrics, ARRAY_LEN(metrics), "fleet"};
