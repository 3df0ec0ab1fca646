/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store inside the agent: shards by keyed hash, a mutex each. A decision holds the shards of all its layers (taken
 * in rising order), so that it is one step for every other thread; workers share all clients, whichever of them a
 * proxy's connection landed on. Called through the ops of store.h; answers before the call returns.
 */
#include "user/store/embedded_int.h"

#include <string.h>

#define SHARDS_MAX	64
#define SHARDS		16
#define SHARD_LEAST	64 /* entries */
#define ENTRIES_MAX_MAX (1u << 30)
#define SET_BACK_US                                                                                \
	5000000ull /* a clock so far behind was set; threads and corrections stay below */

static void reset(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct weir_embedded_job j;
	int r;

	j.s = (struct weir_embedded *)store;
	j.q = q;
	r = weir_embedded_hold(&j);
	if (r >= 0) {
		for (size_t i = 0; i < j.n; i++) {
			struct weir_embedded_work *w = &j.work[i];

			if (i < q->n)
				q->layer[i].charged = weir_embedded_is_live(w, j.now_us);
			if (i < q->n && w->entry) {
				weir_table_drop(w->table, &w->key);
				w->entry = NULL;
			}
		}
		weir_embedded_let_go(&j);
	}
	done(q, r, data);
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	struct weir_embedded *s = (struct weir_embedded *)store;
	struct weir_store_stats sum = {.entries_max = s->entries_max, .bytes_max = s->memory.max};

	for (unsigned i = 0; i < s->shards; i++) {
		struct weir_table *t = &s->table[i];

		pthread_mutex_lock(&t->lock);
		sum.entries += t->used;
		sum.idle_dropped += t->idle_dropped;
		sum.evicted += t->evicted;
		sum.full += t->full;
		pthread_mutex_unlock(&t->lock);
	}
	sum.bytes = __atomic_load_n(&s->memory.used, __ATOMIC_RELAXED);
	*ret = sum;
}

static void sweep(struct weir_store *store, __u64 now_us, size_t most)
{
	struct weir_embedded *s = (struct weir_embedded *)store;

	for (unsigned i = 0; i < s->shards; i++) {
		struct weir_table *t = &s->table[i];
		size_t n = most / s->shards + 1;

		pthread_mutex_lock(&t->lock);
		if (t->last_us < now_us)
			t->last_us = now_us;
		else if (t->last_us - now_us > SET_BACK_US)
			weir_table_clear(t, now_us);
		weir_table_tidy(t, t->last_us, n < t->made ? (__u32)n : t->made);
		pthread_mutex_unlock(&t->lock);
	}
}

static void embedded_free(struct weir_store *store)
{
	struct weir_embedded *s = (struct weir_embedded *)store;

	for (unsigned i = 0; i < s->shards; i++)
		weir_table_done(&s->table[i]);
	free(s);
}

static const struct weir_store_ops embedded_ops = {
	.name = "embedded",
	.decide = weir_embedded_decide,
	.refund = weir_embedded_refund,
	.reset = reset,
	.stats = stats,
	.sweep = sweep,
	.free = embedded_free,
};

static unsigned shards_for(const struct weir_store_embedded_options *o)
{
	unsigned shards = o->shards ? o->shards : SHARDS;

	while (shards > 1 && o->entries_max / shards < (o->shards ? 1 : SHARD_LEAST))
		shards--;
	return shards;
}

__u64 weir_store_embedded_bytes(const struct weir_store_embedded_options *o, __u64 *ret_index)
{
	unsigned shards = shards_for(o);

	*ret_index = shards * weir_table_index_bytes((__u32)(o->entries_max / shards));
	return *ret_index + o->entries_max * sizeof(struct weir_table_entry);
}

int weir_store_embedded_new(const struct weir_store_embedded_options *o, struct weir_store **ret)
{
	unsigned shards = shards_for(o);
	struct weir_embedded *s;
	int r;

	if (!o->entries_max || o->entries_max > ENTRIES_MAX_MAX || o->shards > SHARDS_MAX)
		return -EINVAL;
	s = calloc(1, sizeof(*s) + shards * sizeof(s->table[0]));
	if (!s)
		return -ENOMEM;
	s->store.ops = &embedded_ops;
	s->memory.max = o->bytes_max;
	s->entries_max = o->entries_max / shards * shards;
	for (; s->shards < shards; s->shards++) {
		r = weir_table_init(&s->table[s->shards], (__u32)(o->entries_max / shards),
				    &s->memory);
		if (r < 0) {
			embedded_free(&s->store);
			return r;
		}
	}
	*ret = &s->store;
	return 0;
}
