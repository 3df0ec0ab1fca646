/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames of the traffic generator: from options to bytes, lengths and partial checksums. Called by
 * gen.c. Sums are over 16-bit words as they lie in memory, which one's complement allows.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gen_int.h"

#define ETH_BYTES     14
#define VLAN_BYTES    4
#define IP4_BYTES     20
#define IP6_BYTES     40
#define FRAG6_BYTES   8
#define UDP_BYTES     8
#define TCP_BYTES     20
#define MSS_BYTES     4 /* the one TCP option of a SYN */
#define ICMP_BYTES    8
#define DEFAULT_BYTES 64
#define DISCARD_PORT  9
#define HTTP_PORT     80
#define FIRST_UNICAST 0x01000000U
#define UNICAST_COUNT (222ULL << 24) /* 1/8 to 223/8 without 127/8 */

static const enum gen_proto mixed_kinds[] = {GEN_UDP,  GEN_SYN,	 GEN_ACK,
					     GEN_ICMP, GEN_FRAG, GEN_FRAG_FIRST};
static const uint8_t mixed_order[GEN_MIX] = {0, 1, 0, 2, 0, 3, 1, 4, 0, 1, 0, 2, 1, 3, 0, 5};

/* What all frames of a run share. */
struct plan {
	const struct gen_opts *o;
	uint8_t eth[ETH_BYTES + 2 * VLAN_BYTES]; /* up to the IP header */
	size_t l3_off;
	size_t size;
	uint8_t src[16], dst[16];
};

int gen_fail(char *err, size_t err_bytes, int r, const char *fmt, ...)
{
	va_list ap;

	if (err_bytes) {
		va_start(ap, fmt);
		(void)vsnprintf(err, err_bytes, fmt, ap); /* cut short is still a message */
		va_end(ap);
	}
	return r;
}

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t sum_bytes(uint32_t sum, const void *data, size_t n)
{
	const uint8_t *p = data;
	uint16_t word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	if (n) {
		word = 0;
		memcpy(&word, p, 1);
		sum += word;
	}
	return sum;
}

static uint32_t sum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static bool is_frag(enum gen_proto p)
{
	return p == GEN_FRAG || p == GEN_FRAG_FIRST;
}

/* Bytes up to the L4 header. */
static size_t l4_at(const struct plan *p, enum gen_proto kind)
{
	if (!p->o->ipv6)
		return p->l3_off + IP4_BYTES;
	return p->l3_off + IP6_BYTES + (is_frag(kind) ? FRAG6_BYTES : 0);
}

static size_t l4_header_bytes(enum gen_proto kind)
{
	switch (kind) {
	case GEN_SYN:
		return TCP_BYTES + MSS_BYTES;
	case GEN_ACK:
		return TCP_BYTES;
	case GEN_ICMP:
		return ICMP_BYTES;
	default:
		return UDP_BYTES;
	}
}

/* Bytes of L4 that the IP header announces; what is left of the frame is padding. */
static size_t l4_bytes(const struct plan *p, enum gen_proto kind)
{
	size_t room = p->size - l4_at(p, kind);

	if (kind == GEN_FRAG_FIRST)
		return room & ~(size_t)7;
	if (kind == GEN_SYN || (kind == GEN_ACK && p->size <= DEFAULT_BYTES))
		return l4_header_bytes(kind);
	return room;
}

static uint8_t l4_proto(const struct plan *p, enum gen_proto kind)
{
	switch (kind) {
	case GEN_SYN:
	case GEN_ACK:
		return IPPROTO_TCP;
	case GEN_ICMP:
		return p->o->ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	default:
		return IPPROTO_UDP;
	}
}

/* Offset field of a fragment with the flag: the datagram is one first and one last fragment. */
static uint32_t frag_field(const struct plan *p, enum gen_proto kind)
{
	size_t first = (p->size - l4_at(p, kind)) & ~(size_t)7;

	if (kind == GEN_FRAG_FIRST)
		return p->o->ipv6 ? 1 : 0x2000;
	return (uint32_t)(p->o->ipv6 ? first : first / 8);
}

static void write_ip4(const struct plan *p, enum gen_proto kind, uint8_t *f, struct gen_tmpl *t)
{
	uint8_t *h = f + p->l3_off;

	h[0] = 0x45;
	put16(h + 2, (uint32_t)(IP4_BYTES + l4_bytes(p, kind)));
	put16(h + 6, is_frag(kind) ? frag_field(p, kind) : 0x4000);
	h[8] = 64;
	h[9] = l4_proto(p, kind);
	memcpy(h + 16, p->dst, 4);
	t->l3_sum = sum_fold(sum_bytes(0, h, IP4_BYTES));
	t->id_off = is_frag(kind) ? (uint16_t)(p->l3_off + 4) : 0;
}

static void write_ip6(const struct plan *p, enum gen_proto kind, uint8_t *f, struct gen_tmpl *t)
{
	uint8_t *h = f + p->l3_off, *frag = h + IP6_BYTES;

	h[0] = 0x60;
	put16(h + 4, (uint32_t)(l4_bytes(p, kind) + (is_frag(kind) ? FRAG6_BYTES : 0)));
	h[6] = is_frag(kind) ? IPPROTO_FRAGMENT : l4_proto(p, kind);
	h[7] = 64;
	memcpy(h + 16, p->src + 8, 8);
	memcpy(h + 24, p->dst, 16);
	if (!is_frag(kind))
		return;
	frag[0] = IPPROTO_UDP;
	put16(frag + 2, frag_field(p, kind));
	t->id_off = (uint16_t)(p->l3_off + IP6_BYTES + 6);
}

/* Sum of the pseudo header without what changes of the source. */
static uint32_t pseudo_sum(const struct plan *p, enum gen_proto kind, size_t bytes)
{
	uint8_t tail[4] = {0, l4_proto(p, kind)};
	uint32_t sum;

	put16(tail + 2, (uint32_t)bytes);
	sum = sum_bytes(0, tail, sizeof(tail));
	if (!p->o->ipv6)
		return sum_bytes(sum, p->dst, 4);
	sum = sum_bytes(sum, p->src + 8, 8);
	return sum_bytes(sum, p->dst, 16);
}

static void write_tcp(enum gen_proto kind, uint8_t *h, bool ipv6)
{
	h[12] = (uint8_t)(l4_header_bytes(kind) / 4 << 4);
	h[13] = kind == GEN_SYN ? 0x02 : 0x10;
	put16(h + 14, 65535);
	if (kind == GEN_ACK) {
		put32(h + 8, 1);
		return;
	}
	h[20] = 2; /* MSS */
	h[21] = MSS_BYTES;
	put16(h + 22, ipv6 ? 1440 : 1460);
}

static void write_l4(const struct plan *p, enum gen_proto kind, uint8_t *f, struct gen_tmpl *t)
{
	size_t at = l4_at(p, kind), announced = l4_bytes(p, kind), whole = announced;
	uint8_t *h = f + at;

	t->l4_off = (uint16_t)at;
	t->pseudo = kind != GEN_ICMP || p->o->ipv6;
	if (kind == GEN_ICMP) {
		h[0] = p->o->ipv6 ? 128 : 8; /* echo request */
		put16(h + 4, 0x7765);
		put16(h + 6, 1);
		t->csum_off = (uint16_t)(at + 2);
	} else {
		t->ports = 1;
		put16(h, p->o->sport);
		if (!p->o->rand_dport && p->o->dport)
			put16(h + 2, p->o->dport);
		else if (!p->o->rand_dport)
			put16(h + 2, l4_proto(p, kind) == IPPROTO_TCP ? HTTP_PORT : DISCARD_PORT);
	}
	if (l4_proto(p, kind) == IPPROTO_TCP) {
		write_tcp(kind, h, p->o->ipv6);
		t->tcp = 1;
		t->csum_off = (uint16_t)(at + 16);
	} else if (kind != GEN_ICMP) {
		if (kind == GEN_FRAG_FIRST) /* the rest of the datagram is zeros in the last one */
			whole += p->size - at;
		put16(h + 4, (uint32_t)whole);
		t->udp = 1;
		t->csum_off = (uint16_t)(at + 6);
	}
	t->l4_sum = sum_bytes(t->pseudo ? pseudo_sum(p, kind, whole) : 0, h, announced);
	t->l4_sum = sum_fold(t->l4_sum);
}

static void write_frame(const struct plan *p, enum gen_proto kind, uint8_t *f, struct gen_tmpl *t)
{
	memset(f, 0, GEN_FRAME_MAX);
	memcpy(f, p->eth, p->l3_off);
	if (p->o->ipv6)
		write_ip6(p, kind, f, t);
	else
		write_ip4(p, kind, f, t);
	if (kind != GEN_FRAG)
		write_l4(p, kind, f, t);
	memcpy(t->words, f, sizeof(t->words));
}

static int parse_mac(const char *s, uint8_t ret[6])
{
	uint8_t m[6];
	int used = 0;

	if (sscanf(s, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &m[0], &m[1], &m[2], &m[3], &m[4],
		   &m[5], &used) != 6 ||
	    s[used])
		return -EINVAL;
	memcpy(ret, m, sizeof(m));
	return 0;
}

static int plan_link(struct plan *p, const struct gen_dev *dev, const uint8_t peer_mac[6],
		     char *err, size_t err_bytes)
{
	const struct gen_opts *o = p->o;
	uint8_t *at = p->eth + 12;

	if (o->vlan > 4094 || o->vlan2 > 4094 || (o->vlan2 && !o->vlan))
		return gen_fail(err, err_bytes, -EINVAL,
				"VLAN ids go from 1 to 4094, and the inner one needs an outer one");
	memcpy(p->eth, peer_mac, 6);
	if (o->dst_mac && parse_mac(o->dst_mac, p->eth) < 0)
		return gen_fail(err, err_bytes, -EINVAL, "'%s' is not a MAC address", o->dst_mac);
	memcpy(p->eth + 6, dev->mac, 6);
	if (o->vlan) {
		put16(at, o->vlan2 ? ETH_P_8021AD : ETH_P_8021Q);
		put16(at + 2, o->vlan);
		at += VLAN_BYTES;
	}
	if (o->vlan2) {
		put16(at, ETH_P_8021Q);
		put16(at + 2, o->vlan2);
		at += VLAN_BYTES;
	}
	put16(at, o->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	p->l3_off = (size_t)(at + 2 - p->eth);
	return 0;
}

static int plan_addrs(struct plan *p, char *err, size_t err_bytes, struct gen_cfg *c)
{
	const struct gen_opts *o = p->o;
	const char *src = o->src ? o->src : o->ipv6 ? "2001:db8::1" : "10.0.0.0";
	const char *dst = o->dst ? o->dst : o->ipv6 ? "2001:db8:ffff::2" : "192.0.2.2";
	int family = o->ipv6 ? AF_INET6 : AF_INET;
	uint64_t last;

	if (inet_pton(family, src, p->src) != 1)
		return gen_fail(err, err_bytes, -EINVAL, "'%s' is not an IPv%d address", src,
				o->ipv6 ? 6 : 4);
	if (inet_pton(family, dst, p->dst) != 1)
		return gen_fail(err, err_bytes, -EINVAL, "'%s' is not an IPv%d address", dst,
				o->ipv6 ? 6 : 4);
	if (o->sources > GEN_SOURCES_ALL)
		return gen_fail(err, err_bytes, -EINVAL, "there can be at most 2^32 sources");
	c->sources = o->any_source ? GEN_SOURCES_ALL : o->sources ? o->sources : 1;
	c->base4 = get32(p->src);
	c->base6 = (uint64_t)get32(p->src) << 32 | get32(p->src + 4);
	if (o->any_source && !o->ipv6) {
		c->base4 = FIRST_UNICAST;
		c->sources = UNICAST_COUNT;
		c->skip_loop = 1;
	}
	last = c->sources - 1;
	if (o->ipv6 ? c->base6 + last < c->base6 : c->base4 + last > UINT32_MAX)
		return gen_fail(err, err_bytes, -ERANGE,
				"%llu sources from %s run past the last address",
				(unsigned long long)c->sources, src);
	return 0;
}

/* @kinds are the @n kinds of the run. Settles the size of the frames. */
static int plan_size(struct plan *p, const struct gen_dev *dev, const enum gen_proto *kinds,
		     size_t n, char *err, size_t err_bytes)
{
	size_t least = 0, most = dev->mtu + ETH_BYTES + VLAN_BYTES; /* what the kernel forwards */

	for (size_t i = 0; i < n; i++) {
		size_t bytes = l4_at(p, kinds[i]) + l4_header_bytes(kinds[i]);

		if (bytes > least)
			least = bytes;
	}
	p->size = p->o->size;
	if (!p->size)
		p->size = least > DEFAULT_BYTES ? least : DEFAULT_BYTES;
	if (p->size < least)
		return gen_fail(err, err_bytes, -EMSGSIZE, "these headers need %zu bytes, not %zu",
				least, p->size);
	if (p->size > most || p->size > GEN_FRAME_MAX)
		return gen_fail(err, err_bytes, -EMSGSIZE,
				"%zu bytes are more than %s takes, which is %zu", p->size,
				dev->name, most < GEN_FRAME_MAX ? most : GEN_FRAME_MAX);
	return 0;
}

int gen_tmpl_build(const struct gen_opts *o, const struct gen_dev *dev, const uint8_t peer_mac[6],
		   char *err, size_t err_bytes, struct gen_cfg *ret_cfg,
		   uint8_t (*ret_big)[GEN_FRAME_MAX])
{
	bool mixed = o->proto == GEN_MIXED;
	const enum gen_proto *kinds = mixed ? mixed_kinds : &o->proto;
	size_t n = mixed ? sizeof(mixed_kinds) / sizeof(mixed_kinds[0]) : 1;
	struct plan p = {.o = o};
	struct gen_cfg c = {};
	int r;

	r = plan_link(&p, dev, peer_mac, err, err_bytes);
	if (r < 0)
		return r;
	r = plan_addrs(&p, err, err_bytes, &c);
	if (r < 0)
		return r;
	r = plan_size(&p, dev, kinds, n, err, err_bytes);
	if (r < 0)
		return r;

	c.size = (uint16_t)p.size;
	c.l3_off = (uint16_t)p.l3_off;
	c.v6 = o->ipv6;
	c.sequence = o->pick == GEN_IN_TURN;
	c.rand_sport = !o->sport;
	c.rand_dport = o->rand_dport;
	c.trim = !o->keep_length;
	c.kinds = (uint8_t)n;
	memcpy(c.mix, mixed_order, sizeof(c.mix));
	for (size_t i = 0; i < n; i++)
		write_frame(&p, kinds[i], ret_big[i], &c.tmpl[i]);
	*ret_cfg = c;
	return 0;
}
