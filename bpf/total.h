/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits per: all: one state for whatever comes, charged after all limits of sources and destinations. All CPUs change the
 * same word, each on a cache line of its own; what is over the limit only reads it.
 */
#ifndef WEIR_BPF_TOTAL_H
#define WEIR_BPF_TOTAL_H

#include "limit.h"
#include "maps.h"
#include "match.h"

static __always_inline int charge_total(const struct charge *k, struct weir_limit *l,
					struct weir_total *t)
{
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		return charge_bucket(k, l, &t->word[0]);
	if (!(l->flags & WEIR_LIMIT_PAIR))
		return charge_fixed32(l, &t->word[0], k->now_ns, limit_cost(l, k->pkt));
	return charge_pair(l, &t->pair, k->now_ns, limit_cost(l, k->pkt));
}

/* One limit, by its index. Returns 0 to go on, or JUDGED(). */
__noinline int judge_total(struct weir_policy *pol, struct weir_pkt *p, struct weir_counters *c,
			   __u64 now_ns, __u32 id)
{
	struct charge k = {.pol = pol, .pkt = p, .count = c, .now_ns = now_ns};
	struct weir_limit *l;
	struct weir_total *t;
	__u32 entry;
	int r;

	if (!pol || !p || !c)
		return 0;
	l = &pol->limit[id & (WEIR_LIMITS_MAX - 1)];
	entry = l->total;
	t = bpf_map_lookup_elem(&totals, &entry);
	if (!t)
		return 0;
	r = charge_total(&k, l, t);
	count_limit(&k, l, r);
	if (r == LIMIT_OVER && !(l->flags & WEIR_LIMIT_MONITOR))
		return JUDGED(WEIR_DROP_ALL, l->stat);
	return 0;
}

/* All of them that the packet matches, in order. Returns 0 to go on, or JUDGED(). */
static __always_inline __u32 judge_totals(struct weir_policy *pol, struct weir_pkt *p,
					  struct weir_counters *c, __u64 now_ns)
{
	__u32 judged, i, id;

	for (i = 0; i < WEIR_LIMITS_MAX; i++) {
		if (i >= pol->n_totals)
			break;
		id = pol->total[i] & (WEIR_LIMITS_MAX - 1);
		if (!(p->matched >> id & 1))
			continue;
		judged = judge_total(pol, p, c, now_ns, id);
		if (judged) /* here: Linux 6.1 takes no loop whose head comes right behind a call */
			return judged;
	}
	return 0;
}

/* A frame without IP, which no other limit can be about. */
static __always_inline __u32 judge_non_ip(struct weir_policy *pol, struct weir_pkt *p,
					  struct weir_counters *c, __u64 now_ns)
{
	__u32 judged;

	p->matched = pol->non_ip;
	if (p->matched & pol->by_vlan)
		p->matched &= pol->vlan_mask[pol->vlan_class[p->vlan & 4095]];
	judged = judge_totals(pol, p, c, now_ns);
	return judged ? judged : JUDGED(WEIR_PASS_NON_IP, WEIR_NO_LIMIT);
}

#endif
