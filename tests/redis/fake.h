/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A server that says what a test wants, on the test's loop: an old one, one that lies, one that repeats what it was told. */
#ifndef WEIR_TEST_REDIS_FAKE_H
#define WEIR_TEST_REDIS_FAKE_H

#include <arpa/inet.h>
#include <sys/socket.h>

#include "redis/fixture.h"

#define FAKE_CLIENTS 32
struct fake {
	/* The reply as it goes over the wire to @command, an array of strings; NULL: none. */
	const char *(*says)(struct fake *f, const struct redisReply *command);
	void *arg; /* its */
	struct event_base *base;
	__u16 port;
	int fd;
	struct event *event;
	unsigned n;
	struct fake_client {
		struct fake *f;
		int fd;
		struct event *event;
		redisReader *reader;
	} client[FAKE_CLIENTS];
};

static inline void fake_drop(struct fake_client *c)
{
	event_free(c->event);
	redisReaderFree(c->reader);
	(void)close(c->fd);
	*c = (struct fake_client){.fd = -1};
}

static inline void fake_read(evutil_socket_t fd, short what, void *arg)
{
	struct fake_client *c = arg;
	char buf[16384];
	ssize_t n = read(fd, buf, sizeof(buf));
	void *command = NULL;

	(void)what;
	if (n <= 0) {
		fake_drop(c);
		return;
	}
	assert_int_equal(redisReaderFeed(c->reader, buf, (size_t)n), REDIS_OK);
	while (redisReaderGetReply(c->reader, &command) == REDIS_OK && command) {
		const char *reply = c->f->says(c->f, command);

		freeReplyObject(command);
		if (reply && write(fd, reply, strlen(reply)) < 0)
			return; /* it left */
	}
}

static inline void fake_accept(evutil_socket_t fd, short what, void *arg)
{
	struct fake *f = arg;
	struct fake_client *c = f->client;

	(void)what;
	while (c < f->client + FAKE_CLIENTS && c->f)
		c++;
	assert_true(c < f->client + FAKE_CLIENTS);
	c->f = f;
	c->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(c->fd >= 0);
	c->reader = redisReaderCreate();
	c->event = event_new(f->base, c->fd, EV_READ | EV_PERSIST, fake_read, c);
	assert_int_equal(event_add(c->event, NULL), 0);
}

static inline void fake_start(struct fake *f, struct event_base *base)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);

	f->base = base;
	f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f->fd, 8), 0);
	assert_int_equal(getsockname(f->fd, (struct sockaddr *)&a, &n), 0);
	f->port = ntohs(a.sin_port);
	f->event = event_new(base, f->fd, EV_READ | EV_PERSIST, fake_accept, f);
	assert_int_equal(event_add(f->event, NULL), 0);
}

static inline void fake_stop(struct fake *f)
{
	if (!f->event)
		return;
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		if (f->client[i].f)
			fake_drop(&f->client[i]);
	event_free(f->event);
	(void)close(f->fd);
}

/* Is it this command ("SCRIPT")? */
static inline bool fake_is(const struct redisReply *command, const char *name)
{
	return command->elements && !strcasecmp(command->element[0]->str, name);
}

#endif
