/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State tables from user space: found where the program puts it, told in tokens and times that are right to the tick,
 * released only when idle, and taken along into tables with another layout.
 */
#include <arpa/inet.h>
#include <pthread.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "user/datapath/table.h"
#include "weir/algo.h"
#include "weir/idle.h"
#include "weir/key.h"

#define NOW (75 * MIN + 123456789)

static struct weir_meta meta = {WEIR_MAGIC,
				WEIR_ABI,
				{0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull,
				 0x94d049bb133111ebull}};

#define SPILL_BYTES (sizeof(struct weir_spill) * (2u << WEIR_SPILL_BITS))

struct world {
	struct limits *l;
	struct weir_compiled *c;
	struct weir_tables t;
};

static void *page_zero(size_t n)
{
	void *p = aligned_alloc(4096, n);

	assert_non_null(p);
	memset(p, 0, n);
	return p;
}

static struct weir_tables tables_for(const struct weir_compiled *c)
{
	return (struct weir_tables){.t4 = page_zero(BUCKETS4 * sizeof(struct weir_bucket4)),
				    .t6 = page_zero(BUCKETS6 * sizeof(struct weir_bucket6)),
				    .buckets4 = BUCKETS4,
				    .buckets6 = BUCKETS6,
				    .spill = page_zero(SPILL_BYTES),
				    .policy = &c->policy,
				    .meta = &meta};
}

static void world_start(struct world *w)
{
	w->c = limits_compile(w->l, NULL);
	w->t = tables_for(w->c);
}

static void world_done(struct world *w)
{
	weir_compiled_free(w->c);
	free(w->l);
	free(w->t.t4);
	free(w->t.t6);
	free(w->t.spill);
}

/* Compiles the changed limits, copies into new tables as the datapath does, and goes on with those. */
static __u64 world_change(struct world *w, __u64 now_ns)
{
	struct weir_compiled *c = limits_compile(w->l, w->c);
	struct weir_tables t;
	__u64 lost;

	assert_true(c->new_tables);
	t = tables_for(c);
	lost = weir_table_copy(&w->t, &t, now_ns);
	free(w->t.t4);
	free(w->t.t6);
	free(w->t.spill);
	weir_compiled_free(w->c);
	w->c = c;
	w->t = t;
	return lost;
}

static union weir_addr addr_of(const char *text, __u8 *ret_family)
{
	union weir_addr a = {};

	*ret_family = strchr(text, ':') ? 6 : 4;
	assert_int_equal(inet_pton(*ret_family == 6 ? AF_INET6 : AF_INET, text, &a), 1);
	return a;
}

/* Words of @text's slot for one limit, claimed if need be: the program's rules, written down once more. */
static __u32 *slot(struct world *w, const char *text, unsigned limit)
{
	const struct weir_policy *p = &w->c->policy;
	__u64 hash, tag = 0, lo = 0;
	__u8 family, len;
	union weir_addr a = addr_of(text, &family);
	unsigned g = 0;

	while (!((family == 4 ? p->group4 : p->group6)[g].limits >> limit & 1))
		assert_true(++g < WEIR_GROUPS_MAX);
	if (family == 4) {
		const struct weir_group *group = &p->group4[g];
		__u32 mask = group->prefix_len ? htonl(~0u << (32 - group->prefix_len)) : 0;
		__u32 tag4 = (a.word[0] & mask) ? a.word[0] & mask : ~0u;
		struct weir_bucket4 *b;

		hash = (__u64)tag4 * meta.seed[0] + meta.seed[1];
		hash = (hash ^ hash >> 32) * meta.seed[2];
		b = &w->t.t4[group->base + (group->bits ? hash >> (64 - group->bits) : 0)];
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (b->slot[i].addr == tag4)
				return b->slot[i].word;
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (!b->slot[i].addr) {
				b->slot[i].addr = tag4;
				return b->slot[i].word;
			}
		return NULL;
	}
	len = p->group6[g].prefix_len;
	if (len > 64) {
		union weir_addr m = a;

		weir_addr_mask(&m, 6, len);
		lo = m.half[1];
		tag = weir_hash128(m.half[0], lo, meta.seed);
	} else if (len == 64 && !strncmp(text, "64:ff9b::", 9)) {
		memcpy(&tag, &a.ip[0], 4);
		memcpy((char *)&tag + 4, &a.ip[12], 4);
	} else {
		weir_addr_mask(&a, 6, len);
		tag = a.half[0];
	}
	tag = tag ? tag : ~0ull;
	{
		const struct weir_group *group = &p->group6[g];
		struct weir_bucket6 *b;

		hash = (tag & 0xffffffff) * meta.seed[0] + (tag >> 32) * meta.seed[2] +
		       meta.seed[1];
		hash = (hash ^ hash >> 32) * meta.seed[2];
		b = &w->t.t6[group->base + (group->bits ? hash >> (64 - group->bits) : 0)];
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (b->slot[i].tag == tag)
				return b->slot[i].word;
		for (int i = WEIR_WAYS - 1; i >= 0; i--)
			if (!b->slot[i].tag) {
				b->slot[i].tag = tag;
				if (len > 64) {
					memcpy(&b->slot[i].word[2], a.ip, 8);
					memcpy(&b->slot[i].word[4], &lo, 8);
				}
				return b->slot[i].word;
			}
	}
	return NULL;
}

/* One packet of @cost tokens, as bpf/limit.h charges it. @shared: the words are those of a shared entry. */
static bool charge_words(const struct weir_limit *l, bool v6, bool shared, __u32 *words, __u64 cost,
			 __u64 now_ns)
{
	__u8 at = v6 ? l->word6 : l->word4, q = v6 ? l->penalty6 : l->penalty4;
	__u64 index = l->window_ns ? now_ns / l->window_ns : 0;
	__u64 *pair = (__u64 *)(void *)&words[at];
	int ok;

	assert_non_null(words);
	if (!shared && l->block_ms && weir_penalty_active(words[q], now_ns, l->block_ms))
		return false;
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		ok = weir_bucket_take(words[at], weir_ticks(now_ns, l->mult, l->shift),
				      (__u32)(cost << l->frac_bits), l->burst, &words[at]);
	else if (l->algorithm == WEIR_ALGO_SLIDING_WINDOW)
		ok = weir_sliding_take(*pair, weir_window_number(index, WEIR_SLIDING_NUMBER_BITS),
				       (now_ns - index * l->window_ns) >> l->tick_shift,
				       l->window_ns >> l->tick_shift, (__u32)cost, (__u32)l->limit,
				       pair);
	else if (l->flags & WEIR_LIMIT_PAIR)
		ok = weir_fixed_take64(*pair, weir_window_number(index, WEIR_FIXED64_NUMBER_BITS),
				       cost, l->limit, pair);
	else
		ok = weir_fixed_take32(words[at], weir_window_number(index, 32 - l->count_bits),
				       l->count_bits, (__u32)cost, (__u32)l->limit, &words[at]);
	if (!shared && !ok && l->block_ms) {
		words[q] = weir_penalty_word(now_ns, l->block_ms);
		if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
			words[at] = 0;
	}
	return ok;
}

static bool charge(struct world *w, const char *text, unsigned limit, __u64 cost, __u64 now_ns)
{
	return charge_words(&w->c->policy.limit[limit], strchr(text, ':'), false,
			    slot(w, text, limit), cost, now_ns);
}

/* Words of the entry that @text shares with its net for one limit: the program's rules once more. */
static __u32 *spilled(struct world *w, const char *text, unsigned limit)
{
	const struct weir_policy *p = &w->c->policy;
	__u8 family;
	union weir_addr a = addr_of(text, &family);
	unsigned g = 0;

	while (!((family == 4 ? p->group4 : p->group6)[g].limits >> limit & 1))
		assert_true(++g < WEIR_GROUPS_MAX);
	if (family == 4)
		return &w->t.spill[weir_spill_of4(a.word[0], p->group4[g].prefix_len, g, meta.seed,
						  p->sources_bank)]
				.word[1];
	return w->t
		.spill[weir_spill_of6(&a, p->group6[g].prefix_len, g, meta.seed, p->sources_bank)]
		.word;
}

static bool spill_charge(struct world *w, const char *text, unsigned limit, __u64 cost,
			 __u64 now_ns)
{
	return charge_words(&w->c->policy.limit[limit], strchr(text, ':'), true,
			    spilled(w, text, limit), cost, now_ns);
}

static bool all_zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n / 4; i++)
		if (((const __u32 *)p)[i])
			return false;
	return true;
}

/* State of one limit for @text; used 0 and blocked 0 if there is none. */
static struct weir_limit_state state_of(struct world *w, const char *text, unsigned limit,
					__u64 now_ns)
{
	struct weir_limit_state st[WEIR_LIMITS_MAX], none = {.limit = limit};
	__u8 family;
	union weir_addr a = addr_of(text, &family);
	int n = weir_table_lookup(&w->t, &a, family, now_ns, st);

	for (int i = 0; i < n; i++)
		if (st[i].limit == limit)
			return st[i];
	return none;
}

static const char *const sources[] = {"198.51.100.7", "0.0.0.0", "255.255.255.254",
				      "2001:db8::1",  "::",	 "64:ff9b::192.0.2.1"};

/* Four of each kind, with several prefix lengths. */
static struct world every_kind(void)
{
	struct world w = {.l = limits_new()};

	limits_bucket(w.l, "bucket", 100, 200);
	limits_window(w.l, "fixed", WEIR_ALGO_FIXED_WINDOW, 50, SEC)->block_for_ns = 10 * SEC;
	limits_window(w.l, "pair", WEIR_ALGO_FIXED_WINDOW, 2000000, 10 * SEC);
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, 2 * SEC);
	limits_bucket(w.l, "blocking", 10, 20)->block_for_ns = 10 * SEC;
	limits_bucket(w.l, "wide", 1000, 2000);
	w.l->item[5].ipv4_prefix = 24;
	w.l->item[5].ipv6_prefix = 48;
	limits_bucket(w.l, "host", 1000, 2000)->ipv6_prefix = 128;
	limits_bucket(w.l, "all", 1000, 2000)->ipv4_prefix = 0;
	w.l->item[7].ipv6_prefix = 0;
	world_start(&w);
	return w;
}
#define KINDS 8

/* --- reading ---- */

static void state_is_found_where_the_program_puts_it(void **state)
{
	struct world w = every_kind();

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		for (unsigned k = 0; k < KINDS; k++) {
			struct weir_limit_state before = state_of(&w, sources[s], k, NOW), st;

			assert_true(charge(&w, sources[s], k, 1, NOW));
			assert_true(charge(&w, sources[s], k, 2, NOW));
			st = state_of(&w, sources[s], k, NOW);
			assert_int_equal(st.used, before.used + 3);
			assert_int_equal(st.capacity, w.l->item[k].burst ? w.l->item[k].burst
									 : w.l->item[k].limit);
			assert_int_equal(st.blocked_ns, 0);
			assert_int_equal(st.retry_ns, 0);
			assert_true(st.full_again_ns > 0);
			/* and gone when it says so */
			st = state_of(&w, sources[s], k, NOW + st.full_again_ns);
			assert_int_equal(st.used, 0);
		}
	}
	world_done(&w);
}

/* Neighbours share what the prefix length says, and nothing else. */
static void sources_share_state_by_prefix(void **state)
{
	struct world w = every_kind();

	(void)state;
	assert_true(charge(&w, "192.0.2.1", 5, 7, NOW));
	assert_int_equal(state_of(&w, "192.0.2.200", 5, NOW).used, 7);
	assert_int_equal(state_of(&w, "192.0.3.1", 5, NOW).used, 0);
	assert_true(charge(&w, "192.0.2.1", 0, 7, NOW));
	assert_int_equal(state_of(&w, "192.0.2.2", 0, NOW).used, 0);
	assert_true(charge(&w, "2001:db8:1:2:3::4", 0, 7, NOW));
	assert_int_equal(state_of(&w, "2001:db8:1:2:5::6", 0, NOW).used, 7);
	assert_int_equal(state_of(&w, "2001:db8:1:3::4", 0, NOW).used, 0);
	assert_true(charge(&w, "2001:db8:1:2:3::4", 6, 7, NOW));
	assert_int_equal(state_of(&w, "2001:db8:1:2:3::4", 6, NOW).used, 7);
	assert_int_equal(state_of(&w, "2001:db8:1:2:3::5", 6, NOW).used, 0);
	/* clients behind a translator are told apart; other /64s of its /32 are not taken for them */
	assert_true(charge(&w, "64:ff9b::192.0.2.1", 0, 7, NOW));
	assert_int_equal(state_of(&w, "64:ff9b::192.0.2.2", 0, NOW).used, 0);
	assert_int_equal(state_of(&w, "64:ff9b::192.0.2.1", 0, NOW).used, 7);
	assert_int_equal(state_of(&w, "64:ff9b:1::192.0.2.1", 0, NOW).used, 0);
	world_done(&w);
}

static void the_highest_slot_counts(void **state)
{
	struct world w = {.l = limits_new()};
	__u32 *words, copy[4], i;
	struct weir_bucket4 *b;

	(void)state;
	limits_bucket(w.l, "a", 100, 200);
	world_start(&w);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW));
	b = (struct weir_bucket4 *)((uintptr_t)words & ~63ull);
	memcpy(copy, words - 1, sizeof(copy));
	assert_ptr_equal(&b->slot[3].word, words);
	memcpy(&b->slot[1], copy, sizeof(copy));
	b->slot[1].word[0] += 10 << w.c->policy.limit[0].frac_bits;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 5);
	for (i = 0; i < 4; i++)
		b->slot[3].word[i % 3] = 0;
	b->slot[3].addr = 0;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 15);
	world_done(&w);
}

/* What `weir explain` promises: refused until then, admitted from then on. */
static void retry_is_the_moment_of_the_next_admission(void **state)
{
	struct random r = {17};

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct world w = every_kind();
		__u64 now = NOW + random_below(&r, 3600 * SEC), slack;
		unsigned k = random_below(&r, KINDS), n = 0;
		struct weir_limit_state st;
		__u32 *words, saved[8];

		if (k == 2)
			assert_true(charge(&w, sources[3], k, 1999990, now));
		while (charge(&w, sources[3], k, 1, now)) {
			n++;
			now += random_below(&r, SEC / 2000);
		}
		st = state_of(&w, sources[3], k, now);
		assert_true(n && st.retry_ns > 0);
		assert_int_equal(st.blocked_ns > 0, k == 1 || k == 4);
		assert_true(st.blocked_ns <= 10 * SEC + (1 << 20) + SEC / 1000);
		assert_true(st.full_again_ns >= st.retry_ns);
		words = slot(&w, sources[3], k);
		memcpy(saved, words, 24);
		/* A tick of the bucket is about a millisecond, a penalty's 2^20 ns. */
		slack = w.l->item[k].algorithm == WEIR_ALGO_TOKEN_BUCKET || k == 1 ? 2 * (1 << 20)
										   : 1000;
		if (k == 1) { /* penalty and window: the later one */
			assert_true(st.retry_ns >= st.blocked_ns);
			assert_int_equal(state_of(&w, sources[3], k, now + st.retry_ns).blocked_ns,
					 0);
		} else if (st.retry_ns > slack) {
			assert_false(charge(&w, sources[3], k, 1, now + st.retry_ns - slack));
			memcpy(words, saved, 24);
		}
		assert_true(charge(&w, sources[3], k, 1, now + st.retry_ns));
		world_done(&w);
	}
}

struct seen {
	unsigned n, busy;
	char text[64][WEIR_PREFIX_STRLEN];
	unsigned group[64];
};

static int note(void *arg, const struct weir_prefix *source, unsigned group, const __u32 *words,
		bool busy)
{
	struct seen *s = arg;

	assert_non_null(words);
	assert_true(s->n < 64);
	s->group[s->n] = group;
	weir_prefix_format(source, s->text[s->n++]);
	s->busy += busy;
	return 0;
}

static int stop_at_once(void *arg, const struct weir_prefix *source, unsigned group,
			const __u32 *words, bool busy)
{
	(void)source;
	(void)group;
	(void)words;
	(void)busy;
	++*(int *)arg;
	return 7;
}

static bool has(const struct seen *s, const char *text)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->text[i], text))
			return true;
	print_error("%s was not seen\n", text);
	return false;
}

static void a_walk_tells_each_source(void **state)
{
	struct world w = every_kind();
	struct seen v4 = {}, v6 = {};
	int calls = 0;

	(void)state;
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_true(charge(&w, "0.0.0.0", 0, 1, NOW));
	assert_true(charge(&w, "192.0.2.77", 5, 1, NOW));
	assert_true(charge(&w, "192.0.2.77", 7, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 0, 1, NOW));
	assert_true(charge(&w, "64:ff9b::192.0.2.1", 0, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 5, 1, NOW));
	assert_true(charge(&w, "2001:db8:1:2:3::4", 6, 1, NOW));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW, note, &v4), 0);
	assert_int_equal(v4.n, 4);
	assert_int_equal(v4.busy, 4);
	assert_true(has(&v4, "198.51.100.7") && has(&v4, "0.0.0.0") && has(&v4, "192.0.2.0/24") &&
		    has(&v4, "0.0.0.0/0"));
	assert_int_equal(weir_table_walk(&w.t, 6, NOW, note, &v6), 0);
	assert_int_equal(v6.n, 4);
	assert_true(has(&v6, "2001:db8:1:2::/64") && has(&v6, "64:ff9b::c000:201") &&
		    has(&v6, "2001:db8:1::/48") && has(&v6, "2001:db8:1:2:3::4"));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW, stop_at_once, &calls), 7);
	assert_int_equal(calls, 1);
	memset(&v4, 0, sizeof(v4));
	assert_int_equal(weir_table_walk(&w.t, 4, NOW + HOUR, note, &v4), 0);
	assert_int_equal(v4.n, 4);
	assert_int_equal(v4.busy, 0);
	world_done(&w);
}

/* --- releasing ---- */

static void a_sweep_releases_what_is_idle_and_nothing_else(void **state)
{
	struct world w = every_kind();
	struct weir_sweep s = {}, again = {};
	char text[64];

	(void)state;
	for (int i = 0; i < 100; i++) {
		(void)snprintf(text, sizeof(text), "198.51.100.%d", i);
		assert_true(charge(&w, text, i % 2 ? 0 : 3, 1, i < 50 ? NOW : NOW + MIN));
		(void)snprintf(text, sizeof(text), "2001:db8:0:%x::1", i);
		assert_true(charge(&w, text, i % 2 ? 0 : 3, 1, i < 50 ? NOW : NOW + MIN));
	}
	weir_table_sweep(&w.t, NOW + MIN, 0, BUCKETS4 / 2, &s);
	weir_table_sweep(&w.t, NOW + MIN, BUCKETS4 / 2, BUCKETS4, &s);
	assert_int_equal(s.occupied4, 100);
	assert_int_equal(s.busy4, 50);
	assert_int_equal(s.occupied6, 100);
	assert_int_equal(s.busy6, 50);
	assert_int_equal(s.released, 100);
	weir_table_sweep(&w.t, NOW + MIN, 0, ~0u, &again);
	assert_int_equal(again.occupied4, 50);
	assert_int_equal(again.released, 0);
	for (int i = 50; i < 100; i++) {
		(void)snprintf(text, sizeof(text), "198.51.100.%d", i);
		assert_int_equal(state_of(&w, text, i % 2 ? 0 : 3, NOW + MIN).used, 1);
	}
	weir_table_sweep(&w.t, NOW + HOUR, 0, BUCKETS4, &again);
	for (size_t i = 0; i < BUCKETS4 * sizeof(struct weir_bucket4) / 4; i++)
		assert_int_equal(((const __u32 *)w.t.t4)[i], 0);
	for (size_t i = 0; i < BUCKETS6 * sizeof(struct weir_bucket6) / 4; i++)
		assert_int_equal(((const __u32 *)w.t.t6)[i], 0);
	world_done(&w);
}

/* A word that went idle beside a busy one would mean a debt again once its clock has come round. */
static void a_sweep_clears_idle_words_of_busy_slots(void **state)
{
	struct world w = {.l = limits_new()};
	struct weir_sweep s = {};
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "fast", 100000, 100000);
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, HOUR);
	world_start(&w);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW));
	assert_true(charge(&w, "198.51.100.7", 1, 5, NOW));
	weir_table_sweep(&w.t, NOW + MIN, 0, BUCKETS4, &s);
	assert_int_equal(s.busy4, 1);
	assert_int_equal(words[0], 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 1, NOW + MIN).used, 5);
	/* and the other way round */
	assert_true(charge(&w, "198.51.100.7", 0, 5, NOW + 3 * HOUR));
	weir_table_sweep(&w.t, NOW + 3 * HOUR, 0, BUCKETS4, &s);
	assert_int_equal(words[1], 0);
	assert_int_equal(words[2], 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW + 3 * HOUR).used, 5);
	world_done(&w);
}

#define RACE 200000

static void *count_up(void *arg)
{
	__u32 *word = arg, old, new;

	for (int i = 0; i < RACE; i++) {
		do {
			old = __atomic_load_n(word, __ATOMIC_RELAXED);
			if (!weir_fixed_take32(old, weir_window_number(NOW / HOUR, 12), 20, 1,
					       1000000, &new))
				return NULL;
		} while (!__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
	return NULL;
}

/* While another CPU charges, no charge is lost to the sweep or to a look. */
static void a_sweep_loses_no_charge(void **state)
{
	struct world w = {.l = limits_new()};
	struct weir_sweep s = {};
	pthread_t t;
	__u32 *words;

	(void)state;
	limits_window(w.l, "a", WEIR_ALGO_FIXED_WINDOW, 1000000, HOUR);
	world_start(&w);
	assert_int_equal(w.c->policy.limit[0].count_bits, 20);
	words = slot(&w, "198.51.100.7", 0);
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_int_equal(pthread_create(&t, NULL, count_up, &words[0]), 0);
	for (int i = 0; i < 200; i++) {
		weir_table_sweep(&w.t, NOW, 0, BUCKETS4, &s);
		(void)state_of(&w, "198.51.100.7", 0, NOW);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(s.released, 0);
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, RACE + 1);
	world_done(&w);
}

static const char *const nets[] = {"198.51.100.7", "0.0.0.0", "2001:db8::1", "::"};

/* Every kind of word, in both families and both banks. */
static void a_sweep_clears_idle_words_that_sources_share(void **state)
{
	(void)state;
	for (int bank = 0; bank < 2; bank++) {
		struct world w = every_kind();
		char *other;

		w.c->policy.sources_bank = bank;
		other = (char *)w.t.spill + (bank ? 0 : SPILL_BYTES / 2);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++)
			for (unsigned k = 0; k < KINDS; k++)
				assert_true(spill_charge(&w, nets[s], k, 3, NOW));
		assert_true(all_zero(other, SPILL_BYTES / 2));
		memset(other, 1, SPILL_BYTES / 2);
		weir_table_sweep_spill(&w.t, NOW);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++) {
			for (unsigned k = 0; k < KINDS; k++) {
				struct weir_limit_state st;

				weir_table_state(&w.c->policy, strchr(nets[s], ':') ? 6 : 4, k,
						 spilled(&w, nets[s], k), NOW, &st);
				assert_true(st.used >= 3);
			}
		}
		weir_table_sweep_spill(&w.t, NOW + HOUR);
		for (size_t i = 0; i < SPILL_BYTES / 2; i++)
			assert_int_equal(other[i], 1);
		memset(other, 0, SPILL_BYTES / 2);
		assert_true(all_zero(w.t.spill, SPILL_BYTES));
		world_done(&w);
	}
}

/* 100 Mbit/s wrap in six minutes: what was paid long ago would be owed again. */
static void a_swept_shared_word_is_no_debt_after_a_wrap(void **state)
{
	(void)state;
	for (int swept = 0; swept < 2; swept++) {
		struct world w = {.l = limits_new()};
		struct weir_limit_state st;
		__u64 wrap;

		limits_bucket(w.l, "bytes", 12500000, 12500000)->bytes = true;
		world_start(&w);
		wrap = weir_compile_wrap_ns(&w.c->policy.limit[0]);
		assert_true(spill_charge(&w, nets[0], 0, 12500000, NOW));
		if (swept)
			weir_table_sweep_spill(&w.t, NOW + 2 * SEC);
		weir_table_state(&w.c->policy, 4, 0, spilled(&w, nets[0], 0), NOW + wrap, &st);
		assert_int_equal(st.used > 0, !swept);
		assert_int_equal(spill_charge(&w, nets[0], 0, 1514, NOW + wrap), swept);
		world_done(&w);
	}
}

/* An entry does not say which group wrote it: each may find its own word there. */
static void a_shared_word_stays_while_any_group_may_count_on_it(void **state)
{
	struct world w = {.l = limits_new()};
	const struct weir_limit *l;
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "slow", 1, 100);
	limits_bucket(w.l, "fast", 100000, 100000)->ipv4_prefix = 24;
	limits_window(w.l, "sliding", WEIR_ALGO_SLIDING_WINDOW, 100, SEC);
	world_start(&w);
	l = w.c->policy.limit;
	assert_int_equal(l[0].word4, 0);
	assert_int_equal(l[1].word4, 0);
	assert_int_equal(w.c->policy.n_groups4, 3);
	words = spilled(&w, nets[0], 2); /* of the third group: whose words 1 and 2 no other has */
	assert_true(charge_words(&l[2], false, true, words, 5, NOW));
	assert_true(charge_words(&l[0], false, true, words, 50, NOW));
	weir_table_sweep_spill(&w.t, NOW + 30 * SEC);
	assert_true(words[0]);
	assert_true(!words[1] && !words[2]);
	weir_table_sweep_spill(&w.t, NOW + 51 * SEC);
	assert_int_equal(words[0], 0);
	/* the other way round, and beside a pair that is busy */
	assert_true(charge_words(&l[1], false, true, words, 100000, NOW + MIN));
	assert_true(charge_words(&l[2], false, true, words, 5, NOW + MIN));
	weir_table_sweep_spill(&w.t, NOW + MIN + SEC / 2);
	assert_true(words[0] && words[1] && words[2]);
	weir_table_sweep_spill(&w.t, NOW + 2 * MIN);
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	world_done(&w);
}

/* No penalty is ever in a shared entry: a word at its place is another group's, or stale. */
static void a_place_for_penalties_keeps_no_shared_word(void **state)
{
	struct world w = {.l = limits_new()};
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "a", 1000, 10)->block_for_ns = 24 * HOUR;
	world_start(&w);
	words = spilled(&w, nets[0], 0);
	words[w.c->policy.limit[0].penalty4] =
		weir_penalty_word(NOW, w.c->policy.limit[0].block_ms);
	weir_table_sweep_spill(&w.t, NOW);
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	world_done(&w);
}

static void a_sweep_of_shared_words_loses_no_charge(void **state)
{
	struct world w = {.l = limits_new()};
	pthread_t t;
	__u32 *words;

	(void)state;
	limits_bucket(w.l, "beside", 1000, 1000);
	limits_window(w.l, "a", WEIR_ALGO_FIXED_WINDOW, 1000000, HOUR);
	limits_bucket(w.l, "stale", 1000, 1000);
	world_start(&w);
	words = spilled(&w, nets[0], 1);
	assert_int_equal(w.c->policy.limit[1].word4, 1);
	assert_true(spill_charge(&w, nets[0], 1, 1, NOW));
	assert_int_equal(pthread_create(&t, NULL, count_up, &words[1]), 0);
	for (int i = 0; i < 200; i++) {
		words[0] = words[2] = (__u32)i + 7; /* idle ones beside it */
		weir_table_sweep_spill(&w.t, NOW);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(words[1] & 0xfffff, RACE + 1);
	weir_table_sweep_spill(&w.t, NOW);
	assert_true(!words[0] && words[1] && !words[2]);
	world_done(&w);
}

static void reset_for_all_forgets_what_sources_share(void **state)
{
	struct world w = every_kind();
	__u8 family;
	union weir_addr a = addr_of(nets[0], &family);

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(nets); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(spill_charge(&w, nets[s], k, 3, NOW));
	weir_table_reset(&w.t, 0, &a, family); /* one source: its net keeps what it owes */
	assert_false(spill_charge(&w, nets[0], 0, 198, NOW));
	for (unsigned k = 0; k < KINDS; k++) {
		weir_table_reset(&w.t, k, NULL, 0);
		for (size_t s = 0; s < ARRAY_LEN(nets); s++) {
			struct weir_limit_state st;

			weir_table_state(&w.c->policy, strchr(nets[s], ':') ? 6 : 4, k,
					 spilled(&w, nets[s], k), NOW, &st);
			assert_int_equal(st.used, 0);
		}
	}
	assert_true(all_zero(w.t.spill, SPILL_BYTES));
	free(w.t.spill);
	w.t.spill = NULL; /* tables of a program that is to be replaced come without */
	weir_table_sweep_spill(&w.t, NOW);
	weir_table_reset(&w.t, 0, NULL, 0);
	world_done(&w);
}

static void reset_forgets_one_limit_of_one_source_or_of_all(void **state)
{
	struct world w = every_kind();
	__u8 family;
	union weir_addr a = addr_of(sources[0], &family);

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(charge(&w, sources[s], k, 3, NOW));
	while (charge(&w, sources[0], 1, 1, NOW))
		;
	assert_true(state_of(&w, sources[0], 1, NOW).blocked_ns > 0);
	weir_table_reset(&w.t, 1, &a, family);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 3);
	assert_int_equal(state_of(&w, sources[3], 1, NOW).used, 3);
	assert_true(charge(&w, sources[0], 1, 3, NOW));
	for (unsigned k = 0; k < KINDS; k++) {
		weir_table_reset(&w.t, k, NULL, 0);
		for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
			assert_int_equal(state_of(&w, sources[s], k, NOW).used, 0);
			if (k + 1 < KINDS)
				assert_true(state_of(&w, sources[s], k + 1, NOW).used >= 3);
		}
	}
	world_done(&w);
}

/* --- copying ---- */

static void a_copy_keeps_what_was_used_in_new_units_and_places(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item, swap;
	__u64 used[ARRAY_LEN(sources)][KINDS];

	(void)state;
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			assert_true(charge(&w, sources[s], k, 3 + k, NOW));
	for (size_t s = 0; s < ARRAY_LEN(sources); s++)
		for (unsigned k = 0; k < KINDS; k++)
			used[s][k] = state_of(&w, sources[s], k, NOW).used;
	n[0].rate = 3; /* many more fraction bits */
	n[0].rate_per_ns = MIN;
	n[1].limit = 3000000; /* one word to a pair */
	n[1].block_for_ns = 0;
	n[2].limit = 1000; /* a pair to one word */
	n[3].limit = 1000;
	n[4].rate = 100000;
	n[4].burst = 100000;
	swap = n[0];
	n[0] = n[3];
	n[3] = swap;
	assert_int_equal(world_change(&w, NOW), 0);
	for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
		for (unsigned k = 0; k < KINDS; k++) {
			unsigned at = k == 0 ? 3 : k == 3 ? 0 : k;

			assert_int_equal(state_of(&w, sources[s], at, NOW).used, used[s][k]);
		}
	}
	world_done(&w);
}

static void a_copy_clamps_to_smaller_limits(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;
	static const unsigned burst[] = {150, 40, 1500000, 80};

	(void)state;
	for (unsigned k = 0; k < 4; k++)
		assert_true(charge(&w, sources[0], k, burst[k], NOW));
	n[0].burst = 20;
	n[1].limit = 5;
	n[2].limit = 7;
	n[3].limit = 8;
	assert_int_equal(world_change(&w, NOW), 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 20);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 5);
	assert_int_equal(state_of(&w, sources[0], 2, NOW).used, 7);
	assert_int_equal(state_of(&w, sources[0], 3, NOW).used, 8);
	for (unsigned k = 0; k < 4; k++) {
		assert_false(charge(&w, sources[0], k, 1, NOW));
		assert_true(state_of(&w, sources[0], k, NOW).retry_ns > 0);
	}
	world_done(&w);
}

static void a_copy_keeps_penalties(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;

	(void)state;
	while (charge(&w, sources[0], 1, 1, NOW))
		;
	while (charge(&w, sources[0], 4, 1, NOW))
		;
	n[0].rate = 101;
	n[4].rate = 3; /* other ticks */
	n[4].rate_per_ns = MIN;
	assert_int_equal(world_change(&w, NOW + 4 * SEC), 0);
	assert_in_range(state_of(&w, sources[0], 1, NOW + 4 * SEC).blocked_ns, 5990000000,
			6010000000);
	assert_in_range(state_of(&w, sources[0], 4, NOW + 4 * SEC).blocked_ns, 5990000000,
			6010000000);
	/* shorter from now on: at most that long */
	n[1].block_for_ns = 2 * SEC;
	n[4].block_for_ns = 2 * SEC;
	assert_int_equal(world_change(&w, NOW + 5 * SEC), 0);
	assert_in_range(state_of(&w, sources[0], 1, NOW + 5 * SEC).blocked_ns, 1990000000,
			2010000000);
	assert_in_range(state_of(&w, sources[0], 4, NOW + 5 * SEC).blocked_ns, 1990000000,
			2010000000);
	assert_int_equal(state_of(&w, sources[0], 1, NOW + 8 * SEC).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 8 * SEC).blocked_ns, 0);
	/* none at all any more: it begins anew */
	n[4].block_for_ns = 0;
	assert_int_equal(world_change(&w, NOW + 6 * SEC), 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 6 * SEC).blocked_ns, 0);
	assert_int_equal(state_of(&w, sources[0], 4, NOW + 6 * SEC).used, 0);
	world_done(&w);
}

static void a_copy_leaves_other_limits_empty(void **state)
{
	struct world w = every_kind();
	struct weir_conf_limit *n = w.l->item;

	(void)state;
	for (unsigned k = 0; k < KINDS; k++)
		assert_true(charge(&w, sources[0], k, 3, NOW));
	(void)snprintf(n[0].name, sizeof(n[0].name), "renamed");
	n[3].window_ns = SEC;
	n[5].ipv4_prefix = 25;
	assert_int_equal(world_change(&w, NOW), 0);
	assert_int_equal(state_of(&w, sources[0], 0, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 3, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 5, NOW).used, 0);
	assert_int_equal(state_of(&w, sources[0], 1, NOW).used, 3);
	world_done(&w);
}

/* 4096 slots are full; a limit more halves their region: what finds no room is counted, the rest is there. */
static void a_copy_says_what_found_no_room(void **state)
{
	struct world w = {.l = limits_new()};
	unsigned put = 0, found = 0;
	char text[32];
	__u64 lost;

	(void)state;
	limits_bucket(w.l, "a", 1, 10);
	world_start(&w);
	for (int i = 0; i < 65536 && put < 3900; i++) {
		(void)snprintf(text, sizeof(text), "10.0.%d.%d", i >> 8, i & 255);
		if (slot(&w, text, 0)) {
			assert_true(charge(&w, text, 0, 3, NOW));
			put++;
		}
	}
	for (int i = 0; i < 3; i++) {
		(void)snprintf(text, sizeof(text), "more%d", i);
		limits_bucket(w.l, text, 1, 10);
	}
	lost = world_change(&w, NOW);
	for (int i = 0; i < 65536; i++) {
		(void)snprintf(text, sizeof(text), "10.0.%d.%d", i >> 8, i & 255);
		found += state_of(&w, text, 0, NOW).used == 3;
	}
	assert_true(lost > 0);
	assert_int_equal(found + lost, put);
	world_done(&w);
}

/* A policy that belongs to larger tables must not lead outside of these. */
static void a_region_outside_the_table_is_left_alone(void **state)
{
	struct world w = every_kind();
	struct weir_sweep s = {};

	(void)state;
	assert_true(charge(&w, "198.51.100.7", 0, 1, NOW));
	assert_true(charge(&w, "2001:db8::1", 0, 1, NOW));
	w.t.buckets4 = 16;
	w.t.buckets6 = 0;
	assert_int_equal(state_of(&w, "198.51.100.7", 0, NOW).used, 0);
	assert_int_equal(state_of(&w, "2001:db8::1", 0, NOW).used, 0);
	weir_table_sweep(&w.t, NOW, 0, ~0u, &s);
	weir_table_reset(&w.t, 0, NULL, 0);
	assert_int_equal(s.occupied4, 0);
	world_done(&w);
}

/* Under any seed, neighbours and random sources alike leave few buckets with more than their four: two a bucket on
 * average, Poisson says 3.8 % beyond.
 */
static void sources_spread_evenly_under_any_seed(void **state)
{
	static __u16 load[1 << 12];
	struct random r = {31};

	(void)state;
	for (int round = 0; round < 5 * 200; round++) {
		__u64 seed[3] = {random_next(&r) | 1, random_next(&r) | 1, random_next(&r) | 1};
		unsigned full = 0;

		memset(load, 0, sizeof(load));
		for (__u32 i = 0; i < 1 << 13; i++) {
			union weir_addr a = {.word = {htonl(0x20010db8), htonl(i), 0, htonl(i)}};
			__u32 b;

			switch (round % 5) {
			case 0:
				b = weir_bucket_of4(weir_tag4(htonl(0x0a000000 + i), 32), seed, 0,
						    12);
				break;
			case 1:
				b = weir_bucket_of4(weir_tag4((__u32)random_next(&r), 32), seed, 0,
						    12);
				break;
			case 2:
				b = weir_bucket_of4(weir_tag4(htonl(i << 8), 24), seed, 0, 12);
				break;
			case 3:
				b = weir_bucket_of6(weir_tag6(&a, 64, seed), seed, 0, 12);
				break;
			default:
				b = weir_bucket_of6(weir_tag6(&a, 128, seed), seed, 0, 12);
			}
			assert_true(b < 1 << 12);
			full += ++load[b] > WEIR_WAYS;
		}
		assert_in_range(full, 0, (1 << 13) * 6 / 100);
	}
}

/* Differences in the top bits of both halves cancel in a plain sum of products. */
static void long_prefixes_never_collide_by_structure(void **state)
{
	struct random r = {41};

	(void)state;
	for (int i = 0; i < 20000; i++) {
		union weir_addr a = {.half = {random_next(&r), random_next(&r)}}, b = a;
		static const __u64 d[] = {1ull << 63, 1ull << 31, (1ull << 63) | (1ull << 31),
					  3ull << 62, 1};

		b.half[0] ^= d[i % 5];
		b.half[1] ^= d[i / 5 % 5];
		assert_true(weir_tag6(&a, 128, meta.seed) != weir_tag6(&b, 128, meta.seed));
	}
}

static void spill_entries_are_shared_by_24_and_48(void **state)
{
	union weir_addr a = {.ip = {192, 0, 2, 1}}, b = {.ip = {192, 0, 2, 99}},
			c = {.ip = {192, 0, 3, 1}};
	union weir_addr v6 = {.ip = {0x20, 1, 0xd, 0xb8, 0, 1, 0, 2}}, same = v6;
	const __u64 *seed = meta.seed;

	(void)state;
	same.ip[7] = 9;
	assert_int_equal(weir_spill_of4(a.word[0], 32, 0, seed, 0),
			 weir_spill_of4(b.word[0], 32, 0, seed, 0));
	assert_int_not_equal(weir_spill_of4(a.word[0], 32, 0, seed, 0),
			     weir_spill_of4(c.word[0], 32, 0, seed, 0));
	assert_int_not_equal(weir_spill_of4(a.word[0], 32, 0, seed, 0),
			     weir_spill_of4(a.word[0], 32, 1, seed, 0));
	assert_int_equal(weir_spill_of4(a.word[0], 32, 0, seed, 1),
			 weir_spill_of4(a.word[0], 32, 0, seed, 0) + (1 << WEIR_SPILL_BITS));
	assert_int_equal(weir_spill_of6(&v6, 64, 0, seed, 0),
			 weir_spill_of6(&same, 64, 0, seed, 0));
	assert_int_not_equal(weir_spill_of6(&v6, 64, 0, seed, 0),
			     weir_spill_of6(&v6, 64, 1, seed, 0));
	for (unsigned g = 0; g < 32; g++) {
		assert_true(weir_spill_of4(a.word[0], 32, g, seed, 1) < 2 << WEIR_SPILL_BITS);
		assert_true(weir_spill_of6(&v6, 64, g, seed, 1) < 2 << WEIR_SPILL_BITS);
		assert_true(weir_spill_of4(a.word[0], 32, g, seed, 0) < 1 << (WEIR_SPILL_BITS - 1));
		assert_true(weir_spill_of6(&v6, 64, g, seed, 0) >= 1 << (WEIR_SPILL_BITS - 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_is_found_where_the_program_puts_it),
		cmocka_unit_test(sources_share_state_by_prefix),
		cmocka_unit_test(the_highest_slot_counts),
		cmocka_unit_test(retry_is_the_moment_of_the_next_admission),
		cmocka_unit_test(a_walk_tells_each_source),
		cmocka_unit_test(a_sweep_releases_what_is_idle_and_nothing_else),
		cmocka_unit_test(a_sweep_clears_idle_words_of_busy_slots),
		cmocka_unit_test(a_sweep_loses_no_charge),
		cmocka_unit_test(a_sweep_clears_idle_words_that_sources_share),
		cmocka_unit_test(a_swept_shared_word_is_no_debt_after_a_wrap),
		cmocka_unit_test(a_shared_word_stays_while_any_group_may_count_on_it),
		cmocka_unit_test(a_place_for_penalties_keeps_no_shared_word),
		cmocka_unit_test(a_sweep_of_shared_words_loses_no_charge),
		cmocka_unit_test(reset_for_all_forgets_what_sources_share),
		cmocka_unit_test(reset_forgets_one_limit_of_one_source_or_of_all),
		cmocka_unit_test(a_copy_keeps_what_was_used_in_new_units_and_places),
		cmocka_unit_test(a_copy_clamps_to_smaller_limits),
		cmocka_unit_test(a_copy_keeps_penalties),
		cmocka_unit_test(a_copy_leaves_other_limits_empty),
		cmocka_unit_test(a_copy_says_what_found_no_room),
		cmocka_unit_test(a_region_outside_the_table_is_left_alone),
		cmocka_unit_test(sources_spread_evenly_under_any_seed),
		cmocka_unit_test(long_prefixes_never_collide_by_structure),
		cmocka_unit_test(spill_entries_are_shared_by_24_and_48),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
