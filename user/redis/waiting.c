/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What waits at a node for its turn: a queue of items, each a request's part for this node. Called by job.c, batch.c,
 * reply.c and node.c.
 */
#include "user/redis/redis_int.h"

void weir_redis_item_enqueue(struct weir_redis_node *n, struct weir_redis_item *i, bool front)
{
	i->node = n;
	i->call = NULL;
	i->prev = front ? NULL : n->last;
	i->next = front ? n->first : NULL;
	*(i->prev ? &i->prev->next : &n->first) = i;
	*(i->next ? &i->next->prev : &n->last) = i;
}

void weir_redis_item_dequeue(struct weir_redis_item *i)
{
	struct weir_redis_node *n = i->node;

	*(i->prev ? &i->prev->next : &n->first) = i->next;
	*(i->next ? &i->next->prev : &n->last) = i->prev;
	i->prev = i->next = NULL;
}

void weir_redis_item_finish(struct weir_redis_item *i, int r)
{
	i->node = NULL;
	i->call = NULL;
	weir_redis_job_item_done(i, r);
}

int weir_redis_node_put(struct weir_redis_node *n, struct weir_redis_item *i)
{
	if (n->breaker.health == WEIR_FAR_OPEN)
		return -EHOSTDOWN;
	i->tries = 0;
	i->asking = false;
	weir_redis_item_enqueue(n, i, false);
	weir_redis_flush_soon(n->s);
	return 0;
}

bool weir_redis_item_abandon(struct weir_redis_item *i)
{
	struct weir_redis_call *c = i->call;

	if (c)
		c->part[i->at].item = NULL;
	else
		weir_redis_item_dequeue(i);
	i->node = NULL;
	i->call = NULL;
	return c;
}

void weir_redis_node_reroute(struct weir_redis_node *n)
{
	struct weir_redis_item *i, *last = n->last; /* callbacks may add more */
	struct weir_redis_node *to;

	while ((i = n->first)) {
		bool end = i == last;

		weir_redis_item_dequeue(i);
		to = weir_redis_topology_node(n->s->topology, i->slot);
		if (to && to->breaker.health != WEIR_FAR_OPEN)
			weir_redis_item_enqueue(to, i, false);
		else
			weir_redis_item_finish(i, -EHOSTDOWN);
		if (end)
			break;
	}
	weir_redis_flush_soon(n->s);
}

void weir_redis_node_fail_waiting(struct weir_redis_node *n, int r)
{
	struct weir_redis_item *i, *last = n->last; /* callbacks may add more */

	while ((i = n->first)) {
		bool end = i == last; /* it may be gone, and used again, after finish */

		weir_redis_item_dequeue(i);
		weir_redis_item_finish(i, r);
		if (end)
			break;
	}
}
