/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The limiter algorithms as pure functions on state words: no clock, map, helper or libc, so that the XDP program,
 * the agent and the tests compile the same text. The caller loads the word, calls, and stores the new word by
 * compare-and-swap; a function never touches memory but its ret_ argument, and writes that only to admit or block.
 *
 * Common to all: a word of zero is "no state" at every age of the clock, so fresh memory is right; a word that does
 * not lie in the limit's range is stale and counts as no state; every comparison is right across wraps.
 */
#ifndef WEIR_ALGO_H
#define WEIR_ALGO_H

#include "weir/algo_bucket.h"
#include "weir/algo_penalty.h"
#include "weir/algo_window.h"

#endif
