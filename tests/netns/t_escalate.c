/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Both layers as one: a client that hammers the login through a proxy is answered 429, then its packets are dropped at
 * the card; one command undoes it; whom a block would not hit alone is never blocked. The proxy is this test: its sockets
 * are in the agent's namespace, the clients' in the other one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "host.h"
#include "lib/gen.h"
#include "lib/web.h"
#include "user/base/cleanup.h"

#define WAIT_MS 15000
#define CLIENT4 "198.51.100.9"
#define CLIENT6 "2001:db8:7::9"
#define PARTNER "192.0.2.50" /* on the same network, never_block */

struct fix {
	struct host h;
	char where[64];
	int proxy[2]; /* listening, IPv4 and IPv6 */
	uint16_t port[2];
};
#define weir(...) host_weir(&f->h, __VA_ARGS__)

static void expect(struct fix *f, int status, int want, const char *words)
{
	if (status != want || !strstr(f->h.out, words))
		fail_msg("exit status %d, not %d with \"%s\": %.1500s", status, want, words,
			 f->h.out);
}

static void write_conf(struct fix *f, const char *mode)
{
	host_configure(
		&f->h,
		"memory: {packet_sources: 1 MB}\n"
		"lists: {never_block: [" PARTNER "]}\n"
		"http:\n"
		"  listeners:\n"
		"    - {listen: 127.0.0.1:0, profile: caddy, trusted_proxies: [127.0.0.1, "
		"203.0.113.80]}\n"
		"packet_limits:\n"
		"  - {name: per-source, per: source, rate: 20000/s}\n"
		"request_limits:\n"
		"  - {name: login, match: {method: POST, path: /login}, key: [ip, endpoint], "
		"algorithm: sliding-window-log, limit: 5, window: 60s}\n"
		"escalate:\n"
		"  - {name: login-hammer, limits: [login], refused: 20, within: 60s, "
		"block_for: 10m, "
		"mode: %s}\n",
		mode);
}

/* The listener's real port. */
static void find_listener(struct fix *f)
{
	json_t *s = host_status(&f->h);
	const char *listen;

	listen = json_string_value(json_object_get(
		json_array_get(json_object_get(json_object_get(s, "request"), "listeners"), 0),
		"listen"));
	assert_non_null(listen);
	(void)snprintf(f->where, sizeof(f->where), "%s", listen);
	json_decref(s);
}

static void start(struct fix *f)
{
	host_start(&f->h);
	find_listener(f);
}

/* The proxy's own listening socket, in the agent's namespace. */
static int open_proxy(struct fix *f, int family, uint16_t *ret_port)
{
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
	struct sockaddr_in a4 = {.sin_family = AF_INET};
	int saved = lab_enter(&f->h.lab, LAB_WEIR), one = 1, fd, r;
	struct sockaddr_storage got;
	socklen_t n = sizeof(got);

	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	lab_leave(saved);
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	r = family == AF_INET6 ? bind(fd, (struct sockaddr *)&a6, sizeof(a6))
			       : bind(fd, (struct sockaddr *)&a4, sizeof(a4));
	assert_int_equal(r, 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&got, &n), 0);
	*ret_port = ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
					     : ((struct sockaddr_in *)&got)->sin_port);
	return fd;
}

static void add_addresses(struct fix *f)
{
	const int gen = f->h.lab.netns_fd[LAB_GEN];

	assert_int_equal(run_cmd(gen, f->h.out, sizeof(f->h.out), "ip", "address", "add",
				 CLIENT4 "/32", "dev", "gen0"),
			 0);
	assert_int_equal(run_cmd(gen, f->h.out, sizeof(f->h.out), "ip", "address", "add",
				 CLIENT6 "/128", "dev", "gen0", "nodad"),
			 0);
	assert_int_equal(run_cmd(gen, f->h.out, sizeof(f->h.out), "ip", "address", "add",
				 PARTNER "/32", "dev", "gen0"),
			 0);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (!f || host_open(&f->h) < 0)
		return -1;
	add_addresses(f);
	f->proxy[0] = open_proxy(f, AF_INET, &f->port[0]);
	f->proxy[1] = open_proxy(f, AF_INET6, &f->port[1]);
	write_conf(f, "enforce");
	*state = f;
	start(f);
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	(void)close(f->proxy[0]);
	(void)close(f->proxy[1]);
	host_close(&f->h);
	free(f);
	return 0;
}

/* --- a client, and the proxy in front of weir ---- */

struct client {
	int fd;
	const char *address;
	bool six;
};

static struct client dial(struct fix *f, const char *address)
{
	struct client c = {.address = address, .six = strchr(address, ':') != NULL};
	struct sockaddr_in6 from6 = {.sin6_family = AF_INET6}, to6 = {.sin6_family = AF_INET6};
	struct sockaddr_in from4 = {.sin_family = AF_INET}, to4 = {.sin_family = AF_INET};
	int saved = lab_enter(&f->h.lab, LAB_GEN), r;

	c.fd = socket(c.six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	lab_leave(saved);
	(void)inet_pton(AF_INET, address, &from4.sin_addr);
	(void)inet_pton(AF_INET6, address, &from6.sin6_addr);
	(void)inet_pton(AF_INET, LAB_WEIR_IP4, &to4.sin_addr);
	(void)inet_pton(AF_INET6, LAB_WEIR_IP6, &to6.sin6_addr);
	to4.sin_port = htons(f->port[0]);
	to6.sin6_port = htons(f->port[1]);
	r = c.six ? bind(c.fd, (struct sockaddr *)&from6, sizeof(from6))
		  : bind(c.fd, (struct sockaddr *)&from4, sizeof(from4));
	assert_int_equal(r, 0);
	r = c.six ? connect(c.fd, (struct sockaddr *)&to6, sizeof(to6))
		  : connect(c.fd, (struct sockaddr *)&to4, sizeof(to4));
	assert_true(r == 0 || errno == EINPROGRESS);
	return c;
}

static bool is_connected(const struct client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLOUT};
	int error = 0;
	socklen_t n = sizeof(error);

	return poll(&p, 1, 0) == 1 && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 &&
	       !error && (p.revents & POLLOUT);
}

/* What weir answers the proxy about one login of @address. */
static int login(struct fix *f, const char *address)
{
	int saved = lab_enter(&f->h.lab, LAB_WEIR), r;
	struct web_reply reply = {};
	struct web w;

	r = web_open(&w, f->where);
	lab_leave(saved);
	assert_int_equal(r, 0);
	r = web_ask(&w, &reply,
		    "GET /check HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Method: POST\r\n"
		    "X-Forwarded-Uri: /login\r\nX-Forwarded-For: %s\r\n\r\n",
		    address);
	web_close(&w);
	assert_int_equal(r, 0);
	return reply.status;
}

/* One login of a client that is there: its connection to the proxy, the proxy's question to weir, the answer back. */
static int visit(struct fix *f, const char *address)
{
	struct client c = dial(f, address);
	int proxy = f->proxy[c.six], status, end = -1;
	char text[16] = "";

	assert_true(wait_for(is_connected(&c), WAIT_MS));
	assert_true(wait_for((end = accept4(proxy, NULL, NULL, SOCK_CLOEXEC)) >= 0, WAIT_MS));
	status = login(f, address);
	(void)snprintf(text, sizeof(text), "%d", status);
	assert_true(write(end, text, strlen(text)) > 0);
	(void)close(end);
	(void)close(c.fd);
	return status;
}

/* Five are within the limit; from the twentieth refusal on there is a block. */
static void hammer(struct fix *f, const char *address, bool there)
{
	for (int i = 0; i < 25; i++) {
		int status = there && i < 24 ? visit(f, address) : login(f, address);

		assert_int_equal(status, i < 5 ? 200 : 429);
	}
}

static uint64_t dropped(struct fix *f)
{
	json_t *s = host_status(&f->h), *o;
	uint64_t n = 0;
	size_t i;

	json_array_foreach(json_object_get(s, "reasons"), i, o)
		if (!strcmp(json_string_value(json_object_get(o, "reason")), "drop_block"))
			n = (uint64_t)json_integer_value(json_object_get(o, "packets"));
	json_decref(s);
	return n;
}

static bool lists(struct fix *f, const char *words)
{
	return weir("block", "list") == 0 && strstr(f->h.out, words) != NULL;
}

static bool tells(struct fix *f, const char *words)
{
	return weir("events") == 0 && strstr(f->h.out, words) != NULL;
}

/* --- the tests ---- */

static void gone_at_the_card(struct fix *f, const char *address, const char *block)
{
	uint64_t before;
	struct client c;

	hammer(f, address, true);
	assert_true(wait_for(lists(f, block), WAIT_MS));
	expect(f, weir("block", "list"), 0, "escalation:login-hammer");
	expect(f, 0, 0, "20 refusals of login within 1m");
	before = dropped(f);
	c = dial(f, address);
	assert_true(wait_for(dropped(f) > before, WAIT_MS)); /* its SYN */
	assert_false(is_connected(&c));
	expect(f, weir("status"), 0, "1 block by escalation");
	expect(f, weir("explain", address), 0, "time-outs");
	expect(f, weir("explain", address), 0, "login");
	expect(f, weir("block", "del", "--origin", "escalation"), 0, "1 entry deleted");
	/* the kernel sends its SYN again after a second */
	assert_true(wait_for(is_connected(&c), WAIT_MS));
	(void)close(c.fd);
	(void)close(accept4(f->proxy[c.six], NULL, NULL, SOCK_CLOEXEC));
}

static void who_hammers_the_login_is_told_429_and_then_dropped_until_one_command(void **state)
{
	gone_at_the_card(*state, CLIENT4, CLIENT4);
}

static void of_ipv6_the_whole_64_is_dropped(void **state)
{
	gone_at_the_card(*state, CLIENT6, "2001:db8:7::/64");
}

static void a_trusted_proxy_is_never_blocked(void **state)
{
	struct fix *f = *state;

	hammer(f, "203.0.113.80", false);
	assert_true(wait_for(tells(f, "not-escalated"), WAIT_MS));
	expect(f, weir("events"), 0, "trusted_proxies");
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void guarded_addresses_are_never_blocked(void **state)
{
	struct fix *f = *state;

	hammer(f, PARTNER, true);
	assert_true(wait_for(tells(f, "it is guarded (never_block"), WAIT_MS));
	hammer(f, LAB_GEN_IP4, true); /* the default gateway */
	assert_true(wait_for(tells(f, "default gateway"), WAIT_MS));
	hammer(f, LAB_WEIR_IP4, false);
	assert_true(wait_for(tells(f, "own address on weir0"), WAIT_MS));
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void who_sends_no_packets_here_is_not_blocked(void **state)
{
	struct fix *f = *state;

	hammer(f, "198.51.100.200", false); /* behind a proxy elsewhere */
	assert_true(wait_for(tells(f, "it sends no packets here"), WAIT_MS));
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void in_monitor_it_is_only_said(void **state)
{
	struct fix *f = *state;

	write_conf(f, "monitor");
	expect(f, weir("reload"), 0, "escalate login-hammer: mode enforce -> monitor");
	hammer(f, CLIENT4, true);
	assert_true(wait_for(tells(f, "would-escalate"), WAIT_MS));
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void a_stranger_who_forges_the_address_blocks_nobody(void **state)
{
	struct fix *f = *state;
	int saved;
	struct web w;

	/* from an address that is no trusted proxy */
	for (int i = 0; i < 30; i++) {
		struct web_reply reply = {};

		saved = lab_enter(&f->h.lab, LAB_WEIR);
		assert_int_equal(web_open_from(&w, f->where, "127.0.0.2"), 0);
		lab_leave(saved);
		(void)web_ask(&w, &reply,
			      "POST /login HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Method: POST\r\n"
			      "X-Forwarded-Uri: /login\r\nX-Forwarded-For: " CLIENT4 "\r\n"
			      "Content-Length: 0\r\n\r\n");
		web_close(&w);
	}
	assert_int_equal(login(f, CLIENT4), 200); /* nothing is counted against it */
	expect(f, weir("events"), 0, "");
	assert_null(strstr(f->h.out, "escalate"));
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void flood(struct fix *f, uint64_t frames)
{
	struct gen_opts o = {.dev = "gen0", .netns_fd = f->h.lab.netns_fd[LAB_GEN], .src = CLIENT4};
	struct gen_result result;
	char err[GEN_ERR_BYTES];
	struct gen *g;

	if (gen_open(&o, err, sizeof(err), &g))
		fail_msg("%s", err);
	assert_int_equal(gen_run(g, frames, 0, &result), 0);
	gen_close(g);
}

static void who_floods_with_packets_meets_a_stricter_request_limit(void **state)
{
	struct fix *f = *state;
	FILE *c = fopen(f->h.conf, "ae");

	assert_non_null(c);
	(void)fputs("suspicious: {packet_limits: [per-source], lasts: 10m, limit: {key: ip, "
		    "algorithm: sliding-window-log, limit: 2, window: 60s}}\n",
		    c);
	assert_int_equal(fclose(c), 0);
	expect(f, weir("reload"), 0, "suspicious: added");
	expect(f, weir("limit", "set", "per-source", "rate=6/m", "burst=100"), 0, "per-source");
	assert_int_equal(login(f, CLIENT4), 200);
	flood(f, 5000);
	assert_true(
		wait_for((weir("explain", CLIENT4), strstr(f->h.out, "suspicious until")) != NULL,
			 WAIT_MS));
	assert_int_equal(login(f, CLIENT4), 200);
	assert_int_equal(login(f, CLIENT4), 200);
	assert_int_equal(login(f, CLIENT4), 429); /* five would be within login */
	assert_int_equal(login(f, CLIENT6), 200); /* others are as ever */
	expect(f, weir("limit", "reset", "suspicious", "--ip", CLIENT4), 0, "has forgotten");
	expect(f, weir("status"), 0, "suspicious");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_hammers_the_login_is_told_429_and_then_dropped_until_one_command),
		T(of_ipv6_the_whole_64_is_dropped),
		T(a_trusted_proxy_is_never_blocked),
		T(guarded_addresses_are_never_blocked),
		T(who_sends_no_packets_here_is_not_blocked),
		T(in_monitor_it_is_only_said),
		T(a_stranger_who_forges_the_address_blocks_nobody),
		T(who_floods_with_packets_meets_a_stricter_request_limit),
	};

	if (run_lacks_root())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
