/* SPDX-License-Identifier: GPL-2.0-or-later */
/* redis-benchmark with weir's script: one decision a call, 16 calls pipelined on each of 50 connections. What the shared
 * store is measured against; called by the benches.
 */
#ifndef WEIR_TEST_REDIS_BENCH_H
#define WEIR_TEST_REDIS_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "lib/redis.h"

struct weir_store_limit;

#define REDIS_BENCH_LAYERS_MAX 3

struct redis_bench {
	const struct redis_server *r;
	size_t layers;
	unsigned clients; /* keys are of so many, at random */
	char sha[48];
};

/* Loads the script for decisions over these limits. -errno; -ENOENT: there is no redis-benchmark. */
int redis_bench_load(struct redis_bench *b, struct redisContext *c,
		     const struct weir_store_limit *limit);
/* So many decisions; how many came in a second. */
int redis_bench_run(const struct redis_bench *b, uint64_t decisions, double *ret_per_s);

#endif
