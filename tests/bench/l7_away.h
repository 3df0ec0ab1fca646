/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a check costs while Redis is away, by each on_store_failure, beside the same limits in an embedded store, without
 * HTTP. Needs no Redis: nothing listens where it should be. Called by l7.c.
 */
#ifndef WEIR_BENCH_L7_AWAY_H
#define WEIR_BENCH_L7_AWAY_H

#include <jansson.h>

struct away_bench;

/* @dir: where no server has its socket. Complains, and returns how many things could not be made. */
int away_open(const char *dir, struct away_bench **ret);
void away_measure(struct away_bench *b, int round);
void away_print(const struct away_bench *b, int rounds);
void away_json(const struct away_bench *b, int rounds, json_t *out);
/* Prints what is missed, and returns how many bars that are. */
int away_judge(const struct away_bench *b, int rounds);
/* The rest of the last line. */
void away_say(const struct away_bench *b, int rounds);
void away_close(struct away_bench *b);

#endif
