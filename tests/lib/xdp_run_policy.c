/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Policies and lists for xdp_run.h: configuration text through the agent's own parser and compiler
 * into the maps, as the agent does it but without pins; and lists filled by the description in
 * weir/maps.h alone, so that a test fails if program and agent only agree with each other.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "tests/lib/inner.h"
#include "tests/lib/xdp_run.h"
#include "tests/lib/xdp_run_int.h"
#include "user/datapath/table.h"

/* --- policy ---- */

static int new_map(const struct weir *w, struct inner_type t, uint32_t n)
{
	int fd = inner_new(w->obj, t, n);

	if (fd < 0)
		fail_msg("new inner map: %s", strerror(-fd));
	return fd;
}

static void put_inner(struct bpf_map *outer, uint32_t bank, int fd)
{
	xdp_map_put(outer, bank, &fd);
	(void)close(fd); /* the outer map holds it */
}

static void put_nets(struct xdp_run *x, const struct weir_compiled *c)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		int fd = new_map(x->side[i].skel, INNER_NETS, 4096);

		for (size_t k = 0; k < c->n_nets; k++)
			if (bpf_map_update_elem(fd, &c->nets[k].key, &c->nets[k].mask, BPF_NOEXIST))
				fail_msg("prefix of a limit: %s", strerror(errno));
		put_inner(x->side[i].skel->maps.nets, c->policy.nets_bank, fd);
	}
}

/* The state tables of @s under @p. */
static struct weir_tables tables_of(const struct xdp_run *x, const struct xdp_side *s,
				    const struct weir_policy *p, struct weir_meta *meta)
{
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.meta), &zero, meta))
		fail_msg("meta: %s", strerror(errno));
	return (struct weir_tables){.t4 = s->sources,
				    .t6 = s->sources6,
				    .buckets4 = x->buckets,
				    .buckets6 = x->buckets,
				    .policy = p,
				    .meta = meta};
}

/* Copies live state into tables laid out for @c, as the agent does it. */
static void move_state(struct xdp_run *x, const struct weir_compiled *old,
		       const struct weir_compiled *c)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		struct xdp_side *s = &x->side[i];
		size_t n4 = xdp_table4_bytes(s), n6 = xdp_table6_bytes(s);
		struct weir_meta meta;
		struct weir_tables to = tables_of(x, s, &c->policy, &meta), from = to;

		from.policy = &old->policy;
		from.t4 = malloc(n4);
		from.t6 = malloc(n6);
		if (!from.t4 || !from.t6)
			fail_msg("no memory");
		memcpy(from.t4, s->sources, n4);
		memcpy(from.t6, s->sources6, n6);
		memset(s->sources, 0, n4);
		memset(s->sources6, 0, n6);
		(void)weir_table_copy(&from, &to, x->now_ns);
		free(from.t4);
		free(from.t6);
	}
}

void xdp_sweep(struct xdp_run *x)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		struct weir_meta meta;
		struct weir_tables t = tables_of(x, &x->side[i], &x->compiled->policy, &meta);
		struct weir_sweep ignored = {};

		weir_table_sweep(&t, x->now_ns, 0, x->buckets, &ignored);
	}
}

/* State of limits per: all, read from the map and written back as the agent does it in place. */
static void move_totals(struct xdp_run *x, const struct weir_compiled *old,
			const struct weir_compiled *c)
{
	for (int i = 0; i < XDP_SIDES; i++) {
		struct bpf_map *m = x->side[i].skel->maps.totals;
		struct weir_total t[WEIR_TOTALS];

		for (uint32_t k = 0; k < WEIR_TOTALS; k++)
			if (bpf_map_lookup_elem(bpf_map__fd(m), &k, &t[k]))
				fail_msg("totals: %s", strerror(errno));
		weir_totals_copy(old ? &old->policy : NULL, &c->policy, t, x->now_ns);
		for (uint32_t k = 0; k < WEIR_TOTALS; k++)
			xdp_map_put(m, k, &t[k]);
	}
}

/* --- lists ---- */

static void set_bit(__u64 *bits, uint32_t i)
{
	bits[i >> 6 & ((1 << (WEIR_FILTER_BITS - 6)) - 1)] |= 1ull << (i & 63);
}

static void add_length(uint8_t *lens, uint8_t *n, uint8_t len)
{
	int at = 0;

	while (at < *n && lens[at] > len)
		at++;
	if (at < *n && lens[at] == len)
		return;
	memmove(lens + at + 1, lens + at, (size_t)(*n - at));
	lens[at] = len;
	(*n)++;
}

static void filter_add(struct weir_filter *f, const struct xdp_listed *l)
{
	const struct weir_prefix *p = &l->prefix;
	uint32_t first = ntohl(p->addr.word[0]);

	if (p->family == 4) {
		add_length(f->len4[l->list], &f->n4[l->list], p->len);
		if (p->len == 32)
			set_bit(f->exact_bits, weir_filter_exact4(p->addr.word[0]));
		else
			for (uint32_t i = first >> 16;
			     i <=
			     (p->len >= 16 ? first >> 16 : (first | 0xffffffffu >> p->len) >> 16);
			     i++)
				set_bit(f->prefix_bits, i);
		return;
	}
	add_length(f->len6[l->list], &f->n6[l->list], p->len);
	if (p->len == 128)
		set_bit(f->exact_bits, weir_filter_exact6(p->addr.word));
	else if (p->len >= 32)
		set_bit(f->prefix_bits, weir_filter_prefix6(p->addr.word[0]));
	else
		f->wide6 = 1;
}

static struct bpf_map *outer_of(const struct weir *s, enum weir_list list, int family)
{
	struct bpf_map *const m[WEIR_LIST_MAX][2] = {
		{s->maps.allows, s->maps.allows6},
		{s->maps.blocks, s->maps.blocks6},
		{s->maps.guards, s->maps.guards6},
	};

	return m[list][family == 6];
}

/* Inner maps, made once: every update of an outer map waits for running programs. */
static int list_fd[XDP_SIDES][2][WEIR_LIST_MAX][2], filter_fd[XDP_SIDES][2];

static void make_bank(struct xdp_run *x, int side, unsigned bank)
{
	const struct weir *s = x->side[side].skel;

	if (filter_fd[side][bank])
		return;
	for (int list = 0; list < WEIR_LIST_MAX; list++)
		for (int v6 = 0; v6 < 2; v6++) {
			int fd = new_map(s,
					 v6 ? INNER_HASH(weir_prefix6, weir_entry)
					    : INNER_HASH(weir_prefix4, weir_entry),
					 XDP_LISTED);

			xdp_map_put(outer_of(s, (enum weir_list)list, v6 ? 6 : 4), bank, &fd);
			list_fd[side][bank][list][v6] = fd;
		}
	filter_fd[side][bank] = new_map(s, INNER_ARRAY(weir_filter), 1);
	xdp_map_put(s->maps.filter, bank, &filter_fd[side][bank]);
}

static void clear_list(int fd)
{
	struct weir_prefix6 key; /* room for either */

	while (!bpf_map_get_next_key(fd, NULL, &key))
		if (bpf_map_delete_elem(fd, &key))
			fail_msg("list entry does not go: %s", strerror(errno));
}

static void put_entry(const int fd[WEIR_LIST_MAX][2], const struct xdp_listed *l)
{
	struct weir_prefix4 k4 = {.prefix_len = l->prefix.len, .word = l->prefix.addr.word[0]};
	struct weir_prefix6 k6 = {.prefix_len = l->prefix.len};
	bool v6 = l->prefix.family == 6;

	memcpy(k6.ip, l->prefix.addr.ip, 16);
	if (bpf_map_update_elem(fd[l->list][v6], v6 ? (void *)&k6 : (void *)&k4, &l->entry,
				BPF_ANY))
		fail_msg("list entry: %s", strerror(errno));
}

/* Makes the lists of the current bank those of x->listed. */
static void fill_lists(struct xdp_run *x)
{
	static struct weir_filter f;
	uint32_t zero = 0;

	memset(&f, 0, sizeof(f));
	for (size_t i = 0; i < x->n_listed; i++)
		filter_add(&f, &x->listed[i]);
	for (int i = 0; i < XDP_SIDES; i++) {
		make_bank(x, i, x->bank);
		for (int list = 0; list < WEIR_LIST_MAX; list++)
			for (int v6 = 0; v6 < 2; v6++)
				clear_list(list_fd[i][x->bank][list][v6]);
		for (size_t k = 0; k < x->n_listed; k++)
			put_entry(list_fd[i][x->bank], &x->listed[k]);
		if (bpf_map_update_elem(filter_fd[i][x->bank], &zero, &f, BPF_ANY))
			fail_msg("filter: %s", strerror(errno));
	}
}

static void listed(struct xdp_run *x, enum weir_list list, const struct weir_prefix *p,
		   uint64_t for_ms, uint32_t flags)
{
	struct xdp_listed *l = &x->listed[x->n_listed];

	if (x->n_listed == XDP_LISTED)
		fail_msg("too many entries");
	x->n_listed++;
	l->list = list;
	l->prefix = *p;
	l->entry = (struct weir_entry){.expires_ns = for_ms ? x->now_ns + for_ms * 1000000 : 0,
				       .flags = flags};
}

static void list_conf(struct xdp_run *x, enum weir_list list, const struct weir_prefix_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		listed(x, list, &l->item[i], 0, 0);
}

static struct weir_conf *parse(const char *yaml)
{
	struct weir_conf_problems problems = {0};
	struct weir_conf *conf = NULL;

	if (weir_conf_parse("test.yaml", yaml, strlen(yaml), &conf, &problems)) {
		weir_conf_problems_print(&problems, "test.yaml", stderr);
		fail_msg("the configuration is refused");
	}
	weir_conf_problems_done(&problems);
	return conf;
}

/* What xdp_apply() put in force, with lists and mode. */
static void refresh(struct xdp_run *x)
{
	if (!x->compiled)
		return;
	x->compiled->policy.lists_bank = (__u8)x->bank;
	x->compiled->policy.flags &= ~(__u32)WEIR_POLICY_LISTS;
	if (x->n_listed)
		x->compiled->policy.flags |= WEIR_POLICY_LISTS;
	xdp_put_policy(x, &x->compiled->policy);
}

void xdp_apply(struct xdp_run *x, const char *yaml)
{
	struct weir_conf *conf = parse(yaml);
	struct weir_compiled *old = x->compiled, *c = NULL;
	struct weir_error e = {""};
	int r = weir_compile(conf, old ? &old->policy : NULL, old ? old->names : NULL, x->buckets,
			     x->buckets, 4000000, &c, &e);

	if (r)
		fail_msg("the limits are refused: %s", e.text);
	c->policy.sources_bank = 0;
	c->policy.nets_bank = old ? !old->policy.nets_bank : 0;
	if (conf->mode == WEIR_MODE_MONITOR)
		c->policy.flags |= WEIR_POLICY_MONITOR;
	if (c->n_nets)
		put_nets(x, c);
	for (int i = 0; i < XDP_SIDES; i++)
		for (uint32_t k = 0; k < WEIR_STATS_MAX; k++)
			xdp_map_put(x->side[i].skel->maps.limits, k, &c->names[k]);
	if (old && c->new_tables)
		move_state(x, old, c);
	if (c->policy.n_totals)
		move_totals(x, old, c);
	if (!old) {
		list_conf(x, WEIR_LIST_ALLOW, &conf->allow);
		list_conf(x, WEIR_LIST_BLOCK, &conf->block);
		list_conf(x, WEIR_LIST_GUARD, &conf->never_block);
	}
	x->compiled = c;
	if (x->n_listed)
		fill_lists(x);
	refresh(x);
	weir_compiled_free(old);
	weir_conf_free(x->conf);
	x->conf = conf;
}

void xdp_set_mode(struct xdp_run *x, bool monitor)
{
	if (!x->compiled)
		fail_msg("no policy");
	x->compiled->policy.flags &= ~(__u32)WEIR_POLICY_MONITOR;
	if (monitor)
		x->compiled->policy.flags |= WEIR_POLICY_MONITOR;
	refresh(x);
}

static void forget(struct xdp_run *x)
{
	weir_compiled_free(x->compiled);
	weir_conf_free(x->conf);
	x->compiled = NULL;
	x->conf = NULL;
}

struct xdp_run *xdp_run_sized(const char *yaml, uint32_t buckets)
{
	struct xdp_run *x = xdp_run_reset(true);

	x->buckets = buckets;
	x->forget = forget;
	xdp_apply(x, yaml);
	return x;
}

struct xdp_run *xdp_run(const char *yaml)
{
	return xdp_run_sized(yaml, XDP_BUCKETS);
}

static void add(struct xdp_run *x, enum weir_list list, const char *text, uint64_t for_ms,
		uint32_t flags)
{
	struct weir_prefix p;

	if (weir_prefix_parse(text, strlen(text), false, &p))
		fail_msg("no prefix: %s", text);
	listed(x, list, &p, for_ms, flags);
	fill_lists(x);
	if (x->n_listed == 1) /* else the policy already says that there are lists */
		refresh(x);
}

void xdp_allow(struct xdp_run *x, const char *prefix, uint64_t for_ms)
{
	add(x, WEIR_LIST_ALLOW, prefix, for_ms, 0);
}

void xdp_block(struct xdp_run *x, const char *prefix, uint64_t for_ms)
{
	add(x, WEIR_LIST_BLOCK, prefix, for_ms, 0);
}

void xdp_block_force(struct xdp_run *x, const char *prefix)
{
	add(x, WEIR_LIST_BLOCK, prefix, 0, WEIR_ENTRY_FORCE);
}

void xdp_guard(struct xdp_run *x, const char *prefix)
{
	add(x, WEIR_LIST_GUARD, prefix, 0, 0);
}

void xdp_expect_limit_(struct xdp_run *x, const char *name, uint64_t pass, uint64_t over,
		       const char *file, int line)
{
	unsigned stat = 0;

	if (!x->compiled)
		fail_msg("no policy");
	while (stat < WEIR_STATS_MAX &&
	       (!x->compiled->names[stat].live || strcmp(x->compiled->names[stat].name, name)))
		stat++;
	if (stat == WEIR_STATS_MAX)
		fail_msg("no limit is named %s", name);
	for (int i = 0; i < XDP_SIDES; i++) {
		struct weir_counters c;

		xdp_counters(&x->side[i], &c);
		if (c.limit[stat].pass.packets == pass && c.limit[stat].over.packets == over)
			continue;
		fprintf(stderr,
			"%s:%d: %s: limit %s passed %llu and refused %llu, wanted %llu and %llu\n",
			file, line, i ? "xdp.frags" : "xdp", name, c.limit[stat].pass.packets,
			c.limit[stat].over.packets, (unsigned long long)pass,
			(unsigned long long)over);
		_fail(file, line);
	}
}

void xdp_clear_lists(struct xdp_run *x)
{
	x->n_listed = 0;
	refresh(x);
}

void xdp_swap_lists(struct xdp_run *x)
{
	x->bank = !x->bank;
	fill_lists(x);
	refresh(x);
}
