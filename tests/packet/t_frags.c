/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames in several buffers (xdp.frags): headers are read, and the whole length counts.
 * BPF_PROG_TEST_RUN makes such a frame of any input beyond a page. No driver hands one to the plain
 * program.
 */
#include "tests/packet/packet_test.h"

#define FRAGS 2 /* of the two sides, the one with xdp.frags */

static uint8_t buffer[70000];

/* A frame of @n bytes that begins like @p; the IP length and a UDP length are set by hand. */
static const void *stretch(const struct pkt *p, uint32_t n)
{
	memset(buffer, 0x5a, sizeof(buffer));
	memcpy(buffer, p->data, p->len);
	assert_true(n <= sizeof(buffer) && n >= p->len);
	return buffer;
}

static void jumbo_frame_counts_its_full_length(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(8000));
	struct pkt v6 = PKT(ETH(), VLAN(), IP6(), IP6_EXT(.size = 64), TCP(.syn = true), PAY(8900));

	(void)state;
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, v6.data, v6.len, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
}

static void length_is_checked_against_all_buffers(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt good = PKT(ETH(), IP4(.tot_len = 8986), TCP());
	struct pkt bad = PKT(ETH(), IP4(.tot_len = 8987), TCP());
	struct pkt udp = PKT(ETH(), IP6(.len = 8946), UDP(.len = 8947));

	(void)state;
	xdp_expect_bytes(x, stretch(&good, 9000), 9000, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, stretch(&bad, 9000), 9000, FRAGS, XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect_bytes(x, stretch(&udp, 9000), 9000, FRAGS, XDP_DROP, WEIR_DROP_UDP_LENGTH);
}

/* What a frame carries beyond its IP packet went over the wire, too. */
static void padding_beyond_the_first_buffer_counts(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt v4 = PKT(ETH(), IP4(), UDP()), v6 = PKT(ETH(), IP6(), UDP()),
		   other = PKT(ETH(), PAY(46));
	struct pkt bad = PKT(ETH(), IP4(.ihl = 4), UDP());

	(void)state;
	xdp_expect_bytes(x, stretch(&v4, 9000), 9000, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, stretch(&v6, 9000), 9000, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, stretch(&other, 9000), 9000, FRAGS, XDP_PASS, WEIR_PASS_NON_IP);
	xdp_expect_bytes(x, stretch(&bad, 9000), 9000, FRAGS, XDP_DROP, WEIR_DROP_IP4_HEADER);
}

static void headers_beyond_the_first_buffer_have_a_reason(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt p = PKT(ETH(), IP6(), IP6_EXT(.type = 60, .size = 2048),
			   IP6_EXT(.type = 60, .size = 2048), TCP(), PAY(2000));

	(void)state;
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_DROP, WEIR_DROP_IP6_EXT_TRUNCATED);
}

static void big_tcp_with_a_zero_length_passes(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	struct pkt v4 = PKT(ETH(), IP4(.tot_len = PKT_ZERO), TCP());
	struct pkt v6 = PKT(ETH(), IP6(.len = PKT_ZERO), TCP());

	(void)state;
	xdp_expect_bytes(x, stretch(&v4, 66000), 66000, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, stretch(&v6, 66000), 66000, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, stretch(&v4, 65549), 65549, FRAGS, XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect_bytes(x, stretch(&v4, 65550), 65550, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	/* a zero length in a frame of ordinary size is no BIG TCP */
	xdp_expect_bytes(x, stretch(&v4, 9000), 9000, FRAGS, XDP_DROP, WEIR_DROP_IP4_LENGTH);
	xdp_expect_bytes(x, stretch(&v6, 9000), 9000, FRAGS, XDP_DROP, WEIR_DROP_TCP_TRUNCATED);
}

static void byte_limits_charge_all_buffers(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 20000 B/s, burst: 20000 B}"));
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(7958)); /* 8000 bytes */

	(void)state;
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_DROP, WEIR_DROP_LIMIT); /* 4000 are left */
	xdp_advance_ms(x, 201);
	xdp_expect_bytes(x, p.data, p.len, FRAGS, XDP_PASS, WEIR_PASS_DEFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumbo_frame_counts_its_full_length),
		cmocka_unit_test(length_is_checked_against_all_buffers),
		cmocka_unit_test(padding_beyond_the_first_buffer_counts),
		cmocka_unit_test(headers_beyond_the_first_buffer_have_a_reason),
		cmocka_unit_test(big_tcp_with_a_zero_length_passes),
		cmocka_unit_test(byte_limits_charge_all_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
