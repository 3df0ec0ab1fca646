/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the request layer counted, and how fast: read once a second, as meter.h does for packets. Also since when a limit
 * acts. Called by the agent's loop.
 */
#ifndef WEIR_AGENT_REQUEST_METER_H
#define WEIR_AGENT_REQUEST_METER_H

#include "user/l7/engine.h"

#define WEIR_REQUEST_ROWS_MAX 128 /* limits in force, and former ones as far as there is room */
#define WEIR_ACTING_S	      10  /* a limit that has not acted for so long does not act now */

/* Since when a limit refuses without a pause; 0 = it has not. Wall clock. */
struct weir_acting {
	__s64 since_s, last_s;
};
/* @acted: did it refuse since the last update? */
void weir_acting_update(struct weir_acting *t, bool acted, __s64 now_s);
/* Has it, within WEIR_ACTING_S? */
bool weir_acting_now(const struct weir_acting *t, __s64 now_s);

/* Two moments, heap-free; the rows of each in the order of weir_l7_limits. */
struct weir_request_meter {
	struct weir_l7_stats now, before;
	struct weir_l7_limit_stats row[WEIR_REQUEST_ROWS_MAX], row_before[WEIR_REQUEST_ROWS_MAX];
	struct weir_acting acting[WEIR_REQUEST_ROWS_MAX]; /* of row[] */
	size_t n, n_before;
	__u64 now_ns, before_ns; /* 0 = not yet */
};
/* Reads what @l7 has counted; what was now is before. */
void weir_request_meter_update(struct weir_request_meter *m, struct weir_l7 *l7, __u64 now_ns,
			       __s64 wall_s);
/* The row in force of this name; NULL: there is none yet. *ret_before: the same a second ago, or NULL. */
const struct weir_l7_limit_stats *
weir_request_meter_row(const struct weir_request_meter *m, const char *name,
		       const struct weir_l7_limit_stats **ret_before,
		       const struct weir_acting **ret_acting);
/* (now - before) a second, rounded; 0 if a counter began anew. */
__u64 weir_request_rate(const struct weir_request_meter *m, __u64 now, __u64 before);
/* All that refuses: over the limit, store away, cost too large, no key. */
__u64 weir_request_refused(const struct weir_l7_limit_stats *row);
const char *weir_l7_verdict_name(enum weir_l7_verdict v);

#endif
