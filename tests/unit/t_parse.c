/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parser says of each packet, field by field, on the host: bpf/parse.h is the text that
 * the XDP program compiles. The verdicts of the program itself are in tests/packet.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pkt_parse.h"
#include "tests/lib/pkt_shapes.h"
#include "weir/reason.h"

static struct weir_pkt parsed(struct pkt p)
{
	struct weir_pkt w;
	int r = pkt_parse(&p, &w);

	if (r >= 0) {
		print_error("reason %d for\n", r);
		pkt_print(stderr, &p);
	}
	assert_true(r < 0);
	assert_int_equal(w.len, p.len);
	return w;
}

static void assert_reason(struct pkt p, int reason)
{
	struct weir_pkt w;
	int r = pkt_parse(&p, &w);

	if (r != reason)
		pkt_print(stderr, &p);
	assert_int_equal(r, reason);
}

static void assert_address(const union weir_addr *a, int family, const char *text)
{
	uint8_t want[16] = {0};

	assert_int_equal(inet_pton(family, text, want), 1);
	assert_memory_equal(a->ip, want, 16);
}

static void addresses_are_in_wire_order(void **state)
{
	struct weir_pkt w = parsed(PKT(ETH(), IP4(), UDP()));

	(void)state;
	assert_int_equal(w.family, 4);
	assert_address(&w.src, AF_INET, "198.51.100.1");
	assert_address(&w.dst, AF_INET, "192.0.2.1");
	w = parsed(PKT(ETH(), IP6(), UDP()));
	assert_int_equal(w.family, 6);
	assert_address(&w.src, AF_INET6, "2001:db8:1::1");
	assert_address(&w.dst, AF_INET6, "2001:db8:2::1");
}

static void ports_are_read_of_tcp_and_udp_alone(void **state)
{
	struct weir_pkt w = parsed(PKT(ETH(), IP4(), UDP(.sport = 53, .dport = 0x1234)));

	(void)state;
	assert_true(w.has_ports && !w.has_tcp);
	assert_int_equal(w.sport, 53);
	assert_int_equal(w.dport, 0x1234);
	w = parsed(PKT(ETH(), IP6(), TCP(.sport = 65535, .dport = 1, .syn = true, .ece = true)));
	assert_true(w.has_ports && w.has_tcp);
	assert_int_equal(w.sport, 65535);
	assert_int_equal(w.dport, 1);
	assert_int_equal(w.tcp_flags, 0x42);
	w = parsed(PKT(ETH(), IP4(), ICMP4()));
	assert_true(!w.has_ports && !w.has_tcp && !w.sport && !w.dport);
	w = parsed(PKT(ETH(), IP4(.proto = 132), PAY(40)));
	assert_true(!w.has_ports && w.protocol == 132);
}

static void ports_are_read_behind_options_and_extension_headers(void **state)
{
	struct weir_pkt w = parsed(PKT(ETH(), IP4(.opt_len = 40), UDP(.dport = 77)));

	(void)state;
	assert_int_equal(w.dport, 77);
	w = parsed(PKT(ETH(), IP6(), IP6_EXT(.size = 64), IP6_EXT(.type = 51, .size = 24),
		       IP6_EXT(.type = 60), TCP(.dport = 78)));
	assert_int_equal(w.dport, 78);
	assert_int_equal(w.protocol, 6);
}

static void outer_tag_is_the_vlan(void **state)
{
	(void)state;
	assert_int_equal(parsed(PKT(ETH(), IP4(), UDP())).vlan, 0);
	assert_int_equal(parsed(PKT(ETH(), VLAN(.id = 4094, .pcp = 7), IP4(), UDP())).vlan, 4094);
	assert_int_equal(parsed(PKT(ETH(), VLAN(.id = PKT_ZERO, .pcp = 5), IP4(), UDP())).vlan, 0);
	assert_int_equal(
		parsed(PKT(ETH(), VLAN(.id = 9, .tpid = 0x88a8), VLAN(.id = 8), ARP())).vlan, 9);
}

static void fragments_never_show_ports_but_the_first(void **state)
{
	struct weir_pkt w =
		parsed(PKT(ETH(), IP4(.mf = true), UDP(.dport = 53, .len = 99), PAY(8)));

	(void)state;
	assert_int_equal(w.fragment, WEIR_FRAG_FIRST);
	assert_true(w.has_ports && w.dport == 53);
	w = parsed(PKT(ETH(), IP4(.frag_off = 1, .proto = 17),
		       RAW("\x00\x35\x00\x35\x00\x08\x00\x00")));
	assert_int_equal(w.fragment, WEIR_FRAG_REST);
	assert_int_equal(w.protocol, 17);
	assert_true(!w.has_ports && !w.sport && !w.dport);
	w = parsed(PKT(ETH(), IP6(), FRAG(.off = 1, .next = 6, .more = true), PAY(24)));
	assert_int_equal(w.fragment, WEIR_FRAG_REST);
	assert_true(w.protocol == 6 && !w.has_ports && !w.has_tcp);
}

static void rest_of_a_fragment_is_no_extension_header(void **state)
{
	/* next header 60 behind a non-first fragment header names what the datagram has, not these
	 * bytes
	 */
	struct weir_pkt w = parsed(PKT(ETH(), IP6(), FRAG(.off = 9, .next = 60), RAW("\x06\xff")));

	(void)state;
	assert_int_equal(w.fragment, WEIR_FRAG_REST);
	assert_int_equal(w.protocol, 60);
}

static void atomic_fragment_is_a_whole_datagram(void **state)
{
	struct weir_pkt w = parsed(PKT(ETH(), IP6(), FRAG(), UDP(.dport = 9), PAY(3)));

	(void)state;
	assert_int_equal(w.fragment, WEIR_FRAG_NONE);
	assert_int_equal(w.dport, 9);
}

static void do_not_fragment_is_no_fragment(void **state)
{
	(void)state;
	assert_int_equal(parsed(PKT(ETH(), IP4(.df = true), UDP())).fragment, WEIR_FRAG_NONE);
	assert_int_equal(parsed(PKT(ETH(), IP4(.rf = true), UDP())).fragment, WEIR_FRAG_NONE);
}

static void classes_are_recognised_strictly(void **state)
{
	(void)state;
#define CLASS(...) (parsed(PKT(ETH(), __VA_ARGS__)).class)
	assert_int_equal(CLASS(ARP()), WEIR_CLASS_ARP);
	for (int type = 133; type <= 137; type++)
		assert_int_equal(CLASS(IP6(.hops = 255), ICMP6(.type = type)),
				 WEIR_CLASS_NEIGHBOUR);
	assert_int_equal(CLASS(IP6(.hops = 254), ICMP6(.type = 135)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.hops = 255), ICMP6(.type = 135, .code = 1)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.hops = 255), ICMP6(.type = 132)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.hops = 255), ICMP6(.type = 138)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.hops = 255), FRAG(.more = true), ICMP6(.type = 135)),
			 WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(.ttl = 255, .proto = 58), ICMP6(.type = 135)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(), UDP(.sport = 67, .dport = 68)), WEIR_CLASS_DHCP);
	assert_int_equal(CLASS(IP4(), UDP(.sport = 68, .dport = 67)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(), UDP(.sport = 67, .dport = 67)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(), TCP(.sport = 67, .dport = 68)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(.mf = true), UDP(.sport = 67, .dport = 68)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.src = "fe80::9"), UDP(.sport = 547, .dport = 546)),
			 WEIR_CLASS_DHCP);
	assert_int_equal(CLASS(IP6(.src = "febf::9"), UDP(.sport = 547, .dport = 546)),
			 WEIR_CLASS_DHCP);
	assert_int_equal(CLASS(IP6(.src = "fec0::9"), UDP(.sport = 547, .dport = 546)),
			 WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(), UDP(.sport = 547, .dport = 546)), WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP6(.src = "fe80::9"), UDP(.sport = 67, .dport = 68)),
			 WEIR_CLASS_NONE);
	assert_int_equal(CLASS(IP4(), UDP(.sport = 547, .dport = 546)), WEIR_CLASS_NONE);
#undef CLASS
}

static void frames_below_an_ethernet_header_have_a_reason(void **state)
{
	struct pkt p = PKT(ETH(), ARP());

	(void)state;
	for (uint32_t n = 0; n < 14; n++)
		assert_reason(pkt_cut(p, n), WEIR_DROP_ETH_TRUNCATED);
}

static void big_tcp_has_a_zero_length(void **state)
{
	struct pkt v4 = PKT(ETH(), IP4(.tot_len = PKT_ZERO), TCP(), PAY(100));
	struct pkt v6 = PKT(ETH(), IP6(.len = PKT_ZERO), UDP(.len = PKT_ZERO), PAY(100));
	struct weir_pkt w;

	(void)state;
	assert_reason(v4, WEIR_DROP_IP4_LENGTH);
	assert_int_equal(pkt_parse_bytes(v4.data, v4.len, 14 + 65535, &w), WEIR_DROP_IP4_LENGTH);
	assert_true(pkt_parse_bytes(v4.data, v4.len, 14 + 65536, &w) < 0);
	assert_int_equal(w.len, 14 + 65536);
	assert_int_equal(w.dport, 80);
	assert_reason(v6, WEIR_DROP_UDP_TRUNCATED);
	assert_true(pkt_parse_bytes(v6.data, v6.len, 80000, &w) < 0);
	assert_int_equal(w.dport, 4000);
	/* only there may a UDP length be zero */
	assert_reason(PKT(ETH(), IP4(), UDP(.len = PKT_ZERO)), WEIR_DROP_UDP_LENGTH);
}

static void headers_beyond_the_first_buffer_are_truncated(void **state)
{
	struct pkt p = PKT(ETH(), IP4(), TCP(), PAY(1000));
	struct weir_pkt w;

	(void)state;
	assert_int_equal(pkt_parse_bytes(p.data, 14 + 20 + 19, p.len, &w), WEIR_DROP_TCP_TRUNCATED);
	assert_true(pkt_parse_bytes(p.data, 14 + 20 + 20, p.len, &w) < 0);
}

static void every_shape_is_understood_and_nothing_is_left_from_before(void **state)
{
	size_t n;
	const struct pkt_shape *s = pkt_shapes(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct weir_pkt a, b;
		int r;

		memset(&a, 0, sizeof(a));
		memset(&b, 0xff, sizeof(b));
		r = pkt_parse(&s[i].p, &a);
		if (r >= 0 && r != WEIR_PASS_NON_IP)
			print_error("%s: reason %d\n", s[i].name, r);
		assert_true(r < 0 || r == WEIR_PASS_NON_IP);
		assert_int_equal(pkt_parse(&s[i].p, &b), r);
		assert_memory_equal(&a, &b, sizeof(a));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_in_wire_order),
		cmocka_unit_test(ports_are_read_of_tcp_and_udp_alone),
		cmocka_unit_test(ports_are_read_behind_options_and_extension_headers),
		cmocka_unit_test(outer_tag_is_the_vlan),
		cmocka_unit_test(fragments_never_show_ports_but_the_first),
		cmocka_unit_test(rest_of_a_fragment_is_no_extension_header),
		cmocka_unit_test(atomic_fragment_is_a_whole_datagram),
		cmocka_unit_test(do_not_fragment_is_no_fragment),
		cmocka_unit_test(classes_are_recognised_strictly),
		cmocka_unit_test(frames_below_an_ethernet_header_have_a_reason),
		cmocka_unit_test(big_tcp_has_a_zero_length),
		cmocka_unit_test(headers_beyond_the_first_buffer_are_truncated),
		cmocka_unit_test(every_shape_is_understood_and_nothing_is_left_from_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
