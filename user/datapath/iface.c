/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rtnetlink and ethtool by hand: libbpf gives program ids but neither kind, master nor MTU, and keeps the kernel's
 * explanation of a refusal to itself. Contract in iface.h.
 */
#include "user/datapath/iface.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "user/base/cleanup.h"
#include "user/base/str.h"

#define IFACES_MAX 4096
#define RECV_BYTES 65536
#define NAMES_SAID 12 /* interfaces that an error names at most */

static int rtnl_open(int *ret)
{
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int one = 1;

	if (fd < 0)
		return -errno;
	/* both only improve the answer; an old kernel may refuse them */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	*ret = TAKE_FD(fd);
	return 0;
}

static __u32 attr_u32(const struct rtattr *a)
{
	__u32 v = 0;

	if (RTA_PAYLOAD(a) >= sizeof(v))
		memcpy(&v, RTA_DATA(a), sizeof(v));
	return v;
}

static void attr_string(const struct rtattr *a, char *to, size_t size)
{
	size_t n = strnlen(RTA_DATA(a), RTA_PAYLOAD(a));

	if (n >= size)
		n = size - 1;
	memcpy(to, RTA_DATA(a), n);
	to[n] = '\0';
}

static void parse_linkinfo(struct weir_iface *i, struct rtattr *nest)
{
	int len = (int)RTA_PAYLOAD(nest);

	for (struct rtattr *a = RTA_DATA(nest); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == IFLA_INFO_KIND)
			attr_string(a, i->kind, sizeof(i->kind));
		else if (a->rta_type == IFLA_INFO_SLAVE_KIND)
			attr_string(a, i->slave_kind, sizeof(i->slave_kind));
	}
}

static void parse_xdp(struct weir_iface *i, struct rtattr *nest)
{
	int len = (int)RTA_PAYLOAD(nest);
	__u8 mode = XDP_ATTACHED_NONE;
	__u32 id = 0;

	for (struct rtattr *a = RTA_DATA(nest); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		switch (a->rta_type) {
		case IFLA_XDP_ATTACHED:
			mode = *(__u8 *)RTA_DATA(a);
			break;
		case IFLA_XDP_PROG_ID:
			id = attr_u32(a);
			break;
		case IFLA_XDP_DRV_PROG_ID:
			i->native_id = attr_u32(a);
			break;
		case IFLA_XDP_SKB_PROG_ID:
			i->generic_id = attr_u32(a);
			break;
		case IFLA_XDP_HW_PROG_ID:
			i->offload_id = attr_u32(a);
			break;
		default:
			break;
		}
	}
	if (mode == XDP_ATTACHED_DRV && !i->native_id)
		i->native_id = id;
	else if (mode == XDP_ATTACHED_SKB && !i->generic_id)
		i->generic_id = id;
}

static int parse_link(const struct nlmsghdr *h, struct weir_iface *ret)
{
	const struct ifinfomsg *m = NLMSG_DATA(h);
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));
	struct weir_iface i = {.index = m->ifi_index, .type = m->ifi_type};

	if (len < 0)
		return -EBADMSG;
	for (struct rtattr *a = IFLA_RTA(m); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		switch (a->rta_type & NLA_TYPE_MASK) {
		case IFLA_IFNAME:
			attr_string(a, i.name, sizeof(i.name));
			break;
		case IFLA_MTU:
			i.mtu = attr_u32(a);
			break;
		case IFLA_LINK:
			i.parent = (int)attr_u32(a);
			break;
		case IFLA_MASTER:
			i.master = (int)attr_u32(a);
			break;
		case IFLA_LINKINFO:
			parse_linkinfo(&i, a);
			break;
		case IFLA_XDP:
			parse_xdp(&i, a);
			break;
		default:
			break;
		}
	}
	*ret = i;
	return 0;
}

/* One datagram of a dump: 1 = more to come, 0 = that was all. */
static int take_links(char *buf, size_t n, struct weir_iface **list, size_t *count)
{
	unsigned int len = (unsigned int)n;

	for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		struct weir_iface *more;

		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR)
			return ((struct nlmsgerr *)NLMSG_DATA(h))->error ?: -EBADMSG;
		if (h->nlmsg_type != RTM_NEWLINK || *count >= IFACES_MAX)
			continue;
		more = realloc(*list, (*count + 1) * sizeof(**list));
		if (!more)
			return -ENOMEM;
		*list = more;
		if (parse_link(h, &more[*count]) == 0)
			(*count)++;
	}
	return 1;
}

int weir_iface_list(struct weir_iface **ret, size_t *ret_n)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg m;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = RTM_GETLINK,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		      .nlmsg_seq = 1},
	};
	_cleanup_free_ struct weir_iface *list = NULL;
	_cleanup_free_ char *buf = malloc(RECV_BYTES);
	_cleanup_close_ int fd = -1;
	size_t count = 0;
	int r;

	if (!buf)
		return -ENOMEM;
	r = rtnl_open(&fd);
	if (r < 0)
		return r;
	if (send(fd, &req, sizeof(req), 0) < 0)
		return -errno;
	do {
		ssize_t n = recv(fd, buf, RECV_BYTES, 0);

		if (n < 0)
			return -errno;
		r = take_links(buf, (size_t)n, &list, &count);
	} while (r > 0);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	*ret_n = count;
	return 0;
}

int weir_iface_get_index(int ifindex, struct weir_iface *ret)
{
	_cleanup_free_ struct weir_iface *list = NULL;
	size_t n;
	int r = weir_iface_list(&list, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (list[i].index == ifindex) {
			*ret = list[i];
			return 0;
		}
	}
	return -ENODEV;
}

int weir_iface_get(const char *name, struct weir_iface *ret, struct weir_error *e)
{
	_cleanup_free_ struct weir_iface *list = NULL;
	char names[NAMES_SAID * 18 + 1];
	size_t n, at = 0, said = 0;
	int r = weir_iface_list(&list, &n);

	if (r < 0)
		return weir_error_set(e, r, "cannot list interfaces: %s", strerror(-r));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i].name, name) == 0) {
			*ret = list[i];
			return 0;
		}
	}
	names[0] = '\0';
	for (size_t i = 0; i < n && said < NAMES_SAID; i++, said++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", said ? ", " : "",
				       list[i].name);
	return weir_error_set(e, -ENODEV, "no interface \"%s\" here (there %s: %s%s)", name,
			      n == 1 ? "is" : "are", n ? names : "none", n > said ? ", ..." : "");
}

void weir_iface_driver(const char *name, char ret[static 32])
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq req = {.ifr_data = (void *)&info};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ret[0] = '\0';
	if (fd < 0 || !weir_str_copy(req.ifr_name, sizeof(req.ifr_name), name))
		return;
	if (ioctl(fd, SIOCETHTOOL, &req) == 0)
		(void)weir_str_copy(ret, 32, info.driver); /* cut is fine */
}

struct xdp_request {
	struct nlmsghdr h;
	struct ifinfomsg m;
	struct rtattr nest;
	struct {
		struct rtattr a;
		__u32 v;
	} field[3]; /* fd, flags, expected fd */
};

/* The explanation in an NLMSG_ERROR message sent with NETLINK_CAP_ACK. */
static void read_extack(const struct nlmsghdr *h, char ret[static WEIR_EXTACK_MAX])
{
	const struct nlmsgerr *err = NLMSG_DATA(h);
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*err));
	const char *at = (const char *)err + sizeof(*err);

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(h->nlmsg_flags & NLM_F_CAPPED)) { /* the request comes first */
		int skip = (int)NLMSG_ALIGN(err->msg.nlmsg_len) - (int)sizeof(err->msg);

		if (skip < 0 || skip > len)
			return;
		at += skip;
		len -= skip;
	}
	for (const struct rtattr *a = (const void *)at; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == NLMSGERR_ATTR_MSG)
			attr_string(a, ret, WEIR_EXTACK_MAX);
	}
}

int weir_iface_xdp_set(int ifindex, int fd, __u32 flags, int expected_fd,
		       char ret_extack[static WEIR_EXTACK_MAX])
{
	const __u32 value[3] = {(__u32)fd, flags, (__u32)expected_fd};
	const unsigned short type[3] = {IFLA_XDP_FD, IFLA_XDP_FLAGS, IFLA_XDP_EXPECTED_FD};
	const int n = flags & XDP_FLAGS_REPLACE ? 3 : 2;
	struct xdp_request req = {
		.h = {.nlmsg_type = RTM_SETLINK,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		      .nlmsg_seq = 1},
		.m = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex},
		.nest = {.rta_type = IFLA_XDP | NLA_F_NESTED},
	};
	_cleanup_close_ int sock = -1;
	char buf[4096] __attribute__((aligned(8)));
	struct nlmsghdr *h = (void *)buf;
	ssize_t got;
	int r;

	ret_extack[0] = '\0';
	for (int i = 0; i < n; i++) {
		req.field[i].a.rta_type = type[i];
		req.field[i].a.rta_len = (unsigned short)RTA_LENGTH(sizeof(__u32));
		req.field[i].v = value[i];
	}
	req.nest.rta_len = (unsigned short)(sizeof(req.nest) + (size_t)n * sizeof(req.field[0]));
	req.h.nlmsg_len = (__u32)(offsetof(struct xdp_request, nest) + req.nest.rta_len);
	r = rtnl_open(&sock);
	if (r < 0)
		return r;
	if (send(sock, &req, req.h.nlmsg_len, 0) < 0)
		return -errno;
	got = recv(sock, buf, sizeof(buf), 0);
	if (got < 0)
		return -errno;
	if (!NLMSG_OK(h, (unsigned int)got) || h->nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	read_extack(h, ret_extack);
	return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
}
