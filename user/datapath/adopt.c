/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an earlier agent pinned, or what a weir program that `ip link` attached uses: found, checked against our own
 * object, and only then taken over. All of it is input. Called by datapath.c at open.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"
#include "weir.skel.h"

#define PROG_MAPS_MAX 64

void weir_found_done(struct weir_found *f)
{
	for (int m = 0; m < WEIR_MAP_MAX; m++)
		closep(&f->fd[m]);
	closep(&f->old_sources[0]);
	closep(&f->old_sources[1]);
	free(f->policy);
	*f = (struct weir_found){.old_sources = {-1, -1}};
	for (int m = 0; m < WEIR_MAP_MAX; m++)
		f->fd[m] = -1;
}

static void lose(struct weir_found *f, enum weir_map m)
{
	closep(&f->fd[m]);
	f->fd[m] = -1;
}

static void lose_set(struct weir_found *f, enum weir_map_set set)
{
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		if (weir_map_desc[m].set == set)
			lose(f, (enum weir_map)m);
	}
}

/* --- programs -------------------------------------------------------------------------------- */

static int prog_info(__u32 id, __u32 *ids, __u32 *n_ids, struct bpf_prog_info *ret)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);
	int r;

	if (fd < 0)
		return fd;
	info.map_ids = (__u64)(unsigned long)ids;
	info.nr_map_ids = *n_ids;
	r = bpf_obj_get_info_by_fd(fd, &info, &len);
	if (r < 0)
		return r;
	if (info.nr_map_ids < *n_ids)
		*n_ids = info.nr_map_ids;
	*ret = info;
	return 0;
}

bool weir_prog_is_weir(__u32 prog_id, __u32 meta_id)
{
	__u32 ids[PROG_MAPS_MAX], n = PROG_MAPS_MAX;
	struct bpf_prog_info info;

	if (!prog_id || prog_info(prog_id, ids, &n, &info) < 0 ||
	    strncmp(info.name, WEIR_PROG_NAME_START, strlen(WEIR_PROG_NAME_START)) != 0)
		return false;
	if (!meta_id)
		return true;
	for (__u32 i = 0; i < n; i++) {
		if (ids[i] == meta_id)
			return true;
	}
	return false;
}

static void take_map(struct weir_found *f, __u32 id)
{
	_cleanup_close_ int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return;
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		if (strcmp(info.name, weir_map_desc[m].name) == 0 && f->fd[m] < 0) {
			f->fd[m] = TAKE_FD(fd);
			return;
		}
	}
}

/* A program on a link was put there by an agent, wherever it pinned that link. */
static bool is_on_link(__u32 prog_id)
{
	__u32 id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		_cleanup_close_ int fd = bpf_link_get_fd_by_id(id);
		struct bpf_link_info info = {0};
		__u32 len = sizeof(info);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
		    info.type == BPF_LINK_TYPE_XDP && info.prog_id == prog_id)
			return true;
	}
	return false;
}

static __u32 map_id(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 ? info.id : 0;
}

/* Has another instance beside this one pinned these maps? */
static bool is_pinned(const struct weir_datapath *d, __u32 meta_id)
{
	_cleanup_closedir_ DIR *dir = opendir(d->bpffs);

	for (struct dirent *f = dir ? readdir(dir) : NULL; f; f = readdir(dir)) {
		_cleanup_close_ int fd = -1;
		char path[PATH_MAX];

		if (f->d_name[0] == '.' || (size_t)snprintf(path, sizeof(path), "%s/%s/meta",
							    d->bpffs, f->d_name) >= sizeof(path))
			continue;
		fd = bpf_obj_get(path);
		if (fd >= 0 && map_id(fd) == meta_id)
			return true;
	}
	return false;
}

/* Maps of the first weir program on one of the interfaces that no instance has: what an agent put there is that
 * agent's, and two that write the same maps would undo each other's limits.
 */
static bool find_program(const struct weir_datapath *d, char *const *interfaces, size_t n,
			 struct weir_found *f, char where[16])
{
	_cleanup_free_ struct weir_iface *list = NULL;
	size_t n_list = 0;

	if (!n || weir_iface_list(&list, &n_list) < 0)
		return false;
	for (size_t i = 0; i < n_list; i++) {
		__u32 ids[PROG_MAPS_MAX], n_ids = PROG_MAPS_MAX, id = weir_iface_prog(&list[i]);
		struct bpf_prog_info info;
		size_t k = 0;

		while (k < n && strcmp(interfaces[k], list[i].name) != 0)
			k++;
		if (k == n || !weir_prog_is_weir(id, 0) || is_on_link(id) ||
		    prog_info(id, ids, &n_ids, &info) < 0)
			continue;
		for (__u32 j = 0; j < n_ids; j++)
			take_map(f, ids[j]);
		if (is_pinned(d, map_id(f->fd[WEIR_MAP_META]))) {
			weir_found_done(f);
			continue;
		}
		memcpy(where, list[i].name, 16);
		return f->fd[WEIR_MAP_META] >= 0;
	}
	return false;
}

/* Whatever of the instance's maps is pinned; how many. */
static int find_pins(struct weir_datapath *d, struct weir_found *f)
{
	int n = 0;

	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		char name[32];
		int fd;

		(void)snprintf(name, sizeof(name), "%s%s", weir_map_desc[m].banks ? "outer/" : "",
			       weir_map_desc[m].name);
		fd = weir_pin_get(d, name);
		if (fd >= 0) {
			f->fd[m] = fd;
			n++;
		}
	}
	return n;
}

/* --- is it what our object would make? ------------------------------------------------------- */

static bool same_layout(const struct weir_inner_like *want, int fd, bool any_size,
			bool *ret_resized)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return false;
	if (info.type != want->type || info.key_size != want->key_size ||
	    info.value_size != want->value_size || info.map_flags != want->flags)
		return false;
	if (info.max_entries == want->max_entries)
		return true;
	if (any_size)
		*ret_resized = true;
	return any_size;
}

static bool same_map(const struct bpf_map *map, int fd)
{
	const struct weir_inner_like want = {
		.type = bpf_map__type(map),
		.key_size = bpf_map__key_size(map),
		.value_size = bpf_map__value_size(map),
		.max_entries = bpf_map__max_entries(map),
		.flags = bpf_map__map_flags(map),
	};

	return fd >= 0 && same_layout(&want, fd, false, NULL);
}

/* A map of maps is told by what is in it; the layout of an empty one is covered by the ABI number. */
static bool same_banks(const struct weir_datapath *d, enum weir_map m, int fd, bool *ret_resized)
{
	bool any_size = weir_map_desc[m].set == WEIR_SET_TABLES, some = false;

	for (__u32 bank = 0; bank < (__u32)weir_map_desc[m].banks; bank++) {
		_cleanup_close_ int inner = -1;

		if (weir_inner_get(fd, bank, &inner) < 0)
			continue;
		some = true;
		if (!same_layout(&d->like[m], inner, any_size, ret_resized))
			return false;
	}
	return some || !any_size;
}

static int check_meta(struct weir_datapath *d, const struct weir *skel, struct weir_found *f,
		      bool program)
{
	struct weir_meta meta;
	__u32 zero = 0;

	if (!same_map(skel->maps.meta, f->fd[WEIR_MAP_META]) ||
	    bpf_map_lookup_elem(f->fd[WEIR_MAP_META], &zero, &meta) < 0) {
		weir_note(d, "the maps found say nothing of their version: all made anew");
		return -ENOENT;
	}
	if (program && !meta.magic) /* has seen no packet yet, so it has made no seeds */
		return 0;
	if (meta.magic != WEIR_MAGIC || meta.abi != WEIR_ABI) {
		weir_note(d,
			  "the maps found are of version %u, this agent's of version %u: all made "
			  "anew, limits, counters and lists in the kernel begin empty",
			  meta.magic == WEIR_MAGIC ? meta.abi : 0, WEIR_ABI);
		return -EPROTO;
	}
	return 0;
}

static void read_policy(struct weir_found *f)
{
	_cleanup_free_ struct weir_policy *p = malloc(sizeof(*p));
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), zero = 0;
	_cleanup_close_ int fd = -1;

	if (!p || f->fd[WEIR_MAP_POLICY] < 0 || weir_inner_get(f->fd[WEIR_MAP_POLICY], 0, &fd) < 0)
		return;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0 || info.value_size != sizeof(*p) ||
	    bpf_map_lookup_elem(fd, &zero, p) < 0)
		return;
	if (p->sources_bank > 1 || p->lists_bank > 1 || p->nets_bank > 1 ||
	    p->n_limits > WEIR_LIMITS_MAX)
		return;
	f->policy = TAKE_PTR(p);
}

/* Tables of another size: those in force are kept to copy from. */
static void keep_old_tables(struct weir_found *f)
{
	if (!f->policy || f->fd[WEIR_MAP_SOURCES] < 0 || f->fd[WEIR_MAP_SOURCES6] < 0)
		return;
	if (weir_inner_get(f->fd[WEIR_MAP_SOURCES], f->policy->sources_bank, &f->old_sources[0]) <
	    0)
		return;
	if (weir_inner_get(f->fd[WEIR_MAP_SOURCES6], f->policy->sources_bank, &f->old_sources[1]) <
	    0)
		closep(&f->old_sources[0]), f->old_sources[0] = -1;
}

/* Keeps what fits; returns how many maps must be made anew. */
static int check(struct weir_datapath *d, struct weir *skel, struct weir_found *f, bool program)
{
	bool bad[WEIR_MAP_MAX] = {false}, bad_set[4] = {false};
	char names[256] = "";
	size_t at = 0;
	int n_bad = 0;

	read_policy(f);
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		bool resized = false;

		bad[m] = !same_map(weir_load_map(skel, (enum weir_map)m), f->fd[m]) ||
			 (weir_map_desc[m].banks &&
			  !same_banks(d, (enum weir_map)m, f->fd[m], &resized));
		if (program && m == WEIR_MAP_LIMITS && f->fd[m] < 0)
			bad[m] = false; /* only agents use it: a program alone has none */
		if (resized && !bad[m]) {
			f->resized = true;
			bad_set[WEIR_SET_TABLES] = true;
			continue;
		}
		if (!bad[m])
			continue;
		n_bad++;
		bad_set[weir_map_desc[m].set] = true;
		if (at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
					       at ? ", " : "", weir_map_desc[m].name);
	}
	if (n_bad)
		weir_note(d,
			  "maps that were missing or had another layout begin empty, made anew: %s",
			  names);
	if (bad[WEIR_MAP_SOURCES] || bad[WEIR_MAP_SOURCES6])
		f->resized = false;
	if (f->resized)
		keep_old_tables(f);
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		if (bad[m])
			lose(f, (enum weir_map)m);
	}
	for (int set = WEIR_SET_TABLES; set <= WEIR_SET_NETS; set++) {
		if (bad_set[set])
			lose_set(f, (enum weir_map_set)set);
	}
	/* a policy speaks of all of these: the new program gets a new one, when limits are applied */
	if (bad_set[WEIR_SET_TABLES] || bad_set[WEIR_SET_LISTS] || bad_set[WEIR_SET_NETS] ||
	    bad[WEIR_MAP_LIMITS])
		lose(f, WEIR_MAP_POLICY);
	return n_bad;
}

int weir_adopt(struct weir_datapath *d, char *const *interfaces, size_t n, struct weir_found *ret,
	       struct weir_error *e)
{
	static const int none[WEIR_MAP_MAX] = {[0 ... WEIR_MAP_MAX - 1] = -1};
	struct weir *skel = NULL;
	char where[16] = "";
	bool program = false;
	int r, n_bad;

	if (find_pins(d, ret) == 0) {
		program = find_program(d, interfaces, n, ret, where);
		if (!program) {
			weir_found_done(ret);
			return WEIR_ADOPT_FRESH;
		}
	}
	r = weir_load(d, none, true, &skel, e); /* to compare with */
	if (r < 0)
		return r;
	if (check_meta(d, skel, ret, program) < 0) {
		struct bpf_map_info info = {0};
		__u32 len = sizeof(info);

		if (ret->fd[WEIR_MAP_META] >= 0 &&
		    bpf_obj_get_info_by_fd(ret->fd[WEIR_MAP_META], &info, &len) == 0)
			d->old_meta_id = info.id;
		weir__destroy(skel);
		weir_found_done(ret);
		return WEIR_ADOPT_PARTLY;
	}
	n_bad = check(d, skel, ret, program);
	weir__destroy(skel);
	if (program)
		weir_note(d, "adopted the maps of the weir program on %s", where);
	if (ret->resized)
		weir_note(d,
			  "the tables found are not of the size of memory.packet_sources: new ones "
			  "are made%s",
			  ret->old_sources[0] >= 0 ? ", state is copied" : ", which begin empty");
	if (n_bad || ret->resized)
		return WEIR_ADOPT_PARTLY;
	return program ? WEIR_ADOPT_PROGRAM : WEIR_ADOPT_PINS;
}
