/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The only packet pointer arithmetic. Helper-free, so that the parser is also compiled on the host. */
#ifndef WEIR_BPF_CURSOR_H
#define WEIR_BPF_CURSOR_H

#include "weir/types.h"

struct cursor {
	void *pos;
	void *end;
};

/* The next @len bytes, or NULL if the frame ends before. @len is at most some hundreds. */
static __always_inline void *cur_take(struct cursor *c, __u32 len)
{
	void *p = c->pos;

	if ((char *)p + len > (char *)c->end)
		return (void *)0;
	c->pos = (char *)p + len;
	return p;
}

#endif
