/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only packet pointer arithmetic. Compiled on the host, too, for the tests of the parser and its fuzzer. */
#ifndef WEIR_BPF_CURSOR_H
#define WEIR_BPF_CURSOR_H

#ifdef __bpf__
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#endif

#include "weir/types.h"

struct cursor {
	void *data;
	void *end;
	__u64 off;	 /* of the next byte; at most CUR_MAX */
	__u64 noise;	 /* any number that the verifier knows nothing about */
	void *ctx;	 /* struct xdp_md; NULL on the host */
	__u32 frame_len; /* on the host: bytes of the whole frame */
};

#define CUR_MAX 0x3fff /* no header chain that is accepted is longer */

/* Bytes of the whole frame. More than data .. end where it has several buffers (xdp.frags). Asked only for packets that
 * say they are longer than the first buffer: in the program it is a call.
 */
static __always_inline __u32 cur_frame_len(const struct cursor *c)
{
#ifdef __bpf__
	return bpf_xdp_get_buff_len(c->ctx);
#else
	return c->frame_len;
#endif
}

/* The next @len bytes, or NULL if the frame ends before. */
static __always_inline void *cur_take(struct cursor *c, __u32 len)
{
	void *p = c->data + c->off;

	if (p + len > c->end)
		return (void *)0;
	c->off += len;
	return p;
}

/* Returns @value, which is at most @mask (all ones). To the verifier it comes back as any number up to @mask: so the
 * state at the head of a loop is the same whatever way led there, and it need not walk every chain of headers.
 */
static __always_inline __u64 cur_blur(const struct cursor *c, __u64 value, __u64 mask)
{
	value ^= c->noise;
	__asm__ volatile("" : "+r"(value));
	return (value ^ c->noise) & mask;
}

/* Skips @len bytes (0 .. 2^16). Returns 0 if the frame ends before. */
static __always_inline int cur_skip(struct cursor *c, __u32 len)
{
	__u64 off = c->off + len;

	if (off > CUR_MAX)
		return 0;
	off = cur_blur(c, off, CUR_MAX);
	if (c->data + off > c->end)
		return 0;
	c->off = off;
	return 1;
}

#endif
