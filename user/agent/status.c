/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the agent says of itself: `weir status`, `weir top`, `weir limit list`. One object with stable names; the words
 * are made by the command. Called by commands.c.
 */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "user/agent/agent_int.h"
#include "user/agent/describe.h"
#include "user/agent/json.h"
#include "user/base/str.h"

/* The limit's place in the counters and in the policy in force. */
bool weir_agent_find_limit(const struct weir_agent *a, const char *name, unsigned *ret_stat,
			   unsigned *ret_limit)
{
	const struct weir_limit_name *names = a->dp ? weir_datapath_names(a->dp) : NULL;

	for (unsigned i = 0; names && i < WEIR_STATS_MAX; i++)
		if (names[i].live && names[i].keeps != WEIR_KEEPS_FLEET &&
		    !strncmp(names[i].name, name, WEIR_NAME_MAX)) {
			*ret_stat = i;
			*ret_limit = names[i].limit;
			return true;
		}
	return false;
}

const char *weir_agent_limit_at(const struct weir_agent *a, unsigned limit)
{
	const struct weir_limit_name *names = a->dp ? weir_datapath_names(a->dp) : NULL;

	for (unsigned i = 0; names && i < WEIR_STATS_MAX; i++)
		if (names[i].live && names[i].limit == limit)
			return names[i].name;
	return "?";
}

static void set_time(json_t *o, const char *key, __s64 wall_s)
{
	char text[WEIR_TIME_STRLEN];

	weir_json_set_text(o, key, wall_s ? weir_clock_format(wall_s, text) : NULL);
}

static __u64 rest_s(__u64 until_ns, __u64 now_ns)
{
	return until_ns > now_ns ? (until_ns - now_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S : 0;
}

json_t *weir_agent_overrides_json(const struct weir_agent *a, const char *limit)
{
	json_t *list = NULL;

	for (size_t i = 0; i < a->n_override; i++) {
		const struct weir_override *v = &a->override[i];
		json_t *row;

		if (strcmp(v->limit, limit) != 0)
			continue;
		list = list ? list : json_array();
		row = json_object();
		weir_json_set_text(row, "key", v->key);
		weir_json_set_text(row, "value", v->value);
		weir_json_set_text(row, "who", v->who);
		set_time(row, "since", v->since_s);
		(void)json_array_append_new(list, row); /* out of memory: not shown */
	}
	return list;
}

static json_t *limit_json(struct weir_agent *a, const struct weir_conf_limit *l)
{
	const struct weir_meter *m = &a->meter;
	char text[WEIR_DESCRIBE_MAX];
	json_t *o = json_object(), *over = weir_agent_overrides_json(a, l->name);
	unsigned stat, limit;

	weir_json_set_text(o, "name", l->name);
	weir_json_set_text(o, "mode", weir_mode_name(l->mode));
	weir_json_set_text(o, "algorithm", weir_algorithm_name(l->algorithm));
	weir_json_set_text(o, "per", weir_describe_per(l, text));
	weir_json_set_text(o, "unit", l->bytes ? "bytes" : "packets");
	weir_json_set_text(o, "text", weir_describe_limit(l, text));
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		weir_json_set_u64(o, "rate", l->rate);
		weir_json_set_u64(o, "rate_per_ns", l->rate_per_ns);
		weir_json_set_u64(o, "burst", l->burst);
	} else {
		weir_json_set_u64(o, "limit", l->limit);
		weir_json_set_u64(o, "window_ns", l->window_ns);
	}
	weir_json_set_u64(o, "block_for_ns", l->block_for_ns);
	if (weir_agent_find_limit(a, l->name, &stat, &limit)) {
		const struct weir_limit_counts *now = &m->now.limit[stat],
					       *before = &m->before.limit[stat];

		weir_json_set(o, "pass", weir_meter_count_json(m, &now->pass, &before->pass));
		weir_json_set(o, "over", weir_meter_count_json(m, &now->over, &before->over));
		if (weir_acting_now(&a->acting[stat], weir_now().wall_s))
			set_time(o, "acting_since", a->acting[stat].since_s);
	}
	if (over)
		weir_json_set(o, "overridden", over);
	return o;
}

json_t *weir_agent_limits_json(struct weir_agent *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->conf->n_limits; i++)
		(void)json_array_append_new(list, limit_json(a, &a->conf->limits[i]));
	return list;
}

static json_t *interfaces_json(struct weir_agent *a)
{
	struct weir_attachment at[WEIR_INTERFACES_MAX];
	int n = a->dp ? weir_datapath_attachments(a->dp, at, WEIR_INTERFACES_MAX) : 0;
	json_t *list = json_array();

	for (size_t i = 0; i < a->conf->n_interfaces; i++) {
		json_t *o = json_object();
		bool found = false;

		weir_json_set_text(o, "name", a->conf->interfaces[i]);
		for (int k = 0; k < n && k < WEIR_INTERFACES_MAX && !found; k++) {
			if (strcmp(at[k].ifname, a->conf->interfaces[i]) != 0)
				continue;
			if (at[k].stale) {
				weir_json_set_bool(o, "stale", true);
				weir_json_set_u64(o, "program_id", at[k].prog_id);
			}
			if (!at[k].attached)
				continue;
			found = true;
			weir_json_set_u64(o, "index", (__u64)at[k].ifindex);
			weir_json_set_text(o, "xdp", at[k].native ? "native" : "generic");
			weir_json_set_text(o, "attach", weir_attach_name(at[k].how));
			weir_json_set_bool(o, "netlink", at[k].netlink);
			weir_json_set_u64(o, "program_id", at[k].prog_id);
			if (at[k].note[0])
				weir_json_set_text(o, "note", at[k].note);
		}
		weir_json_set_bool(o, "attached", found);
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *tables_json(struct weir_agent *a)
{
	struct weir_table_use use[64];
	int n = a->dp ? weir_datapath_memory(a->dp, use, ARRAY_LEN(use)) : 0;
	json_t *list = json_array();

	for (int i = 0; i < n && i < (int)ARRAY_LEN(use); i++) {
		json_t *o = json_object();

		weir_json_set_text(o, "name", use[i].name);
		weir_json_set_u64(o, "bytes", use[i].bytes);
		weir_json_set_u64(o, "entries", use[i].entries);
		weir_json_set_u64(o, "used", use[i].used);
		weir_json_set_u64(o, "full_total", use[i].full_total);
		(void)json_array_append_new(list, o);
	}
	return list;
}

/* Slots by the last whole sweep. */
static json_t *sources_json(struct weir_agent *a)
{
	const struct weir_sweeper *s = &a->sweep;
	struct weir_tables t = {};
	json_t *o = json_object();

	if (a->dp && weir_datapath_tables(a->dp, &t)) {
		weir_json_set_u64(o, "slots4", t.t4 ? (__u64)t.buckets4 * WEIR_WAYS : 0);
		weir_json_set_u64(o, "slots6", t.t6 ? (__u64)t.buckets6 * WEIR_WAYS : 0);
	}
	weir_json_set_bool(o, "swept", s->last_ns != 0);
	weir_json_set_u64(o, "occupied4", s->last.occupied4);
	weir_json_set_u64(o, "busy4", s->last.busy4);
	weir_json_set_u64(o, "occupied6", s->last.occupied6);
	weir_json_set_u64(o, "busy6", s->last.busy6);
	weir_json_set_u64(o, "released_total", s->released);
	weir_json_set_u64(o, "pass_ms", s->pass_took_ns / 1000000);
	weir_json_set_u64(o, "pass_wanted_ms", s->pass_ns / 1000000);
	return o;
}

static json_t *losses_json(struct weir_agent *a)
{
	const struct weir_counters *now = &a->meter.now, *before = &a->meter.before;
	json_t *o = json_object();

	weir_json_set_u64(o, "bucket_full", now->bucket_full);
	weir_json_set_u64(o, "bucket_full_per_second",
			  weir_meter_rate(&a->meter, now->bucket_full, before->bucket_full));
	weir_json_set_u64(o, "contended", now->contended);
	weir_json_set_u64(o, "claim_lost", now->claim_lost);
	weir_json_set_u64(o, "duplicate", now->duplicate);
	weir_json_set_u64(o, "claims", now->claims);
	weir_json_set_u64(o, "takeovers", now->takeovers);
	weir_json_set_u64(o, "guarded", now->guarded);
	weir_json_set_u64(o, "events_sent", now->events_sent);
	weir_json_set_u64(o, "events_capped", now->events_capped);
	weir_json_set_u64(o, "events_lost", now->events_lost);
	weir_json_set_u64(o, "events_suppressed", a->events->suppressed);
	weir_json_set_u64(o, "events_unwritten", a->events_unwritten);
	weir_json_set_u64(o, "lists_repaired", a->reconciled);
	return o;
}

/* Everything, and what of it is dropped. */
static json_t *totals_json(const struct weir_meter *m)
{
	const struct weir_count *now = weir_meter_reasons(&m->now.reason),
				*before = weir_meter_reasons(&m->before.reason);
	struct weir_count sum[2][2] = {};
	json_t *o = json_object();

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++) {
		int drop = WEIR_REASON_DROPS(i) ? 1 : 0;

		sum[drop][0].packets += now[i].packets;
		sum[drop][0].bytes += now[i].bytes;
		sum[drop][1].packets += before[i].packets;
		sum[drop][1].bytes += before[i].bytes;
	}
	weir_json_set(o, "passed", weir_meter_count_json(m, &sum[0][0], &sum[0][1]));
	weir_json_set(o, "dropped", weir_meter_count_json(m, &sum[1][0], &sum[1][1]));
	return o;
}

static void degraded_attachments(struct weir_agent *a, const json_t *interfaces, json_t *list)
{
	json_t *o;
	size_t i;

	json_array_foreach(interfaces, i, o) {
		const char *name = weir_json_text_of(o, "name"), *xdp = weir_json_text_of(o, "xdp");

		if (weir_json_bool_of(o, "stale"))
			weir_json_say(list,
				      "%s is NOT protected by this agent: program %llu there is an "
				      "old weir with maps of its own, which no limit or list set "
				      "now reaches; this replaces it without a gap: ip -force link "
				      "set dev %s xdp pinned %s/%s/prog",
				      name, (unsigned long long)weir_json_u64_of(o, "program_id"),
				      name, a->conf->bpffs ? a->conf->bpffs : "/sys/fs/bpf",
				      a->conf->instance);
		else if (!weir_json_bool_of(o, "attached"))
			weir_json_say(list, "%s is NOT protected: %s", name,
				      a->conf->attach == WEIR_ATTACH_EXTERNAL
					      ? "attach is external, and nobody has attached the "
						"program (ip link set dev IFACE xdp pinned ...)"
					      : "weir is not attached to it");
		else if (xdp && !strcmp(xdp, "generic") && a->conf->xdp_mode != WEIR_XDP_GENERIC)
			weir_json_say(list,
				      "%s is in generic mode, which is several times slower%s%s",
				      name, weir_json_text_of(o, "note") ? ": " : "",
				      weir_json_text_of(o, "note") ? weir_json_text_of(o, "note")
								   : "");
	}
	if (a->dp && !a->conf->n_interfaces)
		weir_json_say(list, "no interface is configured: no packet is judged");
}

static json_t *degraded_json(struct weir_agent *a, const json_t *interfaces)
{
	const struct weir_counters *c = &a->meter.now, *b = &a->meter.before;
	json_t *list = json_array();
	char when[WEIR_TIME_STRLEN];
	__u64 full = weir_meter_rate(&a->meter, c->bucket_full, b->bucket_full);

	degraded_attachments(a, interfaces, list);
	weir_agent_degraded_requests(a, list);
	weir_agent_degraded_fleet(a, list);
	if (a->refused_text)
		weir_json_say(list,
			      "%s was not confirmed: the configuration before it is in force since "
			      "%s (weir reload tries the file again)",
			      a->source.path ? a->source.path : "the file",
			      weir_clock_format(a->reverted_s, when));
	if (a->mode.set && !strcmp(a->mode.why, "not confirmed"))
		weir_json_say(list, "what was started or reloaded was not confirmed in time: "
				    "nothing is dropped until weir mode enforce");
	if (a->last_error[0])
		weir_json_say(
			list,
			"the last reload failed, the configuration before it stays in force: %s",
			a->last_error);
	if (a->store_error[0])
		weir_json_say(
			list,
			"the state file cannot be written (%s): a restart would lose what was set "
			"by command since; make room in %s (df %s), weir tries again every 10 s",
			a->store_error, a->conf->state_dir, a->conf->state_dir);
	if (a->unread)
		weir_json_say(list, "blocks, allows and the mode that were set by command before "
				    "the start could not be read from the state file: only those "
				    "of the configuration are in force");
	if (full)
		weir_json_say(list,
			      "the source table is full for %llu packets a second, which are "
			      "judged by the shared entry of their /24 or /48: raise "
			      "memory.packet_sources, or lower burst and window",
			      (unsigned long long)full);
	if (a->sweep.last_ns && a->sweep.pass_took_ns > 2 * a->sweep.pass_ns)
		weir_json_say(list,
			      "the sweep of the source table is late (%llu ms instead of %llu): "
			      "this machine is overloaded",
			      (unsigned long long)(a->sweep.pass_took_ns / 1000000),
			      (unsigned long long)(a->sweep.pass_ns / 1000000));
	if (a->guard_cut)
		weir_json_say(list, "more than %d own addresses: some are not guarded",
			      WEIR_GUARD_MAX);
	return list;
}

static void set_mode_json(struct weir_agent *a, json_t *o, const struct weir_now *now)
{
	weir_json_set_text(o, "mode", weir_mode_name(a->in_force));
	set_time(o, "mode_since", a->mode_since_s);
	weir_json_set_u64(o, "mode_age_s",
			  now->wall_s > a->mode_since_s ? (__u64)(now->wall_s - a->mode_since_s)
							: 0);
	weir_json_set_text(o, "mode_by",
			   a->mode.set	      ? a->mode.why
			   : a->start_monitor ? "--monitor"
					      : "configuration");
	if (a->mode.set && a->mode.who[0])
		weir_json_set_text(o, "mode_who", a->mode.who);
	set_time(o, "mode_until", a->mode.set ? a->mode.until_s : 0);
	if (a->mode.set && a->mode.until_ns) {
		weir_json_set_u64(o, "mode_rest_s", rest_s(a->mode.until_ns, now->mono_ns));
		weir_json_set_text(o, "mode_then",
				   weir_mode_name(a->mode.back_set   ? a->mode.back
						  : a->start_monitor ? WEIR_MODE_MONITOR
								     : a->conf->mode));
	}
	if (a->confirm.kind) {
		json_t *c = json_object();

		weir_json_set_text(c, "of", a->confirm.kind == WEIR_CONFIRM_RUN ? "run" : "reload");
		weir_json_set_text(c, "then",
				   a->confirm.kind == WEIR_CONFIRM_RUN
					   ? "monitor mode"
					   : "the previous configuration");
		set_time(c, "until", a->confirm.until_s);
		weir_json_set_u64(c, "rest_s", rest_s(a->confirm.until_ns, now->mono_ns));
		weir_json_set(o, "unconfirmed", c);
	}
}

static const char *adoption_name(enum weir_adoption adoption)
{
	static const char *const names[] = {"fresh", "pins", "program", "partly"};

	return (unsigned)adoption < ARRAY_LEN(names) ? names[adoption] : "?";
}

/* Is what is in force what the file says? "same", "changed", "unreadable"; NULL: there is no file. */
static const char *file_state(const struct weir_agent *a)
{
	struct weir_source now = {};
	const char *state;

	if (!a->source.path)
		return NULL;
	if (weir_source_read(a->source.path, &now, NULL) < 0)
		return "unreadable";
	state = now.n == a->source.n && !memcmp(now.text, a->source.text, now.n) ? "same"
										 : "changed";
	weir_source_done(&now);
	return state;
}

json_t *weir_agent_status(struct weir_agent *a)
{
	struct weir_now now = weir_now();
	json_t *requests = weir_agent_request_json(a, true);
	char why[128];
	json_t *o = weir_reply_ok(), *interfaces = interfaces_json(a), *notes = json_array();

	weir_json_set_text(o, "version", WEIR_VERSION);
	weir_json_set_text(o, "instance", a->conf->instance);
	weir_json_set_u64(o, "pid", (__u64)getpid());
	set_time(o, "started", a->started_s);
	set_mode_json(a, o, &now);
	weir_json_set_u64(o, "generation", weir_agent_generation(a));
	set_time(o, "applied", a->applied_s);
	weir_json_set_text(o, "configuration", a->source.path);
	weir_json_set_text(o, "file", file_state(a));
	weir_json_set_u64(o, "overrides", a->n_override);
	weir_json_set_text(o, "unready", weir_agent_unready(a, why, sizeof(why)));
	weir_json_set_bool(o, "packets", a->dp != NULL);
	if (requests)
		weir_json_set(o, "request", requests);
	weir_json_set(o, "degraded", degraded_json(a, interfaces));
	weir_json_set(o, "interfaces", interfaces);
	weir_json_set(o, "totals", totals_json(&a->meter));
	weir_json_set(o, "limits", weir_agent_limits_json(a));
	weir_json_set(o, "reasons", weir_meter_reasons_json(&a->meter, false));
	weir_json_set(o, "would", weir_meter_reasons_json(&a->meter, true));
	weir_json_set(o, "sources", sources_json(a));
	weir_json_set(o, "tables", tables_json(a));
	weir_json_set(o, "lists", weir_agent_lists_json(a));
	weir_json_set(o, "losses", losses_json(a));
	if (a->fleet)
		weir_json_set(o, "fleet", weir_agent_fleet_json(a));
	weir_json_set_text(o, "adoption",
			   a->dp ? adoption_name(weir_datapath_adoption(a->dp)) : "none");
	for (size_t i = 0; i < a->n_notes; i++)
		(void)json_array_append_new(notes, weir_json_text(a->notes[i]));
	weir_json_set(o, "notes", notes);
	return o;
}

json_t *weir_agent_top(struct weir_agent *a)
{
	struct weir_now now = weir_now();
	json_t *o = weir_reply_ok(), *requests = weir_agent_request_json(a, false);

	weir_json_set_text(o, "instance", a->conf->instance);
	weir_json_set_bool(o, "packets", a->dp != NULL);
	if (requests)
		weir_json_set(o, "request", requests);
	set_mode_json(a, o, &now);
	weir_json_set(o, "totals", totals_json(&a->meter));
	weir_json_set(o, "limits", weir_agent_limits_json(a));
	weir_json_set(o, "reasons", weir_meter_reasons_json(&a->meter, false));
	weir_json_set(o, "would", weir_meter_reasons_json(&a->meter, true));
	weir_json_set(o, "sources", sources_json(a));
	weir_json_set(o, "loudest", weir_agent_loud_json(a, &now));
	return o;
}
