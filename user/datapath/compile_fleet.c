/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits of a fleet: each has a second one in the policy, which no packet is dropped by and no user sees. It stands right
 * behind the first and so counts what that lets through, in short windows, in the slot of the source, where the agent reads
 * it (table_counts.c, user/fleet/sources.c). Called by compile.c and the agent.
 */
#include <string.h>

#include "user/datapath/compile_int.h"
#include "weir/algo.h"

#define PASS_NS	   250000000ull /* over tables of up to … */
#define PASS_BYTES (32ull << 20)
#define LEAST_UNITS                                                                                \
	64 /* packets, or full frames, in one window: 1 on each of 32 hosts is half of the limit then */
#define ONE_WORD  26 /* bits of a count in one word; the number of its window has 6 then */
#define COUNT_MAX ((1ull << WEIR_FIXED64_COUNT_BITS) - 1)

typedef unsigned __int128 u128;

__u64 weir_fleet_pass_ns(__u32 buckets4, __u32 buckets6)
{
	__u64 bytes = (__u64)buckets4 * sizeof(struct weir_bucket4) +
		      (__u64)buckets6 * sizeof(struct weir_bucket6);
	__u64 n = (bytes + PASS_BYTES - 1) / PASS_BYTES;

	return PASS_NS * (n ? n : 1);
}

void weir_fleet_rate(const struct weir_conf_limit *l, __u64 *ret_amount, __u64 *ret_per_ns,
		     __u64 *ret_burst)
{
	bool bucket = l->algorithm == WEIR_ALGO_TOKEN_BUCKET;

	*ret_amount = bucket ? l->rate : l->limit;
	*ret_per_ns = bucket ? l->rate_per_ns : l->window_ns;
	/* At the edge of two windows, the whole of both passes. */
	*ret_burst = bucket ? l->burst : 2 * l->limit;
}

__u64 weir_fleet_window_ns(const struct weir_conf_limit *l, __u64 pass_ns)
{
	__u64 amount, per_ns, burst, step = pass_ns * WEIR_FLEET_PASSES;
	u128 ns;

	weir_fleet_rate(l, &amount, &per_ns, &burst);
	ns = (u128)LEAST_UNITS * (l->bytes ? WEIR_FRAME_BYTES : 1) * per_ns / (amount ? amount : 1);
	if (ns > WEIR_FLEET_WINDOW_MAX_NS)
		ns = WEIR_FLEET_WINDOW_MAX_NS; /* the configuration refuses those */
	return ((__u64)ns / step + !!((__u64)ns % step || !ns)) * step;
}

static u128 in_window(const struct weir_conf_limit *l, __u64 window_ns)
{
	__u64 amount, per_ns, burst;

	weir_fleet_rate(l, &amount, &per_ns, &burst);
	return (u128)amount * window_ns / (per_ns ? per_ns : 1);
}

void weir_fleet_units_of(const struct weir_conf_limit *l, unsigned of, __u64 window_ns,
			 struct weir_limit *ret)
{
	u128 worth = in_window(l, window_ns), most;
	__u64 least = l->bytes ? WEIR_FRAME_BYTES : 1, floor = (__u64)(worth / (2 * LEAST_UNITS));
	__u8 bits = 6;

	most = worth + (l->algorithm == WEIR_ALGO_TOKEN_BUCKET ? l->burst : 2 * l->limit);
	ret->algorithm = WEIR_ALGO_FIXED_WINDOW;
	ret->flags = WEIR_LIMIT_MONITOR | WEIR_LIMIT_FLEET | (l->bytes ? WEIR_LIMIT_BYTES : 0);
	ret->word4 = ret->word6 = ret->penalty4 = ret->penalty6 = WEIR_NO_LIMIT;
	ret->window_ns = window_ns;
	ret->counts_for = of;
	while (bits <= ONE_WORD && most >> bits)
		bits++;
	if (bits > ONE_WORD) {
		ret->flags |= WEIR_LIMIT_PAIR;
		ret->limit = COUNT_MAX;
		return;
	}
	ret->count_bits = bits;
	ret->limit = (1ull << bits) - 1;
	ret->burst = (__u32)(floor > least ? floor : least);
}
