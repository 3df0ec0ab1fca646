/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See netlink.h. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "user/agent/netlink.h"
#include "user/base/clock.h"

static int take(const struct nlmsghdr *h, ssize_t n, unsigned seq, weir_netlink_each_fn *each,
		void *arg, bool *ret_done)
{
	int r;

	for (; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		if (h->nlmsg_seq != seq)
			continue;
		if (h->nlmsg_type == NLMSG_DONE) {
			*ret_done = true;
			return 0;
		}
		if (h->nlmsg_type == NLMSG_ERROR)
			return h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) &&
					       ((const struct nlmsgerr *)NLMSG_DATA(h))->error < 0
				       ? ((const struct nlmsgerr *)NLMSG_DATA(h))->error
				       : -EBADMSG;
		r = each(arg, h, (size_t)n);
		if (r < 0)
			return r;
	}
	return 0;
}

int weir_netlink_dump(int fd, unsigned seq, __u64 until_ns, weir_netlink_each_fn *each, void *arg)
{
	static char buf[1 << 16] __attribute__((aligned(8)));
	bool done = false;
	int r = 0;

	while (r == 0 && !done) {
		__u64 now_ns = weir_clock_ns(CLOCK_MONOTONIC);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (now_ns >= until_ns ||
		    poll(&p, 1, (int)((until_ns - now_ns) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		r = take((const void *)buf, n, seq, each, arg, &done);
	}
	return r;
}
