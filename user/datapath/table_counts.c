/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what the counting words of a fleet's limits hold (compile_fleet.c) in slices, while the XDP program goes on. Called
 * by the agent's timer a few times a second, so that what is not above the line costs a load and a comparison.
 */
#include "user/datapath/table.h"
#include "user/datapath/table_int.h"

/* One counting word of a group, and which values of it are of the window now, before or after. */
struct reader {
	unsigned limit, word;
	bool pair;
	__u8 count_bits;
	__u64 index;	 /* of the window now */
	__u32 number[3]; /* of the one before, now, after */
	__u64 above;
};

static struct reader reader_of(const struct weir_policy *p, const struct weir_side *s,
			       unsigned limit, __u64 now_ns, __u64 above)
{
	const struct weir_limit *l = &p->limit[limit];
	struct reader r = {.limit = limit,
			   .word = s->v6 ? l->word6 : l->word4,
			   .pair = l->flags & WEIR_LIMIT_PAIR,
			   .index = now_ns / l->window_ns,
			   .above = above};
	__u8 bits;

	r.count_bits = r.pair ? WEIR_FIXED64_COUNT_BITS : l->count_bits;
	bits = r.pair ? WEIR_FIXED64_NUMBER_BITS : 32 - l->count_bits;
	for (int i = 0; i < 3; i++)
		r.number[i] = r.index + i ? weir_window_number(r.index + i - 1, bits) : 0;
	return r;
}

static unsigned readers_of(const struct weir_policy *p, const struct weir_side *s,
			   const struct weir_group *g, __u64 now_ns, const __u64 *above,
			   struct reader *ret)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g->n && i < WEIR_WORDS_MAX; i++) {
		const struct weir_limit *l = &p->limit[g->limit[i] % WEIR_LIMITS_MAX];
		unsigned w = s->v6 ? l->word6 : l->word4;

		if (l->flags & WEIR_LIMIT_FLEET && l->window_ns &&
		    w + !!(l->flags & WEIR_LIMIT_PAIR) < s->words)
			ret[n++] = reader_of(p, s, g->limit[i] % WEIR_LIMITS_MAX, now_ns,
					     above[g->limit[i] % WEIR_LIMITS_MAX]);
	}
	return n;
}

static bool read_count(const struct reader *r, const __u32 *words, __u64 *ret_window, __u64 *ret)
{
	__u64 word, count;
	__u32 number;

	if (r->pair)
		word = __atomic_load_n((const __u64 *)(const void *)&words[r->word],
				       __ATOMIC_RELAXED);
	else
		word = __atomic_load_n(&words[r->word], __ATOMIC_RELAXED);
	count = word & ((1ull << r->count_bits) - 1);
	if (count <= r->above)
		return false;
	number = (__u32)(word >> r->count_bits);
	for (int i = 0; i < 3; i++) {
		if (number != r->number[i] || !number)
			continue;
		*ret_window = r->index + i - 1;
		*ret = count;
		return true;
	}
	return false;
}

static void look(const struct weir_side *s, const struct weir_group *g, __u32 bucket,
		 const struct reader *r, unsigned n, weir_table_count_fn fn, void *arg)
{
	__u64 window, count, tag;

	for (unsigned way = 0; way < WEIR_WAYS; way++) {
		__u32 *words = weir_side_words(s, bucket, way), snapshot[WEIR_WORDS_MAX];

		for (unsigned i = 0; i < n; i++) {
			struct weir_prefix source;

			if (!read_count(&r[i], words, &window, &count))
				continue;
			tag = weir_side_tag(s, bucket, way);
			if (!tag || weir_side_scan(s, bucket, tag) != (int)way ||
			    !read_count(&r[i], words, &window, &count))
				continue;
			weir_side_snapshot(s, bucket, way, snapshot);
			source = weir_side_source(s, g, tag, snapshot);
			/* not somebody else's by now */
			if (weir_side_tag(s, bucket, way) == tag)
				fn(arg, r[i].limit, &source, window, count);
		}
	}
}

bool weir_table_scan_counts(const struct weir_tables *t, __u64 now_ns, struct weir_count_scan *at,
			    __u32 n, weir_table_count_fn fn, void *arg)
{
	if (!at->family)
		at->family = 4, at->group = 0, at->bucket = 0;
	for (; at->family <= 6; at->family += 2, at->group = 0) {
		struct weir_side s = weir_side_of(t, at->family != 4);

		for (; at->group < s.n_groups; at->group++, at->bucket = 0) {
			const struct weir_group *g = weir_side_group(&s, at->group);
			struct reader r[WEIR_WORDS_MAX];
			unsigned n_r = g ? readers_of(t->policy, &s, g, now_ns, at->above, r) : 0;

			for (; n_r && at->bucket < 1u << g->bits; at->bucket++) {
				if (!n)
					return false;
				n--;
				look(&s, g, g->base + at->bucket, r, n_r, fn, arg);
			}
		}
	}
	at->family = 0;
	return true;
}
