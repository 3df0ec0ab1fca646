/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The breaker of a node; see breaker.h. */
#include "user/redis/breaker.h"

int weir_redis_breaker_init(struct weir_redis_breaker *b, unsigned errors, __u64 within_ns)
{
	if (!errors || errors > WEIR_REDIS_BREAKER_ERRORS_MAX)
		return -EINVAL;
	*b = (struct weir_redis_breaker){.errors = errors, .within_ns = within_ns};
	b->at_ns = calloc(errors, sizeof(*b->at_ns));
	return b->at_ns ? 0 : -ENOMEM;
}

void weir_redis_breaker_done(struct weir_redis_breaker *b)
{
	free(b->at_ns);
	b->at_ns = NULL;
}

static bool turn(struct weir_redis_breaker *b, enum weir_far_health health)
{
	bool changed = b->health != health;

	b->health = health;
	return changed;
}

/* How many of the last failures are younger than within. */
static unsigned recent(const struct weir_redis_breaker *b, __u64 now_ns)
{
	unsigned n = 0;

	while (n < b->n &&
	       now_ns - b->at_ns[(b->head + b->errors - 1 - n) % b->errors] < b->within_ns)
		n++;
	return n;
}

bool weir_redis_breaker_failure(struct weir_redis_breaker *b, __u64 now_ns)
{
	unsigned enough = b->returned ? (b->errors + 3) / 4 : b->errors;

	b->at_ns[b->head] = now_ns;
	b->head = (b->head + 1) % b->errors;
	if (b->n < b->errors)
		b->n++;
	b->last_ns = now_ns;
	if (b->health == WEIR_FAR_OPEN)
		return false;
	return turn(b, recent(b, now_ns) >= enough ? WEIR_FAR_OPEN : WEIR_FAR_DEGRADED);
}

bool weir_redis_breaker_down(struct weir_redis_breaker *b, __u64 now_ns)
{
	b->last_ns = now_ns;
	return turn(b, WEIR_FAR_OPEN);
}

bool weir_redis_breaker_up(struct weir_redis_breaker *b, __u64 now_ns)
{
	if (b->health != WEIR_FAR_OPEN)
		return false;
	b->n = 0;
	b->returned = true;
	b->last_ns = now_ns;
	return turn(b, WEIR_FAR_DEGRADED);
}

bool weir_redis_breaker_tick(struct weir_redis_breaker *b, __u64 now_ns)
{
	if (b->health != WEIR_FAR_DEGRADED || now_ns - b->last_ns < WEIR_REDIS_BREAKER_CALM_NS)
		return false;
	b->returned = false;
	return turn(b, WEIR_FAR_HEALTHY);
}
