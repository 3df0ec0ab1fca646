/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer in the agent's hands: engine and listeners made before anything is in force, started after it,
 * changed by a reload together with the packet layer or not at all, and what its workers tell. Called by start.c,
 * force.c and the loop.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/agent/shared.h"
#include "user/base/log.h"
#include "user/base/str.h"

#define EVENTS_AT_ONCE 256 /* then the loop has its turn */
#define OTHER_FILES    512 /* maps, sockets, files, stores: all but proxies' connections */

static void take_refusal(struct weir_agent *a, const struct weir_l7_event *event)
{
	const struct weir_event_record *r;

	r = weir_events_record_request(a->events, event, NULL, NULL, a->conf->events_per_second,
				       weir_clock_ns(CLOCK_MONOTONIC));
	if (r)
		weir_agent_tell(a, r);
}

static void on_events(evutil_socket_t fd, short what, void *arg)
{
	struct weir_agent *a = arg;
	struct weir_l7_event event;
	int i;

	(void)fd;
	(void)what;
	for (i = 0; i < EVENTS_AT_ONCE && weir_l7_events_take(a->l7, &event); i++) {
		if (event.kind == WEIR_L7_EVENT_ESCALATE)
			weir_agent_escalate(a, &event);
		else
			take_refusal(a, &event);
	}
	if (i == EVENTS_AT_ONCE)
		event_active(a->l7_events, EV_READ, 0); /* the descriptor may be quiet already */
}

/* Services begin with 1024 files, of which they may have many more if they ask. */
static void make_room_for_files(const struct weir_conf *conf)
{
	rlim_t need = (rlim_t)conf->request.connections + OTHER_FILES;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= need)
		return;
	files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
	if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur == need)
		return;
	weir_log(WEIR_LOG_WARNING, "note", "what", "s",
		 "so many files may not be open here that http.connections could be reached "
		 "(LimitNOFILE of the service, ulimit -Hn)",
		 "files", "u", (unsigned long long)files.rlim_cur, "wanted", "u",
		 (unsigned long long)need, NULL);
}

int weir_agent_open_requests(struct weir_agent *a, const struct weir_conf *conf,
			     struct weir_error *e)
{
	struct weir_l7_options o = {};
	const char *why;
	int r;

	if (!weir_agent_wants_requests(conf))
		return 0;
	make_room_for_files(conf);
	weir_shared_options(a->shared, &o);
	r = weir_l7_new(conf, &o, &a->l7, e);
	if (r < 0) {
		weir_agent_stop_requests(a);
		return r;
	}
	weir_agent_give_secret(a);
	r = weir_l7_worker_new(a->l7, NULL, &a->asker);
	why = weir_shared_why(a->shared);
	if (r < 0)
		(void)weir_error_set(e, r, "%s: %s", *why ? "store" : "request layer",
				     *why ? why : strerror(-r));
	if (r == 0)
		r = weir_http_open(conf, a->l7, &a->http, e);
	if (r == 0)
		r = weir_http_serve_pages(a->http, a->base, weir_agent_page, a, e);
	if (r == 0) {
		a->l7_events = event_new(a->base, weir_l7_events_fd(a->l7), EV_READ | EV_PERSIST,
					 on_events, a);
		if (!a->l7_events || event_add(a->l7_events, NULL) < 0)
			r = weir_error_set(e, -ENOMEM, "out of memory");
	}
	if (r < 0)
		weir_agent_stop_requests(a);
	return r;
}

int weir_agent_start_requests(struct weir_agent *a, struct weir_error *e)
{
	int r;

	if (!a->http || a->http_started)
		return 0;
	r = weir_http_start(a->http, e);
	a->http_started = r == 0;
	return r;
}

void weir_agent_stop_requests(struct weir_agent *a)
{
	if (a->l7_events)
		event_free(a->l7_events);
	a->l7_events = NULL;
	if (a->http)
		weir_http_free(TAKE_PTR(a->http));
	a->http_started = false;
	if (a->asker)
		weir_l7_worker_free(TAKE_PTR(a->asker));
	if (a->l7)
		weir_l7_free(TAKE_PTR(a->l7));
	memset(&a->request, 0, sizeof(a->request));
	memset(&a->http_seen, 0, sizeof(a->http_seen));
}

/* The first listeners and limits of a running agent. */
static int open_late(struct weir_agent *a, const struct weir_conf *conf, struct weir_error *e)
{
	int r = weir_agent_open_requests(a, conf, e);

	if (r == 0 && a->l7)
		weir_l7_set_mode(a->l7, weir_agent_mode(a, conf));
	if (r == 0)
		r = weir_agent_start_requests(a, e);
	if (r < 0)
		weir_agent_stop_requests(a);
	return r;
}

int weir_agent_change_requests(struct weir_agent *a, const struct weir_conf *conf, bool listeners,
			       struct weir_error *e)
{
	_cleanup_free_ char *note = NULL;
	int r;

	if (!a->l7)
		return open_late(a, conf, e);
	make_room_for_files(conf);
	r = weir_l7_configure(a->l7, conf, &note, e);
	if (r < 0)
		return r;
	weir_l7_set_mode(a->l7, weir_agent_mode(a, conf));
	if (note)
		weir_log(WEIR_LOG_WARNING, "note", "what", "s", note, NULL);
	if (listeners) {
		r = weir_http_configure(a->http, conf, e);
		if (r < 0)
			weir_agent_undo_requests(a, false);
	}
	return r;
}

void weir_agent_undo_requests(struct weir_agent *a, bool listeners)
{
	_cleanup_free_ char *note = NULL;
	struct weir_error e = {};
	int r = 0;

	if (!a->l7)
		return;
	if (!weir_agent_wants_requests(a->conf)) {
		weir_agent_stop_requests(a); /* it was just made */
		return;
	}
	if (listeners)
		r = weir_http_configure(a->http, a->conf, &e);
	if (r < 0)
		weir_log(WEIR_LOG_ERROR, "going-back-failed", "what", "s", "listeners", "why", "s",
			 e.text, NULL);
	r = weir_l7_configure(a->l7, a->conf, &note, &e);
	if (r < 0)
		weir_log(WEIR_LOG_ERROR, "going-back-failed", "what", "s", "request limits", "why",
			 "s", e.text, NULL);
	weir_l7_set_mode(a->l7, weir_agent_mode(a, a->conf));
}

void weir_agent_tick_requests(struct weir_agent *a, const struct weir_now *now)
{
	struct weir_http_stats http = {};

	if (!a->l7)
		return;
	weir_l7_sweep(a->l7);
	weir_request_meter_update(&a->request, a->l7, now->mono_ns, now->wall_s);
	weir_http_stats(a->http, &http);
	weir_acting_update(&a->untrusted,
			   http.untrusted_forwarded > a->http_seen.untrusted_forwarded,
			   now->wall_s);
	weir_acting_update(&a->pathless,
			   http.no_address + http.no_target >
				   a->http_seen.no_address + a->http_seen.no_target,
			   now->wall_s);
	a->http_seen = http;
}

void weir_agent_suspect(struct weir_agent *a, const char *limit, const struct weir_prefix *source)
{
	if (a->l7 && weir_l7_wants_suspects(a->l7, limit))
		weir_l7_suspect(a->l7, source);
}

const char *weir_agent_listeners_text(struct weir_agent *a, char *buf, size_t size)
{
	struct weir_http_listener l[WEIR_LISTENERS_MAX];
	size_t n = a->http ? weir_http_listeners(a->http, l, ARRAY_LEN(l)) : 0, at = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n && i < ARRAY_LEN(l) && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s %s", i ? ", " : "", l[i].listen,
				       weir_profile_name(l[i].profile));
	return buf;
}
