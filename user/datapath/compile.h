/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From configuration to policy: pure functions, no system call. Decides clock conversions, bit vectors, port classes,
 * and which word of which group holds each limit's state; keeps an old place where the limit's identity (name,
 * algorithm, unit, prefix lengths, window) is the same and its units have not changed.
 */
#ifndef WEIR_USER_COMPILE_H
#define WEIR_USER_COMPILE_H

#include "user/base/error.h"
#include "user/config/conf.h"
#include "weir/maps.h"

struct weir_net {
	struct weir_net_key key;
	__u32 mask;
};

struct weir_compiled {
	struct weir_policy policy;
	struct weir_limit_name names[WEIR_STATS_MAX];
	struct weir_net *nets; /* prefixes that limits match on */
	size_t n_nets;
	bool new_tables; /* no old tables, or words moved or changed units: state must be copied into new ones */
};

/* @old, @old_names: the policy in force and its `limits` map, or NULL. @buckets4, @buckets6: sizes of the state
 * tables. @jiffy_ns: step of the coarse clock. Returns 0 and *ret (heap; weir_compiled_free), -EINVAL with @e where a
 * limit cannot be represented: names the limit, the value and what would be right.
 * Banks and WEIR_POLICY_LISTS are as in @old (0 without): the caller changes those that it refills. A counter index
 * whose name differs from @old_names belongs to another limit now: its counters begin at zero.
 */
int weir_compile(const struct weir_conf *conf, const struct weir_policy *old,
		 const struct weir_limit_name *old_names, __u32 buckets4, __u32 buckets6,
		 __u64 jiffy_ns, struct weir_compiled **ret, struct weir_error *e);
void weir_compiled_free(struct weir_compiled *c);

/* Limits of a fleet (compile_fleet.c): the policy has one more for each, behind those of the configuration, that counts for
 * it (WEIR_LIMIT_FLEET).
 */
#define WEIR_FLEET_PASSES 4 /* over the table in the shortest window */
#define WEIR_FLEET_WINDOW_MAX_NS                                                                   \
	60000000000ull /* a limit must be at least 64 packets or full frames in it */
/* How often counts are read from tables of this size. */
__u64 weir_fleet_pass_ns(__u32 buckets4, __u32 buckets6);
/* In which windows they are counted; a multiple of passes. */
__u64 weir_fleet_window_ns(const struct weir_conf_limit *l, __u64 pass_ns);
/* What a limit lets through: @ret_burst at once, and @ret_amount every @ret_per_ns. */
void weir_fleet_rate(const struct weir_conf_limit *l, __u64 *ret_amount, __u64 *ret_per_ns,
		     __u64 *ret_burst);

/* New sources a second that the tables absorb at 25 % busy slots, by this limit alone (for `weir check`). */
__u64 weir_compile_new_sources_per_second(const struct weir_policy *p, unsigned limit, int family,
					  __u32 buckets, __u64 jiffy_ns);
/* Relative error of the rate by rounding mult, and how long until its word wraps. */
double weir_compile_rate_error(const struct weir_conf_limit *l, const struct weir_limit *c);
__u64 weir_compile_wrap_ns(const struct weir_limit *c);

#endif
