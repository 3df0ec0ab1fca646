/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The traffic generator and the laboratory tell the truth: what was asked for arrives, whole and with
 * right checksums, and nothing is flooded by mistake. Everything else in tests/ leans on this.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/count.h"
#include "count.skel.h"
#include "lib/gen.h"
#include "lib/netns.h"
#include "lib/run.h"
#include "lib/wait.h"

#define SOME 1600 /* frames: each entry of the mixed list comes up 100 times */

struct fixture {
	struct lab lab;
	struct count *count;
};

static int setup(void **state)
{
	static struct fixture f;
	char err[LAB_ERR_BYTES];
	int saved, r;

	if (lab_open(&f.lab, &(struct lab_opts){.queues = 2}, err) < 0) {
		print_error("lab: %s\n", err);
		return -1;
	}
	f.count = count__open_and_load();
	if (!f.count) {
		lab_close(&f.lab);
		return -1;
	}
	saved = lab_enter(&f.lab, LAB_WEIR);
	r = bpf_xdp_attach(f.lab.ifindex[LAB_WEIR], bpf_program__fd(f.count->progs.count_frame),
			   XDP_FLAGS_DRV_MODE, NULL);
	lab_leave(saved);
	*state = &f;
	return r;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (!f)
		return 0;
	count__destroy(f->count);
	lab_close(&f->lab);
	return 0;
}

static void forget(struct fixture *f)
{
	int map = bpf_map__fd(f->count->maps.count_sources);
	uint64_t key;

	while (bpf_map_get_next_key(map, NULL, &key) == 0)
		assert_return_code(bpf_map_delete_elem(map, &key), errno);
	f->count->bss->count_seen = (struct count_seen){};
	f->count->data->count_action = XDP_DROP;
}

/* Send @frames; everything sent is received, and well formed. */
static struct count_seen flood(struct fixture *f, struct gen_opts o, uint64_t frames)
{
	struct count_seen *seen = &f->count->bss->count_seen;
	char err[GEN_ERR_BYTES] = "";
	struct gen_result res;
	struct gen *g;

	forget(f);
	o.dev = LAB_GEN_DEV;
	o.netns_fd = f->lab.netns_fd[LAB_GEN];
	if (gen_open(&o, err, sizeof(err), &g) < 0)
		fail_msg("gen_open: %s", err);
	assert_int_equal(gen_run(g, frames, 0, &res), 0);
	assert_int_equal(res.frames, frames);
	assert_int_equal(res.lost, 0);
	assert_true(wait_for(__atomic_load_n(&seen->frames, __ATOMIC_RELAXED) >= frames, 2000));
	assert_int_equal(seen->frames, frames);
	assert_int_equal(seen->bytes, frames * gen_frame_bytes(g));
	assert_int_equal(seen->other, 0);
	assert_int_equal(seen->bad_length, 0);
	assert_int_equal(seen->bad_ip_csum, 0);
	assert_int_equal(seen->bad_l4_csum, 0);
	gen_close(g);
	return *seen;
}

static void every_kind_arrives_whole(void **state)
{
	static const enum gen_proto kinds[] = {GEN_UDP,	 GEN_SYN,  GEN_ACK,
					       GEN_ICMP, GEN_FRAG, GEN_FRAG_FIRST};
	static const uint16_t sizes[] = {0, 90, 131, 1514};

	for (unsigned int i = 0; i < 6 * 4 * 2; i++) {
		struct gen_opts o = {.proto = kinds[i % 6],
				     .size = sizes[i / 6 % 4],
				     .ipv6 = i >= 24,
				     .any_source = true};
		struct count_seen s = flood(*state, o, SOME);

		assert_int_equal(o.ipv6 ? s.ip6 : s.ip4, SOME);
		assert_int_equal(s.udp, o.proto == GEN_UDP ? SOME : 0);
		assert_int_equal(s.syn, o.proto == GEN_SYN ? SOME : 0);
		assert_int_equal(s.ack, o.proto == GEN_ACK ? SOME : 0);
		assert_int_equal(s.icmp, o.proto == GEN_ICMP ? SOME : 0);
		assert_int_equal(s.frag_last, o.proto == GEN_FRAG ? SOME : 0);
		assert_int_equal(s.frag_first, o.proto == GEN_FRAG_FIRST ? SOME : 0);
	}
}

static void mixed_has_its_shares(void **state)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct count_seen s =
			flood(*state,
			      (struct gen_opts){.proto = GEN_MIXED, .ipv6 = v6, .sources = 1000},
			      SOME);

		assert_int_equal(s.udp, SOME / 16 * 6);
		assert_int_equal(s.syn, SOME / 16 * 4);
		assert_int_equal(s.ack, SOME / 16 * 2);
		assert_int_equal(s.icmp, SOME / 16 * 2);
		assert_int_equal(s.frag_last, SOME / 16);
		assert_int_equal(s.frag_first, SOME / 16);
	}
}

static void tags_are_as_asked(void **state)
{
	struct count_seen s = flood(*state, (struct gen_opts){.vlan = 7}, SOME);

	assert_int_equal(s.vlan, SOME);
	assert_int_equal(s.last_tag, 7);
	s = flood(*state,
		  (struct gen_opts){.vlan = 4094, .vlan2 = 1, .ipv6 = true, .proto = GEN_SYN},
		  SOME);
	assert_int_equal(s.vlan2, SOME);
	assert_int_equal(s.last_tag, 4094);
	assert_int_equal(s.last_tag2, 1);
	assert_int_equal(s.syn, SOME);
}

static void ports_are_as_asked(void **state)
{
	struct count_seen s = flood(*state, (struct gen_opts){.sport = 53, .dport = 4242}, SOME);

	assert_int_equal(s.last_sport, 53);
	assert_int_equal(s.last_dport, 4242);
	s = flood(*state, (struct gen_opts){.proto = GEN_ACK, .rand_dport = true}, SOME);
	assert_true(s.last_sport >= 1024);
	assert_true(s.last_dport >= 1024);
}

static void sources_in_turn_are_exact(void **state)
{
	static const unsigned int n[] = {1, 2, 1000, 20000};

	for (int i = 0; i < 4; i++) {
		struct gen_opts o = {.src = "198.51.100.1", .sources = n[i], .pick = GEN_IN_TURN};
		struct count_seen s = flood(*state, o, 2 * n[i]);

		assert_int_equal(s.sources, n[i]);
		assert_int_equal(ntohl(s.last_ip4), 0xc6336401 + n[i] - 1);
		o.ipv6 = true;
		o.src = NULL;
		assert_int_equal(flood(*state, o, 2 * n[i]).sources, n[i]);
	}
}

static void drawn_sources_are_spread(void **state)
{
	struct count_seen s = flood(*state, (struct gen_opts){.sources = 1000}, 20000);

	assert_int_equal(s.sources, 1000); /* each missed with probability e^-20 */
	s = flood(*state, (struct gen_opts){.sources = 20000}, 20000);
	assert_in_range(s.sources, 20000 * 60 / 100, 20000 * 66 / 100); /* 1 - 1/e */
	s = flood(*state, (struct gen_opts){.any_source = true}, 20000);
	assert_in_range(s.sources, 19980, 20000);
	assert_int_equal(s.sources_full, 0);
}

static void two_threads_share_the_work(void **state)
{
	const unsigned int cpus[] = {0, 1};
	struct gen_opts o = {.cpus = cpus, .n_cpus = 2, .sources = 1000, .pick = GEN_IN_TURN};

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		print_message("skip: one CPU only\n");
		skip();
	}
	assert_int_equal(flood(*state, o, 1000).sources, 1000);
	assert_int_equal(flood(*state, o, 1).frames, 1);
}

static void rate_is_kept(void **state)
{
	struct fixture *f = *state;
	struct gen_opts o = {.dev = LAB_GEN_DEV,
			     .netns_fd = f->lab.netns_fd[LAB_GEN],
			     .rate_pps = 20000};
	char err[GEN_ERR_BYTES];
	struct gen_result res;
	struct gen *g;

	forget(f);
	assert_int_equal(gen_open(&o, err, sizeof(err), &g), 0);
	assert_int_equal(gen_run(g, 0, 500000000, &res), 0);
	gen_close(g);
	assert_in_range(res.frames, 8000, 10002); /* never more; less if the machine is busy */
}

static void background_flood_stops(void **state)
{
	struct fixture *f = *state;
	struct gen_opts o = {.dev = LAB_GEN_DEV, .netns_fd = f->lab.netns_fd[LAB_GEN]};
	char err[GEN_ERR_BYTES];
	struct gen_result res;
	struct gen *g;

	forget(f);
	assert_int_equal(gen_open(&o, err, sizeof(err), &g), 0);
	assert_int_equal(gen_run(g, 0, 0, &res), -EINVAL);
	assert_int_equal(gen_start(g, 0, 0), 0);
	assert_int_equal(gen_start(g, 0, 0), -EBUSY);
	assert_true(wait_for(gen_sent(g) > 1000, 5000));
	assert_false(gen_is_done(g));
	gen_stop(g);
	assert_true(wait_for(gen_is_done(g), 5000));
	assert_int_equal(gen_join(g, &res), 0);
	assert_int_equal(res.frames, gen_sent(g));
	assert_int_equal(gen_join(g, &res), -EINVAL);
	assert_int_equal(gen_start(g, 0, 0), 0);
	gen_close(g); /* stops by itself */
}

/* The receiver makes frames shorter; they come back to the generator that way. */
static void the_stack_takes_them(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
	struct gen_opts o = {.dev = LAB_GEN_DEV, .netns_fd = f->lab.netns_fd[LAB_GEN], .size = 200};
	char buf[512], err[GEN_ERR_BYTES];
	struct gen *g;
	int saved, fd;

	saved = lab_enter(&f->lab, LAB_WEIR);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	lab_leave(saved);
	assert_return_code(fd, errno);
	assert_return_code(bind(fd, (struct sockaddr *)&a, sizeof(a)), errno);
	for (int v6 = 0; v6 < 2; v6++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		forget(f);
		f->count->data->count_action = XDP_PASS;
		o.ipv6 = v6;
		assert_int_equal(gen_open(&o, err, sizeof(err), &g), 0);
		assert_int_equal(gen_run(g, 3, 0, NULL), 0);
		gen_close(g);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(poll(&p, 1, 5000), 1);
			assert_int_equal(recv(fd, buf, sizeof(buf), 0),
					 200 - 14 - (v6 ? 40 : 20) - 8);
		}
	}
	close(fd);
}

static int open_error(struct gen_opts o, char *err)
{
	struct gen *g;
	int r = gen_open(&o, err, GEN_ERR_BYTES, &g);

	if (r == 0)
		gen_close(g);
	return r;
}

static void only_veth_pairs_are_flooded(void **state)
{
	struct fixture *f = *state;
	int fd = f->lab.netns_fd[LAB_GEN];
	char err[GEN_ERR_BYTES], out[256];

	assert_int_equal(open_error((struct gen_opts){.dev = "lo", .netns_fd = fd}, err),
			 -EOPNOTSUPP);
	assert_non_null(strstr(err, "lo is "));
	assert_non_null(strstr(err, "not a veth"));
	assert_int_equal(open_error((struct gen_opts){.dev = "none", .netns_fd = fd}, err),
			 -ENODEV);
	assert_non_null(strstr(err, "none"));
	assert_int_equal(open_error((struct gen_opts){.netns_fd = fd}, err), -EINVAL);

	assert_int_equal(lab_cmd(&f->lab, LAB_GEN, out, sizeof(out), "ip", "link", "add", "near0",
				 "up", "type", "veth", "peer", "name", "near1"),
			 0);
	assert_int_equal(open_error((struct gen_opts){.dev = "near0", .netns_fd = fd}, err),
			 -EOPNOTSUPP);
	assert_non_null(strstr(err, "near0"));
	assert_int_equal(open_error((struct gen_opts){.dev = "near0", .netns_fd = fd, .both = true},
				    err),
			 0);
	assert_int_equal(lab_cmd(&f->lab, LAB_GEN, out, sizeof(out), "ip", "link", "del", "near0"),
			 0);
}

static void wrong_options_are_named(void **state)
{
	struct fixture *f = *state;
	const struct gen_opts ok = {.dev = LAB_GEN_DEV, .netns_fd = f->lab.netns_fd[LAB_GEN]};
	char err[GEN_ERR_BYTES];
	struct gen_opts o = ok;

	o.src = "255.255.255.0";
	o.sources = 257;
	assert_int_equal(open_error(o, err), -ERANGE);
	o.sources = 256;
	assert_int_equal(open_error(o, err), 0);
	o = ok;
	o.dst = "2001:db8::1";
	assert_int_equal(open_error(o, err), -EINVAL);
	assert_non_null(strstr(err, "2001:db8::1"));
	o = ok;
	o.size = 41;
	assert_int_equal(open_error(o, err), -EMSGSIZE);
	o.size = 1519;
	assert_int_equal(open_error(o, err), -EMSGSIZE);
	o = ok;
	o.dst_mac = "02:00:00:00:00";
	assert_int_equal(open_error(o, err), -EINVAL);
	o = ok;
	o.vlan2 = 5;
	assert_int_equal(open_error(o, err), -EINVAL);
	o = ok;
	o.cpus = (const unsigned int[]){100000};
	o.n_cpus = 1;
	assert_int_equal(open_error(o, err), -EINVAL);
	assert_non_null(strstr(err, "100000"));
	o = ok;
	o.batch = 257;
	assert_int_equal(open_error(o, err), -EINVAL);
}

static void full_ring_is_counted_as_lost(void **state)
{
	struct fixture *f = *state;
	struct gen_opts o = {.dev = LAB_GEN_DEV, .netns_fd = f->lab.netns_fd[LAB_GEN]};
	char err[GEN_ERR_BYTES];
	struct gen_result res;
	struct gen *g;

	forget(f);
	assert_int_equal(lab_cmd(&f->lab, LAB_WEIR, NULL, 0, "ip", "link", "set", LAB_WEIR_DEV,
				 "down"),
			 0);
	assert_int_equal(gen_open(&o, err, sizeof(err), &g), 0);
	assert_int_equal(gen_run(g, 1000, 0, &res), 0);
	assert_int_equal(f->count->bss->count_seen.frames, 0);
	assert_int_equal(res.lost, 1000);
	gen_close(g);
	assert_int_equal(lab_cmd(&f->lab, LAB_WEIR, NULL, 0, "ip", "link", "set", LAB_WEIR_DEV,
				 "up"),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_arrives_whole),
		cmocka_unit_test(mixed_has_its_shares),
		cmocka_unit_test(tags_are_as_asked),
		cmocka_unit_test(ports_are_as_asked),
		cmocka_unit_test(sources_in_turn_are_exact),
		cmocka_unit_test(drawn_sources_are_spread),
		cmocka_unit_test(two_threads_share_the_work),
		cmocka_unit_test(rate_is_kept),
		cmocka_unit_test(background_flood_stops),
		cmocka_unit_test(the_stack_takes_them),
		cmocka_unit_test(only_veth_pairs_are_flooded),
		cmocka_unit_test(wrong_options_are_named),
		cmocka_unit_test(full_ring_is_counted_as_lost),
	};

	if (run_lacks_root())
		return 77;
	return cmocka_run_group_tests(tests, setup, teardown);
}
