/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Giving back what a decision of the embedded store has charged: by the ticket of each layer, or the newest charge. */
#include "user/store/embedded_int.h"

/* The ticket that the newest charge may have; a log's entries are taken off its end anyway. */
static struct weir_request_ticket newest(const struct weir_embedded_work *w,
					 const struct weir_store_layer *y, __u64 now_us)
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

static void give_back(struct weir_embedded_work *w, struct weir_store_layer *y, __u64 now_us,
		      bool is_newest)
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
static struct weir_embedded_work *charged_at(struct weir_embedded_job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];

	if (!j->fresh[i])
		return j->at[i];
	if (j->q->newest)
		y->used_instead = !weir_embedded_is_live(j->at[i], j->now_us);
	return y->used_instead ? j->fresh[i] + 1 : j->at[i];
}

void weir_embedded_refund(struct weir_store *store, struct weir_store_request *q,
			  weir_store_done_fn *done, void *data)
{
	struct weir_embedded_job j;
	int r;

	j.s = (struct weir_embedded *)store;
	j.q = q;
	r = weir_embedded_hold(&j);
	if (r >= 0) {
		for (size_t i = 0; i < q->n; i++) {
			struct weir_store_layer *y = &q->layer[i];
			struct weir_embedded_work *w = charged_at(&j, i);

			if (!y->charged)
				continue;
			if (!w->entry) { /* over long ago, or forgotten */
				y->charged = y->limit->algorithm == WEIR_REQUEST_LEAKY_BUCKET;
				continue;
			}
			weir_embedded_settle(w, y, j.now_us);
			give_back(w, y, j.now_us, q->newest);
			weir_embedded_keep(w, y);
		}
		weir_embedded_let_go(&j);
	}
	done(q, r, data);
}
