/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading and writing SPOP's numbers, strings and typed data. Internal to spop.c; the numbers are in spop.h. */
#ifndef WEIR_L7_SPOP_DATA_H
#define WEIR_L7_SPOP_DATA_H

#include "user/l7/spop.h"

/* What has not been read of a frame. The readers return false where it is cut or wrong; what they return points into
 * it.
 */
struct weir_spop_cursor {
	const __u8 *pos, *end;
};

bool weir_spop_take_byte(struct weir_spop_cursor *c, __u8 *ret);
bool weir_spop_take_varint(struct weir_spop_cursor *c, __u64 *ret);
bool weir_spop_take_text(struct weir_spop_cursor *c, const char **ret, size_t *ret_n);
bool weir_spop_take_value(struct weir_spop_cursor *c, struct weir_spop_value *v);

/* Where a frame is written. What does not fit is not written, and said by n > max at the end. */
struct weir_spop_writer {
	__u8 *to;
	size_t n, max;
};

void weir_spop_put_bytes(struct weir_spop_writer *w, const void *data, size_t n);
void weir_spop_put_byte(struct weir_spop_writer *w, __u8 byte);
void weir_spop_put_varint(struct weir_spop_writer *w, __u64 v);
void weir_spop_put_text(struct weir_spop_writer *w, const char *text, size_t n);
/* -EINVAL: no such type, or a number that does not fit into it. */
int weir_spop_put_value(struct weir_spop_writer *w, const struct weir_spop_value *v);

#endif
