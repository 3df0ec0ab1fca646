/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the packets of pkt.h. Layers are written from the last to the first, so that lengths and checksums are known when
 * a header is written; everything goes through put*(), never a struct laid over the frame.
 */
#include <arpa/inet.h>
#include <string.h>

#include "tests/lib/pkt.h"

enum {
	P_ICMP = 1,
	P_IPIP = 4,
	P_TCP = 6,
	P_UDP = 17,
	P_IPV6 = 41,
	P_FRAG = 44,
	P_GRE = 47,
	P_AH = 51
};

enum { P_ICMP6 = 58, P_NONE = 59, P_TEST = 253 };

struct build {
	const struct pkt_layer *const *l;
	struct pkt p;
};

static uint64_t val(int64_t v, uint64_t otherwise)
{
	return v == PKT_ZERO ? 0 : v ? (uint64_t)v : otherwise;
}

static void put8(struct build *b, uint32_t off, uint64_t v)
{
	b->p.data[off] = (uint8_t)v;
}

static void put16(struct build *b, uint32_t off, uint64_t v)
{
	put8(b, off, v >> 8);
	put8(b, off + 1, v);
}

static void put32(struct build *b, uint32_t off, uint64_t v)
{
	put16(b, off, v >> 16);
	put16(b, off + 2, v);
}

static void put_mac(struct build *b, uint32_t off, const char *text, const char *otherwise)
{
	unsigned m[6];

	if (sscanf(text ? text : otherwise, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3],
		   &m[4], &m[5]) != 6)
		pkt_die("no such MAC address");
	for (int i = 0; i < 6; i++)
		put8(b, off + i, m[i]);
}

static void put_ip(struct build *b, uint32_t off, int family, const char *text,
		   const char *otherwise)
{
	if (inet_pton(family, text ? text : otherwise, &b->p.data[off]) != 1)
		pkt_die("no such address");
}

static uint32_t tcp_opt_size(const struct pkt_layer *l)
{
	/* end of list and NOP are one byte */
	return val(l->tcp_opt.kind, 1) < 2 ? 1 : 2 + (uint32_t)l->tcp_opt.n;
}

static uint32_t icmp6_size(const struct pkt_layer *l)
{
	switch (val(l->icmp6.type, 128)) {
	case 134:
		return 16;
	case 135:
	case 136:
		return 24;
	case 137:
		return 40;
	default:
		return 8;
	}
}

static uint32_t size_of(const struct pkt_layer *l)
{
	static const uint8_t fixed[PKT_TYPE_MAX] = {
		[PKT_ETH] = 14, [PKT_VLAN] = 4, [PKT_ARP] = 28,	 [PKT_IP6] = 40, [PKT_FRAG] = 8,
		[PKT_TCP] = 20, [PKT_UDP] = 8,	[PKT_ICMP4] = 8, [PKT_GRE] = 4,
	};

	switch (l->kind) {
	case PKT_IP4:
		return 20 + (uint32_t)l->ip4.opt_len;
	case PKT_IP6_EXT:
		return (uint32_t)val(l->ip6_ext.size, l->ip6_ext.type == P_AH ? 16 : 8);
	case PKT_TCP_OPT:
		return tcp_opt_size(l);
	case PKT_ICMP6:
		return icmp6_size(l);
	case PKT_RAW:
	case PKT_PAY:
		return (uint32_t)l->raw.n;
	default:
		return fixed[l->kind];
	}
}

static uint16_t ethertype_of(const struct pkt_layer *next)
{
	if (!next)
		return 0x88b5; /* local experimental */
	switch (next->kind) {
	case PKT_VLAN:
		return (uint16_t)val(next->vlan.tpid, 0x8100);
	case PKT_ARP:
		return 0x0806;
	case PKT_IP4:
		return 0x0800;
	case PKT_IP6:
		return 0x86dd;
	default:
		return 0x88b5;
	}
}

static uint8_t protocol_of(const struct pkt_layer *next, uint8_t otherwise)
{
	static const uint8_t number[PKT_TYPE_MAX] = {
		[PKT_IP4] = P_IPIP, [PKT_IP6] = P_IPV6,	  [PKT_FRAG] = P_FRAG,	 [PKT_TCP] = P_TCP,
		[PKT_UDP] = P_UDP,  [PKT_ICMP4] = P_ICMP, [PKT_ICMP6] = P_ICMP6, [PKT_GRE] = P_GRE,
	};

	if (next && next->kind == PKT_IP6_EXT)
		return (uint8_t)val(next->ip6_ext.type, 0);
	return next && number[next->kind] ? number[next->kind] : otherwise;
}

/* Adds up the pseudo header of the nearest IP header before layer @i. */
static uint32_t pseudo(const struct build *b, int i, uint8_t protocol, uint32_t len)
{
	uint32_t sum = protocol + (len >> 16) + (len & 0xffff);

	while (i-- > 0) {
		const uint8_t *h = b->p.data + b->p.layer[i].off;

		if (b->l[i]->kind == PKT_IP4)
			return sum + pkt_csum(0, h + 12, 8);
		if (b->l[i]->kind == PKT_IP6)
			return sum + pkt_csum(0, h + 8, 32);
	}
	return sum;
}

/* Writes the checksum of everything from layer @i on. The rest of its header must be there. */
static void put_l4_csum(struct build *b, int i, uint32_t at, int64_t given, bool bad, uint32_t sum)
{
	uint32_t off = b->p.layer[i].off;
	uint16_t c;

	put16(b, off + at, 0);
	c = (uint16_t)~pkt_csum(sum, b->p.data + off, b->p.len - off);
	if (!c && b->l[i]->kind == PKT_UDP)
		c = 0xffff;
	put16(b, off + at, val(given, bad ? c ^ 0x5555u : c));
}

static void write_arp(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put16(b, o, val(l->arp.htype, 1));
	put16(b, o + 2, val(l->arp.ptype, 0x0800));
	put8(b, o + 4, val(l->arp.hlen, 6));
	put8(b, o + 5, val(l->arp.plen, 4));
	put16(b, o + 6, val(l->arp.op, 1));
	put_mac(b, o + 8, l->arp.sha, "02:00:00:00:00:02");
	put_ip(b, o + 14, AF_INET, l->arp.spa, "198.51.100.1");
	put_mac(b, o + 18, l->arp.tha, "00:00:00:00:00:00");
	put_ip(b, o + 24, AF_INET, l->arp.tpa, "192.0.2.1");
}

static void write_ip4(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off, size = size_of(l);
	uint16_t c;

	put8(b, o, val(l->ip4.version, 4) << 4 | (val(l->ip4.ihl, size / 4) & 15));
	put8(b, o + 1, val(l->ip4.tos, 0));
	put16(b, o + 2, val(l->ip4.tot_len, b->p.len - o));
	put16(b, o + 4, val(l->ip4.id, 0x1234));
	put16(b, o + 6,
	      (val(l->ip4.frag_off, 0) & 0x1fff) | l->ip4.mf << 13 | l->ip4.df << 14 |
		      l->ip4.rf << 15);
	put8(b, o + 8, val(l->ip4.ttl, 64));
	put8(b, o + 9, val(l->ip4.proto, protocol_of(b->l[i + 1], P_TEST)));
	put16(b, o + 10, 0);
	put_ip(b, o + 12, AF_INET, l->ip4.src, "198.51.100.1");
	put_ip(b, o + 16, AF_INET, l->ip4.dst, "192.0.2.1");
	memset(b->p.data + o + 20, 1, size - 20);
	c = (uint16_t)~pkt_csum(0, b->p.data + o, size);
	put16(b, o + 10, val(l->ip4.csum, l->ip4.bad_csum ? c ^ 0x5555u : c));
}

static void write_ip6(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put32(b, o,
	      val(l->ip6.version, 6) << 28 | val(l->ip6.tclass, 0) << 20 | val(l->ip6.flow, 0));
	put16(b, o + 4, val(l->ip6.len, b->p.len - o - 40));
	put8(b, o + 6, val(l->ip6.next, protocol_of(b->l[i + 1], P_NONE)));
	put8(b, o + 7, val(l->ip6.hops, 64));
	put_ip(b, o + 8, AF_INET6, l->ip6.src, "2001:db8:1::1");
	put_ip(b, o + 24, AF_INET6, l->ip6.dst, "2001:db8:2::1");
}

static void write_ip6_ext(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off, size = size_of(l);
	bool ah = l->ip6_ext.type == P_AH;

	memset(b->p.data + o, 0, size);
	put8(b, o, val(l->ip6_ext.next, protocol_of(b->l[i + 1], P_NONE)));
	if (size > 1)
		put8(b, o + 1, val(l->ip6_ext.hdrlen, ah ? size / 4 - 2 : size / 8 - 1));
	if (!ah && size >= 4 && l->ip6_ext.type != 43) {
		put8(b, o + 2, 1); /* PadN to the end */
		put8(b, o + 3, size - 4);
	}
}

static void write_frag(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put8(b, o, val(l->frag.next, protocol_of(b->l[i + 1], P_NONE)));
	put8(b, o + 1, 0);
	put16(b, o + 2, val(l->frag.off, 0) << 3 | l->frag.more);
	put32(b, o + 4, val(l->frag.id, 0x12345678));
}

static uint64_t tcp_flags(const struct pkt_layer *l)
{
	uint64_t f = l->tcp.fin | l->tcp.syn << 1 | l->tcp.rst << 2 | l->tcp.psh << 3 |
		     l->tcp.ack << 4 | l->tcp.urg << 5 | l->tcp.ece << 6 | l->tcp.cwr << 7;

	return val(l->tcp.flags, f ? f : 16);
}

static void write_tcp(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off, options = 0;

	for (int j = i + 1; b->l[j] && b->l[j]->kind == PKT_TCP_OPT; j++)
		options += size_of(b->l[j]);
	if (options & 3 && !l->tcp.doff)
		pkt_die("TCP options do not fill whole words (add TCP_OPT() as NOP)");
	put16(b, o, val(l->tcp.sport, 40000));
	put16(b, o + 2, val(l->tcp.dport, 80));
	put32(b, o + 4, val(l->tcp.seq, 1000));
	put32(b, o + 8, val(l->tcp.ack_seq, 0));
	put8(b, o + 12, val(l->tcp.doff, 5 + options / 4) << 4);
	put8(b, o + 13, tcp_flags(l));
	put16(b, o + 14, val(l->tcp.window, 64240));
	put16(b, o + 18, val(l->tcp.urg_ptr, 0));
	put_l4_csum(b, i, 16, l->tcp.csum, l->tcp.bad_csum, pseudo(b, i, P_TCP, b->p.len - o));
}

static void write_tcp_opt(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put8(b, o, val(l->tcp_opt.kind, 1));
	if (size_of(l) == 1)
		return;
	put8(b, o + 1, val(l->tcp_opt.len, size_of(l)));
	if (l->tcp_opt.n)
		memcpy(b->p.data + o + 2, l->tcp_opt.data, (size_t)l->tcp_opt.n);
}

static void write_udp(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put16(b, o, val(l->udp.sport, 40000));
	put16(b, o + 2, val(l->udp.dport, 4000));
	put16(b, o + 4, val(l->udp.len, b->p.len - o));
	put_l4_csum(b, i, 6, l->udp.csum, l->udp.bad_csum, pseudo(b, i, P_UDP, b->p.len - o));
}

static void write_icmp4(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	put8(b, o, val(l->icmp4.type, 8));
	put8(b, o + 1, val(l->icmp4.code, 0));
	put16(b, o + 4, val(l->icmp4.id, 1));
	put16(b, o + 6, val(l->icmp4.seq, 1));
	put_l4_csum(b, i, 2, l->icmp4.csum, false, 0);
}

static void write_icmp6(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i];
	uint32_t o = b->p.layer[i].off;

	memset(b->p.data + o, 0, size_of(l));
	put8(b, o, val(l->icmp6.type, 128));
	put8(b, o + 1, val(l->icmp6.code, 0));
	if (size_of(l) >= 24)
		put_ip(b, o + 8, AF_INET6, l->icmp6.target, "2001:db8:2::1");
	put_l4_csum(b, i, 2, l->icmp6.csum, false, pseudo(b, i, P_ICMP6, b->p.len - o));
}

static void write_layer(struct build *b, int i)
{
	const struct pkt_layer *l = b->l[i], *next = b->l[i + 1];
	uint32_t o = b->p.layer[i].off;

	switch (l->kind) {
	case PKT_ETH:
		put_mac(b, o, l->eth.dst, "02:00:00:00:00:01");
		put_mac(b, o + 6, l->eth.src, "02:00:00:00:00:02");
		put16(b, o + 12, val(l->eth.type, ethertype_of(next)));
		break;
	case PKT_VLAN:
		put16(b, o, val(l->vlan.pcp, 0) << 13 | val(l->vlan.id, 100));
		put16(b, o + 2, val(l->vlan.type, ethertype_of(next)));
		break;
	case PKT_ARP:
		write_arp(b, i);
		break;
	case PKT_IP4:
		write_ip4(b, i);
		break;
	case PKT_IP6:
		write_ip6(b, i);
		break;
	case PKT_IP6_EXT:
		write_ip6_ext(b, i);
		break;
	case PKT_FRAG:
		write_frag(b, i);
		break;
	case PKT_TCP_OPT:
		write_tcp_opt(b, i);
		break;
	case PKT_GRE:
		put16(b, o, val(l->gre.flags, 0));
		put16(b, o + 2, val(l->gre.proto, ethertype_of(next)));
		break;
	case PKT_RAW:
		memcpy(b->p.data + o, l->raw.data, (size_t)l->raw.n);
		break;
	case PKT_PAY:
		for (int64_t k = 0; k < l->raw.n; k++)
			put8(b, o + (uint32_t)k, (uint64_t)k);
		break;
	default:
		break; /* those with a checksum come in the second round */
	}
}

/* Headers whose checksum covers addresses and everything behind them, the innermost first. */
static void write_checked(struct build *b, int i)
{
	switch (b->l[i]->kind) {
	case PKT_TCP:
		write_tcp(b, i);
		break;
	case PKT_UDP:
		write_udp(b, i);
		break;
	case PKT_ICMP4:
		write_icmp4(b, i);
		break;
	case PKT_ICMP6:
		write_icmp6(b, i);
		break;
	default:
		break;
	}
}

struct pkt pkt_build(const struct pkt_layer *const *layers)
{
	struct build b = {.l = layers};
	int n = 0;

	for (; layers[n]; n++) {
		if (n == PKT_LAYERS || b.p.len + size_of(layers[n]) > PKT_MAX)
			pkt_die("packet is too long");
		b.p.layer[n].kind = (uint8_t)layers[n]->kind;
		b.p.layer[n].off = (uint16_t)b.p.len;
		b.p.len += size_of(layers[n]);
	}
	b.p.n_layers = (uint8_t)n;
	for (int i = n; i-- > 0;)
		write_layer(&b, i);
	for (int i = n; i-- > 0;)
		write_checked(&b, i);
	return b.p;
}
