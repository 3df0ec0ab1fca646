/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which nodes there are: the one of the URL, the master that Sentinels name, or a Cluster's by slot. Called by store.c
 * and batch.c.
 */
#include <string.h>

#include "user/redis/redis_int.h"

struct weir_redis_topology {
	struct weir_redis *s;
	struct weir_redis_node *one; /* not a Cluster */
};

int weir_redis_topology_new(struct weir_redis *s, struct weir_redis_topology **ret)
{
	struct weir_redis_topology *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->s = s;
	s->topology = t;
	r = weir_redis_node_new(s, &t->one);
	if (r < 0)
		return r;
	s->nodes = t->one;
	t->one->in_map = true;
	if (s->url.n_seed)
		weir_redis_conn_open(&t->one->conn, s->url.seed[0].host, s->url.seed[0].port);
	else
		weir_redis_conn_open(&t->one->conn, NULL, 0);
	*ret = t;
	return 0;
}

void weir_redis_topology_free(struct weir_redis_topology *t)
{
	free(t);
}

struct weir_redis_node *weir_redis_topology_node(struct weir_redis_topology *t, __u16 slot)
{
	(void)slot;
	return t->one;
}

void weir_redis_topology_tick(struct weir_redis_topology *t, __u64 now_ns)
{
	(void)t;
	(void)now_ns;
}

void weir_redis_topology_doubt(struct weir_redis_topology *t, struct weir_redis_node *n)
{
	(void)t;
	(void)n;
}

void weir_redis_topology_up(struct weir_redis_topology *t, struct weir_redis_node *n)
{
	char where[280], text[320];

	(void)snprintf(text, sizeof(text), "%s%s%s",
		       weir_redis_conn_where(&n->conn, where, sizeof(where)),
		       n->conn.version[0] ? ", " : "", n->conn.version);
	weir_redis_show_server(t->s, text);
}

struct weir_redis_node *weir_redis_topology_redirect(struct weir_redis_topology *t,
						     const char *words, bool moved,
						     struct weir_redis_node *from)
{
	(void)t;
	(void)words;
	(void)moved;
	(void)from;
	return NULL;
}
