/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces as the kernel tells of them by rtnetlink and ethtool, and attaching by netlink with the kernel's own
 * words about a refusal (extack). Called by the attach files; knows nothing of weir's maps.
 */
#ifndef WEIR_USER_IFACE_H
#define WEIR_USER_IFACE_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/error.h"
#include "weir/types.h"

#define WEIR_EXTACK_MAX 192

struct weir_iface {
	char name[16];
	int index;
	int parent;	     /* of a VLAN and the like; 0 = none */
	int master;	     /* bridge or bond it belongs to; 0 = none */
	unsigned short type; /* ARPHRD_* */
	__u32 mtu;
	char kind[16];	     /* "veth", "vlan", "bridge", ...; "" = hardware or loopback */
	char slave_kind[16]; /* "bond" or "bridge" of its master */
	__u32 native_id;     /* programs attached; 0 = none */
	__u32 generic_id;
	__u32 offload_id;
};

static inline __u32 weir_iface_prog(const struct weir_iface *i)
{
	return i->native_id ? i->native_id : i->generic_id ? i->generic_id : i->offload_id;
}

/* All interfaces of this network namespace (heap). */
int weir_iface_list(struct weir_iface **ret, size_t *ret_n);
/* One by name; where it is missing, @e names those that exist. -ENODEV then. */
int weir_iface_get(const char *name, struct weir_iface *ret, struct weir_error *e);
int weir_iface_get_index(int ifindex, struct weir_iface *ret);
/* Driver by ethtool; "" if it has none. */
void weir_iface_driver(const char *name, char ret[static 32]);

/* RTM_SETLINK with IFLA_XDP. @fd -1 detaches; @flags XDP_FLAGS_*; @expected_fd is used with XDP_FLAGS_REPLACE. Writes
 * the kernel's explanation, or "", to @ret_extack. Returns 0 or -errno.
 */
int weir_iface_xdp_set(int ifindex, int fd, __u32 flags, int expected_fd,
		       char ret_extack[static WEIR_EXTACK_MAX]);

#endif
