/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Walks the state tables in slices from the loop, so that every slot is visited long before a stale word could mean a
 * debt again (a quarter of the shortest wrap), and so that the gauges are fresh. The entries that sources share without a
 * slot are few, and are done at once at the end of each pass. Also finds the loudest sources for
 * `weir top`, at most a twentieth of one CPU. Called by start.c and the loop.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/log.h"
#include "user/datapath/compile.h"

#define SLICE_NS     2000000ull /* of CPU */
#define INTERVAL_NS  100000000ull
#define INTERVAL_MIN 5000000ull
#define PASS_MAX_NS  (30 * WEIR_NS_PER_S) /* gauges are never older */
#define PASS_MIN_NS  (WEIR_NS_PER_S / 4)
#define SLICE_MIN    16u

static void arm(struct weir_agent *a)
{
	__u64 ns = a->sweep.interval_ns;
	struct timeval t = {.tv_sec = (time_t)(ns / WEIR_NS_PER_S),
			    .tv_usec = (suseconds_t)(ns % WEIR_NS_PER_S / 1000)};

	(void)event_add(a->sweep.timer,
			&t); /* fails only without memory; the next tick tries again */
}

static __u32 table_buckets(const struct weir_tables *t)
{
	__u32 n4 = t->t4 ? t->buckets4 : 0, n6 = t->t6 ? t->buckets6 : 0;

	return n4 > n6 ? n4 : n6;
}

void weir_agent_sweep_pace(struct weir_agent *a)
{
	const struct weir_policy *p = a->dp ? weir_datapath_policy(a->dp) : NULL;
	__u64 pass_ns = PASS_MAX_NS;

	for (unsigned i = 0; p && i < p->n_limits && i < WEIR_LIMITS_MAX; i++) {
		__u64 wrap_ns = weir_compile_wrap_ns(&p->limit[i]);

		if (wrap_ns && wrap_ns / 4 < pass_ns)
			pass_ns = wrap_ns / 4;
	}
	a->sweep.pass_ns = pass_ns < PASS_MIN_NS ? PASS_MIN_NS : pass_ns;
	a->sweep.interval_ns = INTERVAL_NS;
	a->sweep.slice = 0; /* worked out at the next slice */
	if (a->sweep.timer && !event_pending(a->sweep.timer, EV_TIMEOUT, NULL))
		arm(a);
}

/* So many buckets in each interval make a pass in time, with an eighth to spare. */
static __u32 slice_for(const struct weir_sweeper *s, __u32 buckets)
{
	__u64 n = (__u64)buckets * s->interval_ns / (s->pass_ns - s->pass_ns / 8) + 1;

	return n < SLICE_MIN ? SLICE_MIN : n > buckets ? buckets : (__u32)n;
}

/* A slice that took too long is made of shorter ones, more often. */
static void adjust(struct weir_sweeper *s, __u64 took_ns)
{
	if (took_ns > SLICE_NS && s->interval_ns / 2 >= INTERVAL_MIN)
		s->interval_ns /= 2;
	else if (took_ns < SLICE_NS / 8 && s->interval_ns * 2 <= INTERVAL_NS)
		s->interval_ns *= 2;
}

static void on_slice(evutil_socket_t fd, short what, void *arg)
{
	struct weir_agent *a = arg;
	struct weir_sweeper *s = &a->sweep;
	struct weir_tables t;
	__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC), cpu_ns;
	__u32 buckets, n;

	(void)fd;
	(void)what;
	if (!weir_datapath_tables(a->dp, &t) || !table_buckets(&t)) {
		arm(a);
		return;
	}
	buckets = table_buckets(&t);
	n = slice_for(s, buckets);
	if (s->next >= buckets)
		s->next = 0; /* the tables have become smaller */
	if (!s->next)
		s->pass_began_ns = now_ns;
	if (n > buckets - s->next)
		n = buckets - s->next;
	cpu_ns = weir_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	weir_table_sweep(&t, now_ns, s->next, n, &s->pass);
	adjust(s, weir_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	s->next += n;
	if (s->next >= buckets) {
		weir_table_sweep_spill(&t, now_ns);
		weir_totals_sweep(&t, now_ns);
		s->released += s->pass.released;
		s->last = s->pass;
		s->pass = (struct weir_sweep){};
		s->last_ns = now_ns;
		s->pass_took_ns = now_ns - s->pass_began_ns;
		s->next = 0;
	}
	arm(a);
}

int weir_agent_sweep_start(struct weir_agent *a)
{
	a->sweep.timer = evtimer_new(a->base, on_slice, a);
	if (!a->sweep.timer)
		return -ENOMEM;
	weir_agent_sweep_pace(a);
	return 0;
}

/* --- the loudest sources ----------------------------------------------------------------------- */

struct finder {
	struct weir_sweeper *s;
	const struct weir_policy *policy;
	__u64 now_ns;
};

/* How much of its limit a source has used, in thousandths; blocked ones come first, longest rest first. */
static __u64 loudness(const struct weir_limit_state *st)
{
	__u64 part =
		st->capacity ? st->used > st->capacity ? 1000 : st->used * 1000 / st->capacity : 0;

	return st->blocked_ns ? 2000 + st->blocked_ns / 1000000 : part;
}

/* Keeps the loudest, sorted. */
static void keep_loud(struct weir_sweeper *s, const struct weir_loud *l)
{
	size_t i = s->n_loud;

	if (i == WEIR_LOUD_MAX && loudness(&s->loud[i - 1].state) >= loudness(&l->state))
		return;
	if (i == WEIR_LOUD_MAX)
		i--;
	else
		s->n_loud++;
	for (; i && loudness(&s->loud[i - 1].state) < loudness(&l->state); i--)
		s->loud[i] = s->loud[i - 1];
	s->loud[i] = *l;
}

static int look(void *arg, const struct weir_prefix *source, unsigned group, const __u32 *words,
		bool busy)
{
	struct finder *f = arg;
	const struct weir_group *g = source->family == 4
					     ? &f->policy->group4[group % WEIR_GROUPS_MAX]
					     : &f->policy->group6[group % WEIR_GROUPS_MAX];
	struct weir_loud best = {.source = *source,
				 .destination = g->flags & WEIR_GROUP_DESTINATION};
	bool any = false;

	for (unsigned i = 0; busy && i < g->n && i < ARRAY_LEN(g->limit); i++) {
		struct weir_limit_state st;

		if (g->limit[i] >= WEIR_LIMITS_MAX ||
		    f->policy->limit[g->limit[i]].flags & WEIR_LIMIT_FLEET)
			continue;
		weir_table_state(f->policy, source->family, g->limit[i], words, f->now_ns, &st);
		if ((st.used || st.blocked_ns) && (!any || loudness(&st) > loudness(&best.state))) {
			best.limit = g->limit[i];
			best.state = st;
			any = true;
		}
	}
	if (any)
		keep_loud(f->s, &best);
	return 0;
}

static void find_loud(struct weir_agent *a, __u64 now_ns)
{
	struct weir_sweeper *s = &a->sweep;
	struct weir_tables t;
	__u64 cpu_ns = weir_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct finder f = {.s = s, .now_ns = now_ns};

	if (!a->dp || now_ns < s->loud_again_ns || !weir_datapath_tables(a->dp, &t))
		return;
	f.policy = t.policy;
	s->n_loud = 0;
	(void)weir_table_walk(&t, 4, now_ns, look, &f); /* look never stops it */
	(void)weir_table_walk(&t, 6, now_ns, look, &f);
	s->loud_ns = now_ns;
	s->loud_again_ns =
		now_ns + 20 * (weir_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) + WEIR_NS_PER_S / 2;
}

json_t *weir_agent_loud_json(struct weir_agent *a, const struct weir_now *now)
{
	json_t *list = json_array();

	find_loud(a, now->mono_ns);
	for (size_t i = 0; i < a->sweep.n_loud; i++) {
		const struct weir_loud *l = &a->sweep.loud[i];
		char text[WEIR_PREFIX_STRLEN];
		json_t *o = json_object();

		weir_json_set_text(o, l->destination ? "destination" : "source",
				   weir_prefix_format(&l->source, text));
		weir_json_set_text(o, "limit", weir_agent_limit_at(a, l->limit));
		weir_json_set_u64(o, "used", l->state.used);
		weir_json_set_u64(o, "capacity", l->state.capacity);
		weir_json_set_u64(o, "blocked_ms", l->state.blocked_ns / 1000000);
		(void)json_array_append_new(list, o); /* out of memory: the row is missing */
	}
	return list;
}
