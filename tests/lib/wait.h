/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting in tests: for a condition, never for a guessed time. Clocks are CLOCK_MONOTONIC.
 *
 *	assert_true(wait_for(counter_read(c) == 3, 2000));
 */
#ifndef WEIR_TEST_WAIT_H
#define WEIR_TEST_WAIT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define WAIT_STEP_NS 1000000ULL /* a condition is looked at again after this long */

static inline uint64_t wait_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Wait until the clock shows @deadline_ns. Signals do not cut it short. */
static inline void wait_until_ns(uint64_t deadline_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(deadline_ns / 1000000000ULL),
		.tv_nsec = (long)(deadline_ns % 1000000000ULL),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* One step of a poll loop: false once @deadline_ns has passed, else true a step later. */
static inline bool wait_step(uint64_t deadline_ns)
{
	uint64_t now_ns = wait_now_ns();

	if (now_ns >= deadline_ns)
		return false;
	wait_until_ns(now_ns + WAIT_STEP_NS);
	return true;
}

/* Evaluate @cond every millisecond until it holds (true) or @timeout_ms have passed (false). */
#define wait_for(cond, timeout_ms)                                                                 \
	({                                                                                         \
		uint64_t wait_end_ns_ = wait_now_ns() + (uint64_t)(timeout_ms)*1000000ULL;         \
		bool wait_ok_ = (cond);                                                            \
                                                                                                   \
		while (!wait_ok_ && wait_step(wait_end_ns_))                                       \
			wait_ok_ = (cond);                                                         \
		wait_ok_;                                                                          \
	})

#endif
