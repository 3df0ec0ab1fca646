/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The datapath object: open, free, and what is asked of it without changing anything. See datapath.h. */
#include "user/datapath/datapath.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "user/base/str.h"
#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"
#include "weir.skel.h"

void weir_note(struct weir_datapath *d, const char *format, ...)
{
	size_t at = strlen(d->notes), room = sizeof(d->notes) - at;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(d->notes + at, room, format, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n + 1 < room)
		memcpy(d->notes + at + n, "\n", 2);
	else
		d->notes[at] = '\0'; /* no room: leave whole sentences only */
}

/* --- before anything ------------------------------------------------------------------------- */

static int check_rights(struct weir_error *e)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct c[_LINUX_CAPABILITY_U32S_3] = {{0}};
	const __u32 need = 1u << CAP_SYS_ADMIN | 1u << CAP_NET_ADMIN;

	if (syscall(SYS_capget, &h, c) < 0)
		return 0; /* the calls themselves will tell */
	if ((c[0].effective & need) == need)
		return 0;
	return weir_error_set(e, -EPERM,
			      "root is needed to load an XDP program and to read its maps "
			      "(missing: %s%s%s); try sudo",
			      c[0].effective & 1u << CAP_SYS_ADMIN ? "" : "CAP_SYS_ADMIN",
			      c[0].effective & need ? "" : ", ",
			      c[0].effective & 1u << CAP_NET_ADMIN ? "" : "CAP_NET_ADMIN");
}

static int take_conf(struct weir_datapath *d, const struct weir_conf *conf, struct weir_error *e)
{
	const char *bpffs = conf->bpffs ? conf->bpffs : "/sys/fs/bpf";
	const char *name = conf->instance[0] ? conf->instance : "weir";
	__u64 bytes = conf->packet_sources_bytes;

	if (strpbrk(name, "./") || strcmp(name, "xdp") == 0 || strcmp(name, "tc") == 0 ||
	    strcmp(name, "ip") == 0)
		return weir_error_set(e, -EINVAL,
				      "instance \"%s\" cannot name a folder in bpffs (no dot, no "
				      "slash, and not xdp, tc or ip, which belong to other tools)",
				      name);
	if (!weir_str_copy(d->instance, sizeof(d->instance), name) ||
	    !weir_str_copy(d->bpffs, sizeof(d->bpffs), bpffs))
		return weir_error_set(e, -ENAMETOOLONG, "bpffs or instance has too long a name");
	(void)snprintf(d->folder, sizeof(d->folder), "%s/%s", d->bpffs, d->instance);
	if (bytes < 4096 || (bytes & (bytes - 1)) || bytes / sizeof(struct weir_bucket4) > 1u << 26)
		return weir_error_set(e, -EINVAL,
				      "memory.packet_sources is %llu bytes (a power of two from "
				      "4096 to 4 GiB would be right)",
				      (unsigned long long)bytes);
	d->buckets4 = (__u32)(bytes / sizeof(struct weir_bucket4));
	d->buckets6 = (__u32)(bytes / sizeof(struct weir_bucket6));
	d->attach = conf->attach;
	d->xdp_mode = conf->xdp_mode;
	return 0;
}

/* --- after the load -------------------------------------------------------------------------- */

static int take_meta(struct weir_datapath *d, struct weir_error *e)
{
	int fd = d->map_fd[WEIR_MAP_META];
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), zero = 0;
	int r = bpf_obj_get_info_by_fd(fd, &info, &len);

	if (r == 0)
		r = bpf_map_lookup_elem(fd, &zero, &d->meta);
	if (r < 0)
		return weir_kernel_error(e, r, "cannot read map meta");
	d->meta_id = info.id;
	if (d->meta.magic == WEIR_MAGIC && d->meta.seed[2])
		return 0;
	/* new maps, or a program that has seen no packet: the seeds are ours to make */
	if (getrandom(d->meta.seed, sizeof(d->meta.seed), 0) != sizeof(d->meta.seed))
		return weir_error_set(e, -EIO, "no random numbers: %s", strerror(errno));
	for (int i = 0; i < 3; i++)
		d->meta.seed[i] |= 1;
	d->meta.magic = WEIR_MAGIC;
	d->meta.abi = WEIR_ABI;
	r = bpf_map_update_elem(fd, &zero, &d->meta, BPF_ANY);
	return r < 0 ? weir_kernel_error(e, r, "cannot write map meta") : 0;
}

static void take_inner(struct weir_datapath *d)
{
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		for (__u32 bank = 0; bank < (__u32)weir_map_desc[m].banks; bank++)
			(void)weir_inner_get(d->map_fd[m], bank, &d->inner_fd[m][bank]);
	}
}

static void take_names(struct weir_datapath *d, const struct weir_policy *p)
{
	int fd = d->map_fd[WEIR_MAP_LIMITS];

	for (__u32 i = 0; i < WEIR_STATS_MAX; i++) {
		struct weir_limit_name *n = &d->names[i];

		if (bpf_map_lookup_elem(fd, &i, n) < 0 || !memchr(n->name, '\0', sizeof(n->name)))
			*n = (struct weir_limit_name){0};
	}
	/* an agent that was killed between writing names and switching the policy leaves two that differ */
	for (unsigned i = 0; p && i < p->n_limits; i++) {
		const struct weir_limit_name *n = &d->names[p->limit[i].stat % WEIR_STATS_MAX];

		if (!n->live || n->limit != i)
			p = NULL;
	}
	if (!p) {
		free(d->policy);
		d->policy = NULL;
	}
}

/* Names and policy first, since they say which banks and words mean something. */
static void take_state(struct weir_datapath *d, struct weir_found *f)
{
	const struct weir_policy *p = f->policy;
	bool tables = f->fd[WEIR_MAP_SOURCES] >= 0;
	int r = -ENOENT;

	if (p) {
		d->lists_bank = f->fd[WEIR_MAP_FILTER] >= 0 ? p->lists_bank : 0;
		d->nets_bank = f->fd[WEIR_MAP_NETS] >= 0 ? p->nets_bank : 0;
		d->sources_bank = tables ? p->sources_bank : 0;
	}
	d->tables_fresh = !tables;
	d->policy = TAKE_PTR(f->policy);
	take_names(d, d->policy);
	if (d->policy && tables)
		r = weir_mapping_open(d->inner_fd[WEIR_MAP_SOURCES][d->sources_bank],
				      d->inner_fd[WEIR_MAP_SOURCES6][d->sources_bank], &d->tables);
	else if (d->policy && f->old_sources[0] >= 0)
		r = weir_mapping_open(f->old_sources[0], f->old_sources[1], &d->tables);
	d->tables_foreign = r == 0 && !tables;
	if (r < 0) { /* words without tables mean nothing */
		free(d->policy);
		d->policy = NULL;
	}
}

static int take_lists(struct weir_datapath *d)
{
	int fd = d->inner_fd[WEIR_MAP_FILTER][d->lists_bank];
	__u32 zero = 0;

	d->filter = calloc(1, sizeof(*d->filter));
	if (!d->filter)
		return -ENOMEM;
	if (fd >= 0 && bpf_map_lookup_elem(fd, &zero, d->filter) < 0)
		*d->filter = (struct weir_filter){0};
	for (int m = WEIR_MAP_ALLOWS; m <= WEIR_MAP_GUARDS6; m++) {
		int r, i = m - WEIR_MAP_ALLOWS;

		if (d->inner_fd[m][d->lists_bank] < 0)
			continue;
		r = weir_lists_count(d->inner_fd[m][d->lists_bank], &d->list_n[i / 2][i % 2]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_program(struct weir_datapath *d, struct weir_error *e)
{
	struct bpf_program *prog = d->skel->progs.weir_xdp_frags;
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);
	void *spill, *totals;
	int r;

	if (bpf_program__fd(prog) < 0)
		prog = d->skel->progs.weir_xdp;
	d->prog_fd = bpf_program__fd(prog);
	r = bpf_obj_get_info_by_fd(d->prog_fd, &info, &len);
	if (r < 0)
		return weir_kernel_error(e, r, "cannot read the program back");
	d->prog_id = info.id;
	for (int m = 0; m < WEIR_MAP_MAX; m++)
		d->map_fd[m] = bpf_map__fd(weir_load_map(d->skel, (enum weir_map)m));
	spill = mmap(NULL, WEIR_SPILL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		     d->map_fd[WEIR_MAP_SPILL], 0);
	if (spill == MAP_FAILED)
		return weir_kernel_error(e, -errno, "cannot map spill into memory");
	d->spill = spill;
	totals = mmap(NULL, WEIR_TOTALS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      d->map_fd[WEIR_MAP_TOTALS], 0);
	if (totals == MAP_FAILED)
		return weir_kernel_error(e, -errno, "cannot map totals into memory");
	d->totals = totals;
	return 0;
}

/* --- open and free --------------------------------------------------------------------------- */

DEFINE_CLEANUP(struct weir_datapath, weir_datapath_free)

static struct weir_datapath *new_datapath(void)
{
	struct weir_datapath *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->lock_fd = -1;
	d->prog_fd = -1;
	d->base_fd = -1;
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		d->map_fd[m] = -1;
		d->inner_fd[m][0] = -1;
		d->inner_fd[m][1] = -1;
	}
	return d;
}

static int take_all(struct weir_datapath *d, struct weir_found *found, struct weir_error *e)
{
	int r = weir_load(d, found->fd, false, &d->skel, e);

	if (r == 0)
		r = take_program(d, e);
	if (r == 0)
		r = take_meta(d, e);
	if (r < 0)
		return r;
	take_inner(d);
	take_state(d, found);
	r = take_lists(d);
	if (r == 0)
		r = weir_base_open(d);
	if (r < 0)
		return weir_kernel_error(e, r, "cannot read lists and counters back");
	/* Where pins of another layout are in force, they stay until apply has copied what they hold. */
	return d->adoption != WEIR_ADOPT_PARTLY ? weir_pin_all(d, e) : 0;
}

int weir_datapath_open(const struct weir_conf *conf, struct weir_datapath **ret,
		       struct weir_error *e)
{
	_cleanup_(weir_datapath_freep) struct weir_datapath *d = new_datapath();
	_cleanup_(weir_found_done) struct weir_found found = {.fd = {[0 ... WEIR_MAP_MAX - 1] = -1},
							      .old_sources = {-1, -1}};
	int r;

	if (!d)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = take_conf(d, conf, e);
	if (r == 0)
		r = check_rights(e);
	if (r < 0)
		return r;
	weir_kernel_log_quiet();
	r = weir_pin_folder(d, e);
	if (r < 0)
		return r;
	r = weir_adopt(d, conf->interfaces, conf->n_interfaces, &found, e);
	if (r < 0)
		return r;
	d->adoption = (enum weir_adoption)r;
	d->fresh = d->adoption == WEIR_ADOPT_FRESH;
	r = take_all(d, &found, e);
	if (r < 0) {
		weir_datapath_abandon(d);
		return r;
	}
	*ret = TAKE_PTR(d);
	return 0;
}

void weir_datapath_free(struct weir_datapath *d)
{
	if (!d)
		return;
	ring_buffer__free(d->ring);
	weir_mapping_close(&d->tables);
	if (d->spill)
		(void)munmap(d->spill, WEIR_SPILL_BYTES);
	if (d->totals)
		(void)munmap(d->totals, WEIR_TOTALS_BYTES);
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		closep(&d->inner_fd[m][0]);
		closep(&d->inner_fd[m][1]);
	}
	weir__destroy(d->skel);
	btf__free(d->btf);
	free(d->policy);
	free(d->filter);
	closep(&d->base_fd);
	closep(&d->lock_fd);
	free(d);
}

void weir_datapath_abandon(struct weir_datapath *d)
{
	struct weir_attachment at[WEIR_IFACES_MAX];
	int n;

	if (!d || !d->fresh)
		return;
	n = d->prog_id ? weir_datapath_attachments(d, at, WEIR_IFACES_MAX) : 0;
	for (int i = 0; i < n && i < WEIR_IFACES_MAX; i++) {
		if (at[i].attached)
			return;
	}
	weir_unpin_all(d);
}

enum weir_adoption weir_datapath_adoption(const struct weir_datapath *d)
{
	return d->adoption;
}

const char *weir_datapath_notes(const struct weir_datapath *d)
{
	return d->notes;
}

const struct weir_policy *weir_datapath_policy(const struct weir_datapath *d)
{
	return d->policy;
}

const struct weir_limit_name *weir_datapath_names(const struct weir_datapath *d)
{
	return d->names;
}

bool weir_datapath_tables(const struct weir_datapath *d, struct weir_tables *ret)
{
	if (!d->policy || !d->tables.t4)
		return false;
	*ret = (struct weir_tables){
		.t4 = d->tables.t4,
		.t6 = d->tables.t6,
		.buckets4 = d->tables.buckets4,
		.buckets6 = d->tables.buckets6,
		.spill = d->tables_foreign ? NULL : d->spill,
		.totals = d->totals,
		.policy = d->policy,
		.meta = &d->meta,
	};
	return true;
}
