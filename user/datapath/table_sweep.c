/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes state out of the tables while the XDP program goes on: the sweep of idle slots and shared entries, which the
 * agent's timer calls, and `weir limit reset`.
 */
#include <string.h>

#include "user/datapath/table.h"
#include "user/datapath/table_int.h"

/* The word of a pair that holds its number. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HIGH_AT 1
#else
#define HIGH_AT 0
#endif

/* --- releasing ---- */

/* Sets words of a slot to zero that were idle in @snapshot and have not changed since. */
static void clear_idle_words(const struct weir_side *s, const struct weir_group *g,
			     const struct weir_idle *idle, __u32 *words, const __u32 *snapshot)
{
	__u64 pair;
	__u32 word;
	unsigned w;

	for (w = 0; w < s->words; w++) {
		bool is_pair = w + 1 < s->words && g->role[w] != WEIR_WORD_FREE &&
			       g->owner[w] == g->owner[w + 1] &&
			       (g->role[w + 1] == WEIR_WORD_HIGH || g->role[w] == WEIR_WORD_HIGH);

		if (is_pair) {
			pair = weir_pair_of(snapshot, w);
			if (pair && !weir_side_busy(&idle[w], &snapshot[w], 2))
				(void)__atomic_compare_exchange_n((__u64 *)(void *)&words[w], &pair,
								  0, false, __ATOMIC_RELAXED,
								  __ATOMIC_RELAXED);
			w++;
			continue;
		}
		word = snapshot[w];
		if (g->role[w] != WEIR_WORD_FREE && word && !weir_idle_busy(idle[w], word))
			(void)__atomic_compare_exchange_n(&words[w], &word, 0, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

static bool clear_tag(const struct weir_side *s, __u32 bucket, unsigned way, __u64 tag)
{
	__u32 tag4 = (__u32)tag;

	if (s->v6)
		return __atomic_compare_exchange_n(&s->t6[bucket].slot[way].tag, &tag, 0, false,
						   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	return __atomic_compare_exchange_n(&s->t4[bucket].slot[way].addr, &tag4, 0, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* An idle slot first loses its tag, then its words, each only if it has not changed: a newcomer that claims the slot in
 * between keeps what it charges. What remains is what a takeover by the program itself has: a packet of the old source
 * that had found the slot before charges whoever has it next. In a busy slot, words that are idle go to zero as well,
 * or they would mean a debt again once their clock has wrapped.
 */
static void sweep_bucket(const struct weir_side *s, const struct weir_group *g,
			 const struct weir_idle *idle, __u32 bucket, __u64 *occupied, __u64 *busy,
			 __u64 *released)
{
	__u32 words[WEIR_WORDS_MAX];
	unsigned way;
	__u64 tag;

	for (way = 0; way < WEIR_WAYS; way++) {
		tag = weir_side_tag(s, bucket, way);
		if (!tag)
			continue;
		(*occupied)++;
		weir_side_snapshot(s, bucket, way, words);
		if (weir_side_busy(idle, words, s->words))
			(*busy)++;
		else if (clear_tag(s, bucket, way, tag))
			(*released)++;
		clear_idle_words(s, g, idle, weir_side_words(s, bucket, way), words);
	}
}

static void sweep_side(const struct weir_tables *t, bool v6, __u64 now_ns, __u32 first, __u32 n,
		       struct weir_sweep *add)
{
	struct weir_side s = weir_side_of(t, v6);
	struct weir_idle idle[WEIR_WORDS_MAX];
	__u64 b, from, to;
	unsigned g;

	for (g = 0; g < s.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&s, g);

		if (!group)
			continue;
		from = group->base > first ? group->base : first;
		to = (__u64)group->base + (1ull << group->bits);
		if (to > (__u64)first + n)
			to = (__u64)first + n;
		if (from >= to)
			continue;
		weir_side_idle(t->policy, group, s.words, now_ns, idle);
		for (b = from; b < to; b++)
			sweep_bucket(&s, group, idle, (__u32)b,
				     v6 ? &add->occupied6 : &add->occupied4,
				     v6 ? &add->busy6 : &add->busy4, &add->released);
	}
}

void weir_table_sweep(const struct weir_tables *t, __u64 now_ns, __u32 first, __u32 n,
		      struct weir_sweep *add)
{
	sweep_side(t, false, now_ns, first, n, add);
	sweep_side(t, true, now_ns, first, n, add);
}

/* --- shared entries ---- */

#define SPILL_SIDE (1u << (WEIR_SPILL_BITS - 1)) /* entries of one family in a bank */

/* Words of a shared entry of the bank in force, placed as in a slot (weir_spill_of4, bpf/source.h). */
static __u32 *spill_words(const struct weir_tables *t, bool v6, __u32 i)
{
	__u32 bank = t->policy->sources_bank & 1u;

	return &t->spill[bank << WEIR_SPILL_BITS | (v6 ? SPILL_SIDE : 0) | i].word[v6 ? 0 : 1];
}

/* The words of @snapshot, as bits, that some group may count on; of a pair both or none. Penalties are never there. */
static __u32 spill_busy(const struct weir_side *s, const struct weir_idle (*idle)[WEIR_WORDS_MAX],
			const __u32 *snapshot)
{
	unsigned g, w, pair;
	__u32 busy = 0;

	for (g = 0; g < s->n_groups && g < WEIR_GROUPS_MAX; g++) {
		for (w = 0; w < s->words; w++) {
			if (!weir_idle_busy(idle[g][w], snapshot[w]))
				continue;
			pair = s->v6 ? w & ~1u : 1;
			busy |= s->groups[g].role[w] == WEIR_WORD_HIGH ? 3u << pair : 1u << w;
		}
	}
	return busy;
}

/* Zeroes all words but those of @busy, where nothing has changed since. Two words at once, as pairs are charged: the
 * low word of a pair that has just been written again may look the same.
 */
static void spill_clear(const struct weir_side *s, __u32 *words, const __u32 *snapshot, __u32 busy)
{
	__u32 first = snapshot[0];
	unsigned w = 0;

	if (!s->v6) {
		if (first && !(busy & 1))
			(void)__atomic_compare_exchange_n(&words[0], &first, 0, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		w = 1;
	}
	for (; w + 1 < s->words; w += 2) {
		__u64 pair = weir_pair_of(snapshot, w);
		__u64 keep = WEIR_JOIN(busy >> w & 1 ? snapshot[w] : 0,
				       busy >> (w + 1) & 1 ? snapshot[w + 1] : 0);

		if (keep != pair)
			(void)__atomic_compare_exchange_n((__u64 *)(void *)&words[w], &pair, keep,
							  false, __ATOMIC_RELAXED,
							  __ATOMIC_RELAXED);
	}
}

static void sweep_spill_side(const struct weir_tables *t, bool v6, __u64 now_ns)
{
	static const __u32 none[WEIR_WORDS_MAX];
	struct weir_idle idle[WEIR_GROUPS_MAX][WEIR_WORDS_MAX] = {};
	struct weir_side s = weir_side_of(t, v6);
	__u32 snapshot[WEIR_WORDS_MAX], i;
	unsigned g, w;

	for (g = 0; g < s.n_groups && g < WEIR_GROUPS_MAX; g++) {
		weir_side_idle(t->policy, &s.groups[g], s.words, now_ns, idle[g]);
		for (w = 0; w < WEIR_WORDS_MAX; w++)
			if (s.groups[g].role[w] == WEIR_WORD_PENALTY)
				idle[g][w] = (struct weir_idle){0, 0};
	}
	for (i = 0; i < SPILL_SIDE; i++) {
		__u32 *words = spill_words(t, v6, i);

		weir_side_read(&s, words, snapshot);
		if (memcmp(snapshot, none, sizeof(none)) != 0)
			spill_clear(&s, words, snapshot, spill_busy(&s, idle, snapshot));
	}
}

void weir_table_sweep_spill(const struct weir_tables *t, __u64 now_ns)
{
	if (!t->spill)
		return;
	sweep_spill_side(t, false, now_ns);
	sweep_spill_side(t, true, now_ns);
}

/* --- limits per: all ---- */

void weir_totals_sweep(const struct weir_tables *t, __u64 now_ns)
{
	const struct weir_policy *p = t->policy;

	for (unsigned i = 0; t->totals && i < p->n_limits && i < WEIR_LIMITS_MAX; i++) {
		const struct weir_limit *l = &p->limit[i];
		bool pair = l->flags & WEIR_LIMIT_PAIR;
		__u32 words[2];
		__u64 old;

		if (!(l->flags & WEIR_LIMIT_ALL) || l->total >= WEIR_TOTALS)
			continue;
		old = __atomic_load_n(&t->totals[l->total].pair, __ATOMIC_RELAXED);
		memcpy(words, &old, sizeof(old));
		if (old && !weir_idle_busy(weir_idle_of(l, pair ? WEIR_WORD_HIGH : WEIR_WORD_STATE,
							now_ns),
					   words[pair ? HIGH_AT : 0]))
			(void)__atomic_compare_exchange_n(&t->totals[l->total].pair, &old, 0, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

/* --- forgetting ---- */

static void forget_state(const struct weir_side *s, const struct weir_limit *l, __u32 *words)
{
	__u8 w = s->v6 ? l->word6 : l->word4;

	if (l->flags & WEIR_LIMIT_PAIR) {
		if (w + 1u < s->words)
			__atomic_store_n((__u64 *)(void *)&words[w], 0, __ATOMIC_RELAXED);
	} else if (w < s->words) {
		__atomic_store_n(&words[w], 0, __ATOMIC_RELAXED);
	}
}

static void forget(const struct weir_side *s, const struct weir_limit *l, __u32 *words)
{
	__u8 q = s->v6 ? l->penalty6 : l->penalty4;

	forget_state(s, l, words);
	if (q < s->words)
		__atomic_store_n(&words[q], 0, __ATOMIC_RELAXED);
}

static void reset_side(const struct weir_tables *t, bool v6, unsigned limit,
		       const union weir_addr *addr)
{
	struct weir_side s = weir_side_of(t, v6);
	unsigned g, way;
	__u32 b, last;
	__u64 tag;

	for (g = 0; g < s.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&s, g);

		if (!group || !(group->limits >> limit & 1))
			continue;
		b = group->base;
		last = group->base + (1u << group->bits) - 1;
		tag = 0;
		if (addr) {
			tag = weir_side_locate(t, group, v6, addr, &b);
			last = b;
		}
		for (; b <= last; b++)
			for (way = 0; way < WEIR_WAYS; way++)
				if (!addr || weir_side_tag(&s, b, way) == tag)
					forget(&s, &t->policy->limit[limit],
					       weir_side_words(&s, b, way));
	}
}

/* What sources share that had no slot: of all of them, and of whatever limit has its state at the same place. */
static void reset_spill(const struct weir_tables *t, bool v6, unsigned limit)
{
	struct weir_side s = weir_side_of(t, v6);
	__u32 i;

	for (i = 0; t->spill && i < SPILL_SIDE; i++)
		forget_state(&s, &t->policy->limit[limit], spill_words(t, v6, i));
}

static void reset(const struct weir_tables *t, unsigned limit, const union weir_addr *addr,
		  __u8 family)
{
	if (limit >= WEIR_LIMITS_MAX)
		return;
	if (t->policy->limit[limit].flags & WEIR_LIMIT_ALL) {
		__u8 entry = t->policy->limit[limit].total;

		if (!addr && t->totals && entry < WEIR_TOTALS)
			__atomic_store_n(&t->totals[entry].pair, 0, __ATOMIC_RELAXED);
		return;
	}
	if (!addr || family == 4)
		reset_side(t, false, limit, addr);
	if (!addr || family == 6)
		reset_side(t, true, limit, addr);
	if (!addr) {
		reset_spill(t, false, limit);
		reset_spill(t, true, limit);
	}
}

void weir_table_reset(const struct weir_tables *t, unsigned limit, const union weir_addr *addr,
		      __u8 family)
{
	const struct weir_policy *p = t->policy;

	reset(t, limit, addr, family);
	for (unsigned i = 0; i < p->n_limits && i < WEIR_LIMITS_MAX; i++)
		if (p->limit[i].flags & WEIR_LIMIT_FLEET && p->limit[i].counts_for == limit)
			reset(t, i, addr, family);
}
