/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libFuzzer on the XDP program's parser, compiled for the host with ASan and UBSan. The input is
 * copied to a heap block of exactly its size, so that any read beyond the frame is seen. The first
 * two bytes say how much longer the frame is than its first buffer (frames in several buffers, BIG
 * TCP).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What later code relies on. */
static void check(int r, const struct weir_pkt *p, uint32_t first, uint32_t len)
{
	if (r >= 0 && r != WEIR_PASS_NON_IP &&
	    (r < WEIR_DROP_ETH_TRUNCATED || r > WEIR_DROP_ICMP_TRUNCATED))
		abort();
	if ((first < 512 ? p->len != first && p->len != len : p->len != len) || p->family > 6 ||
	    p->fragment >= WEIR_FRAG_MAX || p->class >= WEIR_CLASS_MAX)
		abort();
	if (p->vlan > 4095 || (!p->has_ports && (p->sport || p->dport)) ||
	    (!p->has_tcp && p->tcp_flags))
		abort();
	if (p->has_ports &&
	    (p->fragment == WEIR_FRAG_REST || (p->protocol != 6 && p->protocol != 17)))
		abort();
	if (r < 0 && p->class != WEIR_CLASS_ARP && p->family != 4 && p->family != 6)
		abort();
	if (p->class != WEIR_CLASS_NONE && p->fragment != WEIR_FRAG_NONE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct weir_pkt p;
	uint32_t more;
	uint8_t *frame;
	int r;

	if (n < 2)
		return 0;
	more = (uint32_t)data[0] << 8 | data[1];
	if (more < 0x8000) /* mostly frames in one buffer */
		more = 0;
	data += 2;
	n -= 2;
	frame = malloc(n ? n : 1);
	if (!frame)
		abort();
	if (n)
		memcpy(frame, data, n);
	memset(&p, 0xa5, sizeof(p));
	r = weir_parse(frame, frame + n, (uint32_t)n + more, &p);
	check(r, &p, (uint32_t)n, (uint32_t)n + more);
	free(frame);
	return 0;
}
