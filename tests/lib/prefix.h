/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An address or prefix from the words a person writes; the test fails where it is none.
 *
 *	struct weir_prefix net = prefix_of("192.0.2.0/24");
 */
#ifndef WEIR_TEST_PREFIX_H
#define WEIR_TEST_PREFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/addr.h"

static inline struct weir_prefix prefix_of(const char *text)
{
	struct weir_prefix p = {.len = 0};

	assert_int_equal(weir_prefix_parse(text, strlen(text), false, &p), 0);
	return p;
}

#endif
