/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keys, order and bounds of list entries, and the filter that they widen; see lists_int.h. */
#include "user/datapath/lists_int.h"

#include <string.h>

static const char *const list_name[WEIR_LIST_MAX] = {"allow list", "block list",
						     "never_block list"};

const void *weir_list_key(const struct weir_prefix *p, union weir_list_key *k)
{
	memset(k, 0, sizeof(*k));
	if (p->family == 4) {
		k->v4.prefix_len = p->len;
		k->v4.word = p->addr.word[0];
	} else {
		k->v6.prefix_len = p->len;
		memcpy(k->v6.word, p->addr.word, sizeof(k->v6.word));
	}
	return k;
}

int weir_list_check(const struct weir_prefix *p, struct weir_error *e)
{
	if ((p->family == 4 && p->len <= 32) || (p->family == 6 && p->len <= 128))
		return 0;
	return weir_error_set(e, -EINVAL, "not a prefix: family %u, length %u", p->family, p->len);
}

int weir_list_no_room(struct weir_error *e, enum weir_list list, __u8 family, __u32 holds,
		      size_t more, __u32 room)
{
	return weir_error_set(e, -ENOSPC,
			      "%s, IPv%u: it holds %u entries and has room for %u; %zu more were "
			      "to go in: %zu do not fit, so none was taken",
			      list_name[list], family, holds, room, more, holds + more - room);
}

static int by_prefix(const void *a, const void *b)
{
	const struct weir_list_sorted *x = a, *y = b;
	int c = weir_prefix_compare(&x->item->prefix, &y->item->prefix);

	return c ? c : x->at < y->at ? -1 : 1;
}

int weir_list_sort(const struct weir_list_item *item, size_t n, struct weir_list_sorted **ret,
		   size_t *ret_n)
{
	_cleanup_free_ struct weir_list_sorted *s = calloc(n + 1, sizeof(*s));
	size_t to = 0;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		s[i] = (struct weir_list_sorted){&item[i], i};
	qsort(s, n, sizeof(*s), by_prefix);
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n &&
		    weir_prefix_compare(&s[i].item->prefix, &s[i + 1].item->prefix) == 0)
			continue;
		s[to++] = s[i];
	}
	*ret = TAKE_PTR(s);
	*ret_n = to;
	return 0;
}

int weir_list_widen(struct weir_filter *f, enum weir_list list, const struct weir_prefix *p,
		    struct weir_error *e)
{
	if (weir_filter_add(f, list, p) == 0)
		return 0;
	return weir_error_set(e, -ENOSPC,
			      "%s: IPv%u prefixes of more than %d different lengths (fewer lengths "
			      "would be right; /%u is one too many)",
			      list_name[list], p->family, WEIR_LIST_LENS, p->len);
}
