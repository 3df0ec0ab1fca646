/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sentences about limits, between explain*.c and words_request.c only. */
#ifndef WEIR_USER_CONF_WORDS_H
#define WEIR_USER_CONF_WORDS_H

#include "user/config/conf.h"

/* Text into a buffer of the caller's; counts on when it is full. */
struct weir_words {
	char *buf;
	size_t size, n;
};

/* Appends; what does not fit is counted in @n and left out. */
void weir_say(struct weir_words *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "each IPv4 address and each IPv6 /64" */
void weir_say_source(struct weir_words *o, __u8 ipv4_prefix, __u8 ipv6_prefix);
#define WEIR_ITEMS_SHOWN 8
/* What stands before item @i of @n: "", ", " or @last. */
const char *weir_comma(size_t i, size_t n, const char *last);

/* @before and the first few of @item, or nothing. */
void weir_say_texts(struct weir_words *o, const char *before, char *const *item, size_t n);
extern const char *const weir_key_part_words[WEIR_KEY_KIND_MAX];

/* The request layer's part of `weir check`; nothing where there is none. */
void weir_request_explain(const struct weir_conf *c, FILE *f);
/* The same of a shared store. */
void weir_store_explain(const struct weir_conf *c, FILE *f);

#endif
