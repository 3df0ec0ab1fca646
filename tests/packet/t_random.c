/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A million random packets, mutated from valid ones and pure noise, half through each program: each
 * gets exactly one named verdict, and the counters add up to what was sent. The numbers are the
 * same in every run.
 */
#include "tests/packet/packet_test.h"

#define ROUNDS 500000 /* on each side */

static struct pkt mutated(uint64_t *seed)
{
	size_t n;
	const struct pkt_shape *s = pkt_shapes(&n);
	struct pkt p = s[pkt_random(seed) % n].p;
	uint32_t changes = (uint32_t)(pkt_random(seed) % 5);

	for (uint32_t i = 0; i < changes; i++)
		p.data[pkt_random(seed) % (p.len < 90 ? p.len : 90)] = (uint8_t)pkt_random(seed);
	if (pkt_random(seed) % 8 == 0) /* a word, so that lengths become large */
		memset(p.data + 14 + pkt_random(seed) % 40, 0xff, 2);
	if (pkt_random(seed) % 4 == 0)
		p = pkt_cut(p, 14 + (uint32_t)(pkt_random(seed) % (p.len - 13)));
	return p;
}

static struct pkt noise(uint64_t *seed)
{
	static const uint16_t type[] = {0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8};
	struct pkt p = {.len = 14 + (uint32_t)(pkt_random(seed) % 140)};
	uint64_t r;

	for (uint32_t i = 0; i < p.len; i++)
		p.data[i] = (uint8_t)(pkt_random(seed) >> 32);
	r = pkt_random(seed);
	if (r & 7) { /* mostly something that the parser looks into */
		p.data[12] = (uint8_t)(type[(r >> 8) % 5] >> 8);
		p.data[13] = (uint8_t)type[(r >> 8) % 5];
	}
	if ((r & 0x30) && p.len > 14)
		p.data[14] = p.data[12] == 0x08 ? 0x45 : 0x60;
	return p;
}

static void fling(struct xdp_run *x, struct pkt (*make)(uint64_t *seed), uint64_t seed)
{
	struct weir_counters before[XDP_SIDES], after;
	uint64_t bytes[XDP_SIDES] = {0}, drops[XDP_SIDES] = {0};

	for (int i = 0; i < XDP_SIDES; i++)
		xdp_counters(&x->side[i], &before[i]);
	for (int k = 0; k < ROUNDS; k++) {
		struct pkt p = make(&seed);
		struct xdp_side *s = &x->side[k & 1];
		int action = xdp_send_raw(s, p.data, p.len, 1);

		if (action != XDP_PASS && action != XDP_DROP) {
			pkt_print(stderr, &p);
			fail_msg("packet %d: action %d", k, action);
		}
		bytes[k & 1] += p.len;
		drops[k & 1] += action == XDP_DROP;
	}
	for (int i = 0; i < XDP_SIDES; i++) {
		uint64_t packets = 0, sum = 0, dropped = 0;

		xdp_counters(&x->side[i], &after);
		for (unsigned r = 0; r < WEIR_REASON_MAX; r++) {
			uint64_t d = xdp_count(&after.reason, r)->packets -
				     xdp_count(&before[i].reason, r)->packets;

			packets += d;
			sum += xdp_count(&after.reason, r)->bytes -
			       xdp_count(&before[i].reason, r)->bytes;
			dropped += WEIR_REASON_DROPS(r) ? d : 0;
		}
		assert_int_equal(packets, ROUNDS / 2);
		assert_int_equal(sum, bytes[i]);
		assert_int_equal(dropped, drops[i]);
		assert_true(dropped > ROUNDS / 40 && dropped < packets);
	}
}

static void mutated_packets_get_one_named_verdict(void **state)
{
	(void)state;
	fling(xdp_run_builtin(), mutated, 0x5eed);
}

static void noise_gets_one_named_verdict(void **state)
{
	(void)state;
	fling(xdp_run_builtin(), noise, 0xbeef);
}

static void program_and_host_agree_on_every_random_packet(void **state)
{
	struct xdp_run *x = xdp_run_bare();
	uint64_t seed = 0xc0ffee;

	(void)state;
	for (int k = 0; k < 20000; k++) {
		struct pkt p = k & 1 ? mutated(&seed) : noise(&seed);
		struct weir_pkt w;
		int host = pkt_parse(&p, &w);
		int got = (int)xdp_verdict(x, &p);
		static const int of_class[] = {WEIR_PASS_DEFAULT, WEIR_PASS_ARP,
					       WEIR_PASS_NEIGHBOUR, WEIR_PASS_DHCP};

		if (host < 0)
			host = of_class[w.class];
		if (got != host) {
			pkt_print(stderr, &p);
			fail_msg("host says %s, program %s", xdp_reason_name((unsigned)host),
				 xdp_reason_name((unsigned)got));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutated_packets_get_one_named_verdict),
		cmocka_unit_test(noise_gets_one_named_verdict),
		cmocka_unit_test(program_and_host_agree_on_every_random_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
