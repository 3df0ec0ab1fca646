/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The packet builder itself: what it works out is right on the wire, what it is told is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pkt.h"
#include "tests/lib/pkt_shapes.h"

static void udp_bytes_are_those_of_another_implementation(void **state)
{
	/* Checksums computed by another program. */
	static const uint8_t want[] =
		{
			0x02, 0,    0,	  0,	0,    1,    0x02, 0,	0,   0,
			0,    2,    0x08, 0, /* Ethernet */
			0x45, 0,    0,	  0x1e, 0x12, 0x34, 0,	  0,	64,  17,
			0x7c, 0x65, 198,  51,	100,  1,    192,  0,	2,   1,
			0x9c, 0x40, 0x0f, 0xa0, 0,    10,   0xff, 0x59, 'h', 'i',
		};
	struct pkt p = PKT(ETH(), IP4(), UDP(), RAW("hi"));

	(void)state;
	assert_int_equal(p.len, sizeof(want));
	assert_memory_equal(p.data, want, sizeof(want));
	/* A receiver adds everything up and gets all ones. */
	assert_int_equal(pkt_csum(0, p.data + 14, 20), 0xffff);
	assert_int_equal(pkt_csum(17 + 10, p.data + 26, 8 + 10), 0xffff);
}

static void checksums_of_every_protocol_add_up(void **state)
{
	struct pkt t = PKT(ETH(), IP4(.opt_len = 8), TCP(.syn = true), PAY(33));
	struct pkt s = PKT(ETH(), IP6(), IP6_EXT(), TCP(.syn = true), PAY(33));
	struct pkt i = PKT(ETH(), IP6(), ICMP6(), PAY(5));

	(void)state;
	assert_int_equal(pkt_csum(pkt_csum(6 + 53, t.data + 26, 8), t.data + 42, 53), 0xffff);
	assert_int_equal(pkt_csum(pkt_csum(6 + 53, s.data + 22, 32), s.data + 62, 53), 0xffff);
	assert_int_equal(pkt_csum(pkt_csum(58 + 13, i.data + 22, 32), i.data + 54, 13), 0xffff);
}

static void lengths_and_next_headers_are_worked_out(void **state)
{
	struct pkt p = PKT(ETH(), VLAN(), IP6(), IP6_EXT(), FRAG(.more = true), UDP(), PAY(16));

	(void)state;
	assert_int_equal(p.data[12] << 8 | p.data[13], 0x8100);
	assert_int_equal(p.data[16] << 8 | p.data[17], 0x86dd);
	assert_int_equal(p.data[18 + 4] << 8 | p.data[18 + 5], 8 + 8 + 8 + 16);
	assert_int_equal(p.data[18 + 6], 0);
	assert_int_equal(p.data[58], 44);
	assert_int_equal(p.data[66], 17);
	assert_int_equal(p.data[66 + 3] & 1, 1);
}

static void what_is_set_is_taken_as_it_is(void **state)
{
	struct pkt p =
		PKT(ETH(.type = 0x1234), IP4(.ihl = 3, .tot_len = 7, .version = 9, .csum = 0xbeef),
		    TCP(.doff = PKT_ZERO, .flags = PKT_ZERO));
	struct pkt good = PKT(ETH(), IP4(), UDP()), bad = PKT(ETH(), IP4(.bad_csum = true), UDP());

	(void)state;
	assert_int_equal(p.data[12] << 8 | p.data[13], 0x1234);
	assert_int_equal(p.data[14], 0x93);
	assert_int_equal(p.data[17], 7);
	assert_int_equal(p.data[24] << 8 | p.data[25], 0xbeef);
	assert_int_equal(p.data[34 + 12], 0);
	assert_int_equal(p.data[34 + 13], 0);
	assert_memory_not_equal(good.data + 24, bad.data + 24, 2);
}

static void edits_leave_the_original_alone(void **state)
{
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(4));

	(void)state;
	assert_int_equal(pkt_cut(p, 20).len, 20);
	assert_int_equal(pkt_set(p, 3, 0xaa).data[3], 0xaa);
	assert_int_equal(pkt_pad(p, 14).len, 60);
	assert_int_equal(p.len, 46);
	assert_int_equal(p.data[3], 0);
	assert_int_equal(pkt_off(&p, PKT_UDP), 34);
}

static void shapes_have_names_and_contents_of_their_own(void **state)
{
	size_t n;
	const struct pkt_shape *s = pkt_shapes(&n);

	(void)state;
	assert_true(n > 35);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(s[i].name, s[j].name);
			assert_false(s[i].p.len == s[j].p.len &&
				     !memcmp(s[i].p.data, s[j].p.data, s[i].p.len));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp_bytes_are_those_of_another_implementation),
		cmocka_unit_test(checksums_of_every_protocol_add_up),
		cmocka_unit_test(lengths_and_next_headers_are_worked_out),
		cmocka_unit_test(what_is_set_is_taken_as_it_is),
		cmocka_unit_test(edits_leave_the_original_alone),
		cmocka_unit_test(shapes_have_names_and_contents_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
