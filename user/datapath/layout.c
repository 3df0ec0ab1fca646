/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the state of limits lies: limits that follow each other and have one prefix length share the slots of a group
 * as far as these have words, each group has its region of the table. Walking groups in order, and limits inside a
 * group in order, is then the configuration's order, limits of destinations after those of sources. Called by compile.c.
 */
#include <errno.h>

#include "user/datapath/compile_int.h"
#include "weir/idle.h"

#define WORDS_MAX 8

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PAIR_FIRST  WEIR_WORD_STATE
#define PAIR_SECOND WEIR_WORD_HIGH
#else
#define PAIR_FIRST  WEIR_WORD_HIGH
#define PAIR_SECOND WEIR_WORD_STATE
#endif

/* Words of a slot that are free for state. A pair must be 8-byte aligned: in an IPv4 slot, whose words begin after a
 * 4-byte address, at odd words; in an IPv6 slot at even ones.
 */
struct shape {
	__u8 n;
	__u8 pair_first;
};

static struct shape shape_of(bool v6, __u8 prefix_len)
{
	if (!v6)
		return (struct shape){.n = WEIR_WORDS4, .pair_first = 1};
	/* Of a prefix longer than 64 the last four words hold the address. */
	return (struct shape){.n = prefix_len > 64 ? WEIR_WORDS6 - 4 : WEIR_WORDS6,
			      .pair_first = 0};
}

/* The words of one limit; WEIR_NO_LIMIT where it has none. */
struct spot {
	__u8 word;
	__u8 penalty;
};

static bool has_penalty(const struct weir_limit *l)
{
	return l->flags & WEIR_LIMIT_BLOCK;
}

static bool has_pair(const struct weir_limit *l)
{
	return l->flags & WEIR_LIMIT_PAIR;
}

/* Takes word @w (and the next) if it is free and right for @pair. */
static bool take_word(struct shape s, bool pair, __u8 w, __u32 *used)
{
	__u32 bits = pair ? 3u << w : 1u << w;

	if (w + (pair ? 2 : 1) > s.n || *used & bits || (pair && w % 2 != s.pair_first))
		return false;
	*used |= bits;
	return true;
}

static bool take_first(struct shape s, bool pair, __u32 *used, __u8 *ret)
{
	__u8 w;

	for (w = 0; w < s.n; w++) {
		if (take_word(s, pair, w, used)) {
			*ret = w;
			return true;
		}
	}
	return false;
}

/* Places @n limits in one slot: at the words that @prefer names as far as they are free, the others first-fit (which
 * never fails where any order fits, since a single word goes beside the last one). @prefer may be NULL.
 */
static bool place_run(const struct weir_policy *p, const __u8 *ids, unsigned n, struct shape s,
		      const struct spot *prefer, struct spot *ret)
{
	__u32 used = 0;
	unsigned i;

	for (i = 0; i < n; i++) {
		const struct weir_limit *l = &p->limit[ids[i]];

		ret[i] = (struct spot){WEIR_NO_LIMIT, WEIR_NO_LIMIT};
		if (!prefer)
			continue;
		if (prefer[i].word < s.n && take_word(s, has_pair(l), prefer[i].word, &used))
			ret[i].word = prefer[i].word;
		if (has_penalty(l) && prefer[i].penalty < s.n &&
		    take_word(s, false, prefer[i].penalty, &used))
			ret[i].penalty = prefer[i].penalty;
	}
	for (i = 0; i < n; i++) {
		const struct weir_limit *l = &p->limit[ids[i]];

		if (ret[i].word == WEIR_NO_LIMIT &&
		    !take_first(s, has_pair(l), &used, &ret[i].word))
			return false;
		if (has_penalty(l) && ret[i].penalty == WEIR_NO_LIMIT &&
		    !take_first(s, false, &used, &ret[i].penalty))
			return false;
	}
	return true;
}

/* The words that @l has in @old. */
static struct spot old_spot(const struct weir_policy *old, const struct weir_limit *l, bool v6)
{
	unsigned i;

	for (i = 0; old && i < old->n_limits && i < WEIR_LIMITS_MAX; i++)
		if (old->limit[i].stat == l->stat)
			return v6 ? (struct spot){old->limit[i].word6, old->limit[i].penalty6}
				  : (struct spot){old->limit[i].word4, old->limit[i].penalty4};
	return (struct spot){WEIR_NO_LIMIT, WEIR_NO_LIMIT};
}

static void own(struct weir_group *g, __u8 w, __u8 limit, __u8 role)
{
	g->owner[w] = limit;
	g->role[w] = role;
}

static bool is_destination(const struct weir_limit *l)
{
	return l->flags & WEIR_LIMIT_DESTINATION;
}

/* Writes a group of @n limits whose words are known to fit. */
static void finish_group(const struct weir_policy *old, bool v6, const __u8 *ids, unsigned n,
			 __u8 prefix_len, struct weir_policy *p, struct weir_group *g)
{
	struct spot prefer[WORDS_MAX] = {}, spot[WORDS_MAX];
	struct shape s = shape_of(v6, prefix_len);
	unsigned i;

	for (i = 0; i < n; i++)
		prefer[i] = old_spot(old, &p->limit[ids[i]], v6);
	if (!place_run(p, ids, n, s, prefer, spot))
		(void)place_run(p, ids, n, s, NULL, spot); /* fits: tried when the run was formed */
	g->prefix_len = prefix_len;
	g->n = n;
	g->flags = is_destination(&p->limit[ids[0]]) ? WEIR_GROUP_DESTINATION : 0;
	for (i = 0; i < WORDS_MAX; i++) {
		g->owner[i] = WEIR_NO_LIMIT;
		g->limit[i] = WEIR_NO_LIMIT;
	}
	for (i = 0; i < n; i++) {
		struct weir_limit *l = &p->limit[ids[i]];

		g->limit[i] = ids[i];
		g->limits |= 1u << ids[i];
		if (l->flags & WEIR_LIMIT_BLOCK)
			g->penalties |= 1u << ids[i];
		*(v6 ? &l->word6 : &l->word4) = spot[i].word;
		*(v6 ? &l->penalty6 : &l->penalty4) = spot[i].penalty;
		own(g, spot[i].word, ids[i], has_pair(l) ? PAIR_FIRST : WEIR_WORD_STATE);
		if (has_pair(l))
			own(g, spot[i].word + 1, ids[i], PAIR_SECOND);
		if (spot[i].penalty != WEIR_NO_LIMIT)
			own(g, spot[i].penalty, ids[i], WEIR_WORD_PENALTY);
	}
	weir_group_prepare(p->limit, g);
}

/* Powers of two that sum to the table: of n groups, with 2^k the power of two at or above n, each gets a 2^k-th, and
 * what is then left doubles the first ones.
 */
static int size_regions(bool v6, __u32 buckets, unsigned n, struct weir_group *groups,
			struct weir_error *e)
{
	__u8 bits = 31 - __builtin_clz(buckets ? buckets : 1), k = 0;
	__u32 base = 0;
	unsigned i;

	while (1u << k < n)
		k++;
	if (n && (!buckets || k > bits))
		return weir_error_set(
			e, -EINVAL,
			"memory: packet_sources is too small for the %u groups of limits with "
			"IPv%u state (at least %u bytes)",
			n, v6 ? 6 : 4,
			(unsigned)((v6 ? sizeof(struct weir_bucket6) : sizeof(struct weir_bucket4))
				   << k));
	for (i = 0; i < n; i++) {
		groups[i].bits = bits - k + (i < (1u << k) - n);
		groups[i].base = base;
		base += 1u << groups[i].bits;
	}
	return 0;
}

/* Limits as they are judged: those of sources in the order of the configuration, each with what counts for it behind it;
 * then those of destinations. Those per: all come after, and have no slot.
 */
static unsigned judged_order(const struct weir_policy *p, __u8 *ret)
{
	unsigned n = 0, i, k;

	for (i = 0; i < p->n_limits; i++) {
		if (p->limit[i].flags &
		    (WEIR_LIMIT_FLEET | WEIR_LIMIT_DESTINATION | WEIR_LIMIT_ALL))
			continue;
		ret[n++] = (__u8)i;
		for (k = i + 1; k < p->n_limits; k++)
			if (p->limit[k].flags & WEIR_LIMIT_FLEET && p->limit[k].counts_for == i)
				ret[n++] = (__u8)k;
	}
	for (i = 0; i < p->n_limits; i++)
		if (is_destination(&p->limit[i]))
			ret[n++] = (__u8)i;
	return n;
}

static int place_family(const struct weir_conf *conf, const struct weir_policy *old, bool v6,
			__u32 buckets, struct weir_policy *p, struct weir_error *e)
{
	struct weir_group *groups = v6 ? p->group6 : p->group4;
	__u32 family = v6 ? p->family6 : p->family4;
	__u8 ids[WORDS_MAX], run_len = 0, len;
	struct spot spot[WORDS_MAX];
	unsigned n = 0, groups_n = 0, i, k, all;
	__u8 order[WEIR_LIMITS_MAX];

	all = judged_order(p, order);
	for (k = 0; k < all; k++) {
		i = order[k];
		if (!(family >> i & 1))
			continue;
		len = v6 ? conf->limits[i].ipv6_prefix : conf->limits[i].ipv4_prefix;
		ids[n] = i;
		if (n && (len != run_len ||
			  is_destination(&p->limit[ids[0]]) != is_destination(&p->limit[i]) ||
			  !place_run(p, ids, n + 1, shape_of(v6, len), NULL, spot))) {
			finish_group(old, v6, ids, n, run_len, p, &groups[groups_n++]);
			ids[0] = i;
			n = 0;
		}
		n++;
		run_len = len;
		if (n == 1 && !place_run(p, ids, 1, shape_of(v6, len), NULL, spot)) {
			(void)weir_error_set(e, -EINVAL,
					     "a sliding window with block_for has no room beside a "
					     "source prefix longer than /64 (use ipv6_prefix: 64 "
					     "or shorter, or another algorithm)");
			return weir_compile_blame(conf, &conf->limits[i], -EINVAL, e);
		}
	}
	if (n)
		finish_group(old, v6, ids, n, run_len, p, &groups[groups_n++]);
	for (i = 0; i < groups_n; i++)
		if (groups[i].penalties)
			*(v6 ? &p->penalties6 : &p->penalties4) |= 1u << i;
	*(v6 ? &p->n_groups6 : &p->n_groups4) = groups_n;
	return size_regions(v6, buckets, groups_n, groups, e);
}

int weir_layout_place(const struct weir_conf *conf, const struct weir_policy *old, __u32 buckets4,
		      __u32 buckets6, struct weir_policy *p, struct weir_error *e)
{
	int r = place_family(conf, old, false, buckets4, p, e);

	return r < 0 ? r : place_family(conf, old, true, buckets6, p, e);
}

/* Whose state is in word @w of a group: a counter index, which outlives positions. */
static __u8 word_stat(const struct weir_policy *p, const struct weir_group *g, unsigned w)
{
	return g->role[w] == WEIR_WORD_FREE || g->owner[w] >= WEIR_LIMITS_MAX
		       ? WEIR_NO_LIMIT
		       : p->limit[g->owner[w]].stat;
}

static bool same_groups(const struct weir_policy *a, const struct weir_policy *b,
			const struct weir_group *ga, const struct weir_group *gb, unsigned n)
{
	unsigned i, w;

	for (i = 0; i < n && i < WEIR_GROUPS_MAX; i++) {
		if (ga[i].base != gb[i].base || ga[i].bits != gb[i].bits ||
		    ga[i].prefix_len != gb[i].prefix_len)
			return false;
		for (w = 0; w < WORDS_MAX; w++)
			if (ga[i].role[w] != gb[i].role[w] ||
			    word_stat(a, &ga[i], w) != word_stat(b, &gb[i], w))
				return false;
	}
	return true;
}

bool weir_layout_same(const struct weir_policy *a, const struct weir_policy *b)
{
	return a->n_groups4 == b->n_groups4 && a->n_groups6 == b->n_groups6 &&
	       same_groups(a, b, a->group4, b->group4, b->n_groups4) &&
	       same_groups(a, b, a->group6, b->group6, b->n_groups6);
}
