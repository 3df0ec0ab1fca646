/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a source's state lies: evenly spread under any seed, long prefixes apart, spilled sources by their net. */
#include "table_case.h"

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
		cmocka_unit_test(sources_spread_evenly_under_any_seed),
		cmocka_unit_test(long_prefixes_never_collide_by_structure),
		cmocka_unit_test(spill_entries_are_shared_by_24_and_48),
	};

	return cmocka_run_group_tests_name("table_place", tests, NULL, NULL);
}
