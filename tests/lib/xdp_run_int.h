/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the two halves of the packet test fixture, xdp_run.c and xdp_run_policy.c, share. */
#ifndef WEIR_TESTS_XDP_RUN_INT_H
#define WEIR_TESTS_XDP_RUN_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;
struct xdp_run;
struct xdp_side;

size_t xdp_table4_bytes(const struct xdp_side *s);
size_t xdp_table6_bytes(const struct xdp_side *s);
/* Fresh maps; @keep_policy: the policy map is left as it is, since the caller puts one there. */
struct xdp_run *xdp_run_reset(bool keep_policy);
/* Updates one entry of an array; fails the test if that fails. */
void xdp_map_put(struct bpf_map *m, uint32_t key, const void *value);

#endif
