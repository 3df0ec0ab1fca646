/* SPDX-License-Identifier: GPL-2.0-or-later */
/* attach: link. A bpf_link pinned in the instance's folder: nobody can take its place, it survives the agent, and an
 * upgrade is one update of it, between two packets. Called by attach.c.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <linux/if_link.h>
#include <poll.h>
#include <string.h>

#include "user/base/str.h"
#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

#define BUSY_TRIES   100
#define BUSY_STEP_MS 10

static int link_info(int fd, struct bpf_link_info *ret)
{
	__u32 len = sizeof(*ret);

	memset(ret, 0, sizeof(*ret));
	return bpf_obj_get_info_by_fd(fd, ret, &len);
}

static bool is_on(const struct bpf_link_info *info, const struct weir_iface *i)
{
	return info->type == BPF_LINK_TYPE_XDP && info->xdp.ifindex == (__u32)i->index &&
	       (info->prog_id == i->native_id || info->prog_id == i->generic_id);
}

int weir_link_find(const struct weir_datapath *d, const struct weir_iface *i,
		   char ret_pin[static WEIR_LINK_NAME_MAX])
{
	_cleanup_closedir_ DIR *dir = opendir(d->folder);

	for (struct dirent *f = dir ? readdir(dir) : NULL; f; f = readdir(dir)) {
		_cleanup_close_ int fd = -1;
		struct bpf_link_info info;

		if (strncmp(f->d_name, "link_", 5) != 0)
			continue;
		fd = weir_pin_get(d, f->d_name);
		if (fd >= 0 && link_info(fd, &info) == 0 && is_on(&info, i))
			return weir_str_copy(ret_pin, WEIR_LINK_NAME_MAX, f->d_name)
				       ? 0
				       : -ENAMETOOLONG;
	}
	return -ENOENT;
}

/* Pins @fd as the link of @i. A pin of that name may be there: of an interface that is gone, of one that got another
 * name (its pin follows), or of one in another network namespace (left alone).
 */
static int pin_link(const struct weir_datapath *d, int fd, const struct weir_iface *i,
		    struct weir_error *e)
{
	char pin[WEIR_LINK_NAME_MAX], right[WEIR_LINK_NAME_MAX];
	_cleanup_close_ int there = -1;
	struct bpf_link_info info;
	struct weir_iface other;
	int r;

	weir_pin_link_name(i->name, pin);
	there = weir_pin_get(d, pin);
	if (there >= 0 && link_info(there, &info) == 0 && info.xdp.ifindex && !is_on(&info, i)) {
		if (weir_iface_get_index((int)info.xdp.ifindex, &other) < 0 ||
		    !is_on(&info, &other))
			return weir_error_set(
				e, -EEXIST,
				"%s/%s is the link of an interface in another network namespace; "
				"detach it there, or give this agent another instance:",
				d->folder, pin);
		r = weir_pin(d, there, weir_pin_link_name(other.name, right), e);
		if (r < 0)
			return r;
	}
	return weir_pin(d, fd, pin, e);
}

/* The same attempt by netlink, which alone says why. It cannot succeed where the link was refused; if it does after
 * all, it is undone.
 */
static void ask_why(int prog_fd, int ifindex, __u32 mode, char ret[static WEIR_EXTACK_MAX])
{
	char ignored[WEIR_EXTACK_MAX];

	if (weir_iface_xdp_set(ifindex, prog_fd, mode | XDP_FLAGS_UPDATE_IF_NOEXIST, -1, ret) == 0)
		(void)weir_iface_xdp_set(ifindex, -1, mode | XDP_FLAGS_REPLACE, prog_fd, ignored);
}

/* A link that was just unpinned goes away a moment later: until then the interface is busy with no program on it. */
static int create(int prog_fd, int ifindex, __u32 mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = mode);
	int r = -EBUSY;

	for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
		r = bpf_link_create(prog_fd, ifindex, BPF_XDP, &opts);
		if (r == -EBUSY)
			(void)poll(NULL, 0, BUSY_STEP_MS);
	}
	return r;
}

int weir_link_attach(struct weir_datapath *d, const struct weir_iface *i, struct weir_attachment *a,
		     struct weir_error *e)
{
	char extack[WEIR_EXTACK_MAX] = "";
	bool native = d->xdp_mode != WEIR_XDP_GENERIC;
	_cleanup_close_ int fd = -1;
	__u32 mode = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;

	fd = create(d->prog_fd, i->index, mode);
	if (fd < 0 && native) {
		int refused = fd;

		ask_why(d->prog_fd, i->index, mode, extack);
		if (d->xdp_mode == WEIR_XDP_NATIVE)
			return weir_attach_error(e, refused, i, true, extack);
		weir_attach_reason(i, refused, extack, a->note, sizeof(a->note));
		native = false;
		mode = XDP_FLAGS_SKB_MODE;
		fd = create(d->prog_fd, i->index, mode);
	}
	if (fd < 0) {
		ask_why(d->prog_fd, i->index, mode, extack);
		return weir_attach_error(e, fd, i, native, extack);
	}
	a->native = native;
	a->how = WEIR_ATTACH_LINK;
	/* closing a link that is not pinned detaches it: nothing is left behind */
	return pin_link(d, fd, i, e);
}

int weir_link_update(struct weir_datapath *d, const struct weir_iface *i, const char *pin,
		     struct weir_attachment *a, struct weir_error *e)
{
	_cleanup_close_ int fd = weir_pin_get(d, pin), old = -1;
	char right[WEIR_LINK_NAME_MAX], what[200];
	struct bpf_link_info info;
	int r = fd < 0 ? fd : link_info(fd, &info);

	if (r < 0)
		return weir_kernel_error(e, r, "cannot open the pinned link");
	if (info.prog_id != d->prog_id) {
		LIBBPF_OPTS(bpf_link_update_opts, opts, .flags = BPF_F_REPLACE);

		if (!weir_prog_is_weir(info.prog_id, 0)) {
			weir_prog_describe(info.prog_id, what, sizeof(what));
			return weir_error_set(e, -EBUSY,
					      "%s: our link %s/%s carries %s, which is not weir; "
					      "remove the pin to detach it",
					      i->name, d->folder, pin, what);
		}
		old = bpf_prog_get_fd_by_id(info.prog_id);
		if (old < 0)
			return weir_kernel_error(e, old,
						 "cannot open the program that is attached");
		opts.old_prog_fd = (__u32)old;
		r = bpf_link_update(fd, d->prog_fd, &opts);
		if (r < 0)
			return weir_kernel_error(e, r,
						 "cannot replace the program of the pinned link");
	}
	a->native = i->native_id != 0;
	a->how = WEIR_ATTACH_LINK;
	if (a->native == (d->xdp_mode == WEIR_XDP_GENERIC))
		(void)snprintf(
			a->note, sizeof(a->note),
			"still %s: the mode of a link changes only by weir detach and a new start",
			a->native ? "native" : "generic");
	weir_pin_link_name(i->name, right);
	if (strcmp(right, pin) == 0)
		return 0;
	r = pin_link(d, fd, i, e); /* the interface has got another name */
	return r < 0 ? r : weir_unpin(d, pin);
}

int weir_link_detach(const struct weir_datapath *d, const struct weir_iface *i, const char *pin,
		     struct weir_error *e)
{
	_cleanup_close_ int fd = weir_pin_get(d, pin);
	__u32 id = weir_iface_prog(i);
	int r = fd < 0 ? fd : bpf_link_detach(fd);

	if (r < 0)
		return weir_kernel_error(e, r, "cannot detach the pinned link");
	r = weir_unpin(d, pin);
	if (r < 0)
		return weir_error_set(e, r, "%s/%s: cannot remove the pin: %s", d->folder, pin,
				      strerror(-r));
	if (!weir_iface_wait_gone(i->index, id))
		return weir_error_set(e, -ETIMEDOUT, "%s: the program is still attached after 5 s",
				      i->name);
	return 0;
}
