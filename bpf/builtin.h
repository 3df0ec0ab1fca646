/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The limits of the object alone, loaded by `ip link` without an agent: 20000 packets a second and 200 SYNs a second
 * for each source (IPv4 /32, IPv6 /64), enforced, no lists. In force until an agent puts a policy into the map.
 */
#ifndef WEIR_BPF_BUILTIN_H
#define WEIR_BPF_BUILTIN_H

#include "maps.h"

/* Per second to ticks per ns: rate * 2^(32 + frac_bits) / 10^9. */
#define BUILTIN_MULT(rate, frac_bits) (((__u64)(rate) << (32 + (frac_bits))) / 1000000000ull)

#define BUILTIN_PACKETS		      1 /* bit of limit 0 */

/* The limits that match each value of the flags byte, sixteen at a time: ACK is bit 0x10, SYN 0x02. */
#define NO_ACK 1, 1, 3, 3, 1, 1, 3, 3, 1, 1, 3, 3, 1, 1, 3, 3
#define ACK    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1

/* weir_group_prepare, by hand. */
#define BUILTIN_IDLE                                                                               \
	{                                                                                          \
		{BUILTIN_MULT(20000, 0), 2 * 20000, 32, {0}},                                      \
		{                                                                                  \
			BUILTIN_MULT(200, 6), 2 * (400 << 6), 32,                                  \
			{                                                                          \
				0                                                                  \
			}                                                                          \
		}                                                                                  \
	}

struct weir_policy weir_builtin = {
	.events_per_second = 10,
	.n_limits = 2,
	.n_groups4 = 1,
	.n_groups6 = 1,
	.family4 = 3,
	.family6 = 3,
	.no_tcp = BUILTIN_PACKETS,
	.fragment = {3, 3, BUILTIN_PACKETS, 0},
	.protocol = {[0 ... 5] = BUILTIN_PACKETS, [6] = 3, [7 ... 255] = BUILTIN_PACKETS},
	.tcp_flags = {NO_ACK, ACK, NO_ACK, ACK, NO_ACK, ACK, NO_ACK, ACK, NO_ACK, ACK, NO_ACK, ACK,
		      NO_ACK, ACK, NO_ACK, ACK},
	.class_limit = {[WEIR_CLASS_ARP] = {.mult = BUILTIN_MULT(10000, 0),
					    .burst = 20000,
					    .shift = 32},
			[WEIR_CLASS_NEIGHBOUR] = {.mult = BUILTIN_MULT(10000, 0),
						  .burst = 20000,
						  .shift = 32},
			[WEIR_CLASS_DHCP] = {.mult = BUILTIN_MULT(1000, 4),
					     .burst = 2000 << 4,
					     .shift = 32,
					     .frac_bits = 4}},
	.group4 = {{.limits = 3,
		    .bits = 18,
		    .prefix_len = 32,
		    .n = 2,
		    .limit = {0, 1},
		    .owner = {0, 1, WEIR_NO_LIMIT},
		    .role = {WEIR_WORD_STATE, WEIR_WORD_STATE},
		    .idle = BUILTIN_IDLE}},
	.group6 = {{.limits = 3,
		    .bits = 17,
		    .prefix_len = 64,
		    .n = 2,
		    .limit = {0, 1},
		    .owner = {0, 1, WEIR_NO_LIMIT, WEIR_NO_LIMIT, WEIR_NO_LIMIT, WEIR_NO_LIMIT},
		    .role = {WEIR_WORD_STATE, WEIR_WORD_STATE},
		    .idle = BUILTIN_IDLE}},
	.limit = {{.mult = BUILTIN_MULT(20000, 0),
		   .burst = 20000,
		   .shift = 32,
		   .stat = 0,
		   .penalty4 = WEIR_NO_LIMIT,
		   .penalty6 = WEIR_NO_LIMIT},
		  {.mult = BUILTIN_MULT(200, 6),
		   .burst = 400 << 6,
		   .shift = 32,
		   .frac_bits = 6,
		   .stat = 1,
		   .word4 = 1,
		   .word6 = 1,
		   .penalty4 = WEIR_NO_LIMIT,
		   .penalty6 = WEIR_NO_LIMIT}},
};

#endif
