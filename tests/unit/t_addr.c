/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/base/addr.h: addresses and prefixes as text and bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/prefix.h"
#include "user/base/addr.h"
#include "user/base/cleanup.h"

static void text_survives_a_round_trip(void **state)
{
	static const char *const texts[] = {"192.0.2.7",
					    "192.0.2.0/24",
					    "0.0.0.0/0",
					    "255.255.255.255",
					    "10.0.0.0/8",
					    "2001:db8::/32",
					    "2001:db8::1",
					    "::/0",
					    "::1",
					    "fe80::/10",
					    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"};
	char buf[WEIR_PREFIX_STRLEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct weir_prefix p = prefix_of(texts[i]);

		assert_string_equal(weir_prefix_format(&p, buf), texts[i]);
	}
}

static void full_length_is_the_address_itself(void **state)
{
	struct weir_prefix a = prefix_of("192.0.2.7/32"), b = prefix_of("192.0.2.7");

	(void)state;
	assert_memory_equal(&a, &b, sizeof(a));
	a = prefix_of("2001:db8::1/128");
	b = prefix_of("2001:db8::1");
	assert_memory_equal(&a, &b, sizeof(a));
}

static void mapped_addresses_are_ipv4(void **state)
{
	struct weir_prefix a = prefix_of("::ffff:192.0.2.1"), b = prefix_of("192.0.2.1");

	(void)state;
	assert_memory_equal(&a, &b, sizeof(a));
	a = prefix_of("::ffff:192.0.2.0/120");
	b = prefix_of("192.0.2.0/24");
	assert_memory_equal(&a, &b, sizeof(a));
	a = prefix_of("::ffff:0:0/96");
	b = prefix_of("0.0.0.0/0");
	assert_memory_equal(&a, &b, sizeof(a));
	a = prefix_of("::/80"); /* wider than the mapped range: stays IPv6 */
	assert_int_equal(a.family, 6);
}

static void host_bits_are_refused(void **state)
{
	struct weir_prefix p = {.len = 99};
	char buf[WEIR_PREFIX_STRLEN];

	(void)state;
	assert_int_equal(weir_prefix_parse("192.0.2.1/24", 12, false, &p), -EDOM);
	assert_int_equal(p.len, 99);
	assert_int_equal(weir_prefix_parse("192.0.2.1/24", 12, true, &p), 0);
	assert_string_equal(weir_prefix_format(&p, buf), "192.0.2.0/24");
	assert_int_equal(weir_prefix_parse("2001:db8::1/64", 14, false, &p), -EDOM);
	assert_int_equal(weir_prefix_parse("192.0.2.129/25", 14, false, &p), -EDOM);
	assert_int_equal(weir_prefix_parse("192.0.2.128/25", 14, false, &p), 0);
}

static void lengths_out_of_range_are_refused(void **state)
{
	static const char *const texts[] = {"192.0.2.0/33", "::/129", "192.0.2.0/999"};
	struct weir_prefix p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(weir_prefix_parse(texts[i], strlen(texts[i]), false, &p), -ERANGE);
}

static void what_is_no_address_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"/24",
		"192.0.2",
		"192.0.2.0/",
		"192.0.2.0/-1",
		"192.0.2.0/ 8",
		"192.0.2.0/08",
		"192.0.2.0/0x8",
		"192.0.2.256",
		" 192.0.2.1",
		"192.0.2.1 ",
		"example.org",
		"2001:db8",
		"2001:db8:::1",
		"fe80::1%eth0",
		"1:2:3:4:5:6:7:8:9",
		"[::1]",
		"192.0.2.0/24/24",
		"0x7f000001",
		"192.0.2.0/1000",
		"0000000000000000000000000000000000000000000000000000192.0.2.1"};
	struct weir_prefix p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(weir_prefix_parse(texts[i], strlen(texts[i]), false, &p), -EINVAL);
	assert_int_equal(weir_prefix_parse("1.2.3.4\0", 8, false, &p), -EINVAL);
}

static void only_the_given_bytes_are_read(void **state)
{
	struct weir_prefix p, q = prefix_of("192.0.2.1");

	(void)state;
	assert_int_equal(weir_prefix_parse("192.0.2.123", 9, false, &p), 0);
	assert_memory_equal(&p, &q, sizeof(p));
}

static void masks_cut_at_every_bit(void **state)
{
	(void)state;
	for (unsigned len = 0; len <= 128; len++) {
		union weir_addr a;
		unsigned bits = 0;

		memset(&a, 0xff, sizeof(a));
		weir_addr_mask(&a, 6, (__u8)len);
		for (unsigned i = 0; i < 128; i++) {
			bool set = a.ip[i / 8] & (0x80 >> i % 8);

			assert_int_equal(set, i < len);
			bits += set;
		}
		assert_int_equal(bits, len);
		if (len > 32)
			continue;
		memset(&a, 0xff, sizeof(a));
		weir_addr_mask(&a, 4, (__u8)len);
		for (unsigned i = 0; i < 128; i++)
			assert_int_equal(!!(a.ip[i / 8] & (0x80 >> i % 8)), i < len);
	}
}

static void containment_and_overlap(void **state)
{
	struct weir_prefix net = prefix_of("192.0.2.0/24"), host = prefix_of("192.0.2.9"),
			   other = prefix_of("192.0.3.0/24"), all = prefix_of("0.0.0.0/0"),
			   all6 = prefix_of("::/0");

	(void)state;
	assert_true(weir_prefix_contains(&net, &host));
	assert_false(weir_prefix_contains(&host, &net));
	assert_true(weir_prefix_contains(&net, &net));
	assert_false(weir_prefix_contains(&net, &other));
	assert_true(weir_prefix_contains(&all, &net));
	assert_false(weir_prefix_contains(&all6, &net)); /* families are apart */
	assert_true(weir_prefix_overlaps(&host, &net));
	assert_true(weir_prefix_overlaps(&net, &host));
	assert_false(weir_prefix_overlaps(&other, &net));
}

static void order_is_family_address_length(void **state)
{
	static const char *const texts[] = {"0.0.0.0/0", "10.0.0.0/8",	 "10.0.0.0/16",
					    "10.0.0.0",	 "192.0.2.1",	 "::/0",
					    "::1",	 "2001:db8::/32"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		for (size_t j = 0; j < ARRAY_LEN(texts); j++) {
			struct weir_prefix a = prefix_of(texts[i]), b = prefix_of(texts[j]);
			int c = weir_prefix_compare(&a, &b);

			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_survives_a_round_trip),
		cmocka_unit_test(full_length_is_the_address_itself),
		cmocka_unit_test(mapped_addresses_are_ipv4),
		cmocka_unit_test(host_bits_are_refused),
		cmocka_unit_test(lengths_out_of_range_are_refused),
		cmocka_unit_test(what_is_no_address_is_refused),
		cmocka_unit_test(only_the_given_bytes_are_read),
		cmocka_unit_test(masks_cut_at_every_bit),
		cmocka_unit_test(containment_and_overlap),
		cmocka_unit_test(order_is_family_address_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
