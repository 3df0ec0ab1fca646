/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State tables for tests: made for limits from limits.h, charged as the program charges them (its rules, written down
 * once more), changed as the datapath changes them, and what weir_table_lookup() says of them.
 */
#ifndef WEIR_TESTS_TABLE_CASE_H
#define WEIR_TESTS_TABLE_CASE_H

#include <arpa/inet.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "user/datapath/table.h"
#include "weir/algo.h"
#include "weir/idle.h"
#include "weir/key.h"

#define NOW (75 * MIN + 123456789)

static struct weir_meta meta = {WEIR_MAGIC,
				WEIR_ABI,
				{0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull,
				 0x94d049bb133111ebull}};

#define SPILL_BYTES (sizeof(struct weir_spill) * (2u << WEIR_SPILL_BITS))

struct world {
	struct limits *l;
	struct weir_compiled *c;
	struct weir_tables t;
};

static inline void *page_zero(size_t n)
{
	void *p = aligned_alloc(4096, n);

	assert_non_null(p);
	memset(p, 0, n);
	return p;
}

static inline struct weir_tables tables_for(const struct weir_compiled *c)
{
	return (struct weir_tables){.t4 = page_zero(BUCKETS4 * sizeof(struct weir_bucket4)),
				    .t6 = page_zero(BUCKETS6 * sizeof(struct weir_bucket6)),
				    .buckets4 = BUCKETS4,
				    .buckets6 = BUCKETS6,
				    .spill = page_zero(SPILL_BYTES),
				    .policy = &c->policy,
				    .meta = &meta};
}

static inline void world_start(struct world *w)
{
	w->c = limits_compile(w->l, NULL);
	w->t = tables_for(w->c);
}

static inline void world_done(struct world *w)
{
	weir_compiled_free(w->c);
	free(w->l);
	free(w->t.t4);
	free(w->t.t6);
	free(w->t.spill);
}

/* Compiles the changed limits, copies into new tables as the datapath does, and goes on with those. */
static inline __u64 world_change(struct world *w, __u64 now_ns)
{
	struct weir_compiled *c = limits_compile(w->l, w->c);
	struct weir_tables t;
	__u64 lost;

	assert_true(c->new_tables);
	t = tables_for(c);
	lost = weir_table_copy(&w->t, &t, now_ns);
	free(w->t.t4);
	free(w->t.t6);
	free(w->t.spill);
	weir_compiled_free(w->c);
	w->c = c;
	w->t = t;
	return lost;
}

static inline union weir_addr addr_of(const char *text, __u8 *ret_family)
{
	union weir_addr a = {};

	*ret_family = strchr(text, ':') ? 6 : 4;
	assert_int_equal(inet_pton(*ret_family == 6 ? AF_INET6 : AF_INET, text, &a), 1);
	return a;
}

/* Words of @text's slot for one limit, claimed if need be: the program's rules, written down once more. */
static inline __u32 *slot(struct world *w, const char *text, unsigned limit)
{
	const struct weir_policy *p = &w->c->policy;
	__u64 hash, tag = 0, lo = 0;
	__u8 family, len;
	union weir_addr a = addr_of(text, &family);
	unsigned g = 0;

	while (!((family == 4 ? p->group4 : p->group6)[g].limits >> limit & 1))
		assert_true(++g < WEIR_GROUPS_MAX);
	if (family == 4) {
		const struct weir_group *group = &p->group4[g];
		__u32 mask = group->prefix_len ? htonl(~0u << (32 - group->prefix_len)) : 0;
		__u32 tag4 = (a.word[0] & mask) ? a.word[0] & mask : ~0u;
		struct weir_bucket4 *b;

		hash = (__u64)tag4 * meta.seed[0] + meta.seed[1];
		hash = (hash ^ hash >> 32) * meta.seed[2];
		b = &w->t.t4[group->base + (group->bits ? hash >> (64 - group->bits) : 0)];
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (b->slot[i].addr == tag4)
				return b->slot[i].word;
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (!b->slot[i].addr) {
				b->slot[i].addr = tag4;
				return b->slot[i].word;
			}
		return NULL;
	}
	len = p->group6[g].prefix_len;
	if (len > 64) {
		union weir_addr m = a;

		weir_addr_mask(&m, 6, len);
		lo = m.half[1];
		tag = weir_hash128(m.half[0], lo, meta.seed);
	} else if (len == 64 && !strncmp(text, "64:ff9b::", 9)) {
		memcpy(&tag, &a.ip[0], 4);
		memcpy((char *)&tag + 4, &a.ip[12], 4);
	} else {
		weir_addr_mask(&a, 6, len);
		tag = a.half[0];
	}
	tag = tag ? tag : ~0ull;
	{
		const struct weir_group *group = &p->group6[g];
		struct weir_bucket6 *b;

		hash = (tag & 0xffffffff) * meta.seed[0] + (tag >> 32) * meta.seed[2] +
		       meta.seed[1];
		hash = (hash ^ hash >> 32) * meta.seed[2];
		b = &w->t.t6[group->base + (group->bits ? hash >> (64 - group->bits) : 0)];
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (b->slot[i].tag == tag)
				return b->slot[i].word;
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (!b->slot[i].tag) {
				b->slot[i].tag = tag;
				if (len > 64) {
					memcpy(&b->slot[i].word[2], a.ip, 8);
					memcpy(&b->slot[i].word[4], &lo, 8);
				}
				return b->slot[i].word;
			}
	}
	return NULL;
}

/* One packet of @cost tokens, as bpf/limit.h charges it. @shared: the words are those of a shared entry. */
static inline bool charge_words(const struct weir_limit *l, bool v6, bool shared, __u32 *words,
				__u64 cost, __u64 now_ns)
{
	__u8 at = v6 ? l->word6 : l->word4, q = v6 ? l->penalty6 : l->penalty4;
	__u64 index = l->window_ns ? now_ns / l->window_ns : 0;
	__u64 *pair = (__u64 *)(void *)&words[at];
	int ok;

	assert_non_null(words);
	if (!shared && l->block_ms && weir_penalty_active(words[q], now_ns, l->block_ms))
		return false;
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		ok = weir_bucket_take(words[at], weir_ticks(now_ns, l->mult, l->shift),
				      (__u32)(cost << l->frac_bits), l->burst, &words[at]);
	else if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		ok = weir_sliding_take(*pair, weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
				       (now_ns - index * l->window_ns) >> l->tick_shift,
				       l->window_ns >> l->tick_shift, (__u32)cost, (__u32)l->limit,
				       pair);
	else if (l->flags & WEIR_LIMIT_PAIR)
		ok = weir_fixed_take64(*pair, weir_window_number(index, WEIR_FIXED64_NUMBER_BITS),
				       cost, l->limit, pair);
	else
		ok = weir_fixed_take32(words[at], weir_window_number(index, 32 - l->count_bits),
				       l->count_bits, (__u32)cost, (__u32)l->limit, &words[at]);
	if (!shared && !ok && l->block_ms) {
		words[q] = weir_penalty_word(now_ns, l->block_ms);
		if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
			words[at] = 0;
	}
	return ok;
}

static inline bool charge(struct world *w, const char *text, unsigned limit, __u64 cost,
			  __u64 now_ns)
{
	return charge_words(&w->c->policy.limit[limit], strchr(text, ':'), false,
			    slot(w, text, limit), cost, now_ns);
}

/* Words of the entry that @text shares with its net for one limit: the program's rules once more. */
static inline __u32 *spilled(struct world *w, const char *text, unsigned limit)
{
	const struct weir_policy *p = &w->c->policy;
	__u8 family;
	union weir_addr a = addr_of(text, &family);
	unsigned g = 0;

	while (!((family == 4 ? p->group4 : p->group6)[g].limits >> limit & 1))
		assert_true(++g < WEIR_GROUPS_MAX);
	if (family == 4)
		return &w->t.spill[weir_spill_of4(a.word[0], p->group4[g].prefix_len, g, meta.seed,
						  p->sources_bank)]
				.word[1];
	return w->t
		.spill[weir_spill_of6(&a, p->group6[g].prefix_len, g, meta.seed, p->sources_bank)]
		.word;
}

static inline bool spill_charge(struct world *w, const char *text, unsigned limit, __u64 cost,
				__u64 now_ns)
{
	return charge_words(&w->c->policy.limit[limit], strchr(text, ':'), true,
			    spilled(w, text, limit), cost, now_ns);
}

static inline bool all_zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n / 4; i++)
		if (((const __u32 *)p)[i])
			return false;
	return true;
}

/* State of one limit for @text; used 0 and blocked 0 if there is none. */
static inline struct weir_limit_state state_of(struct world *w, const char *text, unsigned limit,
					       __u64 now_ns)
{
	struct weir_limit_state st[WEIR_LIMITS_MAX], none = {.limit = limit};
	__u8 family;
	union weir_addr a = addr_of(text, &family);
	int n = weir_table_lookup(&w->t, &a, family, now_ns, st);

	for (int i = 0; i < n; i++)
		if (st[i].limit == limit)
			return st[i];
	return none;
}

static const char *const sources[] = {"198.51.100.7", "0.0.0.0", "255.255.255.254",
				      "2001:db8::1",  "::",	 "64:ff9b::192.0.2.1"};

/* Four of each kind, with several prefix lengths. */
static inline struct world every_kind(void)
{
	struct world w = {.l = limits_new()};

	limits_bucket(w.l, "bucket", 100, 200);
	limits_window(w.l, "fixed", WEIR_ALGO_FIXED_WINDOW, 50, SEC)->block_for_ns = 10 * SEC;
	limits_window(w.l, "pair", WEIR_ALGO_FIXED_WINDOW, 2000000, 10 * SEC);
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, 2 * SEC);
	limits_bucket(w.l, "blocking", 10, 20)->block_for_ns = 10 * SEC;
	limits_bucket(w.l, "wide", 1000, 2000);
	w.l->item[5].ipv4_prefix = 24;
	w.l->item[5].ipv6_prefix = 48;
	limits_bucket(w.l, "host", 1000, 2000)->ipv6_prefix = 128;
	limits_bucket(w.l, "all", 1000, 2000)->ipv4_prefix = 0;
	w.l->item[7].ipv6_prefix = 0;
	limits_bucket(w.l, "to", 1000, 2000)->per = WEIR_PER_DESTINATION;
	limits_window(w.l, "to-pair", WEIR_ALGO_SLIDING_WINDOW, 100, 2 * SEC)->per =
		WEIR_PER_DESTINATION;
	world_start(&w);
	return w;
}
#define KINDS 10

#endif
