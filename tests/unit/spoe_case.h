/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A worker with one SPOP port over socket pairs, HAProxy's end of a connection, and what is heard there as text. */
#ifndef WEIR_TEST_SPOE_CASE_H
#define WEIR_TEST_SPOE_CASE_H

#include <errno.h>
#include <sys/socket.h>

#include "spoe_double.h"

#define WAIT_MS 5000

/* --- a worker with one port, and HAProxy at the other end ---- */

struct lab {
	struct weir_http_settings settings;
	struct weir_http_port_settings port_settings;
	struct weir_http_worker worker;
	struct weir_http_port port;
	struct weir_http_listen listen;
	int fd; /* HAProxy's end; -1: closed */
	unsigned char in[1 << 20];
	size_t n;
	bool ended; /* the agent has closed its side */
};

static struct lab lab;

static inline void read_in(void)
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

static inline bool turn(bool reads)
{
	(void)event_base_loop(lab.worker.base, EVLOOP_NONBLOCK);
	if (reads)
		read_in();
	return true;
}

#define until(cond)	   wait_for(turn(true) && (cond), WAIT_MS)
#define until_unread(cond) wait_for(turn(false) && (cond), WAIT_MS)

static inline void connect_peer(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	assert_int_equal(weir_spoe_accept(&lab.port, fds[0], NULL), 0);
	lab.fd = fds[1];
	lab.n = 0;
	lab.ended = false;
}

static inline int set_up(void **state)
{
	(void)state; /* lab and world are the state */
	memset(&world, 0, sizeof(world));
	memset(&lab, 0, offsetof(struct lab, in));
	lab.settings.request_deadline_ns = 60 * 1000000000ull;
	lab.worker.settings = &lab.settings;
	lab.port.settings = &lab.port_settings;
	lab.port.worker = &lab.worker;
	lab.port.listen = &lab.listen;
	pthread_mutex_init(&lab.listen.crowd_lock, NULL);
	lab.worker.base = event_base_new();
	if (!lab.worker.base)
		return -1;
	connect_peer();
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state; /* as above */
	weir_spoe_cut(&lab.port);
	if (lab.fd >= 0)
		(void)close(lab.fd);
	event_base_free(lab.worker.base);
	pthread_mutex_destroy(&lab.listen.crowd_lock);
	return world.alive ? -1 : 0;
}

static inline void say(const void *bytes, size_t n)
{
	assert_int_equal(send(lab.fd, bytes, n, MSG_NOSIGNAL), n);
}

struct frame {
	unsigned char b[20000];
	size_t n;
};

static inline void put(struct frame *f, const void *bytes, size_t n)
{
	assert_true(f->n + n <= sizeof(f->b));
	memcpy(f->b + f->n, bytes, n);
	f->n += n;
}

static inline void put_varint(struct frame *f, __u64 v)
{
	__u8 buf[WEIR_SPOP_VARINT_MAX];

	put(f, buf, weir_spop_varint_put(v, buf));
}

static inline void put_str(struct frame *f, const char *s)
{
	put_varint(f, strlen(s));
	put(f, s, strlen(s));
}

static inline void arg_str(struct frame *f, const char *name, const char *value)
{
	put_str(f, name);
	put(f, value ? "\x08" : "\x00", 1);
	if (value)
		put_str(f, value);
}

static inline void arg_ip4(struct frame *f, const char *name, const char ip[static 4])
{
	put_str(f, name);
	put(f, "\x06", 1);
	put(f, ip, 4);
}

static inline void begin_frame(struct frame *f, char type, __u64 stream, __u64 id)
{
	f->n = 0;
	put(f, "\0\0\0\0", 4);
	put(f, &type, 1);
	put(f, "\0\0\0\1", 4);
	put_varint(f, stream);
	put_varint(f, id);
}

static inline void begin_message(struct frame *f, char n_args)
{
	put_str(f, "check");
	put(f, &n_args, 1);
}

static inline void end_frame(struct frame *f)
{
	size_t n = f->n - 4;
	const unsigned char length[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
					 (unsigned char)(n >> 8), (unsigned char)n};

	memcpy(f->b, length, 4);
}

static inline void say_frame(struct frame *f)
{
	end_frame(f);
	say(f->b, f->n);
}

static inline void hello_frame(struct frame *f, __u32 size, bool healthcheck)
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

static inline void hello(void)
{
	struct frame f;

	hello_frame(&f, 16380, false);
	say_frame(&f);
	assert_true(until(lab.n > 4));
	assert_int_equal(lab.in[4], 101);
	lab.n = 0;
}

/* A question as the shipped configuration asks it. */
static inline void notify_frame(struct frame *f, __u64 stream, const char *headers)
{
	begin_frame(f, 3, stream, 1);
	begin_message(f, headers ? 4 : 3);
	arg_str(f, "method", "GET");
	arg_str(f, "url", "/a%2Fb?q=1");
	arg_ip4(f, "ip", "\xc0\x00\x02\x01");
	if (headers)
		arg_str(f, "headers", headers);
}

static inline void notify(__u64 stream)
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

static inline __u64 get_varint(const unsigned char **p, const unsigned char *end)
{
	size_t used;
	__u64 v;

	assert_int_equal(weir_spop_varint_get(*p, (size_t)(end - *p), &v, &used), 0);
	*p += used;
	return v;
}

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void tell(const char *format, ...)
{
	size_t room = sizeof(heard.text) - heard.n;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(heard.text + heard.n, room, format, ap);
	va_end(ap);
	heard.n += (size_t)n < room ? (size_t)n : 0; /* a flood is counted only */
}

static inline void tell_value(const unsigned char **p, const unsigned char *end)
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

static inline void tell_name(const unsigned char **p, const unsigned char *end)
{
	__u64 n = get_varint(p, end);

	tell(" %.*s=", (int)n, (const char *)*p);
	*p += n;
}

static inline void listen_to(void)
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

static inline unsigned acks(void)
{
	listen_to();
	return heard.acks;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
