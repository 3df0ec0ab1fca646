/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The XDP program's parser compiled for the host, for frames that BPF_PROG_TEST_RUN refuses (below
 * 14 bytes) and to look at struct weir_pkt itself. Called by tests/unit, tests/packet and through
 * xdp_run.c.
 */
#ifndef WEIR_TESTS_PKT_PARSE_H
#define WEIR_TESTS_PKT_PARSE_H

#include "tests/lib/pkt.h"
#include "weir/pkt.h"

/* Negative: parsed, go on. Else the enum weir_reason. The bytes are copied to the heap, so that
 * ASan sees any read beyond them. @frame_len may be more than @n: a frame in several buffers.
 */
int pkt_parse_bytes(const void *data, size_t n, uint32_t frame_len, struct weir_pkt *ret);
int pkt_parse(const struct pkt *p, struct weir_pkt *ret);

#endif
