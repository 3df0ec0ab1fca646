/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A weir program that netlink attached (`ip link set dev X xdp ...`, or libxdp without its dispatcher): replaced in one
 * step, and left on netlink, since the way to a link leads through a gap. Called by attach.c and attach_chain.c.
 */
#include <bpf/bpf.h>
#include <linux/if_link.h>
#include <string.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

static __u32 mode_of(const struct weir_iface *i, __u32 prog_id)
{
	return i->native_id == prog_id	  ? XDP_FLAGS_DRV_MODE
	       : i->generic_id == prog_id ? XDP_FLAGS_SKB_MODE
					  : XDP_FLAGS_HW_MODE;
}

int weir_netlink_replace(struct weir_datapath *d, const struct weir_iface *i,
			 struct weir_attachment *a, struct weir_error *e)
{
	__u32 old_id = weir_iface_prog(i);
	char extack[WEIR_EXTACK_MAX];
	_cleanup_close_ int old = -1;
	int r;

	a->native = i->native_id == old_id;
	a->netlink = true;
	if (d->attach == WEIR_ATTACH_LINK)
		(void)snprintf(a->note, sizeof(a->note),
			       "stays on netlink, where it was attached: `weir detach` and a new "
			       "start make it a link, with a gap");
	if (old_id == d->prog_id)
		return 0;
	old = bpf_prog_get_fd_by_id(old_id);
	if (old < 0)
		return weir_kernel_error(e, old, "cannot open the program that is attached");
	r = weir_iface_xdp_set(i->index, d->prog_fd, mode_of(i, old_id) | XDP_FLAGS_REPLACE, old,
			       extack);
	return r < 0 ? weir_attach_error(e, r, i, a->native, extack) : 0;
}

int weir_netlink_detach(const struct weir_iface *i, __u32 prog_id, struct weir_error *e)
{
	_cleanup_close_ int old = bpf_prog_get_fd_by_id(prog_id);
	char extack[WEIR_EXTACK_MAX];
	int r;

	if (old < 0)
		return weir_kernel_error(e, old, "cannot open the program that is attached");
	r = weir_iface_xdp_set(i->index, -1, mode_of(i, prog_id) | XDP_FLAGS_REPLACE, old, extack);
	if (r < 0)
		return weir_error_set(e, r, "%s: cannot detach: %s%s%s", i->name, strerror(-r),
				      extack[0] ? ", the kernel says: " : "", extack);
	if (!weir_iface_wait_gone(i->index, prog_id))
		return weir_error_set(e, -ETIMEDOUT, "%s: the program is still attached after 5 s",
				      i->name);
	return 0;
}
