/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A request under way in the shared store. One whose states live in several slots of a Cluster is parted: all are judged,
 * then, if all admit, charged, and given back where somebody else was faster. So nothing is over-admitted, and
 * over-charged is at most what is under way. Called by store.c and, with answers, by batch.c.
 */
#include <string.h>

#include "user/redis/redis_int.h"

/* --- jobs -------------------------------------------------------------------------------------------------------- */

struct weir_redis_job *weir_redis_job_new(struct weir_redis *s)
{
	struct weir_redis_job *j = s->spare_jobs;

	if (j)
		s->spare_jobs = j->next;
	else
		j = malloc(sizeof(*j));
	if (!j)
		return NULL;
	j->s = s;
	j->phase = WEIR_REDIS_WHOLE;
	j->r = 0;
	j->n = j->due = 1;
	j->item = &j->one;
	j->one = (struct weir_redis_item){.job = j};
	j->parted = NULL;
	j->next = NULL;
	j->prev = s->newest;
	*(j->prev ? &j->prev->next : &s->oldest) = j;
	s->newest = j;
	s->n_jobs++;
	return j;
}

static void job_free(struct weir_redis_job *j)
{
	struct weir_redis *s = j->s;

	*(j->prev ? &j->prev->next : &s->oldest) = j->next;
	*(j->next ? &j->next->prev : &s->newest) = j->prev;
	s->n_jobs--;
	free(j->parted);
	j->next = s->spare_jobs;
	s->spare_jobs = j;
}

void weir_redis_job_answer(struct weir_redis_job *j, int r)
{
	struct weir_store_request *q = j->q;
	weir_store_done_fn *done = j->done;
	void *data = j->data;

	if (r < 0 && j->op == WEIR_REDIS_DECIDE)
		for (size_t i = 0; i < q->n; i++)
			q->layer[i].charged = false;
	job_free(j);
	done(q, r, data);
}

/* Sends one item's layers; what cannot be sent is answered like a reply. */
static void post(struct weir_redis_item *i, enum weir_redis_op op)
{
	struct weir_redis *s = i->job->s;
	struct weir_redis_node *n = weir_redis_topology_node(s->topology, i->slot);
	int r = -EHOSTDOWN;

	i->op = (__u8)op;
	if (n) {
		r = weir_redis_node_put(n, i);
	} else {
		weir_redis_count(&s->n.errors[WEIR_FAR_ERROR_CLUSTER], 1);
		weir_redis_topology_doubt(s->topology, NULL);
	}
	if (r < 0)
		weir_redis_job_item_done(i, r);
}

/* --- layers in several slots --------------------------------------------------------------------------------------- */

static void job_next(struct weir_redis_job *j);

/* Begins a phase with these layers of every item. Returns false if there are none. */
static bool begin_phase(struct weir_redis_job *j, enum weir_redis_phase phase,
			enum weir_redis_op op, __u64 layers)
{
	unsigned n = 0;

	j->phase = phase;
	j->r = 0;
	for (unsigned k = 0; k < j->n; k++) {
		j->item[k].layers = j->item[k].all & layers;
		n += !!j->item[k].layers;
	}
	if (!n)
		return false;
	j->due = n + 1; /* one for this loop: answers may come from it */
	for (unsigned k = 0; k < j->n; k++)
		if (j->item[k].layers)
			post(&j->item[k], op);
	if (!--j->due)
		job_next(j);
	return true;
}

/* Which layers count, now that all have been judged: a new key must be worth a token of its address's bucket. */
static void choose(struct weir_redis_job *j)
{
	struct weir_redis_parted *p = j->parted;
	__u64 live = 0;

	for (unsigned k = 0; k < j->n; k++)
		live |= j->item[k].live;
	p->counts = p->buckets = 0;
	for (unsigned i = 0; i < p->n; i++) {
		unsigned bucket = p->more[i];

		if (!bucket || live & 1ull << i) {
			p->counts |= 1ull << i;
		} else if (p->layer[bucket].admitted) {
			p->counts |= 1ull << i | 1ull << bucket;
			p->buckets |= 1ull << bucket;
		} else {
			p->counts |= 1ull << (bucket + 1);
		}
	}
}

static __u64 layers_that(const struct weir_redis_parted *p, __u64 among,
			 bool (*want)(const struct weir_store_layer *y))
{
	__u64 some = 0;

	for (; among; among &= among - 1)
		if (want(&p->layer[__builtin_ctzll(among)]))
			some |= among & -among;
	return some;
}

static bool refuses(const struct weir_store_layer *y)
{
	return !y->monitor && !y->admitted;
}

static bool is_not_charged(const struct weir_store_layer *y)
{
	return !y->monitor && (!y->admitted || (y->cost && !y->charged));
}

static bool is_admitted_monitor(const struct weir_store_layer *y)
{
	return y->monitor && y->admitted && y->cost;
}

static bool is_charged(const struct weir_store_layer *y)
{
	return y->charged;
}

static bool is_charged_enforcing(const struct weir_store_layer *y)
{
	return !y->monitor && y->charged;
}

/* Monitor layers are charged alone, and with them the buckets of their new keys. */
static __u64 monitors(const struct weir_redis_parted *p)
{
	__u64 some = layers_that(p, p->counts & ~p->buckets, is_admitted_monitor), buckets = 0;

	for (unsigned i = 0; i < p->n; i++)
		if (some & 1ull << i && p->more[i])
			buckets |= p->buckets & 1ull << p->more[i];
	return some | buckets;
}

/* Buckets of new keys whose layer is no monitor are given back with it. */
static __u64 to_give_back(const struct weir_redis_parted *p)
{
	__u64 some = layers_that(p, p->counts & ~p->buckets, is_charged_enforcing);

	for (unsigned i = 0; i < p->n; i++)
		if (p->more[i] && !p->layer[i].monitor && p->layer[p->more[i]].charged)
			some |= p->buckets & 1ull << p->more[i];
	return some;
}

/* What the asker is told of each of its layers. */
static void tell_asker(struct weir_redis_job *j)
{
	struct weir_redis_parted *p = j->parted;

	for (unsigned i = 0; i < p->n; i++) {
		struct weir_store_layer *to = &j->q->layer[i];
		bool instead = p->more[i] && p->counts & 1ull << (p->more[i] + 1);
		const struct weir_store_layer *y = &p->layer[instead ? p->more[i] + 1 : i];

		to->charged = y->charged;
		if (j->op != WEIR_REDIS_DECIDE)
			continue;
		to->answer = y->answer;
		to->ticket = y->ticket;
		to->admitted = y->admitted;
		to->used_instead = instead;
	}
}

static void answer_parted(struct weir_redis_job *j, int r)
{
	if (r >= 0)
		tell_asker(j);
	weir_redis_job_answer(j, r);
}

/* A phase of a parted request has been answered. */
static void next_phase(struct weir_redis_job *j)
{
	struct weir_redis_parted *p = j->parted;
	__u64 some;

	switch (j->phase) {
	case WEIR_REDIS_JUDGING:
		if (j->r < 0)
			break;
		choose(j);
		j->q->admitted = !layers_that(p, p->counts & ~p->buckets, refuses);
		some = j->q->admitted ? p->counts : monitors(p);
		if (j->q->peek ||
		    !begin_phase(j, j->q->admitted ? WEIR_REDIS_COMMITTING : WEIR_REDIS_MONITORS,
				 WEIR_REDIS_DECIDE, some))
			break;
		return;
	case WEIR_REDIS_COMMITTING:
		if (j->r >= 0 && !layers_that(p, p->counts & ~p->buckets, is_not_charged))
			break;
		j->q->admitted = false;
		j->failed = j->r;
		some = to_give_back(p);
		if (!begin_phase(j, WEIR_REDIS_GIVING_BACK, WEIR_REDIS_GIVE_BACK, some)) {
			j->r = j->failed;
			break;
		}
		return;
	case WEIR_REDIS_GIVING_BACK:
	case WEIR_REDIS_MONITORS:
		j->r = j->failed; /* the verdict was known before */
		break;
	default:
		break;
	}
	answer_parted(j, j->r);
}

static void job_next(struct weir_redis_job *j)
{
	if (j->parted) {
		next_phase(j);
		return;
	}
	if (j->op == WEIR_REDIS_DECIDE)
		j->q->admitted = j->one.admitted;
	weir_redis_job_answer(j, j->r);
}

void weir_redis_job_item_done(struct weir_redis_item *i, int r)
{
	struct weir_redis_job *j = i->job;

	if (r < 0) {
		j->r = r;
		i->admitted = false;
	}
	if (!--j->due)
		job_next(j);
}

/* The bucket of new keys and the stand-in of layer @i, as layers of their own. */
static void add_fresh(struct weir_redis_parted *p, unsigned i)
{
	struct weir_store_layer *y = &p->layer[i], *bucket = &p->layer[p->q.n];

	p->more[i] = (unsigned)p->q.n;
	p->q.n += 2;
	bucket[1] = *y;
	memcpy(bucket[1].key, y->instead, sizeof(y->instead));
	memcpy(bucket[1].tag, y->instead_tag, sizeof(y->instead_tag));
	bucket[1].fresh = NULL;
	bucket[0] = (struct weir_store_layer){.limit = y->fresh, .cost = 1, .monitor = true};
	memcpy(bucket[0].key, y->instead, sizeof(y->instead));
	memcpy(bucket[0].tag, y->instead_tag, sizeof(y->instead_tag));
	y->fresh = NULL;
}

static struct weir_redis_item *item_of_slot(struct weir_redis_job *j, __u16 slot)
{
	struct weir_redis_parted *p = j->parted;
	unsigned k = 0;

	while (k < j->n && p->item[k].slot != slot)
		k++;
	if (k == j->n) {
		p->item[k] = (struct weir_redis_item){.job = j, .slot = slot, .q = &p->q};
		j->n++;
	}
	return &p->item[k];
}

/* Copies the request and parts its layers by slot. -ENOMEM; -EINVAL: too many layers. */
int weir_redis_job_split(struct weir_redis_job *j)
{
	struct weir_redis_parted *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	j->parted = p;
	j->item = p->item;
	j->n = 0;
	p->q = *j->q;
	p->q.layer = p->layer;
	p->n = (unsigned)p->q.n;
	p->counts = ~0ull;
	memcpy(p->layer, j->q->layer, p->n * sizeof(*p->layer));
	for (unsigned i = 0; i < p->n; i++) {
		struct weir_store_layer *y = &p->layer[i];

		if (!y->fresh)
			continue;
		if (j->op == WEIR_REDIS_DECIDE) {
			if (p->q.n + 2 > WEIR_STORE_LAYERS_MAX)
				return -EINVAL;
			add_fresh(p, i);
		} else if (y->used_instead && !p->q.newest) {
			memcpy(y->key, y->instead, sizeof(y->key));
			memcpy(y->tag, y->instead_tag, sizeof(y->tag));
		}
		y->fresh = NULL;
	}
	for (unsigned i = 0; i < p->q.n; i++)
		item_of_slot(j, weir_redis_layer_slot(&p->layer[i]))->all |= 1ull << i;
	return 0;
}

/* All layers of @i but the first go to items of their own. */
static void part_layers(struct weir_redis_job *j, struct weir_redis_item *i)
{
	__u64 layers = i->layers, rest = i->all & ~(layers & -layers);

	i->layers = i->all = layers & -layers;
	for (; rest; rest &= rest - 1)
		j->item[j->n++] = (struct weir_redis_item){
			.job = j,
			.slot = i->slot,
			.q = i->q,
			.layers = layers & rest & -rest,
			.all = rest & -rest,
		};
}

/* Sends @i, and the items from @from on that were parted from it. */
static void post_parted(struct weir_redis_job *j, struct weir_redis_item *i, unsigned from)
{
	enum weir_redis_op op = (enum weir_redis_op)i->op;

	for (unsigned k = from; k < j->n; k++)
		j->due += !!j->item[k].layers;
	j->due++; /* one for this loop: answers may come from it */
	post(i, op);
	for (unsigned k = from; k < j->n; k++)
		if (j->item[k].layers)
			post(&j->item[k], op);
	if (!--j->due)
		job_next(j);
}

bool weir_redis_item_break_up(struct weir_redis_item *i)
{
	struct weir_redis_job *j = i->job;
	unsigned from = j->n;
	int r;

	if (!(i->layers & (i->layers - 1)))
		return false;
	i->node = NULL;
	i->call = NULL;
	if (j->parted) {
		part_layers(j, i);
		post_parted(j, i, from);
		return true;
	}
	r = weir_redis_job_split(j);
	if (r < 0) {
		weir_redis_job_answer(j, r);
		return true;
	}
	j->item[0].layers = j->item[0].all;
	part_layers(j, &j->item[0]);
	weir_redis_job_go(j);
	return true;
}

/* Sends what was parted or not. */
void weir_redis_job_go(struct weir_redis_job *j)
{
	if (!j->parted)
		post(&j->one, j->op);
	else if (j->op == WEIR_REDIS_DECIDE)
		(void)begin_phase(j, WEIR_REDIS_JUDGING, WEIR_REDIS_JUDGE, ~0ull);
	else
		(void)begin_phase(j, WEIR_REDIS_WHOLE, j->op, ~0ull);
}

/* Nobody waits any longer. What is charged already is given back; what is under way when its reply comes. */
void weir_redis_job_give_up(struct weir_redis_job *j, int r)
{
	struct weir_redis *s = j->s;
	struct weir_redis_node *late = NULL, *n;
	bool late_sent = false, sent;
	__u64 back;

	for (unsigned k = 0; k < j->n; k++) {
		struct weir_redis_item *i = &j->item[k];

		back = 0;
		n = i->node;
		if (n) {
			sent = weir_redis_item_abandon(i);
			late = n;
			late_sent |= sent;
			if (j->phase == WEIR_REDIS_GIVING_BACK && !sent)
				back = i->layers;
		} else if (j->phase == WEIR_REDIS_COMMITTING) {
			n = weir_redis_topology_node(s->topology, i->slot);
			back = layers_that(j->parted, i->layers, is_charged);
		}
		if (n && back)
			weir_redis_node_give_back(n, i->q, back);
	}
	if (j->phase == WEIR_REDIS_GIVING_BACK || j->phase == WEIR_REDIS_MONITORS)
		answer_parted(j, j->failed); /* the verdict is known */
	else
		weir_redis_job_answer(j, r);
	if (late && r == -ETIMEDOUT) /* last: it may fail other jobs */
		weir_redis_node_failure(late,
					late_sent ? WEIR_FAR_ERROR_REPLY : WEIR_FAR_ERROR_QUEUE, 1,
					late_sent ? "no reply in time"
					: late->conn.state == WEIR_REDIS_CONN_READY
						? "requests wait too long for their turn"
						: "no connection in time");
}
