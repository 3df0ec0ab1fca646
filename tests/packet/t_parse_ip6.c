/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The IPv6 header and its chain of extension headers through the program. */
#include "tests/packet/packet_test.h"

static void version_other_than_6_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_pass(x, PKT(ETH(), IP6(.tclass = 255, .flow = 0xfffff), UDP()));
	for (int64_t v = 0; v < 16; v++)
		if (v != 6)
			xdp_expect(x, PKT(ETH(), IP6(.version = v ? v : PKT_ZERO), UDP()), XDP_DROP,
				   WEIR_DROP_IP6_HEADER);
}

static void payload_length_must_lie_in_the_frame(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP6(.len = 9), UDP()), XDP_DROP, WEIR_DROP_IP6_LENGTH);
	xdp_expect(x, PKT(ETH(), IP6(.len = 65535), UDP()), XDP_DROP, WEIR_DROP_IP6_LENGTH);
	xdp_expect(x, PKT(ETH(), IP6(.len = 7), UDP()), XDP_DROP, WEIR_DROP_UDP_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP6(.len = PKT_ZERO), UDP()), XDP_DROP, WEIR_DROP_UDP_TRUNCATED);
	xdp_pass(x, pkt_pad(PKT(ETH(), IP6(), UDP()), 20));
	xdp_pass(x, PKT(ETH(), IP6()));
}

static void every_extension_header_is_walked(void **state)
{
	static const int64_t type[] = {PKT_ZERO, 43, 60, 51, 135, 139, 140};
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (size_t i = 0; i < sizeof(type) / sizeof(type[0]); i++) {
		xdp_pass(x, PKT(ETH(), IP6(), IP6_EXT(.type = type[i]), UDP()));
		xdp_pass(x, PKT(ETH(), IP6(), IP6_EXT(.type = type[i], .size = 64), TCP()));
		/* the header behind it is judged: the walk found it */
		xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.type = type[i]), UDP(.len = 7)), XDP_DROP,
			   WEIR_DROP_UDP_LENGTH);
		xdp_expect(x,
			   PKT(ETH(), IP6(), IP6_EXT(.type = type[i], .size = 24), TCP(.doff = 4)),
			   XDP_DROP, WEIR_DROP_TCP_HEADER);
	}
}

static void longest_extension_header_is_walked(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.size = 2048), UDP(.len = 3)), XDP_DROP,
		   WEIR_DROP_UDP_LENGTH);
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.type = 51, .size = 1028), UDP(.len = 3)), XDP_DROP,
		   WEIR_DROP_UDP_LENGTH);
	xdp_expect(x,
		   PKT(ETH(), IP6(), IP6_EXT(.type = 51, .size = 8, .hdrlen = PKT_ZERO),
		       UDP(.len = 3)),
		   XDP_DROP, WEIR_DROP_UDP_LENGTH);
}

static void extension_header_beyond_the_packet_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.size = 7)), XDP_DROP, WEIR_DROP_IP6_EXT_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.hdrlen = 1)), XDP_DROP,
		   WEIR_DROP_IP6_EXT_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.hdrlen = 255), UDP()), XDP_DROP,
		   WEIR_DROP_IP6_EXT_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(.type = 51, .hdrlen = 3)), XDP_DROP,
		   WEIR_DROP_IP6_EXT_TRUNCATED);
	/* the frame has the bytes, the packet has not: padding */
	xdp_expect(x, pkt_pad(PKT(ETH(), IP6(), IP6_EXT(.hdrlen = 1)), 32), XDP_DROP,
		   WEIR_DROP_IP6_EXT_TRUNCATED);
	xdp_expect(x, pkt_cut(PKT(ETH(), IP6(.len = 7), FRAG()), 14 + 40 + 7), XDP_DROP,
		   WEIR_DROP_IP6_EXT_TRUNCATED);
}

static void ninth_extension_header_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
#define EIGHT                                                                                      \
	IP6_EXT(), IP6_EXT(.type = 60), IP6_EXT(.type = 43), IP6_EXT(.type = 60),                  \
		IP6_EXT(.type = 51), IP6_EXT(.type = 60), IP6_EXT(.type = 60), IP6_EXT(.type = 60)
	xdp_expect(x, PKT(ETH(), IP6(), EIGHT, UDP(.len = 3)), XDP_DROP, WEIR_DROP_UDP_LENGTH);
	xdp_pass(x, PKT(ETH(), IP6(), EIGHT));
	xdp_expect(x, PKT(ETH(), IP6(), EIGHT, IP6_EXT(.type = 60), UDP()), XDP_DROP,
		   WEIR_DROP_IP6_EXT_CHAIN);
	xdp_expect(x, PKT(ETH(), IP6(), EIGHT, FRAG(), UDP()), XDP_DROP, WEIR_DROP_IP6_EXT_CHAIN);
#undef EIGHT
}

static void any_next_header_passes(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	for (int64_t next = 1; next < 256; next++) {
		bool extension = next == 43 || next == 44 || next == 51 || next == 60 ||
				 next == 135 || next == 139 || next == 140;

		if (!extension && next != 6 && next != 17 && next != 58)
			xdp_pass(x, PKT(ETH(), IP6(.next = next), PAY(1)));
	}
	xdp_pass(x, PKT(ETH(), IP6(), IP4(.ihl = 1)));
	xdp_pass(x, PKT(ETH(), IP6(.next = 1), PAY(1))); /* ICMP is nothing over IPv6 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_other_than_6_is_dropped),
		cmocka_unit_test(payload_length_must_lie_in_the_frame),
		cmocka_unit_test(every_extension_header_is_walked),
		cmocka_unit_test(longest_extension_header_is_walked),
		cmocka_unit_test(extension_header_beyond_the_packet_is_dropped),
		cmocka_unit_test(ninth_extension_header_is_dropped),
		cmocka_unit_test(any_next_header_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
