/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Single entries of the allow, block and guard lists in force. The filter in front is widened before an entry goes in, so
 * that no packet can miss it. Called by the agent (commands, expiry) through datapath.h.
 */
#include "user/datapath/lists_int.h"

#include <bpf/bpf.h>
#include <string.h>

#include "user/base/clock.h"
#include "user/datapath/kernel_error.h"

static int list_fd(const struct weir_datapath *d, enum weir_list list, __u8 family)
{
	return d->inner_fd[weir_map_of_list(list, family)][d->lists_bank];
}

static __u32 list_room(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) == 0 ? info.max_entries : 0;
}

/* Takes out what has expired; only when there is no room. */
static void purge(struct weir_datapath *d, enum weir_list list, __u8 family, __u64 now_ns)
{
	size_t size = family == 4 ? sizeof(struct weir_prefix4) : sizeof(struct weir_prefix6);
	int fd = list_fd(d, list, family);
	_cleanup_free_ void *keys = NULL;
	_cleanup_free_ struct weir_entry *values = NULL;
	__u32 n = 0;

	if (weir_list_read_map(fd, &keys, &values, &n) < 0)
		return;
	for (__u32 i = 0; i < n; i++) {
		if (!values[i].expires_ns || values[i].expires_ns > now_ns)
			continue;
		if (bpf_map_delete_elem(fd, (char *)keys + i * size) == 0)
			d->list_n[list][family == 6]--;
	}
}

static size_t count_new(struct weir_datapath *d, enum weir_list list, __u8 family,
			const struct weir_list_sorted *s, size_t n, __u64 now_ns)
{
	int fd = list_fd(d, list, family);
	size_t more = 0;

	for (size_t i = 0; i < n; i++) {
		struct weir_entry old;
		union weir_list_key k;

		if (s[i].item->prefix.family != family || weir_list_is_over(s[i].item, now_ns))
			continue;
		more += bpf_map_lookup_elem(fd, weir_list_key(&s[i].item->prefix, &k), &old) < 0;
	}
	return more;
}

static int fit(struct weir_datapath *d, enum weir_list list, const struct weir_list_sorted *s,
	       size_t n, __u64 now_ns, struct weir_error *e)
{
	for (__u8 family = 4; family <= 6; family += 2) {
		__u32 room = list_room(list_fd(d, list, family)), *holds;
		size_t more = count_new(d, list, family, s, n, now_ns);

		holds = &d->list_n[list][family == 6];
		if (*holds + more > room) {
			purge(d, list, family, now_ns);
			more = count_new(d, list, family, s, n, now_ns);
		}
		if (*holds + more > room)
			return weir_list_no_room(e, list, family, *holds, more, room);
	}
	return 0;
}

/* A new length shifts the array of lengths, which must not be seen half done: then a whole new map goes in. Bits are
 * only ever added, so they are written in place.
 */
static int put_filter(struct weir_datapath *d, const struct weir_filter *f, struct weir_error *e)
{
	const size_t lens = offsetof(struct weir_filter, wide6);
	_cleanup_close_ int fd = -1;
	__u32 zero = 0;
	int r;

	if (memcmp(f, d->filter, sizeof(*f)) == 0)
		return 0;
	if (memcmp(f, d->filter, lens) == 0) {
		r = bpf_map_update_elem(d->inner_fd[WEIR_MAP_FILTER][d->lists_bank], &zero, f,
					BPF_ANY);
	} else {
		r = weir_inner_new(d, WEIR_MAP_FILTER, 0, &fd);
		if (r == 0)
			r = bpf_map_update_elem(fd, &zero, f, BPF_ANY);
		if (r == 0)
			r = weir_inner_put(d, WEIR_MAP_FILTER, d->lists_bank, &fd);
		if (r == 0 && d->pinned)
			(void)weir_pin(d, d->inner_fd[WEIR_MAP_FILTER][d->lists_bank], "filter",
				       NULL); /* for people; the program reads the right one */
	}
	if (r < 0)
		return weir_kernel_error(e, r, "cannot write the filter of the lists");
	*d->filter = *f;
	return 0;
}

struct undo {
	struct weir_prefix prefix;
	struct weir_entry old;
	bool was_there;
};

static void take_back(struct weir_datapath *d, enum weir_list list, const struct undo *u, size_t n)
{
	while (n--) {
		int fd = list_fd(d, list, u[n].prefix.family);
		union weir_list_key k;

		weir_list_key(&u[n].prefix, &k);
		if (u[n].was_there)
			(void)bpf_map_update_elem(fd, &k, &u[n].old, BPF_ANY); /* best effort */
		else
			(void)bpf_map_delete_elem(fd, &k);
	}
}

static int write_items(struct weir_datapath *d, enum weir_list list,
		       const struct weir_list_sorted *s, size_t n, __u64 now_ns,
		       struct weir_error *e)
{
	_cleanup_free_ struct undo *undo = calloc(n + 1, sizeof(*undo));
	__u32 holds[2] = {d->list_n[list][0], d->list_n[list][1]};

	if (!undo)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct weir_list_item *it = s[i].item;
		struct weir_entry v = {it->expires_ns, it->origin, it->flags};
		int fd = list_fd(d, list, it->prefix.family), six = it->prefix.family == 6, r;
		union weir_list_key k;

		weir_list_key(&it->prefix, &k);
		undo[i].prefix = it->prefix;
		undo[i].was_there = bpf_map_lookup_elem(fd, &k, &undo[i].old) == 0;
		if (weir_list_is_over(it, now_ns)) {
			r = bpf_map_delete_elem(fd, &k);
			if (r == -ENOENT)
				r = 0;
			holds[six] -= undo[i].was_there;
		} else {
			r = bpf_map_update_elem(fd, &k, &v, BPF_ANY);
			holds[six] += !undo[i].was_there;
		}
		if (r < 0) {
			take_back(d, list, undo, i);
			return weir_kernel_error(e, r, "cannot write a list entry");
		}
	}
	memcpy(d->list_n[list], holds, sizeof(holds));
	return 0;
}

/* The program looks at lists only where the policy says that there are any. */
static int switch_on(struct weir_datapath *d, struct weir_error *e)
{
	_cleanup_free_ struct weir_policy *p = NULL;

	if (d->policy->flags & WEIR_POLICY_LISTS)
		return 0;
	p = malloc(sizeof(*p));
	if (!p)
		return weir_error_set(e, -ENOMEM, "out of memory");
	*p = *d->policy;
	p->flags |= WEIR_POLICY_LISTS;
	return weir_policy_switch(d, p, e);
}

int weir_datapath_list_add(struct weir_datapath *d, enum weir_list list,
			   const struct weir_list_item *item, size_t n, struct weir_error *e)
{
	_cleanup_free_ struct weir_filter *f = NULL;
	_cleanup_free_ struct weir_list_sorted *s = NULL;
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);
	size_t n_s = 0;
	int r;

	if (!d->policy || d->tables_foreign)
		return weir_error_set(e, -EAGAIN, "no limits are in force yet");
	for (size_t i = 0; i < n; i++) {
		r = weir_list_check(&item[i].prefix, e);
		if (r < 0)
			return r;
	}
	f = malloc(sizeof(*f));
	r = f ? weir_list_sort(item, n, &s, &n_s) : -ENOMEM;
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	r = fit(d, list, s, n_s, now_ns, e);
	if (r < 0)
		return r;
	*f = *d->filter;
	for (size_t i = 0; i < n_s && r == 0; i++) {
		if (!weir_list_is_over(s[i].item, now_ns))
			r = weir_list_widen(f, list, &s[i].item->prefix, e);
	}
	if (r == 0)
		r = put_filter(d, f, e);
	if (r == 0 && list != WEIR_LIST_GUARD)
		r = switch_on(d, e);
	return r < 0 ? r : write_items(d, list, s, n_s, now_ns, e);
}

int weir_datapath_list_del(struct weir_datapath *d, enum weir_list list,
			   const struct weir_prefix *item, size_t n, struct weir_error *e)
{
	for (size_t i = 0; i < n; i++) {
		int r = weir_list_check(&item[i], e);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		int fd = list_fd(d, list, item[i].family), r;
		union weir_list_key k;

		if (fd < 0)
			continue;
		r = bpf_map_delete_elem(fd, weir_list_key(&item[i], &k));
		if (r == 0)
			d->list_n[list][item[i].family == 6]--;
		else if (r != -ENOENT)
			return weir_kernel_error(e, r, "cannot remove a list entry");
	}
	return 0;
}
