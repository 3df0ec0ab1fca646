/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections that are looked at when their time has come: a heap by time, and one timer for the earliest. Held answers
 * (ask.c), and requests that are nearly at their deadline (deadline.c). Called by them and the worker's loop.
 */
#include <sys/timerfd.h>

#include "user/http/worker_int.h"

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

int weir_http_worker_time(struct weir_http_worker *w, struct weir_http_conn *c, __u64 due_ns)
{
	struct weir_http_worker_own *o = w->own;

	if (c->timed)
		weir_http_worker_untime(w, c);
	if (o->n_heap == o->heap_max) {
		size_t max = o->heap_max ? 2 * o->heap_max : 64;
		struct weir_http_conn **heap = reallocarray(o->heap, max, sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		o->heap = heap;
		o->heap_max = max;
	}
	c->due_ns = due_ns;
	c->timed = true;
	o->heap[o->n_heap] = c;
	heap_up(o, o->n_heap++);
	arm(o);
	return 0;
}

int weir_http_worker_hold(struct weir_http_worker *w, struct weir_http_conn *c, __u64 due_ns)
{
	int r = weir_http_worker_time(w, c, due_ns);

	if (r == 0)
		weir_http_count(&w->counters.held, 1);
	return r;
}

/* Who waits has a connection all the time: where queues are many, few clients could take them all. So half of them (a
 * worker's share of it) is kept for answers that are not held; over it, no place in a queue is given to wait at.
 */
bool weir_http_worker_may_hold(const struct weir_http_worker *w)
{
	__u64 held = atomic_load_explicit(&w->counters.held, memory_order_relaxed);

	return held * 2 * w->http->n_workers < w->settings->connections_max;
}

void weir_http_worker_untime(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;
	struct weir_http_conn *last = o->heap[--o->n_heap];
	size_t i = c->heap_at;

	if (last != c) {
		heap_put(o, i, last);
		heap_up(o, i);
		heap_down(o, last->heap_at);
	}
	c->timed = false;
	arm(o);
}

void weir_http_worker_unhold(struct weir_http_worker *w, struct weir_http_conn *c)
{
	weir_http_worker_untime(w, c);
	weir_http_count(&w->counters.held, -1);
}

void weir_http_run_resumed(struct weir_http_worker *w)
{
	for (struct weir_http_port *p = w->ports; p; p = p->next)
		if (p->run)
			weir_http_mhd_run(p);
}

void weir_http_on_hold(evutil_socket_t fd, short what, void *arg)
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

		if (c->phase == WEIR_HTTP_HELD) {
			weir_http_worker_unhold(w, c);
			weir_http_conn_release(c);
		} else {
			weir_http_worker_untime(w, c);
			weir_http_worker_judge(w, c);
		}
	}
	arm(o);
	weir_http_run_resumed(w);
}
