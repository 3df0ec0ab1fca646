/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From configuration to policy: whose counters are whose, whether the state tables can stay as they are, and the parts
 * of compile_units.c, compile_match.c and layout.c put together. Called by apply.c and, for its verdict alone, by `weir
 * check`.
 */
#include <errno.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/datapath/compile.h"
#include "user/datapath/compile_int.h"

/* Aggregates for what must work for anything else to work, far above any sane network's need but low enough that a
 * flood of such frames does not get past the limits: packets a second, burst.
 */
static const struct {
	__u32 rate, burst;
} class_rates[] = {
	[WEIR_CLASS_ARP] = {10000, 20000},
	[WEIR_CLASS_NEIGHBOUR] = {10000, 20000},
	[WEIR_CLASS_DHCP] = {1000, 2000},
};

int weir_compile_blame(const struct weir_conf *conf, const struct weir_conf_limit *l, int r,
		       struct weir_error *e)
{
	if (conf->path && l->line)
		return weir_error_prefix(e, r, "%s:%d: limit %s", conf->path, l->line, l->name);
	return weir_error_prefix(e, r, "limit %s", l->name);
}

/* --- whose counters are whose ---- */

/* The configuration's limits, and after them one that counts for each of scope: fleet. */
struct all {
	struct weir_conf conf; /* a view: what its limits point to is the configuration's */
	struct weir_conf_limit limit[WEIR_LIMITS_MAX];
	__u8 of[WEIR_LIMITS_MAX]; /* which one it counts for; NO_LIMIT: none */
};

static int expand(const struct weir_conf *conf, __u64 pass_ns, struct all *ret,
		  struct weir_error *e)
{
	size_t n = conf->n_limits;

	if (n > WEIR_LIMITS_MAX)
		return weir_error_set(e, -EINVAL, "packet_limits: %zu limits (at most %u)", n,
				      WEIR_LIMITS_MAX);
	ret->conf = *conf;
	ret->conf.limits = ret->limit;
	memset(ret->of, WEIR_NO_LIMIT, sizeof(ret->of));
	if (n)
		memcpy(ret->limit, conf->limits, n * sizeof(*ret->limit));
	for (size_t i = 0; i < conf->n_limits; i++) {
		struct weir_conf_limit *l;

		if (conf->limits[i].scope != WEIR_SCOPE_FLEET)
			continue;
		if (n == WEIR_LIMITS_MAX)
			return weir_error_set(e, -EINVAL,
					      "packet_limits: %zu limits, and one more place for "
					      "each of scope: fleet (at most %u in all)",
					      conf->n_limits, WEIR_LIMITS_MAX);
		l = &ret->limit[n];
		*l = conf->limits[i];
		l->algorithm = WEIR_ALGO_FIXED_WINDOW;
		l->window_ns = weir_fleet_window_ns(&conf->limits[i], pass_ns);
		l->block_for_ns = 0;
		ret->of[n++] = (__u8)i;
	}
	ret->conf.n_limits = n;
	return 0;
}

static void identity(const struct weir_conf_limit *l, bool fleet, struct weir_limit_name *ret)
{
	static const __u8 keeps[] = {
		[WEIR_PER_SOURCE] = WEIR_KEEPS_SOURCE,
		[WEIR_PER_DESTINATION] = WEIR_KEEPS_DESTINATION,
		[WEIR_PER_ALL] = WEIR_KEEPS_ALL,
	};

	*ret = (struct weir_limit_name){
		.window_ns = l->algorithm == WEIR_ALGO_TOKEN_BUCKET ? 0 : l->window_ns,
		.algorithm = l->algorithm,
		.bytes = l->bytes,
		.prefix4 = l->ipv4_prefix,
		.prefix6 = l->ipv6_prefix,
		.block = l->block_for_ns != 0,
		.keeps = fleet ? WEIR_KEEPS_FLEET : keeps[l->per],
	};
	memcpy(ret->name, l->name, sizeof(ret->name) - 1);
}

static bool same_identity(const struct weir_limit_name *a, const struct weir_limit_name *b)
{
	return !strncmp(a->name, b->name, WEIR_NAME_MAX) && a->window_ns == b->window_ns &&
	       a->algorithm == b->algorithm && a->bytes == b->bytes && a->prefix4 == b->prefix4 &&
	       a->prefix6 == b->prefix6 && a->keeps == b->keeps;
}

/* A free index, else that of the limit which has been gone longest: of 64, at most 32 are live now, and those that were
 * until now, for which the program may still count, have been gone for the shortest time.
 */
static int spare_stat(const struct weir_limit_name *names)
{
	int i, best = -1;

	for (i = 0; i < WEIR_STATS_MAX; i++) {
		if (!names[i].name[0])
			return i;
		if (!names[i].live && (best < 0 || names[i].limit > names[best].limit))
			best = i;
	}
	return best;
}

/* Gives each limit its counter index: the one it had, by identity, if it is known. */
static int assign_stats(const struct all *all, const struct weir_limit_name *old_names,
			struct weir_compiled *c, struct weir_error *e)
{
	const struct weir_conf *conf = &all->conf;
	struct weir_limit_name want;
	size_t i;
	int s;

	if (old_names)
		memcpy(c->names, old_names, sizeof(c->names));
	for (s = 0; s < WEIR_STATS_MAX; s++) {
		c->names[s].name[WEIR_NAME_MAX - 1] = '\0';
		if (c->names[s].live)
			c->names[s].limit = 0;
		else if (c->names[s].name[0] && c->names[s].limit < 255)
			c->names[s].limit++; /* of a limit that has gone: for how many policies */
		c->names[s].live = 0;
	}
	for (i = 0; i < conf->n_limits; i++) {
		identity(&conf->limits[i], all->of[i] != WEIR_NO_LIMIT, &want);
		for (s = 0; s < WEIR_STATS_MAX; s++)
			if (!c->names[s].live && same_identity(&c->names[s], &want))
				break;
		c->policy.limit[i].stat = s < WEIR_STATS_MAX ? s : WEIR_NO_LIMIT;
		if (s < WEIR_STATS_MAX) {
			want.live = 1;
			want.limit = i;
			c->names[s] = want;
		}
	}
	for (i = 0; i < conf->n_limits; i++) {
		if (c->policy.limit[i].stat != WEIR_NO_LIMIT)
			continue;
		s = spare_stat(c->names);
		if (s < 0)
			return weir_error_set(e, -ENOSPC, "no counter left for limit %s",
					      conf->limits[i].name);
		identity(&conf->limits[i], all->of[i] != WEIR_NO_LIMIT, &c->names[s]);
		c->names[s].live = 1;
		c->names[s].limit = i;
		c->policy.limit[i].stat = s;
	}
	return 0;
}

static const struct weir_limit *old_limit(const struct weir_policy *old,
					  const struct weir_limit_name *old_names, __u8 stat)
{
	unsigned i;

	if (!old || !old_names || stat >= WEIR_STATS_MAX || !old_names[stat].live)
		return NULL;
	for (i = 0; i < old->n_limits && i < WEIR_LIMITS_MAX; i++)
		if (old->limit[i].stat == stat)
			return &old->limit[i];
	return NULL;
}

/* Do words written under @was mean the same under @is? A smaller burst or block_for must be copied to clamp what is
 * above it.
 */
static bool same_units(const struct weir_limit *was, const struct weir_limit *is)
{
	if (was->algorithm != is->algorithm || was->mult != is->mult || was->shift != is->shift ||
	    was->frac_bits != is->frac_bits || was->window_ns != is->window_ns ||
	    was->count_bits != is->count_bits || was->tick_shift != is->tick_shift ||
	    (was->flags & WEIR_LIMIT_PAIR) != (is->flags & WEIR_LIMIT_PAIR))
		return false;
	return is->burst >= was->burst && is->block_ms >= was->block_ms;
}

/* Where a limit per: all has its state: where it was, unless that means something else now. */
static void place_total(const struct weir_limit *was, struct weir_limit *is)
{
	is->word4 = is->word6 = 0;
	is->total = is->stat;
	if (was && was->total % WEIR_STATS_MAX == is->stat)
		is->total = same_units(was, is) ? was->total
						: (was->total + WEIR_STATS_MAX) % WEIR_TOTALS;
}

/* --- together ---- */

static int class_limits(struct weir_policy *p, struct weir_error *e)
{
	unsigned i;
	int r;

	for (i = 0; i < ARRAY_LEN(class_rates); i++) {
		struct weir_conf_limit l = {.rate = class_rates[i].rate,
					    .rate_per_ns = 1000000000,
					    .burst = class_rates[i].burst};
		struct weir_limit c = {};
		bool fine;

		if (!l.rate)
			continue;
		r = weir_units_of(&l, NULL, 0, &c, &fine, e);
		if (r < 0)
			return r;
		p->class_limit[i] = (struct weir_class_limit){.mult = c.mult,
							      .burst = c.burst,
							      .shift = c.shift,
							      .frac_bits = c.frac_bits};
	}
	return 0;
}

static void weir_compiled_freep(struct weir_compiled **c)
{
	weir_compiled_free(*c);
}

/* Clock, rate and state of limit @i, which kept @was before (NULL: it is new). */
static int set_units(const struct weir_conf *given, const struct all *all, size_t i,
		     const struct weir_limit *was, __u64 jiffy_ns, struct weir_policy *p,
		     struct weir_error *e)
{
	const struct weir_conf_limit *limit = &all->conf.limits[i];
	unsigned of = all->of[i];
	bool fine;
	int r;

	if (of != WEIR_NO_LIMIT) {
		weir_fleet_units_of(&given->limits[of], of, limit->window_ns, &p->limit[i]);
		return 0;
	}
	r = weir_units_of(limit, was, jiffy_ns, &p->limit[i], &fine, e);
	if (r < 0)
		return weir_compile_blame(&all->conf, limit, r, e);
	if (fine)
		p->flags |= WEIR_POLICY_FINE_CLOCK;
	return 0;
}

int weir_compile(const struct weir_conf *given, const struct weir_policy *old,
		 const struct weir_limit_name *old_names, __u32 buckets4, __u32 buckets6,
		 __u64 jiffy_ns, struct weir_compiled **ret, struct weir_error *e)
{
	_cleanup_(weir_compiled_freep) struct weir_compiled *c = calloc(1, sizeof(*c));
	_cleanup_free_ struct all *all = calloc(1, sizeof(*all));
	const struct weir_conf *conf = &all->conf;
	struct weir_policy *p;
	int r;

	if (!c || !all)
		return weir_error_set(e, -ENOMEM, "out of memory");
	p = &c->policy;
	r = expand(given, weir_fleet_pass_ns(buckets4, buckets6), all, e);
	if (r < 0)
		return r;
	p->n_limits = conf->n_limits;
	p->generation = old ? old->generation + 1 : 1;
	p->flags = conf->mode == WEIR_MODE_MONITOR ? WEIR_POLICY_MONITOR : 0;
	p->events_per_second = conf->events_per_second;
	if (old) {
		p->sources_bank = old->sources_bank;
		p->lists_bank = old->lists_bank;
		p->nets_bank = old->nets_bank;
		p->flags |= old->flags & WEIR_POLICY_LISTS;
	}
	r = assign_stats(all, old_names, c, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < conf->n_limits; i++) {
		const struct weir_limit *was = old_limit(old, old_names, p->limit[i].stat);

		r = set_units(given, all, i, was, jiffy_ns, p, e);
		if (r < 0)
			return r;
		if (p->limit[i].flags & WEIR_LIMIT_ALL) {
			place_total(was, &p->limit[i]);
			p->total[p->n_totals++] = (__u8)i;
		} else {
			c->new_tables |= was && !same_units(was, &p->limit[i]);
		}
	}
	r = class_limits(p, e);
	if (r < 0)
		return r;
	r = weir_compile_match(conf, c, e);
	if (r < 0)
		return r;
	r = weir_layout_place(conf, old_names ? old : NULL, buckets4, buckets6, p, e);
	if (r < 0)
		return r;
	if (!old || !old_names || !weir_layout_same(old, p))
		c->new_tables = true;
	*ret = TAKE_PTR(c);
	return 0;
}

void weir_compiled_free(struct weir_compiled *c)
{
	if (!c)
		return;
	free(c->nets);
	free(c);
}
