/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers with units, to and from text. Whole strings only: no sign, no leading or trailing anything; the number may
 * have a fraction where a unit follows ("1.5 MB"). Called by the configuration and the command line.
 * All parsers return 0; -EINVAL: not such a value; -ERANGE: too large, or too small to mean anything.
 */
#ifndef WEIR_USER_STR_H
#define WEIR_USER_STR_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/types.h"

/* "1234", at most @max. */
int weir_str_u64(const char *s, __u64 max, __u64 *ret);
/* "10s", "5ms", "1h", "500us", "2 m", "1d", "250ns". A bare 0 is allowed, another number needs its unit. */
int weir_str_duration_ns(const char *s, __u64 *ret_ns);
/* "4096", "16 MB", "4 MiB", "10k": k, M, G, T are powers of ten; Ki, Mi, Gi, Ti powers of two; B may follow. */
int weir_str_size_bytes(const char *s, __u64 *ret_bytes);

/* "20000/s", "100/m", "3/h", "20k/s": packets. "200 Mbit/s", "25 MB/s": bytes. @amount every @per_ns. */
struct weir_rate {
	__u64 amount;
	__u64 per_ns;
	bool bytes;
};
int weir_str_rate(const char *s, struct weir_rate *ret);
/* "200", "4 MB", "1 Mbit": a number of packets, or of bytes where a unit of bytes or bits is given. */
int weir_str_amount(const char *s, __u64 *ret, bool *ret_bytes);
/* Reads "true", "false", "yes", "no", "on", "off". */
int weir_str_bool(const char *s, bool *ret);

/* Counterparts; shortest exact text where there is one ("1500ms", "16 MiB", "20000/s", "200 Mbit/s"). */
#define WEIR_STR_MAX 48
const char *weir_str_format_duration(__u64 ns, char buf[static WEIR_STR_MAX]);
const char *weir_str_format_size(__u64 bytes, char buf[static WEIR_STR_MAX]);
const char *weir_str_format_amount(__u64 n, bool bytes, char buf[static WEIR_STR_MAX]);
const char *weir_str_format_rate(const struct weir_rate *r, char buf[static WEIR_STR_MAX]);
/* For people watching: "1.2k", "37.5M"; about three digits. */
const char *weir_str_format_count(__u64 n, char buf[static WEIR_STR_MAX]);

/* The candidate (@n of them, NULL entries skipped) that @word most likely meant; NULL if none is near. */
const char *weir_str_closest(const char *word, const char *const *candidates, size_t n);

/* strlcpy for fixed buffers; returns false if it was cut. */
bool weir_str_copy(char *to, size_t size, const char *from);

/* Bytes of the character at the front of @text that may go to a terminal as it is: 0 if that byte is a control
 * character or not UTF-8.
 */
size_t weir_str_printable(const char *text, size_t n);

#endif
