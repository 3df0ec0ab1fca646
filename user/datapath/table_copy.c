/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes the state of limits that live on into tables with another layout or other units. Called by datapath.c between
 * filling a new policy and putting it in force; the new tables are nobody else's then.
 */
#include <string.h>

#include "user/base/cleanup.h"
#include "user/datapath/table.h"
#include "user/datapath/table_int.h"

struct copy {
	const struct weir_tables *from, *to;
	struct weir_side src, dst;
	__u64 now_ns;
	__u64 no_room;
	__u8 limit_of[WEIR_STATS_MAX];	/* by counter index: the limit in the new policy */
	__u8 group_of[WEIR_LIMITS_MAX]; /* by new limit: its group */
};

/* State of one limit, ready to be written. */
struct state {
	__u32 word;
	__u32 penalty;
	__u64 pair;
};

/* --- units ---- */

static __u32 bucket_word(const struct weir_limit *was, const struct weir_limit *is, __u32 word,
			 __u64 now_ns)
{
	__u64 debt = weir_bucket_debt(word, weir_ticks(now_ns, was->mult, was->shift), was->burst);
	__u64 ticks;

	if (!debt)
		return 0;
	/* Tokens stay tokens: only their fraction changes. */
	if (is->frac_bits >= was->frac_bits)
		ticks = debt << (is->frac_bits - was->frac_bits);
	else
		ticks = (debt + (1ull << (was->frac_bits - is->frac_bits)) - 1) >>
			(was->frac_bits - is->frac_bits);
	ticks = ticks < is->burst ? ticks : is->burst;
	return weir_bucket_word(weir_ticks(now_ns, is->mult, is->shift), (__u32)ticks);
}

/* Window that a stored number means: @index or the one after it. False: another one, whose count is over. */
static bool window_index(__u32 stored, __u64 index, __u8 number_bits, __u64 *ret)
{
	__u32 number = weir_window_number(index, number_bits);

	if (stored == number)
		*ret = index;
	else if (stored == weir_window_next(number, number_bits))
		*ret = index + 1;
	else
		return false;
	return true;
}

static void fixed_words(const struct weir_limit *was, const struct weir_limit *is,
			const __u32 *words, __u8 w, __u64 now_ns, struct state *st)
{
	__u64 index = now_ns / was->window_ns, count, pair;

	if (was->flags & WEIR_LIMIT_PAIR) {
		pair = weir_pair_of(words, w);
		count = pair & ((1ull << WEIR_FIXED64_COUNT_BITS) - 1);
		if (!window_index((__u32)(pair >> WEIR_FIXED64_COUNT_BITS), index,
				  WEIR_FIXED64_NUMBER_BITS, &index))
			return;
	} else {
		count = words[w] & ((1u << (was->count_bits & 31)) - 1);
		if (!window_index(words[w] >> (was->count_bits & 31), index, 32 - was->count_bits,
				  &index))
			return;
	}
	if (!count)
		return;
	count = count < is->limit ? count : is->limit;
	if (is->flags & WEIR_LIMIT_PAIR)
		st->pair = (__u64)weir_window_number(index, WEIR_FIXED64_NUMBER_BITS)
				   << WEIR_FIXED64_COUNT_BITS |
			   count;
	else
		st->word = weir_window_number(index, 32 - is->count_bits) << (is->count_bits & 31) |
			   (__u32)count;
}

static __u64 sliding_pair(const struct weir_limit *was, const struct weir_limit *is, __u64 pair,
			  __u64 now_ns)
{
	const __u64 mask = (1u << WEIR_SLIDING_COUNT_BITS) - 1;
	__u64 index = now_ns / was->window_ns, current = pair >> WEIR_SLIDING_COUNT_BITS & mask;
	__u32 number = weir_window_number(index, WEIR_SLIDING_NUMBER_BITS);
	__u32 stored = (__u32)(pair >> (2 * WEIR_SLIDING_COUNT_BITS));
	__u64 previous = pair & mask;

	if (!pair || (!window_index(stored, index, WEIR_SLIDING_NUMBER_BITS, &index) &&
		      number != weir_window_next(stored, WEIR_SLIDING_NUMBER_BITS)))
		return 0;
	current = current < is->limit ? current : is->limit;
	previous = previous < is->limit ? previous : is->limit;
	return (__u64)stored << (2 * WEIR_SLIDING_COUNT_BITS) | current << WEIR_SLIDING_COUNT_BITS |
	       previous;
}

/* State of @was in @words, in the units of @is. False: nothing that still matters. */
static bool translate(const struct copy *c, const struct weir_limit *was,
		      const struct weir_limit *is, const __u32 *words, struct state *ret)
{
	__u8 w = c->src.v6 ? was->word6 : was->word4, q = c->src.v6 ? was->penalty6 : was->penalty4;
	bool pair = was->flags & WEIR_LIMIT_PAIR;
	struct state st = {0, 0, 0};
	__u32 rest;

	if (was->algorithm != is->algorithm || was->window_ns != is->window_ns ||
	    w + (pair ? 2u : 1u) > c->src.words)
		return false;
	if (was->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		st.word = bucket_word(was, is, words[w], c->now_ns);
	else if (!was->window_ns)
		return false;
	else if (was->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		st.pair = sliding_pair(was, is, weir_pair_of(words, w), c->now_ns);
	else
		fixed_words(was, is, words, w, c->now_ns, &st);
	if (q < c->src.words && is->block_ms) {
		rest = weir_penalty_left(words[q], c->now_ns, was->block_ms);
		rest = rest < is->block_ms ? rest : is->block_ms;
		st.penalty = rest ? weir_penalty_word(c->now_ns, rest) : 0;
	}
	*ret = st;
	return st.word || st.pair || st.penalty;
}

/* --- places ---- */

static void set_tag(const struct weir_side *s, __u32 bucket, unsigned way, __u64 tag)
{
	if (s->v6)
		s->t6[bucket].slot[way].tag = tag;
	else
		s->t4[bucket].slot[way].addr = (__u32)tag;
}

/* Words of the source's slot in new group @g, which is claimed if need be; NULL if its bucket is full. */
static __u32 *find_or_claim(const struct copy *c, const struct weir_group *g, __u64 tag,
			    const __u32 *words)
{
	const __u64 *seed = c->to->meta->seed;
	union weir_addr a = {};
	__u32 bucket, *to;
	int way;

	if (c->dst.v6 && g->prefix_len > 64) {
		memcpy(a.word, &words[WEIR_WORDS6 - 4], sizeof(a.word));
		tag = weir_side_locate(c->to, g, true, &a, &bucket);
	} else if (c->dst.v6) {
		bucket = weir_bucket_of6(tag, seed, g->base, g->bits);
	} else {
		bucket = weir_bucket_of4((__u32)tag, seed, g->base, g->bits);
	}
	way = weir_side_scan(&c->dst, bucket, tag);
	if (way >= 0)
		return weir_side_words(&c->dst, bucket, way);
	way = weir_side_scan(&c->dst, bucket, 0);
	if (way < 0)
		return NULL;
	set_tag(&c->dst, bucket, way, tag);
	to = weir_side_words(&c->dst, bucket, way);
	if (c->dst.v6 && g->prefix_len > 64)
		memcpy(&to[WEIR_WORDS6 - 4], a.word, sizeof(a.word));
	return to;
}

static void write_state(const struct weir_side *s, const struct weir_limit *l,
			const struct state *st, __u32 *words)
{
	__u8 w = s->v6 ? l->word6 : l->word4, q = s->v6 ? l->penalty6 : l->penalty4;

	if (l->flags & WEIR_LIMIT_PAIR) {
		if (w + 1u < s->words)
			memcpy(&words[w], &st->pair, sizeof(st->pair));
	} else if (w < s->words) {
		words[w] = st->word;
	}
	if (q < s->words)
		words[q] = st->penalty;
}

static void copy_slot(struct copy *c, const struct weir_group *from, __u64 tag, const __u32 *words)
{
	bool lost = false;
	unsigned i;

	for (i = 0; i < from->n && i < WEIR_WORDS_MAX; i++) {
		const struct weir_limit *was, *is;
		const struct weir_group *to;
		struct state st;
		__u32 *dst;
		__u8 id;

		if (from->limit[i] >= WEIR_LIMITS_MAX)
			continue;
		was = &c->from->policy->limit[from->limit[i]];
		id = was->stat < WEIR_STATS_MAX ? c->limit_of[was->stat] : WEIR_NO_LIMIT;
		if (id == WEIR_NO_LIMIT)
			continue;
		is = &c->to->policy->limit[id];
		to = c->group_of[id] == WEIR_NO_LIMIT ? NULL
						      : weir_side_group(&c->dst, c->group_of[id]);
		if (!to || to->prefix_len != from->prefix_len || !translate(c, was, is, words, &st))
			continue;
		dst = find_or_claim(c, to, tag, words);
		if (dst)
			write_state(&c->dst, is, &st, dst);
		else
			lost = true;
	}
	c->no_room += lost;
}

static void copy_side(struct copy *c, bool v6)
{
	struct weir_idle idle[WEIR_WORDS_MAX];
	__u32 words[WEIR_WORDS_MAX], b;
	unsigned g, i;
	__u64 tag;
	int way;

	c->src = weir_side_of(c->from, v6);
	c->dst = weir_side_of(c->to, v6);
	memset(c->group_of, WEIR_NO_LIMIT, sizeof(c->group_of));
	for (g = 0; g < c->dst.n_groups && g < WEIR_GROUPS_MAX; g++)
		for (i = 0; i < WEIR_LIMITS_MAX; i++)
			if (c->dst.groups[g].limits >> i & 1)
				c->group_of[i] = g;
	for (g = 0; g < c->src.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&c->src, g);

		if (!group)
			continue;
		weir_side_idle(c->from->policy, group, c->src.words, c->now_ns, idle);
		for (b = group->base; b < group->base + (1u << group->bits); b++) {
			for (way = 0; way < WEIR_WAYS; way++) {
				tag = weir_side_tag(&c->src, b, way);
				if (!tag || weir_side_scan(&c->src, b, tag) != way)
					continue; /* free, or a duplicate that does not count */
				weir_side_snapshot(&c->src, b, way, words);
				if (weir_side_busy(idle, words, c->src.words))
					copy_slot(c, group, tag, words);
			}
		}
	}
}

__u64 weir_table_copy(const struct weir_tables *from, const struct weir_tables *to, __u64 now_ns)
{
	struct copy c = {.from = from, .to = to, .now_ns = now_ns};
	unsigned i;

	memset(c.limit_of, WEIR_NO_LIMIT, sizeof(c.limit_of));
	for (i = 0; i < to->policy->n_limits && i < WEIR_LIMITS_MAX; i++)
		if (to->policy->limit[i].stat < WEIR_STATS_MAX)
			c.limit_of[to->policy->limit[i].stat] = i;
	copy_side(&c, false);
	copy_side(&c, true);
	return c.no_room;
}

/* --- limits per: all ---- */

static const struct weir_limit *total_of(const struct weir_policy *p, __u8 stat)
{
	for (unsigned i = 0; p && i < p->n_limits && i < WEIR_LIMITS_MAX; i++)
		if (p->limit[i].stat == stat && p->limit[i].flags & WEIR_LIMIT_ALL &&
		    p->limit[i].total < WEIR_TOTALS)
			return &p->limit[i];
	return NULL;
}

void weir_totals_copy(const struct weir_policy *from, const struct weir_policy *to,
		      struct weir_total *totals, __u64 now_ns)
{
	struct copy c = {.src = {.words = ARRAY_LEN(totals->word)}, .now_ns = now_ns};

	for (unsigned i = 0; i < to->n_limits && i < WEIR_LIMITS_MAX; i++) {
		const struct weir_limit *is = &to->limit[i], *was;
		__u32 words[WEIR_WORDS_MAX] = {0};
		struct state st = {0, 0, 0};
		__u64 pair;

		if (!(is->flags & WEIR_LIMIT_ALL) || is->total >= WEIR_TOTALS)
			continue;
		was = total_of(from, is->stat);
		if (was && was->total == is->total)
			continue; /* it goes on there */
		if (was) {
			pair = __atomic_load_n(&totals[was->total].pair, __ATOMIC_RELAXED);
			memcpy(words, &pair, sizeof(pair));
			(void)translate(&c, was, is, words, &st);
		}
		if (is->flags & WEIR_LIMIT_PAIR)
			pair = st.pair;
		else
			pair = WEIR_JOIN(st.word, 0);
		__atomic_store_n(&totals[is->total].pair, pair, __ATOMIC_RELAXED);
	}
}
