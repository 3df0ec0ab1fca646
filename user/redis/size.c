/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many keys are under the prefix and what they take, by a sample every 15 seconds: DBSIZE, a SCAN of some hundred keys,
 * MEMORY USAGE of a few of them. About, and cheap: the server is held up for a fifth of a millisecond. One of an agent's
 * stores does it; called by store.c.
 */
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <string.h>

#include "user/redis/redis_int.h"

#define EVERY_NS    15000000000ull
#define FIRST_NS    1000000000ull  /* after the connection */
#define TIMEOUT_NS  10000000000ull /* who gives up cuts the connection */
#define SCAN_COUNT  "500"
#define MEASURE_MAX 16

struct weir_redis_size {
	struct weir_redis *s;
	__u64 due_ns; /* 0: when there is a connection */
	bool busy;
	char at[16]; /* whose node of a Cluster is looked at */
	__u64 all;   /* keys of that node */
	__u64 ours;  /* under the prefix, of all nodes */
	unsigned due, measured;
	__u64 bytes;
};

int weir_redis_size_new(struct weir_redis *s)
{
	s->size = calloc(1, sizeof(*s->size));
	if (!s->size)
		return -ENOMEM;
	s->size->s = s;
	return 0;
}

/* Of a user that may not look nothing is shown, nor what was seen while it might. */
static void end_round(struct weir_redis_size *z, const struct redisReply *r)
{
	z->busy = false;
	if (r && r->type == REDIS_REPLY_ERROR && !strncmp(r->str, "NOPERM", 6))
		__atomic_store_n(&z->s->n.keys_known, false, __ATOMIC_RELAXED);
}

static bool ask(struct weir_redis_size *z, const char *key, unsigned n, const char *const *words,
		weir_redis_reply_fn *fn)
{
	return !z->s->closing &&
	       weir_redis_ask(&z->s->store, key, n, words, NULL, TIMEOUT_NS, fn, z) == 0;
}

static unsigned masters(const struct weir_redis *s)
{
	unsigned n = 0;

	for (const struct weir_redis_node *i = s->nodes; i; i = i->next)
		n += i->in_map;
	return n ? n : 1;
}

static void show(struct weir_redis_size *z)
{
	struct weir_far_stats *n = &z->s->n;
	__u64 mean = z->measured ? z->bytes / z->measured : 0;

	__atomic_store_n(&n->key_bytes, mean * z->ours, __ATOMIC_RELAXED);
	__atomic_store_n(&n->keys, z->ours, __ATOMIC_RELAXED);
	__atomic_store_n(&n->keys_known, true, __ATOMIC_RELAXED);
}

static void on_usage(void *arg, const struct redisReply *r, const char *cause)
{
	struct weir_redis_size *z = arg;

	(void)cause;
	if (r && r->type == REDIS_REPLY_INTEGER) { /* else it has expired meanwhile */
		z->measured++;
		z->bytes += (__u64)r->integer;
	}
	if (--z->due)
		return;
	if (r)
		show(z);
	end_round(z, r);
}

static bool is_ours(const struct weir_redis_size *z, const struct redisReply *key)
{
	size_t n = strlen(z->s->prefix);

	return key->type == REDIS_REPLY_STRING && key->len >= n &&
	       !memcmp(key->str, z->s->prefix, n) && strlen(key->str) == key->len;
}

static void measure(struct weir_redis_size *z, const struct redisReply *keys, size_t ours)
{
	size_t step = ours / MEASURE_MAX + 1, k = 0;

	z->due = 1; /* for this loop: answers may come from it */
	for (size_t i = 0; i < keys->elements; i++) {
		const char *key = keys->element[i]->str;

		if (!is_ours(z, keys->element[i]) || k++ % step)
			continue;
		z->due++;
		if (!ask(z, key, 3, (const char *const[]){"MEMORY", "USAGE", key}, on_usage))
			z->due--;
	}
	if (--z->due)
		return;
	end_round(z, NULL);
	show(z);
}

static void on_scan(void *arg, const struct redisReply *r, const char *cause)
{
	struct weir_redis_size *z = arg;
	const struct redisReply *keys;
	size_t ours = 0;

	(void)cause;
	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    r->element[1]->type != REDIS_REPLY_ARRAY) {
		end_round(z, r);
		return;
	}
	keys = r->element[1];
	for (size_t i = 0; i < keys->elements; i++)
		ours += is_ours(z, keys->element[i]);
	z->ours = keys->elements ? z->all * ours / keys->elements * masters(z->s) : 0;
	z->measured = 0;
	z->bytes = 0;
	measure(z, keys, ours);
}

static void on_all(void *arg, const struct redisReply *r, const char *cause)
{
	struct weir_redis_size *z = arg;

	(void)cause;
	if (r && r->type == REDIS_REPLY_INTEGER) {
		z->all = (__u64)r->integer;
		/* always from the beginning: keys lie in random order */
		if (ask(z, z->at, 4, (const char *const[]){"SCAN", "0", "COUNT", SCAN_COUNT},
			on_scan))
			return;
	}
	end_round(z, r);
}

static bool is_connected(const struct weir_redis *s)
{
	for (const struct weir_redis_node *n = s->nodes; n; n = n->next)
		if (n->conn.state == WEIR_REDIS_CONN_READY && n->breaker.health != WEIR_FAR_OPEN)
			return true;
	return false;
}

void weir_redis_size_tick(struct weir_redis *s, __u64 now_ns)
{
	struct weir_redis_size *z = s->size;

	if (!z || z->busy || now_ns < z->due_ns || !is_connected(s))
		return;
	if (!z->due_ns) {
		z->due_ns = now_ns + FIRST_NS;
		return;
	}
	z->due_ns = now_ns + EVERY_NS;
	(void)snprintf(z->at, sizeof(z->at), "%u", randombytes_random());
	z->busy = ask(z, z->at, 1, (const char *const[]){"DBSIZE"}, on_all);
}

void weir_redis_size_free(struct weir_redis *s)
{
	free(s->size);
	s->size = NULL;
}
