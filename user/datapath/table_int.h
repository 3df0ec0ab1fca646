/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One family of the state tables as table.c and table_copy.c see it. Nobody else includes this. */
#ifndef WEIR_USER_TABLE_INT_H
#define WEIR_USER_TABLE_INT_H

#include "user/datapath/table.h"
#include "weir/algo.h"
#include "weir/idle.h"
#include "weir/key.h"

#define WEIR_WORDS_MAX                                                                             \
	8 /* as many as struct weir_group can describe; more than either kind of slot has */

struct weir_side {
	bool v6;
	unsigned words; /* in a slot */
	unsigned n_groups;
	const struct weir_group *groups;
	__u32 buckets;
	struct weir_bucket4 *t4;
	struct weir_bucket6 *t6;
};

struct weir_side weir_side_of(const struct weir_tables *t, bool v6);
/* Group @g, NULL if its region does not lie inside the table (a policy that belongs to other tables). */
const struct weir_group *weir_side_group(const struct weir_side *s, unsigned g);

__u64 weir_side_tag(const struct weir_side *s, __u32 bucket, unsigned way);
__u32 *weir_side_words(const struct weir_side *s, __u32 bucket, unsigned way);
/* Copies words of a slot or a shared entry, each pair in one load. @ret has WEIR_WORDS_MAX. */
void weir_side_read(const struct weir_side *s, __u32 *words, __u32 *ret);
void weir_side_snapshot(const struct weir_side *s, __u32 bucket, unsigned way, __u32 *ret);
/* Tag of @addr in group @g, and its bucket. */
__u64 weir_side_locate(const struct weir_tables *t, const struct weir_group *g, bool v6,
		       const union weir_addr *addr, __u32 *ret_bucket);
/* The slot that counts for @tag: the highest index. -1 if there is none. */
int weir_side_scan(const struct weir_side *s, __u32 bucket, __u64 tag);

/* When each word of a group's slots is busy (weir/idle.h). */
void weir_side_idle(const struct weir_policy *p, const struct weir_group *g, unsigned words,
		    __u64 now_ns, struct weir_idle *ret);
bool weir_side_busy(const struct weir_idle *idle, const __u32 *snapshot, unsigned words);

/* The source whose slot this is. */
struct weir_prefix weir_side_source(const struct weir_side *s, const struct weir_group *g,
				    __u64 tag, const __u32 *snapshot);

static inline __u64 weir_pair_of(const __u32 *words, unsigned w)
{
	return WEIR_JOIN(words[w], words[w + 1]);
}

/* Ticks of a bucket's clock to ns, rounded up. */
static inline __u64 weir_ticks_to_ns(const struct weir_limit *l, __u64 ticks)
{
	unsigned __int128 ns =
		l->mult ? (((unsigned __int128)ticks << l->shift) + l->mult - 1) / l->mult : 0;

	return ns > ~0ull ? ~0ull : (__u64)ns;
}

#endif
