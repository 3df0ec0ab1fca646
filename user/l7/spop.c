/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SPOP 2.0 as a state machine: see spop.h. A frame is collected whole (its size is bounded before a byte of it is kept),
 * then read once to check it and once to hand it over, so that a message is never acted upon in a frame that is wrong
 * further on. Called by the listener of profile haproxy-spoe.
 */
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "user/l7/spop.h"
#include "user/l7/spop_data.h"

#define LENGTH_BYTES   4
#define FRAME_LEAST    7   /* type, flags, two ids */
#define DISCONNECT_MAX 128 /* our longest AGENT-DISCONNECT; always kept free in the output */
#define FLAG_FIN       0x01
#define SET_VAR	       1
#define SET_VAR_ARGS   3

enum frame_type {
	UNSET = 0,
	HAPROXY_HELLO = 1,
	HAPROXY_DISCONNECT = 2,
	NOTIFY = 3,
	AGENT_HELLO = 101,
	AGENT_DISCONNECT = 102,
	ACK = 103
};

enum state { STATE_HELLO, STATE_READY, STATE_ENDED };

struct weir_spop {
	struct weir_spop_limits limits;
	weir_spop_message_fn fn;
	void *arg;
	enum state state;
	__u32 end_status;
	size_t frame_max; /* ours until HELLO, then the one agreed upon */
	size_t inflight;
	size_t in_n;
	size_t out_from, out_to;
	struct weir_spop_arg args[WEIR_SPOP_ARGS_MAX];
	__u8 *in;  /* length and frame */
	__u8 *out; /* limits.output_max + DISCONNECT_MAX */
};

static const struct {
	__u32 status;
	const char *text;
} status_texts[] = {
	{WEIR_SPOP_NORMAL, "normal"},
	{WEIR_SPOP_IO, "I/O error"},
	{WEIR_SPOP_TIMEOUT, "a timeout occurred"},
	{WEIR_SPOP_TOO_BIG, "frame is too big"},
	{WEIR_SPOP_INVALID, "invalid frame received"},
	{WEIR_SPOP_NO_VERSION, "version value not found"},
	{WEIR_SPOP_NO_FRAME_SIZE, "max-frame-size value not found"},
	{WEIR_SPOP_NO_CAPABILITIES, "capabilities value not found"},
	{WEIR_SPOP_BAD_VERSION, "unsupported version"},
	{WEIR_SPOP_BAD_FRAME_SIZE, "max-frame-size too big or too small"},
	{WEIR_SPOP_FRAGMENTED, "payload fragmentation is not supported"},
	{11, "invalid interlaced frames"},
	{12, "frame-id not found"},
	{WEIR_SPOP_RESOURCE, "resource allocation error"},
	{WEIR_SPOP_UNKNOWN, "an unknown error occurred"},
};

const char *weir_spop_status_text(__u32 status)
{
	for (size_t i = 0; i < ARRAY_LEN(status_texts); i++)
		if (status_texts[i].status == status)
			return status_texts[i].text;
	return "a code that the protocol does not know";
}

static void compact(struct weir_spop *s)
{
	s->out_to -= s->out_from;
	memmove(s->out, s->out + s->out_from, s->out_to);
	s->out_from = 0;
}

/* A frame of at most @frame_max bytes at the end of the output, of which @room may be used in all. */
static struct weir_spop_writer frame_begin(struct weir_spop *s, size_t room, size_t frame_max)
{
	size_t left, most;

	if (s->out_from && room - s->out_to < LENGTH_BYTES + frame_max)
		compact(s);
	left = room - s->out_to;
	most = left > LENGTH_BYTES ? left - LENGTH_BYTES : 0;
	return (struct weir_spop_writer){.to = s->out + s->out_to + LENGTH_BYTES,
					 .max = most < frame_max ? most : frame_max};
}

static void frame_commit(struct weir_spop *s, const struct weir_spop_writer *w)
{
	__be32 length = htobe32((__u32)w->n);

	memcpy(s->out + s->out_to, &length, LENGTH_BYTES);
	s->out_to += LENGTH_BYTES + w->n;
}

static void put_header(struct weir_spop_writer *w, enum frame_type type, __u64 stream, __u64 frame)
{
	const __u8 fin[4] = {0, 0, 0, FLAG_FIN};

	weir_spop_put_byte(w, (__u8)type);
	weir_spop_put_bytes(w, fin, sizeof(fin));
	weir_spop_put_varint(w, stream);
	weir_spop_put_varint(w, frame);
}

static void put_key_text(struct weir_spop_writer *w, const char *key, const char *text)
{
	weir_spop_put_text(w, key, strlen(key));
	weir_spop_put_byte(w, WEIR_SPOP_STRING);
	weir_spop_put_text(w, text, strlen(text));
}

static void put_key_u32(struct weir_spop_writer *w, const char *key, __u32 v)
{
	weir_spop_put_text(w, key, strlen(key));
	weir_spop_put_byte(w, WEIR_SPOP_UINT32);
	weir_spop_put_varint(w, v);
}

/* --- the session ---- */

int weir_spop_new(const struct weir_spop_limits *limits, weir_spop_message_fn fn, void *arg,
		  struct weir_spop **ret)
{
	_cleanup_(weir_spop_freep) struct weir_spop *s = NULL;

	if (limits->frame_max < WEIR_SPOP_FRAME_MIN || limits->frame_max > WEIR_SPOP_FRAME_MAX ||
	    limits->output_max < 2 * limits->frame_max || limits->output_max > UINT32_MAX ||
	    limits->inflight_max == 0)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->limits = *limits;
	s->fn = fn;
	s->arg = arg;
	s->frame_max = limits->frame_max;
	s->in = malloc(LENGTH_BYTES + limits->frame_max);
	s->out = malloc(limits->output_max + DISCONNECT_MAX);
	if (!s->in || !s->out)
		return -ENOMEM;
	*ret = TAKE_PTR(s);
	return 0;
}

void weir_spop_free(struct weir_spop *s)
{
	if (!s)
		return;
	free(s->in);
	free(s->out);
	free(s);
}

static void say_goodbye(struct weir_spop *s, enum weir_spop_status status)
{
	struct weir_spop_writer w =
		frame_begin(s, s->limits.output_max + DISCONNECT_MAX, DISCONNECT_MAX);

	put_header(&w, AGENT_DISCONNECT, 0, 0);
	put_key_u32(&w, "status-code", status);
	put_key_text(&w, "message", weir_spop_status_text(status));
	frame_commit(s, &w);
}

void weir_spop_end(struct weir_spop *s, enum weir_spop_status status)
{
	if (s->state == STATE_ENDED)
		return;
	say_goodbye(s, status);
	s->state = STATE_ENDED;
	s->end_status = status;
}

bool weir_spop_ended(const struct weir_spop *s)
{
	return s->state == STATE_ENDED;
}

bool weir_spop_waits(const struct weir_spop *s)
{
	return s->state == STATE_HELLO || (s->state == STATE_READY && s->in_n > 0);
}

__u32 weir_spop_end_status(const struct weir_spop *s)
{
	return s->end_status;
}

size_t weir_spop_inflight(const struct weir_spop *s)
{
	return s->inflight;
}

size_t weir_spop_pending(const struct weir_spop *s, const void **ret_data)
{
	*ret_data = s->out + s->out_from;
	return s->out_to - s->out_from;
}

void weir_spop_written(struct weir_spop *s, size_t n)
{
	size_t left = s->out_to - s->out_from;

	s->out_from += n < left ? n : left;
	if (s->out_from == s->out_to) {
		s->out_from = 0;
		s->out_to = 0;
	}
}

int weir_spop_ack(struct weir_spop *s, __u64 stream, __u64 frame, const struct weir_spop_var *vars,
		  size_t n_vars)
{
	struct weir_spop_writer w;
	int r;

	if (s->state != STATE_READY || s->inflight == 0)
		return -ENOTCONN;
	w = frame_begin(s, s->limits.output_max, s->frame_max);
	put_header(&w, ACK, stream, frame);
	for (size_t i = 0; i < n_vars; i++) {
		if ((unsigned int)vars[i].scope > WEIR_SPOP_RES)
			return -EINVAL;
		weir_spop_put_byte(&w, SET_VAR);
		weir_spop_put_byte(&w, SET_VAR_ARGS);
		weir_spop_put_byte(&w, (__u8)vars[i].scope);
		weir_spop_put_text(&w, vars[i].name, strlen(vars[i].name));
		r = weir_spop_put_value(&w, &vars[i].value);
		if (r < 0)
			return r;
	}
	if (w.n > w.max) {
		if (w.max == s->frame_max)
			return -EMSGSIZE;
		weir_spop_end(s, WEIR_SPOP_RESOURCE);
		return -ENOBUFS;
	}
	frame_commit(s, &w);
	s->inflight--;
	return 0;
}

/* --- frames that arrive ---- */

struct hello {
	bool versions_seen, size_seen, capabilities_seen;
	bool version_ok, pipelining, healthcheck;
	__u32 frame_size;
};

/* Is there an entry in the comma-separated list that is @word, or, if @prefix, begins with it? */
static bool list_has(const struct weir_spop_value *v, const char *word, bool prefix)
{
	const char *p = v->text.data, *end = p + v->text.n;
	size_t n = strlen(word);

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end, *last = stop;

		while (p < last && *p == ' ')
			p++;
		while (last > p && last[-1] == ' ')
			last--;
		if ((size_t)(last - p) >= n && memcmp(p, word, n) == 0 &&
		    (prefix || (size_t)(last - p) == n))
			return true;
		p = comma ? comma + 1 : end;
	}
	return false;
}

static bool key_is(const char *name, size_t n, const char *key)
{
	return n == strlen(key) && memcmp(name, key, n) == 0;
}

static bool hello_item(struct hello *h, const char *key, size_t n, const struct weir_spop_value *v)
{
	if (key_is(key, n, "supported-versions")) {
		h->versions_seen = true;
		h->version_ok = v->type == WEIR_SPOP_STRING && list_has(v, "2.", true);
		return v->type == WEIR_SPOP_STRING;
	}
	if (key_is(key, n, "max-frame-size")) {
		h->size_seen = true;
		h->frame_size = v->type == WEIR_SPOP_UINT32 ? (__u32)v->natural : 0;
		return v->type == WEIR_SPOP_UINT32;
	}
	if (key_is(key, n, "capabilities")) {
		h->capabilities_seen = true;
		h->pipelining = v->type == WEIR_SPOP_STRING && list_has(v, "pipelining", false);
		return v->type == WEIR_SPOP_STRING;
	}
	if (key_is(key, n, "healthcheck")) {
		h->healthcheck = v->type == WEIR_SPOP_BOOL && v->boolean;
		return v->type == WEIR_SPOP_BOOL;
	}
	return true; /* engine-id, and what later versions add */
}

static enum weir_spop_status hello_read(struct weir_spop_cursor c, struct hello *h)
{
	struct weir_spop_value v;
	const char *key;
	size_t n;

	while (c.pos < c.end)
		if (!weir_spop_take_text(&c, &key, &n) || !weir_spop_take_value(&c, &v) ||
		    !hello_item(h, key, n, &v))
			return WEIR_SPOP_INVALID;
	if (!h->versions_seen)
		return WEIR_SPOP_NO_VERSION;
	if (!h->size_seen)
		return WEIR_SPOP_NO_FRAME_SIZE;
	if (!h->capabilities_seen)
		return WEIR_SPOP_NO_CAPABILITIES;
	if (!h->version_ok)
		return WEIR_SPOP_BAD_VERSION;
	return h->frame_size < WEIR_SPOP_FRAME_MIN ? WEIR_SPOP_BAD_FRAME_SIZE : WEIR_SPOP_NORMAL;
}

static void on_hello(struct weir_spop *s, struct weir_spop_cursor c)
{
	struct hello h = {.frame_size = 0};
	enum weir_spop_status status = hello_read(c, &h);
	struct weir_spop_writer w;

	if (status != WEIR_SPOP_NORMAL) {
		weir_spop_end(s, status);
		return;
	}
	if (h.frame_size < s->frame_max)
		s->frame_max = h.frame_size;
	w = frame_begin(s, s->limits.output_max, s->frame_max);
	put_header(&w, AGENT_HELLO, 0, 0);
	put_key_text(&w, "version", "2.0");
	put_key_u32(&w, "max-frame-size", (__u32)s->frame_max);
	put_key_text(&w, "capabilities", h.pipelining ? "pipelining" : "");
	frame_commit(s, &w); /* it fits: first in an empty output, and well below the least frame */
	s->state = h.healthcheck ? STATE_ENDED : STATE_READY;
}

/* The peer's code is kept whatever it is; that it said goodbye in a broken way changes nothing. */
static void on_disconnect(struct weir_spop *s, struct weir_spop_cursor c)
{
	__u32 status = WEIR_SPOP_UNKNOWN;
	struct weir_spop_value v;
	const char *key;
	size_t n;

	while (c.pos < c.end && weir_spop_take_text(&c, &key, &n) && weir_spop_take_value(&c, &v))
		if (key_is(key, n, "status-code") && v.type == WEIR_SPOP_UINT32)
			status = (__u32)v.natural;
	weir_spop_end(s, WEIR_SPOP_NORMAL);
	s->end_status = status;
}

static enum weir_spop_status take_message(struct weir_spop *s, struct weir_spop_cursor *c,
					  struct weir_spop_message *m)
{
	__u8 n_args;

	if (!weir_spop_take_text(c, &m->name, &m->name_n) || m->name_n == 0 ||
	    !weir_spop_take_byte(c, &n_args))
		return WEIR_SPOP_INVALID;
	if (n_args > WEIR_SPOP_ARGS_MAX)
		return WEIR_SPOP_RESOURCE;
	for (size_t i = 0; i < n_args; i++)
		if (!weir_spop_take_text(c, &s->args[i].name, &s->args[i].name_n) ||
		    !weir_spop_take_value(c, &s->args[i].value))
			return WEIR_SPOP_INVALID;
	m->args = s->args;
	m->n_args = n_args;
	m->last = c->pos == c->end;
	return WEIR_SPOP_NORMAL;
}

static void on_notify(struct weir_spop *s, struct weir_spop_cursor c, __u64 stream, __u64 frame)
{
	struct weir_spop_message m = {.stream = stream, .frame = frame};
	enum weir_spop_status status = WEIR_SPOP_INVALID; /* without any message */
	struct weir_spop_cursor check = c;
	size_t n = 0;

	while (check.pos < check.end) {
		status = n++ < WEIR_SPOP_MESSAGES_MAX ? take_message(s, &check, &m)
						      : WEIR_SPOP_RESOURCE;
		if (status != WEIR_SPOP_NORMAL)
			break;
	}
	if (status == WEIR_SPOP_NORMAL && s->inflight >= s->limits.inflight_max)
		status = WEIR_SPOP_RESOURCE;
	if (status != WEIR_SPOP_NORMAL) {
		weir_spop_end(s, status);
		return;
	}
	s->inflight++;
	while (c.pos < c.end && s->state == STATE_READY &&
	       take_message(s, &c, &m) == WEIR_SPOP_NORMAL)
		s->fn(s, &m, s->arg);
}

/* A stream-id of 0 is legal in NOTIFY: HAProxy numbers its streams from there. */
static void on_frame(struct weir_spop *s, const __u8 *data, size_t n)
{
	struct weir_spop_cursor c = {.pos = data + 5, .end = data + n};
	bool fin = data[4] & FLAG_FIN;
	__u64 stream, frame;
	__u8 type = data[0];

	if (!weir_spop_take_varint(&c, &stream) || !weir_spop_take_varint(&c, &frame)) {
		weir_spop_end(s, WEIR_SPOP_INVALID);
		return;
	}
	if (type == HAPROXY_DISCONNECT)
		on_disconnect(s, c);
	else if (type == UNSET || !fin)
		weir_spop_end(s, WEIR_SPOP_FRAGMENTED);
	else if (s->state == STATE_HELLO && type == HAPROXY_HELLO && !stream && !frame)
		on_hello(s, c);
	else if (s->state == STATE_READY && type == NOTIFY)
		on_notify(s, c, stream, frame);
	else if (s->state == STATE_HELLO || type == HAPROXY_HELLO || type == AGENT_HELLO ||
		 type == AGENT_DISCONNECT || type == ACK)
		weir_spop_end(s, WEIR_SPOP_INVALID);
	/* else: unknown frames are skipped, says the protocol */
}

/* How many bytes the frame in s->in takes with its length; what is known of it so far. */
static size_t frame_bytes(struct weir_spop *s)
{
	size_t length;

	if (s->in_n < LENGTH_BYTES)
		return LENGTH_BYTES;
	length = (size_t)s->in[0] << 24 | (size_t)s->in[1] << 16 | (size_t)s->in[2] << 8 | s->in[3];
	if (length > s->frame_max)
		weir_spop_end(s, WEIR_SPOP_TOO_BIG);
	else if (length < FRAME_LEAST)
		weir_spop_end(s, WEIR_SPOP_INVALID);
	return LENGTH_BYTES + length;
}

int weir_spop_feed(struct weir_spop *s, const void *data, size_t n)
{
	const __u8 *p = data;

	while (n > 0 && s->state != STATE_ENDED) {
		size_t more = frame_bytes(s) - s->in_n;

		more = more < n ? more : n;
		memcpy(s->in + s->in_n, p, more);
		s->in_n += more;
		p += more;
		n -= more;
		if (s->in_n < LENGTH_BYTES || s->in_n < frame_bytes(s) || s->state == STATE_ENDED)
			continue;
		on_frame(s, s->in + LENGTH_BYTES, s->in_n - LENGTH_BYTES);
		s->in_n = 0;
	}
	return s->state == STATE_ENDED ? -ECONNRESET : 0;
}
