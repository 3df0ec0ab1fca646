/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Absolute deadlines of requests and idle connections, by going round: libmicrohttpd knows idle time only. Called by the
 * worker's loop and, for each connection that comes or goes, by mhd.c.
 *
 * What holds: a request line and its headers, body and answer each are cut off between one and one and a half times
 * http.request_deadline after their first byte. The first bytes of a request line, before its end, are seen on TCP only
 * (the kernel counts them there): a peer on a Unix socket, trusted by its mode, has the time of an idle connection for it.
 */
#include <linux/tcp.h> /* the C library's tcp_info has no count of bytes */
#include <netinet/in.h>
#include <sys/socket.h>

#include "user/http/worker_int.h"

#define STOP_STEP_NS 10000000ull

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
void weir_http_sweep(struct weir_http_worker *w)
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
		weir_http_next_tick(w);
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
