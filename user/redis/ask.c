/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One command that is no decision, to the node of a key: sent when there is a connection, redirected as a Cluster says,
 * given up at its deadline. After it was sent it is never sent again but where the server says that it was not done
 * (MOVED, ASK, TRYAGAIN). Called by the fleet's lists and agents.
 */
#include <event2/event.h>
#include <hiredis/async.h>
#include <string.h>

#include "user/base/str.h"
#include "user/redis/redis_int.h"

#define LOOK_AGAIN_NS 10000000ull /* for a connection */
#define WORDS_MAX     4096
#define BYTES_MAX     (32u << 20) /* of one command */

/* Lives until its answer was given and hiredis has let go of it. */
struct weir_redis_ask {
	struct weir_redis_ask *prev, *next; /* of the store; until it is answered */
	struct weir_redis *s;
	struct event *timer;
	weir_redis_reply_fn *fn; /* NULL: answered */
	void *arg;
	__u64 deadline_ns;
	bool guide; /* to a Sentinel */
	__u16 slot;
	struct weir_redis_node *node; /* where it was redirected to; NULL: the slot's */
	bool asking;
	bool sent; /* hiredis will call */
	unsigned tries;
	unsigned argc;
	size_t *n;
	char **word; /* one block with @n and the bytes */
};

static void free_ask(struct weir_redis_ask *a)
{
	if (a->timer)
		event_free(a->timer);
	free(a->word);
	free(a);
}

static void answer(struct weir_redis_ask *a, const struct redisReply *r, const char *cause)
{
	weir_redis_reply_fn *fn = a->fn;
	void *arg = a->arg;

	if (!fn)
		return;
	a->fn = NULL;
	*(a->prev ? &a->prev->next : &a->s->asks) = a->next;
	if (a->next)
		a->next->prev = a->prev;
	(void)event_del(a->timer);
	if (!a->sent)
		free_ask(a);
	fn(arg, r, cause);
}

/* The node may have gone since. */
static bool has_node(const struct weir_redis *s, const struct weir_redis_node *n)
{
	for (const struct weir_redis_node *i = s->nodes; i; i = i->next)
		if (i == n)
			return true;
	return false;
}

static void look_again(struct weir_redis_ask *a, __u64 pause_ns)
{
	__u64 now_ns = weir_redis_now_ns();
	__u64 left_ns = a->deadline_ns > now_ns ? a->deadline_ns - now_ns : 0;
	struct timeval t;

	if (pause_ns > left_ns)
		pause_ns = left_ns;
	t = (struct timeval){.tv_sec = (time_t)(pause_ns / 1000000000),
			     .tv_usec = (long)(pause_ns % 1000000000 / 1000) + 1};
	(void)event_add(a->timer, &t); /* a timer that is there: nothing is allocated */
}

static bool begins(const struct redisReply *r, const char *with)
{
	return r->type == REDIS_REPLY_ERROR && !strncmp(r->str, with, strlen(with));
}

/* Says the server that it did nothing, and where to go? */
static bool goes_elsewhere(struct weir_redis_ask *a, const struct redisReply *r)
{
	bool moved = begins(r, "MOVED "), asks = begins(r, "ASK ");

	if (++a->tries > WEIR_REDIS_TRIES_MAX)
		return false;
	if (begins(r, "TRYAGAIN"))
		return true;
	if (!moved && !asks)
		return false;
	a->node = weir_redis_topology_redirect(a->s->topology, r->str + (moved ? 6 : 4), moved,
					       a->node);
	a->asking = asks && a->node;
	weir_redis_count(&a->s->n.redirects, 1);
	return true;
}

static void on_reply(struct redisAsyncContext *ac, void *reply, void *data)
{
	struct weir_redis_ask *a = data;
	struct redisReply *r = reply;

	a->sent = false;
	if (r && r->type == REDIS_REPLY_ERROR)
		r->len = weir_redis_error_unwrap(r->str, r->len);
	if (!a->fn)
		free_ask(a);
	else if (!r)
		answer(a, NULL,
		       ac->errstr && ac->errstr[0] ? ac->errstr : "the connection was lost");
	else if (r->type == REDIS_REPLY_ERROR && goes_elsewhere(a, r))
		look_again(a, begins(r, "TRYAGAIN") ? LOOK_AGAIN_NS : 0);
	else
		answer(a, r, NULL);
}

static int send_to(struct weir_redis_ask *a, const struct weir_redis_conn *c)
{
	return redisAsyncCommandArgv(c->ac, on_reply, a, (int)a->argc, (const char **)a->word,
				     a->n) == REDIS_OK
		       ? 0
		       : -EIO;
}

static bool try_send_to_guide(struct weir_redis_ask *a)
{
	const struct weir_redis_conn *c = weir_redis_topology_guide(a->s->topology);

	a->sent = c && c->state == WEIR_REDIS_CONN_READY && send_to(a, c) >= 0;
	return a->sent;
}

static bool try_send(struct weir_redis_ask *a)
{
	struct weir_redis_node *n = a->node && has_node(a->s, a->node)
					    ? a->node
					    : weir_redis_topology_node(a->s->topology, a->slot);

	if (a->guide)
		return try_send_to_guide(a);
	if (!n || n->conn.state != WEIR_REDIS_CONN_READY)
		return false;
	a->node = n;
	if (a->asking && redisAsyncCommand(n->conn.ac, NULL, NULL, "ASKING") != REDIS_OK)
		return false;
	if (send_to(a, &n->conn) < 0)
		return false;
	a->asking = false;
	a->sent = true;
	return true;
}

/* Nobody else may be asking there, so nobody else would notice that it is stuck. */
static void give_up(struct weir_redis_ask *a)
{
	struct weir_redis_node *n =
		a->sent || a->guide ? a->node : weir_redis_topology_node(a->s->topology, a->slot);
	char text[WEIR_REDIS_CAUSE_BYTES] = "no reply in time";

	if (!a->sent)
		(void)weir_str_copy(text, sizeof(text),
				    n && n->conn.cause[0] ? n->conn.cause : "no connection");
	if (a->sent && has_node(a->s, n) && n->conn.state == WEIR_REDIS_CONN_READY)
		weir_redis_conn_fail(&n->conn, "%s", text); /* its commands are answered, @a too */
	else
		answer(a, NULL, text);
}

/* The loop may be late: reads what its server has said. True: @a is answered, and may be gone. */
static bool is_answered(struct weir_redis_ask *a)
{
	__u64 deadline_ns = a->deadline_ns;
	struct weir_redis *s = a->s;
	struct weir_redis_ask *i;

	if (!a->sent || !has_node(s, a->node))
		return false;
	weir_redis_node_look(a->node);
	i = s->asks;
	while (i && (i != a || i->deadline_ns != deadline_ns)) /* another may be in its place */
		i = i->next;
	return !i;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis_ask *a = arg;

	(void)fd;
	(void)what;
	if (weir_redis_now_ns() >= a->deadline_ns) {
		if (!is_answered(a))
			give_up(a);
		return;
	}
	if (!a->sent)
		(void)try_send(a); /* else looked at again */
	look_again(a, a->sent ? UINT64_MAX : LOOK_AGAIN_NS);
}

/* One block: pointers, lengths, bytes. */
static int copy_words(struct weir_redis_ask *a, unsigned argc, const char *const *argv,
		      const size_t *argv_bytes)
{
	size_t bytes = 0;
	char *at;

	if (!argc || argc > WORDS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < argc; i++) {
		size_t n = argv_bytes ? argv_bytes[i] : strlen(argv[i]);

		if (n > BYTES_MAX || bytes > BYTES_MAX)
			return -E2BIG;
		bytes += n + 1;
	}
	a->word = malloc(argc * (sizeof(*a->word) + sizeof(*a->n)) + bytes);
	if (!a->word)
		return -ENOMEM;
	a->argc = argc;
	a->n = (size_t *)(a->word + argc);
	at = (char *)(a->n + argc);
	for (unsigned i = 0; i < argc; i++) {
		a->n[i] = argv_bytes ? argv_bytes[i] : strlen(argv[i]);
		a->word[i] = at;
		memcpy(at, argv[i], a->n[i]);
		at += a->n[i];
		*at++ = '\0';
	}
	return 0;
}

int weir_redis_ask(struct weir_store *store, const char *key, unsigned argc,
		   const char *const *argv, const size_t *argv_bytes, __u64 timeout_ns,
		   weir_redis_reply_fn *fn, void *arg)
{
	struct weir_redis *s = (struct weir_redis *)store;
	const char *open = key ? strchr(key, '{') : NULL, *close = open ? strchr(open, '}') : NULL;
	struct weir_redis_ask *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	a->s = s;
	a->fn = fn;
	a->arg = arg;
	a->deadline_ns = weir_redis_now_ns() + timeout_ns;
	a->guide = !key;
	if (key)
		a->slot = close && close > open + 1
				  ? weir_redis_slot(open + 1, (size_t)(close - open - 1))
				  : weir_redis_slot(key, strlen(key));
	a->timer = evtimer_new(s->base, on_timer, a);
	r = a->timer ? copy_words(a, argc, argv, argv_bytes) : -ENOMEM;
	if (r < 0) {
		free_ask(a);
		return r;
	}
	a->next = s->asks;
	if (a->next)
		a->next->prev = a;
	s->asks = a;
	if (try_send(a))
		look_again(a, UINT64_MAX);
	else
		look_again(a, LOOK_AGAIN_NS);
	return 0;
}

void weir_redis_ask_end(struct weir_redis *s)
{
	while (s->asks)
		answer(s->asks, NULL, "the store is closed");
}
