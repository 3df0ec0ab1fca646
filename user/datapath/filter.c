/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the bitmaps and prefix lengths that spare most packets the lists; see filter.h. */
#include <errno.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/datapath/filter.h"

static void set_bit(__u64 *bits, __u32 i)
{
	(void)__atomic_fetch_or(&bits[i >> 6], 1ull << (i & 63), __ATOMIC_RELEASE);
}

static void set_bits(struct weir_filter *f, const struct weir_prefix *p)
{
	__u32 first, n, i;

	if (p->family == 4) {
		if (p->len == 32) {
			set_bit(f->exact_bits, weir_filter_exact4(p->addr.word[0]));
			return;
		}
		first = weir_filter_prefix4(p->addr.word[0]);
		n = p->len < 16 ? 1u << (16 - p->len) : 1;
		first &= ~(n - 1);
		for (i = 0; i < n; i++)
			set_bit(f->prefix_bits, first + i);
		return;
	}
	if (p->len == 128)
		set_bit(f->exact_bits, weir_filter_exact6(p->addr.word));
	else if (p->len >= 32)
		set_bit(f->prefix_bits, weir_filter_prefix6(p->addr.word[0]));
	else
		__atomic_store_n(&f->wide6, 1, __ATOMIC_RELEASE);
}

/* Inserts @len, longest first. A reader that comes in between sees some length twice, never one less. */
static int add_len(__u8 *lens, __u8 *n, __u8 len)
{
	int at, i;

	for (at = 0; at < *n && lens[at] > len; at++)
		;
	if (at < *n && lens[at] == len)
		return 0;
	if (*n >= WEIR_LIST_LENS)
		return -E2BIG;
	__atomic_store_n(&lens[*n], at < *n ? lens[*n - 1] : len, __ATOMIC_RELEASE);
	__atomic_store_n(n, *n + 1, __ATOMIC_RELEASE);
	for (i = *n - 2; i > at; i--)
		__atomic_store_n(&lens[i], lens[i - 1], __ATOMIC_RELEASE);
	__atomic_store_n(&lens[at], len, __ATOMIC_RELEASE);
	return 0;
}

int weir_filter_add(struct weir_filter *f, enum weir_list list, const struct weir_prefix *p)
{
	int r = p->family == 4 ? add_len(f->len4[list], &f->n4[list], p->len)
			       : add_len(f->len6[list], &f->n6[list], p->len);

	if (r < 0)
		return r;
	if (list != WEIR_LIST_GUARD)
		set_bits(f, p);
	return 0;
}
