/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does an address that the request layer knows reach this host as a packet source? Asks the kernel for TCP connections
 * with it (sock_diag), filtered there, so that many connections cost no copies. Called by escalate.c.
 */
#ifndef WEIR_AGENT_SEEN_H
#define WEIR_AGENT_SEEN_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/addr.h"

struct weir_seen {
	bool client; /* a connection whose handshake is complete: the address is not forged */
	bool peer;   /* somebody in the block is connected to one of @ports: a proxy that asks us */
};

/* @block: @client or a prefix of it. Waits at most @timeout_ms. -ENOENT and others: this kernel does not tell. */
int weir_seen_tcp(const struct weir_prefix *client, const struct weir_prefix *block,
		  const __u16 *ports, size_t n_ports, int timeout_ms, struct weir_seen *ret);

#endif
