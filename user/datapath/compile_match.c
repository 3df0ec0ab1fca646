/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which packets a limit is about, as bit vectors: for each field and value the mask of limits that accept it. A mask
 * also holds every limit that does not test the field, so that the program ands them without asking. Called by
 * compile.c.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/datapath/compile_int.h"
#include "weir/pkt.h"

#define CLASSES_MAX 255 /* besides class 0 */

/* --- protocol, flags, fragments, family ---- */

static bool wants_protocol(const struct weir_conf_match *m, unsigned protocol)
{
	static const bool none[256];

	return m->any_protocol || m->protocol[protocol] || !memcmp(m->protocol, none, sizeof(none));
}

/* Does the limit accept only packets with @protocol? */
static bool only_protocol(const struct weir_conf_match *m, unsigned protocol)
{
	unsigned i;

	for (i = 0; i < 256; i++)
		if (wants_protocol(m, i) != (i == protocol))
			return false;
	return true;
}

static bool has_family(const struct weir_net_set *s, __u8 family)
{
	size_t i;

	if (!s->n || s->negate)
		return true;
	for (i = 0; i < s->n; i++)
		if (s->item[i].family == family)
			return true;
	return false;
}

static bool wants_family(const struct weir_conf_match *m, __u8 family)
{
	if (only_protocol(m, family == 4 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
		return false;
	return has_family(&m->source, family) && has_family(&m->destination, family);
}

static bool tests_ports(const struct weir_conf_match *m)
{
	return m->source_port.n || m->destination_port.n;
}

static bool wants_fragment(const struct weir_conf_match *m, unsigned fragment)
{
	if (fragment == WEIR_FRAG_REST && (tests_ports(m) || m->has_tcp_flags))
		return false; /* ports and flags are in the first fragment */
	return m->fragment < 0 || (m->fragment != 0) == (fragment != WEIR_FRAG_NONE);
}

/* Does it ask nothing that a frame without IP does not have? */
static bool wants_non_ip(const struct weir_conf_match *m)
{
	return m->any_protocol && !m->has_tcp_flags && !tests_ports(m) && m->fragment < 0 &&
	       !m->source.n && !m->destination.n;
}

/* A limit that no packet can ever match is a mistake. */
static int check_possible(const struct weir_conf_match *m, struct weir_error *e)
{
	if (m->has_tcp_flags && !wants_protocol(m, IPPROTO_TCP))
		return weir_error_set(
			e, -EINVAL, "matches no packet: tcp_flags without protocol tcp (add tcp)");
	if (m->has_tcp_flags && (m->tcp_flags_set & m->tcp_flags_clear))
		return weir_error_set(e, -EINVAL,
				      "matches no packet: a flag is both in set and in clear");
	if (tests_ports(m) && !wants_protocol(m, IPPROTO_TCP) && !wants_protocol(m, IPPROTO_UDP))
		return weir_error_set(
			e, -EINVAL,
			"matches no packet: ports without protocol tcp or udp (add one)");
	if (!wants_family(m, 4) && !wants_family(m, 6))
		return weir_error_set(e, -EINVAL,
				      "matches no packet: its protocol, source and destination "
				      "belong to different families (use prefixes of one)");
	return 0;
}

static void simple_fields(const struct weir_conf_match *m, __u32 bit, struct weir_policy *p)
{
	unsigned i;

	for (i = 0; i < 256; i++) {
		if (wants_protocol(m, i))
			p->protocol[i] |= bit;
		if (!m->has_tcp_flags ||
		    ((i & m->tcp_flags_set) == m->tcp_flags_set && !(i & m->tcp_flags_clear)))
			p->tcp_flags[i] |= bit;
	}
	for (i = 0; i < WEIR_FRAG_MAX; i++)
		if (wants_fragment(m, i))
			p->fragment[i] |= bit;
	if (!m->has_tcp_flags)
		p->no_tcp |= bit;
	if (wants_family(m, 4))
		p->family4 |= bit;
	if (wants_family(m, 6))
		p->family6 |= bit;
	p->by_ports |= m->source_port.n ? bit : 0;
	p->by_dports |= m->destination_port.n ? bit : 0;
	p->by_vlan |= m->vlan.n ? bit : 0;
}

/* --- ports and VLANs ---- */

/* Field of struct weir_conf_match that holds a set of values, and where its classes go. */
struct field {
	const char *name;
	size_t offset; /* of its struct weir_port_set */
	unsigned n;    /* values */
	__u32 tested;  /* limits that test it */
	__u8 *class;
	__u32 *mask;
};

static const struct weir_port_set *field_set(const struct field *f, const struct weir_conf_match *m)
{
	return (const struct weir_port_set *)((const char *)m + f->offset);
}

static void mark_values(const struct weir_port_set *s, unsigned n, __u32 bit, __u32 *masks)
{
	unsigned v;
	size_t i;

	/* A value may be in several ranges: set, and for `not` clear, instead of turning over. */
	for (v = 0; s->negate && v < n; v++)
		masks[v] |= bit;
	for (i = 0; i < s->n; i++)
		for (v = s->item[i].first; v <= s->item[i].last && v < n; v++)
			masks[v] = s->negate ? masks[v] & ~bit : masks[v] | bit;
}

/* Values that the same limits accept form a class; class 0 is accepted by none that tests the field. */
static int classify(const struct weir_conf *conf, const struct field *f, struct weir_error *e)
{
	_cleanup_free_ __u32 *masks = calloc(f->n, sizeof(*masks));
	__u32 seen[CLASSES_MAX + 1] = {0};
	unsigned v, c, used = 1;
	size_t i;

	if (!masks)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (i = 0; i < conf->n_limits; i++)
		if (f->tested >> i & 1)
			mark_values(field_set(f, &conf->limits[i].match), f->n, 1u << i, masks);
	for (v = 0, c = 0; v < f->n; v++) {
		if (seen[c] != masks[v]) /* neighbours are mostly alike */
			for (c = 0; c < used && seen[c] != masks[v]; c++)
				;
		if (c > CLASSES_MAX)
			return weir_error_set(
				e, -EINVAL,
				"packet_limits: %s conditions of all limits together tell more "
				"than %u kinds of values apart (use fewer or wider ranges, or the "
				"same ranges in several limits)",
				f->name, CLASSES_MAX);
		if (c == used)
			seen[used++] = masks[v];
		f->class[v] = c;
	}
	for (c = 0; c <= CLASSES_MAX; c++)
		f->mask[c] = seen[c] | ~f->tested;
	return 0;
}

/* --- prefixes ---- */

static int net_compare(const void *a, const void *b)
{
	return memcmp(&((const struct weir_net *)a)->key, &((const struct weir_net *)b)->key,
		      sizeof(struct weir_net_key));
}

static void add_nets(const struct weir_net_set *s, __u8 side, __u32 bit, struct weir_compiled *c)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		union weir_addr a = s->item[i].addr;
		struct weir_net *n = &c->nets[c->n_nets++];

		weir_addr_mask(&a, s->item[i].family, s->item[i].len);
		*n = (struct weir_net){.key = {.side = side,
					       .family = s->item[i].family,
					       .len = s->item[i].len},
				       .mask = bit};
		memcpy(n->key.word, a.word, s->item[i].family == 4 ? 4 : 16);
	}
}

static void merge_nets(struct weir_compiled *c)
{
	size_t i, out = 0;

	if (!c->n_nets)
		return;
	qsort(c->nets, c->n_nets, sizeof(*c->nets), net_compare);
	for (i = 1; i < c->n_nets; i++) {
		if (net_compare(&c->nets[out], &c->nets[i]))
			c->nets[++out] = c->nets[i];
		else
			c->nets[out].mask |= c->nets[i].mask;
	}
	c->n_nets = out + 1;
}

/* The distinct lengths of one side and family, longest first. */
static int net_lens(const struct weir_compiled *c, __u8 side, __u8 family, __u8 *ret_lens,
		    __u8 *ret_n, struct weir_error *e)
{
	bool used[129] = {false};
	size_t i;
	int len;
	__u8 n = 0;

	for (i = 0; i < c->n_nets; i++)
		if (c->nets[i].key.side == side && c->nets[i].key.family == family)
			used[c->nets[i].key.len] = true;
	for (len = 128; len >= 0; len--) {
		if (!used[len])
			continue;
		if (n == WEIR_NET_LENS)
			return weir_error_set(
				e, -EINVAL,
				"packet_limits: %s prefixes of all limits together have more than "
				"%u different IPv%u lengths (use fewer lengths)",
				side ? "destination" : "source", WEIR_NET_LENS, family);
		ret_lens[n++] = len;
	}
	*ret_n = n;
	return 0;
}

static int compile_nets(const struct weir_conf *conf, struct weir_compiled *c, struct weir_error *e)
{
	struct weir_policy *p = &c->policy;
	size_t i, n = 0;
	int r;

	for (i = 0; i < conf->n_limits; i++)
		n += conf->limits[i].match.source.n + conf->limits[i].match.destination.n;
	c->nets = calloc(n ? n : 1, sizeof(*c->nets));
	if (!c->nets)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (i = 0; i < conf->n_limits; i++) {
		const struct weir_conf_match *m = &conf->limits[i].match;
		__u32 bit = 1u << i;

		add_nets(&m->source, 0, bit, c);
		add_nets(&m->destination, 1, bit, c);
		p->by_src_net |= m->source.n ? bit : 0;
		p->by_dst_net |= m->destination.n ? bit : 0;
		p->not_src_net |= m->source.n && m->source.negate ? bit : 0;
		p->not_dst_net |= m->destination.n && m->destination.negate ? bit : 0;
	}
	merge_nets(c);
	r = net_lens(c, 0, 4, p->src_len4, &p->n_src_len4, e);
	if (r == 0)
		r = net_lens(c, 0, 6, p->src_len6, &p->n_src_len6, e);
	if (r == 0)
		r = net_lens(c, 1, 4, p->dst_len4, &p->n_dst_len4, e);
	if (r == 0)
		r = net_lens(c, 1, 6, p->dst_len6, &p->n_dst_len6, e);
	return r;
}

int weir_compile_match(const struct weir_conf *conf, struct weir_compiled *c, struct weir_error *e)
{
	struct weir_policy *p = &c->policy;
	struct field fields[3];
	size_t i;
	int r;

	for (i = 0; i < conf->n_limits; i++) {
		r = check_possible(&conf->limits[i].match, e);
		if (r < 0)
			return weir_compile_blame(conf, &conf->limits[i], r, e);
		simple_fields(&conf->limits[i].match, 1u << i, p);
		if (p->limit[i].flags & WEIR_LIMIT_ALL && wants_non_ip(&conf->limits[i].match))
			p->non_ip |= 1u << i;
	}
	fields[0] = (struct field){"source_port",  offsetof(struct weir_conf_match, source_port),
				   65536,	   p->by_ports,
				   p->sport_class, p->sport_mask};
	fields[1] = (struct field){"destination_port",
				   offsetof(struct weir_conf_match, destination_port),
				   65536,
				   p->by_dports,
				   p->dport_class,
				   p->dport_mask};
	fields[2] = (struct field){"vlan",	  offsetof(struct weir_conf_match, vlan),
				   4096,	  p->by_vlan,
				   p->vlan_class, p->vlan_mask};
	for (i = 0; i < ARRAY_LEN(fields); i++) {
		r = classify(conf, &fields[i], e);
		if (r < 0)
			return r;
	}
	return compile_nets(conf, c, e);
}
