/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of user/http share. Not for others.
 *
 *	weir_http         all of it; the agent's main thread
 *	weir_http_listen  one listening socket; its fd is watched by every worker
 *	weir_http_worker  one thread: a libevent loop, a weir_l7_worker, connections
 *	weir_http_port    one listening socket in one worker: libmicrohttpd's daemon, or SPOE's connections
 *
 * Who may touch what: everything of a worker, its ports and its connections is touched by its thread only, from its
 * start to its end; counters are added to by their worker and read by anybody. A weir_http_settings does not change
 * once a worker has seen it: weir_http_configure hands every worker new ones and waits until all have taken them, so
 * w->settings and port->settings may be read without a lock, but not kept beyond a return to the loop.
 */
#ifndef WEIR_HTTP_HTTP_INT_H
#define WEIR_HTTP_HTTP_INT_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>

#include "user/http/http.h"
#include "user/l7/client.h"

#define WEIR_HTTP_WORKERS_MAX 64
#define WEIR_HTTP_IDLE_NS     (300 * 1000000000ull) /* between two requests */
#define WEIR_HTTP_FRESH_NS    (60 * 1000000000ull)  /* from accept to the first byte */

/* --- counters: one set a worker, so that no two threads write one line ---- */

struct weir_http_counters {
	_Atomic __u64 accepted, closed_at_limit, cut_by_deadline;
	_Atomic __u64 requests, bad_requests, too_large;
	_Atomic __u64 untrusted_forwarded, no_address, no_target, doubled;
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
	char *header_user, *header_plan, *header_cost; /* NULL: not taken from the proxy */
};

/* Of one listener. */
struct weir_http_port_settings {
	enum weir_profile profile;
	struct weir_prefix *trusted;
	size_t n_trusted;
	char *token; /* json; NULL: none */
	size_t token_n;
};

/* --- listeners and workers ---- */

struct weir_http_worker;

struct weir_http_listen {
	struct weir_http *http;
	char *listen;	  /* as written: what makes it the same one after a change */
	char name[128];	  /* with the port it has really got */
	char *unix_path;  /* NULL: TCP */
	int fd;		  /* -1: closed */
	bool spoe, pages; /* else HTTP */
	_Atomic __u64 connections;
	struct weir_http_port_settings *settings; /* the main thread's view */
};

struct weir_http_port {
	struct weir_http_worker *worker;
	struct weir_http_listen *listen;
	const struct weir_http_port_settings *settings;
	struct weir_http_port *next;
	struct event *accept;
	bool closing; /* no longer in the configuration: what is under way ends, nothing new begins */
	void *daemon; /* mhd.c's */
	void *spoe;   /* spoe.c's: NULL until it sets it */
};

struct weir_http_worker {
	struct weir_http *http;
	unsigned index;
	struct event_base *base;
	struct weir_l7_worker *l7;
	const struct weir_http_settings *settings;
	struct weir_http_counters counters;
	struct weir_http_port *ports;
	__u64 stop_at_ns; /* CLOCK_MONOTONIC: when the stop stops waiting; 0: not stopping */
	void *spoe;	  /* spoe.c's: NULL until it sets it */
	struct weir_http_worker_own *own; /* worker.c's */
};

/* CLOCK_MONOTONIC. */
__u64 weir_http_now_ns(void);

/* One happening, at most once a minute for each @what over all workers; @key and @value may be NULL. */
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

/* @peer NULL: a Unix socket. */
bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer);

/* A connection of @port is no more (its fd closed by the caller): counts down, and lets go of a closing port. spoe.c
 * calls this once for each connection it took; @port must not be touched afterwards.
 */
void weir_http_gone(struct weir_http_port *port);

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
