/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the embedded store share: embedded.c (the store), embedded_work.c (the states of one request),
 * embedded_decide.c, embedded_refund.c. Not for others.
 */
#ifndef WEIR_USER_STORE_EMBEDDED_INT_H
#define WEIR_USER_STORE_EMBEDDED_INT_H

#include "user/store/table.h"

struct weir_embedded {
	struct weir_store store;
	struct weir_table_memory memory;
	size_t entries_max;
	unsigned shards;
	struct weir_table table[];
};

/* One state of a request that is going on. */
struct weir_embedded_work {
	struct weir_table_key key;
	struct weir_table *table;
	struct weir_table_entry *entry; /* NULL: no state */
	struct weir_request_fixed fixed;
	union weir_table_state state; /* settled */
};

/* All states of one request; the shards are held between hold and let_go below. Most of it is never touched: nothing here
 * is zeroed as a whole.
 */
struct weir_embedded_job {
	struct weir_embedded *s;
	struct weir_store_request *q;
	__u64 shards; /* bits */
	__u64 now_us;
	size_t n; /* of work: layers first, then two more for each that has @fresh */
	/* where a layer is counted, and its bucket of new keys (NULL: it is not concerned) */
	struct weir_embedded_work *at[WEIR_STORE_LAYERS_MAX], *fresh[WEIR_STORE_LAYERS_MAX];
	struct weir_embedded_work work[3 * WEIR_STORE_LAYERS_MAX];
};

/* Finds keys, shards and entries. -EINVAL: too many layers, or one twice; nothing is held then. */
int weir_embedded_hold(struct weir_embedded_job *j);
void weir_embedded_let_go(struct weir_embedded_job *j);

static inline bool weir_embedded_is_live(const struct weir_embedded_work *w, __u64 now_us)
{
	return w->entry && w->entry->idle_us > now_us;
}

/* Reads @w's state as of @now_us, under the numbers of @y's limit. */
void weir_embedded_settle(struct weir_embedded_work *w, const struct weir_store_layer *y,
			  __u64 now_us);
/* When @w->state is over; an empty one goes with the next sweep. */
__u64 weir_embedded_idle_us(const struct weir_embedded_work *w, const struct weir_store_limit *l);
/* Writes the changed state back. */
void weir_embedded_keep(struct weir_embedded_work *w, const struct weir_store_layer *y);

/* Ops of the store (store.h). */
void weir_embedded_decide(struct weir_store *store, struct weir_store_request *q,
			  weir_store_done_fn *done, void *data);
void weir_embedded_refund(struct weir_store *store, struct weir_store_request *q,
			  weir_store_done_fn *done, void *data);

#endif
