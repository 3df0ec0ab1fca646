/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Absolute deadlines of requests and idle connections: libmicrohttpd knows idle time only. Called by the worker's loop
 * and, for each connection that comes or goes, by mhd.c.
 *
 * All connections are gone round in a quarter of the deadline, which costs a request nothing. What will be late before
 * its next turn goes into the heap of hold.c, so that it is cut when its time has come and not when its turn has.
 *
 * When a request begins is known for certain once its request line is whole. Before that the library says nothing, so a
 * connection that is idle in its turn is asked for bytes that no request has used (TCP; the kernel counts them), and then
 * watched for its next byte, once. What is not seen so: the first bytes of a request which come before the first turn
 * after another one. On TCP they count from the last of them at that turn, so at most a quarter of the deadline late;
 * on a Unix socket from the next byte, and where there is none, the connection ends as an idle one does.
 */
#include <linux/tcp.h> /* the C library's tcp_info has no count of bytes */
#include <netinet/in.h>
#include <sys/socket.h>

#include "user/http/worker_int.h"

#define STOP_STEP_NS 10000000ull
#define TURNS	     10 /* ticks between two visits of a connection: 8, and to spare */

static __u64 tick_ns(const struct weir_http_worker *w)
{
	__u64 t = w->settings->request_deadline_ns / 32;

	if (w->stop_at_ns)
		return STOP_STEP_NS;
	return t < 5000000ull ? 5000000ull : t > 250000000ull ? 250000000ull : t;
}

void weir_http_next_tick(struct weir_http_worker *w)
{
	__u64 t = tick_ns(w);
	struct timeval tv = {.tv_sec = (time_t)(t / 1000000000ull),
			     .tv_usec = (suseconds_t)(t % 1000000000ull / 1000)};

	(void)event_add(w->own->tick, &tv);
}

/* --- when a request begins ---- */

static void begins_at(struct weir_http_conn *c, __u64 ns)
{
	c->partial = true;
	if (ns > c->since_ns)
		c->since_ns = ns;
}

static void on_byte(evutil_socket_t fd, short what, void *arg)
{
	struct weir_http_conn *c = arg;

	(void)fd;
	(void)what;
	c->watched = false;
	/* else it was of a request that is there as a whole by now */
	if (c->phase == WEIR_HTTP_IDLE && c->requests == c->watched_at && !c->partial)
		begins_at(c, weir_http_now_ns());
}

/* @c has no byte of a request, as far as is known; the next one is told. */
static void watch(struct weir_http_conn *c)
{
	if (!c->begins)
		c->begins = event_new(c->port->worker->base, c->fd, EV_READ, on_byte, c);
	c->watched_at = c->requests;
	if (!c->watched && c->begins) /* else as if it were seen at the next turn */
		c->watched = event_add(c->begins, NULL) == 0;
}

/* Have bytes come in that are of no request which is over? */
static void look_for_bytes(struct weir_http_conn *c, __u64 now)
{
	struct tcp_info i = {.tcpi_state = 0};
	socklen_t n = sizeof(i);

	if (c->is_unix || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &n) < 0)
		return;
	if (c->uncounted) {
		c->consumed = i.tcpi_bytes_received;
		c->uncounted = false;
	}
	if (i.tcpi_bytes_received > c->consumed)
		begins_at(c, now - i.tcpi_last_data_recv * 1000000ull);
}

/* --- when it is late ---- */

/* When nobody should wait for @c any longer; 0: its end is ours to decide. */
static __u64 late_at(const struct weir_http_conn *c, const struct weir_http_settings *s)
{
	switch (c->phase) {
	case WEIR_HTTP_IDLE:
		if (!c->partial)
			return c->since_ns + (c->requests ? WEIR_HTTP_IDLE_NS : WEIR_HTTP_FRESH_NS);
		return c->since_ns + s->request_deadline_ns;
	case WEIR_HTTP_READING:
	case WEIR_HTTP_BODY:
	case WEIR_HTTP_WRITING:
		return c->since_ns + s->request_deadline_ns;
	case WEIR_HTTP_ASKED:
	case WEIR_HTTP_HELD:
	case WEIR_HTTP_ANSWERING:
		break;
	}
	return 0;
}

void weir_http_worker_judge(struct weir_http_worker *w, struct weir_http_conn *c)
{
	__u64 at = late_at(c, w->settings);

	if (!at || c->cut || at > w->now_ns)
		return;
	if (c->phase != WEIR_HTTP_IDLE || c->partial)
		weir_http_count(&w->counters.cut_by_deadline, 1);
	weir_http_conn_cut(c);
}

static void visit(struct weir_http_worker *w, struct weir_http_conn *c)
{
	__u64 at;

	if (c->phase == WEIR_HTTP_IDLE && !c->partial &&
	    !(c->watched && c->watched_at == c->requests)) {
		look_for_bytes(c, w->now_ns);
		if (!c->partial)
			watch(c);
	}
	at = late_at(c, w->settings);
	if (at && !c->cut && !c->timed && at > w->now_ns && at <= w->now_ns + TURNS * tick_ns(w))
		(void)weir_http_worker_time(w, c, at); /* no memory: its next turn is late enough */
	weir_http_worker_judge(w, c);
}

/* An eighth of all connections, so that this takes no time of others. */
void weir_http_sweep(struct weir_http_worker *w)
{
	struct weir_http_worker_own *o = w->own;
	size_t n = o->n_conns / 8 + 16;

	w->now_ns = weir_http_now_ns();
	for (size_t i = 0; i < n && i < o->n_conns; i++) {
		struct weir_http_conn *c = o->cursor ? o->cursor : o->conns;

		o->cursor = c->next;
		visit(w, c);
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
	if (c->is_unix)
		watch(c);
	if (!o->n_conns++)
		weir_http_next_tick(w);
}

void weir_http_worker_conn_gone(struct weir_http_worker *w, struct weir_http_conn *c)
{
	struct weir_http_worker_own *o = w->own;

	if (c->timed)
		weir_http_worker_untime(w, c);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (o->cursor == c)
		o->cursor = c->next;
	if (o->lines.of == c)
		o->lines.of = NULL;
	o->n_conns--;
}
