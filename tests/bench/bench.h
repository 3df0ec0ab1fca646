/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a packet costs: what the bench's receivers share. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stdint.h>

#include "tests/lib/weir_bare.h"

struct peers;

/* Everything of one run. */
struct bench {
	struct peers *peers;
	int rx_ifindex;	 /* receiving veth */
	uint64_t frames; /* in one round of a fast case */
	int rounds;
};

#endif
