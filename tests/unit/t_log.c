/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/base/log.h: lines as text and JSON. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "user/base/cleanup.h"
#include "user/base/log.h"

static char *text;
static size_t size;
static FILE *stream;

static void begin(bool json)
{
	free(text);
	text = NULL;
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	weir_log_open(stream, json, WEIR_LOG_INFO);
}

static const char *end(void)
{
	weir_log_open(NULL, false, WEIR_LOG_INFO);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void text_lines_quote_only_what_misleads(void **state)
{
	(void)state;
	(void)unsetenv("JOURNAL_STREAM");
	begin(false);
	weir_log(WEIR_LOG_WARNING, "limit_set", "limit", "s", "per source", "by", "s", "cli", "old",
		 "u", 5ull, "new", "d", -3ll, "saved", "b", 1, "gone", "s", (char *)NULL, "why",
		 "e", -ENOENT, "share", "f", 0.5, NULL);
	(void)end();
	assert_memory_equal(text + 23, "Z warning limit_set ", 20);
	assert_string_equal(strstr(text, "limit_set"),
			    "limit_set limit=\"per source\" by=cli old=5 new=-3 saved=true "
			    "why=\"No such file or directory\" share=0.5\n");
}

static void the_journal_gets_a_level_and_no_time(void **state)
{
	(void)state;
	assert_int_equal(setenv("JOURNAL_STREAM", "8:1", 1), 0);
	begin(false);
	weir_log(WEIR_LOG_ERROR, "attach_failed", "interface", "s", "eth0", NULL);
	assert_string_equal(end(), "<3>attach_failed interface=eth0\n");
	(void)unsetenv("JOURNAL_STREAM");
}

static void levels_below_the_least_are_not_written(void **state)
{
	(void)state;
	begin(false);
	weir_log(WEIR_LOG_DEBUG, "x", NULL);
	assert_string_equal(end(), "");
	assert_true(weir_log_wants(WEIR_LOG_ERROR));
	assert_false(weir_log_wants(WEIR_LOG_DEBUG));
}

static void json_lines_are_json_whatever_the_text(void **state)
{
	const char *odd = "a\"b\\c\n\t\x01\x7f\xff\xc3\xa4\xed\xa0\x80 =";
	json_error_t e;
	json_t *j;

	(void)state;
	begin(true);
	weir_log(WEIR_LOG_NOTICE, "odd", "text", "s", odd, "n", "u", 18446744073709551615ull, NULL);
	(void)end();
	j = json_loads(text, JSON_DECODE_INT_AS_REAL, &e);
	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "level")), "notice");
	assert_string_equal(json_string_value(json_object_get(j, "event")), "odd");
	assert_memory_equal(json_string_value(json_object_get(j, "text")), "a\"b\\c\n\t\x01\x7f",
			    9);
	json_decref(j);
}

static void a_line_too_long_is_cut_at_a_pair_and_says_so(void **state)
{
	char longer[6000];
	json_error_t e;
	json_t *j;

	(void)state;
	memset(longer, '"', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	begin(true);
	weir_log(WEIR_LOG_INFO, "long", "kept", "u", 1ull, "lost", "s", longer, "lost_too", "u",
		 2ull, NULL);
	(void)end();
	j = json_loads(text, 0, &e);
	assert_non_null(j);
	assert_true(json_is_true(json_object_get(j, "cut")));
	assert_non_null(json_object_get(j, "kept"));
	assert_null(json_object_get(j, "lost"));
	json_decref(j);
}

static int done(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_lines_quote_only_what_misleads),
		cmocka_unit_test(the_journal_gets_a_level_and_no_time),
		cmocka_unit_test(levels_below_the_least_are_not_written),
		cmocka_unit_test(json_lines_are_json_whatever_the_text),
		cmocka_unit_test(a_line_too_long_is_cut_at_a_pair_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
