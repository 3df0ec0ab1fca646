/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packet limits with scope: fleet on this host: reads what they let through from the source tables in passes, of which one
 * ends right before each window does, tells the fleet, and blocks on all hosts whom the fleet finds over. Called by start.c,
 * whenever limits change, and by a timer of its own; without such limits there is neither a timer nor a pass.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/agent/shared.h"
#include "user/base/log.h"
#include "user/base/str.h"
#include "user/datapath/compile.h"
#include "user/fleet/sources.h"

#define SLICE_NS    1000000ull /* of reading in one turn of the loop */
#define SLICE_MIN   64u
#define SLICE_FIRST 4096u
#define AHEAD_NS    5000000ull /* a pass ends so long before its window: timers are late */
#define BLOCKS_MAX  (WEIR_LIST_ROOM / 2) /* the rest is for people and escalations */
#define ORIGIN	    "fleet"		 /* of block entries: "fleet:LIMIT" */

struct weir_fleet_watch {
	struct weir_agent *a;
	struct weir_fleet_sources *s;
	struct event *timer;
	unsigned n, of[WEIR_LIMITS_MAX]; /* index in the policy of each that counts */
	__u8 index[WEIR_LIMITS_MAX];	 /* and the other way round */
	bool monitor[WEIR_LIMITS_MAX];
	struct weir_count_scan at;
	__u32 slice; /* buckets */
	bool reads;  /* a pass is under way */
	__u64 pass_ns, began_ns, took_ns, passes;
	__u64 blocked, would, refused;
};

/* --- whom the fleet finds over ---- */

static int by_time(const void *a, const void *b)
{
	const struct weir_fleet_over *x = a, *y = b;

	return (x->block_ms > y->block_ms) - (x->block_ms < y->block_ms);
}

/* Is it blocked by that origin for about as long already? Another host was faster. */
static bool is_blocked(struct weir_agent *a, const struct weir_fleet_key *key, const char *origin,
		       __u64 end_ms)
{
	struct weir_fleet_entry e[WEIR_FLEET_ORIGINS_MAX];
	size_t n = weir_fleet_get(a->fleet, key, e);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(e[i].origin, origin) && (!e[i].end_ms || e[i].end_ms + 1000 >= end_ms))
			return true;
	return false;
}

static void tell(struct weir_fleet_watch *w, const char *limit, const struct weir_prefix *source,
		 bool monitor, const char *why)
{
	struct weir_l7_event told = {.wall_ms = (__s64)(weir_clock_ns(CLOCK_REALTIME) / 1000000),
				     .has_client = true,
				     .client = *source};

	(void)weir_str_copy(told.limit, sizeof(told.limit), limit); /* a limit's name */
	weir_agent_tell(w->a,
			weir_events_record_request(w->a->events, &told,
						   monitor ? "would-block-fleet" : "block-fleet",
						   why, 0, weir_clock_ns(CLOCK_MONOTONIC)));
}

/* @n of about the same time, in one change. */
static void block(struct weir_fleet_watch *w, const char *limit, const struct weir_fleet_over *over,
		  size_t n)
{
	struct weir_fleet_key key[WEIR_FLEET_OVER_MAX];
	char origin[WEIR_FLEET_NAME_MAX], span[WEIR_STR_MAX], why[160];
	struct weir_fleet_entry entry = {.origin = origin,
					 .host = "",
					 .who = "weir",
					 .reason = "more than its limit on all hosts together"};
	struct weir_agent *a = w->a;
	struct weir_error e = {};
	size_t n_keys = 0;
	int r;

	(void)snprintf(origin, sizeof(origin), ORIGIN ":%s", limit);
	entry.end_ms = weir_fleet_now_ms(a->fleet) + over[n - 1].block_ms;
	for (size_t i = 0; i < n; i++) {
		struct weir_fleet_key k = {.list = WEIR_LIST_BLOCK, .prefix = over[i].source};

		if (!is_blocked(a, &k, origin, entry.end_ms))
			key[n_keys++] = k;
	}
	if (!n_keys)
		return;
	r = a->book->list[WEIR_LIST_BLOCK].n + n_keys > BLOCKS_MAX
		    ? weir_error_set(&e, -ENOSPC,
				     "half of the block list is full, and the rest is for others")
		    : weir_fleet_add(a->fleet, key, n_keys, &entry, &e);
	if (r < 0) {
		if (!w->refused)
			weir_log(WEIR_LOG_ERROR, "block-fleet-failed", "limit", "s", limit, "why",
				 "s", e.text, NULL);
		w->refused += n_keys;
		return;
	}
	w->blocked += n_keys;
	(void)snprintf(why, sizeof(why), "%s, for %s", entry.reason,
		       weir_str_format_duration(over[n - 1].block_ms * 1000000, span));
	for (size_t i = 0; i < n_keys; i++)
		tell(w, limit, &key[i].prefix, false, why);
}

static void on_over(void *arg, unsigned i, const struct weir_fleet_over *over, size_t n)
{
	struct weir_fleet_watch *w = arg;
	struct weir_agent *a = w->a;
	struct weir_fleet_over sorted[WEIR_FLEET_OVER_MAX];
	const char *limit = i < w->n ? weir_agent_limit_at(a, w->of[i]) : "?";

	if (i >= w->n || n > ARRAY_LEN(sorted))
		return;
	if (w->monitor[i]) {
		for (size_t k = 0; k < n; k++)
			tell(w, limit, &over[k].source, true,
			     "more than its limit on all hosts together");
		w->would += n;
		return;
	}
	memcpy(sorted, over, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_time);
	for (size_t from = 0, to; from < n; from = to) {
		/* a tenth longer costs nobody much, and a change of the lists costs every host */
		for (to = from + 1;
		     to < n &&
		     sorted[to].block_ms <= sorted[from].block_ms + sorted[from].block_ms / 10;)
			to++;
		block(w, limit, &sorted[from], to - from);
	}
}

/* --- reading ---- */

static void on_count(void *arg, unsigned limit, const struct weir_prefix *source, __u64 window,
		     __u64 count)
{
	struct weir_fleet_watch *w = arg;

	if (w->index[limit] != WEIR_NO_LIMIT)
		weir_fleet_sources_saw(w->s, w->index[limit], source, window, count);
}

static void arm(struct weir_fleet_watch *w, __u64 ns)
{
	struct timeval t = {.tv_sec = (time_t)(ns / WEIR_NS_PER_S),
			    .tv_usec = (suseconds_t)(ns % WEIR_NS_PER_S / 1000)};

	(void)event_add(w->timer, &t); /* fails only without memory, of which it needs none again */
}

/* So that the pass ends right before a multiple of its time, which every window's end is. */
static void arm_next(struct weir_fleet_watch *w, __u64 now_ns)
{
	__u64 ahead_ns = AHEAD_NS + w->took_ns, end_ns;

	if (ahead_ns > w->pass_ns / 2)
		ahead_ns = w->pass_ns / 2;
	end_ns = ((now_ns + ahead_ns) / w->pass_ns + 1) * w->pass_ns;
	arm(w, end_ns - ahead_ns - now_ns);
}

static void begin_pass(struct weir_fleet_watch *w, __u64 now_ns)
{
	w->reads = true;
	w->began_ns = now_ns;
	w->at.family = 0;
	for (unsigned i = 0; i < w->n; i++)
		w->at.above[w->of[i]] = weir_fleet_sources_above(w->s, i);
}

static void end_pass(struct weir_fleet_watch *w, __u64 now_ns)
{
	w->reads = false;
	w->passes++;
	w->took_ns = now_ns - w->began_ns;
	weir_fleet_sources_flush(w->s);
	arm_next(w, now_ns);
}

static void on_slice(evutil_socket_t fd, short what, void *arg)
{
	struct weir_fleet_watch *w = arg;
	struct weir_agent *a = w->a;
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC), took_ns;
	struct weir_tables t;
	bool all;

	(void)fd;
	(void)what;
	if (!w->n || !weir_datapath_tables(a->dp, &t)) {
		w->reads = false;
		if (w->n)
			arm_next(w, now_ns);
		return;
	}
	if (!w->reads)
		begin_pass(w, now_ns);
	all = weir_table_scan_counts(&t, now_ns, &w->at, w->slice, on_count, w);
	took_ns = weir_clock_ns(CLOCK_MONOTONIC) - now_ns;
	if (took_ns > SLICE_NS && w->slice > SLICE_MIN)
		w->slice /= 2;
	else if (took_ns < SLICE_NS / 4 && w->slice < 1u << 30)
		w->slice *= 2;
	if (all)
		end_pass(w, now_ns + took_ns);
	else
		arm(w, 0); /* after what else waits in the loop */
}

/* --- coming and going ---- */

static int make(struct weir_agent *a, struct weir_fleet_watch **ret)
{
	struct weir_fleet_watch *w = calloc(1, sizeof(*w));
	int r = w ? weir_fleet_sources_new(a->fleet, on_over, w, &w->s) : -ENOMEM;

	if (r == 0) {
		w->a = a;
		w->slice = SLICE_FIRST;
		w->timer = evtimer_new(a->base, on_slice, w);
		r = w->timer ? 0 : -ENOMEM;
	}
	if (r < 0) {
		weir_fleet_sources_free(w ? w->s : NULL);
		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

static size_t wanted(const struct weir_agent *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->conf->n_limits; i++)
		n += a->conf->limits[i].scope == WEIR_SCOPE_FLEET;
	return n;
}

void weir_agent_pace_sources(struct weir_agent *a)
{
	const struct weir_policy *p = a->dp ? weir_datapath_policy(a->dp) : NULL;
	struct weir_fleet_source_limit l[WEIR_LIMITS_MAX];
	struct weir_fleet_watch *w;
	struct weir_tables t;
	int r = 0;

	if (!a->watch_sources && a->fleet && p && wanted(a))
		r = make(a, &a->watch_sources);
	w = a->watch_sources;
	if (r < 0)
		weir_log(WEIR_LOG_ERROR, "fleet-limits-failed", "why", "s", strerror(-r), NULL);
	if (!w || !p)
		return;
	w->n = 0;
	w->reads = false;
	memset(w->index, WEIR_NO_LIMIT, sizeof(w->index));
	w->pass_ns = weir_datapath_tables(a->dp, &t) ? weir_fleet_pass_ns(t.buckets4, t.buckets6)
						     : weir_fleet_pass_ns(0, 0);
	for (unsigned i = 0; i < p->n_limits && i < WEIR_LIMITS_MAX; i++) {
		unsigned of = p->limit[i].counts_for;

		if (!(p->limit[i].flags & WEIR_LIMIT_FLEET) || of >= a->conf->n_limits)
			continue;
		w->monitor[w->n] = a->conf->limits[of].mode == WEIR_MODE_MONITOR ||
				   a->in_force == WEIR_MODE_MONITOR;
		l[w->n] = weir_fleet_source_limit_of(&a->conf->limits[of], w->pass_ns);
		l[w->n].window_ns = p->limit[i].window_ns;
		l[w->n].monitor = w->monitor[w->n];
		w->index[i] = (__u8)w->n;
		w->of[w->n++] = i;
	}
	(void)weir_fleet_sources_set(w->s, l, w->n); /* they are limits that were compiled */
	(void)event_del(w->timer);
	if (w->n)
		arm_next(w, weir_clock_ns(CLOCK_MONOTONIC));
}

void weir_agent_close_sources(struct weir_agent *a)
{
	struct weir_fleet_watch *w = TAKE_PTR(a->watch_sources);

	if (!w)
		return;
	weir_fleet_sources_free(w->s);
	event_free(w->timer);
	free(w);
}

/* --- what status tells ---- */

bool weir_agent_sources_counts(const struct weir_agent *a, struct weir_sources_counts *ret)
{
	const struct weir_fleet_watch *w = a->watch_sources;
	struct weir_fleet_sources_status s;

	if (!w || !w->n)
		return false;
	weir_fleet_sources_status(w->s, &s);
	*ret = (struct weir_sources_counts){s.told, s.untold, w->blocked, w->would, w->refused};
	return true;
}

json_t *weir_agent_sources_json(struct weir_agent *a)
{
	const struct weir_fleet_watch *w = a->watch_sources;
	struct weir_fleet_sources_status s;
	json_t *o;

	if (!w || !w->n)
		return NULL;
	o = json_object();
	weir_fleet_sources_status(w->s, &s);
	weir_json_set_u64(o, "limits", w->n);
	weir_json_set_u64(o, "pass_ms", w->pass_ns / 1000000);
	weir_json_set_u64(o, "pass_took_us", w->took_ns / 1000);
	weir_json_set_u64(o, "passes", w->passes);
	weir_json_set_u64(o, "followed", s.followed);
	weir_json_set_u64(o, "told", s.told);
	weir_json_set_u64(o, "untold", s.untold);
	weir_json_set_u64(o, "calls", s.calls);
	weir_json_set_u64(o, "failures", s.failures);
	weir_json_set_text(o, "why", weir_fleet_sources_why(w->s));
	weir_json_set_u64(o, "late", s.late);
	weir_json_set_u64(o, "blocked", w->blocked);
	weir_json_set_u64(o, "would_block", w->would);
	weir_json_set_u64(o, "refused", w->refused);
	return o;
}

const char *weir_agent_sources_idle(const struct weir_agent *a)
{
	return wanted(a) && !a->fleet ? "limits of scope: fleet act on this host alone until the "
					"next start: it was started without a shared store"
				      : NULL;
}

const char *weir_agent_sources_why(const struct weir_agent *a)
{
	const struct weir_fleet_watch *w = a->watch_sources;

	return w && w->n ? weir_fleet_sources_why(w->s) : NULL;
}
