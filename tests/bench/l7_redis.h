/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's bench with limits in Redis: redis-benchmark with weir's script, the store without HTTP, agents, one
 * hot key with and without leases, and rate-limiter-flexible. Called by l7.c.
 */
#ifndef WEIR_BENCH_L7_REDIS_H
#define WEIR_BENCH_L7_REDIS_H

#include <jansson.h>

#include "tests/bench/l7_servers.h"

struct shared_bench;

/* Starts Redis and what asks it, and says what is left out. NULL: there is no Redis. Returns how many could not be
 * started.
 */
int shared_open(const struct server_place *at, uint64_t round_ns, struct shared_bench **ret);
/* One case of one round, @i from 0; *ret_name NULL: there is none any more. Returns how many figures could not be taken. */
int shared_measure(struct shared_bench *b, int i, int round, const char **ret_name);
/* Once, after the rounds: what leases admit too much. */
int shared_measure_over(struct shared_bench *b);
void shared_print(const struct shared_bench *b, int rounds);
void shared_json(const struct shared_bench *b, int rounds, json_t *out);
/* Prints what is missed, and returns how many bars that are. */
int shared_judge(const struct shared_bench *b, int rounds);
/* The rest of the last line. */
void shared_say(const struct shared_bench *b, int rounds);
void shared_close(struct shared_bench *b);

#endif
