/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Policies as a whole: the built-in one, 32 limits, and that a new one keeps the state of every
 * limit that is still the same one.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tests/packet/packet_test.h"

static void object_alone_has_modest_limits(void **state)
{
	struct xdp_run *x = xdp_run_builtin();
	struct pkt syn = PKT(ETH(), IP4(), TCP(.syn = true));
	struct pkt udp = PKT(ETH(), IP4(.src = "198.51.100.2"), UDP());
	struct pkt syn6 = PKT(ETH(), IP6(), TCP(.syn = true)), udp6 = SRC6("2001:db8:9::1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &syn, 1000), 400);
	xdp_expect(x, syn, XDP_DROP, WEIR_DROP_LIMIT);
	xdp_pass(x, PKT(ETH(), IP4(), TCP(.syn = true, .ack = true)));
	assert_int_equal(xdp_send_many(x, &syn6, 1000), 400);
	assert_int_equal(xdp_send_many(x, &udp, 30000), 20000);
	assert_int_equal(xdp_send_many(x, &udp6, 30000), 20000);
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 2)), XDP_DROP, WEIR_DROP_IP4_HEADER);
	xdp_advance_ms(x, 1000);
	assert_int_equal(xdp_send_many(x, &syn, 1000), 200);
	assert_int_equal(xdp_send_many(x, &udp, 30000), 20000);
}

static void object_alone_makes_its_own_seeds(void **state)
{
	struct xdp_run *x = xdp_run_builtin();
	struct weir_meta none = {0}, m[XDP_SIDES];
	uint32_t zero = 0;

	(void)state;
	for (int i = 0; i < XDP_SIDES; i++)
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(x->side[i].skel->maps.meta), &zero,
						     &none, BPF_ANY),
				 0);
	for (int k = 0; k < 3; k++)
		xdp_pass(x, SRC4("198.51.100.1"));
	for (int i = 0; i < XDP_SIDES; i++) {
		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(x->side[i].skel->maps.meta), &zero,
						     &m[i]),
				 0);
		assert_int_equal(m[i].magic, WEIR_MAGIC);
		assert_int_equal(m[i].abi, WEIR_ABI);
		for (int k = 0; k < 3; k++)
			assert_true(m[i].seed[k] & 1);
	}
	assert_memory_not_equal(m[0].seed, m[1].seed, sizeof(m[0].seed));
	xdp_expect_counter(x, claims, 1);
}

static const char *many(int n)
{
	static char text[8192];
	int at = snprintf(text, sizeof(text), "interfaces: [eth0]\npacket_limits:\n");

	for (int i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "  - {name: l%d, rate: 1/s, burst: %d}\n", i, 100 - i);
	return text;
}

static void thirty_two_limits_that_all_match_are_all_charged(void **state)
{
	struct xdp_run *x = xdp_run(many(32));
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 80), 69);
	xdp_expect_limit(x, "l0", 80, 0);
	xdp_expect_limit(x, "l30", 70, 1); /* the others were refused by those before it */
	xdp_expect_limit(x, "l31", 69, 1);
	assert_int_equal(xdp_send_many(x, &p6, 69), 69);
	xdp_expect_limit(x, "l0", 149, 0);
	xdp_expect_limit(x, "l31", 138, 1);
}

static void new_burst_keeps_what_was_charged(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 5}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 9), 5);
	xdp_apply(x, LIMITS("{name: a, rate: 1/s, burst: 8}"));
	assert_int_equal(xdp_send_many(x, &p, 9), 3);
	xdp_apply(x, LIMITS("{name: a, rate: 1/s, burst: 2}")); /* the debt is clamped to it */
	xdp_drop(x, p);
	xdp_advance_ms(x, 1001);
	assert_int_equal(xdp_send_many(x, &p, 9), 1);
	xdp_advance_ms(x, 2001);
	assert_int_equal(xdp_send_many(x, &p, 9), 2);
}

static void new_rate_keeps_what_was_charged(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 5}"));
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 5), 5);
	assert_int_equal(xdp_send_many(x, &p6, 4), 4);
	xdp_apply(x, LIMITS("{name: a, rate: 1000/s, burst: 5}"));
	xdp_drop(x, p);
	assert_int_equal(xdp_send_many(x, &p6, 9), 1);
	xdp_advance_ms(x, 6);
	assert_int_equal(xdp_send_many(x, &p, 9), 5);
}

static void order_and_neighbours_do_not_matter_to_state(void **state)
{
	struct xdp_run *x = xdp_run(
		LIMITS("{name: a, rate: 1/s, burst: 5}", "{name: b, rate: 1/s, burst: 7}",
		       "{name: w, algorithm: sliding-window-counter, limit: 9, window: 60s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	assert_int_equal(xdp_send_many(x, &p, 3), 3);
	xdp_apply(x, LIMITS("{name: new, rate: 1/s, burst: 50}",
			    "{name: w, algorithm: sliding-window-counter, limit: 9, window: 60s}",
			    "{name: b, rate: 1/s, burst: 7}", "{name: a, rate: 1/s, burst: 5}"));
	assert_int_equal(xdp_send_many(x, &p, 9), 2); /* of a */
	xdp_apply(x, LIMITS("{name: w, algorithm: sliding-window-counter, limit: 9, window: 60s}"));
	/* 3, then 7 were charged up to b's seventh: nine in all fill it */
	xdp_drop(x, p);
	xdp_apply(x, LIMITS("{name: b, rate: 1/s, burst: 7}"));
	xdp_pass(x, p); /* b went with the last policy and begins anew */
}

static void another_name_window_or_algorithm_begins_empty(void **state)
{
	static const char *const next[] = {
		"{name: b, algorithm: fixed-window, limit: 3, window: 60s}",
		"{name: a, algorithm: fixed-window, limit: 3, window: 61s}",
		"{name: a, algorithm: sliding-window-counter, limit: 3, window: 60s}",
		"{name: a, rate: 1/s, burst: 3}",
		"{name: a, algorithm: fixed-window, limit: 3, window: 60s, ipv4_prefix: 31}",
	};
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		struct xdp_run *x = xdp_run(
			LIMITS("{name: a, algorithm: fixed-window, limit: 3, window: 60s}"));

		assert_int_equal(xdp_send_many(x, &p, 9), 3);
		xdp_apply(x, LIMITS("{name: a, algorithm: fixed-window, limit: 3, window: 60s}"));
		xdp_drop(x, p);
		xdp_apply(x, LIMITS("{name: a, algorithm: fixed-window, limit: 5, window: 60s}"));
		assert_int_equal(xdp_send_many(x, &p, 9), 2);
		xdp_apply(x, LIMITS(next[i]));
		assert_int_equal(xdp_send_many(x, &p, 9), 3);
	}
}

static void block_for_survives_a_new_policy(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 2, block_for: 10s}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	(void)xdp_send_many(x, &p, 5);
	xdp_advance_ms(x, 1000);
	xdp_apply(x, LIMITS("{name: other, rate: 1000/s}",
			    "{name: a, rate: 100/s, burst: 2, block_for: 10s}"));
	xdp_expect(x, p, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_advance_ms(x, 8900);
	xdp_expect(x, p, XDP_DROP, WEIR_DROP_PENALTY);
	xdp_advance_ms(x, 200);
	xdp_pass(x, p);
}

static void whole_new_lists_are_the_same_lists(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_block(x, "198.51.100.0/24", 0);
	xdp_pass(x, SRC4("203.0.113.1"));
	for (int i = 0; i < 3; i++) {
		xdp_swap_lists(x);
		xdp_expect(x, SRC4("198.51.100.7"), XDP_DROP, WEIR_DROP_BLOCK);
		xdp_drop(x, SRC4("203.0.113.1")); /* and limits keep their state */
	}
}

static void missing_tables_pass_and_are_counted(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_drop_tables(x);
	for (int i = 0; i < 3; i++) {
		xdp_expect(x, SRC4("198.51.100.1"), XDP_PASS, WEIR_PASS_NO_STATE);
		xdp_expect(x, SRC6("2001:db8::1"), XDP_PASS, WEIR_PASS_NO_STATE);
	}
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 1)), XDP_DROP, WEIR_DROP_IP4_HEADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_alone_has_modest_limits),
		cmocka_unit_test(object_alone_makes_its_own_seeds),
		cmocka_unit_test(thirty_two_limits_that_all_match_are_all_charged),
		cmocka_unit_test(new_burst_keeps_what_was_charged),
		cmocka_unit_test(new_rate_keeps_what_was_charged),
		cmocka_unit_test(order_and_neighbours_do_not_matter_to_state),
		cmocka_unit_test(another_name_window_or_algorithm_begins_empty),
		cmocka_unit_test(block_for_survives_a_new_policy),
		cmocka_unit_test(whole_new_lists_are_the_same_lists),
		cmocka_unit_test(missing_tables_pass_and_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
