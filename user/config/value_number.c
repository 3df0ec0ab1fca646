/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of numbers, sizes, durations, rates and amounts; see value.h. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/value.h"

void weir_value_store(const struct weir_target *t, __u64 v)
{
	switch (t->s->size) {
	case 1: {
		__u8 x = (__u8)v;
		memcpy(t->to, &x, sizeof(x));
		break;
	}
	case 4: {
		__u32 x = (__u32)v;
		memcpy(t->to, &x, sizeof(x));
		break;
	}
	default:
		memcpy(t->to, &v, sizeof(v));
	}
}

int weir_value_number(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_u64(text, t->s->max, &v);
	if (r == 0 && v >= t->s->min) {
		weir_value_store(t, v);
		return 0;
	}
	if (strcmp(t->s->path, "version") == 0)
		weir_reader_error(t->r, t->node,
				  "version %s is not known (this weir reads version %llu)",
				  weir_value_shown(t->node, buf), t->s->max);
	else if (r == -EINVAL)
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not a whole number (%llu to %llu)",
				  weir_value_key(t), weir_value_shown(t->node, buf), t->s->min,
				  t->s->max);
	else
		weir_reader_error(t->r, t->node, "%s: %s is out of range (%llu to %llu)",
				  weir_value_key(t), weir_value_shown(t->node, buf), t->s->min,
				  t->s->max);
	return -EINVAL;
}

int weir_value_table(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], least[WEIR_STR_MAX], most[WEIR_STR_MAX];
	__u64 v, up;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_size_bytes(text, &v);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not a size (for example 16 MB)",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return r;
	}
	for (up = 1; r == 0 && up < v && up < t->s->max * 2;)
		up *= 2;
	if (r == 0 && up - v > v - up / 2)
		up /= 2; /* the nearer of the two */
	if (r < 0 || up < t->s->min || up > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is out of range (%s to %s)",
				  weir_value_key(t), weir_value_shown(t->node, buf),
				  weir_str_format_size(t->s->min, least),
				  weir_str_format_size(t->s->max, most));
		return -EINVAL;
	}
	weir_value_store(t, up);
	((struct weir_conf *)t->base)->packet_sources_asked = v;
	return 0;
}

int weir_value_size(const struct weir_target *t)
{
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], least[WEIR_STR_MAX], most[WEIR_STR_MAX];
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_size_bytes(text, &v);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node, "%s: \"%s\" is not a size (for example %s)",
				  weir_value_key(t), weir_value_shown(t->node, buf),
				  t->s->fallback);
		return r;
	}
	if (r < 0 || v < t->s->min || v > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is out of range (%s to %s)",
				  weir_value_key(t), weir_value_shown(t->node, buf),
				  weir_str_format_size(t->s->min, least),
				  weir_str_format_size(t->s->max, most));
		return -EINVAL;
	}
	weir_value_store(t, v);
	return 0;
}

int weir_value_duration_of(const struct weir_target *t, const yaml_node_t *n, __u64 *ret)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX], least[WEIR_STR_MAX], most[WEIR_STR_MAX];
	bool none_at_0 = t->s->kind == WEIR_KIND_DURATION && t->s->given == WEIR_GIVEN_BLOCK_FOR;
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_duration_ns(text, &v);
	if (r == -EINVAL) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is not a duration (for example 500ms, 10s, 5m, 1h)",
				  weir_value_key(t), weir_value_shown(n, buf));
		return r;
	}
	if (r < 0 || (v < t->s->min && !(v == 0 && none_at_0)) || v > t->s->max) {
		weir_reader_error(t->r, n, "%s: %s is too %s (%s to %s)", weir_value_key(t),
				  weir_value_shown(n, buf),
				  r == 0 && v < t->s->min ? "short" : "long",
				  weir_str_format_duration(t->s->min, least),
				  weir_str_format_duration(t->s->max, most));
		return -EINVAL;
	}
	*ret = v;
	return 0;
}

int weir_value_duration(const struct weir_target *t)
{
	__u64 v;
	int r = weir_value_duration_of(t, t->node, &v);

	if (r == 0)
		weir_value_store(t, v);
	return r;
}

int weir_value_rate(const struct weir_target *t)
{
	struct weir_conf_limit *l = t->base;
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX];
	struct weir_rate rate;
	__u64 n;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_rate(text, &rate);
	if (r == -EINVAL && weir_str_u64(text, ~0ull, &n) == 0) {
		weir_reader_error(t->r, t->node,
				  "%s: %s says how many, but not in what time (for example %s/s)",
				  weir_value_key(t), weir_value_shown(t->node, buf),
				  weir_value_shown(t->node, buf));
		return r;
	}
	if (r == -EINVAL) {
		weir_reader_error(
			t->r, t->node,
			"%s: \"%s\" is not a rate (for example 20000/s, 100/m, 200 Mbit/s)",
			weir_value_key(t), weir_value_shown(t->node, buf));
		return r;
	}
	if (r == 0 && rate.amount == 0) {
		weir_reader_error(
			t->r, t->node,
			"%s: %s admits nothing (to drop a source altogether use lists.block)",
			weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	/* 10^11 a second: 800 Gbit/s; 30 days: what a state word can tell apart */
	if (r < 0 ||
	    (unsigned __int128)rate.amount * 1000000000 >
		    (unsigned __int128)rate.per_ns * 100000000000ull ||
	    (unsigned __int128)rate.amount * 30 * 86400 * 1000000000ull < rate.per_ns) {
		weir_reader_error(t->r, t->node,
				  "%s: %s is out of range (from 1/30d, slower rounds to nothing, "
				  "to 800 Gbit/s or 100 G packets/s)",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return -EINVAL;
	}
	l->rate = rate.amount;
	l->rate_per_ns = rate.per_ns;
	l->given_bytes =
		(__u8)((l->given_bytes & ~WEIR_GIVEN_RATE) | (rate.bytes ? WEIR_GIVEN_RATE : 0));
	return 0;
}

int weir_value_amount(const struct weir_target *t)
{
	struct weir_conf_limit *l = t->base;
	const char *text = weir_value_scalar(t, t->node);
	char buf[WEIR_SHOWN_MAX], most[WEIR_STR_MAX];
	bool bytes = false;
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	r = weir_str_amount(text, &v, &bytes);
	if (r == -EINVAL) {
		weir_reader_error(t->r, t->node,
				  "%s: \"%s\" is not an amount (for example 200, 4 MB)",
				  weir_value_key(t), weir_value_shown(t->node, buf));
		return r;
	}
	if (r == 0 && v == 0) {
		weir_reader_error(t->r, t->node, "%s: 0 admits nothing (1 or more)",
				  weir_value_key(t));
		return -EINVAL;
	}
	if (r < 0 || v < t->s->min || v > t->s->max) {
		weir_reader_error(t->r, t->node, "%s: %s is out of range (1 to %llu, which is %s)",
				  weir_value_key(t), weir_value_shown(t->node, buf), t->s->max,
				  weir_str_format_size(t->s->max + (t->s->max & 1), most));
		return -EINVAL;
	}
	weir_value_store(t, v);
	l->given_bytes = (__u8)((l->given_bytes & ~t->s->given) | (bytes ? t->s->given : 0));
	return 0;
}
