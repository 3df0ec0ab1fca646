/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state table: claims, takeovers of idle slots only, full buckets that spill, regions of
 * groups. Tables of one bucket (four slots) make each case certain.
 */
#include <arpa/inet.h>

#include "tests/packet/packet_test.h"

static struct pkt source4(unsigned net, unsigned host)
{
	char text[32];

	snprintf(text, sizeof(text), "198.51.%u.%u", net, host);
	return SRC4(text);
}

static struct pkt source6(unsigned net, unsigned host)
{
	char text[64];

	snprintf(text, sizeof(text), "2001:db8:%x:%x::1", net, host);
	return SRC6(text);
}

static void address_is_in_clear_and_where_people_look(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3}"), 1);

	(void)state;
	xdp_pass(x, SRC4("198.51.100.9"));
	xdp_pass(x, SRC6("2001:db8:1:2:3:4:5:6"));
	for (int i = 0; i < XDP_SIDES; i++) {
		int found = 0;

		for (int w = 0; w < WEIR_WAYS; w++) {
			found += x->side[i].sources[0].slot[w].addr == inet_addr("198.51.100.9");
			found += !memcmp(x->side[i].sources6[0].slot[w].ip,
					 "\x20\x01\x0d\xb8\0\x01\0\x02", 8)
					 ? 16
					 : 0;
		}
		assert_int_equal(found, 17);
	}
	xdp_expect_counter(x, claims, 2);
	xdp_expect_counter(x, takeovers, 0);
}

static void fifth_busy_source_of_a_bucket_spills_to_its_net(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3}"), 1);
		struct pkt (*source)(unsigned, unsigned) = v6 ? source6 : source4;

		for (unsigned h = 1; h <= 4; h++)
			xdp_pass(x, source(1, h));
		xdp_expect_counter(x, bucket_full, 0);
		for (unsigned h = 5; h <= 7; h++)
			xdp_pass(x, source(1, h)); /* one budget for all of them */
		xdp_expect(x, source(1, 8), XDP_DROP, WEIR_DROP_SHARED);
		xdp_expect(x, source(1, 5), XDP_DROP, WEIR_DROP_SHARED);
		xdp_expect_counter(x, bucket_full, 5);
		xdp_pass(x, source(2, 8)); /* another /24 or /48 */
		/* those with a slot keep their own */
		xdp_pass(x, source(1, 1));
		xdp_pass(x, source(1, 1));
		xdp_drop(x, source(1, 1));
		xdp_expect_counter(x, claims, 4);
		xdp_expect_limit(x, "a", 10, 3);
	}
}

static void idle_slot_is_taken_over_and_a_busy_one_never(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3}"), 1);
		struct pkt (*source)(unsigned, unsigned) = v6 ? source6 : source4;

		for (unsigned h = 1; h <= 4; h++)
			for (unsigned k = 0; k < (h == 3 ? 1 : 3); k++)
				xdp_pass(x, source(1, h));
		xdp_advance_ms(x, 1001); /* only the third has paid off its debt */
		xdp_pass(x, source(1, 9));
		xdp_expect_counter(x, takeovers, 1);
		xdp_expect_counter(x, bucket_full, 0);
		xdp_pass(x, source(1, 9));
		xdp_pass(x, source(1, 9));
		xdp_drop(x, source(1, 9));
		for (unsigned h = 1; h <= 4; h++)
			if (h != 3) {
				xdp_pass(
					x,
					source(1,
					       h)); /* the one token of the second that has passed */
				xdp_drop(x, source(1, h));
			}
		xdp_expect_counter(x, takeovers, 1);
	}
}

static void newcomer_begins_with_a_full_burst(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3}"), 1);

	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned h = 1; h <= 4; h++) {
			struct pkt p = source4(round, h);

			assert_int_equal(xdp_send_many(x, &p, 5), 3);
		}
		xdp_advance_ms(x, 3001);
	}
	xdp_expect_counter(x, bucket_full, 0);
	xdp_expect_counter(x, claims, 200);
	xdp_expect_counter(x, takeovers, 196);
}

/* For each kind of limit: how long after one packet its slot may be given away. */
static void slot_is_busy_exactly_as_long_as_its_state_matters(void **state)
{
	static const struct {
		const char *limit;
		uint64_t busy_ms, idle_ms; /* after 10 s, which is the start of a window */
		int packets;
	} c[] = {
		{"{name: a, rate: 1/s, burst: 3}", 990, 1010, 1},
		{"{name: a, rate: 1/s, burst: 3}", 2990, 3010, 3},
		{"{name: a, algorithm: fixed-window, limit: 3, window: 1s}", 999, 1000, 1},
		{"{name: a, algorithm: fixed-window, limit: 3000000, window: 1s}", 999, 1000, 1},
		{"{name: a, algorithm: sliding-window-counter, limit: 3, window: 1s}", 1999, 2000,
		 1},
		{"{name: a, rate: 1000/s, burst: 3, block_for: 5s}", 4990, 5010, 4},
		{"{name: a, algorithm: fixed-window, limit: 3, window: 1s, block_for: 5s}", 4990,
		 5010, 4},
		{"{name: a, algorithm: sliding-window-counter, limit: 3, window: 1s, block_for: "
		 "5s}",
		 4990, 5010, 4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		for (int idle = 0; idle < 2; idle++) {
			struct xdp_run *x = xdp_run_sized(LIMITS(c[i].limit), 1);
			struct pkt p;

			xdp_set_clock(x, 10 * XDP_SECOND);
			for (unsigned h = 1; h <= 4; h++)
				for (int k = 0; k < c[i].packets; k++) {
					p = source4(1, h);
					(void)xdp_verdict(x, &p);
				}
			xdp_expect_counter(x, claims, 4);
			xdp_advance_ms(x, idle ? c[i].idle_ms : c[i].busy_ms);
			xdp_pass(x, source4(1, 5));
			xdp_expect_counter(x, takeovers, (uint64_t)idle);
			xdp_expect_counter(x, bucket_full, (uint64_t)!idle);
		}
}

static void spilled_source_is_never_penalised(void **state)
{
	struct xdp_run *x =
		xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3, block_for: 10s}"), 1);

	(void)state;
	for (unsigned h = 1; h <= 12; h++) /* three each: their slots are busy to the end */
		xdp_pass(x, source4(1, 1 + h % 4));
	for (unsigned h = 5; h <= 7; h++)
		xdp_pass(x, source4(1, h));
	for (int i = 0; i < 3; i++) /* a whole /24 must not be blocked for what one of it did */
		xdp_expect(x, source4(1, 8), XDP_DROP, WEIR_DROP_SHARED);
	xdp_advance_ms(x, 900);
	xdp_expect(x, source4(1, 8), XDP_DROP, WEIR_DROP_SHARED);
	xdp_advance_ms(x, 200);
	xdp_pass(x, source4(1, 8));
	xdp_expect_counter(x, takeovers, 0);
}

static void highest_of_duplicate_slots_counts(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: a, rate: 1/s, burst: 3}"), 1);
	struct pkt p = source4(1, 1);

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 2), 2);
	for (int i = 0; i < XDP_SIDES; i++) { /* two CPUs claimed two slots for one source */
		struct weir_slot4 *s = x->side[i].sources[0].slot;
		int at = 0;

		while (s[at].addr == 0)
			at++;
		s[3] = s[at];
		if (at != 3) {
			s[at].word[0] = 0;
		} else {
			s[0] = s[3];
			s[0].word[0] = 0;
		}
	}
	assert_int_equal(xdp_send_many(x, &p, 5), 1);
}

static void groups_have_slots_of_their_own(void **state)
{
	struct xdp_run *x = xdp_run_sized(
		LIMITS("{name: one, rate: 1/s, burst: 2}",
		       "{name: net, rate: 1/s, burst: 5, ipv4_prefix: 24, ipv6_prefix: 48}"),
		2);

	(void)state;
	xdp_pass(x, source4(1, 1));
	xdp_pass(x, source4(1, 1));
	xdp_drop(x, source4(1, 1));
	xdp_pass(x, source4(1, 2));
	xdp_pass(x, source4(1, 2));
	xdp_pass(x, source4(1, 3));
	xdp_drop(x, source4(1, 3)); /* the net has had five */
	xdp_pass(x, source4(2, 1));
	xdp_expect_counter(x, claims, 6); /* four sources, two nets */
	xdp_expect_counter(x, bucket_full, 0);
}

static void spill_of_one_group_is_no_spill_of_the_next(void **state)
{
	struct xdp_run *x = xdp_run_sized(
		LIMITS("{name: one, rate: 1/s, burst: 9}",
		       "{name: net, rate: 1/s, burst: 5, ipv4_prefix: 24, block_for: 9s}"),
		2);

	(void)state;
	for (unsigned h = 1; h <= 5; h++)
		xdp_pass(x, source4(1, h));
	xdp_expect_counter(x, bucket_full, 1); /* the fifth, of the first group */
	xdp_drop(x, source4(1, 5));
	xdp_expect(x, source4(1, 6), XDP_DROP, WEIR_DROP_PENALTY);
}

static void packet_that_no_limit_matches_claims_no_slot(void **state)
{
	struct xdp_run *x = xdp_run_sized(LIMITS("{name: syn, match: {protocol: tcp, tcp_flags: "
						 "{set: [syn]}}, rate: 9/s, block_for: 10s}"),
					  1);

	(void)state;
	for (unsigned h = 1; h < 20; h++) {
		xdp_pass(x, source4(1, h));
		xdp_pass(x, source6(1, h));
	}
	xdp_expect_counter(x, claims, 0);
	xdp_expect_counter(x, bucket_full, 0);
}

static void four_or_more_limits_go_on_in_another_group(void **state)
{
	struct xdp_run *x = xdp_run_sized(
		LIMITS("{name: a, rate: 1/s, burst: 9}", "{name: b, rate: 1/s, burst: 8}",
		       "{name: c, rate: 1/s, burst: 7}", "{name: d, rate: 1/s, burst: 6}",
		       "{name: e, rate: 1/s, burst: 5}", "{name: f, rate: 1/s, burst: 4}",
		       "{name: g, rate: 1/s, burst: 3}"),
		64);
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 20), 3);
	assert_int_equal(xdp_send_many(x, &p6, 20), 3);
	xdp_expect_limit(x, "a", 18, 22);
	xdp_expect_limit(x, "f", 8, 2);
	xdp_expect_limit(x, "g", 6, 2);
}

static void polite_sources_keep_every_packet_in_a_flood_of_random_ones(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 20}"));
	uint64_t seed = 4711, full;
	struct weir_counters c;
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (int ms = 0; ms < 2000; ms++) {
		for (int i = 0; i < 40; i++) { /* 40 000 new sources a second */
			uint32_t a = (uint32_t)(pkt_random(&seed) >> 16);

			memcpy(p.data + 26, &a, 4);
			assert_true(xdp_send_raw(&x->side[0], p.data, p.len, 1) >= 0);
		}
		if (ms % 20 == 0) /* fifty polite ones, each fifty a second */
			for (uint32_t i = 0; i < 50; i++) {
				uint32_t a = htonl(0xcb007100 + i);

				memcpy(p.data + 26, &a, 4);
				assert_int_equal(xdp_send_raw(&x->side[0], p.data, p.len, 1),
						 XDP_PASS);
			}
		xdp_advance_ms(x, 1);
	}
	xdp_counters(&x->side[0], &c);
	full = c.bucket_full;
	print_message("bucket_full %llu of %llu claims\n", (unsigned long long)full, c.claims);
	assert_true(c.takeovers > 50000 && full < c.claims / 100);
	assert_int_equal(c.reason.drop_limit.packets, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_is_in_clear_and_where_people_look),
		cmocka_unit_test(fifth_busy_source_of_a_bucket_spills_to_its_net),
		cmocka_unit_test(idle_slot_is_taken_over_and_a_busy_one_never),
		cmocka_unit_test(newcomer_begins_with_a_full_burst),
		cmocka_unit_test(slot_is_busy_exactly_as_long_as_its_state_matters),
		cmocka_unit_test(spilled_source_is_never_penalised),
		cmocka_unit_test(highest_of_duplicate_slots_counts),
		cmocka_unit_test(groups_have_slots_of_their_own),
		cmocka_unit_test(spill_of_one_group_is_no_spill_of_the_next),
		cmocka_unit_test(packet_that_no_limit_matches_claims_no_slot),
		cmocka_unit_test(four_or_more_limits_go_on_in_another_group),
		cmocka_unit_test(polite_sources_keep_every_packet_in_a_flood_of_random_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
