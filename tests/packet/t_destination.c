/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits per destination: whose budget it is, that they are judged after all limits of sources and charged nothing that
 * one of those drops, exactness, and what many destinations do to the table.
 */
#include "tests/packet/packet_test.h"

#define TO4(from, to) PKT(ETH(), IP4(.src = (from), .dst = (to)), UDP())
#define TO6(from, to) PKT(ETH(), IP6(.src = (from), .dst = (to)), UDP())
#define over(x, p)    xdp_expect(x, p, XDP_DROP, WEIR_DROP_DESTINATION)

/* A sender that nobody has seen before. */
static struct pkt stranger4(const char *to)
{
	static uint32_t n;
	char from[32];

	n++;
	(void)snprintf(from, sizeof(from), "10.%u.%u.%u", n >> 16 & 255, n >> 8 & 255, n & 255);
	return TO4(from, to);
}

static struct pkt stranger6(const char *to)
{
	static unsigned n;
	char from[48];

	(void)snprintf(from, sizeof(from), "2001:db8:%x:%x::1", 0x1000 + n / 65536, n % 65536);
	n++;
	return TO6(from, to);
}

static void all_senders_to_one_destination_share_its_budget(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 10/s, burst: 3}"));

	(void)state;
	for (int i = 0; i < 3; i++) {
		xdp_pass(x, stranger4("198.51.100.1"));
		xdp_pass(x, stranger6("2001:db8::1"));
	}
	over(x, stranger4("198.51.100.1"));
	over(x, stranger6("2001:db8::1"));
	over(x, stranger6("2001:db8::ffff:1")); /* of the same /64 */
	/* others have their own; who sends does not matter */
	xdp_pass(x, TO4("10.0.0.1", "198.51.100.2"));
	xdp_pass(x, TO6("2001:db8:1000::1", "2001:db8:0:1::1"));
	xdp_pass(x, TO4("198.51.100.1", "10.0.0.1")); /* as a source it is not over anything */
	xdp_advance_ms(x, 101);
	xdp_pass(x, stranger4("198.51.100.1"));
	over(x, stranger4("198.51.100.1"));
	xdp_expect_limit(x, "d", 10, 4);
}

static void prefix_lengths_are_the_destinations(void **state)
{
	static const struct {
		int family, len;
		const char *to, *inside, *outside;
	} c[] = {
		{4, 32, "198.51.100.129", "198.51.100.129", "198.51.100.128"},
		{4, 28, "198.51.100.129", "198.51.100.140", "198.51.100.144"},
		{4, 0, "198.51.100.129", "1.2.3.4", NULL},
		{6, 128, "2001:db8::1", "2001:db8::1", "2001:db8::2"},
		{6, 64, "2001:db8::1", "2001:db8::ffff:0:0:2", "2001:db8:0:1::1"},
		{6, 48, "2001:db8::1", "2001:db8:0:ffff::1", "2001:db8:1::1"},
		{6, 64, "64:ff9b::198.51.100.1", "64:ff9b::198.51.100.1", "64:ff9b::198.51.100.2"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct xdp_run *x;
		char limit[128];

		(void)snprintf(limit, sizeof(limit),
			       "{name: d, per: destination, rate: 1/s, burst: 1, ipv%d_prefix: %d}",
			       c[i].family, c[i].len);
		x = xdp_run(LIMITS(limit));
		xdp_pass(x, c[i].family == 4 ? stranger4(c[i].to) : stranger6(c[i].to));
		over(x, c[i].family == 4 ? stranger4(c[i].inside) : stranger6(c[i].inside));
		if (c[i].outside)
			xdp_pass(x, c[i].family == 4 ? stranger4(c[i].outside)
						     : stranger6(c[i].outside));
	}
}

static void sources_are_judged_first_wherever_they_stand(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 5}",
					   "{name: s, rate: 1/s, burst: 2}"));

	(void)state;
	/* one loud source spends two of the five, however much it sends */
	xdp_pass(x, TO4("203.0.113.1", "198.51.100.1"));
	xdp_pass(x, TO4("203.0.113.1", "198.51.100.1"));
	for (int i = 0; i < 20; i++)
		xdp_drop(x, TO4("203.0.113.1", "198.51.100.1"));
	xdp_expect_limit(x, "d", 2, 0);
	xdp_pass(x, TO4("203.0.113.2", "198.51.100.1"));
	xdp_pass(x, TO4("203.0.113.2", "198.51.100.1"));
	xdp_pass(x, TO4("203.0.113.3", "198.51.100.1"));
	over(x, TO4("203.0.113.4", "198.51.100.1"));
	xdp_expect_limit(x, "d", 5, 1);
	/* what the destination drops, its source was charged for before */
	over(x, TO4("203.0.113.4", "198.51.100.1"));
	xdp_drop(x, TO4("203.0.113.4", "198.51.100.1"));
	xdp_expect_limit(x, "s", 7, 21);
}

static void a_penalised_source_is_charged_to_no_destination(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 9}",
					   "{name: s, rate: 1/s, burst: 2, block_for: 10s}"));
	struct pkt p = TO4("203.0.113.1", "198.51.100.1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 100), 2);
	xdp_expect(x, p, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_expect_limit(x, "d", 2, 0);
}

static void among_destinations_the_order_is_the_files(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: d1, per: destination, rate: 1/s, burst: 3}",
			       "{name: d2, per: destination, rate: 1/s, burst: 9, ipv4_prefix: 24}",
			       "{name: d3, per: destination, rate: 1/s, burst: 4}"));

	(void)state;
	for (int i = 0; i < 3; i++)
		xdp_pass(x, stranger4("198.51.100.1"));
	for (int i = 0; i < 3; i++)
		over(x, stranger4("198.51.100.1"));
	xdp_expect_limit(x, "d1", 3, 3);
	xdp_expect_limit(x, "d2", 3, 0);
	xdp_expect_limit(x, "d3", 3, 0);
	for (int i = 0; i < 6; i++)
		xdp_pass(x, stranger4(i < 3 ? "198.51.100.2" : "198.51.100.3"));
	over(x, stranger4("198.51.100.4")); /* the /24 is used up */
	xdp_expect_limit(x, "d2", 9, 1);
	xdp_expect_limit(x, "d3", 9, 0);
}

static void a_monitor_limit_counts_and_stops_nothing(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS(
		"{name: syn-per-service, match: {protocol: tcp, tcp_flags: {set: [syn], clear: "
		"[ack]}, destination_port: [80, 443]}, per: destination, rate: 1/s, burst: 5, "
		"mode: monitor}",
		"{name: d, per: destination, rate: 1/s, burst: 7}"));
	struct pkt syn = PKT(ETH(), IP4(.dst = "198.51.100.1"), TCP(.syn = true, .dport = 443));
	struct pkt ack = PKT(ETH(), IP4(.dst = "198.51.100.1"), TCP(.ack = true, .dport = 443));

	(void)state;
	for (int i = 0; i < 7; i++)
		xdp_pass(x, syn);
	xdp_expect_limit(x, "syn-per-service", 5, 2);
	over(x, ack);
	xdp_expect_limit(x, "syn-per-service", 5, 2);
	xdp_expect_limit(x, "d", 7, 1);
}

static void the_agent_in_monitor_mode_drops_nothing(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 1}"));
	struct weir_counters c;

	(void)state;
	xdp_set_mode(x, true);
	xdp_pass(x, stranger4("198.51.100.1"));
	xdp_expect(x, stranger4("198.51.100.1"), XDP_PASS, WEIR_PASS_MONITOR);
	xdp_counters(&x->side[0], &c);
	assert_int_equal(c.would.drop_destination.packets, 1);
}

static void allowed_sources_and_classes_are_not_charged(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_allow(x, "203.0.113.1", 0);
	xdp_block(x, "203.0.113.2", 0);
	xdp_expect(x, TO4("203.0.113.1", "198.51.100.1"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_expect(x, TO4("203.0.113.2", "198.51.100.1"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), ARP()), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect_limit(x, "d", 0, 0);
	xdp_pass(x, TO4("203.0.113.3", "198.51.100.1"));
	over(x, TO4("203.0.113.3", "198.51.100.1"));
	xdp_expect(x, TO4("203.0.113.1", "198.51.100.1"), XDP_PASS, WEIR_PASS_ALLOW);
}

static void fragments_and_tagged_frames_count_for_their_destination(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 8}"));

	(void)state;
	xdp_pass(x, PKT(ETH(), IP4(.dst = "198.51.100.1", .mf = true), UDP(), PAY(56)));
	xdp_pass(x, PKT(ETH(), IP4(.dst = "198.51.100.1", .frag_off = 8), PAY(64)));
	xdp_pass(x, PKT(ETH(), VLAN(.id = 5), IP4(.dst = "198.51.100.1"), TCP(.syn = true)));
	xdp_pass(x, PKT(ETH(), VLAN(.tpid = 0x88a8, .id = 9), VLAN(.id = 5),
			IP4(.dst = "198.51.100.1"), ICMP4(.type = 8)));
	xdp_expect_limit(x, "d", 4, 0);
	xdp_pass(x, PKT(ETH(), IP6(.dst = "2001:db8::1"), FRAG(.more = true), UDP(), PAY(56)));
	xdp_pass(x, PKT(ETH(), IP6(.dst = "2001:db8::1"), FRAG(.off = 8), PAY(64)));
	xdp_pass(x, PKT(ETH(), VLAN(.id = 5), IP6(.dst = "2001:db8::1"), UDP()));
	xdp_expect_limit(x, "d", 7, 0);
	for (int i = 0; i < 4; i++)
		xdp_pass(x, PKT(ETH(), IP4(.dst = "198.51.100.1", .frag_off = 8), PAY(64)));
	over(x, PKT(ETH(), VLAN(.id = 5), IP4(.dst = "198.51.100.1", .frag_off = 8), PAY(64)));
}

/* The same senders, ten times too many, through a source limit with one sender and a destination limit with one
 * destination: both algorithms, clock and arithmetic are the same, so verdict for verdict they must agree.
 */
static void a_destination_is_judged_as_exactly_as_a_source(void **state)
{
	static const char *const algorithm[] = {
		"rate: 700/s, burst: 40",
		"rate: 64 kB/s, burst: 3000 B",
		"algorithm: fixed-window, limit: 100, window: 250ms",
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
				       per ? "destination" : "source", algorithm[i]);
			x = xdp_run(LIMITS(limit));
			for (int k = 0; k < 6000; k++) {
				struct pkt p = k & 1 ? TO4("203.0.113.7", "198.51.100.1")
						     : TO6("2001:db8:5::1", "2001:db8::1");
				bool pass = xdp_verdict(x, &p) == WEIR_PASS_DEFAULT;

				if (per && pass != passed[k])
					fail_msg("%s: packet %d: source %d, destination %d",
						 algorithm[i], k, passed[k], pass);
				passed[k] = pass;
				xdp_advance_ns(x, pkt_random(&seed) % 400000);
			}
		}
	}
}

/* A /48 is probed at random addresses, each in a /64 of its own, in a table that holds few of them. */
static void probing_many_destinations_is_bounded_and_spares_the_busy_one(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: d, per: destination, algorithm: "
						 "fixed-window, limit: 1000, window: 60s}"),
					  64);
	uint64_t seed = 5, passed = 0, shared = 0;

	(void)state;
	xdp_pass(x, stranger6("2001:db8:ffff:1::1"));
	for (int i = 0; i < 20000; i++) {
		enum weir_reason r;
		struct pkt p;
		char to[48];

		(void)snprintf(to, sizeof(to), "2001:db8:ffff:%x::%x",
			       (unsigned)(pkt_random(&seed) >> 40 & 0xffff) | 2, 1);
		p = stranger6(to);
		r = xdp_verdict(x, &p);
		passed += r == WEIR_PASS_DEFAULT;
		shared += r == WEIR_DROP_SHARED;
	}
	/* 256 slots for 65536 destinations: the others share one budget of the /48, and it holds */
	assert_true(passed < 256 * 30 + 1000);
	assert_true(shared > 10000);
	assert_int_equal(passed + shared, 20000);
	/* who has a slot keeps it, with what was counted */
	for (int i = 0; i < 999; i++)
		xdp_pass(x, stranger6("2001:db8:ffff:1::1"));
	over(x, stranger6("2001:db8:ffff:1::1"));
}

static void flooded_destinations_take_no_room_from_sources(void **state)
{
	struct xdp_run *x =
		xdp_run_sized(LIMITS("{name: s, algorithm: fixed-window, limit: 5, window: 60s}",
				     "{name: d, per: destination, algorithm: fixed-window, limit: "
				     "9, window: 60s}"),
			      64);
	struct weir_counters c;

	(void)state;
	/* one sender goes through all of a /16 */
	for (int i = 0; i < 3000; i++) {
		struct pkt p;
		char to[32];

		(void)snprintf(to, sizeof(to), "198.51.%d.%d", i / 250, i % 250);
		p = TO4("203.0.113.1", to);
		(void)xdp_verdict(x, &p);
	}
	xdp_counters(&x->side[0], &c);
	assert_int_equal(c.reason.pass_default.packets, 5);
	assert_int_equal(c.bucket_full, 0);
	assert_int_equal(c.claims, 1 + 5);
}

static void a_reload_keeps_what_a_destination_owes(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: d, per: destination, rate: 1/s, burst: 5}"));

	(void)state;
	for (int i = 0; i < 5; i++) {
		xdp_pass(x, stranger4("198.51.100.1"));
		xdp_pass(x, stranger6("2001:db8::1"));
	}
	/* beside new ones, in another region of the table */
	xdp_apply(x, LIMITS("{name: s, rate: 100/s}", "{name: w, rate: 100/s, ipv4_prefix: 24}",
			    "{name: d, per: destination, rate: 1/s, burst: 5}"));
	over(x, stranger4("198.51.100.1"));
	over(x, stranger6("2001:db8::1"));
	xdp_apply(x, LIMITS("{name: d, per: destination, rate: 1/s, burst: 8}"));
	for (int i = 0; i < 3; i++)
		xdp_pass(x, stranger4("198.51.100.1"));
	over(x, stranger4("198.51.100.1"));
	/* per source it is another limit */
	xdp_apply(x, LIMITS("{name: d, rate: 1/s, burst: 8}"));
	for (int i = 0; i < 8; i++)
		xdp_pass(x, TO4("198.51.100.1", "203.0.113.1"));
	xdp_drop(x, TO4("198.51.100.1", "203.0.113.1"));
	xdp_expect_limit(x, "d", 8, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_senders_to_one_destination_share_its_budget),
		cmocka_unit_test(prefix_lengths_are_the_destinations),
		cmocka_unit_test(sources_are_judged_first_wherever_they_stand),
		cmocka_unit_test(a_penalised_source_is_charged_to_no_destination),
		cmocka_unit_test(among_destinations_the_order_is_the_files),
		cmocka_unit_test(a_monitor_limit_counts_and_stops_nothing),
		cmocka_unit_test(the_agent_in_monitor_mode_drops_nothing),
		cmocka_unit_test(allowed_sources_and_classes_are_not_charged),
		cmocka_unit_test(fragments_and_tagged_frames_count_for_their_destination),
		cmocka_unit_test(a_destination_is_judged_as_exactly_as_a_source),
		cmocka_unit_test(probing_many_destinations_is_bounded_and_spares_the_busy_one),
		cmocka_unit_test(flooded_destinations_take_no_room_from_sources),
		cmocka_unit_test(a_reload_keeps_what_a_destination_owes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
