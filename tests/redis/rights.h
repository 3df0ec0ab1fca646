/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rights that docs/redis.md tells an operator to grant. */
#ifndef WEIR_TEST_REDIS_RIGHTS_H
#define WEIR_TEST_REDIS_RIGHTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define PAGE	   "docs/redis.md"
#define FILE_BYTES 65536

static inline void read_file(const char *path, char *ret)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(ret, 1, FILE_BYTES - 1, f) : 0;

	if (!n)
		fail_msg("cannot read %s", path);
	ret[n] = '\0';
	(void)fclose(f);
}

/* The line of an ACL file, with the password "secret" and a blank at its end. */
static inline void rights_line(char *ret, size_t size)
{
	static const char begins[] = "user weir on >PASSWORD ";
	static char page[FILE_BYTES];
	const char *at;

	read_file(PAGE, page);
	at = strstr(page, begins);
	assert_non_null(at);
	at += sizeof(begins) - 1;
	(void)snprintf(ret, size, "user weir on >secret %.*s ", (int)strcspn(at, "\n"), at);
}

#endif
