/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/http/spoe.c, spoe_ask.c: SPOP connections in a real event loop over socket pairs. The engine and the worker are
 * doubles: what is asked is kept as text, answers come when the test wants.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/lib/prefix.h"
#include "tests/lib/wait.h"
#include "user/http/spoe_int.h"

#define WAIT_MS	  5000
#define CALLS_MAX 4096

/* --- doubles ---- */

struct weir_l7_call {
	weir_l7_done_fn *done;
	void *arg;
	enum weir_answer_code code;
	struct weir_answer answer;
};

static struct {
	char asked[4096]; /* the last question */
	unsigned n_asked, gone, noted;
	char note[128];
	bool later, no_memory, trusts;
	enum weir_answer_code
		code[16]; /* of the coming answers, in their order; after that ALLOW */
	unsigned n_code, at_code;
	struct weir_l7_call *call[CALLS_MAX]; /* of later */
	unsigned n_call, alive;
} world;

__u64 weir_http_now_ns(void)
{
	return wait_now_ns();
}

void weir_http_note(struct weir_http_worker *w, enum weir_http_note what,
		    const struct weir_http_port *port, const char *detail)
{
	(void)w; /* one of each in these tests */
	(void)what;
	(void)port;
	world.noted++;
	(void)snprintf(world.note, sizeof(world.note), "%s", detail);
}

bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer)
{
	(void)port; /* the test says it */
	(void)peer;
	return world.trusts;
}

void weir_http_gone(struct weir_http_port *port)
{
	(void)port; /* one port */
	world.gone++;
}

static int text(char *to, size_t n, const char *name, struct weir_text t)
{
	return t.n ? snprintf(to, n, " %s=%.*s", name, (int)t.n, t.p) : 0;
}

static void keep_question(const struct weir_l7_query *q)
{
	char client[WEIR_PREFIX_STRLEN] = "-";
	char *to = world.asked;
	size_t n = sizeof(world.asked);
	int used;

	if (q->client)
		(void)weir_prefix_format(q->client, client);
	used = snprintf(to, n, "%.*s %.*s from %s%s", (int)q->method.n, q->method.p,
			(int)q->target.n, q->target.p, client,
			q->client_seen && !q->may_wait && !q->peek ? "" : " ODD");
	used += text(to + used, n - (size_t)used, "host", q->host);
	used += text(to + used, n - (size_t)used, "user", q->user);
	used += text(to + used, n - (size_t)used, "plan", q->plan);
	used += text(to + used, n - (size_t)used, "cost", q->cost);
	for (size_t i = 0; i < q->headers->n && i < 16; i++)
		used += snprintf(to + used, n - (size_t)used, " [%.*s|%.*s]",
				 (int)q->headers->line[i].name.n, q->headers->line[i].name.p,
				 (int)q->headers->line[i].value.n, q->headers->line[i].value.p);
}

int weir_l7_ask(struct weir_l7_worker *w, const struct weir_l7_query *query, weir_l7_done_fn *done,
		void *arg, struct weir_l7_call **ret_call)
{
	struct weir_l7_call *call;

	(void)w; /* none here */
	world.n_asked++;
	keep_question(query);
	if (world.no_memory)
		return -ENOMEM;
	call = malloc(sizeof(*call));
	assert_non_null(call);
	call->done = done;
	call->arg = arg;
	call->code = world.at_code < world.n_code ? world.code[world.at_code++] : WEIR_ANSWER_ALLOW;
	world.alive++;
	*ret_call = call;
	if (!world.later) {
		done(arg, call);
		return 0;
	}
	assert_true(world.n_call < CALLS_MAX);
	world.call[world.n_call++] = call;
	return 0;
}

const struct weir_answer *weir_l7_call_answer(struct weir_l7_call *call)
{
	const struct weir_answer_limit limit = {.name = "login",
						.outcome = call->code == WEIR_ANSWER_RATE_LIMITED
								   ? WEIR_ANSWER_EXCEEDED
								   : WEIR_ANSWER_ADMITTED,
						.limit = 10,
						.remaining = call->code == WEIR_ANSWER_RATE_LIMITED
								     ? 0
								     : 7,
						.reset_after_ns = 19 * 1000000000ull,
						.retry_after_ns = 19 * 1000000000ull,
						.window_ns = 60 * 1000000000ull};

	assert_int_equal(weir_answer_make(WEIR_ANSWER_SPOE, &limit, 1, &call->answer), 0);
	return &call->answer;
}

void weir_l7_call_free(struct weir_l7_call *call)
{
	world.alive--;
	free(call);
}

static void answer(unsigned i)
{
	world.call[i]->done(world.call[i]->arg, world.call[i]);
}

/* --- a worker with one port, and HAProxy at the other end ---- */

struct lab {
	struct weir_http_settings settings;
	struct weir_http_port_settings port_settings;
	struct weir_http_worker worker;
	struct weir_http_port port;
	int fd; /* HAProxy's end; -1: closed */
	unsigned char in[1 << 20];
	size_t n;
	bool ended; /* the agent has closed its side */
};

static struct lab lab;

static void read_in(void)
{
	ssize_t n;

	while (lab.fd >= 0 && !lab.ended && lab.n < sizeof(lab.in)) {
		n = recv(lab.fd, lab.in + lab.n, sizeof(lab.in) - lab.n, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		lab.ended = n <= 0;
		lab.n += n > 0 ? (size_t)n : 0;
	}
}

static bool turn(bool reads)
{
	(void)event_base_loop(lab.worker.base, EVLOOP_NONBLOCK);
	if (reads)
		read_in();
	return true;
}
#define until(cond)	   wait_for(turn(true) && (cond), WAIT_MS)
#define until_unread(cond) wait_for(turn(false) && (cond), WAIT_MS)

static void connect_peer(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	assert_int_equal(weir_spoe_accept(&lab.port, fds[0], NULL), 0);
	lab.fd = fds[1];
	lab.n = 0;
	lab.ended = false;
}

static int set_up(void **state)
{
	(void)state; /* lab and world are the state */
	memset(&world, 0, sizeof(world));
	memset(&lab, 0, offsetof(struct lab, in));
	lab.settings.request_deadline_ns = 60 * 1000000000ull;
	lab.worker.settings = &lab.settings;
	lab.port.settings = &lab.port_settings;
	lab.port.worker = &lab.worker;
	lab.worker.base = event_base_new();
	if (!lab.worker.base)
		return -1;
	connect_peer();
	return 0;
}

static int tear_down(void **state)
{
	(void)state; /* as above */
	weir_spoe_cut(&lab.port);
	if (lab.fd >= 0)
		(void)close(lab.fd);
	event_base_free(lab.worker.base);
	return world.alive ? -1 : 0;
}

static void say(const void *bytes, size_t n)
{
	assert_int_equal(send(lab.fd, bytes, n, MSG_NOSIGNAL), n);
}

struct frame {
	unsigned char b[20000];
	size_t n;
};

static void put(struct frame *f, const void *bytes, size_t n)
{
	assert_true(f->n + n <= sizeof(f->b));
	memcpy(f->b + f->n, bytes, n);
	f->n += n;
}

static void put_varint(struct frame *f, __u64 v)
{
	__u8 buf[WEIR_SPOP_VARINT_MAX];

	put(f, buf, weir_spop_varint_put(v, buf));
}

static void put_str(struct frame *f, const char *s)
{
	put_varint(f, strlen(s));
	put(f, s, strlen(s));
}

static void arg_str(struct frame *f, const char *name, const char *value)
{
	put_str(f, name);
	put(f, value ? "\x08" : "\x00", 1);
	if (value)
		put_str(f, value);
}

static void arg_ip4(struct frame *f, const char *name, const char ip[static 4])
{
	put_str(f, name);
	put(f, "\x06", 1);
	put(f, ip, 4);
}

static void begin_frame(struct frame *f, char type, __u64 stream, __u64 id)
{
	f->n = 0;
	put(f, "\0\0\0\0", 4);
	put(f, &type, 1);
	put(f, "\0\0\0\1", 4);
	put_varint(f, stream);
	put_varint(f, id);
}

static void begin_message(struct frame *f, char n_args)
{
	put_str(f, "check");
	put(f, &n_args, 1);
}

static void end_frame(struct frame *f)
{
	size_t n = f->n - 4;
	const unsigned char length[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
					 (unsigned char)(n >> 8), (unsigned char)n};

	memcpy(f->b, length, 4);
}

static void say_frame(struct frame *f)
{
	end_frame(f);
	say(f->b, f->n);
}

static void hello_frame(struct frame *f, __u32 size, bool healthcheck)
{
	begin_frame(f, 1, 0, 0);
	arg_str(f, "supported-versions", "2.0");
	put_str(f, "max-frame-size");
	put(f, "\x03", 1);
	put_varint(f, size);
	arg_str(f, "capabilities", "pipelining,async");
	if (healthcheck) {
		put_str(f, "healthcheck");
		put(f, "\x11", 1);
	}
}

static void hello(void)
{
	struct frame f;

	hello_frame(&f, 16380, false);
	say_frame(&f);
	assert_true(until(lab.n > 4));
	assert_int_equal(lab.in[4], 101);
	lab.n = 0;
}

/* A question as the shipped configuration asks it. */
static void notify_frame(struct frame *f, __u64 stream, const char *headers)
{
	begin_frame(f, 3, stream, 1);
	begin_message(f, headers ? 4 : 3);
	arg_str(f, "method", "GET");
	arg_str(f, "url", "/a%2Fb?q=1");
	arg_ip4(f, "ip", "\xc0\x00\x02\x01");
	if (headers)
		arg_str(f, "headers", headers);
}

static void notify(__u64 stream)
{
	struct frame f;

	notify_frame(&f, stream, NULL);
	say_frame(&f);
}

/* --- what the agent says, as text: one line a frame ---- */

struct heard {
	char text[65536];
	size_t n;
	unsigned frames, acks;
};
static struct heard heard;

static __u64 get_varint(const unsigned char **p, const unsigned char *end)
{
	size_t used;
	__u64 v;

	assert_int_equal(weir_spop_varint_get(*p, (size_t)(end - *p), &v, &used), 0);
	*p += used;
	return v;
}

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
	size_t room = sizeof(heard.text) - heard.n;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(heard.text + heard.n, room, format, ap);
	va_end(ap);
	heard.n += (size_t)n < room ? (size_t)n : 0; /* a flood is counted only */
}

static void tell_value(const unsigned char **p, const unsigned char *end)
{
	unsigned char type = *(*p)++ & 15;
	__u64 v = get_varint(p, end);

	if (type == WEIR_SPOP_STRING) {
		tell("'%.*s'", (int)v, (const char *)*p);
		*p += v;
	} else {
		tell("%llu", v);
	}
}

static void tell_name(const unsigned char **p, const unsigned char *end)
{
	__u64 n = get_varint(p, end);

	tell(" %.*s=", (int)n, (const char *)*p);
	*p += n;
}

static void listen_to(void)
{
	const unsigned char *p = lab.in, *end = lab.in + lab.n, *stop;

	memset(&heard, 0, sizeof(heard));
	while (end - p >= 4) {
		size_t n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
		unsigned char type = p[4];
		__u64 stream, id;

		if ((size_t)(end - p) < 4 + n)
			return;
		stop = p + 4 + n;
		p += 9;
		stream = get_varint(&p, stop);
		id = get_varint(&p, stop);
		heard.frames++;
		heard.acks += type == 103;
		tell("%u %llu/%llu:", type, stream, id);
		while (p < stop) {
			if (type == 103) {
				assert_memory_equal(p, "\x01\x03\x02", 3); /* set, three, txn */
				p += 3;
			}
			tell_name(&p, stop);
			tell_value(&p, stop);
		}
		tell("\n");
	}
}

static unsigned acks(void)
{
	listen_to();
	return heard.acks;
}

/* --- questions ---- */

static void a_message_becomes_a_question(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(0);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "GET /a%2Fb?q=1 from 192.0.2.1");
}

static void headers_are_read_in_their_order(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	notify_frame(&f, 1,
		     "host: app.example\r\nX-API-Key:  k1 \r\nx-api-key: k2\r\nempty:\r\n\r\n");
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked,
			    "GET /a%2Fb?q=1 from 192.0.2.1 host=app.example [host|app.example] "
			    "[X-API-Key|k1] [x-api-key|k2] [empty|]");
}

static void headers_may_be_named_one_by_one(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 5);
	arg_str(&f, "method", "POST");
	arg_str(&f, "url", "/");
	arg_str(&f, "host", "b");
	arg_str(&f, "header.X-API-Key", "k");
	arg_str(&f, "header.Cookie", NULL);
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "POST / from - host=b [X-API-Key|k]");
	assert_int_equal(lab.worker.counters.no_address, 1);
}

static void user_plan_and_cost_come_from_arguments_only(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 6);
	arg_str(&f, "method", "GET");
	arg_str(&f, "url", "/");
	arg_str(&f, "headers", "X-Weir-User: forged\r\nX-Plan: pro\r\nX-Cost: 0\r\n\r\n");
	arg_str(&f, "user", "ann");
	arg_str(&f, "plan", "free");
	put_str(&f, "cost");
	put(&f, "\x04\x07", 2);
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "GET / from - user=ann plan=free cost=7 "
					 "[X-Weir-User|forged] [X-Plan|pro] [X-Cost|0]");
}

static void an_address_may_be_text_or_ipv6(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 1);
	arg_str(&f, "ip", "[2001:db8::1]:80");
	say_frame(&f);
	begin_frame(&f, 3, 2, 1);
	begin_message(&f, 1);
	put_str(&f, "ip");
	put(&f, "\x07\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x07", 17);
	assert_true(until(acks() == 1));
	assert_string_equal(world.asked, "  from 2001:db8::1");
	say_frame(&f);
	assert_true(until(acks() == 2));
	assert_string_equal(world.asked, "  from 192.0.2.7");
	assert_int_equal(lab.worker.counters.no_target, 2);
}

static void headers_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = {"no colon here\r\n\r\n", "a b: c\r\n\r\n", ": x\r\n\r\n"};
	struct frame f;

	(void)state; /* set_up's */
	hello();
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		notify_frame(&f, i, bad[i]);
		say_frame(&f);
		assert_true(until(acks() == i + 1));
		assert_non_null(strstr(heard.text, "decision='deny' status=400 code='BAD_REQUEST' "
						   "limit='bad-headers'"));
	}
	assert_int_equal(world.n_asked, 0);
}

static void an_unknown_argument_is_told(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	begin_frame(&f, 3, 1, 1);
	begin_message(&f, 1);
	arg_str(&f, "methd", "GET");
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_true(world.noted > 0);
}

/* --- answers ---- */

static void an_admission_becomes_variables(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(7);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text,
			    "103 7/1: decision='allow' status=200 limit_n=10 remaining=7 "
			    "reset=19 ratelimit='\"login\";r=7;t=19' "
			    "ratelimit_policy='\"login\";q=10;w=60'\n");
}

static void a_refusal_becomes_variables(void **state)
{
	(void)state; /* set_up's */
	world.code[world.n_code++] = WEIR_ANSWER_RATE_LIMITED;
	hello();
	notify(7);
	assert_true(until(acks() == 1));
	assert_string_equal(
		heard.text,
		"103 7/1: decision='deny' status=429 code='RATE_LIMITED' limit='login' "
		"retry_after=19 limit_n=10 remaining=0 reset=19 ratelimit='\"login\";r=0;t=19' "
		"ratelimit_policy='\"login\";q=10;w=60' body='{\"code\":\"RATE_LIMITED\","
		"\"message\":\"Too many requests; try again in 19 seconds.\",\"limit\":\"login\","
		"\"retry_after_seconds\":19}'\n");
}

static void a_small_frame_still_carries_the_refusal(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	world.code[world.n_code++] = WEIR_ANSWER_RATE_LIMITED;
	hello_frame(&f, 256, false);
	say_frame(&f);
	assert_true(until(lab.n > 0));
	lab.n = 0;
	notify(1);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text, "103 1/1: decision='deny' status=429 code='RATE_LIMITED' "
					"limit='login' retry_after=19 limit_n=10\n");
}

static void without_memory_the_answer_is_empty(void **state)
{
	(void)state; /* set_up's */
	world.no_memory = true;
	hello();
	notify(1);
	assert_true(until(acks() == 1));
	assert_string_equal(heard.text, "103 1/1:\n");
}

static void of_several_messages_the_first_refusal_is_told(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	world.n_code = 3;
	world.code[1] = WEIR_ANSWER_RATE_LIMITED;
	hello();
	begin_frame(&f, 3, 1, 1);
	for (int i = 0; i < 3; i++) {
		begin_message(&f, 1);
		arg_str(&f, "method", "GET");
	}
	say_frame(&f);
	assert_true(until(acks() == 1));
	assert_int_equal(world.n_asked, 3);
	assert_int_equal(world.alive, 0);
	assert_non_null(strstr(heard.text, "decision='deny'"));
}

static void answers_may_come_in_any_order(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	for (__u64 i = 0; i < 3; i++)
		notify(i);
	assert_true(until(world.n_call == 3));
	answer(2);
	answer(0);
	assert_true(until(acks() == 2));
	assert_true(strncmp(heard.text, "103 2/1:", 8) == 0);
	answer(1);
	assert_true(until(acks() == 3));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

/* --- bounds ---- */

static void a_thousand_streams_at_once_are_all_answered(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello();
	for (__u64 i = 0; i < 1000; i++) {
		notify_frame(&f, i, "host: a\r\n\r\n");
		end_frame(&f);
		while (send(lab.fd, f.b, f.n, MSG_NOSIGNAL) < 0) {
			assert_int_equal(errno, EAGAIN);
			assert_true(turn(true));
		}
	}
	assert_true(until(acks() == 1000));
	assert_int_equal(world.n_asked, 1000);
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

/* Takes whole frames away, returns how many. */
static unsigned drain(void)
{
	const unsigned char *p = lab.in, *end = lab.in + lab.n;
	unsigned frames = 0;

	while (end - p >= 4) {
		size_t n = 4 + ((size_t)p[2] << 8 | p[3]);

		if ((size_t)(end - p) < n)
			break;
		p += n;
		frames++;
	}
	lab.n = (size_t)(end - p);
	memmove(lab.in, p, lab.n);
	return frames;
}

/* Writes as long as the agent reads, and reads nothing; returns how many NOTIFYs that were. */
static unsigned flood(void)
{
	unsigned sent = 0, idle = 0;
	struct frame f;

	notify_frame(&f, 1, NULL);
	end_frame(&f);
	while (idle < 100) {
		ssize_t n = send(lab.fd, f.b, f.n, MSG_NOSIGNAL);

		if (n > 0)
			assert_int_equal(n, f.n);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0;
		assert_true(turn(false));
	}
	return sent;
}

static void a_peer_that_does_not_read_is_not_read_from(void **state)
{
	unsigned sent, seen = 0;

	(void)state; /* set_up's */
	hello();
	sent = flood();
	assert_true(sent > world.n_asked);
	assert_true(until((seen += drain()) == sent));
	assert_int_equal(world.n_asked, sent);
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

static void questions_under_way_are_bounded(void **state)
{
	unsigned sent, seen = 0, held;

	(void)state; /* set_up's */
	world.later = true;
	hello();
	sent = flood();
	held = world.n_call;
	assert_in_range(held, 100, 1024);
	assert_true(sent > held);
	world.later = false;
	for (unsigned i = 0; i < held; i++)
		answer(i);
	assert_true(until((seen += drain()) == sent));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

/* --- deadlines ---- */

static void set_deadline_ms(unsigned ms)
{
	lab.settings.request_deadline_ns = ms * 1000000ull;
	weir_spoe_cut(&lab.port);
	(void)close(lab.fd);
	world.gone = 0;
	connect_peer();
}

static void a_peer_that_never_says_hello_is_cut(void **state)
{
	(void)state; /* set_up's */
	set_deadline_ms(50);
	assert_true(until(lab.ended));
	assert_int_equal(world.gone, 1);
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void a_frame_that_never_ends_is_cut(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	set_deadline_ms(50);
	hello();
	notify_frame(&f, 1, NULL);
	end_frame(&f);
	say(f.b, f.n - 1);
	assert_true(until(lab.ended));
	assert_int_equal(world.n_asked, 0);
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void a_peer_that_never_reads_is_cut(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	set_deadline_ms(200);
	hello();
	notify_frame(&f, 1, NULL);
	end_frame(&f);
	assert_true(until_unread(send(lab.fd, f.b, f.n, MSG_NOSIGNAL) != 0 && world.gone == 1));
	assert_int_equal(lab.worker.counters.cut_by_deadline, 1);
}

static void an_idle_connection_stays(void **state)
{
	uint64_t end_ns;

	(void)state; /* set_up's */
	set_deadline_ms(20);
	hello();
	end_ns = wait_now_ns() + 100000000;
	while (wait_step(end_ns))
		assert_true(turn(true) && !lab.ended);
	notify(1);
	assert_true(until(acks() == 1));
}

/* --- ends ---- */

static void a_healthcheck_is_answered_and_let_go(void **state)
{
	struct frame f;

	(void)state; /* set_up's */
	hello_frame(&f, 16380, true);
	say_frame(&f);
	assert_true(until(lab.ended));
	assert_int_equal(lab.in[4], 101);
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
	assert_int_equal(lab.worker.counters.spop_errors, 0);
}

static void a_broken_frame_is_counted_and_told(void **state)
{
	(void)state; /* set_up's */
	hello();
	say("\0\0\0\x09\x03\0\0\0\1\1\1\xff\xff", 13);
	assert_true(until(lab.ended));
	listen_to();
	assert_string_equal(heard.text,
			    "102 0/0: status-code=4 message='invalid frame received'\n");
	assert_int_equal(lab.worker.counters.spop_errors, 1);
	assert_string_equal(world.note, "invalid frame received");
}

static void a_stop_answers_what_has_arrived_and_says_goodbye(void **state)
{
	(void)state; /* set_up's */
	hello();
	notify(1);
	notify(2);
	weir_spoe_end(&lab.port);
	assert_true(until(lab.ended));
	listen_to();
	assert_int_equal(heard.acks, 2);
	assert_non_null(strstr(heard.text, "\n102 0/0: status-code=0"));
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
}

static void a_stop_waits_for_what_is_under_way(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	assert_true(until(world.n_call == 1));
	weir_spoe_end(&lab.port);
	assert_true(turn(true) && !lab.ended);
	answer(0);
	assert_true(until(lab.ended));
	assert_int_equal(acks(), 1);
}

static void an_answer_after_the_end_hurts_nobody(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	notify(2);
	assert_true(until(world.n_call == 2));
	weir_spoe_cut(&lab.port);
	assert_int_equal(world.gone, 1);
	answer(1);
	answer(0);
	assert_int_equal(world.alive, 0);
}

static void a_peer_that_leaves_is_forgotten(void **state)
{
	(void)state; /* set_up's */
	world.later = true;
	hello();
	notify(1);
	assert_true(until(world.n_call == 1));
	(void)close(lab.fd);
	lab.fd = -1;
	assert_true(until(world.gone == 1));
	answer(0);
}

/* --- who may connect ---- */

static int accept_from(const char *peer)
{
	struct weir_prefix p = prefix_of(peer);
	int fds[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	r = weir_spoe_accept(&lab.port, fds[0], &p);
	if (r < 0)
		(void)close(fds[0]);
	(void)close(fds[1]);
	return r;
}

static void only_this_host_may_connect_where_nobody_is_named(void **state)
{
	(void)state; /* set_up's */
	assert_int_equal(accept_from("127.0.0.1"), 0);
	assert_int_equal(accept_from("127.9.9.9"), 0);
	assert_int_equal(accept_from("::1"), 0);
	assert_int_equal(accept_from("192.0.2.1"), -EACCES);
	assert_int_equal(accept_from("2001:db8::1"), -EACCES);
	assert_int_equal(world.noted, 2);
}

static void only_the_named_may_connect(void **state)
{
	(void)state; /* set_up's */
	lab.port_settings.n_trusted = 1;
	assert_int_equal(accept_from("127.0.0.1"), -EACCES);
	world.trusts = true;
	assert_int_equal(accept_from("192.0.2.1"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_becomes_a_question),
		TEST(headers_are_read_in_their_order),
		TEST(headers_may_be_named_one_by_one),
		TEST(user_plan_and_cost_come_from_arguments_only),
		TEST(an_address_may_be_text_or_ipv6),
		TEST(headers_that_are_none_are_refused),
		TEST(an_unknown_argument_is_told),
		TEST(an_admission_becomes_variables),
		TEST(a_refusal_becomes_variables),
		TEST(a_small_frame_still_carries_the_refusal),
		TEST(without_memory_the_answer_is_empty),
		TEST(of_several_messages_the_first_refusal_is_told),
		TEST(answers_may_come_in_any_order),
		TEST(a_thousand_streams_at_once_are_all_answered),
		TEST(a_peer_that_does_not_read_is_not_read_from),
		TEST(questions_under_way_are_bounded),
		TEST(a_peer_that_never_says_hello_is_cut),
		TEST(a_frame_that_never_ends_is_cut),
		TEST(a_peer_that_never_reads_is_cut),
		TEST(an_idle_connection_stays),
		TEST(a_healthcheck_is_answered_and_let_go),
		TEST(a_broken_frame_is_counted_and_told),
		TEST(a_stop_answers_what_has_arrived_and_says_goodbye),
		TEST(a_stop_waits_for_what_is_under_way),
		TEST(an_answer_after_the_end_hurts_nobody),
		TEST(a_peer_that_leaves_is_forgotten),
		TEST(only_this_host_may_connect_where_nobody_is_named),
		TEST(only_the_named_may_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
