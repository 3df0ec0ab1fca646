/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every map of the program. What each holds and what happens when it is full: include/weir/maps.h.
 * Names have at most 15 characters; the loader pins by these names.
 */
#ifndef WEIR_BPF_MAPS_H
#define WEIR_BPF_MAPS_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#include "weir/maps.h"

/* Inner maps of the built-in banks. The loader may change their size before the load, in the template and in the
 * instance alike: all inner maps of one outer map have one size, which is what lets the JIT inline the look-up.
 */
#define WEIR_BUCKETS4 262144 /* 16 MB */
#define WEIR_BUCKETS6 131072 /* 16 MB */
#define WEIR_ROOM     65536  /* entries of one list */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_meta);
} meta SEC(".maps");

struct policy_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_policy);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct policy_inner);
} policy SEC(".maps");

struct sources_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_BUCKETS4);
	__type(key, __u32);
	__type(value, struct weir_bucket4);
} sources_0 SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct sources_inner);
} sources SEC(".maps") = {.values = {[0] = (void *)&sources_0}};

struct sources6_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_BUCKETS6);
	__type(key, __u32);
	__type(value, struct weir_bucket6);
} sources6_0 SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct sources6_inner);
} sources6 SEC(".maps") = {.values = {[0] = (void *)&sources6_0}};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 << WEIR_SPILL_BITS);
	__type(key, __u32);
	__type(value, struct weir_spill);
} spill SEC(".maps");

/* clang describes a type that only an inner map's template names as a forward declaration; a variable of it makes the
 * BTF whole, without which neither libbpf nor bpftool knows the key.
 */
const struct weir_prefix4 weir_btf_prefix4;
const struct weir_prefix6 weir_btf_prefix6;
const struct weir_entry weir_btf_entry;
const struct weir_net_key weir_btf_net_key;

struct list4_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_ROOM);
	__type(key, struct weir_prefix4);
	__type(value, struct weir_entry);
};
struct list6_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_ROOM);
	__type(key, struct weir_prefix6);
	__type(value, struct weir_entry);
};
struct list4_outer {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct list4_inner);
};
struct list6_outer {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct list6_inner);
};
struct list4_outer allows SEC(".maps"), blocks SEC(".maps"), guards SEC(".maps");
struct list6_outer allows6 SEC(".maps"), blocks6 SEC(".maps"), guards6 SEC(".maps");

struct filter_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_filter);
} filter_0 SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct filter_inner);
} filter SEC(".maps") = {.values = {[0] = (void *)&filter_0}};

struct nets_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct weir_net_key);
	__type(value, __u32);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct nets_inner);
} nets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_STATS_MAX);
	__type(key, __u32);
	__type(value, struct weir_limit_name);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* and so on lines of their own */
	__uint(max_entries, WEIR_TOTALS);
	__type(key, __u32);
	__type(value, struct weir_total);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_CLASS_MAX);
	__type(key, __u32);
	__type(value, struct weir_class_word);
} classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

#endif
