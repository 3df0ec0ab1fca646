/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests with a real Redis share: a store on a loop, requests on it, waiting in the loop. */
#ifndef WEIR_TEST_REDIS_FIXTURE_H
#define WEIR_TEST_REDIS_FIXTURE_H

#include "unit/request.h"

#include <event2/event.h>
#include <hiredis/hiredis.h>

#include "lib/redis.h"
#include "lib/wait.h"
#include "user/redis/redis.h"

#define MS 1000000ull

struct fix {
	struct redis_server r;
	struct event_base *base;
	struct weir_store *s;
	struct weir_redis_options o;
};

/* To be changed before fix_store. */
static inline void fix_options(struct fix *f)
{
	f->o = (struct weir_redis_options){
		.prefix = "weir:",
		.timeout_ns = 200 * MS, /* not what is tested, on a busy machine */
		.breaker_errors = 20,
		.breaker_within_ns = 1000 * MS,
		.probe_ns = 50 * MS,
		.batch_max = 64,
		.waiting_max = 100000,
	};
}

static inline void fix_store_at(struct fix *f, const char *url)
{
	struct weir_redis_url u;
	struct weir_error e = {};

	if (!f->base)
		f->base = event_base_new();
	if (weir_redis_url_parse(url, &u, &e) < 0)
		fail_msg("%s", e.text);
	f->o.url = &u;
	if (weir_store_redis_new(f->base, &f->o, &f->s, &e) < 0)
		fail_msg("%s", e.text);
	weir_redis_url_done(&u);
	f->o.url = NULL;
}

static inline void fix_store(struct fix *f)
{
	char url[160];

	(void)snprintf(url, sizeof(url), "redis+unix://%s", f->r.sock);
	fix_store_at(f, url);
}

static inline void fix_done(struct fix *f)
{
	weir_store_free(f->s);
	f->s = NULL;
	if (f->base)
		event_base_free(f->base);
	f->base = NULL;
	redis_stop(&f->r);
}

/* Turns the loop until @cond holds, at most @timeout_ms. */
#define fix_wait(f, cond, timeout_ms)                                                              \
	({                                                                                         \
		uint64_t end_ns_ = wait_now_ns() + (uint64_t)(timeout_ms)*MS;                      \
		struct timeval step_ = {.tv_usec = 1000};                                          \
                                                                                                   \
		while (!(cond) && wait_now_ns() < end_ns_) {                                       \
			(void)event_base_loopexit((f)->base, &step_);                              \
			(void)event_base_loop((f)->base, EVLOOP_ONCE);                             \
		}                                                                                  \
		(cond);                                                                            \
	})

/* Turns the loop for so long. */
static inline void fix_turn(struct fix *f, unsigned ms)
{
	bool never = false;

	(void)fix_wait(f, never, ms);
}

static inline enum weir_far_health fix_health(struct fix *f)
{
	struct weir_far_stats s;

	weir_store_far_stats(f->s, &s);
	return s.health;
}

/* One request; its result in @r (1: not yet). */
struct ask {
	struct weir_store_request q;
	struct weir_store_layer y[4];
	int r;
	uint64_t began_ns, ended_ns;
	void *owner; /* the test's */
};

static inline void ask_done(struct weir_store_request *q, int r, void *data)
{
	struct ask *a = data;

	(void)q;
	assert_int_equal(a->r, 1); /* once */
	a->r = r;
	a->ended_ns = wait_now_ns();
}

static inline void ask_start(struct fix *f, struct ask *a, size_t n)
{
	a->q.layer = a->y;
	a->q.n = n;
	a->q.now_us = EPOCH;
	a->r = 1;
	a->began_ns = wait_now_ns();
	f->s->ops->decide(f->s, &a->q, ask_done, a);
}

/* Decides one layer and waits: 0 or -errno; *ret_admitted. */
static inline int ask_one(struct fix *f, const struct weir_store_limit *l, __u64 client, __u64 cost,
			  bool *ret_admitted)
{
	struct ask a = {.y = {request_layer(l, client, cost)}};

	ask_start(f, &a, 1);
	assert_true(fix_wait(f, a.r != 1, 10000));
	*ret_admitted = a.q.admitted;
	return a.r;
}

#endif
