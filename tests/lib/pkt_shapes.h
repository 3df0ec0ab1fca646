/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One valid packet of every structure that the parser knows: what truncation, mutation and fuzzing
 * start from.
 */
#ifndef WEIR_TESTS_PKT_SHAPES_H
#define WEIR_TESTS_PKT_SHAPES_H

#include <stddef.h>

#include "tests/lib/pkt.h"

struct pkt_shape {
	const char *name;
	struct pkt p;
};

/* Built on the first call, kept until the process ends. */
const struct pkt_shape *pkt_shapes(size_t *ret_n);

#endif
