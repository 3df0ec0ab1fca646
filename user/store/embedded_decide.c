/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A decision of the embedded store: every layer is judged, what charging needs is made sure of, then all are charged or
 * none.
 */
#include "user/store/embedded_int.h"

#include <string.h>

static bool is_log(const struct weir_store_layer *y)
{
	return y->limit->algorithm == WEIR_REQUEST_SLIDING_LOG;
}

static void look(const struct weir_embedded_work *w, const struct weir_store_layer *y, __u64 now_us,
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

static void take(struct weir_embedded_work *w, struct weir_store_layer *y, __u64 now_us)
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

static void keep_charged(struct weir_embedded_work *w, const struct weir_store_layer *y,
			 __u64 now_us)
{
	struct weir_request_sliding_state s;

	if (y->limit->algorithm == WEIR_REQUEST_SLIDING_COUNTER) {
		s = weir_request_sliding_roll(w->entry->state.sliding, &y->limit->sliding, now_us);
		w->state.sliding = weir_request_sliding_take(s, y->cost);
	}
	weir_embedded_keep(w, y);
}

/* A refusal changes no count: what its plan's numbers clamp, another plan may still need. Only the time from which the
 * state is over may have moved, where the numbers were changed.
 */
static void leave(struct weir_embedded_work *w, const struct weir_store_layer *y)
{
	__u64 idle_us = weir_embedded_idle_us(w, y->limit);

	if (w->entry->idle_us < idle_us)
		w->entry->idle_us = idle_us;
}

static int add_entry(struct weir_embedded_work *w, __u64 now_us)
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
static int prepare(struct weir_embedded_job *j)
{
	int r;

	for (size_t i = 0; i < j->q->n; i++) {
		struct weir_store_layer *y = &j->q->layer[i];
		struct weir_embedded_work *w = j->at[i];

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
static void look_now(const struct weir_embedded_work *w, const struct weir_store_layer *y,
		     __u64 now_us, struct weir_request_answer *ret)
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
static void welcome(struct weir_embedded_job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];
	struct weir_embedded_work *bucket = j->fresh[i];
	struct weir_request_answer a;

	if (weir_embedded_is_live(j->at[i], j->now_us)) {
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

static void judge(struct weir_embedded_job *j)
{
	struct weir_store_request *q = j->q;

	q->admitted = true;
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		y->used_instead = false;
		if (j->fresh[i])
			welcome(j, i);
		weir_embedded_settle(j->at[i], y, j->now_us);
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

static void charge_fresh(struct weir_embedded_work *w, const struct weir_store_limit *l,
			 __u64 now_us)
{
	w->state.bucket = weir_request_bucket_take(w->state.bucket, &l->bucket, now_us, 1);
	w->entry->idle_us = weir_request_bucket_idle(w->state.bucket, &l->bucket);
	w->entry->state = w->state;
}

static void charge(struct weir_embedded_job *j)
{
	for (size_t i = 0; i < j->q->n; i++) {
		struct weir_store_layer *y = &j->q->layer[i];
		struct weir_embedded_work *w = j->at[i];
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

void weir_embedded_decide(struct weir_store *store, struct weir_store_request *q,
			  weir_store_done_fn *done, void *data)
{
	struct weir_embedded_job j;
	int r;

	j.s = (struct weir_embedded *)store;
	j.q = q;
	r = weir_embedded_hold(&j);
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
		weir_embedded_let_go(&j);
	}
	done(q, r, data);
}
