/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sampled drops: what an event says, the cap of each second, and that what is not sent is counted.
 */
#include <arpa/inet.h>

#include "tests/packet/packet_test.h"

/* No caps but this one: the policy as compiled, with another number of events. */
static void cap(struct xdp_run *x, uint32_t per_second)
{
	x->compiled->policy.events_per_second = per_second;
	xdp_put_policy(x, &x->compiled->policy);
}

static void event_says_all_of_a_packet(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	const struct weir_event *e;
	struct pkt p = PKT(ETH(), VLAN(.id = 42), IP4(.src = "198.51.100.9", .dst = "192.0.2.7"),
			   TCP(.sport = 1234, .dport = 443, .syn = true), PAY(10));

	(void)state;
	cap(x, 1000);
	xdp_set_clock(x, 77 * XDP_SECOND);
	xdp_pass(x, p);
	assert_int_equal(xdp_events(x, &e), 0); /* only drops */
	xdp_drop(x, p);
	assert_int_equal(xdp_events(x, &e), 1);
	assert_int_equal(e->src.word[0], inet_addr("198.51.100.9"));
	assert_int_equal(e->dst.word[0], inet_addr("192.0.2.7"));
	assert_int_equal(e->len, p.len);
	assert_int_equal(e->sport, 1234);
	assert_int_equal(e->dport, 443);
	assert_int_equal(e->vlan, 42);
	assert_int_equal(e->reason, WEIR_DROP_LIMIT);
	assert_int_equal(e->stat, x->compiled->policy.limit[0].stat);
	assert_int_equal(e->family, 4);
	assert_int_equal(e->protocol, 6);
	assert_int_equal(e->tcp_flags, 2);
	assert_int_equal(e->fragment, WEIR_FRAG_NONE);
	assert_int_equal(e->monitor, 0);
	assert_int_equal(e->time_ns, 77 * XDP_SECOND);
}

static void drops_without_a_limit_say_so(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	const struct weir_event *e;

	(void)state;
	cap(x, 1000);
	xdp_block(x, "2001:db8::/32", 0);
	xdp_expect(x, SRC6("2001:db8:5::6"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), IP4(.ihl = 1)), XDP_DROP, WEIR_DROP_IP4_HEADER);
	assert_int_equal(xdp_events(x, &e), 2);
	assert_int_equal(e[0].reason, WEIR_DROP_BLOCK);
	assert_int_equal(e[0].stat, WEIR_NO_LIMIT);
	assert_int_equal(e[0].family, 6);
	assert_memory_equal(e[0].src.ip, "\x20\x01\x0d\xb8\0\x05\0\0\0\0\0\0\0\0\0\x06", 16);
	assert_int_equal(e[1].reason, WEIR_DROP_IP4_HEADER);
}

static void monitor_mode_says_what_it_would_have_dropped(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	const struct weir_event *e;

	(void)state;
	xdp_set_mode(x, true);
	cap(x, 1000);
	xdp_pass(x, SRC4("198.51.100.1"));
	xdp_expect(x, SRC4("198.51.100.1"), XDP_PASS, WEIR_PASS_MONITOR);
	assert_int_equal(xdp_events(x, &e), 1);
	assert_int_equal(e->reason, WEIR_DROP_LIMIT);
	assert_int_equal(e->monitor, 1);
}

static void cap_holds_each_second_and_the_rest_is_counted(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	struct pkt p = SRC4("198.51.100.1");
	const struct weir_event *e;
	struct weir_counters c;

	(void)state;
	cap(x, 5);
	for (int s = 0; s < 3; s++) {
		size_t n;

		for (int i = 0; i < 40; i++)
			(void)xdp_verdict(x, &p);
		n = xdp_events(x, &e);
		/* the cap is per CPU, and the test may have moved from one to another */
		assert_in_range(n, 5, 40);
		xdp_advance_ms(x, 1100);
	}
	for (int i = 0; i < XDP_SIDES; i++) {
		xdp_counters(&x->side[i], &c);
		assert_int_equal(c.events_sent + c.events_capped, c.reason.drop_limit.packets);
		assert_int_equal(c.events_lost, 0);
		assert_true(c.events_capped > 0);
	}
}

static void zero_means_none(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	struct pkt p = SRC4("198.51.100.1");
	const struct weir_event *e;

	(void)state;
	cap(x, 0);
	(void)xdp_send_many(x, &p, 50);
	assert_int_equal(xdp_events(x, &e), 0);
	xdp_expect_counter(x, events_sent, 0);
	xdp_expect_counter(x, events_capped, 0);
}

static void full_ring_is_counted_and_stops_no_verdict(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));
	struct pkt p = SRC4("198.51.100.1");
	const struct weir_event *e;
	struct weir_counters c;

	(void)state;
	cap(x, 1u << 30);
	assert_int_equal(xdp_send_many(x, &p, 20001), 1);
	for (int i = 0; i < XDP_SIDES; i++) {
		xdp_counters(&x->side[i], &c);
		assert_int_equal(c.reason.drop_limit.packets, 20000);
		assert_int_equal(c.events_sent + c.events_lost, 20000);
		assert_true(c.events_lost > 1000 && c.events_sent > 1000);
	}
	assert_true(xdp_events(x, &e) > 1000);
	xdp_drop(x, p); /* there is room again */
	assert_int_equal(xdp_events(x, &e), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_says_all_of_a_packet),
		cmocka_unit_test(drops_without_a_limit_say_so),
		cmocka_unit_test(monitor_mode_says_what_it_would_have_dropped),
		cmocka_unit_test(cap_holds_each_second_and_the_rest_is_counted),
		cmocka_unit_test(zero_means_none),
		cmocka_unit_test(full_ring_is_counted_and_stops_no_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
