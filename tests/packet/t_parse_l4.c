/* SPDX-License-Identifier: GPL-2.0-or-later */
/* TCP, UDP, ICMP and ICMPv6 headers through the program, each over both families. */
#include "tests/packet/packet_test.h"

#define IP(v6, ...) ((v6) ? IP6() : IP4())

static void tcp_header_must_be_whole(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		xdp_pass(x, PKT(ETH(), IP(v6), TCP()));
		for (int64_t n = 0; n < 20; n++)
			xdp_expect(x, PKT(ETH(), v6 ? IP6(.next = 6) : IP4(.proto = 6), PAY(n)),
				   XDP_DROP, WEIR_DROP_TCP_TRUNCATED);
	}
}

static void tcp_data_offset_below_5_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int v6 = 0; v6 < 2; v6++)
		for (int64_t doff = 0; doff < 5; doff++)
			xdp_expect(x,
				   PKT(ETH(), IP(v6), TCP(.doff = doff ? doff : PKT_ZERO), PAY(20)),
				   XDP_DROP, WEIR_DROP_TCP_HEADER);
}

static void tcp_options_must_lie_in_the_packet(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int v6 = 0; v6 < 2; v6++)
		for (int64_t doff = 6; doff < 16; doff++) {
			xdp_expect(x, PKT(ETH(), IP(v6), TCP(.doff = doff), PAY(doff * 4 - 21)),
				   XDP_DROP, WEIR_DROP_TCP_TRUNCATED);
			xdp_pass(x, PKT(ETH(), IP(v6), TCP(.doff = doff), PAY(doff * 4 - 20)));
		}
	/* there are bytes, but as padding of the frame */
	xdp_expect(x, pkt_pad(PKT(ETH(), IP4(), TCP(.doff = 6)), 6), XDP_DROP,
		   WEIR_DROP_TCP_TRUNCATED);
}

static void every_flag_byte_passes(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t flags = 0; flags < 256; flags++)
		xdp_pass(x, PKT(ETH(), IP4(), TCP(.flags = flags ? flags : PKT_ZERO)));
}

static void udp_header_must_be_whole(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		xdp_pass(x, PKT(ETH(), IP(v6), UDP()));
		for (int64_t n = 0; n < 8; n++)
			xdp_expect(x, PKT(ETH(), v6 ? IP6(.next = 17) : IP4(.proto = 17), PAY(n)),
				   XDP_DROP, WEIR_DROP_UDP_TRUNCATED);
	}
}

static void udp_length_must_lie_between_header_and_packet(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		for (int64_t len = 0; len < 8; len++)
			xdp_expect(x, PKT(ETH(), IP(v6), UDP(.len = len ? len : PKT_ZERO), PAY(20)),
				   XDP_DROP, WEIR_DROP_UDP_LENGTH);
		xdp_pass(x, PKT(ETH(), IP(v6), UDP(.len = 8), PAY(20)));
		xdp_pass(x, PKT(ETH(), IP(v6), UDP(.len = 28), PAY(20)));
		xdp_expect(x, PKT(ETH(), IP(v6), UDP(.len = 29), PAY(20)), XDP_DROP,
			   WEIR_DROP_UDP_LENGTH);
		xdp_expect(x, PKT(ETH(), IP(v6), UDP(.len = 65535), PAY(20)), XDP_DROP,
			   WEIR_DROP_UDP_LENGTH);
	}
	xdp_expect(x, pkt_pad(PKT(ETH(), IP4(), UDP(.len = 9)), 18), XDP_DROP,
		   WEIR_DROP_UDP_LENGTH);
}

static void icmp_header_must_be_whole(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t n = 0; n < 8; n++) {
		xdp_expect(x, PKT(ETH(), IP4(.proto = 1), PAY(n)), XDP_DROP,
			   WEIR_DROP_ICMP_TRUNCATED);
		xdp_expect(x, PKT(ETH(), IP6(.next = 58), PAY(n)), XDP_DROP,
			   WEIR_DROP_ICMP_TRUNCATED);
	}
	for (int64_t type = 0; type < 256; type++) {
		xdp_pass(x, PKT(ETH(), IP4(), ICMP4(.type = type ? type : PKT_ZERO)));
		xdp_pass(x, PKT(ETH(), IP6(), ICMP6(.type = type ? type : PKT_ZERO)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_header_must_be_whole),
		cmocka_unit_test(tcp_data_offset_below_5_is_dropped),
		cmocka_unit_test(tcp_options_must_lie_in_the_packet),
		cmocka_unit_test(every_flag_byte_passes),
		cmocka_unit_test(udp_header_must_be_whole),
		cmocka_unit_test(udp_length_must_lie_between_header_and_packet),
		cmocka_unit_test(icmp_header_must_be_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
