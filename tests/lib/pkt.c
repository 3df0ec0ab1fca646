/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes and prints the packets of pkt.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pkt.h"

void pkt_die(const char *what)
{
	fprintf(stderr, "pkt: %s\n", what);
	abort();
}

uint16_t pkt_csum(uint32_t sum, const void *data, size_t n)
{
	const uint8_t *d = data;

	for (size_t i = 0; i < n; i++)
		sum += i & 1 ? d[i] : (uint32_t)d[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

struct pkt pkt_cut(struct pkt p, uint32_t n)
{
	if (n > p.len)
		pkt_die("pkt_cut beyond the end");
	memset(p.data + n, 0, p.len - n);
	p.len = n;
	while (p.n_layers && p.layer[p.n_layers - 1].off >= n)
		p.n_layers--;
	return p;
}

struct pkt pkt_set(struct pkt p, uint32_t off, uint8_t byte)
{
	if (off >= p.len)
		pkt_die("pkt_set beyond the end");
	p.data[off] = byte;
	return p;
}

struct pkt pkt_pad(struct pkt p, uint32_t n)
{
	if (p.len + n > PKT_MAX)
		pkt_die("pkt_pad beyond the maximum");
	p.len += n;
	return p;
}

uint32_t pkt_off(const struct pkt *p, enum pkt_type kind)
{
	for (int i = 0; i < p->n_layers; i++)
		if (p->layer[i].kind == kind)
			return p->layer[i].off;
	pkt_die("no such layer");
}

void pkt_print(FILE *f, const struct pkt *p)
{
	static const char *const name[PKT_TYPE_MAX] = {
		"?",   "eth",	  "vlan", "arp",   "ip4",   "ip6", "ip6_ext", "frag",
		"tcp", "tcp_opt", "udp",  "icmp4", "icmp6", "gre", "raw",     "pay",
	};

	fprintf(f, "  %u bytes\n", p->len);
	for (int i = 0; i < p->n_layers || i == 0; i++) {
		uint32_t o = p->n_layers ? p->layer[i].off : 0;
		uint32_t end = i + 1 < p->n_layers ? p->layer[i + 1].off : p->len;

		fprintf(f, "  %4u %-8s", o, p->n_layers ? name[p->layer[i].kind] : "bytes");
		for (uint32_t k = o; k < end && k < o + 64; k++)
			fprintf(f, "%s%02x", (k - o) & 3 ? "" : " ", p->data[k]);
		fprintf(f, "%s\n", end > o + 64 ? " ..." : "");
	}
	fprintf(f, "  scapy: Ether(bytes.fromhex(\"");
	for (uint32_t k = 0; k < p->len && k < 256; k++)
		fprintf(f, "%02x", p->data[k]);
	fprintf(f, "\"))%s\n", p->len > 256 ? "  # its first 256 bytes" : "");
}
