/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The per-source state table: finds or claims the slot of a packet's source and judges the limits of one group on it.
 *
 * A bucket is one cache line (IPv4) or two (IPv6) of four slots. Rules, each of which the tests check:
 *  - of several slots with the source's tag, the highest index counts, for everybody;
 *  - only an idle slot is taken over, by compare-and-swap on the tag that it had before it was found idle: a slot that
 *    changes hands during the check is lost; its words are zeroed by who has won; who loses looks again, and never drops;
 *  - after a claim the bucket is scanned again, so that two CPUs that claimed two slots agree on one;
 *  - a bucket without idle slot is normal in a flood: the packet is judged on an entry that its /24 or /48 shares.
 * What remains, each a matter of nanoseconds and of one packet:
 *  - a slot is idle before its first charge, and when its last word runs out: if it is taken over between the look-up
 *    and the charge of its source, that packet is charged to the newcomer;
 *  - a packet of the newcomer that another CPU charges between the claim and the zeroing is not counted.
 */
#ifndef WEIR_BPF_SOURCE_H
#define WEIR_BPF_SOURCE_H

#include "limit.h"
#include "maps.h"
#include "match.h"
#include "total.h"
#include "weir/idle.h"
#include "weir/key.h"

#define CLAIM_TRIES 3

struct idle_words {
	struct weir_idle word[WEIR_WORDS6];
};

/* Seeds of the bucket hash. Whoever comes first makes them: the agent, or the program itself when `ip link` loaded it. */
__noinline int seed_make(struct weir_meta *m)
{
	if (!m)
		return 0;
	for (int i = 0; i < 3; i++) {
		__u64 s = ((__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32()) | 1;

		__sync_val_compare_and_swap(&m->seed[i], 0, s);
	}
	return 0;
}

static __always_inline struct weir_meta *seeds(void)
{
	__u32 zero = 0;
	struct weir_meta *m = bpf_map_lookup_elem(&meta, &zero);

	if (m && !m->seed[2]) {
		m->magic = WEIR_MAGIC;
		m->abi = WEIR_ABI;
		seed_make(m);
	}
	return m;
}

/* The words of windows: what makes them busy changes with the window. */
__noinline int idle_windows(struct weir_policy *pol, struct weir_group *g, __u64 now_ns,
			    struct idle_words *ret)
{
	__u32 i;

	if (!pol || !g || !ret)
		return 0;
	for (i = 0; i < WEIR_WORDS6; i++)
		if (!g->idle[i].mult)
			ret->word[i] =
				weir_idle_of(&pol->limit[g->owner[i] & (WEIR_LIMITS_MAX - 1)],
					     g->role[i], now_ns);
	return 0;
}

/* Per word of the group: what makes it busy now. */
static __always_inline void idle_params(struct weir_policy *pol, struct weir_group *g, __u64 now_ns,
					__u32 n, struct idle_words *ret)
{
	__u32 i;

#pragma clang loop unroll(full)
	for (i = 0; i < n; i++) {
		ret->word[i].lo = weir_ticks(now_ns, g->idle[i].mult, g->idle[i].shift) + 1;
		ret->word[i].range = g->idle[i].range;
	}
	if (g->flags & WEIR_GROUP_WINDOWS)
		idle_windows(pol, g, now_ns, ret);
}

/* The scans have no branches: the bucket's slots become a mask of four bits, and the highest bit counts. That is quick
 * where the branch predictor knows nothing (random sources), and leaves the verifier one path instead of five.
 */
#define NO_SLOT (-1)

static __always_inline __u32 is_zero32(__u32 x)
{
	return ~(x | -x) >> 31;
}

static __always_inline __u32 is_zero64(__u64 x)
{
	return ~(x | -x) >> 63;
}

/* Index of the highest bit of @mask, 1 .. 15. The barrier keeps the verifier's range of the result, whatever it knows of
 * the mask.
 */
static __always_inline __u32 highest(__u32 mask)
{
	__u64 i = 0x3333333322221100ull >> (mask * 4 & 63);

	__asm__ volatile("" : "+r"(i));
	return i & 3;
}

/* 1 if no word is busy (weir_idle_busy without its branches; the compiler would put them back but for the barrier). */
static __always_inline __u32 slot_idle(const __u32 *words, const struct weir_idle *idle, __u32 n)
{
	__u32 i, busy = 0;

#pragma clang loop unroll(full)
	for (i = 0; i < n; i++) {
		__u32 word = *(const volatile __u32 *)&words[i]; /* not before the tag */
		__u64 below = (__u64)(__u32)(word - idle[i].lo) - idle[i].range;

		__asm__ volatile("" : "+r"(below)); /* negative if it is below the range */
		busy |= (below >> 63) & (1 ^ is_zero32(word));
	}
	return busy ^ 1;
}

static __always_inline struct weir_bucket4 *bucket4(const struct weir_policy *pol, __u32 index)
{
	__u32 bank = pol->sources_bank;
	void *inner = bpf_map_lookup_elem(&sources, &bank);

	return inner ? bpf_map_lookup_elem(inner, &index) : NULL;
}

static __always_inline struct weir_bucket6 *bucket6(const struct weir_policy *pol, __u32 index)
{
	__u32 bank = pol->sources_bank;
	void *inner = bpf_map_lookup_elem(&sources6, &bank);

	return inner ? bpf_map_lookup_elem(inner, &index) : NULL;
}

static __always_inline int scan4(const struct weir_bucket4 *b, __be32 tag)
{
	__u32 i, mask = 0;

#pragma clang loop unroll(full)
	for (i = 0; i < WEIR_WAYS; i++)
		mask |= is_zero32(*(volatile __be32 *)&b->slot[i].addr ^ tag) << i;
	return mask ? (int)highest(mask) : NO_SLOT;
}

static __always_inline int scan6(const struct weir_bucket6 *b, __u64 tag)
{
	__u32 i, mask = 0;

#pragma clang loop unroll(full)
	for (i = 0; i < WEIR_WAYS; i++)
		mask |= is_zero64(*(volatile __u64 *)&b->slot[i].tag ^ tag) << i;
	return mask ? (int)highest(mask) : NO_SLOT;
}

/* Index of the slot that now belongs to @tag, or -1: the bucket is full of busy sources. */
static __always_inline int claim4(struct weir_bucket4 *b, __be32 tag, const struct weir_idle *idle,
				  struct weir_counters *count)
{
	__be32 had, old;
	int try, hit;
	__u32 i, mask, free, victim;

	for (try = 0; try < CLAIM_TRIES; try++) {
		mask = 0;
		old = 0;
#pragma clang loop unroll(full)
		for (i = 0; i < WEIR_WAYS; i++) {
			had = *(volatile __be32 *)&b->slot[i].addr;
			free = is_zero32(had) | slot_idle(b->slot[i].word, idle, WEIR_WORDS4);
			mask |= free << i;
			old ^= (old ^ had) & -free; /* of the highest free one */
		}
		if (!mask)
			return NO_SLOT;
		victim = highest(mask);
		if (__sync_val_compare_and_swap(&b->slot[victim].addr, old, tag) == old) {
			__builtin_memset(b->slot[victim].word, 0, sizeof(b->slot[victim].word));
			count->claims++;
			count->takeovers += old != 0;
			hit = scan4(b, tag);
			count->duplicate += hit != (int)victim;
			return hit;
		}
		count->claim_lost++;
		hit = scan4(b, tag); /* perhaps another CPU claimed it for the same source */
		if (hit >= 0)
			return hit;
	}
	return NO_SLOT;
}

static __always_inline int claim6(struct weir_bucket6 *b, __u64 tag, const struct weir_idle *idle,
				  struct weir_counters *count)
{
	__u64 had, old;
	int try, hit;
	__u32 i, mask, free, victim;

	for (try = 0; try < CLAIM_TRIES; try++) {
		mask = 0;
		old = 0;
#pragma clang loop unroll(full)
		for (i = 0; i < WEIR_WAYS; i++) {
			had = *(volatile __u64 *)&b->slot[i].tag;
			free = is_zero64(had) | slot_idle(b->slot[i].word, idle, WEIR_WORDS6);
			mask |= free << i;
			old ^= (old ^ had) & -(__u64)free; /* of the highest free one */
		}
		if (!mask)
			return NO_SLOT;
		victim = highest(mask);
		if (__sync_val_compare_and_swap(&b->slot[victim].tag, old, tag) == old) {
			__builtin_memset(b->slot[victim].word, 0, sizeof(b->slot[victim].word));
			count->claims++;
			count->takeovers += old != 0;
			hit = scan6(b, tag);
			count->duplicate += hit != (int)victim;
			return hit;
		}
		count->claim_lost++;
		hit = scan6(b, tag);
		if (hit >= 0)
			return hit;
	}
	return NO_SLOT;
}

/* A slot of a prefix longer than /64 has a hash for its tag; its last four words hold the address, for people. */
static __always_inline void show_address(const union weir_addr *a, __u8 prefix_len, __u32 *words)
{
	__be64 low = a->half[1] & weir_mask64(prefix_len - 64);

	words[0] = a->word[0];
	words[1] = a->word[1];
	words[2] = (__u32)low;
	words[3] = (__u32)(low >> 32);
}

/* The entry that all sources of a /24 or /48 share while their bucket is full. */
static __always_inline __u32 *spill_words(struct charge *k, __u32 index, bool v6)
{
	struct weir_spill *s = bpf_map_lookup_elem(&spill, &index);

	k->count->bucket_full++;
	k->shared = true;
	return !s ? NULL : v6 ? s->word : &s->word[1]; /* pairs are aligned as in a slot */
}

/* Whose state the group's slots hold. */
static __always_inline const union weir_addr *owner_of(const struct weir_group *group,
						       const struct weir_pkt *p)
{
	return &p->addr[group->flags / WEIR_GROUP_DESTINATION & 1];
}

/* Judges the limits of IPv4 group @g. Returns 0 to go on, or JUDGED(). */
static __always_inline __u32 judge_group4(struct charge *k, __u32 g, __u32 matched)
{
	struct weir_group *group = &k->pol->group4[g & (WEIR_GROUPS_MAX - 1)];
	__be32 addr = owner_of(group, k->pkt)->word[0], tag = weir_tag4(addr, group->prefix_len);
	struct idle_words idle = {};
	struct weir_meta *m = seeds();
	struct weir_bucket4 *b;
	__u32 *words;
	int hit;

	if (!m)
		return JUDGED(WEIR_PASS_NO_STATE, WEIR_NO_LIMIT);
	b = bucket4(k->pol, weir_bucket_of4(tag, m->seed, group->base, group->bits));
	if (!b)
		return JUDGED(WEIR_PASS_NO_STATE, WEIR_NO_LIMIT);
	hit = scan4(b, tag);
	if (hit < 0) {
		if (!(matched & group->limits))
			return 0; /* asked for a penalty alone, and there is none: no reason to claim */
		idle_params(k->pol, group, k->now_ns, WEIR_WORDS4, &idle);
		hit = claim4(b, tag, idle.word, k->count);
	}
	if (hit >= 0 && hit < WEIR_WAYS)
		words = b->slot[hit].word;
	else
		words = spill_words(k,
				    weir_spill_of4(addr, group->prefix_len, g, m->seed,
						   k->pol->sources_bank),
				    false);
	return words ? judge_words(k, group, matched, words, WEIR_WORDS4, false) : 0;
}

/* The same for IPv6. */
static __always_inline __u32 judge_group6(struct charge *k, __u32 g, __u32 matched)
{
	struct weir_group *group = &k->pol->group6[g & (WEIR_GROUPS_MAX - 1)];
	const union weir_addr *addr = owner_of(group, k->pkt);
	struct idle_words idle = {};
	struct weir_meta *m = seeds();
	struct weir_bucket6 *b;
	__u32 *words;
	__u64 tag;
	int hit;

	if (!m)
		return JUDGED(WEIR_PASS_NO_STATE, WEIR_NO_LIMIT);
	tag = weir_tag6(addr, group->prefix_len, m->seed);
	b = bucket6(k->pol, weir_bucket_of6(tag, m->seed, group->base, group->bits));
	if (!b)
		return JUDGED(WEIR_PASS_NO_STATE, WEIR_NO_LIMIT);
	hit = scan6(b, tag);
	if (hit < 0) {
		if (!(matched & group->limits))
			return 0; /* asked for a penalty alone, and there is none: no reason to claim */
		idle_params(k->pol, group, k->now_ns, WEIR_WORDS6, &idle);
		hit = claim6(b, tag, idle.word, k->count);
		if (hit >= 0 && hit < WEIR_WAYS && group->prefix_len > 64)
			show_address(addr, group->prefix_len, &b->slot[hit].word[2]);
	}
	if (hit >= 0 && hit < WEIR_WAYS)
		words = b->slot[hit].word;
	else
		words = spill_words(k,
				    weir_spill_of6(addr, group->prefix_len, g, m->seed,
						   k->pol->sources_bank),
				    true);
	return words ? judge_words(k, group, matched, words, WEIR_WORDS6, true) : 0;
}

/* Must this group look at the state of a source whose packet matched @matched? */
static __always_inline bool group_asked(const struct weir_group *group, __u32 matched)
{
	return (matched & group->limits) || group->penalties;
}

/* The first group, with the matching; and each further one. Functions of their own: the verifier walks them once, not
 * once for each way through the parser. Most policies have one group, so that a packet pays for one call: it can cost
 * as much as a look-up.
 */
__noinline int judge_first4(struct weir_policy *pol, struct weir_pkt *p, struct weir_counters *c,
			    __u64 now_ns)
{
	struct charge k = {.pol = pol, .pkt = p, .count = c, .now_ns = now_ns};

	if (!pol || !p || !c)
		return 0;
	p->matched = match_limits(pol, p);
	return pol->n_groups4 && group_asked(&pol->group4[0], p->matched)
		       ? judge_group4(&k, 0, p->matched)
		       : 0;
}

__noinline int judge_first6(struct weir_policy *pol, struct weir_pkt *p, struct weir_counters *c,
			    __u64 now_ns)
{
	struct charge k = {.pol = pol, .pkt = p, .count = c, .now_ns = now_ns};

	if (!pol || !p || !c)
		return 0;
	p->matched = match_limits(pol, p);
	return pol->n_groups6 && group_asked(&pol->group6[0], p->matched)
		       ? judge_group6(&k, 0, p->matched)
		       : 0;
}

__noinline int judge_next4(struct weir_policy *pol, struct weir_pkt *p, struct weir_counters *c,
			   __u64 now_ns, __u32 g)
{
	struct charge k = {.pol = pol, .pkt = p, .count = c, .now_ns = now_ns};

	return pol && p && c ? judge_group4(&k, g, p->matched) : 0;
}

__noinline int judge_next6(struct weir_policy *pol, struct weir_pkt *p, struct weir_counters *c,
			   __u64 now_ns, __u32 g)
{
	struct charge k = {.pol = pol, .pkt = p, .count = c, .now_ns = now_ns};

	return pol && p && c ? judge_group6(&k, g, p->matched) : 0;
}

/* All limits in their order. */
static __always_inline __u32 judge_limits(struct weir_policy *pol, struct weir_pkt *p,
					  struct weir_counters *c, __u64 now_ns)
{
	__u32 judged, g;

	if (p->family == 4) {
		judged = judge_first4(pol, p, c, now_ns);
		for (g = 1; g < WEIR_GROUPS_MAX && !judged && g < pol->n_groups4; g++)
			if (group_asked(&pol->group4[g], p->matched))
				judged = judge_next4(pol, p, c, now_ns, g);
	} else {
		judged = judge_first6(pol, p, c, now_ns);
		for (g = 1; g < WEIR_GROUPS_MAX && !judged && g < pol->n_groups6; g++)
			if (group_asked(&pol->group6[g], p->matched))
				judged = judge_next6(pol, p, c, now_ns, g);
	}
	if (!judged && pol->n_totals)
		judged = judge_totals(pol, p, c, now_ns);
	return judged ? judged : JUDGED(WEIR_PASS_DEFAULT, WEIR_NO_LIMIT);
}

#endif
