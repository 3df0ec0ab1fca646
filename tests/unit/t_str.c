/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/base/str.h, error.h and cleanup.h: numbers with units, "did you mean", sentences. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/base/str.h"

#define S 1000000000ull

static void u64_takes_whole_numbers_only(void **state)
{
	static const char *const bad[] = {"",	  " 1",	 "1 ",	"+1", "-1",
					  "0x10", "1.0", "1e3", "a",  "1,0"};
	__u64 v = 7;

	(void)state;
	assert_int_equal(weir_str_u64("0", 10, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(weir_str_u64("18446744073709551615", ~0ull, &v), 0);
	assert_true(v == ~0ull);
	assert_int_equal(weir_str_u64("18446744073709551616", ~0ull, &v), -ERANGE);
	assert_int_equal(weir_str_u64("11", 10, &v), -ERANGE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_str_u64(bad[i], ~0ull, &v), -EINVAL);
	assert_true(v == ~0ull); /* untouched by failures */
}

static void durations_need_a_unit(void **state)
{
	static const struct {
		const char *text;
		__u64 ns;
	} good[] = {{"10s", 10 * S},  {"5ms", 5000000},	       {"1h", 3600 * S},
		    {"10m", 600 * S}, {"500us", 500000},       {"250ns", 250},
		    {"2 s", 2 * S},   {"1.5s", 1500000000ull}, {"1d", 86400 * S},
		    {"0", 0},	      {"0.25ms", 250000},      {"1min", 60 * S}};
	static const char *const bad[] = {"10",	 "s",	"10 x", "10ss", "1h30m",
					  "-1s", ".5s", "1.s",	"",	"1S"};
	__u64 ns;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(weir_str_duration_ns(good[i].text, &ns), 0);
		assert_true(ns == good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_str_duration_ns(bad[i], &ns), -EINVAL);
	assert_int_equal(weir_str_duration_ns("300000000d", &ns), -ERANGE);
	assert_int_equal(weir_str_duration_ns("0.1ns", &ns), -ERANGE); /* rounds to nothing */
}

static void sizes_know_tens_and_twos(void **state)
{
	static const struct {
		const char *text;
		__u64 bytes;
	} good[] = {{"16 MB", 16000000}, {"4 MiB", 4 << 20},
		    {"10k", 10000},	 {"10 Ki", 10240},
		    {"1G", 1000000000},	 {"2GiB", 2ull << 30},
		    {"4096", 4096},	 {"1.5 MB", 1500000},
		    {"100 bytes", 100},	 {"0", 0},
		    {"7 B", 7},		 {"1TB", 1000000000000ull}};
	static const char *const bad[] = {"MB",	 "1 XB",  "1 mb",    "1 Mbit",
					  "1.3", "1..5k", "4 M B B", "1 MB/s"};
	__u64 bytes;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(weir_str_size_bytes(good[i].text, &bytes), 0);
		assert_true(bytes == good[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_str_size_bytes(bad[i], &bytes), -EINVAL);
	assert_int_equal(weir_str_size_bytes("99999999 TB", &bytes), -ERANGE);
}

static void rates_keep_every_fraction(void **state)
{
	static const struct {
		const char *text;
		__u64 amount, per_ns;
		bool bytes;
	} good[] = {
		{"20000/s", 20000, S, false},
		{"100/m", 100, 60 * S, false},
		{"3/h", 3, 3600 * S, false},
		{"20k/s", 20000, S, false},
		{"200 Mbit/s", 25000000, S, true},
		{"25 MB/s", 25000000, S, true},
		{"4 MiB/s", 4 << 20, S, true},
		{"100 bit/s", 25, 2 * S, true}, /* 12.5 bytes a second */
		{"0.5/s", 1, 2 * S, false},
		{"5/10s", 5, 10 * S, false},
		{"1 / 30d", 1, 30 * 86400 * S, false},
		{"0/s", 0, S, false},
		{"10/minute", 10, 60 * S, false},
		{"1 Gbits/s", 125000000, S, true},
	};
	static const char *const bad[] = {"",	 "/",	  "5",	 "5/",	  "/s",
					  "5/x", "5/s/s", "x/s", "5 5/s", "5/0x1s"};
	struct weir_rate r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(weir_str_rate(good[i].text, &r), 0);
		assert_true(r.amount == good[i].amount);
		assert_true(r.per_ns == good[i].per_ns);
		assert_int_equal(r.bytes, good[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_str_rate(bad[i], &r), -EINVAL);
	assert_int_equal(weir_str_rate("0.000000001/900000d", &r), -ERANGE);
	assert_int_equal(weir_str_rate("5/0s", &r), -ERANGE); /* in no time */
}

static void amounts_say_whether_they_are_bytes(void **state)
{
	bool bytes;
	__u64 n;

	(void)state;
	assert_int_equal(weir_str_amount("200", &n, &bytes), 0);
	assert_true(n == 200 && !bytes);
	assert_int_equal(weir_str_amount("20k", &n, &bytes), 0);
	assert_true(n == 20000 && !bytes);
	assert_int_equal(weir_str_amount("4 MB", &n, &bytes), 0);
	assert_true(n == 4000000 && bytes);
	assert_int_equal(weir_str_amount("8 kbit", &n, &bytes), 0);
	assert_true(n == 1000 && bytes);
	assert_int_equal(weir_str_amount("1 bit", &n, &bytes), -ERANGE);
}

static void what_is_printed_reads_back(void **state)
{
	static const __u64 ns[] = {1,	   999,	     1000,	1500000,  S,
				   90 * S, 3600 * S, 86400 * S, 3 * S + 1};
	static const __u64 sizes[] = {1,	512,	  1000,	      1024, 4000000,
				      16 << 20, 16000000, 1ull << 40, 1514};
	static const struct weir_rate rates[] = {{20000, S, false},
						 {3, 3600 * S, false},
						 {25000000, S, true},
						 {25, 2 * S, true},
						 {1, 30 * 86400 * S, false}};
	char buf[WEIR_STR_MAX];
	struct weir_rate r;
	__u64 v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ns); i++) {
		assert_int_equal(weir_str_duration_ns(weir_str_format_duration(ns[i], buf), &v), 0);
		assert_true(v == ns[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		assert_int_equal(weir_str_size_bytes(weir_str_format_size(sizes[i], buf), &v), 0);
		assert_true(v == sizes[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		assert_int_equal(weir_str_rate(weir_str_format_rate(&rates[i], buf), &r), 0);
		assert_true((unsigned __int128)r.amount * rates[i].per_ns ==
			    (unsigned __int128)rates[i].amount * r.per_ns);
		assert_int_equal(r.bytes, rates[i].bytes);
	}
	assert_string_equal(weir_str_format_rate(&rates[2], buf), "200 Mbit/s");
	assert_string_equal(weir_str_format_duration(0, buf), "0s");
	assert_string_equal(weir_str_format_amount(1, false, buf), "1 packet");
}

static void counts_have_about_three_digits(void **state)
{
	static const struct {
		__u64 n;
		const char *text;
	} rows[] = {{0, "0"},	      {9999, "9999"},	 {10000, "10.0k"},    {123456, "123k"},
		    {999499, "999k"}, {999500, "1.00M"}, {37500000, "37.5M"}, {~0ull, "18.4E"}};
	char buf[WEIR_STR_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(weir_str_format_count(rows[i].n, buf), rows[i].text);
}

static void typos_find_their_word_and_nonsense_does_not(void **state)
{
	static const char *const words[] = {"interfaces", NULL,	    "packet_limits",
					    "mode",	  "memory", "lists"};
	static const struct {
		const char *typed, *meant;
	} rows[] = {{"interface", "interfaces"},
		    {"intrefaces", "interfaces"},
		    {"packet-limits", "packet_limits"},
		    {"Mode", "mode"},
		    {"modes", "mode"},
		    {"memroy", "memory"},
		    {"list", "lists"},
		    {"packet", "packet_limits"},
		    {"zebra", NULL},
		    {"", NULL},
		    {"x", NULL}};
	char longer[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *near = weir_str_closest(rows[i].typed, words, ARRAY_LEN(words));

		if (rows[i].meant) {
			assert_non_null(near);
			assert_string_equal(near, rows[i].meant);
		} else {
			assert_null(near);
		}
	}
	memset(longer, 'i', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_null(weir_str_closest(longer, words, ARRAY_LEN(words)));
}

static void bools_are_words(void **state)
{
	bool b = false;

	(void)state;
	assert_int_equal(weir_str_bool("true", &b), 0);
	assert_true(b);
	assert_int_equal(weir_str_bool("No", &b), 0);
	assert_false(b);
	assert_int_equal(weir_str_bool("1", &b), -EINVAL);
}

static void copy_says_when_it_cut(void **state)
{
	char to[4];

	(void)state;
	assert_true(weir_str_copy(to, sizeof(to), "abc"));
	assert_string_equal(to, "abc");
	assert_false(weir_str_copy(to, sizeof(to), "abcd"));
	assert_string_equal(to, "abc");
}

static void errors_are_set_prefixed_and_cut(void **state)
{
	struct weir_error e = {""};
	char longer[600];

	(void)state;
	assert_int_equal(weir_error_set(&e, -EINVAL, "bad %s", "rate"), -EINVAL);
	assert_int_equal(weir_error_prefix(&e, -ENOENT, "limit %d", 3), -ENOENT);
	assert_string_equal(e.text, "limit 3: bad rate");
	assert_int_equal(weir_error_set(NULL, -1, "x"), -1);
	assert_int_equal(weir_error_prefix(NULL, -1, "x"), -1);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	weir_error_set(&e, 0, "%s", longer);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	weir_error_prefix(&e, 0, "at");
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	assert_memory_equal(e.text, "at: x", 5);
	weir_error_prefix(&e, 0, "%s", longer);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(u64_takes_whole_numbers_only),
		cmocka_unit_test(durations_need_a_unit),
		cmocka_unit_test(sizes_know_tens_and_twos),
		cmocka_unit_test(rates_keep_every_fraction),
		cmocka_unit_test(amounts_say_whether_they_are_bytes),
		cmocka_unit_test(what_is_printed_reads_back),
		cmocka_unit_test(counts_have_about_three_digits),
		cmocka_unit_test(typos_find_their_word_and_nonsense_does_not),
		cmocka_unit_test(bools_are_words),
		cmocka_unit_test(copy_says_when_it_cut),
		cmocka_unit_test(errors_are_set_prefixed_and_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
