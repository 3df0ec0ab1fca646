/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fixed-width types and the few attributes that XDP, agent and tests share. Included by every header here. */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* A struct that crosses the kernel border: its size is part of the ABI. */
#define WEIR_ABI_SIZE(type, size)                                                                  \
	_Static_assert(sizeof(type) == (size), #type " changed its size: raise WEIR_ABI")

/* Raised whenever a pinned map's content changes its meaning; the loader adopts only equal numbers. */
#define WEIR_ABI	1
#define WEIR_MAGIC	0x77656972u /* "weir" */

#define WEIR_LIMITS_MAX 32 /* limits in a policy; one bit each in a 32-bit mask */
#define WEIR_GROUPS_MAX 32 /* state groups per family */
#define WEIR_STATS_MAX	64 /* limit counters: 32 live ones and as many whose limit has gone */
#define WEIR_WAYS	4  /* slots in a bucket of the state table */
#define WEIR_WORDS4                                                                                \
	3 /* 32-bit words of limiter state in an IPv4 slot (16 bytes: one line a bucket) */
#define WEIR_WORDS6   6 /* the same in an IPv6 slot (32 bytes: two lines a bucket) */
#define WEIR_NO_LIMIT 0xff

#endif
