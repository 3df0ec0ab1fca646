/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the traffic generator (tests/lib/gen.c) tells its XDP program (tests/lib/gen_xdp.bpf.c):
 * frames built in user space, and which of their fields change from frame to frame. It is constant
 * once the program is loaded, so the verifier removes the code for everything that is not asked for.
 */
#ifndef WEIR_TEST_GEN_CFG_H
#define WEIR_TEST_GEN_CFG_H

#include <linux/types.h>

#define GEN_INLINE    128  /* frames up to this many bytes are written word by word */
#define GEN_FRAME_MAX 2048 /* bytes; longer frames than GEN_INLINE are copied by a helper */
#define GEN_KINDS     8	   /* different frames in one run (mixed traffic) */
#define GEN_MIX	      16   /* length of the repeating list that says which comes when */

/* One kind of frame. The sums are one's complement sums, folded to 16 bits, over what does not change. */
struct gen_tmpl {
	__u64 words[GEN_INLINE / 8]; /* first bytes of the frame, changing fields zero */
	__u32 l3_sum;		     /* IPv4 header */
	__u32 l4_sum;		     /* pseudo header without the source, L4 header, payload */
	__u16 l4_off;		     /* where TCP, UDP or ICMP starts; 0: nothing there to write */
	__u16 csum_off;		     /* where its checksum is */
	__u16 id_off;		     /* 16-bit fragment id to change; 0: none */
	__u8 pseudo;		     /* the source address is part of the L4 checksum */
	__u8 udp;		     /* a checksum of zero is written as 0xffff */
	__u8 ports;		     /* starts with source and destination port */
	__u8 tcp;		     /* has a sequence number at offset 4, which changes */
	__u8 _pad[2];
};

struct gen_cfg {
	__u64 base6;   /* IPv6: upper half of the first source, host order */
	__u64 sources; /* how many, 1 .. 2^32 */
	__u32 base4;   /* IPv4: first source, host order */
	__u16 size;    /* bytes of every frame of the run, 14 .. GEN_FRAME_MAX */
	__u16 l3_off;  /* where the IP header starts */
	__u8 v6;
	__u8 sequence;	 /* sources in turn instead of drawn */
	__u8 skip_loop;	 /* leave out 127.0.0.0/8 */
	__u8 rand_sport; /* draw the port (1024 .. 65535) */
	__u8 rand_dport;
	__u8 kinds; /* of frames, 1 .. GEN_KINDS */
	__u8 trim;  /* the frame comes in one byte too long: cut it, which resets its length */
	__u8 _pad;
	__u8 mix[GEN_MIX]; /* used if kinds > 1; each below kinds */
	struct gen_tmpl tmpl[GEN_KINDS];
};

#endif
