/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One worker: a thread with an event loop that accepts from every listening socket, holds answers until their time,
 * and cuts what takes too long. Called by http.c (main thread) and mhd.c, spoe.c (the worker's own).
 */
#include <fcntl.h>
#include <linux/tcp.h> /* the C library's tcp_info has no count of bytes */
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#include "user/base/log.h"
#include "user/http/conn.h"

#define ACCEPTS_A_TURN 16
#define HANDED_MAX     256
#define PAUSE_NS       100000000ull /* of accepting, while there are no descriptors */
#define NOTE_NS	       60000000000ull
#define STOP_NS	       1000000000ull
#define STOP_STEP_NS   10000000ull

/* A connection that another worker has accepted for this one. */
struct handed {
	struct weir_http_listen *listen;
	int fd;
	bool has_peer;
	struct weir_prefix peer;
};

struct weir_http_worker_own {
	pthread_t thread;
	bool running;
	int wake_fd; /* eventfd */
	int reserve_fd;
	int hold_fd; /* timerfd */
	struct event *wake, *hold, *tick, *resume, *reap;
	__u64 armed_ns; /* hold_fd: for when; 0: not */
	bool paused;	/* accepts nothing */
	bool applied_stop;

	pthread_mutex_t lock; /* over these */
	pthread_cond_t applied;
	const struct weir_http_plan *plan; /* to be taken over; NULL: none */
	struct handed handed[HANDED_MAX];
	size_t n_handed;

	struct weir_http_conn *conns, *cursor;
	size_t n_conns;
	struct weir_http_conn **heap; /* held ones, the earliest first */
	size_t n_heap, heap_max;
	struct weir_http_lines lines;
};

__u64 weir_http_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
	return (__u64)t.tv_sec * 1000000000ull + (__u64)t.tv_nsec;
}

struct weir_http_lines *weir_http_worker_lines(struct weir_http_worker *w)
{
	return &w->own->lines;
}

/* --- what is told ---- */

static const struct {
	const char *event, *what;
} notes[WEIR_HTTP_NOTE_MAX] = {
	[WEIR_HTTP_NOTE_LIMIT] = {"connections_at_limit",
				  "new connections are closed at once; raise http.connections, or "
				  "let the proxy keep fewer open"},
	[WEIR_HTTP_NOTE_NO_FILES] = {"out_of_descriptors",
				     "new connections are closed at once; raise LimitNOFILE of the "
				     "service (ulimit -n)"},
	[WEIR_HTTP_NOTE_UNTRUSTED] = {"forwarded_headers_ignored",
				      "a peer that is not in trusted_proxies sends them: if it is "
				      "your proxy, name it there; until then it counts as one "
				      "client"},
	[WEIR_HTTP_NOTE_NO_TARGET] = {"proxy_sends_no_target",
				      "its requests are refused: what they ask for is not known"},
	[WEIR_HTTP_NOTE_NO_ADDRESS] = {"proxy_sends_no_address",
				       "limits by ip cannot count its clients: it must send "
				       "X-Forwarded-For"},
	[WEIR_HTTP_NOTE_DOUBLED] = {"header_twice",
				    "one of them may be the client's own, so it is not believed: "
				    "the proxy must set it, not add to it"},
	[WEIR_HTTP_NOTE_SPOP] = {"spop_error", "the connection ends; HAProxy opens another one"},
};

void weir_http_note(struct weir_http_worker *w, enum weir_http_note what,
		    const struct weir_http_port *port, const char *detail)
{
	_Atomic __u64 *at = &w->http->told_ns[what];
	__u64 before = atomic_load_explicit(at, memory_order_relaxed), now = weir_http_now_ns();

	if ((before && now - before < NOTE_NS) || !atomic_compare_exchange_strong(at, &before, now))
		return;
	weir_log(WEIR_LOG_WARNING, notes[what].event, "listen", "s",
		 port ? port->listen->name : NULL, "detail", "s", detail, "hint", "s",
		 notes[what].what, NULL);
}

bool weir_http_trusts(const struct weir_http_port *port, const struct weir_prefix *peer)
{
	if (!peer)
		return true;
	for (size_t i = 0; i < port->settings->n_trusted; i++)
		if (weir_prefix_contains(&port->settings->trusted[i], peer))
			return true;
	return false;
}

/* --- connections in and out ---- */

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

static void poke(struct weir_http_worker *w)
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
	if (to->own->n_handed < HANDED_MAX) {
		struct handed *h = &to->own->handed[to->own->n_handed++];

		*h = (struct handed){.listen = p->listen, .fd = fd, .has_peer = peer != NULL};
		if (peer)
			h->peer = *peer;
		weir_http_listen_ref(p->listen);
		atomic_fetch_add_explicit(&p->listen->load[to->index], 1, memory_order_relaxed);
		taken = true;
	}
	pthread_mutex_unlock(&to->own->lock);
	if (taken)
		poke(to);
	return taken;
}

static void take_handed(struct weir_http_worker *w)
{
	struct handed all[HANDED_MAX];
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

static void accepted(struct weir_http_port *p, int fd, const struct weir_prefix *peer)
{
	struct weir_http_worker *w = p->worker, *to;
	__u64 max = p->listen->pages ? WEIR_HTTP_PAGES_MAX : w->settings->connections_max;

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
		if (fd >= 0) {
			(void)close(fd); /* nothing was written */
			weir_http_count(&w->counters.accepted, 1);
			weir_http_count(&w->counters.closed_at_limit, 1);
		}
		w->own->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0)
		return;
	/* somebody else took it: the sockets stay readable, so look away for a moment */
	for (struct weir_http_port *q = w->ports; q; q = q->next)
		if (!q->closing)
			(void)event_del(q->accept);
	w->own->paused = true;
	(void)event_add(w->own->resume, &pause);
}

static void on_accept(evutil_socket_t listen_fd, short what, void *arg)
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

static void on_resume(evutil_socket_t fd, short what, void *arg)
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

/* --- held answers: a heap by time ---- */

static void heap_put(struct weir_http_worker_own *o, size_t i, struct weir_http_conn *c)
{
	o->heap[i] = c;
	c->heap_at = i;
}

static void heap_up(struct weir_http_worker_own *o, size_t i)
{
	struct weir_http_conn *c = o->heap[i];

	while (i && o->heap[(i - 1) / 2]->due_ns > c->due_ns) {
		heap_put(o, i, o->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(o, i, c);
}

static void heap_down(struct weir_http_worker_own *o, size_t i)
{
	struct weir_http_conn *c = o->heap[i];

	while (2 * i + 1 < o->n_heap) {
		size_t k = 2 * i + 1;

		if (k + 1 < o->n_heap && o->heap[k + 1]->due_ns < o->heap[k]->due_ns)
			k++;
		if (o->heap[k]->due_ns >= c->due_ns)
			break;
		heap_put(o, i, o->heap[k]);
		i = k;
	}
	heap_put(o, i, c);
}

/* libevent's timers follow a coarse clock, so the earliest answer has a timer of the kernel's. */
static void arm(struct weir_http_worker_own *o)
{
	__u64 at = o->n_heap ? o->heap[0]->due_ns : 0;
	struct itimerspec t = {.it_value = {.tv_sec = (time_t)(at / 1000000000ull),
					    .tv_nsec = (long)(at % 1000000000ull)}};

	if (at == o->armed_ns)
		return;
	(void)timerfd_settime(o->hold_fd, TFD_TIMER_ABSTIME, &t,
			      NULL); /* cannot fail with such times */
	o->armed_ns = at;
}

int weir_http_worker_hold(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;

	if (o->n_heap == o->heap_max) {
		size_t max = o->heap_max ? 2 * o->heap_max : 64;
		struct weir_http_conn **heap = reallocarray(o->heap, max, sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		o->heap = heap;
		o->heap_max = max;
	}
	o->heap[o->n_heap] = c;
	heap_up(o, o->n_heap++);
	weir_http_count(&w->counters.held, 1);
	arm(o);
	return 0;
}

void weir_http_worker_unhold(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;
	struct weir_http_conn *last = o->heap[--o->n_heap];
	size_t i = c->heap_at;

	if (last != c) {
		heap_put(o, i, last);
		heap_up(o, i);
		heap_down(o, last->heap_at);
	}
	weir_http_count(&w->counters.held, -1);
	arm(o);
}

static void run_resumed(struct weir_http_worker *w)
{
	for (struct weir_http_port *p = w->ports; p; p = p->next)
		if (p->run)
			weir_http_mhd_run(p);
}

static void on_hold(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_worker *w = arg;
	struct weir_http_worker_own *o = w->own;
	__u64 n, now = weir_http_now_ns();

	(void)what;
	(void)!read(fd, &n, sizeof(n)); /* EAGAIN: it was set anew meanwhile */
	o->armed_ns = 0;
	w->now_ns = now;
	while (o->n_heap && o->heap[0]->due_ns <= now) {
		struct weir_http_conn *c = o->heap[0];

		weir_http_worker_unhold(w, c);
		weir_http_conn_release(c);
	}
	arm(o);
	run_resumed(w);
}

/* --- deadlines ---- */

static __u64 tick_ns(const struct weir_http_worker *w)
{
	__u64 t = w->settings->request_deadline_ns / 32;

	if (w->stop_at_ns)
		return STOP_STEP_NS;
	return t < 5000000ull ? 5000000ull : t > 250000000ull ? 250000000ull : t;
}

static void next_tick(struct weir_http_worker *w)
{
	__u64 t = tick_ns(w);
	struct timeval tv = {.tv_sec = (time_t)(t / 1000000000ull),
			     .tv_usec = (suseconds_t)(t % 1000000000ull / 1000)};

	(void)event_add(w->own->tick, &tv);
}

/* Has a request begun that is not over? libmicrohttpd does not say, but the kernel counts what has come in. */
static bool has_partial(struct weir_http_conn *c)
{
	struct tcp_info i = {.tcpi_state = 0};
	socklen_t n = sizeof(i);

	if (c->is_unix || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &n) < 0)
		return false;
	if (c->uncounted) {
		c->consumed = i.tcpi_bytes_received;
		c->uncounted = false;
	}
	return i.tcpi_bytes_received > c->consumed;
}

/* True if nobody should wait for it any longer. */
static bool is_late(struct weir_http_conn *c, const struct weir_http_settings *s, __u64 now)
{
	bool busy = c->requests != c->requests_seen;

	c->requests_seen = c->requests;
	switch (c->phase) {
	case WEIR_HTTP_IDLE:
		if (busy)
			return false; /* looked at next time, if it is still so */
		if (!c->partial && has_partial(c)) {
			c->partial = true;
			c->since_ns = now;
		}
		return now - c->since_ns >= (c->partial	   ? s->request_deadline_ns
					     : c->requests ? WEIR_HTTP_IDLE_NS
							   : WEIR_HTTP_FRESH_NS);
	case WEIR_HTTP_READING:
	case WEIR_HTTP_BODY:
	case WEIR_HTTP_WRITING:
		return now - c->since_ns >= s->request_deadline_ns;
	case WEIR_HTTP_ASKED:
	case WEIR_HTTP_HELD:
	case WEIR_HTTP_ANSWERING:
		break; /* ours to end */
	}
	return false;
}

/* An eighth of all connections, so that a turn stays short; all of them in a quarter of the deadline. */
static void sweep(struct weir_http_worker *w)
{
	struct weir_http_worker_own *o = w->own;
	size_t n = o->n_conns / 8 + 16;

	w->now_ns = weir_http_now_ns();
	for (size_t i = 0; i < n && i < o->n_conns; i++) {
		struct weir_http_conn *c = o->cursor ? o->cursor : o->conns;

		o->cursor = c->next;
		if (!c->cut && (int64_t)(w->now_ns - c->since_ns) > 0 &&
		    is_late(c, w->settings, w->now_ns)) {
			if (c->phase != WEIR_HTTP_IDLE || c->partial)
				weir_http_count(&w->counters.cut_by_deadline, 1);
			weir_http_conn_cut(c);
		}
	}
}

void weir_http_worker_conn_added(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;

	c->next = o->conns;
	c->link = &o->conns;
	if (c->next)
		c->next->link = &c->next;
	o->conns = c;
	if (!o->n_conns++)
		next_tick(w);
}

void weir_http_worker_conn_gone(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;

	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (o->cursor == c)
		o->cursor = c->next;
	if (o->lines.of == c)
		o->lines.of = NULL;
	o->n_conns--;
}

/* --- the end ---- */

/* What is of a port that closes, or of all. */
static void end_conns(struct weir_http_worker *w)
{
	for (struct weir_http_conn *c = w->own->conns, *next; c; c = next) {
		next = c->next;
		if (c->port->closing)
			weir_http_conn_end(c);
	}
	run_resumed(w);
}

static void close_port(struct weir_http_port *p)
{
	p->closing = true;
	(void)event_del(p->accept);
	if (p->listen->spoe)
		weir_spoe_end(p);
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_worker *w = arg;
	struct weir_http_port **at = &w->ports;

	(void)fd;
	(void)what;
	while (*at) {
		struct weir_http_port *p = *at;

		if (p->closing && !p->connections) {
			*at = p->next;
			weir_http_port_free(p);
		} else {
			at = &p->next;
		}
	}
	if (w->stop_at_ns && !w->ports)
		(void)event_base_loopbreak(w->base);
}

/* Everything goes now. */
static void cut_all(struct weir_http_worker *w)
{
	for (struct weir_http_conn *c = w->own->conns, *next; c; c = next) {
		next = c->next;
		weir_http_conn_cut(c);
	}
	for (struct weir_http_port *p = w->ports; p; p = p->next) {
		p->closing = true;
		if (p->listen->spoe)
			weir_spoe_cut(p);
		else
			weir_http_mhd_run(p);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_worker *w = arg;

	(void)fd;
	(void)what;
	sweep(w);
	if (w->stop_at_ns)
		end_conns(w); /* requests that were under way have become idle connections */
	if (w->stop_at_ns && weir_http_now_ns() >= w->stop_at_ns) {
		cut_all(w);
		on_reap(-1, 0, w);
	}
	if (w->own->n_conns || w->stop_at_ns)
		next_tick(w);
}

/* --- plans ---- */

static void follow(struct weir_http_worker *w, const struct weir_http_plan *plan)
{
	w->settings = plan->settings;
	for (struct weir_http_port *p = w->ports; p; p = p->next) {
		size_t i = 0;

		while (i < plan->n && plan->port[i].listen != p->listen)
			i++;
		if (i < plan->n)
			p->settings = plan->port[i].settings;
		else if (!p->closing)
			close_port(p);
	}
	for (size_t i = 0; i < plan->n; i++) {
		struct weir_http_port *p = plan->port[i].fresh;

		if (!p)
			continue;
		p->settings = plan->port[i].settings;
		p->next = w->ports;
		w->ports = p;
		if (p->ready)
			(void)event_add(p->ready, NULL);
		if (!w->own->paused && event_add(p->accept, NULL) < 0)
			weir_log(WEIR_LOG_ERROR, "cannot_accept", "listen", "s", p->listen->name,
				 NULL);
	}
	if (plan->stop) {
		w->stop_at_ns = weir_http_now_ns() + STOP_NS;
		next_tick(w);
	}
	end_conns(w);
	event_active(w->own->reap, EV_TIMEOUT, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_worker *w = arg;
	const struct weir_http_plan *plan;
	__u64 n;

	(void)what;
	(void)!read(fd, &n, sizeof(n)); /* EAGAIN: nothing to clear */
	w->now_ns = weir_http_now_ns();
	take_handed(w);
	pthread_mutex_lock(&w->own->lock);
	plan = w->own->plan;
	pthread_mutex_unlock(&w->own->lock);
	if (!plan)
		return;
	follow(w, plan);
	pthread_mutex_lock(&w->own->lock);
	w->own->plan = NULL;
	pthread_cond_signal(&w->own->applied);
	pthread_mutex_unlock(&w->own->lock);
}

void weir_http_worker_apply(struct weir_http_worker *w, const struct weir_http_plan *plan)
{
	if (!w->own->running) { /* not yet, or the agent's own loop: this is its thread */
		follow(w, plan);
		return;
	}
	pthread_mutex_lock(&w->own->lock);
	w->own->plan = plan;
	poke(w);
	while (w->own->plan)
		pthread_cond_wait(&w->own->applied, &w->own->lock);
	pthread_mutex_unlock(&w->own->lock);
}

/* --- from beginning to end ---- */

static void *run(void *arg)
{
	struct weir_http_worker *w = arg;
	char name[16];

	(void)snprintf(name, sizeof(name), "weir-http-%u", w->index);
	(void)pthread_setname_np(pthread_self(), name); /* for people */
	(void)event_base_loop(w->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

int weir_http_worker_start(struct weir_http_worker *w, struct weir_error *e)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all); /* signals are the main thread's */
	r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r == 0) {
		w->own->running = true;
		r = pthread_create(&w->own->thread, NULL, run, w);
		(void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was in force */
	}
	if (r) {
		w->own->running = false;
		return weir_error_set(e, -r, "http: cannot start worker %u: %s", w->index,
				      strerror(r));
	}
	return 0;
}

static int make_events(struct weir_http_worker *w)
{
	struct weir_http_worker_own *o = w->own;

	o->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	o->hold_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	o->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (o->wake_fd < 0 || o->hold_fd < 0 || o->reserve_fd < 0)
		return -errno;
	o->wake = event_new(w->base, o->wake_fd, EV_READ | EV_PERSIST, on_wake, w);
	o->hold = event_new(w->base, o->hold_fd, EV_READ | EV_PERSIST, on_hold, w);
	o->tick = event_new(w->base, -1, 0, on_tick, w);
	o->resume = event_new(w->base, -1, 0, on_resume, w);
	o->reap = event_new(w->base, -1, 0, on_reap, w);
	if (!o->wake || !o->hold || !o->tick || !o->resume || !o->reap ||
	    event_add(o->wake, NULL) < 0 || event_add(o->hold, NULL) < 0)
		return -ENOMEM;
	return 0;
}

int weir_http_worker_new(struct weir_http *h, unsigned index, struct event_base *base,
			 struct weir_http_worker **ret, struct weir_error *e)
{
	struct weir_http_worker *w = calloc(1, sizeof(*w));
	int r = -ENOMEM;

	if (!w)
		goto failed;
	w->http = h;
	w->index = index;
	w->settings = h->settings;
	w->own = calloc(1, sizeof(*w->own));
	if (!w->own)
		goto failed;
	w->own->wake_fd = w->own->hold_fd = w->own->reserve_fd = -1;
	pthread_mutex_init(&w->own->lock, NULL);
	pthread_cond_init(&w->own->applied, NULL);
	w->base = base ? base : event_base_new();
	if (!w->base)
		goto failed;
	r = base ? 0 : weir_l7_worker_new(h->l7, w->base, &w->l7);
	if (r == 0)
		r = make_events(w);
	if (r < 0)
		goto failed;
	*ret = w;
	return 0;
failed:
	if (w)
		weir_http_worker_free(w);
	return weir_error_set(e, r, "http: cannot make a worker: %s", strerror(-r));
}

static void free_event(struct event *ev)
{
	if (ev)
		event_free(ev);
}

void weir_http_worker_free(struct weir_http_worker *w)
{
	struct weir_http_worker_own *o = w->own;

	if (o && o->running)
		(void)pthread_join(o->thread, NULL); /* it was told to stop */
	if (o) {
		take_handed(w); /* closes them: no port is left */
		cut_all(w);
		while (w->ports) {
			struct weir_http_port *p = w->ports;

			w->ports = p->next;
			weir_http_port_free(p);
		}
		free_event(o->wake);
		free_event(o->hold);
		free_event(o->tick);
		free_event(o->resume);
		free_event(o->reap);
		closep(&o->wake_fd);
		closep(&o->hold_fd);
		closep(&o->reserve_fd);
		free(o->heap);
		pthread_cond_destroy(&o->applied);
		pthread_mutex_destroy(&o->lock);
	}
	weir_l7_worker_free(w->l7);
	if (w->base && w->index != WEIR_HTTP_WORKERS_MAX) /* the pages' loop is the agent's */
		event_base_free(w->base);
	free(o);
	free(w);
}

int weir_http_port_new(struct weir_http_worker *w, struct weir_http_listen *l,
		       struct weir_http_port **ret, struct weir_error *e)
{
	struct weir_http_port *p = calloc(1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;

	if (p) {
		p->worker = w;
		p->listen = l;
		weir_http_listen_ref(l);
		p->accept = event_new(w->base, l->fd, EV_READ | EV_PERSIST, on_accept, p);
		if (!p->accept)
			r = -ENOMEM;
	}
	if (r == 0 && !l->spoe)
		r = weir_http_mhd_open(p);
	if (r < 0) {
		weir_http_port_free(p);
		return weir_error_set(e, r, "http.listeners: %s: %s", l->listen, strerror(-r));
	}
	*ret = p;
	return 0;
}

void weir_http_port_free(struct weir_http_port *p)
{
	if (!p)
		return;
	weir_http_mhd_close(p);
	free_event(p->accept);
	weir_http_listen_unref(p->listen);
	free(p);
}
