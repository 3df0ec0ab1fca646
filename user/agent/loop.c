/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the agent's loop does: signals, the tick, addresses that change, packet events. Called by start.c and libevent. */
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct weir_agent *a = arg;
	struct weir_error e = {};

	(void)what;
	if (number == SIGHUP)
		(void)weir_agent_reload(a, 0, NULL, &e); /* logged, and shown by status */
	else if (number != SIGPIPE)
		weir_agent_stop(a);
}

static void tick_packets(struct weir_agent *a, const struct weir_now *now)
{
	struct weir_counters c;

	if (!a->dp || weir_datapath_counters(a->dp, &c) < 0)
		return;
	weir_meter_update(&a->meter, &c, now->mono_ns);
	for (int i = 0; i < WEIR_STATS_MAX; i++)
		weir_acting_update(&a->acting[i],
				   a->meter.now.limit[i].over.packets >
					   a->meter.before.limit[i].over.packets,
				   now->wall_s);
}

void weir_agent_tick(struct weir_agent *a)
{
	struct weir_now now = weir_now();

	tick_packets(a, &now);
	weir_agent_tick_requests(a, &now);
	weir_agent_follow_clock(a, &now);
	weir_agent_deadlines(a, &now);
	weir_agent_expire(a, &now);
	weir_agent_reconcile(a, &now);
	weir_agent_store_again(a, &now);
	weir_agent_tick_fleet(a, &now);
	if (a->admin)
		weir_admin_tick(a->admin, now.mono_ns);
	for (int i = 0; i < WEIR_SESSIONS_MAX; i++)
		if (a->session[i].until_ns && a->session[i].until_ns <= now.mono_ns) {
			a->session[i].until_ns = 0;
			a->rescan_wanted = true;
		}
	if (a->rescan_wanted && a->rescan) {
		struct timeval soon = {.tv_usec = 200000};

		a->rescan_wanted = false;
		(void)event_add(a->rescan, &soon); /* without memory: at the next change */
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	weir_agent_tick(arg);
}

/* Addresses, routes or links have changed and been quiet for a moment. */
static void on_rescan(evutil_socket_t fd, short what, void *arg)
{
	struct weir_agent *a = arg;

	(void)fd;
	(void)what;
	if (weir_agent_refresh_guards(a) < 0)
		a->rescan_wanted = true;
	if (a->link_changed && !a->detached)
		(void)weir_agent_attach_missing(a); /* logged; the next link message tries again */
	a->link_changed = false;
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
	static char buf[1 << 15] __attribute__((aligned(8)));
	struct weir_agent *a = arg;
	struct timeval soon = {.tv_usec = 200000};
	bool guards = false;

	(void)what;
	for (int i = 0; i < 64; i++) { /* the rest at the next turn of the loop */
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0 && errno == ENOBUFS) {
			guards = a->link_changed =
				true; /* messages were lost: look at everything */
			continue;
		}
		if (n <= 0)
			break;
		for (const struct nlmsghdr *h = (const void *)buf; NLMSG_OK(h, n);
		     h = NLMSG_NEXT(h, n))
			guards = weir_guard_concerns(h, (size_t)n, &a->link_changed) || guards;
	}
	if ((guards || a->link_changed) && !event_pending(a->rescan, EV_TIMEOUT, NULL))
		(void)event_add(a->rescan, &soon); /* without memory: at the next change */
}

/* A reader of our log that has stopped must not stop the agent. */
static bool can_write(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

void weir_agent_tell(struct weir_agent *a, const struct weir_event_record *r)
{
	if (can_write(STDERR_FILENO))
		weir_event_write(r);
	else
		a->events_unwritten++;
	if (a->admin && weir_admin_clients(a->admin)) {
		_cleanup_json_ json_t *line = json_object();

		weir_json_set(line, "event", weir_event_json(r));
		weir_admin_push(a->admin, r->limit[0] ? r->limit : NULL, line);
	}
}

/* Before the cap on log lines: what a source did counts whether it is written or not. */
static void suspect(struct weir_agent *a, const struct weir_event *event)
{
	const struct weir_limit_name *names = weir_datapath_names(a->dp);
	struct weir_prefix source = {.addr = event->src,
				     .family = event->family,
				     .len = event->family == 4 ? 32 : 128};

	if (names && event->stat < WEIR_STATS_MAX && names[event->stat].live && event->family)
		weir_agent_suspect(a, names[event->stat].name, &source);
}

static void on_event(void *arg, const struct weir_event *event)
{
	struct weir_agent *a = arg;
	__u64 wall_ns = weir_clock_ns(CLOCK_REALTIME), now_ns = weir_clock_ns(CLOCK_MONOTONIC);
	const struct weir_event_record *r;

	suspect(a, event);
	if (event->time_ns && event->time_ns < now_ns)
		wall_ns -= now_ns - event->time_ns;
	r = weir_events_record(a->events, event, weir_datapath_names(a->dp),
			       a->conf->events_per_second, now_ns, (__s64)(wall_ns / 1000000));
	if (r)
		weir_agent_tell(a, r);
}

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
	struct weir_agent *a = arg;

	(void)fd;
	(void)what;
	(void)weir_datapath_events_consume(a->dp); /* an empty ring is no failure */
}

static int add_event(struct event *ev, const struct timeval *t)
{
	return ev && event_add(ev, t) == 0 ? 0 : -ENOMEM;
}

static int set_up_packet_events(struct weir_agent *a, struct weir_error *e)
{
	int r;

	a->watch = event_new(a->base, a->watch_fd, EV_READ | EV_PERSIST, on_watch, a);
	r = add_event(a->watch, NULL);
	if (r == 0)
		r = weir_agent_sweep_start(a);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	r = weir_datapath_events_open(a->dp, on_event, a, e);
	if (r < 0)
		return r;
	a->ring = event_new(a->base, weir_datapath_events_fd(a->dp), EV_READ | EV_PERSIST, on_ring,
			    a);
	return add_event(a->ring, NULL) < 0 ? weir_error_set(e, -ENOMEM, "out of memory") : 0;
}

int weir_agent_set_up_loop(struct weir_agent *a, struct weir_error *e)
{
	static const int signals[] = {SIGHUP, SIGTERM, SIGINT, SIGPIPE};
	struct timeval second = {.tv_sec = 1};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(signals) && r == 0; i++) {
		a->signals[i] = evsignal_new(a->base, signals[i], on_signal, a);
		r = add_event(a->signals[i], NULL);
	}
	a->tick = event_new(a->base, -1, EV_PERSIST, on_tick, a);
	a->rescan = evtimer_new(a->base, on_rescan, a);
	if (r == 0)
		r = a->rescan ? add_event(a->tick, &second) : -ENOMEM;
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	return a->dp ? set_up_packet_events(a, e) : 0;
}
