/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lockout guard: see guard.h. Everything but the two socket functions at the end is pure. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include "user/agent/guard.h"
#include "user/agent/netlink.h"

void weir_guard_done(struct weir_guard_set *s)
{
	free(s->item);
	*s = (struct weir_guard_set){};
}

/* Addresses that no packet from outside may carry need no guard. */
static bool is_special(const struct weir_prefix *p)
{
	const __u8 *b = p->addr.ip;
	bool zero = true;

	for (int i = 0; i < 15; i++)
		zero = zero && !b[i];
	if (p->family == 4)
		return b[0] == 127 || b[0] >= 224 || !p->addr.word[0];
	return b[0] == 0xff || (zero && b[15] <= 1);
}

int weir_guard_add(struct weir_guard_set *s, const struct weir_prefix *prefix, const char *why)
{
	if (is_special(prefix))
		return 0;
	for (size_t i = 0; i < s->n; i++)
		if (!weir_prefix_compare(&s->item[i].prefix, prefix))
			return 0;
	if (s->n == WEIR_GUARD_MAX) {
		s->cut = true;
		return 0;
	}
	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		struct weir_guard_entry *item = reallocarray(s->item, room, sizeof(*item));

		if (!item)
			return -ENOMEM;
		s->item = item;
		s->room = room;
	}
	s->item[s->n].prefix = *prefix;
	(void)snprintf(s->item[s->n].why, sizeof(s->item[s->n].why), "%s", why);
	s->n++;
	return 0;
}

/* Text of one word as a whole address; a zone (fe80::1%eth0) is cut off. */
static int add_word(struct weir_guard_set *s, const char *word, size_t n, const char *why)
{
	struct weir_prefix p;
	const char *zone = memchr(word, '%', n);

	if (zone)
		n = (size_t)(zone - word);
	if (weir_prefix_parse(word, n, false, &p) < 0)
		return 0; /* not an address: nothing to guard */
	return weir_guard_add(s, &p, why);
}

int weir_guard_resolv(struct weir_guard_set *s, const char *text, size_t n)
{
	const char *end = text + n;
	int r = 0;

	while (text < end && r == 0) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((line_end ? line_end : end) - text);
		const char *p = text;
		size_t word;

		text += len + 1;
		while (len && (*p == ' ' || *p == '\t'))
			p++, len--;
		if (len < 11 || memcmp(p, "nameserver", 10) || (p[10] != ' ' && p[10] != '\t'))
			continue;
		p += 10, len -= 10;
		while (len && (*p == ' ' || *p == '\t'))
			p++, len--;
		for (word = 0; word < len && !strchr(" \t\r#;", p[word]); word++)
			;
		r = add_word(s, p, word, "resolver of /etc/resolv.conf");
	}
	return r;
}

/* An attribute of at least @len bytes; NULL if there is none. */
static const void *attribute(const struct rtattr *a, size_t n, unsigned short type, size_t len)
{
	for (int rest = (int)n; RTA_OK(a, rest); a = RTA_NEXT(a, rest))
		if (a->rta_type == type)
			return RTA_PAYLOAD(a) >= len ? RTA_DATA(a) : NULL;
	return NULL;
}

static size_t family_len(unsigned char family)
{
	return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
}

static int add_bytes(struct weir_guard_set *s, unsigned char family, const void *bytes,
		     const char *why)
{
	struct weir_prefix p = {.family = family == AF_INET ? 4 : 6,
				.len = family == AF_INET ? 32 : 128};

	memcpy(p.addr.ip, bytes, family_len(family));
	return weir_guard_add(s, &p, why);
}

static int add_address(struct weir_guard_set *s, const struct nlmsghdr *h)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	size_t len = family_len(m->ifa_family), n = h->nlmsg_len - NLMSG_SPACE(sizeof(*m));
	const struct rtattr *first =
		(const struct rtattr *)((const char *)m + NLMSG_ALIGN(sizeof(*m)));
	const void *a;
	char name[IF_NAMESIZE] = "?", why[64];

	if (!len)
		return 0;
	a = attribute(first, n, IFA_LOCAL,
		      len); /* IFA_ADDRESS is the peer's on a point-to-point link */
	if (!a)
		a = attribute(first, n, IFA_ADDRESS, len);
	if (!a)
		return 0;
	(void)if_indextoname(m->ifa_index, name); /* "?" if it has just gone */
	(void)snprintf(why, sizeof(why), "own address on %s", name);
	return add_bytes(s, m->ifa_family, a, why);
}

static int add_hop(struct weir_guard_set *s, unsigned char family, const struct rtattr *first,
		   size_t n)
{
	const void *a = attribute(first, n, RTA_GATEWAY, family_len(family));
	const struct rtvia *via;

	if (a)
		return add_bytes(s, family, a, "default gateway");
	via = attribute(first, n, RTA_VIA, sizeof(*via) + 4);
	if (via && family_len((unsigned char)via->rtvia_family) &&
	    attribute(first, n, RTA_VIA,
		      sizeof(*via) + family_len((unsigned char)via->rtvia_family)))
		return add_bytes(s, (unsigned char)via->rtvia_family, via->rtvia_addr,
				 "default gateway");
	return 0;
}

/* The hops of a multipath route; @n bytes of struct rtnexthop with their attributes. */
static int add_hops(struct weir_guard_set *s, unsigned char family, const char *p, size_t n)
{
	int r = 0;

	while (r == 0 && n >= sizeof(struct rtnexthop)) {
		const struct rtnexthop *hop = (const void *)p;
		size_t len = hop->rtnh_len,
		       step = (len + RTNH_ALIGNTO - 1) / RTNH_ALIGNTO * RTNH_ALIGNTO;

		if (len < sizeof(*hop) || len > n)
			break;
		r = add_hop(s, family, (const void *)(p + sizeof(*hop)), len - sizeof(*hop));
		p += step;
		n -= step < n ? step : n;
	}
	return r;
}

static int add_route(struct weir_guard_set *s, const struct nlmsghdr *h)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	int rest = (int)(h->nlmsg_len - NLMSG_SPACE(sizeof(*m))), r;
	const struct rtattr *first = (const void *)((const char *)m + NLMSG_ALIGN(sizeof(*m)));

	if (m->rtm_dst_len || m->rtm_type != RTN_UNICAST || !family_len(m->rtm_family))
		return 0;
	r = add_hop(s, m->rtm_family, first, (size_t)rest);
	for (const struct rtattr *a = first; r == 0 && RTA_OK(a, rest); a = RTA_NEXT(a, rest))
		if (a->rta_type == RTA_MULTIPATH)
			r = add_hops(s, m->rtm_family, RTA_DATA(a), RTA_PAYLOAD(a));
	return r;
}

/* Is the message whole, and long enough for its fixed part? */
static bool has_body(const struct nlmsghdr *h, size_t n, size_t body)
{
	return n >= sizeof(*h) && h->nlmsg_len <= n && h->nlmsg_len >= NLMSG_SPACE(body);
}

int weir_guard_message(struct weir_guard_set *s, const struct nlmsghdr *h, size_t n)
{
	if (has_body(h, n, sizeof(struct ifaddrmsg)) && h->nlmsg_type == RTM_NEWADDR)
		return add_address(s, h);
	if (has_body(h, n, sizeof(struct rtmsg)) && h->nlmsg_type == RTM_NEWROUTE)
		return add_route(s, h);
	return 0;
}

bool weir_guard_concerns(const struct nlmsghdr *h, size_t n, bool *ret_link)
{
	if (!has_body(h, n, 0))
		return false;
	switch (h->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		*ret_link = true;
		return false;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		return true;
	case RTM_NEWROUTE:
	case RTM_DELROUTE: /* a router may change thousands a second: only the default one matters */
		return has_body(h, n, sizeof(struct rtmsg)) &&
		       ((const struct rtmsg *)NLMSG_DATA(h))->rtm_dst_len == 0;
	default:
		return false;
	}
}

enum weir_guard_verdict weir_guard_check(const struct weir_book *book,
					 const struct weir_prefix *prefix,
					 const struct weir_book_entry **ret_which,
					 size_t *ret_covered)
{
	const struct weir_book_list *l = &book->list[WEIR_LIST_GUARD];
	const struct weir_book_entry *covered = NULL;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (weir_prefix_contains(&l->item[i].prefix, prefix)) {
			*ret_which = &l->item[i];
			*ret_covered = 0;
			return WEIR_GUARD_HITS;
		}
		if (weir_prefix_contains(prefix, &l->item[i].prefix)) {
			covered = covered ? covered : &l->item[i];
			n++;
		}
	}
	if (!n)
		return WEIR_GUARD_FREE;
	*ret_which = covered;
	*ret_covered = n;
	return WEIR_GUARD_COVERS;
}

/* --- the kernel ---------------------------------------------------------------------------- */

static int ask(int fd, unsigned short type, unsigned seq)
{
	struct {
		struct nlmsghdr h;
		struct rtmsg
			m; /* zero: all families, tables and kinds; struct ifaddrmsg is shorter */
	} q = {.h = {.nlmsg_len = sizeof(q),
		     .nlmsg_type = type,
		     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		     .nlmsg_seq = seq}};

	return send(fd, &q, sizeof(q), 0) < 0 ? -errno : 0;
}

static int take(void *arg, const struct nlmsghdr *h, size_t left)
{
	return weir_guard_message(arg, h, left);
}

static int open_socket(unsigned groups, int *ret_fd)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = groups};
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int weir_guard_scan(struct weir_guard_set *s, int timeout_ms, struct weir_error *e)
{
	__u64 until_ns = weir_clock_ns(CLOCK_MONOTONIC) + (__u64)timeout_ms * 1000000;
	_cleanup_close_ int fd = -1;
	int r = open_socket(0, &fd);

	if (r == 0)
		r = ask(fd, RTM_GETADDR, 1);
	if (r == 0)
		r = weir_netlink_dump(fd, 1, until_ns, take, s);
	if (r == 0)
		r = ask(fd, RTM_GETROUTE, 2);
	if (r == 0)
		r = weir_netlink_dump(fd, 2, until_ns, take, s);
	if (r < 0)
		return weir_error_set(e, r, "cannot read this host's addresses and routes: %s",
				      strerror(-r));
	return 0;
}

int weir_guard_watch(int *ret_fd, struct weir_error *e)
{
	int r = open_socket(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
				    RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE,
			    ret_fd);

	return r < 0 ? weir_error_set(e, r, "cannot watch addresses and routes: %s", strerror(-r))
		     : 0;
}
