/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The small web server of the demo: answers every request on every path with one page, on one thread. With a third
 * argument it asks weir first, on that port of loopback, as nginx's auth_request does: who may not gets weir's answer.
 * A weir that is not there, or slow, stops nobody. Started by scripts/demo inside its laboratory, and ended by it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/base/cleanup.h"
#include "user/base/str.h"

#define BACKLOG	      1024
#define EVENTS_MAX    64
#define REQUEST_BYTES 2048
#define ANSWER_BYTES  8192
#define ASK_MS	      200

static const char answer[] = "HTTP/1.1 200 OK\r\n"
			     "Content-Type: text/plain\r\n"
			     "Content-Length: 13\r\n"
			     "Connection: close\r\n"
			     "\r\n"
			     "Still here.\r\n";
static struct sockaddr_in weir; /* port 0: nobody is asked */
static int weir_fd = -1;	/* kept between requests */

static int fail(const char *what)
{
	(void)fprintf(stderr, "httpd: %s: %s\n", what, strerror(errno)); /* nowhere else to tell */
	return 1;
}

static int listen_on(const char *addr, const char *port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct sockaddr_in a = {.sin_family = AF_INET};
	__u64 number;

	if (fd < 0 || weir_str_u64(port, 65535, &number) < 0 ||
	    inet_pton(AF_INET, addr, &a.sin_addr) != 1)
		return -1;
	a.sin_port = htons((uint16_t)number);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return fd;
}

static void welcome(int poll_fd, int listen_fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	for (;;) {
		e.data.fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (e.data.fd < 0)
			return;
		if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, e.data.fd, &e) < 0)
			(void)close(e.data.fd); /* a client less */
	}
}

/* --- asking weir ---- */

static bool reach_weir(void)
{
	struct timeval t = {.tv_usec = ASK_MS * 1000};

	if (weir_fd >= 0)
		return true;
	weir_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (weir_fd >= 0 && setsockopt(weir_fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0 &&
	    setsockopt(weir_fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) == 0 &&
	    connect(weir_fd, (struct sockaddr *)&weir, sizeof(weir)) == 0)
		return true;
	closep(&weir_fd);
	weir_fd = -1;
	return false;
}

/* Reads one answer into @buf, its head and all of its body. */
static ssize_t read_answer(char *buf, size_t size)
{
	size_t n = 0, whole = 0;

	while (n < size - 1 && (!whole || n < whole)) {
		ssize_t more = recv(weir_fd, buf + n, size - 1 - n, 0);
		const char *end, *length;
		__u64 body = 0;

		if (more <= 0)
			return -1;
		n += (size_t)more;
		buf[n] = '\0';
		end = strstr(buf, "\r\n\r\n");
		length = strstr(buf, "\r\nContent-Length: ");
		if (whole || !end)
			continue;
		if (length && length < end) {
			char text[16] = "";

			(void)snprintf(text, sizeof(text), "%.*s",
				       (int)strspn(length + 18, "0123456789"), length + 18);
			if (weir_str_u64(text, size, &body) < 0)
				return -1;
		}
		whole = (size_t)(end - buf) + 4 + body;
	}
	return whole && n == whole ? (ssize_t)n : -1;
}

/* weir's whole answer in @buf, or -1. */
static ssize_t ask_weir(int client_fd, const char *request, char *buf, size_t size)
{
	struct sockaddr_in from = {};
	socklen_t len = sizeof(from);
	char ask[REQUEST_BYTES + 256], addr[INET_ADDRSTRLEN] = "";
	int method = (int)strcspn(request, " "), n;
	int target = request[method] ? (int)strcspn(request + method + 1, " \r\n") : 0;

	if (getpeername(client_fd, (struct sockaddr *)&from, &len) < 0 || !reach_weir() ||
	    !inet_ntop(AF_INET, &from.sin_addr, addr, sizeof(addr)))
		return -1;
	n = snprintf(ask, sizeof(ask),
		     "GET /check HTTP/1.1\r\nHost: demo\r\nX-Original-Method: %.*s\r\n"
		     "X-Original-URI: %.*s\r\nX-Forwarded-For: %s\r\n\r\n",
		     method, request, target, request + method + 1, addr);
	if (n >= (int)sizeof(ask) || send(weir_fd, ask, (size_t)n, MSG_NOSIGNAL) != n)
		n = -1;
	else
		n = (int)read_answer(buf, size);
	if (n < 0) {
		closep(&weir_fd); /* the rest of an answer must not be taken for the next */
		weir_fd = -1;
	}
	return n;
}

/* False: the client has got weir's answer, under the status that nginx would show. */
static bool may_pass(int fd, char *request)
{
	char buf[ANSWER_BYTES], head[128];
	ssize_t n = ask_weir(fd, request, buf, sizeof(buf));
	const char *status = n < 0 ? NULL : strstr(buf, "X-Weir-Status: "), *rest;

	if (n < 0 || strncmp(buf, "HTTP/1.1 403", 12) != 0 || !status)
		return true;
	rest = strstr(buf, "\r\n");
	(void)snprintf(head, sizeof(head), "HTTP/1.1 %.3s Refused\r\nConnection: close",
		       status + 15);
	/* a client that is gone misses its answer */
	(void)send(fd, head, strlen(head), MSG_NOSIGNAL | MSG_MORE);
	(void)send(fd, rest, (size_t)(n - (rest - buf)), MSG_NOSIGNAL);
	return false;
}

/* The request of the demo's client fits in one segment, so what has arrived is all of it. */
static void serve(int fd)
{
	char request[REQUEST_BYTES];
	ssize_t n = recv(fd, request, sizeof(request) - 1, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	request[n > 0 ? n : 0] = '\0';
	/* a client that is gone, or is not reading, misses its answer */
	if (n > 0 && (!weir.sin_port || may_pass(fd, request)))
		(void)send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
	(void)close(fd);
}

int main(int argc, char **argv)
{
	struct epoll_event e = {.events = EPOLLIN}, ready[EVENTS_MAX];
	int listen_fd, poll_fd;

	__u64 port = 0;

	if (argc < 3 || argc > 4 || (argc == 4 && weir_str_u64(argv[3], 65535, &port) < 0)) {
		(void)fprintf(stderr, "Usage: demo-httpd ADDRESS PORT [PORT-OF-WEIR]\n");
		return 2;
	}
	weir.sin_family = AF_INET;
	weir.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	weir.sin_port = htons((uint16_t)port);
	listen_fd = listen_on(argv[1], argv[2]);
	if (listen_fd < 0)
		return fail(argv[1]);
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	e.data.fd = listen_fd;
	if (poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, listen_fd, &e) < 0)
		return fail("epoll");
	for (;;) {
		int n = epoll_wait(poll_fd, ready, EVENTS_MAX, -1);

		if (n < 0 && errno != EINTR)
			return fail("epoll");
		for (int i = 0; i < n; i++) {
			if (ready[i].data.fd == listen_fd)
				welcome(poll_fd, listen_fd);
			else
				serve(ready[i].data.fd);
		}
	}
}
