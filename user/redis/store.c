/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store's side of store.h: one job for each request under way, answered by its node, or when its deadline has
 * passed. Layers in several slots of a Cluster: all are judged, then, if all admit, charged, and given back where
 * somebody else was faster: nothing is over-admitted, and over-charged is at most what is under way.
 */
#include <event2/event.h>
#include <pthread.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "user/base/log.h"
#include "user/base/str.h"
#include "user/redis/redis_int.h"

enum phase { WHOLE, JUDGING, COMMITTING, MONITORS, GIVING_BACK };

struct weir_redis_job {
	struct weir_redis_job *prev, *next; /* by deadline; or spare */
	struct weir_redis *s;
	struct weir_store_request *q;
	weir_store_done_fn *done;
	void *data;
	__u64 deadline_ns;
	enum weir_redis_op op;
	enum phase phase;
	int r, failed;	 /* of this phase; of the one whose charges are given back */
	unsigned n, due; /* items; those not answered yet */
	struct weir_redis_item one, *item;
	struct weir_redis_parted *parted; /* NULL: everything lives in one slot */
};

/* A request whose states live in several slots. A layer with @fresh is three here: its key, the bucket of new keys and
 * the stand-in key; which of them count is known when all have been judged.
 */
struct weir_redis_parted {
	struct weir_store_request q; /* of all */
	unsigned n;		     /* layers of the asker's request, which come first */
	__u64 counts;		     /* layers that are charged, or decide */
	__u64 buckets;		     /* of new keys, among them */
	unsigned more
		[WEIR_STORE_LAYERS_MAX]; /* of a layer with @fresh: its bucket; the stand-in is next */
	struct weir_store_layer layer[WEIR_STORE_LAYERS_MAX];
	struct weir_redis_item item[WEIR_STORE_LAYERS_MAX];
};

__u64 weir_redis_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000000000 + (__u64)t.tv_nsec;
}

/* Written by the loop's thread alone. */
void weir_redis_count(__u64 *counter, __u64 by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* --- time -------------------------------------------------------------------------------------------------------- */

void weir_redis_flush_soon(struct weir_redis *s)
{
	if (s->flush_due)
		return;
	s->flush_due = true;
	event_active(s->flush, EV_TIMEOUT, 0); /* after what is ready in this turn */
}

static void flush(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;

	(void)fd;
	(void)what;
	s->flush_due = false;
	s->turn_ns = 0;
	for (struct weir_redis_node *n = s->nodes; n; n = n->next)
		weir_redis_node_pump(n);
}

static void arm(struct event *e, __u64 ns)
{
	struct timeval t = {.tv_sec = (time_t)(ns / 1000000000),
			    .tv_usec = (long)(ns % 1000000000 / 1000) + 1};

	(void)event_add(e, &t); /* a timer that is there: nothing is allocated */
}

/* The time of this turn of the loop, as far as it matters for deadlines. */
static __u64 turn_ns(struct weir_redis *s)
{
	if (!s->turn_ns || !s->flush_due)
		s->turn_ns = weir_redis_now_ns();
	return s->turn_ns;
}

/* --- jobs -------------------------------------------------------------------------------------------------------- */

static struct weir_redis_job *job_new(struct weir_redis *s)
{
	struct weir_redis_job *j = s->spare_jobs;

	if (j)
		s->spare_jobs = j->next;
	else
		j = malloc(sizeof(*j));
	if (!j)
		return NULL;
	j->s = s;
	j->phase = WHOLE;
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

static void answer(struct weir_redis_job *j, int r)
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
	if (n)
		r = weir_redis_node_put(n, i);
	else
		weir_redis_count(&s->n.errors[WEIR_REDIS_ERROR_CONNECT], 1);
	if (r < 0)
		weir_redis_job_item_done(i, r);
}

/* --- layers in several slots --------------------------------------------------------------------------------------- */

/* Begins a phase with these layers of every item. Returns false if there are none. */
static bool begin_phase(struct weir_redis_job *j, enum phase phase, enum weir_redis_op op,
			__u64 layers)
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
		weir_redis_job_next(j);
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
	answer(j, r);
}

/* A phase of a parted request has been answered. */
static void next_phase(struct weir_redis_job *j)
{
	struct weir_redis_parted *p = j->parted;
	__u64 some;

	switch (j->phase) {
	case JUDGING:
		if (j->r < 0)
			break;
		choose(j);
		j->q->admitted = !layers_that(p, p->counts & ~p->buckets, refuses);
		some = j->q->admitted ? p->counts : monitors(p);
		if (j->q->peek || !begin_phase(j, j->q->admitted ? COMMITTING : MONITORS,
					       WEIR_REDIS_DECIDE, some))
			break;
		return;
	case COMMITTING:
		if (j->r >= 0 && !layers_that(p, p->counts & ~p->buckets, is_not_charged))
			break;
		j->q->admitted = false;
		j->failed = j->r;
		some = to_give_back(p);
		if (!begin_phase(j, GIVING_BACK, WEIR_REDIS_GIVE_BACK, some)) {
			j->r = j->failed;
			break;
		}
		return;
	case GIVING_BACK:
	case MONITORS:
		j->r = j->failed; /* the verdict was known before */
		break;
	default:
		break;
	}
	answer_parted(j, j->r);
}

void weir_redis_job_next(struct weir_redis_job *j)
{
	if (j->parted) {
		next_phase(j);
		return;
	}
	if (j->op == WEIR_REDIS_DECIDE)
		j->q->admitted = j->one.admitted;
	answer(j, j->r);
}

void weir_redis_job_item_done(struct weir_redis_item *i, int r)
{
	struct weir_redis_job *j = i->job;

	if (r < 0) {
		j->r = r;
		i->admitted = false;
	}
	if (!--j->due)
		weir_redis_job_next(j);
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
static int split(struct weir_redis_job *j)
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

/* --- requests ---------------------------------------------------------------------------------------------------- */

/* -EINVAL: too many layers, or one twice. */
static int look_over(const struct weir_store_request *q)
{
	__u64 id[WEIR_STORE_LAYERS_MAX][2];

	if (q->n > WEIR_STORE_LAYERS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < q->n; i++) {
		weir_redis_layer_id(q->layer[i].limit, q->layer[i].key, id[i]);
		for (size_t k = 0; k < i; k++)
			if (id[k][0] == id[i][0] && id[k][1] == id[i][1])
				return -EINVAL;
	}
	return 0;
}

/* In a Cluster: which slot; several: the request is parted. */
static int find_slots(struct weir_redis_job *j)
{
	bool same = true;

	if (j->s->url.kind != WEIR_REDIS_CLUSTER)
		return 0;
	j->one.slot = weir_redis_layer_slot(&j->q->layer[0]);
	for (size_t i = 0; i < j->q->n; i++)
		same = same && !j->q->layer[i].fresh &&
		       weir_redis_layer_slot(&j->q->layer[i]) == j->one.slot;
	return same ? 0 : split(j);
}

static void start(struct weir_redis *s, struct weir_store_request *q, enum weir_redis_op op,
		  weir_store_done_fn *done, void *data)
{
	struct weir_redis_job *j = NULL;
	int r = look_over(q);

	if (r >= 0 && !q->n) {
		q->admitted = true;
		done(q, 0, data);
		return;
	}
	if (r >= 0 && s->n_jobs >= s->o.waiting_max) {
		weir_redis_count(&s->n.errors[WEIR_REDIS_ERROR_QUEUE], 1);
		r = -EAGAIN;
	}
	if (r >= 0 && !(j = job_new(s)))
		r = -ENOMEM;
	if (r < 0) {
		done(q, r, data);
		return;
	}
	j->q = q;
	j->op = op;
	j->done = done;
	j->data = data;
	j->failed = 0;
	j->deadline_ns = turn_ns(s) + s->o.timeout_ns;
	j->one.q = q;
	j->one.layers = q->n == 64 ? ~0ull : (1ull << q->n) - 1;
	weir_redis_count(&s->n.decisions, op == WEIR_REDIS_DECIDE);
	r = find_slots(j);
	if (r < 0) {
		answer(j, r);
		return;
	}
	if (!s->deadline_due) {
		s->deadline_due = true;
		arm(s->deadline, s->o.timeout_ns);
	}
	if (!j->parted)
		post(&j->one, op);
	else if (op == WEIR_REDIS_DECIDE)
		(void)begin_phase(j, JUDGING, WEIR_REDIS_JUDGE, ~0ull);
	else
		(void)begin_phase(j, WHOLE, op, ~0ull);
}

static void decide(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_DECIDE, done, data);
}

static void refund(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		   void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_GIVE_BACK, done, data);
}

static void reset(struct weir_store *s, struct weir_store_request *q, weir_store_done_fn *done,
		  void *data)
{
	start((struct weir_redis *)s, q, WEIR_REDIS_FORGET, done, data);
}

/* Nobody waits any longer. What is charged already is given back; what is under way when its reply comes. */
static void give_up(struct weir_redis_job *j, int r)
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
			if (j->phase == GIVING_BACK && !sent)
				back = i->layers;
		} else if (j->phase == COMMITTING) {
			n = weir_redis_topology_node(s->topology, i->slot);
			back = layers_that(j->parted, i->layers, is_charged);
		}
		if (n && back)
			weir_redis_node_give_back(n, i->q, back);
	}
	if (j->phase == GIVING_BACK || j->phase == MONITORS)
		answer_parted(j, j->failed); /* the verdict is known */
	else
		answer(j, r);
	if (late && r == -ETIMEDOUT) /* last: it may fail other jobs */
		weir_redis_node_failure(late,
					late_sent ? WEIR_REDIS_ERROR_REPLY : WEIR_REDIS_ERROR_QUEUE,
					1,
					late_sent ? "no reply in time"
					: late->conn.state == WEIR_REDIS_CONN_READY
						? "requests wait too long for their turn"
						: "no connection in time");
}

static void deadline(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;
	__u64 now_ns = weir_redis_now_ns();

	(void)fd;
	(void)what;
	while (s->oldest && s->oldest->deadline_ns <= now_ns)
		give_up(s->oldest, -ETIMEDOUT);
	s->deadline_due = s->oldest != NULL;
	if (s->oldest)
		arm(s->deadline, s->oldest->deadline_ns - now_ns);
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis *s = arg;
	__u64 now_ns = weir_redis_now_ns();

	(void)fd;
	(void)what;
	for (struct weir_redis_node *n = s->nodes, *next; n; n = next) {
		next = n->next;
		weir_redis_node_tick(n, now_ns);
	}
	weir_redis_topology_tick(s->topology, now_ns);
}

/* --- what is shown ----------------------------------------------------------------------------------------------- */

/* The worst of the nodes in use. @n: whose health has changed; NULL: nodes came or went. */
static void show_health(struct weir_redis *s, const struct weir_redis_node *n, const char *cause)
{
	static const char *const names[] = {"healthy", "degraded", "open"};
	enum weir_redis_health worst = WEIR_REDIS_HEALTHY, before;
	char where[280] = "";
	struct timespec t;

	for (const struct weir_redis_node *i = s->nodes; i; i = i->next)
		if (i->in_map && i->breaker.health > worst)
			worst = i->breaker.health;
	clock_gettime(CLOCK_REALTIME, &t);
	(void)pthread_mutex_lock(&s->lock);
	before = s->shown.health;
	s->shown.health = worst;
	if (before != worst)
		s->shown.since_s = t.tv_sec;
	if (n && n->breaker.health != WEIR_REDIS_HEALTHY && (before < worst || !s->shown.cause[0]))
		(void)weir_str_copy(s->shown.cause, sizeof(s->shown.cause), cause);
	(void)pthread_mutex_unlock(&s->lock);
	if (before == worst || s->closing)
		return;
	weir_log(s->o.quiet		    ? WEIR_LOG_DEBUG
		 : worst == WEIR_REDIS_OPEN ? WEIR_LOG_ERROR
					    : WEIR_LOG_NOTICE,
		 "store_health", "health", "s", names[worst], "was", "s", names[before], "server",
		 "s", n ? weir_redis_conn_where(&n->conn, where, sizeof(where)) : NULL, "cause",
		 "s", cause, NULL);
}

void weir_redis_health_changed(struct weir_redis *s, struct weir_redis_node *n, const char *cause)
{
	show_health(s, n, cause);
}

void weir_redis_map_changed(struct weir_redis *s)
{
	show_health(s, NULL, "other nodes have the slots");
}

void weir_redis_show_server(struct weir_redis *s, const char *text)
{
	(void)pthread_mutex_lock(&s->lock);
	(void)weir_str_copy(s->shown.server, sizeof(s->shown.server), text);
	(void)pthread_mutex_unlock(&s->lock);
}

void weir_store_redis_stats(struct weir_store *store, struct weir_redis_stats *ret)
{
	struct weir_redis *s = (struct weir_redis *)store;
	struct weir_redis_stats n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->shown;
	(void)pthread_mutex_unlock(&s->lock);
#define READ(field) n.field = __atomic_load_n(&s->n.field, __ATOMIC_RELAXED)
	READ(decisions);
	READ(calls);
	for (size_t i = 0; i < ARRAY_LEN(n.errors); i++)
		READ(errors[i]);
	READ(reconnects);
	READ(script_loads);
	READ(redirects);
	READ(late_refunds);
	for (size_t i = 0; i < ARRAY_LEN(n.latency_n); i++)
		READ(latency_n[i]);
	READ(latency_sum_us);
#undef READ
	*ret = n;
}

static void stats(struct weir_store *store, struct weir_store_stats *ret)
{
	(void)store;
	*ret = (struct weir_store_stats){}; /* states are the server's to count */
}

static void sweep(struct weir_store *store, __u64 now_us, size_t most)
{
	(void)store;
	(void)now_us;
	(void)most; /* the server expires them */
}

/* --- coming and going -------------------------------------------------------------------------------------------- */

static void redis_free(struct weir_store *store)
{
	struct weir_redis *s = (struct weir_redis *)store;

	s->closing = true;
	while (s->oldest)
		give_up(s->oldest, -ECANCELED);
	weir_redis_ask_end(s);
	weir_redis_topology_free(s->topology);
	for (struct weir_redis_node *n = s->nodes, *next; n; n = next) {
		next = n->next;
		weir_redis_node_free(n);
	}
	for (struct weir_redis_call *c = s->spare_calls, *next; c; c = next) {
		next = c->next;
		free(c->command.at);
		free(c->part);
		free(c);
	}
	for (struct weir_redis_job *j = s->spare_jobs, *next; j; j = next) {
		next = j->next;
		free(j);
	}
	if (s->flush)
		event_free(s->flush);
	if (s->deadline)
		event_free(s->deadline);
	if (s->tick)
		event_free(s->tick);
	weir_redis_pack_done(&s->pack);
	free(s->late.at);
	weir_hi_tls_free(s->tls);
	weir_redis_url_done(&s->url);
	if (s->password)
		sodium_memzero(s->password, strlen(s->password));
	free(s->user);
	free(s->password);
	free(s->prefix);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

static const struct weir_store_ops redis_ops = {
	.name = "redis",
	.decide = decide,
	.refund = refund,
	.reset = reset,
	.stats = stats,
	.sweep = sweep,
	.free = redis_free,
};

static int copy_or_none(const char *first, const char *second, char **ret)
{
	const char *from = first ? first : second;

	*ret = from ? strdup(from) : NULL;
	return from && !*ret ? -ENOMEM : 0;
}

static int set_up(struct weir_redis *s, const struct weir_redis_options *o, struct weir_error *e)
{
	struct timeval t;
	int r = weir_redis_url_copy(o->url, &s->url);

	r = r < 0 ? r : copy_or_none(o->user, s->url.user, &s->user);
	r = r < 0 ? r : copy_or_none(o->password, s->url.password, &s->password);
	r = r < 0 ? r : copy_or_none(o->prefix, "weir:", &s->prefix);
	if (r < 0)
		return r;
	if (s->user && !s->password)
		return weir_error_set(e, -EINVAL, "a user (%s) needs a password", s->user);
	if (s->url.tls) {
		r = weir_hi_tls_new(o, &s->tls, e);
		if (r < 0)
			return r;
	}
	s->pack.prefix = s->prefix;
	/* Small calls, as a Cluster's slots make them, need more under way. */
	s->calls_max = s->url.kind == WEIR_REDIS_CLUSTER ? WEIR_REDIS_UNDER_WAY
							 : WEIR_REDIS_UNDER_WAY / o->batch_max;
	if (s->calls_max < WEIR_REDIS_CALLS_LEAST)
		s->calls_max = WEIR_REDIS_CALLS_LEAST;
	(void)snprintf(s->name, sizeof(s->name), "weir-%s", WEIR_VERSION);
	s->flush = event_new(s->base, -1, 0, flush, s);
	s->deadline = evtimer_new(s->base, deadline, s);
	s->tick = event_new(s->base, -1, EV_PERSIST, tick, s);
	if (!s->flush || !s->deadline || !s->tick)
		return -ENOMEM;
	t = (struct timeval){.tv_sec = (time_t)(o->probe_ns / 1000000000),
			     .tv_usec = (long)(o->probe_ns % 1000000000 / 1000)};
	if (event_add(s->tick, &t) < 0)
		return -ENOMEM;
	return weir_redis_topology_new(s, &s->topology);
}

int weir_store_redis_new(struct event_base *base, const struct weir_redis_options *o,
			 struct weir_store **ret, struct weir_error *e)
{
	struct weir_redis *s;
	int r;

	if (!o->timeout_ns || !o->probe_ns || !o->batch_max || o->batch_max > 1024 ||
	    !o->waiting_max || !o->breaker_errors ||
	    o->breaker_errors > WEIR_REDIS_BREAKER_ERRORS_MAX ||
	    (o->prefix && strlen(o->prefix) > WEIR_REDIS_PREFIX_MAX))
		return weir_error_set(e, -EINVAL, "numbers of the store are out of range");
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->store.ops = &redis_ops;
	s->base = base;
	s->o = *o;
	(void)pthread_mutex_init(&s->lock, NULL);
	r = set_up(s, o, e);
	if (r < 0) {
		redis_free(&s->store);
		return r;
	}
	*ret = &s->store;
	return 0;
}
