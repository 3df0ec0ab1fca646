/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The states of one request in the embedded store: found and held together, read as of now whatever their limit's
 * algorithm is, written back.
 */
#include "user/store/embedded_int.h"

#include <string.h>

/* -EINVAL: it is there already. */
static int add_work(struct weir_embedded_job *j, const struct weir_store_limit *l, const __u8 *key)
{
	struct weir_embedded_work *w = &j->work[j->n];
	unsigned shard;
	__u64 id[2];

	memcpy(&w->key, key, sizeof(w->key));
	memcpy(id, &l->identity, sizeof(id));
	w->key.word[0] ^= id[0]; /* both are hashes: no two limits meet */
	w->key.word[1] ^= id[1];
	for (size_t k = 0; k < j->n; k++)
		if (j->work[k].key.word[0] == w->key.word[0] &&
		    j->work[k].key.word[1] == w->key.word[1])
			return -EINVAL;
	shard = (unsigned)((w->key.word[0] >> 32) * j->s->shards >> 32);
	w->table = &j->s->table[shard];
	j->shards |= 1ull << shard;
	j->n++;
	return 0;
}

static int add_layers(struct weir_embedded_job *j)
{
	const struct weir_store_layer *y = j->q->layer;
	int r = 0;

	if (j->q->n > WEIR_STORE_LAYERS_MAX)
		return -EINVAL;
	for (size_t i = 0; r >= 0 && i < j->q->n; i++) {
		r = add_work(j, y[i].limit, y[i].key);
		j->at[i] = &j->work[i];
		j->fresh[i] = NULL;
	}
	for (size_t i = 0; r >= 0 && i < j->q->n; i++) {
		if (!y[i].fresh)
			continue;
		j->fresh[i] = &j->work[j->n];
		r = add_work(j, y[i].fresh, y[i].instead);
		if (r >= 0)
			r = add_work(j, y[i].limit, y[i].instead);
	}
	return r;
}

int weir_embedded_hold(struct weir_embedded_job *j)
{
	int r;

	j->n = 0;
	j->shards = 0;
	j->now_us = j->q->now_us;
	r = add_layers(j);
	if (r < 0)
		return r;
	for (__u64 left = j->shards; left; left &= left - 1) {
		struct weir_table *t = &j->s->table[__builtin_ctzll(left)];

		pthread_mutex_lock(&t->lock);
		if (j->now_us < t->last_us)
			j->now_us = t->last_us;
	}
	for (size_t i = 0; i < j->n; i++) {
		struct weir_embedded_work *w = &j->work[i];

		w->table->last_us = j->now_us;
		w->entry = weir_table_find(w->table, &w->key);
		if (w->entry)
			w->entry->busy = true;
	}
	return 0;
}

void weir_embedded_let_go(struct weir_embedded_job *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->work[i].entry)
			j->work[i].entry->busy = false;
	for (__u64 left = j->shards; left; left &= left - 1)
		pthread_mutex_unlock(&j->s->table[__builtin_ctzll(left)].lock);
}

/* The window of a fixed limit; of a calendar the caller's, even if another thread's clock has just left it. */
static void set_window(struct weir_embedded_work *w, const struct weir_store_layer *y, __u64 now_us)
{
	w->fixed.limit = y->limit->fixed.limit;
	if (y->limit->window_us) {
		weir_request_fixed_align(&w->fixed, y->limit->window_us, now_us);
		return;
	}
	w->fixed.start_us = y->start_us;
	w->fixed.end_us = y->end_us;
}

void weir_embedded_settle(struct weir_embedded_work *w, const struct weir_store_layer *y,
			  __u64 now_us)
{
	const struct weir_store_limit *l = y->limit;

	if (w->entry)
		w->state = w->entry->state;
	else
		memset(&w->state, 0, sizeof(w->state));
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		set_window(w, y, now_us);
		w->state.fixed = weir_request_fixed_settle(w->state.fixed, &w->fixed);
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		weir_request_log_settle(&w->state.log, &l->log, now_us);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		w->state.sliding =
			weir_request_sliding_settle(w->state.sliding, &l->sliding, now_us);
		break;
	default:
		w->state.bucket = weir_request_bucket_settle(w->state.bucket, &l->bucket, now_us);
	}
}

__u64 weir_embedded_idle_us(const struct weir_embedded_work *w, const struct weir_store_limit *l)
{
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		return w->state.fixed.count ? w->state.fixed.end_us : 0;
	case WEIR_REQUEST_SLIDING_LOG:
		return weir_request_log_idle(&w->state.log, &l->log);
	case WEIR_REQUEST_SLIDING_COUNTER:
		return weir_request_sliding_idle(w->state.sliding, &l->sliding);
	default:
		return weir_request_bucket_idle(w->state.bucket, &l->bucket);
	}
}

void weir_embedded_keep(struct weir_embedded_work *w, const struct weir_store_layer *y)
{
	w->entry->idle_us = weir_embedded_idle_us(w, y->limit);
	w->entry->state = w->state;
}
