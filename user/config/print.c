/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of settings as help and as a section of the man page; default.c has the default file. */
#include <string.h>

#include "user/config/schema.h"

/* "a | b | c" or the type's name. */
static const char *values_of(const struct weir_setting *s, char *buf, size_t size)
{
	size_t n = 0;

	if (!s->words)
		return s->type ? s->type : "";
	buf[0] = '\0';
	for (size_t i = 0; s->words[i] && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? " | " : "", s->words[i]);
	return buf;
}

void weir_conf_print_settings(FILE *f)
{
	char values[160];

	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];
		unsigned in = 2 + 2 * weir_setting_depth(s);

		(void)fprintf(f, "%*s%s:", (int)in, "", weir_setting_key(s));
		if (!weir_setting_is_group(s))
			(void)fprintf(f, " %s", values_of(s, values, sizeof(values)));
		if (s->fallback)
			(void)fprintf(f, "   [%s]",
				      strcmp(s->fallback, "[]") == 0 ? "none" : s->fallback);
		(void)fprintf(f, "\n%*s    %s\n", (int)in, "", s->help);
	}
}

/* mdoc takes a leading dot or quote, and backslashes, for its own. */
static void put_mdoc(FILE *f, const char *text)
{
	if (*text == '.' || *text == '\'')
		(void)fputs("\\&", f);
	for (const char *c = text; *c; c++) {
		if (*c == '\\')
			(void)fputs("\\e", f);
		else if (*c == '-')
			(void)fputs("\\-", f);
		else if (strncmp(c, "…", 3) == 0) {
			(void)fputs("...", f);
			c += 2;
		} else
			(void)fputc(*c, f);
	}
}

void weir_conf_print_mdoc(FILE *f)
{
	char values[160];

	(void)fputs(".Bl -tag -width Ds\n", f);
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		(void)fputs(".It Cm ", f);
		put_mdoc(f, s->path);
		if (!weir_setting_is_group(s)) {
			(void)fputs(" Ns No : ", f);
			(void)fputs("\\&", f);
			put_mdoc(f, values_of(s, values, sizeof(values)));
		}
		(void)fputc('\n', f);
		put_mdoc(f, s->help);
		(void)fputs(".\n", f);
		if (s->fallback) {
			(void)fputs("Default: ", f);
			put_mdoc(f, strcmp(s->fallback, "[]") == 0 ? "none" : s->fallback);
			(void)fputs(".\n", f);
		}
	}
	(void)fputs(".El\n", f);
}
