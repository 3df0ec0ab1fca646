/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters of the request layer: places by limit name, sums over threads. Counters never go back: what a worker has
 * counted stays when it goes, and a limit keeps its place while others come and go (WEIR_L7_SLOTS names; then the one
 * that was in force longest ago makes room).
 */
#include <string.h>

#include "user/l7/engine_int.h"

#define US_PER_S    1000000ull
#define FALLBACK_US (2 * US_PER_S)  /* since a limit was last judged without its store */
#define TOOK_MAX_US (60 * US_PER_S) /* more is a clock that was set */

const __u32 weir_l7_latency_us[WEIR_L7_LATENCY_N] = {2,	  5,	10,   25,   50,	   100,
						     250, 1000, 2500, 5000, 10000, 25000};

void weir_l7_count_check(struct weir_l7_counts *c, __u64 took_us)
{
	unsigned i = 0;

	if (took_us > TOOK_MAX_US)
		took_us = 0;
	while (i < WEIR_L7_LATENCY_N && took_us > weir_l7_latency_us[i])
		i++;
	weir_l7_add(&c->check.n[i], 1);
	weir_l7_add(&c->check.count, 1);
	weir_l7_add(&c->check.sum_us, took_us);
}

/* --- sums; under the lock ---- */

static __u64 get(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Every counter is a __u64, and nothing else is in there. */
static void sum(struct weir_l7_counts *to, const struct weir_l7_counts *from)
{
	__u64 *a = (__u64 *)to;
	const __u64 *b = (const __u64 *)from;

	_Static_assert(sizeof(*to) % sizeof(*a) == 0, "a counter of another size");
	for (size_t i = 0; i < sizeof(*to) / sizeof(*a); i++)
		a[i] += get(&b[i]);
}

/* The latest of a time is the latest, not the sum. */
static void keep_latest(__u64 *to, const __u64 *a, const __u64 *b)
{
	for (size_t i = 0; i < WEIR_L7_SLOTS; i++)
		to[i] = get(&a[i]) > get(&b[i]) ? get(&a[i]) : get(&b[i]);
}

static void add_counts(struct weir_l7_counts *to, const struct weir_l7_counts *from)
{
	__u64 refused[WEIR_L7_SLOTS], away[WEIR_L7_SLOTS];

	keep_latest(refused, to->last_refused_s, from->last_refused_s);
	keep_latest(away, to->last_away_us, from->last_away_us);
	sum(to, from);
	memcpy(to->last_refused_s, refused, sizeof(refused));
	memcpy(to->last_away_us, away, sizeof(away));
}

static void add_store(const struct weir_l7_worker *w, struct weir_far_stats *far,
		      struct weir_hot_stats *hot)
{
	struct weir_far_stats f;
	struct weir_hot_stats h;

	if (!w->own_store)
		return;
	weir_store_hot_stats(w->own_store, &h);
	hot->denied += h.denied;
	hot->spent += h.spent;
	hot->taken += h.taken;
	hot->given_back += h.given_back;
	hot->lost += h.lost;
	weir_store_far_stats(w->own_store, &f);
	if (w->own_base) /* turned now and then: its health says little */
		f.health = WEIR_FAR_HEALTHY;
	weir_far_stats_add(far, &f);
}

void weir_l7_keep_counts(struct weir_l7 *l7, const struct weir_l7_worker *w)
{
	add_counts(l7->former, &w->counts);
	add_store(w, &l7->former_far, &l7->former_hot);
	l7->former_far.health = WEIR_FAR_HEALTHY; /* of those that are there */
}

static int all_counts(struct weir_l7 *l7, struct weir_l7_counts **ret)
{
	struct weir_l7_counts *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = *l7->former;
	for (const struct weir_l7_worker *w = l7->workers; w; w = w->next)
		add_counts(c, &w->counts);
	*ret = c;
	return 0;
}

/* --- places ---- */

__u64 weir_l7_salt_of(void *arg, const char *name)
{
	const struct weir_l7 *l7 = arg;

	for (size_t i = 0; i < WEIR_L7_SLOTS; i++)
		if (strcmp(l7->slot[i].name, name) == 0)
			return l7->slot[i].salt;
	return 0;
}

static void empty_slot(struct weir_l7 *l7, struct weir_l7_slot *s)
{
	_cleanup_free_ struct weir_l7_counts *c = NULL;
	size_t i = (size_t)(s - l7->slot);

	if (all_counts(l7, &c) >= 0)
		memcpy(s->before, c->limit[i], sizeof(s->before));
	s->salt = 0;
}

static struct weir_l7_slot *find_slot(struct weir_l7 *l7, const char *name)
{
	struct weir_l7_slot *oldest = &l7->slot[0];

	for (size_t i = 0; i < WEIR_L7_SLOTS; i++) {
		if (strcmp(l7->slot[i].name, name) == 0)
			return &l7->slot[i];
		if (l7->slot[i].generation < oldest->generation)
			oldest = &l7->slot[i];
	}
	if (oldest->name[0])
		empty_slot(l7, oldest);
	memcpy(oldest->name, name, strlen(name) + 1);
	return oldest;
}

void weir_l7_assign_slots(struct weir_l7 *l7, struct weir_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		struct weir_rule *rule = &rules->rule[i];
		struct weir_l7_slot *s = find_slot(l7, rule->name);

		rule->slot = (unsigned)(s - l7->slot);
		s->algorithm = rule->algorithm;
		s->mode = rule->monitor ? WEIR_MODE_MONITOR : WEIR_MODE_ENFORCE;
		s->on_store_failure = rule->on_store_failure;
		s->fleet = l7->local && !rule->host;
		s->order = (unsigned)i;
		s->generation = l7->generation + 1;
	}
}

/* --- for the agent ---- */

void weir_l7_stats(struct weir_l7 *l7, struct weir_l7_stats *ret)
{
	_cleanup_free_ struct weir_l7_counts *c = NULL;

	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&l7->lock);
	if (all_counts(l7, &c) >= 0) {
		ret->checks = c->checks;
		ret->allowed = c->allowed;
		ret->refused = c->refused;
		ret->exempt = c->exempt;
		ret->no_limit = c->no_limit;
		ret->bad_path = c->bad_path;
		ret->no_address = c->no_address;
		ret->over_budget = c->over_budget;
		ret->fresh_counted_as_ip = c->fresh_counted_as_ip;
		ret->held = c->held;
		ret->queue_abandoned = c->queue_abandoned;
		ret->check = c->check;
	}
	if (l7->offences.suspects)
		ret->suspicious = weir_suspects_count(l7->offences.suspects);
	ret->far = l7->former_far;
	ret->hot = l7->former_hot;
	for (const struct weir_l7_worker *w = l7->workers; w; w = w->next)
		add_store(w, &ret->far, &ret->hot);
	pthread_mutex_unlock(&l7->lock);
	ret->shared = l7->shared;
	ret->secret_known = __atomic_load_n(&l7->secret_known, __ATOMIC_RELAXED);
	ret->agents = __atomic_load_n(&l7->agents, __ATOMIC_RELAXED);
	ret->events_lost = get(&l7->events.lost);
	ret->escalated = get(&l7->offences.escalated);
	ret->escalations_capped = get(&l7->offences.capped);
	ret->escalations_spared = get(&l7->offences.spared);
	weir_l7_host_store(l7)->ops->stats(weir_l7_host_store(l7), &ret->store);
}

/* In force first and in their order, then by place. */
static int by_order(const void *a, const void *b)
{
	const struct weir_l7_slot *x = *(const struct weir_l7_slot *const *)a;
	const struct weir_l7_slot *y = *(const struct weir_l7_slot *const *)b;

	if (x->generation != y->generation)
		return x->generation > y->generation ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Does a worker ask no server any more? Under the lock. */
static bool is_away(const struct weir_l7 *l7)
{
	struct weir_far_stats f;

	for (const struct weir_l7_worker *w = l7->workers; w; w = w->next) {
		if (!w->own_store || w->own_base)
			continue;
		weir_store_far_stats(w->own_store, &f);
		if (f.health == WEIR_FAR_OPEN)
			return true;
	}
	return l7->shared && !__atomic_load_n(&l7->secret_known, __ATOMIC_RELAXED);
}

size_t weir_l7_limits(struct weir_l7 *l7, struct weir_l7_limit_stats *ret, size_t max)
{
	_cleanup_free_ struct weir_l7_counts *c = NULL;
	const struct weir_l7_slot *list[WEIR_L7_SLOTS];
	__u64 now_us = weir_l7_now_us(l7);
	size_t n = 0;
	bool away;

	pthread_mutex_lock(&l7->lock);
	for (size_t i = 0; i < WEIR_L7_SLOTS; i++)
		if (l7->slot[i].name[0])
			list[n++] = &l7->slot[i];
	qsort(list, n, sizeof(list[0]), by_order);
	if (all_counts(l7, &c) < 0)
		max = 0;
	away = is_away(l7);
	for (size_t i = 0; i < n && i < max; i++) {
		size_t slot = (size_t)(list[i] - l7->slot);
		struct weir_l7_limit_stats *s = &ret[i];

		*s = (struct weir_l7_limit_stats){.algorithm = list[i]->algorithm,
						  .mode = list[i]->mode,
						  .in_force = list[i]->generation == l7->generation,
						  .last_refused_s = c->last_refused_s[slot],
						  .on_store_failure = list[i]->on_store_failure,
						  .fleet = list[i]->fleet};
		s->fallback = s->in_force && s->fleet &&
			      (away || c->last_away_us[slot] + FALLBACK_US > now_us);
		memcpy(s->name, list[i]->name, sizeof(s->name));
		for (unsigned v = 0; v < WEIR_L7_VERDICT_MAX; v++)
			s->n[v] = c->limit[slot][v] - list[i]->before[v];
	}
	pthread_mutex_unlock(&l7->lock);
	return n;
}

/* Loudest first. */
static int by_count(const void *a, const void *b)
{
	const struct weir_loud_entry *x = a, *y = b;

	return x->count > y->count ? -1 : x->count < y->count;
}

size_t weir_l7_loud(struct weir_l7 *l7, struct weir_l7_loud *ret, size_t max)
{
	_cleanup_free_ struct weir_loud_entry *all = NULL;
	__u64 now_us = weir_l7_now_us(l7);
	size_t n = 0, room = 0;

	pthread_mutex_lock(&l7->lock);
	for (const struct weir_l7_worker *w = l7->workers; w; w = w->next)
		room += 2 * WEIR_LOUD_MAX;
	all = calloc(room + 1, sizeof(*all));
	for (struct weir_l7_worker *w = l7->workers; w && all; w = w->next)
		n = weir_loud_sum(&w->loud, now_us, all, n, room);
	if (n)
		qsort(all, n, sizeof(*all), by_count);
	for (size_t i = 0; i < n && i < max; i++) {
		ret[i] = (struct weir_l7_loud){.client = all[i].client,
					       .refused = all[i].count,
					       .error = all[i].error};
		memcpy(ret[i].limit, l7->slot[all[i].slot % WEIR_L7_SLOTS].name,
		       sizeof(ret[i].limit));
	}
	pthread_mutex_unlock(&l7->lock);
	return n < max ? n : max;
}
