/* SPDX-License-Identifier: GPL-2.0-or-later */
/* attach: chain. libxdp's dispatcher calls several programs in the order of their priorities; it is attached by
 * netlink. A restart puts the new program in beside the old one and then takes the old one out: two atomic steps
 * without a gap, between which packets are charged twice. Where the kernel refuses the dispatcher, libxdp attaches the
 * program alone, and that is said. Called by attach.c.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <string.h>
#include <xdp/libxdp.h>

#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"
#include "weir.skel.h"

#define RUN_PRIORITY                                                                               \
	10 /* before programs with libxdp's default of 50: what is shed costs them nothing */

DEFINE_CLEANUP(struct weir, weir__destroy)
DEFINE_CLEANUP(struct xdp_program, xdp_program__close)
DEFINE_CLEANUP(struct xdp_multiprog, xdp_multiprog__close)

/* Ids of our programs in the chain of an interface, at most @max; returns how many. */
static int find_all(int ifindex, __u32 meta_id, __u32 *ret, int max)
{
	_cleanup_(xdp_multiprog__closep) struct xdp_multiprog *chain =
		xdp_multiprog__get_from_ifindex(ifindex);
	struct xdp_program *p = NULL;
	int n = 0;

	if (libxdp_get_error(chain)) {
		chain = NULL; /* an error, not a pointer */
		return 0;
	}
	while ((p = xdp_multiprog__next_prog(p, chain)) && n < max) {
		if (weir_prog_is_weir(xdp_program__id(p), meta_id))
			ret[n++] = xdp_program__id(p);
	}
	return n;
}

__u32 weir_chain_find(const struct weir_iface *i, __u32 meta_id)
{
	__u32 id = 0;

	return find_all(i->index, meta_id, &id, 1) ? id : 0;
}

static int remove_one(int ifindex, __u32 prog_id)
{
	_cleanup_(xdp_program__closep) struct xdp_program *p = xdp_program__from_id(prog_id);
	long r = libxdp_get_error(p);

	if (r) {
		p = NULL;
		return (int)r;
	}
	return xdp_program__detach(p, ifindex, XDP_MODE_UNSPEC, 0);
}

/* The program anew, on the same maps: in a chain it is of another type than the pinned one. libxdp loads it. */
static int make_program(struct weir_datapath *d, struct weir **ret_skel, struct xdp_program **ret,
			struct weir_error *e)
{
	_cleanup_(weir__destroyp) struct weir *skel = NULL;
	DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, 0);
	struct xdp_program *p;
	int r = weir_load(d, d->map_fd, true, &skel, e);

	if (r < 0)
		return r;
	opts.obj = skel->obj;
	opts.prog_name = WEIR_PROG_NAME;
	p = xdp_program__create(&opts);
	r = (int)libxdp_get_error(p);
	if (r == 0)
		r = xdp_program__set_run_prio(p, RUN_PRIORITY);
	if (r < 0)
		return weir_kernel_error(e, r, "libxdp does not take the program");
	*ret = p;
	*ret_skel = TAKE_PTR(skel);
	return 0;
}

static int attach_mode(struct weir_datapath *d, struct xdp_program *p, const struct weir_iface *i,
		       struct weir_attachment *a, struct weir_error *e)
{
	enum xdp_attach_mode mode =
		d->xdp_mode == WEIR_XDP_GENERIC ? XDP_MODE_SKB : XDP_MODE_NATIVE;
	char why[160];
	int r;

	if (weir_iface_prog(i)) /* a chain has one mode */
		mode = i->native_id ? XDP_MODE_NATIVE : XDP_MODE_SKB;
	weir_kernel_log_clear();
	r = xdp_program__attach(p, i->index, mode, 0);
	if (r < 0 && mode == XDP_MODE_NATIVE && d->xdp_mode == WEIR_XDP_AUTO &&
	    !weir_iface_prog(i)) {
		weir_kernel_log_reason(why, sizeof(why));
		weir_attach_reason(i, r, why, a->note, sizeof(a->note));
		mode = XDP_MODE_SKB;
		r = xdp_program__attach(p, i->index, mode, 0);
	}
	if (r < 0) {
		weir_kernel_log_reason(why, sizeof(why));
		return weir_attach_error(e, r, i, mode == XDP_MODE_NATIVE, why);
	}
	a->native = mode == XDP_MODE_NATIVE;
	return 0;
}

int weir_chain_attach(struct weir_datapath *d, const struct weir_iface *i,
		      struct weir_attachment *a, struct weir_error *e)
{
	_cleanup_(weir__destroyp) struct weir *skel = NULL;
	struct xdp_program *p = NULL;
	struct weir_iface now;
	__u32 old[8];
	int n_old = weir_iface_prog(i) ? find_all(i->index, d->meta_id, old, 8) : 0;
	int r = make_program(d, &skel, &p, e);

	if (r < 0)
		return r;
	r = attach_mode(d, p, i, a, e);
	a->prog_id = r < 0 ? 0 : xdp_program__id(p);
	xdp_program__close(p);
	if (r < 0)
		return r;
	a->netlink = true;
	a->how = WEIR_ATTACH_CHAIN;
	for (int k = 0; k < n_old; k++) {
		r = remove_one(i->index, old[k]);
		if (r < 0)
			return weir_kernel_error(e, r,
						 "cannot take the old program out of the chain");
	}
	if (!a->note[0] && weir_iface_get_index(i->index, &now) == 0 &&
	    weir_prog_is_weir(weir_iface_prog(&now), 0))
		(void)snprintf(a->note, sizeof(a->note),
			       "alone: this kernel refuses libxdp's dispatcher, so no other "
			       "program can join");
	return 0;
}

int weir_chain_detach(const struct weir_iface *i, __u32 meta_id, struct weir_error *e)
{
	__u32 id[8];
	int n = find_all(i->index, meta_id, id, 8);

	if (n == 0)
		return -ENOENT;
	for (int k = 0; k < n; k++) {
		int r = remove_one(i->index, id[k]);

		if (r < 0)
			return weir_kernel_error(e, r, "cannot take the program out of the chain");
	}
	return 0;
}
