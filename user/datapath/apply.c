/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A configuration goes into force in one step: everything new is built beside what is in force, then one update of the
 * map `policy` switches limits, lists, prefixes and state tables, and waits for programs that still read the old ones.
 * Whatever fails before that leaves no trace. Called by the agent through datapath.h.
 */
#include <bpf/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "user/base/clock.h"
#include "user/datapath/compile.h"
#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

DEFINE_CLEANUP(struct weir_compiled, weir_compiled_free)

/* What is being built. */
struct change {
	struct weir_datapath *d;
	struct weir_compiled *compiled;
	struct weir_filter *filter; /* of new lists; NULL = lists stay */
	__u32 list_n[WEIR_LIST_MAX][2];
	struct weir_mapping tables; /* new ones; t4 NULL = tables stay */
	__u8 sources_bank, lists_bank, nets_bank;
	bool put[WEIR_MAP_MAX]; /* a bank of it was filled */
};

static __u8 bank_of(const struct change *c, int m)
{
	switch (weir_map_desc[m].set) {
	case WEIR_SET_TABLES:
		return c->sources_bank;
	case WEIR_SET_LISTS:
		return c->lists_bank;
	default:
		return c->nets_bank;
	}
}

/* Whatever is still in the change was not switched to. */
static void change_done(struct change *c)
{
	for (int m = 0; m < WEIR_MAP_MAX; m++) {
		if (c->put[m])
			weir_inner_drop(c->d, (enum weir_map)m, bank_of(c, m));
	}
	weir_mapping_close(&c->tables);
	free(c->filter);
	weir_compiled_freep(&c->compiled);
}

static int put(struct change *c, enum weir_map m, int *fd)
{
	int r = weir_inner_put(c->d, m, bank_of(c, m), fd);

	if (r == 0)
		c->put[m] = true;
	return r;
}

static int new_inner(struct change *c, enum weir_map m, __u32 max_entries)
{
	_cleanup_close_ int fd = -1;
	int r = weir_inner_new(c->d, m, max_entries, &fd);

	return r < 0 ? r : put(c, m, &fd);
}

static int clear_spill(const struct change *c)
{
	const size_t half = sizeof(struct weir_spill) << WEIR_SPILL_BITS;
	char *p = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED,
		       c->d->map_fd[WEIR_MAP_SPILL], 0);

	if (p == MAP_FAILED)
		return -errno;
	memset(p + (c->sources_bank ? half : 0), 0, half);
	(void)munmap(p, 2 * half);
	return 0;
}

static __u64 jiffy_ns(void)
{
	struct timespec t;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t) < 0)
		return 10000000; /* the longest there is: HZ=100 */
	return (__u64)t.tv_sec * 1000000000ull + (__u64)t.tv_nsec;
}

/* Tables: stay where the words keep their places, else new ones with the state of all limits that stay. */
static int build_tables(struct change *c, struct weir_error *e)
{
	struct weir_datapath *d = c->d;
	int r = 0;

	if (d->policy && !d->tables_foreign && !c->compiled->new_tables) {
		c->sources_bank = d->sources_bank;
		return 0;
	}
	c->sources_bank = d->tables_fresh ? 0 : !d->sources_bank;
	if (!d->tables_fresh) {
		r = new_inner(c, WEIR_MAP_SOURCES, d->buckets4);
		if (r == 0)
			r = new_inner(c, WEIR_MAP_SOURCES6, d->buckets6);
	}
	if (r == 0)
		r = clear_spill(c);
	if (r == 0)
		r = weir_mapping_open(d->inner_fd[WEIR_MAP_SOURCES][c->sources_bank],
				      d->inner_fd[WEIR_MAP_SOURCES6][c->sources_bank], &c->tables);
	return r < 0 ? weir_kernel_error(e, r, "cannot make new state tables") : 0;
}

static void copy_state(struct change *c)
{
	struct weir_datapath *d = c->d;
	struct weir_tables from, to = {
					 .t4 = c->tables.t4,
					 .t6 = c->tables.t6,
					 .buckets4 = c->tables.buckets4,
					 .buckets6 = c->tables.buckets6,
					 .policy = &c->compiled->policy,
					 .meta = &d->meta,
				 };
	__u64 lost;

	weir_totals_copy(d->policy, &c->compiled->policy, d->totals,
			 weir_clock_ns(CLOCK_MONOTONIC));
	if (!c->tables.t4 || !weir_datapath_tables(d, &from))
		return;
	lost = weir_table_copy(&from, &to, weir_clock_ns(CLOCK_MONOTONIC));
	if (lost)
		weir_note(d, "%llu sources found no room in the new tables and begin anew",
			  (unsigned long long)lost);
}

static int build_lists(struct change *c, const struct weir_lists *lists, struct weir_error *e)
{
	static const struct weir_lists none;
	struct weir_datapath *d = c->d;
	int fd[2 * WEIR_LIST_MAX], r = 0;
	__u32 zero = 0;

	c->lists_bank = d->lists_bank;
	if (!lists) {
		if (d->inner_fd[WEIR_MAP_ALLOWS][d->lists_bank] >= 0)
			return 0; /* those in force stay */
		lists = &none;
	}
	c->lists_bank = !d->lists_bank;
	c->filter = calloc(1, sizeof(*c->filter));
	if (!c->filter)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (int i = 0; i < 2 * WEIR_LIST_MAX && r == 0; i++) {
		enum weir_map m = (enum weir_map)(WEIR_MAP_ALLOWS + i);

		r = new_inner(c, m, WEIR_LIST_ROOM);
		fd[i] = d->inner_fd[m][c->lists_bank];
	}
	if (r == 0)
		r = new_inner(c, WEIR_MAP_FILTER, 0);
	if (r < 0)
		return weir_kernel_error(e, r, "cannot make new lists");
	r = weir_lists_fill(lists, fd, WEIR_LIST_ROOM, c->filter, c->list_n, e);
	if (r < 0)
		return r;
	r = bpf_map_update_elem(d->inner_fd[WEIR_MAP_FILTER][c->lists_bank], &zero, c->filter,
				BPF_ANY);
	return r < 0 ? weir_kernel_error(e, r, "cannot write the filter of the lists") : 0;
}

static int build_nets(struct change *c, struct weir_error *e)
{
	struct weir_datapath *d = c->d;
	int r;

	c->nets_bank = !d->nets_bank;
	r = new_inner(c, WEIR_MAP_NETS, 0);
	for (size_t i = 0; i < c->compiled->n_nets && r == 0; i++)
		r = bpf_map_update_elem(d->inner_fd[WEIR_MAP_NETS][c->nets_bank],
					&c->compiled->nets[i].key, &c->compiled->nets[i].mask,
					BPF_ANY);
	if (r == -E2BIG)
		return weir_error_set(
			e, r, "the limits name %zu prefixes in source: and destination: (4096 fit)",
			c->compiled->n_nets);
	return r < 0 ? weir_kernel_error(e, r, "cannot write the prefixes of limits") : 0;
}

static bool lists_any(const __u32 n[WEIR_LIST_MAX][2])
{
	__u32 sum = 0;

	for (int l = WEIR_LIST_ALLOW; l <= WEIR_LIST_BLOCK; l++) /* guards alone say nothing */
		sum |= n[l][0] | n[l][1];
	return sum != 0;
}

static void fill_policy(struct change *c, enum weir_mode mode)
{
	struct weir_policy *p = &c->compiled->policy;

	p->generation = c->d->policy ? c->d->policy->generation + 1 : 1;
	p->sources_bank = c->sources_bank;
	p->lists_bank = c->lists_bank;
	p->nets_bank = c->nets_bank;
	p->flags &= ~(__u32)(WEIR_POLICY_MONITOR | WEIR_POLICY_LISTS);
	if (mode == WEIR_MODE_MONITOR)
		p->flags |= WEIR_POLICY_MONITOR;
	if (lists_any(c->filter ? c->list_n : c->d->list_n))
		p->flags |= WEIR_POLICY_LISTS;
}

/* The one step. */
static int switch_policy(struct weir_datapath *d, const struct weir_policy *p, struct weir_error *e)
{
	_cleanup_free_ struct weir_policy *copy = malloc(sizeof(*copy));
	_cleanup_close_ int fd = -1;
	__u32 zero = 0;
	int r;

	if (!copy)
		return weir_error_set(e, -ENOMEM, "out of memory");
	*copy = *p;
	r = weir_inner_new(d, WEIR_MAP_POLICY, 0, &fd);
	if (r == 0)
		r = bpf_map_update_elem(fd, &zero, p, BPF_ANY);
	if (r == 0)
		r = weir_inner_put(d, WEIR_MAP_POLICY, 0, &fd);
	if (r < 0)
		return weir_kernel_error(e, r, "cannot put the limits in force");
	free(d->policy);
	d->policy = TAKE_PTR(copy);
	return 0;
}

int weir_policy_switch(struct weir_datapath *d, const struct weir_policy *p, struct weir_error *e)
{
	int r = switch_policy(d, p, e);

	if (r == 0 && d->pinned)
		(void)weir_pin(d, d->inner_fd[WEIR_MAP_POLICY][0], "policy", NULL); /* for people */
	return r;
}

/* What was in force before is let go; nothing here can fail but pinning, which leaves the old pin. */
static void settle(struct change *c)
{
	struct weir_datapath *d = c->d;

	if (c->tables.t4) {
		if (c->sources_bank != d->sources_bank) {
			weir_inner_drop(d, WEIR_MAP_SOURCES, d->sources_bank);
			weir_inner_drop(d, WEIR_MAP_SOURCES6, d->sources_bank);
		}
		weir_mapping_close(&d->tables);
		d->tables = c->tables;
		c->tables = (struct weir_mapping){0};
		d->tables_foreign = false;
		d->tables_fresh = false;
	}
	if (c->filter) {
		for (int m = WEIR_MAP_ALLOWS; m <= WEIR_MAP_FILTER; m++)
			weir_inner_drop(d, (enum weir_map)m, d->lists_bank);
		free(d->filter);
		d->filter = TAKE_PTR(c->filter);
		memcpy(d->list_n, c->list_n, sizeof(d->list_n));
	}
	weir_inner_drop(d, WEIR_MAP_NETS, d->nets_bank);
	d->sources_bank = c->sources_bank;
	d->lists_bank = c->lists_bank;
	d->nets_bank = c->nets_bank;
	memset(c->put, 0, sizeof(c->put));
}

static void put_names(struct change *c)
{
	struct weir_datapath *d = c->d;

	weir_base_renew(d, c->compiled->names);
	memcpy(d->names, c->compiled->names, sizeof(d->names));
	for (__u32 i = 0; i < WEIR_STATS_MAX; i++) /* an array element always has room */
		(void)bpf_map_update_elem(d->map_fd[WEIR_MAP_LIMITS], &i, &d->names[i], BPF_ANY);
}

int weir_datapath_apply(struct weir_datapath *d, const struct weir_conf *conf, enum weir_mode mode,
			const struct weir_lists *lists, struct weir_error *e)
{
	_cleanup_(change_done) struct change c = {.d = d};
	struct weir_error pin = {""};
	bool first;
	int r = weir_compile(conf, d->policy, d->policy ? d->names : NULL, d->buckets4, d->buckets6,
			     jiffy_ns(), &c.compiled, e);

	if (r == 0)
		r = build_lists(&c, lists, e);
	if (r == 0)
		r = build_nets(&c, e);
	if (r == 0)
		r = build_tables(&c, e);
	if (r == 0)
		r = weir_pin_again(d, e);
	if (r < 0)
		return r;
	fill_policy(&c, mode);
	first = !d->policy; /* until now the limits were another agent's, or the program's own */
	copy_state(
		&c); /* as late as can be: what is charged from here to the switch is forgotten */
	r = switch_policy(d, &c.compiled->policy, e);
	if (r < 0)
		return r;
	if (first)
		d->named_since_ns = weir_clock_ns(CLOCK_MONOTONIC);
	put_names(&c);
	settle(&c);
	r = d->pinned ? weir_pin_inner(d, &pin) : weir_pin_all(d, &pin);
	if (r < 0) /* the limits are in force all the same */
		weir_note(d, "%s", pin.text);
	return 0;
}

int weir_datapath_set_mode(struct weir_datapath *d, enum weir_mode mode, struct weir_error *e)
{
	_cleanup_free_ struct weir_policy *p = NULL;

	if (!d->policy || d->tables_foreign)
		return weir_error_set(e, -EAGAIN, "no limits are in force yet");
	p = malloc(sizeof(*p));
	if (!p)
		return weir_error_set(e, -ENOMEM, "out of memory");
	*p = *d->policy;
	p->flags &= ~(__u32)WEIR_POLICY_MONITOR;
	if (mode == WEIR_MODE_MONITOR)
		p->flags |= WEIR_POLICY_MONITOR;
	p->generation++;
	return weir_policy_switch(d, p, e);
}
