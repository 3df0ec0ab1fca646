/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names to addresses in a thread of their own, one for each look-up: the resolver may take seconds, and no check waits
 * for it. Called by conn.c.
 */
#include <arpa/inet.h>
#include <event2/event.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "user/base/str.h"
#include "user/redis/redis_int.h"

/* Owned by both sides; whoever leaves last frees it. */
struct weir_redis_lookup {
	unsigned owners;
	int fd; /* the answer is there */
	char name[254];
	int r; /* of getaddrinfo */
	struct weir_redis_addresses found;

	/* the loop's alone */
	struct event *event;
	weir_redis_lookup_fn *fn;
	void *arg;
};

static void leave(struct weir_redis_lookup *l)
{
	if (__atomic_sub_fetch(&l->owners, 1, __ATOMIC_ACQ_REL))
		return;
	if (l->fd >= 0)
		(void)close(l->fd); /* nothing was written that could be lost */
	free(l);
}

static void *look_up(void *arg)
{
	struct weir_redis_lookup *l = arg;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	__u64 one = 1;

	l->r = getaddrinfo(l->name, NULL, &hints, &all);
	for (struct addrinfo *a = l->r ? NULL : all; a && l->found.n < WEIR_REDIS_ADDRESSES_MAX;
	     a = a->ai_next)
		if (!getnameinfo(a->ai_addr, a->ai_addrlen, l->found.text[l->found.n],
				 sizeof(l->found.text[0]), NULL, 0, NI_NUMERICHOST))
			l->found.n++;
	if (all)
		freeaddrinfo(all);
	if (write(l->fd, &one, sizeof(one)) < 0)
		l->r = EAI_SYSTEM; /* an eventfd takes its first number always */
	leave(l);
	return NULL;
}

static void answered(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis_lookup *l = arg;
	weir_redis_lookup_fn *fn = l->fn;
	void *fn_arg = l->arg;
	struct weir_redis_addresses found;
	__u64 one;
	int r;

	(void)what;
	if (read(fd, &one, sizeof(one)) < 0) /* what the thread wrote before it is seen after it */
		return;
	found = l->found;
	r = l->r;
	weir_redis_lookup_cancel(l);
	if (!r && found.n)
		fn(fn_arg, 0, &found, NULL);
	else
		fn(fn_arg, r == EAI_AGAIN ? -EAGAIN : -ENOENT, NULL,
		   r ? gai_strerror(r) : "no address");
}

int weir_redis_lookup_start(struct event_base *base, const char *name, weir_redis_lookup_fn *fn,
			    void *arg, struct weir_redis_lookup **ret)
{
	struct weir_redis_lookup *l = calloc(1, sizeof(*l));
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!l)
		return -ENOMEM;
	l->owners = 1;
	l->fn = fn;
	l->arg = arg;
	(void)weir_str_copy(l->name, sizeof(l->name), name); /* a name is at most 253 bytes */
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->fd < 0) {
		r = -errno;
		leave(l);
		return r;
	}
	l->event = event_new(base, l->fd, EV_READ, answered, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		weir_redis_lookup_cancel(l);
		return -ENOMEM;
	}
	l->owners = 2;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = -pthread_create(&thread, &attr, look_up, l);
	(void)pthread_attr_destroy(&attr);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		l->owners = 1;
		weir_redis_lookup_cancel(l);
		return r;
	}
	*ret = l;
	return 0;
}

void weir_redis_lookup_cancel(struct weir_redis_lookup *l)
{
	if (!l)
		return;
	if (l->event)
		event_free(l->event);
	l->event = NULL;
	leave(l);
}
