/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits per: all: one budget for whatever comes, of either family or none, judged after all others; exactness, and that
 * a new policy keeps what was counted.
 */
#include "tests/packet/packet_test.h"

#define over(x, p) xdp_expect(x, p, XDP_DROP, WEIR_DROP_ALL)

static void both_families_and_all_protocols_share_one_budget(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: t, per: all, rate: 10/s, burst: 6}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), IP4(.src = "198.51.100.1"), UDP()));
	xdp_pass(x, PKT(ETH(), IP6(.src = "2001:db8::1"), TCP(.syn = true)));
	xdp_pass(x, PKT(ETH(), IP4(.src = "198.51.100.2"), ICMP4(.type = 8)));
	xdp_pass(x, PKT(ETH(), VLAN(.id = 5), IP4(.src = "198.51.100.3"), UDP()));
	xdp_pass(x, PKT(ETH(), IP4(.src = "198.51.100.4", .frag_off = 8), PAY(64)));
	xdp_expect(x, PKT(ETH(.type = 0x8847), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP);
	over(x, PKT(ETH(), IP4(.src = "198.51.100.9"), UDP()));
	over(x, PKT(ETH(), IP6(.src = "2001:db8:9::1"), UDP()));
	over(x, PKT(ETH(.type = 0x8847), PAY(46)));
	xdp_advance_ms(x, 101);
	xdp_pass(x, PKT(ETH(), IP6(.src = "2001:db8:9::1"), UDP()));
	over(x, PKT(ETH(), IP4(.src = "198.51.100.9"), UDP()));
	xdp_expect_limit(x, "t", 7, 4);
}

static void what_no_limit_may_touch_is_not_counted(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: t, per: all, rate: 1/s, burst: 1}"));
	struct pkt lacp = PKT(ETH(.dst = "01:80:c2:00:00:02", .type = 0x8809), PAY(46));
	struct pkt lldp = PKT(ETH(.dst = "01:80:c2:00:00:0e", .type = 0x88cc), PAY(46));
	struct pkt bridged = PKT(ETH(.dst = "01:80:c2:00:00:10", .type = 0x88cc), PAY(46));

	(void)state;
	xdp_allow(x, "203.0.113.1", 0);
	xdp_block(x, "203.0.113.2", 0);
	for (int i = 0; i < 2; i++) {
		xdp_expect(x, PKT(ETH(), ARP()), XDP_PASS, WEIR_PASS_ARP);
		xdp_expect(x, lacp, XDP_PASS, WEIR_PASS_NON_IP);
		xdp_expect(x, lldp, XDP_PASS, WEIR_PASS_NON_IP);
		xdp_expect(x, SRC4("203.0.113.1"), XDP_PASS, WEIR_PASS_ALLOW);
		xdp_expect(x, SRC4("203.0.113.2"), XDP_DROP, WEIR_DROP_BLOCK);
		xdp_expect(x, PKT(ETH(), IP4(.ihl = 2)), XDP_DROP, WEIR_DROP_IP4_HEADER);
		xdp_expect_limit(x, "t", i, 0);
		/* beside them, and after it is used up */
		xdp_expect(x, bridged, i ? XDP_DROP : XDP_PASS,
			   i ? WEIR_DROP_ALL : WEIR_PASS_NON_IP);
	}
}

static void what_is_no_ip_matches_only_what_asks_nothing_of_ip(void **state)
{
	static const struct {
		const char *match;
		bool counts, tagged_counts;
	} rows[] = {
		{"{vlan: 5}", false, true},
		{"{vlan: {not: 5}}", true, false},
		{"{protocol: {not: tcp}}", false, false},
		{"{protocol: [tcp, udp]}", false, false},
		{"{fragment: false}", false, false},
		{"{source: {not: 10.0.0.0/8}}", false, false},
		{"{destination: [0.0.0.0/0, \"::/0\"]}", false, false},
		{"{protocol: udp, destination_port: {not: 53}}", false, false},
		{"{tcp_flags: {clear: syn}}", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct xdp_run *x;
		char limit[160];

		(void)snprintf(limit, sizeof(limit),
			       "{name: t, per: all, match: %s, rate: 1/s, burst: 9}",
			       rows[i].match);
		x = xdp_run(LIMITS(limit));
		xdp_expect(x, PKT(ETH(.type = 0x8847), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP);
		xdp_expect_limit(x, "t", rows[i].counts, 0);
		xdp_expect(x, PKT(ETH(), VLAN(.id = 5, .type = 0x88b5), PAY(46)), XDP_PASS,
			   WEIR_PASS_NON_IP);
		xdp_expect_limit(x, "t", rows[i].counts + rows[i].tagged_counts, 0);
	}
}

static void it_is_judged_after_sources_and_destinations(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: t, per: all, rate: 1/s, burst: 8}",
					   "{name: d, per: destination, rate: 1/s, burst: 5}",
					   "{name: s, rate: 1/s, burst: 2}"));

	(void)state;
	for (int i = 0; i < 2; i++)
		xdp_pass(x, SRC4("203.0.113.1"));
	for (int i = 0; i < 9; i++)
		xdp_drop(x, SRC4("203.0.113.1"));
	xdp_expect_limit(x, "d", 2, 0);
	xdp_expect_limit(x, "t", 2, 0);
	for (int i = 0; i < 3; i++)
		xdp_pass(x, PKT(ETH(), IP4(.src = i < 2 ? "203.0.113.2" : "203.0.113.3"), UDP()));
	xdp_expect(x, SRC4("203.0.113.4"), XDP_DROP, WEIR_DROP_DESTINATION);
	xdp_expect_limit(x, "d", 5, 1);
	xdp_expect_limit(x, "t", 5, 0);
	xdp_pass(x, PKT(ETH(), IP4(.src = "203.0.113.9", .dst = "192.0.2.77"), UDP()));
	xdp_pass(x, PKT(ETH(), IP4(.src = "203.0.113.9", .dst = "192.0.2.78"), UDP()));
	xdp_pass(x, PKT(ETH(), IP4(.src = "203.0.113.8", .dst = "192.0.2.78"), UDP()));
	xdp_expect_limit(x, "t", 8, 0);
	over(x, PKT(ETH(), IP4(.src = "203.0.113.5", .dst = "192.0.2.79"), UDP()));
	xdp_expect_limit(x, "s", 10, 9);
}

static void among_themselves_the_order_is_the_files(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: watch, per: all, rate: 1/s, burst: 1, mode: monitor}",
			       "{name: udp, per: all, match: {protocol: udp}, rate: 1/s, burst: 3}",
			       "{name: t, per: all, rate: 1/s, burst: 4}"));

	(void)state;
	for (int i = 0; i < 3; i++)
		xdp_pass(x, SRC4("203.0.113.1"));
	over(x, SRC6("2001:db8::1"));
	xdp_expect_limit(x, "watch", 1, 3);
	xdp_expect_limit(x, "udp", 3, 1);
	xdp_expect_limit(x, "t", 3, 0);
	xdp_pass(x, PKT(ETH(), IP6(), TCP(.syn = true)));
	over(x, PKT(ETH(), IP4(), TCP(.syn = true)));
	xdp_expect_limit(x, "t", 4, 1);
	xdp_expect_limit(x, "udp", 3, 1);
}

static void the_agent_in_monitor_mode_drops_nothing(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: t, per: all, rate: 1/s, burst: 1}"));
	struct weir_counters c;

	(void)state;
	xdp_set_mode(x, true);
	xdp_pass(x, SRC4("203.0.113.1"));
	xdp_expect(x, SRC4("203.0.113.1"), XDP_PASS, WEIR_PASS_MONITOR);
	xdp_expect(x, PKT(ETH(.type = 0x8847), PAY(46)), XDP_PASS, WEIR_PASS_MONITOR);
	xdp_counters(&x->side[0], &c);
	assert_int_equal(c.would.drop_all.packets, 2);
}

/* Verdict for verdict as a limit of one source that sends everything. */
static void all_are_judged_as_exactly_as_a_source(void **state)
{
	static const char *const algorithm[] = {
		"rate: 700/s, burst: 40",
		"rate: 64 kB/s, burst: 3000 B",
		"algorithm: fixed-window, limit: 100, window: 250ms",
		"algorithm: fixed-window, limit: 100 kB, window: 30s",
		"algorithm: fixed-window, limit: 60000 kB, window: 1h",
		"algorithm: sliding-window-counter, limit: 90, window: 300ms",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(algorithm) / sizeof(algorithm[0]); i++) {
		static uint8_t passed[6000];

		for (int per = 0; per < 2; per++) {
			uint64_t seed = 11 + i;
			struct xdp_run *x;
			char limit[128];

			(void)snprintf(limit, sizeof(limit), "{name: a, per: %s, %s}",
				       per ? "all" : "source", algorithm[i]);
			x = xdp_run(LIMITS(limit));
			for (int k = 0; k < 6000; k++) {
				char src[32];
				struct pkt p;
				bool pass;

				(void)snprintf(src, sizeof(src), "10.0.0.%d", per ? k % 250 : 1);
				p = SRC4(src);
				pass = xdp_verdict(x, &p) == WEIR_PASS_DEFAULT;
				if (per && pass != passed[k])
					fail_msg("%s: packet %d: source %d, all %d", algorithm[i],
						 k, passed[k], pass);
				passed[k] = pass;
				xdp_advance_ns(x, pkt_random(&seed) % 400000);
			}
		}
	}
}

/* So many packets of 1000 bytes, in each kind of word; @rate counts for the bucket alone. */
static const char *holding(int kind, const char *rate, unsigned packets)
{
	static char text[4][160];
	static unsigned turn;
	char *to = text[turn++ % 4];

	if (kind == 0)
		(void)snprintf(to, 160, "{name: t, per: all, rate: %s, burst: %u}", rate, packets);
	else
		(void)snprintf(to, 160,
			       "{name: t, per: all, algorithm: %s, limit: %u%s, window: 1h}",
			       kind == 3 ? "sliding-window-counter" : "fixed-window", packets,
			       kind == 2 ? " kB" : "");
	return to;
}

static void a_new_policy_keeps_what_was_counted(void **state)
{
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(958)); /* 1000 bytes */

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		unsigned more =
			kind == 2 ? 2000 : 26; /* kB: beyond 2^20 bytes it takes two words */
		struct xdp_run *x = xdp_run(LIMITS(holding(kind, "1/h", 20)));

		xdp_set_clock(x, 3600 * XDP_SECOND + XDP_SECOND);
		xdp_apply(x, LIMITS(holding(kind, "1/h", 20)));
		assert_int_equal(xdp_send_many(x, &p, 40), 20);
		xdp_apply(x, LIMITS("{name: s, rate: 100000/s}", holding(kind, "1/h", 20)));
		over(x, p);
		xdp_apply(x, LIMITS(holding(kind, "1/h", more),
				    "{name: s, rate: 100000/s, ipv4_prefix: 24}"));
		assert_int_equal(xdp_send_many(x, &p, 3000), more - 20);
		xdp_apply(x, LIMITS(holding(kind, "9/m", more))); /* other units */
		over(x, p);
		xdp_apply(x, LIMITS(holding(kind, "9/m", more + 4)));
		assert_int_equal(xdp_send_many(x, &p, 40), 4);
		xdp_apply(x, LIMITS(holding(kind, "1/h", more + 4))); /* and back */
		over(x, p);
		xdp_apply(x, LIMITS(holding(kind, "1/h", 2))); /* a debt is clamped to it */
		over(x, p);
		xdp_apply(x, LIMITS("{name: s, rate: 100000/s}"));
		xdp_apply(x, LIMITS(holding(kind, "1/h", 20))); /* it had gone, and begins anew */
		assert_int_equal(xdp_send_many(x, &p, 40), 20);
	}
}

static void thirty_two_of_them_are_all_charged(void **state)
{
	static char text[4096];
	int n = snprintf(text, sizeof(text), "interfaces: [eth0]\npacket_limits:\n");
	struct pkt p = SRC4("203.0.113.1");
	struct xdp_run *x;

	(void)state;
	for (int i = 0; i < 32; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "  - {name: t%d, per: all, rate: 1/s, burst: %d}\n", i, 100 - i);
	x = xdp_run(text);
	assert_int_equal(xdp_send_many(x, &p, 80), 69);
	xdp_expect_limit(x, "t0", 80, 0);
	xdp_expect_limit(x, "t31", 69, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_families_and_all_protocols_share_one_budget),
		cmocka_unit_test(what_no_limit_may_touch_is_not_counted),
		cmocka_unit_test(what_is_no_ip_matches_only_what_asks_nothing_of_ip),
		cmocka_unit_test(it_is_judged_after_sources_and_destinations),
		cmocka_unit_test(among_themselves_the_order_is_the_files),
		cmocka_unit_test(the_agent_in_monitor_mode_drops_nothing),
		cmocka_unit_test(all_are_judged_as_exactly_as_a_source),
		cmocka_unit_test(a_new_policy_keeps_what_was_counted),
		cmocka_unit_test(thirty_two_of_them_are_all_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
