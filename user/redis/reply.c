/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a reply means for the requests of its call: answers, errors of the server, a connection that is lost; and what
 * nobody waits for any more is given back.
 */
#include <hiredis/hiredis.h>
#include <string.h>

#include "user/redis/redis_int.h"

/* A call whose answer nobody waits for. */
static void send_back(struct weir_redis_node *n, unsigned n_keys, const char *keys,
		      size_t keys_bytes, const struct weir_redis_text *blob)
{
	struct weir_redis_call *c;

	if (n->conn.state != WEIR_REDIS_CONN_READY)
		return; /* over-charged: as it may be when a connection is lost */
	c = weir_redis_call_new(n->s);
	if (!c)
		return;
	c->n_keys = n_keys;
	c->keys_bytes = keys_bytes;
	if (weir_redis_command(n->conn.sha, n_keys, keys, keys_bytes, 0, blob->at, blob->n,
			       &c->command, &c->keys_at) < 0 ||
	    weir_redis_call_send(n, c) < 0)
		weir_redis_call_free(n->s, c);
}

void weir_redis_node_give_back(struct weir_redis_node *n, struct weir_store_request *q,
			       __u64 layers)
{
	struct weir_redis_pack *p = &n->s->pack;

	weir_redis_pack_begin(p);
	if (weir_redis_pack_add(p, q, layers, WEIR_REDIS_GIVE_BACK) >= 0)
		send_back(n, p->n_keys, p->keys.at, p->keys.n, &p->blob);
	weir_redis_count(&n->s->n.late_refunds, 1);
}

/* Nobody waits for this part's answer: what it charged is added to what is given back. */
static int take_back(struct weir_redis_call *c, unsigned k, struct weir_redis_answers *a)
{
	const char *blob = c->command.at + c->blob_at;
	size_t from = c->part[k].blob_at;
	size_t to = k + 1 < c->n ? c->part[k + 1].blob_at : c->command.n - 2 - c->blob_at;
	struct weir_redis_text *late = &c->node->s->late;
	size_t before = late->n;
	int r = weir_redis_give_back((const unsigned char *)blob + from, to - from, a, late);

	if (c->part[k].op != WEIR_REDIS_DECIDE)
		late->n = before;
	else if (r > 0)
		weir_redis_count(&c->node->s->n.late_refunds, 1);
	return r;
}

static void take_answers(struct weir_redis_call *c, const struct redisReply *reply)
{
	struct weir_redis_node *n = c->node;
	struct weir_redis_answers a = {};
	unsigned bad = 0;
	int r = weir_redis_answers_open(reply->str, reply->len, &a);

	n->s->late.n = 0;
	for (unsigned k = 0; k < c->n; k++) {
		struct weir_redis_item *i = c->part[k].item;

		if (!i) {
			if (r >= 0)
				r = take_back(c, k, &a);
			continue;
		}
		if (r >= 0)
			r = weir_redis_answers_next(&a, i->q, i->layers, i->op, &i->admitted,
						    &i->live);
		bad += r < 0;
		weir_redis_item_finish(i, r < 0 ? r : 0);
	}
	if (bad)
		weir_redis_node_failure(n, WEIR_FAR_ERROR_REPLY, bad,
					"a reply of the script makes no sense");
	if (n->s->late.n)
		send_back(n, c->n_keys, c->command.at + c->keys_at, c->keys_bytes, &n->s->late);
}

/* Nothing of the call ran: all of it goes again, in its order, perhaps elsewhere. */
static void again(struct weir_redis_call *c, struct weir_redis_node *to, bool asking, bool front)
{
	for (unsigned k = 0; k < c->n; k++) {
		struct weir_redis_item *i = c->part[front ? c->n - 1 - k : k].item;

		if (!i)
			continue;
		if (++i->tries > WEIR_REDIS_TRIES_MAX) {
			weir_redis_count(&c->node->s->n.errors[WEIR_FAR_ERROR_CLUSTER], 1);
			weir_redis_item_finish(i, -EIO);
			continue;
		}
		i->asking = asking;
		weir_redis_item_enqueue(to, i, front);
	}
	weir_redis_flush_soon(c->node->s);
}

static bool begins(const struct redisReply *r, const char *with)
{
	return !strncmp(r->str, with, strlen(with));
}

static const struct {
	const char *begins;
	enum weir_far_error kind;
	const char *words; /* NULL: weir_redis_error_words */
} errors[] = {
	{"OOM", WEIR_FAR_ERROR_OOM, NULL},
	{"LOADING", WEIR_FAR_ERROR_REPLY, NULL},
	{"MASTERDOWN", WEIR_FAR_ERROR_REPLY, "it is a replica without its master"},
	{"BUSY", WEIR_FAR_ERROR_REPLY, "it is busy with somebody's script"},
	{"MISCONF", WEIR_FAR_ERROR_SCRIPT, "it cannot save, and refuses writes (MISCONF)"},
	{"NOREPLICAS", WEIR_FAR_ERROR_SCRIPT, "too few replicas, and it refuses writes"},
	{"CLUSTERDOWN", WEIR_FAR_ERROR_CLUSTER, "the cluster is down"},
	{"CROSSSLOT", WEIR_FAR_ERROR_CLUSTER,
	 "keys of several slots in one call: this is a cluster (redis+cluster://)"},
	{"TRYAGAIN", WEIR_FAR_ERROR_CLUSTER, "a slot is being moved"},
	{"MOVED", WEIR_FAR_ERROR_CLUSTER, "this is a cluster (redis+cluster://)"},
	{"ASK", WEIR_FAR_ERROR_CLUSTER, "this is a cluster (redis+cluster://)"},
	{"READONLY", WEIR_FAR_ERROR_REPLY, "it is a replica, no master"},
};

#define NOT_SERVED "CLUSTERDOWN Hash slot not served"

/* The slot is nobody's; the node's others are not worse for it. */
static void unserved(struct weir_redis_call *c)
{
	for (unsigned k = 0; k < c->n; k++)
		if (c->part[k].item) {
			weir_redis_topology_unserved(c->node->s->topology, c->part[k].item->slot);
			weir_redis_count(&c->node->s->n.errors[WEIR_FAR_ERROR_CLUSTER], 1);
		}
	weir_redis_call_fail(c, -EIO);
}

/* What an error to the script means, for people; may be in @buf. */
static const char *words_of(const struct weir_redis_node *n, const struct redisReply *r, char *buf,
			    size_t size, enum weir_far_error *ret_kind)
{
	const char *words = weir_redis_error_words(r, weir_redis_script, buf, size);

	*ret_kind = WEIR_FAR_ERROR_SCRIPT;
	for (size_t k = 0; k < ARRAY_LEN(errors); k++)
		if (begins(r, errors[k].begins)) {
			*ret_kind = errors[k].kind;
			words = errors[k].words ? errors[k].words : words;
			break;
		}
	if (n->s->url.kind == WEIR_REDIS_CLUSTER && (begins(r, "MOVED") || begins(r, "ASK")))
		words = "it sends to a node whose address it does not say";
	return words;
}

static void call_failed(struct weir_redis_call *c, const struct redisReply *r)
{
	struct weir_redis_node *n = c->node;
	enum weir_far_error kind;
	char buf[WEIR_REDIS_CAUSE_BYTES];
	const char *words = words_of(n, r, buf, sizeof(buf), &kind);
	bool cluster = n->s->url.kind == WEIR_REDIS_CLUSTER;
	unsigned alive = 0;

	for (unsigned k = 0; k < c->n; k++)
		alive += c->part[k].item != NULL;
	if (cluster && begins(r, NOT_SERVED)) {
		unserved(c);
		return;
	}
	weir_redis_call_fail(c, -EIO);
	weir_redis_node_failure(n, kind, alive, words);
	if (begins(r, "READONLY") || begins(r, "NOAUTH")) {
		weir_redis_conn_fail(&n->conn, "%s", words); /* the next try looks up its name */
	} else if (begins(r, "CLUSTERDOWN")) {
		weir_redis_topology_doubt(n->s->topology, n);
	}
}

static void load_again(struct weir_redis_call *c)
{
	struct weir_redis_node *n = c->node;

	if (c->loads == n->loads) { /* else somebody did since */
		n->loads++;
		weir_redis_count(&n->s->n.script_loads, 1);
		(void)weir_redis_conn_load(
			&n->conn); /* no memory: NOSCRIPT again, and then an error */
	}
	again(c, n, false, true);
}

/* What an error of the server means for the call's requests: NOSCRIPT and redirections say that nothing ran. */
static void take_error(struct weir_redis_call *c, const struct redisReply *r)
{
	struct weir_redis_node *n = c->node, *to;
	bool cluster = n->s->url.kind == WEIR_REDIS_CLUSTER;
	bool moved = begins(r, "MOVED "), ask = begins(r, "ASK ");

	if (begins(r, "NOSCRIPT")) {
		load_again(c);
		return;
	}
	if (cluster && (moved || ask)) {
		weir_redis_count(&n->s->n.redirects, 1);
		to = weir_redis_topology_redirect(n->s->topology, r->str + (moved ? 6 : 4), moved,
						  n);
		if (to) {
			again(c, to, ask, false);
			return;
		}
	}
	if (cluster && begins(r, "TRYAGAIN")) {
		if (c->n != 1 || !c->part[0].item || !weir_redis_item_break_up(c->part[0].item))
			again(c, n, c->n && c->part[0].item && c->part[0].item->asking, false);
		return;
	}
	call_failed(c, r);
}

/* As weir_redis_node_send_probe has asked it. */
static bool makes_sense(const struct redisReply *r)
{
	struct weir_store_layer y = {.cost = 1};
	struct weir_store_request q = {.layer = &y, .n = 1};
	struct weir_redis_answers a;
	bool admitted;
	__u64 live;

	return r->type == REDIS_REPLY_STRING && weir_redis_answers_open(r->str, r->len, &a) >= 0 &&
	       weir_redis_answers_next(&a, &q, 1, WEIR_REDIS_DECIDE, &admitted, &live) >= 0;
}

/* A server that is too slow would open the breaker again at once. */
static void probe_answered(struct weir_redis_node *n, const struct redisReply *r, __u64 took_ns)
{
	bool error = r && r->type == REDIS_REPLY_ERROR;
	char words[WEIR_REDIS_CAUSE_BYTES];
	enum weir_far_error kind;

	weir_redis_node_end_probe(n);
	if (!r)
		return;
	if (error && begins(r, "NOSCRIPT") && weir_redis_conn_load(&n->conn) >= 0)
		weir_redis_node_probe_soon(n);
	if (error || !makes_sense(r)) {
		(void)snprintf(n->conn.cause, sizeof(n->conn.cause), "%.100s",
			       error ? words_of(n, r, words, sizeof(words), &kind)
				     : "its reply makes no sense");
		weir_redis_node_cause(n, n->conn.cause);
		weir_redis_topology_doubt(n->s->topology, n);
		return;
	}
	if (n->probe_slow) {
		(void)snprintf(n->conn.cause, sizeof(n->conn.cause), "its reply took %llu ms",
			       took_ns / 1000000);
		weir_redis_node_probe_soon(n);
		return;
	}
	if (weir_redis_breaker_up(&n->breaker, weir_redis_now_ns()))
		weir_redis_health_changed(n->s, n, "it answers again");
	weir_redis_flush_soon(n->s);
}

static void measure(struct weir_redis *s, __u64 sent_ns)
{
	__u64 us = (weir_redis_now_ns() - sent_ns) / 1000;
	unsigned k = 0;

	while (k < WEIR_FAR_LATENCY_N && us > weir_far_latency_us[k])
		k++;
	weir_redis_count(&s->n.latency_n[k], 1);
	weir_redis_count(&s->n.latency_sum_us, us);
}

void weir_redis_on_reply(struct redisAsyncContext *ac, void *reply, void *data)
{
	struct weir_redis_call *c = data;
	struct weir_redis_node *n = c->node;
	struct redisReply *r = reply;

	(void)ac;
	weir_redis_call_forget(c);
	if (r && r->type == REDIS_REPLY_ERROR)
		r->len = weir_redis_error_unwrap(r->str, r->len);
	if (r)
		measure(n->s, c->sent_ns);
	if (c->probe)
		probe_answered(n, r, weir_redis_now_ns() - c->sent_ns);
	else if (!r)
		weir_redis_call_fail(c, -EIO); /* the connection is lost: down says so */
	else if (r->type == REDIS_REPLY_STRING)
		take_answers(c, r);
	else if (r->type == REDIS_REPLY_ERROR)
		take_error(c, r);
	else {
		weir_redis_call_fail(c, -EPROTO);
		weir_redis_node_failure(n, WEIR_FAR_ERROR_REPLY, 1, "its reply makes no sense");
	}
	weir_redis_call_free(n->s, c);
	if (n->first)
		weir_redis_flush_soon(n->s);
}
