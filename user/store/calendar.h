/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calendar days, weeks (from Monday) and months of a time zone as windows, for fixed windows that plans are sold by.
 * The edges are worked out once, when the configuration is loaded; looking one up needs no time zone any more, so
 * every thread may.
 */
#ifndef WEIR_USER_CALENDAR_H
#define WEIR_USER_CALENDAR_H

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "weir/types.h"

enum weir_calendar_unit { WEIR_CALENDAR_DAY, WEIR_CALENDAR_WEEK, WEIR_CALENDAR_MONTH };

#define WEIR_CALENDAR_YEARS 10 /* that a calendar reaches beyond now_us */

struct weir_calendar;

/* @zone: "UTC" or a name of the time zone database ("Europe/Berlin"). Changes TZ for the moment: call it where no
 * other thread reads the environment or local time. -EINVAL with @e: there is no such zone.
 * A window begins at the first instant of its first date there: days have 23 or 25 hours where clocks change, and a
 * date that a zone skipped has no window.
 */
int weir_calendar_new(const char *zone, enum weir_calendar_unit unit, __u64 now_us,
		      struct weir_calendar **ret, struct weir_error *e);
void weir_calendar_free(struct weir_calendar *c);
DEFINE_CLEANUP(struct weir_calendar, weir_calendar_free)

/* The window [start, end) in which @now_us lies. -ERANGE: outside of the calendar. */
int weir_calendar_window(const struct weir_calendar *c, __u64 now_us, __u64 *ret_start_us,
			 __u64 *ret_end_us);

#endif
