/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests with a real Cluster share: nodes that join it, slots and their keys that move, load on a store of it. */
#ifndef WEIR_TEST_REDIS_CLUSTER_CASE_H
#define WEIR_TEST_REDIS_CLUSTER_CASE_H

#include "redis/fixture.h"

#include "user/redis/redis_int.h"

#define CLUSTER_NODES_MAX 12

struct cluster {
	/* set before cluster_make, may be left */
	const char *more; /* lines of redis.conf, for every node */
	bool tls; /* with the certificate in @tls_words, which replicas and the bus use too */

	int n, masters;
	struct redis_server node[CLUSTER_NODES_MAX];
	redisContext *c[CLUSTER_NODES_MAX]; /* NULL: it is stopped */
	char id[CLUSTER_NODES_MAX][48];
	__u16 port[CLUSTER_NODES_MAX]; /* that clients use */
	__u16 bus[CLUSTER_NODES_MAX];
};

#define CLUSTER_EACH(k, i)                                                                         \
	for (int i = 0; i < (k)->n; i++)                                                           \
		if ((k)->c[i])

static inline int cluster_run(struct cluster *k, int i)
{
	char text[4096], path[128], bus[8];
	struct redis_server *r = &k->node[i];
	redisReply *reply;

	r->tcp = true;
	if (!k->bus[i])
		k->bus[i] = redis_free_port();
	(void)snprintf(bus, sizeof(bus), "%u", k->bus[i]);
	if (k->tls && !k->port[i])
		k->port[i] = redis_free_port();
	(void)snprintf(text, sizeof(text), k->tls ? "%s\ntls-port %u\n" : "%s\n",
		       k->more ? k->more : "", k->port[i]);
	if (redis_file(r, "more.conf", text, path, sizeof(path)) < 0 ||
	    redis_start(r, "--cluster-enabled", "yes", "--cluster-port", bus,
			"--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
			"--cluster-allow-replica-migration", "no", "--include", path, NULL) < 0)
		return -1;
	if (!k->tls)
		k->port[i] = r->port;
	k->c[i] = redis_open(r);
	if (!k->c[i])
		return -1;
	reply = redis_do(k->c[i], "CLUSTER MYID");
	(void)snprintf(k->id[i], sizeof(k->id[i]), "%s", reply->str);
	freeReplyObject(reply);
	return 0;
}

/* A new node, known to the first that runs. */
static inline int cluster_add(struct cluster *k)
{
	int i = k->n, old = 0;

	if (i == CLUSTER_NODES_MAX || cluster_run(k, i) < 0)
		return -1;
	k->n++;
	while (old < i && !k->c[old])
		old++;
	return old == i || redis_int(k->c[old], "CLUSTER MEET 127.0.0.1 %u %u", k->port[i],
				     k->bus[i]) == 0
		       ? 0
		       : -1;
}

static inline bool cluster_all_say(struct cluster *k, const char *what)
{
	bool all = true;

	CLUSTER_EACH(k, i)
	{
		redisReply *r = redis_do(k->c[i], "CLUSTER INFO");

		all = all && r->type == REDIS_REPLY_STRING && strstr(r->str, what);
		freeReplyObject(r);
	}
	return all;
}

static inline bool cluster_knows(struct cluster *k, int nodes)
{
	char what[40];

	(void)snprintf(what, sizeof(what), "cluster_known_nodes:%d\r", nodes);
	return wait_for(cluster_all_say(k, what), 30000);
}

static inline bool cluster_is_up(struct cluster *k)
{
	return wait_for(cluster_all_say(k, "cluster_state:ok"), 30000);
}

/* Nodes from @first on replicate those from @master on. */
static inline bool cluster_replicate(struct cluster *k, int first, int master)
{
	for (int i = first; i < k->n; i++)
		if (!wait_for(!redis_int(k->c[i], "CLUSTER REPLICATE %s",
					 k->id[master + i - first]),
			      10000))
			return false;
	return true;
}

static inline int cluster_make(struct cluster *k, int masters, int nodes)
{
	k->masters = masters;
	for (int i = 0; i < nodes; i++)
		if (cluster_add(k) < 0)
			return -1;
	if (!cluster_knows(k, nodes))
		return -1;
	for (int i = 0; i < masters; i++)
		if (redis_int(k->c[i], "CLUSTER ADDSLOTSRANGE %d %d",
			      WEIR_REDIS_SLOTS * i / masters,
			      WEIR_REDIS_SLOTS * (i + 1) / masters - 1))
			return -1;
	if (!wait_for(cluster_all_say(k, "cluster_slots_assigned:16384"), 30000) ||
	    !cluster_replicate(k, masters, 0))
		return -1;
	return cluster_is_up(k) ? 0 : -1;
}

static inline void cluster_kill(struct cluster *k, int i)
{
	redisFree(k->c[i]);
	k->c[i] = NULL;
	redis_kill(&k->node[i]);
}

static inline void cluster_stop(struct cluster *k)
{
	for (int i = 0; i < CLUSTER_NODES_MAX; i++) {
		if (k->c[i])
			redisFree(k->c[i]);
		k->c[i] = NULL;
		redis_stop(&k->node[i]);
	}
}

/* --- slots --------------------------------------------------------------------------------------------------------- */

/* The @skip-th client whose keys are in the slots that master @m had at first. */
static inline __u64 cluster_client(const struct cluster *k, unsigned m, unsigned skip)
{
	unsigned masters = (unsigned)k->masters, from = WEIR_REDIS_SLOTS * m / masters + 1,
		 to = WEIR_REDIS_SLOTS * (m + 1) / masters - 1;
	struct weir_store_limit l = {};
	struct weir_store_layer y;

	for (__u64 c = 1;; c++) {
		y = request_layer(&l, c, 1);
		if (weir_redis_layer_slot(&y) >= from && weir_redis_layer_slot(&y) < to && !skip--)
			return c;
	}
}

static inline unsigned cluster_slot(__u64 client)
{
	struct weir_store_limit l = {};
	struct weir_store_layer y = request_layer(&l, client, 1);

	return weir_redis_layer_slot(&y);
}

/* Opens a slot for moving; cluster_move_keys and cluster_close_slot follow. */
static inline void cluster_open_slot(struct cluster *k, int from, int to, unsigned slot)
{
	assert_int_equal(redis_int(k->c[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, k->id[from]),
			 0);
	assert_int_equal(redis_int(k->c[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, k->id[to]),
			 0);
}

static inline void cluster_move_keys(struct cluster *k, int from, int to, unsigned slot)
{
	redisReply *keys, *r;

	for (;;) {
		keys = redis_do(k->c[from], "CLUSTER GETKEYSINSLOT %u 10", slot);
		assert_int_equal(keys->type, REDIS_REPLY_ARRAY);
		if (!keys->elements)
			break;
		for (size_t i = 0; i < keys->elements; i++) {
			r = redis_do(k->c[from], "MIGRATE 127.0.0.1 %u %s 0 5000", k->port[to],
				     keys->element[i]->str);
			if (r->type == REDIS_REPLY_ERROR)
				fail_msg("MIGRATE %s: %s", keys->element[i]->str, r->str);
			freeReplyObject(r);
		}
		freeReplyObject(keys);
	}
	freeReplyObject(keys);
}

static inline void cluster_close_slot(struct cluster *k, int from, int to, unsigned slot)
{
	assert_int_equal(redis_int(k->c[to], "CLUSTER SETSLOT %u NODE %s", slot, k->id[to]), 0);
	assert_int_equal(redis_int(k->c[from], "CLUSTER SETSLOT %u NODE %s", slot, k->id[to]), 0);
}

/* --- load ---------------------------------------------------------------------------------------------------------- */

/* What is left of @l for @client; nothing is charged. */
static inline __u64 remaining(struct fix *f, const struct weir_store_limit *l, __u64 client)
{
	struct ask a = {.y = {request_layer(l, client, 0)}};

	a.q.peek = true;
	ask_start(f, &a, 1);
	assert_true(fix_wait(f, a.r != 1, 10000));
	assert_int_equal(a.r, 0);
	return a.y[0].answer.remaining;
}

#define LOAD 64
/* So many requests are under way: with one layer of any client, or with layers of all of them. */
struct load {
	struct fix *f;
	struct weir_store *s;
	const struct weir_store_limit *l;
	struct ask a[LOAD];
	__u64 client[4];
	size_t clients, layers, running;
	size_t wide;   /* so many under way, LOAD if 0 */
	bool at_once;  /* each is followed by the next without a pause */
	bool together; /* all layers are one client's */
	const __u8 *
		tag; /* not NULL: each request is a new client's, whose states are in this tag's slot */
	size_t most; /* asks at most, if not 0 */
	size_t admitted, refused, failed, answered, asks;
	size_t by[4]; /* admitted, by client */
	__u64 seed;
	bool stop;
	int last_error;
};

static inline void load_done(struct weir_store_request *q, int r, void *data);

static inline void load_next(struct load *l, struct ask *a)
{
	size_t which = below(&l->seed, l->clients);
	__u64 one = l->tag ? (1ull << 32) + l->asks : l->client[which];

	l->asks++;
	for (size_t i = 0; i < l->layers; i++) {
		bool apart = l->layers > 1 && !l->together && !l->tag;

		a->y[i] = request_layer(&l->l[i], apart ? l->client[i] : one, 1);
		if (l->tag)
			memcpy(a->y[i].tag, l->tag, sizeof(a->y[i].tag));
	}
	a->q = (struct weir_store_request){.layer = a->y, .n = l->layers, .now_us = EPOCH};
	a->r = (int)which;
	a->owner = l;
	l->s->ops->decide(l->s, &a->q, load_done, a);
}

static inline void load_again(evutil_socket_t fd, short what, void *arg)
{
	struct ask *a = arg;

	(void)fd;
	(void)what;
	load_next(a->owner, a);
}

static inline void load_done(struct weir_store_request *q, int r, void *data)
{
	struct ask *a = data;
	struct load *l = a->owner;
	struct timeval soon = {.tv_usec = l->at_once ? 1 : 500};

	l->answered++;
	l->failed += r < 0;
	l->admitted += r >= 0 && q->admitted;
	l->refused += r >= 0 && !q->admitted;
	l->by[a->r] += r >= 0 && q->admitted;
	if (r < 0)
		l->last_error = r;
	if (l->stop || (l->most && l->asks >= l->most))
		l->running--;
	else
		(void)event_base_once(l->f->base, -1, EV_TIMEOUT, load_again, a, &soon);
}

static inline void load_start(struct load *l)
{
	size_t n = l->wide ? l->wide : LOAD;

	l->seed = 7;
	l->running = n;
	for (size_t i = 0; i < n; i++)
		load_next(l, &l->a[i]);
}

static inline void load_stop(struct load *l)
{
	l->stop = true;
	assert_true(fix_wait(l->f, !l->running, 10000));
}

#endif
