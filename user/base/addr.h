/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses and prefixes of both families, as text and as bytes. Called by everything that reads or prints one. */
#ifndef WEIR_USER_ADDR_H
#define WEIR_USER_ADDR_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/pkt.h"

/* family 4: address in addr.word[0], len 0..32; family 6: len 0..128. Host bits are zero. */
struct weir_prefix {
	union weir_addr addr;
	__u8 family;
	__u8 len;
};

#define WEIR_PREFIX_STRLEN 52 /* longest text with its NUL */

/* Parses "192.0.2.0/24", "2001:db8::/32" or an address without a length, @n bytes. An IPv4-mapped IPv6 address
 * (::ffff:192.0.2.1, also with /96 and longer) becomes IPv4. Returns 0; -EINVAL: no address; -ERANGE: length out
 * of range; -EDOM: host bits are set, unless @mask_host_bits, which clears them.
 */
int weir_prefix_parse(const char *text, size_t n, bool mask_host_bits, struct weir_prefix *ret);

/* Writes "192.0.2.0/24"; a whole address without its length. Returns @buf. */
const char *weir_prefix_format(const struct weir_prefix *p, char buf[static WEIR_PREFIX_STRLEN]);

/* Zeroes the bits of @a beyond @len. */
void weir_addr_mask(union weir_addr *a, __u8 family, __u8 len);

/* Does @outer contain all of @inner? Do they share an address? Order by family, address, length (for sorting). */
bool weir_prefix_contains(const struct weir_prefix *outer, const struct weir_prefix *inner);
bool weir_prefix_overlaps(const struct weir_prefix *a, const struct weir_prefix *b);
int weir_prefix_compare(const struct weir_prefix *a, const struct weir_prefix *b);

#endif
