/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ARP, neighbour discovery and DHCP: no list and no source limit touches them, an aggregate limit
 * does, and nothing that only looks like them gets that treatment.
 */
#include "tests/packet/packet_test.h"

#define ND()  PKT(ETH(), IP6(.hops = 255), ICMP6(.type = 135))
#define DHCP4 PKT(ETH(), IP4(), UDP(.sport = 67, .dport = 68), PAY(240))
#define DHCP6 PKT(ETH(), IP6(.src = "fe80::1"), UDP(.sport = 547, .dport = 546), PAY(60))

static void classes_meet_no_list_and_no_source_limit(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_block(x, "0.0.0.0/0", 0);
	xdp_block(x, "::/0", 0);
	for (int i = 0; i < 20; i++) {
		xdp_expect(x, PKT(ETH(), ARP()), XDP_PASS, WEIR_PASS_ARP);
		xdp_expect(x, ND(), XDP_PASS, WEIR_PASS_NEIGHBOUR);
		xdp_expect(x, DHCP4, XDP_PASS, WEIR_PASS_DHCP);
		xdp_expect(x, DHCP6, XDP_PASS, WEIR_PASS_DHCP);
	}
	xdp_expect_limit(x, "a", 0, 0);
}

static void what_only_looks_like_a_class_is_none(void **state)
{
	const struct pkt_layer *const dhcp[] = {UDP(.sport = 68, .dport = 67),
						UDP(.sport = 67, .dport = 67),
						UDP(.sport = 67, .dport = 69),
						TCP(.sport = 67, .dport = 68),
						UDP(.sport = 547, .dport = 546)};
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1000/s}"));

	(void)state;
	xdp_block(x, "0.0.0.0/0", 0);
	xdp_block(x, "::/0", 0);
#define BLOCKED(...) xdp_expect(x, PKT(ETH(), __VA_ARGS__), XDP_DROP, WEIR_DROP_BLOCK)
	for (size_t i = 0; i < sizeof(dhcp) / sizeof(dhcp[0]); i++)
		BLOCKED(IP4(), dhcp[i]);
	BLOCKED(IP4(.mf = true), UDP(.sport = 67, .dport = 68), PAY(8));
	BLOCKED(IP4(.frag_off = 1, .proto = 17), RAW("\x00\x43\x00\x44\x00\x08\x00\x00"));
	BLOCKED(IP6(), UDP(.sport = 547, .dport = 546));
	BLOCKED(IP6(.src = "fec0::1"), UDP(.sport = 547, .dport = 546));
	BLOCKED(IP6(.src = "fe80::1"), UDP(.sport = 546, .dport = 547));
	BLOCKED(IP6(.hops = 254), ICMP6(.type = 135));
	BLOCKED(IP6(.hops = 255), ICMP6(.type = 135, .code = 1));
	BLOCKED(IP6(.hops = 255), ICMP6(.type = 128));
	BLOCKED(IP6(.hops = 255), ICMP6(.type = 138));
	BLOCKED(IP6(.hops = 255), FRAG(.more = true), ICMP6(.type = 135));
	BLOCKED(IP6(.hops = 255), FRAG(.off = 1, .next = 58), ICMP6(.type = 135));
	BLOCKED(IP4(.proto = 58, .ttl = 255), ICMP6(.type = 135));
#undef BLOCKED
}

/* Sends until the class limit acts: its burst at once, and not for ever. */
static void flood(struct xdp_run *x, struct pkt p, enum weir_reason pass, enum weir_reason drop)
{
	uint64_t got = xdp_send_many(x, &p, 1000000);

	assert_in_range(got, 100, 100000);
	xdp_expect(x, p, XDP_DROP, drop);
	xdp_advance_ms(x, 100); /* and it refills */
	xdp_expect(x, p, XDP_PASS, pass);
}

static void a_flood_of_each_class_meets_its_own_limit(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	flood(x, PKT(ETH(), ARP()), WEIR_PASS_ARP, WEIR_DROP_ARP_FLOOD);
	flood(x, ND(), WEIR_PASS_NEIGHBOUR, WEIR_DROP_NEIGHBOUR_FLOOD);
	flood(x, DHCP4, WEIR_PASS_DHCP, WEIR_DROP_DHCP_FLOOD);
}

static void one_flooded_class_leaves_the_others_alone(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	struct pkt arp = PKT(ETH(), ARP());

	(void)state;
	(void)xdp_send_many(x, &arp, 200000);
	xdp_expect(x, arp, XDP_DROP, WEIR_DROP_ARP_FLOOD);
	xdp_expect(x, ND(), XDP_PASS, WEIR_PASS_NEIGHBOUR);
	xdp_expect(x, DHCP4, XDP_PASS, WEIR_PASS_DHCP);
	xdp_pass(x, SRC4("198.51.100.1"));
}

static void built_in_limits_have_the_classes_too(void **state)
{
	struct xdp_run *x = xdp_run_builtin();

	(void)state;
	flood(x, PKT(ETH(), ARP()), WEIR_PASS_ARP, WEIR_DROP_ARP_FLOOD);
	flood(x, ND(), WEIR_PASS_NEIGHBOUR, WEIR_DROP_NEIGHBOUR_FLOOD);
	flood(x, DHCP6, WEIR_PASS_DHCP, WEIR_DROP_DHCP_FLOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_meet_no_list_and_no_source_limit),
		cmocka_unit_test(what_only_looks_like_a_class_is_none),
		cmocka_unit_test(a_flood_of_each_class_meets_its_own_limit),
		cmocka_unit_test(one_flooded_class_leaves_the_others_alone),
		cmocka_unit_test(built_in_limits_have_the_classes_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
