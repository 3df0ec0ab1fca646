/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir doctor's look at a shared store, by the same connections that an agent makes and the same decisions: version, role,
 * login, rights, room and, in a Cluster, all masters are tried by them. Called by cmd_doctor.c.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "user/agent/shared.h"
#include "user/base/clock.h"
#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/doctor.h"

#define ASK_NS	  3000000000ull /* connecting included */
#define WORDS_MAX 32		/* of a command */
#define ROUNDS	  5		/* whose fastest counts: what the network takes */
#define KEY	  "doctor"	/* of no meaning: which server of a cluster is asked */

/* Decisions of nobody's: in a Cluster so many keys that each of its masters has some. */
#define TRIES	  256
#define DECIDE_NS 1000000000ull
#define AGAIN_US  20000
#define TRY_MAX_NS                                                                                 \
	3000000000ull /* until all of them succeed; half of it where it is said why not */

struct asked {
	struct event_base *base;
	bool answered;
	char cause[160];  /* "": it said something */
	char text[16384]; /* what it said; an error's too */
	bool is_error;
};

static void on_reply(void *arg, const struct redisReply *r, const char *cause)
{
	struct asked *q = arg;

	q->answered = true;
	if (!r)
		(void)weir_str_copy(q->cause, sizeof(q->cause), cause);
	q->is_error = r && r->type == REDIS_REPLY_ERROR;
	if (r && r->str)
		(void)weir_str_copy(q->text, sizeof(q->text), r->str);
}

/* False: nothing was answered, @q says why. @key as weir_redis_ask takes it. */
static bool ask_at(struct weir_store *s, const char *key, struct asked *q, unsigned n,
		   const char *const *words)
{
	size_t bytes[WORDS_MAX];
	int r;

	for (unsigned i = 0; i < n; i++)
		bytes[i] = strlen(words[i]);
	q->answered = q->is_error = false;
	q->cause[0] = q->text[0] = '\0';
	r = weir_redis_ask(s, key, n, words, bytes, ASK_NS, on_reply, q);
	if (r < 0) {
		(void)weir_str_copy(q->cause, sizeof(q->cause), strerror(-r));
		return false;
	}
	while (!q->answered && event_base_loop(q->base, EVLOOP_ONCE) == 0)
		;
	return q->answered && !q->cause[0];
}

static bool ask(struct weir_store *s, struct asked *q, unsigned n, const char *const *words)
{
	return ask_at(s, KEY, q, n, words);
}

/* The value of a line "name:value"; "" if there is none. */
static const char *value(const char *text, const char *name, char *buf, size_t size)
{
	size_t n = strlen(name);

	buf[0] = '\0';
	for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
		if (strncmp(at, name, n) == 0 && at[n] == ':')
			(void)snprintf(buf, size, "%.*s", (int)strcspn(at + n + 1, "\r\n"),
				       at + n + 1);
	return buf;
}

static void look_at_memory(struct weir_doctor *d, struct weir_store *s, struct asked *q)
{
	char most[32], policy[32];

	if (!ask(s, q, 2, (const char *const[]){"INFO", "memory"}) || q->is_error) {
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store memory",
				 "not to be seen (this user has no INFO)");
		return;
	}
	(void)value(q->text, "maxmemory", most, sizeof(most));
	(void)value(q->text, "maxmemory_policy", policy, sizeof(policy));
	if (strncmp(policy, "allkeys", 7) == 0)
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store memory",
				 "maxmemory-policy %s may forget the fleet's lists and key secret: "
				 "volatile-ttl drops nothing but counts",
				 policy);
	else if (!strcmp(most, "0"))
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store memory",
				 "no maxmemory: a flood of keys takes all that the machine has "
				 "(set it, and maxmemory-policy volatile-ttl)");
	else if (!strcmp(policy, "noeviction"))
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store memory",
				 "maxmemory-policy noeviction: when it is full every new client is "
				 "on_store_failure's (volatile-ttl drops counts that end soon)");
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store memory", "at most %s bytes, %s", most,
				 policy);
}

/* --- rights ------------------------------------------------------------------------------------------------------- */

/* As docs/redis.md grants them; a test compares. */
static const struct rights {
	enum weir_finding finding; /* if one is missing */
	const char *without;	   /* what does not work then */
	const char *command[20];
} all_rights[] = {
	{WEIR_FINDING_FAIL,
	 "limits are on_store_failure's",
	 {"evalsha", "script|load", "time", "get", "set", "del", "pexpire", "llen", "lindex",
	  "lrem", "ltrim", "rpush"}},
	{WEIR_FINDING_FAIL,
	 "lists, published limits and the key secret of the fleet do not work",
	 {"hget", "hset", "hdel", "hmget", "hgetall", "hscan", "zadd", "zcard", "zscore", "zrem",
	  "zrange", "zrangebyscore", "zremrangebyrank", "zremrangebyscore", "xadd", "xrange"}},
	{WEIR_FINDING_WARN,
	 "its version, its memory and the time to it are not looked at",
	 {"info", "client|setname", "echo"}},
	{WEIR_FINDING_WARN,
	 "weir status does not show what the keys take",
	 {"dbsize", "scan", "memory|usage"}},
};
static const struct rights of_sentinel = {WEIR_FINDING_WARN,
					  "a replica is taken for a master until it refuses",
					  {"role"}};
static const struct rights of_cluster = {WEIR_FINDING_FAIL,
					 "slots are not found, or not while they are moved",
					 {"cluster|slots", "asking"}};

enum rights_seen { RIGHTS_GOOD, RIGHTS_MISSING, RIGHTS_UNKNOWN };

static enum rights_seen look_at_right(struct weir_doctor *d, struct weir_store *s, struct asked *q,
				      const char *sha, const char *key, const struct rights *r)
{
	const char *words[4 + ARRAY_LEN(r->command)] = {"EVALSHA", sha, "1", key};
	unsigned n = 4;

	for (size_t i = 0; i < ARRAY_LEN(r->command) && r->command[i]; i++)
		words[n++] = r->command[i];
	if (!ask_at(s, key, q, n, words) || q->is_error)
		return RIGHTS_UNKNOWN;
	if (!strcmp(q->text, "?")) {
		(void)weir_str_copy(q->text, sizeof(q->text), "Redis tells it from 7.0 on");
		return RIGHTS_UNKNOWN;
	}
	if (!q->text[0])
		return RIGHTS_GOOD;
	weir_doctor_tell(d, r->finding, "store rights", "the user may not run %s on %s: %s (ACL)",
			 q->text, key, r->without);
	return RIGHTS_MISSING;
}

static enum rights_seen look_at_all_rights(struct weir_doctor *d, const struct weir_conf *c,
					   struct weir_store *s, const struct weir_redis_url *url,
					   struct asked *q)
{
	const struct rights *of_kind = url->kind == WEIR_REDIS_SENTINEL	 ? &of_sentinel
				       : url->kind == WEIR_REDIS_CLUSTER ? &of_cluster
									 : NULL;
	char key[WEIR_REDIS_PREFIX_MAX + 32], sha[41];
	enum rights_seen seen, all = RIGHTS_GOOD;

	(void)snprintf(key, sizeof(key), "%s{fleet}:1:list", c->store.prefix);
	if (!ask_at(s, key, q, 3,
		    (const char *const[]){"SCRIPT", "LOAD", weir_redis_rights_script}) ||
	    q->is_error)
		return RIGHTS_UNKNOWN;
	(void)weir_str_copy(sha, sizeof(sha), q->text);
	for (size_t i = 0; i <= ARRAY_LEN(all_rights); i++) {
		const struct rights *r = i < ARRAY_LEN(all_rights) ? &all_rights[i] : of_kind;

		seen = r ? look_at_right(d, s, q, sha, key, r) : RIGHTS_GOOD;
		if (seen == RIGHTS_UNKNOWN)
			return seen;
		if (seen == RIGHTS_MISSING)
			all = seen;
	}
	return all;
}

static void look_at_rights(struct weir_doctor *d, const struct weir_conf *c, struct weir_store *s,
			   const struct weir_redis_url *url, struct asked *q)
{
	switch (look_at_all_rights(d, c, s, url, q)) {
	case RIGHTS_GOOD:
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store rights",
				 "the user may run all that weir needs");
		break;
	case RIGHTS_UNKNOWN:
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store rights",
				 "it is not known what the user may run (%s)",
				 q->cause[0] ? q->cause : q->text);
		break;
	case RIGHTS_MISSING:
		break; /* said */
	}
}

static void look_at_time(struct weir_doctor *d, const struct weir_conf *c, struct weir_store *s,
			 struct asked *q)
{
	const __u64 timeout_us = c->store.timeout_ns / 1000;
	__u64 least_us = ~0ull;

	for (int i = 0; i < ROUNDS; i++) {
		__u64 asked_ns = weir_clock_ns(CLOCK_MONOTONIC), us;

		if (!ask(s, q, 2, (const char *const[]){"ECHO", "weir"}))
			return;
		us = (weir_clock_ns(CLOCK_MONOTONIC) - asked_ns) / 1000;
		if (us < least_us)
			least_us = us;
	}
	if (2 * least_us > timeout_us)
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store time",
				 "a round trip takes %llu us of the %llu us that a decision has "
				 "(store.timeout, http.budget)",
				 (unsigned long long)least_us, (unsigned long long)timeout_us);
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store time",
				 "a round trip takes %llu us; a decision has %llu us",
				 (unsigned long long)least_us, (unsigned long long)timeout_us);
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

static void decided(struct weir_store_request *q, int r, void *arg)
{
	(void)q;
	*(int *)arg = r;
}

/* Of so many decisions: how many fail, one after another. */
static unsigned try_decisions(struct weir_store *s, struct event_base *base, unsigned n)
{
	struct weir_store_limit l = {.algorithm = WEIR_REQUEST_FIXED_WINDOW, .window_us = 1000000};
	unsigned failed = 0;

	l.fixed.limit = 1ull << 40;
	for (unsigned i = 0; i < n; i++) {
		struct weir_store_layer y = {.limit = &l, .cost = 1};
		struct weir_store_request q = {.layer = &y, .n = 1};
		const __u64 key = (i + 1) * 0x9e3779b97f4a7c15ull; /* spread over the slots */
		int r = 1;

		memcpy(y.key, &key, sizeof(key));
		s->ops->decide(s, &q, decided, &r);
		while (r == 1 && event_base_loop(base, EVLOOP_ONCE) == 0)
			;
		failed += r != 0;
	}
	return failed;
}

/* Until all of them succeed: connections are made meanwhile. */
static unsigned try_until_good(struct weir_store *s, struct event_base *base, unsigned n)
{
	const struct timeval pause = {.tv_usec = AGAIN_US};
	const __u64 began_ns = weir_clock_ns(CLOCK_MONOTONIC);
	struct weir_far_stats stats;
	unsigned failed;

	for (;;) {
		failed = try_decisions(s, base, n);
		weir_store_far_stats(s, &stats);
		if (!failed || weir_clock_ns(CLOCK_MONOTONIC) - began_ns >=
				       TRY_MAX_NS / (stats.health == WEIR_FAR_OPEN ? 2 : 1))
			return failed;
		(void)event_base_loopexit(base, &pause);
		(void)event_base_dispatch(base);
	}
}

static void look_at_sentinels(struct weir_doctor *d, struct weir_store *s, const char *master,
			      struct asked *q)
{
	if (!ask_at(s, NULL, q, 3, (const char *const[]){"SENTINEL", "CKQUORUM", master}))
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store sentinels",
				 "none is asked now (%s): a new master would not be found",
				 q->cause);
	else if (!q->is_error)
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store sentinels", "%s", q->text);
	else if (strncmp(q->text, "NOQUORUM", 8) == 0)
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store sentinels",
				 "too few are left to make a replica the master (%s)", q->text);
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store sentinels",
				 "whether they are enough is not to be seen (this user has no "
				 "sentinel|ckquorum)");
}

static void look(struct weir_doctor *d, const struct weir_conf *c, struct weir_store *s,
		 const struct weir_redis_url *url, struct asked *q)
{
	unsigned n = url->kind == WEIR_REDIS_CLUSTER ? TRIES : 1;
	unsigned failed = try_until_good(s, q->base, n);
	struct weir_far_stats stats = {};

	weir_store_far_stats(s, &stats);
	if (failed == n)
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s",
				 stats.cause[0] ? stats.cause : "it does not answer in time");
	else if (failed)
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store",
				 "a part of the cluster does not count, about %u in 100: %s",
				 (100 * failed + n - 1) / n, stats.cause);
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store", "%s", stats.server);
	if (url->kind == WEIR_REDIS_SENTINEL && stats.server[0])
		look_at_sentinels(d, s, url->master, q);
	if (stats.server[0])
		look_at_rights(d, c, s, url, q);
	if (failed)
		return;
	look_at_memory(d, s, q);
	look_at_time(d, c, s, q);
}

void weir_doctor_store(struct weir_doctor *d, const struct weir_conf *c)
{
	_cleanup_(weir_shared_freep) struct weir_shared *shared = NULL;
	struct weir_redis_options o;
	struct weir_error e = {""};
	struct weir_store *s = NULL;
	struct asked *q;

	if (weir_shared_new(c, &shared, &e) < 0) {
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s", e.text);
		return;
	}
	q = shared ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return;
	q->base = event_base_new();
	o = *weir_shared_redis(shared);
	o.quiet = true;
	if (o.timeout_ns < DECIDE_NS)
		o.timeout_ns = DECIDE_NS; /* how long they take is a line of its own */
	if (!q->base || weir_store_redis_new(q->base, &o, &s, &e) < 0)
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s",
				 e.text[0] ? e.text : "out of memory");
	else
		look(d, c, s, o.url, q);
	weir_store_free(s);
	if (q->base)
		event_base_free(q->base);
	free(q);
}
