/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Entries of the allow, block and guard lists in the kernel: whole lists into new maps, single ones into those in
 * force, and back. The filter in front is widened before an entry goes in, so that no packet can miss it. Called by
 * the agent (reload, commands, expiry) through datapath.h, and by apply.c.
 */
#include "user/datapath/datapath_int.h"

#include <bpf/bpf.h>
#include <string.h>
#include <time.h>

#include "user/base/str.h"
#include "user/datapath/filter.h"
#include "user/datapath/kernel_error.h"

static const char *const list_name[WEIR_LIST_MAX] = {"allow list", "block list",
						     "never_block list"};

union key {
	struct weir_prefix4 v4;
	struct weir_prefix6 v6;
};

static const void *make_key(const struct weir_prefix *p, union key *k)
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

static int read_key(const void *key, __u8 family, struct weir_prefix *ret)
{
	struct weir_prefix p = {.family = family};

	if (family == 4) {
		const struct weir_prefix4 *k = key;

		if (k->prefix_len > 32)
			return -EINVAL;
		p.len = (__u8)k->prefix_len;
		p.addr.word[0] = k->word;
	} else {
		const struct weir_prefix6 *k = key;

		if (k->prefix_len > 128)
			return -EINVAL;
		p.len = (__u8)k->prefix_len;
		memcpy(p.addr.word, k->word, sizeof(k->word));
	}
	*ret = p;
	return 0;
}

static __u64 clock_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (__u64)t.tv_sec * 1000000000ull + (__u64)t.tv_nsec;
}

static bool is_over(const struct weir_list_item *i, __u64 now_ns)
{
	return i->expires_ns && i->expires_ns <= now_ns;
}

static int is_valid(const struct weir_prefix *p, struct weir_error *e)
{
	if ((p->family == 4 && p->len <= 32) || (p->family == 6 && p->len <= 128))
		return 0;
	return weir_error_set(e, -EINVAL, "not a prefix: family %u, length %u", p->family, p->len);
}

static int no_room(struct weir_error *e, enum weir_list list, __u8 family, __u32 holds, size_t more,
		   __u32 room)
{
	return weir_error_set(
		e, -ENOSPC,
		"%s, IPv%u: it holds %u entries and has room for %u; %zu more were to go "
		"in: %zu do not fit, so none was taken",
		list_name[list], family, holds, room, more, holds + more - room);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* All of one map in one call: we are its only writer. Arrays on the heap. */
static int read_map(int fd, void **ret_keys, struct weir_entry **ret_values, __u32 *ret_n)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), n, at;
	_cleanup_free_ void *keys = NULL;
	_cleanup_free_ struct weir_entry *values = NULL;
	int r = bpf_obj_get_info_by_fd(fd, &info, &len);

	if (r < 0)
		return r;
	n = info.max_entries;
	keys = calloc(n, info.key_size);
	values = calloc(n, sizeof(*values));
	if (!keys || !values)
		return -ENOMEM;
	r = bpf_map_lookup_batch(fd, NULL, &at, keys, values, &n, NULL);
	if (r < 0 && r != -ENOENT) /* the end of the map */
		return r;
	*ret_keys = TAKE_PTR(keys);
	*ret_values = TAKE_PTR(values);
	*ret_n = n;
	return 0;
}

int weir_lists_count(int fd, __u32 *ret)
{
	_cleanup_free_ void *keys = NULL;
	_cleanup_free_ struct weir_entry *values = NULL;

	return read_map(fd, &keys, &values, ret);
}

int weir_datapath_list_read(struct weir_datapath *d, enum weir_list list,
			    struct weir_list_item **ret, size_t *ret_n)
{
	_cleanup_free_ struct weir_list_item *all = NULL;
	size_t n_all = 0;

	for (__u8 family = 4; family <= 6; family += 2) {
		int fd = d->inner_fd[weir_map_of_list(list, family)][d->lists_bank], r;
		size_t key_size =
			family == 4 ? sizeof(struct weir_prefix4) : sizeof(struct weir_prefix6);
		_cleanup_free_ void *keys = NULL;
		_cleanup_free_ struct weir_entry *values = NULL;
		struct weir_list_item *more;
		__u32 n = 0;

		if (fd < 0)
			continue;
		r = read_map(fd, &keys, &values, &n);
		if (r < 0)
			return r;
		more = realloc(all, (n_all + n + 1) * sizeof(*all));
		if (!more)
			return -ENOMEM;
		all = more;
		for (__u32 i = 0; i < n; i++) {
			struct weir_list_item *it = &all[n_all];

			if (read_key((char *)keys + i * key_size, family, &it->prefix) < 0)
				continue;
			it->expires_ns = values[i].expires_ns;
			it->origin = values[i].origin;
			it->flags = values[i].flags;
			n_all++;
		}
	}
	*ret = TAKE_PTR(all);
	*ret_n = n_all;
	return 0;
}

/* --- sorting out ------------------------------------------------------------------------------- */

struct sorted {
	const struct weir_list_item *item;
	size_t at;
};

static int by_prefix(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int c = weir_prefix_compare(&x->item->prefix, &y->item->prefix);

	return c ? c : x->at < y->at ? -1 : 1;
}

/* Each prefix once, the last of equal ones. */
static int sort_items(const struct weir_list_item *item, size_t n, struct sorted **ret,
		      size_t *ret_n)
{
	_cleanup_free_ struct sorted *s = calloc(n + 1, sizeof(*s));
	size_t to = 0;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		s[i] = (struct sorted){&item[i], i};
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

static int widen(struct weir_filter *f, enum weir_list list, const struct weir_prefix *p,
		 struct weir_error *e)
{
	if (weir_filter_add(f, list, p) == 0)
		return 0;
	return weir_error_set(e, -ENOSPC,
			      "%s: IPv%u prefixes of more than %d different lengths (fewer lengths "
			      "would be right; /%u is one too many)",
			      list_name[list], p->family, WEIR_LIST_LENS, p->len);
}

/* --- whole lists ------------------------------------------------------------------------------- */

static int fill_list(const struct weir_list_item *item, size_t n, enum weir_list list,
		     const int fd[2], __u32 room, __u64 now_ns, struct weir_filter *f,
		     __u32 ret_n[2], struct weir_error *e)
{
	_cleanup_free_ struct sorted *s = NULL;
	size_t n_s = 0, want[2] = {0, 0};
	int r = sort_items(item, n, &s, &n_s);

	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	for (size_t i = 0; i < n_s; i++) {
		r = is_valid(&s[i].item->prefix, e);
		if (r < 0)
			return r;
		want[s[i].item->prefix.family == 6] += !is_over(s[i].item, now_ns);
	}
	for (int six = 0; six < 2; six++) {
		if (want[six] > room)
			return no_room(e, list, six ? 6 : 4, 0, want[six], room);
	}
	for (size_t i = 0; i < n_s; i++) {
		const struct weir_list_item *it = s[i].item;
		struct weir_entry v = {it->expires_ns, it->origin, it->flags};
		int six = it->prefix.family == 6;
		union key k;

		if (is_over(it, now_ns))
			continue;
		r = widen(f, list, &it->prefix, e);
		if (r < 0)
			return r;
		r = bpf_map_update_elem(fd[six], make_key(&it->prefix, &k), &v, BPF_ANY);
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
	__u64 now_ns = clock_ns();
	int r = 0;

	for (int l = 0; l < WEIR_LIST_MAX && r == 0; l++)
		r = fill_list(lists->item[l], lists->n[l], (enum weir_list)l, &fd[2 * l], room,
			      now_ns, ret_filter, ret_n[l], e);
	return r;
}

/* --- entries of the lists in force -------------------------------------------------------------- */

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

	if (read_map(fd, &keys, &values, &n) < 0)
		return;
	for (__u32 i = 0; i < n; i++) {
		if (!values[i].expires_ns || values[i].expires_ns > now_ns)
			continue;
		if (bpf_map_delete_elem(fd, (char *)keys + i * size) == 0)
			d->list_n[list][family == 6]--;
	}
}

static size_t count_new(struct weir_datapath *d, enum weir_list list, __u8 family,
			const struct sorted *s, size_t n, __u64 now_ns)
{
	int fd = list_fd(d, list, family);
	size_t more = 0;

	for (size_t i = 0; i < n; i++) {
		struct weir_entry old;
		union key k;

		if (s[i].item->prefix.family != family || is_over(s[i].item, now_ns))
			continue;
		more += bpf_map_lookup_elem(fd, make_key(&s[i].item->prefix, &k), &old) < 0;
	}
	return more;
}

static int fit(struct weir_datapath *d, enum weir_list list, const struct sorted *s, size_t n,
	       __u64 now_ns, struct weir_error *e)
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
			return no_room(e, list, family, *holds, more, room);
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
		union key k;

		make_key(&u[n].prefix, &k);
		if (u[n].was_there)
			(void)bpf_map_update_elem(fd, &k, &u[n].old, BPF_ANY); /* best effort */
		else
			(void)bpf_map_delete_elem(fd, &k);
	}
}

static int write_items(struct weir_datapath *d, enum weir_list list, const struct sorted *s,
		       size_t n, __u64 now_ns, struct weir_error *e)
{
	_cleanup_free_ struct undo *undo = calloc(n + 1, sizeof(*undo));
	__u32 holds[2] = {d->list_n[list][0], d->list_n[list][1]};

	if (!undo)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct weir_list_item *it = s[i].item;
		struct weir_entry v = {it->expires_ns, it->origin, it->flags};
		int fd = list_fd(d, list, it->prefix.family), six = it->prefix.family == 6, r;
		union key k;

		make_key(&it->prefix, &k);
		undo[i].prefix = it->prefix;
		undo[i].was_there = bpf_map_lookup_elem(fd, &k, &undo[i].old) == 0;
		if (is_over(it, now_ns)) {
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
	_cleanup_free_ struct sorted *s = NULL;
	__u64 now_ns = clock_ns();
	size_t n_s = 0;
	int r;

	if (!d->policy || d->tables_foreign)
		return weir_error_set(e, -EAGAIN, "no limits are in force yet");
	for (size_t i = 0; i < n; i++) {
		r = is_valid(&item[i].prefix, e);
		if (r < 0)
			return r;
	}
	f = malloc(sizeof(*f));
	r = f ? sort_items(item, n, &s, &n_s) : -ENOMEM;
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	r = fit(d, list, s, n_s, now_ns, e);
	if (r < 0)
		return r;
	*f = *d->filter;
	for (size_t i = 0; i < n_s && r == 0; i++) {
		if (!is_over(s[i].item, now_ns))
			r = widen(f, list, &s[i].item->prefix, e);
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
		int r = is_valid(&item[i], e);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		int fd = list_fd(d, list, item[i].family), r;
		union key k;

		if (fd < 0)
			continue;
		r = bpf_map_delete_elem(fd, make_key(&item[i], &k));
		if (r == 0)
			d->list_n[list][item[i].family == 6]--;
		else if (r != -ENOENT)
			return weir_kernel_error(e, r, "cannot remove a list entry");
	}
	return 0;
}
