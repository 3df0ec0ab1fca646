/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a store on other machines says of itself, whatever it is: how it is, what it was asked and how long that took.
 * A store says it by weir_store_ops.far; the request layer sums it over its workers' stores; the agent shows it.
 */
#ifndef WEIR_USER_STORE_FAR_H
#define WEIR_USER_STORE_FAR_H

#include "user/store/store.h"

enum weir_far_health {
	WEIR_FAR_HEALTHY,
	WEIR_FAR_DEGRADED, /* some calls fail */
	WEIR_FAR_OPEN,	   /* nothing is asked; a probe looks whether it is back */
	WEIR_FAR_HEALTH_MAX
};
/* "healthy", "degraded", "open"; "?" for none of them. */
const char *weir_far_health_name(enum weir_far_health h);

/* Why a decision was not answered by the store. */
enum weir_far_error {
	WEIR_FAR_ERROR_CONNECT,
	WEIR_FAR_ERROR_QUEUE, /* the deadline passed before it was sent */
	WEIR_FAR_ERROR_REPLY, /* … before the reply came, or it makes no sense */
	WEIR_FAR_ERROR_OOM,
	WEIR_FAR_ERROR_SCRIPT,	/* it refuses the work, or to write */
	WEIR_FAR_ERROR_CLUSTER, /* its nodes disagree about who has a key */
	WEIR_FAR_ERROR_MAX
};

#define WEIR_FAR_LATENCY_N 12 /* upper bounds, and one above */
extern const __u32 weir_far_latency_us[WEIR_FAR_LATENCY_N];

struct weir_far_stats {
	enum weir_far_health health;
	unsigned nodes, away;	/* in use; of them open */
	char away_names[96];	/* theirs, as far as they fit */
	__s64 since_s;		/* wall clock of the last change; 0: none yet */
	char cause[160];	/* of the last failure; "" after none */
	char server[128];	/* address, role, version of the node in use; "": none yet */
	__u64 decisions, calls; /* decisions / calls: how well it coalesces */
	__u64 errors[WEIR_FAR_ERROR_MAX];
	__u64 reconnects, script_loads, redirects, late_refunds;
	__u64 latency_n[WEIR_FAR_LATENCY_N + 1], latency_sum_us; /* of calls */
	bool keys_known;
	__u64 keys, key_bytes; /* of weir's there, about: a sample */
};

/* Of any thread. A store that is not far is healthy and counts nothing. */
static inline void weir_store_far_stats(struct weir_store *s, struct weir_far_stats *ret)
{
	*ret = (struct weir_far_stats){.health = WEIR_FAR_HEALTHY};
	if (s->ops->far)
		s->ops->far(s, ret);
}

/* Adds the counts of @from; health, its time, cause and nodes are those of the worse one (of two that are open, of the one
 * with more nodes away), the server is the first known.
 */
void weir_far_stats_add(struct weir_far_stats *to, const struct weir_far_stats *from);

#endif
