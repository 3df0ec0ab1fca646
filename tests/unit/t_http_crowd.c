/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many checks that count as one private address, and those that only look like it. */
#include "http_double.h"

static struct lab lab;
static char *said;
static size_t said_n;
static FILE *saying;

static int begin(void **state)
{
	*state = &lab;
	lab_init(&lab);
	lab.conf.request.threads = 1;
	saying = open_memstream(&said, &said_n);
	assert_non_null(saying);
	weir_log_open(saying, false, WEIR_LOG_WARNING);
	return 0;
}

static int end(void **state)
{
	(void)state;
	lab_stop(&lab);
	weir_log_open(NULL, false, WEIR_LOG_ERROR);
	(void)fclose(saying);
	free(said);
	return 0;
}

/* @n checks, of which @part in a hundred have @address and all others one of their own. */
static void check(unsigned n, unsigned part, const char *address, const char *others)
{
	struct web_reply r;
	struct web w;

	assert_int_equal(web_open(&w, lab_where(&lab, 0)), 0);
	for (unsigned i = 0; i < n; i++) {
		char other[64];

		(void)snprintf(other, sizeof(other), "%s%u", others, i % 250);
		assert_int_equal(web_ask(&w, &r,
					 "GET /check HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: "
					 "GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-For: %s\r\n\r\n",
					 i * 37 % 100 < part ? address : other),
				 0);
		assert_int_equal(r.status, 200);
	}
	web_close(&w);
}

static struct weir_http_listener listener(void)
{
	struct weir_http_listener l;

	assert_int_equal(weir_http_listeners(lab.http, &l, 1), 1);
	return l;
}

static unsigned lines(const char *words)
{
	unsigned n = 0;

	(void)fflush(saying);
	for (const char *at = said; (at = strstr(at, words)); at++)
		n++;
	return n;
}

static void a_proxy_that_is_not_trusted_is_named(void **state)
{
	char who[WEIR_PREFIX_STRLEN];
	struct weir_http_listener l;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, NULL);
	lab_start(&lab);
	check(255, 0, "", "192.0.2.");
	assert_int_equal(listener().shared_percent, 0);
	check(1, 0, "", "192.0.2.");
	l = listener();
	assert_int_equal(l.shared_percent, 100);
	assert_string_equal(weir_prefix_format(&l.shared_address, who), "127.0.0.1");
	assert_non_null(strstr(l.shared_hint, "not in trusted_proxies"));
	assert_int_equal(lab_stats(&lab).shared_address, 256);
	check(3 * 256, 0, "", "192.0.2.");
	assert_int_equal(lab_stats(&lab).shared_address, 4 * 256);
	assert_int_equal(lines("clients_share_an_address"), 1);
	assert_int_equal(lines("address=127.0.0.1"), 1);
}

static void a_balancer_before_the_proxy_is_named(void **state)
{
	static const struct {
		const char *says, *is;
	} inside[] = {
		{"10.1.2.3", "10.1.2.3"},	{"172.31.0.1:4711", "172.31.0.1"},
		{"192.168.1.1", "192.168.1.1"}, {"100.64.9.9", "100.64.9.9"},
		{"169.254.1.1", "169.254.1.1"}, {"[fd00::1]:80", "fd00::1"},
		{"fe80::1%eth0", "fe80::1"},
	};
	char who[WEIR_PREFIX_STRLEN];
	struct weir_http_listener l;

	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, "127.0.0.1");
	lab_start(&lab);
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		/* found soon, though most turns may begin with others */
		check(16 * 256, 60, inside[i].says, "192.0.2.");
		l = listener();
		assert_in_range(l.shared_percent, 55, 65);
		assert_string_equal(weir_prefix_format(&l.shared_address, who), inside[i].is);
		assert_non_null(strstr(l.shared_hint, "name it in trusted_proxies"));
	}
	assert_int_equal(lines("clients_share_an_address"), ARRAY_LEN(inside));
	/* and forgotten when it is put right */
	check(16 * 256, 0, "", "192.0.2.");
	assert_int_equal(listener().shared_percent, 0);
}

static void clients_of_their_own_are_not_called_one(void **state)
{
	(void)state;
	lab_listener(&lab, WEIR_PROFILE_CADDY, "127.0.0.1");
	lab_start(&lab);
	check(8 * 256, 100, "203.0.113.7", "192.0.2."); /* everybody's, and no private one */
	check(8 * 256, 45, "10.1.2.3", "192.0.2.");	/* not most of them */
	check(8 * 256, 0, "", "10.1.2.");		/* many inside */
	check(8 * 256, 100, "172.32.0.1", "192.0.2.");	/* just outside */
	assert_int_equal(listener().shared_percent, 0);
	assert_int_equal(lab_stats(&lab).shared_address, 0);
	assert_int_equal(lines("clients_share_an_address"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_proxy_that_is_not_trusted_is_named, begin, end),
		cmocka_unit_test_setup_teardown(a_balancer_before_the_proxy_is_named, begin, end),
		cmocka_unit_test_setup_teardown(clients_of_their_own_are_not_called_one, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
