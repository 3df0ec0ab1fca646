/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several agents' fleets over one real Redis, each behind a relay of its own that can be cut or swallow replies; and how
 * tests look at them. Included by t_fleet*.c.
 */
#ifndef WEIR_TEST_FLEET_CASE_H
#define WEIR_TEST_FLEET_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <string.h>
#include <sys/un.h>

#include "lib/prefix.h"
#include "lib/redis.h"
#include "lib/run.h"
#include "lib/wait.h"
#include "user/base/log.h"
#include "user/fleet/fleet_int.h"
#include "user/redis/redis.h"

#define AGENTS 5

/* --- a relay between an agent and the server ---- */

struct wire {
	struct wire *next, **link;
	struct relay *r;
	struct bufferevent *agent, *server;
};
struct relay {
	struct event_base *base;
	struct evconnlistener *listener;
	struct wire *wires;
	char path[108], server[108];
	bool cut;	/* nobody gets through */
	bool mute;	/* replies are swallowed */
	bool mute_push; /* from the next push on */
	size_t got;	/* bytes of replies swallowed */
};

static void wire_free(struct wire *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	bufferevent_free(w->agent);
	bufferevent_free(w->server);
	free(w);
}

static void wire_read(struct bufferevent *from, void *arg)
{
	struct wire *w = arg;
	struct evbuffer *in = bufferevent_get_input(from);

	if (from == w->agent && w->r->mute_push &&
	    evbuffer_search(in, "\r\npush\r\n", 8, NULL).pos >= 0)
		w->r->mute = true;
	if (from == w->server && w->r->mute) {
		w->r->got += evbuffer_get_length(in);
		(void)evbuffer_drain(in, evbuffer_get_length(in));
		return;
	}
	(void)bufferevent_write_buffer(from == w->server ? w->agent : w->server, in);
}

static void wire_event(struct bufferevent *from, short what, void *arg)
{
	(void)from;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		wire_free(arg);
}

static void relay_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n,
			 void *arg)
{
	struct relay *r = arg;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct wire *w;

	(void)l;
	(void)a;
	(void)n;
	if (r->cut) {
		(void)close(fd);
		return;
	}
	w = calloc(1, sizeof(*w));
	assert_non_null(w);
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", r->server);
	w->r = r;
	w->agent = bufferevent_socket_new(r->base, fd, BEV_OPT_CLOSE_ON_FREE);
	w->server = bufferevent_socket_new(r->base, -1, BEV_OPT_CLOSE_ON_FREE);
	w->next = r->wires;
	w->link = &r->wires;
	if (w->next)
		w->next->link = &w->next;
	r->wires = w;
	bufferevent_setcb(w->agent, wire_read, NULL, wire_event, w);
	bufferevent_setcb(w->server, wire_read, NULL, wire_event, w);
	(void)bufferevent_enable(w->agent, EV_READ | EV_WRITE);
	(void)bufferevent_enable(w->server, EV_READ | EV_WRITE);
	if (bufferevent_socket_connect(w->server, (struct sockaddr *)&to, sizeof(to)) < 0)
		wire_free(w);
}

static void relay_start(struct relay *r, struct event_base *base, const char *dir, int number,
			const char *server)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	*r = (struct relay){.base = base};
	(void)snprintf(r->path, sizeof(r->path), "%s/relay%d", dir, number);
	(void)snprintf(r->server, sizeof(r->server), "%s", server);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", r->path);
	r->listener = evconnlistener_new_bind(base, relay_accept, r,
					      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, -1,
					      (struct sockaddr *)&a, sizeof(a));
	assert_non_null(r->listener);
}

static void relay_cut(struct relay *r)
{
	r->cut = true;
	while (r->wires)
		wire_free(r->wires);
}

static inline void relay_heal(struct relay *r)
{
	r->cut = r->mute = r->mute_push = false;
}

static void relay_stop(struct relay *r)
{
	relay_cut(r);
	if (r->listener)
		evconnlistener_free(r->listener);
	r->listener = NULL;
}

/* --- an agent ---- */

struct agent {
	struct weir_fleet *f;
	struct relay relay;
	char db[128], host[16];
	__s64 skew_ms;	    /* of its wall clock */
	__u64 frozen_ns;    /* its monotonic clock stands there; 0: it goes … */
	__u64 ahead_ns;	    /* … by so much before the test's */
	const __u8 *secret; /* of a file */
	__u8 given[WEIR_FLEET_SECRET_BYTES];
	bool has_secret;
	__u64 changed, limits;
	const struct weir_fleet_key *watched; /* is it there, when it was last told? */
	bool sees_watched;
	char limits_text[256];
};

struct fix {
	struct redis_server r;
	struct event_base *base;
	struct agent a[AGENTS];
	char dir[64];
};

static void on_changed(void *arg, const struct weir_fleet_key *key, size_t n)
{
	struct agent *a = arg;
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];

	(void)key;
	a->changed += n ? n : 1;
	if (a->watched)
		a->sees_watched = weir_fleet_get(a->f, a->watched, e) != 0;
}

static int on_secret(void *arg, const __u8 secret[WEIR_FLEET_SECRET_BYTES])
{
	struct agent *a = arg;

	memcpy(a->given, secret, sizeof(a->given));
	a->has_secret = true;
	return 0;
}

static void on_limits(void *arg, const struct weir_fleet_limits *l)
{
	struct agent *a = arg;

	a->limits = l->generation;
	(void)snprintf(a->limits_text, sizeof(a->limits_text), "%s", l->text);
}

static void on_describe(void *arg, struct weir_fleet_self *ret)
{
	struct agent *a = arg;

	ret->limits = a->limits;
	ret->generation = 7;
}

static const struct weir_fleet_ops agent_ops = {on_changed, on_secret, on_limits, on_describe};

static __s64 skewed_wall_ms(void *arg)
{
	const struct agent *a = arg;
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (__s64)t.tv_sec * 1000 + t.tv_nsec / 1000000 + a->skew_ms;
}

static __u64 frozen_mono_ns(void *arg)
{
	const struct agent *a = arg;

	return a->frozen_ns ? a->frozen_ns : wait_now_ns() + a->ahead_ns;
}

static void agent_start(struct fix *f, struct agent *a)
{
	struct weir_redis_options redis = {
		.prefix = "weir:",
		.timeout_ns = 50000000,
		.breaker_errors = 20,
		.breaker_within_ns = 1000000000,
		.probe_ns = 100000000,
		.batch_max = 64,
		.waiting_max = 1000,
		.quiet = true,
	};
	struct weir_fleet_options o = {
		.base = f->base,
		.redis = &redis,
		.db_path = a->db,
		.host = a->host,
		.instance = "weir",
		.lists = true,
		.secret = a->secret,
		.ops = &agent_ops,
		.arg = a,
		.mono_ns = frozen_mono_ns,
		.wall_ms = skewed_wall_ms,
	};
	struct weir_redis_url u;
	struct weir_error e = {};
	char url[160], *note = NULL;

	(void)snprintf(url, sizeof(url), "redis+unix://%s", a->relay.path);
	assert_int_equal(weir_redis_url_parse(url, &u, &e), 0);
	redis.url = &u;
	if (weir_fleet_new(&o, &a->f, &note, &e) < 0)
		fail_msg("%s", e.text);
	if (note)
		fail_msg("%s", note);
	weir_redis_url_done(&u);
}

static void agent_stop(struct agent *a)
{
	if (a->f)
		weir_fleet_free(a->f);
	a->f = NULL;
}

static int fix_set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));
	/* in memory where there is such a place: a test that moves clocks would wait for the disk at each step */
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

	*state = f;
	(void)signal(SIGPIPE, SIG_IGN); /* as the agent has it */
	weir_log_open(fopen("/dev/null", "we"), false, WEIR_LOG_ERROR);
	(void)snprintf(f->dir, sizeof(f->dir), "%s/fleet.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir) || redis_start(&f->r, NULL) < 0)
		return -1;
	f->base = event_base_new();
	for (int i = 0; i < AGENTS; i++) {
		(void)snprintf(f->a[i].db, sizeof(f->a[i].db), "%s/agent%d.db", f->dir, i);
		(void)snprintf(f->a[i].host, sizeof(f->a[i].host), "host%d", i);
		relay_start(&f->a[i].relay, f->base, f->dir, i, f->r.sock);
	}
	return 0;
}

static int fix_tear_down(void **state)
{
	struct fix *f = *state;
	const char *const argv[] = {"rm", "-rf", f->dir, NULL};

	for (int i = 0; i < AGENTS; i++) {
		agent_stop(&f->a[i]);
		relay_stop(&f->a[i].relay);
	}
	event_base_free(f->base);
	redis_stop(&f->r);
	(void)run_cmdv(0, NULL, 0, argv);
	free(f);
	return 0;
}

static void turn(struct fix *f)
{
	struct timeval t = {.tv_usec = 1000};

	(void)event_base_loopexit(f->base, &t);
	(void)event_base_loop(f->base, 0);
}

/* Turns the loop until @cond holds, at most @timeout_ms. */
#define fix_wait(f, cond, timeout_ms)                                                              \
	({                                                                                         \
		uint64_t end_ns_ = wait_now_ns() + (uint64_t)(timeout_ms)*1000000ull;              \
                                                                                                   \
		while (!(cond) && wait_now_ns() < end_ns_)                                         \
			turn(f);                                                                   \
		(cond);                                                                            \
	})

static void start_all(struct fix *f, int n)
{
	for (int i = 0; i < n; i++)
		agent_start(f, &f->a[i]);
}

static struct weir_fleet_status status_of(struct agent *a)
{
	struct weir_fleet_status s;

	weir_fleet_status(a->f, &s);
	return s;
}

static inline bool follows(struct agent *a)
{
	return status_of(a).state == WEIR_FLEET_FOLLOWS;
}

/* --- lists ---- */

static struct weir_fleet_key key_of(const char *text)
{
	struct weir_fleet_key k = {.list = WEIR_LIST_BLOCK, .prefix = prefix_of(text)};

	return k;
}

static inline void add(struct agent *a, const char *prefix, const char *origin, __u64 for_ms,
		       const char *reason)
{
	struct weir_fleet_entry e = {.origin = origin,
				     .host = "",
				     .who = "root",
				     .reason = reason,
				     .end_ms = for_ms ? weir_fleet_now_ms(a->f) + for_ms : 0};
	struct weir_fleet_key k = key_of(prefix);
	struct weir_error err = {};

	if (weir_fleet_add(a->f, &k, 1, &e, &err) < 0)
		fail_msg("%s", err.text);
}

static inline size_t del(struct agent *a, const char *prefix, const char *origin)
{
	struct weir_fleet_key k = key_of(prefix);
	struct weir_error err = {};
	size_t n = 0;

	if (weir_fleet_del(a->f, &k, origin, &n, &err) < 0)
		fail_msg("%s", err.text);
	return n;
}

static bool has(struct agent *a, const char *prefix)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	struct weir_fleet_key k = key_of(prefix);

	return weir_fleet_get(a->f, &k, e) != 0;
}

/* All of them, or none of them, of the first @n. */
static inline bool all_have(struct fix *f, int n, const char *prefix, bool want)
{
	for (int i = 0; i < n; i++)
		if (f->a[i].f && has(&f->a[i], prefix) != want)
			return false;
	return true;
}

struct text {
	char **line;
	size_t n, room;
};

static int add_line(void *arg, const struct weir_fleet_key *key,
		    const struct weir_fleet_entry *entry, size_t n)
{
	struct text *t = arg;
	char prefix[WEIR_PREFIX_STRLEN];

	for (size_t i = 0; i < n; i++) {
		if (t->n == t->room) {
			t->room = t->room ? 2 * t->room : 1024;
			t->line = reallocarray(t->line, t->room, sizeof(char *));
		}
		assert_true(asprintf(&t->line[t->n++], "%d %s %s %llu %s %s %s", (int)key->list,
				     weir_prefix_format(&key->prefix, prefix), entry[i].origin,
				     (unsigned long long)entry[i].end_ms, entry[i].host,
				     entry[i].who, entry[i].reason) > 0);
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct text text_of(struct agent *a)
{
	struct text t = {};

	(void)weir_fleet_each(a->f, NULL, add_line, &t);
	if (t.n)
		qsort(t.line, t.n, sizeof(char *), by_text);
	return t;
}

static void text_done(struct text *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->line[i]);
	free(t->line);
}

static bool same(struct agent *a, struct agent *b, bool say)
{
	struct text x = text_of(a), y = text_of(b);
	bool equal = x.n == y.n;

	for (size_t i = 0; equal && i < x.n; i++)
		equal = !strcmp(x.line[i], y.line[i]);
	for (size_t i = 0, k = 0, said = 0; say && !equal && said < 5 && (i < x.n || k < y.n);) {
		int order = i == x.n ? 1 : k == y.n ? -1 : strcmp(x.line[i], y.line[k]);

		if (order < 0)
			print_message("only %s: %s\n", a->host, x.line[i]);
		if (order > 0)
			print_message("only %s: %s\n", b->host, y.line[k]);
		said += order != 0;
		i += order <= 0;
		k += order >= 0;
	}
	text_done(&x);
	text_done(&y);
	return equal;
}

/* Prefixes of which the server has an entry that counts. */
static inline long long server_entries(struct fix *f)
{
	redisContext *c = redis_open(&f->r);
	redisReply *all = redis_do(c, "HGETALL weir:{fleet}:1:list");
	long long there = 0;

	for (size_t i = 0; i + 1 < all->elements; i += 2) {
		const redisReply *name = all->element[i], *value = all->element[i + 1];
		struct weir_fleet_lines l;
		struct weir_fleet_key k;
		const char *body;
		__u64 version;
		size_t n;

		if (weir_fleet_key_parse(name->str, name->len, &k) < 0)
			continue;
		assert_int_equal(weir_fleet_value_read(value->str, value->len, &version, &body, &n),
				 0);
		weir_fleet_body_read(body, n, &l);
		there += l.n != 0;
	}
	freeReplyObject(all);
	redisFree(c);
	return there;
}

static inline bool all_settled(struct fix *f, int n)
{
	for (int i = 0; i < n; i++) {
		struct weir_fleet_status s;

		if (!f->a[i].f)
			continue;
		s = status_of(&f->a[i]);
		if (s.state != WEIR_FLEET_FOLLOWS || s.waiting || s.behind || s.lag_ms > 600)
			return false;
	}
	return true;
}

static inline bool all_same(struct fix *f, int n)
{
	if (!all_settled(f, n))
		return false;
	for (int i = 1; i < n; i++)
		if (!same(&f->a[0], &f->a[i], false))
			return false;
	return true;
}

#endif
