/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See inner.h. */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "tests/lib/inner.h"

static __s32 type_id(const struct btf *btf, const char *name)
{
	return name ? btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT)
		    : btf__find_by_name_kind(btf, "unsigned int", BTF_KIND_INT);
}

int inner_new(const struct bpf_object *obj, struct inner_type t, uint32_t entries)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = t.flags);
	__u32 bytes;
	const void *raw = btf__raw_data(bpf_object__btf(obj), &bytes);
	struct btf *btf =
		raw ? btf__new(raw, bytes) : NULL; /* the object's own is not loaded yet */
	__s32 key, value;
	int r;

	if (!btf)
		return -ENOMEM;
	r = btf__load_into_kernel(btf);
	if (r < 0)
		goto out;
	key = type_id(btf, t.key);
	value = type_id(btf, t.value);
	if (key < 0 || value < 0) {
		r = -ENOENT;
		goto out;
	}
	o.btf_fd = (__u32)btf__fd(btf);
	o.btf_key_type_id = (__u32)key;
	o.btf_value_type_id = (__u32)value;
	r = bpf_map_create(t.type, "test", t.key_bytes, t.value_bytes, entries, &o);
	if (r < 0)
		r = -errno;
out:
	btf__free(btf);
	return r;
}
