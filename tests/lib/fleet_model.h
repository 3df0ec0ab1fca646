/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the fleet's lists may come to, for tests: the changes that several hosts made of one prefix under one origin, and
 * whether what is there in the end is one of the outcomes that docs/redis.md allows. Pure.
 *
 * Changes of one host count in their order, and one that is known to be in the store counts before all that anybody makes
 * from then on. What remains is open: any order that keeps to these two is allowed, and nothing else. After the last
 * deletion the latest end of the additions stands (for ever beats all), with the reason of the last of them.
 */
#ifndef WEIR_TEST_FLEET_MODEL_H
#define WEIR_TEST_FLEET_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_FOREVER UINT64_MAX
#define FLEET_NEAR_MS 1000 /* two ends that are no further apart are the same */

struct fleet_op {
	unsigned host;
	uint64_t seq; /* its place among all changes, as they were made */
	uint64_t
		confirmed; /* it comes before whatever has this seq or a later one; UINT64_MAX: not known */
	bool add;	   /* else a deletion */
	bool maybe; /* nobody knows whether it counted: unanswered, or over before the store had it */
	uint64_t end_ms;  /* of an addition; FLEET_FOREVER */
	uint64_t late_ms; /* it may be so much later */
};

struct fleet_seen {
	bool there;
	uint64_t end_ms;
	uint64_t last; /* seq of the addition whose reason it shows */
};

/* NULL: it is allowed; else a word for what is wrong. @op: in the order of seq. */
const char *fleet_judge(const struct fleet_op *op, size_t n, const struct fleet_seen *seen,
			uint64_t now_ms);

#endif
