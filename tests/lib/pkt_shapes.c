/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list behind pkt_shapes.h. A new structure in the parser gets a line here. */
#include <string.h>

#include "tests/lib/pkt_shapes.h"

#define SHAPES_MAX 64

static struct pkt_shape shape[SHAPES_MAX];
static size_t n_shapes;

static void add(const char *name, struct pkt p)
{
	if (n_shapes == SHAPES_MAX)
		return;
	shape[n_shapes].name = name;
	shape[n_shapes++].p = p;
}

static void add_l2(void)
{
	add("experimental ethertype", PKT(ETH(), PAY(46)));
	add("802.3 length", PKT(ETH(.type = 38), PAY(38)));
	add("arp", PKT(ETH(), ARP()));
	add("arp in a vlan", PKT(ETH(), VLAN(), ARP(), PAY(14)));
	add("vlan", PKT(ETH(), VLAN(), IP4(), UDP(), PAY(32)));
	add("qinq", PKT(ETH(), VLAN(.tpid = 0x88a8), VLAN(.id = 7), IP4(), TCP(.syn = true)));
	add("qinq ip6", PKT(ETH(), VLAN(.tpid = 0x88a8), VLAN(.id = 7), IP6(), UDP(), PAY(8)));
	add("unknown in a vlan", PKT(ETH(), VLAN(), PAY(46)));
}

static void add_ip4(void)
{
	add("syn", PKT(ETH(), IP4(), TCP(.syn = true)));
	add("syn with options",
	    PKT(ETH(), IP4(), TCP(.syn = true), TCP_OPT(.kind = 2, .data = "\x05\xb4", .n = 2),
		TCP_OPT(), TCP_OPT(.kind = 3, .data = "\x07", .n = 1), PAY(9)));
	add("tcp data", PKT(ETH(), IP4(.df = true), TCP(.psh = true, .ack = true), PAY(100)));
	add("udp", PKT(ETH(), IP4(), UDP(), PAY(20)));
	add("udp without data", PKT(ETH(), IP4(), UDP()));
	add("icmp", PKT(ETH(), IP4(), ICMP4(), PAY(56)));
	add("icmp error", PKT(ETH(), IP4(), ICMP4(.type = 3, .code = 4), IP4(), UDP()));
	add("ip options", PKT(ETH(), IP4(.opt_len = 40), UDP(), PAY(5)));
	add("ip options tcp", PKT(ETH(), IP4(.opt_len = 4), TCP()));
	add("esp", PKT(ETH(), IP4(.proto = 50), PAY(40)));
	add("ipip", PKT(ETH(), IP4(), IPIP(), UDP()));
	add("gre", PKT(ETH(), IP4(), GRE(), IP4(), TCP()));
	add("6in4", PKT(ETH(), IP4(), IP6(), TCP()));
	add("dhcp", PKT(ETH(), IP4(), UDP(.sport = 67, .dport = 68), PAY(240)));
	add("first fragment", PKT(ETH(), IP4(.mf = true), UDP(.len = 3000), PAY(1472)));
	add("first fragment tcp", PKT(ETH(), IP4(.mf = true), TCP(), PAY(4)));
	add("middle fragment", PKT(ETH(), IP4(.mf = true, .frag_off = 185, .proto = 17), PAY(80)));
	add("last fragment", PKT(ETH(), IP4(.frag_off = 370, .proto = 17), PAY(3)));
}

static void add_ip6(void)
{
	add("ip6 syn", PKT(ETH(), IP6(), TCP(.syn = true)));
	add("ip6 tcp options", PKT(ETH(), IP6(), TCP(), TCP_OPT(.kind = 2, .data = "ab", .n = 2)));
	add("ip6 udp", PKT(ETH(), IP6(), UDP(), PAY(33)));
	add("ip6 echo", PKT(ETH(), IP6(), ICMP6(), PAY(56)));
	add("ip6 no next header", PKT(ETH(), IP6(), PAY(4)));
	add("solicitation",
	    PKT(ETH(), IP6(.hops = 255), ICMP6(.type = 135), RAW("\x01\x01\x02\0\0\0\0\x02")));
	add("dhcp6", PKT(ETH(), IP6(.src = "fe80::1"), UDP(.sport = 547, .dport = 546), PAY(60)));
	add("hop by hop", PKT(ETH(), IP6(), IP6_EXT(), UDP(), PAY(8)));
	add("routing", PKT(ETH(), IP6(), IP6_EXT(.type = 43, .size = 24), TCP()));
	add("destination options", PKT(ETH(), IP6(), IP6_EXT(.type = 60, .size = 16), UDP()));
	add("authentication", PKT(ETH(), IP6(), IP6_EXT(.type = 51, .size = 24), TCP()));
	add("mobility", PKT(ETH(), IP6(), IP6_EXT(.type = 135)));
	add("eight extension headers",
	    PKT(ETH(), IP6(), IP6_EXT(), IP6_EXT(.type = 60), IP6_EXT(.type = 43),
		IP6_EXT(.type = 60), IP6_EXT(.type = 51), IP6_EXT(.type = 60), IP6_EXT(.type = 60),
		IP6_EXT(.type = 60), UDP()));
	add("atomic fragment", PKT(ETH(), IP6(), FRAG(), UDP(), PAY(5)));
	add("ip6 first fragment", PKT(ETH(), IP6(), FRAG(.more = true), UDP(.len = 4000), PAY(64)));
	add("ip6 middle fragment",
	    PKT(ETH(), IP6(), FRAG(.next = 17, .off = 20, .more = true), PAY(64)));
	add("ip6 last fragment", PKT(ETH(), IP6(), IP6_EXT(), FRAG(.next = 6, .off = 20), PAY(11)));
	add("4in6", PKT(ETH(), IP6(), IPIP(), TCP()));
}

const struct pkt_shape *pkt_shapes(size_t *ret_n)
{
	if (!n_shapes) {
		add_l2();
		add_ip4();
		add_ip6();
	}
	*ret_n = n_shapes;
	return shape;
}
