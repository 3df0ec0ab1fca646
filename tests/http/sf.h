/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Structured fields (RFC 9651), as far as RateLimit and RateLimit-Policy need them, and not a byte more lenient: a list
 * of strings with parameters. Whatever a strict client would throw away fails the test.
 */
#ifndef WEIR_TESTS_SF_H
#define WEIR_TESTS_SF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SF_ITEMS_MAX 32

/* -1: the parameter is not there. */
struct sf_item {
	char name[128];
	long long q, w, r, t;
};

static inline bool sf_is(char c, const char *set)
{
	return c && strchr(set, c);
}

#define SF_DIGITS "0123456789"
#define SF_LOWER  "abcdefghijklmnopqrstuvwxyz"

static inline const char *sf_string(const char *at, const char *all, char *ret, size_t size)
{
	size_t n = 0;

	if (*at++ != '"')
		fail_msg("no string: %s", all);
	for (; *at != '"'; at++) {
		if (*at == '\\' && !sf_is(*++at, "\"\\"))
			fail_msg("a backslash before neither \" nor \\: %s", all);
		if (*at < ' ' || *at > '~' || n + 1 >= size)
			fail_msg("a string that ends nowhere, or bytes it may not have: %s", all);
		ret[n++] = *at;
	}
	ret[n] = '\0';
	return at + 1;
}

static inline const char *sf_integer(const char *at, const char *all, long long *ret)
{
	bool minus = *at == '-';
	size_t n;

	at += minus;
	n = strspn(at, SF_DIGITS);
	if (!n || n > 15)
		fail_msg("no integer of 1 to 15 digits: %s", all);
	*ret = 0;
	for (; n; n--)
		*ret = 10 * *ret + *at++ - '0';
	if (minus)
		*ret = -*ret;
	if (*at == '.')
		fail_msg("a decimal: %s", all);
	return at;
}

static inline const char *sf_parameter(const char *at, const char *all, struct sf_item *item)
{
	char key[32], text[128];
	long long n = 0, *to;
	size_t len;

	at++; /* ; */
	at += strspn(at, " ");
	len = strspn(at, SF_LOWER SF_DIGITS "_-.*");
	if (!sf_is(*at, SF_LOWER "*") || len >= sizeof(key))
		fail_msg("no key of a parameter: %s", all);
	memcpy(key, at, len);
	key[len] = '\0';
	at += len;
	to = !strcmp(key, "q")	 ? &item->q
	     : !strcmp(key, "w") ? &item->w
	     : !strcmp(key, "r") ? &item->r
	     : !strcmp(key, "t") ? &item->t
				 : NULL;
	if (*at != '=')
		fail_msg("%s has no value: %s", key, all);
	at++;
	if (*at == '"') {
		at = sf_string(at, all, text, sizeof(text));
		if (to)
			fail_msg("%s is no number: %s", key, all);
		return at;
	}
	at = sf_integer(at, all, &n);
	if (!to || *to != -1 || n < 0)
		fail_msg("%s is unknown, negative or there twice: %s", key, all);
	*to = n;
	return at;
}

/* Returns how many there are. */
static inline size_t sf_list(const char *all, struct sf_item items[static SF_ITEMS_MAX])
{
	const char *at = all;
	size_t n = 0;

	for (;;) {
		if (n == SF_ITEMS_MAX)
			fail_msg("more than %d items: %s", SF_ITEMS_MAX, all);
		items[n] = (struct sf_item){.q = -1, .w = -1, .r = -1, .t = -1};
		at = sf_string(at, all, items[n].name, sizeof(items[n].name));
		while (*at == ';')
			at = sf_parameter(at, all, &items[n]);
		n++;
		if (!*at)
			return n;
		at += strspn(at, " \t");
		if (*at++ != ',')
			fail_msg("neither a comma nor the end: %s", all);
		at += strspn(at, " \t");
	}
}

static inline const struct sf_item *sf_find(const struct sf_item *items, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(items[i].name, name) == 0)
			return &items[i];
	return NULL;
}

#endif
