/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets for tests as a list of layers, built by pkt.c:
 *
 *	struct pkt syn = PKT(ETH(), VLAN(.id = 7), IP4(.src = "203.0.113.9"), TCP(.syn = true));
 *
 * A field that is zero means "work it out" (lengths, checksums, next header, ethertype, documentation addresses); a
 * field that is set is taken as it is, even if wrong; PKT_ZERO asks for a real zero. Called by tests/packet,
 * tests/unit and tests/fuzz.
 */
#ifndef WEIR_TESTS_PKT_H
#define WEIR_TESTS_PKT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PKT_MAX	   9216 /* bytes of a frame */
#define PKT_LAYERS 24
#define PKT_ZERO   INT64_MIN

enum pkt_type {
	PKT_END,
	PKT_ETH,
	PKT_VLAN,
	PKT_ARP,
	PKT_IP4,
	PKT_IP6,
	PKT_IP6_EXT,
	PKT_FRAG,
	PKT_TCP,
	PKT_TCP_OPT,
	PKT_UDP,
	PKT_ICMP4,
	PKT_ICMP6,
	PKT_GRE,
	PKT_RAW,
	PKT_PAY,
	PKT_TYPE_MAX
};

struct pkt_layer {
	enum pkt_type kind;
	union {
		struct {
			const char *dst, *src; /* "02:00:00:00:00:01" */
			int64_t type;
		} eth;
		struct {
			int64_t id, pcp, tpid, type; /* tpid: 0x8100, or 0x88a8 for 802.1ad */
		} vlan;
		struct {
			int64_t htype, ptype, hlen, plen, op;
			const char *sha, *spa, *tha, *tpa;
		} arp;
		struct {
			const char *src, *dst;
			int64_t version, ihl, tos, tot_len, id, frag_off, ttl, proto, csum;
			int64_t opt_len; /* bytes of options (NOP) that are really there */
			bool df, mf, rf, bad_csum;
		} ip4;
		struct {
			const char *src, *dst;
			int64_t version, tclass, flow, len, next, hops;
		} ip6;
		struct {
			int64_t type, next,
				hdrlen; /* type 0 = hop-by-hop; 43, 60, 51 (AH), 135, 139, 140 */
			int64_t size;	/* bytes that are really there; 8 (AH: 16) */
		} ip6_ext;
		struct {
			int64_t next, off, id; /* off in units of 8 bytes */
			bool more;
		} frag;
		struct {
			int64_t sport, dport, seq, ack_seq, doff, window, csum, urg_ptr;
			int64_t flags; /* all at once; else the bools; none of them = ACK */
			bool fin, syn, rst, psh, ack, urg, ece, cwr, bad_csum;
		} tcp;
		struct {
			int64_t kind, len;
			const char *data;
			int64_t n;
		} tcp_opt;
		struct {
			int64_t sport, dport, len, csum;
			bool bad_csum;
		} udp;
		struct {
			int64_t type, code, csum, id, seq; /* type 0 = echo request */
		} icmp4;
		struct {
			int64_t type, code, csum;
			const char *target; /* of 135 and 136 */
		} icmp6;
		struct {
			int64_t flags, proto;
		} gre;
		struct {
			const void *data;
			int64_t n;
		} raw;
	};
};

#define PKT_LAYER_(k, f, ...) (&(const struct pkt_layer){.kind = (k), .f = {__VA_ARGS__}})
#define ETH(...)	      PKT_LAYER_(PKT_ETH, eth, __VA_ARGS__)
#define VLAN(...)	      PKT_LAYER_(PKT_VLAN, vlan, __VA_ARGS__)
#define ARP(...)	      PKT_LAYER_(PKT_ARP, arp, __VA_ARGS__)
#define IP4(...)	      PKT_LAYER_(PKT_IP4, ip4, __VA_ARGS__)
#define IP6(...)	      PKT_LAYER_(PKT_IP6, ip6, __VA_ARGS__)
#define IP6_EXT(...)	      PKT_LAYER_(PKT_IP6_EXT, ip6_ext, __VA_ARGS__)
#define FRAG(...)	      PKT_LAYER_(PKT_FRAG, frag, __VA_ARGS__)
#define TCP(...)	      PKT_LAYER_(PKT_TCP, tcp, __VA_ARGS__)
#define TCP_OPT(...)	      PKT_LAYER_(PKT_TCP_OPT, tcp_opt, __VA_ARGS__)
#define UDP(...)	      PKT_LAYER_(PKT_UDP, udp, __VA_ARGS__)
#define ICMP4(...)	      PKT_LAYER_(PKT_ICMP4, icmp4, __VA_ARGS__)
#define ICMP6(...)	      PKT_LAYER_(PKT_ICMP6, icmp6, __VA_ARGS__)
#define IPIP(...)	      PKT_LAYER_(PKT_IP4, ip4, __VA_ARGS__) /* an IPv4 header inside another */
#define GRE(...)	      PKT_LAYER_(PKT_GRE, gre, __VA_ARGS__)
#define RAW(text)	      PKT_LAYER_(PKT_RAW, raw, .data = (text), .n = sizeof(text) - 1)
#define PAY(bytes)	      PKT_LAYER_(PKT_PAY, raw, .n = (bytes))

struct pkt {
	uint32_t len;
	uint8_t n_layers;
	struct {
		uint8_t kind; /* enum pkt_type */
		uint16_t off;
	} layer[PKT_LAYERS];
	uint8_t data[PKT_MAX];
};

#define PKT(...) pkt_build((const struct pkt_layer *const[]){__VA_ARGS__, NULL})
/* The layers to the NULL at their end, as one frame. Aborts where they are longer than PKT_MAX. */
struct pkt pkt_build(const struct pkt_layer *const *layers);

/* The first @n bytes of @p; @p with one byte changed; @p made longer by @n zero bytes (Ethernet padding). */
struct pkt pkt_cut(struct pkt p, uint32_t n);
struct pkt pkt_set(struct pkt p, uint32_t off, uint8_t byte);
struct pkt pkt_pad(struct pkt p, uint32_t n);
/* Where the first layer of this kind begins; aborts the test run if there is none. */
uint32_t pkt_off(const struct pkt *p, enum pkt_type kind);

/* For every length shorter than the packet. */
#define FOR_EACH_CUT(p, n) for (uint32_t n = 0; n < (p).len; n++)

/* The packet by layers in hex, and as one line that scapy reads. */
void pkt_print(FILE *f, const struct pkt *p);

/* A test asks for a packet that cannot be: says so and aborts. */
void pkt_die(const char *what) __attribute__((noreturn));

/* Internet checksum over @n bytes, folded, in host order; @sum is what was added up before. */
uint16_t pkt_csum(uint32_t sum, const void *data, size_t n);

/* xorshift64*: the tests' own deterministic random numbers. */
static inline uint64_t pkt_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

#endif
