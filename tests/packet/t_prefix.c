/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who counts as one source: prefix lengths of both families, NAT64, and that neighbours never
 * share.
 */
#include "tests/packet/packet_test.h"

static const char *limit_of(int family, int len)
{
	static char text[128];

	snprintf(text, sizeof(text), "{name: a, rate: 1/s, burst: 1, ipv%d_prefix: %d}", family,
		 len);
	return text;
}

/* @a spends the budget; @inside must share it, @outside must not. */
static void share(const char *limit, struct pkt a, struct pkt inside, struct pkt outside)
{
	struct xdp_run *x = xdp_run(LIMITS(limit));

	xdp_pass(x, a);
	xdp_drop(x, inside);
	xdp_drop(x, a);
	xdp_pass(x, outside);
}

static void ipv4_prefix_lengths(void **state)
{
	static const struct {
		int len;
		const char *inside, *outside;
	} c[] = {
		{32, "198.51.100.129", "198.51.100.128"},
		{31, "198.51.100.128", "198.51.100.130"},
		{24, "198.51.100.0", "198.51.101.129"},
		{16, "198.51.0.1", "198.50.100.129"},
		{9, "198.0.0.1", "198.128.0.1"},
		{8, "198.255.255.255", "199.51.100.129"},
		{1, "255.0.0.1", "127.0.0.1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		share(limit_of(4, c[i].len), SRC4("198.51.100.129"), SRC4(c[i].inside),
		      SRC4(c[i].outside));
}

static void ipv6_prefix_lengths(void **state)
{
	static const struct {
		int len;
		const char *inside, *outside;
	} c[] = {
		{128, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:7"},
		{127, "2001:db8:1:2:3:4:5:7", "2001:db8:1:2:3:4:5:4"},
		{96, "2001:db8:1:2:3:4:ffff:1", "2001:db8:1:2:3:5::6"},
		{65, "2001:db8:1:2:7fff::1", "2001:db8:1:2:8000::"},
		{64, "2001:db8:1:2:ffff::", "2001:db8:1:3:3:4:5:6"},
		{63, "2001:db8:1:3::1", "2001:db8:1:4::1"},
		{56, "2001:db8:1:ff::1", "2001:db8:1:100::1"},
		{48, "2001:db8:1:ffff::1", "2001:db8:2::1"},
		{32, "2001:db8:ffff::1", "2001:db9::1"},
		{8, "20ff::1", "2101::1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		share(limit_of(6, c[i].len), SRC6("2001:db8:1:2:3:4:5:6"), SRC6(c[i].inside),
		      SRC6(c[i].outside));
}

static void default_is_32_and_64(void **state)
{
	(void)state;
	share("{name: a, rate: 1/s, burst: 1}", SRC4("198.51.100.1"), SRC4("198.51.100.1"),
	      SRC4("198.51.100.2"));
	share("{name: a, rate: 1/s, burst: 1}", SRC6("2001:db8::1"), SRC6("2001:db8::ffff:1"),
	      SRC6("2001:db8:0:1::1"));
}

static void prefix_0_is_everybody(void **state)
{
	struct xdp_run *x =
		xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1, ipv4_prefix: 0, ipv6_prefix: 0}"));

	(void)state;
	xdp_pass(x, SRC4("198.51.100.1"));
	xdp_drop(x, SRC4("1.2.3.4"));
	xdp_pass(x, SRC6("2001:db8::1"));
	xdp_drop(x, SRC6("fd00::1"));
}

static void address_zero_and_all_ones_are_limited(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_pass(x, SRC4("0.0.0.0"));
	xdp_drop(x, SRC4("0.0.0.0"));
	xdp_pass(x, SRC6("::"));
	xdp_drop(x, SRC6("::"));
	xdp_drop(x, SRC6("::1")); /* of the same /64 */
	xdp_pass(x, SRC6("ffff:ffff:ffff:fffe::"));
	xdp_drop(x, SRC6("ffff:ffff:ffff:fffe::"));
}

static void hosts_behind_nat64_are_apart(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1/s, burst: 1}"));

	(void)state;
	xdp_pass(x, SRC6("64:ff9b::198.51.100.1"));
	xdp_drop(x, SRC6("64:ff9b::198.51.100.1"));
	xdp_pass(x, SRC6("64:ff9b::198.51.100.2"));
	xdp_pass(x, SRC6("64:ff9b::203.0.113.1"));
	/* only the /96 of RFC 6052 */
	xdp_pass(x, SRC6("64:ff9b:1::198.51.100.1"));
	xdp_drop(x, SRC6("64:ff9b:1::198.51.100.2"));
}

static void a_64_with_random_hosts_shares_one_budget(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 10/s, burst: 100}"));
	struct pkt p = SRC6("2001:db8:7::1");
	uint64_t seed = 9, passed = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		for (int k = 0; k < 8; k++)
			p.data[14 + 8 + 8 + k] = (uint8_t)(pkt_random(&seed) >> 40);
		passed += xdp_verdict(x, &p) == WEIR_PASS_DEFAULT;
	}
	assert_int_equal(passed, 100);
}

static void ladder_of_prefixes(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: p64, rate: 1/s, burst: 2, ipv6_prefix: 64}",
					   "{name: p56, rate: 1/s, burst: 3, ipv6_prefix: 56}",
					   "{name: p48, rate: 1/s, burst: 5, ipv6_prefix: 48}"));

	(void)state;
	xdp_pass(x, SRC6("2001:db8:1:1::1"));
	xdp_pass(x, SRC6("2001:db8:1:1::2"));
	xdp_drop(x, SRC6("2001:db8:1:1::3")); /* its /64 */
	xdp_pass(x, SRC6("2001:db8:1:2::1"));
	xdp_drop(x, SRC6("2001:db8:1:3::1")); /* its /56 */
	xdp_pass(x, SRC6("2001:db8:1:100::1"));
	xdp_pass(x, SRC6("2001:db8:1:101::1"));
	xdp_drop(x, SRC6("2001:db8:1:200::1")); /* its /48 */
	xdp_pass(x, SRC6("2001:db8:2::1"));
	xdp_expect_limit(x, "p64", 8, 1);
	xdp_expect_limit(x, "p56", 7, 1);
	xdp_expect_limit(x, "p48", 6, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_prefix_lengths),
		cmocka_unit_test(ipv6_prefix_lengths),
		cmocka_unit_test(default_is_32_and_64),
		cmocka_unit_test(prefix_0_is_everybody),
		cmocka_unit_test(address_zero_and_all_ones_are_limited),
		cmocka_unit_test(hosts_behind_nat64_are_apart),
		cmocka_unit_test(a_64_with_random_hosts_shares_one_budget),
		cmocka_unit_test(ladder_of_prefixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
