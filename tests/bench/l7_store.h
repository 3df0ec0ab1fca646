/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store without HTTP, as the agent's workers use it: one thread, so many decisions under way, the next one when
 * one is answered. Called by l7_redis.c.
 */
#ifndef WEIR_BENCH_L7_STORE_H
#define WEIR_BENCH_L7_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "user/store/store.h"

#define STORE_LAYERS 2

/* The two limits of every Redis case: as the agent's configuration in l7_redis.c says them. @lease 0: none. */
int store_limits(uint64_t lease, struct weir_store_limit ret[STORE_LAYERS]);

struct store_plan {
	const char *url;
	unsigned batch;	  /* decisions in one call at most */
	unsigned clients; /* at random; 1: one hot key */
	uint64_t lease;
	uint64_t duration_ns;
};
struct store_result {
	uint64_t answers, failed;
	uint64_t elapsed_ns, cpu_ns;
};
/* -errno with a sentence. */
int store_run(const struct store_plan *plan, char *err, size_t err_bytes, struct store_result *ret);

/* One hot key of a token bucket, agents that ask little and then all at once, again and again: how much more than
 * burst + rate x time was admitted in any time, at the most.
 */
struct store_over {
	const char *url;
	unsigned agents;
	uint64_t rate_per_s, burst, lease; /* lease 0: none */
	uint64_t duration_ns;
};
int store_over_admission(const struct store_over *plan, char *err, size_t err_bytes, double *ret,
			 uint64_t *ret_admitted);

#endif
