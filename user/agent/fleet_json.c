/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What status tells of the fleet: the state of this host in it, the other agents, and what is wrong with any of them.
 * Called by status.c.
 */
#include <stdarg.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"

#define LAG_SAID_MS 5000

static json_t *agent_json(const struct weir_fleet_agent *g)
{
	json_t *o = json_object();

	weir_json_set_text(o, "host", g->host);
	weir_json_set_text(o, "instance", g->instance);
	weir_json_set_text(o, "version", g->version);
	weir_json_set_bool(o, "live", g->live);
	weir_json_set_bool(o, "self", g->self);
	weir_json_set_u64(o, "seen_ms_ago", g->age_ms);
	weir_json_set_u64(o, "generation", g->generation);
	weir_json_set_text(o, "configuration", g->digest);
	weir_json_set_bool(o, "limits_from_store", g->limits_from_store);
	weir_json_set_u64(o, "limits", g->limits);
	weir_json_set_bool(o, "limits_failed", g->limits_failed);
	weir_json_set_text(o, "key", g->fingerprint);
	weir_json_set_u64(o, "behind", g->behind);
	weir_json_set_u64(o, "waiting", g->waiting);
	return o;
}

static json_t *agents_json(struct weir_agent *a)
{
	struct weir_fleet_agent *g;
	size_t n = weir_fleet_agents(a->fleet, NULL, 0);
	json_t *list = json_array();

	g = calloc(n + 1, sizeof(*g));
	if (!g)
		return list;
	(void)weir_fleet_agents(a->fleet, g, n);
	for (size_t i = 0; i < n; i++) {
		if (g[i].self) /* as it is now, not as of the last beat */
			g[i].limits = weir_agent_uses_pushed(a, a->conf) ? a->pushed.generation : 0;
		(void)json_array_append_new(list, agent_json(&g[i])); /* no memory: not shown */
	}
	free(g);
	return list;
}

json_t *weir_agent_fleet_json(struct weir_agent *a)
{
	struct weir_fleet_status s;
	struct weir_fleet_limits l;
	char when[WEIR_TIME_STRLEN];
	json_t *o = json_object(), *limits = json_object(), *sources = weir_agent_sources_json(a);
	__u64 now_ms;

	weir_fleet_status(a->fleet, &s);
	weir_fleet_limits(a->fleet, &l);
	now_ms = weir_fleet_now_ms(a->fleet);
	weir_json_set_text(o, "state", weir_fleet_state_name(s.state));
	weir_json_set_text(o, "since", weir_clock_format(s.since_s, when));
	weir_json_set_text(o, "why", s.why[0] ? s.why : NULL);
	weir_json_set_text(o, "server", s.server[0] ? s.server : NULL);
	weir_json_set_bool(o, "lists", a->fleet_lists);
	weir_json_set_u64(o, "entries", s.entries);
	weir_json_set_u64(o, "held", a->held ? a->held->list[WEIR_LIST_BLOCK].n : 0);
	weir_json_set_u64(o, "waiting", s.waiting);
	weir_json_set_u64(o, "behind", s.behind);
	weir_json_set_u64(o, "lag_ms", s.lag_ms);
	weir_json_set_bool(o, "durable", s.durable);
	weir_json_set(o, "clock_offset_ms", json_integer(s.clock_known ? s.clock_offset_ms : 0));
	weir_json_set_u64(o, "changes", s.changes);
	weir_json_set_u64(o, "pushed", s.pushed);
	weir_json_set_u64(o, "reads", s.reads);
	weir_json_set_u64(o, "restores", s.restores);
	weir_json_set_text(o, "key", s.fingerprint[0] ? s.fingerprint : NULL);
	weir_json_set_u64(limits, "published", l.generation);
	weir_json_set_u64(limits, "in_force",
			  weir_agent_uses_pushed(a, a->conf) ? a->pushed.generation : 0);
	weir_json_set_bool(limits, "follows", a->conf->store.limits_from == WEIR_LIMITS_FROM_STORE);
	weir_json_set_bool(limits, "pulled", a->pulled);
	if (l.generation)
		weir_json_set_u64(limits, "published_ms_ago",
				  now_ms > l.at_ms ? now_ms - l.at_ms : 0);
	weir_json_set_text(limits, "host", l.generation ? l.host : NULL);
	weir_json_set_text(limits, "error", a->pushed_error[0] ? a->pushed_error : NULL);
	weir_json_set(o, "limits", limits);
	weir_json_set_u64(o, "live", weir_fleet_live_agents(a->fleet));
	weir_json_set(o, "agents", agents_json(a));
	if (sources)
		weir_json_set(o, "sources", sources);
	return o;
}

static void say_agents(struct weir_agent *a, const struct weir_fleet_limits *l, json_t *list)
{
	size_t n = weir_fleet_agents(a->fleet, NULL, 0);
	struct weir_fleet_agent *g = calloc(n + 1, sizeof(*g));

	if (!g)
		return;
	(void)weir_fleet_agents(a->fleet, g, n);
	for (size_t i = 0; i < n; i++) {
		if (g[i].self || !g[i].live)
			continue;
		if (g[i].limits_failed)
			weir_json_say(list,
				      "%s keeps generation %llu of the limits: %llu is wrong there",
				      g[i].host, (unsigned long long)g[i].limits,
				      (unsigned long long)l->generation);
		else if (g[i].limits_from_store && l->generation && g[i].limits != l->generation &&
			 weir_fleet_now_ms(a->fleet) > l->at_ms + LAG_SAID_MS)
			weir_json_say(list,
				      "%s lags: generation %llu of the limits is in force there, "
				      "%llu is published",
				      g[i].host, (unsigned long long)g[i].limits,
				      (unsigned long long)l->generation);
	}
	free(g);
}

void weir_agent_degraded_fleet(struct weir_agent *a, json_t *list)
{
	struct weir_fleet_status s;
	struct weir_fleet_limits l;
	char when[WEIR_TIME_STRLEN];

	if (weir_agent_sources_idle(a))
		weir_json_say(list, "%s", weir_agent_sources_idle(a));
	if (!a->fleet)
		return;
	weir_fleet_status(a->fleet, &s);
	weir_fleet_limits(a->fleet, &l);
	if (s.state == WEIR_FLEET_AWAY)
		weir_json_say(list,
			      "the store does not answer since %s (%s): blocks and allows of this "
			      "host reach no other, %llu change%s wait%s",
			      weir_clock_format(s.since_s, when), s.why,
			      (unsigned long long)s.waiting, s.waiting == 1 ? "" : "s",
			      s.waiting == 1 ? "s" : "");
	if (weir_fleet_unready(a->fleet))
		weir_json_say(list, "NOT READY: %s", weir_fleet_unready(a->fleet));
	if (weir_agent_sources_why(a))
		weir_json_say(list,
			      "the store does not count packet limits of scope: fleet (%s): each "
			      "host's own limit stands",
			      weir_agent_sources_why(a));
	if (a->fleet_error[0])
		weir_json_say(list, "the fleet's lists are not in force as they are: %s",
			      a->fleet_error);
	if (weir_agent_store_waits(a, a->conf))
		weir_json_say(list, "%s", weir_agent_store_waits(a, a->conf));
	if (!s.durable && !a->forgetful)
		weir_json_say(list,
			      "what the fleet says cannot be written into %s: a restart without "
			      "the store would lose it",
			      a->conf->state_dir);
	if (a->pushed_failed)
		weir_json_say(list,
			      "generation %llu of the limits is wrong here, %llu stays in force: "
			      "%s (weir limit pull tries again)",
			      (unsigned long long)a->pushed_failed,
			      (unsigned long long)a->pushed.generation, a->pushed_error);
	say_agents(a, &l, list);
}
