/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the state of a source lies: its tag, its bucket, its spill entry. Pure functions, compiled into the XDP program
 * and into the agent (datapath/table.c), so that both always look in the same place.
 *
 * The hash is multiply-shift (M. Dietzfelbinger, STACS 1996), strongly universal for 32-bit and, as the sum of two
 * products, for 64-bit keys; then its upper half is folded into the lower one and multiplied once more. Without that
 * second round neighbouring addresses form an arithmetic progression, which one seed in a hundred crowds into half of
 * the buckets: of a /16 at two sources a bucket 50 % then found theirs full, against 3.8 % always with it. The seeds
 * are secret and odd (struct weir_meta).
 *
 * Scan rule: of several slots with one tag in a bucket, the one with the highest index counts.
 */
#ifndef WEIR_KEY_H
#define WEIR_KEY_H

#include "weir/maps.h"
#include "weir/pkt.h"
#include "weir/types.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR_BE32(x) __builtin_bswap32(x)
#define WEIR_BE64(x) __builtin_bswap64(x)
/* The eight bytes of two words that follow each other in memory, as one load reads them. */
#define WEIR_JOIN(first, next) ((__u64)(next) << 32 | (first))
#else
#define WEIR_BE32(x)	       (x)
#define WEIR_BE64(x)	       (x)
#define WEIR_JOIN(first, next) ((__u64)(first) << 32 | (next))
#endif

/* Mask of the first @len bits (0..32, 0..64) of a word in wire order. Shifts in two steps: a shift by the whole width
 * is undefined.
 */
static __always_inline __u32 weir_mask32(__u8 len)
{
	__u32 tail = (0xffffffffu >> (len >> 1 & 31)) >> ((len - (len >> 1)) & 31);

	return WEIR_BE32(~tail);
}

static __always_inline __u64 weir_mask64(__u8 len)
{
	__u64 tail = (~0ull >> (len >> 1 & 63)) >> ((len - (len >> 1)) & 63);

	return WEIR_BE64(~tail);
}

/* The uppermost @bits (0..32) of a hash: index in a region of 1 << bits buckets. */
static __always_inline __u32 weir_hash_top(__u64 hash, __u8 bits)
{
	return (__u32)((hash >> 1) >> ((63 - bits) & 63));
}

static __always_inline __u64 weir_hash_finish(__u64 hash, const __u64 *seed)
{
	return (hash ^ hash >> 32) * seed[2];
}

static __always_inline __u64 weir_hash32(__u32 key, const __u64 *seed)
{
	return weir_hash_finish(key * seed[0] + seed[1], seed);
}

static __always_inline __u64 weir_hash64(__u64 key, const __u64 *seed)
{
	return weir_hash_finish((__u32)key * seed[0] + (key >> 32) * seed[2] + seed[1], seed);
}

/* --- IPv4 ---- */

/* Tag in wire order; 0 marks a free slot, so that 0.0.0.0 is kept as 255.255.255.255. */
static __always_inline __u32 weir_tag4(__be32 addr, __u8 prefix_len)
{
	__u32 tag = addr & weir_mask32(prefix_len);

	return tag ? tag : 0xffffffffu;
}

static __always_inline __u32 weir_bucket_of4(__u32 tag, const __u64 *seed, __u32 base, __u8 bits)
{
	return base + weir_hash_top(weir_hash32(tag, seed), bits);
}

/* --- IPv6 ---- */

/* 64:ff9b::/96 (RFC 6052): the sender is an IPv4 host behind a translator, whose /64 holds all of the IPv4 world. */
static __always_inline int weir_is_nat64(const union weir_addr *a)
{
	return a->word[0] == WEIR_BE32(0x0064ff9bu) && !(a->word[1] | a->word[2]);
}

/* Keyed hash of a masked 128-bit prefix. Each half meets a multiplication and a shift of its own before they are
 * joined: in a plain sum of products, differences in the top bits of both halves would cancel under any seed.
 */
static __always_inline __u64 weir_hash128(__u64 hi, __u64 lo, const __u64 *seed)
{
	__u64 x = (hi + seed[1]) * seed[0];

	x ^= x >> 32;
	x *= seed[2];
	x ^= x >> 29;
	x += lo;
	x *= seed[0];
	x ^= x >> 32;
	x *= seed[2];
	return x ^ x >> 29;
}

/* Tag of the first @prefix_len bits. Up to 64 bits: the bytes themselves, but for /64 of 64:ff9b::/96 its first and
 * last four bytes. Longer: the hash above; the slot's last four words then hold the masked address. Never 0.
 */
static __always_inline __u64 weir_tag6(const union weir_addr *a, __u8 prefix_len, const __u64 *seed)
{
	__u64 tag;

	if (prefix_len > 64) {
		tag = weir_hash128(a->half[0], a->half[1] & weir_mask64(prefix_len - 64), seed);
		return tag ? tag : ~0ull;
	}
	if (prefix_len == 64 && weir_is_nat64(a))
		tag = WEIR_JOIN(a->word[0], a->word[3]);
	else
		tag = a->half[0] & weir_mask64(prefix_len);
	return tag ? tag : ~0ull;
}

static __always_inline __u32 weir_bucket_of6(__u64 tag, const __u64 *seed, __u32 base, __u8 bits)
{
	return base + weir_hash_top(weir_hash64(tag, seed), bits);
}

/* --- spill ---- */

/* Entry of the spill map that all sources of a /24 or /48 (or of their own shorter prefix) share for @group. The map
 * has 2 << WEIR_SPILL_BITS entries; @bank (0 or 1) selects the half. Of a half, IPv4 has the lower and IPv6 the upper
 * part: their words have different layouts.
 */
static __always_inline __u32 weir_spill_of4(__be32 addr, __u8 prefix_len, __u32 group,
					    const __u64 *seed, __u32 bank)
{
	__u32 net = addr & weir_mask32(prefix_len < 24 ? prefix_len : 24);
	__u64 hash = weir_hash64((__u64)group << 32 | net, seed);

	return (bank & 1) << WEIR_SPILL_BITS | weir_hash_top(hash, WEIR_SPILL_BITS - 1);
}

static __always_inline __u32 weir_spill_of6(const union weir_addr *a, __u8 prefix_len, __u32 group,
					    const __u64 *seed, __u32 bank)
{
	__u64 net = a->half[0] & weir_mask64(prefix_len < 48 ? prefix_len : 48);
	__u64 hash = weir_hash64(net ^ WEIR_BE64((__u64)group),
				 seed); /* the last 16 bits of net are 0 */

	return (bank & 1) << WEIR_SPILL_BITS | 1u << (WEIR_SPILL_BITS - 1) |
	       weir_hash_top(hash, WEIR_SPILL_BITS - 1);
}

#endif
