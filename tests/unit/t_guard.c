/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lockout guard: what is guarded, what a block may not touch, and that no message from the kernel, however short
 * or wrong, is read beyond its end.
 */
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/prefix.h"
#include "user/agent/guard.h"

struct message {
	_Alignas(8) char bytes[512];
};

static struct nlmsghdr *header(struct message *m)
{
	return (struct nlmsghdr *)(void *)m->bytes;
}

static void begin(struct message *m, unsigned short type, const void *body, size_t n)
{
	memset(m, 0, sizeof(*m));
	*header(m) = (struct nlmsghdr){.nlmsg_len = (__u32)NLMSG_SPACE(n), .nlmsg_type = type};
	memcpy(NLMSG_DATA(header(m)), body, n);
}

static struct rtattr *add(struct message *m, unsigned short type, const void *data, size_t n)
{
	struct rtattr *a = (struct rtattr *)(void *)(m->bytes + NLMSG_ALIGN(header(m)->nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(n);
	if (n)
		memcpy(RTA_DATA(a), data, n);
	header(m)->nlmsg_len = (__u32)(NLMSG_ALIGN(header(m)->nlmsg_len) + RTA_ALIGN(a->rta_len));
	return a;
}

static void add_text(struct message *m, unsigned short type, const char *address)
{
	unsigned char bytes[16];
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;

	assert_int_equal(inet_pton(family, address, bytes), 1);
	(void)add(m, type, bytes, family == AF_INET ? 4 : 16);
}

static void own_address(struct message *m, const char *address)
{
	struct ifaddrmsg a = {.ifa_family = strchr(address, ':') ? AF_INET6 : AF_INET,
			      .ifa_index = 1};

	begin(m, RTM_NEWADDR, &a, sizeof(a));
	add_text(m, IFA_ADDRESS, address);
}

static void route(struct message *m, unsigned char dst_len)
{
	struct rtmsg r = {.rtm_family = AF_INET, .rtm_dst_len = dst_len, .rtm_type = RTN_UNICAST};

	begin(m, RTM_NEWROUTE, &r, sizeof(r));
}

static const char *only(const struct weir_guard_set *s)
{
	static char text[WEIR_PREFIX_STRLEN];

	assert_int_equal(s->n, 1);
	return weir_prefix_format(&s->item[0].prefix, text);
}

static int feed(struct weir_guard_set *s, struct message *m)
{
	return weir_guard_message(s, header(m), header(m)->nlmsg_len);
}

static void own_addresses_are_guarded_and_named(void **state)
{
	struct weir_guard_set s = {};
	struct message m;

	(void)state;
	own_address(&m, "192.0.2.1");
	assert_int_equal(feed(&s, &m), 0);
	assert_string_equal(only(&s), "192.0.2.1");
	assert_string_equal(s.item[0].why, "own address on lo");
	assert_int_equal(feed(&s, &m), 0); /* once */
	assert_int_equal(s.n, 1);
	weir_guard_done(&s);
	own_address(&m, "2001:db8::1");
	assert_int_equal(feed(&s, &m), 0);
	assert_string_equal(only(&s), "2001:db8::1");
	weir_guard_done(&s);
}

static void the_local_end_of_a_point_to_point_link_is_the_own_one(void **state)
{
	struct weir_guard_set s = {};
	struct message m;

	(void)state;
	own_address(&m, "192.0.2.9");
	add_text(&m, IFA_LOCAL, "192.0.2.1");
	assert_int_equal(feed(&s, &m), 0);
	assert_string_equal(only(&s), "192.0.2.1");
	weir_guard_done(&s);
}

static void loopback_unspecified_and_multicast_are_not_guarded(void **state)
{
	static const char *const none[] = {"127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
					   "::1",	"::",	   "ff02::1"};
	struct weir_guard_set s = {};
	struct message m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		own_address(&m, none[i]);
		assert_int_equal(feed(&s, &m), 0);
	}
	assert_int_equal(s.n, 0);
}

static void default_gateways_are_guarded_and_other_routes_are_not(void **state)
{
	struct weir_guard_set s = {};
	struct message m;

	(void)state;
	route(&m, 24);
	add_text(&m, RTA_GATEWAY, "192.0.2.253");
	assert_int_equal(feed(&s, &m), 0);
	assert_int_equal(s.n, 0);
	route(&m, 0);
	add_text(&m, RTA_GATEWAY, "192.0.2.254");
	assert_int_equal(feed(&s, &m), 0);
	assert_string_equal(only(&s), "192.0.2.254");
	assert_string_equal(s.item[0].why, "default gateway");
	weir_guard_done(&s);
}

/* Two next hops, the second by IPv6 (RTA_VIA). */
static void multipath(struct message *m)
{
	unsigned char gateways[2][4] = {{192, 0, 2, 1}, {192, 0, 2, 2}};
	char hops[64] = {};
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		struct rtnexthop hop = {.rtnh_len = sizeof(hop) + RTA_LENGTH(4)};
		struct rtattr a = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_GATEWAY};

		memcpy(hops + n, &hop, sizeof(hop));
		memcpy(hops + n + sizeof(hop), &a, sizeof(a));
		memcpy(hops + n + sizeof(hop) + sizeof(a), gateways[i], 4);
		n += hop.rtnh_len;
	}
	route(m, 0);
	(void)add(m, RTA_MULTIPATH, hops, n);
}

static void every_hop_of_a_multipath_route_is_guarded(void **state)
{
	struct weir_guard_set s = {};
	struct message m;

	(void)state;
	multipath(&m);
	assert_int_equal(feed(&s, &m), 0);
	assert_int_equal(s.n, 2);
	weir_guard_done(&s);
}

static void a_gateway_of_the_other_family_is_guarded(void **state)
{
	struct weir_guard_set s = {};
	struct message m;
	struct {
		__u16 family;
		unsigned char addr[16];
	} via = {.family = AF_INET6};

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "fe80::1", via.addr), 1);
	route(&m, 0);
	(void)add(&m, RTA_VIA, &via, sizeof(via));
	assert_int_equal(feed(&s, &m), 0);
	assert_string_equal(only(&s), "fe80::1");
	weir_guard_done(&s);
}

/* Each message, cut at every length and with every byte of its lengths made wrong, from memory that ends there. */
static void no_message_is_read_beyond_its_end(void **state)
{
	struct message all[3];
	bool link;

	(void)state;
	own_address(&all[0], "2001:db8::1");
	multipath(&all[1]);
	route(&all[2], 0);
	add_text(&all[2], RTA_GATEWAY, "192.0.2.254");
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t whole = header(&all[i])->nlmsg_len;

		for (size_t n = 0; n <= whole; n++)
			for (size_t at = 0; at < n; at++)
				for (int value = 0; value < 256; value += at < 4 ? 1 : 51) {
					struct weir_guard_set s = {};
					char *exact = malloc(n);

					memcpy(exact, all[i].bytes, n);
					exact[at] = (char)value;
					(void)weir_guard_message(&s, (void *)exact, n);
					(void)weir_guard_concerns((void *)exact, n, &link);
					weir_guard_done(&s);
					free(exact);
				}
	}
}

static void resolvers_are_read_as_resolv_conf_is(void **state)
{
	static const char text[] =
		"# nameserver 192.0.2.1\nsearch example.org\n nameserver\t192.0.2.2\n"
		"nameserver 2001:db8::53%eth0\nnameserver 127.0.0.53\nnameserver x\n"
		"nameservers 192.0.2.3\nnameserver 192.0.2.4";
	struct weir_guard_set s = {};

	(void)state;
	assert_int_equal(weir_guard_resolv(&s, text, sizeof(text) - 1), 0);
	assert_int_equal(s.n, 3);
	weir_guard_done(&s);
	assert_int_equal(weir_guard_resolv(&s, "nameserver", 10), 0);
	assert_int_equal(weir_guard_resolv(&s, "", 0), 0);
	assert_int_equal(s.n, 0);
}

static void there_is_a_most_of_guards(void **state)
{
	struct weir_guard_set s = {};
	struct weir_prefix p = {.family = 4, .len = 32};

	(void)state;
	for (__u32 i = 0; i <= WEIR_GUARD_MAX; i++) {
		p.addr.word[0] = htonl(0x0a000000 + i);
		assert_int_equal(weir_guard_add(&s, &p, "own address"), 0);
	}
	assert_int_equal(s.n, WEIR_GUARD_MAX);
	assert_true(s.cut);
	weir_guard_done(&s);
}

static enum weir_guard_verdict check(const struct weir_book *b, const char *text,
				     size_t *ret_covered)
{
	const struct weir_book_entry *which;
	struct weir_prefix p = prefix_of(text);

	*ret_covered = 0;
	return weir_guard_check(b, &p, &which, ret_covered);
}

static void blocks_that_hit_a_guard_are_told_from_those_that_cover_one(void **state)
{
	_cleanup_(weir_book_freep) struct weir_book *b = weir_book_new();
	static const char *const guards[] = {"192.0.2.1", "203.0.113.0/24", "2001:db8::1"};
	size_t covered;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
		struct weir_book_entry e = {.prefix = prefix_of(guards[i]),
					    .origin = WEIR_ORIGIN_GUARD};

		assert_int_equal(weir_book_add(b, WEIR_LIST_GUARD, &e), 0);
	}
	weir_book_settle(b);
	assert_int_equal(check(b, "192.0.2.1", &covered), WEIR_GUARD_HITS);
	assert_int_equal(check(b, "203.0.113.0/24", &covered), WEIR_GUARD_HITS);
	assert_int_equal(check(b, "203.0.113.128/25", &covered), WEIR_GUARD_HITS);
	assert_int_equal(check(b, "192.0.2.0/24", &covered), WEIR_GUARD_COVERS);
	assert_int_equal(covered, 1);
	assert_int_equal(check(b, "0.0.0.0/0", &covered), WEIR_GUARD_COVERS);
	assert_int_equal(covered, 2);
	assert_int_equal(check(b, "::/0", &covered), WEIR_GUARD_COVERS);
	assert_int_equal(covered, 1);
	assert_int_equal(check(b, "198.51.100.7", &covered), WEIR_GUARD_FREE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_addresses_are_guarded_and_named),
		cmocka_unit_test(the_local_end_of_a_point_to_point_link_is_the_own_one),
		cmocka_unit_test(loopback_unspecified_and_multicast_are_not_guarded),
		cmocka_unit_test(default_gateways_are_guarded_and_other_routes_are_not),
		cmocka_unit_test(every_hop_of_a_multipath_route_is_guarded),
		cmocka_unit_test(a_gateway_of_the_other_family_is_guarded),
		cmocka_unit_test(no_message_is_read_beyond_its_end),
		cmocka_unit_test(resolvers_are_read_as_resolv_conf_is),
		cmocka_unit_test(there_is_a_most_of_guards),
		cmocka_unit_test(blocks_that_hit_a_guard_are_told_from_those_that_cover_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
