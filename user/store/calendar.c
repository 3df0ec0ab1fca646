/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calendar windows: a sorted table of the instants at which a date begins. Called when a configuration is loaded, and
 * for each request of a limit with such a window.
 */
#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "user/store/calendar.h"

#define SECOND_US 1000000ull
#define DAY_S	  86400
#define REACH_S	  (2 * DAY_S) /* farther than any zone is from UTC */

struct weir_calendar {
	size_t n;
	__u64 edge_us[]; /* rising */
};

static int date_of(const struct tm *tm)
{
	return (tm->tm_year + 1900) * 10000 + (tm->tm_mon + 1) * 100 + tm->tm_mday;
}

/* The first instant of the zone in force at which the date is that of @utc or later. mktime is no help: midnight may
 * exist twice or not at all.
 */
static int first_instant(struct tm utc, time_t *ret)
{
	time_t noon, low, high, mid;
	struct tm local;
	int date;

	utc.tm_hour = 12;
	noon = timegm(&utc); /* also folds a day 0 or month 12 */
	date = date_of(&utc);
	low = noon - REACH_S;
	high = noon + REACH_S;
	while (low < high) {
		mid = low + (high - low) / 2;
		if (!localtime_r(&mid, &local))
			return -EOVERFLOW;
		if (date_of(&local) >= date)
			high = mid;
		else
			low = mid + 1;
	}
	*ret = low;
	return 0;
}

static bool is_zone(const char *zone)
{
	char path[PATH_MAX], magic[4];
	_cleanup_fclose_ FILE *f = NULL;
	const char *dir = getenv("TZDIR");
	struct stat st;

	if (!strcmp(zone, "UTC"))
		return true;
	if (!*zone || *zone == '/' || strstr(zone, ".."))
		return false;
	for (const char *c = zone; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_+-/", *c))
			return false;
	if (snprintf(path, sizeof(path), "%s/%s", dir && *dir ? dir : "/usr/share/zoneinfo",
		     zone) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	return f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode) &&
	       fread(magic, sizeof(magic), 1, f) == 1 && !memcmp(magic, "TZif", 4);
}

/* From a unit before now to the end. @c has room for @room edges. */
static int fill(struct weir_calendar *c, enum weir_calendar_unit unit, time_t now, size_t room)
{
	struct tm tm;
	time_t t;
	int r;

	if (!localtime_r(&now, &tm))
		return -EOVERFLOW;
	if (unit == WEIR_CALENDAR_MONTH)
		tm.tm_mday = 1;
	else if (unit == WEIR_CALENDAR_WEEK)
		tm.tm_mday -= (tm.tm_wday + 6) % 7;
	for (size_t i = 0; i < room; i++) {
		r = first_instant(tm, &t);
		if (r < 0)
			return r;
		if (t >= 0 && (!c->n || (__u64)t * SECOND_US > c->edge_us[c->n - 1]))
			c->edge_us[c->n++] = (__u64)t * SECOND_US;
		if (unit == WEIR_CALENDAR_MONTH)
			tm.tm_mon++;
		else
			tm.tm_mday += unit == WEIR_CALENDAR_WEEK ? 7 : 1;
	}
	return 0;
}

static int set_zone(const char *tz)
{
	int r = tz ? setenv("TZ", tz, 1) : unsetenv("TZ");

	if (r < 0)
		return -errno;
	tzset();
	return 0;
}

int weir_calendar_new(const char *zone, enum weir_calendar_unit unit, __u64 now_us,
		      struct weir_calendar **ret, struct weir_error *e)
{
	static const size_t per_year[] = {366, 53, 12};
	_cleanup_(weir_calendar_freep) struct weir_calendar *c = NULL;
	_cleanup_free_ char *before = NULL, *tz = NULL;
	size_t room = per_year[unit] * WEIR_CALENDAR_YEARS + 2;
	int r, back;

	if (!is_zone(zone))
		return weir_error_set(e, -EINVAL,
				      "there is no time zone '%.64s': give UTC, or a name of the "
				      "time zone database as Europe/Berlin",
				      zone);
	c = calloc(1, sizeof(*c) + room * sizeof(c->edge_us[0]));
	if (!c || asprintf(&tz, ":%s", zone) < 0)
		return -ENOMEM;
	if (getenv("TZ")) {
		before = strdup(getenv("TZ"));
		if (!before)
			return -ENOMEM;
	}
	r = set_zone(tz);
	if (r >= 0)
		r = fill(c, unit, (time_t)(now_us / SECOND_US), room);
	back = set_zone(before);
	if (r < 0 || back < 0)
		return weir_error_set(e, r < 0 ? r : back,
				      "cannot compute the days of time zone '%s'", zone);
	*ret = TAKE_PTR(c);
	return 0;
}

void weir_calendar_free(struct weir_calendar *c)
{
	free(c);
}

int weir_calendar_window(const struct weir_calendar *c, __u64 now_us, __u64 *ret_start_us,
			 __u64 *ret_end_us)
{
	size_t low = 0, high = c->n, mid;

	while (low < high) { /* the first edge after now */
		mid = low + (high - low) / 2;
		if (c->edge_us[mid] > now_us)
			high = mid;
		else
			low = mid + 1;
	}
	if (!low || low == c->n)
		return -ERANGE;
	*ret_start_us = c->edge_us[low - 1];
	*ret_end_us = c->edge_us[low];
	return 0;
}
