/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers, times and sentences for people. Called by every command. */
#include <stdarg.h>
#include <string.h>

#include "user/agent/json.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

int weir_fail(int code, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	(void)fputs("weir: ", stderr);
	weir_say_clean(stderr, text);
	(void)fputc('\n', stderr);
	return code;
}

void weir_say_clean(FILE *f, const char *text)
{
	for (size_t n = strlen(text); n;) {
		size_t ok = weir_str_printable(text, n);

		(void)(ok ? fwrite(text, 1, ok, f) : fwrite("?", 1, 1, f)); /* main tells */
		text += ok ? ok : 1;
		n -= ok ? ok : 1;
	}
}

void weir_say_loss(__u64 n, const char *text)
{
	if (n)
		(void)printf("loss        %llu %s\n", (unsigned long long)n, text);
}

void weir_say_lines(FILE *f, const json_t *o, const char *key, const char *before)
{
	json_t *line;
	size_t i;

	json_array_foreach(json_object_get(o, key), i, line) {
		(void)fputs(before, f); /* main tells of a stream that fails */
		weir_say_clean(f, json_string_value(line) ? json_string_value(line) : "?");
		(void)fputc('\n', f);
	}
}

const char *weir_say_health(const char *health)
{
	return health && !strcmp(health, "open") ? "AWAY" : health ? health : "?";
}

const char *weir_say_store(const json_t *shared)
{
	bool some = weir_json_u64_of(shared, "nodes_away") < weir_json_u64_of(shared, "nodes");
	const char *health = weir_json_text_of(shared, "health");

	return some && health && !strcmp(health, "open") ? "partly AWAY" : weir_say_health(health);
}

const char *weir_say_span(__u64 s, char buf[static WEIR_SAY_MAX])
{
	if (s >= 86400)
		(void)snprintf(buf, WEIR_SAY_MAX, "%llu d %llu h", (unsigned long long)(s / 86400),
			       (unsigned long long)(s % 86400 / 3600));
	else if (s >= 3600)
		(void)snprintf(buf, WEIR_SAY_MAX, "%llu h %llu min", (unsigned long long)(s / 3600),
			       (unsigned long long)(s % 3600 / 60));
	else if (s >= 120)
		(void)snprintf(buf, WEIR_SAY_MAX, "%llu min %llu s", (unsigned long long)(s / 60),
			       (unsigned long long)(s % 60));
	else
		(void)snprintf(buf, WEIR_SAY_MAX, "%llu s", (unsigned long long)s);
	return buf;
}

const char *weir_say_ms(__u64 ms, char buf[static WEIR_SAY_MAX])
{
	if (ms >= 10000)
		return weir_say_span((ms + 999) / 1000, buf);
	(void)snprintf(buf, WEIR_SAY_MAX, "%llu ms", (unsigned long long)ms);
	return buf;
}

const char *weir_say_bits(__u64 bytes_per_second, char buf[static WEIR_SAY_MAX])
{
	static const char *const units[] = {"", "k", "M", "G", "T"};
	double v = (double)bytes_per_second * 8;
	size_t u = 0;

	while (v >= 999.5 && u + 1 < ARRAY_LEN(units)) {
		v /= 1000;
		u++;
	}
	(void)snprintf(buf, WEIR_SAY_MAX, "%.*f %sbit/s", v < 10 && u ? 1 : 0, v, units[u]);
	return buf;
}

int weir_print_json(const json_t *j)
{
	if (json_dumpf(j, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF ||
	    fflush(stdout) == EOF)
		return WEIR_EXIT_FAILED; /* weir_cli_main tells */
	return WEIR_EXIT_OK;
}

bool weir_is_terminal(void)
{
	return isatty(STDOUT_FILENO) == 1;
}
