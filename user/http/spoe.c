/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HAProxy's SPOP connections in a worker's loop: sockets, deadlines, and an end that loses nothing. The protocol is
 * user/l7/spop.c, the questions are spoe_ask.c. Called by worker.c.
 *
 * Nothing in SPOP says who is speaking, and a NOTIFY names whatever client it likes. So only a Unix socket (trusted by
 * its mode), a peer among trusted_proxies or, where there are none, this host itself may connect.
 *
 * Memory of a connection: a frame, OUTPUT_MAX of output, INFLIGHT_MAX questions. A peer that sends faster than it reads
 * is read more slowly, and not at all while there is no room for its answers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "user/http/spoe_int.h"

#define READ_MAX     4096 /* bytes of one recv */
#define OUTPUT_MAX   (128 * 1024)
#define ACK_USUAL    1024 /* kept free for each question under way */
#define ACKS_A_BYTE  32 /* output that may come of one byte of input; beyond it the session ends */
#define READ_LEAST   64 /* with room for less nothing is read */
#define INFLIGHT_MAX 1024	  /* the smallest NOTIFYs of one recv are fewer than half of it */
#define GOODBYE_MAX  (256 * 1024) /* bytes still read once a session shall end */

static const struct weir_spop_limits limits = {
	.frame_max = WEIR_SPOP_FRAME_MAX,
	.output_max = OUTPUT_MAX,
	.inflight_max = INFLIGHT_MAX,
};

static bool would_block(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

void weir_spoe_conn_free(struct weir_spoe_conn *c)
{
	weir_spoe_notify_free(c->spare);
	weir_spop_free(c->spop);
	if (c->readable)
		event_free(c->readable);
	if (c->writable)
		event_free(c->writable);
	if (c->timer)
		event_free(c->timer);
	free(c);
}

/* May free @c, and the port. */
static void close_conn(struct weir_spoe_conn *c)
{
	struct weir_http_port *port = c->port;

	(void)event_del(c->readable); /* cannot fail for an event that exists */
	(void)event_del(c->writable);
	(void)event_del(c->timer);
	(void)close(c->fd);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->port = NULL;
	if (!c->open)
		weir_spoe_conn_free(c);
	weir_http_gone(port);
}

/* --- deadlines ---- */

static void arm(struct weir_spoe_conn *c, __u64 at_ns, __u64 now_ns)
{
	__u64 left_ns = at_ns > now_ns ? at_ns - now_ns : 0;
	struct timeval tv = {.tv_sec = (time_t)(left_ns / 1000000000),
			     .tv_usec = (suseconds_t)(left_ns % 1000000000 / 1000) + 1};

	c->timer_armed = event_add(c->timer, &tv) == 0;
}

static __u64 earliest(const struct weir_spoe_conn *c)
{
	if (!c->frame_by_ns || !c->write_by_ns)
		return c->frame_by_ns + c->write_by_ns;
	return c->frame_by_ns < c->write_by_ns ? c->frame_by_ns : c->write_by_ns;
}

/* What the peer owes, and until when. The timer is left alone where it is armed: it looks again when it fires. */
static void set_deadlines(struct weir_spoe_conn *c, size_t pending)
{
	bool owes = !c->lingering && weir_spop_waits(c->spop);
	__u64 now_ns, by_ns;

	if (!owes)
		c->frame_by_ns = 0;
	if (!pending && !c->lingering)
		c->write_by_ns = 0;
	if (!owes && !pending && !c->lingering)
		return;
	now_ns = weir_http_now_ns();
	by_ns = now_ns + c->worker->settings->request_deadline_ns;
	if (owes && (!c->frame_by_ns || c->frames != c->frames_at)) {
		c->frame_by_ns = by_ns;
		c->frames_at = c->frames;
	}
	if (!c->write_by_ns || (!c->lingering && !c->owed_bytes)) {
		c->write_by_ns = pending || c->lingering ? by_ns : 0;
		c->owed_bytes = pending;
	}
	if (!c->timer_armed && earliest(c))
		arm(c, earliest(c), now_ns);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct weir_spoe_conn *c = arg;
	__u64 now_ns = weir_http_now_ns(), at_ns = earliest(c);

	(void)fd; /* libevent's signature */
	(void)what;
	c->timer_armed = false;
	if (!at_ns)
		return;
	if (at_ns > now_ns) {
		arm(c, at_ns, now_ns);
		return;
	}
	if (!c->lingering)
		weir_http_count(&c->worker->counters.cut_by_deadline, 1);
	close_conn(c);
}

/* --- reading and writing ---- */

/* -EAGAIN: some is left; else 0 or why the connection is of no use any more. */
static int flush(struct weir_spoe_conn *c)
{
	const void *data;
	size_t left;

	while ((left = weir_spop_pending(c->spop, &data)) > 0) {
		ssize_t n = send(c->fd, data, left, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return would_block(errno) ? -EAGAIN : -errno;
		weir_spop_written(c->spop, (size_t)n);
		c->owed_bytes -= (size_t)n < c->owed_bytes ? (size_t)n : c->owed_bytes;
		if ((size_t)n < left)
			return -EAGAIN;
	}
	return 0;
}

/* How much may be read so that its answers have room. */
static size_t read_room(const struct weir_spoe_conn *c)
{
	const void *data;
	size_t kept = weir_spop_pending(c->spop, &data) + (size_t)c->open * ACK_USUAL;
	size_t room = kept < OUTPUT_MAX ? (OUTPUT_MAX - kept) / ACKS_A_BYTE : 0;

	if (c->open >= INFLIGHT_MAX / 2 || room < READ_LEAST)
		return 0;
	return room < READ_MAX ? room : READ_MAX;
}

static void report_end(struct weir_spoe_conn *c)
{
	__u32 status = weir_spop_end_status(c->spop);

	if (c->reported)
		return;
	c->reported = true;
	if (status == WEIR_SPOP_NORMAL)
		return;
	weir_http_count(&c->worker->counters.spop_errors, 1);
	weir_http_note(c->worker, WEIR_HTTP_NOTE_SPOP, c->port, weir_spop_status_text(status));
}

static void watch(struct event *e, bool wanted)
{
	if (wanted != (event_pending(e, EV_READ | EV_WRITE, NULL) != 0))
		(void)(wanted ? event_add(e, NULL) : event_del(e)); /* EPOLL_CTL on our own fd */
}

/* Writes what can be written, then watches for what comes next, or lets the connection end. May free @c. */
static void settle(struct weir_spoe_conn *c)
{
	const void *data;
	size_t pending;
	int r;

	if (c->ending && !c->open)
		weir_spop_end(c->spop, WEIR_SPOP_NORMAL);
	if (weir_spop_ended(c->spop))
		report_end(c);
	r = flush(c);
	if (r < 0 && r != -EAGAIN) {
		close_conn(c);
		return;
	}
	pending = weir_spop_pending(c->spop, &data);
	if (weir_spop_ended(c->spop) && !pending && !c->lingering) {
		c->lingering = true;		/* closing with input unread would take our last */
		c->write_by_ns = 0;		/* words from the peer (RST) */
		(void)shutdown(c->fd, SHUT_WR); /* fails only where the peer has left already */
	}
	watch(c->writable, pending > 0);
	watch(c->readable,
	      c->lingering || (!c->ending && !weir_spop_ended(c->spop) && read_room(c) > 0));
	set_deadlines(c, pending);
}

/* One recv. Returns what it did; 0: the peer has ended. */
static ssize_t take(struct weir_spoe_conn *c, size_t room)
{
	char buf[READ_MAX];
	ssize_t n = recv(c->fd, buf, room, MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (c->lingering || weir_spop_ended(c->spop))
		return n;
	c->feeding = true;
	(void)weir_spop_feed(c->spop, buf, (size_t)n); /* that it has ended is looked at later */
	c->feeding = false;
	return n;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct weir_spoe_conn *c = arg;
	size_t room = c->lingering ? READ_MAX : read_room(c);
	ssize_t n;

	(void)fd; /* libevent's signature */
	(void)what;
	if (room > 0) {
		n = take(c, room);
		if (n == 0 || (n < 0 && !would_block((int)-n))) {
			close_conn(c);
			return;
		}
	}
	settle(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd; /* libevent's signature */
	(void)what;
	settle(arg);
}

/* Not written at once: what else is answered in this turn of the loop goes with it. */
void weir_spoe_queued(struct weir_spoe_conn *c)
{
	event_active(c->writable, EV_WRITE, 0);
}

/* --- from the worker ---- */

static bool is_this_host(const struct weir_prefix *peer)
{
	static const union weir_addr one = {.ip = {[15] = 1}};

	if (peer->family == 4)
		return peer->addr.ip[0] == 127;
	return memcmp(&peer->addr, &one, sizeof(one)) == 0;
}

static bool may_connect(const struct weir_http_port *port, const struct weir_prefix *peer)
{
	if (!peer)
		return true;
	return port->settings->n_trusted ? weir_http_trusts(port, peer) : is_this_host(peer);
}

int weir_spoe_accept(struct weir_http_port *port, int fd, const struct weir_prefix *peer)
{
	struct weir_http_worker *w = port->worker;
	struct weir_spoe_conn *c;
	const int on = 1;
	int r;

	if (!may_connect(port, peer)) {
		weir_http_note(w, WEIR_HTTP_NOTE_UNTRUSTED, port,
			       "a peer that is not among trusted_proxies may not speak SPOP");
		return -EACCES;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->worker = w;
	c->fd = fd;
	r = weir_spop_new(&limits, weir_spoe_ask, c, &c->spop);
	if (r == 0) {
		c->readable = event_new(w->base, fd, EV_READ | EV_PERSIST, on_readable, c);
		c->writable = event_new(w->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
		c->timer = evtimer_new(w->base, on_timer, c);
	}
	if (r < 0 || !c->readable || !c->writable || !c->timer) {
		weir_spoe_conn_free(c);
		return r < 0 ? r : -ENOMEM;
	}
	if (peer) /* an answer is one small write, and its request waits for it */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->port = port;
	c->next = port->spoe;
	c->link = (struct weir_spoe_conn **)&port->spoe;
	if (c->next)
		c->next->link = &c->next;
	port->spoe = c;
	settle(c);
	return 0;
}

/* What has arrived already is still answered; what comes later, HAProxy asks another connection. */
static void end_conn(struct weir_spoe_conn *c)
{
	size_t most = GOODBYE_MAX, room;
	ssize_t n = 1;

	while (!c->lingering && most > 0 && (room = read_room(c)) > 0) {
		n = take(c, room);
		if (n <= 0)
			break;
		most -= (size_t)n < most ? (size_t)n : most;
		if (flush(c) < 0)
			break;
	}
	if (n == 0) {
		close_conn(c);
		return;
	}
	c->ending = true;
	settle(c);
}

void weir_spoe_end(struct weir_http_port *port)
{
	struct weir_spoe_conn *next;

	/* the port may go with its last connection */
	for (struct weir_spoe_conn *c = port->spoe; c; c = next) {
		next = c->next;
		end_conn(c);
	}
}

void weir_spoe_cut(struct weir_http_port *port)
{
	struct weir_spoe_conn *next;

	for (struct weir_spoe_conn *c = port->spoe; c; c = next) {
		next = c->next;
		close_conn(c);
	}
}
