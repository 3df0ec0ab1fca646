/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frame to struct weir_pkt: Ethernet, up to two VLAN tags, ARP, IPv4 with options, IPv6 with a bounded chain of
 * extension headers, fragments, TCP, UDP, ICMP, ICMPv6. Called once a packet; helper-free, so that tests and the
 * fuzzer compile the same text for the host.
 *
 * Formats: IEEE 802.1Q, RFC 826, 791, 8200, 4302 (AH length), 6946 (atomic fragments), 9293, 768, 792, 4443.
 * Lengths: a header that says more than the frame holds, or less than itself, is a reason of its own. A zero IPv4
 * total length or IPv6 payload length is BIG TCP and accepted where the frame is longer than 65535 bytes.
 */
#ifndef WEIR_BPF_PARSE_H
#define WEIR_BPF_PARSE_H

#include <linux/if_ether.h>
#include <linux/in6.h>

#include "cursor.h"
#include "weir/pkt.h"
#include "weir/reason.h"

#define WEIR_VLAN_MAX 2
#define WEIR_EXT_MAX  8

/* IANA protocol numbers; here because linux/in.h and the C library's disagree on the host. */
enum {
	PROTO_HOPOPTS = 0,
	PROTO_ICMP = 1,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	PROTO_ROUTING = 43,
	PROTO_FRAGMENT = 44,
	PROTO_AH = 51,
	PROTO_ICMPV6 = 58,
	PROTO_DSTOPTS = 60,
	PROTO_MOBILITY = 135,
	PROTO_HIP = 139,
	PROTO_SHIM6 = 140,
};

/* weir_parse: the packet is understood, go on. */
#define WEIR_PARSED (-1)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define wire16(x) ((__u16)__builtin_bswap16(x))
#define wire32(x) ((__u32)__builtin_bswap32(x))
#else
#define wire16(x) ((__u16)(x))
#define wire32(x) ((__u32)(x))
#endif

/* Headers as bytes on the wire; every field of them is read through these, at whatever alignment. */
struct wire_eth {
	__u8 dst[6], src[6];
	__be16 type;
} __attribute__((packed));
struct wire_vlan {
	__be16 tci;
	__be16 type;
} __attribute__((packed));
struct wire_ip4 {
	__u8 version_ihl, tos;
	__be16 total_len, id, frag_off;
	__u8 ttl, protocol;
	__be16 check;
	__be32 src, dst;
} __attribute__((packed));
struct wire_ip6 {
	__be32 version_class_flow;
	__be16 payload_len;
	__u8 next_header, hop_limit;
	__be32 src[4], dst[4];
} __attribute__((packed));
struct wire_ext {
	__u8 next_header, len;
	__u8 rest[6];
} __attribute__((packed));
struct wire_frag {
	__u8 next_header, reserved;
	__be16 off_more;
	__be32 id;
} __attribute__((packed));
struct wire_tcp {
	__be16 sport, dport;
	__be32 seq, ack;
	__u8 doff, flags;
	__be16 window, check, urgent;
} __attribute__((packed));
struct wire_udp {
	__be16 sport, dport, len, check;
} __attribute__((packed));
struct wire_icmp {
	__u8 type, code;
	__be16 check;
	__be32 rest;
} __attribute__((packed));

/* What the IP header said about the bytes behind it. */
struct l4_bounds {
	__u32 len; /* bytes of the IP payload behind all extension headers */
	__u8 hop_limit;
	__u8 big; /* BIG TCP: the length came from the frame */
};

static __always_inline int parse_tcp(struct cursor *c, const struct l4_bounds *b,
				     struct weir_pkt *p)
{
	struct wire_tcp *t = cur_take(c, sizeof(*t));
	__u32 doff;

	if (!t || b->len < sizeof(*t))
		return WEIR_DROP_TCP_TRUNCATED;
	doff = (t->doff >> 4) * 4;
	if (doff < sizeof(*t))
		return WEIR_DROP_TCP_HEADER;
	/* The options of a first fragment may be in the next one (the stack puts them together). */
	if (doff > b->len && p->fragment == WEIR_FRAG_NONE)
		return WEIR_DROP_TCP_TRUNCATED;
	p->sport = wire16(t->sport);
	p->dport = wire16(t->dport);
	p->tcp_flags = t->flags;
	p->has_ports = 1;
	p->has_tcp = 1;
	return WEIR_PARSED;
}

static __always_inline int parse_udp(struct cursor *c, const struct l4_bounds *b,
				     struct weir_pkt *p)
{
	struct wire_udp *u = cur_take(c, sizeof(*u));
	__u32 len;

	if (!u || b->len < sizeof(*u))
		return WEIR_DROP_UDP_TRUNCATED;
	len = wire16(u->len);
	/* Length 0 is "see the IP header" (RFC 2675) and only for what is longer than 16 bits can say. The length of a
	 * first fragment covers the whole datagram.
	 */
	if (len < sizeof(*u) ? !(len == 0 && b->big)
			     : len > b->len && p->fragment == WEIR_FRAG_NONE)
		return WEIR_DROP_UDP_LENGTH;
	p->sport = wire16(u->sport);
	p->dport = wire16(u->dport);
	p->has_ports = 1;
	return WEIR_PARSED;
}

/* DHCP from server to client, and nothing that only looks like it: the strict form is what may bypass the limits. */
static __always_inline void classify_dhcp(struct weir_pkt *p)
{
	if (p->fragment != WEIR_FRAG_NONE)
		return;
	if (p->family == 4 && p->sport == 67 && p->dport == 68)
		p->class = WEIR_CLASS_DHCP;
	/* A DHCPv6 server or relay on this link answers from its link-local address, fe80::/10. */
	if (p->family == 6 && p->sport == 547 && p->dport == 546 && p->src.ip[0] == 0xfe &&
	    (p->src.ip[1] & 0xc0) == 0x80)
		p->class = WEIR_CLASS_DHCP;
}

static __always_inline int parse_icmp(struct cursor *c, const struct l4_bounds *b,
				      struct weir_pkt *p)
{
	struct wire_icmp *i = cur_take(c, sizeof(*i));

	if (!i || b->len < sizeof(*i))
		return WEIR_DROP_ICMP_TRUNCATED;
	/* RFC 4861 6.1, 7.1: hop limit 255 proves that the sender is on this link. RFC 6980: never in fragments. */
	if (p->protocol == PROTO_ICMPV6 && p->family == 6 && i->type >= 133 && i->type <= 137 &&
	    i->code == 0 && b->hop_limit == 255 && p->fragment == WEIR_FRAG_NONE)
		p->class = WEIR_CLASS_NEIGHBOUR;
	return WEIR_PARSED;
}

static __always_inline int parse_l4(struct cursor *c, const struct l4_bounds *b, struct weir_pkt *p)
{
	int r = WEIR_PARSED;

	if (p->fragment == WEIR_FRAG_REST)
		return WEIR_PARSED;
	if (p->protocol == PROTO_TCP)
		return parse_tcp(c, b, p);
	if (p->protocol == PROTO_UDP) {
		r = parse_udp(c, b, p);
		if (r == WEIR_PARSED)
			classify_dhcp(p);
		return r;
	}
	if (p->protocol == (p->family == 4 ? PROTO_ICMP : PROTO_ICMPV6))
		return parse_icmp(c, b, p);
	return WEIR_PARSED;
}

/* @offset and @len in bytes: of a fragment's payload within its datagram. */
static __always_inline int check_fragment(__u32 offset, __u32 len, int more)
{
	if (offset + len > 65535 || (more && (len & 7)) || (offset && !len))
		return WEIR_DROP_FRAGMENT;
	return WEIR_PARSED;
}

/* Asking for the whole frame's length is a call. A frame has several buffers only if the first one is full, and no
 * driver's is smaller than this.
 */
#define FIRST_BUFFER_MIN 512

/* Bytes of the frame behind its @l2 bytes of link header, of which the IP header claims @claimed (0: it does not say).
 * A driver that splits headers from data would have a short first buffer: then the header claims more than it holds.
 */
static __always_inline __u32 frame_left(const struct cursor *c, __u32 l2, __u32 claimed,
					struct weir_pkt *p)
{
	if (claimed == 0 || claimed > p->len - l2)
		p->len = cur_frame_len(c);
	return p->len - l2;
}

static __always_inline int parse_ip4(struct cursor *c, __u32 l2, struct weir_pkt *p)
{
	struct wire_ip4 *ip = cur_take(c, sizeof(*ip));
	struct l4_bounds b = {};
	__u32 header, total, frag, left;

	if (!ip)
		return WEIR_DROP_IP4_TRUNCATED;
	header = (ip->version_ihl & 15) * 4;
	if (ip->version_ihl >> 4 != 4 || header < sizeof(*ip))
		return WEIR_DROP_IP4_HEADER;
	if (header > sizeof(*ip) && !cur_skip(c, header - sizeof(*ip)))
		return WEIR_DROP_IP4_TRUNCATED;
	total = wire16(ip->total_len);
	left = frame_left(c, l2, total, p);
	if (total == 0 && left > 65535) {
		total = left;
		b.big = 1;
	}
	if (total < header || total > left)
		return WEIR_DROP_IP4_LENGTH;
	p->family = 4;
	p->protocol = ip->protocol;
	p->src.word[0] = ip->src;
	p->dst.word[0] = ip->dst;
	b.len = total - header;
	b.hop_limit = ip->ttl;
	frag = wire16(ip->frag_off);
	if (frag & 0x3fff) { /* offset or more fragments */
		p->fragment = frag & 0x1fff ? WEIR_FRAG_REST : WEIR_FRAG_FIRST;
		if (check_fragment((frag & 0x1fff) * 8, b.len, frag & 0x2000) != WEIR_PARSED)
			return WEIR_DROP_FRAGMENT;
	}
	return parse_l4(c, &b, p);
}

/* Extension headers that stand between IPv6 and its payload (RFC 7045). */
static __always_inline int is_extension(__u8 next)
{
	return next == PROTO_HOPOPTS || next == PROTO_ROUTING || next == PROTO_DSTOPTS ||
	       next == PROTO_AH || next == PROTO_FRAGMENT || next == PROTO_MOBILITY ||
	       next == PROTO_HIP || next == PROTO_SHIM6;
}

static __always_inline int parse_ip6_fragment(const struct wire_frag *f, __u32 len,
					      struct weir_pkt *p)
{
	__u32 off_more = wire16(f->off_more);

	if ((off_more & 0xfff9) == 0) /* an atomic fragment is a whole datagram */
		return WEIR_PARSED;
	p->fragment = off_more & 0xfff8 ? WEIR_FRAG_REST : WEIR_FRAG_FIRST;
	return check_fragment(off_more & 0xfff8, len, off_more & 1);
}

/* Walks the chain; on return p->protocol is the last header's and b->len what is behind the chain. */
static __always_inline int parse_ip6_chain(struct cursor *c, __u8 next, struct l4_bounds *b,
					   struct weir_pkt *p)
{
	struct wire_ext *x;
	__u32 len;
	int i;

	for (i = 0; i < WEIR_EXT_MAX; i++) {
		if (!is_extension(next))
			break;
		x = cur_take(c, sizeof(*x)); /* no extension header is shorter than 8 bytes */
		if (!x || b->len < sizeof(*x))
			return WEIR_DROP_IP6_EXT_TRUNCATED;
		len = sizeof(*x);
		if (next == PROTO_AH)
			len = (x->len + 2) * 4;
		else if (next != PROTO_FRAGMENT)
			len = (x->len + 1) * 8;
		if (len < sizeof(*x) || len > b->len || !cur_skip(c, len - sizeof(*x)))
			return WEIR_DROP_IP6_EXT_TRUNCATED;
		b->len = cur_blur(c, b->len - len, 0xffffff);
		if (next == PROTO_FRAGMENT &&
		    parse_ip6_fragment((void *)x, b->len, p) != WEIR_PARSED)
			return WEIR_DROP_FRAGMENT;
		next = x->next_header;
		if (p->fragment == WEIR_FRAG_REST)
			break; /* what follows is payload, whatever it looks like */
	}
	if (p->fragment != WEIR_FRAG_REST && is_extension(next))
		return WEIR_DROP_IP6_EXT_CHAIN;
	p->protocol = next;
	return WEIR_PARSED;
}

static __always_inline int parse_ip6(struct cursor *c, __u32 l2, struct weir_pkt *p)
{
	struct wire_ip6 *ip = cur_take(c, sizeof(*ip));
	struct l4_bounds b = {};
	__u32 payload, left;
	__u8 next;
	int r;

	if (!ip)
		return WEIR_DROP_IP6_TRUNCATED;
	if (wire32(ip->version_class_flow) >> 28 != 6)
		return WEIR_DROP_IP6_HEADER;
	payload = wire16(ip->payload_len);
	left = frame_left(c, l2, payload ? payload + sizeof(*ip) : 0, p);
	if (payload == 0 && left > 65535) {
		payload = left - sizeof(*ip);
		b.big = 1;
	}
	if (payload + sizeof(*ip) > left)
		return WEIR_DROP_IP6_LENGTH;
	p->family = 6;
	__builtin_memcpy(p->src.word, ip->src, sizeof(ip->src));
	__builtin_memcpy(p->dst.word, ip->dst, sizeof(ip->dst));
	b.len = payload;
	b.hop_limit = ip->hop_limit;
	next = ip->next_header;
	r = parse_ip6_chain(c, next, &b, p);
	if (r != WEIR_PARSED)
		return r;
	return parse_l4(c, &b, p);
}

/* 01:80:c2:00:00:00 to 0f: spanning tree, LACP, LLDP, 802.1X. Without them the link itself goes down. */
static __always_inline __u8 is_link_control(const struct wire_eth *eth)
{
	return eth->dst[0] == 0x01 && eth->dst[1] == 0x80 && eth->dst[2] == 0xc2 && !eth->dst[3] &&
	       !eth->dst[4] && eth->dst[5] < 16;
}

/* Fills @p always; returns WEIR_PARSED or the enum weir_reason to end with. All headers must lie in the first buffer. */
static __always_inline int parse_frame(struct cursor *c, struct weir_pkt *p)
{
	struct wire_eth *eth;
	struct wire_vlan *tag;
	__be16 type;
	__u32 l2 = sizeof(*eth);
	int i;

	__builtin_memset(p, 0, sizeof(*p));
	p->len = c->end - c->data;
	if (p->len >= FIRST_BUFFER_MIN)
		p->len = cur_frame_len(c);
	c->noise = p->len;
	eth = cur_take(c, sizeof(*eth));
	if (!eth)
		return WEIR_DROP_ETH_TRUNCATED;
	type = eth->type;
	for (i = 0; i <= WEIR_VLAN_MAX; i++) {
		if (type != wire16(ETH_P_8021Q) && type != wire16(ETH_P_8021AD))
			break;
		if (i == WEIR_VLAN_MAX)
			return WEIR_DROP_VLAN_DEPTH;
		tag = cur_take(c, sizeof(*tag));
		if (!tag)
			return WEIR_DROP_VLAN_TRUNCATED;
		if (i == 0)
			p->vlan = wire16(tag->tci) & 0xfff;
		type = tag->type;
		l2 += sizeof(*tag);
	}
	if (type == wire16(ETH_P_IP))
		return parse_ip4(c, l2, p);
	if (type == wire16(ETH_P_IPV6))
		return parse_ip6(c, l2, p);
	if (type == wire16(ETH_P_ARP)) {
		if (!cur_take(c, 28)) /* Ethernet and IPv4: 8 + 2 * (6 + 4) */
			return WEIR_DROP_ARP_TRUNCATED;
		p->class = WEIR_CLASS_ARP;
		return WEIR_PARSED;
	}
	p->link_control = is_link_control(eth);
	return WEIR_PASS_NON_IP;
}

#ifdef __bpf__
static __always_inline int weir_parse_ctx(struct xdp_md *ctx, struct weir_pkt *p)
{
	struct cursor c = {.data = (void *)(long)ctx->data,
			   .end = (void *)(long)ctx->data_end,
			   .ctx = ctx};

	return parse_frame(&c, p);
}
#else
/* @frame_len: bytes of the whole frame, of which @data .. @data_end is the first buffer. */
static __always_inline int weir_parse(void *data, void *data_end, __u32 frame_len,
				      struct weir_pkt *p)
{
	struct cursor c = {.data = data, .end = data_end, .frame_len = frame_len};

	return parse_frame(&c, p);
}
#endif

#endif
