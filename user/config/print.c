/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of settings as help, as a section of the man page, and as the default configuration file. */
#include <string.h>

#include "user/config/schema.h"

static unsigned depth_of(const struct weir_setting *s)
{
	unsigned d = 0;

	for (const char *c = s->path; *c; c++)
		d += *c == '.';
	return d;
}

static bool below_limits(const struct weir_setting *s)
{
	return strncmp(s->path, "packet_limits.", 14) == 0;
}

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
	char values[128];

	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];
		unsigned in = 2 + 2 * depth_of(s);

		if (s->kind == WEIR_KIND_LATER)
			continue;
		(void)fprintf(f, "%*s%s:", (int)in, "", weir_setting_key(s));
		if (s->kind != WEIR_KIND_SECTION)
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
	char values[128];

	(void)fputs(".Bl -tag -width Ds\n", f);
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (s->kind == WEIR_KIND_LATER)
			continue;
		(void)fputs(".It Cm ", f);
		put_mdoc(f, s->path);
		if (s->kind != WEIR_KIND_SECTION) {
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

/* What the default file says where the table's default is not it. */
static const struct {
	const char *path, *text;
} first_file[] = {
	{"version", "version: 1\n"},
	{"interfaces", "interfaces: []                # for example [eth0]\n"},
	{"mode", "mode: monitor                 # enforce when the numbers look right\n"},
};

/* What a setting without a default looks like, commented out. */
static const struct {
	const char *path, *text;
} examples[] = {
	{"admin.group", "weir"},
	{"packet_limits.name", "per-source"},
	{"packet_limits.match.protocol", "tcp"},
	{"packet_limits.match.tcp_flags.set", "[syn]"},
	{"packet_limits.match.tcp_flags.clear", "[ack]"},
	{"packet_limits.match.source_port", "{not: [53, 123]}"},
	{"packet_limits.match.destination_port", "[80, 443, 27015-27054]"},
	{"packet_limits.match.source", "{not: [192.0.2.0/24]}"},
	{"packet_limits.match.destination", "198.51.100.0/28"},
	{"packet_limits.match.fragment", "false"},
	{"packet_limits.match.vlan", "[0, 100-199]"},
	{"packet_limits.rate", "20000/s"},
	{"packet_limits.burst", "20000"},
	{"packet_limits.block_for", "10s"},
};

static const char *example_of(const struct weir_setting *s)
{
	for (size_t i = 0; i < ARRAY_LEN(examples); i++)
		if (strcmp(examples[i].path, s->path) == 0)
			return examples[i].text;
	return s->fallback;
}

/* One setting, commented out, with its help above it; "#key" and "#  key" are settings, "# text" is text. */
static void print_commented(const struct weir_setting *s, unsigned in, const char *lead, FILE *f)
{
	const char *value = example_of(s);
	char line[160];
	int n;

	n = snprintf(line, sizeof(line), "#%*s%s%s:%s%s", (int)in, "", lead, weir_setting_key(s),
		     value ? " " : "", value ? value : "");
	(void)fprintf(f, "%-*s  # %s\n", n < 48 ? 48 : n, line, s->help);
}

/* The settings of a limit, as one commented limit; those of windows stand in text, a bucket cannot have them. */
static void print_limit_reference(FILE *f)
{
	bool first = true;

	(void)fputs("#\n# Everything that a limit can say:\n", f);
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];

		if (!below_limits(s))
			continue;
		if (s->given & (WEIR_GIVEN_LIMIT | WEIR_GIVEN_WINDOW)) {
			(void)fprintf(f, "# %s: %s\n", weir_setting_key(s), s->help);
			continue;
		}
		print_commented(s, depth_of(s) * 2 + (first ? 0 : 2), first ? "- " : "", f);
		first = false;
	}
}

void weir_conf_print_default(FILE *f)
{
	(void)fputs("# weir: limits for packets. `weir check` says what this file means and what "
		    "is wrong with it;\n"
		    "# `weir reload` puts a changed one in force. Lines that begin with # are "
		    "comments; the\n"
		    "# settings among them show the defaults, or an example where there is no "
		    "default.\n",
		    f);
	for (size_t i = 0; i < weir_settings_n; i++) {
		const struct weir_setting *s = &weir_settings[i];
		const char *own = NULL;

		if (s->kind == WEIR_KIND_LATER || below_limits(s))
			continue;
		for (size_t j = 0; j < ARRAY_LEN(first_file); j++)
			if (strcmp(first_file[j].path, s->path) == 0)
				own = first_file[j].text;
		if (s->kind == WEIR_KIND_SECTION)
			(void)fputc('\n', f);
		if (own)
			(void)fprintf(f, "# %s\n%s", s->help, own);
		else if (s->kind != WEIR_KIND_LIMITS)
			print_commented(s, depth_of(s) * 2, "", f);
	}
	(void)fputs("\n"
		    "# Judged in order; a packet that one drops is charged to none after it.\n"
		    "packet_limits:\n"
		    "  - name: syn-per-source      # new TCP connections of one source\n"
		    "    match: {protocol: tcp, tcp_flags: {set: [syn], clear: [ack]}}\n"
		    "    rate: 100/s\n"
		    "    burst: 200\n"
		    "  - name: per-source          # everything that one source sends\n"
		    "    rate: 20000/s\n",
		    f);
	print_limit_reference(f);
}
