/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compiler of limits: units, places, counters, and when state may stay where it is. */
#include <errno.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "weir/algo.h"

/* --- units ---- */

static void every_rate_is_exact_to_a_thousandth(void **state)
{
	static const __u64 rates[] = {1,    2,	   3,	     7,		10,	    100,
				      128,  333,   500,	     953,	954,	    1000,
				      4095, 20000, 25000000, 125000000, 1250000000, 12500000000};
	static const __u64 pers[] = {SEC, MIN, HOUR, 24 * HOUR};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		for (size_t k = 0; k < ARRAY_LEN(pers); k++) {
			struct limits *l = limits_new();
			struct weir_conf_limit *n = limits_bucket(l, "a", rates[i], 3);
			struct weir_compiled *c;
			const struct weir_limit *p;

			n->rate_per_ns = pers[k];
			c = limits_compile(l, NULL);
			p = &c->policy.limit[0];
			assert_true(weir_compile_rate_error(n, p) <= 0.001);
			assert_true(p->mult >= 1 << 12);
			assert_true(p->shift <= 32);
			assert_int_equal(p->burst, 3u << p->frac_bits);
			/* one bit less would not do */
			assert_true(!p->frac_bits || p->mult / 2 < 1 << 12);
			weir_compiled_free(c);
			free(l);
		}
	}
}

static void three_an_hour_and_a_hundred_gigabit_are_counted(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *slow = limits_bucket(l, "slow", 3, 3);
	struct weir_conf_limit *fast = limits_bucket(l, "fast", 12500000000, 1000000000);
	struct weir_compiled *c;

	(void)state;
	slow->rate_per_ns = HOUR;
	fast->bytes = true;
	c = limits_compile(l, NULL);
	/* An hour is three tokens. */
	assert_in_range(weir_ticks(HOUR, c->policy.limit[0].mult, 32) >>
				(c->policy.limit[0].frac_bits - 10),
			3069, 3075);
	assert_int_equal(c->policy.limit[1].frac_bits, 0);
	assert_int_equal(c->policy.limit[1].flags, WEIR_LIMIT_BYTES);
	assert_in_range(weir_compile_wrap_ns(&c->policy.limit[1]), 343000000, 344000000);
	assert_true(weir_compile_wrap_ns(&c->policy.limit[0]) > 24 * 24 * HOUR);
	weir_compiled_free(c);
	free(l);
}

static void fewer_fraction_bits_make_room_for_the_burst(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_bucket(l, "a", 3, 1);
	struct weir_compiled *c;

	(void)state;
	n->rate_per_ns = HOUR;
	n->burst = 4000; /* 21 bits of fraction leave room for 512, 18 for 4096 */
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.limit[0].frac_bits, 18);
	assert_true(weir_compile_rate_error(n, &c->policy.limit[0]) <= 0.001);
	assert_true(c->policy.limit[0].burst <= 1u << 30);
	weir_compiled_free(c);
	free(l);
}

static void what_does_not_fit_names_limit_value_and_remedy(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_bucket(l, "big", 12500000000, 12500000000);

	(void)state;
	n->bytes = true;
	n->line = 7;
	l->conf.path = (char *)"/etc/weir/weir.yaml";
	LIMITS_REFUSE(l, "/etc/weir/weir.yaml:7: limit big: ", "burst 12500 MB", "100 Gbit/s",
		      "burst: to 1 GiB");
	n->burst = 1u << 30;
	weir_compiled_free(limits_compile(l, NULL));
	n->bytes = false;
	n->rate = 3;
	n->burst = 10;
	n->block_for_ns = 26 * 24 * HOUR; /* whatever the rate */
	weir_compiled_free(limits_compile(l, NULL));
	n->rate = 20000;
	weir_compiled_free(limits_compile(l, NULL));
	n->block_for_ns = 3000 * HOUR;
	LIMITS_REFUSE(l, "limit big: block_for 125d", "at most 26d");
	n->block_for_ns = 0;
	n->rate_per_ns = ~0ull;
	n->rate = 1;
	LIMITS_REFUSE(l, "too slow");
	n->rate_per_ns = 1;
	n->rate = 1ull << 40;
	LIMITS_REFUSE(l, "too fast");
	n->rate = 0;
	LIMITS_REFUSE(l, "rate is 0");
	n->rate = 1;
	n->burst = 0;
	LIMITS_REFUSE(l, "burst is 0");
	free(l);
}

static void windows_choose_words_by_their_limit(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_window(l, "small", WEIR_ALGO_FIXED_WINDOW, 500, SEC);
	limits_window(l, "edge", WEIR_ALGO_FIXED_WINDOW, (1 << 20) - 1, SEC);
	limits_window(l, "pair", WEIR_ALGO_FIXED_WINDOW, 1 << 20, SEC);
	limits_window(l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 33554431, 48 * HOUR);
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.limit[0].count_bits, 10);
	assert_int_equal(c->policy.limit[1].count_bits, 20);
	assert_int_equal(c->policy.limit[0].flags, 0);
	assert_int_equal(c->policy.limit[2].flags, WEIR_LIMIT_PAIR);
	assert_int_equal(c->policy.limit[3].flags, WEIR_LIMIT_PAIR);
	assert_true((48 * HOUR >> c->policy.limit[3].tick_shift) < 1ull << 37);
	assert_true((48 * HOUR >> (c->policy.limit[3].tick_shift - 1)) >= 1ull << 37);
	weir_compiled_free(c);
	l->item[3].limit++;
	LIMITS_REFUSE(l, "limit sliding: ", "33554432", "at most 33554431");
	l->item[3].limit--;
	l->item[2].limit = 1ull << 40;
	LIMITS_REFUSE(l, "limit pair: ");
	l->item[2].limit = 0;
	LIMITS_REFUSE(l, "limit is 0");
	l->item[2].limit = 1;
	l->item[2].window_ns = 0;
	LIMITS_REFUSE(l, "window is 0");
	free(l);
}

static void every_algorithm_has_a_word_for_its_penalty(void **state)
{
	(void)state;
	for (int a = 0; a < WEIR_ALGO_MAX; a++) {
		struct limits *l = limits_new();
		struct weir_compiled *c;
		const struct weir_limit *m;

		limits_bucket(l, "a", 100, 200)->block_for_ns = (1 << 20) + 1;
		l->item[0].algorithm = a;
		l->item[0].limit = 500;
		l->item[0].window_ns = SEC;
		c = limits_compile(l, NULL);
		m = &c->policy.limit[0];
		assert_int_equal(m->block_ms, 2); /* rounded up */
		assert_true(m->flags & WEIR_LIMIT_BLOCK);
		assert_int_equal(m->penalty4, a == WEIR_ALGO_SLIDING_WINDOW ? 0 : 1);
		assert_int_equal(m->penalty6, a == WEIR_ALGO_SLIDING_WINDOW ? 2 : 1);
		assert_int_equal(c->policy.group4[0].role[m->penalty4], WEIR_WORD_PENALTY);
		assert_int_equal(c->policy.group6[0].role[m->penalty6], WEIR_WORD_PENALTY);
		assert_int_equal(c->policy.group4[0].penalties, 1);
		assert_int_equal(c->policy.penalties4, 1);
		weir_compiled_free(c);
		l->item[0].block_for_ns = 30 * 24 * HOUR;
		LIMITS_REFUSE(l, "limit a: block_for 30d", "at most 26d");
		free(l);
	}
}

static bool fine_clock(struct limits *l)
{
	struct weir_compiled *c = limits_compile(l, NULL);
	bool fine = c->policy.flags & WEIR_POLICY_FINE_CLOCK;

	weir_compiled_free(c);
	return fine;
}

static void short_bursts_and_windows_need_the_fine_clock(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_bucket(l, "a", 1000, 64);

	(void)state;
	assert_false(fine_clock(l)); /* 64 ms = 16 jiffies */
	n->burst = 63;
	assert_true(fine_clock(l));
	*n = (struct weir_conf_limit){};
	l->conf.n_limits = 0;
	n = limits_window(l, "a", WEIR_ALGO_FIXED_WINDOW, 10, 64 * JIFFY_NS);
	assert_false(fine_clock(l));
	n->window_ns--;
	assert_true(fine_clock(l));
	free(l);
}

static void classes_have_generous_limits(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c = limits_compile(l, NULL);
	const struct weir_class_limit *k = c->policy.class_limit;

	(void)state;
	assert_int_equal(k[WEIR_CLASS_NONE].mult, 0);
	assert_int_equal(k[WEIR_CLASS_ARP].burst >> k[WEIR_CLASS_ARP].frac_bits, 20000);
	assert_int_equal(k[WEIR_CLASS_NEIGHBOUR].burst >> k[WEIR_CLASS_NEIGHBOUR].frac_bits, 20000);
	assert_int_equal(k[WEIR_CLASS_DHCP].burst >> k[WEIR_CLASS_DHCP].frac_bits, 2000);
	assert_in_range(weir_ticks(SEC, k[WEIR_CLASS_DHCP].mult, k[WEIR_CLASS_DHCP].shift) >>
				k[WEIR_CLASS_DHCP].frac_bits,
			999, 1001);
	weir_compiled_free(c);
	free(l);
}

static void only_a_source_can_be_penalised(void **state)
{
	struct limits *l = limits_new();

	(void)state;
	limits_bucket(l, "a", 1, 1)->per = WEIR_PER_DESTINATION;
	l->item[0].block_for_ns = SEC;
	LIMITS_REFUSE(l, "limit a: block_for is for limits per: source");
	l->item[0].per = WEIR_PER_ALL;
	LIMITS_REFUSE(l, "limit a: block_for is for limits per: source");
	free(l);
}

static void more_than_32_limits_are_refused(void **state)
{
	struct limits *l = limits_new();
	char name[32];

	(void)state;
	for (int i = 0; i < 33; i++) {
		(void)snprintf(name, sizeof(name), "l%d", i);
		limits_bucket(l, name, 1, 1);
	}
	LIMITS_REFUSE(l, "33 limits (at most 32)");
	l->conf.n_limits = 32;
	weir_compiled_free(limits_compile(l, NULL));
	free(l);
}

/* --- places ---- */

/* Every limit has exactly its words, pairs are aligned, and groups in order give the configuration's order: first of
 * sources, then of destinations.
 */
static void check_family(const struct limits *l, const struct weir_policy *p, bool v6)
{
	const struct weir_group *g = v6 ? p->group6 : p->group4;
	unsigned n = v6 ? p->n_groups6 : p->n_groups4, next = 0, end = 0, i, k, words;
	__u32 family = v6 ? p->family6 : p->family4, seen = 0, bits = v6 ? 31 : 31;
	bool destination = false;

	for (i = 0; i < n; i++) {
		__u32 taken[8] = {0};

		assert_int_equal(g[i].base, end);
		assert_int_equal(g[i].base & ((1u << g[i].bits) - 1), 0);
		assert_true(g[i].bits <= bits); /* first groups not smaller */
		bits = g[i].bits;
		end += 1u << g[i].bits;
		words = !v6 ? 3 : g[i].prefix_len > 64 ? 2 : 6;
		if (!destination && g[i].flags & WEIR_GROUP_DESTINATION) {
			destination = true;
			next = 0;
		}
		assert_int_equal(!!(g[i].flags & WEIR_GROUP_DESTINATION), destination);
		for (k = 0; k < g[i].n; k++) {
			__u8 id = g[i].limit[k];
			const struct weir_limit *m = &p->limit[id];
			__u8 w = v6 ? m->word6 : m->word4, q = v6 ? m->penalty6 : m->penalty4;
			bool pair = m->flags & WEIR_LIMIT_PAIR;

			assert_true(id >= next);
			next = id + 1;
			assert_int_equal(l->item[id].per == WEIR_PER_DESTINATION, destination);
			seen |= 1u << id;
			assert_int_equal(v6 ? l->item[id].ipv6_prefix : l->item[id].ipv4_prefix,
					 g[i].prefix_len);
			assert_true(w + (pair ? 2u : 1u) <= words);
			assert_int_equal(g[i].owner[w], id);
			assert_int_equal(g[i].role[w], WEIR_WORD_STATE);
			assert_int_equal(taken[w]++, 0);
			if (pair) {
				assert_int_equal(((v6 ? 8 : 4) + 4 * w) % 8, 0);
				assert_int_equal(g[i].owner[w + 1], id);
				assert_int_equal(g[i].role[w + 1], WEIR_WORD_HIGH);
				assert_int_equal(taken[w + 1]++, 0);
			}
			if (m->flags & WEIR_LIMIT_BLOCK) {
				assert_true(q < words);
				assert_int_equal(g[i].role[q], WEIR_WORD_PENALTY);
				assert_int_equal(g[i].owner[q], id);
				assert_int_equal(taken[q]++, 0);
			} else {
				assert_int_equal(q, WEIR_NO_LIMIT);
			}
			assert_int_equal(g[i].penalties >> id & 1, !!(m->flags & WEIR_LIMIT_BLOCK));
		}
		for (k = 0; k < 8; k++)
			if (!taken[k]) {
				assert_int_equal(g[i].role[k], WEIR_WORD_FREE);
				assert_int_equal(g[i].owner[k], WEIR_NO_LIMIT);
			}
	}
	assert_int_equal(seen, family);
	assert_true(end <= (v6 ? BUCKETS6 : BUCKETS4));
	assert_true(!n || end == (v6 ? BUCKETS6 : BUCKETS4));
}

static void random_limits_are_placed_in_order_without_overlap(void **state)
{
	static const __u8 len4[] = {32, 32, 32, 24, 0}, len6[] = {64, 64, 64, 48, 128};
	struct random r = {42};

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct limits *l = limits_new();
		unsigned n = random_below(&r, 33);
		struct weir_compiled *c, *again;

		for (unsigned i = 0; i < n; i++) {
			struct weir_conf_limit *m;
			char name[32];

			(void)snprintf(name, sizeof(name), "l%u", i);
			m = limits_bucket(l, name, 1000, 1000);
			m->algorithm = random_below(&r, 3);
			m->limit = random_below(&r, 2) ? 100 : 2000000;
			m->window_ns = SEC;
			m->block_for_ns = random_below(&r, 3) ? 0 : SEC;
			m->ipv4_prefix = len4[random_below(&r, 5)];
			m->ipv6_prefix = len6[random_below(&r, 5)];
			m->per = random_below(&r, 3) ? WEIR_PER_SOURCE : WEIR_PER_DESTINATION;
			if (m->per != WEIR_PER_SOURCE ||
			    (m->ipv6_prefix > 64 && m->algorithm != WEIR_ALGO_TOKEN_BUCKET))
				m->block_for_ns = 0;
			m->match.any_protocol = false;
			m->match.protocol[random_below(&r, 2)	? 6
					  : random_below(&r, 2) ? 1
								: 58] = true;
		}
		c = limits_compile(l, NULL);
		check_family(l, &c->policy, false);
		check_family(l, &c->policy, true);
		again = limits_compile(l, c);
		assert_false(again->new_tables);
		assert_int_equal(again->policy.generation, 2);
		weir_compiled_free(again);
		weir_compiled_free(c);
		free(l);
	}
}

static void three_words_share_a_slot_and_a_fourth_begins_a_group(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "a", 1000, 1000);
	limits_bucket(l, "b", 1000, 1000);
	limits_bucket(l, "c", 1000, 1000);
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.n_groups4, 1);
	assert_int_equal(c->policy.n_groups6, 1);
	assert_int_equal(1u << c->policy.group4[0].bits, BUCKETS4);
	weir_compiled_free(c);
	limits_bucket(l, "d", 1000, 1000);
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.n_groups4, 2);
	assert_int_equal(c->policy.n_groups6, 1);
	assert_int_equal(2u << c->policy.group4[0].bits, BUCKETS4);
	assert_int_equal(c->policy.group4[1].base, BUCKETS4 / 2);
	weir_compiled_free(c);
	l->item[1].ipv4_prefix = 24; /* a | b | c d */
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.n_groups4, 3);
	assert_int_equal(c->policy.group4[2].limits, 0xc);
	assert_int_equal(2u << c->policy.group4[0].bits, BUCKETS4);
	assert_int_equal(4u << c->policy.group4[2].bits, BUCKETS4);
	weir_compiled_free(c);
	free(l);
}

static void a_single_word_and_a_pair_share_an_ipv4_slot(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_window(l, "pair", WEIR_ALGO_SLIDING_WINDOW, 100, SEC);
	limits_bucket(l, "one", 1000, 1000);
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.n_groups4, 1);
	assert_int_equal(c->policy.limit[0].word4, 1);
	assert_int_equal(c->policy.limit[1].word4, 0);
	weir_compiled_free(c);
	free(l);
}

static void a_penalised_sliding_window_needs_a_short_ipv6_prefix(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_window(l, "a", WEIR_ALGO_SLIDING_WINDOW, 100, SEC);

	(void)state;
	n->ipv6_prefix = 65;
	weir_compiled_free(limits_compile(l, NULL));
	n->block_for_ns = SEC;
	LIMITS_REFUSE(l, "limit a: ", "/64");
	n->ipv6_prefix = 64;
	weir_compiled_free(limits_compile(l, NULL));
	free(l);
}

/* Each destination limit after all of sources, wherever it stands, and never in one slot with them. */
static void destinations_have_groups_of_their_own_behind_sources(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "d1", 1000, 1000)->per = WEIR_PER_DESTINATION;
	limits_bucket(l, "s1", 1000, 1000);
	limits_bucket(l, "d2", 1000, 1000)->per = WEIR_PER_DESTINATION;
	limits_bucket(l, "s2", 1000, 1000);
	c = limits_compile(l, NULL);
	for (int v6 = 0; v6 < 2; v6++) {
		const struct weir_group *g = v6 ? c->policy.group6 : c->policy.group4;

		assert_int_equal(v6 ? c->policy.n_groups6 : c->policy.n_groups4, 2);
		assert_int_equal(g[0].limits, 0xa);
		assert_int_equal(g[0].flags, 0);
		assert_int_equal(g[1].limits, 0x5);
		assert_int_equal(g[1].flags, WEIR_GROUP_DESTINATION);
		assert_int_equal(g[1].limit[0], 0);
		assert_int_equal(g[1].limit[1], 2);
	}
	assert_int_equal(c->names[c->policy.limit[0].stat].keeps, WEIR_KEEPS_DESTINATION);
	assert_int_equal(c->names[c->policy.limit[1].stat].keeps, WEIR_KEEPS_SOURCE);
	weir_compiled_free(c);
	free(l);
}

/* Limits per: all have no slot: tables and groups are as without them. */
static void all_have_a_place_that_follows_their_counters(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *t, *u;
	struct weir_compiled *a, *b;

	(void)state;
	limits_bucket(l, "s", 1000, 1000);
	a = limits_compile(l, NULL);
	t = limits_bucket(l, "t", 1000, 1000);
	t->per = WEIR_PER_ALL;
	u = limits_window(l, "u", WEIR_ALGO_SLIDING_WINDOW, 1000, SEC);
	u->per = WEIR_PER_ALL;
	u->match.any_protocol = false;
	u->match.protocol[17] = true;
	b = limits_compile(l, a);
	assert_false(b->new_tables);
	assert_int_equal(b->policy.n_groups4, 1);
	assert_int_equal(b->policy.group4[0].limits, 1);
	assert_int_equal(b->policy.n_totals, 2);
	assert_int_equal(b->policy.total[0], 1);
	assert_int_equal(b->policy.total[1], 2);
	assert_int_equal(b->policy.non_ip,
			 2); /* what asks for a protocol is not about other frames */
	assert_int_equal(b->policy.limit[1].total, b->policy.limit[1].stat);
	assert_int_not_equal(b->policy.limit[1].total, b->policy.limit[2].total);
	assert_int_equal(b->names[b->policy.limit[1].stat].keeps, WEIR_KEEPS_ALL);
	weir_compiled_free(a);
	t->burst = 2000; /* in place */
	a = limits_compile(l, b);
	assert_int_equal(a->policy.limit[1].total, b->policy.limit[1].total);
	for (int i = 0; i < 3; i++) { /* other units: there, and back */
		weir_compiled_free(b);
		t->rate += 77;
		b = limits_compile(l, a);
		assert_false(b->new_tables);
		assert_int_equal(b->policy.limit[1].total,
				 (a->policy.limit[1].total + WEIR_STATS_MAX) % WEIR_TOTALS);
		assert_int_equal(b->policy.limit[2].total, a->policy.limit[2].total);
		weir_compiled_free(a);
		a = limits_compile(l, b);
	}
	weir_compiled_free(a);
	weir_compiled_free(b);
	free(l);
}

static void a_table_too_small_for_its_groups_is_refused(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c = NULL;
	struct weir_error e = {""};

	(void)state;
	limits_bucket(l, "a", 1000, 1000);
	limits_bucket(l, "b", 1000, 1000)->ipv4_prefix = 24;
	assert_int_equal(weir_compile(&l->conf, NULL, NULL, 1, 1, JIFFY_NS, &c, &e), -EINVAL);
	assert_non_null(strstr(e.text, "packet_sources is too small for the 2 groups"));
	assert_int_equal(weir_compile(&l->conf, NULL, NULL, 2, 1, JIFFY_NS, &c, &e), 0);
	weir_compiled_free(c);
	free(l);
}

/* --- stability ---- */

struct change {
	struct limits *l;
	struct weir_compiled *old, *new;
};

static struct change three(void)
{
	struct change x = {.l = limits_new()};

	limits_bucket(x.l, "bucket", 1000, 1000);
	limits_window(x.l, "fixed", WEIR_ALGO_FIXED_WINDOW, 500, SEC);
	limits_bucket(x.l, "blocking", 100, 200)->block_for_ns = 10 * SEC;
	x.old = limits_compile(x.l, NULL);
	assert_true(x.old->new_tables);
	return x;
}

static void change_done(struct change *x)
{
	weir_compiled_free(x->old);
	weir_compiled_free(x->new);
	free(x->l);
}

/* Compiles against the old policy, expects new tables or not, and leaves things as before for the next change. */
static void expect_tables(struct change *x, bool new_tables)
{
	weir_compiled_free(x->new);
	x->new = limits_compile(x->l, x->old);
	assert_int_equal(x->new->new_tables, new_tables);
}

static void what_leaves_words_as_they_are_keeps_the_tables(void **state)
{
	struct change x = three();
	struct weir_conf_limit *n = x.l->item;

	(void)state;
	expect_tables(&x, false);
	n[0].burst = 2000;
	expect_tables(&x, false);
	n[0].mode = WEIR_MODE_MONITOR;
	x.l->conf.mode = WEIR_MODE_MONITOR;
	expect_tables(&x, false);
	n[2].burst = 201;
	expect_tables(&x, false);
	n[1].limit = 1000; /* fits the bits in use */
	expect_tables(&x, false);
	assert_int_equal(x.new->policy.limit[1].count_bits, x.old->policy.limit[1].count_bits);
	n[1].limit = 1;
	expect_tables(&x, false);
	n[2].block_for_ns = 20 * SEC;
	expect_tables(&x, false);
	n[0].match.source_port.item = &(struct weir_port_range){53, 53};
	n[0].match.source_port.n = 1;
	expect_tables(&x, false);
	change_done(&x);
}

static void what_changes_units_needs_new_tables(void **state)
{
	struct change x = three();
	struct weir_conf_limit *n = x.l->item, saved[3];

	(void)state;
	memcpy(saved, n, sizeof(saved));
#define RESTORE() memcpy(n, saved, sizeof(saved))
	n[0].rate = 1001;
	expect_tables(&x, true);
	RESTORE();
	n[0].burst = 999; /* debts above it must be clamped */
	expect_tables(&x, true);
	RESTORE();
	n[1].limit = 5000; /* more bits of count */
	expect_tables(&x, true);
	RESTORE();
	n[1].limit = 1 << 20;
	expect_tables(&x, true);
	RESTORE();
	n[0].block_for_ns = SEC; /* takes a word */
	expect_tables(&x, true);
	RESTORE();
	n[1].block_for_ns = SEC;
	expect_tables(&x, true);
	RESTORE();
	n[2].block_for_ns = 0;
	expect_tables(&x, true);
	RESTORE();
	n[2].block_for_ns = 9 * SEC;
	expect_tables(&x, true);
	RESTORE();
	n[0].ipv4_prefix = 24;
	expect_tables(&x, true);
	RESTORE();
	expect_tables(&x, false);
	change_done(&x);
}

static void new_gone_and_renamed_limits_need_new_tables(void **state)
{
	struct change x = three();

	(void)state;
	limits_bucket(x.l, "fourth", 1000, 1000);
	expect_tables(&x, true);
	x.l->conf.n_limits = 2;
	expect_tables(&x, true);
	x.l->conf.n_limits = 3;
	(void)snprintf(x.l->item[0].name, WEIR_NAME_MAX, "renamed");
	expect_tables(&x, true);
	change_done(&x);
}

static void reordering_keeps_words_and_counters(void **state)
{
	struct change x = three();
	struct weir_conf_limit first = x.l->item[0];

	(void)state;
	weir_compiled_free(x.old);
	x.l->item[2].block_for_ns = 0; /* three words: they fit one slot in any order */
	x.old = limits_compile(x.l, NULL);
	x.l->item[0] = x.l->item[2];
	x.l->item[2] = first;
	expect_tables(&x, false);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(x.new->policy.limit[i].stat, x.old->policy.limit[2 - i].stat);
		assert_int_equal(x.new->policy.limit[i].word4, x.old->policy.limit[2 - i].word4);
		assert_int_equal(x.new->names[x.new->policy.limit[i].stat].limit, i);
	}
	change_done(&x);
}

static void units_in_force_are_kept_while_they_are_right(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *old, *new;

	(void)state;
	limits_bucket(l, "a", 3, 4000)->rate_per_ns = HOUR; /* fewer fraction bits than wanted */
	old = limits_compile(l, NULL);
	l->item[0].burst = 4090;
	new = limits_compile(l, old);
	assert_false(new->new_tables);
	assert_int_equal(new->policy.limit[0].frac_bits, old->policy.limit[0].frac_bits);
	weir_compiled_free(new);
	/* but not beyond: at another rate they would let the word wrap sooner than it must */
	l->item[0].rate = 20000;
	l->item[0].rate_per_ns = SEC;
	new = limits_compile(l, old);
	assert_int_equal(new->policy.limit[0].frac_bits, 0);
	weir_compiled_free(old);
	weir_compiled_free(new);
	free(l);
}

static void a_limit_that_comes_back_finds_its_counters(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *a, *b, *c;
	__u8 stat;

	(void)state;
	limits_bucket(l, "stays", 1000, 1000);
	limits_bucket(l, "leaves", 1000, 1000);
	a = limits_compile(l, NULL);
	stat = a->policy.limit[1].stat;
	l->conf.n_limits = 1;
	b = limits_compile(l, a);
	assert_string_equal(b->names[stat].name, "leaves");
	assert_int_equal(b->names[stat].live, 0);
	limits_bucket(l, "fresh", 1000, 1000);
	limits_bucket(l, "leaves", 500, 1000); /* another rate is the same limit */
	c = limits_compile(l, b);
	assert_int_equal(c->policy.limit[0].stat, a->policy.limit[0].stat);
	assert_int_equal(c->policy.limit[2].stat, stat);
	assert_int_equal(c->names[stat].live, 1);
	assert_int_not_equal(c->policy.limit[1].stat, stat);
	weir_compiled_free(a);
	weir_compiled_free(b);
	weir_compiled_free(c);
	free(l);
}

static void identity_is_name_algorithm_unit_whose_prefixes_and_window(void **state)
{
	struct limits *l = limits_new();
	struct weir_conf_limit *n = limits_window(l, "a", WEIR_ALGO_FIXED_WINDOW, 10, SEC),
			       saved = *n;
	struct weir_compiled *a = limits_compile(l, NULL), *b;
	__u8 stat = a->policy.limit[0].stat;

	(void)state;
	for (int i = 0; i < 8; i++) {
		*n = saved;
		if (i == 0)
			n->name[0] = 'b';
		else if (i == 1)
			n->algorithm = WEIR_ALGO_SLIDING_WINDOW;
		else if (i == 2)
			n->bytes = true;
		else if (i == 3)
			n->ipv4_prefix = 24;
		else if (i == 4)
			n->ipv6_prefix = 56;
		else if (i == 5)
			n->window_ns = 2 * SEC;
		else if (i == 6)
			n->per = WEIR_PER_DESTINATION;
		else
			n->limit = 20; /* no part of it */
		b = limits_compile(l, a);
		assert_int_equal(b->policy.limit[0].stat == stat, i == 7);
		weir_compiled_free(b);
	}
	weir_compiled_free(a);
	free(l);
}

/* 32 live and 32 gone limits fill the counters; then the one that has been gone longest gives way. */
static void the_longest_gone_limit_gives_its_counters_away(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *old = NULL, *new;
	char name[32];

	(void)state;
	for (int round = 0; round < 5; round++) {
		l->conf.n_limits = 0;
		for (int i = 0; i < 16; i++) {
			(void)snprintf(name, sizeof(name), "r%d-%d", round, i);
			limits_bucket(l, name, 1000, 1000);
		}
		new = limits_compile(l, old);
		weir_compiled_free(old);
		old = new;
		for (int i = 0; i < 16; i++)
			assert_string_equal(old->names[old->policy.limit[i].stat].name,
					    l->item[i].name);
	}
	for (int i = 0; i < WEIR_STATS_MAX; i++) {
		assert_memory_not_equal(old->names[i].name, "r0-", 3);
		assert_int_equal(old->names[i].live, !strncmp(old->names[i].name, "r4-", 3));
	}
	weir_compiled_free(old);
	free(l);
}

static void thirty_two_limits_replaced_at_once_never_share_counters(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *old = NULL, *new;
	char name[32];

	(void)state;
	for (int round = 0; round < 6; round++) {
		__u64 seen = 0, before = 0;

		l->conf.n_limits = 0;
		for (int i = 0; i < 32; i++) {
			(void)snprintf(name, sizeof(name), "r%d-%d", round, i);
			limits_bucket(l, name, 1000, 1000);
		}
		new = limits_compile(l, old);
		for (int i = 0; i < 32; i++) {
			seen |= 1ull << new->policy.limit[i].stat;
			before |= old ? 1ull << old->policy.limit[i].stat : 0;
		}
		assert_int_equal(__builtin_popcountll(seen), 32);
		assert_int_equal(seen & before,
				 0); /* the program may still count for the old ones */
		weir_compiled_free(old);
		old = new;
	}
	weir_compiled_free(old);
	free(l);
}

static void capacity_follows_busy_time_and_slots(void **state)
{
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "a", 1000, 1000);
	limits_window(l, "b", WEIR_ALGO_FIXED_WINDOW, 10, SEC);
	c = limits_compile(l, NULL);
	/* 1024 buckets of 4 slots, a quarter of them, each busy for 1 ms or 1 s */
	assert_in_range(weir_compile_new_sources_per_second(&c->policy, 0, 4, BUCKETS4, 1000),
			1023000, 1025000);
	assert_int_equal(weir_compile_new_sources_per_second(&c->policy, 1, 4, BUCKETS4, 1000),
			 1024);
	assert_int_equal(weir_compile_new_sources_per_second(&c->policy, 1, 6, BUCKETS6, 1000),
			 512);
	/* and no shorter than a step of the clock */
	assert_in_range(weir_compile_new_sources_per_second(&c->policy, 0, 4, BUCKETS4, 4000000),
			255000, 257000);
	assert_int_equal(weir_compile_new_sources_per_second(&c->policy, 5, 4, BUCKETS4, 1000), 0);
	weir_compiled_free(c);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rate_is_exact_to_a_thousandth),
		cmocka_unit_test(three_an_hour_and_a_hundred_gigabit_are_counted),
		cmocka_unit_test(fewer_fraction_bits_make_room_for_the_burst),
		cmocka_unit_test(what_does_not_fit_names_limit_value_and_remedy),
		cmocka_unit_test(windows_choose_words_by_their_limit),
		cmocka_unit_test(every_algorithm_has_a_word_for_its_penalty),
		cmocka_unit_test(short_bursts_and_windows_need_the_fine_clock),
		cmocka_unit_test(classes_have_generous_limits),
		cmocka_unit_test(only_a_source_can_be_penalised),
		cmocka_unit_test(more_than_32_limits_are_refused),
		cmocka_unit_test(random_limits_are_placed_in_order_without_overlap),
		cmocka_unit_test(three_words_share_a_slot_and_a_fourth_begins_a_group),
		cmocka_unit_test(a_single_word_and_a_pair_share_an_ipv4_slot),
		cmocka_unit_test(a_penalised_sliding_window_needs_a_short_ipv6_prefix),
		cmocka_unit_test(destinations_have_groups_of_their_own_behind_sources),
		cmocka_unit_test(all_have_a_place_that_follows_their_counters),
		cmocka_unit_test(a_table_too_small_for_its_groups_is_refused),
		cmocka_unit_test(what_leaves_words_as_they_are_keeps_the_tables),
		cmocka_unit_test(what_changes_units_needs_new_tables),
		cmocka_unit_test(new_gone_and_renamed_limits_need_new_tables),
		cmocka_unit_test(reordering_keeps_words_and_counters),
		cmocka_unit_test(units_in_force_are_kept_while_they_are_right),
		cmocka_unit_test(a_limit_that_comes_back_finds_its_counters),
		cmocka_unit_test(identity_is_name_algorithm_unit_whose_prefixes_and_window),
		cmocka_unit_test(the_longest_gone_limit_gives_its_counters_away),
		cmocka_unit_test(thirty_two_limits_replaced_at_once_never_share_counters),
		cmocka_unit_test(capacity_follows_busy_time_and_slots),
	};

	return cmocka_run_group_tests_name("compile", tests, NULL, NULL);
}
