/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the programs of listeners and workers begin with: one lab for each test. */
#ifndef WEIR_TEST_HTTP_CASE_H
#define WEIR_TEST_HTTP_CASE_H

#include "http_double.h"

#define CHECK	   "GET /check HTTP/1.1\r\nHost: a\r\n\r\n"
#define CHECK_LAST "GET /check HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
#define MS	   1000000ull

static struct lab lab;

static inline int begin(void **state)
{
	*state = &lab;
	lab_init(&lab);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	lab_stop(&lab);
	return 0;
}

/* An own address that asks directly: the simplest client there is. */
static inline void start_direct(void)
{
	lab_listener(&lab, WEIR_PROFILE_NGINX, NULL);
	lab_start(&lab);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
