/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the shared store share; nobody outside of user/redis includes this. From the wire up:
 *
 *	hi.c        hiredis on the loop: what differs between its versions, and TLS
 *	resolve.c   names
 *	conn.c      one connection: resolved, connected, greeted (AUTH … SCRIPT LOAD), lost, tried again
 *	script.c    requests to the script's arguments, its reply to answers
 *	batch.c     to a node: what waits, calls under way, replies
 *	node.c      its connection and its breaker
 *	job.c       a request: one slot or several
 *	topology.c  which nodes there are
 *	store.c     weir_store_ops, deadlines
 *
 * Everything runs in the loop's thread but look-ups of names; statistics are read by others.
 */
#ifndef WEIR_REDIS_INT_H
#define WEIR_REDIS_INT_H

#include <pthread.h>

#include "user/redis/breaker.h"
#include "user/redis/redis.h"

struct event;
struct event_base;
struct redisAsyncContext;
struct redisReply;
struct weir_redis;
struct weir_redis_node;

#define WEIR_REDIS_CONNECT_NS 1000000000ull /* of a try: each of resolving and the greeting */
#define WEIR_REDIS_SYN_NS                                                                          \
	250000000ull /* connecting, at least: the kernel repeats itself too seldom */
#define WEIR_REDIS_BACKOFF_NS	  20000000ull /* the first; doubles up to the probe's interval */
#define WEIR_REDIS_PROBE_TIMEOUTS 2	      /* a reply to a probe may take so many */
#define WEIR_REDIS_CALLS_LEAST	  4   /* under way to a node; more is gained by larger calls */
#define WEIR_REDIS_UNDER_WAY	  64  /* … or decisions, if calls are small */
#define WEIR_REDIS_KEYS_MAX	  512 /* of a call */
#define WEIR_REDIS_TRIES_MAX	  5   /* redirections and re-loads of one item */
#define WEIR_REDIS_LOOKS_MAX	  256 /* reads of what lies in one socket: 16 kB each */
#define WEIR_REDIS_SLOTS	  16384
#define WEIR_REDIS_CAUSE_BYTES	  160

__u64 weir_redis_now_ns(void);

/* --- hi.c --------------------------------------------------------------------------------------------------------- */

struct weir_hi_tls; /* certificates and keys, read once */

int weir_hi_tls_new(const struct weir_redis_options *o, struct weir_hi_tls **ret,
		    struct weir_error *e);
void weir_hi_tls_free(struct weir_hi_tls *t);

/* Called with the context's ->data; not any more once that is NULL. */
typedef void weir_hi_status_fn(const struct redisAsyncContext *ac, int status);

#define WEIR_HI_TLS_CAUSE_BYTES 96
struct weir_hi_target {
	const char *path;    /* of a socket; else: */
	const char *address; /* numeric */
	const char *name;    /* that a certificate must have */
	char *tls_cause;     /* why it is not accepted; lives as long as the connection */
	__u16 port;
};
/* -errno with a cause; callbacks come later, never from here. @up and @down get REDIS_OK or REDIS_ERR. */
int weir_hi_connect(struct event_base *base, const struct weir_hi_target *t,
		    struct weir_hi_tls *tls, void *data, weir_hi_status_fn *up,
		    weir_hi_status_fn *down, char cause[static WEIR_REDIS_CAUSE_BYTES],
		    struct redisAsyncContext **ret);
/* Between cork and flush commands only gather; flush writes them in one go. After it the context may be gone. Not from
 * within a callback of the context.
 */
void weir_hi_cork(struct redisAsyncContext *ac);
void weir_hi_flush(struct redisAsyncContext *ac);
/* Reads some of what lies in the socket, without waiting for the loop to see it. False: there is nothing. The same holds:
 * not from within a callback, and after it the context may be gone.
 */
bool weir_hi_look(struct redisAsyncContext *ac);

/* --- resolve.c ---------------------------------------------------------------------------------------------------- */

#define WEIR_REDIS_ADDRESSES_MAX 8
struct weir_redis_addresses {
	size_t n;
	char text[WEIR_REDIS_ADDRESSES_MAX][64];
};
struct weir_redis_lookup;
/* @r: 0, or with the resolver's words in @cause -ENOENT, or -EAGAIN: nobody could be asked. Never called from within
 * start.
 */
typedef void weir_redis_lookup_fn(void *arg, int r, const struct weir_redis_addresses *a,
				  const char *cause);
int weir_redis_lookup_start(struct event_base *base, const char *name, weir_redis_lookup_fn *fn,
			    void *arg, struct weir_redis_lookup **ret);
void weir_redis_lookup_cancel(struct weir_redis_lookup *l);

/* --- conn.c ------------------------------------------------------------------------------------------------------- */

enum weir_redis_conn_state {
	WEIR_REDIS_CONN_CLOSED, /* perhaps waiting for the next try */
	WEIR_REDIS_CONN_RESOLVING,
	WEIR_REDIS_CONN_CONNECTING,
	WEIR_REDIS_CONN_GREETING,
	WEIR_REDIS_CONN_READY
};

struct weir_redis_conn {
	struct weir_redis *s;
	bool plain;	    /* for questions about the topology: no database, no script */
	bool want_master;   /* ROLE must say so */
	bool once;	    /* no further try after a failure */
	bool says_password; /* a Sentinel wants one and has none of its own here */
	char host[254];	    /* "": the socket of the URL */
	__u16 port;

	enum weir_redis_conn_state state;
	struct redisAsyncContext *ac;
	struct weir_redis_lookup *lookup; /* goes on where the try is given up */
	struct weir_redis_addresses addresses;
	unsigned tries;			    /* since the last success */
	__u64 began_ns;			    /* the try; 0: it has succeeded */
	unsigned replies_due, replies_seen; /* of the greeting */
	struct event *timer;
	char sha[41];
	char version[32];
	char cause[WEIR_REDIS_CAUSE_BYTES]; /* of the failure that is going on */
	char tls_cause[WEIR_HI_TLS_CAUSE_BYTES];

	void (*up)(void *arg);
	void (*down)(void *arg, const char *cause);
	void *arg;
};

int weir_redis_conn_init(struct weir_redis_conn *c, struct weir_redis *s);
void weir_redis_conn_done(struct weir_redis_conn *c);
/* Begins, unless it has begun. @host NULL: where it was. */
void weir_redis_conn_open(struct weir_redis_conn *c, const char *host, __u16 port);
/* Commands under way get a NULL reply; then down is called, if it was open, and the next try is made after the backoff. */
void weir_redis_conn_fail(struct weir_redis_conn *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, for an error of the server, in words that never hold a password. */
void weir_redis_conn_refused(struct weir_redis_conn *c, const struct redisReply *r);
/* The same without down and without a next try. */
void weir_redis_conn_close(struct weir_redis_conn *c);
/* host:port or the path. */
const char *weir_redis_conn_where(const struct weir_redis_conn *c, char *buf, size_t size);
/* SCRIPT LOAD in front of what is sent next. */
int weir_redis_conn_load(struct weir_redis_conn *c);

/* --- script.c ----------------------------------------------------------------------------------------------------- */

extern const char weir_redis_script[];

enum weir_redis_op { WEIR_REDIS_DECIDE, WEIR_REDIS_JUDGE, WEIR_REDIS_GIVE_BACK, WEIR_REDIS_FORGET };

struct weir_redis_text {
	char *at;
	size_t n, size;
};

/* One call's arguments in the making. Keys are stated once each. */
struct weir_redis_pack {
	const char *prefix;
	struct weir_redis_text keys, blob;
	unsigned n_keys;
	__u32 stamp;
	struct {
		__u64 word[2];
		__u32 stamp;
		__u16 index;
	} seen[2 * WEIR_REDIS_KEYS_MAX];
};

void weir_redis_pack_done(struct weir_redis_pack *p);
void weir_redis_pack_begin(struct weir_redis_pack *p);
/* Layers of @q in the set @layers. -ENOMEM; then nothing of it is there. */
int weir_redis_pack_add(struct weir_redis_pack *p, const struct weir_store_request *q, __u64 layers,
			enum weir_redis_op op);
/* Is there room for another request whatever it is? */
bool weir_redis_pack_has_room(const struct weir_redis_pack *p);
/* The whole command as Redis reads it, and where its keys begin. @now_us 0: the server's TIME. */
int weir_redis_command(const char *sha, unsigned n_keys, const void *keys, size_t keys_bytes,
		       __u64 now_us, const void *blob, size_t blob_bytes,
		       struct weir_redis_text *ret, size_t *ret_keys_at);

/* The reply: a header, then for each request its bytes. */
struct weir_redis_answers {
	const unsigned char *at, *end;
	__u64 now_us; /* the server's */
};
int weir_redis_answers_open(const void *reply, size_t n, struct weir_redis_answers *ret);
/* The next request's, into the layers of @q in the set. -EPROTO. */
int weir_redis_answers_next(struct weir_redis_answers *a, struct weir_store_request *q,
			    __u64 layers, enum weir_redis_op op, bool *ret_admitted,
			    __u64 *ret_live);
/* Reads over the next request's; adds to @blob what gives back all that it charged. @request: its bytes in the call's
 * blob. Returns how many layers that are, or -EPROTO.
 */
int weir_redis_give_back(const unsigned char *request, size_t n, struct weir_redis_answers *a,
			 struct weir_redis_text *blob);

/* Words of a state: what makes it one in a call; where it lives in a Cluster; its key. */
void weir_redis_layer_id(const struct weir_store_limit *l, const __u8 *key, __u64 ret[2]);
__u16 weir_redis_layer_slot(const struct weir_store_layer *y);
__u16 weir_redis_slot(const char *text, size_t n);
int weir_redis_layer_key(const char *prefix, const struct weir_store_limit *l, const __u8 *tag,
			 const __u8 *key, char *buf, size_t size);

int weir_redis_text_add(struct weir_redis_text *t, const void *bytes, size_t n);

/* Before 7.0 Redis put words of its own before the error of a command in a script, "ERR Error running script (call to
 * f_SHA): @user_script:9: @user_script: 9: -OOM command not …": takes them out of @text, in place. Returns how long it is.
 */
size_t weir_redis_error_unwrap(char *text, size_t n);
/* The command that line @line of @script calls first, in small letters, as rights name it. False: none. */
bool weir_redis_script_command(const char *script, unsigned line, char *buf, size_t size);

/* --- nodes: node.c, waiting.c, batch.c, reply.c --------------------------------------------------------------------- */

struct weir_redis_job;

/* One request, or those of its layers that live in one slot, on its way to a node. */
struct weir_redis_item {
	struct weir_redis_item *prev, *next; /* waiting */
	struct weir_redis_job *job;
	struct weir_redis_node *node; /* NULL: idle or done */
	struct weir_redis_call *call; /* NULL: waiting */
	__u16 at;		      /* its place in the call */
	__u16 slot;
	__u8 op, tries;
	bool asking;
	bool admitted; /* answer */
	struct weir_store_request *q;
	__u64 layers; /* of @q, that are asked now */
	__u64 all;    /* … that live in its slot, where there are several */
	__u64 live;   /* answer of a judgement: layers that have a state */
};

struct weir_redis_call {
	struct weir_redis_call *prev, *next; /* under way at its node, oldest first; or spare */
	struct weir_redis_node *node;
	__u64 sent_ns;
	unsigned loads; /* of the node when it was sent */
	bool probe;
	struct weir_redis_text command;
	size_t keys_at, keys_bytes, blob_at; /* in command */
	unsigned n_keys, n, n_max;
	struct {
		struct weir_redis_item *item; /* NULL: nobody waits for it any more */
		__u32 blob_at;		      /* in the blob */
		__u8 op;
	} * part;
};

struct weir_redis_node {
	struct weir_redis_node *next;
	struct weir_redis *s;
	struct weir_redis_conn conn;
	struct weir_redis_breaker breaker;
	struct weir_redis_item *first, *last; /* waiting */
	struct weir_redis_call *oldest, *newest;
	unsigned n_calls;
	unsigned loads;
	bool probing;	    /* one is under way */
	bool probe_slow;    /* … for longer than it may be */
	struct event *soon; /* for a probe before the next tick, or the end of one's time … */
	__u64 soon_ns;	    /* … in so long */
	bool in_map;
	__u16 a_slot;	 /* that it has, for its probe */
	__u32 probe_tag; /* of a key in it */
};

int weir_redis_node_new(struct weir_redis *s, struct weir_redis_node **ret);
void weir_redis_node_free(struct weir_redis_node *n);
/* -EHOSTDOWN: its breaker is open. Else weir_redis_job_item_done will be called, not from here. */
int weir_redis_node_put(struct weir_redis_node *n, struct weir_redis_item *i);
void weir_redis_node_fail_waiting(struct weir_redis_node *n, int r);
void weir_redis_node_send_probe(struct weir_redis_node *n);
/* One was sent; it is answered or lost. */
void weir_redis_node_begin_probe(struct weir_redis_node *n);
void weir_redis_node_end_probe(struct weir_redis_node *n);
/* Before the next tick, but each time later, until it is healthy. */
void weir_redis_node_probe_soon(struct weir_redis_node *n);
/* Nothing of it ran, and it has several keys of a slot that is being moved: its layers go one by one. False: it has one. */
bool weir_redis_item_break_up(struct weir_redis_item *i);
/* Nobody waits for it any more. Returns whether it was sent. */
bool weir_redis_item_abandon(struct weir_redis_item *i);
/* What waits goes to the nodes that have its slots now. */
void weir_redis_node_reroute(struct weir_redis_node *n);
/* Sends what waits, if there is a connection and room. */
void weir_redis_node_pump(struct weir_redis_node *n);
/* The loop may be late: takes in what the server has answered already. Before anybody is told that it has not. Not from
 * within a callback of its connection.
 */
void weir_redis_node_look(struct weir_redis_node *n);
/* Every probe interval. */
void weir_redis_node_tick(struct weir_redis_node *n, __u64 now_ns);
/* Why it does not count now, to be shown. */
void weir_redis_node_cause(struct weir_redis_node *n, const char *cause);
void weir_redis_node_failure(struct weir_redis_node *n, enum weir_far_error kind, unsigned count,
			     const char *cause);
/* Gives back what layers of @q say is charged; nobody waits for the answer. */
void weir_redis_node_give_back(struct weir_redis_node *n, struct weir_store_request *q,
			       __u64 layers);

/* waiting.c: an item into the queue of @n and out of it; @r answers its job. */
void weir_redis_item_enqueue(struct weir_redis_node *n, struct weir_redis_item *i, bool front);
void weir_redis_item_dequeue(struct weir_redis_item *i);
void weir_redis_item_finish(struct weir_redis_item *i, int r);

/* batch.c: a spare call or a new one (NULL: no memory), and back to the spare ones. */
struct weir_redis_call *weir_redis_call_new(struct weir_redis *s);
void weir_redis_call_free(struct weir_redis *s, struct weir_redis_call *c);
/* Sends the command that @c holds. -EIO: the connection is about to go. */
int weir_redis_call_send(struct weir_redis_node *n, struct weir_redis_call *c);
/* It is no longer under way. */
void weir_redis_call_forget(struct weir_redis_call *c);
/* All who wait for it are answered @r. */
void weir_redis_call_fail(struct weir_redis_call *c, int r);

/* reply.c: of the call that @data is; @reply NULL: the connection is lost. */
void weir_redis_on_reply(struct redisAsyncContext *ac, void *reply, void *data);

/* --- job.c -------------------------------------------------------------------------------------------------------- */

enum weir_redis_phase {
	WEIR_REDIS_WHOLE,
	WEIR_REDIS_JUDGING,
	WEIR_REDIS_COMMITTING,
	WEIR_REDIS_MONITORS,
	WEIR_REDIS_GIVING_BACK
};

struct weir_redis_job {
	struct weir_redis_job *prev, *next; /* by deadline; or spare */
	struct weir_redis *s;
	struct weir_store_request *q;
	weir_store_done_fn *done;
	void *data;
	__u64 deadline_ns;
	enum weir_redis_op op;
	enum weir_redis_phase phase;
	int r, failed;	 /* of this phase; of the one whose charges are given back */
	unsigned n, due; /* items; those not answered yet */
	struct weir_redis_item one, *item;
	struct weir_redis_parted *parted; /* NULL: everything lives in one slot */
};

/* A request whose states live in several slots. A layer with @fresh is three here: its key, the bucket of new keys and
 * the stand-in key; which of them count is known when all have been judged.
 */
struct weir_redis_parted {
	struct weir_store_request q;	      /* of all */
	unsigned n;			      /* layers of the asker's request, which come first */
	__u64 counts;			      /* layers that are charged, or decide */
	__u64 buckets;			      /* of new keys, among them */
	unsigned more[WEIR_STORE_LAYERS_MAX]; /* bucket of a layer with @fresh; then its stand-in */
	struct weir_store_layer layer[WEIR_STORE_LAYERS_MAX];
	struct weir_redis_item item[WEIR_STORE_LAYERS_MAX];
};

struct weir_redis_job *weir_redis_job_new(struct weir_redis *s);
/* Parts it by slot. -ENOMEM; -EINVAL: too many layers. */
int weir_redis_job_split(struct weir_redis_job *j);
void weir_redis_job_go(struct weir_redis_job *j);
void weir_redis_job_answer(struct weir_redis_job *j, int r);
void weir_redis_job_give_up(struct weir_redis_job *j, int r);
/* 0: its layers are filled in; or -errno. */
void weir_redis_job_item_done(struct weir_redis_item *i, int r);

/* --- topology.c --------------------------------------------------------------------------------------------------- */

struct weir_redis_topology;
int weir_redis_topology_new(struct weir_redis *s, struct weir_redis_topology **ret);
void weir_redis_topology_free(struct weir_redis_topology *t);
/* To whom is asked for the way; NULL: nobody now. */
struct weir_redis_conn *weir_redis_topology_guide(struct weir_redis_topology *t);
/* NULL: none is known (yet). */
struct weir_redis_node *weir_redis_topology_node(struct weir_redis_topology *t, __u16 slot);
void weir_redis_topology_tick(struct weir_redis_topology *t, __u64 now_ns);
/* A node lost its connection, or says that it is no master: perhaps another one is now. NULL: a slot has none. */
void weir_redis_topology_doubt(struct weir_redis_topology *t, struct weir_redis_node *n);
void weir_redis_topology_up(struct weir_redis_topology *t, struct weir_redis_node *n);
/* A node says that this slot is nobody's. */
void weir_redis_topology_unserved(struct weir_redis_topology *t, __u16 slot);
/* MOVED or ASK: "3999 10.0.0.5:6381". The node that it names; NULL: it makes no sense. */
struct weir_redis_node *weir_redis_topology_redirect(struct weir_redis_topology *t,
						     const char *words, bool moved,
						     struct weir_redis_node *from);

/* --- store.c ------------------------------------------------------------------------------------------------------ */

struct weir_redis {
	struct weir_store store;
	struct event_base *base;
	struct weir_redis_url url;
	struct weir_redis_options o; /* strings of its own */
	char *user, *password, *prefix;
	char *sentinel_user, *sentinel_password; /* NULL: the server's if a Sentinel asks */
	char name[64];				 /* CLIENT SETNAME */
	struct weir_hi_tls *tls;
	struct weir_redis_topology *topology;
	struct weir_redis_node *nodes;
	struct weir_redis_pack pack;
	struct weir_redis_text late; /* what is given back after one reply */
	struct weir_redis_call *spare_calls;
	struct weir_redis_job *oldest, *newest; /* by deadline */
	struct weir_redis_job *spare_jobs;
	struct weir_redis_ask *asks; /* commands under way that are no decisions (ask.c) */
	size_t n_jobs;
	unsigned calls_max;
	struct weir_redis_size *size; /* NULL: not looked at */
	struct event *flush, *deadline, *tick;
	bool flush_due, deadline_due;
	bool away;     /* the breakers of all nodes in use are open */
	__u64 turn_ns; /* when this turn's first decision came; while flush is due */
	bool closing;
	bool hole; /* of the Cluster's slots some have no node */

	pthread_mutex_t lock; /* of shown */
	struct weir_far_stats shown;
	struct weir_far_stats n; /* counters; written here, read by others */
};

void weir_redis_flush_soon(struct weir_redis *s);
/* A node's health has changed. */
void weir_redis_health_changed(struct weir_redis *s, struct weir_redis_node *n, const char *cause);
/* Nodes came or went. @hole: which slots have none; "": all have one. */
void weir_redis_map_changed(struct weir_redis *s, const char *hole);
void weir_redis_show_server(struct weir_redis *s, const char *text);
void weir_redis_count(__u64 *counter, __u64 by);

/* --- size.c -------------------------------------------------------------------------------------------------------- */

int weir_redis_size_new(struct weir_redis *s);
void weir_redis_size_tick(struct weir_redis *s, __u64 now_ns);
/* Nothing is asked any more. */
void weir_redis_size_free(struct weir_redis *s);

/* --- ask.c --------------------------------------------------------------------------------------------------------- */

/* Answers all that is under way: the store goes. */
void weir_redis_ask_end(struct weir_redis *s);

#endif
