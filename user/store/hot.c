/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to a far store, less what is known here; see hot.h. Called through the ops of store.h in one thread. */
#include "user/store/hot.h"

#include <event2/event.h>
#include <string.h>

#include "user/store/hot_int.h"

#define SPARE_MAX 1024 /* jobs that are kept */
#define ROOM	  8    /* layers of most of them */
#define SWEEP_US  100000

struct hot {
	struct weir_store store;
	struct weir_store *inner;
	struct weir_hot_agent *agent;
	struct weir_hot_options o;
	__u64 generation;
	struct weir_hot_denied denied;
	struct weir_hot_leases leases;
	struct job *spare;
	size_t n_spare;
	struct event *timer; /* NULL: none */
	bool timer_due;
	__u64 now_us; /* of the last question */
	struct weir_hot_stats n;
};

/* A layer that the inner store is asked about, or that a lease pays for. */
struct piece {
	unsigned i; /* in the caller's request */
	unsigned lease_serial;
	struct weir_hot_lease *lease; /* NULL: none */
	__u64 extra;
};

struct job {
	struct hot *s;
	struct job *next; /* spare */
	struct weir_store_request *q;
	weir_store_done_fn *done;
	void *data;
	struct weir_store_request part; /* for the inner store */
	struct piece *piece;		/* of part's layers */
	size_t n_held;
	struct piece *held;	       /* of layers that leases pay for, once all is admitted */
	struct weir_store_limit limit; /* of what is given back */
	size_t room;
	struct weir_store_layer layer[];
};

/* Written by the thread that owns it, read by any. */
static void count(__u64 *counter, __u64 n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static unsigned takers(const struct hot *s)
{
	return __atomic_load_n(&s->agent->takers, __ATOMIC_RELAXED);
}

/* What was known under other limits is void. */
static void check_generation(struct hot *s)
{
	__u64 generation = __atomic_load_n(&s->agent->generation, __ATOMIC_ACQUIRE);

	if (generation == s->generation)
		return;
	s->generation = generation;
	weir_hot_denied_clear(&s->denied);
	count(&s->n.lost, weir_hot_leases_clear(&s->leases));
}

/* --- jobs -------------------------------------------------------------------------------------------------------- */

static struct job *job_new(struct hot *s, size_t room)
{
	struct job *j;

	while ((j = s->spare)) {
		s->spare = j->next;
		s->n_spare--;
		if (j->room >= room)
			break;
		free(j);
	}
	if (!j) {
		room = room < ROOM ? ROOM : room;
		j = malloc(sizeof(*j) + room * (sizeof(j->layer[0]) + 2 * sizeof(struct piece)));
		if (!j)
			return NULL;
		j->room = room;
		j->piece = (struct piece *)&j->layer[room];
		j->held = j->piece + room;
	}
	j->s = s;
	j->n_held = 0;
	j->part = (struct weir_store_request){.layer = j->layer};
	return j;
}

static void job_free(struct job *j)
{
	struct hot *s = j->s;

	if (s->n_spare >= SPARE_MAX) {
		free(j);
		return;
	}
	j->next = s->spare;
	s->spare = j;
	s->n_spare++;
}

static void answer(struct job *j, int r)
{
	struct weir_store_request *q = j->q;
	weir_store_done_fn *done = j->done;
	void *data = j->data;

	job_free(j);
	done(q, r, data);
}

static void add_piece(struct job *j, size_t i, struct weir_hot_lease *lease, __u64 extra)
{
	struct weir_store_layer *y = &j->layer[j->part.n];

	*y = j->q->layer[i];
	y->cost += extra;
	j->piece[j->part.n++] = (struct piece){.i = (unsigned)i,
					       .lease = lease,
					       .lease_serial = lease ? lease->serial : 0,
					       .extra = extra};
	if (extra)
		lease->taking = true;
}

/* The lease, unless it is another one's by now. */
static struct weir_hot_lease *lease_of(const struct piece *p)
{
	return p->lease && p->lease->used && p->lease->serial == p->lease_serial ? p->lease : NULL;
}

/* --- refusals ---------------------------------------------------------------------------------------------------- */

/* How long one is believed: all threads together ask less than ten times a second. */
static __u64 believed_us(const struct hot *s)
{
	unsigned threads = takers(s);

	return threads > 8 ? threads * (WEIR_HOT_DENIED_US / 8) : WEIR_HOT_DENIED_US;
}

static void remember(struct hot *s, const struct weir_store_layer *y, __u64 now_us)
{
	if (s->o.deny && !y->admitted && !y->used_instead &&
	    y->answer.retry_after_us != WEIR_REQUEST_NEVER)
		weir_hot_denied_add(&s->denied, y, now_us, believed_us(s));
}

/* As far as is known here: untouched. */
static void show_unknown(struct weir_store_layer *y)
{
	y->admitted = true;
	y->charged = y->used_instead = false;
	y->answer = (struct weir_request_answer){.remaining = weir_store_limit_room(y->limit)};
}

/* The answers to the pieces. */
static void take_over(struct job *j)
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
	struct job *j = data;

	for (size_t k = 0; r >= 0 && k < part->n; k++)
		remember(j->s, &j->layer[k], part->now_us);
	if (r >= 0)
		take_over(j);
	answer(j, 0); /* it is refused whatever they say */
}

/* Some enforcing limit is known to refuse: nothing is charged but monitor limits, which count by themselves. */
static void refuse(struct hot *s, struct weir_store_request *q, __u64 denied,
		   weir_store_done_fn *done, void *data)
{
	struct job *j = NULL;

	q->admitted = false;
	count(&s->n.denied, 1);
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		if (denied >> i & 1)
			continue; /* filled in where it was found */
		if (y->monitor && !j) {
			j = job_new(s, q->n);
			if (j)
				j->q = q;
		}
		if (y->monitor && j)
			add_piece(j, i, NULL, 0);
		show_unknown(y);
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

/* --- leases ------------------------------------------------------------------------------------------------------ */

static void on_given_back(struct weir_store_request *part, int r, void *data)
{
	struct job *j = data;

	(void)part;
	(void)r; /* a failure loses them: never more is admitted */
	job_free(j);
}

/* @left of what @e took. */
static void give_back(struct hot *s, const struct weir_hot_lease *e, __u64 left)
{
	struct job *j = left ? job_new(s, 1) : NULL;

	if (!j) {
		count(&s->n.lost, left);
		return;
	}
	j->limit = e->limit;
	j->layer[0] = e->layer;
	j->layer[0].limit = &j->limit;
	j->layer[0].cost = left;
	j->layer[0].charged = true;
	j->part.n = 1;
	j->part.now_us = s->now_us;
	count(&s->n.given_back, left);
	s->inner->ops->refund(s->inner, &j->part, on_given_back, j);
}

static void end_lease(struct hot *s, struct weir_hot_lease *e)
{
	__u64 left = e->left, back = weir_hot_lease_end(e, s->now_us);

	count(&s->n.lost, left - back);
	if (back)
		give_back(s, e, back);
}

static bool is_over(const struct weir_hot_lease *e, __u64 now_us)
{
	return e->left && (now_us >= e->until_us || now_us < e->since_us);
}

static void arm(struct hot *s)
{
	static const struct timeval in = {.tv_usec = SWEEP_US};

	if (s->timer && !s->timer_due)
		s->timer_due = event_add(s->timer, &in) == 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct hot *s = arg;
	bool any = false;

	(void)fd;
	(void)what;
	s->timer_due = false;
	s->now_us += SWEEP_US; /* since the last question at least */
	check_generation(s);
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
static void add_leased(struct job *j, size_t i)
{
	struct weir_store_layer *y = &j->q->layer[i];
	struct hot *s = j->s;
	struct weir_hot_lease old, *e = weir_hot_lease_of(&s->leases, y, &old);

	if (old.left)
		give_back(s, &old, old.left);
	if (e && is_over(e, s->now_us))
		end_lease(s, e);
	if (!e || e->left < y->cost) {
		add_piece(j, i, e, e ? weir_hot_lease_extra(e, y, s->now_us, takers(s)) : 0);
		return;
	}
	e->left -= y->cost;
	e->spent += y->cost;
	j->held[j->n_held++] =
		(struct piece){.i = (unsigned)i, .lease = e, .lease_serial = e->serial};
}

/* Of layers that leases pay for: spent, or back where they were. */
static void settle_held(struct job *j, bool admitted)
{
	for (size_t k = 0; k < j->n_held; k++) {
		struct weir_hot_lease *e = lease_of(&j->held[k]);
		struct weir_store_layer *y = &j->q->layer[j->held[k].i];

		show_unknown(y);
		y->charged = admitted;
		if (!e) {
			count(&j->s->n.lost, admitted ? 0 : y->cost);
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
static bool ask_again(struct job *j)
{
	bool again = false;

	for (size_t k = 0; k < j->part.n; k++)
		again |= j->piece[k].extra && !j->layer[k].admitted;
	for (size_t k = 0; k < j->part.n; k++) {
		struct piece *p = &j->piece[k];
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

static void learn(struct job *j)
{
	struct hot *s = j->s;

	for (size_t k = 0; k < j->part.n; k++) {
		struct weir_store_layer *y = &j->layer[k];
		struct piece *p = &j->piece[k];
		struct weir_hot_lease *e = lease_of(p);

		if (p->extra && e)
			e->taking = false;
		if (!p->extra)
			remember(s, y, j->part.now_us);
		if (!p->lease || !y->charged)
			continue;
		if (!e) {
			count(&s->n.lost, p->extra);
			continue;
		}
		count(&s->n.taken, p->extra > 0);
		weir_hot_lease_took(e, y, p->extra, j->part.now_us, takers(s));
		y->answer.remaining += e->left;
		if (p->extra)
			arm(s);
	}
}

static void fail(struct job *j, int r)
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
	answer(j, r);
}

static void on_pieces(struct weir_store_request *part, int r, void *data)
{
	struct job *j = data;

	if (r < 0) {
		fail(j, r);
		return;
	}
	if (!part->admitted && ask_again(j))
		return;
	learn(j);
	take_over(j);
	j->q->admitted = part->admitted;
	settle_held(j, part->admitted);
	answer(j, 0);
}

/* --- ops --------------------------------------------------------------------------------------------------------- */

static bool can_lease(const struct hot *s, const struct weir_store_layer *y)
{
	return s->o.lease && y->limit->lease && !y->monitor && !y->fresh && y->cost &&
	       y->cost <= weir_store_limit_room(y->limit);
}

/* Enough is held here for it? */
static bool is_covered(struct hot *s, const struct weir_store_layer *y)
{
	const struct weir_hot_lease *e =
		can_lease(s, y) ? weir_hot_lease_find(&s->leases, y) : NULL;

	return e && e->left >= y->cost && !is_over(e, s->now_us);
}

static void ask(struct hot *s, struct weir_store_request *q, weir_store_done_fn *done, void *data)
{
	struct job *j = job_new(s, q->n);

	if (!j) {
		done(q, -ENOMEM, data);
		return;
	}
	j->q = q;
	j->done = done;
	j->data = data;
	j->part.now_us = q->now_us;
	for (size_t i = 0; i < q->n; i++) {
		if (can_lease(s, &q->layer[i]))
			add_leased(j, i);
		else
			add_piece(j, i, NULL, 0);
	}
	if (j->part.n) {
		s->inner->ops->decide(s->inner, &j->part, on_pieces, j);
		return;
	}
	count(&s->n.spent, 1);
	q->admitted = true;
	settle_held(j, true);
	answer(j, 0);
}

static void on_plain(struct weir_store_request *q, int r, void *data)
{
	struct job *j = data;

	for (size_t i = 0; r >= 0 && i < q->n; i++)
		remember(j->s, &q->layer[i], q->now_us);
	answer(j, r);
}

static void decide(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	struct hot *s = (struct hot *)store;
	bool lease = false, refused = false;
	__u64 denied = 0;
	struct job *j;

	s->now_us = q->now_us;
	if (q->peek || q->n > WEIR_STORE_LAYERS_MAX) {
		s->inner->ops->decide(s->inner, q, done, data);
		return;
	}
	check_generation(s);
	for (size_t i = 0; i < q->n; i++) {
		struct weir_store_layer *y = &q->layer[i];

		lease |= can_lease(s, y);
		if (is_covered(s, y) || !weir_hot_denied_find(&s->denied, y, q->now_us))
			continue;
		denied |= 1ull << i;
		refused |= !y->monitor;
	}
	if (refused) {
		refuse(s, q, denied, done, data);
		return;
	}
	if (lease) {
		ask(s, q, done, data);
		return;
	}
	j = s->o.deny ? job_new(s, 0) : NULL;
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
	struct hot *s = (struct hot *)store;

	s->now_us = q->now_us;
	for (size_t i = 0; i < q->n && s->denied.at; i++)
		weir_hot_denied_drop(&s->denied, &q->layer[i]);
	s->inner->ops->refund(s->inner, q, done, data);
}

static void reset(struct weir_store *store, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	struct hot *s = (struct hot *)store;

	weir_hot_forget(s->agent); /* other threads too */
	s->inner->ops->reset(s->inner, q, done, data);
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	struct hot *s = (struct hot *)store;

	s->inner->ops->stats(s->inner, ret);
}

static void sweep(struct weir_store *store, __u64 now_us, size_t most)
{
	struct hot *s = (struct hot *)store;

	s->inner->ops->sweep(s->inner, now_us, most);
}

static void hot_free(struct weir_store *store)
{
	struct hot *s = (struct hot *)store;

	weir_store_free(s->inner); /* it answers what it still has */
	if (s->o.lease)
		(void)__atomic_sub_fetch(&s->agent->takers, 1, __ATOMIC_RELAXED);
	if (s->timer)
		event_free(s->timer);
	for (struct job *j = s->spare, *next; j; j = next) {
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
	.free = hot_free,
};

int weir_store_hot_new(struct weir_store *inner, struct weir_hot_agent *agent,
		       const struct weir_hot_options *o, struct weir_store **ret)
{
	struct hot *s = calloc(1, sizeof(*s));

	if (s && o->base && o->lease) {
		s->timer = evtimer_new(o->base, on_timer, s);
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
	const struct hot *s = (const struct hot *)store;

	ret->denied = __atomic_load_n(&s->n.denied, __ATOMIC_RELAXED);
	ret->spent = __atomic_load_n(&s->n.spent, __ATOMIC_RELAXED);
	ret->taken = __atomic_load_n(&s->n.taken, __ATOMIC_RELAXED);
	ret->given_back = __atomic_load_n(&s->n.given_back, __ATOMIC_RELAXED);
	ret->lost = __atomic_load_n(&s->n.lost, __ATOMIC_RELAXED);
}

struct weir_store *weir_store_hot_inner(const struct weir_store *store)
{
	return ((const struct hot *)store)->inner;
}
