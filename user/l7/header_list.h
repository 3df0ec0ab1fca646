/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A bounded view of one request's header lines, and text by pointer and length. Filled by the HTTP side in the order
 * of the wire; read by client.c and key.c. Nothing is copied: the lines must outlive the list.
 */
#ifndef WEIR_USER_HEADER_LIST_H
#define WEIR_USER_HEADER_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of somebody else's, not ended by a NUL; n = 0: none. */
struct weir_text {
	const char *p;
	size_t n;
};

#define WEIR_HEADER_LINES_MAX 128

struct weir_header {
	struct weir_text name;
	struct weir_text value; /* without the blanks around it */
};

/* All zero is an empty list. */
struct weir_header_list {
	struct weir_header line[WEIR_HEADER_LINES_MAX];
	size_t n;
};

/* Appends one line. -E2BIG: the list is full, and the request must be refused (431): a line that is left out may be the
 * proxy's own. -EBADMSG: @name is no token (RFC 9110), or @value holds NUL, CR or LF.
 */
int weir_header_list_add(struct weir_header_list *list, struct weir_text name,
			 struct weir_text value);

/* The next line named @name after @after (NULL: the first one), or before @before (NULL: the last one); NULL: none.
 * Case does not matter.
 */
const struct weir_header *weir_header_list_next(const struct weir_header_list *list,
						struct weir_text name,
						const struct weir_header *after);
const struct weir_header *weir_header_list_previous(const struct weir_header_list *list,
						    struct weir_text name,
						    const struct weir_header *before);

/* Not empty, and only characters of a token (RFC 9110 5.6.2). */
bool weir_text_is_token(struct weir_text t);
struct weir_text weir_text_of(const char *s);
bool weir_text_equal(struct weir_text a, struct weir_text b);
/* Case of ASCII letters does not matter; no locale has a say. */
bool weir_text_equal_fold(struct weir_text a, struct weir_text b);
/* Without spaces and tabs at both ends. */
struct weir_text weir_text_trim(struct weir_text t);
static inline char weir_ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}
/* The value of a hexadecimal digit; -1: it is none. */
static inline int weir_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = weir_ascii_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
