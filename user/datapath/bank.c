/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Maps inside maps: new inner maps like the object's template, into a bank and out of it; and the state tables mapped
 * into memory. Called by datapath.c, apply.c and lists.c.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>
#include <sys/mman.h>

#include "user/datapath/datapath_int.h"

const struct weir_map_desc weir_map_desc[WEIR_MAP_MAX] = {
	[WEIR_MAP_META] = {"meta", 0, WEIR_SET_ALONE},
	[WEIR_MAP_POLICY] = {"policy", 1, WEIR_SET_ALONE},
	[WEIR_MAP_SOURCES] = {"sources", 2, WEIR_SET_TABLES},
	[WEIR_MAP_SOURCES6] = {"sources6", 2, WEIR_SET_TABLES},
	[WEIR_MAP_SPILL] = {"spill", 0, WEIR_SET_ALONE},
	[WEIR_MAP_ALLOWS] = {"allows", 2, WEIR_SET_LISTS},
	[WEIR_MAP_ALLOWS6] = {"allows6", 2, WEIR_SET_LISTS},
	[WEIR_MAP_BLOCKS] = {"blocks", 2, WEIR_SET_LISTS},
	[WEIR_MAP_BLOCKS6] = {"blocks6", 2, WEIR_SET_LISTS},
	[WEIR_MAP_GUARDS] = {"guards", 2, WEIR_SET_LISTS},
	[WEIR_MAP_GUARDS6] = {"guards6", 2, WEIR_SET_LISTS},
	[WEIR_MAP_FILTER] = {"filter", 2, WEIR_SET_LISTS},
	[WEIR_MAP_NETS] = {"nets", 2, WEIR_SET_NETS},
	[WEIR_MAP_TOTALS] = {"totals", 0, WEIR_SET_ALONE},
	[WEIR_MAP_CLASSES] = {"classes", 0, WEIR_SET_ALONE},
	[WEIR_MAP_LIMITS] = {"limits", 0, WEIR_SET_ALONE},
	[WEIR_MAP_COUNTERS] = {"counters", 0, WEIR_SET_ALONE},
	[WEIR_MAP_EVENTS] = {"events", 0, WEIR_SET_ALONE},
};

int weir_inner_new(struct weir_datapath *d, enum weir_map m, __u32 max_entries, int *ret_fd)
{
	const struct weir_inner_like *like = &d->like[m];
	int btf_fd = d->btf ? btf__fd(d->btf) : -1, fd;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = like->flags);

	/* So that bpftool prints fields; and Linux 6.1 takes a map with types for unlike one without. */
	if (btf_fd >= 0) {
		opts.btf_fd = (__u32)btf_fd;
		opts.btf_key_type_id = like->btf_key;
		opts.btf_value_type_id = like->btf_value;
	}
	fd = bpf_map_create((enum bpf_map_type)like->type, weir_map_desc[m].name, like->key_size,
			    like->value_size, max_entries ? max_entries : like->max_entries, &opts);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int weir_inner_get(int outer_fd, __u32 bank, int *ret_fd)
{
	__u32 id = 0;
	int r = bpf_map_lookup_elem(outer_fd, &bank, &id);

	if (r < 0)
		return r;
	r = bpf_map_get_fd_by_id(id);
	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}

int weir_inner_put(struct weir_datapath *d, enum weir_map m, __u32 bank, int *fd)
{
	int r = bpf_map_update_elem(d->map_fd[m], &bank, fd, BPF_ANY);

	if (r < 0)
		return r;
	closep(&d->inner_fd[m][bank]);
	d->inner_fd[m][bank] = TAKE_FD(*fd);
	return 0;
}

void weir_inner_drop(struct weir_datapath *d, enum weir_map m, __u32 bank)
{
	(void)bpf_map_delete_elem(d->map_fd[m], &bank); /* an empty bank stays empty */
	closep(&d->inner_fd[m][bank]);
	d->inner_fd[m][bank] = -1;
}

static int map_table(int fd, size_t value_size, void **ret, __u32 *ret_n)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);
	void *p;
	int r = bpf_obj_get_info_by_fd(fd, &info, &len);

	if (r < 0)
		return r;
	if (info.value_size != value_size || !info.max_entries ||
	    (info.max_entries & (info.max_entries - 1)))
		return -EINVAL;
	p = mmap(NULL, value_size * info.max_entries, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	*ret_n = info.max_entries;
	return 0;
}

int weir_mapping_open(int fd4, int fd6, struct weir_mapping *ret)
{
	struct weir_mapping m = {0};
	void *p;
	int r = map_table(fd4, sizeof(*m.t4), &p, &m.buckets4);

	if (r < 0)
		return r;
	m.t4 = p;
	r = map_table(fd6, sizeof(*m.t6), &p, &m.buckets6);
	if (r < 0) {
		weir_mapping_close(&m);
		return r;
	}
	m.t6 = p;
	*ret = m;
	return 0;
}

void weir_mapping_close(struct weir_mapping *m)
{
	if (m->t4)
		(void)munmap(m->t4, sizeof(*m->t4) * m->buckets4);
	if (m->t6)
		(void)munmap(m->t6, sizeof(*m->t6) * m->buckets6);
	*m = (struct weir_mapping){0};
}
