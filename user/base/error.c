/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sentences for people; see error.h. */
#include "user/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int weir_error_set(struct weir_error *e, int r, const char *format, ...)
{
	va_list ap;

	if (!e)
		return r;
	va_start(ap, format);
	(void)vsnprintf(e->text, sizeof(e->text), format, ap); /* too long: cut */
	va_end(ap);
	return r;
}

int weir_error_prefix(struct weir_error *e, int r, const char *format, ...)
{
	struct weir_error old;
	size_t n, rest;
	va_list ap;
	int len;

	if (!e)
		return r;
	old = *e;
	va_start(ap, format);
	len = vsnprintf(e->text, sizeof(e->text), format, ap);
	va_end(ap);
	n = len < 0 ? 0 : (size_t)len;
	if (n + 3 > sizeof(e->text))
		return r; /* no room for more */
	memcpy(e->text + n, ": ", 2);
	n += 2;
	rest = strnlen(old.text, sizeof(e->text) - n - 1);
	memcpy(e->text + n, old.text, rest);
	e->text[n + rest] = '\0';
	return r;
}
