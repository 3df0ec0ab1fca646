/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits and differences in words: see describe.h. */
#include <stdarg.h>
#include <string.h>

#include "user/agent/describe.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

static const char *rate_text(const struct weir_conf_limit *l, char buf[static WEIR_STR_MAX])
{
	struct weir_rate rate = {.amount = l->rate, .per_ns = l->rate_per_ns, .bytes = l->bytes};

	return weir_str_format_rate(&rate, buf);
}

const char *weir_describe_limit(const struct weir_conf_limit *l, char buf[static WEIR_DESCRIBE_MAX])
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	int n;

	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET)
		n = snprintf(buf, WEIR_DESCRIBE_MAX, "%s, burst %s", rate_text(l, a),
			     weir_str_format_amount(l->burst, l->bytes, b));
	else
		n = snprintf(buf, WEIR_DESCRIBE_MAX, "%s in %s (%s)",
			     weir_str_format_amount(l->limit, l->bytes, a),
			     weir_str_format_duration(l->window_ns, b),
			     weir_algorithm_name(l->algorithm));
	if (l->block_for_ns && n > 0 && n < WEIR_DESCRIBE_MAX)
		(void)snprintf(buf + n, (size_t)(WEIR_DESCRIBE_MAX - n), ", block_for %s",
			       weir_str_format_duration(l->block_for_ns, a));
	return buf;
}

const char *weir_describe_per(const struct weir_conf_limit *l, char buf[static WEIR_DESCRIBE_MAX])
{
	const char *name = weir_per_name(l->per);

	if (l->per == WEIR_PER_ALL || (l->ipv4_prefix == 32 && l->ipv6_prefix == 64))
		(void)snprintf(buf, WEIR_DESCRIBE_MAX, "%s", name);
	else
		(void)snprintf(buf, WEIR_DESCRIBE_MAX, "%s /%u and /%u", name, l->ipv4_prefix,
			       l->ipv6_prefix);
	return buf;
}

const struct weir_conf_limit *weir_conf_find_limit(const struct weir_conf *c, const char *name)
{
	for (size_t i = 0; i < c->n_limits; i++)
		if (!strcmp(c->limits[i].name, name))
			return &c->limits[i];
	return NULL;
}

void weir_describe_say(const struct weir_describe_to *to, const char *format, ...)
{
	char line[2 * WEIR_DESCRIBE_REQUEST_MAX + 128];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap); /* cut if long */
	va_end(ap);
	to->fn(to->arg, line);
}

static bool same_ports(const struct weir_port_set *a, const struct weir_port_set *b)
{
	return a->n == b->n && a->negate == b->negate &&
	       (!a->n || !memcmp(a->item, b->item, a->n * sizeof(*a->item)));
}

static bool same_nets(const struct weir_net_set *a, const struct weir_net_set *b)
{
	if (a->n != b->n || a->negate != b->negate)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (weir_prefix_compare(&a->item[i], &b->item[i]))
			return false;
	return true;
}

static bool same_match(const struct weir_conf_match *a, const struct weir_conf_match *b)
{
	return !memcmp(a->protocol, b->protocol, sizeof(a->protocol)) &&
	       a->any_protocol == b->any_protocol && a->tcp_flags_set == b->tcp_flags_set &&
	       a->tcp_flags_clear == b->tcp_flags_clear && a->has_tcp_flags == b->has_tcp_flags &&
	       a->fragment == b->fragment && same_ports(&a->source_port, &b->source_port) &&
	       same_ports(&a->destination_port, &b->destination_port) &&
	       same_ports(&a->vlan, &b->vlan) && same_nets(&a->source, &b->source) &&
	       same_nets(&a->destination, &b->destination);
}

static void diff_limit(const struct weir_describe_to *d, const struct weir_conf_limit *a,
		       const struct weir_conf_limit *b)
{
	char from[WEIR_DESCRIBE_MAX], to[WEIR_DESCRIBE_MAX];

	if (strcmp(weir_describe_limit(a, from), weir_describe_limit(b, to)) != 0)
		weir_describe_say(d, "limit %s: %s -> %s", a->name, from, to);
	if (strcmp(weir_describe_per(a, from), weir_describe_per(b, to)) != 0)
		weir_describe_say(d, "limit %s: per %s -> %s", a->name, from, to);
	if (a->mode != b->mode)
		weir_describe_say(d, "limit %s: mode %s -> %s", a->name, weir_mode_name(a->mode),
				  weir_mode_name(b->mode));
	if (!same_match(&a->match, &b->match))
		weir_describe_say(d, "limit %s: match changed", a->name);
	if (a->algorithm != b->algorithm || a->bytes != b->bytes || a->per != b->per ||
	    a->ipv4_prefix != b->ipv4_prefix || a->ipv6_prefix != b->ipv6_prefix ||
	    a->window_ns != b->window_ns)
		weir_describe_say(d, "limit %s: begins with empty state", a->name);
}

static void diff_limits(const struct weir_describe_to *d, const struct weir_conf *from,
			const struct weir_conf *to)
{
	char text[WEIR_DESCRIBE_MAX];
	bool reordered = false;
	size_t last = 0;

	for (size_t i = 0; i < from->n_limits; i++) {
		const struct weir_conf_limit *a = &from->limits[i],
					     *b = weir_conf_find_limit(to, a->name);

		if (!b) {
			weir_describe_say(d, "limit %s: removed", a->name);
			continue;
		}
		diff_limit(d, a, b);
		reordered = reordered || (size_t)(b - to->limits) < last;
		last = (size_t)(b - to->limits);
	}
	for (size_t i = 0; i < to->n_limits; i++)
		if (!weir_conf_find_limit(from, to->limits[i].name))
			weir_describe_say(d, "limit %s: added: %s", to->limits[i].name,
					  weir_describe_limit(&to->limits[i], text));
	if (reordered)
		weir_describe_say(d, "limits: the order changed");
}

static bool has_text(char *const *list, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], text))
			return true;
	return false;
}

static void diff_texts(const struct weir_describe_to *d, const char *what, char *const *a,
		       size_t n_a, char *const *b, size_t n_b)
{
	for (size_t i = 0; i < n_a; i++)
		if (!has_text(b, n_b, a[i]))
			weir_describe_say(d, "%s: - %s", what, a[i]);
	for (size_t i = 0; i < n_b; i++)
		if (!has_text(a, n_a, b[i]))
			weir_describe_say(d, "%s: + %s", what, b[i]);
}

static bool has_prefix(const struct weir_prefix_list *l, const struct weir_prefix *p)
{
	for (size_t i = 0; i < l->n; i++)
		if (!weir_prefix_compare(&l->item[i], p))
			return true;
	return false;
}

static void diff_prefixes(const struct weir_describe_to *d, const char *what,
			  const struct weir_prefix_list *a, const struct weir_prefix_list *b)
{
	char text[WEIR_PREFIX_STRLEN];

	for (size_t i = 0; i < a->n; i++)
		if (!has_prefix(b, &a->item[i]))
			weir_describe_say(d, "%s: - %s", what,
					  weir_prefix_format(&a->item[i], text));
	for (size_t i = 0; i < b->n; i++)
		if (!has_prefix(a, &b->item[i]))
			weir_describe_say(d, "%s: + %s", what,
					  weir_prefix_format(&b->item[i], text));
}

void weir_describe_diff(const struct weir_conf *from, const struct weir_conf *to,
			weir_describe_fn fn, void *arg)
{
	const struct weir_describe_to d = {fn, arg};

	if (from->mode != to->mode)
		weir_describe_say(&d, "mode: %s -> %s", weir_mode_name(from->mode),
				  weir_mode_name(to->mode));
	if (from->log_format != to->log_format)
		weir_describe_say(&d, "log.format: %s -> %s",
				  from->log_format == WEIR_LOG_JSON ? "json" : "text",
				  to->log_format == WEIR_LOG_JSON ? "json" : "text");
	if (from->events_per_second != to->events_per_second)
		weir_describe_say(&d, "log.events_per_second: %u -> %u", from->events_per_second,
				  to->events_per_second);
	diff_texts(&d, "interfaces", from->interfaces, from->n_interfaces, to->interfaces,
		   to->n_interfaces);
	diff_limits(&d, from, to);
	diff_prefixes(&d, "lists.allow", &from->allow, &to->allow);
	diff_prefixes(&d, "lists.block", &from->block, &to->block);
	diff_prefixes(&d, "lists.never_block", &from->never_block, &to->never_block);
	diff_texts(&d, "lists.allow_files", from->allow_files, from->n_allow_files, to->allow_files,
		   to->n_allow_files);
	diff_texts(&d, "lists.block_files", from->block_files, from->n_block_files, to->block_files,
		   to->n_block_files);
	weir_describe_request_diff(from, to, &d);
	if (weir_describe_needs_restart(from, to))
		weir_describe_say(&d, "%s: changed, takes effect at a restart",
				  weir_describe_needs_restart(from, to));
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

const char *weir_describe_needs_restart(const struct weir_conf *from, const struct weir_conf *to)
{
	if (strcmp(from->instance, to->instance) != 0)
		return "instance";
	if (!same_text(from->bpffs, to->bpffs))
		return "bpffs";
	if (!same_text(from->state_dir, to->state_dir))
		return "state_dir";
	if (!same_text(from->admin_listen, to->admin_listen))
		return "admin.listen";
	if (!same_text(from->admin_group, to->admin_group))
		return "admin.group";
	if (from->attach != to->attach)
		return "attach";
	if (from->attach != WEIR_ATTACH_EXTERNAL && !from->n_interfaces != !to->n_interfaces)
		return to->n_interfaces ? "interfaces (from none to some)"
					: "interfaces (from some to none)";
	if (from->xdp_mode != to->xdp_mode)
		return "xdp_mode";
	if (from->packet_sources_bytes != to->packet_sources_bytes)
		return "memory.packet_sources";
	if (from->store.shared != to->store.shared)
		return "store.url (from or to embedded)";
	if (from->store.shared && from->store.fleet_lists != to->store.fleet_lists)
		return "store.fleet.lists";
	return NULL;
}
