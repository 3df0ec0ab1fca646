/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters summed over CPUs, and what the kernel objects take. Called by status, metrics and `weir top`. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "user/base/str.h"
#include "user/datapath/datapath_int.h"

#define SAMPLE_BUCKETS 2048 /* looked at to tell how full a table is */

static int sum_cpus(const struct weir_datapath *d, struct weir_counters *ret)
{
	const size_t words = sizeof(*ret) / sizeof(__u64);
	int cpus = libbpf_num_possible_cpus(), r;
	_cleanup_free_ __u64 *all = NULL;
	__u64 *sum = (__u64 *)ret;
	__u32 zero = 0;

	_Static_assert(sizeof(*ret) % sizeof(__u64) == 0, "the counters are 64-bit words");
	if (cpus < 0)
		return cpus;
	all = calloc((size_t)cpus, sizeof(*ret));
	if (!all)
		return -ENOMEM;
	r = bpf_map_lookup_elem(d->map_fd[WEIR_MAP_COUNTERS], &zero, all);
	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	for (size_t cpu = 0; cpu < (size_t)cpus; cpu++) {
		for (size_t w = 0; w < words; w++)
			sum[w] += all[cpu * words + w];
	}
	/* the state of the cap is no sum */
	ret->event_second = 0;
	ret->event_count = 0;
	return 0;
}

int weir_datapath_counters(const struct weir_datapath *d, struct weir_counters *ret)
{
	int r = sum_cpus(d, ret);

	for (int i = 0; i < WEIR_STATS_MAX && r == 0; i++) {
		ret->limit[i].pass.packets -= d->base[i].pass.packets;
		ret->limit[i].pass.bytes -= d->base[i].pass.bytes;
		ret->limit[i].over.packets -= d->base[i].over.packets;
		ret->limit[i].over.bytes -= d->base[i].over.bytes;
	}
	return r;
}

/* --- whose counts ------------------------------------------------------------------------------ */

/* Counters are changed by running programs and cannot be set to zero without losing some; so what an index had
 * counted when it got a new owner is kept, and taken off. The map belongs to one map of counters: if that is made
 * anew, so is this.
 */
struct base_value {
	__u64 counters_id;
	struct weir_limit_counts base[WEIR_STATS_MAX];
};

static __u32 map_id(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) == 0 ? info.id : 0;
}

static int base_write(struct weir_datapath *d)
{
	struct base_value v = {.counters_id = map_id(d->map_fd[WEIR_MAP_COUNTERS])};
	__u32 zero = 0;

	memcpy(v.base, d->base, sizeof(v.base));
	return bpf_map_update_elem(d->base_fd, &zero, &v, BPF_ANY);
}

int weir_base_open(struct weir_datapath *d)
{
	_cleanup_close_ int fd = weir_pin_get(d, "count_bases");
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), zero = 0;
	struct base_value v;

	if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
	    info.value_size == sizeof(v) && bpf_map_lookup_elem(fd, &zero, &v) == 0 &&
	    v.counters_id == map_id(d->map_fd[WEIR_MAP_COUNTERS])) {
		memcpy(d->base, v.base, sizeof(d->base));
		d->base_fd = TAKE_FD(fd);
		return 0;
	}
	closep(&fd);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "count_bases", sizeof(zero), sizeof(v), 1, NULL);
	if (fd < 0)
		return fd;
	d->base_fd = TAKE_FD(fd);
	return base_write(d);
}

static bool same_owner(const struct weir_limit_name *a, const struct weir_limit_name *b)
{
	return strncmp(a->name, b->name, sizeof(a->name)) == 0 && a->window_ns == b->window_ns &&
	       a->algorithm == b->algorithm && a->bytes == b->bytes && a->prefix4 == b->prefix4 &&
	       a->prefix6 == b->prefix6 && a->keeps == b->keeps;
}

void weir_base_renew(struct weir_datapath *d, const struct weir_limit_name names[WEIR_STATS_MAX])
{
	_cleanup_free_ struct weir_counters *now = malloc(sizeof(*now));
	bool changed = false;

	if (!now || sum_cpus(d, now) < 0)
		return;
	for (int i = 0; i < WEIR_STATS_MAX; i++) {
		if (!names[i].name[0] || same_owner(&names[i], &d->names[i]))
			continue;
		d->base[i] = now->limit[i];
		changed = true;
	}
	if (changed)
		(void)base_write(d); /* an array element always has room */
}

/* --- memory ------------------------------------------------------------------------------------ */

/* What the kernel accounts for a map; 0 where it does not say. */
static __u64 map_bytes(int fd)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[256];

	if (fd < 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		__u64 v;

		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "memlock:", 8) != 0)
			continue;
		if (weir_str_u64(line + 8 + strspn(line + 8, " \t"), ~0ull, &v) == 0)
			return v;
	}
	return 0;
}

static __u32 map_entries(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) == 0 ? info.max_entries : 0;
}

/* Occupied slots, from evenly spread buckets. */
static __u64 sample(const void *table, __u32 buckets, bool v6)
{
	__u32 n = buckets < SAMPLE_BUCKETS ? buckets : SAMPLE_BUCKETS, step = buckets / n;
	__u64 used = 0;

	for (__u32 i = 0; i < n; i++) {
		for (int s = 0; s < WEIR_WAYS; s++) {
			if (v6)
				used += ((const struct weir_bucket6 *)table)[i * step]
						.slot[s]
						.tag != 0;
			else
				used += ((const struct weir_bucket4 *)table)[i * step]
						.slot[s]
						.addr != 0;
		}
	}
	return used * step;
}

int weir_datapath_memory(struct weir_datapath *d, struct weir_table_use *ret, int max)
{
	_cleanup_free_ struct weir_counters *c = malloc(sizeof(*c));
	__u64 full = 0;
	int n = 0;

	if (c && weir_datapath_counters(d, c) == 0)
		full = c->bucket_full;
	for (int m = 0; m < WEIR_MAP_MAX && n < max; m++) {
		struct weir_table_use u = {0};
		int in_force = d->map_fd[m];

		(void)weir_str_copy(u.name, sizeof(u.name), weir_map_desc[m].name);
		u.bytes = map_bytes(d->map_fd[m]);
		for (int bank = 0; bank < weir_map_desc[m].banks; bank++)
			u.bytes += map_bytes(d->inner_fd[m][bank]);
		if (m >= WEIR_MAP_ALLOWS && m <= WEIR_MAP_GUARDS6) {
			int i = m - WEIR_MAP_ALLOWS;

			in_force = d->inner_fd[m][d->lists_bank];
			u.used = d->list_n[i / 2][i % 2];
		}
		u.entries = map_entries(in_force);
		if (m == WEIR_MAP_SOURCES && d->tables.t4) {
			u.entries = (__u64)d->tables.buckets4 * WEIR_WAYS;
			u.used = sample(d->tables.t4, d->tables.buckets4, false);
			u.full_total = full; /* both families: the program counts them together */
		} else if (m == WEIR_MAP_SOURCES6 && d->tables.t6) {
			u.entries = (__u64)d->tables.buckets6 * WEIR_WAYS;
			u.used = sample(d->tables.t6, d->tables.buckets6, true);
		}
		ret[n++] = u;
	}
	return n;
}
