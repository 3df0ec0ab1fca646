/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Collects all that is wrong with a file. Used inside user/config only. */
#ifndef WEIR_USER_CONF_PROBLEMS_H
#define WEIR_USER_CONF_PROBLEMS_H

#include <stdarg.h>

#include "user/config/conf.h"

/* @file NULL = the configuration itself; @line, @column from 1, 0 = the file as a whole. */
void weir_problems_add(struct weir_conf_problems *p, bool warning, const char *file, int line,
		       int column, const char *format, ...) __attribute__((format(printf, 6, 7)));
void weir_problems_vadd(struct weir_conf_problems *p, bool warning, const char *file, int line,
			int column, const char *format, va_list ap)
	__attribute__((format(printf, 6, 0)));
/* No room for another error: spare the work of finding out what would be right. */
bool weir_problems_full(const struct weir_conf_problems *p);
/* By file as they came, then line and column; says how many were left out. */
void weir_problems_sort(struct weir_conf_problems *p);

/* User text for a message: cut, unprintable bytes as '?'. */
#define WEIR_SHOWN_MAX 52
const char *weir_conf_shown(const char *text, size_t n, char buf[static WEIR_SHOWN_MAX]);

#endif
