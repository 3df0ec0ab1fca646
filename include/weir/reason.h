/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a packet got its verdict. One list, append-only: the enum, the counters' names, the metric labels, the
 * documentation and the coverage test all come from it. Every packet has exactly one reason.
 */
#ifndef WEIR_REASON_H
#define WEIR_REASON_H

#include "weir/types.h"

/* X(id, symbol, name, action, text) */
#define WEIR_REASONS(X)                                                                            \
	X(0, PASS_DEFAULT, pass_default, PASS, "within every limit that matches, or none matches") \
	X(1, PASS_ALLOW, pass_allow, PASS, "source is on the allow list")                          \
	X(2, PASS_NON_IP, pass_non_ip, PASS,                                                       \
	  "neither IPv4, IPv6 nor ARP: only limits per: all count it")                             \
	X(3, PASS_ARP, pass_arp, PASS, "ARP, within its class limit")                              \
	X(4, PASS_NEIGHBOUR, pass_neighbour, PASS,                                                 \
	  "IPv6 neighbour discovery, within its class limit")                                      \
	X(5, PASS_DHCP, pass_dhcp, PASS,                                                           \
	  "DHCP or DHCPv6 from a server to a client, within its class limit")                      \
	X(6, PASS_MONITOR, pass_monitor, PASS,                                                     \
	  "would have been dropped, but the agent is in monitor mode")                             \
	X(7, PASS_NO_STATE, pass_no_state, PASS,                                                   \
	  "the state table is missing: passed rather than judged blindly")                         \
	X(8, DROP_BLOCK, drop_block, DROP, "source is on the block list")                          \
	X(9, DROP_LIMIT, drop_limit, DROP, "source is over a packet limit")                        \
	X(10, DROP_PENALTY, drop_penalty, DROP,                                                    \
	  "source was over a limit with block_for, and that time is not over")                     \
	X(11, DROP_SHARED, drop_shared, DROP,                                                      \
	  "its bucket was full and its /24 or /48 is over the limit it shares")                    \
	X(12, DROP_ARP_FLOOD, drop_arp_flood, DROP, "ARP over its class limit")                    \
	X(13, DROP_NEIGHBOUR_FLOOD, drop_neighbour_flood, DROP,                                    \
	  "neighbour discovery over its class limit")                                              \
	X(14, DROP_DHCP_FLOOD, drop_dhcp_flood, DROP, "DHCP over its class limit")                 \
	X(15, DROP_ETH_TRUNCATED, drop_eth_truncated, DROP,                                        \
	  "frame shorter than an Ethernet header")                                                 \
	X(16, DROP_VLAN_TRUNCATED, drop_vlan_truncated, DROP, "frame ends inside a VLAN tag")      \
	X(17, DROP_VLAN_DEPTH, drop_vlan_depth, DROP, "more than two VLAN tags")                   \
	X(18, DROP_ARP_TRUNCATED, drop_arp_truncated, DROP, "frame ends inside its ARP header")    \
	X(19, DROP_IP4_TRUNCATED, drop_ip4_truncated, DROP, "frame ends inside its IPv4 header")   \
	X(20, DROP_IP4_HEADER, drop_ip4_header, DROP,                                              \
	  "IPv4 version is not 4, or header length below 20")                                      \
	X(21, DROP_IP4_LENGTH, drop_ip4_length, DROP,                                              \
	  "IPv4 total length shorter than its header or longer than the frame")                    \
	X(22, DROP_IP6_TRUNCATED, drop_ip6_truncated, DROP, "frame ends inside its IPv6 header")   \
	X(23, DROP_IP6_HEADER, drop_ip6_header, DROP, "IPv6 version is not 6")                     \
	X(24, DROP_IP6_LENGTH, drop_ip6_length, DROP, "IPv6 payload length longer than the frame") \
	X(25, DROP_IP6_EXT_TRUNCATED, drop_ip6_ext_truncated, DROP,                                \
	  "packet ends inside an IPv6 extension header")                                           \
	X(26, DROP_IP6_EXT_CHAIN, drop_ip6_ext_chain, DROP,                                        \
	  "more than eight IPv6 extension headers")                                                \
	X(27, DROP_FRAGMENT, drop_fragment, DROP,                                                  \
	  "fragment that cannot be: beyond 65535 bytes, or not the last and no multiple of 8")     \
	X(28, DROP_TCP_TRUNCATED, drop_tcp_truncated, DROP, "packet ends inside its TCP header")   \
	X(29, DROP_TCP_HEADER, drop_tcp_header, DROP, "TCP data offset below 5")                   \
	X(30, DROP_UDP_TRUNCATED, drop_udp_truncated, DROP, "packet ends inside its UDP header")   \
	X(31, DROP_UDP_LENGTH, drop_udp_length, DROP, "UDP length below 8 or beyond the packet")   \
	X(32, DROP_ICMP_TRUNCATED, drop_icmp_truncated, DROP,                                      \
	  "packet ends inside its ICMP or ICMPv6 header")                                          \
	X(33, DROP_DESTINATION, drop_destination, DROP, "destination is over a packet limit")      \
	X(34, DROP_ALL, drop_all, DROP, "all packets together are over a packet limit")

enum weir_reason {
#define X(id, symbol, name, action, text) WEIR_##symbol = id,
	WEIR_REASONS(X)
#undef X
		WEIR_REASON_MAX = 35
};

/* XDP_DROP is 1 and XDP_PASS is 2 (linux/bpf.h); here so that parsers need not include it. */
enum { WEIR_ACTION_DROP = 1, WEIR_ACTION_PASS = 2 };

/* Bit set of the reasons that drop. */
#define WEIR_REASON_DROPS(r) ((r) >= WEIR_DROP_BLOCK)

#endif
