/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network devices for the traffic generator, by rtnetlink: what kind it was given, and some of its own
 * to park programs on. Called by gen.c.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gen_int.h"

#define DEV_REPLY_BYTES 32768
#define PARK_IFINDEX	1000 /* first of the devices made by gen_park(), in an empty namespace */

union message {
	struct nlmsghdr h;
	char bytes[DEV_REPLY_BYTES];
};

static void attr_put(struct nlmsghdr *h, unsigned short type, const void *data, size_t bytes)
{
	struct rtattr *a = (struct rtattr *)((char *)h + NLMSG_ALIGN(h->nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(a), data, bytes);
	h->nlmsg_len = (uint32_t)(NLMSG_ALIGN(h->nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static void copy_name(char *to, size_t size, const struct rtattr *a)
{
	size_t n = strnlen(RTA_DATA(a), RTA_PAYLOAD(a));

	if (n >= size)
		n = size - 1;
	memcpy(to, RTA_DATA(a), n);
	to[n] = '\0';
}

static void read_info(const struct rtattr *info, struct gen_dev *d)
{
	int left = (int)RTA_PAYLOAD(info);

	for (struct rtattr *a = RTA_DATA(info); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_INFO_KIND)
			copy_name(d->kind, sizeof(d->kind), a);
}

static void read_attr(const struct rtattr *a, struct gen_dev *d)
{
	struct rtnl_link_stats64 stats = {};
	size_t n = RTA_PAYLOAD(a);

	switch (a->rta_type) {
	case IFLA_IFNAME:
		copy_name(d->name, sizeof(d->name), a);
		break;
	case IFLA_ADDRESS:
		if (n == sizeof(d->mac))
			memcpy(d->mac, RTA_DATA(a), n);
		break;
	case IFLA_MTU:
		if (n == sizeof(d->mtu))
			memcpy(&d->mtu, RTA_DATA(a), n);
		break;
	case IFLA_LINK:
		if (n == sizeof(d->peer_ifindex))
			memcpy(&d->peer_ifindex, RTA_DATA(a), n);
		break;
	case IFLA_LINK_NETNSID:
		if (n == sizeof(d->peer_nsid))
			memcpy(&d->peer_nsid, RTA_DATA(a), n);
		break;
	case IFLA_LINKINFO:
		read_info(a, d);
		break;
	case IFLA_STATS64:
		memcpy(&stats, RTA_DATA(a), n < sizeof(stats) ? n : sizeof(stats));
		d->tx_dropped = stats.tx_dropped;
		break;
	default:
		break;
	}
}

static int read_reply(const struct nlmsghdr *h, size_t bytes, struct gen_dev *d)
{
	const struct ifinfomsg *info = NLMSG_DATA(h);
	int left;

	if (!NLMSG_OK(h, bytes))
		return -EBADMSG;
	if (h->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		return e->error ? e->error : -EBADMSG;
	}
	if (h->nlmsg_type != RTM_NEWLINK || h->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return -EBADMSG;
	d->ifindex = info->ifi_index;
	d->up = info->ifi_flags & IFF_UP;
	left = (int)IFLA_PAYLOAD(h);
	for (struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left); a = RTA_NEXT(a, left))
		read_attr(a, d);
	return 0;
}

/* Send the request in @m and read the answer into the same place. Returns its length or -errno. */
static ssize_t ask(union message *m)
{
	ssize_t n, r;
	int fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	n = send(fd, m, m->h.nlmsg_len, 0);
	if (n >= 0)
		n = recv(fd, m, sizeof(*m), 0);
	r = n < 0 ? -errno : n;
	close(fd);
	return r;
}

int gen_dev_get(const char *name, int ifindex, int nsid, struct gen_dev *ret)
{
	union message m = {};
	struct gen_dev d = {.peer_nsid = -1};
	struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex};
	ssize_t n;
	int r;

	if (name && (!*name || strlen(name) >= IFNAMSIZ))
		return -ENODEV;
	m.h = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(sizeof(info)),
		.nlmsg_type = RTM_GETLINK,
		.nlmsg_flags = NLM_F_REQUEST,
	};
	memcpy(NLMSG_DATA(&m.h), &info, sizeof(info));
	if (name)
		attr_put(&m.h, IFLA_IFNAME, name, strlen(name) + 1);
	if (nsid >= 0)
		attr_put(&m.h, IFLA_TARGET_NETNSID, &nsid, sizeof(nsid));
	n = ask(&m);
	r = n < 0 ? (int)n : read_reply(&m.h, (size_t)n, &d);
	if (r < 0)
		return r;
	*ret = d;
	return 0;
}

static int add_veth(int ifindex)
{
	union message m = {};
	struct ifinfomsg info = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex};
	struct {
		struct rtattr a;
		char kind[8];
	} link = {.a = {.rta_len = RTA_LENGTH(5), .rta_type = IFLA_INFO_KIND}, .kind = "veth"};
	const struct nlmsgerr *e;
	ssize_t n;

	m.h = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(sizeof(info)),
		.nlmsg_type = RTM_NEWLINK,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
	};
	memcpy(NLMSG_DATA(&m.h), &info, sizeof(info));
	attr_put(&m.h, IFLA_LINKINFO, &link, sizeof(link));
	n = ask(&m);
	if (n < 0)
		return (int)n;
	if (!NLMSG_OK(&m.h, (size_t)n) || m.h.nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	e = NLMSG_DATA(&m.h);
	return e->error;
}

static int park_here(const int *prog_fds, unsigned int n, int *ret_netns_fd)
{
	int fd, r = 0;

	for (unsigned int i = 0; i < n && r == 0; i++) {
		r = add_veth(PARK_IFINDEX + (int)i);
		if (r == 0)
			r = bpf_xdp_attach(PARK_IFINDEX + (int)i, prog_fds[i], XDP_FLAGS_DRV_MODE,
					   NULL);
	}
	if (r < 0)
		return r;
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_netns_fd = fd;
	return 0;
}

int gen_park(const int *prog_fds, unsigned int n, int *ret_netns_fd)
{
	int saved, r;

	saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (saved < 0)
		return -errno;
	r = unshare(CLONE_NEWNET) < 0 ? -errno : park_here(prog_fds, n, ret_netns_fd);
	gen_netns_leave(saved);
	return r;
}

int gen_netns_enter(int netns_fd, int *ret_saved)
{
	int saved, r;

	if (netns_fd <= 0) {
		*ret_saved = -1;
		return 0;
	}
	saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (saved < 0)
		return -errno;
	if (setns(netns_fd, CLONE_NEWNET) < 0) {
		r = -errno;
		close(saved);
		return r;
	}
	*ret_saved = saved;
	return 0;
}

void gen_netns_leave(int saved)
{
	if (saved < 0)
		return;
	(void)setns(saved, CLONE_NEWNET); /* it was ours a moment ago; nothing better to do */
	close(saved);
}

void gen_unpark(int netns_fd, unsigned int n)
{
	int saved;

	if (netns_fd < 0)
		return;
	if (gen_netns_enter(netns_fd, &saved) == 0) {
		/* the kernel would do it by and by, but there is room for 48 programs only */
		for (unsigned int i = 0; i < n; i++)
			(void)bpf_xdp_detach(PARK_IFINDEX + (int)i, XDP_FLAGS_DRV_MODE, NULL);
		gen_netns_leave(saved);
	}
	close(netns_fd);
}
