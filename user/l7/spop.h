/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent's side of HAProxy's SPOP 2.0 (doc/SPOE.txt in its source): bytes in, a callback per message, bytes out. No
 * socket and no clock; the listener of profile haproxy-spoe owns those. One session per connection, one thread.
 *
 * What a peer can make it hold is fixed when it is made: one frame, one queue of output, no more messages in flight
 * than inflight_max. Fragments are never offered and refused where they appear. An error ends the session: what is
 * pending then ends with AGENT-DISCONNECT and its code.
 */
#ifndef WEIR_L7_SPOP_H
#define WEIR_L7_SPOP_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/cleanup.h"
#include "weir/pkt.h"
#include "weir/types.h"

#define WEIR_SPOP_FRAME_MIN    256   /* the protocol's own least */
#define WEIR_SPOP_FRAME_MAX    16380 /* HAProxy's default buffer less the length: what we offer */
#define WEIR_SPOP_MESSAGES_MAX 16    /* in one NOTIFY */
#define WEIR_SPOP_ARGS_MAX     64    /* in one message */
#define WEIR_SPOP_VARINT_MAX   10    /* bytes of the longest number */

/* Status codes of the DISCONNECT frames. */
enum weir_spop_status {
	WEIR_SPOP_NORMAL = 0,
	WEIR_SPOP_IO = 1,
	WEIR_SPOP_TIMEOUT = 2,
	WEIR_SPOP_TOO_BIG = 3,
	WEIR_SPOP_INVALID = 4,
	WEIR_SPOP_NO_VERSION = 5,
	WEIR_SPOP_NO_FRAME_SIZE = 6,
	WEIR_SPOP_NO_CAPABILITIES = 7,
	WEIR_SPOP_BAD_VERSION = 8,
	WEIR_SPOP_BAD_FRAME_SIZE = 9,
	WEIR_SPOP_FRAGMENTED = 10,
	WEIR_SPOP_RESOURCE = 13,
	WEIR_SPOP_UNKNOWN = 99
};

/* Numbers are the protocol's. */
enum weir_spop_type {
	WEIR_SPOP_NULL = 0,
	WEIR_SPOP_BOOL = 1,
	WEIR_SPOP_INT32 = 2,
	WEIR_SPOP_UINT32 = 3,
	WEIR_SPOP_INT64 = 4,
	WEIR_SPOP_UINT64 = 5,
	WEIR_SPOP_IPV4 = 6,
	WEIR_SPOP_IPV6 = 7,
	WEIR_SPOP_STRING = 8,
	WEIR_SPOP_BINARY = 9
};

enum weir_spop_scope {
	WEIR_SPOP_PROC = 0,
	WEIR_SPOP_SESS = 1,
	WEIR_SPOP_TXN = 2,
	WEIR_SPOP_REQ = 3,
	WEIR_SPOP_RES = 4
};

struct weir_spop_value {
	enum weir_spop_type type;
	union {
		bool boolean;
		__s64 number;	    /* INT32, INT64 */
		__u64 natural;	    /* UINT32, UINT64 */
		union weir_addr ip; /* IPV4: word[0]; the rest is zero */
		struct {
			const char *data; /* no NUL at its end; any bytes, even in a STRING */
			size_t n;
		} text; /* STRING, BINARY */
	};
};

struct weir_spop_arg {
	const char *name; /* no NUL at its end; n 0: the configuration gave none */
	size_t name_n;
	struct weir_spop_value value;
};

struct weir_spop_message {
	__u64 stream, frame; /* of its NOTIFY, for the ACK */
	const char *name;    /* no NUL at its end */
	size_t name_n;
	const struct weir_spop_arg *args;
	size_t n_args;
	bool last; /* of its NOTIFY: one ACK for all its messages may be sent from now on */
};

struct weir_spop_var {
	enum weir_spop_scope scope;
	const char *name; /* HAProxy puts its var-prefix before it */
	struct weir_spop_value value;
};

struct weir_spop;

/* All messages of a NOTIFY have been checked when the first is handed over. Everything in @m ends with the call. It may
 * call weir_spop_ack and weir_spop_end, but not feed or free @s.
 */
typedef void (*weir_spop_message_fn)(struct weir_spop *s, const struct weir_spop_message *m,
				     void *arg);

struct weir_spop_limits {
	size_t frame_max;    /* bytes; WEIR_SPOP_FRAME_MIN .. WEIR_SPOP_FRAME_MAX */
	size_t output_max;   /* bytes that may wait to be written; at least 2 * frame_max */
	size_t inflight_max; /* NOTIFY frames without their ACK; at least 1 */
};

/* -EINVAL: limits out of their ranges; -ENOMEM. */
int weir_spop_new(const struct weir_spop_limits *limits, weir_spop_message_fn fn, void *arg,
		  struct weir_spop **ret);
void weir_spop_free(struct weir_spop *s);
DEFINE_CLEANUP(struct weir_spop, weir_spop_free)

/* Takes all @n bytes, which may be cut anywhere. Returns 0, or -ECONNRESET when the session has ended: write what is
 * pending, then close; whatever comes after that is ignored.
 */
int weir_spop_feed(struct weir_spop *s, const void *data, size_t n);

/* What is to be written, and how much of it was. The pointer is good until the next call of any function here. The
 * whole AGENT-HELLO is there at once: write it in one piece.
 */
size_t weir_spop_pending(const struct weir_spop *s, const void **ret_data);
void weir_spop_written(struct weir_spop *s, size_t n);

/* Answers one NOTIFY, in any order. -ENOTCONN: the session has ended, or no NOTIFY waits; -EMSGSIZE: larger than the
 * frames agreed upon, nothing was queued (answer with less); -EINVAL: a type, scope or number that does not exist;
 * -ENOBUFS: the peer does not read; the session has ended.
 */
int weir_spop_ack(struct weir_spop *s, __u64 stream, __u64 frame, const struct weir_spop_var *vars,
		  size_t n_vars);

/* Ends the session from our side: AGENT-DISCONNECT with @status is pending. No-op if it has ended. */
void weir_spop_end(struct weir_spop *s, enum weir_spop_status status);

/* Nothing more is taken or answered; what is pending may still be written. */
bool weir_spop_ended(const struct weir_spop *s);
/* The peer owes something: its HELLO, or the rest of a frame that has begun. */
bool weir_spop_waits(const struct weir_spop *s);
/* Why it ended, ours or the peer's code (whatever it sent); meaningless before that. */
__u32 weir_spop_end_status(const struct weir_spop *s);
/* NOTIFY frames that wait for their ACK. */
size_t weir_spop_inflight(const struct weir_spop *s);
/* Our words for a code; never NULL. */
const char *weir_spop_status_text(__u32 status);

/* The protocol's numbers. get: 0; -EAGAIN: cut; -ERANGE: above 64 bits. put returns how many bytes. */
int weir_spop_varint_get(const __u8 *p, size_t n, __u64 *ret, size_t *ret_used);
size_t weir_spop_varint_put(__u64 v, __u8 buf[static WEIR_SPOP_VARINT_MAX]);

#endif
