/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parts of the request layer's bench share: l7.c, l7_redis.c, l7_store.c. */
#ifndef WEIR_BENCH_L7_H
#define WEIR_BENCH_L7_H

#include <stdint.h>

#define ROUNDS_MAX  25
#define CONNECTIONS 64
#define ADDRESSES   10000
#define MS_NS	    UINT64_C(1000000)
#define WARM_NS	    (100 * MS_NS)

/* Median over the rounds, as it is or as a ratio to @base, where both were measured; 0: nowhere. */
double bench_median(const double *of, const double *base, int rounds);
/* Says why @name has no figure; returns @r. */
int bench_complain(const char *name, int r, const char *err);

#endif
