/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See l7_store.h. */
#include "tests/bench/l7_store.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/bench/l7.h"
#include "tests/lib/wait.h"
#include "user/redis/redis.h"
#include "user/store/hot.h"

#define UNDER_WAY    128 /* as many as two calls hold; more only wait */
#define AGENTS_MAX   8
#define ASKED_A_TURN 256
#define SECOND_US    1000000ull

struct asking {
	struct asking *next; /* idle */
	struct loop *l;
	struct weir_store *s;
	struct weir_store_request q;
	struct weir_store_layer y[STORE_LAYERS];
};

struct loop {
	struct event_base *base;
	struct weir_hot_agent agent[AGENTS_MAX];
	struct weir_store *s[AGENTS_MAX];
	unsigned n_agents;
	struct weir_store_limit limit[STORE_LAYERS];
	unsigned n_layers, clients;
	struct asking all[UNDER_WAY];
	struct asking *idle;
	unsigned n_idle;
	uint64_t seed, answers, admitted, failed;
	int r; /* of the last failure */
	/* a bucket that is never full: what was admitted, less what the rate allows */
	double level, most, rate_per_us;
	uint64_t level_us;
};

static uint64_t clock_ns(clockid_t which)
{
	struct timespec t;

	(void)clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

int store_limits(uint64_t lease, struct weir_store_limit ret[STORE_LAYERS])
{
	struct weir_store_identity id[STORE_LAYERS];

	if (weir_store_identity_of("per-address", WEIR_REQUEST_TOKEN_BUCKET, "ip", "", "fleet",
				   &id[0]) < 0 ||
	    weir_store_identity_of("api", WEIR_REQUEST_SLIDING_COUNTER, "ip endpoint", "60s",
				   "fleet", &id[1]) < 0 ||
	    weir_store_limit_bucket(&id[0], 1, 60 * SECOND_US, 10000000, &ret[0]) < 0 ||
	    weir_store_limit_window(&id[1], WEIR_REQUEST_SLIDING_COUNTER, 10000000, 60 * SECOND_US,
				    &ret[1]) < 0)
		return -EINVAL;
	ret[0].lease = ret[1].lease = lease;
	return 0;
}

/* --- asking -------------------------------------------------------------------------------- */

static void note_admitted(struct loop *l)
{
	uint64_t now_us = clock_ns(CLOCK_REALTIME) / 1000;

	l->admitted++;
	l->level -= (double)(now_us - l->level_us) * l->rate_per_us;
	l->level = (l->level > 0 ? l->level : 0) + 1;
	l->level_us = now_us;
	if (l->level > l->most)
		l->most = l->level;
}

/* Perhaps before the question returns: the next one is put by the loop. */
static void answered(struct weir_store_request *q, int r, void *data)
{
	struct asking *a = data;
	struct loop *l = a->l;

	l->answers++;
	if (r < 0) {
		l->failed++;
		l->r = r;
	}
	if (l->rate_per_us > 0 && r >= 0 && q->admitted)
		note_admitted(l);
	a->next = l->idle;
	l->idle = a;
	l->n_idle++;
}

static void ask(struct loop *l, struct weir_store *s)
{
	struct asking *a = l->idle;
	uint64_t key[2], client;

	l->idle = a->next;
	l->n_idle--;
	l->seed ^= l->seed << 13;
	l->seed ^= l->seed >> 7;
	l->seed ^= l->seed << 17;
	client = (l->seed >> 32) % l->clients + 1;
	key[0] = client * 0x9e3779b97f4a7c15ULL;
	key[1] = client * 0xc2b2ae3d27d4eb4fULL;
	for (unsigned i = 0; i < l->n_layers; i++) {
		a->y[i] = (struct weir_store_layer){.limit = &l->limit[i], .cost = 1};
		memcpy(a->y[i].key, key, sizeof(key));
		memcpy(a->y[i].tag, key, sizeof(a->y[i].tag));
	}
	a->q = (struct weir_store_request){.layer = a->y,
					   .n = l->n_layers,
					   .now_us = clock_ns(CLOCK_REALTIME) / 1000};
	s->ops->decide(s, &a->q, answered, a);
}

/* Asks as fast as it goes for so long. */
static void run_for(struct loop *l, uint64_t ns)
{
	uint64_t end_ns = wait_now_ns() + ns;

	for (unsigned turn = 0; wait_now_ns() < end_ns; turn++) {
		for (unsigned i = 0; l->idle && i < ASKED_A_TURN; i++)
			ask(l, l->s[turn % l->n_agents]);
		(void)event_base_loop(l->base, l->idle ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
	}
}

/* At most so many a second of each agent, for so long. */
static void run_slowly(struct loop *l, uint64_t ns, uint64_t per_s)
{
	uint64_t begin_ns = wait_now_ns(), now_ns = begin_ns, asked = 0;

	while (now_ns - begin_ns < ns) {
		for (; l->idle && asked < (now_ns - begin_ns) * per_s * l->n_agents / 1000000000;
		     asked++)
			ask(l, l->s[asked % l->n_agents]);
		(void)event_base_loop(l->base, EVLOOP_NONBLOCK);
		now_ns = wait_now_ns();
	}
}

static bool settle(struct loop *l)
{
	uint64_t end_ns = wait_now_ns() + 5000 * MS_NS;
	struct timeval step = {.tv_usec = 1000};

	while (l->n_idle < UNDER_WAY && wait_now_ns() < end_ns) {
		(void)event_base_loopexit(l->base, &step);
		(void)event_base_loop(l->base, EVLOOP_ONCE);
	}
	return l->n_idle == UNDER_WAY;
}

/* --- coming and going ---------------------------------------------------------------------- */

static int add_agent(struct loop *l, const struct weir_redis_options *o, struct weir_error *e)
{
	struct weir_hot_options hot = {.deny = true, .lease = true, .base = l->base};
	struct weir_store *inner;
	int r = weir_store_redis_new(l->base, o, &inner, e);

	if (r >= 0)
		r = weir_store_hot_new(inner, &l->agent[l->n_agents], &hot, &l->s[l->n_agents]);
	if (r >= 0)
		l->n_agents++;
	return r;
}

static void close_loop(struct loop *l)
{
	for (unsigned i = 0; i < l->n_agents; i++)
		weir_store_free(l->s[i]);
	if (l->base)
		event_base_free(l->base);
	l->base = NULL;
	l->n_agents = 0;
}

/* With every agent connected. */
static int open_loop(struct loop *l, const char *url, unsigned batch, unsigned agents, char *err,
		     size_t err_bytes)
{
	struct weir_redis_options o = {.prefix = "weir:",
				       .timeout_ns = 1000 * MS_NS,
				       .breaker_errors = 1000,
				       .breaker_within_ns = 1000 * MS_NS,
				       .probe_ns = 100 * MS_NS,
				       .batch_max = batch,
				       .waiting_max = 10000};
	struct weir_redis_url u;
	struct weir_error e = {};
	int r = weir_redis_url_parse(url, &u, &e);

	l->seed = 0x9e3779b97f4a7c15ULL;
	for (unsigned i = 0; i < UNDER_WAY; i++) {
		l->all[i].l = l;
		l->all[i].next = l->idle;
		l->idle = &l->all[i];
	}
	l->n_idle = UNDER_WAY;
	if (r >= 0) {
		o.url = &u;
		l->base = event_base_new();
		r = l->base ? 0 : -ENOMEM;
		while (r >= 0 && l->n_agents < agents)
			r = add_agent(l, &o, &e);
		weir_redis_url_done(&u);
	}
	for (unsigned i = 0; r >= 0 && i < l->n_agents; i++)
		ask(l, l->s[i]);
	if (r >= 0 && (!settle(l) || l->failed))
		r = l->r < 0 ? l->r : -ETIMEDOUT;
	if (r < 0)
		(void)snprintf(err, err_bytes, "%s", e.text[0] ? e.text : strerror(-r));
	return r;
}

int store_run(const struct store_plan *plan, char *err, size_t err_bytes, struct store_result *ret)
{
	static struct loop l;
	uint64_t begin_ns, cpu_ns;
	int r;

	l = (struct loop){.n_layers = STORE_LAYERS, .clients = plan->clients};
	r = store_limits(plan->lease, l.limit);
	if (r >= 0)
		r = open_loop(&l, plan->url, plan->batch, 1, err, err_bytes);
	if (r >= 0) {
		run_for(&l, WARM_NS);
		l.answers = l.failed = 0;
		begin_ns = wait_now_ns();
		cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		run_for(&l, plan->duration_ns);
		*ret = (struct store_result){
			.answers = l.answers,
			.failed = l.failed,
			.elapsed_ns = wait_now_ns() - begin_ns,
			.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns,
		};
		(void)settle(&l);
	}
	close_loop(&l);
	if (r >= 0 && ret->failed > ret->answers / 1000) {
		(void)snprintf(err, err_bytes, "%" PRIu64 " of %" PRIu64 " decisions failed: %s",
			       ret->failed, ret->answers, strerror(-l.r));
		r = -EIO;
	}
	return r;
}

int store_over_admission(const struct store_over *plan, char *err, size_t err_bytes, double *ret,
			 uint64_t *ret_admitted)
{
	static struct loop l;
	struct weir_store_identity id;
	uint64_t end_ns;
	int r;

	l = (struct loop){.n_layers = 1, .clients = 1};
	r = weir_store_identity_of("hot", WEIR_REQUEST_TOKEN_BUCKET, "global", "", "fleet", &id);
	if (r >= 0)
		r = weir_store_limit_bucket(&id, plan->rate_per_s, SECOND_US, plan->burst,
					    &l.limit[0]);
	l.limit[0].lease = plan->lease;
	if (r >= 0)
		r = open_loop(&l, plan->url, 64, plan->agents, err, err_bytes);
	l.rate_per_us = (double)plan->rate_per_s / 1e6;
	l.level_us = clock_ns(CLOCK_REALTIME) / 1000;
	end_ns = wait_now_ns() + plan->duration_ns;
	while (r >= 0 && wait_now_ns() < end_ns) {
		/* little enough that what leases hold is earned anew meanwhile */
		run_slowly(&l, 600 * MS_NS, plan->rate_per_s / 4 / plan->agents);
		run_for(&l, 100 * MS_NS);
	}
	if (r >= 0 && (!settle(&l) || l.failed))
		r = l.r < 0 ? l.r : -ETIMEDOUT;
	close_loop(&l);
	if (r < 0)
		return r;
	*ret = l.most - (double)plan->burst;
	*ret_admitted = l.admitted;
	return 0;
}
