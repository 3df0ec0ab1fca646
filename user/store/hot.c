/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to a far store, less what is known here; see hot.h. Called through the ops of store.h in one thread. */
#include "user/store/far.h"
#include "user/store/hot.h"

#include <event2/event.h>
#include <string.h>

#include "user/store/hot_int.h"

#define SPARE_MAX 1024 /* jobs that are kept */
#define ROOM	  8    /* layers of most of them */

/* What was known under other limits is void. */
void weir_hot_check_generation(struct weir_hot *s)
{
	__u64 generation = __atomic_load_n(&s->agent->generation, __ATOMIC_ACQUIRE);

	if (generation == s->generation)
		return;
	s->generation = generation;
	weir_hot_denied_clear(&s->denied);
	weir_hot_count(&s->n.lost, weir_hot_leases_clear(&s->leases));
}

/* --- jobs -------------------------------------------------------------------------------------------------------- */

struct weir_hot_job *weir_hot_job_new(struct weir_hot *s, size_t room)
{
	struct weir_hot_job *j;

	while ((j = s->spare)) {
		s->spare = j->next;
		s->n_spare--;
		if (j->room >= room)
			break;
		free(j);
	}
	if (!j) {
		room = room < ROOM ? ROOM : room;
		j = malloc(sizeof(*j) +
			   room * (sizeof(j->layer[0]) + 2 * sizeof(struct weir_hot_piece)));
		if (!j)
			return NULL;
		j->room = room;
		j->piece = (struct weir_hot_piece *)&j->layer[room];
		j->held = j->piece + room;
	}
	j->s = s;
	j->n_held = 0;
	j->part = (struct weir_store_request){.layer = j->layer};
	return j;
}

void weir_hot_job_free(struct weir_hot_job *j)
{
	struct weir_hot *s = j->s;

	if (s->n_spare >= SPARE_MAX) {
		free(j);
		return;
	}
	j->next = s->spare;
	s->spare = j;
	s->n_spare++;
}

void weir_hot_answer(struct weir_hot_job *j, int r)
{
	struct weir_store_request *q = j->q;
	weir_store_done_fn *done = j->done;
	void *data = j->data;

	weir_hot_job_free(j);
	done(q, r, data);
}

void weir_hot_add_piece(struct weir_hot_job *j, size_t i, struct weir_hot_lease *lease, __u64 extra)
{
	struct weir_store_layer *y = &j->layer[j->part.n];

	*y = j->q->layer[i];
	y->cost += extra;
	j->piece[j->part.n++] = (struct weir_hot_piece){.i = (unsigned)i,
							.lease = lease,
							.lease_serial = lease ? lease->serial : 0,
							.extra = extra};
	if (extra)
		lease->taking = true;
}

/* --- refusals ---------------------------------------------------------------------------------------------------- */

/* How long one is believed: all threads together ask less than ten times a second. */
static __u64 believed_us(const struct weir_hot *s)
{
	unsigned threads = weir_hot_takers(s);

	return threads > 8 ? threads * (WEIR_HOT_DENIED_US / 8) : WEIR_HOT_DENIED_US;
}

void weir_hot_remember(struct weir_hot *s, const struct weir_store_layer *y, __u64 now_us)
{
	if (s->o.deny && !y->admitted && !y->used_instead &&
	    y->answer.retry_after_us != WEIR_REQUEST_NEVER)
		weir_hot_denied_add(&s->denied, y, now_us, believed_us(s));
}

/* As far as is known here: untouched. */
void weir_hot_show_unknown(struct weir_store_layer *y)
{
	y->admitted = true;
	y->charged = y->used_instead = false;
	y->answer = (struct weir_request_answer){.remaining = weir_store_limit_room(y->limit)};
}

/* The answers to the pieces. */
void weir_hot_take_over(struct weir_hot_job *j)
{
	for (size_t k = 0; k < j->part.n; k++) {
		struct weir_store_layer *y = &j->q->layer[j->piece[k].i];
		__u64 cost = y->cost;

		*y = j->layer[k];
		y->cost = cost;
	}
}

static void on_monitors(struct weir_store_request *part, int r, void *data)
{
	struct weir_hot_job *j = data;

	for (size_t k = 0; r >= 0 && k < part->n; k++)
		weir_hot_remember(j->s, &j->layer[k], part->now_us);
	if (r >= 0)
		weir_hot_take_over(j);
	weir_hot_answer(j, 0); /* it is refused whatever they say */
}

/* Some enforcing limit is known to refuse: nothing is charged but monitor limits, which count by themselves. */
static void refuse(struct weir_hot *s, struct weir_store_request *q, __u64 denied,
		   weir_store_done_fn *done, void *data)
{
	struct weir_hot_job *j = NULL;

	q->admitted = false;
	weir_hot_count(&s->n.denied, 1);
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		if (denied >> i & 1)
			continue; /* filled in where it was found */
		if (y->monitor && !j) {
			j = weir_hot_job_new(s, q->n);
			if (j)
				j->q = q;
		}
		if (y->monitor && j)
			weir_hot_add_piece(j, i, NULL, 0);
		weir_hot_show_unknown(y);
	}
	if (!j) {
		done(q, 0, data);
		return;
	}
	j->done = done;
	j->data = data;
	j->part.now_us = q->now_us;
	s->inner->ops->decide(s->inner, &j->part, on_monitors, j);
}

/* --- ops --------------------------------------------------------------------------------------------------------- */

static void on_plain(struct weir_store_request *q, int r, void *data)
{
	struct weir_hot_job *j = data;

	for (size_t i = 0; r >= 0 && i < q->n; i++)
		weir_hot_remember(j->s, &q->layer[i], q->now_us);
	weir_hot_answer(j, r);
}

static void decide(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct weir_hot *s = (struct weir_hot *)store;
	bool lease = false, refused = false;
	__u64 denied = 0;
	struct weir_hot_job *j;

	s->now_us = q->now_us;
	if (q->peek || q->n > WEIR_STORE_LAYERS_MAX) {
		s->inner->ops->decide(s->inner, q, done, data);
		return;
	}
	weir_hot_check_generation(s);
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		lease |= weir_hot_can_lease(s, y);
		if (weir_hot_is_covered(s, y) || !weir_hot_denied_find(&s->denied, y, q->now_us))
			continue;
		denied |= 1ull << i;
		refused |= !y->monitor;
	}
	if (refused) {
		refuse(s, q, denied, done, data);
		return;
	}
	if (lease) {
		weir_hot_ask(s, q, done, data);
		return;
	}
	j = s->o.deny ? weir_hot_job_new(s, 0) : NULL;
	if (!j) { /* then nothing is remembered */
		s->inner->ops->decide(s->inner, q, done, data);
		return;
	}
	j->q = q;
	j->done = done;
	j->data = data;
	s->inner->ops->decide(s->inner, q, on_plain, j);
}

static void refund(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct weir_hot *s = (struct weir_hot *)store;

	s->now_us = q->now_us;
	for (size_t i = 0; i < q->n && s->denied.at; i++)
		weir_hot_denied_drop(&s->denied, &q->layer[i]);
	s->inner->ops->refund(s->inner, q, done, data);
}

static void reset(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct weir_hot *s = (struct weir_hot *)store;

	weir_hot_forget(s->agent); /* other threads too */
	s->inner->ops->reset(s->inner, q, done, data);
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	struct weir_hot *s = (struct weir_hot *)store;

	s->inner->ops->stats(s->inner, ret);
}

static void far(struct weir_store *store, struct weir_far_stats *ret)
{
	weir_store_far_stats(((struct weir_hot *)store)->inner, ret);
}

static void sweep(struct weir_store *store, __u64 now_us, size_t most)
{
	struct weir_hot *s = (struct weir_hot *)store;

	s->inner->ops->sweep(s->inner, now_us, most);
}

static void hot_free(struct weir_store *store)
{
	struct weir_hot *s = (struct weir_hot *)store;

	weir_store_free(s->inner); /* it answers what it still has */
	if (s->o.lease)
		(void)__atomic_sub_fetch(&s->agent->takers, 1, __ATOMIC_RELAXED);
	if (s->timer)
		event_free(s->timer);
	for (struct weir_hot_job *j = s->spare, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	free(s->denied.at);
	free(s->leases.at);
	free(s);
}

static const struct weir_store_ops hot_ops = {
	.name = "hot",
	.decide = decide,
	.refund = refund,
	.reset = reset,
	.stats = stats,
	.sweep = sweep,
	.far = far,
	.free = hot_free,
};

int weir_store_hot_new(struct weir_store *inner, struct weir_hot_agent *agent,
		       const struct weir_hot_options *o, struct weir_store **ret)
{
	struct weir_hot *s = calloc(1, sizeof(*s));

	if (s && o->base && o->lease) {
		s->timer = evtimer_new(o->base, weir_hot_on_timer, s);
		if (!s->timer) {
			free(s);
			s = NULL;
		}
	}
	if (!s) {
		weir_store_free(inner);
		return -ENOMEM;
	}
	s->store.ops = &hot_ops;
	s->store.away = inner->away;
	s->inner = inner;
	s->agent = agent;
	s->o = *o;
	s->generation = __atomic_load_n(&agent->generation, __ATOMIC_ACQUIRE);
	if (o->lease)
		(void)__atomic_add_fetch(&agent->takers, 1, __ATOMIC_RELAXED);
	*ret = &s->store;
	return 0;
}

void weir_store_hot_stats(const struct weir_store *store, struct weir_hot_stats *ret)
{
	const struct weir_hot *s = (const struct weir_hot *)store;

	ret->denied = __atomic_load_n(&s->n.denied, __ATOMIC_RELAXED);
	ret->spent = __atomic_load_n(&s->n.spent, __ATOMIC_RELAXED);
	ret->taken = __atomic_load_n(&s->n.taken, __ATOMIC_RELAXED);
	ret->given_back = __atomic_load_n(&s->n.given_back, __ATOMIC_RELAXED);
	ret->lost = __atomic_load_n(&s->n.lost, __ATOMIC_RELAXED);
}
