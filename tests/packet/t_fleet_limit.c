/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What counts for limits of a fleet, in the program: as many packets as the limit lets through and no other, read back from
 * the tables; nobody is dropped by it, and a source with a packet or two keeps no slot.
 */
#include "tests/packet/packet_test.h"
#include "user/datapath/table.h"

/* @ stands for @scope, which needs a store. */
static const char *of_scope(const char *limits, const char *scope)
{
	static char text[2048];
	size_t n = (size_t)snprintf(text, sizeof(text), "store: {url: \"redis://127.0.0.1\"}\n");

	for (; *limits && n + 8 < sizeof(text); limits++)
		n += (size_t)(*limits == '@' ? snprintf(text + n, 8, "%s", scope)
					     : snprintf(text + n, 8, "%c", *limits));
	return text;
}
#define FLEET(...) of_scope(LIMITS(__VA_ARGS__), "fleet")

struct found {
	uint64_t n, sum;
};

static void on_count(void *arg, unsigned limit, const struct weir_prefix *source, __u64 window,
		     __u64 count)
{
	struct found *f = arg;

	(void)limit;
	(void)source;
	(void)window;
	f->n++;
	f->sum += count;
}

/* Sources with more than @above, and what they have together; the same on both sides. */
static struct found counts(struct xdp_run *x, uint64_t above)
{
	struct found all = {};

	for (int i = 0; i < XDP_SIDES; i++) {
		struct weir_meta meta = {};
		struct weir_tables t = {.t4 = x->side[i].sources,
					.t6 = x->side[i].sources6,
					.buckets4 = x->buckets,
					.buckets6 = x->buckets,
					.policy = &x->compiled->policy,
					.meta = &meta};
		struct weir_count_scan at = {};
		struct found f = {};

		for (int k = 0; k < WEIR_LIMITS_MAX; k++)
			at.above[k] = above;
		assert_true(weir_table_scan_counts(&t, x->now_ns, &at, 1u << 30, on_count, &f));
		if (i) {
			assert_int_equal(f.n, all.n);
			assert_int_equal(f.sum, all.sum);
		}
		all = f;
	}
	return all;
}

static void it_counts_what_its_limit_lets_through(void **state)
{
	struct xdp_run *x = xdp_run(FLEET("{name: a, rate: 100/s, scope: @}"));
	struct pkt p = SRC4("198.51.100.1"), p6 = SRC6("2001:db8::1");

	(void)state;
	xdp_set_clock(x, 10 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 60), 60);
	assert_int_equal(counts(x, 0).sum, 60);
	assert_int_equal(xdp_send_many(x, &p, 60), 40);
	assert_int_equal(counts(x, 0).sum, 100);
	assert_int_equal(xdp_send_many(x, &p6, 30), 30);
	assert_int_equal(counts(x, 0).sum, 130);
	assert_int_equal(counts(x, 50).n, 1);
	/* the window after that, and the next */
	xdp_advance_ms(x, 1000);
	assert_int_equal(counts(x, 0).sum, 130);
	assert_int_equal(xdp_send_many(x, &p, 5), 5);
	assert_int_equal(counts(x, 0).sum, 35);
	xdp_advance_ms(x, 2000);
	assert_int_equal(counts(x, 0).n, 0);
	/* the user's limit has what it has */
	xdp_expect_limit(x, "a", 135, 20);
}

static void bytes_are_counted_as_bytes_in_one_word_or_two(void **state)
{
	struct xdp_run *x =
		xdp_run(FLEET("{name: slow, rate: 1 MB/s, scope: @}",
			      "{name: fast, rate: 10 Gbit/s, burst: 100 MB, scope: @}"));
	struct pkt p = PKT(ETH(), IP4(), UDP(), PAY(958));

	(void)state;
	xdp_set_clock(x, 10 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 100), 100);
	assert_int_equal(counts(x, 0).n, 2);
	assert_int_equal(counts(x, 0).sum, 2 * 100 * 1000);
}

static void a_monitor_limit_counts_all(void **state)
{
	struct xdp_run *x = xdp_run(FLEET("{name: a, rate: 100/s, scope: @, mode: monitor}"));
	struct pkt p = SRC4("198.51.100.1");

	(void)state;
	xdp_set_clock(x, 10 * XDP_SECOND);
	assert_int_equal(xdp_send_many(x, &p, 150), 150);
	assert_int_equal(counts(x, 0).sum, 150);
}

/* More than the table holds, a packet each: as without scope: fleet, all find a slot once those before are idle. */
static void a_flood_of_strangers_finds_as_much_room(void **state)
{
	static const char *const scope[] = {"host", "fleet"};
	uint64_t full[2] = {};

	(void)state;
	for (int s = 0; s < 2; s++) {
		struct weir_counters c;
		struct xdp_run *x;

		x = xdp_run_sized(of_scope(LIMITS("{name: a, rate: 1000/s, scope: @}"), scope[s]),
				  64);
		xdp_set_clock(x, 10 * XDP_SECOND);
		for (unsigned i = 0; i < 2000; i++) {
			char src[32];
			struct pkt p;

			(void)snprintf(src, sizeof(src), "10.0.%u.%u", i / 250, i % 250);
			p = PKT(ETH(), IP4(.src = src), UDP());
			xdp_pass(x, p);
			if (i % 50 == 49)
				xdp_advance_ms(x, 10);
		}
		xdp_counters(&x->side[0], &c);
		full[s] = c.bucket_full;
	}
	assert_int_equal(full[1], full[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_counts_what_its_limit_lets_through),
		cmocka_unit_test(bytes_are_counted_as_bytes_in_one_word_or_two),
		cmocka_unit_test(a_monitor_limit_counts_all),
		cmocka_unit_test(a_flood_of_strangers_finds_as_much_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
