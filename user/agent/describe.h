/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits in words, and what changed between two configurations, a line each: for the log of a reload, `weir limit
 * list` and `weir limit diff`. Pure functions. Called by the agent and the commands.
 */
#ifndef WEIR_AGENT_DESCRIBE_H
#define WEIR_AGENT_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>

#include "user/config/conf.h"

#define WEIR_DESCRIBE_MAX 256

/* "20000/s, burst 20000, block_for 10s", "500 in 1s (fixed-window)". Returns @buf. */
const char *weir_describe_limit(const struct weir_conf_limit *l,
				char buf[static WEIR_DESCRIBE_MAX]);
/* "source", "source /24 and /48", "destination", "all". */
const char *weir_describe_per(const struct weir_conf_limit *l, char buf[static WEIR_DESCRIBE_MAX]);

typedef void (*weir_describe_fn)(void *arg, const char *line);
#define WEIR_DESCRIBE_REQUEST_MAX 1024
/* A request limit in words, without its name and the full stop. Returns @buf. */
const char *weir_describe_request_limit(const struct weir_conf_request *r,
					const struct weir_conf_request_limit *l,
					char buf[static WEIR_DESCRIBE_REQUEST_MAX]);
/* Calls @fn for each difference of both layers. Lists made of files are compared by weir_book_compare, not here. */
void weir_describe_diff(const struct weir_conf *from, const struct weir_conf *to,
			weir_describe_fn fn, void *arg);

/* The first setting that differs and takes effect only at a start (NULL if none). */
const char *weir_describe_needs_restart(const struct weir_conf *from, const struct weir_conf *to);

/* Between describe.c and describe_request.c, which has the request layer's differences. */
struct weir_describe_to {
	weir_describe_fn fn;
	void *arg;
};
__attribute__((format(printf, 2, 3))) void weir_describe_say(const struct weir_describe_to *to,
							     const char *format, ...);
void weir_describe_request_diff(const struct weir_conf *from, const struct weir_conf *to,
				const struct weir_describe_to *d);

/* The packet limit of that name; NULL: none. */
const struct weir_conf_limit *weir_conf_find_limit(const struct weir_conf *c, const char *name);

#endif
