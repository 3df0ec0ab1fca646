/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Header lines of a request; see header_list.h. */
#include "user/l7/header_list.h"

#include <errno.h>
#include <string.h>

bool weir_text_is_token(struct weir_text t)
{
	static const char mark[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < t.n; i++) {
		char c = weir_ascii_lower(t.p[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    !memchr(mark, c, sizeof(mark) - 1))
			return false;
	}
	return t.n > 0;
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
	if (!weir_text_is_token(name))
		return -EBADMSG;
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] == '\0' || value.p[i] == '\r' || value.p[i] == '\n')
			return -EBADMSG;
	}
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
