/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of one worker share: worker.c (thread, plans, end), accept.c (connections in), hold.c (answers until
 * their time), deadline.c (what takes too long). Not for others.
 */
#ifndef WEIR_HTTP_WORKER_INT_H
#define WEIR_HTTP_WORKER_INT_H

#include "user/http/conn.h"

#define WEIR_HTTP_HANDED_MAX 256

/* A connection that another worker has accepted for this one. */
struct weir_http_handed {
	struct weir_http_listen *listen;
	int fd;
	bool has_peer;
	struct weir_prefix peer;
};

struct weir_http_worker_own {
	pthread_t thread;
	bool running;
	int wake_fd; /* eventfd */
	int reserve_fd;
	int hold_fd; /* timerfd */
	struct event *wake, *hold, *tick, *resume, *reap;
	__u64 armed_ns; /* hold_fd: for when; 0: not */
	bool paused;	/* accepts nothing */
	bool applied_stop;

	pthread_mutex_t lock; /* over these */
	pthread_cond_t applied;
	const struct weir_http_plan *plan; /* to be taken over; NULL: none */
	struct weir_http_handed handed[WEIR_HTTP_HANDED_MAX];
	size_t n_handed;

	struct weir_http_conn *conns, *cursor;
	size_t n_conns;
	struct weir_http_conn **heap; /* held ones, the earliest first */
	size_t n_heap, heap_max;
	struct weir_http_lines lines;
};

/* --- accept.c ---- */

void weir_http_on_accept(evutil_socket_t fd, short what, void *port);
/* Accepts again after a pause. */
void weir_http_on_resume(evutil_socket_t fd, short what, void *worker);
/* Connections that others have accepted for this worker. */
void weir_http_take_handed(struct weir_http_worker *w);
/* Wakes @w up from any thread. */
void weir_http_poke(struct weir_http_worker *w);

/* --- hold.c ---- */

void weir_http_on_hold(evutil_socket_t fd, short what, void *worker);
/* Runs the daemons of all that was resumed. */
void weir_http_run_resumed(struct weir_http_worker *w);

/* --- deadline.c ---- */

void weir_http_next_tick(struct weir_http_worker *w);
void weir_http_sweep(struct weir_http_worker *w);

#endif
