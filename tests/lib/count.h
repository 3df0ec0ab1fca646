/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the counting XDP program (tests/lib/count.bpf.c) saw. A test attaches it where frames arrive and
 * reads skel->bss->count_seen.
 */
#ifndef WEIR_TEST_COUNT_H
#define WEIR_TEST_COUNT_H

#include <linux/types.h>

#define COUNT_SOURCES_MAX 131072 /* different sources that are told apart */

struct count_seen {
	__u64 frames;	 /* to one receiver; only of these is the rest */
	__u64 multicast; /* not counted in anything else: a kernel's own announcements */
	__u64 bytes;
	__u64 ip4, ip6;
	__u64 udp, syn, ack, icmp; /* not in fragments; ICMP of both versions */
	__u64 frag_first, frag_last;
	__u64 vlan, vlan2; /* frames with one tag, with two */
	__u64 other;	   /* none of the above */
	__u64 bad_length;  /* a header says more than there is */
	__u64 bad_ip_csum, bad_l4_csum;
	__u64 sources; /* different ones: IPv4 addresses, IPv6 /64 */
	__u64 sources_full;
	__u32 last_ip4;		   /* source, wire order */
	__u16 last_tag, last_tag2; /* VLAN ids */
	__u16 last_sport, last_dport;
	__u32 _pad;
};

#endif
