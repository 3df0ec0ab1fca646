/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel counted, and how fast it is counting now: the agent reads the counters once a second and keeps the
 * difference. Also the last packet events, and the cap on how many are written. Called by the agent's loop.
 */
#ifndef WEIR_AGENT_METER_H
#define WEIR_AGENT_METER_H

#include <jansson.h>
#include <stdbool.h>

#include "user/datapath/datapath.h"
#include "user/l7/engine.h"
#include "weir/maps.h"

/* Counters at two moments. */
struct weir_meter {
	struct weir_counters now, before;
	__u64 now_ns, before_ns; /* 0 = not yet */
};
/* @c, read at @now_ns (monotonic), is now; what was now is before. */
void weir_meter_update(struct weir_meter *m, const struct weir_counters *c, __u64 now_ns);
/* (now - before) a second; 0 if a counter began anew. @now and @before point into m->now and m->before. */
__u64 weir_meter_rate(const struct weir_meter *m, __u64 now, __u64 before);
/* Counters as an array by enum weir_reason. */
const struct weir_count *weir_meter_reasons(const struct weir_reason_counts *r);
const char *weir_reason_name(unsigned reason);
const char *weir_reason_text(unsigned reason);

/* Reasons that have counted something: [{"reason","action","packets","bytes","packets_per_second",...}]. */
json_t *weir_meter_reasons_json(const struct weir_meter *m, bool would);
/* {"packets","bytes","packets_per_second","bytes_per_second"} */
json_t *weir_meter_count_json(const struct weir_meter *m, const struct weir_count *now,
			      const struct weir_count *before);

/* --- events ---- */
#define WEIR_EVENTS_KEPT 1000

/* Of a packet, or (with an action of its own) of the request layer. */
struct weir_event_record {
	struct weir_event event;
	__s64 wall_ms;
	char limit[WEIR_NAME_MAX]; /* "" = none */
	char ifname[16];
	const char *action; /* NULL = a packet; static */
	const char *code;   /* of a refused request; static, or NULL */
	bool has_client;
	struct weir_prefix client; /* what is blocked, of an escalation */
	char rule[WEIR_NAME_MAX];  /* of an escalation */
	char why[160];
};

struct weir_event_log {
	struct weir_event_record item[WEIR_EVENTS_KEPT];
	__u64 n;	  /* ever recorded; the newest is item[(n - 1) % WEIR_EVENTS_KEPT] */
	__u64 suppressed; /* over the cap */
	__u64 second, in_second;
	__u64 request_second, requests_in_second; /* a flood of one layer does not hide the other */
};
/* Keeps @event unless @per_second have been kept in this second; NULL if not kept. */
const struct weir_event_record *weir_events_record(struct weir_event_log *l,
						   const struct weir_event *event,
						   const struct weir_limit_name *names,
						   unsigned per_second, __u64 now_ns,
						   __s64 wall_ms);
/* The same of the request layer. @action NULL: a refusal, under the cap; else an escalation's fate with @why, always kept. */
const struct weir_event_record *weir_events_record_request(struct weir_event_log *l,
							   const struct weir_l7_event *event,
							   const char *action, const char *why,
							   unsigned per_second, __u64 now_ns);
/* Record @back from the newest (0 = newest); NULL if there is none. */
const struct weir_event_record *weir_events_at(const struct weir_event_log *l, __u64 back);
json_t *weir_event_json(const struct weir_event_record *r);
/* One log line. */
void weir_event_write(const struct weir_event_record *r);

#endif
