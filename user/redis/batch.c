/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of the script: whatever waits in one turn of the loop goes in one call, as far as it fits. The replies are reply.c's.
 */
#include <hiredis/async.h>
#include <stdlib.h>
#include <string.h>

#include "user/redis/redis_int.h"

struct weir_redis_call *weir_redis_call_new(struct weir_redis *s)
{
	struct weir_redis_call *c = s->spare_calls;

	if (c) {
		s->spare_calls = c->next;
		return c;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->n_max = s->o.batch_max;
	c->part = calloc(c->n_max, sizeof(*c->part));
	if (!c->part) {
		free(c);
		return NULL;
	}
	return c;
}

void weir_redis_call_free(struct weir_redis *s, struct weir_redis_call *c)
{
	c->n = 0;
	c->probe = false;
	c->next = s->spare_calls;
	s->spare_calls = c;
}

void weir_redis_call_forget(struct weir_redis_call *c)
{
	struct weir_redis_node *n = c->node;

	*(c->prev ? &c->prev->next : &n->oldest) = c->next;
	*(c->next ? &c->next->prev : &n->newest) = c->prev;
	n->n_calls--;
}

int weir_redis_call_send(struct weir_redis_node *n, struct weir_redis_call *c)
{
	if (redisAsyncFormattedCommand(n->conn.ac, weir_redis_on_reply, c, c->command.at,
				       c->command.n) != REDIS_OK)
		return -EIO;
	c->node = n;
	c->loads = n->loads;
	c->sent_ns = weir_redis_now_ns();
	c->next = NULL;
	c->prev = n->newest;
	*(c->prev ? &c->prev->next : &n->oldest) = c;
	n->newest = c;
	n->n_calls++;
	weir_redis_count(&n->s->n.calls, 1);
	return 0;
}

static int make_command(struct weir_redis_node *n, struct weir_redis_call *c)
{
	const struct weir_redis_pack *p = &n->s->pack;
	int r;

	r = weir_redis_command(n->conn.sha, p->n_keys, p->keys.at, p->keys.n, 0, p->blob.at,
			       p->blob.n, &c->command, &c->keys_at);
	c->n_keys = p->n_keys;
	c->keys_bytes = p->keys.n;
	c->blob_at = c->command.n - 2 - p->blob.n;
	return r;
}

/* May @i go in the call that begins with @first? In a Cluster only with those of its slot. */
static bool joins(const struct weir_redis_node *n, const struct weir_redis_item *first,
		  const struct weir_redis_item *i)
{
	if (n->s->url.kind != WEIR_REDIS_CLUSTER)
		return true; /* everything is one place */
	/* Alone after a redirection: keys of a slot that is being moved may be in two places. */
	return i->slot == first->slot && !i->tries && !first->tries;
}

/* Moves items from the queue into @c until one of them is full. */
static void fill(struct weir_redis_node *n, struct weir_redis_call *c)
{
	struct weir_redis_pack *p = &n->s->pack;
	struct weir_redis_item *i = n->first, *next, *first = i;
	unsigned looked = 0;
	size_t blob_at;
	int r;

	weir_redis_pack_begin(p);
	for (; i && c->n < c->n_max && weir_redis_pack_has_room(p); i = next) {
		next = i->next;
		if (i != first && !joins(n, first, i)) {
			if (++looked == c->n_max)
				break;
			continue;
		}
		blob_at = p->blob.n;
		weir_redis_item_dequeue(i);
		r = weir_redis_pack_add(p, i->q, i->layers, i->op);
		if (r < 0) {
			if (i == first)
				first = next;
			weir_redis_item_finish(i, r);
			continue;
		}
		i->call = c;
		i->at = (__u16)c->n;
		c->part[c->n].item = i;
		c->part[c->n].op = i->op;
		c->part[c->n].blob_at = (__u32)blob_at;
		c->n++;
	}
}

void weir_redis_call_fail(struct weir_redis_call *c, int r)
{
	for (unsigned k = 0; k < c->n; k++)
		if (c->part[k].item)
			weir_redis_item_finish(c->part[k].item, r);
}

static int send_next(struct weir_redis_node *n)
{
	struct weir_redis_call *c = weir_redis_call_new(n->s);
	bool asking = n->first->asking;
	int r = 0;

	if (!c) {
		weir_redis_node_fail_waiting(n, -ENOMEM);
		return -ENOMEM;
	}
	fill(n, c);
	if (c->n) {
		r = make_command(n, c);
		if (r >= 0 && asking)
			(void)redisAsyncCommand(n->conn.ac, NULL, NULL, "ASKING");
		if (r >= 0)
			r = weir_redis_call_send(n, c);
	}
	if (r < 0)
		weir_redis_call_fail(c, r);
	if (r < 0 || !c->n)
		weir_redis_call_free(n->s, c);
	return r;
}

void weir_redis_node_pump(struct weir_redis_node *n)
{
	unsigned most = n->s->calls_max;

	if (n->conn.state != WEIR_REDIS_CONN_READY || !n->first || n->n_calls >= most)
		return;
	weir_hi_cork(n->conn.ac);
	while (n->first && n->n_calls < most && send_next(n) >= 0)
		;
	weir_hi_flush(n->conn.ac);
}

/* A key in a slot of this node. */
static void find_tag(struct weir_redis_node *n, struct weir_store_layer *y)
{
	memcpy(y->key, &n->probe_tag, WEIR_STORE_TAG_BYTES);
	while (n->s->url.kind == WEIR_REDIS_CLUSTER && weir_redis_layer_slot(y) != n->a_slot &&
	       n->probe_tag < 1u << 22) {
		n->probe_tag++;
		memcpy(y->key, &n->probe_tag, WEIR_STORE_TAG_BYTES);
	}
	if (weir_redis_layer_slot(y) != n->a_slot)
		n->probe_tag = 0; /* from the beginning the next time */
}

/* A write as any decision makes it: it meets maxmemory, roles and rights. */
void weir_redis_node_send_probe(struct weir_redis_node *n)
{
	struct weir_store_limit l = {.algorithm = WEIR_REQUEST_FIXED_WINDOW, .window_us = 1000000};
	struct weir_store_layer y = {.limit = &l, .cost = 1};
	struct weir_store_request q = {.layer = &y, .n = 1};
	struct weir_redis_call *c;

	l.fixed.limit = 1ull << 40;
	find_tag(n, &y);
	c = weir_redis_call_new(n->s);
	if (!c)
		return;
	weir_redis_pack_begin(&n->s->pack);
	c->probe = true;
	if (weir_redis_pack_add(&n->s->pack, &q, 1, WEIR_REDIS_DECIDE) < 0 ||
	    make_command(n, c) < 0 || weir_redis_call_send(n, c) < 0) {
		weir_redis_call_free(n->s, c);
		return;
	}
	weir_redis_node_begin_probe(n);
}
