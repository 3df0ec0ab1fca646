/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all algorithms of request limits answer. Included by algo_request_*.h. */
#ifndef WEIR_ALGO_REQUEST_TYPES_H
#define WEIR_ALGO_REQUEST_TYPES_H

#include "weir/types.h"

#define WEIR_REQUEST_NEVER (~0ull) /* retry_after_us of a cost above the whole limit */

struct weir_request_answer {
	__u64 remaining;      /* the largest cost that would be admitted now */
	__u64 reset_after_us; /* until remaining grows by one; 0: all of the quota is there */
	__u64 retry_after_us; /* until this cost is admitted; 0: now */
	__u64 delay_us; /* leaky bucket: from now until this request's turn, if it is admitted */
};

/* Says which charge a refund is about. Of a leaky bucket: when the next one after it may leave, to the part; else the time
 * of the charge.
 */
struct weir_request_ticket {
	__u64 us;
	__u64 part;
};

#endif
