/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `weir explain`: all that is known of one source, what would happen to its next packet and why, until when, and the
 * command that lifts it; and what the request layer knows of a client. Called by commands.c.
 */
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/str.h"

struct verdict {
	const char *what; /* "pass", "drop", "depends" */
	char why[512];
	__u64 until_ns; /* monotonic; 0 = no end known */
	char lift[256]; /* the command; "" = none */
};

static bool is_live(const struct weir_book_entry *e, __u64 now_ns)
{
	return !e->expires_ns || e->expires_ns > now_ns;
}

static void lift_command(enum weir_list list, const struct weir_book_entry *e, char *buf,
			 size_t size)
{
	char text[WEIR_PREFIX_STRLEN], where[512];

	if (list == WEIR_LIST_GUARD && e->origin == WEIR_ORIGIN_GUARD)
		buf[0] = '\0'; /* goes with the address itself */
	else if (e->origin == WEIR_ORIGIN_COMMAND)
		(void)snprintf(buf, size, "weir %s del %s",
			       list == WEIR_LIST_ALLOW ? "allow" : "block",
			       weir_prefix_format(&e->prefix, text));
	else
		(void)snprintf(buf, size, "remove it from %.200s, then weir reload",
			       weir_agent_entry_where(e, where, sizeof(where)));
}

/* Does @e act for longer than @old? A forced block counts before one that the guard would spare. */
static bool outlasts(const struct weir_book_entry *e, const struct weir_book_entry *old)
{
	__u32 force = e->flags & WEIR_ENTRY_FORCE;

	if (!old || force != (old->flags & WEIR_ENTRY_FORCE))
		return !old || force;
	return old->expires_ns && (!e->expires_ns || e->expires_ns > old->expires_ns);
}

/* Entries that cover @who in all lists; of each list the one that acts longest in *ret_first. */
static json_t *matching(struct weir_agent *a, const struct weir_prefix *who, __u64 now_ns,
			const struct weir_book_entry *ret_first[WEIR_LIST_MAX])
{
	json_t *list = json_array();

	for (int l = 0; l < WEIR_LIST_MAX; l++)
		for (size_t i = 0; i < a->book->list[l].n; i++) {
			const struct weir_book_entry *e = &a->book->list[l].item[i];
			char lift[256];
			json_t *o;

			if (!weir_prefix_contains(&e->prefix, who) || !is_live(e, now_ns))
				continue;
			if (outlasts(e, ret_first[l]))
				ret_first[l] = e;
			o = weir_book_entry_json(a, (enum weir_list)l, e);
			lift_command((enum weir_list)l, e, lift, sizeof(lift));
			weir_json_set_text(o, "lift", lift[0] ? lift : NULL);
			(void)json_array_append_new(list, o); /* out of memory: not shown */
		}
	return list;
}

static const struct weir_conf_limit *limit_conf(const struct weir_agent *a, unsigned limit)
{
	const char *name = weir_agent_limit_at(a, limit);

	for (size_t i = 0; i < a->conf->n_limits; i++)
		if (!strcmp(a->conf->limits[i].name, name))
			return &a->conf->limits[i];
	return NULL;
}

static void reset_command(const struct weir_agent *a, unsigned limit, const struct weir_prefix *who,
			  char *buf, size_t size)
{
	const struct weir_conf_limit *l = limit_conf(a, limit);
	bool all = l && l->per == WEIR_PER_ALL;
	char text[WEIR_PREFIX_STRLEN];

	(void)snprintf(buf, size, "weir limit reset %s%s%s", weir_agent_limit_at(a, limit),
		       all ? "" : " --ip ", all ? "" : weir_prefix_format(who, text));
}

static json_t *states_json(struct weir_agent *a, const struct weir_limit_state *st, int n,
			   const struct weir_prefix *who)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++) {
		const struct weir_conf_limit *l = limit_conf(a, st[i].limit);
		json_t *o = json_object();
		char lift[128];

		weir_json_set_text(o, "limit", weir_agent_limit_at(a, st[i].limit));
		weir_json_set_text(o, "per", l ? weir_per_name(l->per) : NULL);
		weir_json_set_text(o, "unit", l && l->bytes ? "bytes" : "packets");
		weir_json_set_text(o, "mode", l ? weir_mode_name(l->mode) : NULL);
		weir_json_set_u64(o, "used", st[i].used);
		weir_json_set_u64(o, "capacity", st[i].capacity);
		weir_json_set_u64(o, "empty_in_ms", st[i].full_again_ns / 1000000);
		weir_json_set_u64(o, "retry_in_ms", (st[i].retry_ns + 999999) / 1000000);
		weir_json_set_u64(o, "blocked_for_ms", (st[i].blocked_ns + 999999) / 1000000);
		reset_command(a, st[i].limit, who, lift, sizeof(lift));
		weir_json_set_text(o, "lift", lift);
		(void)json_array_append_new(list, o);
	}
	return list;
}

static void by_limits(struct weir_agent *a, const struct weir_prefix *who,
		      const struct weir_limit_state *st, int n, bool guarded, __u64 now_ns,
		      struct verdict *v)
{
	const struct weir_conf_limit *worst_conf;
	const struct weir_limit_state *worst = NULL;

	for (int i = 0; i < n; i++) {
		const struct weir_conf_limit *l = limit_conf(a, st[i].limit);
		bool blocked = st[i].blocked_ns && !guarded;

		if ((l && (l->mode == WEIR_MODE_MONITOR || l->per == WEIR_PER_DESTINATION)) ||
		    (!blocked && !st[i].retry_ns))
			continue;
		if (!worst || (blocked && st[i].blocked_ns > worst->blocked_ns))
			worst = &st[i];
	}
	if (!worst) {
		v->what = "pass";
		(void)snprintf(v->why, sizeof(v->why), "on no list, and within every limit");
		return;
	}
	reset_command(a, worst->limit, who, v->lift, sizeof(v->lift));
	worst_conf = limit_conf(a, worst->limit);
	if (worst->blocked_ns && !guarded) {
		v->what = "drop";
		v->until_ns = now_ns + worst->blocked_ns;
		(void)snprintf(
			v->why, sizeof(v->why),
			"it exceeded limit %s, which has block_for: all its packets are dropped",
			weir_agent_limit_at(a, worst->limit));
	} else {
		v->what = "depends";
		v->until_ns = now_ns + worst->retry_ns;
		(void)snprintf(
			v->why, sizeof(v->why),
			"limit %s is used up%s: packets that it matches are dropped, others pass",
			weir_agent_limit_at(a, worst->limit),
			worst_conf && worst_conf->per == WEIR_PER_ALL ? " by all senders together"
								      : "");
	}
}

/* What others send to it is another question than what it sends. */
static void as_destination(struct weir_agent *a, const struct weir_limit_state *st, int n,
			   struct verdict *v)
{
	size_t used = strlen(v->why);

	for (int i = 0; i < n; i++) {
		const struct weir_conf_limit *l = limit_conf(a, st[i].limit);

		if (!l || l->per != WEIR_PER_DESTINATION || l->mode == WEIR_MODE_MONITOR ||
		    !st[i].retry_ns)
			continue;
		(void)snprintf(v->why + used, sizeof(v->why) - used,
			       "; as a destination it is over limit %s: packets to it are dropped",
			       l->name);
		return;
	}
}

static void decide(struct weir_agent *a, const struct weir_prefix *who,
		   const struct weir_book_entry *const first[WEIR_LIST_MAX],
		   const struct weir_limit_state *st, int n, __u64 now_ns, struct verdict *v)
{
	const struct weir_book_entry *allow = first[WEIR_LIST_ALLOW],
				     *block = first[WEIR_LIST_BLOCK],
				     *guard = first[WEIR_LIST_GUARD];
	char text[WEIR_PREFIX_STRLEN], where[512];

	if (allow) {
		v->what = "pass";
		v->until_ns = allow->expires_ns;
		(void)snprintf(v->why, sizeof(v->why), "%s is on the allow list (%.200s)%s",
			       weir_prefix_format(&allow->prefix, text),
			       weir_agent_entry_where(allow, where, sizeof(where)),
			       block ? ", which beats the block list" : "");
		lift_command(WEIR_LIST_ALLOW, allow, v->lift, sizeof(v->lift));
		return;
	}
	if (block && (!guard || (block->flags & WEIR_ENTRY_FORCE))) {
		v->what = "drop";
		v->until_ns = block->expires_ns;
		(void)snprintf(v->why, sizeof(v->why), "%s is on the block list (%.200s%s%s)%s",
			       weir_prefix_format(&block->prefix, text),
			       weir_agent_entry_where(block, where, sizeof(where)),
			       block->reason ? ": " : "", weir_shared_text_get(block->reason),
			       weir_is_escalation(block)
				       ? "; its client sees time-outs, not refusals"
				       : "");
		lift_command(WEIR_LIST_BLOCK, block, v->lift, sizeof(v->lift));
		return;
	}
	by_limits(a, who, st, n, guard != NULL, now_ns, v);
	if (block && guard) {
		size_t used = strlen(v->why);

		(void)snprintf(v->why + used, sizeof(v->why) - used,
			       "; a block entry for %s does not act, since it is guarded (%.100s)",
			       weir_prefix_format(&block->prefix, text),
			       weir_agent_entry_where(guard, where, sizeof(where)));
	}
}

static void say_why(const struct verdict *v, json_t *o)
{
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC), wall_ns = weir_clock_ns(CLOCK_REALTIME);
	__u64 rest_ns = v->until_ns > now_ns ? v->until_ns - now_ns : 0;
	char text[WEIR_TIME_STRLEN];

	weir_json_set_text(o, "why", v->why);
	weir_json_set_text(o, "lift", v->lift[0] ? v->lift : NULL);
	if (!v->until_ns)
		return;
	weir_json_set_u64(o, "rest_ms", (rest_ns + 999999) / 1000000);
	weir_json_set_text(o, "until", weir_clock_format(weir_clock_after(wall_ns, rest_ns), text));
}

/* What the fleet's lists say of @who to hosts that have a packet layer. */
static void explain_fleet(struct weir_agent *a, const struct weir_prefix *who, json_t *o)
{
	const struct weir_book_entry *first[WEIR_LIST_MAX] = {};
	struct weir_now now = weir_now();
	struct verdict v = {.what = "pass"};

	weir_json_set(o, "lists", matching(a, who, now.mono_ns, first));
	if (!first[WEIR_LIST_ALLOW] && !first[WEIR_LIST_BLOCK])
		return;
	decide(a, who, first, NULL, 0, now.mono_ns, &v);
	weir_json_set_text(o, "fleet_verdict", v.what);
	say_why(&v, o);
}

/* What the packet layer would do with the next packet of @who, into @o. */
static void explain_packets(struct weir_agent *a, const struct weir_prefix *who, json_t *o)
{
	const struct weir_book_entry *first[WEIR_LIST_MAX] = {};
	struct weir_limit_state st[WEIR_LIMITS_MAX];
	struct weir_now now = weir_now();
	struct verdict v = {.what = "pass"};
	struct weir_tables t;
	int n = 0;

	weir_json_set(o, "lists", matching(a, who, now.mono_ns, first));
	if (weir_datapath_tables(a->dp, &t)) {
		n = weir_table_lookup(&t, &who->addr, who->family, now.mono_ns, st);
		n += weir_totals_read(&t, now.mono_ns, &st[n]); /* each limit is in one of both */
	}
	weir_json_set(o, "limits", states_json(a, st, n, who));
	weir_json_set_bool(o, "guarded", first[WEIR_LIST_GUARD] != NULL);
	decide(a, who, first, st, n, now.mono_ns, &v);
	as_destination(a, st, n, &v);
	weir_json_set_text(o, "verdict", v.what);
	say_why(&v, o);
}

json_t *weir_agent_explain(struct weir_agent *a, const struct weir_asked *q)
{
	char text[WEIR_PREFIX_STRLEN];
	json_t *o = weir_reply_ok(), *requests = weir_agent_inspect_json(a, q);

	weir_json_set_text(o, "who", q->words);
	weir_json_set_text(o, "mode", weir_mode_name(a->in_force));
	weir_json_set_bool(o, "packets", a->dp != NULL);
	if (q->who.ip)
		weir_json_set_text(o, "address", weir_prefix_format(&q->ip, text));
	if (q->who.ip && a->dp)
		explain_packets(a, &q->ip, o);
	else if (q->who.ip && a->fleet_lists)
		explain_fleet(a, &q->ip, o);
	if (requests)
		weir_json_set(o, "request", requests);
	return o;
}
