/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one clock reading of a packet, and the knobs that only tests and the bench set. */
#ifndef WEIR_BPF_CLOCK_H
#define WEIR_BPF_CLOCK_H

#include "maps.h"

/* Tests: take the time from weir_fake_now_ns. In production false, and the verifier removes the branch. */
const volatile bool weir_fake_clock = false;
__u64 weir_fake_now_ns;

/* What a passed packet gets: XDP_PASS; the bench drops instead, to leave the network stack out of its figures. */
const volatile __u32 weir_pass_action = XDP_PASS;

/* The time at this instant, whatever the packet's reading was. */
static __always_inline __u64 clock_fresh(void)
{
	return weir_fake_clock ? weir_fake_now_ns : bpf_ktime_get_ns();
}

/* The coarse clock moves in steps of a jiffy (1 to 10 ms): right for every limit whose burst or window spans many of
 * them; the policy asks for the fine one otherwise. It is read once a jiffy and CPU: bpf_jiffies64 is inlined by every
 * kernel, while the call of bpf_ktime_get_coarse_ns costs 2 to 15 ns. A CPU may so be one jiffy behind another, which
 * the algorithms allow for.
 */
static __always_inline __u64 clock_now(const struct weir_policy *pol, struct weir_counters *c)
{
	__u64 jiffies;

	if (weir_fake_clock)
		return weir_fake_now_ns;
	if (pol->flags & WEIR_POLICY_FINE_CLOCK)
		return bpf_ktime_get_ns();
	jiffies = bpf_jiffies64();
	if (c->clock_jiffies != jiffies) {
		c->clock_jiffies = jiffies;
		c->clock_ns = bpf_ktime_get_coarse_ns();
	}
	return c->clock_ns;
}

#endif
