/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SPOP's numbers, strings and typed data: see spop_data.h. Called by spop.c. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "user/l7/spop_data.h"

#define VALUE_TRUE 0x10 /* beside the type of a boolean */

/* --- numbers and data, reading ---- */

int weir_spop_varint_get(const __u8 *p, size_t n, __u64 *ret, size_t *ret_used)
{
	unsigned int shift = 4;
	size_t i = 0;
	__u64 v;

	if (n == 0)
		return -EAGAIN;
	v = p[i++];
	if (v >= 240) {
		do { /* ends at shift 60, where only a byte below 16 has room */
			if (i == n)
				return -EAGAIN;
			if (p[i] > UINT64_MAX >> shift ||
			    __builtin_add_overflow(v, (__u64)p[i] << shift, &v))
				return -ERANGE;
			shift += 7;
		} while (p[i++] >= 128);
	}
	*ret = v;
	*ret_used = i;
	return 0;
}

bool weir_spop_take_byte(struct weir_spop_cursor *c, __u8 *ret)
{
	if (c->pos == c->end)
		return false;
	*ret = *c->pos++;
	return true;
}

bool weir_spop_take_varint(struct weir_spop_cursor *c, __u64 *ret)
{
	size_t used;

	if (weir_spop_varint_get(c->pos, (size_t)(c->end - c->pos), ret, &used) < 0)
		return false;
	c->pos += used;
	return true;
}

bool weir_spop_take_text(struct weir_spop_cursor *c, const char **ret, size_t *ret_n)
{
	__u64 n;

	if (!weir_spop_take_varint(c, &n) || n > (__u64)(c->end - c->pos))
		return false;
	*ret = (const char *)c->pos;
	*ret_n = (size_t)n;
	c->pos += n;
	return true;
}

static bool take_bytes(struct weir_spop_cursor *c, void *to, size_t n)
{
	if (n > (size_t)(c->end - c->pos))
		return false;
	memcpy(to, c->pos, n);
	c->pos += n;
	return true;
}

static bool take_number(struct weir_spop_cursor *c, struct weir_spop_value *v)
{
	__u64 n;

	if (!weir_spop_take_varint(c, &n))
		return false;
	switch (v->type) {
	case WEIR_SPOP_INT32: /* a negative one is extended to 64 bits, or to 32 only */
		if (n > UINT32_MAX && n < (__u64)INT32_MIN)
			return false;
		v->number = (__s32)(__u32)n;
		return true;
	case WEIR_SPOP_INT64:
		v->number = (__s64)n;
		return true;
	case WEIR_SPOP_UINT32:
		v->natural = n;
		return n <= UINT32_MAX;
	default:
		v->natural = n;
		return true;
	}
}

bool weir_spop_take_value(struct weir_spop_cursor *c, struct weir_spop_value *v)
{
	__u8 byte;

	if (!weir_spop_take_byte(c, &byte))
		return false;
	memset(v, 0, sizeof(*v));
	v->type = byte & 0x0f;
	switch (byte & 0x0f) {
	case WEIR_SPOP_NULL:
		return true;
	case WEIR_SPOP_BOOL:
		v->boolean = byte & VALUE_TRUE;
		return true;
	case WEIR_SPOP_INT32:
	case WEIR_SPOP_UINT32:
	case WEIR_SPOP_INT64:
	case WEIR_SPOP_UINT64:
		return take_number(c, v);
	case WEIR_SPOP_IPV4:
		return take_bytes(c, v->ip.ip, 4);
	case WEIR_SPOP_IPV6:
		return take_bytes(c, v->ip.ip, 16);
	case WEIR_SPOP_STRING:
	case WEIR_SPOP_BINARY:
		return weir_spop_take_text(c, &v->text.data, &v->text.n);
	default:
		return false;
	}
}

/* --- numbers and data, writing ---- */

size_t weir_spop_varint_put(__u64 v, __u8 buf[static WEIR_SPOP_VARINT_MAX])
{
	size_t n = 0;

	if (v < 240) {
		buf[n++] = (__u8)v;
		return n;
	}
	buf[n++] = (__u8)(v | 240);
	v = (v - 240) >> 4;
	while (v >= 128) {
		buf[n++] = (__u8)(v | 128);
		v = (v - 128) >> 7;
	}
	buf[n++] = (__u8)v;
	return n;
}

void weir_spop_put_bytes(struct weir_spop_writer *w, const void *data, size_t n)
{
	if (w->n > w->max || n > w->max - w->n) {
		w->n = w->max + 1;
		return;
	}
	if (n)
		memcpy(w->to + w->n, data, n);
	w->n += n;
}

void weir_spop_put_byte(struct weir_spop_writer *w, __u8 byte)
{
	weir_spop_put_bytes(w, &byte, 1);
}

void weir_spop_put_varint(struct weir_spop_writer *w, __u64 v)
{
	__u8 buf[WEIR_SPOP_VARINT_MAX];

	weir_spop_put_bytes(w, buf, weir_spop_varint_put(v, buf));
}

void weir_spop_put_text(struct weir_spop_writer *w, const char *text, size_t n)
{
	weir_spop_put_varint(w, n);
	weir_spop_put_bytes(w, text, n);
}

int weir_spop_put_value(struct weir_spop_writer *w, const struct weir_spop_value *v)
{
	bool yes = v->type == WEIR_SPOP_BOOL && v->boolean;

	weir_spop_put_byte(w, (__u8)(v->type | (yes ? VALUE_TRUE : 0)));
	switch (v->type) {
	case WEIR_SPOP_NULL:
	case WEIR_SPOP_BOOL:
		return 0;
	case WEIR_SPOP_INT32:
		if (v->number < INT32_MIN || v->number > INT32_MAX)
			return -EINVAL;
		weir_spop_put_varint(w, (__u64)v->number);
		return 0;
	case WEIR_SPOP_INT64:
		weir_spop_put_varint(w, (__u64)v->number);
		return 0;
	case WEIR_SPOP_UINT32:
		if (v->natural > UINT32_MAX)
			return -EINVAL;
		weir_spop_put_varint(w, v->natural);
		return 0;
	case WEIR_SPOP_UINT64:
		weir_spop_put_varint(w, v->natural);
		return 0;
	case WEIR_SPOP_IPV4:
		weir_spop_put_bytes(w, v->ip.ip, 4);
		return 0;
	case WEIR_SPOP_IPV6:
		weir_spop_put_bytes(w, v->ip.ip, 16);
		return 0;
	case WEIR_SPOP_STRING:
	case WEIR_SPOP_BINARY:
		weir_spop_put_text(w, v->text.data, v->text.n);
		return 0;
	}
	return -EINVAL;
}
