/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/spop.h: HAProxy's SPOP 2.0, the agent's side. Bytes are written out here by hand from the protocol's
 * specification, so that a mistake in the code cannot hide in the same mistake of the test.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "user/l7/spop.h"

#define BYTES(s) (s), sizeof(s) - 1

/* length, type 1, FIN, ids 0 0, then the three items that must be there: 2.0, 16380 (fc f0 06), pipelining,async */
#define ITEMS                                                                                      \
	"\x12supported-versions\x08\x03"                                                           \
	"2.0"                                                                                      \
	"\x0emax-frame-size\x03\xfc\xf0\x06"                                                       \
	"\x0c"                                                                                     \
	"capabilities\x08\x10pipelining,async"
#define HELLO "\x00\x00\x00\x51\x01\x00\x00\x00\x01\x00\x00" ITEMS
#define AGENT_HELLO                                                                                \
	"\x00\x00\x00\x40\x65\x00\x00\x00\x01\x00\x00"                                             \
	"\x07version\x08\x03"                                                                      \
	"2.0"                                                                                      \
	"\x0emax-frame-size\x03\xfc\xf0\x06"                                                       \
	"\x0c"                                                                                     \
	"capabilities\x08\x0apipelining"
/* stream 7, frame 240 (f0 00): message check with an argument of each type */
#define NOTIFY                                                                                     \
	"\x00\x00\x00\x61\x03\x00\x00\x00\x01\x07\xf0\x00"                                         \
	"\x05"                                                                                     \
	"check\x0b"                                                                                \
	"\x01n\x00"                                                                                \
	"\x01t\x11"                                                                                \
	"\x01"                                                                                     \
	"f\x01"                                                                                    \
	"\x01i\x02\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e"                                        \
	"\x01u\x03\xff\xf0\xfe\xfe\x7e"                                                            \
	"\x01l\x04\xf0\x01"                                                                        \
	"\x01m\x05\xef"                                                                            \
	"\x01"                                                                                     \
	"4\x06\xc0\x00\x02\x01"                                                                    \
	"\x01"                                                                                     \
	"6\x07\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"                    \
	"\x04path\x08\x05/a\x00/b"                                                                 \
	"\x00\x09\x02\xff\x00"
#define GOODBYE_NORMAL                                                                             \
	"\x00\x00\x00\x25\x66\x00\x00\x00\x01\x00\x00"                                             \
	"\x0bstatus-code\x03\x00"                                                                  \
	"\x07message\x08\x06normal"

static const struct weir_spop_limits limits = {.frame_max = WEIR_SPOP_FRAME_MAX,
					       .output_max = 65536,
					       .inflight_max = 4};

struct seen {
	char text[4096]; /* what the callback was told, one line a message */
	size_t n, messages;
	bool ack;
};

static void tell(struct seen *seen, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(struct seen *seen, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(seen->text + seen->n, sizeof(seen->text) - seen->n, format, ap);
	va_end(ap);
	assert_true(n >= 0 && (size_t)n < sizeof(seen->text) - seen->n);
	seen->n += (size_t)n;
}

static void tell_hex(struct seen *seen, const void *data, size_t n)
{
	const __u8 *p = data;

	for (size_t i = 0; i < n; i++)
		tell(seen, "%02x", p[i]);
}

static void on_message(struct weir_spop *s, const struct weir_spop_message *m, void *arg)
{
	struct seen *seen = arg;

	seen->messages++;
	tell(seen, "%llu/%llu %.*s%s:", m->stream, m->frame, (int)m->name_n, m->name,
	     m->last ? " last" : "");
	for (size_t i = 0; i < m->n_args; i++) {
		const struct weir_spop_value *v = &m->args[i].value;

		tell(seen, " %.*s=%d,", (int)m->args[i].name_n, m->args[i].name, v->type);
		if (v->type == WEIR_SPOP_BOOL)
			tell(seen, "%d", v->boolean);
		else if (v->type == WEIR_SPOP_INT32 || v->type == WEIR_SPOP_INT64)
			tell(seen, "%lld", v->number);
		else if (v->type == WEIR_SPOP_UINT32 || v->type == WEIR_SPOP_UINT64)
			tell(seen, "%llu", v->natural);
		else if (v->type == WEIR_SPOP_IPV4 || v->type == WEIR_SPOP_IPV6)
			tell_hex(seen, v->ip.ip, v->type == WEIR_SPOP_IPV4 ? 4 : 16);
		else if (v->type != WEIR_SPOP_NULL)
			tell_hex(seen, v->text.data, v->text.n);
	}
	tell(seen, "\n");
	if (seen->ack && m->last)
		assert_int_equal(weir_spop_ack(s, m->stream, m->frame, NULL, 0), 0);
}

static struct weir_spop *new_session(struct seen *seen)
{
	struct weir_spop *s = NULL;

	memset(seen, 0, sizeof(*seen));
	assert_int_equal(weir_spop_new(&limits, on_message, seen, &s), 0);
	return s;
}

static void expect_out(struct weir_spop *s, const char *bytes, size_t n)
{
	const void *data;

	assert_int_equal(weir_spop_pending(s, &data), n);
	if (n)
		assert_memory_equal(data, bytes, n);
	weir_spop_written(s, n);
}

static struct weir_spop *ready(struct seen *seen)
{
	struct weir_spop *s = new_session(seen);

	assert_int_equal(weir_spop_feed(s, BYTES(HELLO)), 0);
	expect_out(s, BYTES(AGENT_HELLO));
	return s;
}

/* The session has ended with AGENT-DISCONNECT and @status, its only output. */
static void expect_end(struct weir_spop *s, enum weir_spop_status status)
{
	static const char head[] = "\x66\x00\x00\x00\x01\x00\x00\x0bstatus-code\x03";
	const void *data;
	const __u8 *p;
	size_t n = weir_spop_pending(s, &data);

	p = data;
	assert_true(weir_spop_ended(s));
	assert_int_equal(weir_spop_end_status(s), status);
	assert_true(n > 4 + sizeof(head));
	assert_int_equal((size_t)p[2] << 8 | p[3], n - 4);
	assert_memory_equal(p + 4, head, sizeof(head) - 1);
	assert_int_equal(p[4 + sizeof(head) - 1], status);
	assert_non_null(
		memmem(p, n, weir_spop_status_text(status), strlen(weir_spop_status_text(status))));
	assert_int_equal(weir_spop_feed(s, BYTES(HELLO)), -ECONNRESET); /* and nothing more */
	assert_int_equal(weir_spop_pending(s, &data), n);
	assert_int_equal(weir_spop_ack(s, 0, 0, NULL, 0), -ENOTCONN);
}

/* A frame of @type and @flags with ids 1 and 1 (0 and 0 for HELLO) and @payload is answered by @status. */
static void refused(bool after_hello, __u8 type, __u8 flags, const char *payload, size_t n,
		    enum weir_spop_status status)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s =
		after_hello ? ready(&seen) : new_session(&seen);
	__u8 head[11] = {0, 0, (__u8)((n + 7) >> 8), (__u8)(n + 7), type, 0, 0, 0, flags};

	head[9] = head[10] = type > 2;
	(void)weir_spop_feed(s, head, sizeof(head));
	(void)weir_spop_feed(s, payload, n);
	expect_end(s, status);
	assert_int_equal(seen.messages, 0);
}

static void varints_step_where_the_specification_says(void **state)
{
	static const struct {
		__u64 v;
		const char *bytes;
		size_t n;
	} cases[] = {
		{0, BYTES("\x00")},
		{239, BYTES("\xef")},
		{240, BYTES("\xf0\x00")},
		{2287, BYTES("\xff\x7f")},
		{2288, BYTES("\xf0\x80\x00")},
		{264431, BYTES("\xff\xff\x7f")},
		{264432, BYTES("\xf0\x80\x80\x00")},
		{33818863, BYTES("\xff\xff\xff\x7f")},
		{33818864, BYTES("\xf0\x80\x80\x80\x00")},
		{16380, BYTES("\xfc\xf0\x06")},
		{UINT32_MAX, BYTES("\xff\xf0\xfe\xfe\x7e")},
		{UINT64_MAX, BYTES("\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e")},
	};
	__u8 buf[WEIR_SPOP_VARINT_MAX];
	size_t used;
	__u64 v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const __u8 *p = (const __u8 *)cases[i].bytes;

		assert_int_equal(weir_spop_varint_put(cases[i].v, buf), cases[i].n);
		assert_memory_equal(buf, p, cases[i].n);
		assert_int_equal(weir_spop_varint_get(p, cases[i].n, &v, &used), 0);
		assert_true(v == cases[i].v);
		assert_int_equal(used, cases[i].n);
		for (size_t n = 0; n < cases[i].n; n++)
			assert_int_equal(weir_spop_varint_get(p, n, &v, &used), -EAGAIN);
	}
	for (unsigned int bit = 0; bit < 64; bit++)
		for (int d = -1; d <= 1; d++) {
			__u64 want = (1ull << bit) + (__u64)d;
			size_t n = weir_spop_varint_put(want, buf);

			assert_int_equal(weir_spop_varint_get(buf, n, &v, &used), 0);
			assert_true(v == want && used == n);
		}
}

static void varints_above_64_bits_are_refused(void **state)
{
	size_t used;
	__u64 v;

	(void)state;
	assert_int_equal(weir_spop_varint_get((const __u8 *)BYTES(
						      "\xf0\xff\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0f"),
					      &v, &used),
			 -ERANGE);
	assert_int_equal(
		weir_spop_varint_get((const __u8 *)BYTES(
					     "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
				     &v, &used),
		-ERANGE);
	assert_int_equal(weir_spop_varint_get((const __u8 *)BYTES(
						      "\xf0\x80\x80\x80\x80\x80\x80\x80\x80\x10"),
					      &v, &used),
			 -ERANGE);
}

static void hello_is_answered_in_one_frame(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	assert_false(weir_spop_ended(s));
	assert_int_equal(weir_spop_inflight(s), 0);
}

static void hello_takes_the_smaller_frame_and_offers_only_what_was_offered(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);
	struct weir_spop_var var = {WEIR_SPOP_TXN, "x", {.type = WEIR_SPOP_STRING}};
	char big[256] = "";

	(void)state;
	/* 256 = f0 01; no capability; versions with spaces, the wrong one first; an item of a later version */
	assert_int_equal(weir_spop_feed(s, BYTES("\x00\x00\x00\x5e\x01\x00\x00\x00\x01\x00\x00"
						 "\x12supported-versions\x08\x0a"
						 "3.0 , 2.1 "
						 "\x0emax-frame-size\x03\xf0\x01"
						 "\x0c"
						 "capabilities\x08\x00"
						 "\x09"
						 "engine-id\x08\x03"
						 "abc"
						 "\x05later\x05\x01")),
			 0);
	expect_out(s, BYTES("\x00\x00\x00\x35\x65\x00\x00\x00\x01\x00\x00"
			    "\x07version\x08\x03"
			    "2.0"
			    "\x0emax-frame-size\x03\xf0\x01"
			    "\x0c"
			    "capabilities\x08\x00"));
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	var.value.text.data = big;
	/* type, flags, ids 8; action 3, name 2, type 1, length 2 */
	var.value.text.n = 256 - 8 - 8 + 1;
	assert_int_equal(weir_spop_ack(s, 7, 240, &var, 1), -EMSGSIZE);
	expect_out(s, "", 0);
	var.value.text.n--;
	assert_int_equal(weir_spop_ack(s, 7, 240, &var, 1), 0);
	weir_spop_written(s, 260);
	expect_out(s, "", 0);
	(void)weir_spop_feed(s, BYTES("\x00\x00\x01\x01"));
	expect_end(s, WEIR_SPOP_TOO_BIG);
}

static void healthcheck_is_answered_and_over(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s,
					BYTES("\x00\x00\x00\x5e\x01\x00\x00\x00\x01\x00\x00" ITEMS
					      "\x0bhealthcheck\x11")),
			 -ECONNRESET);
	assert_true(weir_spop_ended(s));
	assert_int_equal(weir_spop_end_status(s), WEIR_SPOP_NORMAL);
	expect_out(s, BYTES(AGENT_HELLO));
}

static void notify_hands_over_every_type(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	assert_string_equal(
		seen.text,
		"7/240 check last: n=0, t=1,1 f=1,0 i=2,-1 u=3,4294967295 l=4,256 m=5,239 "
		"4=6,c0000201 6=7,20010db8000000000000000000000001 path=8,2f61002f62 "
		"=9,ff00\n");
	assert_int_equal(weir_spop_inflight(s), 1);
}

static void several_messages_share_one_ack(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	seen.ack = true;
	assert_int_equal(weir_spop_feed(s, BYTES("\x00\x00\x00\x0d\x03\x00\x00\x00\x01\x00\x01"
						 "\x01"
						 "a\x00\x01"
						 "b\x00")),
			 0);
	assert_string_equal(seen.text, "0/1 a:\n0/1 b last:\n"); /* a stream of 0 is legal */
	expect_out(s, BYTES("\x00\x00\x00\x07\x67\x00\x00\x00\x01\x00\x01"));
	assert_int_equal(weir_spop_inflight(s), 0);
}

static void ack_sets_variables(void **state)
{
	struct weir_spop_var vars[] = {
		{WEIR_SPOP_TXN, "decision", {.type = WEIR_SPOP_STRING, .text = {"deny", 4}}},
		{WEIR_SPOP_REQ, "retry", {.type = WEIR_SPOP_UINT32, .natural = 300}},
		{WEIR_SPOP_PROC, "i", {.type = WEIR_SPOP_INT32, .number = -1}},
		{WEIR_SPOP_SESS, "t", {.type = WEIR_SPOP_BOOL, .boolean = true}},
		{WEIR_SPOP_RES, "f", {.type = WEIR_SPOP_BOOL}},
		{WEIR_SPOP_RES, "n", {.type = WEIR_SPOP_NULL}},
		{WEIR_SPOP_RES, "4", {.type = WEIR_SPOP_IPV4, .ip.ip = {192, 0, 2, 1}}},
		{WEIR_SPOP_RES, "b", {.type = WEIR_SPOP_BINARY, .text = {"\0", 1}}},
	};
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	assert_int_equal(weir_spop_ack(s, 7, 240, vars, ARRAY_LEN(vars)), 0);
	expect_out(s, BYTES("\x00\x00\x00\x5a\x67\x00\x00\x00\x01\x07\xf0\x00"
			    "\x01\x03\x02\x08"
			    "decision\x08\x04"
			    "deny"
			    "\x01\x03\x03\x05retry\x03\xfc\x03"
			    "\x01\x03\x00\x01i\x02\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e"
			    "\x01\x03\x01\x01t\x11"
			    "\x01\x03\x04\x01"
			    "f\x01"
			    "\x01\x03\x04\x01n\x00"
			    "\x01\x03\x04\x01"
			    "4\x06\xc0\x00\x02\x01"
			    "\x01\x03\x04\x01"
			    "b\x09\x01\x00"));
	assert_int_equal(weir_spop_ack(s, 7, 240, vars, 1), -ENOTCONN); /* answered already */
}

static void what_does_not_exist_is_not_sent(void **state)
{
	struct weir_spop_var bad[] = {
		{WEIR_SPOP_RES + 1, "x", {.type = WEIR_SPOP_NULL}},
		{WEIR_SPOP_TXN, "x", {.type = WEIR_SPOP_BINARY + 1}},
		{WEIR_SPOP_TXN, "x", {.type = WEIR_SPOP_UINT32, .natural = 1ull << 32}},
		{WEIR_SPOP_TXN, "x", {.type = WEIR_SPOP_INT32, .number = -(1ll << 31) - 1}},
	};
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_spop_ack(s, 7, 240, &bad[i], 1), -EINVAL);
	expect_out(s, "", 0);
	assert_int_equal(weir_spop_inflight(s), 1);
}

static void acks_may_come_in_any_order(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	assert_int_equal(weir_spop_inflight(s), 3);
	assert_int_equal(weir_spop_ack(s, 9, 3, NULL, 0), 0);
	assert_int_equal(weir_spop_ack(s, 8, 2, NULL, 0), 0);
	expect_out(s, BYTES("\x00\x00\x00\x07\x67\x00\x00\x00\x01\x09\x03"
			    "\x00\x00\x00\x07\x67\x00\x00\x00\x01\x08\x02"));
}

static void disconnect_is_answered(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);
	_cleanup_(weir_spop_freep) struct weir_spop *broken = ready(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s, BYTES("\x00\x00\x00\x25\x02\x00\x00\x00\x01\x00\x00"
						 "\x0bstatus-code\x03\x02"
						 "\x07message\x08\x06"
						 "tooold")),
			 -ECONNRESET);
	assert_int_equal(weir_spop_end_status(s), WEIR_SPOP_TIMEOUT); /* the peer's reason */
	expect_out(s, BYTES(GOODBYE_NORMAL));
	assert_int_equal(weir_spop_feed(broken,
					BYTES("\x00\x00\x00\x08\x02\x00\x00\x00\x00\x00\x00\xff")),
			 -ECONNRESET);
	assert_int_equal(weir_spop_end_status(broken), WEIR_SPOP_UNKNOWN);
	expect_out(broken, BYTES(GOODBYE_NORMAL));
}

static void we_may_end_it_too(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	weir_spop_end(s, WEIR_SPOP_NORMAL);
	weir_spop_end(s, WEIR_SPOP_TIMEOUT); /* no second one */
	expect_out(s, BYTES(GOODBYE_NORMAL));
}

/* Everything at once, split in two at every byte, and byte by byte: the same messages, the same output. */
static void frames_may_be_cut_anywhere(void **state)
{
	static const char in[] = HELLO NOTIFY "\x00\x00\x00\x0a\x03\x00\x00\x00\x01\x08\x02\x01"
					      "b\x00";
	static const char out[] = AGENT_HELLO "\x00\x00\x00\x08\x67\x00\x00\x00\x01\x07\xf0\x00"
					      "\x00\x00\x00\x07\x67\x00\x00\x00\x01\x08\x02";
	const size_t n = sizeof(in) - 1;
	struct seen whole, seen;

	(void)state;
	for (size_t cut = 0; cut <= n + 1; cut++) {
		_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);

		seen.ack = true;
		for (size_t i = 0; cut > n && i < n; i++)
			assert_int_equal(weir_spop_feed(s, in + i, 1), 0);
		if (cut <= n) {
			assert_int_equal(weir_spop_feed(s, in, cut), 0);
			assert_int_equal(weir_spop_feed(s, in + cut, n - cut), 0);
		}
		expect_out(s, out, sizeof(out) - 1);
		if (cut == 0)
			whole = seen;
		assert_int_equal(seen.messages, 2);
		assert_string_equal(seen.text, whole.text);
	}
}

static void output_may_leave_in_pieces(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);
	size_t acks = 0;

	(void)state;
	seen.ack = true;
	for (int i = 0; i < 20000;
	     i++) { /* more than the output holds, never more than a little waiting */
		const void *data;
		size_t n;

		assert_int_equal(
			weir_spop_feed(s, BYTES("\x00\x00\x00\x0a\x03\x00\x00\x00\x01\x08\x02\x01"
						"b\x00")),
			0);
		seen.n = 0;
		acks++;
		n = weir_spop_pending(s, &data);
		weir_spop_written(s, n > 40 ? n - 40 : 3);
	}
	assert_int_equal(seen.messages, acks);
}

static void a_peer_that_does_not_read_is_ended(void **state)
{
	struct weir_spop_var var = {WEIR_SPOP_TXN, "x", {.type = WEIR_SPOP_STRING}};
	static char big[16000];
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);
	const void *data;
	int r = 0;

	(void)state;
	var.value.text.data = big;
	var.value.text.n = sizeof(big);
	for (int i = 0; i < 5 && r == 0; i++) {
		assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
		seen.n = 0;
		r = weir_spop_ack(s, 7, 240, &var, 1);
	}
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(weir_spop_end_status(s), WEIR_SPOP_RESOURCE);
	assert_true(weir_spop_pending(s, &data) <= limits.output_max + 128);
}

static void too_many_in_flight_is_ended(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	for (size_t i = 0; i < limits.inflight_max; i++)
		assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), -ECONNRESET);
	assert_int_equal(seen.messages, limits.inflight_max);
	expect_end(s, WEIR_SPOP_RESOURCE);
}

static void hello_that_is_wrong_gets_its_code(void **state)
{
#define VERSIONS(v) "\x12supported-versions\x08\x03" v
#define SIZE	    "\x0emax-frame-size\x03\xfc\xf0\x06"
#define CAPS                                                                                       \
	"\x0c"                                                                                     \
	"capabilities\x08\x00"
	(void)state;
	refused(false, 1, 1, BYTES(""), WEIR_SPOP_NO_VERSION);
	refused(false, 1, 1, BYTES(SIZE CAPS), WEIR_SPOP_NO_VERSION);
	refused(false, 1, 1, BYTES(VERSIONS("2.0") CAPS), WEIR_SPOP_NO_FRAME_SIZE);
	refused(false, 1, 1, BYTES(VERSIONS("2.0") SIZE), WEIR_SPOP_NO_CAPABILITIES);
	refused(false, 1, 1, BYTES(VERSIONS("1.0") SIZE CAPS), WEIR_SPOP_BAD_VERSION);
	refused(false, 1, 1, BYTES(VERSIONS("20.") SIZE CAPS), WEIR_SPOP_BAD_VERSION);
	refused(false, 1, 1, BYTES(VERSIONS("2.0") "\x0emax-frame-size\x03\xff\x00" CAPS),
		WEIR_SPOP_BAD_FRAME_SIZE); /* 255 */
	refused(false, 1, 1, BYTES(VERSIONS("2.0") "\x0emax-frame-size\x08\x00" CAPS),
		WEIR_SPOP_INVALID);
	refused(false, 1, 1, BYTES("\x12supported-versions\x03\x02" SIZE CAPS), WEIR_SPOP_INVALID);
	refused(false, 1, 1, BYTES("\x0bhealthcheck\x03\x01"), WEIR_SPOP_INVALID);
	refused(false, 1, 1, BYTES("\x40x"), WEIR_SPOP_INVALID);
	refused(false, 1, 0, BYTES(ITEMS), WEIR_SPOP_FRAGMENTED);
	refused(false, 3, 1,
		BYTES("\x01"
		      "a\x00"),
		WEIR_SPOP_INVALID); /* NOTIFY first */
	refused(false, 42, 1, BYTES(""), WEIR_SPOP_INVALID);
	refused(true, 1, 1, BYTES(ITEMS), WEIR_SPOP_INVALID); /* twice */
}

static void frames_that_are_wrong_get_their_code(void **state)
{
	static const __u8 lengths[][4] = {{0, 0, 0, 0}, {0, 0, 0, 6}};
	static const __u8 longs[][4] = {{0xff, 0xff, 0xff, 0xff},
					{0, 0, 0x3f, 0xfd},
					{'G', 'E', 'T', ' '}};
	static char many[WEIR_SPOP_MESSAGES_MAX + 1][3];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct seen seen;
		_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);

		assert_int_equal(weir_spop_feed(s, lengths[i], 4), -ECONNRESET);
		expect_end(s, WEIR_SPOP_INVALID);
	}
	for (size_t i = 0; i < ARRAY_LEN(longs); i++) {
		struct seen seen;
		_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);

		assert_int_equal(weir_spop_feed(s, longs[i], 4), -ECONNRESET);
		expect_end(s, WEIR_SPOP_TOO_BIG);
	}
	refused(true, 3, 0,
		BYTES("\x01"
		      "a\x00"),
		WEIR_SPOP_FRAGMENTED);
	refused(true, 0, 1,
		BYTES("\x01"
		      "a\x00"),
		WEIR_SPOP_FRAGMENTED);
	refused(true, 101, 1, BYTES(""), WEIR_SPOP_INVALID);
	refused(true, 102, 1, BYTES(""), WEIR_SPOP_INVALID);
	refused(true, 103, 1, BYTES(""), WEIR_SPOP_INVALID);
	refused(true, 3, 1, BYTES(""), WEIR_SPOP_INVALID);
	refused(true, 3, 1, BYTES("\x00\x00"), WEIR_SPOP_INVALID);
	refused(true, 3, 1,
		BYTES("\x01"
		      "a"),
		WEIR_SPOP_INVALID);
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x01\x01k"),
		WEIR_SPOP_INVALID);
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x01\x01k\x0a"),
		WEIR_SPOP_INVALID); /* no such type */
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x01\x01k\x06\x01\x02\x03"),
		WEIR_SPOP_INVALID);
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x01\x01k\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
		WEIR_SPOP_INVALID);
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x01\x01k\x03\xf0\xf1\xfe\xfe\x7e"),
		WEIR_SPOP_INVALID); /* 2^32 */
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x41"),
		WEIR_SPOP_RESOURCE); /* 65 arguments */
	/* the first message is right, the second is not: neither is handed over */
	refused(true, 3, 1,
		BYTES("\x01"
		      "a\x00\x01"
		      "b\x01\x00"),
		WEIR_SPOP_INVALID);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		memcpy(many[i], "\x01x\x00", 3);
	refused(true, 3, 1, many[0], sizeof(many), WEIR_SPOP_RESOURCE);
}

static void unknown_frames_are_skipped(void **state)
{
	struct seen seen;
	_cleanup_(weir_spop_freep) struct weir_spop *s = ready(&seen);

	(void)state;
	assert_int_equal(weir_spop_feed(s,
					BYTES("\x00\x00\x00\x08\x2a\x00\x00\x00\x01\x00\x00\xff")),
			 0);
	assert_int_equal(weir_spop_feed(s, BYTES(NOTIFY)), 0);
	assert_int_equal(seen.messages, 1);
}

static void every_code_has_its_words(void **state)
{
	(void)state;
	for (__u32 status = 0; status < 200; status++) {
		struct seen seen;
		_cleanup_(weir_spop_freep) struct weir_spop *s = new_session(&seen);

		assert_non_null(weir_spop_status_text(status));
		weir_spop_end(s, status);
		expect_end(s, status);
	}
}

static void limits_are_checked(void **state)
{
	static const struct weir_spop_limits bad[] = {{255, 65536, 1},
						      {16381, 65536, 1},
						      {256, 511, 1},
						      {256, 512, 0}};
	struct weir_spop *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_spop_new(&bad[i], on_message, NULL, &s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints_step_where_the_specification_says),
		cmocka_unit_test(varints_above_64_bits_are_refused),
		cmocka_unit_test(hello_is_answered_in_one_frame),
		cmocka_unit_test(hello_takes_the_smaller_frame_and_offers_only_what_was_offered),
		cmocka_unit_test(healthcheck_is_answered_and_over),
		cmocka_unit_test(notify_hands_over_every_type),
		cmocka_unit_test(several_messages_share_one_ack),
		cmocka_unit_test(ack_sets_variables),
		cmocka_unit_test(what_does_not_exist_is_not_sent),
		cmocka_unit_test(acks_may_come_in_any_order),
		cmocka_unit_test(disconnect_is_answered),
		cmocka_unit_test(we_may_end_it_too),
		cmocka_unit_test(frames_may_be_cut_anywhere),
		cmocka_unit_test(output_may_leave_in_pieces),
		cmocka_unit_test(a_peer_that_does_not_read_is_ended),
		cmocka_unit_test(too_many_in_flight_is_ended),
		cmocka_unit_test(hello_that_is_wrong_gets_its_code),
		cmocka_unit_test(frames_that_are_wrong_get_their_code),
		cmocka_unit_test(unknown_frames_are_skipped),
		cmocka_unit_test(every_code_has_its_words),
		cmocka_unit_test(limits_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
