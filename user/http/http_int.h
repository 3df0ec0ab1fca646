/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of user/http share. Not for others.
 *
 *	weir_http         all of it; the agent's main thread
 *	weir_http_listen  one listening socket; its fd is watched by every worker
 *	weir_http_worker  one thread: a libevent loop, a weir_l7_worker, connections
 *	weir_http_port    one listening socket in one worker: libmicrohttpd's daemon, or SPOE's connections
 *
 * Who may touch what: everything of a worker, its ports and its connections is touched by its thread only, from its
 * start to its end; counters are added to by their worker and read by anybody. Pages (profile metrics) have a worker of
 * their own without a thread, in the agent's loop. A weir_http_settings does not change
 * once a worker has seen it: weir_http_configure hands every worker new ones and waits until all have taken them, so
 * w->settings and port->settings may be read without a lock, but not kept beyond a return to the loop.
 */
#ifndef WEIR_HTTP_HTTP_INT_H
#define WEIR_HTTP_HTTP_INT_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "user/http/http.h"
#include "user/l7/client.h"

#define WEIR_HTTP_WORKERS_MAX 64
#define WEIR_HTTP_PAGES_MAX   64 /* connections to metrics listeners */
#define WEIR_HTTP_BACKLOG     4096
#define WEIR_HTTP_IDLE_NS     (300 * 1000000000ull) /* between two requests */
#define WEIR_HTTP_FRESH_NS    (60 * 1000000000ull)  /* from accept to the first byte */

/* --- counters: one set a worker, so that no two threads write one line ---- */

struct weir_http_counters {
	_Atomic __u64 accepted, closed_at_limit, cut_by_deadline;
	_Atomic __u64 requests, bad_requests, too_large, left;
	_Atomic __u64 untrusted_forwarded, no_address, no_target, doubled, shared_address;
	_Atomic __u64 held; /* now */
	_Atomic __u64 spop_errors;
};

/* Only the owner adds: no locked instruction. */
static inline void weir_http_count(_Atomic __u64 *counter, __s64 n)
{
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + (__u64)n,
			      memory_order_relaxed);
}

/* --- settings ---- */

struct weir_http_settings {
	__u64 headers_bytes, request_deadline_ns, connections_max;
	bool nat64;
};

/* A header line that means something to a listener, and what. */
enum weir_http_slot {
	WEIR_HTTP_SLOT_METHOD,
	WEIR_HTTP_SLOT_TARGET,
	WEIR_HTTP_SLOT_FORWARDED_HOST,
	WEIR_HTTP_SLOT_HOST,
	WEIR_HTTP_SLOT_FOR,
	WEIR_HTTP_SLOT_USER,
	WEIR_HTTP_SLOT_PLAN,
	WEIR_HTTP_SLOT_COST,
	WEIR_HTTP_SLOT_LENGTH,	 /* Content-Length */
	WEIR_HTTP_SLOT_ENCODING, /* Transfer-Encoding */
	WEIR_HTTP_SLOT_AUTHORIZATION,
	WEIR_HTTP_SLOT_MAX
};
struct weir_http_name {
	struct weir_text name;
	enum weir_http_slot slot;
};

/* Of one listener. */
struct weir_http_port_settings {
	enum weir_profile profile;
	struct weir_prefix *trusted;
	size_t n_trusted;
	char *token; /* json; NULL: none */
	size_t token_n;
	char *header_user, *header_plan, *header_cost; /* NULL: not taken from the proxy */
	struct weir_http_name names[WEIR_HTTP_SLOT_MAX];
	size_t n_names;
};

/* --- listeners and workers ---- */

struct weir_http_worker;

#define WEIR_HTTP_CROWD_CHECKS 256

/* Checks of one turn: those of the first one's address among all. */
struct weir_http_crowd {
	struct weir_prefix who;
	unsigned n, same;
	bool named; /* by a proxy that is trusted; else it is the peer's own */
};

struct weir_http_listen {
	struct weir_http *http;
	char *listen;	 /* as written: what makes it the same one after a change */
	char name[128];	 /* with the port it has really got */
	char *unix_path; /* NULL: TCP */
	dev_t unix_dev;	 /* of the file that we made */
	ino_t unix_ino;
	int fd;		       /* -1: closed */
	bool spoe, pages;      /* else HTTP */
	bool dropped;	       /* main thread: no longer in the configuration */
	_Atomic unsigned refs; /* the main thread and each port */
	_Atomic __u64 connections;
	_Atomic bool told_untrusted; /* that headers of peers are ignored was logged */
	_Atomic unsigned load[WEIR_HTTP_WORKERS_MAX + 1]; /* connections by worker */
	struct weir_http_port_settings *settings;	  /* the main thread's view */
	pthread_mutex_t crowd_lock;			  /* over these, which are crowd.c's */
	struct weir_http_crowd crowd;			  /* same 0: none */
	unsigned crowd_quiet;
	struct weir_prefix crowd_told;
	__u64 crowd_told_ns; /* 0: never */
};

struct weir_http_port {
	struct weir_http_worker *worker;
	struct weir_http_listen *listen;
	const struct weir_http_port_settings *settings;
	struct weir_http_port *next;
	struct event *accept;
	unsigned connections;
	bool closing; /* no longer in the configuration: what is under way ends, nothing new begins */
	struct MHD_Daemon *daemon;   /* mhd.c's; NULL: SPOE */
	struct event *ready, *again; /* its epoll descriptor; it wants to be run again */
	bool run;		     /* something of it was resumed */
	bool silent;		     /* mhd.c: the library closes a connection without a word */
	void *adding;		     /* mhd.c's: the connection that is being added */
	void *spoe;		     /* spoe.c's: NULL until it sets it */
	struct weir_http_crowd crowd;
};

struct weir_http_worker {
	struct weir_http *http;
	unsigned index;
	struct event_base *base;
	struct weir_l7_worker *l7; /* NULL: the agent's own loop, for pages */
	const struct weir_http_settings *settings;
	struct weir_http_counters counters;
	struct weir_http_port *ports;
	__u64 stop_at_ns; /* CLOCK_MONOTONIC: when the stop stops waiting; 0: not stopping */
	__u64 now_ns;	  /* CLOCK_MONOTONIC of this turn of the loop */
	struct weir_http_worker_own *own; /* worker.c's */
};

struct weir_http {
	struct weir_l7 *l7;
	struct weir_http_settings *settings;
	struct weir_http_listen *listen[WEIR_LISTENERS_MAX];
	size_t n_listen;
	struct weir_http_worker *worker[WEIR_HTTP_WORKERS_MAX];
	unsigned n_workers;
	bool started;
	struct weir_http_worker *pages; /* NULL: nobody serves pages yet */
	weir_http_page_fn *page;
	void *page_arg;
	_Atomic __u64 connections, pages_connections;
	_Atomic __u64 told_ns[8]; /* by enum weir_http_note; 0: never */
};

/* --- notes.c ---- */

/* CLOCK_MONOTONIC. */
__u64 weir_http_now_ns(void);

/* One happening, at most once a minute for each @what over all workers; @detail may be NULL. */
enum weir_http_note {
	WEIR_HTTP_NOTE_LIMIT,	  /* connections closed at the limit */
	WEIR_HTTP_NOTE_NO_FILES,  /* EMFILE, ENFILE */
	WEIR_HTTP_NOTE_UNTRUSTED, /* forwarded headers of a peer that is not trusted */
	WEIR_HTTP_NOTE_NO_TARGET, /* a trusted peer does not say what its profile needs */
	WEIR_HTTP_NOTE_NO_ADDRESS,
	WEIR_HTTP_NOTE_DOUBLED, /* two lines of what must be one */
	WEIR_HTTP_NOTE_SPOP,	/* a protocol error of SPOP */
	WEIR_HTTP_NOTE_MAX
};
void weir_http_note(struct weir_http_worker *w, enum weir_http_note what,
		    const struct weir_http_port *port, const char *detail);

/* --- crowd.c ---- */

void weir_http_crowd_judge(struct weir_http_port *p);
/* What is likely to be wrong. */
const char *weir_http_crowd_hint(enum weir_profile profile, bool named);

/* A check counts as @client. */
static inline void weir_http_saw_client(struct weir_http_port *p, const struct weir_prefix *client,
					bool named)
{
	struct weir_http_crowd *c = &p->crowd;

	if (!c->n) {
		c->who = *client;
		c->named = named;
	}
	c->same += c->who.family == client->family && c->named == named &&
		   memcmp(&c->who.addr, &client->addr, sizeof(client->addr)) == 0;
	if (++c->n == WEIR_HTTP_CROWD_CHECKS)
		weir_http_crowd_judge(p);
}

/* @peer NULL: a Unix socket. */
bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer);

/* --- accept.c ---- */

/* A connection of @port is no more (its fd closed by the caller): counts down, and lets go of a closing port. spoe.c
 * calls this once for each connection it took; @port must not be touched afterwards.
 */
void weir_http_gone(struct weir_http_port *port);

/* --- listen.c ---- */

int weir_http_listen_open(const struct weir_conf_listener *c, struct weir_http_listen **ret,
			  struct weir_error *e);
/* The same socket under another kind of profile; @old keeps its own descriptor. */
int weir_http_listen_take(struct weir_http_listen *old, const struct weir_conf_listener *c,
			  struct weir_http_listen **ret, struct weir_error *e);
/* Mode and group of a Unix socket. */
int weir_http_listen_settle(struct weir_http_listen *l, const struct weir_conf_listener *c,
			    struct weir_error *e);
/* No new connection from now on; removes a Unix socket unless @keep_path. */
void weir_http_listen_close(struct weir_http_listen *l, bool keep_path);
void weir_http_listen_ref(struct weir_http_listen *l);
void weir_http_listen_unref(struct weir_http_listen *l);
DEFINE_CLEANUP(struct weir_http_listen, weir_http_listen_unref)

/* --- settings.c ---- */

int weir_http_port_settings_new(const struct weir_conf_request *r,
				const struct weir_conf_listener *c,
				struct weir_http_port_settings **ret, struct weir_error *e);
void weir_http_port_settings_free(struct weir_http_port_settings *s);
DEFINE_CLEANUP(struct weir_http_port_settings, weir_http_port_settings_free)

/* --- worker.c, called in the main thread ---- */

/* What a worker is to do: by an array of these to all that is in force. */
struct weir_http_plan {
	const struct weir_http_settings *settings;
	struct {
		struct weir_http_listen *listen;
		const struct weir_http_port_settings *settings;
		struct weir_http_port *fresh; /* made for this worker; NULL: it has one */
	} port[WEIR_LISTENERS_MAX];
	size_t n;
	bool stop;
};

/* @base NULL: one of its own, and a thread later. */
int weir_http_worker_new(struct weir_http *h, unsigned index, struct event_base *base,
			 struct weir_http_worker **ret, struct weir_error *e);
int weir_http_worker_start(struct weir_http_worker *w, struct weir_error *e);
/* Returns when the worker has taken @plan over, with all that is fresh in it. */
void weir_http_worker_apply(struct weir_http_worker *w, const struct weir_http_plan *plan);
/* Joins a thread that was told to stop; the pages' worker is cut off here. */
void weir_http_worker_free(struct weir_http_worker *w);
int weir_http_port_new(struct weir_http_worker *w, struct weir_http_listen *l,
		       struct weir_http_port **ret, struct weir_error *e);
void weir_http_port_free(struct weir_http_port *p);

/* --- spoe.c, called in the worker's thread ---- */

/* Takes a connected, non-blocking socket over. It has been counted (weir_http_gone when it is closed). The peer's
 * address, NULL: Unix socket; copied if needed. -errno: not taken, the caller closes it and counts it down.
 *
 * Deadlines are the callee's: a frame that has begun, and HAPROXY-HELLO from the accept on, must be complete within
 * w->settings->request_deadline_ns; what is queued must be read by the peer within the same time; else the connection is
 * cut (counters.cut_by_deadline). An idle connection may stay as long as HAProxy wants.
 */
int weir_spoe_accept(struct weir_http_port *port, int fd, const struct weir_prefix *peer);
/* @port closes, or the worker stops (port->closing, w->stop_at_ns say which): every connection of it answers what is
 * under way, sends AGENT-DISCONNECT and goes; the calls of weir_http_gone may come later, or before this returns (then
 * the port may be gone with the last one).
 */
void weir_spoe_end(struct weir_http_port *port);
/* The time of a stop is over: what is left is closed now. */
void weir_spoe_cut(struct weir_http_port *port);

#endif
