/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text into a buffer of fixed size, faster than printf: what an answer is made of, once per request. What does not fit
 * is left out whole and remembered. Used by answer.c and check_json.c.
 */
#ifndef WEIR_L7_PUT_H
#define WEIR_L7_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "weir/types.h"

struct weir_put {
	char *to;
	size_t n, max;
	bool cut;
};

static inline void weir_put_bytes(struct weir_put *p, const char *s, size_t n)
{
	if (p->cut || n > p->max - p->n) {
		p->cut = true;
		return;
	}
	memcpy(p->to + p->n, s, n);
	p->n += n;
}

static inline void weir_put_text(struct weir_put *p, const char *s)
{
	weir_put_bytes(p, s, strlen(s));
}

static inline void weir_put_u64(struct weir_put *p, __u64 v)
{
	char buf[20];
	size_t i = sizeof(buf);

	do {
		buf[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	weir_put_bytes(p, buf + i, sizeof(buf) - i);
}

#endif
