/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every truncation of every packet shape: cut by the wire (the IP header promises more than there
 * is), and cut with the IP length made to fit (the packet itself ends early). What is expected
 * comes from where the builder put the layers, not from the parser.
 */
#include "tests/packet/packet_test.h"

static enum pkt_type layer_at(const struct pkt *p, uint32_t off, uint32_t *ret_into)
{
	int i = p->n_layers - 1;

	while (i > 0 && p->layer[i].off > off)
		i--;
	*ret_into = off - p->layer[i].off;
	return (enum pkt_type)p->layer[i].kind;
}

static uint32_t first_ip(const struct pkt *p, enum pkt_type *ret_kind)
{
	for (int i = 0; i < p->n_layers; i++)
		if (p->layer[i].kind == PKT_IP4 || p->layer[i].kind == PKT_IP6) {
			*ret_kind = (enum pkt_type)p->layer[i].kind;
			return p->layer[i].off;
		}
	return 0;
}

/* Bytes of the first IP header alone. */
static uint32_t ip_header(const struct pkt *p, enum pkt_type kind, uint32_t off)
{
	return kind == PKT_IP6 ? 40 : (p->data[off] & 15) * 4u;
}

/* The reason for the first @n bytes of @p; -1: no header was cut. */
static int cut_reason(const struct pkt *p, uint32_t n)
{
	enum pkt_type ip = PKT_END;
	uint32_t off = first_ip(p, &ip), into;

	if (n < 14)
		return WEIR_DROP_ETH_TRUNCATED;
	if (ip == PKT_END || n < off) {
		switch (layer_at(p, n, &into)) {
		case PKT_VLAN:
			return WEIR_DROP_VLAN_TRUNCATED;
		case PKT_ARP:
			return WEIR_DROP_ARP_TRUNCATED;
		default:
			return -1;
		}
	}
	if (n < off + ip_header(p, ip, off))
		return ip == PKT_IP4 ? WEIR_DROP_IP4_TRUNCATED : WEIR_DROP_IP6_TRUNCATED;
	return ip == PKT_IP4 ? WEIR_DROP_IP4_LENGTH : WEIR_DROP_IP6_LENGTH;
}

static void frame_that_ends_early_has_a_reason(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	size_t n_shapes;
	const struct pkt_shape *s = pkt_shapes(&n_shapes);

	(void)state;
	for (size_t i = 0; i < n_shapes; i++)
		FOR_EACH_CUT(s[i].p, n) {
			struct pkt cut = pkt_cut(s[i].p, n);
			int want = cut_reason(&s[i].p, n), got;
			struct weir_pkt w;

			got = n < 14 ? pkt_parse(&cut, &w) : (int)xdp_verdict(x, &cut);
			if (want >= 0 ? got != want
				      : got != WEIR_PASS_NON_IP && got != WEIR_PASS_ARP)
				fail_msg("%s cut to %u: %s", s[i].name, n,
					 xdp_reason_name((unsigned)got));
		}
}

/* The reason for a packet that ends @n bytes into the frame and says so; -1: no header was cut. */
static int short_reason(const struct pkt *p, uint32_t n)
{
	uint32_t into;

	switch (layer_at(p, n, &into)) {
	case PKT_IP6_EXT:
	case PKT_FRAG:
		return WEIR_DROP_IP6_EXT_TRUNCATED;
	case PKT_TCP:
	case PKT_TCP_OPT:
		return WEIR_DROP_TCP_TRUNCATED;
	case PKT_UDP:
		return WEIR_DROP_UDP_TRUNCATED;
	case PKT_ICMP4:
	case PKT_ICMP6:
		return into < 8 ? WEIR_DROP_ICMP_TRUNCATED : -1;
	default:
		return -1;
	}
}

static bool has_layer(const struct pkt *p, enum pkt_type kind)
{
	for (int i = 0; i < p->n_layers; i++)
		if (p->layer[i].kind == kind)
			return true;
	return false;
}

/* Shapes with one level of headers and no fragments: where layers alone say what is right. */
static bool plain(const struct pkt *p)
{
	int ips = 0;

	for (int i = 0; i < p->n_layers; i++)
		ips += p->layer[i].kind == PKT_IP4 || p->layer[i].kind == PKT_IP6;
	if (ips != 1)
		return false;
	for (int i = 0; i < p->n_layers; i++)
		if (p->layer[i].kind == PKT_IP4 &&
		    ((p->data[p->layer[i].off + 6] & 0x3f) || p->data[p->layer[i].off + 7]))
			return false;
	return true;
}

static struct pkt shorten(struct pkt p, uint32_t n)
{
	enum pkt_type ip = PKT_END;
	uint32_t off = first_ip(&p, &ip), len = n - off - (ip == PKT_IP6 ? 40 : 0);

	p = pkt_cut(p, n);
	off += ip == PKT_IP6 ? 4 : 2;
	p.data[off] = (uint8_t)(len >> 8);
	p.data[off + 1] = (uint8_t)len;
	return p;
}

static void packet_that_ends_early_has_a_reason(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	size_t n_shapes, checked = 0;
	const struct pkt_shape *s = pkt_shapes(&n_shapes);

	(void)state;
	for (size_t i = 0; i < n_shapes; i++) {
		enum pkt_type ip = PKT_END;
		uint32_t off = first_ip(&s[i].p, &ip);

		if (ip == PKT_END)
			continue;
		for (uint32_t n = off + ip_header(&s[i].p, ip, off); n < s[i].p.len; n++) {
			struct pkt cut = shorten(s[i].p, n);
			int want = short_reason(&s[i].p, n), got = (int)xdp_verdict(x, &cut);

			if (!plain(&s[i].p) || has_layer(&s[i].p, PKT_FRAG))
				continue; /* a named verdict is all that is asked */
			if (want < 0 && has_layer(&s[i].p, PKT_UDP) &&
			    n >= pkt_off(&s[i].p, PKT_UDP) + 8)
				want = WEIR_DROP_UDP_LENGTH;
			if (want >= 0 ? got != want : (bool)WEIR_REASON_DROPS(got))
				fail_msg("%s shortened to %u: %s", s[i].name, n,
					 xdp_reason_name((unsigned)got));
			checked++;
		}
	}
	assert_true(checked > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_that_ends_early_has_a_reason),
		cmocka_unit_test(packet_that_ends_early_has_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
