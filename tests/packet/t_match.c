/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every field of `match:`: what it names is charged, what it does not name is not. */
#include "tests/packet/packet_test.h"

#define MATCH(text) xdp_run(LIMITS("{name: m, match: " text ", rate: 1000/s}"))

/* Is @p charged to limit m? */
static void matches(struct xdp_run *x, struct pkt p, bool want, int line)
{
	struct weir_counters before, after;

	for (int i = 0; i < XDP_SIDES; i++) {
		uint64_t n;

		xdp_counters(&x->side[i], &before);
		assert_int_equal(xdp_send_raw(&x->side[i], p.data, p.len, 1), XDP_PASS);
		xdp_counters(&x->side[i], &after);
		x->side[i].total = after;
		n = after.limit[0].pass.packets - before.limit[0].pass.packets;
		if (n != want) {
			pkt_print(stderr, &p);
			fail_msg("line %d: matched %d, wanted %d", line, (int)n, want);
		}
	}
}
#define YES(...) matches(x, PKT(ETH(), __VA_ARGS__), true, __LINE__)
#define NO(...)	 matches(x, PKT(ETH(), __VA_ARGS__), false, __LINE__)

static void no_match_is_every_ip_packet(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: m, rate: 1000/s}"));

	(void)state;
	YES(IP4(), UDP());
	YES(IP6(), TCP());
	YES(IP4(.proto = 253), PAY(4));
	YES(IP6(), ICMP6());
	YES(VLAN(), IP4(.frag_off = 8, .proto = 17), PAY(8));
	NO(ARP());
	NO(PAY(46));
}

static void protocol(void **state)
{
	struct xdp_run *x = MATCH("{protocol: udp}");

	(void)state;
	YES(IP4(), UDP());
	YES(IP6(), IP6_EXT(), UDP());
	NO(IP4(), TCP());
	NO(IP4(), ICMP4());
	NO(IP6(), TCP());
	YES(IP4(.frag_off = 8, .proto = 17), PAY(8)); /* the rest of a UDP datagram */
	x = MATCH("{protocol: [tcp, 47]}");
	YES(IP4(), TCP());
	YES(IP4(), GRE());
	NO(IP4(), UDP());
	x = MATCH("{protocol: icmp}");
	YES(IP4(), ICMP4());
	NO(IP4(), UDP());
}

static void tcp_flags(void **state)
{
	struct xdp_run *x = MATCH("{protocol: tcp, tcp_flags: {set: [syn], clear: [ack]}}");

	(void)state;
	YES(IP4(), TCP(.syn = true));
	YES(IP6(), TCP(.syn = true, .ece = true, .cwr = true));
	NO(IP4(), TCP(.syn = true, .ack = true));
	NO(IP4(), TCP(.ack = true));
	NO(IP4(), TCP(.flags = PKT_ZERO));
	NO(IP4(), UDP());
	NO(IP4(.frag_off = 4, .proto = 6), PAY(20));
	x = MATCH("{protocol: tcp, tcp_flags: {set: [fin, psh, urg]}}");
	YES(IP4(), TCP(.fin = true, .psh = true, .urg = true));
	YES(IP4(), TCP(.flags = 255));
	NO(IP4(), TCP(.fin = true, .psh = true));
	x = MATCH("{protocol: tcp, tcp_flags: {clear: [fin, syn, rst, psh, ack, urg]}}");
	YES(IP4(), TCP(.flags = PKT_ZERO));
	YES(IP4(), TCP(.ece = true));
	NO(IP4(), TCP(.rst = true));
	x = MATCH("{protocol: [tcp, udp], tcp_flags: {clear: [syn]}}");
	YES(IP4(), TCP(.ack = true));
	NO(IP4(), TCP(.syn = true));
	NO(IP4(), UDP()); /* it has no flags that could be clear */
	NO(IP4(.frag_off = 4, .proto = 6), PAY(20));
}

static void ports_and_ranges(void **state)
{
	struct xdp_run *x = MATCH("{protocol: udp, source_port: [53, 123, 1900-2000, 65535]}");

	(void)state;
	YES(IP4(), UDP(.sport = 53));
	YES(IP6(), UDP(.sport = 123));
	YES(IP4(), UDP(.sport = 1900));
	YES(IP4(), UDP(.sport = 1950));
	YES(IP4(), UDP(.sport = 2000));
	YES(IP4(), UDP(.sport = 65535));
	NO(IP4(), UDP(.sport = 1899));
	NO(IP4(), UDP(.sport = 2001));
	NO(IP4(), UDP(.sport = 52));
	NO(IP4(), UDP(.sport = PKT_ZERO));
	NO(IP4(), UDP(.dport = 53));
	NO(IP4(), TCP(.sport = 53));
	x = MATCH("{destination_port: [80, 443]}");
	YES(IP4(), TCP(.dport = 80));
	YES(IP4(), UDP(.dport = 443));
	YES(IP6(), TCP(.dport = 443));
	NO(IP4(), TCP(.sport = 80, .dport = 81));
	NO(IP4(), ICMP4());
}

static void ports_are_never_read_from_payload(void **state)
{
	struct xdp_run *x = MATCH("{protocol: udp, destination_port: [53]}");

	(void)state;
	YES(IP4(.mf = true), UDP(.dport = 53, .len = 99), PAY(8));
	NO(IP4(.frag_off = 1, .proto = 17), RAW("\x00\x35\x00\x35\x00\x08\x00\x00"));
	NO(IP6(), FRAG(.off = 1, .next = 17), RAW("\x00\x35\x00\x35\x00\x08\x00\x00"));
	YES(IP6(), FRAG(), UDP(.dport = 53));
}

static void not_in_a_set_of_ports(void **state)
{
	struct xdp_run *x = MATCH("{protocol: tcp, destination_port: {not: [22, 80-90]}}");

	(void)state;
	YES(IP4(), TCP(.dport = 443));
	YES(IP4(), TCP(.dport = 91));
	NO(IP4(), TCP(.dport = 22));
	NO(IP4(), TCP(.dport = 85));
	NO(IP4(), UDP(.dport = 443));
}

static void prefixes_of_source_and_destination(void **state)
{
	struct xdp_run *x = MATCH("{source: [198.51.100.0/24, \"2001:db8:1::/48\"]}");

	(void)state;
	YES(IP4(.src = "198.51.100.255"), UDP());
	NO(IP4(.src = "198.51.101.0"), UDP());
	YES(IP6(.src = "2001:db8:1:ffff::1"), UDP());
	NO(IP6(.src = "2001:db8:2::1"), UDP());
	x = MATCH("{destination: [192.0.2.0/28, 203.0.113.7]}");
	YES(IP4(.dst = "192.0.2.15"), UDP());
	NO(IP4(.dst = "192.0.2.16"), UDP());
	YES(IP4(.dst = "203.0.113.7"), TCP());
	NO(IP4(.src = "203.0.113.7", .dst = "203.0.113.8"), TCP());
	NO(IP6(), UDP());
	x = MATCH("{source: {not: [198.51.100.0/24]}}");
	NO(IP4(.src = "198.51.100.9"), UDP());
	YES(IP4(.src = "198.51.99.9"), UDP());
	x = MATCH("{source: [0.0.0.0/0]}");
	YES(IP4(), UDP());
	NO(IP6(), UDP());
}

static void not_covers_the_longer_of_nested_prefixes(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: m, match: {source: {not: [198.51.0.0/16]}}, rate: 1000/s}",
			       "{name: n, match: {source: [198.51.100.0/24]}, rate: 1000/s}"));

	(void)state;
	NO(IP4(.src = "198.51.100.1"), UDP());
	NO(IP4(.src = "198.51.1.1"), UDP());
	YES(IP4(.src = "198.52.0.1"), UDP());
	xdp_expect_limit(x, "n", 1, 0);
}

static void vlan(void **state)
{
	struct xdp_run *x = MATCH("{vlan: [100, 200-210]}");

	(void)state;
	YES(VLAN(.id = 100), IP4(), UDP());
	YES(VLAN(.id = 205, .tpid = 0x88a8), VLAN(.id = 7), IP6(), UDP());
	NO(VLAN(.id = 7), VLAN(.id = 100), IP4(), UDP()); /* the outer one counts */
	NO(VLAN(.id = 101), IP4(), UDP());
	NO(IP4(), UDP());
	x = MATCH("{vlan: {not: [100]}}");
	NO(VLAN(.id = 100), IP4(), UDP());
	YES(VLAN(.id = 4094), IP4(), UDP());
	YES(IP4(), UDP());
}

static void fragments(void **state)
{
	struct xdp_run *x = MATCH("{fragment: true}");

	(void)state;
	YES(IP4(.mf = true), UDP(.len = 99), PAY(8));
	YES(IP4(.mf = true, .frag_off = 9), PAY(8));
	YES(IP4(.frag_off = 9), PAY(3));
	YES(IP6(), FRAG(.off = 2), PAY(3));
	NO(IP6(), FRAG(), UDP()); /* atomic */
	NO(IP4(.df = true), UDP());
	x = MATCH("{fragment: false}");
	NO(IP4(.frag_off = 9), PAY(3));
	YES(IP4(), UDP());
	YES(IP6(), FRAG(), UDP());
}

static void all_fields_together(void **state)
{
	struct xdp_run *x = MATCH(
		"{protocol: udp, source_port: [53], destination_port: [1024-65535], vlan: [5], "
		"source: [198.51.100.0/24], destination: [192.0.2.0/24], fragment: false}");

	(void)state;
#define OK_IP	IP4()
#define OK_PORT UDP(.sport = 53, .dport = 4000)
	YES(VLAN(.id = 5), OK_IP, OK_PORT);
	NO(VLAN(.id = 6), OK_IP, OK_PORT);
	NO(OK_IP, OK_PORT);
	NO(VLAN(.id = 5), IP4(.src = "203.0.113.1"), OK_PORT);
	NO(VLAN(.id = 5), IP4(.dst = "203.0.113.1"), OK_PORT);
	NO(VLAN(.id = 5), IP4(.mf = true), UDP(.sport = 53, .dport = 4000, .len = 99), PAY(8));
	NO(VLAN(.id = 5), OK_IP, UDP(.sport = 54, .dport = 4000));
	NO(VLAN(.id = 5), OK_IP, UDP(.sport = 53, .dport = 1023));
	NO(VLAN(.id = 5), OK_IP, TCP(.sport = 53, .dport = 4000));
#undef OK_IP
#undef OK_PORT
}

/* What the port classes of many limits do to each other. */
static void limits_with_overlapping_ports_do_not_mix(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: a, match: {destination_port: [1000-2000]}, rate: 1000/s}",
			       "{name: b, match: {destination_port: [1500-2500]}, rate: 1000/s}",
			       "{name: c, match: {source_port: [1500]}, rate: 1000/s}",
			       "{name: d, rate: 1000/s}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 999)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 1000)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 1500)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 2000)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 2001)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(.dport = 2501)));
	xdp_pass(x, PKT(ETH(), IP4(), TCP(.sport = 1500, .dport = 1500)));
	xdp_pass(x, PKT(ETH(), IP4(), ICMP4()));
	xdp_expect_limit(x, "a", 4, 0);
	xdp_expect_limit(x, "b", 4, 0);
	xdp_expect_limit(x, "c", 1, 0);
	xdp_expect_limit(x, "d", 8, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_match_is_every_ip_packet),
		cmocka_unit_test(protocol),
		cmocka_unit_test(tcp_flags),
		cmocka_unit_test(ports_and_ranges),
		cmocka_unit_test(ports_are_never_read_from_payload),
		cmocka_unit_test(not_in_a_set_of_ports),
		cmocka_unit_test(prefixes_of_source_and_destination),
		cmocka_unit_test(not_covers_the_longer_of_nested_prefixes),
		cmocka_unit_test(vlan),
		cmocka_unit_test(fragments),
		cmocka_unit_test(all_fields_together),
		cmocka_unit_test(limits_with_overlapping_ports_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
