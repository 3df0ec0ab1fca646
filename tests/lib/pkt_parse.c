/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs bpf/parse.h on the host: see pkt_parse.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* clang for BPF has no such warning, and the kernel's own C adds to void pointers everywhere */
#pragma GCC diagnostic ignored "-Wpointer-arith"
#include "bpf/parse.h"
#include "tests/lib/pkt_parse.h"

int pkt_parse_bytes(const void *data, size_t n, uint32_t frame_len, struct weir_pkt *ret)
{
	uint8_t *copy = malloc(n ? n : 1);
	int r;

	if (!copy)
		abort();
	if (n)
		memcpy(copy, data, n);
	r = weir_parse(copy, copy + n, frame_len, ret);
	free(copy);
	return r;
}

int pkt_parse(const struct pkt *p, struct weir_pkt *ret)
{
	return pkt_parse_bytes(p->data, p->len, p->len, ret);
}
