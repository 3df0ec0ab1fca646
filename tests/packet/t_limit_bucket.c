/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Token buckets: exactly the burst at once, then the rate; packets and bytes; order, charging rule,
 * block_for, monitor.
 */
#include "tests/packet/packet_test.h"

static void burst_then_refuse_then_refill(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: syn, per: source, rate: 10/s, burst: 3}"));
	struct pkt syn = PKT(ETH(), IP4(), TCP(.syn = true));

	(void)state;
	for (int i = 0; i < 3; i++)
		xdp_pass(x, syn);
	xdp_drop(x, syn);
	xdp_pass(x, SRC4("203.0.113.9"));
	xdp_advance_ms(x, 99);
	xdp_drop(x, syn);
	xdp_advance_ms(x, 2);
	xdp_pass(x, syn);
	xdp_drop(x, syn);
	xdp_expect_limit(x, "syn", 5, 3);
}

static void families_have_state_of_their_own(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_pass(x, SRC4("198.51.100.1"));
	xdp_pass(x, SRC6("2001:db8::1"));
	xdp_drop(x, SRC4("198.51.100.1"));
	xdp_drop(x, SRC6("2001:db8::1"));
}

static void long_silence_gives_no_more_than_the_burst(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 20}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 1000), 20);
	for (int minutes = 1; minutes < 200; minutes += 13) {
		xdp_advance_ns(x, (uint64_t)minutes * XDP_MINUTE);
		assert_int_equal(xdp_send_many(x, &p, 1000), 20);
	}
}

/* Ten times the rate for @seconds in steps of a millisecond: burst + rate * time, within one in a
 * thousand.
 */
static void flood(const char *limit, uint64_t rate, uint64_t burst, int seconds)
{
	struct xdp_run *x = xdp_run(LIMITS(limit));
	struct pkt p = SRC4("198.51.100.1");
	uint64_t got = 0, want = burst + rate * (uint64_t)seconds, slack = want / 1000 + 1;
	uint32_t each = (uint32_t)(rate / 100 ? rate / 100 : 1);

	for (int ms = 0; ms < seconds * 1000; ms++) {
		got += xdp_send_many(x, &p, each);
		xdp_advance_ms(x, 1);
	}
	got += xdp_send_many(x, &p, (uint32_t)(burst + rate));
	if (got + slack < want || got > want + slack)
		fail_msg("%s: admitted %llu, wanted %llu", limit, (unsigned long long)got,
			 (unsigned long long)want);
}

static void admits_burst_plus_rate_times_time(void **state)
{
	(void)state;
	flood("{name: a, rate: 1/s, burst: 5}", 1, 5, 20);
	flood("{name: a, rate: 7/s, burst: 1}", 7, 1, 20);
	flood("{name: a, rate: 1000/s, burst: 300}", 1000, 300, 3);
	flood("{name: a, rate: 100000/s, burst: 5000}", 100000, 5000, 1);
}

static void bytes_are_those_of_the_whole_frame(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: b, rate: 1000 B/s, burst: 1000 B}"));
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(458)); /* 500 bytes */
	struct pkt small = PKT(ETH(), IP4(), UDP(), PAY(18));

	(void)state;
	assert_int_equal(p.len, 500);
	xdp_pass(x, p);
	xdp_pass(x, pkt_cut(small, 60));
	xdp_drop(x, p); /* 440 bytes are left */
	for (int i = 0; i < 7; i++)
		xdp_pass(x, small);
	xdp_drop(x, small);
	xdp_advance_ms(x, 61);
	xdp_pass(x, small);
}

static void frame_larger_than_the_burst_never_passes(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: b, rate: 1000 B/s, burst: 1000 B}"));

	(void)state;
	xdp_drop(x, PKT(ETH(), IP4(), UDP(), PAY(959)));
	xdp_pass(x, PKT(ETH(), IP4(), UDP(), PAY(958)));
}

static void limits_are_charged_in_order_until_one_drops(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: first, rate: 1/s, burst: 4}",
					   "{name: second, rate: 1/s, burst: 2}",
					   "{name: third, rate: 1/s, burst: 3}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_pass(x, p);
	xdp_pass(x, p);
	xdp_drop(x, p); /* charged to first, refused by second, not seen by third */
	xdp_drop(x, p);
	xdp_drop(x, p); /* now first refuses */
	xdp_expect_limit(x, "first", 4, 1);
	xdp_expect_limit(x, "second", 2, 2);
	xdp_expect_limit(x, "third", 2, 0);
}

static void order_holds_across_prefix_lengths(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: one, rate: 1/s, burst: 9, ipv4_prefix: 32}",
					   "{name: net, rate: 1/s, burst: 2, ipv4_prefix: 24}",
					   "{name: two, rate: 1/s, burst: 9, ipv4_prefix: 32}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_pass(x, p);
	xdp_pass(x, p);
	xdp_drop(x, p);
	xdp_expect_limit(x, "one", 3, 0);
	xdp_expect_limit(x, "net", 2, 1);
	xdp_expect_limit(x, "two", 2, 0);
}

static void two_limits_together_give_the_smaller_one(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: a, rate: 600/s, burst: 6}", "{name: b, rate: 500/s, burst: 5}"));
	struct pkt p = SRC4("198.51.100.1");
	uint64_t got = 0;

	(void)state;
	for (int ms = 0; ms < 4000; ms++) {
		got += xdp_send_many(x, &p, 1);
		xdp_advance_ms(x, 1);
	}
	/* a admits 600 a second, of which b admits 500 */
	assert_in_range(got, 1990, 2010);
}

static void monitor_limit_counts_and_stops_nothing(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: watch, rate: 1/s, burst: 2, mode: monitor}",
					   "{name: act, rate: 1/s, burst: 5}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (int i = 0; i < 5; i++)
		xdp_pass(x, p);
	xdp_drop(x, p);
	xdp_expect_limit(x, "watch", 2, 4);
	xdp_expect_limit(x, "act", 5, 1);
}

static void block_for_covers_all_packets_of_the_source(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: syn, match: {protocol: tcp, tcp_flags: {set: [syn], clear: [ack]}}, "
		       "rate: 100/s, burst: 2, block_for: 10s}"));
	struct pkt syn = PKT(ETH(), IP4(), TCP(.syn = true)), udp = PKT(ETH(), IP4(), UDP());

	(void)state;
	xdp_pass(x, udp);
	xdp_pass(x, syn);
	xdp_pass(x, syn);
	xdp_pass(x, udp);
	xdp_drop(x, syn); /* exceeded: the time begins */
	xdp_expect(x, udp, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_expect(x, syn, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_pass(x, PKT(ETH(), IP4(.src = "198.51.100.2"), TCP(.syn = true)));
	xdp_advance_ms(x, 9980);
	xdp_expect(x, udp, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_advance_ms(x, 40);
	xdp_pass(x, udp);
	xdp_pass(x, syn);
}

static void block_for_is_not_extended(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 2, block_for: 1s}"));
	struct pkt p = SRC4("198.51.100.1");
	int blocked = 0;

	(void)state;
	xdp_pass(x, p);
	xdp_pass(x, p);
	xdp_drop(x, p);
	for (; blocked < 300 && xdp_verdict(x, &p) == WEIR_DROP_PENALTY; blocked++)
		xdp_advance_ms(x, 10);
	assert_in_range(blocked, 99, 101);
}

/* It begins anew, with its whole burst, however slow the rate is. */
static void source_is_free_right_after_block_for(void **state)
{
	static const char *const limit[] = {"{name: a, rate: 100/s, burst: 20, block_for: 1s}",
					    "{name: a, rate: 1/h, burst: 20, block_for: 1s}",
					    "{name: a, rate: 1000000/s, burst: 20, block_for: 1s}"};
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	for (size_t k = 0; k < sizeof(limit) / sizeof(limit[0]); k++) {
		struct xdp_run *x = xdp_run(LIMITS(limit[k]));

		for (uint64_t phase = 0; phase < 20; phase++) {
			xdp_set_clock(x, XDP_SECOND * 10 * (phase + 1) + phase * 77777);
			assert_int_equal(xdp_send_many(x, &p, 30), 20);
			assert_int_equal(xdp_send_many(x, &p6, 30), 20);
			xdp_advance_ms(x, 998);
			xdp_expect(x, p, XDP_DROP, WEIR_DROP_PENALTY);
			xdp_expect(x, p6, XDP_DROP, WEIR_DROP_PENALTY);
			xdp_advance_ms(x, 3);
			assert_int_equal(xdp_send_many(x, &p, 30), 20);
			assert_int_equal(xdp_send_many(x, &p6, 30), 20);
		}
	}
}

/* Half its rate from the moment the time is over, and all through it, at every phase of the clock. */
static void polite_source_is_not_blocked_again(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 1, block_for: 1s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (uint64_t phase = 0; phase < 20; phase++) {
		int refused = 0;

		xdp_set_clock(x, XDP_SECOND * 10 * (phase + 1));
		xdp_pass(x, p);
		xdp_drop(x, p);
		xdp_advance_ms(x, phase);
		for (; xdp_verdict(x, &p) == WEIR_DROP_PENALTY; refused++)
			xdp_advance_ms(x, 20);
		assert_in_range(refused, 49, 51);
		for (int i = 0; i < 100; i++) {
			xdp_advance_ms(x, 20);
			xdp_pass(x, p);
		}
	}
}

static void monitor_limit_with_block_for_stops_nothing(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: a, rate: 1/s, burst: 2, block_for: 5s, mode: monitor}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (int i = 0; i < 10; i++)
		xdp_pass(x, p);
	xdp_expect_limit(x, "a", 2, 8);
}

static void monitor_mode_passes_everything_and_says_what_it_would(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 2}"));
	struct pkt p = SRC4("198.51.100.1");
	struct weir_counters c;

	(void)state;
	xdp_set_mode(x, true);
	xdp_pass(x, p);
	xdp_pass(x, p);
	xdp_expect(x, p, XDP_PASS, WEIR_PASS_MONITOR);
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 3)), XDP_PASS, WEIR_PASS_MONITOR);
	for (int i = 0; i < XDP_SIDES; i++) {
		xdp_counters(&x->side[i], &c);
		assert_int_equal(c.would.drop_limit.packets, 1);
		assert_int_equal(c.would.drop_limit.bytes, p.len);
		assert_int_equal(c.would.drop_ip4_header.packets, 1);
		assert_int_equal(c.reason.drop_limit.packets, 0);
	}
	xdp_expect_limit(x, "a", 2, 1);
	xdp_set_mode(x, false);
	xdp_drop(x, p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_then_refuse_then_refill),
		cmocka_unit_test(families_have_state_of_their_own),
		cmocka_unit_test(long_silence_gives_no_more_than_the_burst),
		cmocka_unit_test(admits_burst_plus_rate_times_time),
		cmocka_unit_test(bytes_are_those_of_the_whole_frame),
		cmocka_unit_test(frame_larger_than_the_burst_never_passes),
		cmocka_unit_test(limits_are_charged_in_order_until_one_drops),
		cmocka_unit_test(order_holds_across_prefix_lengths),
		cmocka_unit_test(two_limits_together_give_the_smaller_one),
		cmocka_unit_test(monitor_limit_counts_and_stops_nothing),
		cmocka_unit_test(block_for_covers_all_packets_of_the_source),
		cmocka_unit_test(block_for_is_not_extended),
		cmocka_unit_test(source_is_free_right_after_block_for),
		cmocka_unit_test(polite_source_is_not_blocked_again),
		cmocka_unit_test(monitor_limit_with_block_for_stops_nothing),
		cmocka_unit_test(monitor_mode_passes_everything_and_says_what_it_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
