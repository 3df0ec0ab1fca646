/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the agents of a fleet share beside counters, through Redis: block and allow entries made by command or escalation,
 * who is there, the secret that hashes keys, and published limits. One for each agent, on its main loop, with a
 * connection of its own; never blocks, needs no server to be there. Called by the agent.
 *
 *	merge.c     what two statements about one prefix mean together: pure
 *	replica.c   what this host knows of the lists, and its own changes on top
 *	disk.c      both in a file, so that a restart without Redis loses nothing
 *	call.c      the script (lists.lua) and its replies, one call at a time; the server's clock
 *	fleet.c     when to ask what
 *	follow.c    the store's changes, the whole lists, and what it has lost
 *	hand.c      own changes
 *	agents.c    who is there, the secret, limits
 *
 * Keys, after the prefix of the configuration ("weir:"); all in one slot of a Cluster. None expires by itself.
 *
 *	{fleet}:1:list     HASH    "block 192.0.2.1" → VERSION GONE, then a line for each origin: SAID GONE ENDS CREATED_MS FLAGS
 *	                           ORIGIN HOST WHO REASON (tabs between; see lists.lua). And of the store: id (a new one whenever
 *	                           it has lost something), n (changes so far), last (version), told (that of the last change),
 *	                           forgot (that of the latest deletion which is not remembered)
 *	{fleet}:1:changes  STREAM  the last 16 thousand changes: k key, v GONE and lines that it has now, n
 *	{fleet}:1:gone     ZSET    keys of which something is deleted, by its version; for 30 days, at most 100 000
 *	{fleet}:1:ends     ZSET    keys by their next end, to drop them
 *	{fleet}:1:pushed   HASH    agent → number of its last batch of changes: one whose reply was lost is not applied twice
 *	{fleet}:1:agents   HASH    agent → when seen (ms), then JSON
 *	{fleet}:1:limits   HASH    generation, text (YAML), host, who, at (ms)
 *	{fleet}:1:secret   STRING  64 hex digits; absent where agents have key_secret_file
 *	{fleet}:1:key      STRING  fingerprint of the secret that the fleet uses
 *
 * Order is the order of arrival at the store. A version is the id of a change in the stream as one number
 * (milliseconds * 4096 + number); versions only grow, also over the loss of the store. Times are the server's.
 *
 * What is known of a prefix can be joined with what anybody else knows of it, in any order and as often as one likes, to the
 * same end: each origin has the version at which it was last said (SAID) and that of its last deletion (GONE; one more for
 * all origins), and counts if it was said after that. So it does not matter how often a store was lost, which host comes
 * back first, and what it missed.
 */
#ifndef WEIR_FLEET_FLEET_H
#define WEIR_FLEET_FLEET_H

#include "user/base/addr.h"
#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/redis/redis.h"
#include "weir/maps.h"

struct event_base;
struct weir_fleet;

#define WEIR_FLEET_ORIGINS_MAX	16  /* of one prefix */
#define WEIR_FLEET_NAME_MAX	64  /* of an origin, a host, an author; with its NUL */
#define WEIR_FLEET_REASON_MAX	160 /* with its NUL */
#define WEIR_FLEET_SECRET_BYTES 32
#define WEIR_FLEET_LIMITS_MAX	(1u << 20) /* bytes of published limits */
#define WEIR_FLEET_LIVE_MS	10000	   /* an agent seen since is alive */

struct weir_fleet_key {
	enum weir_list list; /* ALLOW or BLOCK */
	struct weir_prefix prefix;
};

/* One origin's statement about a prefix. Texts are never NULL. */
struct weir_fleet_entry {
	__u64 end_ms; /* of the server's clock; 0: never */
	__u64 created_ms;
	__u64 said, gone; /* versions: last said, and deleted before that; 0: not yet, not known */
	__u32 flags;	  /* enum weir_entry_flags */
	const char *origin, *host, *who, *reason;
};

struct weir_fleet_limits {
	__u64 generation; /* 0: none are published */
	const char *text, *host, *who;
	__u64 at_ms;
};

/* What an agent says of itself, beside host, version and fingerprint. */
struct weir_fleet_self {
	__u64 generation; /* of the configuration in force */
	__u64 limits;	  /* generation of published limits in force; 0: the file's */
	char digest[33];  /* of the file */
	bool limits_from_store;
	bool limits_failed; /* newer ones are wrong here */
};

struct weir_fleet_ops {
	/* Entries of these prefixes have changed, or any (@n 0). */
	void (*changed)(void *arg, const struct weir_fleet_key *key, size_t n);
	/* Keys are to be hashed with it from now on. -errno: that cannot be; the agent is not ready then. */
	int (*secret)(void *arg, const __u8 secret[WEIR_FLEET_SECRET_BYTES]);
	/* Others were published. */
	void (*limits)(void *arg, const struct weir_fleet_limits *l);
	void (*describe)(void *arg, struct weir_fleet_self *ret);
};

struct weir_fleet_options {
	struct event_base *base;
	const struct weir_redis_options *redis; /* read by weir_fleet_new alone */
	const char *db_path;			/* NULL: nothing outlives the process */
	const char *host, *instance;
	bool lists;	    /* false: entries stay each host's */
	const __u8 *secret; /* of key_secret_file; NULL: the store's */
	const struct weir_fleet_ops *ops;
	void *arg;
	/* NULL: the system's */
	__u64 (*mono_ns)(void *arg);
	__s64 (*wall_ms)(void *arg);
};

/* Reads what is on disk: weir_fleet_get is right at once, changed is not called for it. -EINVAL and other -errno with a
 * sentence. *ret_note (heap or NULL): the file is damaged or cannot be written.
 */
int weir_fleet_new(const struct weir_fleet_options *o, struct weir_fleet **ret, char **ret_note,
		   struct weir_error *e);
void weir_fleet_free(struct weir_fleet *f);
DEFINE_CLEANUP(struct weir_fleet, weir_fleet_free)

/* --- lists ---- */

/* Acts here at once, and on the others when the store has it. On disk when it returns; all of it or nothing.
 * @entry: the same for all keys; of this host and made now if it says neither.
 */
int weir_fleet_add(struct weir_fleet *f, const struct weir_fleet_key *key, size_t n,
		   const struct weir_fleet_entry *entry, struct weir_error *e);
/* @origin NULL: of every origin, also of those that this host has not heard of; "x" stands for "x:y" too. *ret_n: how many
 * entries this host knew.
 */
int weir_fleet_del(struct weir_fleet *f, const struct weir_fleet_key *key, const char *origin,
		   size_t *ret_n, struct weir_error *e);
/* Every entry of that origin in a list. */
int weir_fleet_del_origin(struct weir_fleet *f, enum weir_list list, const char *origin,
			  size_t *ret_n, struct weir_error *e);

/* What counts on this host: the store's with own changes on top, without what has ended. Texts live until the next call. */
size_t weir_fleet_get(struct weir_fleet *f, const struct weir_fleet_key *key,
		      struct weir_fleet_entry ret[WEIR_FLEET_ORIGINS_MAX]);
typedef int weir_fleet_each_fn(void *arg, const struct weir_fleet_key *key,
			       const struct weir_fleet_entry *entry, size_t n);
typedef bool weir_fleet_want_fn(void *arg, const struct weir_fleet_key *key);
/* What was heard of last comes first; what @want (NULL: all) does not want costs next to nothing. Stops at the first nonzero
 * result and returns it. @fn changes nothing.
 */
int weir_fleet_each(struct weir_fleet *f, weir_fleet_want_fn *want, weir_fleet_each_fn *fn,
		    void *arg);

/* The server's clock as far as it is known, and its times on this host's clocks; 0 stays 0. */
__u64 weir_fleet_now_ms(const struct weir_fleet *f);
__u64 weir_fleet_mono_ns(const struct weir_fleet *f, __u64 at_ms);
__s64 weir_fleet_wall_s(const struct weir_fleet *f, __u64 at_ms);

/* --- agents, secret, limits ---- */

/* At least 1: this one. As last heard of while the store is away. */
unsigned weir_fleet_live_agents(const struct weir_fleet *f);
/* As the others see this host. */
void weir_fleet_host(const struct weir_fleet *f, char *buf, size_t size);
/* Is what weir_fleet_add was told on disk? */
bool weir_fleet_is_durable(const struct weir_fleet *f);
/* NULL: it is ready; else why not. */
const char *weir_fleet_unready(const struct weir_fleet *f);
/* The fleet's, or that of the file; false: not known yet. */
bool weir_fleet_secret(const struct weir_fleet *f, __u8 ret[WEIR_FLEET_SECRET_BYTES]);
/* As the store has them, as far as is known. */
void weir_fleet_limits(const struct weir_fleet *f, struct weir_fleet_limits *ret);
/* Those of a former run, in case the store has lost them. */
int weir_fleet_remember_limits(struct weir_fleet *f, const struct weir_fleet_limits *l);
/* @r: 0: weir_fleet_limits is as the store has it; -EPROTO: what it has cannot be taken; another -errno: @why says it. */
typedef void weir_fleet_asked_fn(void *arg, int r, const char *why);
/* Asks the store at once what is published. @fn is called once, later. -EBUSY: somebody asks already; -EHOSTDOWN: the store
 * is away: with a sentence, and @fn is not called.
 */
int weir_fleet_ask_limits(struct weir_fleet *f, weir_fleet_asked_fn *fn, void *arg,
			  struct weir_error *e);
/* @r: 0 with the new @generation; -ESTALE: somebody else was faster; another -errno: @why says it. */
typedef void weir_fleet_published_fn(void *arg, int r, __u64 generation, const char *why);
/* Publishes limits (YAML) after those known here; copied. @fn is called once, later. -EBUSY: one is under way; -EHOSTDOWN:
 * the store is away; -E2BIG: more than WEIR_FLEET_LIMITS_MAX; -ENOMEM: with a sentence, and @fn is not called.
 */
int weir_fleet_publish(struct weir_fleet *f, const char *text, const char *who,
		       weir_fleet_published_fn *fn, void *arg, struct weir_error *e);

struct weir_fleet_agent {
	char id[33];
	char host[WEIR_FLEET_NAME_MAX], instance[16], version[16], fingerprint[17], digest[33];
	__u64 seen_ms, age_ms;
	__u64 generation, limits;
	__u64 behind;  /* changes of lists that it has not taken yet */
	__u64 waiting; /* own ones that are not in the store */
	bool limits_from_store, limits_failed;
	bool self, live;
};
/* Up to @max; returns how many there are. */
size_t weir_fleet_agents(const struct weir_fleet *f, struct weir_fleet_agent *ret, size_t max);

enum weir_fleet_state {
	WEIR_FLEET_AWAY,     /* the store does not answer */
	WEIR_FLEET_RESTORES, /* it has lost entries: they are said again */
	WEIR_FLEET_READS,    /* the whole lists */
	WEIR_FLEET_FOLLOWS,
};
/* "away", "restores", "reads", "follows". */
const char *weir_fleet_state_name(enum weir_fleet_state s);
struct weir_fleet_status {
	enum weir_fleet_state state;
	__s64 since_s;	  /* wall clock */
	char why[160];	  /* it is away; "" */
	char server[128]; /* as weir_far_stats */
	char key[64];	  /* of the lists, as Redis has it */
	char store_id[33], agent_id[33], fingerprint[17];
	bool durable, clock_known;
	__s64 clock_offset_ms; /* the server's less this host's */
	__u64 entries, gone;
	__u64 waiting; /* own changes that are not in the store */
	__u64 behind;  /* changes not taken yet, as last heard */
	__u64 lag_ms;  /* since this host was last known to have all */
	__u64 changes, pushed, reads,
		restores; /* ever: taken, pushed; whole lists read; losses of the store */
	__u64 failures;	  /* of calls */
};
/* All of it at this moment. */
void weir_fleet_status(const struct weir_fleet *f, struct weir_fleet_status *ret);

#endif
