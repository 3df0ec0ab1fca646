/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits as data. The agent compiles a configuration into one struct weir_policy, fills a new inner map with it and
 * swaps that into the outer map `policy`: limits, lists and state tables change in one step, and the update waits
 * for programs that still read the old one (kernel/bpf/syscall.c: maybe_wait_bpf_programs).
 *
 * Matching is by bit vector: each field of the packet selects the mask of limits that accept its value, and the
 * masks are and-ed. The cost does not grow with the number of limits, ports or ranges.
 */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include "weir/types.h"

enum weir_algorithm {
	WEIR_ALGO_TOKEN_BUCKET,	  /* 1 word; each has one more with block_for */
	WEIR_ALGO_FIXED_WINDOW,	  /* 1 word where limit < 2^20, else a pair */
	WEIR_ALGO_SLIDING_WINDOW, /* sliding-window counter: a pair */
	WEIR_ALGO_MAX
};

enum weir_limit_flags {
	WEIR_LIMIT_MONITOR = 1, /* counts what it would drop, stops nothing */
	WEIR_LIMIT_BYTES = 2,	/* charges frame bytes, not packets */
	WEIR_LIMIT_PAIR = 4,	/* its state is two words, 8-byte aligned */
	WEIR_LIMIT_BLOCK = 8,	/* has block_for */
	WEIR_LIMIT_FLEET =
		16, /* only counts what another limit (counts_for) lets through, for the agent */
	WEIR_LIMIT_DESTINATION = 32, /* its state is the destination's, not the source's */
	WEIR_LIMIT_ALL =
		64, /* one state for whatever comes, in map `totals` and no slot: word 0 there */
};

/* One limit. Units are "ticks of the word": tokens << frac_bits for a bucket, packets or bytes for a window.
 * See algo_bucket.h, algo_window.h and algo_penalty.h for the meaning of each parameter.
 */
struct weir_limit {
	__u64 mult;	 /* bucket: clock to ticks, (now_ns * mult) >> shift */
	__u64 window_ns; /* windows: length */
	__u64 limit;	 /* windows: packets or bytes in one window */
	__u32 burst;	 /* bucket: ticks; 1-word window: a count up to it keeps no slot */
	__u32 block_ms;	 /* block_for in units of 2^20 ns (algo_penalty.h); 0 = none */
	__u8 algorithm;	 /* enum weir_algorithm */
	__u8 flags;	 /* enum weir_limit_flags */
	__u8 shift;	 /* bucket: 0..32 */
	__u8 frac_bits;	 /* bucket: a token is 1 << frac_bits ticks */
	__u8 count_bits; /* 1-word window: low bits that count; the rest is the window's number */
	__u8 tick_shift; /* sliding: ns are shifted right so that products stay below 2^63 */
	__u8 stat;	 /* index of its counters, 0..WEIR_STATS_MAX-1 */
	__u8 word4;	 /* first state word in an IPv4 slot of its group */
	__u8 word6;	 /* the same for IPv6 */
	__u8 penalty4;	 /* with block_for: the word that holds the penalty; else WEIR_NO_LIMIT */
	__u8 penalty6;
	__u8 counts_for; /* of WEIR_LIMIT_FLEET: index of the limit that it counts for */
	__u8 total;	 /* of WEIR_LIMIT_ALL: its entry in map `totals` */
	__u8 _pad[3];
};
WEIR_ABI_SIZE(struct weir_limit, 48);

/* When a state word is busy, prepared so that a newcomer's scan needs no branch for each kind of word (idle.h):
 * busy = word != 0 && word - lo < range, where lo = ticks of now + 1.
 */
struct weir_idle_word {
	__u64 mult;  /* 0: windows, see WEIR_GROUP_WINDOWS */
	__u32 range; /* 0: never busy */
	__u8 shift;
	__u8 _pad[3];
};
WEIR_ABI_SIZE(struct weir_idle_word, 16);

enum weir_group_flags {
	WEIR_GROUP_WINDOWS =
		1, /* some word belongs to a window: its lo and range change with the window */
	WEIR_GROUP_DESTINATION = 2, /* slots belong to destinations, not to sources */
};

/* A region of a state table and the limits whose words live in its slots. Groups are judged in order, those of
 * destinations after those of sources: what a source limit drops is charged to no destination.
 */
struct weir_group {
	__u32 base;	 /* first bucket of its region */
	__u32 limits;	 /* mask of its limits */
	__u32 penalties; /* mask of those with block_for: looked up for every packet of the source */
	__u8 bits;	 /* the region has 1 << bits buckets */
	__u8 prefix_len; /* of the address: 0..32, 0..128 */
	__u8 n;		 /* limits in use, in the configuration's order */
	__u8 flags;	 /* enum weir_group_flags */
	__u8 limit[8];	 /* their indices */
	__u8 owner
		[8];  /* per word: index of the limit whose state it holds, WEIR_NO_LIMIT if none */
	__u8 role[8]; /* per word: enum weir_word_role */
	struct weir_idle_word idle[WEIR_WORDS6]; /* filled by weir_group_prepare */
};
WEIR_ABI_SIZE(struct weir_group, 136);

enum weir_word_role {
	WEIR_WORD_FREE,
	WEIR_WORD_STATE, /* a bucket, a one-word window, or the low word of a pair */
	WEIR_WORD_HIGH,	 /* the high word of a pair: holds the window's number */
	WEIR_WORD_PENALTY,
};

/* A bucket shared by all packets of a class (ARP, neighbour discovery, DHCP). mult 0 = no limit. */
struct weir_class_limit {
	__u64 mult;
	__u32 burst; /* ticks */
	__u8 shift;
	__u8 frac_bits;
	__u8 _pad[2];
};
WEIR_ABI_SIZE(struct weir_class_limit, 16);

enum weir_policy_flags {
	WEIR_POLICY_MONITOR = 1, /* the whole agent: decide, count, drop nothing */
	WEIR_POLICY_FINE_CLOCK =
		2,	       /* a limit is too fast for the coarse clock (steps of a jiffy) */
	WEIR_POLICY_LISTS = 4, /* some list has an entry */
};

#define WEIR_NET_LENS                                                                              \
	16 /* distinct prefix lengths in `source:` and `destination:` of all limits, per family */

struct weir_policy {
	__u32 generation;
	__u32 flags;	   /* enum weir_policy_flags */
	__u8 sources_bank; /* which inner map of each outer map: 0 or 1 */
	__u8 lists_bank;
	__u8 nets_bank;
	__u8 n_limits;
	__u8 n_groups4;
	__u8 n_groups6;
	__u8 n_totals; /* limits per: all */
	__u8 _pad0;
	__u32 events_per_second; /* per CPU; 0 = none */
	__u32 penalties4;	 /* groups (bit = index) that have penalties, per family */
	__u32 penalties6;
	__u32 by_ports;	  /* limits that test a source port */
	__u32 by_dports;  /* limits that test a destination port */
	__u32 by_vlan;	  /* limits that test the VLAN id */
	__u32 by_src_net; /* limits that test the source: prefixes */
	__u32 by_dst_net;
	__u32 not_src_net; /* of those, the ones that match where no prefix does (`not:`) */
	__u32 not_dst_net;
	__u32 family4; /* limits that can match IPv4 */
	__u32 family6;
	__u32 no_tcp;	   /* limits that accept packets without TCP flags */
	__u32 fragment[4]; /* by enum weir_fragment */
	__u32 protocol[256];
	__u32 tcp_flags[256];
	struct weir_class_limit class_limit[4]; /* by enum weir_class */
	struct weir_group group4[WEIR_GROUPS_MAX];
	struct weir_group group6[WEIR_GROUPS_MAX];
	struct weir_limit limit[WEIR_LIMITS_MAX];
	__u8 n_src_len4, n_src_len6, n_dst_len4,
		n_dst_len6; /* prefix lengths in use in map `nets` */
	__u32 non_ip; /* limits per: all that ask nothing of IP, and so count frames without it */
	__u8 total[WEIR_LIMITS_MAX]; /* indices of limits per: all, in the configuration's order */
	__u8 src_len4[WEIR_NET_LENS], src_len6[WEIR_NET_LENS];
	__u8 dst_len4[WEIR_NET_LENS], dst_len6[WEIR_NET_LENS];
	__u32 sport_mask
		[256]; /* by class of the source port; class 0 = matched by no limit that tests it */
	__u32 dport_mask[256];
	__u32 vlan_mask[256];
	__u8 vlan_class[4096];
	__u8 sport_class[65536];
	__u8 dport_class[65536];
};

#endif
