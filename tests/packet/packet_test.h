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

#endif
