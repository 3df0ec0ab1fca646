/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The IPv4 header through the program. */
#include "tests/packet/packet_test.h"

static void good_headers_of_every_length_pass(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t n = 0; n <= 40; n += 4) {
		xdp_pass(x, PKT(ETH(), IP4(.opt_len = n), UDP(), PAY(3)));
		xdp_pass(x, PKT(ETH(), IP4(.opt_len = n), TCP()));
	}
}

static void ihl_below_5_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP4(.ihl = PKT_ZERO), UDP()), XDP_DROP, WEIR_DROP_IP4_HEADER);
	for (int64_t ihl = 1; ihl < 5; ihl++)
		xdp_expect(x, PKT(ETH(), IP4(.ihl = ihl), UDP()), XDP_DROP, WEIR_DROP_IP4_HEADER);
}

static void version_other_than_4_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t v = 0; v < 16; v++)
		if (v != 4)
			xdp_expect(x, PKT(ETH(), IP4(.version = v ? v : PKT_ZERO), UDP()), XDP_DROP,
				   WEIR_DROP_IP4_HEADER);
}

static void options_beyond_the_frame_are_truncated(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 15, .tot_len = 60), PAY(39)), XDP_DROP,
		   WEIR_DROP_IP4_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 6, .tot_len = 24)), XDP_DROP, WEIR_DROP_IP4_TRUNCATED);
}

static void total_length_must_lie_between_header_and_frame(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP4(.tot_len = 19), UDP()), XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect(x, PKT(ETH(), IP4(.tot_len = PKT_ZERO), UDP()), XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect(x, PKT(ETH(), IP4(.tot_len = 23, .opt_len = 4), UDP()), XDP_DROP,
		   WEIR_DROP_IP4_LENGTH);
	xdp_expect(x, PKT(ETH(), IP4(.tot_len = 29), UDP()), XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect(x, PKT(ETH(), IP4(.tot_len = 65535), UDP()), XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_pass(x, PKT(ETH(), IP4(.tot_len = 20, .proto = 253)));
}

static void ethernet_padding_is_no_error_and_no_payload(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_pass(x, pkt_pad(PKT(ETH(), IP4(), UDP()), 18));
	/* the UDP header lies in the padding, outside of the packet */
	xdp_expect(x, pkt_pad(PKT(ETH(), IP4(.proto = 17)), 26), XDP_DROP, WEIR_DROP_UDP_TRUNCATED);
	xdp_expect(x, pkt_pad(PKT(ETH(), IP4(.proto = 6, .tot_len = 39), TCP()), 26), XDP_DROP,
		   WEIR_DROP_TCP_TRUNCATED);
}

static void any_protocol_number_passes(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t proto = 0; proto < 256; proto++)
		xdp_pass(x, PKT(ETH(), IP4(.proto = proto ? proto : PKT_ZERO),
				RAW("\x08\x00\x00\x00\x00\x14\x00\x00"),
				RAW("\x00\x00\x00\x00\x50\x00\x00\x00\x00\x00\x00\x00")));
	xdp_pass(x, PKT(ETH(), IP4(.proto = 50), PAY(1)));
	xdp_pass(x, PKT(ETH(), IP4(.proto = 58), PAY(1)));     /* ICMPv6 is nothing over IPv4 */
	xdp_pass(x, PKT(ETH(), IP4(), IPIP(.ihl = 3), UDP())); /* what is inside is not judged */
	xdp_pass(x, PKT(ETH(), IP4(), GRE(), IP6(.version = 9)));
}

static void checksums_are_the_stacks_business(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	/* frames from veth and virtio carry partial ones */
	xdp_pass(x, PKT(ETH(), IP4(.bad_csum = true), UDP(.bad_csum = true)));
	xdp_pass(x, PKT(ETH(), IP4(), TCP(.bad_csum = true)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_headers_of_every_length_pass),
		cmocka_unit_test(ihl_below_5_is_dropped),
		cmocka_unit_test(version_other_than_4_is_dropped),
		cmocka_unit_test(options_beyond_the_frame_are_truncated),
		cmocka_unit_test(total_length_must_lie_between_header_and_frame),
		cmocka_unit_test(ethernet_padding_is_no_error_and_no_payload),
		cmocka_unit_test(any_protocol_number_passes),
		cmocka_unit_test(checksums_are_the_stacks_business),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
