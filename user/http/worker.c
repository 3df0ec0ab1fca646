/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One worker: a thread with an event loop, what is in force in it, and its end. Called by http.c (main thread). */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "user/base/log.h"
#include "user/http/worker_int.h"

#define STOP_NS 1000000000ull

struct weir_http_lines *weir_http_worker_lines(struct weir_http_worker *w)
{
	return &w->own->lines;
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
	weir_http_run_resumed(w);
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
	weir_http_sweep(w);
	if (w->stop_at_ns)
		end_conns(w); /* requests that were under way have become idle connections */
	if (w->stop_at_ns && weir_http_now_ns() >= w->stop_at_ns) {
		cut_all(w);
		on_reap(-1, 0, w);
	}
	if (w->own->n_conns || w->stop_at_ns)
		weir_http_next_tick(w);
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
		weir_http_next_tick(w);
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
	weir_http_take_handed(w);
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
	weir_http_poke(w);
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
	o->hold = event_new(w->base, o->hold_fd, EV_READ | EV_PERSIST, weir_http_on_hold, w);
	o->tick = event_new(w->base, -1, 0, on_tick, w);
	o->resume = event_new(w->base, -1, 0, weir_http_on_resume, w);
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
		weir_http_take_handed(w); /* closes them: no port is left */
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
		p->accept = event_new(w->base, l->fd, EV_READ | EV_PERSIST, weir_http_on_accept, p);
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
