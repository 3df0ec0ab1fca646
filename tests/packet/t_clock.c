/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time: at any age of the machine and across every wrap of a state word, a fresh table admits, an
 * idle source has its full burst, and a source that returns meets neither an old debt nor more than
 * its burst.
 */
#include "tests/packet/packet_test.h"

static const char *const kind[] = {
	"{name: a, rate: 10/s, burst: 10}",
	"{name: a, rate: 20000/s, burst: 10}",
	"{name: a, rate: 2000000/s, burst: 10}",
	"{name: a, rate: 3/h, burst: 10}",
	"{name: a, rate: 200 Mbit/s, burst: 420 B}",
	"{name: a, rate: 100 Gbit/s, burst: 420 B}",
	"{name: a, algorithm: fixed-window, limit: 10, window: 1s}",
	"{name: a, algorithm: fixed-window, limit: 10, window: 10ms}",
	"{name: a, algorithm: sliding-window-counter, limit: 10, window: 1s}",
	"{name: a, algorithm: sliding-window-counter, limit: 10, window: 10ms}",
	"{name: a, rate: 10/s, burst: 10, block_for: 2s}",
	"{name: a, algorithm: fixed-window, limit: 10, window: 1s, block_for: 2s}",
};
#define KINDS (sizeof(kind) / sizeof(kind[0]))

/* Uptimes at which other limiters failed, and some that lie around the wraps of 32-bit clocks in
 * all units.
 */
static const uint64_t uptime[] = {
	XDP_SECOND,	     36 * XDP_MINUTE,	   40 * XDP_MINUTE,  61 * XDP_MINUTE,
	60 * XDP_MINUTE,     73 * XDP_MINUTE,	   75 * XDP_MINUTE,  1440 * XDP_MINUTE,
	71582 * XDP_MINUTE,  71583 * XDP_MINUTE,   4294967295ull,    4294967296ull,
	4294967297ull,	     1ull << 42,	   (1ull << 52) - 1, (1ull << 52) + 10,
	525600 * XDP_MINUTE, 5256000 * XDP_MINUTE,
};
#define UPTIMES (sizeof(uptime) / sizeof(uptime[0]))

/* A frame of 42 bytes: 10 of them are 420. */
#define P SRC4("198.51.100.1")

static void fresh_table_admits_at_any_uptime(void **state)
{
	struct pkt p = P, p6 = SRC6("2001:db8::1");

	(void)state;
	for (size_t k = 0; k < KINDS; k++)
		for (size_t u = 0; u < UPTIMES; u++) {
			struct xdp_run *x;
			uint64_t got;

			if (u % 3 != k % 3 && u > 6)
				continue; /* a third of the far ones each */
			x = xdp_run(LIMITS(kind[k]));
			xdp_set_clock(x, uptime[u]);
			got = xdp_send_many(x, &p, 30);
			if (got != 10)
				fail_msg("%s at %llu: %llu of a burst of 10", kind[k],
					 (unsigned long long)uptime[u], (unsigned long long)got);
			if (!strstr(kind[k], "bit"))
				assert_int_equal(xdp_send_many(x, &p6, 30), 10);
		}
}

/* Uses the burst up at every uptime in turn, without clearing anything between. */
static void returning_source_has_exactly_its_burst(void **state)
{
	struct pkt p = P;

	(void)state;
	for (size_t k = 0; k < KINDS; k++) {
		struct xdp_run *x;
		uint64_t t = XDP_SECOND;

		if (strstr(kind[k], "/h"))
			continue; /* 3 an hour refill slower than these steps */
		x = xdp_run(LIMITS(kind[k]));
		for (int i = 0; i < 60; i++) {
			uint64_t got;

			xdp_set_clock(x, t);
			got = xdp_send_many(x, &p, 30);
			if (got != 10)
				fail_msg("%s at %llu ns: %llu of a burst of 10", kind[k],
					 (unsigned long long)t, (unsigned long long)got);
			t = t * 5 / 4 + 5 * XDP_SECOND; /* ends after some weeks */
		}
	}
}

/* Silence of every length around the wraps of the limit's own word. */
static void no_silence_is_taken_for_a_debt_around_a_wrap(void **state)
{
	struct pkt p = P;

	(void)state;
	for (size_t k = 0; k < KINDS; k++) {
		struct xdp_run *x = xdp_run(LIMITS(kind[k]));
		uint64_t wrap = weir_compile_wrap_ns(&x->compiled->policy.limit[0]);
		static const int64_t off_ms[] = {-60000, -5000, -3000, -2000, 5000, 60000};

		if (wrap > 1ull << 60 || strstr(kind[k], "/h"))
			continue; /* beyond 36 years */
		for (uint64_t n = 1; n < 4; n++)
			for (size_t o = 0; o < sizeof(off_ms) / sizeof(off_ms[0]); o++) {
				uint64_t start = XDP_MINUTE * 3,
					 now = start + n * wrap + (uint64_t)(off_ms[o] * 1000000);
				uint64_t got;

				memset(x->side[0].sources, 0, 4096 * sizeof(struct weir_bucket4));
				memset(x->side[1].sources, 0, 4096 * sizeof(struct weir_bucket4));
				if ((int64_t)(n * wrap) + off_ms[o] * 1000000 < 3000000000ll)
					continue;
				xdp_set_clock(x, start);
				(void)xdp_send_many(x, &p, 30);
				xdp_set_clock(x, now);
				got = xdp_send_many(x, &p, 30);
				if (got != 10)
					fail_msg("%s: silent for %llu wraps of %llu ns and %lld "
						 "ms: %llu of 10",
						 kind[k], (unsigned long long)n,
						 (unsigned long long)wrap, (long long)off_ms[o],
						 (unsigned long long)got);
			}
	}
}

static void steady_source_crosses_every_wrap_unharmed(void **state)
{
	static const char *const limit[] = {
		"{name: a, rate: 2000000/s, burst: 2000}",
		"{name: a, rate: 100000/s, burst: 1000}",
		"{name: a, algorithm: fixed-window, limit: 100, window: 100ms}",
		"{name: a, algorithm: sliding-window-counter, limit: 100, window: 100ms}",
	};
	struct pkt p = P;

	(void)state;
	for (size_t k = 0; k < sizeof(limit) / sizeof(limit[0]); k++) {
		struct xdp_run *x = xdp_run(LIMITS(limit[k]));
		uint64_t wrap = weir_compile_wrap_ns(&x->compiled->policy.limit[0]);
		uint64_t got = 0, sent = 0;

		xdp_set_clock(x, wrap - wrap % XDP_SECOND - 2 * XDP_SECOND);
		for (int i = 0; i < 4000;
		     i++) { /* 500 packets a second for eight seconds, over the wrap */
			got += xdp_send_many(x, &p, 1);
			sent++;
			xdp_advance_ms(x, 2);
		}
		assert_int_equal(got, sent);
	}
}

static void slow_limit_keeps_its_count_for_hours(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 3/h, burst: 3}"));
	struct pkt p = P;
	uint64_t got;

	(void)state;
	got = xdp_send_many(x, &p, 10);
	assert_int_equal(got, 3);
	for (int i = 0; i < 30; i++) { /* ten hours, a try every twenty minutes */
		xdp_advance_ns(x, 20 * XDP_MINUTE + XDP_SECOND);
		got += xdp_send_many(x, &p, 10);
	}
	assert_in_range(got, 32, 34);
}

static void clock_that_steps_back_a_little_admits_nothing_more(void **state)
{
	struct xdp_run *x = xdp_run(LIMITS("{name: a, rate: 1000/s, burst: 10}"));
	struct pkt p = P;

	(void)state;
	xdp_set_clock(x, 5 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 30), 10);
	for (int i = 1; i < 10; i++) { /* CPUs read the clock at slightly different times */
		xdp_set_clock(x, 5 * XDP_SECOND - (uint64_t)i * 1000);
		assert_int_equal(xdp_send_many(x, &p, 30), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fresh_table_admits_at_any_uptime),
		cmocka_unit_test(returning_source_has_exactly_its_burst),
		cmocka_unit_test(no_silence_is_taken_for_a_debt_around_a_wrap),
		cmocka_unit_test(steady_source_crosses_every_wrap_unharmed),
		cmocka_unit_test(slow_limit_keeps_its_count_for_hours),
		cmocka_unit_test(clock_that_steps_back_a_little_admits_nothing_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
