/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir's program with its maps filled, but no agent, pins or attachment: for the bench and for tests of exactness. The
 * whole path, as the agent would load it, with allow and block lists of 1000 entries each that are looked up for every
 * packet, and events on; but what passes is dropped, so that the network stack is not measured.
 */
#ifndef WEIR_TEST_BARE_H
#define WEIR_TEST_BARE_H

#include <stdint.h>

#include "weir/maps.h"

struct weir;

struct weir_bare_opts {
	const char *yaml;     /* a configuration, of which packet_limits count */
	uint64_t table_bytes; /* of each family; a power of two */
};

/* Loads the program and fills every map. *ret_prog_fd belongs to *ret. Prints what went wrong and returns -errno. */
int weir_bare_open(const struct weir_bare_opts *o, struct weir **ret, int *ret_prog_fd);
void weir_bare_close(struct weir *w);
/* Sum over CPUs. */
int weir_bare_counters(struct weir *w, struct weir_counters *ret);
/* Packets that the program has judged, all reasons. */
uint64_t weir_bare_packets(struct weir *w);

#endif
