/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tags are no way round the limits: one source is one source with and without them, and each packet
 * counts once.
 */
#include "tests/packet/packet_test.h"

static void tagged_flood_is_limited_like_an_untagged_one(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 5}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), IP4(), UDP()));
	xdp_pass(x, PKT(ETH(), VLAN(.id = 1), IP4(), UDP()));
	xdp_pass(x, PKT(ETH(), VLAN(.id = 2), IP4(), TCP()));
	xdp_pass(x, PKT(ETH(), VLAN(.tpid = 0x88a8), VLAN(), IP4(), ICMP4()));
	xdp_pass(x, PKT(ETH(), VLAN(.id = PKT_ZERO), IP4(), UDP()));
	xdp_drop(x, PKT(ETH(), VLAN(.id = 3), IP4(), UDP()));
	xdp_drop(x, PKT(ETH(), IP4(), UDP()));
	xdp_expect_limit(x, "a", 5, 2);
}

static void bytes_include_the_tags(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100 B/s, burst: 100 B}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), VLAN(), VLAN(), IP4(), UDP(), PAY(50))); /* 100 bytes */
	xdp_drop(x, pkt_cut(PKT(ETH(), IP4(), UDP()), 42));
	xdp_drop(x, PKT(ETH(), VLAN(), IP4(.src = "198.51.100.2"), UDP(), PAY(55)));
	xdp_pass(x, PKT(ETH(), IP4(.src = "198.51.100.2"), UDP(), PAY(55)));
}

static void one_vlan_can_be_limited_alone(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, match: {vlan: [100]}, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), VLAN(.id = 100), IP4(), UDP()));
	xdp_drop(x, PKT(ETH(), VLAN(.id = 100), IP4(), UDP()));
	xdp_drop(x, PKT(ETH(), VLAN(.id = 100, .pcp = 7), IP4(),
			UDP())); /* priority is no part of the id */
	for (int i = 0; i < 3; i++) {
		xdp_pass(x, PKT(ETH(), VLAN(.id = 101), IP4(), UDP()));
		xdp_pass(x, PKT(ETH(), IP4(), UDP()));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tagged_flood_is_limited_like_an_untagged_one),
		cmocka_unit_test(bytes_include_the_tags),
		cmocka_unit_test(one_vlan_can_be_limited_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
