/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which way an interface is attached, and whose the program on it is. What weir did not attach is left alone. Called
 * by the agent through datapath.h; the ways themselves are in attach_link.c, attach_netlink.c and attach_chain.c.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_arp.h>
#include <poll.h>
#include <string.h>

#include "user/base/str.h"
#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

#define GONE_TRIES   500
#define GONE_STEP_MS 10

/* --- whose program ----------------------------------------------------------------------------- */

bool weir_iface_wait_gone(int ifindex, __u32 prog_id)
{
	for (int i = 0; i < GONE_TRIES; i++) {
		struct weir_iface now;

		if (weir_iface_get_index(ifindex, &now) == -ENODEV)
			return true;
		if (now.native_id != prog_id && now.generic_id != prog_id &&
		    now.offload_id != prog_id)
			return true;
		(void)poll(NULL, 0,
			   GONE_STEP_MS); /* the kernel tells nobody when a link has gone */
	}
	return false;
}

static bool is_ours(const struct weir_datapath *d, __u32 prog_id)
{
	if (!prog_id)
		return false;
	return prog_id == d->prog_id || weir_prog_is_weir(prog_id, d->meta_id) ||
	       (d->old_meta_id && weir_prog_is_weir(prog_id, d->old_meta_id));
}

static bool is_dispatcher(__u32 prog_id)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(prog_id);
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 &&
	       strcmp(info.name, "xdp_dispatcher") == 0;
}

static int refuse(const struct weir_iface *i, __u32 prog_id, struct weir_error *e)
{
	char what[200];
	bool other = weir_prog_is_weir(prog_id, 0);

	weir_prog_describe(prog_id, what, sizeof(what));
	return weir_error_set(
		e, -EBUSY, "%s: occupied by %s%s; %s", i->name, what,
		other ? ", which belongs to another instance of weir or to a program without agent"
		      : "",
		other ? "detach that one first (weir detach --instance NAME; without agent: "
			"ip link set dev IFACE xdp off)"
		: is_dispatcher(prog_id)
			? "it is libxdp's dispatcher, attach: chain joins it"
			: "attach: chain shares an interface with programs that libxdp loaded; "
			  "else detach it first (ip link set dev IFACE xdp off)");
}

/* --- what kind of interface ---------------------------------------------------------------------- */

static void list_ports(int master, char *ret, size_t size)
{
	_cleanup_free_ struct weir_iface *list = NULL;
	size_t n = 0, at = 0;

	(void)snprintf(ret, size, "none yet");
	if (weir_iface_list(&list, &n) < 0)
		return;
	for (size_t i = 0; i < n && at < size; i++) {
		if (list[i].master == master)
			at += (size_t)snprintf(ret + at, size - at, "%s%s", at ? ", " : "",
					       list[i].name);
	}
}

/* Interfaces where a program would see nothing, or not what it expects. */
static int check_kind(const struct weir_datapath *d, const struct weir_iface *i,
		      struct weir_error *e)
{
	char text[160];

	if (i->type == ARPHRD_LOOPBACK && d->xdp_mode != WEIR_XDP_GENERIC)
		return weir_error_set(
			e, -EOPNOTSUPP,
			"%s: the loopback interface has no native mode, and only this machine "
			"itself can reach it (xdp_mode: generic insists)",
			i->name);
	if (strcmp(i->kind, "bridge") == 0) {
		list_ports(i->index, text, sizeof(text));
		return weir_error_set(e, -EOPNOTSUPP,
				      "%s is a bridge: what it forwards passes a program there by; "
				      "name its ports instead (%s)",
				      i->name, text);
	}
	if (i->type != ARPHRD_ETHER && i->type != ARPHRD_LOOPBACK) {
		struct weir_iface parent;
		bool has = i->parent && weir_iface_get_index(i->parent, &parent) == 0;

		return weir_error_set(e, -EOPNOTSUPP,
				      "%s carries no Ethernet frames (%s): name the interface that "
				      "its packets come in by instead%s%s%s",
				      i->name, i->kind[0] ? i->kind : "unknown kind",
				      has ? " (" : "", has ? parent.name : "", has ? ")" : "");
	}
	return 0;
}

static void add_note(struct weir_attachment *a, const char *text)
{
	size_t at = strlen(a->note);

	(void)snprintf(a->note + at, sizeof(a->note) - at, "%s%s", at ? "; " : "", text);
}

static void kind_notes(const struct weir_iface *i, struct weir_attachment *a)
{
	char text[100];

	if (strcmp(i->kind, "vlan") == 0) {
		struct weir_iface parent;

		if (weir_iface_get_index(i->parent, &parent) == 0) {
			(void)snprintf(text, sizeof(text),
				       "a VLAN of %s, which is the better place", parent.name);
			add_note(a, text);
		}
	}
	if (strcmp(i->slave_kind, "bond") == 0)
		add_note(a, "member of a bond: attach to the bond, or to every member");
}

/* --- attach -------------------------------------------------------------------------------------- */

static struct weir_attachment *remembered(struct weir_datapath *d, int ifindex)
{
	for (int i = 0; i < d->n_attached; i++) {
		if (d->attached[i].ifindex == ifindex)
			return &d->attached[i];
	}
	return NULL;
}

static void remember(struct weir_datapath *d, const struct weir_attachment *a)
{
	struct weir_attachment *at = remembered(d, a->ifindex);

	if (!at && d->n_attached < WEIR_IFACES_MAX)
		at = &d->attached[d->n_attached++];
	if (at)
		*at = *a;
}

static void forget(struct weir_datapath *d, int ifindex)
{
	struct weir_attachment *at = remembered(d, ifindex);

	if (at)
		*at = d->attached[--d->n_attached];
}

static int attach_somehow(struct weir_datapath *d, const struct weir_iface *i,
			  struct weir_attachment *a, struct weir_error *e)
{
	__u32 there = weir_iface_prog(i);
	char pin[WEIR_LINK_NAME_MAX];

	if (weir_link_find(d, i, pin) == 0)
		return weir_link_update(d, i, pin, a, e);
	if (there && is_ours(d, there))
		return weir_netlink_replace(d, i, a, e);
	if (there && d->attach != WEIR_ATTACH_CHAIN)
		return refuse(i, there, e);
	if (d->attach == WEIR_ATTACH_CHAIN)
		return weir_chain_attach(d, i, a, e);
	return weir_link_attach(d, i, a, e);
}

int weir_datapath_attach(struct weir_datapath *d, const char *ifname, struct weir_error *e)
{
	struct weir_attachment a = {.how = d->attach};
	struct weir_iface i;
	int r = weir_iface_get(ifname, &i, e);

	if (r < 0)
		return r;
	if (d->attach == WEIR_ATTACH_EXTERNAL)
		return 0; /* loaded and pinned: the user attaches */
	r = check_kind(d, &i, e);
	if (r == 0)
		r = weir_pin_again(d, e); /* a link would have no place */
	if (r < 0)
		return r;
	(void)weir_str_copy(a.ifname, sizeof(a.ifname), i.name);
	a.ifindex = i.index;
	a.prog_id = d->prog_id;
	r = attach_somehow(d, &i, &a, e);
	if (r < 0)
		return r;
	kind_notes(&i, &a);
	a.attached = true;
	remember(d, &a);
	return 0;
}

/* --- detach -------------------------------------------------------------------------------------- */

static int detach_iface(const struct weir_datapath *d, const struct weir_iface *i,
			struct weir_error *e)
{
	__u32 there = weir_iface_prog(i);
	char pin[WEIR_LINK_NAME_MAX], what[200];
	int r;

	if (weir_link_find(d, i, pin) == 0)
		return weir_link_detach(d, i, pin, e);
	if (is_ours(d, there))
		return weir_netlink_detach(i, there, e);
	if (there && is_dispatcher(there)) {
		r = weir_chain_detach(i, d->meta_id, e);
		if (r != -ENOENT)
			return r;
	}
	if (!there)
		return weir_error_set(e, -ENOENT, "%s: no program is attached there", i->name);
	weir_prog_describe(there, what, sizeof(what));
	return weir_error_set(e, -ENOENT, "%s: %s was not attached by this weir and stays", i->name,
			      what);
}

int weir_datapath_detach(struct weir_datapath *d, const char *ifname, struct weir_error *e)
{
	struct weir_iface i;
	int r = weir_iface_get(ifname, &i, e);

	if (r < 0)
		return r;
	r = detach_iface(d, &i, e);
	if (r == 0)
		forget(d, i.index);
	return r;
}

int weir_datapath_attachments(struct weir_datapath *d, struct weir_attachment *ret, int max)
{
	_cleanup_free_ struct weir_iface *list = NULL;
	size_t n_list = 0;
	int n = 0;

	if (weir_iface_list(&list, &n_list) < 0)
		return 0;
	for (size_t k = 0; k < n_list; k++) {
		const struct weir_iface *i = &list[k];
		const struct weir_attachment *known = remembered(d, i->index);
		struct weir_attachment a = {.how = d->attach, .ifindex = i->index};
		char pin[WEIR_LINK_NAME_MAX];
		__u32 there = weir_iface_prog(i), id = 0;

		if (is_ours(d, there))
			id = there;
		else if (there && is_dispatcher(there))
			id = weir_chain_find(i, d->meta_id);
		/* what the user must replace: no limit or list of ours reaches it */
		if (d->attach == WEIR_ATTACH_EXTERNAL && there && there != d->prog_id &&
		    !weir_prog_is_weir(there, d->meta_id) && weir_prog_is_weir(there, 0)) {
			a.stale = true;
			id = 0;
		}
		if (!id && !known && !a.stale)
			continue;
		if (known)
			memcpy(a.note, known->note, sizeof(a.note));
		(void)weir_str_copy(a.ifname, sizeof(a.ifname), i->name);
		a.prog_id = a.stale ? there : id;
		a.attached = id != 0;
		a.native = i->native_id != 0;
		a.netlink = id && weir_link_find(d, i, pin) < 0;
		if (!a.netlink && id)
			a.how = WEIR_ATTACH_LINK;
		if (!id && !a.stale)
			add_note(&a, "detached by someone else");
		if (n < max)
			ret[n] = a;
		n++;
	}
	return n;
}

/* --- without an agent ------------------------------------------------------------------------------ */

/* Removes what is in a folder of pins, and the folder. */
static void remove_pins(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);

	for (struct dirent *f = dir ? readdir(dir) : NULL; f; f = readdir(dir)) {
		if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0 &&
		    unlinkat(dirfd(dir), f->d_name, 0) < 0 && errno == EISDIR)
			continue;
	}
	(void)rmdir(path); /* stays if something else is in it */
}

static int detach_all(const struct weir_datapath *d, struct weir_error *e)
{
	_cleanup_free_ struct weir_iface *list = NULL;
	size_t n = 0;
	int r = weir_iface_list(&list, &n), first = 0;

	if (r < 0)
		return weir_error_set(e, r, "cannot list interfaces: %s", strerror(-r));
	for (size_t i = 0; i < n; i++) {
		struct weir_error one = {""};

		r = detach_iface(d, &list[i], &one);
		if (r < 0 && r != -ENOENT && first == 0) {
			first = r;
			(void)weir_error_set(e, r, "%s", one.text);
		}
	}
	return first;
}

int weir_datapath_detach_pinned(const char *bpffs, const char *instance, const char *ifname,
				struct weir_error *e)
{
	struct weir_datapath d = {.lock_fd = -1};
	struct bpf_map_info info = {0};
	_cleanup_close_ int lock = -1, meta = -1;
	__u32 len = sizeof(info);
	char outer[sizeof(d.folder) + 8];
	struct weir_iface i;
	int r;

	weir_kernel_log_quiet();
	if (!weir_str_copy(d.instance, sizeof(d.instance), instance) ||
	    !weir_str_copy(d.bpffs, sizeof(d.bpffs), bpffs) || strpbrk(instance, "./"))
		return weir_error_set(e, -EINVAL, "no instance can be called \"%s\"", instance);
	(void)snprintf(d.folder, sizeof(d.folder), "%s/%s", bpffs, instance);
	lock = open(d.folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (lock < 0 && (errno == EACCES || errno == EPERM))
		return weir_error_set(e, -EPERM,
				      "%s: %s; root is needed to detach without an agent", d.folder,
				      strerror(errno));
	if (lock < 0)
		return weir_error_set(e, -ENOENT, "nothing of instance \"%s\" is loaded (%s: %s)",
				      instance, d.folder, strerror(errno));
	if (!weir_pin_lock(lock))
		return weir_error_set(e, -EBUSY,
				      "an agent runs as instance \"%s\": ask it to detach",
				      instance);
	meta = weir_pin_get(&d, "meta");
	if (meta >= 0 && bpf_obj_get_info_by_fd(meta, &info, &len) == 0)
		d.meta_id = info.id;
	if (!d.meta_id)
		d.meta_id = ~0u; /* matches no program: what is pinned as link is still ours */
	if (ifname) {
		r = weir_iface_get(ifname, &i, e);
		return r < 0 ? r : detach_iface(&d, &i, e);
	}
	r = detach_all(&d, e);
	if (r < 0)
		return r;
	(void)snprintf(outer, sizeof(outer), "%s/outer", d.folder);
	remove_pins(outer);
	remove_pins(d.folder);
	return 0;
}
