/* SPDX-License-Identifier: GPL-2.0-or-later */
/* New inner maps for weir's maps of maps, in tests that fill them without the agent. */
#ifndef WEIR_TEST_INNER_H
#define WEIR_TEST_INNER_H

#include <linux/bpf.h>
#include <stdint.h>

struct bpf_object;

/* What an inner map holds; the names are those of the types in the object's BTF. */
struct inner_type {
	enum bpf_map_type type;
	uint32_t flags;
	const char *key, *value; /* structs; NULL: a __u32 */
	uint32_t key_bytes, value_bytes;
};

#define INNER_ARRAY(value_type)                                                                    \
	((struct inner_type){BPF_MAP_TYPE_ARRAY, 0, NULL, #value_type, 4,                          \
			     sizeof(struct value_type)})
#define INNER_HASH(key_type, value_type)                                                           \
	((struct inner_type){BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, #key_type, #value_type,         \
			     sizeof(struct key_type), sizeof(struct value_type)})
#define INNER_TABLE(bucket_type)                                                                   \
	((struct inner_type){BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, NULL, #bucket_type, 4,            \
			     sizeof(struct bucket_type)})
#define INNER_NETS                                                                                 \
	((struct inner_type){BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC, "weir_net_key", NULL,           \
			     sizeof(struct weir_net_key), 4})

/* A map of @entries that the outer maps of @obj accept, before or after it is loaded: with BTF, since kernel 6.1 takes no
 * inner map without if the template had it. Returns a descriptor or -errno.
 */
int inner_new(const struct bpf_object *obj, struct inner_type t, uint32_t entries);

#endif
