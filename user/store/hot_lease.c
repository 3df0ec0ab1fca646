/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leases: how much a thread holds of which limit and key, for how long, and how much it takes next. Called by hot.c. */
#include <string.h>

#include "user/store/hot_int.h"

#define LASTS_LEAST_US 100000ull  /* shorter ones would spare nothing */
#define LASTS_MOST_US  5000000ull /* what is not spent by then is missing elsewhere */

static struct weir_hot_lease *set_of(struct weir_hot_leases *l, const __u64 id[static 2])
{
	return &l->at[(id[0] ^ id[1]) % (WEIR_HOT_LEASES / WEIR_HOT_WAYS) * WEIR_HOT_WAYS];
}

struct weir_hot_lease *weir_hot_lease_find(struct weir_hot_leases *l,
					   const struct weir_store_layer *y)
{
	struct weir_hot_lease *e;
	__u64 id[2];

	if (!l->at)
		return NULL;
	weir_hot_id(y, id);
	e = set_of(l, id);
	for (size_t i = 0; i < WEIR_HOT_WAYS; i++)
		if (e[i].used && e[i].of == y->limit && e[i].id[0] == id[0] && e[i].id[1] == id[1])
			return &e[i];
	return NULL;
}

struct weir_hot_lease *weir_hot_lease_of(struct weir_hot_leases *l,
					 const struct weir_store_layer *y,
					 struct weir_hot_lease *ret_old)
{
	struct weir_hot_lease *e, *set;
	__u64 id[2];

	ret_old->left = 0;
	if (!l->at)
		l->at = calloc(WEIR_HOT_LEASES, sizeof(*l->at));
	if (!l->at)
		return NULL;
	e = weir_hot_lease_find(l, y);
	if (e)
		return e;
	weir_hot_id(y, id);
	set = set_of(l, id);
	for (size_t i = 0; i < WEIR_HOT_WAYS; i++) {
		if (set[i].taking)
			continue;
		if (!e || !set[i].used || (e->used && set[i].until_us < e->until_us))
			e = &set[i];
	}
	if (!e)
		return NULL;
	if (e->used)
		*ret_old = *e;
	*e = (struct weir_hot_lease){.id = {id[0], id[1]},
				     .of = y->limit,
				     .serial = ++l->serial,
				     .used = true};
	return e;
}

/* A thread's part of what an agent may hold. */
static __u64 most(const struct weir_store_layer *y, unsigned takers)
{
	return y->limit->lease / (takers ? takers : 1);
}

/* As long as the limit needs to earn one; of a window a tenth. */
static __u64 lasts_us(const struct weir_store_layer *y, __u64 size)
{
	const struct weir_store_limit *l = y->limit;
	unsigned __int128 us;

	if (l->algorithm == WEIR_REQUEST_TOKEN_BUCKET)
		us = (unsigned __int128)size * l->bucket.period_us / l->bucket.count;
	else if (l->algorithm == WEIR_REQUEST_SLIDING_COUNTER)
		us = l->sliding.window_us / 10;
	else
		us = l->window_us ? l->window_us / 10 : LASTS_MOST_US;
	return us < LASTS_LEAST_US  ? LASTS_LEAST_US
	       : us > LASTS_MOST_US ? LASTS_MOST_US
				    : (__u64)us;
}

/* Has it been asked for twice in the time of two leases? Else it is not busy. */
static bool is_busy(const struct weir_hot_lease *e, const struct weir_store_layer *y, __u64 now_us,
		    unsigned takers)
{
	return e->since_us && now_us >= e->since_us &&
	       now_us - e->since_us <= 2 * lasts_us(y, most(y, takers));
}

__u64 weir_hot_lease_extra(const struct weir_hot_lease *e, const struct weir_store_layer *y,
			   __u64 now_us, unsigned takers)
{
	__u64 want = e->size, all = most(y, takers);

	if (e->taking || !is_busy(e, y, now_us, takers))
		return 0;
	want = want > all ? all : want;
	/* near the limit others want the rest as much */
	if (want > e->remaining / 4)
		want = e->remaining / 4;
	return want > e->left ? want - e->left : 0;
}

void weir_hot_lease_took(struct weir_hot_lease *e, const struct weir_store_layer *y, __u64 extra,
			 __u64 now_us, unsigned takers)
{
	__u64 all = most(y, takers), lasts = lasts_us(y, all);

	/* asked again while the last one would still have lasted: it was too small */
	if (!is_busy(e, y, now_us, takers))
		e->size = 0;
	else if (now_us - e->since_us < lasts)
		e->size = e->size ? e->size * 2 : 1;
	if (e->size > all)
		e->size = all;
	e->remaining = y->answer.remaining;
	e->reset_us = now_us + y->answer.reset_after_us;
	if (!extra) {
		if (!e->left)
			e->since_us = now_us;
		return;
	}
	e->since_us = now_us;
	e->left += extra;
	e->spent = 0;
	e->until_us = now_us + lasts;
	if (y->limit->algorithm == WEIR_REQUEST_FIXED_WINDOW && e->until_us > e->reset_us)
		e->until_us = e->reset_us;
	e->limit = *y->limit;
	e->limit.calendar = NULL; /* it may go before the lease does */
	e->layer = *y;
	e->layer.limit = &e->limit;
	e->layer.fresh = NULL;
}

__u64 weir_hot_lease_end(struct weir_hot_lease *e, __u64 now_us)
{
	__u64 left = e->left;

	e->left = 0;
	if (e->size > e->spent)
		e->size = e->spent;
	if (left && e->limit.algorithm == WEIR_REQUEST_FIXED_WINDOW && now_us >= e->reset_us)
		return 0; /* nobody can use them any more */
	return left;
}

__u64 weir_hot_leases_clear(struct weir_hot_leases *l)
{
	__u64 left = 0;

	for (size_t i = 0; l->at && i < WEIR_HOT_LEASES; i++) {
		left += l->at[i].left;
		l->at[i] = (struct weir_hot_lease){.used = false};
	}
	return left;
}
