/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store inside the agent: shards by keyed hash, a mutex each. A decision holds the shards of all its layers (taken
 * in rising order), so that it is one step for every other thread; workers share all clients, whichever of them a
 * proxy's connection landed on. Called through the ops of store.h; answers before the call returns.
 */
#include <string.h>

#include "user/store/table.h"

#define SHARDS_MAX	64
#define SHARDS		16
#define SHARD_LEAST	64 /* entries */
#define ENTRIES_MAX_MAX (1u << 30)
#define SET_BACK_US                                                                                \
	5000000ull /* a clock so far behind was set; threads and corrections stay below */

struct embedded {
	struct weir_store store;
	struct weir_table_memory memory;
	size_t entries_max;
	unsigned shards;
	struct weir_table table[];
};

/* One state of a request that is going on. */
struct work {
	struct weir_table_key key;
	struct weir_table *table;
	struct weir_table_entry *entry; /* NULL: no state */
	struct weir_request_fixed fixed;
	union weir_table_state state; /* settled */
};

/* All states of one request; the shards are held from hold() to let_go(). Most of it is never touched: nothing here is
 * zeroed as a whole.
 */
struct job {
	struct embedded *s;
	struct weir_store_request *q;
	__u64 shards; /* bits */
	__u64 now_us;
	size_t n; /* of work: layers first, then two more for each that has @fresh */
	struct work *at[WEIR_STORE_LAYERS_MAX];	   /* where a layer is counted */
	struct work *fresh[WEIR_STORE_LAYERS_MAX]; /* its bucket of new keys; NULL: not concerned */
	struct work work[3 * WEIR_STORE_LAYERS_MAX];
};

static bool is_log(const struct weir_store_layer *y)
{
	return y->limit->algorithm == WEIR_REQUEST_SLIDING_LOG;
}

/* -EINVAL: it is there already. */
static int add_work(struct job *j, const struct weir_store_limit *l, const __u8 *key)
{
	struct work *w = &j->work[j->n];
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

static int add_layers(struct job *j)
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

/* Finds keys, shards and entries. -EINVAL: too many layers, or one twice; nothing is held then. */
static int hold(struct job *j)
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
		struct work *w = &j->work[i];

		w->table->last_us = j->now_us;
		w->entry = weir_table_find(w->table, &w->key);
		if (w->entry)
			w->entry->busy = true;
	}
	return 0;
}

static void let_go(struct job *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->work[i].entry)
			j->work[i].entry->busy = false;
	for (__u64 left = j->shards; left; left &= left - 1)
		pthread_mutex_unlock(&j->s->table[__builtin_ctzll(left)].lock);
}

static bool is_live(const struct work *w, __u64 now_us)
{
	return w->entry && w->entry->idle_us > now_us;
}

/* The window of a fixed limit; of a calendar the caller's, even if another thread's clock has just left it. */
static void set_window(struct work *w, const struct weir_store_layer *y, __u64 now_us)
{
	w->fixed.limit = y->limit->fixed.limit;
	if (y->limit->window_us) {
		weir_request_fixed_align(&w->fixed, y->limit->window_us, now_us);
		return;
	}
	w->fixed.start_us = y->start_us;
	w->fixed.end_us = y->end_us;
}

static void settle(struct work *w, const struct weir_store_layer *y, __u64 now_us)
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

static void look(const struct work *w, const struct weir_store_layer *y, __u64 now_us,
		 struct weir_request_answer *ret)
{
	const struct weir_store_limit *l = y->limit;

	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		weir_request_fixed_look(w->state.fixed, &w->fixed, now_us, y->cost, ret);
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		weir_request_log_look(&w->state.log, &l->log, now_us, y->cost, ret);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		weir_request_sliding_look(w->state.sliding, &l->sliding, now_us, y->cost, ret);
		break;
	case WEIR_REQUEST_LEAKY_BUCKET:
		weir_request_queue_look(w->state.bucket, &l->bucket, now_us, y->cost, ret);
		break;
	default:
		weir_request_bucket_look(w->state.bucket, &l->bucket, now_us, y->cost, ret);
	}
}

static void take(struct work *w, struct weir_store_layer *y, __u64 now_us)
{
	const struct weir_store_limit *l = y->limit;

	y->ticket.us = now_us;
	y->ticket.part = 0;
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		w->state.fixed = weir_request_fixed_take(w->state.fixed, y->cost);
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		y->ticket.us = weir_request_log_now(&w->state.log, now_us);
		weir_request_log_push(&w->state.log, now_us, y->cost);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		w->state.sliding = weir_request_sliding_take(w->state.sliding, y->cost);
		break;
	default:
		w->state.bucket =
			weir_request_bucket_take(w->state.bucket, &l->bucket, now_us, y->cost);
		if (l->algorithm == WEIR_REQUEST_LEAKY_BUCKET)
			y->ticket = weir_request_queue_ticket(w->state.bucket, &l->bucket, now_us);
	}
}

/* When @w->state is over; an empty one goes with the next sweep. */
static __u64 idle_of(const struct work *w, const struct weir_store_limit *l)
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

/* Writes the charged state back. */
static void keep(struct work *w, const struct weir_store_layer *y)
{
	w->entry->idle_us = idle_of(w, y->limit);
	w->entry->state = w->state;
}

static void keep_charged(struct work *w, const struct weir_store_layer *y, __u64 now_us)
{
	struct weir_request_sliding_state s;

	if (y->limit->algorithm == WEIR_REQUEST_SLIDING_COUNTER) {
		s = weir_request_sliding_roll(w->entry->state.sliding, &y->limit->sliding, now_us);
		w->state.sliding = weir_request_sliding_take(s, y->cost);
	}
	keep(w, y);
}

/* A refusal changes no count: what its plan's numbers clamp, another plan may still need. Only the time from which the
 * state is over may have moved, where the numbers were changed.
 */
static void leave(struct work *w, const struct weir_store_layer *y)
{
	__u64 idle_us = idle_of(w, y->limit);

	if (w->entry->idle_us < idle_us)
		w->entry->idle_us = idle_us;
}

static int add_entry(struct work *w, __u64 now_us)
{
	int r;

	if (w->entry)
		return 0;
	r = weir_table_add(w->table, &w->key, now_us, &w->entry);
	if (r < 0)
		return r;
	w->entry->busy = true;
	return 0;
}

/* Everything that charging needs, before the first is charged. */
static int prepare(struct job *j)
{
	int r;

	for (size_t i = 0; i < j->q->n; i++) {
		struct weir_store_layer *y = &j->q->layer[i];
		struct work *w = j->at[i];

		if (!y->charged)
			continue;
		r = add_entry(w, j->now_us);
		if (r >= 0 && j->fresh[i])
			r = add_entry(j->fresh[i], j->now_us);
		if (r < 0)
			return r;
		if (!is_log(y))
			continue;
		w->entry->state.log = w->state.log; /* settled: what is over needs no room */
		r = weir_table_log_room(w->table, w->entry, y->cost, j->now_us,
					y->limit->log.limit);
		w->state.log = w->entry->state.log;
		if (r < 0)
			return r;
	}
	return 0;
}

/* Times in an answer count from the asker's clock, which may be a moment behind. */
static void shift(struct weir_request_answer *a, __u64 by_us)
{
	if (a->reset_after_us)
		a->reset_after_us += by_us;
	if (a->retry_after_us && a->retry_after_us != WEIR_REQUEST_NEVER)
		a->retry_after_us += by_us;
	if (a->delay_us)
		a->delay_us += by_us;
}

/* @turn_now: a delay is a refusal, and there is one place. */
static void look_now(const struct work *w, const struct weir_store_layer *y, __u64 now_us,
		     struct weir_request_answer *ret)
{
	look(w, y, now_us, ret);
	if (!y->turn_now || y->limit->algorithm != WEIR_REQUEST_LEAKY_BUCKET)
		return;
	if (!ret->retry_after_us)
		ret->retry_after_us = ret->delay_us;
	ret->remaining = !ret->delay_us && ret->remaining;
	ret->reset_after_us = ret->delay_us;
	ret->delay_us = 0;
}

/* A new key that is not worth a token of its address's bucket is counted by that address. */
static void welcome(struct job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];
	struct work *bucket = j->fresh[i];
	struct weir_request_answer a;

	if (is_live(j->at[i], j->now_us)) {
		j->fresh[i] = NULL;
		return;
	}
	if (bucket->entry)
		bucket->state = bucket->entry->state;
	else
		memset(&bucket->state, 0, sizeof(bucket->state));
	bucket->state.bucket =
		weir_request_bucket_settle(bucket->state.bucket, &y->fresh->bucket, j->now_us);
	weir_request_bucket_look(bucket->state.bucket, &y->fresh->bucket, j->now_us, 1, &a);
	if (!a.retry_after_us)
		return;
	j->at[i] = bucket + 1;
	j->fresh[i] = NULL;
	y->used_instead = true;
}

static void judge(struct job *j)
{
	struct weir_store_request *q = j->q;

	q->admitted = true;
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		y->used_instead = false;
		if (j->fresh[i])
			welcome(j, i);
		settle(j->at[i], y, j->now_us);
		look_now(j->at[i], y, j->now_us, &y->answer);
		y->admitted = !y->answer.retry_after_us;
		if (!y->admitted && !y->monitor)
			q->admitted = false;
	}
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		y->charged = !q->peek && y->cost && y->admitted && (y->monitor || q->admitted);
	}
}

static void charge_fresh(struct work *w, const struct weir_store_limit *l, __u64 now_us)
{
	w->state.bucket = weir_request_bucket_take(w->state.bucket, &l->bucket, now_us, 1);
	w->entry->idle_us = weir_request_bucket_idle(w->state.bucket, &l->bucket);
	w->entry->state = w->state;
}

static void charge(struct job *j)
{
	for (size_t i = 0; i < j->q->n; i++) {
		struct weir_store_layer *y = &j->q->layer[i];
		struct work *w = j->at[i];
		__u64 delay_us = y->answer.delay_us;

		if (y->charged) {
			take(w, y, j->now_us);
			look_now(w, y, j->now_us, &y->answer);
			y->answer.retry_after_us = 0;
			y->answer.delay_us = delay_us;
			keep_charged(w, y, j->now_us);
			if (j->fresh[i])
				charge_fresh(j->fresh[i], y->fresh, j->now_us);
		} else if (w->entry && !j->q->peek) {
			leave(w, y);
		}
		shift(&y->answer, j->now_us - j->q->now_us);
	}
}

static void decide(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct job j;
	int r;

	j.s = (struct embedded *)store;
	j.q = q;
	r = hold(&j);
	if (r >= 0) {
		judge(&j);
		r = prepare(&j);
		if (r >= 0)
			charge(&j);
		else
			for (size_t i = 0; i < q->n; i++)
				q->layer[i].charged = false;
		if (r == -ENOSPC)
			j.work[0].table->full++;
		let_go(&j);
	}
	done(q, r, data);
}

/* The ticket that the newest charge may have; a log's entries are taken off its end anyway. */
static struct weir_request_ticket newest(const struct work *w, const struct weir_store_layer *y,
					 __u64 now_us)
{
	struct weir_request_ticket t = {now_us, 0};

	switch (y->limit->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		t.us = w->fixed.start_us;
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		if (!w->state.sliding.current && w->state.sliding.index)
			t.us = (w->state.sliding.index - 1) * y->limit->sliding.window_us;
		break;
	case WEIR_REQUEST_TOKEN_BUCKET:
		t.us = w->entry->state.bucket.us;
		break;
	case WEIR_REQUEST_LEAKY_BUCKET:
		t = weir_request_queue_ticket(w->state.bucket, &y->limit->bucket, now_us);
		break;
	default:
		break;
	}
	return t;
}

static void give_back(struct work *w, struct weir_store_layer *y, __u64 now_us, bool is_newest)
{
	const struct weir_store_limit *l = y->limit;

	if (is_newest)
		y->ticket = newest(w, y, now_us);
	y->charged = false;
	switch (l->algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		w->state.fixed =
			weir_request_fixed_refund(w->state.fixed, &w->fixed, y->ticket, y->cost);
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		if (is_newest)
			w->state.log.count -=
				y->cost < w->state.log.count ? (__u32)y->cost : w->state.log.count;
		else
			weir_request_log_refund(&w->state.log, y->ticket, y->cost);
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		w->state.sliding = weir_request_sliding_refund(w->state.sliding, &l->sliding,
							       y->ticket, y->cost);
		break;
	case WEIR_REQUEST_LEAKY_BUCKET:
		y->charged = !weir_request_queue_cancel(w->state.bucket, &l->bucket, now_us,
							y->ticket, y->cost, &w->state.bucket);
		break;
	default:
		w->state.bucket = weir_request_bucket_refund(w->state.bucket, &l->bucket, now_us,
							     y->ticket, y->cost);
	}
}

/* Where a layer was charged: @instead if it says so, or, where that is not known, if its own key has no state. */
static struct work *charged_at(struct job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];

	if (!j->fresh[i])
		return j->at[i];
	if (j->q->newest)
		y->used_instead = !is_live(j->at[i], j->now_us);
	return y->used_instead ? j->fresh[i] + 1 : j->at[i];
}

static void refund(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct job j;
	int r;

	j.s = (struct embedded *)store;
	j.q = q;
	r = hold(&j);
	if (r >= 0) {
		for (size_t i = 0; i < q->n; i++) {
			struct weir_store_layer *y = &q->layer[i];
			struct work *w = charged_at(&j, i);

			if (!y->charged)
				continue;
			if (!w->entry) { /* over long ago, or forgotten */
				y->charged = y->limit->algorithm == WEIR_REQUEST_LEAKY_BUCKET;
				continue;
			}
			settle(w, y, j.now_us);
			give_back(w, y, j.now_us, q->newest);
			keep(w, y);
		}
		let_go(&j);
	}
	done(q, r, data);
}

static void reset(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct job j;
	int r;

	j.s = (struct embedded *)store;
	j.q = q;
	r = hold(&j);
	if (r >= 0) {
		for (size_t i = 0; i < j.n; i++) {
			struct work *w = &j.work[i];

			if (i < q->n)
				q->layer[i].charged = is_live(w, j.now_us);
			if (i < q->n && w->entry) {
				weir_table_drop(w->table, &w->key);
				w->entry = NULL;
			}
		}
		let_go(&j);
	}
	done(q, r, data);
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	struct embedded *s = (struct embedded *)store;
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
	struct embedded *s = (struct embedded *)store;

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
	struct embedded *s = (struct embedded *)store;

	for (unsigned i = 0; i < s->shards; i++)
		weir_table_done(&s->table[i]);
	free(s);
}

static const struct weir_store_ops embedded_ops = {
	.name = "embedded",
	.decide = decide,
	.refund = refund,
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
	struct embedded *s;
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
