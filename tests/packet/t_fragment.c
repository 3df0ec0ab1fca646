/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fragments of both families through the program. */
#include "tests/packet/packet_test.h"

static void first_middle_and_last_fragments_pass(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_pass(x, PKT(ETH(), IP4(.mf = true), UDP(.len = 3000), PAY(1472)));
	xdp_pass(x, PKT(ETH(), IP4(.mf = true, .frag_off = 185, .proto = 17), PAY(1480)));
	xdp_pass(x, PKT(ETH(), IP4(.frag_off = 370, .proto = 17), PAY(3)));
	xdp_pass(x, PKT(ETH(), IP6(), FRAG(.more = true), UDP(.len = 3000), PAY(1440)));
	xdp_pass(x, PKT(ETH(), IP6(), FRAG(.more = true, .off = 181, .next = 17), PAY(1448)));
	xdp_pass(x, PKT(ETH(), IP6(), FRAG(.off = 362, .next = 17), PAY(1)));
	xdp_pass(x, PKT(ETH(), IP6(), FRAG(), UDP()));
}

static void rest_of_a_datagram_is_no_header(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	/* bytes that would be refused as TCP, UDP or ICMP headers */
	for (int64_t proto = 1; proto < 60; proto++) {
		xdp_pass(x, PKT(ETH(), IP4(.frag_off = 1, .proto = proto), PAY(3)));
		xdp_pass(x, PKT(ETH(), IP6(), FRAG(.off = 1, .next = proto), PAY(3)));
		xdp_pass(x, PKT(ETH(), IP6(), FRAG(.off = 1, .next = proto, .more = true), PAY(8)));
	}
}

static void headers_of_a_first_fragment_are_judged(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_expect(x, PKT(ETH(), IP4(.mf = true, .proto = 6), PAY(16)), XDP_DROP,
		   WEIR_DROP_TCP_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP4(.mf = true), TCP(.doff = 4), PAY(4)), XDP_DROP,
		   WEIR_DROP_TCP_HEADER);
	xdp_expect(x, PKT(ETH(), IP4(.mf = true), UDP(.len = 7), PAY(8)), XDP_DROP,
		   WEIR_DROP_UDP_LENGTH);
	xdp_expect(x, PKT(ETH(), IP6(), FRAG(.more = true, .next = 6), PAY(16)), XDP_DROP,
		   WEIR_DROP_TCP_TRUNCATED);
	xdp_expect(x, PKT(ETH(), IP6(), FRAG(.more = true, .next = 17)), XDP_DROP,
		   WEIR_DROP_UDP_TRUNCATED);
	/* TCP options may lie in the next fragment */
	xdp_pass(x, PKT(ETH(), IP4(.mf = true), TCP(.doff = 15), PAY(4)));
}

static void fragment_that_cannot_be_is_dropped(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	/* not the last, and no multiple of 8 */
	xdp_expect(x, PKT(ETH(), IP4(.mf = true, .frag_off = 8, .proto = 17), PAY(9)), XDP_DROP,
		   WEIR_DROP_FRAGMENT);
	xdp_expect(x, PKT(ETH(), IP4(.mf = true), UDP(), PAY(1)), XDP_DROP, WEIR_DROP_FRAGMENT);
	xdp_expect(x, PKT(ETH(), IP6(), FRAG(.more = true, .off = 8), PAY(12)), XDP_DROP,
		   WEIR_DROP_FRAGMENT);
	/* ends beyond 65535 */
	xdp_pass(x, PKT(ETH(), IP4(.frag_off = 8191, .proto = 17), PAY(7)));
	xdp_expect(x, PKT(ETH(), IP4(.frag_off = 8191, .proto = 17), PAY(8)), XDP_DROP,
		   WEIR_DROP_FRAGMENT);
	xdp_pass(x, PKT(ETH(), IP6(), FRAG(.off = 8191, .next = 17), PAY(7)));
	xdp_expect(x, PKT(ETH(), IP6(), FRAG(.off = 8191, .next = 17), PAY(8)), XDP_DROP,
		   WEIR_DROP_FRAGMENT);
	/* says nothing */
	xdp_expect(x, PKT(ETH(), IP4(.frag_off = 3, .proto = 17)), XDP_DROP, WEIR_DROP_FRAGMENT);
	xdp_expect(x, PKT(ETH(), IP6(), FRAG(.off = 3, .next = 17)), XDP_DROP, WEIR_DROP_FRAGMENT);
}

static void padding_does_not_make_a_fragment_longer(void **state)
{
	struct xdp_run *x = xdp_run_bare();

	(void)state;
	xdp_pass(x, pkt_pad(PKT(ETH(), IP4(.mf = true, .frag_off = 2, .proto = 17), PAY(8)), 17));
	xdp_pass(x, pkt_pad(PKT(ETH(), IP4(.frag_off = 2, .proto = 17), PAY(3)), 23));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_middle_and_last_fragments_pass),
		cmocka_unit_test(rest_of_a_datagram_is_no_header),
		cmocka_unit_test(headers_of_a_first_fragment_are_judged),
		cmocka_unit_test(fragment_that_cannot_be_is_dropped),
		cmocka_unit_test(padding_does_not_make_a_fragment_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
