/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only way out: counts the packet under its one reason, samples drops for the agent, and yields the XDP action. */
#ifndef WEIR_BPF_VERDICT_H
#define WEIR_BPF_VERDICT_H

#include "clock.h"
#include "maps.h"
#include "parse.h"

/* How a packet was judged: reason in the low byte, the limit's counter index (or WEIR_NO_LIMIT) in the next. */
#define JUDGED(reason, stat) ((__u32)(reason) | (__u32)(stat) << 8)

static __always_inline struct weir_count *reason_count(struct weir_reason_counts *r, __u32 reason)
{
	return (struct weir_count *)r + (reason < WEIR_REASON_MAX ? reason : 0);
}

/* Hands one drop to the agent. Never waits. */
__noinline int event_send(struct weir_pkt *p, struct weir_counters *c, __u32 judged, __u32 ifindex,
			  __u32 monitor)
{
	struct weir_event *e;

	if (!p || !c)
		return 0;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		c->events_lost++;
		return 0;
	}
	e->time_ns = clock_fresh();
	__builtin_memcpy(&e->src, &p->src, sizeof(e->src));
	__builtin_memcpy(&e->dst, &p->dst, sizeof(e->dst));
	e->len = p->len;
	e->ifindex = ifindex;
	e->sport = p->sport;
	e->dport = p->dport;
	e->vlan = p->vlan;
	e->reason = judged;
	e->stat = judged >> 8;
	e->family = p->family;
	e->protocol = p->protocol;
	e->tcp_flags = p->tcp_flags;
	e->fragment = p->fragment;
	e->monitor = monitor;
	__builtin_memset(e->_pad, 0, sizeof(e->_pad));
	bpf_ringbuf_submit(e, 0);
	c->events_sent++;
	return 0;
}

/* Is this drop within the second's share of this CPU? */
static __always_inline bool event_wanted(const struct weir_policy *pol, struct weir_counters *c,
					 __u64 now_ns)
{
	__u64 second = now_ns >> 30; /* 1.07 s: a cap, not a clock */

	if (!pol->events_per_second)
		return false;
	if (c->event_second != second) {
		c->event_second = second;
		c->event_count = 0;
	}
	if (c->event_count >= pol->events_per_second) {
		c->events_capped++;
		return false;
	}
	c->event_count++;
	return true;
}

/* For the verifier only: it does not know that the counters are always there. */
static __always_inline int verdict_uncounted(void)
{
	return XDP_ABORTED;
}

static __always_inline int verdict(struct xdp_md *ctx, const struct weir_policy *pol,
				   struct weir_counters *c, struct weir_pkt *p, __u64 now_ns,
				   __u32 judged)
{
	__u32 reason = judged & 0xff, monitor = pol->flags & WEIR_POLICY_MONITOR;
	bool drop = WEIR_REASON_DROPS(reason);
	struct weir_count *n;

	if (drop && event_wanted(pol, c, now_ns))
		event_send(p, c, judged, ctx->ingress_ifindex, monitor);
	if (drop && monitor) {
		n = reason_count(&c->would, reason);
		n->packets++;
		n->bytes += p->len;
		reason = WEIR_PASS_MONITOR;
		drop = false;
	}
	n = reason_count(&c->reason, reason);
	n->packets++;
	n->bytes += p->len;
	return drop ? XDP_DROP : weir_pass_action;
}

#endif
