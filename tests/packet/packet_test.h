/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every test of this folder includes. */
#ifndef WEIR_TESTS_PACKET_TEST_H
#define WEIR_TESTS_PACKET_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pkt.h"
#include "tests/lib/pkt_parse.h"
#include "tests/lib/pkt_shapes.h"
#include "tests/lib/xdp_run.h"
#include "weir/reason.h"

/* A configuration with these limits; each a flow mapping: "{name: a, rate: 3/s}", "{...}" */
#define LIMITS(...) packet_test_limits((const char *const[]){__VA_ARGS__, NULL})
static inline const char *packet_test_limits(const char *const *limit)
{
	static char text[16384];
	int n = snprintf(text, sizeof(text), "interfaces: [eth0]\npacket_limits:\n");

	for (; *limit; limit++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "  - %s\n", *limit);
	return text;
}

#define SRC4(text) PKT(ETH(), IP4(.src = (text)), UDP())
#define SRC6(text) PKT(ETH(), IP6(.src = (text)), UDP())

#endif
