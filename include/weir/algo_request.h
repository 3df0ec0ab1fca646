/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The algorithms of request limits as pure functions: no clock, no libc. Called by the embedded store and by tests;
 * one text for all, so that another store can be checked against it. Times are microseconds since the Unix epoch.
 *
 * Every algorithm has the same verbs:
 *	settle	the state as it is at @now: what is over is gone, what exceeds lowered numbers is clamped
 *	look	what a client is told of a settled state, for a request of @cost; changes nothing: this is the peek
 *	take	the state after charging @cost; only where look says retry_after_us == 0
 *	refund	the state after giving @cost back, charged as @ticket says; never more than is certainly still charged
 *	idle	the time from which the state is the same as none
 * A zeroed state is "no requests yet". A request is admitted exactly if look's retry_after_us is 0. Without other
 * requests it is refused at every moment before now + retry_after_us and admitted at that one: neither early nor late.
 * A @now older than the state never lowers a count or frees quota.
 */
#ifndef WEIR_ALGO_REQUEST_H
#define WEIR_ALGO_REQUEST_H

#include "weir/algo_request_bucket.h"
#include "weir/algo_request_log.h"
#include "weir/algo_request_window.h"

#endif
