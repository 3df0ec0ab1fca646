/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Header lines of a request; see header_list.h. */
#include "user/l7/header_list.h"

#include <errno.h>
#include <string.h>

/* Every byte of every header line comes by here: a table for names, eight bytes at once for values. */
static const bool token[256] = {
	['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['!'] = true,
	['#'] = true,	      ['$'] = true,	    ['%'] = true,	  ['&'] = true,
	['\''] = true,	      ['*'] = true,	    ['+'] = true,	  ['-'] = true,
	['.'] = true,	      ['^'] = true,	    ['_'] = true,	  ['`'] = true,
	['|'] = true,	      ['~'] = true};

bool weir_text_is_token(struct weir_text t)
{
	bool good = t.n > 0;

	for (size_t i = 0; i < t.n; i++)
		good &= token[(unsigned char)t.p[i]];
	return good;
}

static bool breaks_line(char c)
{
	return c == '\0' || c == '\r' || c == '\n';
}

/* NUL, CR or LF? They are all below 16, as hardly any byte of a value is. */
static bool has_break(struct weir_text t)
{
	const unsigned long long each = 0x0101010101010101ull;
	unsigned long long eight;
	size_t i = 0;

	for (; t.n - i >= sizeof(eight); i += sizeof(eight)) {
		memcpy(&eight, t.p + i, sizeof(eight));
		if (!((eight - each * 16) & ~eight & (each * 128)))
			continue;
		for (size_t k = i; k < i + sizeof(eight); k++)
			if (breaks_line(t.p[k]))
				return true;
	}
	for (; i < t.n; i++)
		if (breaks_line(t.p[i]))
			return true;
	return false;
}

struct weir_text weir_text_of(const char *s)
{
	return (struct weir_text){.p = s, .n = strlen(s)};
}

bool weir_text_equal(struct weir_text a, struct weir_text b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool weir_text_equal_fold(struct weir_text a, struct weir_text b)
{
	if (weir_text_equal(a, b)) /* nearly always, where they are alike at all */
		return true;
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		if (weir_ascii_lower(a.p[i]) != weir_ascii_lower(b.p[i]))
			return false;
	}
	return true;
}

struct weir_text weir_text_trim(struct weir_text t)
{
	while (t.n && (t.p[0] == ' ' || t.p[0] == '\t')) {
		t.p++;
		t.n--;
	}
	while (t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

int weir_header_list_add(struct weir_header_list *list, struct weir_text name,
			 struct weir_text value)
{
	if (!weir_text_is_token(name) || has_break(value))
		return -EBADMSG;
	if (list->n == WEIR_HEADER_LINES_MAX)
		return -E2BIG;
	list->line[list->n++] = (struct weir_header){.name = name, .value = weir_text_trim(value)};
	return 0;
}

const struct weir_header *weir_header_list_next(const struct weir_header_list *list,
						struct weir_text name,
						const struct weir_header *after)
{
	size_t i = after ? (size_t)(after - list->line) + 1 : 0;

	for (; i < list->n; i++) {
		if (weir_text_equal_fold(list->line[i].name, name))
			return &list->line[i];
	}
	return NULL;
}

const struct weir_header *weir_header_list_previous(const struct weir_header_list *list,
						    struct weir_text name,
						    const struct weir_header *before)
{
	size_t i = before ? (size_t)(before - list->line) : list->n;

	while (i-- > 0) {
		if (weir_text_equal_fold(list->line[i].name, name))
			return &list->line[i];
	}
	return NULL;
}
