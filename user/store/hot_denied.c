/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refusals that are remembered: a fixed table in sets of four, found by the keyed hash of limit and key. Called by hot.c.
 */
#include <string.h>

#include "user/store/hot_int.h"

static struct weir_hot_denial *set_of(const struct weir_hot_denied *d, const __u64 id[static 2])
{
	return &d->at[(id[0] ^ id[1]) % (WEIR_HOT_DENIED / WEIR_HOT_WAYS) * WEIR_HOT_WAYS];
}

static struct weir_hot_denial *find(const struct weir_hot_denied *d, const __u64 id[static 2],
				    const struct weir_store_limit *limit)
{
	struct weir_hot_denial *e = d->at ? set_of(d, id) : NULL;

	for (size_t i = 0; e && i < WEIR_HOT_WAYS; i++)
		if (e[i].until_us && e[i].id[0] == id[0] && e[i].id[1] == id[1] &&
		    (!limit || e[i].limit == limit))
			return &e[i];
	return NULL;
}

void weir_hot_denied_clear(struct weir_hot_denied *d)
{
	if (d->at)
		memset(d->at, 0, WEIR_HOT_DENIED * sizeof(*d->at));
}

/* A clock that was set back makes everything untrue. */
static bool is_believed(const struct weir_hot_denial *e, __u64 now_us)
{
	return now_us >= e->since_us && now_us < e->until_us;
}

void weir_hot_denied_add(struct weir_hot_denied *d, const struct weir_store_layer *y, __u64 now_us,
			 __u64 believed_us)
{
	__u64 id[2], retry_us = now_us + y->answer.retry_after_us;
	struct weir_hot_denial *e, *set;

	if (!d->at)
		d->at = calloc(WEIR_HOT_DENIED, sizeof(*d->at));
	if (!d->at)
		return;
	weir_hot_id(y, id);
	e = find(d, id, y->limit);
	if (e && is_believed(e, now_us) && e->cost < y->cost)
		return; /* that one says more */
	set = set_of(d, id);
	for (size_t i = 0; !e && i < WEIR_HOT_WAYS; i++)
		if (!is_believed(&set[i], now_us))
			e = &set[i];
	for (size_t i = 0; !e && i < WEIR_HOT_WAYS; i++)
		if (i == 0 || set[i].until_us < set->until_us)
			e = &set[i];
	*e = (struct weir_hot_denial){
		.id = {id[0], id[1]},
		.limit = y->limit,
		.since_us = now_us,
		.until_us =
			y->answer.retry_after_us < believed_us ? retry_us : now_us + believed_us,
		.retry_us = retry_us,
		.reset_us = now_us + y->answer.reset_after_us,
		.cost = y->cost,
		.remaining = y->answer.remaining,
	};
}

bool weir_hot_denied_find(const struct weir_hot_denied *d, struct weir_store_layer *y, __u64 now_us)
{
	const struct weir_hot_denial *e;
	__u64 id[2];

	if (!d->at)
		return false;
	weir_hot_id(y, id);
	e = find(d, id, y->limit);
	if (!e || !is_believed(e, now_us) || y->cost < e->cost ||
	    y->cost > weir_store_limit_room(y->limit))
		return false;
	y->admitted = y->charged = y->used_instead = false;
	y->answer = (struct weir_request_answer){
		.remaining = e->remaining,
		.reset_after_us = e->reset_us > now_us ? e->reset_us - now_us : 0,
		.retry_after_us = e->retry_us - now_us,
	};
	return true;
}

void weir_hot_denied_drop(struct weir_hot_denied *d, const struct weir_store_layer *y)
{
	struct weir_store_layer other = *y;
	struct weir_hot_denial *e;
	__u64 id[2];

	for (int i = 0; i < 2; i++) {
		weir_hot_id(&other, id);
		while ((e = find(d, id, NULL)))
			e->until_us = 0; /* of every plan */
		other.turn_now = !other.turn_now;
	}
}
