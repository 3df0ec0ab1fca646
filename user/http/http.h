/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The listeners of the request layer: sockets, workers and what proxies say on them. Each worker is a thread with an
 * event loop of its own; every one accepts from every listening socket. Called by the agent from its main thread.
 *
 *	http.c     listeners and workers: open, start, change, stop    listen.c, settings.c   sockets, what they are set to
 *	worker.c   one thread: loop, plans, end                        accept.c, deadline.c   connections in and cut off
 *	mhd.c      libmicrohttpd in that loop                          ask.c, hold.c, reply.c questions, held answers, answers
 *	profile.c  a proxy's request to a weir_l7_query                json.c                 /v1/check, /v1/refund
 *	spoe.c     HAProxy's SPOP connections                          pages.c                metrics, in the agent's loop
 *	crowd.c    many clients that count as one address
 */
#ifndef WEIR_HTTP_HTTP_H
#define WEIR_HTTP_HTTP_H

#include "user/l7/engine.h"

struct weir_http;

/* Opens every listening socket, so that a wrong address is known before anything is in force. No thread yet; l7 must
 * outlive it. Token files are read here.
 */
int weir_http_open(const struct weir_conf *conf, struct weir_l7 *l7, struct weir_http **ret,
		   struct weir_error *e);
/* Starts the workers. */
int weir_http_start(struct weir_http *h, struct weir_error *e);
/* Listeners as @conf has them: the same ones (by listen) go on with their connections, with new profile settings for
 * the next request; new ones are opened before old ones are closed; on error all stays as it was.
 */
int weir_http_configure(struct weir_http *h, const struct weir_conf *conf, struct weir_error *e);
/* Stops: listening sockets closed, held requests answered (503), what is being written is written (at most a second),
 * threads joined, Unix sockets removed. The event base of weir_http_serve_pages must still be there.
 */
void weir_http_free(struct weir_http *h);
DEFINE_CLEANUP(struct weir_http, weir_http_free)

/* Path "/metrics", "/healthz", "/readyz" to a body (heap, *ret_n bytes) and a status; NULL: 503. */
typedef char *weir_http_page_fn(void *arg, const char *path, unsigned *ret_status, size_t *ret_n);
/* Profile metrics, served in the agent's own loop from now on. A sentence on error. */
int weir_http_serve_pages(struct weir_http *h, struct event_base *base, weir_http_page_fn *page,
			  void *arg, struct weir_error *e);

struct weir_http_stats {
	__u64 connections, connections_max;
	__u64 accepted, closed_at_limit, cut_by_deadline;
	__u64 requests, bad_requests; /* 4xx of ours: wrong path, method, JSON, token */
	__u64 too_large;	      /* 431, 413 of the listener */
	__u64 left;		      /* by their client, before they were whole */
	__u64 untrusted_forwarded;    /* forwarded headers of peers that are not trusted: ignored */
	__u64 no_address, no_target;  /* a trusted peer that does not send what its profile needs */
	__u64 doubled;		      /* two header lines of what must be one: not believed */
	__u64 shared_address; /* of one private address that most checks of a listener count as */
	__u64 held;	      /* now */
	__u64 spop_errors;
};
/* Sums over all workers, from the start of the process. */
void weir_http_stats(struct weir_http *h, struct weir_http_stats *ret);

struct weir_http_listener {
	char listen[128]; /* with the port it has really got */
	enum weir_profile profile;
	__u64 connections;
	/* Most of its latest checks count as one private address, likely that of a proxy; 0: no. And what is wrong then. */
	unsigned shared_percent;
	struct weir_prefix shared_address;
	const char *shared_hint;
};
/* Returns how many there are. */
size_t weir_http_listeners(struct weir_http *h, struct weir_http_listener *ret, size_t max);

#endif
