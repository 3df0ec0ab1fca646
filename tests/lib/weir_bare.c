/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See weir_bare.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tests/lib/inner.h"
#include "tests/lib/weir_bare.h"
#include "user/datapath/compile.h"
#include "user/datapath/datapath.h"
#include "user/datapath/filter.h"
#include "weir.skel.h"

#define LISTED 1000

/* Puts a new inner map into bank 0 of @outer; *ret_fd is the caller's to close. */
static int put_inner(struct weir *w, struct bpf_map *outer, struct inner_type t, __u32 room,
		     int *ret_fd)
{
	int fd = inner_new(w->obj, t, room);
	__u32 bank = 0;

	if (fd < 0)
		return fd;
	if (bpf_map_update_elem(bpf_map__fd(outer), &bank, &fd, 0)) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

/* The same pseudo-random numbers in every run. */
static __u32 draw(__u32 *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state ^ *state >> 13;
}

/* 1000 entries: addresses and prefixes outside of what the generator sends, spread like real lists. */
static void make_list(struct weir_list_item *item, __u32 state)
{
	for (int i = 0; i < LISTED; i++) {
		struct weir_prefix *p = &item[i].prefix;

		*p = (struct weir_prefix){.family = 4, .len = i % 4 ? 32 : 24};
		p->addr.word[0] = htonl(0xc0000000u | draw(&state) >> 4);
		weir_addr_mask(&p->addr, 4, p->len);
	}
}

static int fill_list(struct weir *w, struct bpf_map *outer, const struct weir_list_item *item)
{
	struct weir_entry entry = {};
	int fd, r;

	r = put_inner(w, outer, INNER_HASH(weir_prefix4, weir_entry), WEIR_LIST_ROOM, &fd);
	if (r < 0)
		return r;
	for (int i = 0; i < LISTED && !r; i++) {
		struct weir_prefix4 key = {.prefix_len = item[i].prefix.len,
					   .word = item[i].prefix.addr.word[0]};

		if (bpf_map_update_elem(fd, &key, &entry, BPF_ANY))
			r = -errno;
	}
	(void)close(fd);
	return r;
}

static int fill_lists(struct weir *w)
{
	static struct weir_list_item allow[LISTED], block[LISTED];
	static struct weir_filter filter;
	__u32 zero = 0;
	int fd, r;

	make_list(allow, 1);
	make_list(block, 2);
	r = fill_list(w, w->maps.allows, allow);
	if (!r)
		r = fill_list(w, w->maps.blocks, block);
	for (int i = 0; !r && i < LISTED; i++) {
		r = weir_filter_add(&filter, WEIR_LIST_ALLOW, &allow[i].prefix);
		if (!r)
			r = weir_filter_add(&filter, WEIR_LIST_BLOCK, &block[i].prefix);
	}
	if (!r)
		r = put_inner(w, w->maps.filter, INNER_ARRAY(weir_filter), 1, &fd);
	if (r < 0)
		return r;
	if (bpf_map_update_elem(fd, &zero, &filter, 0))
		r = -errno;
	(void)close(fd);
	return r;
}

static int fill_policy(struct weir *w, const struct weir_bare_opts *c, __u32 buckets4,
		       __u32 buckets6)
{
	struct weir_conf_problems problems = {};
	struct weir_compiled *compiled = NULL;
	struct weir_conf *conf = NULL;
	struct weir_error e = {};
	__u32 zero = 0;
	int fd, r;

	r = weir_conf_parse("bare", c->yaml, strlen(c->yaml), &conf, &problems);
	if (r < 0) {
		weir_conf_problems_print(&problems, "bare", stderr);
		goto out;
	}
	r = weir_compile(conf, NULL, NULL, buckets4, buckets6, 4000000, &compiled, &e);
	if (r < 0) {
		fprintf(stderr, "weir: %s\n", e.text);
		goto out;
	}
	r = put_inner(w, w->maps.nets, INNER_NETS, 4096, &fd);
	if (r < 0)
		goto out;
	for (size_t i = 0; i < compiled->n_nets && !r; i++)
		if (bpf_map_update_elem(fd, &compiled->nets[i].key, &compiled->nets[i].mask, 0))
			r = -errno;
	(void)close(fd);
	if (r < 0)
		goto out;
	compiled->policy.flags |= WEIR_POLICY_LISTS;
	compiled->policy.events_per_second = 20;
	r = put_inner(w, w->maps.policy, INNER_ARRAY(weir_policy), 1, &fd);
	if (r < 0)
		goto out;
	if (bpf_map_update_elem(fd, &zero, &compiled->policy, 0))
		r = -errno;
	(void)close(fd);
out:
	weir_compiled_free(compiled);
	weir_conf_free(conf);
	weir_conf_problems_done(&problems);
	return r;
}

/* All inner maps of a table have one size: the instance's and the template's. */
static int set_table(struct weir *w, struct bpf_map *outer, struct bpf_map *inner,
		     struct inner_type t, __u32 buckets)
{
	int fd = inner_new(w->obj, t, buckets);

	if (fd < 0)
		return fd;
	if (bpf_map__set_max_entries(inner, buckets) || bpf_map__set_inner_map_fd(outer, fd)) {
		(void)close(fd);
		return -EINVAL;
	}
	return 0; /* the descriptor is the map's now */
}

int weir_bare_open(const struct weir_bare_opts *c, struct weir **ret, int *ret_prog_fd)
{
	__u32 buckets4 = c->table_bytes / sizeof(struct weir_bucket4);
	__u32 buckets6 = c->table_bytes / sizeof(struct weir_bucket6);
	struct weir *w = weir__open();
	int r;

	if (!w)
		return -errno;
	w->rodata->weir_pass_action = XDP_DROP;
	r = set_table(w, w->maps.sources, w->maps.sources_0, INNER_TABLE(weir_bucket4), buckets4);
	if (!r)
		r = set_table(w, w->maps.sources6, w->maps.sources6_0, INNER_TABLE(weir_bucket6),
			      buckets6);
	if (!r)
		r = weir__load(w);
	if (!r)
		r = fill_lists(w);
	if (!r)
		r = fill_policy(w, c, buckets4, buckets6);
	if (r) {
		fprintf(stderr, "weir: cannot load weir: %s\n", strerror(-r));
		weir__destroy(w);
		return r;
	}
	*ret_prog_fd = bpf_program__fd(w->progs.weir_xdp_frags);
	*ret = w;
	return 0;
}

void weir_bare_close(struct weir *w)
{
	weir__destroy(w);
}

int weir_bare_counters(struct weir *w, struct weir_counters *ret)
{
	int cpus = libbpf_num_possible_cpus();
	struct weir_counters *c = calloc((size_t)cpus, sizeof(*c));
	__u64 *sum = (__u64 *)ret;
	__u32 zero = 0;
	int r = 0;

	if (!c)
		return -ENOMEM;
	memset(ret, 0, sizeof(*ret));
	if (bpf_map_lookup_elem(bpf_map__fd(w->maps.counters), &zero, c))
		r = -errno;
	for (int i = 0; i < cpus && !r; i++)
		for (size_t k = 0; k < sizeof(*c) / sizeof(__u64); k++)
			sum[k] += ((const __u64 *)&c[i])[k];
	free(c);
	return r;
}

uint64_t weir_bare_packets(struct weir *w)
{
	struct weir_counters c;
	uint64_t sum = 0;

	if (weir_bare_counters(w, &c) < 0)
		return 0;
	for (int k = 0; k < WEIR_REASON_MAX; k++)
		sum += ((const struct weir_count *)&c.reason)[k].packets;
	return sum;
}
