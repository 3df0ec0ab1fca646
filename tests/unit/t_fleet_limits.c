/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packet limits with scope: fleet: what the configuration asks of them, the counting word that each has in the policy, and
 * reading that word while packets change it.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "user/datapath/table.h"
#include "weir/algo.h"
#include "weir/idle.h"

static struct weir_meta meta = {WEIR_MAGIC, WEIR_ABI, {11, 22, 33}};

/* --- configuration ---- */

#define SHARED "store: {url: \"redis://127.0.0.1\"}\n"

static void expect_conf(const char *store, const char *limit, const char *mistake)
{
	struct weir_conf_problems problems = {};
	struct weir_conf *c = NULL;
	char text[512];
	const char *said = "";
	int r;

	(void)snprintf(text, sizeof(text), "interfaces: [lo]\n%spacket_limits: [{name: a, %s}]\n",
		       store, limit);
	r = weir_conf_parse("t", text, strlen(text), &c, &problems);
	for (size_t i = 0; i < problems.n; i++)
		if (!problems.item[i].warning)
			said = problems.item[i].text;
	if (mistake) {
		assert_string_equal(said, mistake);
		assert_int_equal(problems.n_errors, 1);
	} else {
		assert_string_equal(said, "");
		assert_int_equal(r, 0);
		assert_int_equal(c->limits[0].scope, WEIR_SCOPE_FLEET);
	}
	weir_conf_free(c);
	weir_conf_problems_done(&problems);
}

static void it_needs_a_shared_store_with_lists_and_enough_to_count(void **state)
{
	(void)state;
	expect_conf(SHARED, "rate: 100/s, scope: fleet", NULL);
	expect_conf(SHARED, "rate: 64/m, burst: 1, scope: fleet", NULL);
	expect_conf(SHARED, "rate: 1 Mbit/s, scope: fleet", NULL);
	expect_conf(SHARED, "algorithm: fixed-window, limit: 500, window: 1s, scope: fleet", NULL);
	expect_conf("", "rate: 100/s, scope: fleet",
		    "limit \"a\": scope: fleet needs a shared store (store: {url: redis://…}, or "
		    "scope: host)");
	expect_conf("store: {url: \"redis://a\", fleet: {lists: false}}\n",
		    "rate: 100/s, scope: fleet",
		    "limit \"a\": scope: fleet needs store.fleet.lists: all hosts block what one "
		    "finds (lists: true, or scope: host)");
	expect_conf(SHARED, "rate: 63/m, scope: fleet",
		    "scope: fleet needs a limit of at least 64 packets a minute (or scope: host)");
	expect_conf(SHARED, "rate: 1 kB/s, burst: 4 kB, scope: fleet",
		    "scope: fleet needs a limit of at least 64 full frames a minute (or scope: "
		    "host)");
}

static void limit_set_checks_the_store_too(void **state)
{
	struct weir_conf_problems problems = {};
	struct weir_error e = {};
	struct weir_conf *c = NULL;
	const char text[] = "interfaces: [lo]\npacket_limits: [{name: a, rate: 100/s}]\n";
	const char *scope = "scope=fleet";

	(void)state;
	assert_int_equal(weir_conf_parse("t", text, strlen(text), &c, &problems), 0);
	assert_int_equal(weir_conf_limit_set_all(c, "a", &scope, 1, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "needs a shared store"));
	assert_int_equal(c->limits[0].scope, WEIR_SCOPE_HOST);
	weir_conf_free(c);
	weir_conf_problems_done(&problems);
}

/* --- the policy ---- */

static struct weir_conf_limit *fleet(struct weir_conf_limit *l)
{
	l->scope = WEIR_SCOPE_FLEET;
	return l;
}

static void what_counts_stands_behind_its_limit_in_the_same_slot(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	const struct weir_policy *p;

	(void)state;
	(void)fleet(limits_bucket(l, "a", 1000, 1000));
	(void)limits_bucket(l, "b", 50, 50);
	c = limits_compile(l, NULL);
	p = &c->policy;
	assert_int_equal(p->n_limits, 3);
	assert_int_equal(p->n_groups4, 1);
	assert_int_equal(p->group4[0].n, 3);
	assert_int_equal(p->group4[0].limit[0], 0);
	assert_int_equal(p->group4[0].limit[1], 2);
	assert_int_equal(p->group4[0].limit[2], 1);
	assert_int_equal(p->limit[2].flags, WEIR_LIMIT_MONITOR | WEIR_LIMIT_FLEET);
	assert_int_equal(p->limit[2].counts_for, 0);
	assert_int_equal(p->limit[2].window_ns, SEC);
	/* burst and a window's worth fit, so that the host's own limit ends the counting */
	assert_true(p->limit[2].limit >= 2000 && p->limit[2].limit < 4096);
	assert_int_equal(p->limit[2].burst, 7); /* 1000 / 128 */
	assert_false(p->flags & WEIR_POLICY_FINE_CLOCK);
	assert_string_equal(c->names[p->limit[2].stat].name, "a");
	assert_int_equal(c->names[p->limit[2].stat].keeps, WEIR_KEEPS_FLEET);
	assert_int_equal(c->names[p->limit[0].stat].keeps, WEIR_KEEPS_SOURCE);
	weir_compiled_free(c);
	free(l);
}

static void without_them_the_policy_is_what_it_was(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	(void)limits_bucket(l, "a", 1000, 1000);
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.n_limits, 1);
	assert_int_equal(c->policy.group4[0].n, 1);
	weir_compiled_free(c);
	free(l);
}

static void slow_limits_and_large_tables_count_in_longer_windows(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *a = limits_bucket(l, "a", 5, 5);

	(void)state;
	assert_int_equal(weir_fleet_pass_ns(1 << 18, 1 << 17), SEC / 4);
	assert_int_equal(weir_fleet_pass_ns(1 << 22, 1 << 21), 4 * SEC);
	assert_int_equal(weir_fleet_window_ns(a, SEC / 4), 13 * SEC); /* 64 packets: 12.8 s */
	a->rate = 1000;
	assert_int_equal(weir_fleet_window_ns(a, SEC / 4), SEC);
	assert_int_equal(weir_fleet_window_ns(a, 4 * SEC), 16 * SEC);
	free(l);
}

static void each_takes_one_of_the_places(void **state)
{
	struct limits *l = limits_new();

	(void)state;
	for (int i = 0; i < 31; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "l%d", i);
		(void)limits_bucket(l, name, 1000, 1000);
	}
	(void)fleet(&l->item[0]);
	weir_compiled_free(limits_compile(l, NULL));
	(void)fleet(&l->item[1]);
	LIMITS_REFUSE(l, "31 limits", "one more place for each of scope: fleet", "32");
	free(l);
}

static void of_bytes_a_fast_one_takes_two_words(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	fleet(limits_bucket(l, "slow", 25000000, 4000000))->bytes = true;
	fleet(limits_bucket(l, "fast", 1250000000, 4000000))->bytes = true;
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.limit[2].flags,
			 WEIR_LIMIT_MONITOR | WEIR_LIMIT_FLEET | WEIR_LIMIT_BYTES);
	assert_int_equal(c->policy.limit[2].count_bits, 25);
	assert_int_equal(c->policy.limit[3].flags, WEIR_LIMIT_MONITOR | WEIR_LIMIT_FLEET |
							   WEIR_LIMIT_BYTES | WEIR_LIMIT_PAIR);
	weir_compiled_free(c);
	free(l);
}

static void a_few_packets_keep_no_slot(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	const struct weir_limit *h;
	struct weir_idle idle;
	__u32 word = 0;

	(void)state;
	(void)fleet(limits_bucket(l, "a", 1000, 1000));
	c = limits_compile(l, NULL);
	h = &c->policy.limit[1];
	idle = weir_idle_of(h, WEIR_WORD_STATE, 5 * SEC);
	for (unsigned n = 1; n < 100; n++) {
		assert_true(weir_fixed_take32(word, weir_window_number(5, 32 - h->count_bits),
					      h->count_bits, 1, (__u32)h->limit, &word));
		assert_int_equal(weir_idle_busy(idle, word), n > h->burst);
	}
	/* over, two windows later */
	assert_true(weir_idle_busy(weir_idle_of(h, WEIR_WORD_STATE, 4 * SEC), word));
	assert_false(weir_idle_busy(weir_idle_of(h, WEIR_WORD_STATE, 7 * SEC), word));
	weir_compiled_free(c);
	free(l);
}

static void another_scope_changes_nobody_elses_counters(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c, *d, *e;

	(void)state;
	(void)limits_bucket(l, "a", 1000, 1000);
	(void)limits_bucket(l, "b", 50, 50);
	c = limits_compile(l, NULL);
	(void)fleet(&l->item[0]);
	d = limits_compile(l, c);
	assert_true(d->new_tables);
	assert_int_equal(d->policy.limit[0].stat, c->policy.limit[0].stat);
	assert_int_equal(d->policy.limit[1].stat, c->policy.limit[1].stat);
	e = limits_compile(l, d);
	assert_false(e->new_tables);
	assert_int_equal(e->policy.limit[2].stat, d->policy.limit[2].stat);
	weir_compiled_free(c);
	weir_compiled_free(d);
	weir_compiled_free(e);
	free(l);
}

/* --- reading ---- */

struct seen {
	struct weir_prefix source;
	unsigned limit;
	__u64 window, count;
};
struct list {
	struct seen item[64];
	size_t n;
};

static void on_count(void *arg, unsigned limit, const struct weir_prefix *source, __u64 window,
		     __u64 count)
{
	struct list *l = arg;

	assert_true(l->n < ARRAY_LEN(l->item));
	l->item[l->n++] = (struct seen){*source, limit, window, count};
}

static void *page_zero(size_t n)
{
	void *p = aligned_alloc(4096, n);

	assert_non_null(p);
	memset(p, 0, n);
	return p;
}

/* Puts a count into the @i-th bucket, as the program would. */
static void put(const struct weir_tables *t, bool v6, __u32 bucket, __u64 tag, __u64 window,
		__u32 count)
{
	const struct weir_limit *h = &t->policy->limit[1];
	__u32 number = weir_window_number(window, 32 - h->count_bits), word = 0;

	assert_true(weir_fixed_take32(0, number, h->count_bits, count, (__u32)h->limit, &word));
	if (v6) {
		t->t6[bucket].slot[1].tag = tag;
		t->t6[bucket].slot[1].word[h->word6] = word;
	} else {
		t->t4[bucket].slot[3].addr = (__u32)tag;
		t->t4[bucket].slot[3].word[h->word4] = word;
	}
}

static void reading_tells_the_loud_of_this_window_and_the_last(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	struct weir_count_scan at = {};
	struct weir_tables t;
	struct list found = {};
	char text[WEIR_PREFIX_STRLEN];
	unsigned calls = 1;
	__u64 tag6 = 0;

	(void)state;
	(void)fleet(limits_bucket(l, "a", 1000, 1000));
	c = limits_compile(l, NULL);
	t = (struct weir_tables){.t4 = page_zero(BUCKETS4 * sizeof(struct weir_bucket4)),
				 .t6 = page_zero(BUCKETS6 * sizeof(struct weir_bucket6)),
				 .buckets4 = BUCKETS4,
				 .buckets6 = BUCKETS6,
				 .policy = &c->policy,
				 .meta = &meta};
	memcpy(&tag6, "\x20\x01\x0d\xb8\0\0\0\1", 8);
	put(&t, false, 7, htonl(0xc6336401), 100, 101);		   /* this window */
	put(&t, false, 8, htonl(0xc6336402), 99, 500);		   /* the last one */
	put(&t, false, 9, htonl(0xc6336403), 98, 500);		   /* older */
	put(&t, false, 10, htonl(0xc6336404), 100, 100);	   /* not above */
	put(&t, false, BUCKETS4 - 1, htonl(0xc6336405), 101, 102); /* a newer clock */
	put(&t, true, BUCKETS6 - 1, tag6, 100, 1000);
	at.above[1] = 100;
	while (!weir_table_scan_counts(&t, 100 * SEC + 5, &at, 100, on_count, &found))
		calls++;
	assert_int_equal(calls, (BUCKETS4 + BUCKETS6 + 99) / 100);
	assert_int_equal(found.n, 4);
	assert_string_equal(weir_prefix_format(&found.item[0].source, text), "198.51.100.1");
	assert_int_equal(found.item[0].limit, 1);
	assert_int_equal(found.item[0].window, 100);
	assert_int_equal(found.item[0].count, 101);
	assert_int_equal(found.item[1].window, 99);
	assert_int_equal(found.item[1].count, 500);
	assert_int_equal(found.item[2].window, 101);
	assert_string_equal(weir_prefix_format(&found.item[3].source, text), "2001:db8:0:1::/64");
	assert_int_equal(found.item[3].count, 1000);
	/* the next pass is a whole one again */
	found.n = 0;
	assert_true(weir_table_scan_counts(&t, 100 * SEC + 6, &at, 1u << 20, on_count, &found));
	assert_int_equal(found.n, 4);
	/* nobody sees it as a limit */
	assert_int_equal(weir_table_lookup(&t, &found.item[0].source.addr, 4, 100 * SEC, NULL), 0);
	free(t.t4);
	free(t.t6);
	weir_compiled_free(c);
	free(l);
}

static void reading_looks_only_where_such_limits_are(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;
	struct weir_count_scan at = {};
	struct weir_tables t;
	struct list found = {};

	(void)state;
	(void)limits_bucket(l, "a", 1000, 1000);
	c = limits_compile(l, NULL);
	t = (struct weir_tables){.t4 = page_zero(BUCKETS4 * sizeof(struct weir_bucket4)),
				 .buckets4 = BUCKETS4,
				 .policy = &c->policy,
				 .meta = &meta};
	assert_true(weir_table_scan_counts(&t, SEC, &at, 0, on_count, &found));
	assert_int_equal(found.n, 0);
	free(t.t4);
	weir_compiled_free(c);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_needs_a_shared_store_with_lists_and_enough_to_count),
		cmocka_unit_test(limit_set_checks_the_store_too),
		cmocka_unit_test(what_counts_stands_behind_its_limit_in_the_same_slot),
		cmocka_unit_test(without_them_the_policy_is_what_it_was),
		cmocka_unit_test(slow_limits_and_large_tables_count_in_longer_windows),
		cmocka_unit_test(each_takes_one_of_the_places),
		cmocka_unit_test(of_bytes_a_fast_one_takes_two_words),
		cmocka_unit_test(a_few_packets_keep_no_slot),
		cmocka_unit_test(another_scope_changes_nobody_elses_counters),
		cmocka_unit_test(reading_tells_the_loud_of_this_window_and_the_last),
		cmocka_unit_test(reading_looks_only_where_such_limits_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
