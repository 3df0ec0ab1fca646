/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calendar windows: days of 23 and 25 hours, midnights that do not exist or exist twice, dates that were skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "user/store/calendar.h"

#define SEC  1000000ull
#define HOUR (3600 * SEC)

static __u64 utc(int year, int month, int day, int hour, int minute)
{
	struct tm tm = {.tm_year = year - 1900,
			.tm_mon = month - 1,
			.tm_mday = day,
			.tm_hour = hour,
			.tm_min = minute};

	return (__u64)timegm(&tm) * SEC;
}

static void expect(const char *zone, enum weir_calendar_unit unit, __u64 now, __u64 start,
		   __u64 end)
{
	_cleanup_(weir_calendar_freep) struct weir_calendar *c = NULL;
	struct weir_error e = {};
	__u64 s, t;

	if (weir_calendar_new(zone, unit, now, &c, &e))
		fail_msg("%s", e.text);
	assert_int_equal(weir_calendar_window(c, now, &s, &t), 0);
	assert_int_equal(s, start);
	assert_int_equal(t, end);
	assert_int_equal(weir_calendar_window(c, end - 1, &s, &t), 0);
	assert_int_equal(s, start);
	assert_int_equal(weir_calendar_window(c, end, &s, &t), 0);
	assert_int_equal(s, end);
}

static void days_have_23_24_and_25_hours(void **state)
{
	(void)state;
	expect("Europe/Berlin", WEIR_CALENDAR_DAY, utc(2026, 1, 10, 23, 30),
	       utc(2026, 1, 10, 23, 0), utc(2026, 1, 11, 23, 0));
	expect("Europe/Berlin", WEIR_CALENDAR_DAY, utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0),
	       utc(2026, 3, 29, 22, 0));
	expect("Europe/Berlin", WEIR_CALENDAR_DAY, utc(2026, 10, 25, 0, 30),
	       utc(2026, 10, 24, 22, 0), utc(2026, 10, 25, 23, 0));
	expect("America/New_York", WEIR_CALENDAR_DAY, utc(2026, 3, 8, 12, 0), utc(2026, 3, 8, 5, 0),
	       utc(2026, 3, 9, 4, 0));
	expect("UTC", WEIR_CALENDAR_DAY, utc(2026, 3, 29, 12, 0), utc(2026, 3, 29, 0, 0),
	       utc(2026, 3, 30, 0, 0));
	/* half an hour of summer time, and a zone far east */
	expect("Australia/Lord_Howe", WEIR_CALENDAR_DAY, utc(2026, 4, 4, 14, 0),
	       utc(2026, 4, 4, 13, 0), utc(2026, 4, 5, 13, 30));
	expect("Pacific/Kiritimati", WEIR_CALENDAR_DAY, utc(2026, 1, 1, 10, 0),
	       utc(2026, 1, 1, 10, 0), utc(2026, 1, 2, 10, 0));
}

static void a_midnight_that_does_not_exist_or_exists_twice(void **state)
{
	(void)state;
	/* São Paulo, 4 November 2018: 00:00 became 01:00 */
	expect("America/Sao_Paulo", WEIR_CALENDAR_DAY, utc(2018, 11, 4, 12, 0),
	       utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
	/* Havana, 3 November 2024: 01:00 became 00:00, the date begins once */
	expect("America/Havana", WEIR_CALENDAR_DAY, utc(2024, 11, 3, 5, 30), utc(2024, 11, 3, 4, 0),
	       utc(2024, 11, 4, 5, 0));
	/* Apia had no 30 December 2011 */
	expect("Pacific/Apia", WEIR_CALENDAR_DAY, utc(2011, 12, 30, 9, 0), utc(2011, 12, 29, 10, 0),
	       utc(2011, 12, 30, 10, 0));
}

static void weeks_begin_on_monday_and_months_on_the_first(void **state)
{
	(void)state;
	expect("Europe/Berlin", WEIR_CALENDAR_WEEK, utc(2026, 3, 25, 12, 0),
	       utc(2026, 3, 22, 23, 0), utc(2026, 3, 29, 22, 0));
	expect("Europe/Berlin", WEIR_CALENDAR_WEEK, utc(2026, 3, 1, 12, 0), utc(2026, 2, 22, 23, 0),
	       utc(2026, 3, 1, 23, 0)); /* a Sunday */
	expect("Europe/Berlin", WEIR_CALENDAR_MONTH, utc(2026, 3, 31, 12, 0),
	       utc(2026, 2, 28, 23, 0), utc(2026, 3, 31, 22, 0));
	expect("Europe/Berlin", WEIR_CALENDAR_MONTH, utc(2026, 12, 31, 22, 59),
	       utc(2026, 11, 30, 23, 0), utc(2026, 12, 31, 23, 0));
	expect("UTC", WEIR_CALENDAR_MONTH, utc(2028, 2, 29, 1, 0), utc(2028, 2, 1, 0, 0),
	       utc(2028, 3, 1, 0, 0));
}

static void windows_follow_each_other_for_ten_years(void **state)
{
	static const enum weir_calendar_unit units[] = {WEIR_CALENDAR_DAY, WEIR_CALENDAR_WEEK,
							WEIR_CALENDAR_MONTH};
	__u64 now = utc(2026, 5, 17, 13, 45), start, end, before;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		_cleanup_(weir_calendar_freep) struct weir_calendar *c = NULL;

		assert_int_equal(weir_calendar_new("Europe/Berlin", units[i], now, &c, NULL), 0);
		assert_int_equal(weir_calendar_window(c, now, &start, &end), 0);
		assert_int_equal(weir_calendar_window(c, start - 1, &before, &before), -ERANGE);
		while (end < utc(2036, 5, 15, 0, 0)) {
			before = end;
			assert_int_equal(weir_calendar_window(c, end, &start, &end), 0);
			assert_int_equal(start, before);
			assert_true(end - start >= 23 * HOUR);
		}
		assert_int_equal(weir_calendar_window(c, utc(2040, 1, 1, 0, 0), &start, &end),
				 -ERANGE);
	}
}

static void no_such_zone_is_refused_and_tz_is_put_back(void **state)
{
	static const char *const wrong[] = {
		"",	    "Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "Europe",
		"zone.tab", ":UTC",	      "CET-1CEST"};
	struct weir_calendar *c = NULL;
	struct weir_error e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		e.text[0] = '\0';
		assert_int_equal(weir_calendar_new(wrong[i], WEIR_CALENDAR_DAY,
						   utc(2026, 1, 1, 0, 0), &c, &e),
				 -EINVAL);
		assert_non_null(strstr(e.text, "time zone"));
	}
	assert_null(c);
	assert_int_equal(setenv("TZ", "Asia/Tokyo", 1), 0);
	expect("Europe/Berlin", WEIR_CALENDAR_DAY, utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0),
	       utc(2026, 3, 29, 22, 0));
	assert_string_equal(getenv("TZ"), "Asia/Tokyo");
	assert_int_equal(unsetenv("TZ"), 0);
	expect("Europe/Berlin", WEIR_CALENDAR_DAY, utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0),
	       utc(2026, 3, 29, 22, 0));
	assert_null(getenv("TZ"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(days_have_23_24_and_25_hours),
		cmocka_unit_test(a_midnight_that_does_not_exist_or_exists_twice),
		cmocka_unit_test(weeks_begin_on_monday_and_months_on_the_first),
		cmocka_unit_test(windows_follow_each_other_for_ten_years),
		cmocka_unit_test(no_such_zone_is_refused_and_tz_is_put_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
