/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The BPF object: sizes, maps that are reused, the load and its errors. Called by datapath.c, and by attach_chain.c for
 * a second instance that libxdp loads.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"
#include "weir.skel.h"

struct bpf_map *weir_load_map(struct weir *skel, enum weir_map m)
{
	return bpf_object__find_map_by_name(skel->obj, weir_map_desc[m].name);
}

/* All inner maps of a table have one size: the template and the instance that the object brings along. */
static int size_table(struct weir *skel, enum weir_map m, struct bpf_map *first, __u32 buckets)
{
	int r = bpf_map__set_max_entries(bpf_map__inner_map(weir_load_map(skel, m)), buckets);

	return r < 0 ? r : bpf_map__set_max_entries(first, buckets);
}

static int prepare(struct weir_datapath *d, struct weir *skel, const int reuse[WEIR_MAP_MAX])
{
	int r = size_table(skel, WEIR_MAP_SOURCES, skel->maps.sources_0, d->buckets4);

	if (r == 0)
		r = size_table(skel, WEIR_MAP_SOURCES6, skel->maps.sources6_0, d->buckets6);
	for (int m = 0; m < WEIR_MAP_MAX && r == 0; m++) {
		if (reuse[m] >= 0)
			r = bpf_map__reuse_fd(weir_load_map(skel, (enum weir_map)m), reuse[m]);
	}
	if (r == 0 && reuse[WEIR_MAP_SOURCES] >= 0)
		r = bpf_map__set_autocreate(skel->maps.sources_0, false);
	if (r == 0 && reuse[WEIR_MAP_SOURCES6] >= 0)
		r = bpf_map__set_autocreate(skel->maps.sources6_0, false);
	if (r == 0 && reuse[WEIR_MAP_FILTER] >= 0)
		r = bpf_map__set_autocreate(skel->maps.filter_0, false);
	/* the built-in limits use whole tables */
	skel->data->weir_builtin.group4[0].bits = (__u8)__builtin_ctz(d->buckets4);
	skel->data->weir_builtin.group6[0].bits = (__u8)__builtin_ctz(d->buckets6);
	return r;
}

/* A skeleton is loaded once, so the plain entry needs another one. */
static int open_object(struct weir_datapath *d, const int reuse[WEIR_MAP_MAX], bool frags,
		       struct weir **ret)
{
	struct weir *skel = weir__open();
	int r;

	if (!skel)
		return -errno;
	r = prepare(d, skel, reuse);
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
		struct weir *skel = NULL;

		weir_kernel_log_clear();
		r = open_object(d, reuse, frags, &skel);
		if (r == 0 && !open_only)
			r = weir__load(skel);
		if (r == 0) {
			if (!frags)
				weir_note(
					d,
					"this kernel takes no program for frames beyond one page: "
					"interfaces need an MTU below 3500");
			*ret = skel;
			return 0;
		}
		weir__destroy(skel);
		if (r != -EINVAL || open_only)
			break;
	}
	return weir_kernel_error(e, r, "cannot load the XDP program");
}
