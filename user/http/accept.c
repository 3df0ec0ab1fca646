/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections in and out of a worker: accept, limits, who serves them. Called by its loop. */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "user/http/worker_int.h"

#define ACCEPTS_A_TURN 16
#define PAUSE_NS       100000000ull /* of accepting, while there are no descriptors */

static _Atomic __u64 *counted_at(struct weir_http_port *p)
{
	return p->listen->pages ? &p->worker->http->pages_connections
				: &p->worker->http->connections;
}

static void uncount(struct weir_http_port *p)
{
	atomic_fetch_sub_explicit(counted_at(p), 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&p->listen->connections, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&p->listen->load[p->worker->index], 1, memory_order_relaxed);
}

void weir_http_gone(struct weir_http_port *p)
{
	uncount(p);
	p->connections--;
	/* the caller may be deep in libmicrohttpd: freed in a turn of its own */
	if (p->closing && !p->connections)
		event_active(p->worker->own->reap, EV_TIMEOUT, 0);
}

/* Takes @fd over, which is counted in the load of this worker. */
static void begin(struct weir_http_port *p, int fd, const struct weir_prefix *peer)
{
	int r;

	p->connections++;
	if (!p->listen->spoe) {
		if (weir_http_mhd_add(p, fd, peer) < 0)
			weir_http_gone(p); /* fd is closed */
		return;
	}
	r = weir_spoe_accept(p, fd, peer);
	if (r < 0) {
		(void)close(fd); /* nothing was written */
		weir_http_gone(p);
	}
}

void weir_http_poke(struct weir_http_worker *w)
{
	__u64 one = 1;

	(void)!write(w->own->wake_fd, &one,
		     sizeof(one)); /* fails only where it has been poked 2^64 times */
}

/* The worker with the fewest connections of this listener: long ones would stay where they happened to come in. */
static struct weir_http_worker *least_loaded(struct weir_http_port *p)
{
	struct weir_http_worker *w = p->worker, *best = w;
	struct weir_http *h = w->http;
	unsigned least;

	if (p->listen->pages)
		return w;
	least = atomic_load_explicit(&p->listen->load[w->index], memory_order_relaxed);
	for (unsigned i = 0; i < h->n_workers; i++) {
		unsigned n = atomic_load_explicit(&p->listen->load[i], memory_order_relaxed);

		if (n < least) {
			least = n;
			best = h->worker[i];
		}
	}
	return best;
}

static bool hand_over(struct weir_http_worker *to, struct weir_http_port *p, int fd,
		      const struct weir_prefix *peer)
{
	bool taken = false;

	pthread_mutex_lock(&to->own->lock);
	if (to->own->n_handed < WEIR_HTTP_HANDED_MAX) {
		struct weir_http_handed *h = &to->own->handed[to->own->n_handed++];

		*h = (struct weir_http_handed){.listen = p->listen,
					       .fd = fd,
					       .has_peer = peer != NULL};
		if (peer)
			h->peer = *peer;
		weir_http_listen_ref(p->listen);
		atomic_fetch_add_explicit(&p->listen->load[to->index], 1, memory_order_relaxed);
		taken = true;
	}
	pthread_mutex_unlock(&to->own->lock);
	if (taken)
		weir_http_poke(to);
	return taken;
}

void weir_http_take_handed(struct weir_http_worker *w)
{
	struct weir_http_handed all[WEIR_HTTP_HANDED_MAX];
	size_t n;

	pthread_mutex_lock(&w->own->lock);
	n = w->own->n_handed;
	memcpy(all, w->own->handed, n * sizeof(all[0]));
	w->own->n_handed = 0;
	pthread_mutex_unlock(&w->own->lock);
	for (size_t i = 0; i < n; i++) {
		struct weir_http_port *p = w->ports;

		while (p && (p->listen != all[i].listen || p->closing))
			p = p->next;
		if (p) {
			begin(p, all[i].fd, all[i].has_peer ? &all[i].peer : NULL);
		} else {			/* the listener has gone meanwhile */
			(void)close(all[i].fd); /* nothing was written */
			atomic_fetch_sub(&w->http->connections, 1);
			atomic_fetch_sub(&all[i].listen->connections, 1);
			atomic_fetch_sub(&all[i].listen->load[w->index], 1);
		}
		weir_http_listen_unref(all[i].listen);
	}
}

static bool peer_of(const struct sockaddr_storage *a, struct weir_prefix *ret)
{
	static const __u8 mapped[12] = {[10] = 0xff, [11] = 0xff};
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;

	memset(ret, 0, sizeof(*ret));
	if (a->ss_family == AF_INET) {
		*ret = (struct weir_prefix){.family = 4, .len = 32};
		memcpy(ret->addr.ip, &a4->sin_addr, 4);
	} else if (a->ss_family == AF_INET6 && memcmp(&a6->sin6_addr, mapped, 12) == 0) {
		*ret = (struct weir_prefix){.family = 4, .len = 32};
		memcpy(ret->addr.ip, (const __u8 *)&a6->sin6_addr + 12, 4);
	} else if (a->ss_family == AF_INET6) {
		*ret = (struct weir_prefix){.family = 6, .len = 128};
		memcpy(ret->addr.ip, &a6->sin6_addr, 16);
	} else {
		return false;
	}
	return true;
}

/* Where proxies are named, whoever else comes may take half of what there is: they keep the other half. */
static __u64 most_for(const struct weir_http_port *p, const struct weir_prefix *peer)
{
	__u64 max = p->worker->settings->connections_max;

	if (p->listen->pages)
		return WEIR_HTTP_PAGES_MAX;
	return p->settings->n_trusted && !weir_http_trusts(p, peer) ? (max + 1) / 2 : max;
}

static void accepted(struct weir_http_port *p, int fd, const struct weir_prefix *peer)
{
	struct weir_http_worker *w = p->worker, *to;
	__u64 max = most_for(p, peer);

	weir_http_count(&w->counters.accepted, 1);
	if (atomic_fetch_add_explicit(counted_at(p), 1, memory_order_relaxed) >= max) {
		atomic_fetch_sub_explicit(counted_at(p), 1, memory_order_relaxed);
		weir_http_count(&w->counters.closed_at_limit, 1);
		weir_http_note(w, WEIR_HTTP_NOTE_LIMIT, p, NULL);
		(void)close(fd); /* nothing was written */
		return;
	}
	atomic_fetch_add_explicit(&p->listen->connections, 1, memory_order_relaxed);
	to = least_loaded(p);
	if (to != w && hand_over(to, p, fd, peer))
		return;
	atomic_fetch_add_explicit(&p->listen->load[w->index], 1, memory_order_relaxed);
	begin(p, fd, peer);
}

/* No descriptor is free, so no client can be told to go away but with the one kept for this. */
static void refuse_without_files(struct weir_http_port *p)
{
	struct weir_http_worker *w = p->worker;
	const struct timeval pause = {.tv_usec = PAUSE_NS / 1000};
	int fd = -1;

	weir_http_note(w, WEIR_HTTP_NOTE_NO_FILES, p, NULL);
	if (w->own->reserve_fd >= 0) {
		(void)close(w->own->reserve_fd); /* of /dev/null */
		fd = accept4(p->listen->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			(void)close(fd); /* nothing was written */
		w->own->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0) {
		weir_http_count(&w->counters.accepted, 1);
		weir_http_count(&w->counters.closed_at_limit, 1);
		return;
	}
	/* somebody else took it: the sockets stay readable, so look away for a moment */
	for (struct weir_http_port *q = w->ports; q; q = q->next)
		if (!q->closing)
			(void)event_del(q->accept);
	w->own->paused = true;
	(void)event_add(w->own->resume, &pause);
}

void weir_http_on_accept(evutil_socket_t listen_fd, short what, void *arg)
{
	struct weir_http_port *p = arg;

	(void)what;
	for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
		socklen_t n = sizeof(a);
		struct weir_prefix peer;
		int fd =
			accept4(listen_fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accepted(p, fd, peer_of(&a, &peer) ? &peer : NULL);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			refuse_without_files(p);
			return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			return; /* EAGAIN: another worker was faster, or nothing is left */
		}
	}
}

void weir_http_on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_worker *w = arg;

	(void)fd;
	(void)what;
	w->own->paused = false;
	if (w->own->reserve_fd < 0)
		w->own->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (struct weir_http_port *p = w->ports; p; p = p->next)
		if (!p->closing)
			(void)event_add(p->accept, NULL);
}
