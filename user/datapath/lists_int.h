/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the kernel's lists share: lists.c (entries of the lists in force), lists_fill.c (whole lists),
 * lists_read.c, lists_items.c (keys, order and bounds of entries). Not for others.
 */
#ifndef WEIR_USER_LISTS_INT_H
#define WEIR_USER_LISTS_INT_H

#include "user/datapath/datapath_int.h"
#include "user/datapath/filter.h"

union weir_list_key {
	struct weir_prefix4 v4;
	struct weir_prefix6 v6;
};

/* Returns @k, filled in for either family's map. */
const void *weir_list_key(const struct weir_prefix *p, union weir_list_key *k);

static inline bool weir_list_is_over(const struct weir_list_item *i, __u64 now_ns)
{
	return i->expires_ns && i->expires_ns <= now_ns;
}

/* 0, or -EINVAL with a sentence: no prefix. */
int weir_list_check(const struct weir_prefix *p, struct weir_error *e);
/* -ENOSPC with a sentence: @more entries beside the @holds of a map with room for @room. */
int weir_list_no_room(struct weir_error *e, enum weir_list list, __u8 family, __u32 holds,
		      size_t more, __u32 room);

struct weir_list_sorted {
	const struct weir_list_item *item;
	size_t at;
};
/* Each prefix once, the last of equal ones. */
int weir_list_sort(const struct weir_list_item *item, size_t n, struct weir_list_sorted **ret,
		   size_t *ret_n);
/* @f lets @p through to the list; -ENOSPC with a sentence: too many lengths. */
int weir_list_widen(struct weir_filter *f, enum weir_list list, const struct weir_prefix *p,
		    struct weir_error *e);

/* All of one map in one call: we are its only writer. Arrays on the heap. -errno. */
int weir_list_read_map(int fd, void **ret_keys, struct weir_entry **ret_values, __u32 *ret_n);

#endif
