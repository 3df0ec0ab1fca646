/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading a dump of the kernel's by netlink: addresses and routes (guard.c), TCP connections (seen.c). */
#ifndef WEIR_AGENT_NETLINK_H
#define WEIR_AGENT_NETLINK_H

#include <linux/netlink.h>
#include <stddef.h>

#include "weir/types.h"

/* One message; @left bytes from @h on. Below 0 ends the reading. */
typedef int weir_netlink_each_fn(void *arg, const struct nlmsghdr *h, size_t left);

/* Answers to @seq on a socket that does not block, until the dump is done. 0; -ETIMEDOUT at @until_ns (monotonic); what
 * the kernel says, or @each. Main thread only: its buffer is one for all.
 */
int weir_netlink_dump(int fd, unsigned seq, __u64 until_ns, weir_netlink_each_fn *each, void *arg);

#endif
