/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One connection: its name is looked up, an address is tried, the server is greeted (AUTH, SELECT, CLIENT SETNAME, INFO,
 * ROLE, SCRIPT LOAD in one go). Lost, all of its addresses are tried, then again after a jittered pause that grows to the
 * probe's interval, what the try itself took included: so often the server is looked for, whatever it does. Every try
 * looks the name up anew; where nobody can say it in time, the addresses are those of before. Called by batch.c for
 * nodes and by topology.c for questions.
 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <sodium.h>
#include <stdarg.h>
#include <string.h>

#include "user/base/str.h"
#include "user/redis/redis_int.h"

/* What is said for a reply that is due, in order; the number is the callback's private data. */
enum greeting { GREET_AUTH, GREET_SELECT, GREET_NAME, GREET_INFO, GREET_ROLE, GREET_LOAD };

#define LEAST_MAJOR 6
#define LEAST_MINOR 2

static void try_now(struct weir_redis_conn *c);

static void arm(struct weir_redis_conn *c, __u64 ns)
{
	struct timeval t = {.tv_sec = (time_t)(ns / 1000000000),
			    .tv_usec = (long)(ns % 1000000000 / 1000)};

	(void)event_add(c->timer, &t); /* the timer is there: nothing is allocated */
}

/* Takes apart what there is of it; commands under way get a NULL reply, which may call back into c's owner. */
static void take_apart(struct weir_redis_conn *c)
{
	struct redisAsyncContext *ac = c->ac;

	c->state = WEIR_REDIS_CONN_CLOSED;
	c->ac = NULL;
	(void)event_del(c->timer);
	if (ac) {
		ac->data = NULL;
		redisAsyncFree(ac);
	}
}

void weir_redis_conn_close(struct weir_redis_conn *c)
{
	take_apart(c);
	c->tries = 0;
}

static __u64 jitter_ns(__u64 up_to_ns)
{
	return randombytes_uniform((__u32)(up_to_ns / 1000) + 1) * 1000ull;
}

/* From the beginning of the last try to that of the next. */
static __u64 pause_ns(const struct weir_redis_conn *c)
{
	unsigned n = c->addresses.n ? (unsigned)c->addresses.n : 1;
	__u64 most = c->s->o.probe_ns, ns = WEIR_REDIS_BACKOFF_NS;

	if (c->tries % n)
		return 0; /* it has another address */
	for (unsigned i = n; i < c->tries && ns < most; i += n)
		ns *= 2;
	if (ns > most)
		ns = most;
	return ns / 2 + jitter_ns(ns / 2);
}

/* After the context is gone. */
static void lost(struct weir_redis_conn *c)
{
	__u64 took_ns = c->began_ns ? weir_redis_now_ns() - c->began_ns : 0, ns;

	c->tries++;
	ns = pause_ns(c);
	if (!c->once)
		arm(c, ns > took_ns ? ns - took_ns : jitter_ns(WEIR_REDIS_BACKOFF_NS / 4));
	if (c->down)
		c->down(c->arg, c->cause);
}

void weir_redis_conn_fail(struct weir_redis_conn *c, const char *format, ...)
{
	char why[WEIR_REDIS_CAUSE_BYTES - 62], where[sizeof(c->host) + 16];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(why, sizeof(why), format, ap); /* too long: cut */
	va_end(ap);
	(void)snprintf(c->cause, sizeof(c->cause), "%.60s: %s",
		       weir_redis_conn_where(c, where, sizeof(where)), why);
	if (c->state == WEIR_REDIS_CONN_CLOSED)
		return;
	take_apart(c);
	lost(c);
}

const char *weir_redis_conn_where(const struct weir_redis_conn *c, char *buf, size_t size)
{
	if (!c->host[0])
		(void)snprintf(buf, size, "%s",
			       c->s->url.unix_path ? c->s->url.unix_path
			       : c->s->url.master  ? c->s->url.master
						   : "the cluster");
	else
		(void)snprintf(buf, size, strchr(c->host, ':') ? "[%s]:%u" : "%s:%u", c->host,
			       c->port);
	return buf;
}

/* --- greeting ---------------------------------------------------------------------------------------------------- */

static bool begins(const struct redisReply *r, const char *with)
{
	return !strncmp(r->str, with, strlen(with));
}

/* The value of "name:value\r\n" in what INFO says. */
static bool info_value(const char *text, const char *name, char *ret, size_t size)
{
	const char *at = strstr(text, name);
	size_t n;

	if (!at)
		return false;
	at += strlen(name);
	n = strcspn(at, "\r\n");
	(void)snprintf(ret, size, "%.*s", (int)(n < size ? n : size - 1), at);
	return true;
}

static bool read_number(const char **s, unsigned *ret)
{
	unsigned n = 0;
	const char *at = *s;

	for (; *at >= '0' && *at <= '9' && n < 1000; at++)
		n = n * 10 + (unsigned)(*at - '0');
	if (at == *s)
		return false;
	*s = *at == '.' ? at + 1 : at;
	*ret = n;
	return true;
}

/* A server that does not say its version is taken as it is: an ACL may keep INFO from us. */
static bool read_version(struct weir_redis_conn *c, const struct redisReply *r)
{
	char number[20] = "", other[20];
	const char *at = number;
	unsigned major = 0, minor = 0;

	if (r->type != REDIS_REPLY_STRING ||
	    !info_value(r->str, "redis_version:", number, sizeof(number)))
		return true;
	if (info_value(r->str, "valkey_version:", other, sizeof(other)))
		(void)snprintf(c->version, sizeof(c->version), "Valkey %s", other);
	else
		(void)snprintf(c->version, sizeof(c->version), "Redis %s", number);
	if (!read_number(&at, &major) || !read_number(&at, &minor))
		return true;
	if (major > LEAST_MAJOR || (major == LEAST_MAJOR && minor >= LEAST_MINOR))
		return true;
	weir_redis_conn_fail(c, "Redis %s is too old: %d.%d or later is needed", number,
			     LEAST_MAJOR, LEAST_MINOR);
	return false;
}

static bool is_master(const struct redisReply *r)
{
	return r->type != REDIS_REPLY_ARRAY || !r->elements ||
	       r->element[0]->type != REDIS_REPLY_STRING || !strcmp(r->element[0]->str, "master");
}

static bool is_sentinel(const struct weir_redis_conn *c)
{
	return c->plain && c->s->url.kind == WEIR_REDIS_SENTINEL;
}

/* Redis before 8 says the line of the script: "… can't run this command …, on @user_script:9." */
static const char *words_of_line(const struct redisReply *r, const char *script, char *buf,
				 size_t size)
{
	static const char where[] = "@user_script:";
	const char *at = strstr(r->str, where);
	char command[32];
	unsigned line = 0;

	if (script && at && sscanf(at + sizeof(where) - 1, "%u", &line) == 1 &&
	    weir_redis_script_command(script, line, command, sizeof(command))) {
		(void)snprintf(buf, size, "the user may not run %s (ACL)", command);
		return buf;
	}
	return "the user may not run a command of the script (ACL LOG names it)";
}

/* What an error means, where the server's own words say it to no operator. */
static const struct {
	const char *begins, *words;
} meanings[] = {
	{"LOADING", "it is loading its data"},
	{"OOM", "maxmemory is reached and nothing may be evicted"},
	{"DENIED", "it is in protected mode: until it has a password it serves its own host alone"},
	{"ERR DB index is out of range",
	 "it has no such database (the number that ends store.url)"},
	{"ERR This instance has cluster support disabled",
	 "it is no node of a Cluster (redis:// is for one server)"},
	{"ERR unknown command 'SENTINEL'", "it is no Sentinel (redis:// is for the server itself)"},
	{"ERR unknown command `SENTINEL`", "it is no Sentinel (redis:// is for the server itself)"},
	{"ERR unknown command 'SCRIPT'", "it has no scripts (a Sentinel is redis+sentinel://)"},
	{"ERR unknown command `SCRIPT`", "it has no scripts (a Sentinel is redis+sentinel://)"},
};

const char *weir_redis_error_words(const struct redisReply *r, const char *script, char *buf,
				   size_t size)
{
	const char *open = strchr(r->str, '\''), *close = open ? strchr(open + 1, '\'') : NULL;

	for (size_t n = 0; n < ARRAY_LEN(meanings); n++)
		if (begins(r, meanings[n].begins))
			return meanings[n].words;
	if (begins(r, "ERR The user executing the script can't"))
		return words_of_line(r, script, buf, size);
	if (!begins(r, "NOPERM") && !begins(r, "ERR ACL failure in script"))
		return r->str;
	if (close)
		(void)snprintf(buf, size, "the user may not run %.*s (ACL)",
			       (int)(close - open - 1), open + 1);
	else
		(void)snprintf(buf, size, "the user lacks a right: %s", r->str);
	return buf;
}

void weir_redis_conn_refused(struct weir_redis_conn *c, const struct redisReply *r)
{
	char words[WEIR_REDIS_CAUSE_BYTES];

	if (!begins(r, "NOAUTH"))
		weir_redis_conn_fail(c, "%s",
				     weir_redis_error_words(r, NULL, words, sizeof(words)));
	else if (is_sentinel(c))
		weir_redis_conn_fail(
			c, "this Sentinel needs a password (store.sentinel.password_file)");
	else
		weir_redis_conn_fail(c, "a password is needed (store.password_file)");
}

static bool has_no_password(const struct redisReply *r)
{
	return begins(r, "ERR AUTH") && strstr(r->str, "without any password");
}

/* An error to AUTH may repeat what was sent (an unknown command does): none of it is said. */
static void login_refused(struct weir_redis_conn *c, const struct redisReply *r)
{
	if (has_no_password(r))
		weir_redis_conn_fail(c, "a password is configured here, but the server has none");
	else if (!begins(r, "WRONGPASS") && !begins(r, "ERR invalid password"))
		weir_redis_conn_fail(c, "it does not take AUTH, and not because of the password");
	else if (!is_sentinel(c))
		weir_redis_conn_fail(c, "user or password is wrong");
	else if (c->s->sentinel_password)
		weir_redis_conn_fail(c,
				     "this Sentinel's user or password is wrong (store.sentinel)");
	else
		weir_redis_conn_fail(c, "this Sentinel does not take the server's password "
					"(store.sentinel.password_file)");
}

static void ready(struct weir_redis_conn *c)
{
	(void)event_del(c->timer);
	c->state = WEIR_REDIS_CONN_READY;
	c->tries = 0;
	c->began_ns = 0;
	c->cause[0] = '\0';
	if (c->up)
		c->up(c->arg);
}

static void greeted(struct redisAsyncContext *ac, void *reply, void *data)
{
	struct weir_redis_conn *c = ac->data;
	const struct redisReply *r = reply;
	enum greeting g = (enum greeting)(uintptr_t)data;

	if (!c || c->ac != ac || !r)
		return; /* given up, or lost: down comes */
	if (r->type == REDIS_REPLY_ERROR && begins(r, "NOAUTH")) {
		if (is_sentinel(c) && !c->says_password && !c->s->sentinel_password &&
		    c->s->password) {
			c->says_password = true;
			take_apart(c);
			try_now(c);
		} else {
			weir_redis_conn_refused(c, r);
		}
		return;
	}
	/* Of several Sentinels some may have a password. */
	if (r->type == REDIS_REPLY_ERROR && g == GREET_AUTH &&
	    !(is_sentinel(c) && has_no_password(r))) {
		login_refused(c, r);
		return;
	}
	if (r->type == REDIS_REPLY_ERROR && (g == GREET_SELECT || g == GREET_LOAD)) {
		weir_redis_conn_refused(c, r);
		return;
	}
	if (g == GREET_INFO && !read_version(c, r))
		return;
	if (g == GREET_ROLE && c->want_master && !is_master(r)) {
		weir_redis_conn_fail(c, "it is a replica, no master");
		return;
	}
	if (g == GREET_LOAD) {
		if (r->type != REDIS_REPLY_STRING || r->len != sizeof(c->sha) - 1) {
			weir_redis_conn_fail(c, "SCRIPT LOAD has a reply that makes no sense");
			return;
		}
		memcpy(c->sha, r->str, sizeof(c->sha));
	}
	if (++c->replies_seen == c->replies_due && c->state == WEIR_REDIS_CONN_GREETING)
		ready(c);
}

static int say(struct weir_redis_conn *c, enum greeting g, const char *const *words, int n)
{
	c->replies_due++;
	return redisAsyncCommandArgv(c->ac, greeted, (void *)(uintptr_t)g, n, (const char **)words,
				     NULL) == REDIS_OK
		       ? 0
		       : -ENOMEM;
}
#define SAY(c, g, ...)                                                                             \
	say(c, g, (const char *const[]){__VA_ARGS__},                                              \
	    (int)ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

int weir_redis_conn_load(struct weir_redis_conn *c)
{
	return SAY(c, GREET_LOAD, "SCRIPT", "LOAD", weir_redis_script);
}

/* A Sentinel may have a password of its own, the server's or none: the server's is told only to one that asks for it. */
static int log_in(struct weir_redis_conn *c)
{
	const struct weir_redis *s = c->s;
	const char *user = s->user, *password = s->password;

	if (is_sentinel(c) && s->sentinel_password) {
		user = s->sentinel_user;
		password = s->sentinel_password;
	} else if (is_sentinel(c) && !c->says_password) {
		return 0;
	}
	if (!password)
		return 0;
	return user ? SAY(c, GREET_AUTH, "AUTH", user, password)
		    : SAY(c, GREET_AUTH, "AUTH", password);
}

static int greet(struct weir_redis_conn *c)
{
	const struct weir_redis *s = c->s;
	char db[12];
	int r;

	c->replies_due = c->replies_seen = 0;
	r = log_in(c);
	if (r >= 0 && s->url.db && !c->plain) {
		(void)snprintf(db, sizeof(db), "%u", s->url.db);
		r = SAY(c, GREET_SELECT, "SELECT", db);
	}
	r = r < 0 ? r : SAY(c, GREET_NAME, "CLIENT", "SETNAME", s->name);
	r = r < 0 ? r : SAY(c, GREET_INFO, "INFO", "server");
	if (r >= 0 && c->want_master)
		r = SAY(c, GREET_ROLE, "ROLE");
	if (r >= 0 && !c->plain)
		r = weir_redis_conn_load(c);
	return r;
}

/* --- connecting -------------------------------------------------------------------------------------------------- */

/* How long the state may last. The kernel repeats what was swallowed after one second, then after two: by then a network
 * that is there again would long have been found by another try.
 */
static __u64 patience_ns(const struct weir_redis_conn *c)
{
	__u64 most = WEIR_REDIS_CONNECT_NS, ns = most;

	if (c->state == WEIR_REDIS_CONN_CONNECTING ||
	    (c->state == WEIR_REDIS_CONN_RESOLVING && c->addresses.n))
		ns = c->s->o.probe_ns;
	if (ns < WEIR_REDIS_SYN_NS)
		ns = WEIR_REDIS_SYN_NS;
	return ns < most ? ns : most;
}

static void connected(const struct redisAsyncContext *ac, int status)
{
	struct weir_redis_conn *c = ac->data;

	if (!c || c->ac != ac)
		return;
	if (status != REDIS_OK) {
		c->ac = NULL; /* hiredis frees it */
		weir_redis_conn_fail(c, "%s", c->tls_cause[0] ? c->tls_cause : ac->errstr);
		return;
	}
	c->state = WEIR_REDIS_CONN_GREETING;
	arm(c, patience_ns(c));
	if (greet(c) < 0)
		c->replies_due = 0; /* no memory: the timer gives up */
}

static void disconnected(const struct redisAsyncContext *ac, int status)
{
	struct weir_redis_conn *c = ac->data;

	if (!c || c->ac != ac)
		return;
	c->ac = NULL; /* hiredis frees it */
	weir_redis_conn_fail(c, "%s%s",
			     ac->err == REDIS_ERR_PROTOCOL ? "what answers is no Redis: " : "",
			     c->tls_cause[0] ? c->tls_cause
			     : status == REDIS_OK || !ac->errstr || !ac->errstr[0]
				     ? "the connection was closed"
				     : ac->errstr);
}

static void dial(struct weir_redis_conn *c)
{
	struct weir_hi_target t = {.name = c->host, .port = c->port, .tls_cause = c->tls_cause};
	char cause[WEIR_REDIS_CAUSE_BYTES] = "no memory";
	int r;

	if (c->host[0])
		t.address = c->addresses.text[c->tries % c->addresses.n];
	else
		t.path = c->s->url.unix_path;
	c->state = WEIR_REDIS_CONN_CONNECTING;
	arm(c, patience_ns(c));
	r = weir_hi_connect(c->s->base, &t, c->s->tls, c, connected, disconnected, cause, &c->ac);
	if (r < 0)
		weir_redis_conn_fail(c, "%s", c->tls_cause[0] ? c->tls_cause : cause);
}

static void resolved(void *arg, int r, const struct weir_redis_addresses *a, const char *cause)
{
	struct weir_redis_conn *c = arg;

	c->lookup = NULL;
	if (r >= 0)
		c->addresses = *a;
	else if (r != -EAGAIN)
		c->addresses.n = 0; /* it has gone */
	if (c->state != WEIR_REDIS_CONN_RESOLVING)
		return; /* for the next try */
	if (c->addresses.n)
		dial(c);
	else
		weir_redis_conn_fail(c, "its name is not known: %s", cause);
}

static void try_now(struct weir_redis_conn *c)
{
	unsigned char number[sizeof(struct in6_addr)];
	int r;

	c->began_ns = weir_redis_now_ns();
	c->state = WEIR_REDIS_CONN_RESOLVING;
	arm(c, patience_ns(c));
	if (!c->host[0]) {
		dial(c);
		return;
	}
	if (inet_pton(AF_INET, c->host, number) == 1 || inet_pton(AF_INET6, c->host, number) == 1) {
		c->addresses.n = 1;
		(void)weir_str_copy(c->addresses.text[0], sizeof(c->addresses.text[0]), c->host);
		dial(c);
		return;
	}
	r = c->lookup ? 0 : weir_redis_lookup_start(c->s->base, c->host, resolved, c, &c->lookup);
	if (r < 0)
		weir_redis_conn_fail(c, "its name cannot be looked up: %s", strerror(-r));
}

/* Time for the next try, or a try took too long. */
static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
	static const char *const doing[] = {
		[WEIR_REDIS_CONN_RESOLVING] = "looking up its name",
		[WEIR_REDIS_CONN_CONNECTING] = "connecting",
		[WEIR_REDIS_CONN_GREETING] = "waiting for its first replies",
	};
	struct weir_redis_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->state == WEIR_REDIS_CONN_CLOSED)
		try_now(c);
	else if (c->state == WEIR_REDIS_CONN_RESOLVING && c->addresses.n)
		dial(c);
	else if (c->state != WEIR_REDIS_CONN_READY)
		weir_redis_conn_fail(c, "%s took more than %llu ms", doing[c->state],
				     patience_ns(c) / 1000000);
}

void weir_redis_conn_open(struct weir_redis_conn *c, const char *host, __u16 port)
{
	if (host) {
		if (strcmp(host, c->host) || port != c->port) {
			weir_redis_conn_close(c);
			weir_redis_lookup_cancel(TAKE_PTR(c->lookup));
			c->addresses.n = 0;
			(void)weir_str_copy(c->host, sizeof(c->host), host);
			c->port = port;
		}
	}
	if (c->state == WEIR_REDIS_CONN_CLOSED && !event_pending(c->timer, EV_TIMEOUT, NULL))
		try_now(c);
}

int weir_redis_conn_init(struct weir_redis_conn *c, struct weir_redis *s)
{
	*c = (struct weir_redis_conn){.s = s};
	c->timer = evtimer_new(s->base, timer_fired, c);
	return c->timer ? 0 : -ENOMEM;
}

void weir_redis_conn_done(struct weir_redis_conn *c)
{
	if (!c->timer)
		return;
	take_apart(c);
	weir_redis_lookup_cancel(TAKE_PTR(c->lookup));
	event_free(c->timer);
	c->timer = NULL;
}
