/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HTTP client of the request layer's bench: one thread, many keep-alive connections with one request under way on
 * each, every request from another client address. Called by l7.c.
 */
#ifndef WEIR_BENCH_L7_LOAD_H
#define WEIR_BENCH_L7_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define LOAD_CONNECTIONS_MAX 8192
#define LOAD_ADDRESSES_MAX   1000000 /* 10.100.100.100 and up, each byte from 100 to 199 */
#define LOAD_ERR_BYTES	     256

/* Log-linear: 64 steps in each power of two, so a value is at most 1.6 % off. */
#define LOAD_HISTOGRAM_SLOTS (64 * 40)
struct load_histogram {
	uint64_t n[LOAD_HISTOGRAM_SLOTS];
	uint64_t count;
};
/* Upper end of the slot that holds the @share (0 .. 1) smallest; 0 if there is nothing. */
uint64_t load_quantile_ns(const struct load_histogram *h, double share);

/* What one run sends. It ends after @requests or @duration_ns, whichever comes first (0: not bounded by it). */
struct load_plan {
	uint64_t duration_ns;
	uint64_t requests;
	double rate_per_s; /* 0: the next request follows the answer (closed loop). Else requests are due at this rate,
			    * whether or not answers come, and latency counts from when one was due. */
	uint32_t first, addresses; /* which client addresses */
	bool in_order;		   /* one after the other; else at random */
	bool spin; /* closed loop: never sleep, so that no server pays for waking this thread */
};

struct load_result {
	uint64_t answers;
	uint64_t allowed, refused, other; /* by status: 2xx; 403, 429 and 503; the rest */
	uint64_t elapsed_ns;
	struct load_histogram latency; /* open loop only */
};

struct load;
/* Connects. @err gets a sentence when this or load_run fails. */
int load_open(uint16_t port, unsigned int connections, char err[LOAD_ERR_BYTES], struct load **ret);
int load_run(struct load *l, const struct load_plan *plan, struct load_result *ret);
void load_close(struct load *l);

#endif
