/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See app.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/app.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define IN_MAX 131072

struct app_conn {
	int fd; /* -1: free */
	char *in;
	size_t n;
};

static void drop(struct app_conn *c)
{
	(void)close(c->fd);
	free(c->in);
	*c = (struct app_conn){.fd = -1};
}

/* The value of a header in @head (ended by a NUL at the empty line), 0 if it is not there or no number. */
static size_t length_of(const char *head)
{
	static const char name[] = "\r\ncontent-length:";
	char digits[24] = "";
	const char *at = strcasestr(head, name);
	__u64 v;

	if (!at)
		return 0;
	at += sizeof(name) - 1;
	at += strspn(at, " ");
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(at, "0123456789"), at);
	return weir_str_u64(digits, IN_MAX, &v) == 0 ? (size_t)v : 0;
}

static bool put_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t did = send(fd, p, n, MSG_NOSIGNAL);

		if (did <= 0)
			return false;
		p += did;
		n -= (size_t)did;
	}
	return true;
}

/* The request as the body of the answer, names of headers in lower case. */
static void tell(FILE *f, const char *head, const char *body, size_t body_n)
{
	const char *line = head, *end;
	bool first = true;

	for (; (end = strstr(line, "\r\n")); line = end + 2, first = false) {
		const char *colon = first ? NULL : memchr(line, ':', (size_t)(end - line));

		for (const char *p = line; p < end; p++)
			(void)fputc(colon && p < colon ? tolower((unsigned char)*p) : *p, f);
		(void)fputc('\n', f);
	}
	(void)fputc('\n', f);
	(void)fwrite(body, 1, body_n, f);
}

static unsigned status_of(const char *head)
{
	static const char mark[] = "/status/";
	const char *end = strstr(head, "\r\n"), *at = strstr(head, mark);
	char digits[4] = "";
	__u64 v;

	if (!at || !end || at > end)
		return 200;
	(void)snprintf(digits, sizeof(digits), "%.3s", at + sizeof(mark) - 1);
	return weir_str_u64(digits, 599, &v) == 0 ? (unsigned)v : 200;
}

static bool reply(struct app *a, struct app_conn *c, const char *head, const char *body,
		  size_t body_n)
{
	_cleanup_free_ char *text = NULL, *all = NULL;
	size_t text_n = 0, all_n = 0;
	bool is_head = strncmp(head, "HEAD ", 5) == 0;
	bool keeps = strstr(head, "HTTP/1.1\r\n") && !strcasestr(head, "\r\nconnection: close");
	bool forges = strstr(head, "/forge") != NULL;
	FILE *f = open_memstream(&text, &text_n);

	if (!f)
		return false;
	tell(f, head, body, body_n);
	if (fclose(f) != 0)
		return false;
	f = open_memstream(&all, &all_n);
	if (!f)
		return false;
	(void)fprintf(f,
		      "HTTP/1.1 %u Said\r\nX-App: yes\r\n%s%sContent-Type: text/plain\r\n"
		      "Content-Length: %zu\r\n\r\n",
		      status_of(head), keeps ? "" : "Connection: close\r\n",
		      forges ? "X-Weir-Decision: forged\r\nX-RateLimit-Limit: 999\r\n"
			       "RateLimit: \"forged\";r=9\r\n"
			     : "",
		      text_n);
	if (!is_head)
		(void)fwrite(text, 1, text_n, f);
	if (fclose(f) != 0)
		return false;
	atomic_fetch_add(&a->seen, 1);
	return put_all(c->fd, all, all_n) && keeps;
}

/* Answers every whole request that is there; false: the connection is over. */
static bool serve(struct app *a, struct app_conn *c)
{
	char *end, *body;
	size_t need;

	for (;;) {
		c->in[c->n] = '\0';
		end = strstr(c->in, "\r\n\r\n");
		if (!end)
			return c->n < IN_MAX;
		end[2] = '\0'; /* the head keeps its last line end */
		body = end + 4;
		need = (size_t)(body - c->in) + length_of(c->in);
		if (need > IN_MAX)
			return false;
		if (c->n < need) {
			end[2] = '\r';
			return true;
		}
		if (!reply(a, c, c->in, body, need - (size_t)(body - c->in)))
			return false;
		c->n -= need;
		memmove(c->in, c->in + need, c->n);
	}
}

static void accept_one(struct app *a)
{
	int fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < APP_CONNS; i++) {
		if (a->conns[i].fd >= 0)
			continue;
		a->conns[i] = (struct app_conn){.fd = fd, .in = malloc(IN_MAX + 1)};
		if (!a->conns[i].in)
			drop(&a->conns[i]);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
}

static void read_one(struct app *a, struct app_conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->n, IN_MAX - c->n, 0);

	c->n += n > 0 ? (size_t)n : 0;
	if (n <= 0 || !serve(a, c))
		drop(c);
}

static void *run(void *arg)
{
	struct app *a = arg;
	struct pollfd *p = calloc(APP_CONNS + 2, sizeof(*p));

	while (p) {
		p[0] = (struct pollfd){.fd = a->stop_fd[0], .events = POLLIN};
		p[1] = (struct pollfd){.fd = a->listen_fd, .events = POLLIN};
		for (size_t i = 0; i < APP_CONNS; i++)
			p[i + 2] = (struct pollfd){.fd = a->conns[i].fd, .events = POLLIN};
		if (poll(p, APP_CONNS + 2, -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents)
			break;
		for (size_t i = 0; i < APP_CONNS; i++)
			if (p[i + 2].revents && a->conns[i].fd >= 0)
				read_one(a, &a->conns[i]);
		if (p[1].revents)
			accept_one(a);
	}
	free(p);
	return NULL;
}

int app_start(struct app *a)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(sin);
	int r;

	*a = (struct app){.listen_fd = -1, .stop_fd = {-1, -1}};
	a->conns = calloc(APP_CONNS, sizeof(*a->conns));
	if (!a->conns)
		return -ENOMEM;
	for (size_t i = 0; i < APP_CONNS; i++)
		a->conns[i].fd = -1;
	a->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a->listen_fd < 0 || bind(a->listen_fd, (struct sockaddr *)&sin, n) < 0 ||
	    listen(a->listen_fd, APP_CONNS) < 0 ||
	    getsockname(a->listen_fd, (struct sockaddr *)&sin, &n) < 0 ||
	    pipe2(a->stop_fd, O_CLOEXEC) < 0) {
		r = -errno;
		app_stop(a);
		return r;
	}
	(void)snprintf(a->where, sizeof(a->where), "127.0.0.1:%u", ntohs(sin.sin_port));
	r = pthread_create(&a->thread, NULL, run, a);
	if (r != 0) {
		a->thread = 0;
		app_stop(a);
	}
	return -r;
}

void app_stop(struct app *a)
{
	if (!a->conns)
		return;
	if (a->stop_fd[1] >= 0)
		(void)close(a->stop_fd[1]); /* the other end sees it */
	if (a->thread)
		(void)pthread_join(a->thread, NULL);
	for (size_t i = 0; i < APP_CONNS; i++)
		if (a->conns[i].fd >= 0)
			drop(&a->conns[i]);
	if (a->stop_fd[0] >= 0)
		(void)close(a->stop_fd[0]);
	if (a->listen_fd >= 0)
		(void)close(a->listen_fd);
	free(a->conns);
	*a = (struct app){};
}
