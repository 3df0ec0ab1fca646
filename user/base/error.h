/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One clear sentence for a person: what is wrong, where, what would be right. Functions that can fail for reasons a
 * user must understand take a struct weir_error and fill it beside returning -errno; callers print it once.
 */
#ifndef WEIR_USER_ERROR_H
#define WEIR_USER_ERROR_H

#include <stddef.h>

struct weir_error {
	char text[512]; /* "" = none */
};

/* Formats into @e (may be NULL) and returns @r, so that `return weir_error_set(e, -EINVAL, "...")` reads well. */
int weir_error_set(struct weir_error *e, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "PREFIX: " before what @e says; returns @r. */
int weir_error_prefix(struct weir_error *e, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
