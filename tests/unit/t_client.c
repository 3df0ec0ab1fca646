/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/client.h: nothing a client writes changes what it is counted by. Trusted: 10.0.0.0/8 and 2001:db8:ff::/48. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/prefix.h"
#include "user/base/cleanup.h"
#include "user/l7/client.h"

/* The client's address as text; @lines separated by "|". */
static const char *client_of(enum weir_client_header header, bool nat64, const char *peer,
			     const char *lines, struct weir_client *ret)
{
	static const char *const names[] = {"x-none", "x-forwarded-FOR", "FORWARDED", "x-real-ip"};
	static char buf[WEIR_PREFIX_STRLEN];
	struct weir_prefix trusted[] = {prefix_of("10.0.0.0/8"), prefix_of("2001:db8:ff::/48")};
	struct weir_client_options o = {.header = header,
					.trusted = trusted,
					.n_trusted = ARRAY_LEN(trusted),
					.nat64 = nat64};
	struct weir_header_list list = {.n = 0};
	struct weir_prefix from;

	/* a header of another profile is never read */
	assert_int_equal(weir_header_list_add(&list, weir_text_of("X-Client-IP"),
					      weir_text_of("192.0.2.66")),
			 0);
	while (lines) {
		size_t n = strcspn(lines, "|");

		assert_int_equal(weir_header_list_add(&list, weir_text_of(names[header]),
						      (struct weir_text){lines, n}),
				 0);
		lines = lines[n] ? lines + n + 1 : NULL;
	}
	if (peer)
		from = prefix_of(peer);
	if (weir_client_find(&o, peer ? &from : NULL, &list, ret) < 0)
		return "none";
	return weir_prefix_format(&ret->addr, buf);
}

struct row {
	const char *peer, *lines, *want;
};

static void assert_rows(enum weir_client_header header, const struct row *row, size_t n)
{
	struct weir_client c;

	for (size_t i = 0; i < n; i++) {
		const char *got = client_of(header, false, row[i].peer, row[i].lines, &c);

		if (strcmp(got, row[i].want) != 0)
			fail_msg("peer %s, header %s: %s instead of %s", row[i].peer, row[i].lines,
				 got, row[i].want);
	}
}

static void forwarded_for_is_walked_from_the_right(void **state)
{
	static const struct row rows[] = {
		{"10.0.0.1", NULL, "10.0.0.1"},
		{"10.0.0.1", "", "10.0.0.1"},
		{"10.0.0.1", "192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.66, 192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.66, 192.0.2.1, 10.0.0.9", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.66|192.0.2.1", "192.0.2.1"}, /* the proxy adds a line */
		{"10.0.0.1", "192.0.2.66, 192.0.2.1|10.0.0.9", "192.0.2.1"},
		{"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"198.51.100.1", "192.0.2.1", "198.51.100.1"},
		{"198.51.100.1", "10.0.0.1", "198.51.100.1"},
		{"10.0.0.1", "192.0.2.1:5678", "192.0.2.1"},
		{"10.0.0.1", "[2001:db8::1]:5678", "2001:db8::1"},
		{"10.0.0.1", "[2001:db8::1]", "2001:db8::1"},
		{"10.0.0.1", "2001:DB8::1", "2001:db8::1"},
		{"10.0.0.1", "fe80::1%eth0", "fe80::1"},
		{"10.0.0.1", "[fe80::1%25eth0]:80", "fe80::1"},
		{"10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.1, ::ffff:10.0.0.2", "192.0.2.1"},
		{"::ffff:10.0.0.1", "192.0.2.1", "192.0.2.1"},
		{"2001:db8:ff::1", "192.0.2.1\t,\t2001:db8:ff::2", "192.0.2.1"},
		{NULL, "192.0.2.66, 192.0.2.1", "192.0.2.1"},
		{NULL, "10.0.0.1", "10.0.0.1"},
		{NULL, NULL, "none"},
		{NULL, "unknown", "none"},
	};

	(void)state;
	assert_rows(WEIR_CLIENT_X_FORWARDED_FOR, rows, ARRAY_LEN(rows));
}

static void garbage_ends_the_walk_at_the_last_trusted_hop(void **state)
{
	static const char *const garbage[] = {"unknown",
					      "",
					      "_hidden",
					      "192.0.2.1/24",
					      "192.0.2",
					      "192.0.2.256",
					      "0300.0.2.1",
					      "192.0.2.01",
					      "192.0.2.1:",
					      "192.0.2.1:x",
					      "192.0.2.1:65536",
					      "[192.0.2.1]",
					      "[2001:db8::1",
					      "2001:db8::1]",
					      "[2001:db8::1]80",
					      "[2001:db8::1]:",
					      "192.0.2.1%eth0",
					      "fe80::1%",
					      "fe80::1%e/0",
					      "\"192.0.2.1\"",
					      "for=192.0.2.1",
					      "192.0.2.1 192.0.2.2",
					      "::ffff:192.0.2.1:80",
					      "2001:db8::g",
					      "1.1.1.1:1:1",
					      "[]",
					      "[]:80",
					      ":80",
					      "%",
					      "3221225985",
					      "0xc0000201"};
	struct weir_client c;
	char line[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
		(void)snprintf(line, sizeof(line), "192.0.2.66, %s, 10.0.0.9", garbage[i]);
		assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "10.0.0.1", line,
					      &c),
				    "10.0.0.9");
		assert_true(c.ended);
		assert_int_equal(c.hops, 1);
	}
}

static void forwarded_is_read_as_rfc_7239_writes_it(void **state)
{
	static const struct row rows[] = {
		{"10.0.0.1", "for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "For=192.0.2.1;proto=http;by=203.0.113.43", "192.0.2.1"},
		{"10.0.0.1", "proto=http; FOR=\"192.0.2.1:47011\" ;", "192.0.2.1"},
		{"10.0.0.1", "for=\"[2001:db8::1]:4711\"", "2001:db8::1"},
		{"10.0.0.1", "for=\"[2001:db8::1]\"", "2001:db8::1"},
		{"10.0.0.1", "for=\"[2001:db8::1]:_port\"", "2001:db8::1"},
		{"10.0.0.1", "for=\"1\\92.0.2.1\"", "192.0.2.1"},
		{"10.0.0.1", "for=192.0.2.66, for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "for=192.0.2.66|for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "for=192.0.2.66, for=192.0.2.1|for=10.0.0.2", "192.0.2.1"},
		{"10.0.0.1", "for=192.0.2.1;host=\"a,b;for=192.0.2.66\"", "192.0.2.1"},
		{"10.0.0.1", "host=\"a\\\",for=192.0.2.66\";for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "host=\"b,for=192.0.2.66\\\"\";for=192.0.2.1", "192.0.2.1"},
		/* what a client left open does not reach what the proxy put behind it */
		{"10.0.0.1", "for=\"x, for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "for=\"x\\, for=\"[2001:db8::1]:80\"", "2001:db8::1"},
		{"10.0.0.1", "\", for=192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "for=192.0.2.1, for=\"", "10.0.0.1"},
		{"10.0.0.1", "for=unknown", "10.0.0.1"},
		{"10.0.0.1", "for=192.0.2.66, for=_hidden, for=10.0.0.9", "10.0.0.9"},
		{"10.0.0.1", "for=192.0.2.66, for=\"_SEVKISEK\"", "10.0.0.1"},
		{"10.0.0.1", "for=192.0.2.1;for=192.0.2.66", "10.0.0.1"},
		{"10.0.0.1", "proto=http", "10.0.0.1"},
		{"10.0.0.1", "for", "10.0.0.1"},
		{"10.0.0.1", "for=", "10.0.0.1"},
		{"10.0.0.1", "192.0.2.1", "10.0.0.1"},
		{"10.0.0.1", "for=[2001:db8::1]", "10.0.0.1"}, /* must be quoted */
		{"10.0.0.1", "for=192.0.2.1:80", "10.0.0.1"},
		{"10.0.0.1", "for = 192.0.2.1", "10.0.0.1"},
		{"10.0.0.1", "for=192.0.2.66, , for=10.0.0.2", "10.0.0.2"},
		{"198.51.100.1", "for=192.0.2.66", "198.51.100.1"},
		{NULL, "for=192.0.2.1", "192.0.2.1"},
		{NULL, "for=unknown", "none"},
	};

	(void)state;
	assert_rows(WEIR_CLIENT_FORWARDED, rows, ARRAY_LEN(rows));
}

static void real_ip_is_one_address_of_the_last_line(void **state)
{
	static const struct row rows[] = {
		{"10.0.0.1", "192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.66|192.0.2.1", "192.0.2.1"},
		{"10.0.0.1", "192.0.2.66|10.0.0.2", "10.0.0.2"},
		{"10.0.0.1", "192.0.2.66, 192.0.2.1", "10.0.0.1"},
		{"10.0.0.1", "192.0.2.66|x", "10.0.0.1"},
		{"198.51.100.1", "192.0.2.66", "198.51.100.1"},
	};

	(void)state;
	assert_rows(WEIR_CLIENT_X_REAL_IP, rows, ARRAY_LEN(rows));
}

static void without_a_header_the_peer_counts(void **state)
{
	static const struct row rows[] = {{"10.0.0.1", "192.0.2.66", "10.0.0.1"},
					  {"::ffff:192.0.2.1", NULL, "192.0.2.1"},
					  {NULL, "192.0.2.66", "none"}};

	(void)state;
	assert_rows(WEIR_CLIENT_NONE, rows, ARRAY_LEN(rows));
}

static void a_header_from_an_untrusted_peer_is_told(void **state)
{
	struct weir_client c;

	(void)state;
	client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "198.51.100.1", "10.0.0.1", &c);
	assert_true(c.ignored);
	client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "198.51.100.1", NULL, &c);
	assert_false(c.ignored);
	client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "10.0.0.1", "192.0.2.1", &c);
	assert_false(c.ignored);
	assert_int_equal(c.hops, 1);
}

static void a_peer_in_mapped_form_is_ipv4(void **state)
{
	static const __u8 ip[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};
	struct weir_prefix trusted = prefix_of("10.0.0.1"), peer = {.family = 6, .len = 128};
	struct weir_client_options o = {.header = WEIR_CLIENT_X_REAL_IP,
					.trusted = &trusted,
					.n_trusted = 1};
	struct weir_header_list list = {.n = 0};
	struct weir_client c;

	(void)state;
	memcpy(peer.addr.ip, ip, sizeof(ip));
	assert_int_equal(weir_client_find(&o, &peer, &list, &c), 0);
	assert_memory_equal(&c.addr, &trusted, sizeof(trusted));
}

static void nat64_is_taken_apart_after_trust_is_judged(void **state)
{
	struct weir_client c;

	(void)state;
	assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, true, "10.0.0.1",
				      "64:ff9b::192.0.2.1", &c),
			    "192.0.2.1");
	assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "10.0.0.1",
				      "64:ff9b::c000:201", &c),
			    "64:ff9b::c000:201");
	assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, true, "64:ff9b::a00:1",
				      "192.0.2.66", &c),
			    "10.0.0.1");
	assert_int_equal(c.hops, 0);
	assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, true, "10.0.0.1",
				      "64:ff9b:1::c000:201", &c),
			    "64:ff9b:1::c000:201");
}

static void hops_are_bounded(void **state)
{
	static char line[16384];
	struct weir_client c;
	size_t n = 0;

	(void)state;
	while (n + 24 < sizeof(line))
		n += (size_t)snprintf(line + n, sizeof(line) - n, "10.0.0.7, ");
	(void)snprintf(line + n, sizeof(line) - n, "10.0.0.8");
	assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "10.0.0.1", line, &c),
			    "10.0.0.7");
	assert_int_equal(c.hops, WEIR_CLIENT_HOPS_MAX);
	assert_true(c.ended);
}

static void one_client_over_many_ports_is_one(void **state)
{
	struct weir_client c;
	char line[64];

	(void)state;
	for (unsigned port = 0; port <= 65535; port += 257) {
		(void)snprintf(line, sizeof(line), "192.0.2.1:%u", port);
		assert_string_equal(client_of(WEIR_CLIENT_X_FORWARDED_FOR, false, "10.0.0.1", line,
					      &c),
				    "192.0.2.1");
		(void)snprintf(line, sizeof(line), "for=\"[2001:db8::1]:%u\"", port);
		assert_string_equal(client_of(WEIR_CLIENT_FORWARDED, false, "10.0.0.1", line, &c),
				    "2001:db8::1");
	}
}

static void prefix_lengths_are_per_family(void **state)
{
	struct weir_prefix a = prefix_of("2001:db8:1:2:3::4"), b = prefix_of("192.0.2.129");
	char buf[WEIR_PREFIX_STRLEN];

	(void)state;
	a = weir_client_prefix(&a, 24, 64);
	b = weir_client_prefix(&b, 24, 64);
	assert_string_equal(weir_prefix_format(&a, buf), "2001:db8:1:2::/64");
	assert_string_equal(weir_prefix_format(&b, buf), "192.0.2.0/24");
}

static void header_lists_are_bounded_and_clean(void **state)
{
	static struct weir_header_list list;
	struct weir_text name = weir_text_of("A"), value = weir_text_of(" \tv\t ");

	(void)state;
	assert_int_equal(weir_header_list_add(&list, weir_text_of(""), value), -EBADMSG);
	assert_int_equal(weir_header_list_add(&list, weir_text_of("a b"), value), -EBADMSG);
	assert_int_equal(weir_header_list_add(&list, name, weir_text_of("a\r\nX: y")), -EBADMSG);
	assert_int_equal(weir_header_list_add(&list, name, (struct weir_text){"a\0b", 3}),
			 -EBADMSG);
	for (size_t i = 0; i < WEIR_HEADER_LINES_MAX; i++)
		assert_int_equal(weir_header_list_add(&list, name, value), 0);
	assert_int_equal(weir_header_list_add(&list, name, value), -E2BIG);
	assert_true(weir_text_equal(list.line[0].value, weir_text_of("v")));
	assert_ptr_equal(weir_header_list_next(&list, weir_text_of("a"), NULL), &list.line[0]);
	assert_ptr_equal(weir_header_list_next(&list, weir_text_of("a"), &list.line[0]),
			 &list.line[1]);
	assert_ptr_equal(weir_header_list_previous(&list, weir_text_of("a"), NULL),
			 &list.line[WEIR_HEADER_LINES_MAX - 1]);
	assert_null(weir_header_list_previous(&list, weir_text_of("a"), &list.line[0]));
	assert_null(weir_header_list_next(&list, weir_text_of("ab"), NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forwarded_for_is_walked_from_the_right),
		cmocka_unit_test(garbage_ends_the_walk_at_the_last_trusted_hop),
		cmocka_unit_test(forwarded_is_read_as_rfc_7239_writes_it),
		cmocka_unit_test(real_ip_is_one_address_of_the_last_line),
		cmocka_unit_test(without_a_header_the_peer_counts),
		cmocka_unit_test(a_header_from_an_untrusted_peer_is_told),
		cmocka_unit_test(a_peer_in_mapped_form_is_ipv4),
		cmocka_unit_test(nat64_is_taken_apart_after_trust_is_judged),
		cmocka_unit_test(hops_are_bounded),
		cmocka_unit_test(one_client_over_many_ports_is_one),
		cmocka_unit_test(prefix_lengths_are_per_family),
		cmocka_unit_test(header_lists_are_bounded_and_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
