/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keys and values of the pinned maps. `bpftool map dump pinned /sys/fs/bpf/INSTANCE/NAME` prints them by these
 * names; the unions are what makes an address print as bytes.
 *
 * name       type                                  what, and what happens when it is full
 * ---------  ------------------------------------  --------------------------------------------------------------
 * meta       array[1] of weir_meta                 magic, ABI, hash seed; never full
 * policy     array of maps[1] -> array[1]          the limits in force; empty = the program's built-in ones
 * sources    array of maps[2] -> array of buckets  per-source state, IPv4; a full bucket spills, counted
 * sources6   the same                              IPv6
 * spill      array of weir_spill                   shared by all sources of a /24 or /48 whose bucket was full
 * allows, allows6, blocks, blocks6                 array of maps[2] -> hash of weir_prefix4/6 to weir_entry; the
 *            agent refuses what does not fit, all or nothing
 * guards, guards6                                  the same: addresses that may not be blocked or penalised
 * filter     array of maps[2] -> array[1]          which packets need look at the lists at all
 * nets       array of maps[2] -> hash              source: and destination: prefixes of limits
 * totals     array of weir_total                   state of limits per: all, two places for each counter index; never
 *            full
 * classes    array of weir_class_word              aggregate state of ARP, neighbour discovery, DHCP
 * limits     array[64] of weir_limit_name          whose counters and words are at which index; never full
 * counters   per-CPU array[1] of weir_counters     never full
 * events     ring buffer of weir_event             full: counted in counters.events_lost
 */
#ifndef WEIR_MAPS_H
#define WEIR_MAPS_H

#include "weir/pkt.h"
#include "weir/policy.h"
#include "weir/reason.h"
#include "weir/types.h"

struct weir_meta {
	__u32 magic; /* WEIR_MAGIC */
	__u32 abi;   /* WEIR_ABI */
	__u64 seed
		[3]; /* of the bucket hash; secret; made by whoever loads first, kept across upgrades */
};
WEIR_ABI_SIZE(struct weir_meta, 32);

/* --- state per source and destination ---------------------------------------------------------- */

/* addr 0 = never used. Claimed by compare-and-swap on addr. A zero word is idle at every age of the clock. */
struct weir_slot4 {
	union {
		__be32 addr; /* the source, its prefix length applied; 0.0.0.0 is kept as 255.255.255.255 */
		__u8 ip[4];
	};
	__u32 word[WEIR_WORDS4];
};
struct weir_bucket4 {
	struct weir_slot4 slot[WEIR_WAYS];
};
WEIR_ABI_SIZE(struct weir_bucket4, 64);

/* tag: the upper 64 bits of the source, prefix length applied (:: is kept as all ones); of 64:ff9b::/96 the first
 * and last 32 bits (RFC 6052: the IPv4 client). Prefixes longer than 64: a keyed hash of the prefix, and the last
 * four words hold the address for people.
 */
struct weir_slot6 {
	union {
		__u64 tag;
		__u8 ip[8];
	};
	__u32 word[WEIR_WORDS6];
};
struct weir_bucket6 {
	struct weir_slot6 slot[WEIR_WAYS];
};
WEIR_ABI_SIZE(struct weir_bucket6, 128);

#define WEIR_SPILL_BITS 12 /* entries per bank */
struct weir_spill {
	__u32 word[8]; /* words of the group that spilled; 6 in use */
};
WEIR_ABI_SIZE(struct weir_spill, 32);

/* State of a limit per: all. It belongs to the counter index, so that a new policy finds it where it was; one that counts
 * in other units has it in the other of the index's two entries, index and index + WEIR_STATS_MAX.
 */
#define WEIR_TOTALS (2 * WEIR_STATS_MAX)
struct weir_total {
	union {
		__u32 word[2];
		__u64 pair;
	};
	__u32 _pad[14]; /* a cache line each: every CPU writes it */
};
WEIR_ABI_SIZE(struct weir_total, 64);

struct weir_class_word {
	__u32 word;
	__u32 _pad[15]; /* a cache line each */
};
WEIR_ABI_SIZE(struct weir_class_word, 64);

/* --- lists ------------------------------------------------------------------------------------------------------- */

struct weir_prefix4 {
	__u32 prefix_len;
	union {
		__be32 word;
		__u8 ip[4];
	};
};
WEIR_ABI_SIZE(struct weir_prefix4, 8);

struct weir_prefix6 {
	__u32 prefix_len;
	union {
		__be32 word[4];
		__u8 ip[16];
	};
};
WEIR_ABI_SIZE(struct weir_prefix6, 20);

enum weir_entry_flags {
	WEIR_ENTRY_FORCE = 1, /* block: even a guarded address */
};

struct weir_entry {
	__u64 expires_ns; /* CLOCK_MONOTONIC; 0 = never. Checked by the program: no agent is needed */
	__u32 origin;	  /* who made it: enum weir_origin of the agent */
	__u32 flags;	  /* enum weir_entry_flags */
};
WEIR_ABI_SIZE(struct weir_entry, 16);

/* Which packets need look at the lists at all. A bit is set where some entry of any list may cover the address:
 * exact entries (/32, /128) are hashed as a whole, prefixes by their first 16 (IPv4) or 32 (IPv6) bits; a shorter
 * prefix sets every bit it covers (IPv4) or wide6 (IPv6). False positives cost look-ups, false negatives do not
 * exist. Bits are only ever added in place; removed entries leave theirs until the next whole swap.
 */
#define WEIR_FILTER_BITS 16
#define WEIR_LIST_LENS	 32 /* distinct prefix lengths in one list and family */
struct weir_filter {
	__u8 n4[4]; /* by enum weir_list: lengths in use */
	__u8 n6[4];
	__u8 len4[4][WEIR_LIST_LENS]; /* the lengths, 0..32, longest first */
	__u8 len6[4][WEIR_LIST_LENS]; /* 0..128 */
	__u32 wide6;		      /* some IPv6 prefix is shorter than 32: always look */
	__u32 _pad;
	__u64 exact_bits[1 << (WEIR_FILTER_BITS - 6)];
	__u64 prefix_bits[1 << (WEIR_FILTER_BITS - 6)];
};

enum weir_list { WEIR_LIST_ALLOW, WEIR_LIST_BLOCK, WEIR_LIST_GUARD, WEIR_LIST_MAX };

/* Filter bit of an exact address. */
static __always_inline __u32 weir_filter_exact4(__be32 addr)
{
	return (addr * 0x9e3779b1u) >> (32 - WEIR_FILTER_BITS);
}

static __always_inline __u32 weir_filter_exact6(const __be32 *a)
{
	return ((a[0] ^ (a[1] * 0x85ebca6bu) ^ (a[2] * 0xc2b2ae35u) ^ (a[3] * 0x27d4eb2fu)) *
		0x9e3779b1u) >>
	       (32 - WEIR_FILTER_BITS);
}

/* Filter bit of a prefix: the first 16 bits (IPv4), a hash of the first 32 (IPv6). @addr in wire order. */
static __always_inline __u32 weir_filter_prefix4(__be32 addr)
{
	const __u8 *b = (const __u8 *)&addr;

	return ((__u32)b[0] << 8) | b[1];
}

static __always_inline __u32 weir_filter_prefix6(__be32 first)
{
	return (first * 0x9e3779b1u) >> (32 - WEIR_FILTER_BITS);
}

/* --- prefixes that limits match on ------------------------------------------------------------------------------- */

struct weir_net_key {
	__u8 side;   /* 0 = source, 1 = destination */
	__u8 family; /* 4 or 6 */
	__u8 len;
	__u8 _pad;
	__be32 word[4]; /* masked; IPv4 in word[0] */
};
WEIR_ABI_SIZE(struct weir_net_key, 20);
/* value: __u32 mask of limits that name exactly this prefix */

/* Whose state a limit keeps. */
enum weir_keeps {
	WEIR_KEEPS_SOURCE,
	WEIR_KEEPS_FLEET, /* no limit: only counts what the one of this name lets through (WEIR_LIMIT_FLEET) */
	WEIR_KEEPS_DESTINATION,
	WEIR_KEEPS_ALL, /* one state for whatever comes */
};

/* Who owns a counter index (weir_limit.stat). Kept so that a later agent, and people, know which limit it was: state
 * and counters belong to name + algorithm + unit + whose + prefix lengths + window, not to a position.
 */
#define WEIR_NAME_MAX 32 /* with its NUL */
struct weir_limit_name {
	char name[WEIR_NAME_MAX]; /* "" = free */
	__u64 window_ns;
	__u8 algorithm; /* enum weir_algorithm */
	__u8 bytes;
	__u8 prefix4;
	__u8 prefix6;
	__u8 live;  /* 1 = in the policy in force, at position `limit` */
	__u8 limit; /* of one that has gone (live 0): for how many policies, at most 255 */
	__u8 block; /* has block_for */
	__u8 keeps; /* enum weir_keeps */
};
WEIR_ABI_SIZE(struct weir_limit_name, 48);

/* --- counters ---------------------------------------------------------------------------------------------------- */

struct weir_count {
	__u64 packets;
	__u64 bytes;
};

struct weir_reason_counts {
#define X(id, symbol, name, action, text) struct weir_count name;
	WEIR_REASONS(X)
#undef X
};
WEIR_ABI_SIZE(struct weir_reason_counts, 16 * WEIR_REASON_MAX);

struct weir_limit_counts {
	struct weir_count pass; /* charged and within the limit */
	struct weir_count over; /* dropped by it; of a monitor limit: would have been */
};

struct weir_counters {
	struct weir_reason_counts reason; /* one each packet: what was done, and why */
	struct weir_reason_counts
		would; /* in monitor mode: what would have been done instead of pass_monitor */
	struct weir_limit_counts limit[WEIR_STATS_MAX];
	__u64 claims;	  /* slots given to a new source */
	__u64 takeovers;  /* of those, from an idle source */
	__u64 claim_lost; /* another CPU was quicker: looked again */
	__u64 duplicate; /* two slots of one source seen right after a claim; the higher one counts */
	__u64 bucket_full; /* no idle slot: judged by the shared entry of its /24 or /48 */
	__u64 contended;   /* a word changed under three tries to charge it: admitted uncharged */
	__u64 guarded;	   /* a block or penalty that a guarded address was spared */
	__u64 events_sent;
	__u64 events_capped; /* over events_per_second */
	__u64 events_lost;   /* ring buffer full */
	__u64 event_second;  /* state of the cap */
	__u64 event_count;
	__u64 clock_jiffies; /* the coarse clock as last read, and when: it moves only with a jiffy */
	__u64 clock_ns;
};

/* --- events ------------------------------------------------------------------------------------------------------ */

/* One sampled drop (or would-drop). */
struct weir_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	union weir_addr src;
	union weir_addr dst;
	__u32 len; /* frame bytes */
	__u32 ifindex;
	__u16 sport;
	__u16 dport;
	__u16 vlan;
	__u8 reason; /* enum weir_reason */
	__u8 stat;   /* the limit's counter index, WEIR_NO_LIMIT if none */
	__u8 family;
	__u8 protocol;
	__u8 tcp_flags;
	__u8 fragment;
	__u8 monitor; /* 1 = would have been dropped */
	__u8 _pad[3];
};
WEIR_ABI_SIZE(struct weir_event, 64);

#endif
