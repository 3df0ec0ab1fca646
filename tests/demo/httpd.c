/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The small web server of the demo: answers every request on every path with one page, on one thread. Started by
 * scripts/demo inside its laboratory, and ended by it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "user/base/str.h"

#define BACKLOG	      1024
#define EVENTS_MAX    64
#define REQUEST_BYTES 2048

static const char answer[] = "HTTP/1.1 200 OK\r\n"
			     "Content-Type: text/plain\r\n"
			     "Content-Length: 13\r\n"
			     "Connection: close\r\n"
			     "\r\n"
			     "Still here.\r\n";

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

/* The request of the demo's client fits in one segment, so what has arrived is all of it. */
static void serve(int fd)
{
	char request[REQUEST_BYTES];
	ssize_t n = recv(fd, request, sizeof(request), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) /* a client that is gone, or is not reading, misses its answer */
		(void)send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
	(void)close(fd);
}

int main(int argc, char **argv)
{
	struct epoll_event e = {.events = EPOLLIN}, ready[EVENTS_MAX];
	int listen_fd, poll_fd;

	if (argc != 3) {
		(void)fprintf(stderr, "Usage: demo-httpd ADDRESS PORT\n");
		return 2;
	}
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
