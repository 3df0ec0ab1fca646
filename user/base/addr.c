/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses and prefixes; see addr.h. */
#include "user/base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const __u8 mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:0:0/96 */

/* The bits of byte @len / 8 that belong to a prefix. */
static __u8 last_byte_mask(unsigned len)
{
	return (__u8)(0xff00 >> len % 8);
}

void weir_addr_mask(union weir_addr *a, __u8 family, __u8 len)
{
	unsigned bits = family == 4 && len > 32 ? 32 : len, n = bits / 8;

	if (n >= sizeof(a->ip))
		return;
	a->ip[n] &= last_byte_mask(bits);
	memset(a->ip + n + 1, 0, sizeof(a->ip) - n - 1);
}

/* "24": one to three digits, no sign, no leading zero. */
static int parse_len(const char *s, size_t n, unsigned *ret)
{
	unsigned v = 0;

	if (n < 1 || n > 3 || (n > 1 && s[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = v;
	return 0;
}

int weir_prefix_parse(const char *text, size_t n, bool mask_host_bits, struct weir_prefix *ret)
{
	const char *slash = memchr(text, '/', n);
	size_t an = slash ? (size_t)(slash - text) : n;
	struct weir_prefix p = {.len = 0};
	union weir_addr whole;
	char buf[INET6_ADDRSTRLEN];
	unsigned len;

	if (an == 0 || an >= sizeof(buf) || memchr(text, '\0', n))
		return -EINVAL;
	memcpy(buf, text, an);
	buf[an] = '\0';
	p.family = memchr(buf, ':', an) ? 6 : 4;
	if (inet_pton(p.family == 6 ? AF_INET6 : AF_INET, buf, p.addr.ip) != 1)
		return -EINVAL;
	len = p.family == 6 ? 128 : 32;
	if (slash) {
		unsigned max = len;

		if (parse_len(slash + 1, n - an - 1, &len) < 0)
			return -EINVAL;
		if (len > max)
			return -ERANGE;
	}
	if (p.family == 6 && len >= 96 && memcmp(p.addr.ip, mapped, sizeof(mapped)) == 0) {
		memmove(p.addr.ip, p.addr.ip + 12, 4);
		memset(p.addr.ip + 4, 0, 12);
		p.family = 4;
		len -= 96;
	}
	p.len = (__u8)len;
	whole = p.addr;
	weir_addr_mask(&p.addr, p.family, p.len);
	if (!mask_host_bits && memcmp(&whole, &p.addr, sizeof(whole)) != 0)
		return -EDOM;
	*ret = p;
	return 0;
}

const char *weir_prefix_format(const struct weir_prefix *p, char buf[static WEIR_PREFIX_STRLEN])
{
	unsigned whole = p->family == 4 ? 32 : 128;
	size_t n;

	if (!inet_ntop(p->family == 4 ? AF_INET : AF_INET6, p->addr.ip, buf, WEIR_PREFIX_STRLEN)) {
		buf[0] = '\0'; /* cannot happen: the buffer is large enough */
		return buf;
	}
	n = strlen(buf);
	if (p->len < whole)
		(void)snprintf(buf + n, WEIR_PREFIX_STRLEN - n, "/%u", p->len); /* it fits */
	return buf;
}

bool weir_prefix_contains(const struct weir_prefix *outer, const struct weir_prefix *inner)
{
	unsigned n = outer->len / 8;

	if (outer->family != inner->family || outer->len > inner->len ||
	    memcmp(inner->addr.ip, outer->addr.ip, n) != 0)
		return false;
	return n == sizeof(outer->addr.ip) ||
	       !((inner->addr.ip[n] ^ outer->addr.ip[n]) & last_byte_mask(outer->len));
}

bool weir_prefix_overlaps(const struct weir_prefix *a, const struct weir_prefix *b)
{
	return weir_prefix_contains(a, b) || weir_prefix_contains(b, a);
}

int weir_prefix_compare(const struct weir_prefix *a, const struct weir_prefix *b)
{
	int c;

	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	c = memcmp(&a->addr, &b->addr, sizeof(a->addr));
	if (c != 0)
		return c;
	return (a->len > b->len) - (a->len < b->len);
}
