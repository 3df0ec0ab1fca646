/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests of which leases pay for some limits; what is not covered is asked for, with something for later. See hot.h.
 * Called by hot.c.
 */
#include <event2/event.h>

#include "user/store/hot_int.h"

#define SWEEP_US 100000

/* The lease, unless it is another one's by now. */
static struct weir_hot_lease *lease_of(const struct weir_hot_piece *p)
{
	return p->lease && p->lease->used && p->lease->serial == p->lease_serial ? p->lease : NULL;
}

static void on_given_back(struct weir_store_request *part, int r, void *data)
{
	struct weir_hot_job *j = data;

	(void)part;
	(void)r; /* a failure loses them: never more is admitted */
	weir_hot_job_free(j);
}

/* @left of what @e took. */
static void give_back(struct weir_hot *s, const struct weir_hot_lease *e, __u64 left)
{
	struct weir_hot_job *j = left ? weir_hot_job_new(s, 1) : NULL;

	if (!j) {
		weir_hot_count(&s->n.lost, left);
		return;
	}
	j->limit = e->limit;
	j->layer[0] = e->layer;
	j->layer[0].limit = &j->limit;
	j->layer[0].cost = left;
	j->layer[0].charged = true;
	j->part.n = 1;
	j->part.now_us = s->now_us;
	weir_hot_count(&s->n.given_back, left);
	s->inner->ops->refund(s->inner, &j->part, on_given_back, j);
}

static void end_lease(struct weir_hot *s, struct weir_hot_lease *e)
{
	__u64 left = e->left, back = weir_hot_lease_end(e, s->now_us);

	weir_hot_count(&s->n.lost, left - back);
	if (back)
		give_back(s, e, back);
}

static bool is_over(const struct weir_hot_lease *e, __u64 now_us)
{
	return e->left && (now_us >= e->until_us || now_us < e->since_us);
}

static void arm(struct weir_hot *s)
{
	static const struct timeval in = {.tv_usec = SWEEP_US};

	if (s->timer && !s->timer_due)
		s->timer_due = event_add(s->timer, &in) == 0;
}

void weir_hot_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct weir_hot *s = arg;
	bool any = false;

	(void)fd;
	(void)what;
	s->timer_due = false;
	s->now_us += SWEEP_US; /* since the last question at least */
	weir_hot_check_generation(s);
	for (size_t i = 0; s->leases.at && i < WEIR_HOT_LEASES; i++) {
		struct weir_hot_lease *e = &s->leases.at[i];

		if (is_over(e, s->now_us))
			end_lease(s, e);
		any |= e->left;
	}
	if (any)
		arm(s);
}

/* A lease pays for it? What is not covered is asked for, with something for later. */
static void add_leased(struct weir_hot_job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];
	struct weir_hot *s = j->s;
	struct weir_hot_lease old, *e = weir_hot_lease_of(&s->leases, y, &old);

	if (old.left)
		give_back(s, &old, old.left);
	if (e && is_over(e, s->now_us))
		end_lease(s, e);
	if (!e || e->left < y->cost) {
		weir_hot_add_piece(j, i, e,
				   e ? weir_hot_lease_extra(e, y, s->now_us, weir_hot_takers(s))
				     : 0);
		return;
	}
	e->left -= y->cost;
	e->spent += y->cost;
	j->held[j->n_held++] =
		(struct weir_hot_piece){.i = (unsigned)i, .lease = e, .lease_serial = e->serial};
}

/* Of layers that leases pay for: spent, or back where they were. */
static void settle_held(struct weir_hot_job *j, bool admitted)
{
	for (size_t k = 0; k < j->n_held; k++) {
		struct weir_hot_lease *e = lease_of(&j->held[k]);
		struct weir_store_layer *y = &j->q->layer[j->held[k].i];

		weir_hot_show_unknown(y);
		y->charged = admitted;
		if (!e) {
			weir_hot_count(&j->s->n.lost, admitted ? 0 : y->cost);
			continue;
		}
		if (!admitted) {
			e->left += y->cost;
			e->spent -= y->cost < e->spent ? y->cost : e->spent;
		}
		y->ticket = e->layer.ticket;
		if (e->remaining + e->left < y->answer.remaining)
			y->answer.remaining = e->remaining + e->left;
		if (e->reset_us > j->q->now_us)
			y->answer.reset_after_us = e->reset_us - j->q->now_us;
	}
}

static void on_pieces(struct weir_store_request *part, int r, void *data);

/* Without anything for later: whether the request itself is admitted. Returns whether that is to be asked. */
static bool ask_again(struct weir_hot_job *j)
{
	bool again = false;

	for (size_t k = 0; k < j->part.n; k++)
		again |= j->piece[k].extra && !j->layer[k].admitted;
	for (size_t k = 0; k < j->part.n; k++) {
		struct weir_hot_piece *p = &j->piece[k];
		struct weir_hot_lease *e = p->extra ? lease_of(p) : NULL;

		if (e)
			e->taking = false;
		if (!again)
			continue;
		if (e)
			e->size = 0;
		p->extra = 0;
		j->layer[k] = j->q->layer[p->i];
	}
	if (again)
		j->s->inner->ops->decide(j->s->inner, &j->part, on_pieces, j);
	return again;
}

static void learn(struct weir_hot_job *j)
{
	struct weir_hot *s = j->s;

	for (size_t k = 0; k < j->part.n; k++) {
		struct weir_store_layer *y = &j->layer[k];
		struct weir_hot_piece *p = &j->piece[k];
		struct weir_hot_lease *e = lease_of(p);

		if (p->extra && e)
			e->taking = false;
		if (!p->extra)
			weir_hot_remember(s, y, j->part.now_us);
		if (!p->lease || !y->charged)
			continue;
		if (!e) {
			weir_hot_count(&s->n.lost, p->extra);
			continue;
		}
		weir_hot_count(&s->n.taken, p->extra > 0);
		weir_hot_lease_took(e, y, p->extra, j->part.now_us, weir_hot_takers(s));
		y->answer.remaining += e->left;
		if (p->extra)
			arm(s);
	}
}

static void fail(struct weir_hot_job *j, int r)
{
	for (size_t k = 0; k < j->part.n; k++) {
		struct weir_hot_lease *e = lease_of(&j->piece[k]);

		if (!e || !j->piece[k].extra)
			continue;
		e->taking = false;
		e->size = 0;
	}
	settle_held(j, false);
	for (size_t i = 0; i < j->q->n; i++)
		j->q->layer[i].charged = false;
	weir_hot_answer(j, r);
}

static void on_pieces(struct weir_store_request *part, int r, void *data)
{
	struct weir_hot_job *j = data;

	if (r < 0) {
		fail(j, r);
		return;
	}
	if (!part->admitted && ask_again(j))
		return;
	learn(j);
	weir_hot_take_over(j);
	j->q->admitted = part->admitted;
	settle_held(j, part->admitted);
	weir_hot_answer(j, 0);
}

bool weir_hot_can_lease(const struct weir_hot *s, const struct weir_store_layer *y)
{
	return s->o.lease && y->limit->lease && !y->monitor && !y->fresh && y->cost &&
	       y->cost <= weir_store_limit_room(y->limit);
}

/* Enough is held here for it? */
bool weir_hot_is_covered(struct weir_hot *s, const struct weir_store_layer *y)
{
	const struct weir_hot_lease *e =
		weir_hot_can_lease(s, y) ? weir_hot_lease_find(&s->leases, y) : NULL;

	return e && e->left >= y->cost && !is_over(e, s->now_us);
}

void weir_hot_ask(struct weir_hot *s, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct weir_hot_job *j = weir_hot_job_new(s, q->n);

	if (!j) {
		done(q, -ENOMEM, data);
		return;
	}
	j->q = q;
	j->done = done;
	j->data = data;
	j->part.now_us = q->now_us;
	for (size_t i = 0; i < q->n; i++) {
		if (weir_hot_can_lease(s, &q->layer[i]))
			add_leased(j, i);
		else
			weir_hot_add_piece(j, i, NULL, 0);
	}
	if (j->part.n) {
		s->inner->ops->decide(s->inner, &j->part, on_pieces, j);
		return;
	}
	weir_hot_count(&s->n.spent, 1);
	q->admitted = true;
	settle_held(j, true);
	weir_hot_answer(j, 0);
}
