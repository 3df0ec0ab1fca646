/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parser says of a packet; nothing after the parser touches the frame. */
#ifndef WEIR_PKT_H
#define WEIR_PKT_H

#include "weir/types.h"

/* Families are numbered 4 and 6; 0 is neither. */
enum weir_fragment {
	WEIR_FRAG_NONE,	 /* a whole datagram (an IPv6 atomic fragment, RFC 6946, is one) */
	WEIR_FRAG_FIRST, /* ports may be read */
	WEIR_FRAG_REST,	 /* ports are never read */
	WEIR_FRAG_MAX
};

/* Classes that no source limit and no list may touch; each has an aggregate limit of its own. */
enum weir_class {
	WEIR_CLASS_NONE,
	WEIR_CLASS_ARP,
	WEIR_CLASS_NEIGHBOUR, /* ICMPv6 133-137, hop limit 255, code 0 (RFC 4861) */
	WEIR_CLASS_DHCP,      /* UDP 67->68; IPv6 UDP 547->546 from a link-local source */
	WEIR_CLASS_MAX
};

/* An IPv4 address sits in word[0] (and only there); bytes are in wire order. */
union weir_addr {
	__u8 ip[16];
	__be32 word[4];
	__be64 half[2];
};

struct weir_pkt {
	union {
		struct {
			union weir_addr src;
			union weir_addr dst;
		};
		union weir_addr addr[2]; /* the same */
	};
	__u32 len;   /* bytes of the whole frame, from the Ethernet header */
	__u16 sport; /* host order; 0 where has_ports is 0 */
	__u16 dport;
	__u16 vlan;	/* outer VLAN id; 0 = untagged */
	__u8 family;	/* 4, 6 or 0 */
	__u8 protocol;	/* last header: IPPROTO_*; of a fragment, the one its header names */
	__u8 tcp_flags; /* byte 13 of the TCP header; only where has_tcp */
	__u8 fragment;	/* enum weir_fragment */
	__u8 class;	/* enum weir_class */
	__u8 has_ports;
	__u8 has_tcp;
	__u8 link_control; /* not IP, and to an address that no bridge forwards (IEEE 802.1Q 8.6.3) */
	__u8 _pad[2];
	__u32 matched; /* limits whose match: it meets; set when limits are judged */
};
WEIR_ABI_SIZE(struct weir_pkt, 56);

#endif
