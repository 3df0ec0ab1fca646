/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One HTTP connection in a worker, and what the files of a worker do with it. Not for others. */
#ifndef WEIR_HTTP_CONN_H
#define WEIR_HTTP_CONN_H

#include <microhttpd.h>

#include "user/http/http_int.h"
#include "user/l7/check_json.h"

enum weir_http_phase {
	WEIR_HTTP_IDLE,	     /* between requests; bytes of the next one may be there */
	WEIR_HTTP_READING,   /* the request line is there */
	WEIR_HTTP_BODY,	     /* the headers are there */
	WEIR_HTTP_ASKED,     /* questions are under way; suspended */
	WEIR_HTTP_HELD,	     /* until due_ns; suspended */
	WEIR_HTTP_ANSWERING, /* resumed; the handler is called next */
	WEIR_HTTP_WRITING,
};

/* Which of a listener's paths is asked for. */
enum weir_http_path { WEIR_HTTP_PATH_NONE, WEIR_HTTP_PATH_CHECK, WEIR_HTTP_PATH_REFUND };

struct weir_http_batch;

/* A refusal of the listener's own. */
struct weir_http_refusal {
	unsigned status;
	const char *code, *message;
};

struct weir_http_conn {
	struct weir_http_port *port;
	struct weir_http_conn *next, **link; /* of the worker */
	struct MHD_Connection *mhd;
	int fd;
	bool is_unix;
	struct weir_prefix peer; /* TCP */

	/* for the deadlines */
	enum weir_http_phase phase;
	__u64 since_ns; /* when the phase began, or the first byte was seen */
	__u64 consumed; /* TCP: bytes of all requests that are over, as far as known */
	bool partial;	/* IDLE: bytes of a request are there since since_ns */
	bool uncounted; /* a chunked request is among them: consumed is too small */
	bool watched; /* IDLE, once request watched_at - 1 was over: the next byte is told by begins */
	unsigned requests, watched_at;
	struct event *begins; /* NULL: never watched */

	/* the request */
	enum weir_profile profile;
	bool trusted, suspended, asking, left, chunked, cut, failed;
	enum weir_http_path path;
	const struct weir_http_refusal *refusal;
	char *target; /* where it is the request's own */
	size_t target_n, target_max;
	size_t header_n; /* bytes, with the request line */
	__u64 body_n;	 /* bytes so far */
	char *body;	 /* json */
	size_t body_max;

	/* the question */
	struct weir_l7_call *call;
	struct weir_http_batch *batch; /* json: instead of call */
	__u64 due_ns;		       /* of the answer if it is HELD, else of the deadline */
	size_t heap_at;
	bool timed;	      /* is in the heap */
	struct event *leaves; /* while suspended */
};

/* --- mhd.c ---- */

/* The value of a header line that is ours and not the client's. */
extern const char weir_http_no_cookies[];

/* libmicrohttpd's daemon in the worker's loop, without a socket of its own. -ENOMEM; -ENOTSUP: it has no epoll. */
int weir_http_mhd_open(struct weir_http_port *p);
/* No connection is left. */
void weir_http_mhd_close(struct weir_http_port *p);
void weir_http_mhd_run(struct weir_http_port *p);
/* Takes @fd over whatever happens. */
int weir_http_mhd_add(struct weir_http_port *p, int fd, const struct weir_prefix *peer);

/* --- reply.c ---- */

extern const struct weir_http_refusal weir_http_no_memory;

/* Takes @r over. */
enum MHD_Result weir_http_conn_send(struct weir_http_conn *c, unsigned status,
				    struct MHD_Response *r);
/* @body: heap, taken over; NULL: that of @a. @a NULL: no headers but the body's type. */
enum MHD_Result weir_http_conn_answer(struct weir_http_conn *c, unsigned status,
				      const struct weir_answer *a, char *body, size_t body_n);
enum MHD_Result weir_http_conn_refuse(struct weir_http_conn *c,
				      const struct weir_http_refusal *why);
/* BAD_REQUEST, "bad-path". */
enum MHD_Result weir_http_conn_refuse_path(struct weir_http_conn *c);
/* By its status: too large (413, 431), or a bad request. */
void weir_http_count_refusal(struct weir_http_counters *n, unsigned status);
/* Nothing more will come of the peer, and all that came is read. */
bool weir_http_has_left(const struct weir_http_conn *c);
/* The library closes @c without having written a word: a refusal past it, if its client is still there. */
void weir_http_last_word(struct weir_http_conn *c);

/* --- ask.c ---- */

enum MHD_Result weir_http_conn_ask(struct weir_http_conn *c, const char *method);
/* weir_l7_done_fn. */
void weir_http_conn_done(void *arg, struct weir_l7_call *call);
/* After everything was asked: the answer, or the connection waits for it. */
enum MHD_Result weir_http_conn_asked(struct weir_http_conn *c);
/* What the engine has answered. */
enum MHD_Result weir_http_conn_reply(struct weir_http_conn *c);
/* Nobody will read the answer; @held: its place in a queue can be given back. */
void weir_http_conn_drop(struct weir_http_conn *c, bool held);
/* It need not be held any longer. */
void weir_http_conn_release(struct weir_http_conn *c);
/* Whatever state it is in: nobody waits for it any more. */
void weir_http_conn_cut(struct weir_http_conn *c);
/* The worker stops, or its port closes: held answers become refusals, idle connections go. */
void weir_http_conn_end(struct weir_http_conn *c);

/* --- pages.c ---- */

enum MHD_Result weir_http_page(struct weir_http_conn *c, const char *method);

/* --- deadline.c, hold.c, worker.c ---- */

/* A connection in the worker's list, and out of it. */
void weir_http_worker_conn_added(struct weir_http_worker *w, struct weir_http_conn *c);
void weir_http_worker_conn_gone(struct weir_http_worker *w, struct weir_http_conn *c);
/* Looks at @c at @due_ns: releases it if it is HELD then, else cuts it if it is late. -ENOMEM. */
int weir_http_worker_time(struct weir_http_worker *w, struct weir_http_conn *c, __u64 due_ns);
void weir_http_worker_untime(struct weir_http_worker *w, struct weir_http_conn *c);
/* The same of a held answer, which is counted. */
int weir_http_worker_hold(struct weir_http_worker *w, struct weir_http_conn *c, __u64 due_ns);
void weir_http_worker_unhold(struct weir_http_worker *w, struct weir_http_conn *c);
/* Cuts @c if nobody should wait for it any longer. */
void weir_http_worker_judge(struct weir_http_worker *w, struct weir_http_conn *c);
/* Is there a connection to spare for one more that waits? */
bool weir_http_worker_may_hold(const struct weir_http_worker *w);
/* The worker's scratch: header lines of the request that is being read. */
struct weir_http_lines *weir_http_worker_lines(struct weir_http_worker *w);

/* --- profile.c ---- */

/* The header lines of one request, by what they mean to its listener. */
struct weir_http_lines {
	const struct weir_http_conn *of; /* whose; NULL: nobody's */
	struct weir_header_list headers; /* the client's */
	struct weir_header_list forwarded;
	struct weir_text slot[WEIR_HTTP_SLOT_MAX];
	unsigned n[WEIR_HTTP_SLOT_MAX];
};

/* Of the request line; @target ends with a NUL. -ENOMEM. */
int weir_http_profile_target(struct weir_http_conn *c, const char *target);
/* Reads all header lines. NULL: fine. */
const struct weir_http_refusal *weir_http_profile_lines(struct weir_http_conn *c,
							struct weir_http_lines *lines);
/* Returns false if the request must be refused as BAD_REQUEST ("bad-path"). @ret_client: storage for ret->client. */
bool weir_http_profile_query(struct weir_http_conn *c, const char *method,
			     struct weir_http_lines *lines, struct weir_prefix *ret_client,
			     struct weir_l7_query *ret);
enum weir_answer_profile weir_http_answer_profile(enum weir_profile profile);

/* --- json.c ---- */

/* Before the body: NULL, or what is wrong. */
const struct weir_http_refusal *weir_http_json_begin(struct weir_http_conn *c, const char *method,
						     const struct weir_http_lines *lines);
int weir_http_json_body(struct weir_http_conn *c, const char *data, size_t n);
/* Asks everything; the answer comes by weir_http_conn_done. */
enum MHD_Result weir_http_json_ask(struct weir_http_conn *c);
enum MHD_Result weir_http_json_answer(struct weir_http_conn *c);
bool weir_http_json_done(struct weir_http_batch *b);
/* How long the slowest of them is to be held. */
__u64 weir_http_json_wait_us(const struct weir_http_batch *b);
void weir_http_json_abort(struct weir_http_batch *b);
/* @held: their clients' places in queues are given back. */
void weir_http_json_free(struct weir_http_batch *b, bool held);

#endif
