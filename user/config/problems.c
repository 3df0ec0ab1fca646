/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that is wrong with a file; see problems.h. */
#include "user/config/problems.h"

#include <string.h>

#include "user/base/str.h"

#define TEXT_MAX 512

bool weir_problems_full(const struct weir_conf_problems *p)
{
	return p->n >= WEIR_PROBLEMS_MAX;
}

/* Bytes that must not go to a terminal as '?': what other modules say may hold text of the user's. */
static void make_printable(char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n;) {
		size_t ok = weir_str_printable(text + i, n - i);

		if (!ok)
			text[i] = '?';
		i += ok ? ok : 1;
	}
}

void weir_problems_vadd(struct weir_conf_problems *p, bool warning, const char *file, int line,
			int column, const char *format, va_list ap)
{
	struct weir_conf_problem *q;
	char text[TEXT_MAX];

	if (warning)
		p->n_warnings++;
	else
		p->n_errors++; /* also where memory for its text is short: an error is never lost */
	if (weir_problems_full(p))
		return;
	q = reallocarray(p->item, p->n + 1, sizeof(*q));
	if (!q)
		return;
	p->item = q;
	(void)vsnprintf(text, sizeof(text), format, ap); /* too long: cut */
	make_printable(text);
	q += p->n;
	*q = (struct weir_conf_problem){.line = line, .column = column, .warning = warning};
	q->text = strdup(text);
	q->file = file ? strdup(file) : NULL;
	if (!q->text) {
		free(q->file);
		return;
	}
	p->n++;
}

void weir_problems_add(struct weir_conf_problems *p, bool warning, const char *file, int line,
		       int column, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	weir_problems_vadd(p, warning, file, line, column, format, ap);
	va_end(ap);
}

/* Problems of the configuration first, then those of each list file as they were read. */
static bool comes_after(const struct weir_conf_problem *a, const struct weir_conf_problem *b)
{
	if (!a->file != !b->file)
		return a->file != NULL;
	if (a->file && strcmp(a->file, b->file) != 0)
		return false;
	if (a->line != b->line)
		return a->line > b->line;
	return a->column > b->column;
}

void weir_problems_sort(struct weir_conf_problems *p)
{
	/* few, and in order already for the most part; must be stable */
	for (size_t i = 1; i < p->n; i++) {
		struct weir_conf_problem one = p->item[i];
		size_t j = i;

		for (; j > 0 && comes_after(&p->item[j - 1], &one); j--)
			p->item[j] = p->item[j - 1];
		p->item[j] = one;
	}
}

void weir_conf_problems_done(struct weir_conf_problems *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->item[i].text);
		free(p->item[i].file);
	}
	free(p->item);
	*p = (struct weir_conf_problems){.n = 0};
}

void weir_conf_problems_print(const struct weir_conf_problems *p, const char *name, FILE *f)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct weir_conf_problem *q = &p->item[i];

		(void)fprintf(f, "weir: %s:", q->file ? q->file : name);
		if (q->line)
			(void)fprintf(f, "%d:", q->line);
		if (q->line && q->column)
			(void)fprintf(f, "%d:", q->column);
		(void)fprintf(f, " %s%s\n", q->warning ? "warning: " : "", q->text);
	}
	if (p->n_errors + p->n_warnings > p->n)
		(void)fprintf(f, "weir: %s: %zu more problems are not shown\n", name,
			      p->n_errors + p->n_warnings - p->n);
}

const char *weir_conf_shown(const char *text, size_t n, char buf[static WEIR_SHOWN_MAX])
{
	const size_t room = WEIR_SHOWN_MAX - 4; /* and "..." */
	size_t len = n < room ? n : room;

	while (n > room && len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--; /* do not cut inside a character */
	for (size_t i = 0; i < len;) {
		size_t ok = weir_str_printable(text + i, len - i);

		if (ok)
			memcpy(buf + i, text + i, ok);
		else
			buf[i] = '?';
		i += ok ? ok : 1;
	}
	memcpy(buf + len, n > room ? "..." : "", n > room ? 4 : 1);
	return buf;
}
