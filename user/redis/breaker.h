/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a server is asked at all: a state machine without clock or sockets. One for each node; called by node.c.
 *
 *	healthy ── a failure ──► degraded ── `errors` of them within `within`, or no connection ──► open
 *	   ▲                      │    ▲                                                             │
 *	   └── CALM without any ──┘    └───────────────────── a probe succeeded ────────────────────┘
 *
 * Open: nothing is asked, answers are at once. After a probe everything is asked again; nothing was kept back that could
 * come as a burst. Then a quarter of the failures opens it again, until it is healthy.
 */
#ifndef WEIR_REDIS_BREAKER_H
#define WEIR_REDIS_BREAKER_H

#include "user/redis/redis.h"

#define WEIR_REDIS_BREAKER_ERRORS_MAX 1024
#define WEIR_REDIS_BREAKER_CALM_NS    10000000000ull

struct weir_redis_breaker {
	enum weir_far_health health;
	unsigned errors; /* 1 .. WEIR_REDIS_BREAKER_ERRORS_MAX */
	__u64 within_ns;
	bool returned; /* from open, not healthy since */
	__u64 last_ns; /* failure */
	__u64 *at_ns;  /* ring of the last failures */
	unsigned head, n;
};

/* Healthy. -EINVAL: @errors out of range; -ENOMEM. */
int weir_redis_breaker_init(struct weir_redis_breaker *b, unsigned errors, __u64 within_ns);
void weir_redis_breaker_done(struct weir_redis_breaker *b);

/* All return whether the health has changed. */
bool weir_redis_breaker_failure(struct weir_redis_breaker *b, __u64 now_ns);
/* There is no connection: nothing can be asked. */
bool weir_redis_breaker_down(struct weir_redis_breaker *b, __u64 now_ns);
/* A probe succeeded. */
bool weir_redis_breaker_up(struct weir_redis_breaker *b, __u64 now_ns);
/* Time passes. */
bool weir_redis_breaker_tick(struct weir_redis_breaker *b, __u64 now_ns);

#endif
