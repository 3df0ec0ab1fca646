/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames, tags and ARP through the program: every verdict that layer 2 can give. */
#include "tests/packet/packet_test.h"

static void what_is_not_ip_is_passed(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP);
	xdp_expect(x, PKT(ETH(.type = 46), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP); /* 802.3 length */
	xdp_expect(x, PKT(ETH(.type = 0x8847), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP);
	xdp_expect(x, PKT(ETH(.type = 0x9100), IP4(), UDP()), XDP_PASS, WEIR_PASS_NON_IP);
	xdp_expect(x, PKT(ETH(.type = 0x88b5)), XDP_PASS, WEIR_PASS_NON_IP); /* 14 bytes */
}

static void frame_below_14_bytes_is_dropped(void **state)
{
	struct pkt p = PKT(ETH());
	struct weir_pkt w;

	(void)state;
	/* no test run takes so short a frame: the same parser on the host */
	for (uint32_t n = 0; n < 14; n++) {
		struct pkt cut = pkt_cut(p, n);

		assert_int_equal(pkt_parse(&cut, &w), WEIR_DROP_ETH_TRUNCATED);
	}
	xdp_cover(WEIR_DROP_ETH_TRUNCATED);
}

static void arp_has_its_own_reason(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), ARP()), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect(x, PKT(ETH(), ARP(.op = 2), PAY(18)), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect(x, PKT(ETH(), VLAN(), ARP()), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect(x, PKT(ETH(), VLAN(.tpid = 0x88a8), VLAN(), ARP()), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect(x, pkt_cut(PKT(ETH(), ARP()), 41), XDP_DROP, WEIR_DROP_ARP_TRUNCATED);
	xdp_expect(x, PKT(ETH(.type = 0x0806)), XDP_DROP, WEIR_DROP_ARP_TRUNCATED);
}

static void both_kinds_of_tag_are_understood_in_any_order(void **state)
{
	static const int64_t tpid[] = {0x8100, 0x88a8};
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++) {
			xdp_pass(x, PKT(ETH(), VLAN(.tpid = tpid[i]), IP4(), TCP()));
			xdp_pass(x, PKT(ETH(), VLAN(.tpid = tpid[i]), VLAN(.tpid = tpid[j]), IP6(),
					UDP()));
			/* and the IP header behind them is judged */
			xdp_expect(x,
				   PKT(ETH(), VLAN(.tpid = tpid[i]), VLAN(.tpid = tpid[j]),
				       IP4(.ihl = 4)),
				   XDP_DROP, WEIR_DROP_IP4_HEADER);
		}
}

static void third_tag_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), VLAN(), VLAN(), VLAN(), IP4(), UDP()), XDP_DROP,
		   WEIR_DROP_VLAN_DEPTH);
	xdp_expect(x, PKT(ETH(), VLAN(), VLAN(), VLAN(.tpid = 0x88a8)), XDP_DROP,
		   WEIR_DROP_VLAN_DEPTH);
	xdp_expect(x, PKT(ETH(), VLAN(), VLAN(), VLAN(), VLAN(), VLAN(), PAY(8)), XDP_DROP,
		   WEIR_DROP_VLAN_DEPTH);
}

static void frame_that_ends_in_a_tag_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt p = PKT(ETH(), VLAN(), VLAN(), IP4(), UDP());

	(void)state;
	for (uint32_t n = 14; n < 22; n++)
		xdp_expect(x, pkt_cut(p, n), XDP_DROP, WEIR_DROP_VLAN_TRUNCATED);
	xdp_expect(x, PKT(ETH(), VLAN(.type = 0x88b5)), XDP_PASS, WEIR_PASS_NON_IP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_ip_is_passed),
		cmocka_unit_test(frame_below_14_bytes_is_dropped),
		cmocka_unit_test(arp_has_its_own_reason),
		cmocka_unit_test(both_kinds_of_tag_are_understood_in_any_order),
		cmocka_unit_test(third_tag_is_dropped),
		cmocka_unit_test(frame_that_ends_in_a_tag_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
