/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which limits a packet matches: the and of one mask per field. Costs the same for one limit and for 32. */
#ifndef WEIR_BPF_MATCH_H
#define WEIR_BPF_MATCH_H

#include "lists.h"
#include "maps.h"

/* Limits that name a prefix holding @a as source (@side 0) or destination (1). */
static __always_inline __u32 nets_mask(void *map, const __u8 *lens, __u32 n, __u8 side, __u8 family,
				       const union weir_addr *a)
{
	struct weir_net_key key = {.side = side, .family = family};
	__u32 i, mask = 0, *m;

	for (i = 0; i < WEIR_NET_LENS; i++) {
		int len;

		if (i >= n)
			break;
		len = lens[i];
		key.len = len;
		key.word[0] = mask_word(a->word[0], len);
		key.word[1] = mask_word(a->word[1], len - 32);
		key.word[2] = mask_word(a->word[2], len - 64);
		key.word[3] = mask_word(a->word[3], len - 96);
		m = bpf_map_lookup_elem(map, &key);
		if (m)
			mask |= *m;
	}
	return mask;
}

/* Clears from @matched the limits whose source: or destination: does not hold. Asked only where some limit has one. */
__noinline int match_nets(struct weir_policy *pol, struct weir_pkt *p, __u32 matched)
{
	__u32 bank, hit;
	void *map;

	if (!pol || !p)
		return 0;
	bank = pol->nets_bank;
	map = bpf_map_lookup_elem(&nets, &bank);
	if (!map)
		return matched & ~(pol->by_src_net | pol->by_dst_net);
	if (matched & pol->by_src_net) {
		hit = p->family == 4
			      ? nets_mask(map, pol->src_len4, pol->n_src_len4, 0, 4, &p->src)
			      : nets_mask(map, pol->src_len6, pol->n_src_len6, 0, 6, &p->src);
		matched &= ~pol->by_src_net | (hit ^ pol->not_src_net);
	}
	if (matched & pol->by_dst_net) {
		hit = p->family == 4
			      ? nets_mask(map, pol->dst_len4, pol->n_dst_len4, 1, 4, &p->dst)
			      : nets_mask(map, pol->dst_len6, pol->n_dst_len6, 1, 6, &p->dst);
		matched &= ~pol->by_dst_net | (hit ^ pol->not_dst_net);
	}
	return matched;
}

static __always_inline __u32 match_limits(struct weir_policy *pol, struct weir_pkt *p)
{
	__u32 m = pol->protocol[p->protocol] & pol->fragment[p->fragment & 3];

	m &= p->family == 4 ? pol->family4 : pol->family6;
	m &= p->has_tcp ? pol->tcp_flags[p->tcp_flags] : pol->no_tcp;
	if (m & (pol->by_ports | pol->by_dports)) {
		if (p->has_ports)
			m &= pol->sport_mask[pol->sport_class[p->sport]] &
			     pol->dport_mask[pol->dport_class[p->dport]];
		else
			m &= ~(pol->by_ports | pol->by_dports);
	}
	if (m & pol->by_vlan)
		m &= pol->vlan_mask[pol->vlan_class[p->vlan & 4095]];
	if (m & (pol->by_src_net | pol->by_dst_net))
		m = match_nets(pol, p, m);
	return m;
}

#endif
