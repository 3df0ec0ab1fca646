/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A configuration in words, for `weir check` and `weir limit list`. */
#include <stdarg.h>
#include <string.h>

#include "user/base/str.h"
#include "user/config/schema.h"
#include "user/config/words.h"

void weir_say(struct weir_words *o, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(o->n < o->size ? o->buf + o->n : NULL, o->n < o->size ? o->size - o->n : 0,
		      format, ap);
	va_end(ap);
	o->n += n > 0 ? (size_t)n : 0;
}

const char *weir_comma(size_t i, size_t n, const char *last)
{
	return i == 0 ? "" : i + 1 == n ? last : ", ";
}

static void say_protocols(struct weir_words *o, const struct weir_conf_match *m)
{
	unsigned n = 0, i = 0, negated;

	for (unsigned p = 0; p < 256; p++)
		n += m->protocol[p];
	negated = n > 128;
	if (m->any_protocol)
		return;
	if (negated)
		n = 256 - n;
	weir_say(o, negated ? "every protocol but " : "");
	for (unsigned p = 0; p < 256; p++) {
		const char *name = weir_protocol_name((__u8)p);

		if (m->protocol[p] == negated)
			continue;
		weir_say(o, "%s", weir_comma(i++, n, negated ? " and " : " or "));
		if (name)
			weir_say(o, "%s", name);
		else
			weir_say(o, "protocol %u", p);
	}
	weir_say(o, " ");
}

static void say_flags(struct weir_words *o, __u8 flags, const char *what)
{
	size_t n = (size_t)__builtin_popcount(flags), i = 0;

	for (unsigned b = 0; b < 8; b++)
		if (flags & (1u << b))
			weir_say(o, "%s%s", weir_comma(i++, n, " and "), weir_words_flags[b]);
	weir_say(o, " %s", what);
}

static void say_ports(struct weir_words *o, const struct weir_port_set *s, const char *what,
		      bool vlan)
{
	if (s->n == 0)
		return;
	weir_say(o, " %s %s", what, s->negate ? "other than " : "");
	for (size_t i = 0; i < s->n && i < WEIR_ITEMS_SHOWN; i++) {
		const struct weir_port_range *r = &s->item[i];

		weir_say(o, "%s", weir_comma(i, s->n, " or "));
		if (vlan && r->first == 0 && r->last == 0)
			weir_say(o, "none");
		else if (r->first == r->last)
			weir_say(o, "%u", r->first);
		else
			weir_say(o, "%u-%u", r->first, r->last);
	}
	if (s->n > WEIR_ITEMS_SHOWN)
		weir_say(o, " and %zu more", s->n - WEIR_ITEMS_SHOWN);
}

static void say_nets(struct weir_words *o, const struct weir_net_set *s, const char *what)
{
	char buf[WEIR_PREFIX_STRLEN];

	if (s->n == 0)
		return;
	weir_say(o, " %s %s", what, s->negate ? "anywhere but " : "");
	for (size_t i = 0; i < s->n && i < WEIR_ITEMS_SHOWN; i++)
		weir_say(o, "%s%s", weir_comma(i, s->n, " or "),
			 weir_prefix_format(&s->item[i], buf));
	if (s->n > WEIR_ITEMS_SHOWN)
		weir_say(o, " and %zu more", s->n - WEIR_ITEMS_SHOWN);
}

static void say_match(struct weir_words *o, const struct weir_conf_match *m)
{
	if (m->any_protocol && !m->has_tcp_flags && !m->source_port.n && !m->destination_port.n &&
	    !m->vlan.n && !m->source.n && !m->destination.n && m->fragment < 0) {
		weir_say(o, "all packets");
		return;
	}
	if (m->has_tcp_flags && m->any_protocol)
		weir_say(o, "tcp ");
	say_protocols(o, m);
	weir_say(o, m->fragment == 1   ? "fragments"
		    : m->fragment == 0 ? "unfragmented packets"
				       : "packets");
	if (m->has_tcp_flags) {
		weir_say(o, " with ");
		if (m->tcp_flags_set)
			say_flags(o, m->tcp_flags_set, "set");
		if (m->tcp_flags_set && m->tcp_flags_clear)
			weir_say(o, " and ");
		if (m->tcp_flags_clear)
			say_flags(o, m->tcp_flags_clear, "clear");
	}
	say_ports(o, &m->source_port, "from port", false);
	say_ports(o, &m->destination_port, "to port", false);
	say_nets(o, &m->source, "from");
	say_nets(o, &m->destination, "to");
	say_ports(o, &m->vlan, "with VLAN", true);
}

void weir_say_source(struct weir_words *o, __u8 ipv4_prefix, __u8 ipv6_prefix)
{
	if (ipv4_prefix == 32)
		weir_say(o, "each IPv4 address");
	else if (ipv4_prefix == 0)
		weir_say(o, "IPv4 as a whole");
	else
		weir_say(o, "each IPv4 /%u", ipv4_prefix);
	weir_say(o, " and ");
	if (ipv6_prefix == 128)
		weir_say(o, "each IPv6 address");
	else if (ipv6_prefix == 0)
		weir_say(o, "IPv6 as a whole");
	else
		weir_say(o, "each IPv6 /%u", ipv6_prefix);
}

int weir_conf_limit_words(const struct weir_conf_limit *l, char *buf, size_t n)
{
	struct weir_rate rate = {.amount = l->rate, .per_ns = l->rate_per_ns, .bytes = l->bytes};
	struct weir_words o = {.buf = buf, .size = n};
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];

	if (n)
		buf[0] = '\0';
	weir_say(&o, "%s: of ", l->name);
	say_match(&o, &l->match);
	weir_say(&o, ", ");
	if (l->per == WEIR_PER_DESTINATION) {
		weir_say(&o, "each destination (");
		weir_say_source(&o, l->ipv4_prefix, l->ipv6_prefix);
		weir_say(&o, ") may be sent ");
	} else if (l->per == WEIR_PER_ALL) {
		weir_say(&o, "all senders together may send ");
	} else {
		weir_say_source(&o, l->ipv4_prefix, l->ipv6_prefix);
		weir_say(&o, " may send ");
	}
	if (l->algorithm == WEIR_ALGO_TOKEN_BUCKET) {
		const char *per = strchr(weir_str_format_rate(&rate, a), '/');

		weir_say(&o, "%.*s%s%s, and %s at once%s", (int)(per - a), a,
			 l->bytes ? "" : " packets", per,
			 weir_str_format_amount(l->burst, l->bytes, b),
			 l->given & WEIR_GIVEN_BURST ? "" : " (the default)");
	} else {
		weir_say(&o, "%s in %s of %s", weir_str_format_amount(l->limit, l->bytes, a),
			 l->algorithm == WEIR_ALGO_FIXED_WINDOW ? "each window"
								: "a sliding window",
			 weir_str_format_duration(l->window_ns, b));
	}
	if (l->block_for_ns)
		weir_say(&o, "; who sends more is blocked for %s",
			 weir_str_format_duration(l->block_for_ns, a));
	else
		weir_say(&o, "; more is dropped");
	if (l->scope == WEIR_SCOPE_FLEET)
		weir_say(&o, "; who gets more through on all hosts together is blocked on all");
	weir_say(&o, l->mode == WEIR_MODE_MONITOR ? " (monitor: only counted)." : ".");
	return (int)o.n;
}

static void print_lists(const struct weir_conf *c, FILE *f)
{
	const struct {
		const char *name;
		size_t entries, files;
	} row[] = {
		{"allow", c->allow.n, c->n_allow_files},
		{"block", c->block.n, c->n_block_files},
		{"never_block", c->never_block.n, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		(void)fprintf(f, "  %-12s %zu %s", row[i].name, row[i].entries,
			      row[i].entries == 1 ? "entry" : "entries");
		if (row[i].files)
			(void)fprintf(f, " and %zu %s", row[i].files,
				      row[i].files == 1 ? "file" : "files");
		(void)fputc('\n', f);
	}
}

static void print_memory(const struct weir_conf *c, FILE *f)
{
	char size[WEIR_STR_MAX], asked[WEIR_STR_MAX], slots[WEIR_STR_MAX];
	__u64 bytes = c->packet_sources_bytes;

	weir_str_format_size(bytes, size);
	(void)fprintf(f, "  IPv4 sources %s, room for %s slots of %zu bytes\n", size,
		      weir_str_format_count(bytes / sizeof(struct weir_slot4), slots),
		      sizeof(struct weir_slot4));
	(void)fprintf(f, "  IPv6 sources %s, room for %s slots of %zu bytes\n", size,
		      weir_str_format_count(bytes / sizeof(struct weir_slot6), slots),
		      sizeof(struct weir_slot6));
	if (c->packet_sources_asked != bytes)
		(void)fprintf(f,
			      "  (packet_sources is %s; tables are powers of two, and %s is the "
			      "nearest)\n",
			      weir_str_format_size(c->packet_sources_asked, asked), size);
}

void weir_conf_explain(const struct weir_conf *c, FILE *f)
{
	static const char *const attach[] = {
		"by a pinned link: exclusive, stays when the agent stops",
		"in libxdp's chain, beside other programs",
		"by yourself: weir loads and pins, and attaches nothing",
	};
	static const char *const how[] = {"native where the driver can, else generic",
					  "native only", "generic only"};
	char text[2048];
	size_t n = 0;

	(void)fprintf(f, "Instance %s, pins in %s/%s, state in %s.\n", c->instance, c->bpffs,
		      c->instance, c->state_dir);
	(void)fprintf(f, "Commands on %s, for root%s%s.\n", c->admin_listen,
		      c->admin_group ? " and group " : " and the agent's own user only",
		      c->admin_group ? c->admin_group : "");
	(void)fprintf(f, "Mode %s: %s.\n", weir_mode_name(c->mode),
		      c->mode == WEIR_MODE_MONITOR
			      ? "everything is decided and counted, nothing is dropped or refused"
			      : "what is over a limit or blocked is dropped or refused");
	(void)fprintf(f, "Interfaces:");
	for (size_t i = 0; i < c->n_interfaces; i++)
		(void)fprintf(f, "%s %s", i ? "," : "", c->interfaces[i]);
	if (!c->n_interfaces && c->request.n_listener && c->attach != WEIR_ATTACH_EXTERNAL)
		(void)fprintf(f, " none: the request layer alone, which needs no root.\n");
	else
		(void)fprintf(f, "%s. Attached %s; XDP %s.\n", c->n_interfaces ? "" : " none",
			      attach[c->attach], how[c->xdp_mode]);
	if (c->events_per_second)
		(void)fprintf(f, "Events: at most %u sampled packets a second, as %s.\n",
			      c->events_per_second, weir_words_log_format[c->log_format]);
	else
		(void)fprintf(f, "Events: off; log as %s.\n", weir_words_log_format[c->log_format]);
	(void)fprintf(f, "\nMemory of source tables:\n");
	print_memory(c, f);
	(void)fprintf(f, "\nLists (allow beats block):\n");
	print_lists(c, f);
	(void)fprintf(f, "\nPacket limits, in order%s\n", c->n_limits ? ":" : ": none");
	for (int per = WEIR_PER_SOURCE; per <= WEIR_PER_ALL; per++) {
		for (size_t i = 0; i < c->n_limits; i++) {
			if (c->limits[i].per != (enum weir_per)per)
				continue;
			(void)weir_conf_limit_words(&c->limits[i], text,
						    sizeof(text)); /* too long: cut */
			(void)fprintf(f, "  %2zu. %s\n", ++n, text);
		}
	}
	weir_request_explain(c, f);
	weir_store_explain(c, f);
}
