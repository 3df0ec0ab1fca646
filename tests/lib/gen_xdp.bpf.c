/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic generator, kernel half. tests/lib/gen.c runs this with BPF_F_TEST_XDP_LIVE_FRAMES: each run
 * makes one frame and sends it out of a veth. The kernel recycles live frames as the receiver left
 * them, so every byte is written again. Checksums come from sums made in user space plus what changed.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "gen_cfg.h"

const volatile struct gen_cfg gen_cfg;

/* One thread runs one copy of this program, so plain memory will do. User space reads gen_frames. */
__u64 gen_frames;
__u32 gen_seed;
__u32 gen_turn; /* next source, when they come in turn */
__u8 gen_big[GEN_KINDS][GEN_FRAME_MAX];

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gen_out SEC(".maps");

/* Sum of two 16-bit halves or of more of them, to a checksum. */
static __always_inline __u16 csum_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u32 csum_32(__u32 v)
{
	return (v & 0xffff) + (v >> 16);
}

/* 16 even bits to a port that needs no privilege, in wire order. */
static __always_inline __u16 port(__u32 bits)
{
	return bpf_htons(1024 + (((bits & 0xffff) * 64512) >> 16));
}

/* Which source comes next: an index below gen_cfg.sources. */
static __always_inline __u32 next_source(__u32 draw)
{
	__u32 turn;

	if (!gen_cfg.sequence)
		return ((__u64)draw * gen_cfg.sources) >> 32;
	turn = gen_turn;
	gen_turn = turn + 1ULL < gen_cfg.sources ? turn + 1 : 0;
	return turn;
}

/* Write all of the frame but what changes. */
static __always_inline void write_words(void *data, __u32 size, const volatile struct gen_tmpl *t)
{
	__u64 *to = data;

#pragma unroll
	for (__u32 i = 0; i < GEN_INLINE / 8; i++) {
		if (size >= 8 * (i + 1))
			to[i] = t->words[i];
	}
	/* the rest as one word that overlaps the last one */
	if (size & 7)
		*(__u64 *)(data + size - 8) =
			*(const volatile __u64 *)((const volatile char *)t->words + size - 8);
}

static __always_inline int emit(struct xdp_md *ctx, const volatile struct gen_tmpl *t, __u8 *big)
{
	__u32 size = gen_cfg.size, draw, draw2, src_sum, sum, idx;
	void *data, *l3, *l4;

	if (gen_cfg.trim && bpf_xdp_adjust_tail(ctx, -1))
		return XDP_ABORTED;
	if (size > GEN_INLINE && bpf_xdp_store_bytes(ctx, 0, big, size))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	if (data + size > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (size <= GEN_INLINE)
		write_words(data, size, t);

	draw = gen_seed * 1664525u + 1013904223u;
	gen_seed = draw;
	draw2 = (draw ^ (draw >> 15)) * 0x85ebca6bu;
	draw2 ^= draw2 >> 13;
	idx = next_source(draw);
	l3 = data + gen_cfg.l3_off;
	if (gen_cfg.v6) {
		__u64 hi = bpf_cpu_to_be64(gen_cfg.base6 + idx);

		*(__u64 *)(l3 + 8) = hi;
		src_sum = csum_32(hi) + csum_32(hi >> 32);
	} else {
		__u32 addr = gen_cfg.base4 + idx;

		if (gen_cfg.skip_loop && addr >= 0x7f000000)
			addr += 0x01000000;
		addr = bpf_htonl(addr);
		*(__u32 *)(l3 + 12) = addr;
		src_sum = csum_32(addr);
		sum = t->l3_sum + src_sum;
		if (t->id_off)
			sum += (__u16)draw2;
		*(__u16 *)(l3 + 10) = csum_fold(sum);
	}
	if (t->id_off)
		*(__u16 *)(data + t->id_off) = draw2;

	if (t->l4_off) {
		l4 = data + t->l4_off;
		sum = t->l4_sum;
		if (t->pseudo)
			sum += src_sum;
		if (t->ports && gen_cfg.rand_sport) {
			__u16 p = port(draw2);

			*(__u16 *)l4 = p;
			sum += p;
		}
		if (t->ports && gen_cfg.rand_dport) {
			__u16 p = port(draw2 >> 16);

			*(__u16 *)(l4 + 2) = p;
			sum += p;
		}
		if (t->tcp) {
			*(__u32 *)(l4 + 4) = draw2;
			sum += csum_32(draw2);
		}
		sum = csum_fold(sum) & 0xffff;
		if (t->udp && !sum)
			sum = 0xffff;
		*(__u16 *)(data + t->csum_off) = sum;
	}
	gen_frames++;
	return bpf_redirect_map(&gen_out, 0, 0);
}

SEC("xdp")
int gen_frame(struct xdp_md *ctx)
{
	if (gen_cfg.kinds <= 1)
		return emit(ctx, &gen_cfg.tmpl[0], gen_big[0]);
	switch (gen_cfg.mix[gen_frames & (GEN_MIX - 1)]) {
	case 0:
		return emit(ctx, &gen_cfg.tmpl[0], gen_big[0]);
	case 1:
		return emit(ctx, &gen_cfg.tmpl[1], gen_big[1]);
	case 2:
		return emit(ctx, &gen_cfg.tmpl[2], gen_big[2]);
	case 3:
		return emit(ctx, &gen_cfg.tmpl[3], gen_big[3]);
	case 4:
		return emit(ctx, &gen_cfg.tmpl[4], gen_big[4]);
	case 5:
		return emit(ctx, &gen_cfg.tmpl[5], gen_big[5]);
	case 6:
		return emit(ctx, &gen_cfg.tmpl[6], gen_big[6]);
	default:
		return emit(ctx, &gen_cfg.tmpl[7], gen_big[7]);
	}
}

char _license[] SEC("license") = "GPL";
