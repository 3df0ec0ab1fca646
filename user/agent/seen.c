/* SPDX-License-Identifier: GPL-2.0-or-later */
/* TCP connections with an address: see seen.h. */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "user/agent/netlink.h"
#include "user/agent/seen.h"
#include "user/base/cleanup.h"
#include "user/base/clock.h"

/* Whoever completed a handshake is where packets come from; a SYN alone can be forged. */
#define STATES                                                                                     \
	(1u << TCP_ESTABLISHED | 1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2 | 1u << TCP_TIME_WAIT | \
	 1u << TCP_CLOSE_WAIT | 1u << TCP_LAST_ACK | 1u << TCP_CLOSING)

struct search {
	const struct weir_prefix *client;
	const __u16 *ports;
	size_t n_ports;
	struct weir_seen found;
};

static int send_query(int fd, unsigned char family, const struct weir_prefix *block, unsigned seq)
{
	const size_t addr_bytes = block->family == 4 ? 4 : 16;
	const struct inet_diag_hostcond cond = {
		.family = block->family == 4 ? AF_INET : AF_INET6,
		.prefix_len = block->len,
		.port = -1,
	};
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
		struct nlattr a;
		struct inet_diag_bc_op op;
		unsigned char cond[sizeof(cond) + 16]; /* and the address */
	} q = {
		.h = {.nlmsg_type = SOCK_DIAG_BY_FAMILY,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		      .nlmsg_seq = seq},
		.r = {.sdiag_family = family,
		      .sdiag_protocol = IPPROTO_TCP,
		      .idiag_states = STATES},
	};
	size_t op_bytes = sizeof(q.op) + sizeof(cond) + addr_bytes;

	memcpy(q.cond, &cond, sizeof(cond));
	memcpy(q.cond + sizeof(cond), block->addr.ip, addr_bytes);
	q.op.code = INET_DIAG_BC_D_COND;
	q.op.yes = (unsigned char)op_bytes;	  /* to the end: taken */
	q.op.no = (unsigned short)(op_bytes + 4); /* beyond it: left out */
	q.a.nla_type = INET_DIAG_REQ_BYTECODE;
	q.a.nla_len = (unsigned short)(sizeof(q.a) + op_bytes);
	q.h.nlmsg_len = (unsigned)(sizeof(q.h) + sizeof(q.r) + q.a.nla_len);
	return send(fd, &q, q.h.nlmsg_len, 0) < 0 ? -errno : 0;
}

static void look(struct search *s, const struct inet_diag_msg *m)
{
	struct weir_prefix remote = {.family = m->idiag_family == AF_INET ? 4 : 6};
	static const __u8 mapped[12] = {[10] = 0xff, [11] = 0xff};

	remote.len = remote.family == 4 ? 32 : 128;
	memcpy(remote.addr.ip, m->id.idiag_dst, remote.family == 4 ? 4 : 16);
	if (remote.family == 6 && !memcmp(remote.addr.ip, mapped, sizeof(mapped))) {
		remote = (struct weir_prefix){.family = 4, .len = 32};
		memcpy(remote.addr.ip, &m->id.idiag_dst[3], 4);
	}
	if (!weir_prefix_compare(&remote, s->client))
		s->found.client = true;
	for (size_t i = 0; i < s->n_ports; i++)
		if (ntohs(m->id.idiag_sport) == s->ports[i])
			s->found.peer = true;
}

static int look_at(void *arg, const struct nlmsghdr *h, size_t left)
{
	(void)left;
	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
		look(arg, NLMSG_DATA(h));
	return 0;
}

int weir_seen_tcp(const struct weir_prefix *client, const struct weir_prefix *block,
		  const __u16 *ports, size_t n_ports, int timeout_ms, struct weir_seen *ret)
{
	__u64 until_ns = weir_clock_ns(CLOCK_MONOTONIC) + (__u64)timeout_ms * 1000000;
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	struct search s = {.client = client, .ports = ports, .n_ports = n_ports};
	int r = 0;

	if (fd < 0)
		return -errno;
	if (client->family == 4) {
		r = send_query(fd, AF_INET, block, 1);
		if (r == 0)
			r = weir_netlink_dump(fd, 1, until_ns, look_at, &s);
	}
	if (r == 0) /* IPv4 clients of a socket that takes both are here too */
		r = send_query(fd, AF_INET6, block, 2);
	if (r == 0)
		r = weir_netlink_dump(fd, 2, until_ns, look_at, &s);
	if (r < 0)
		return r;
	*ret = s.found;
	return 0;
}
