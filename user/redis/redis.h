/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store: request limits in Redis behind the interface of user/store/store.h, one per worker thread.
 *
 *	url.c       store.url and what belongs to it           resolve.c   names to addresses, off the loop
 *	conn.c      one connection to one node                 script.c    requests to arguments, replies to answers
 *	topology.c  which node: one, Sentinel's, a Cluster's    job.c       a request, in one slot or several
 *	node.c      a node: its connection, its breaker        waiting.c   what waits at a node
 *	batch.c     what waits in one turn goes in one call    reply.c     what a reply means for those who wait
 *	breaker.c   healthy, degraded, open                    store.c     weir_store_ops on all of that
 *	hi.c        hiredis on the loop, TLS                   size.c      what the keys take
 *	decide.lua  the decisions, in the server               rights.lua  which commands the user may not run
 */
#ifndef WEIR_REDIS_REDIS_H
#define WEIR_REDIS_REDIS_H

#include "user/base/error.h"
#include "user/store/far.h"

struct event_base;

enum weir_redis_kind { WEIR_REDIS_ONE, WEIR_REDIS_SENTINEL, WEIR_REDIS_CLUSTER };

#define WEIR_REDIS_SEEDS_MAX  16
#define WEIR_REDIS_PREFIX_MAX 64
struct weir_redis_url {
	enum weir_redis_kind kind;
	bool tls;
	struct {
		char *host; /* name or address */
		__u16 port;
	} seed[WEIR_REDIS_SEEDS_MAX]; /* ONE: one; else where to ask */
	size_t n_seed;
	char *unix_path;       /* ONE only; redis+unix:///path */
	char *master;	       /* SENTINEL: the name of the master */
	char *user, *password; /* NULL: none here */
	unsigned db;	       /* 0 with a Cluster */
};
/* redis://[user[:password]@]host[:port][/db], rediss://…, redis+unix:///path[?db=N],
 * redis+sentinel://host[:port],…/master[/db], redis+cluster://host[:port],…  -EINVAL with a sentence that never holds the
 * password; -ENOMEM. weir_redis_url_done frees what is in it.
 */
int weir_redis_url_parse(const char *text, struct weir_redis_url *ret, struct weir_error *e);
/* -ENOMEM. */
int weir_redis_url_copy(const struct weir_redis_url *u, struct weir_redis_url *ret);
void weir_redis_url_done(struct weir_redis_url *u);
/* As given, without user and password: for status and logs. */
const char *weir_redis_url_shown(const struct weir_redis_url *u, char *buf, size_t size);

/* Can this build speak TLS to a server? -EOPNOTSUPP with a sentence that says what would. */
int weir_redis_tls_check(struct weir_error *e);

/* The script counts in doubles: are this limit's numbers whole there? Else the configuration is refused. */
bool weir_redis_limit_fits(const struct weir_store_limit *l);

struct weir_redis_options {
	const struct weir_redis_url *url; /* copied */
	const char *user, *password;	  /* over the URL's; NULL: those of the URL */
	const char *sentinel_user,
		*sentinel_password; /* NULL: the server's, for a Sentinel that asks for one */
	const char *tls_ca, *tls_cert, *tls_key;
	const char *prefix; /* of every key */
	__u64 timeout_ns; /* of one decision: connecting, waiting for its turn and the reply together */
	unsigned breaker_errors; /* so many failures … */
	__u64 breaker_within_ns; /* … within this open the breaker */
	__u64 probe_ns;		 /* while it is open: how often the server is tried */
	unsigned batch_max;	 /* requests in one script call; 1: no coalescing */
	size_t waiting_max;	 /* decisions that may wait; more are refused at once (-EAGAIN) */
	bool quiet; /* changes of health are logged for debugging only: another worker does */
	bool sizes; /* look now and then what the keys take */
};

/* Never blocks, needs no server to be there. Runs in @base's thread. Answers every decision exactly once: 0, or
 * -EHOSTDOWN (breaker open, at once), -ETIMEDOUT, -EIO, -EAGAIN, -EPROTO: nothing is known to be charged, and what a
 * late reply shows as charged is given back.
 */
int weir_store_redis_new(struct event_base *base, const struct weir_redis_options *o,
			 struct weir_store **ret, struct weir_error *e);
struct redisReply;
/* @reply NULL: it failed, @cause says why, and whether it was done is not known. An error of the server is a reply. */
typedef void weir_redis_reply_fn(void *arg, const struct redisReply *reply, const char *cause);
/* One command for what is no decision (lists and agents of the fleet), to the node where @key lives; NULL: to the Sentinel
 * that is asked for the master. @fn is called exactly once, later, at the latest after @timeout_ns. Redirections are
 * followed. (ask.c)
 */
int weir_redis_ask(struct weir_store *s, const char *key, unsigned argc, const char *const *argv,
		   const size_t *argv_bytes, __u64 timeout_ns, weir_redis_reply_fn *fn, void *arg);
/* Which of the commands in ARGV may the user not run on KEYS[1]? (rights.lua) */
extern const char weir_redis_rights_script[];
/* An error of the server as people read it, to a command or to a call of @script (NULL: to a command); may be in @buf.
 * (conn.c)
 */
const char *weir_redis_error_words(const struct redisReply *r, const char *script, char *buf,
				   size_t size);

#endif
