/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two clocks: monotonic for what the kernel compares and for deadlines, wall for what must survive a reboot and for
 * people. A loop reads them once a turn and passes them on.
 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdio.h>
#include <time.h>

#include "weir/types.h"

#define WEIR_NS_PER_S 1000000000ull

struct weir_now {
	__u64 mono_ns;
	__s64 wall_s;
};

static inline __u64 weir_clock_ns(clockid_t id)
{
	struct timespec t = {};

	(void)clock_gettime(id, &t); /* cannot fail for these clocks */
	return (__u64)t.tv_sec * WEIR_NS_PER_S + (__u64)t.tv_nsec;
}

static inline struct weir_now weir_now(void)
{
	return (struct weir_now){
		.mono_ns = weir_clock_ns(CLOCK_MONOTONIC),
		.wall_s = (__s64)(weir_clock_ns(CLOCK_REALTIME) / WEIR_NS_PER_S),
	};
}

/* A wall-clock end as a monotonic one; 0 stays 0 (never), what has passed becomes 1. */
static inline __u64 weir_clock_to_mono(const struct weir_now *now, __s64 wall_s)
{
	if (!wall_s)
		return 0;
	if (wall_s <= now->wall_s)
		return 1;
	if ((__u64)(wall_s - now->wall_s) > (1ull << 62) / WEIR_NS_PER_S)
		return 0; /* beyond what the clock can hold */
	return now->mono_ns + (__u64)(wall_s - now->wall_s) * WEIR_NS_PER_S;
}

/* A monotonic time as wall-clock time. */
static inline __s64 weir_clock_to_wall(const struct weir_now *now, __u64 mono_ns)
{
	if (mono_ns >= now->mono_ns)
		return now->wall_s +
		       (__s64)((mono_ns - now->mono_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S);
	return now->wall_s - (__s64)((now->mono_ns - mono_ns) / WEIR_NS_PER_S);
}

/* For people: the first whole second of the wall clock by which so much has passed; never too early. */
static inline __s64 weir_clock_after(__u64 wall_ns, __u64 ns)
{
	return (__s64)((wall_ns + ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S);
}

#define WEIR_TIME_STRLEN 32
/* "2026-01-02T03:04:05Z" */
static inline const char *weir_clock_format(__s64 wall_s, char buf[static WEIR_TIME_STRLEN])
{
	struct tm tm;
	time_t t = (time_t)wall_s;

	if (!gmtime_r(&t, &tm) || !strftime(buf, WEIR_TIME_STRLEN, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(buf, WEIR_TIME_STRLEN, "?");
	return buf;
}

#endif
