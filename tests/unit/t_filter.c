/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The filter in front of the lists: whatever an entry covers is looked up, by the same functions as in bpf/lists.h. */
#include <errno.h>

#include "limits.h"
#include "tests/lib/prefix.h"
#include "user/base/cleanup.h"
#include "user/datapath/filter.h"

/* As lists_may_match() of the program. */
static bool may_match(const struct weir_filter *f, const union weir_addr *a, __u8 family)
{
	__u32 exact, net;

	if (family == 4) {
		exact = weir_filter_exact4(a->word[0]);
		net = weir_filter_prefix4(a->word[0]);
	} else {
		if (f->wide6)
			return true;
		exact = weir_filter_exact6(a->word);
		net = weir_filter_prefix6(a->word[0]);
	}
	return (f->exact_bits[exact >> 6] >> (exact & 63) |
		f->prefix_bits[net >> 6] >> (net & 63)) &
	       1;
}

static union weir_addr random_inside(struct random *r, const struct weir_prefix *p)
{
	union weir_addr a = p->addr;

	for (int i = p->len; i < (p->family == 4 ? 32 : 128); i++)
		a.ip[i / 8] |= random_below(r, 2) << (7 - i % 8);
	return a;
}

static void every_address_of_an_entry_is_looked_up(void **state)
{
	struct random r = {77};

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct weir_filter *f = calloc(1, sizeof(*f));
		struct weir_prefix p = {.family = random_below(&r, 2) ? 4 : 6};

		p.len = random_below(&r, p.family == 4 ? 33 : 129);
		for (int i = 0; i < (p.family == 4 ? 4 : 16); i++)
			p.addr.ip[i] = random_next(&r) >> 32;
		weir_addr_mask(&p.addr, p.family, p.len);
		assert_int_equal(weir_filter_add(f, random_below(&r, 2), &p), 0);
		for (int i = 0; i < 20; i++) {
			union weir_addr a = random_inside(&r, &p);

			assert_true(may_match(f, &a, p.family));
		}
		free(f);
	}
}

static void most_other_addresses_are_not(void **state)
{
	struct weir_filter *f = calloc(1, sizeof(*f));
	struct random r = {78};
	unsigned hits4 = 0, hits6 = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct weir_prefix p = {.family = 4,
					.len = i % 2 ? 32 : 24,
					.addr.word[0] = (__u32)random_next(&r)};

		weir_addr_mask(&p.addr, 4, p.len);
		assert_int_equal(weir_filter_add(f, WEIR_LIST_BLOCK, &p), 0);
		p = (struct weir_prefix){.family = 6,
					 .len = 48,
					 .addr.word[0] = (__u32)random_next(&r)};
		assert_int_equal(weir_filter_add(f, WEIR_LIST_BLOCK, &p), 0);
	}
	for (int i = 0; i < 10000; i++) {
		union weir_addr a = {
			.word = {(__u32)random_next(&r), (__u32)random_next(&r), 0, 1}};

		hits4 += may_match(f, &a, 4);
		hits6 += may_match(f, &a, 6);
	}
	assert_true(hits4 < 600 && hits6 < 600);
	free(f);
}

static void lengths_are_listed_once_longest_first(void **state)
{
	static const __u8 want[] = {32, 24, 16, 8, 0};
	struct weir_filter *f = calloc(1, sizeof(*f));

	(void)state;
	for (int round = 0; round < 2; round++) {
		static const char *const nets[] = {"10.0.0.0/8", "192.0.2.0/24", "192.0.2.1",
						   "0.0.0.0/0", "192.0.0.0/16"};

		for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
			struct weir_prefix p = prefix_of(nets[i]);

			assert_int_equal(weir_filter_add(f, WEIR_LIST_ALLOW, &p), 0);
		}
	}
	assert_int_equal(f->n4[WEIR_LIST_ALLOW], 5);
	assert_memory_equal(f->len4[WEIR_LIST_ALLOW], want, 5);
	assert_int_equal(f->n4[WEIR_LIST_BLOCK], 0);
	assert_int_equal(f->n6[WEIR_LIST_ALLOW], 0);
	free(f);
}

static void guards_have_lengths_but_no_bits(void **state)
{
	struct weir_prefix host = prefix_of("203.0.113.53"), net = prefix_of("2000::/3");
	struct weir_filter *f = calloc(1, sizeof(*f)), *zero = calloc(1, sizeof(*zero));

	(void)state;
	assert_int_equal(weir_filter_add(f, WEIR_LIST_GUARD, &host), 0);
	assert_int_equal(weir_filter_add(f, WEIR_LIST_GUARD, &net), 0);
	assert_int_equal(f->n4[WEIR_LIST_GUARD], 1);
	assert_int_equal(f->len4[WEIR_LIST_GUARD][0], 32);
	assert_int_equal(f->n6[WEIR_LIST_GUARD], 1);
	assert_int_equal(f->len6[WEIR_LIST_GUARD][0], 3);
	assert_int_equal(f->wide6, 0);
	assert_memory_equal(f->exact_bits, zero->exact_bits, sizeof(f->exact_bits));
	assert_memory_equal(f->prefix_bits, zero->prefix_bits, sizeof(f->prefix_bits));
	free(f);
	free(zero);
}

static void the_33rd_length_of_a_list_is_refused(void **state)
{
	struct weir_filter *f = calloc(1, sizeof(*f)), *before = malloc(sizeof(*before));
	struct weir_prefix p = {.family = 6, .addr.ip = {0x20, 1}};

	(void)state;
	for (p.len = 96; p.len < 128; p.len++)
		assert_int_equal(weir_filter_add(f, WEIR_LIST_BLOCK, &p), 0);
	assert_int_equal(f->n6[WEIR_LIST_BLOCK], 32);
	for (int i = 0; i < 32; i++)
		assert_int_equal(f->len6[WEIR_LIST_BLOCK][i], 127 - i);
	*before = *f;
	assert_int_equal(weir_filter_add(f, WEIR_LIST_BLOCK, &p), -E2BIG);
	assert_memory_equal(f, before, sizeof(*f));
	free(f);
	free(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_address_of_an_entry_is_looked_up),
		cmocka_unit_test(most_other_addresses_are_not),
		cmocka_unit_test(lengths_are_listed_once_longest_first),
		cmocka_unit_test(guards_have_lengths_but_no_bits),
		cmocka_unit_test(the_33rd_length_of_a_list_is_refused),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
