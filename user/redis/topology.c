/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which nodes there are: the one of the URL, the master that Sentinels name, or a Cluster's by slot. Sentinels and Cluster
 * are asked over a connection of its own, now and then, and whenever there is a doubt; the seeds of the URL are always
 * among those that are asked, so that all nodes may be replaced. Called by store.c and batch.c.
 */
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "user/base/str.h"
#include "user/redis/redis_int.h"

#define ASK_EVERY_NS 1000000000ull  /* Sentinels: a master may change without a lost connection */
#define MAP_EVERY_NS 15000000000ull /* a Cluster says MOVED by itself */
#define SOON_NS	     50000000ull    /* doubts in a row are one */
#define BETTER_NS    1000000000ull  /* who could not end a doubt in this time is left for another */

struct weir_redis_topology {
	struct weir_redis *s;
	struct weir_redis_node *one;  /* not a Cluster */
	struct weir_redis_node **map; /* of a Cluster, by slot */
	struct weir_redis_conn ask;
	unsigned at, misses; /* who is asked; how many in a row did not answer */
	bool waiting, doubt, mapped;
	bool hole; /* a slot has no node */
	__u64 asked_ns;
	__u64 doubt_ns; /* since when the one who is asked could have ended it */
};

static void ask_now(struct weir_redis_topology *t);

/* --- whom to ask ------------------------------------------------------------------------------------------------- */

static unsigned asked_max(const struct weir_redis_topology *t)
{
	unsigned n = (unsigned)t->s->url.n_seed;

	if (t->map)
		for (const struct weir_redis_node *i = t->s->nodes; i; i = i->next)
			n += i != t->one;
	return n;
}

/* Seeds first, then the nodes that are known. */
static void open_ask(struct weir_redis_topology *t)
{
	unsigned n = asked_max(t), k = t->at % n;
	const struct weir_redis_node *i = t->s->nodes;

	if (k < t->s->url.n_seed) {
		weir_redis_conn_open(&t->ask, t->s->url.seed[k].host, t->s->url.seed[k].port);
		return;
	}
	for (k -= (unsigned)t->s->url.n_seed; i; i = i->next)
		if (i != t->one && !k--)
			break;
	if (i)
		weir_redis_conn_open(&t->ask, i->conn.host, i->conn.port);
}

static void ask_up(void *arg)
{
	ask_now(arg);
}

/* It answers, but does not know better: a Sentinel or a node that is cut off from the others tells the same for ever. */
static void ask_another(struct weir_redis_topology *t)
{
	weir_redis_conn_close(&t->ask);
	t->waiting = false;
	t->at++;
	t->doubt_ns = 0;
	open_ask(t);
}

/* The next one at once, until all were tried; then with the next tick. */
static void ask_down(void *arg, const char *cause)
{
	struct weir_redis_topology *t = arg;

	t->waiting = false;
	t->at++;
	t->doubt_ns = 0;
	if (t->s->closing)
		return;
	if (++t->misses < asked_max(t)) {
		open_ask(t);
		return;
	}
	if (t->one && !t->one->conn.host[0] &&
	    weir_redis_breaker_down(&t->one->breaker, weir_redis_now_ns()))
		weir_redis_health_changed(t->s, t->one, cause);
}

/* --- Sentinel ---------------------------------------------------------------------------------------------------- */

static bool read_port(const struct redisReply *r, __u16 *ret)
{
	__u64 port = 0;

	if (r->type == REDIS_REPLY_INTEGER)
		port = (__u64)r->integer;
	else if (r->type == REDIS_REPLY_STRING)
		(void)weir_str_u64(r->str, 65535, &port); /* stays 0 */
	*ret = (__u16)port;
	return port > 0 && port < 65536;
}

static bool is_text(const struct redisReply *r)
{
	return r->type == REDIS_REPLY_STRING && r->len && r->len < 254;
}

static void take_master(struct weir_redis_topology *t, const struct redisReply *r)
{
	__u16 port;

	if (r->type == REDIS_REPLY_NIL) {
		weir_redis_conn_fail(&t->ask, "this Sentinel knows no master '%.40s'",
				     t->s->url.master);
		return;
	}
	if (r->type == REDIS_REPLY_ERROR) {
		weir_redis_conn_refused(&t->ask, r);
		return;
	}
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || !is_text(r->element[0]) ||
	    !read_port(r->element[1], &port)) {
		weir_redis_conn_fail(&t->ask, "its reply makes no sense");
		return;
	}
	t->misses = 0;
	weir_redis_conn_open(&t->one->conn, r->element[0]->str, port);
	t->doubt = t->one->conn.state != WEIR_REDIS_CONN_READY; /* until it is up */
}

/* --- Cluster ----------------------------------------------------------------------------------------------------- */

static struct weir_redis_node *find_node(struct weir_redis_topology *t, const char *host,
					 __u16 port)
{
	struct weir_redis_node *n;

	for (n = t->s->nodes; n; n = n->next)
		if (n->conn.port == port && !strcmp(n->conn.host, host))
			return n;
	if (weir_redis_node_new(t->s, &n) < 0)
		return NULL;
	n->next = t->s->nodes;
	t->s->nodes = n;
	weir_redis_conn_open(&n->conn, host, port);
	return n;
}

/* The address of [endpoint, port, id, [name, value, …]]. A node that does not know its own is the one that was asked; one
 * that should have announced a name and has none ("?") says its address beside it.
 */
static const char *host_of(const struct weir_redis_topology *t, const struct redisReply *who)
{
	const struct redisReply *more = who->elements > 3 ? who->element[3] : NULL;

	if (is_text(who->element[0]) && strcmp(who->element[0]->str, "?"))
		return who->element[0]->str;
	for (size_t i = 0; more && more->type == REDIS_REPLY_ARRAY && i + 1 < more->elements;
	     i += 2)
		if (is_text(more->element[i]) && is_text(more->element[i + 1]) &&
		    !strcmp(more->element[i]->str, "ip"))
			return more->element[i + 1]->str;
	return t->ask.host;
}

/* One line of CLUSTER SLOTS: first, last, [host, port, …], replicas. */
static bool is_range(const struct redisReply *r)
{
	const struct redisReply *who;
	__u16 port;

	if (r->type != REDIS_REPLY_ARRAY || r->elements < 3 ||
	    r->element[0]->type != REDIS_REPLY_INTEGER ||
	    r->element[1]->type != REDIS_REPLY_INTEGER || r->element[0]->integer < 0 ||
	    r->element[1]->integer >= WEIR_REDIS_SLOTS)
		return false;
	who = r->element[2];
	return who->type == REDIS_REPLY_ARRAY && who->elements >= 2 &&
	       read_port(who->element[1], &port);
}

/* No memory: the slots are a hole until the map is read again. */
static void take_range(struct weir_redis_topology *t, const struct redisReply *r)
{
	const struct redisReply *who = r->element[2];
	struct weir_redis_node *n;
	__u16 port;

	if (!read_port(who->element[1], &port))
		return;
	n = find_node(t, host_of(t, who), port);
	if (!n)
		return;
	if (!n->in_map)
		n->a_slot = (__u16)r->element[0]->integer;
	n->in_map = true;
	for (long long slot = r->element[0]->integer; slot <= r->element[1]->integer; slot++)
		t->map[slot] = n;
}

/* Slots that no node has, in words; "" if all have one. */
static void find_hole(const struct weir_redis_topology *t, char *ret, size_t size)
{
	unsigned n = 0, first = 0;

	for (unsigned slot = WEIR_REDIS_SLOTS; slot--;)
		if (!t->map[slot]) {
			first = slot;
			n++;
		}
	ret[0] = '\0';
	if (n)
		(void)snprintf(ret, size,
			       "no node of the cluster has %u of its slots, the first is %u: "
			       "requests there are on_store_failure's",
			       n, first);
}

static void look_for_holes(struct weir_redis_topology *t)
{
	char hole[WEIR_REDIS_CAUSE_BYTES];

	find_hole(t, hole, sizeof(hole));
	t->hole = hole[0];
	weir_redis_map_changed(t->s, hole);
}

void weir_redis_topology_unserved(struct weir_redis_topology *t, __u16 slot)
{
	if (t->map && t->mapped && t->map[slot]) {
		t->map[slot] = NULL;
		look_for_holes(t);
	}
}

static void take_map(struct weir_redis_topology *t, const struct redisReply *r)
{
	bool good = r->type == REDIS_REPLY_ARRAY && r->elements;

	if (r->type == REDIS_REPLY_ERROR) {
		weir_redis_conn_refused(&t->ask, r);
		return;
	}
	if (!good) {
		weir_redis_conn_fail(&t->ask, "it has no slots");
		return;
	}
	for (size_t i = 0; i < r->elements; i++)
		good = good && is_range(r->element[i]);
	if (!good) { /* what was known stays */
		weir_redis_conn_fail(&t->ask, "its map of slots makes no sense");
		return;
	}
	for (struct weir_redis_node *n = t->s->nodes; n; n = n->next)
		n->in_map = false;
	memset(t->map, 0, WEIR_REDIS_SLOTS * sizeof(*t->map));
	for (size_t i = 0; i < r->elements; i++)
		take_range(t, r->element[i]);
	t->misses = 0;
	t->doubt = false;
	t->mapped = true;
	for (struct weir_redis_node *n = t->s->nodes; n; n = n->next) {
		if (!n->in_map)
			weir_redis_node_reroute(n);
		else if (n->breaker.health == WEIR_FAR_OPEN)
			t->doubt = true; /* who was asked may not know better yet */
	}
	weir_redis_flush_soon(t->s);
	look_for_holes(t);
}

/* Nodes that have no slot and nothing to do. */
static void drop_nodes(struct weir_redis_topology *t)
{
	struct weir_redis_node **at = &t->s->nodes, *n;

	while ((n = *at)) {
		if (n->in_map || n->first || n->n_calls || n == t->one) {
			at = &n->next;
			continue;
		}
		*at = n->next;
		weir_redis_node_free(n);
	}
}

static bool read_redirect(const char *words, struct weir_redis_node *from, __u16 *ret_slot,
			  char *ret_host, size_t size, __u16 *ret_port)
{
	const char *blank = strchr(words, ' '), *colon = strrchr(words, ':');
	char number[8];
	__u64 slot, port;
	size_t n;

	if (!blank || !colon || colon < blank || (size_t)(blank - words) >= sizeof(number))
		return false;
	(void)snprintf(number, sizeof(number), "%.*s", (int)(blank - words), words);
	if (weir_str_u64(number, WEIR_REDIS_SLOTS - 1, &slot) < 0 ||
	    weir_str_u64(colon + 1, 65535, &port) < 0 || !port)
		return false;
	n = (size_t)(colon - blank - 1);
	if (n >= size || (n == 1 && blank[1] == '?'))
		return false;
	if (n)
		(void)snprintf(ret_host, size, "%.*s", (int)n, blank + 1);
	else
		(void)weir_str_copy(ret_host, size, from->conn.host);
	*ret_slot = (__u16)slot;
	*ret_port = (__u16)port;
	return true;
}

struct weir_redis_node *weir_redis_topology_redirect(struct weir_redis_topology *t,
						     const char *words, bool moved,
						     struct weir_redis_node *from)
{
	struct weir_redis_node *n;
	__u16 slot, port;
	char host[254];

	if (!t->map)
		return NULL;
	if (!read_redirect(words, from, &slot, host, sizeof(host), &port)) {
		weir_redis_topology_doubt(t, from); /* the map has addresses where names lack */
		return NULL;
	}
	n = find_node(t, host, port);
	if (n && moved) {
		t->map[slot] = n;
		if (!n->in_map)
			n->a_slot = slot;
		n->in_map = true;
		weir_redis_topology_doubt(t, n);
	}
	return n;
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

static void answered(struct redisAsyncContext *ac, void *reply, void *data)
{
	struct weir_redis_topology *t = data;

	if (!reply || t->ask.ac != ac)
		return; /* lost: ask_down comes */
	t->waiting = false;
	if (t->map)
		take_map(t, reply);
	else
		take_master(t, reply);
}

static void ask_now(struct weir_redis_topology *t)
{
	int r;

	if (t->waiting || t->ask.state != WEIR_REDIS_CONN_READY)
		return;
	t->asked_ns = weir_redis_now_ns();
	if (t->map)
		r = redisAsyncCommand(t->ask.ac, answered, t, "CLUSTER SLOTS");
	else
		r = redisAsyncCommand(t->ask.ac, answered, t, "SENTINEL get-master-addr-by-name %s",
				      t->s->url.master);
	t->waiting = r == REDIS_OK;
}

void weir_redis_topology_doubt(struct weir_redis_topology *t, struct weir_redis_node *n)
{
	if (!t || t->s->closing || t->s->url.kind == WEIR_REDIS_ONE)
		return;
	t->doubt = true;
	/* Who is down itself cannot say who is up. */
	if (t->map && n && n->conn.state != WEIR_REDIS_CONN_READY && t->ask.port == n->conn.port &&
	    !strcmp(t->ask.host, n->conn.host) && t->ask.state == WEIR_REDIS_CONN_READY)
		return; /* its own down follows */
	if (n && weir_redis_now_ns() - t->asked_ns > SOON_NS)
		ask_now(t);
}

void weir_redis_topology_tick(struct weir_redis_topology *t, __u64 now_ns)
{
	__u64 every_ns = t->map && !t->hole ? MAP_EVERY_NS : ASK_EVERY_NS;

	if (t->s->url.kind == WEIR_REDIS_ONE)
		return;
	if (t->map)
		drop_nodes(t);
	if (t->ask.state == WEIR_REDIS_CONN_CLOSED) {
		t->misses = 0;
		open_ask(t);
	} else if (t->waiting && now_ns - t->asked_ns > t->s->o.probe_ns) {
		weir_redis_conn_fail(&t->ask, "no reply for %llu ms",
				     (now_ns - t->asked_ns) / 1000000);
	} else if (t->doubt && t->doubt_ns && now_ns - t->doubt_ns > BETTER_NS) {
		ask_another(t);
	} else if (t->doubt || now_ns - t->asked_ns > every_ns) {
		if (t->doubt && !t->doubt_ns)
			t->doubt_ns = now_ns;
		ask_now(t);
	}
	if (!t->doubt)
		t->doubt_ns = 0;
}

/* --- what the store sees ------------------------------------------------------------------------------------------ */

struct weir_redis_conn *weir_redis_topology_guide(struct weir_redis_topology *t)
{
	return t->s->url.kind == WEIR_REDIS_SENTINEL ? &t->ask : NULL;
}

struct weir_redis_node *weir_redis_topology_node(struct weir_redis_topology *t, __u16 slot)
{
	if (!t->map || !t->mapped)
		return t->one;
	return t->map[slot];
}

static const char *words_of(enum weir_redis_kind kind)
{
	return kind == WEIR_REDIS_SENTINEL  ? " (master by Sentinel)"
	       : kind == WEIR_REDIS_CLUSTER ? " (of a cluster)"
					    : "";
}

void weir_redis_topology_up(struct weir_redis_topology *t, struct weir_redis_node *n)
{
	char where[280], text[360];

	if (n == t->one)
		t->doubt = false;
	(void)snprintf(text, sizeof(text), "%s%s%s%s",
		       weir_redis_conn_where(&n->conn, where, sizeof(where)),
		       n->conn.version[0] ? ", " : "", n->conn.version, words_of(t->s->url.kind));
	weir_redis_show_server(t->s, text);
}

static int start_asking(struct weir_redis_topology *t)
{
	int r = weir_redis_conn_init(&t->ask, t->s);

	if (r < 0)
		return r;
	t->ask.plain = true;
	t->ask.once = true;
	t->ask.up = ask_up;
	t->ask.down = ask_down;
	t->ask.arg = t;
	open_ask(t);
	return 0;
}

static int start_one(struct weir_redis_topology *t)
{
	struct weir_redis *s = t->s;
	int r = weir_redis_node_new(s, &t->one);

	if (r < 0)
		return r;
	s->nodes = t->one;
	t->one->in_map = true;
	if (s->url.kind != WEIR_REDIS_ONE) {
		t->one->conn.want_master = s->url.kind == WEIR_REDIS_SENTINEL;
		return start_asking(t);
	}
	if (s->url.n_seed)
		weir_redis_conn_open(&t->one->conn, s->url.seed[0].host, s->url.seed[0].port);
	else
		weir_redis_conn_open(&t->one->conn, NULL, 0);
	return 0;
}

int weir_redis_topology_new(struct weir_redis *s, struct weir_redis_topology **ret)
{
	struct weir_redis_topology *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*ret = t; /* the store frees it, also half built */
	t->s = s;
	if (s->url.kind == WEIR_REDIS_CLUSTER) {
		t->map = calloc(WEIR_REDIS_SLOTS, sizeof(struct weir_redis_node *));
		if (!t->map)
			return -ENOMEM;
	}
	return start_one(t);
}

void weir_redis_topology_free(struct weir_redis_topology *t)
{
	if (!t)
		return;
	weir_redis_conn_done(&t->ask);
	free(t->map);
	free(t);
}
