/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The embedded store's table of states: one shard of it, which one thread holds at a time. Between embedded_*.c and
 * table.c; nobody else includes this.
 *
 * Bounded in entries (per shard) and in bytes (all shards together). Full: of the next WEIR_TABLE_SAMPLE entries under
 * a hand, an idle one goes, else the live one that would be over soonest (evicted). A client at its limit is over late,
 * so it is hardly ever the victim; a newcomer is never refused for lack of a place.
 */
#ifndef WEIR_USER_STORE_TABLE_H
#define WEIR_USER_STORE_TABLE_H

#include <pthread.h>

#include "user/store/store.h"

#define WEIR_TABLE_CHUNK  256 /* entries that are allocated together */
#define WEIR_TABLE_SAMPLE 16
#define WEIR_TABLE_NONE	  0xffffffffu

struct weir_table_key {
	__u64 word[2];
};

union weir_table_state {
	struct weir_request_fixed_state fixed;
	struct weir_request_sliding_state sliding;
	struct weir_request_bucket_state bucket;
	struct weir_request_log_state log;
};

struct weir_table_entry {
	struct weir_table_key key;
	union weir_table_state state;
	__u64 idle_us; /* from then on the state is the same as none */
	__u32 next;    /* in its list */
	bool used;
	bool busy; /* a decision that is going on needs it */
	bool log;  /* state.log owns memory */
};

/* Bytes of all shards. */
struct weir_table_memory {
	__u64 used, max;
};

struct weir_table {
	pthread_mutex_t lock;
	struct weir_table_memory *memory;
	struct weir_table_entry **chunk;
	__u32 *head; /* of each list */
	__u32 lists; /* in use: as many as there ever were entries, so that few entries take few cache lines */
	__u32 heads; /* at most */
	__u32 max, made, used;
	__u32 free; /* list of entries that were used */
	__u32 hand;
	__u64 last_us; /* latest time seen */
	__u64 idle_dropped, evicted, full;
};

/* An empty one for @max entries; what it takes is counted in @memory, which must outlive it. -ENOMEM; -EINVAL: memory->max
 * does not hold its index.
 */
int weir_table_init(struct weir_table *t, __u32 max, struct weir_table_memory *memory);
void weir_table_done(struct weir_table *t);
/* Bytes of lists and chunk pointers for @max entries. */
__u64 weir_table_index_bytes(__u32 max);

/* NULL: no such key. */
struct weir_table_entry *weir_table_find(struct weir_table *t, const struct weir_table_key *key);
/* A new entry with a zeroed state. -ENOSPC: the bounds leave nothing; -ENOMEM. */
int weir_table_add(struct weir_table *t, const struct weir_table_key *key, __u64 now_us,
		   struct weir_table_entry **ret);
void weir_table_drop(struct weir_table *t, const struct weir_table_key *key);
/* All entries go, and time begins at @now_us, earlier than what was seen. None is busy. */
void weir_table_clear(struct weir_table *t, __u64 now_us);
/* Room for @more times in a log of at most @limit; small steps, and back down when much is free. */
int weir_table_log_room(struct weir_table *t, struct weir_table_entry *e, __u64 more, __u64 now_us,
			__u64 limit);
/* Looks at @n entries: drops idle ones, gives back what logs no longer need. */
void weir_table_tidy(struct weir_table *t, __u64 now_us, __u32 n);

#endif
