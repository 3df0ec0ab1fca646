/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See web.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/wait.h"
#include "tests/lib/web.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define SEND_MS 20000
#define ROOM	8192

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* "192.0.2.1" or "2001:db8::1", with @port. */
static int read_ip(const char *text, __u16 port, union address *ret, socklen_t *ret_n)
{
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &ret->in.sin_addr) == 1) {
		ret->in.sin_family = AF_INET;
		ret->in.sin_port = htons(port);
		*ret_n = sizeof(ret->in);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &ret->in6.sin6_addr) == 1) {
		ret->in6.sin6_family = AF_INET6;
		ret->in6.sin6_port = htons(port);
		*ret_n = sizeof(ret->in6);
		return 0;
	}
	return -EINVAL;
}

static int read_where(const char *where, union address *ret, socklen_t *ret_n)
{
	const char *colon = strrchr(where, ':');
	char ip[64];
	__u64 port;
	size_t n;

	if (strncmp(where, "unix:", 5) == 0) {
		memset(ret, 0, sizeof(*ret));
		ret->un.sun_family = AF_UNIX;
		if (strlen(where + 5) >= sizeof(ret->un.sun_path))
			return -ENAMETOOLONG;
		memcpy(ret->un.sun_path, where + 5, strlen(where + 5) + 1);
		*ret_n = sizeof(ret->un);
		return 0;
	}
	if (!colon || weir_str_u64(colon + 1, 65535, &port) < 0)
		return -EINVAL;
	n = (size_t)(colon - where);
	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (n >= sizeof(ip))
		return -EINVAL;
	memcpy(ip, where, n);
	ip[n] = '\0';
	return read_ip(ip, (__u16)port, ret, ret_n);
}

int web_open_from(struct web *w, const char *where, const char *from)
{
	union address to, own;
	int one = 1, r;
	socklen_t n;

	*w = (struct web){.fd = -1};
	r = read_where(where, &to, &n);
	if (r < 0)
		return r;
	w->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (w->fd < 0)
		return -errno;
	if (from) {
		socklen_t own_n;

		r = read_ip(from, 0, &own, &own_n);
		if (r == 0 && bind(w->fd, &own.any, own_n) < 0)
			r = -errno;
		if (r < 0)
			goto fail;
	}
	if (connect(w->fd, &to.any, n) < 0) {
		r = -errno;
		goto fail;
	}
	if (to.any.sa_family != AF_UNIX) /* pieces leave as pieces; only speed is lost otherwise */
		(void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (fcntl(w->fd, F_SETFL, O_NONBLOCK) < 0) {
		r = -errno;
		goto fail;
	}
	return 0;
fail:
	web_close(w);
	return r;
}

int web_open(struct web *w, const char *where)
{
	return web_open_from(w, where, NULL);
}

void web_close(struct web *w)
{
	if (w->fd >= 0)
		(void)close(w->fd);
	free(w->in);
	free(w->lines);
	free(w->body);
	*w = (struct web){.fd = -1};
}

int web_send(struct web *w, const void *bytes, size_t n)
{
	uint64_t deadline_ns = wait_now_ns() + SEND_MS * 1000000ULL;
	const char *at = bytes;

	while (n) {
		ssize_t sent = send(w->fd, at, n, MSG_NOSIGNAL);

		if (sent >= 0) {
			at += sent;
			n -= (size_t)sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (wait_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(&(struct pollfd){.fd = w->fd, .events = POLLOUT}, 1, 100);
	}
	return 0;
}

static int say(struct web *w, const char *format, va_list args)
{
	_cleanup_free_ char *text = NULL;
	int n = vasprintf(&text, format, args);

	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return web_send(w, text, (size_t)n);
}

int web_say(struct web *w, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = say(w, format, args);
	va_end(args);
	return r;
}

/* --- what comes back ---- */

static bool is_token(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			     "!#$%&'*+-.^_`|~");

	return n > 0 && s[n] == '\0';
}

static bool is_value(const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

/* "HTTP/1.1 200 OK" */
static int read_status(const char *line, struct web_reply *ret)
{
	int status = 0;

	if (strlen(line) < 12 || strncmp(line, "HTTP/1.", 7) != 0 ||
	    (line[7] != '0' && line[7] != '1') || line[8] != ' ')
		return -EBADMSG;
	for (int i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9')
			return -EBADMSG;
		status = 10 * status + line[i] - '0';
	}
	if ((line[12] != ' ' && line[12] != '\0') || !is_value(line) || status < 100 ||
	    status > 599)
		return -EBADMSG;
	ret->minor = line[7] - '0';
	ret->status = status;
	return 0;
}

static int read_header(char *line, struct web_reply *ret)
{
	char *value = strchr(line, ':');
	size_t n;

	if (!value || ret->n_headers == WEB_HEADERS_MAX)
		return -EBADMSG;
	*value++ = '\0';
	value += strspn(value, " \t");
	n = strlen(value);
	while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
		value[--n] = '\0';
	if (!is_token(line) || !is_value(value))
		return -EBADMSG;
	ret->header[ret->n_headers].name = line;
	ret->header[ret->n_headers++].value = value;
	return 0;
}

/* The lines of @head up to the empty one, which is there; they are cut apart in place. */
static int read_head(char *head, size_t n, struct web_reply *ret)
{
	char *line = head, *end;
	int r;

	if (memchr(head, '\0', n))
		return -EBADMSG;
	for (; (end = strstr(line, "\r\n")) != line; line = end + 2) {
		if (!end)
			return -EBADMSG;
		*end = '\0';
		if (strpbrk(line, "\r\n"))
			return -EBADMSG;
		r = line == head ? read_status(line, ret) : read_header(line, ret);
		if (r < 0)
			return r;
	}
	return 0;
}

/* How long the body is; *ret_till_end: as long as the connection. */
static int body_length(const struct web *w, const struct web_reply *r, size_t *ret,
		       bool *ret_till_end)
{
	const char *text = web_header(r, "Content-Length");
	__u64 n = 0;

	*ret_till_end = false;
	*ret = 0;
	if (web_header(r, "Transfer-Encoding") || web_header_count(r, "Content-Length") > 1)
		return -EBADMSG; /* nothing here needs either */
	if (text && weir_str_u64(text, WEB_IN_MAX, &n) < 0)
		return -EBADMSG;
	if (w->head || r->status < 200 || r->status == 204 || r->status == 304)
		return 0;
	*ret = (size_t)n;
	*ret_till_end = !text;
	return 0;
}

/* A whole reply at the front of what is there? Then it is taken out. */
static int parse(struct web *w, struct web_reply *ret)
{
	const char *end = w->n ? memmem(w->in, w->n, "\r\n\r\n", 4) : NULL, *connection;
	struct web_reply r = {};
	bool till_end;
	size_t head, body;
	int e;

	if (!end) /* rubbish is known by its first bytes */
		return !w->n || memcmp(w->in, "HTTP/", w->n < 5 ? w->n : 5) == 0 ? -EAGAIN
										 : -EBADMSG;
	head = (size_t)(end - w->in) + 4;
	free(w->lines);
	w->lines = calloc(1, head + 1);
	if (!w->lines)
		return -ENOMEM;
	memcpy(w->lines, w->in, head);
	e = read_head(w->lines, head, &r);
	if (e == 0)
		e = body_length(w, &r, &body, &till_end);
	if (e < 0)
		return e;
	if (till_end && !w->ended)
		return -EAGAIN;
	if (till_end)
		body = w->n - head;
	if (w->n - head < body)
		return -EAGAIN;
	free(w->body);
	w->body = calloc(1, body + 1);
	if (!w->body)
		return -ENOMEM;
	memcpy(w->body, w->in + head, body);
	w->n -= head + body;
	memmove(w->in, w->in + head + body, w->n);
	connection = web_header(&r, "Connection");
	r.closes = till_end || (r.minor == 0 ? !connection || strcasecmp(connection, "keep-alive")
					     : connection && !strcasecmp(connection, "close"));
	r.body = w->body;
	r.body_n = body;
	w->head = false;
	*ret = r;
	return r.closes && w->n ? -EPROTO : 0;
}

/* 1: something came. 0: nothing. */
static int receive(struct web *w)
{
	ssize_t n;

	if (w->ended)
		return 0;
	if (w->n + 1 >= w->room) {
		size_t room = w->room ? 2 * w->room : ROOM;
		char *in;

		if (w->room > WEB_IN_MAX)
			return -EMSGSIZE;
		in = realloc(w->in, room);
		if (!in)
			return -ENOMEM;
		w->in = in;
		w->room = room;
	}
	do
		n = recv(w->fd, w->in + w->n, w->room - w->n - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	w->ended = n == 0;
	w->n += (size_t)n;
	return 1;
}

int web_take(struct web *w, struct web_reply *ret)
{
	int r, got;

	for (;;) {
		r = parse(w, ret);
		if (r != -EAGAIN)
			return r;
		if (w->ended)
			return w->n ? -ECONNRESET : -ENODATA;
		got = receive(w);
		if (got <= 0)
			return got < 0 ? got : -EAGAIN;
	}
}

int web_wait(struct web *w, unsigned int ms, struct web_reply *ret)
{
	uint64_t deadline_ns = wait_now_ns() + ms * 1000000ULL, now_ns;
	int r;

	while ((r = web_take(w, ret)) == -EAGAIN) {
		now_ns = wait_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(&(struct pollfd){.fd = w->fd, .events = POLLIN}, 1,
			   (int)((deadline_ns - now_ns) / 1000000) + 1);
	}
	return r;
}

int web_ask(struct web *w, struct web_reply *ret, const char *format, ...)
{
	va_list args;
	int sent, r;

	va_start(args, format);
	sent = say(w, format, args);
	va_end(args);
	r = web_wait(w, WEB_WAIT_MS, ret);
	return r < 0 && sent < 0 ? sent : r;
}

int web_wait_end(struct web *w, unsigned int ms)
{
	uint64_t deadline_ns = wait_now_ns() + ms * 1000000ULL, now_ns;
	char rest[4096];
	ssize_t n;

	for (;;) {
		n = recv(w->fd, rest, sizeof(rest), 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return 0;
		now_ns = wait_now_ns();
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		(void)poll(&(struct pollfd){.fd = w->fd, .events = POLLIN}, 1,
			   (int)((deadline_ns - now_ns) / 1000000) + 1);
	}
}

const char *web_header(const struct web_reply *r, const char *name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (strcasecmp(r->header[i].name, name) == 0)
			return r->header[i].value;
	return NULL;
}

size_t web_header_count(const struct web_reply *r, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_headers; i++)
		n += strcasecmp(r->header[i].name, name) == 0;
	return n;
}

long long web_number(const struct web_reply *r, const char *name)
{
	const char *text = web_header(r, name);
	__u64 n;

	if (!text || weir_str_u64(text, 999999999999999ULL, &n) < 0)
		return -1;
	return (long long)n;
}
