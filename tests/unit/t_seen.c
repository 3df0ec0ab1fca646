/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections of this host are found by their other end: what an escalation asks before it blocks an address. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/prefix.h"
#include "user/agent/seen.h"
#include "user/base/addr.h"

struct pair {
	int listener, client, server;
	__u16 port;
};

/* A connection over loopback; @family AF_INET6 with a socket that takes both. */
static struct pair connect_pair(int family)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct pair p = {.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct sockaddr_storage got;
	socklen_t n = sizeof(got);

	if (family == AF_INET6)
		assert_int_equal(bind(p.listener, (struct sockaddr *)&a6, sizeof(a6)), 0);
	else
		assert_int_equal(bind(p.listener, (struct sockaddr *)&a4, sizeof(a4)), 0);
	assert_int_equal(listen(p.listener, 1), 0);
	assert_int_equal(getsockname(p.listener, (struct sockaddr *)&got, &n), 0);
	a4.sin_port = family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
					 : ((struct sockaddr_in *)&got)->sin_port;
	p.port = ntohs(a4.sin_port);
	p.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(p.client, (struct sockaddr *)&a4, sizeof(a4)), 0);
	p.server = accept4(p.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p.server >= 0);
	return p;
}

static void close_pair(const struct pair *p)
{
	(void)close(p->client);
	(void)close(p->server);
	(void)close(p->listener);
}

static void connections_are_found_by_their_other_end(void **state)
{
	struct weir_prefix here = prefix_of("127.0.0.1"), other = prefix_of("198.51.100.7"),
			   six = prefix_of("2001:db8::7");
	struct weir_seen seen = {};
	__u16 wrong = 1;

	(void)state;
	for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
		struct pair p = connect_pair(family);

		assert_int_equal(weir_seen_tcp(&here, &here, NULL, 0, 2000, &seen), 0);
		assert_true(seen.client);
		assert_false(seen.peer);
		assert_int_equal(weir_seen_tcp(&here, &here, &p.port, 1, 2000, &seen), 0);
		assert_true(seen.peer);
		assert_int_equal(weir_seen_tcp(&here, &here, &wrong, 1, 2000, &seen), 0);
		assert_false(seen.peer);
		close_pair(&p);
	}
	assert_int_equal(weir_seen_tcp(&other, &other, NULL, 0, 2000, &seen), 0);
	assert_false(seen.client);
	assert_int_equal(weir_seen_tcp(&six, &six, NULL, 0, 2000, &seen), 0);
	assert_false(seen.client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_are_found_by_their_other_end),
	};

	return cmocka_run_group_tests_name("seen", tests, NULL, NULL);
}
