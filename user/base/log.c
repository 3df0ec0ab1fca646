/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Log lines as text or JSON; see log.h. A line is built in one buffer and written at once, so that lines of a pipe
 * never mix; too long a line is cut at a pair and says so.
 */
#include "user/base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_MAX_BYTES 4096
#define LINE_TAIL      32 /* room for the end of a cut line */

static struct {
	FILE *f;
	bool json;
	bool journal;
	enum weir_log_level least;
} log_to = {.least = WEIR_LOG_INFO};

struct line {
	char text[LINE_MAX_BYTES];
	size_t n;
	bool full;
};

void weir_log_open(FILE *f, bool json, enum weir_log_level least)
{
	log_to.f = f;
	log_to.json = json;
	log_to.journal = getenv("JOURNAL_STREAM") != NULL;
	log_to.least = least;
}

bool weir_log_wants(enum weir_log_level level)
{
	return level <= log_to.least;
}

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...)
{
	size_t room = sizeof(l->text) - LINE_TAIL - l->n;
	va_list ap;
	int n;

	if (l->full)
		return;
	va_start(ap, format);
	n = vsnprintf(l->text + l->n, room, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		l->full = true;
	else
		l->n += (size_t)n;
}

/* Length of the well-formed UTF-8 sequence at @s, 0 if there is none. */
static size_t utf8_len(const unsigned char *s)
{
	size_t n = s[0] < 0x80			 ? 1
		   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static void put_quoted(struct line *l, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	put(l, "\"");
	while (*s) {
		size_t n = utf8_len(s);

		if (*s == '"' || *s == '\\')
			put(l, "\\%c", *s++);
		else if (*s < 0x20 || *s == 0x7f)
			put(l, "\\u%04x", *s++);
		else if (!n && s++)
			put(l, "\\ufffd"); /* not UTF-8: the replacement character */
		else {
			put(l, "%.*s", (int)n, (const char *)s);
			s += n;
		}
	}
	put(l, "\"");
}

/* Text needs quotes only where a reader could be misled. */
static void put_string(struct line *l, const char *s)
{
	bool plain = *s && !log_to.json;

	for (const char *c = s; plain && *c; c++)
		plain = isgraph((unsigned char)*c) && *c != '"' && *c != '=' && *c != '\\';
	if (plain)
		put(l, "%s", s);
	else
		put_quoted(l, s);
}

static void put_value(struct line *l, const char *key, char type, va_list *ap)
{
	const char *s = NULL;

	if (type == 's') {
		s = va_arg(*ap, const char *);
		if (!s)
			return;
	}
	put(l, log_to.json ? ",\"%s\":" : " %s=", key);
	switch (type) {
	case 's':
		put_string(l, s);
		break;
	case 'u':
		put(l, "%llu", va_arg(*ap, unsigned long long));
		break;
	case 'd':
		put(l, "%lld", va_arg(*ap, long long));
		break;
	case 'b':
		put(l, "%s", va_arg(*ap, int) ? "true" : "false");
		break;
	case 'f':
		put(l, "%.6g", va_arg(*ap, double));
		break;
	case 'e':
		put_string(l, strerror(abs(va_arg(*ap, int))));
		break;
	}
}

static void put_head(struct line *l, enum weir_log_level level, const char *event)
{
	static const char *const names[] = {"error",   "error",	 "error", "error",
					    "warning", "notice", "info",  "debug"};
	const char *name = names[level & 7];
	char stamp[32];
	struct timespec ts;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME, &ts); /* cannot fail */
	(void)gmtime_r(&ts.tv_sec, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	if (log_to.journal)
		put(l, "<%d>", level);
	if (log_to.json)
		put(l, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"event\":\"%s\"", stamp,
		    ts.tv_nsec / 1000000, name, event);
	else if (log_to.journal)
		put(l, "%s", event);
	else
		put(l, "%s.%03ldZ %s %s", stamp, ts.tv_nsec / 1000000, name, event);
}

void weir_log(enum weir_log_level level, const char *event, ...)
{
	FILE *f = log_to.f ? log_to.f : stderr;
	struct line l = {.n = 0};
	const char *key;
	va_list ap;

	if (!weir_log_wants(level))
		return;
	put_head(&l, level, event);
	va_start(ap, event);
	while ((key = va_arg(ap, const char *))) {
		const char *type = va_arg(ap, const char *);
		size_t before = l.n;

		put_value(&l, key, type[0], &ap);
		if (l.full) {
			l.n = before;
			break;
		}
	}
	va_end(ap);
	if (l.full) {
		l.full = false;
		l.n += (size_t)snprintf(l.text + l.n, LINE_TAIL, "%s",
					log_to.json ? ",\"cut\":true" : " cut=true");
	}
	l.n += (size_t)snprintf(l.text + l.n, sizeof(l.text) - l.n, log_to.json ? "}\n" : "\n");
	(void)fwrite(l.text, 1, l.n, f); /* where would a failed log line be logged? */
	(void)fflush(f);
}
