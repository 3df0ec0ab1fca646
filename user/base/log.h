/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line per happening: an event name and key=value pairs, as text or JSON. To stderr, for the agent's own log and
 * for packet events. Only cmd_*.c and loop callbacks log above debug.
 *
 *	weir_log(WEIR_LOG_INFO, "attached", "interface", "s", ifname, "program", "u", (__u64)id, NULL);
 *	text: attached interface=eth0 program=7
 *	JSON: {"time":"2026-01-02T03:04:05.678Z","level":"info","event":"attached","interface":"eth0","program":7}
 */
#ifndef WEIR_USER_LOG_H
#define WEIR_USER_LOG_H

#include <stdbool.h>
#include <stdio.h>

/* Numbers are syslog's. */
enum weir_log_level {
	WEIR_LOG_ERROR = 3,
	WEIR_LOG_WARNING = 4,
	WEIR_LOG_NOTICE = 5,
	WEIR_LOG_INFO = 6,
	WEIR_LOG_DEBUG = 7
};

/* Where to and how. @f NULL = stderr. Text goes with a "<N>" prefix where JOURNAL_STREAM is set (the journal takes the
 * level from it), else with the time.
 */
void weir_log_open(FILE *f, bool json, enum weir_log_level least);
bool weir_log_wants(enum weir_log_level level);

/* Triples "key", "type", value, ended by NULL. Types: "s" const char * (NULL: left out), "u" unsigned long long,
 * "d" long long, "b" int as true or false, "f" double, "e" int errno or -errno as its text.
 */
void weir_log(enum weir_log_level level, const char *event, ...) __attribute__((sentinel));

#endif
