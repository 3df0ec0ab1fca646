/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole lists into new maps. The filter in front is widened before an entry goes in. Called by apply.c. */
#include "user/datapath/lists_int.h"

#include <bpf/bpf.h>

#include "user/base/clock.h"
#include "user/datapath/kernel_error.h"

static int fill_list(const struct weir_list_item *item, size_t n, enum weir_list list,
		     const int fd[2], __u32 room, __u64 now_ns, struct weir_filter *f,
		     __u32 ret_n[2], struct weir_error *e)
{
	_cleanup_free_ struct weir_list_sorted *s = NULL;
	size_t n_s = 0, want[2] = {0, 0};
	int r = weir_list_sort(item, n, &s, &n_s);

	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	for (size_t i = 0; i < n_s; i++) {
		r = weir_list_check(&s[i].item->prefix, e);
		if (r < 0)
			return r;
		want[s[i].item->prefix.family == 6] += !weir_list_is_over(s[i].item, now_ns);
	}
	for (int six = 0; six < 2; six++) {
		if (want[six] > room)
			return weir_list_no_room(e, list, six ? 6 : 4, 0, want[six], room);
	}
	for (size_t i = 0; i < n_s; i++) {
		const struct weir_list_item *it = s[i].item;
		struct weir_entry v = {it->expires_ns, it->origin, it->flags};
		int six = it->prefix.family == 6;
		union weir_list_key k;

		if (weir_list_is_over(it, now_ns))
			continue;
		r = weir_list_widen(f, list, &it->prefix, e);
		if (r < 0)
			return r;
		r = bpf_map_update_elem(fd[six], weir_list_key(&it->prefix, &k), &v, BPF_ANY);
		if (r < 0)
			return weir_kernel_error(e, r, "cannot write a list entry");
		ret_n[six]++;
	}
	return 0;
}

int weir_lists_fill(const struct weir_lists *lists, const int fd[2 * WEIR_LIST_MAX], __u32 room,
		    struct weir_filter *ret_filter, __u32 ret_n[WEIR_LIST_MAX][2],
		    struct weir_error *e)
{
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);
	int r = 0;

	for (int l = 0; l < WEIR_LIST_MAX && r == 0; l++)
		r = fill_list(lists->item[l], lists->n[l], (enum weir_list)l, &fd[2 * l], room,
			      now_ns, ret_filter, ret_n[l], e);
	return r;
}
