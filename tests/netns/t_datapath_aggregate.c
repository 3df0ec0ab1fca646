/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The datapath's limits whose budget is not one source's: what was counted survives whatever the agent does. */
#include "datapath_case.h"

/* A sender that nobody has seen before. */
static const char *stranger(char buf[static 32])
{
	static unsigned n;

	n++;
	(void)snprintf(buf, 32, "10.9.%u.%u", n >> 8 & 255, n & 255);
	return buf;
}

/* Of @n packets to one destination, each from somebody else. */
static int passed_to(const char *dst, int n)
{
	int passed = 0;

	while (n--) {
		char src[32];

		passed += send_it(PKT(ETH(), IP4(.src = stranger(src), .dst = dst), UDP())) ==
			  XDP_PASS;
	}
	return passed;
}

static void what_a_destination_owes_survives_reload_restart_and_resize(void **state)
{
	struct fix *f = *state;

	f->limit[1] = f->limit[0];
	(void)snprintf(f->limit[1].name, sizeof(f->limit[1].name), "per-destination");
	f->limit[1].per = WEIR_PER_DESTINATION;
	f->conf.n_limits = 2;
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(passed_to("198.51.100.1", 15), BURST);
	assert_int_equal(passed_to("198.51.100.2", 3), 3);
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 5), 0);
	f->limit[1].burst = BURST + 5; /* in place, and then one that moves it */
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 15), 5);
	f->limit[1].rate_per_ns = 7200000000000ull;
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 5), 0);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	assert_int_equal(passed_to("198.51.100.1", 5), 0);
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 5), 0);
	f->conf.packet_sources_bytes = 1 << 20;
	reopen(f);
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 5), 0);
	assert_int_equal(passed_to("198.51.100.2", 30), BURST + 5 - 3);
	f->limit[1].per = WEIR_PER_SOURCE; /* another limit, with the same name */
	apply_it(f);
	assert_int_equal(passed_to("198.51.100.1", 5), 5);
}

/* Of @n packets, each from somebody else to somebody else, of both families in turn. */
static int passed_all(int n)
{
	int passed = 0;

	while (n--) {
		char a[32], b[32];

		passed += send_it(n % 2 ? PKT(ETH(), IP6(.src = "2001:db8::1"), UDP())
					: PKT(ETH(), IP4(.src = stranger(a), .dst = stranger(b)),
					      UDP())) == XDP_PASS;
	}
	return passed;
}

static void what_all_owe_survives_reload_restart_and_resize(void **state)
{
	struct fix *f = *state;

	f->limit[1] = f->limit[0];
	(void)snprintf(f->limit[1].name, sizeof(f->limit[1].name), "all");
	f->limit[1].per = WEIR_PER_ALL;
	f->limit[0].burst = 1000;
	f->conf.n_limits = 2;
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(passed_all(15), BURST);
	apply_it(f);
	assert_int_equal(passed_all(5), 0);
	f->limit[1].burst = BURST + 5; /* in place, and then one that moves it, twice */
	apply_it(f);
	assert_int_equal(passed_all(15), 5);
	for (int i = 0; i < 2; i++) {
		f->limit[1].rate_per_ns += 1800000000000ull;
		apply_it(f);
		assert_int_equal(passed_all(5), 0);
	}
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	assert_int_equal(passed_all(5), 0);
	apply_it(f);
	assert_int_equal(passed_all(5), 0);
	f->limit[1].rate_per_ns += 1800000000000ull; /* moved by a later agent */
	f->conf.packet_sources_bytes = 1 << 20;
	reopen(f);
	apply_it(f);
	assert_int_equal(passed_all(5), 0);
	f->conf.n_limits = 1;
	apply_it(f);
	assert_int_equal(passed_all(5), 5);
	f->conf.n_limits = 2; /* it had gone: begins anew */
	apply_it(f);
	assert_int_equal(passed_all(30), BURST + 5);
}

static void a_budget_of_all_that_is_added_takes_nothing_from_the_others(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	f->limit[1] = f->limit[0];
	(void)snprintf(f->limit[1].name, sizeof(f->limit[1].name), "all");
	f->limit[1].per = WEIR_PER_ALL;
	f->conf.n_limits = 2;
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(passed_of("192.0.2.10", 15), BURST); /* the new one begins empty */
	assert_int_equal(passed_of("192.0.2.11", 5), 0);
	f->conf.n_limits = 1; /* and goes */
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(passed_of("192.0.2.12", 15), BURST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_a_destination_owes_survives_reload_restart_and_resize),
		TEST(a_budget_of_all_that_is_added_takes_nothing_from_the_others),
		TEST(what_all_owe_survives_reload_restart_and_resize),
	};

	return datapath_run("datapath_aggregate", tests);
}
