/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What spoe.c (connections) and spoe_ask.c (messages to questions, answers to variables) share. Not for others. */
#ifndef WEIR_HTTP_SPOE_INT_H
#define WEIR_HTTP_SPOE_INT_H

#include "user/http/http_int.h"
#include "user/l7/spop.h"

struct weir_spoe_notify;

/* One connection of HAProxy's. Freed when it is closed and nothing that it asked is under way. */
struct weir_spoe_conn {
	struct weir_http_worker *worker;
	struct weir_http_port *port; /* NULL: closed */
	struct weir_spoe_conn *next, **link;
	struct weir_spop *spop;
	struct weir_spoe_notify *current; /* whose messages are being read */
	struct weir_spoe_notify *spare;	  /* kept for the next one */
	unsigned open;			  /* NOTIFYs without their ACK */
	unsigned frames; /* NOTIFYs that came whole; wraps, and only a change matters */
	bool feeding;	 /* weir_spop_feed is under way: its caller writes */

	/* spoe.c's */
	int fd;
	struct event *readable, *writable, *timer;
	bool ending;	/* read nothing more, answer what is under way, say goodbye */
	bool lingering; /* all is written and our side is shut: wait for the peer's end */
	bool reported;	/* the end of the session is counted */
	bool timer_armed;
	unsigned frames_at; /* frames when frame_by_ns was set */
	__u64 frame_by_ns;  /* CLOCK_MONOTONIC; 0: nothing is owed */
	__u64 write_by_ns;
	size_t owed_bytes; /* of what was pending when write_by_ns was set */
};

/* weir_spop_message_fn; @arg is the connection. */
void weir_spoe_ask(struct weir_spop *s, const struct weir_spop_message *m, void *arg);
/* An ACK was queued outside of weir_spop_feed. */
void weir_spoe_queued(struct weir_spoe_conn *c);
/* Takes what it owns; it is closed and nothing is under way. */
void weir_spoe_conn_free(struct weir_spoe_conn *c);
void weir_spoe_notify_free(struct weir_spoe_notify *n);

#endif
