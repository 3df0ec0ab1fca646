/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The BPF object: sizes, maps that are reused, the load and its errors. Called by datapath.c, and by attach_chain.c for
 * a second instance that libxdp loads.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"
#include "weir.skel.h"

struct bpf_map *weir_load_map(struct weir *skel, enum weir_map m)
{
	return bpf_object__find_map_by_name(skel->obj, weir_map_desc[m].name);
}

static void read_templates(struct weir_datapath *d, struct weir *skel)
{
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		const struct bpf_map *in;

		if (!weir_map_desc[m].banks)
			continue;
		in = bpf_map__inner_map(weir_load_map(skel, (enum weir_map)m));
		d->like[m] = (struct weir_inner_like){
			.type = bpf_map__type(in),
			.key_size = bpf_map__key_size(in),
			.value_size = bpf_map__value_size(in),
			.max_entries = bpf_map__max_entries(in),
			.flags = bpf_map__map_flags(in),
			.btf_key = bpf_map__btf_key_type_id(in),
			.btf_value = bpf_map__btf_value_type_id(in),
		};
	}
	d->like[WEIR_MAP_SOURCES].max_entries = d->buckets4;
	d->like[WEIR_MAP_SOURCES6].max_entries = d->buckets6;
}

/* All inner maps of a table have one size: the template and the instance that the object brings along. libbpf 1.1
 * cannot set the size of a template (it crashes), so a map of the right size takes its place; @ret_template must stay
 * open until the load.
 */
static int size_table(struct weir_datapath *d, struct weir *skel, enum weir_map m,
		      struct bpf_map *first, int *ret_template)
{
	int r = bpf_map__set_max_entries(first, d->like[m].max_entries);

	if (r == 0)
		r = weir_inner_new(d, m, 0, ret_template);
	return r < 0 ? r : bpf_map__set_inner_map_fd(weir_load_map(skel, m), *ret_template);
}

/* libbpf hands the object's types to the kernel at load, which is too late for the templates: a copy goes first. */
static int load_types(struct weir_datapath *d, const struct weir *skel)
{
	const struct btf *types = bpf_object__btf(skel->obj);
	__u32 size = 0;
	const void *raw = types ? btf__raw_data(types, &size) : NULL;
	struct btf *copy;
	int r;

	if (d->btf)
		return 0;
	if (!raw)
		return -ENOENT;
	copy = btf__new(raw, size);
	if (!copy)
		return -errno;
	r = btf__load_into_kernel(copy);
	if (r < 0) {
		btf__free(copy);
		return r;
	}
	d->btf = copy;
	return 0;
}

static int prepare(struct weir_datapath *d, struct weir *skel, const int reuse[WEIR_MAP_MAX],
		   int ret_template[2])
{
	int r = load_types(d, skel);

	read_templates(d, skel);
	for (int m = 0; m < WEIR_MAP_MAX && r == 0; m++) {
		if (reuse[m] >= 0)
			r = bpf_map__reuse_fd(weir_load_map(skel, (enum weir_map)m), reuse[m]);
	}
	if (r == 0)
		r = reuse[WEIR_MAP_SOURCES] >= 0
			    ? bpf_map__set_autocreate(skel->maps.sources_0, false)
			    : size_table(d, skel, WEIR_MAP_SOURCES, skel->maps.sources_0,
					 &ret_template[0]);
	if (r == 0)
		r = reuse[WEIR_MAP_SOURCES6] >= 0
			    ? bpf_map__set_autocreate(skel->maps.sources6_0, false)
			    : size_table(d, skel, WEIR_MAP_SOURCES6, skel->maps.sources6_0,
					 &ret_template[1]);
	if (r == 0 && reuse[WEIR_MAP_FILTER] >= 0)
		r = bpf_map__set_autocreate(skel->maps.filter_0, false);
	/* the built-in limits use whole tables */
	skel->data->weir_builtin.group4[0].bits = (__u8)__builtin_ctz(d->buckets4);
	skel->data->weir_builtin.group6[0].bits = (__u8)__builtin_ctz(d->buckets6);
	return r;
}

/* A skeleton is loaded once, so the plain entry needs another one. */
static int open_object(struct weir_datapath *d, const int reuse[WEIR_MAP_MAX], bool frags,
		       int ret_template[2], struct weir **ret)
{
	struct weir *skel = weir__open();
	int r;

	if (!skel)
		return -errno;
	r = prepare(d, skel, reuse, ret_template);
	if (r == 0)
		r = bpf_program__set_autoload(skel->progs.weir_xdp, !frags);
	if (r == 0)
		r = bpf_program__set_autoload(skel->progs.weir_xdp_frags, frags);
	if (r < 0) {
		weir__destroy(skel);
		return r;
	}
	*ret = skel;
	return 0;
}

int weir_load(struct weir_datapath *d, const int reuse[WEIR_MAP_MAX], bool open_only,
	      struct weir **ret, struct weir_error *e)
{
	int r = 0;

	/* Without support for fragments (before Linux 5.18, or by a distribution's choice) the plain entry is right for
	 * frames of one page.
	 */
	for (int frags = 1; frags >= 0; frags--) {
		_cleanup_close_ int template4 = -1, template6 = -1;
		int template[2] = {-1, -1};
		struct weir *skel = NULL;

		weir_kernel_log_clear();
		r = open_object(d, reuse, frags, template, &skel);
		template4 = template[0];
		template6 = template[1];
		if (r == 0 && !open_only)
			r = weir__load(skel);
		if (r == 0) {
			if (!frags)
				weir_note(d, "this kernel takes no program for frames beyond one "
					     "page: interfaces need an MTU below 3500");
			*ret = skel;
			return 0;
		}
		weir__destroy(skel);
		if (r != -EINVAL || open_only)
			break;
	}
	return weir_kernel_error(e, r, "cannot load the XDP program");
}
