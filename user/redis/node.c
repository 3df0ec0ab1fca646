/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A node's life: its connection comes and goes, failures open its breaker, probes close it. What is sent to it is
 * batch.c's. Made by topology.c.
 */
#include <event2/event.h>
#include <string.h>

#include "user/redis/redis_int.h"

void weir_redis_node_cause(struct weir_redis_node *n, const char *cause)
{
	char where[280], text[WEIR_REDIS_CAUSE_BYTES];

	(void)snprintf(text, sizeof(text), "%.60s: %.97s",
		       weir_redis_conn_where(&n->conn, where, sizeof(where)), cause);
	weir_redis_health_changed(n->s, n, text);
}

void weir_redis_node_failure(struct weir_redis_node *n, enum weir_far_error kind, unsigned count,
			     const char *cause)
{
	__u64 now_ns = weir_redis_now_ns();
	bool changed = false;

	weir_redis_count(&n->s->n.errors[kind], count);
	for (unsigned k = 0; k < count && k < n->breaker.errors; k++)
		changed |= weir_redis_breaker_failure(&n->breaker, now_ns);
	if (!changed)
		return;
	weir_redis_node_cause(n, cause);
	if (n->breaker.health != WEIR_FAR_OPEN)
		return;
	weir_redis_node_probe_soon(n);
	weir_redis_node_fail_waiting(n, -EHOSTDOWN);
}

void weir_redis_node_look(struct weir_redis_node *n)
{
	unsigned left = WEIR_REDIS_LOOKS_MAX;

	while (left-- && n->conn.state == WEIR_REDIS_CONN_READY && weir_hi_look(n->conn.ac))
		;
}

/* Time for a probe, or one has had its time. */
static void probe_now(evutil_socket_t fd, short what, void *arg)
{
	struct weir_redis_node *n = arg;

	(void)fd;
	(void)what;
	if (n->probing) { /* a late loop is no slow server: it is one if nothing has come yet */
		weir_redis_node_look(n);
		n->probe_slow = n->probing;
	} else if (n->breaker.health == WEIR_FAR_OPEN && n->conn.state == WEIR_REDIS_CONN_READY) {
		weir_redis_node_send_probe(n);
	}
}

static void arm_soon(struct weir_redis_node *n, __u64 ns)
{
	struct timeval t = {.tv_sec = (time_t)(ns / 1000000000),
			    .tv_usec = (long)(ns % 1000000000 / 1000)};

	(void)event_add(n->soon, &t); /* a timer that is there: nothing is allocated */
}

void weir_redis_node_probe_soon(struct weir_redis_node *n)
{
	__u64 most_ns = n->s->o.probe_ns, ns = n->soon_ns ? n->soon_ns : WEIR_REDIS_BACKOFF_NS;

	if (ns >= most_ns)
		return; /* the tick comes */
	n->soon_ns = 2 * ns;
	arm_soon(n, ns);
}

void weir_redis_node_begin_probe(struct weir_redis_node *n)
{
	n->probing = true;
	n->probe_slow = false;
	arm_soon(n, WEIR_REDIS_PROBE_TIMEOUTS * n->s->o.timeout_ns);
}

void weir_redis_node_end_probe(struct weir_redis_node *n)
{
	if (n->probing)
		(void)event_del(n->soon);
	n->probing = false;
}

static bool is_stuck(const struct weir_redis_node *n, __u64 now_ns)
{
	__u64 stuck_ns = n->s->o.probe_ns;

	if (stuck_ns < 2 * n->s->o.timeout_ns)
		stuck_ns = 2 * n->s->o.timeout_ns;
	return n->oldest && n->oldest->sent_ns + stuck_ns < now_ns;
}

void weir_redis_node_tick(struct weir_redis_node *n, __u64 now_ns)
{
	if (weir_redis_breaker_tick(&n->breaker, now_ns)) {
		n->soon_ns = 0;
		weir_redis_health_changed(n->s, n, "no failure for a while");
	}
	if (is_stuck(n, now_ns))
		weir_redis_node_look(n);
	if (n->conn.state != WEIR_REDIS_CONN_READY)
		return;
	if (is_stuck(n, now_ns))
		weir_redis_conn_fail(&n->conn, "no reply for %llu ms",
				     (now_ns - n->oldest->sent_ns) / 1000000);
	else if (n->breaker.health == WEIR_FAR_OPEN && !n->probing)
		weir_redis_node_send_probe(n);
}

static void up(void *arg)
{
	struct weir_redis_node *n = arg;

	weir_redis_count(&n->s->n.reconnects, 1);
	n->loads++;
	if (n->breaker.health == WEIR_FAR_OPEN)
		weir_redis_node_send_probe(n);
	else
		weir_redis_flush_soon(n->s);
	weir_redis_topology_up(n->s->topology, n);
}

static void down(void *arg, const char *cause)
{
	struct weir_redis_node *n = arg;

	weir_redis_count(&n->s->n.errors[WEIR_FAR_ERROR_CONNECT], 1);
	weir_redis_node_end_probe(n);
	(void)weir_redis_breaker_down(&n->breaker, weir_redis_now_ns());
	weir_redis_health_changed(n->s, n, cause); /* or the cause alone */
	weir_redis_node_fail_waiting(n, -EHOSTDOWN);
	weir_redis_topology_doubt(n->s->topology, n);
}

int weir_redis_node_new(struct weir_redis *s, struct weir_redis_node **ret)
{
	struct weir_redis_node *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return -ENOMEM;
	n->s = s;
	n->soon = evtimer_new(s->base, probe_now, n);
	r = n->soon ? weir_redis_conn_init(&n->conn, s) : -ENOMEM;
	if (r >= 0)
		r = weir_redis_breaker_init(&n->breaker, s->o.breaker_errors,
					    s->o.breaker_within_ns);
	if (r < 0) {
		weir_redis_node_free(n);
		return r;
	}
	n->conn.up = up;
	n->conn.down = down;
	n->conn.arg = n;
	*ret = n;
	return 0;
}

void weir_redis_node_free(struct weir_redis_node *n)
{
	if (!n)
		return;
	weir_redis_conn_done(&n->conn);
	weir_redis_node_fail_waiting(n, -EHOSTDOWN);
	weir_redis_breaker_done(&n->breaker);
	if (n->soon)
		event_free(n->soon);
	free(n);
}
