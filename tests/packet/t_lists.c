/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allow, block and guard lists through the program, and expiry by its own clock. */
#include "tests/packet/packet_test.h"

#define NO_LIMIT_HIT LIMITS("{name: a, rate: 1000000/s}")

static void block_drops_and_allow_beats_it_at_any_length(void **state)
{
	static const char *const wide[] = {"198.51.100.7/32", "198.51.100.0/24", "198.0.0.0/8",
					   "0.0.0.0/0"};

	(void)state;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++) {
			struct xdp_run *x = xdp_run(NO_LIMIT_HIT);

			xdp_block(x, wide[i], 0);
			xdp_expect(x, SRC4("198.51.100.7"), XDP_DROP, WEIR_DROP_BLOCK);
			xdp_allow(x, wide[j], 0);
			xdp_expect(x, SRC4("198.51.100.7"), XDP_PASS, WEIR_PASS_ALLOW);
		}
}

static void allow_skips_the_limits(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_allow(x, "198.51.100.0/24", 0);
	for (int i = 0; i < 5; i++)
		xdp_expect(x, SRC4("198.51.100.1"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_expect_limit(x, "a", 0, 0);
	xdp_pass(x, SRC4("203.0.113.1"));
	xdp_drop(x, SRC4("203.0.113.1"));
}

static void lists_in_the_configuration_are_in_force(void **state)
{
	struct xdp_run *x = xdp_run("interfaces: [eth0]\n"
				    "lists:\n"
				    "  allow: [192.0.2.0/24, \"2001:db8:1::/48\"]\n"
				    "  block: [192.0.2.7, 198.51.100.7, \"2001:db8::/32\"]\n"
				    "packet_limits:\n"
				    "  - {name: a, rate: 1000/s}\n");

	(void)state;
	xdp_expect(x, SRC4("192.0.2.7"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_expect(x, SRC4("198.51.100.7"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_pass(x, SRC4("198.51.100.8"));
	xdp_expect(x, SRC6("2001:db8:1::9"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_expect(x, SRC6("2001:db8:2::9"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_pass(x, SRC6("2001:db9::1"));
}

/* First and last address of the prefix, and their neighbours outside. */
static void every_ipv4_prefix_length_covers_exactly_its_addresses(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);
	const uint32_t base = 0xc6336480; /* 198.51.100.128 */

	(void)state;
	for (uint32_t len = 1; len <= 32; len++) {
		uint32_t mask = ~(uint32_t)0 << (32 - len), first = base & mask,
			 last = first | ~mask;
		uint32_t probe[4] = {first, last, first - 1, last + 1};
		char text[64];

		snprintf(text, sizeof(text), "%u.%u.%u.%u/%u", first >> 24, first >> 16 & 255,
			 first >> 8 & 255, first & 255, len);
		xdp_clear_lists(x);
		xdp_block(x, text, 0);
		for (int i = 0; i < 4; i++) {
			snprintf(text, sizeof(text), "%u.%u.%u.%u", probe[i] >> 24,
				 probe[i] >> 16 & 255, probe[i] >> 8 & 255, probe[i] & 255);
			if (i < 2)
				xdp_expect(x, SRC4(text), XDP_DROP, WEIR_DROP_BLOCK);
			else
				xdp_pass(x, SRC4(text));
		}
	}
}

static void every_ipv6_prefix_length_covers_exactly_its_addresses(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);
	struct pkt inside = SRC6("2001:db8:1234:5678:9abc:def0:1234:5678");
	const uint32_t at = 14 + 8;

	(void)state;
	for (uint32_t len = 1; len <= 128; len++) {
		struct pkt low = inside, high = inside, out = inside;
		char text[80];
		int n = 0;

		for (uint32_t bit = len; bit < 128; bit++) {
			low.data[at + bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
			high.data[at + bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		}
		out.data[at + (len - 1) / 8] ^= (uint8_t)(0x80 >> (len - 1) % 8);
		for (int i = 0; i < 16; i += 2)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%x", i ? ":" : "",
				      low.data[at + i] << 8 | low.data[at + i + 1]);
		snprintf(text + n, sizeof(text) - (size_t)n, "/%u", len);
		xdp_clear_lists(x);
		xdp_block(x, text, 0);
		xdp_expect(x, low, XDP_DROP, WEIR_DROP_BLOCK);
		xdp_expect(x, high, XDP_DROP, WEIR_DROP_BLOCK);
		xdp_expect(x, inside, XDP_DROP, WEIR_DROP_BLOCK);
		xdp_pass(x, out);
	}
}

static void everything_can_be_blocked_but_what_is_allowed(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);

	(void)state;
	xdp_block(x, "::/0", 0);
	xdp_allow(x, "2001:db8::/32", 0);
	xdp_expect(x, SRC6("2001:db9::1"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, SRC6("2001:db8::1"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_pass(x, SRC4("198.51.100.1")); /* the other family is not meant */
	xdp_block(x, "0.0.0.0/0", 0);
	xdp_expect(x, SRC4("198.51.100.1"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), ARP()), XDP_PASS, WEIR_PASS_ARP);
	xdp_expect(x, PKT(ETH(), PAY(46)), XDP_PASS, WEIR_PASS_NON_IP);
}

static void entries_expire_without_an_agent(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);

	(void)state;
	xdp_block(x, "198.51.100.1", 1000);
	xdp_block(x, "198.51.100.0/24", 500);
	xdp_allow(x, "203.0.113.0/24", 1000);
	xdp_block(x, "203.0.113.9", 0);
	xdp_expect(x, SRC4("198.51.100.2"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, SRC4("203.0.113.9"), XDP_PASS, WEIR_PASS_ALLOW);
	xdp_advance_ms(x, 499);
	xdp_expect(x, SRC4("198.51.100.2"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_advance_ms(x, 1);
	xdp_pass(x, SRC4("198.51.100.2"));
	xdp_expect(x, SRC4("198.51.100.1"), XDP_DROP,
		   WEIR_DROP_BLOCK); /* its longer entry holds on */
	xdp_advance_ms(x, 500);
	xdp_pass(x, SRC4("198.51.100.1"));
	xdp_expect(x, SRC4("203.0.113.9"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_advance_ns(x, 1000 * 24 * 60 * XDP_MINUTE);
	xdp_expect(x, SRC4("203.0.113.9"), XDP_DROP, WEIR_DROP_BLOCK);
}

static void guarded_address_cannot_be_blocked_but_by_force(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);

	(void)state;
	xdp_guard(x, "198.51.100.53");
	xdp_guard(x, "2001:db8:53::/48");
	xdp_block(x, "198.51.100.0/24", 0);
	xdp_block(x, "2001:db8::/32", 0);
	xdp_expect(x, SRC4("198.51.100.54"), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_pass(x, SRC4("198.51.100.53"));
	xdp_expect_counter(x, guarded, 1);
	xdp_pass(x, SRC6("2001:db8:53::1"));
	xdp_expect_counter(x, guarded, 2);
	xdp_block_force(x, "198.51.100.53");
	xdp_expect(x, SRC4("198.51.100.53"), XDP_DROP, WEIR_DROP_BLOCK);
}

static void guarded_address_meets_limits_but_no_penalty(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 100/s, burst: 2, block_for: 60s}"));
	struct pkt p = SRC4("198.51.100.53");

	(void)state;
	xdp_guard(x, "198.51.100.53");
	xdp_pass(x, p);
	xdp_pass(x, p);
	xdp_drop(x, p);
	xdp_drop(x, p); /* over the limit, but no penalty */
	xdp_advance_ms(x, 11);
	xdp_pass(x, p);
	xdp_expect_counter(x, guarded, 2);
}

static void tags_and_extension_headers_are_no_way_round(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);

	(void)state;
	xdp_block(x, "198.51.100.1", 0);
	xdp_block(x, "2001:db8:1::1", 0);
	xdp_expect(x, PKT(ETH(), VLAN(), VLAN(), IP4(), UDP()), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), IP4(.opt_len = 40), TCP()), XDP_DROP, WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), IP4(.frag_off = 9, .proto = 17), PAY(9)), XDP_DROP,
		   WEIR_DROP_BLOCK);
	xdp_expect(x, PKT(ETH(), IP6(), IP6_EXT(), FRAG(.off = 4, .next = 6), PAY(9)), XDP_DROP,
		   WEIR_DROP_BLOCK);
}

static void many_prefix_lengths_at_once(void **state)
{
	struct xdp_run *x = xdp_run(NO_LIMIT_HIT);
	char text[64];

	(void)state;
	for (unsigned len = 1; len <= 32; len++) { /* 10.len.0.0 and the like */
		uint32_t a = 0x80000000u | len << 16, m = ~(uint32_t)0 << (32 - len);

		if (len < 16)
			continue;
		a &= m;
		snprintf(text, sizeof(text), "%u.%u.%u.%u/%u", a >> 24, a >> 16 & 255, a >> 8 & 255,
			 a & 255, len);
		xdp_block(x, text, 0);
	}
	for (unsigned len = 16; len <= 32; len++) {
		snprintf(text, sizeof(text), "128.%u.0.0", len);
		xdp_expect(x, SRC4(text), XDP_DROP, WEIR_DROP_BLOCK);
	}
	xdp_pass(x, SRC4("128.33.0.0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_drops_and_allow_beats_it_at_any_length),
		cmocka_unit_test(allow_skips_the_limits),
		cmocka_unit_test(lists_in_the_configuration_are_in_force),
		cmocka_unit_test(every_ipv4_prefix_length_covers_exactly_its_addresses),
		cmocka_unit_test(every_ipv6_prefix_length_covers_exactly_its_addresses),
		cmocka_unit_test(everything_can_be_blocked_but_what_is_allowed),
		cmocka_unit_test(entries_expire_without_an_agent),
		cmocka_unit_test(guarded_address_cannot_be_blocked_but_by_force),
		cmocka_unit_test(guarded_address_meets_limits_but_no_penalty),
		cmocka_unit_test(tags_and_extension_headers_are_no_way_round),
		cmocka_unit_test(many_prefix_lengths_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
