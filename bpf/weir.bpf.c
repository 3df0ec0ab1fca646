/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The XDP program. Reads as the pipeline: parse -> classes -> lists -> limits -> verdict. One object holds two
 * entries, `xdp.frags` for any MTU and `xdp` for drivers and loaders that know no fragments; iproute2 loads only the
 * one it attaches.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "builtin.h"
#include "clock.h"
#include "limit.h"
#include "lists.h"
#include "maps.h"
#include "match.h"
#include "parse.h"
#include "source.h"
#include "total.h"
#include "verdict.h"

/* The limits in force; the built-in ones until an agent has put some there. */
static __always_inline struct weir_policy *policy_now(void)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&policy, &zero);
	struct weir_policy *pol = inner ? bpf_map_lookup_elem(inner, &zero) : NULL;

	return pol ? pol : &weir_builtin;
}

static __always_inline __u32 class_reason(__u32 class, bool over)
{
	if (class == WEIR_CLASS_ARP)
		return over ? WEIR_DROP_ARP_FLOOD : WEIR_PASS_ARP;
	if (class == WEIR_CLASS_NEIGHBOUR)
		return over ? WEIR_DROP_NEIGHBOUR_FLOOD : WEIR_PASS_NEIGHBOUR;
	return over ? WEIR_DROP_DHCP_FLOOD : WEIR_PASS_DHCP;
}

/* ARP, neighbour discovery, DHCP: no list and no source limit touches them; one generous bucket for each class keeps
 * them from being a way round the limits.
 */
static __always_inline __u32 judge_class(const struct weir_policy *pol, const struct weir_pkt *p,
					 __u64 now_ns)
{
	const struct weir_class_limit *l = &pol->class_limit[p->class & 3];
	__u32 class = p->class & 3, old, new, i;
	struct weir_class_word *w = bpf_map_lookup_elem(&classes, &class);

	if (w && l->mult) {
		__u32 now = weir_ticks(now_ns, l->mult, l->shift);

		for (i = 0; i < WEIR_CAS_TRIES; i++) {
			old = *(volatile __u32 *)&w->word;
			if (!weir_bucket_take(old, now, 1u << (l->frac_bits & 31), l->burst, &new))
				return JUDGED(class_reason(class, true), WEIR_NO_LIMIT);
			if (__sync_val_compare_and_swap(&w->word, old, new) == old)
				break;
		}
	}
	return JUDGED(class_reason(class, false), WEIR_NO_LIMIT);
}

static __always_inline __u32 judge(struct weir_policy *pol, struct weir_pkt *p,
				   struct weir_counters *c, __u64 now_ns, int parsed)
{
	__u32 listed;

	if (parsed == WEIR_PASS_NON_IP && pol->non_ip && !p->link_control)
		return judge_non_ip(pol, p, c, now_ns);
	if (parsed != WEIR_PARSED)
		return JUDGED(parsed, WEIR_NO_LIMIT);
	if (p->class)
		return judge_class(pol, p, now_ns);
	if (pol->flags & WEIR_POLICY_LISTS) {
		listed = lists_judge(pol, p, c, now_ns);
		if (listed != LISTS_NONE)
			return JUDGED(listed, WEIR_NO_LIMIT);
	}
	return judge_limits(pol, p, c, now_ns);
}

static __always_inline int weir_main(struct xdp_md *ctx)
{
	struct weir_policy *pol;
	struct weir_counters *c;
	struct weir_pkt pkt;
	__u32 zero = 0;
	__u64 now_ns;
	int parsed;

	parsed = weir_parse_ctx(ctx, &pkt);
	c = bpf_map_lookup_elem(&counters, &zero);
	pol = policy_now();
	if (!c) /* cannot be: an array has its first element */
		return verdict_uncounted();
	now_ns = clock_now(pol, c);
	return verdict(ctx, pol, c, &pkt, now_ns, judge(pol, &pkt, c, now_ns, parsed));
}

SEC("xdp")
int weir_xdp(struct xdp_md *ctx)
{
	return weir_main(ctx);
}

SEC("xdp.frags")
int weir_xdp_frags(struct xdp_md *ctx)
{
	return weir_main(ctx);
}

char _license[] SEC("license") = "GPL";
