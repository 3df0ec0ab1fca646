/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which packets a limit is about: the program's and-ing of masks against a plain reading of the configuration, for
 * random limits and packets; and the mistakes that are refused.
 */
#include <errno.h>

#include "limits.h"
#include "user/base/cleanup.h"
#include "weir/key.h"

/* The masks as bpf/match.h uses them. */
static __u32 nets_hit(const struct weir_compiled *c, __u8 side, const struct weir_pkt *p)
{
	const struct weir_policy *pol = &c->policy;
	const __u8 *lens = side ? (p->family == 4 ? pol->dst_len4 : pol->dst_len6)
				: (p->family == 4 ? pol->src_len4 : pol->src_len6);
	unsigned n = side ? (p->family == 4 ? pol->n_dst_len4 : pol->n_dst_len6)
			  : (p->family == 4 ? pol->n_src_len4 : pol->n_src_len6);
	__u32 hit = 0;

	for (unsigned i = 0; i < n; i++) {
		struct weir_net_key key = {.side = side, .family = p->family, .len = lens[i]};
		union weir_addr a = side ? p->dst : p->src;

		assert_true(!i || lens[i] < lens[i - 1]);
		weir_addr_mask(&a, p->family, lens[i]);
		memcpy(key.word, a.word, p->family == 4 ? 4 : 16);
		for (size_t k = 0; k < c->n_nets; k++)
			if (!memcmp(&c->nets[k].key, &key, sizeof(key)))
				hit |= c->nets[k].mask;
	}
	return hit;
}

static __u32 match(const struct weir_compiled *c, const struct weir_pkt *p)
{
	const struct weir_policy *pol = &c->policy;
	__u32 m = pol->protocol[p->protocol] & pol->fragment[p->fragment];

	m &= p->family == 4 ? pol->family4 : pol->family6;
	m &= p->has_tcp ? pol->tcp_flags[p->tcp_flags] : pol->no_tcp;
	if (p->has_ports)
		m &= pol->sport_mask[pol->sport_class[p->sport]] &
		     pol->dport_mask[pol->dport_class[p->dport]];
	else
		m &= ~(pol->by_ports | pol->by_dports);
	m &= pol->vlan_mask[pol->vlan_class[p->vlan]];
	m &= ~pol->by_src_net | (nets_hit(c, 0, p) ^ pol->not_src_net);
	m &= ~pol->by_dst_net | (nets_hit(c, 1, p) ^ pol->not_dst_net);
	return m;
}

/* The configuration read plainly. */
static bool in_ports(const struct weir_port_set *s, __u16 v)
{
	bool in = false;

	for (size_t i = 0; i < s->n; i++)
		in |= v >= s->item[i].first && v <= s->item[i].last;
	return !s->n || in != s->negate;
}

static bool in_nets(const struct weir_net_set *s, const union weir_addr *a, __u8 family)
{
	struct weir_prefix one = {.addr = *a, .family = family, .len = family == 4 ? 32 : 128};
	bool in = false;

	for (size_t i = 0; i < s->n; i++)
		in |= weir_prefix_contains(&s->item[i], &one);
	return !s->n || in != s->negate;
}

static bool matches(const struct weir_conf_match *m, const struct weir_pkt *p)
{
	bool icmp4 = m->protocol[1], icmp6 = m->protocol[58];

	if (!m->any_protocol && !m->protocol[p->protocol])
		return false;
	if (!m->any_protocol && icmp4 && p->protocol == 1 && p->family == 6)
		return false; /* the tests below make no limit with both ICMPs and more */
	if (!m->any_protocol && icmp6 && p->protocol == 58 && p->family == 4)
		return false;
	if (m->fragment >= 0 && m->fragment != (p->fragment != WEIR_FRAG_NONE))
		return false;
	if (m->has_tcp_flags &&
	    (!p->has_tcp || (p->tcp_flags & m->tcp_flags_set) != m->tcp_flags_set ||
	     p->tcp_flags & m->tcp_flags_clear))
		return false;
	if ((m->source_port.n || m->destination_port.n) && !p->has_ports)
		return false;
	return in_ports(&m->source_port, p->sport) && in_ports(&m->destination_port, p->dport) &&
	       in_ports(&m->vlan, p->vlan) && in_nets(&m->source, &p->src, p->family) &&
	       in_nets(&m->destination, &p->dst, p->family);
}

/* --- random limits and packets from small worlds, so that they meet ---- */

static __u16 some_port(struct random *r)
{
	static const __u16 ports[] = {0,    1,	  52,	 53,	54,    80,   443,
				      1023, 1024, 27015, 27054, 65534, 65535};

	return ports[random_below(r, ARRAY_LEN(ports))];
}

static void some_set(struct random *r, struct weir_port_set *s, __u16 mod)
{
	if (random_below(r, 2))
		return;
	s->n = 1 + random_below(r, 3);
	s->item = calloc(s->n, sizeof(*s->item));
	s->negate = random_below(r, 3) == 0;
	for (size_t i = 0; i < s->n; i++) {
		__u16 a = some_port(r) % mod, b = random_below(r, 2) ? a : some_port(r) % mod;

		s->item[i] = (struct weir_port_range){a < b ? a : b, a < b ? b : a};
	}
}

static union weir_addr some_addr(struct random *r, __u8 family)
{
	union weir_addr a = {};

	a.ip[0] = family == 4 ? 192 : 0x20;
	for (int i = 1; i < (family == 4 ? 4 : 16); i++)
		a.ip[i] = random_below(r, 8) ? 0 : 128 * random_below(r, 2);
	return a;
}

static void some_nets(struct random *r, struct weir_net_set *s)
{
	static const __u8 len4[] = {0, 8, 9, 16, 24, 32}, len6[] = {0, 16, 33, 64, 65, 128};
	__u8 only = random_below(r, 3);

	if (random_below(r, 2))
		return;
	s->n = 1 + random_below(r, 4);
	s->item = calloc(s->n, sizeof(*s->item));
	s->negate = random_below(r, 3) == 0;
	for (size_t i = 0; i < s->n; i++) {
		struct weir_prefix *p = &s->item[i];

		p->family = only == 1 ? 4 : only == 2 ? 6 : random_below(r, 2) ? 4 : 6;
		p->len = p->family == 4 ? len4[random_below(r, 6)] : len6[random_below(r, 6)];
		p->addr = some_addr(r, p->family);
		weir_addr_mask(&p->addr, p->family, p->len);
	}
}

static void some_match(struct random *r, struct weir_conf_match *m)
{
	static const __u8 protocols[][2] = {{6, 6}, {17, 17}, {6, 17}, {1, 1}, {58, 58}, {47, 6}};
	unsigned pick = random_below(r, 10);

	if (pick < ARRAY_LEN(protocols)) {
		m->any_protocol = false;
		m->protocol[protocols[pick][0]] = true;
		m->protocol[protocols[pick][1]] = true;
	}
	m->fragment = (int)random_below(r, 6) - 1;
	if (m->fragment > 1)
		m->fragment = -1;
	if (!random_below(r, 3)) {
		m->has_tcp_flags = true;
		m->tcp_flags_set = 1u << random_below(r, 8) & 0x13;
		m->tcp_flags_clear = random_below(r, 256) & ~m->tcp_flags_set & 0x12;
	}
	some_set(r, &m->source_port, 65535);
	some_set(r, &m->destination_port, 65535);
	some_set(r, &m->vlan, 4095);
	some_nets(r, &m->source);
	some_nets(r, &m->destination);
}

static void free_match(struct weir_conf_match *m)
{
	free(m->source_port.item);
	free(m->destination_port.item);
	free(m->vlan.item);
	free(m->source.item);
	free(m->destination.item);
}

static struct weir_pkt some_packet(struct random *r)
{
	static const __u8 protocols[] = {6, 6, 17, 17, 1, 58, 47};
	struct weir_pkt p = {.family = random_below(r, 2) ? 4 : 6};

	p.protocol = protocols[random_below(r, ARRAY_LEN(protocols))];
	p.fragment = random_below(r, 3) ? WEIR_FRAG_NONE : random_below(r, WEIR_FRAG_MAX);
	p.src = some_addr(r, p.family);
	p.dst = some_addr(r, p.family);
	p.vlan = random_below(r, 2) ? 0 : some_port(r) % 4095;
	if (p.fragment != WEIR_FRAG_REST && (p.protocol == 6 || p.protocol == 17)) {
		p.has_ports = 1;
		p.sport = some_port(r);
		p.dport = some_port(r);
		p.has_tcp = p.protocol == 6;
		p.tcp_flags = p.has_tcp ? random_below(r, 256) : 0;
	}
	return p;
}

static void masks_say_what_the_configuration_says(void **state)
{
	struct random r = {123};
	unsigned refused = 0, hits = 0;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct limits *l = limits_new();
		struct weir_compiled *c = NULL;
		struct weir_error e = {""};
		unsigned n = 1 + random_below(&r, 32);

		for (unsigned i = 0; i < n; i++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "l%u", i);
			some_match(&r, &limits_bucket(l, name, 1000, 1000)->match);
			/* What can never match is refused; leave those out. */
			if (weir_compile(&l->conf, NULL, NULL, BUCKETS4, BUCKETS6, JIFFY_NS, &c,
					 &e) < 0) {
				assert_non_null(strstr(e.text, "matches no packet"));
				refused++;
				free_match(&l->item[--l->conf.n_limits].match);
				memset(&l->item[l->conf.n_limits], 0, sizeof(l->item[0]));
			} else {
				weir_compiled_free(c);
			}
			c = NULL;
		}
		c = limits_compile(l, NULL);
		for (int k = 0; k < 3000; k++) {
			struct weir_pkt p = some_packet(&r);
			__u32 got = match(c, &p);

			for (unsigned i = 0; i < l->conf.n_limits; i++)
				assert_int_equal(got >> i & 1, matches(&l->item[i].match, &p));
			hits += got != 0;
		}
		weir_compiled_free(c);
		for (unsigned i = 0; i < l->conf.n_limits; i++)
			free_match(&l->item[i].match);
		free(l);
	}
	assert_true(refused > 10 && hits > 10000);
}

/* --- one by one ---- */

static void the_rest_of_a_datagram_has_no_ports_and_no_flags(void **state)
{
	struct limits *l = limits_new();
	struct weir_port_range dns = {53, 53};
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "any", 1, 1);
	limits_bucket(l, "port", 1, 1)->match.source_port = (struct weir_port_set){&dns, 1, true};
	limits_bucket(l, "flags", 1, 1)->match.has_tcp_flags = true;
	limits_bucket(l, "fragments", 1, 1)->match.fragment = 1;
	limits_bucket(l, "whole", 1, 1)->match.fragment = 0;
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.fragment[WEIR_FRAG_NONE], 0x17);
	assert_int_equal(c->policy.fragment[WEIR_FRAG_FIRST], 0x0f);
	assert_int_equal(c->policy.fragment[WEIR_FRAG_REST], 0x09);
	assert_int_equal(c->policy.no_tcp, 0x1b);
	weir_compiled_free(c);
	free(l);
}

static void protocols_and_prefixes_choose_the_family(void **state)
{
	struct weir_prefix v4 = {.family = 4, .len = 8, .addr.ip = {192}};
	struct weir_prefix v6 = {.family = 6, .len = 16, .addr.ip = {0x20, 1}};
	struct limits *l = limits_new();
	struct weir_conf_match *m;
	struct weir_compiled *c;

	(void)state;
	m = &limits_bucket(l, "icmp", 1, 1)->match;
	m->any_protocol = false;
	m->protocol[1] = true;
	m = &limits_bucket(l, "icmpv6", 1, 1)->match;
	m->any_protocol = false;
	m->protocol[58] = true;
	limits_bucket(l, "from4", 1, 1)->match.source = (struct weir_net_set){&v4, 1, false};
	limits_bucket(l, "to6", 1, 1)->match.destination = (struct weir_net_set){&v6, 1, false};
	limits_bucket(l, "not4", 1, 1)->match.source = (struct weir_net_set){&v4, 1, true};
	c = limits_compile(l, NULL);
	assert_int_equal(c->policy.family4, 0x15);
	assert_int_equal(c->policy.family6, 0x1a);
	/* no state where nothing can match */
	assert_int_equal(c->policy.limit[1].word4, WEIR_NO_LIMIT);
	assert_int_equal(c->policy.limit[0].word6, WEIR_NO_LIMIT);
	weir_compiled_free(c);
	l->item[2].match.destination = (struct weir_net_set){&v6, 1, false};
	LIMITS_REFUSE(l, "limit from4: matches no packet", "different families");
	free(l);
}

static void conditions_that_exclude_each_other_are_refused(void **state)
{
	struct weir_port_range dns = {53, 53};
	struct limits *l = limits_new();
	struct weir_conf_match *m = &limits_bucket(l, "a", 1, 1)->match;

	(void)state;
	m->any_protocol = false;
	m->protocol[17] = true;
	m->has_tcp_flags = true;
	m->tcp_flags_set = 2;
	LIMITS_REFUSE(l, "limit a: matches no packet", "protocol tcp");
	m->protocol[6] = true;
	m->tcp_flags_clear = 2;
	LIMITS_REFUSE(l, "both in set and in clear");
	m->has_tcp_flags = false;
	m->protocol[6] = m->protocol[17] = false;
	m->protocol[1] = true;
	m->destination_port = (struct weir_port_set){&dns, 1, false};
	LIMITS_REFUSE(l, "ports without protocol tcp or udp");
	free(l);
}

static void prefixes_that_several_limits_name_are_one_entry(void **state)
{
	struct weir_prefix net = {.family = 4, .len = 8, .addr.ip = {192}};
	struct limits *l = limits_new();
	struct weir_compiled *c;

	(void)state;
	limits_bucket(l, "a", 1, 1)->match.source = (struct weir_net_set){&net, 1, false};
	limits_bucket(l, "b", 1, 1)->match.source = (struct weir_net_set){&net, 1, true};
	c = limits_compile(l, NULL);
	assert_int_equal(c->n_nets, 1);
	assert_int_equal(c->nets[0].mask, 3);
	assert_int_equal(c->policy.not_src_net, 2);
	weir_compiled_free(c);
	free(l);
}

static void too_many_prefix_lengths_are_refused(void **state)
{
	struct weir_prefix net[17];
	struct limits *l = limits_new();
	struct weir_net_set *s = &limits_bucket(l, "a", 1, 1)->match.source;

	(void)state;
	for (int i = 0; i < 17; i++)
		net[i] = (struct weir_prefix){.family = 6, .len = 16 + i, .addr.ip = {0x20}};
	*s = (struct weir_net_set){net, 16, false};
	weir_compiled_free(limits_compile(l, NULL));
	s->n = 17;
	LIMITS_REFUSE(l, "source prefixes", "more than 16 different IPv6 lengths");
	free(l);
}

static void too_many_kinds_of_ports_are_refused(void **state)
{
	struct limits *l = limits_new();
	struct weir_port_range *bits[9];
	struct weir_compiled *c;
	char name[32];

	(void)state;
	/* Limit i names the ports with bit i: 2^8 kinds of ports fit (one of them is named by none), 2^9 do not. */
	for (int i = 0; i < 9; i++) {
		struct weir_port_set *s;
		size_t n = 0;

		(void)snprintf(name, sizeof(name), "l%d", i);
		s = &limits_bucket(l, name, 1, 1)->match.destination_port;
		bits[i] = calloc(512, sizeof(*bits[i]));
		for (__u16 p = 0; p < 512; p++)
			if (p >> i & 1)
				bits[i][n++] = (struct weir_port_range){p, p};
		*s = (struct weir_port_set){bits[i], n, false};
	}
	LIMITS_REFUSE(l, "destination_port", "more than 255 kinds");
	l->conf.n_limits = 8;
	c = limits_compile(l, NULL);
	for (int p = 0; p < 256; p++)
		assert_int_equal(c->policy.dport_mask[c->policy.dport_class[p]] & 0xff, p);
	weir_compiled_free(c);
	for (int i = 0; i < 9; i++)
		free(bits[i]);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks_say_what_the_configuration_says),
		cmocka_unit_test(the_rest_of_a_datagram_has_no_ports_and_no_flags),
		cmocka_unit_test(protocols_and_prefixes_choose_the_family),
		cmocka_unit_test(conditions_that_exclude_each_other_are_refused),
		cmocka_unit_test(prefixes_that_several_limits_name_are_one_entry),
		cmocka_unit_test(too_many_prefix_lengths_are_refused),
		cmocka_unit_test(too_many_kinds_of_ports_are_refused),
	};

	return cmocka_run_group_tests_name("compile_match", tests, NULL, NULL);
}
