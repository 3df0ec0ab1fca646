/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fixed windows and sliding-window counters through the program: never more than the limit in a
 * window, packets and bytes, one word and two, block_for, monitor.
 */
#include "tests/packet/packet_test.h"

static void fixed_window_admits_its_limit_and_no_more(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: w, algorithm: fixed-window, limit: 500, window: 1s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (int w = 1; w < 50; w++) {
		xdp_set_clock(x, (uint64_t)w * XDP_SECOND);
		assert_int_equal(xdp_send_many(x, &p, 400), 400);
		xdp_advance_ns(x, XDP_SECOND - 1);
		assert_int_equal(xdp_send_many(x, &p, 400), 100);
	}
}

static void limit_beyond_one_word_works_the_same(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: w, algorithm: fixed-window, limit: 1100000, window: 10s}"));
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	for (int w = 1; w < 3; w++) {
		xdp_set_clock(x, (uint64_t)w * 10 * XDP_SECOND);
		assert_int_equal(xdp_send_many(x, &p, 800000), 800000);
		assert_int_equal(xdp_send_many(x, &p, 800000), 300000);
		assert_int_equal(xdp_send_many(x, &p6, 1200000), 1100000);
	}
}

static void fixed_window_of_bytes_counts_frames(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS(
		"{name: w, algorithm: fixed-window, limit: 10000 B, window: 1s}",
		"{name: v, algorithm: fixed-window, limit: 10 MB, window: 1s, mode: monitor}"));
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(958)), small = SRC4("198.51.100.1");

	(void)state;
	for (int i = 0; i < 9; i++)
		xdp_pass(x, p);
	for (int i = 0; i < 23; i++) /* 42 bytes each: 1000 - 966 are left */
		xdp_pass(x, small);
	xdp_drop(x, small);
	xdp_drop(x, p);
	xdp_advance_ns(x, XDP_SECOND);
	xdp_pass(x, p);
}

static void older_clock_counts_in_the_stored_window(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: w, algorithm: fixed-window, limit: 10, window: 1s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_set_clock(x, 5 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 20), 10);
	xdp_set_clock(x, 5 * XDP_SECOND - 1); /* another CPU, whose reading is older */
	assert_int_equal(xdp_send_many(x, &p, 20), 0);
	xdp_set_clock(x, 5 * XDP_SECOND + 1);
	assert_int_equal(xdp_send_many(x, &p, 20), 0);
}

static void sliding_counter_forgets_evenly(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: s, algorithm: sliding-window-counter, limit: 100, window: 10s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_set_clock(x, 100 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 100);
	xdp_set_clock(x, 110 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 0); /* the previous one weighs in full */
	xdp_set_clock(x, 115 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 50);
	xdp_set_clock(x, 119 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 40);
	/* 90 were taken in this window: at the start of the next, 10 are left */
	xdp_set_clock(x, 120 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 10);
	/* silent for two windows: all is forgotten */
	xdp_set_clock(x, 145 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 100);
}

static void older_clock_meets_no_share_of_the_window_before(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: s, algorithm: sliding-window-counter, limit: 100, window: 10s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_set_clock(x, 100 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 60), 60);
	xdp_set_clock(x, 110 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 30), 30);
	/* Another CPU's reading is older: 90 count as at the start of the stored window. */
	xdp_set_clock(x, 110 * XDP_SECOND - 1);
	assert_int_equal(xdp_send_many(x, &p, 30), 10);
}

static void sliding_counter_of_bytes_and_ipv6(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS(
		"{name: s, algorithm: sliding-window-counter, limit: 100000 B, window: 1s}"));
	struct pkt p = PKT(ETH(), IP6(), UDP(), PAY(938)); /* 1000 bytes */

	(void)state;
	assert_int_equal(p.len, 1000);
	xdp_set_clock(x, 7 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 100);
	xdp_set_clock(x, 8 * XDP_SECOND + XDP_SECOND / 4);
	assert_int_equal(xdp_send_many(x, &p, 150), 25);
}

static void windows_block_for_a_fixed_time(void **state)
{
	static const char *const limit[] = {
		"{name: w, algorithm: fixed-window, limit: 5, window: 1s, match: {protocol: udp}, "
		"block_for: 10s}",
		"{name: w, algorithm: sliding-window-counter, limit: 5, window: 1s, match: "
		"{protocol: udp}, block_for: 10s}",
	};
	struct pkt p = SRC4("198.51.100.1"), icmp = PKT(ETH(), IP4(), ICMP4());

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct xdp_run *x = xdp_run(LIMITS(limit[i]));
		int blocked = 0;

		xdp_set_clock(x, 20 * XDP_SECOND);
		assert_int_equal(xdp_send_many(x, &p, 5), 5);
		xdp_pass(x, icmp);
		xdp_drop(x, p);
		xdp_expect(x, icmp, XDP_DROP, WEIR_DROP_PENALTY);
		for (; blocked < 300 && xdp_verdict(x, &p) == WEIR_DROP_PENALTY; blocked++)
			xdp_advance_ms(x, 100);
		assert_in_range(blocked, 100, 101);
		xdp_pass(x, icmp);
		xdp_pass(x, p);
	}
}

static void monitor_windows_stop_nothing(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: f, algorithm: fixed-window, limit: 3, window: 1s, mode: monitor}",
		       "{name: s, algorithm: sliding-window-counter, limit: 2, window: 1s, mode: "
		       "monitor, block_for: 3s}"));
	struct pkt p = SRC6("2001:db8::1");

	(void)state;
	for (int i = 0; i < 10; i++)
		xdp_pass(x, p);
	xdp_expect_limit(x, "f", 3, 7);
	xdp_expect_limit(x, "s", 2, 8);
}

/* Any second of a flood across many edges: 2 * limit is the most a fixed window gives. */
static void no_window_ever_admits_more_than_its_limit(void **state)
{
	static const char *const limit[] = {
		"{name: w, algorithm: fixed-window, limit: 97, window: 700ms}",
		"{name: w, algorithm: sliding-window-counter, limit: 97, window: 700ms}",
	};
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct xdp_run *x = xdp_run(LIMITS(limit[i]));
		uint64_t seed = 77, window = 0, got = 0;

		for (int k = 0; k < 4000; k++) {
			uint64_t w = x->now_ns / 700000000;

			if (w != window)
				got = 0;
			window = w;
			got += xdp_send_many(x, &p, (uint32_t)(pkt_random(&seed) % 9));
			assert_true(got <= 97);
			xdp_advance_ns(x, pkt_random(&seed) % 20000000);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fixed_window_admits_its_limit_and_no_more),
		cmocka_unit_test(limit_beyond_one_word_works_the_same),
		cmocka_unit_test(fixed_window_of_bytes_counts_frames),
		cmocka_unit_test(older_clock_counts_in_the_stored_window),
		cmocka_unit_test(sliding_counter_forgets_evenly),
		cmocka_unit_test(older_clock_meets_no_share_of_the_window_before),
		cmocka_unit_test(sliding_counter_of_bytes_and_ipv6),
		cmocka_unit_test(windows_block_for_a_fixed_time),
		cmocka_unit_test(monitor_windows_stop_nothing),
		cmocka_unit_test(no_window_ever_admits_more_than_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
