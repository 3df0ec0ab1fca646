/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allow, block and guard lists: a bitmap that nearly every packet leaves by, then one hash look-up per prefix length
 * in use. The cost does not grow with the number of entries. Allow beats block, at any prefix length; an expired entry
 * is not there.
 */
#ifndef WEIR_BPF_LISTS_H
#define WEIR_BPF_LISTS_H

#include "maps.h"
#include "parse.h"

#define LISTS_NONE 0xffff /* not a reason: no entry says anything */

static __always_inline struct weir_filter *lists_filter(__u32 bank)
{
	void *inner = bpf_map_lookup_elem(&filter, &bank);
	__u32 zero = 0;

	return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

/* May any allow or block entry cover the source? */
static __always_inline bool lists_may_match(const struct weir_filter *f, const struct weir_pkt *p)
{
	__u32 exact, prefix;

	if (p->family == 4) {
		exact = weir_filter_exact4(p->src.word[0]);
		prefix = weir_filter_prefix4(p->src.word[0]);
	} else {
		if (f->wide6)
			return true;
		exact = weir_filter_exact6(p->src.word);
		prefix = weir_filter_prefix6(p->src.word[0]);
	}
	exact &= (1 << WEIR_FILTER_BITS) - 1;
	/* The compiler knows that a swapped half-word has 16 bits; the verifier of 6.1 and 6.12 does not. */
	__asm__ volatile("" : "+r"(prefix));
	prefix &= (1 << WEIR_FILTER_BITS) - 1;
	return (f->exact_bits[exact >> 6] >> (exact & 63) |
		f->prefix_bits[prefix >> 6] >> (prefix & 63)) &
	       1;
}

/* The first @len bits of one 32-bit word in wire order; @len may be below 0 or above 32. */
static __always_inline __be32 mask_word(__be32 word, int len)
{
	if (len <= 0)
		return 0;
	if (len >= 32)
		return word;
	return word & wire32(~0u << (32 - len));
}

/* Does the list in @map (allows, blocks, guards of one family) have a live entry for @a? Returns 0, 1, or 2 for an
 * entry with WEIR_ENTRY_FORCE.
 */
static __always_inline int list4_has(void *map, const struct weir_filter *f, __u32 which, __be32 a,
				     __u64 now_ns)
{
	struct weir_prefix4 key = {};
	struct weir_entry *e;
	int i, found = 0;

	for (i = 0; i < WEIR_LIST_LENS; i++) {
		if (i >= f->n4[which])
			break;
		key.prefix_len = f->len4[which][i];
		key.word = mask_word(a, key.prefix_len);
		e = bpf_map_lookup_elem(map, &key);
		if (!e || (e->expires_ns && e->expires_ns <= now_ns))
			continue;
		if (e->flags & WEIR_ENTRY_FORCE)
			return 2;
		found = 1;
	}
	return found;
}

static __always_inline int list6_has(void *map, const struct weir_filter *f, __u32 which,
				     const union weir_addr *a, __u64 now_ns)
{
	struct weir_prefix6 key = {};
	struct weir_entry *e;
	int i, found = 0;

	for (i = 0; i < WEIR_LIST_LENS; i++) {
		int len;

		if (i >= f->n6[which])
			break;
		len = f->len6[which][i];
		key.prefix_len = len;
		key.word[0] = mask_word(a->word[0], len);
		key.word[1] = mask_word(a->word[1], len - 32);
		key.word[2] = mask_word(a->word[2], len - 64);
		key.word[3] = mask_word(a->word[3], len - 96);
		e = bpf_map_lookup_elem(map, &key);
		if (!e || (e->expires_ns && e->expires_ns <= now_ns))
			continue;
		if (e->flags & WEIR_ENTRY_FORCE)
			return 2;
		found = 1;
	}
	return found;
}

/* Looks one list up. A function of its own, which the verifier checks once. */
__noinline int list_look(struct weir_pkt *p, struct weir_filter *f, __u32 which, __u32 bank,
			 __u64 now_ns)
{
	void *map;

	if (!p || !f)
		return 0;
	which &= 3;
	if (p->family == 4) {
		map = which == WEIR_LIST_ALLOW	 ? bpf_map_lookup_elem(&allows, &bank)
		      : which == WEIR_LIST_BLOCK ? bpf_map_lookup_elem(&blocks, &bank)
						 : bpf_map_lookup_elem(&guards, &bank);
		return map ? list4_has(map, f, which, p->src.word[0], now_ns) : 0;
	}
	map = which == WEIR_LIST_ALLOW	 ? bpf_map_lookup_elem(&allows6, &bank)
	      : which == WEIR_LIST_BLOCK ? bpf_map_lookup_elem(&blocks6, &bank)
					 : bpf_map_lookup_elem(&guards6, &bank);
	return map ? list6_has(map, f, which, &p->src, now_ns) : 0;
}

/* Own, gateway, resolver and never_block addresses may be neither blocked nor penalised. Asked only when one of the
 * two is about to happen.
 */
static __always_inline bool lists_guarded(const struct weir_policy *pol, struct weir_pkt *p,
					  __u64 now_ns)
{
	struct weir_filter *f = lists_filter(pol->lists_bank);

	return f && list_look(p, f, WEIR_LIST_GUARD, pol->lists_bank, now_ns);
}

/* PASS_ALLOW, DROP_BLOCK or LISTS_NONE. */
static __always_inline __u32 lists_judge(const struct weir_policy *pol, struct weir_pkt *p,
					 struct weir_counters *c, __u64 now_ns)
{
	struct weir_filter *f = lists_filter(pol->lists_bank);
	int blocked;

	if (!f || !lists_may_match(f, p))
		return LISTS_NONE;
	if (list_look(p, f, WEIR_LIST_ALLOW, pol->lists_bank, now_ns))
		return WEIR_PASS_ALLOW;
	blocked = list_look(p, f, WEIR_LIST_BLOCK, pol->lists_bank, now_ns);
	if (!blocked)
		return LISTS_NONE;
	if (blocked == 2 || !list_look(p, f, WEIR_LIST_GUARD, pol->lists_bank, now_ns))
		return WEIR_DROP_BLOCK;
	c->guarded++;
	return LISTS_NONE;
}

#endif
