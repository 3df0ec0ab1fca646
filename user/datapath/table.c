/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The per-source state tables from user space: the same hash, scan and idle rules as the XDP program, from include/weir,
 * on the mapped memory. The program goes on meanwhile: words are read and changed with atomic operations, pairs as one.
 * Called by the agent for `weir explain` and `top`. Releasing and forgetting is in table_sweep.c.
 */
#include <string.h>

#include "user/datapath/table.h"
#include "user/datapath/table_int.h"

/* --- slots ---- */

struct weir_side weir_side_of(const struct weir_tables *t, bool v6)
{
	return (struct weir_side){
		.v6 = v6,
		.words = v6 ? WEIR_WORDS6 : WEIR_WORDS4,
		.n_groups = v6 ? t->policy->n_groups6 : t->policy->n_groups4,
		.groups = v6 ? t->policy->group6 : t->policy->group4,
		.buckets = v6 ? (t->t6 ? t->buckets6 : 0) : (t->t4 ? t->buckets4 : 0),
		.t4 = t->t4,
		.t6 = t->t6,
	};
}

const struct weir_group *weir_side_group(const struct weir_side *s, unsigned g)
{
	const struct weir_group *group;

	if (g >= s->n_groups || g >= WEIR_GROUPS_MAX)
		return NULL;
	group = &s->groups[g];
	if (group->bits > 31 || (__u64)group->base + (1ull << group->bits) > s->buckets)
		return NULL;
	return group;
}

__u64 weir_side_tag(const struct weir_side *s, __u32 bucket, unsigned way)
{
	return s->v6 ? __atomic_load_n(&s->t6[bucket].slot[way].tag, __ATOMIC_ACQUIRE)
		     : __atomic_load_n(&s->t4[bucket].slot[way].addr, __ATOMIC_ACQUIRE);
}

__u32 *weir_side_words(const struct weir_side *s, __u32 bucket, unsigned way)
{
	return s->v6 ? s->t6[bucket].slot[way].word : s->t4[bucket].slot[way].word;
}

void weir_side_read(const struct weir_side *s, __u32 *words, __u32 *ret)
{
	unsigned w = 0;
	__u64 pair;

	memset(ret, 0, WEIR_WORDS_MAX * sizeof(*ret));
	if (!s->v6) { /* the address before it makes the second word the first that is 8-byte aligned */
		ret[0] = __atomic_load_n(&words[0], __ATOMIC_RELAXED);
		w = 1;
	}
	for (; w + 1 < s->words; w += 2) {
		pair = __atomic_load_n((__u64 *)(void *)&words[w], __ATOMIC_RELAXED);
		memcpy(&ret[w], &pair, sizeof(pair));
	}
}

void weir_side_snapshot(const struct weir_side *s, __u32 bucket, unsigned way, __u32 *ret)
{
	weir_side_read(s, weir_side_words(s, bucket, way), ret);
}

__u64 weir_side_locate(const struct weir_tables *t, const struct weir_group *g, bool v6,
		       const union weir_addr *addr, __u32 *ret_bucket)
{
	const __u64 *seed = t->meta->seed;
	__u64 tag;

	if (v6) {
		tag = weir_tag6(addr, g->prefix_len, seed);
		*ret_bucket = weir_bucket_of6(tag, seed, g->base, g->bits);
	} else {
		tag = weir_tag4(addr->word[0], g->prefix_len);
		*ret_bucket = weir_bucket_of4((__u32)tag, seed, g->base, g->bits);
	}
	return tag;
}

int weir_side_scan(const struct weir_side *s, __u32 bucket, __u64 tag)
{
	int way;

	for (way = WEIR_WAYS - 1; way >= 0; way--)
		if (weir_side_tag(s, bucket, way) == tag)
			return way;
	return -1;
}

void weir_side_idle(const struct weir_policy *p, const struct weir_group *g, unsigned words,
		    __u64 now_ns, struct weir_idle *ret)
{
	unsigned w;

	for (w = 0; w < WEIR_WORDS_MAX; w++)
		ret[w] = w < words && g->owner[w] < WEIR_LIMITS_MAX
				 ? weir_idle_of(&p->limit[g->owner[w]], g->role[w], now_ns)
				 : (struct weir_idle){0, 0};
}

bool weir_side_busy(const struct weir_idle *idle, const __u32 *snapshot, unsigned words)
{
	unsigned w;

	for (w = 0; w < words; w++)
		if (weir_idle_busy(idle[w], snapshot[w]))
			return true;
	return false;
}

struct weir_prefix weir_side_source(const struct weir_side *s, const struct weir_group *g,
				    __u64 tag, const __u32 *snapshot)
{
	struct weir_prefix p = {.family = s->v6 ? 6 : 4, .len = g->prefix_len};
	__u32 first[2];

	if (!s->v6) {
		p.addr.word[0] = tag == 0xffffffffu ? 0 : (__u32)tag; /* as which 0.0.0.0 is kept */
		return p;
	}
	if (g->prefix_len > 64) {
		memcpy(p.addr.word, &snapshot[WEIR_WORDS6 - 4], sizeof(p.addr.word));
		return p;
	}
	if (tag == ~0ull)
		return p;
	memcpy(first, &tag, sizeof(first));
	p.addr.word[0] = first[0];
	if (g->prefix_len == 64 && first[0] == WEIR_BE32(0x0064ff9bu)) {
		p.addr.word[3] = first[1]; /* one IPv4 client behind a translator */
		p.len = 128;
	} else {
		p.addr.word[1] = first[1];
	}
	return p;
}

/* --- what state means ---- */

static void bucket_state(const struct weir_limit *l, __u32 word, __u64 now_ns,
			 struct weir_limit_state *st)
{
	__u64 token = 1ull << l->frac_bits, debt;

	debt = weir_bucket_debt(word, weir_ticks(now_ns, l->mult, l->shift), l->burst);
	st->capacity = l->burst >> l->frac_bits;
	st->used = (debt + token - 1) >> l->frac_bits;
	st->full_again_ns = weir_ticks_to_ns(l, debt);
	if (debt + token > l->burst)
		st->retry_ns = weir_ticks_to_ns(l, debt + token - l->burst);
}

/* A fixed window of either size. @number_bits and @count as stored. */
static void fixed_state(const struct weir_limit *l, __u32 stored, __u64 count, __u8 number_bits,
			__u64 now_ns, struct weir_limit_state *st)
{
	__u64 index = now_ns / l->window_ns, rest = (index + 1) * l->window_ns - now_ns;
	__u32 number = weir_window_number(index, number_bits);

	st->capacity = l->limit;
	if (!count || (stored != number && stored != weir_window_next(number, number_bits)))
		return;
	if (stored != number)
		rest += l->window_ns; /* written by a CPU with a newer clock */
	st->used = count;
	st->full_again_ns = rest;
	st->retry_ns = count >= l->limit ? rest : 0;
}

/* Ceiling of a * b / c. */
static __u64 scale(__u64 a, __u64 b, __u64 c)
{
	return (__u64)(((unsigned __int128)a * b + c - 1) / c);
}

static void sliding_state(const struct weir_limit *l, __u64 pair, __u64 now_ns,
			  struct weir_limit_state *st)
{
	const __u64 mask = (1u << WEIR_SLIDING_COUNT_BITS) - 1;
	__u64 index = now_ns / l->window_ns, window = l->window_ns >> l->tick_shift, e, left, room;
	__u64 current = pair >> WEIR_SLIDING_COUNT_BITS & mask, previous = pair & mask;
	__u32 number = weir_window_number(index, WEIR_SLIDING_NUMBER_BITS);
	__u32 stored = (__u32)(pair >> (2 * WEIR_SLIDING_COUNT_BITS));

	st->capacity = l->limit;
	e = (now_ns - index * l->window_ns) >> l->tick_shift;
	if (!pair)
		return;
	if (stored == weir_window_next(number, WEIR_SLIDING_NUMBER_BITS)) {
		e = 0;
	} else if (number == weir_window_next(stored, WEIR_SLIDING_NUMBER_BITS)) {
		previous = current;
		current = 0;
	} else if (stored != number) {
		return;
	}
	left = window - e;
	st->used = current + scale(previous, left, window);
	if (!st->used)
		return;
	st->full_again_ns = (left + (current ? window : 0)) << l->tick_shift;
	if (current + 1 <= l->limit) {
		/* previous * (window - e') <= room * window */
		room = l->limit - current - 1;
		if (previous > room && scale(previous, left, window) > room) {
			__u64 must = (__u64)((unsigned __int128)room * window / previous);

			st->retry_ns = (left > must ? left - must : 0) << l->tick_shift;
		}
		return;
	}
	/* Not in this window; in the next one the current count is the previous one. */
	room = l->limit - 1;
	left += current > room ? window - (__u64)((unsigned __int128)room * window / current) : 0;
	st->retry_ns = left << l->tick_shift;
}

void weir_table_state(const struct weir_policy *p, __u8 family, unsigned limit, const __u32 *words,
		      __u64 now_ns, struct weir_limit_state *ret)
{
	const struct weir_limit *l = &p->limit[limit];
	__u8 w = family == 4 ? l->word4 : l->word6, q = family == 4 ? l->penalty4 : l->penalty6;
	unsigned n = family == 4 ? WEIR_WORDS4 : WEIR_WORDS6;
	struct weir_limit_state st = {.limit = limit};
	__u64 pair;

	if (w < n && l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		bucket_state(l, words[w], now_ns, &st);
	} else if (w < n && l->window_ns && !(l->flags & WEIR_LIMIT_PAIR)) {
		fixed_state(l, words[w] >> (l->count_bits & 31),
			    words[w] & ((1u << (l->count_bits & 31)) - 1), 32 - l->count_bits,
			    now_ns, &st);
	} else if (w + 1u < n && l->window_ns) {
		pair = weir_pair_of(words, w);
		if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW)
			sliding_state(l, pair, now_ns, &st);
		else
			fixed_state(l, (__u32)(pair >> WEIR_FIXED64_COUNT_BITS),
				    pair & ((1ull << WEIR_FIXED64_COUNT_BITS) - 1),
				    WEIR_FIXED64_NUMBER_BITS, now_ns, &st);
	}
	if (q < n) {
		st.blocked_ns = (__u64)weir_penalty_left(words[q], now_ns, l->block_ms)
				<< WEIR_PENALTY_SHIFT;
		if (st.blocked_ns > st.retry_ns)
			st.retry_ns = st.blocked_ns;
		if (st.blocked_ns > st.full_again_ns)
			st.full_again_ns = st.blocked_ns;
	}
	*ret = st;
}

/* --- reading ---- */

int weir_table_lookup(const struct weir_tables *t, const union weir_addr *addr, __u8 family,
		      __u64 now_ns, struct weir_limit_state *ret)
{
	struct weir_side s = weir_side_of(t, family != 4);
	__u32 words[WEIR_WORDS_MAX], bucket;
	struct weir_limit_state st;
	unsigned g, i;
	__u64 tag;
	int way, n = 0;

	for (g = 0; g < s.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&s, g);

		if (!group)
			continue;
		tag = weir_side_locate(t, group, s.v6, addr, &bucket);
		way = weir_side_scan(&s, bucket, tag);
		if (way < 0)
			continue;
		weir_side_snapshot(&s, bucket, way, words);
		for (i = 0; i < group->n && i < WEIR_WORDS_MAX; i++) {
			if (group->limit[i] >= WEIR_LIMITS_MAX || n >= WEIR_LIMITS_MAX ||
			    t->policy->limit[group->limit[i]].flags & WEIR_LIMIT_FLEET)
				continue;
			weir_table_state(t->policy, family, group->limit[i], words, now_ns, &st);
			if (st.used || st.blocked_ns)
				ret[n++] = st;
		}
	}
	return n;
}

int weir_totals_read(const struct weir_tables *t, __u64 now_ns, struct weir_limit_state *ret)
{
	const struct weir_policy *p = t->policy;
	int n = 0;

	for (unsigned i = 0; t->totals && i < p->n_limits && i < WEIR_LIMITS_MAX; i++) {
		__u32 words[WEIR_WORDS_MAX] = {0};
		struct weir_limit_state st;
		__u64 pair;

		if (!(p->limit[i].flags & WEIR_LIMIT_ALL) || p->limit[i].total >= WEIR_TOTALS)
			continue;
		pair = __atomic_load_n(&t->totals[p->limit[i].total].pair, __ATOMIC_RELAXED);
		memcpy(words, &pair, sizeof(pair));
		weir_table_state(p, 4, i, words, now_ns, &st); /* of either family: word 0 */
		if (st.used)
			ret[n++] = st;
	}
	return n;
}

bool weir_table_has(const struct weir_tables *t, const union weir_addr *addr, __u8 family)
{
	struct weir_side s = weir_side_of(t, family != 4);

	for (unsigned g = 0; g < s.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&s, g);
		__u32 bucket;
		__u64 tag;

		if (!group || group->flags & WEIR_GROUP_DESTINATION ||
		    group->prefix_len < (family == 4 ? 32 : 64))
			continue;
		tag = weir_side_locate(t, group, s.v6, addr, &bucket);
		if (weir_side_scan(&s, bucket, tag) >= 0)
			return true;
	}
	return false;
}

int weir_table_walk(const struct weir_tables *t, __u8 family, __u64 now_ns, weir_table_fn fn,
		    void *arg)
{
	struct weir_side s = weir_side_of(t, family != 4);
	struct weir_idle idle[WEIR_WORDS_MAX];
	__u32 words[WEIR_WORDS_MAX], b;
	unsigned g, way;
	__u64 tag;
	int r;

	for (g = 0; g < s.n_groups; g++) {
		const struct weir_group *group = weir_side_group(&s, g);

		if (!group)
			continue;
		weir_side_idle(t->policy, group, s.words, now_ns, idle);
		for (b = group->base; b < group->base + (1u << group->bits); b++) {
			for (way = 0; way < WEIR_WAYS; way++) {
				struct weir_prefix source;

				tag = weir_side_tag(&s, b, way);
				if (!tag)
					continue;
				weir_side_snapshot(&s, b, way, words);
				source = weir_side_source(&s, group, tag, words);
				r = fn(arg, &source, g, words,
				       weir_side_busy(idle, words, s.words));
				if (r)
					return r;
			}
		}
	}
	return 0;
}
