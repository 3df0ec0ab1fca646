/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters, rates and events: see meter.h. Called by the agent's loop. */
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "user/agent/json.h"
#include "user/agent/meter.h"
#include "user/base/clock.h"
#include "user/base/log.h"
#include "weir/reason.h"

static const struct {
	const char *name, *text;
} reasons[WEIR_REASON_MAX] = {
#define X(id, symbol, label, action, words) [id] = {#label, words},
	WEIR_REASONS(X)
#undef X
};

const char *weir_reason_name(unsigned reason)
{
	return reason < WEIR_REASON_MAX ? reasons[reason].name : "unknown";
}

const char *weir_reason_text(unsigned reason)
{
	return reason < WEIR_REASON_MAX ? reasons[reason].text
					: "a reason this version does not know";
}

void weir_meter_update(struct weir_meter *m, const struct weir_counters *c, __u64 now_ns)
{
	if (m->now_ns) {
		m->before = m->now;
		m->before_ns = m->now_ns;
	} else {
		m->before = *c;
		m->before_ns = now_ns;
	}
	m->now = *c;
	m->now_ns = now_ns;
}

__u64 weir_meter_rate(const struct weir_meter *m, __u64 now, __u64 before)
{
	__u64 span_ns = m->now_ns - m->before_ns;

	if (!span_ns || now < before)
		return 0;
	return (__u64)((double)(now - before) * (double)WEIR_NS_PER_S / (double)span_ns + 0.5);
}

const struct weir_count *weir_meter_reasons(const struct weir_reason_counts *r)
{
	return (const struct weir_count *)r; /* one member for each reason, in order: maps.h */
}

json_t *weir_meter_count_json(const struct weir_meter *m, const struct weir_count *now,
			      const struct weir_count *before)
{
	json_t *o = json_object();

	weir_json_set_u64(o, "packets", now->packets);
	weir_json_set_u64(o, "bytes", now->bytes);
	weir_json_set_u64(o, "packets_per_second",
			  weir_meter_rate(m, now->packets, before->packets));
	weir_json_set_u64(o, "bytes_per_second", weir_meter_rate(m, now->bytes, before->bytes));
	return o;
}

json_t *weir_meter_reasons_json(const struct weir_meter *m, bool would)
{
	const struct weir_count *now = weir_meter_reasons(would ? &m->now.would : &m->now.reason);
	const struct weir_count *before =
		weir_meter_reasons(would ? &m->before.would : &m->before.reason);
	json_t *list = json_array();

	for (unsigned i = 0; i < WEIR_REASON_MAX; i++) {
		json_t *o;

		if (!now[i].packets)
			continue;
		o = weir_meter_count_json(m, &now[i], &before[i]);
		weir_json_set_text(o, "reason", weir_reason_name(i));
		weir_json_set_text(o, "action", WEIR_REASON_DROPS(i) ? "drop" : "pass");
		weir_json_set_text(o, "text", weir_reason_text(i));
		(void)json_array_append_new(list, o); /* out of memory: the row is missing */
	}
	return list;
}

/* --- events ---------------------------------------------------------------------------------- */

/* Is there room for one more in this second? */
static bool may_record(struct weir_event_log *l, __u64 *second, __u64 *in_second,
		       unsigned per_second, __u64 now_ns)
{
	if (now_ns / WEIR_NS_PER_S != *second) {
		*second = now_ns / WEIR_NS_PER_S;
		*in_second = 0;
	}
	if (*in_second >= per_second) {
		l->suppressed++;
		return false;
	}
	(*in_second)++;
	return true;
}

const struct weir_event_record *weir_events_record(struct weir_event_log *l,
						   const struct weir_event *event,
						   const struct weir_limit_name *names,
						   unsigned per_second, __u64 now_ns, __s64 wall_ms)
{
	struct weir_event_record *r;

	if (!may_record(l, &l->second, &l->in_second, per_second, now_ns))
		return NULL;
	r = &l->item[l->n++ % WEIR_EVENTS_KEPT];
	*r = (struct weir_event_record){.event = *event, .wall_ms = wall_ms};
	if (names && event->stat < WEIR_STATS_MAX)
		(void)snprintf(r->limit, sizeof(r->limit), "%.*s", WEIR_NAME_MAX - 1,
			       names[event->stat].name);
	if (!if_indextoname(event->ifindex, r->ifname))
		(void)snprintf(r->ifname, sizeof(r->ifname), "if%u", event->ifindex);
	return r;
}

const struct weir_event_record *weir_events_record_request(struct weir_event_log *l,
							   const struct weir_l7_event *event,
							   const char *action, const char *why,
							   unsigned per_second, __u64 now_ns)
{
	struct weir_event_record *r;

	if (!action &&
	    !may_record(l, &l->request_second, &l->requests_in_second, per_second, now_ns))
		return NULL;
	r = &l->item[l->n++ % WEIR_EVENTS_KEPT];
	*r = (struct weir_event_record){
		.wall_ms = event->wall_ms,
		.action = action	   ? action
			  : event->monitor ? "would-refuse"
					   : "refuse",
		.code = action ? NULL : weir_answer_code_text(event->code),
		.has_client = event->has_client,
		.client = event->client,
	};
	(void)snprintf(r->limit, sizeof(r->limit), "%s", event->limit);
	if (action)
		(void)snprintf(r->rule, sizeof(r->rule), "%s", event->rule);
	(void)snprintf(r->why, sizeof(r->why), "%s", why ? why : "");
	return r;
}

const struct weir_event_record *weir_events_at(const struct weir_event_log *l, __u64 back)
{
	if (back >= l->n || back >= WEIR_EVENTS_KEPT)
		return NULL;
	return &l->item[(l->n - 1 - back) % WEIR_EVENTS_KEPT];
}

static const char *address(const union weir_addr *a, __u8 family,
			   char buf[static WEIR_PREFIX_STRLEN])
{
	struct weir_prefix p = {.addr = *a, .family = family, .len = family == 4 ? 32 : 128};

	return family ? weir_prefix_format(&p, buf) : NULL;
}

static const char *protocol(const struct weir_event *e, char buf[static 16])
{
	switch (e->family ? e->protocol : -1) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_ICMPV6:
		return "icmpv6";
	case -1:
		return NULL;
	default:
		(void)snprintf(buf, 16, "%u", e->protocol);
		return buf;
	}
}

/* "syn,ack"; NULL if it has none. */
static const char *tcp_flags(const struct weir_event *e, char buf[static 48])
{
	static const char *const names[] = {"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"};
	size_t n = 0;

	if (!e->family || e->protocol != IPPROTO_TCP || !e->tcp_flags)
		return NULL;
	for (int i = 0; i < 8; i++)
		if (e->tcp_flags & 1 << i)
			n += (size_t)snprintf(buf + n, 48 - n, "%s%s", n ? "," : "", names[i]);
	return buf;
}

/* Milliseconds too: "2026-01-02T03:04:05.678Z". */
static void format_ms(__s64 wall_ms, char buf[static 48])
{
	char seconds[WEIR_TIME_STRLEN];

	(void)weir_clock_format(wall_ms / 1000, seconds);
	seconds[strlen(seconds) - 1] = '\0'; /* never empty: "?" at least */
	(void)snprintf(buf, 48, "%s.%03dZ", seconds, (int)(wall_ms % 1000));
}

static json_t *request_event_json(const struct weir_event_record *r)
{
	char client[WEIR_PREFIX_STRLEN], when[48];
	json_t *o = json_object();

	format_ms(r->wall_ms, when);
	weir_json_set_text(o, "time", when);
	weir_json_set_text(o, "action", r->action);
	if (r->rule[0])
		weir_json_set_text(o, "rule", r->rule);
	if (r->code)
		weir_json_set_text(o, "code", r->code);
	if (r->limit[0])
		weir_json_set_text(o, "limit", r->limit);
	if (r->has_client)
		weir_json_set_text(o, "client", weir_prefix_format(&r->client, client));
	if (r->why[0])
		weir_json_set_text(o, "why", r->why);
	return o;
}

static void write_request_event(const struct weir_event_record *r)
{
	char client[WEIR_PREFIX_STRLEN];

	weir_log(r->rule[0] ? WEIR_LOG_NOTICE : WEIR_LOG_INFO, r->action, "rule", "s",
		 r->rule[0] ? r->rule : NULL, "code", "s", r->code, "limit", "s",
		 r->limit[0] ? r->limit : NULL, "client", "s",
		 r->has_client ? weir_prefix_format(&r->client, client) : NULL, "why", "s",
		 r->why[0] ? r->why : NULL, NULL);
}

json_t *weir_event_json(const struct weir_event_record *r)
{
	const struct weir_event *e = &r->event;
	char src[WEIR_PREFIX_STRLEN], dst[WEIR_PREFIX_STRLEN], number[16], flags[48], when[48];
	json_t *o;

	if (r->action)
		return request_event_json(r);
	o = json_object();
	format_ms(r->wall_ms, when);
	weir_json_set_text(o, "time", when);
	weir_json_set_text(o, "action", e->monitor ? "would-drop" : "drop");
	weir_json_set_text(o, "reason", weir_reason_name(e->reason));
	if (r->limit[0])
		weir_json_set_text(o, "limit", r->limit);
	weir_json_set_text(o, "interface", r->ifname);
	if (e->family) {
		weir_json_set_text(o, "source", address(&e->src, e->family, src));
		weir_json_set_text(o, "destination", address(&e->dst, e->family, dst));
		weir_json_set_text(o, "protocol", protocol(e, number));
	}
	if (e->sport || e->dport) {
		weir_json_set_u64(o, "source_port", e->sport);
		weir_json_set_u64(o, "destination_port", e->dport);
	}
	if (tcp_flags(e, flags))
		weir_json_set_text(o, "tcp_flags", flags);
	if (e->fragment)
		weir_json_set_bool(o, "fragment", true);
	if (e->vlan)
		weir_json_set_u64(o, "vlan", e->vlan);
	weir_json_set_u64(o, "bytes", e->len);
	return o;
}

void weir_event_write(const struct weir_event_record *r)
{
	const struct weir_event *e = &r->event;
	char src[WEIR_PREFIX_STRLEN], dst[WEIR_PREFIX_STRLEN], number[16], flags[48], sport[8],
		dport[8], vlan[8];
	bool ports = e->sport || e->dport;

	if (r->action) {
		write_request_event(r);
		return;
	}
	(void)snprintf(sport, sizeof(sport), "%u", e->sport);
	(void)snprintf(dport, sizeof(dport), "%u", e->dport);
	(void)snprintf(vlan, sizeof(vlan), "%u", e->vlan);
	weir_log(WEIR_LOG_INFO, e->monitor ? "would-drop" : "drop", "reason", "s",
		 weir_reason_name(e->reason), "limit", "s", r->limit[0] ? r->limit : NULL,
		 "interface", "s", r->ifname, "source", "s", address(&e->src, e->family, src),
		 "destination", "s", address(&e->dst, e->family, dst), "protocol", "s",
		 protocol(e, number), "source_port", "s", ports ? sport : NULL, "destination_port",
		 "s", ports ? dport : NULL, "tcp_flags", "s", tcp_flags(e, flags), "fragment", "s",
		 e->fragment ? "true" : NULL, "vlan", "s", e->vlan ? vlan : NULL, "bytes", "u",
		 (unsigned long long)e->len, NULL);
}
