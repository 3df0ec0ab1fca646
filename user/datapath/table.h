/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The per-source state tables seen from user space, through their memory maps: look one source up, walk, release idle
 * slots, copy state into tables with another layout. Uses the algorithms of include/weir, never a system call.
 */
#ifndef WEIR_USER_TABLE_H
#define WEIR_USER_TABLE_H

#include <stdbool.h>

#include "user/base/addr.h"
#include "weir/maps.h"

/* Views, not owned. */
struct weir_tables {
	struct weir_bucket4 *t4;
	struct weir_bucket6 *t6;
	__u32 buckets4, buckets6; /* powers of two */
	struct weir_spill
		*spill; /* 2 << WEIR_SPILL_BITS shared entries, of both banks; NULL: not ours */
	struct weir_total *totals; /* WEIR_TOTALS entries, of limits per: all */
	const struct weir_policy *policy;
	const struct weir_meta *meta;
};

/* State of one limit for one source. */
struct weir_limit_state {
	unsigned limit;	     /* index in the policy */
	__u64 used;	     /* tokens or count charged and not yet forgiven */
	__u64 capacity;	     /* burst or limit */
	__u64 full_again_ns; /* from now until nothing is charged any more, and it is not blocked */
	__u64 retry_ns; /* from now until one more packet (of 1 token) would be admitted; 0 = now */
	__u64 blocked_ns; /* rest of block_for; 0 = none */
};

/* Fills @ret (room for WEIR_LIMITS_MAX) with the state of every limit that has some for @addr; returns how many. */
int weir_table_lookup(const struct weir_tables *t, const union weir_addr *addr, __u8 family,
		      __u64 now_ns, struct weir_limit_state *ret);

/* The same for limits per: all. */
int weir_totals_read(const struct weir_tables *t, __u64 now_ns, struct weir_limit_state *ret);

/* Does some limit keep a slot for @addr alone (IPv6: its /64 or longer), not for a wider network? It does from the first
 * packet until some time after the last.
 */
bool weir_table_has(const struct weir_tables *t, const union weir_addr *addr, __u8 family);

typedef int (*weir_table_fn)(void *arg, const struct weir_prefix *source, unsigned group,
			     const __u32 *words, bool busy);
/* Calls @fn for each occupied slot of a family with its source (prefix applied), group and a copy of its words; @busy:
 * some of them mean something at @now_ns. Stops at the first nonzero result and returns it.
 */
int weir_table_walk(const struct weir_tables *t, __u8 family, __u64 now_ns, weir_table_fn fn,
		    void *arg);
/* State of one limit from the words of a slot in one of its groups. */
void weir_table_state(const struct weir_policy *p, __u8 family, unsigned limit, const __u32 *words,
		      __u64 now_ns, struct weir_limit_state *ret);

/* Slots that a sweep saw occupied and left busy, and how many it released. */
struct weir_sweep {
	__u64 occupied4, occupied6, busy4, busy6, released;
};
/* Releases idle slots (words and address to zero), which keeps stale words from ever meaning a debt again. Looks at
 * buckets first .. first + n - 1 of both tables (as far as they have them); what it saw is added to @add.
 */
void weir_table_sweep(const struct weir_tables *t, __u64 now_ns, __u32 first, __u32 n,
		      struct weir_sweep *add);

/* Sets words of the shared entries to zero that are idle, once for each pass over the tables: a stale word would mean a
 * debt again as in a slot. An entry does not say whose it is, so a word stays as long as any group may count on it.
 */
void weir_table_sweep_spill(const struct weir_tables *t, __u64 now_ns);

/* The same for limits per: all. */
void weir_totals_sweep(const struct weir_tables *t, __u64 now_ns);

/* Forgets the state of one limit, for one source (@addr) or for all (NULL; also what sources share that had no slot). */
void weir_table_reset(const struct weir_tables *t, unsigned limit, const union weir_addr *addr,
		      __u8 family);

/* What limits of a fleet have let through (WEIR_LIMIT_FLEET), of sources with a count above @above of that limit, in a window
 * that is not over for longer than one: its number since the clock's zero.
 */
typedef void (*weir_table_count_fn)(void *arg, unsigned limit, const struct weir_prefix *source,
				    __u64 window, __u64 count);
struct weir_count_scan {
	__u64 above[WEIR_LIMITS_MAX];
	__u8 family; /* where it goes on: 0 = at the beginning */
	unsigned group;
	__u32 bucket; /* in the group's region */
};
/* Looks at up to @n buckets, of groups that have such limits. True: the pass is over, and the next call begins another. */
bool weir_table_scan_counts(const struct weir_tables *t, __u64 now_ns, struct weir_count_scan *at,
			    __u32 n, weir_table_count_fn fn, void *arg);

/* Readies the entries that limits per: all of @to have and not already use under @from (NULL: none): what was counted there,
 * in the new units, or nothing. No program uses those entries yet.
 */
void weir_totals_copy(const struct weir_policy *from, const struct weir_policy *to,
		      struct weir_total *totals, __u64 now_ns);

/* Copies the live state of every limit that both policies have (by stat index) from @from into the zeroed @to;
 * a debt is clamped to the new burst, a count to the new limit. Returns slots that found no room.
 */
__u64 weir_table_copy(const struct weir_tables *from, const struct weir_tables *to, __u64 now_ns);

#endif
