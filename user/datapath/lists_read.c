/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's lists hold. Called by the agent through datapath.h, by lists.c, and by datapath.c when it opens. */
#include "user/datapath/lists_int.h"

#include <bpf/bpf.h>
#include <string.h>

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

int weir_list_read_map(int fd, void **ret_keys, struct weir_entry **ret_values, __u32 *ret_n)
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

	return weir_list_read_map(fd, &keys, &values, ret);
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
		r = weir_list_read_map(fd, &keys, &values, &n);
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
