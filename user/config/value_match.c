/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of addresses and of the conditions of a limit; see value.h. */
#include <string.h>
#include <strings.h>

#include "user/base/str.h"
#include "user/config/value.h"

static int read_prefix(const struct weir_target *t, const yaml_node_t *n, struct weir_prefix *ret)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX], right[WEIR_PREFIX_STRLEN];
	struct weir_prefix p;
	size_t len;
	int r;

	if (!text)
		return -EINVAL;
	len = n->data.scalar.length;
	r = weir_prefix_parse(text, len, false, ret);
	if (r == -EDOM && weir_prefix_parse(text, len, true, &p) == 0)
		weir_reader_error(t->r, n,
				  "%s: %s has bits set beyond its length (did you mean %s, or the "
				  "address alone?)",
				  weir_value_key(t), weir_value_shown(n, buf),
				  weir_prefix_format(&p, right));
	else if (r == -ERANGE)
		weir_reader_error(t->r, n, "%s: %s: the length is out of range (0 to %d)",
				  weir_value_key(t), weir_value_shown(n, buf),
				  strchr(text, ':') ? 128 : 32);
	else if (r < 0)
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is neither an address nor a prefix (for example "
				  "192.0.2.0/24 or \"2001:db8::/32\")",
				  weir_value_key(t), weir_value_shown(n, buf));
	return r < 0 ? -EINVAL : 0;
}

int weir_value_prefixes(const struct weir_target *t)
{
	const yaml_node_t *list = weir_value_list(t, t->node, WEIR_YAML_MAX_VALUES);
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		struct weir_prefix p;
		int r2 = read_prefix(t, n, &p);

		if (r2 == 0)
			r2 = weir_prefix_list_add((struct weir_prefix_list *)t->to, &p,
						  (int)n->start_mark.line + 1);
		if (r2 == -ENOMEM)
			return r2;
		if (r2 < 0)
			r = r2;
	}
	return r;
}

int weir_value_nets(const struct weir_target *t)
{
	struct weir_net_set *set = (struct weir_net_set *)t->to;
	const yaml_node_t *list = weir_value_unwrap_not(t, &set->negate);
	_cleanup_free_ struct weir_prefix *item = NULL;
	size_t n;
	int r = 0;

	list = weir_value_condition(t, list, 4096);
	if (!list)
		return -EINVAL;
	n = weir_value_count(list);
	item = calloc(n, sizeof(*item));
	if (!item)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (read_prefix(t, weir_value_item(t, list, i), &item[i]) < 0)
			r = -EINVAL;
	if (r < 0)
		return r;
	free(set->item);
	set->n = n;
	set->item = TAKE_PTR(item);
	return 0;
}

/* "80" or "27015-27054" */
static int read_range(const struct weir_target *t, const yaml_node_t *n,
		      struct weir_port_range *ret)
{
	const char *text = weir_value_scalar(t, n), *dash;
	char first[8], buf[WEIR_SHOWN_MAX];
	__u64 a, b;
	int r;

	if (!text)
		return -EINVAL;
	dash = strchr(text, '-');
	if (dash) {
		size_t len = (size_t)(dash - text);

		while (len && text[len - 1] == ' ')
			len--;
		r = len < sizeof(first) ? 0 : -EINVAL;
		if (r == 0) {
			memcpy(first, text, len);
			first[len] = '\0';
			dash++;
			dash += strspn(dash, " ");
			r = weir_str_u64(first, t->s->max, &a);
		}
		if (r == 0)
			r = weir_str_u64(dash, t->s->max, &b);
	} else {
		r = weir_str_u64(text, t->s->max, &a);
		b = r == 0 ? a : 0;
	}
	if (r < 0) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is neither a number nor a range (0 to %llu, or a-b)",
				  weir_value_key(t), weir_value_shown(n, buf), t->s->max);
		return -EINVAL;
	}
	if (a > b) {
		weir_reader_error(t->r, n, "%s: %s runs backwards (%llu-%llu)", weir_value_key(t),
				  weir_value_shown(n, buf), b, a);
		return -EINVAL;
	}
	*ret = (struct weir_port_range){.first = (__u16)a, .last = (__u16)b};
	return 0;
}

int weir_value_ports(const struct weir_target *t)
{
	struct weir_port_set *set = (struct weir_port_set *)t->to;
	const yaml_node_t *list = weir_value_unwrap_not(t, &set->negate);
	_cleanup_free_ struct weir_port_range *item = NULL;
	size_t n;
	int r = 0;

	list = weir_value_condition(t, list, 4096);
	if (!list)
		return -EINVAL;
	n = weir_value_count(list);
	item = calloc(n, sizeof(*item));
	if (!item)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (read_range(t, weir_value_item(t, list, i), &item[i]) < 0)
			r = -EINVAL;
	if (r < 0)
		return r;
	free(set->item);
	set->n = n;
	set->item = TAKE_PTR(item);
	return 0;
}

static int read_protocol(const struct weir_target *t, const yaml_node_t *n, __u8 *ret)
{
	const char *text = weir_value_scalar(t, n), *names[32] = {0}, *near;
	char buf[WEIR_SHOWN_MAX];
	__u64 v;

	if (!text)
		return -EINVAL;
	if (weir_str_u64(text, 255, &v) == 0) {
		*ret = (__u8)v;
		return 0;
	}
	for (size_t i = 0; i < weir_protocols_n && i < ARRAY_LEN(names); i++) {
		names[i] = weir_protocols[i].name;
		if (strcasecmp(text, names[i]) == 0) {
			*ret = weir_protocols[i].number;
			return 0;
		}
	}
	near = weir_str_closest(text, names, ARRAY_LEN(names));
	if (near)
		weir_reader_error(t->r, n, "%s: unknown protocol \"%s\" (did you mean \"%s\"?)",
				  weir_value_key(t), weir_value_shown(n, buf), near);
	else
		weir_reader_error(
			t->r, n,
			"%s: unknown protocol \"%s\" (tcp, udp, icmp, icmpv6… or 0 to 255)",
			weir_value_key(t), weir_value_shown(n, buf));
	return -EINVAL;
}

int weir_value_protocols(const struct weir_target *t)
{
	struct weir_conf_match *m = &((struct weir_conf_limit *)t->base)->match;
	bool negate, named[256] = {0};
	const yaml_node_t *list = weir_value_unwrap_not(t, &negate);
	int r = 0;

	list = weir_value_condition(t, list, 256);
	if (!list)
		return -EINVAL;
	for (size_t i = 0; i < weir_value_count(list); i++) {
		__u8 p;

		if (read_protocol(t, weir_value_item(t, list, i), &p) < 0)
			r = -EINVAL;
		else
			named[p] = true;
	}
	if (r < 0)
		return r;
	m->any_protocol = false;
	for (size_t i = 0; i < 256; i++)
		m->protocol[i] = named[i] != negate;
	return 0;
}

int weir_value_flags(const struct weir_target *t)
{
	struct weir_conf_match *m = &((struct weir_conf_limit *)t->base)->match;
	const yaml_node_t *list = weir_value_condition(t, t->node, 8);
	__u8 flags = 0;
	int r = list ? 0 : -EINVAL;

	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		const char *text = weir_value_scalar(t, n);
		char buf[WEIR_SHOWN_MAX];
		unsigned bit = 0;

		while (text && weir_words_flags[bit] &&
		       strcasecmp(text, weir_words_flags[bit]) != 0)
			bit++;
		if (text && weir_words_flags[bit]) {
			flags |= (__u8)(1u << bit);
			continue;
		}
		if (text)
			weir_reader_error(t->r, n,
					  "%s: unknown TCP flag \"%s\" (fin, syn, rst, psh, ack, "
					  "urg, ece, cwr)",
					  weir_value_key(t), weir_value_shown(n, buf));
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	*t->to = flags;
	m->has_tcp_flags = m->tcp_flags_set || m->tcp_flags_clear;
	return 0;
}
