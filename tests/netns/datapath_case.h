/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The datapath object against a real kernel, over a veth pair, in a network namespace and a bpffs of the test's own. */
#ifndef WEIR_TEST_DATAPATH_CASE_H
#define WEIR_TEST_DATAPATH_CASE_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "lib/netns.h"
#include "lib/pkt.h"
#include "lib/prefix.h"
#include "lib/run.h"
#include "lib/wait.h"
#include "user/base/cleanup.h"
#include "user/datapath/datapath.h"
#include "user/datapath/iface.h"

#define BPFFS  "/sys/fs/bpf"
#define FOLDER BPFFS "/weir"
#define BURST  10

struct fix {
	struct weir_conf conf;
	struct weir_conf_limit limit[2];
	char *ifaces[2];
	struct weir_datapath *d;
	struct weir_error e;
};

static inline int sh_ip(const char *const argv[])
{
	char out[1024] = "";
	int r = run_cmdv(-1, out, sizeof(out), argv);

	if (r)
		print_message("ip %s %s: %s\n", argv[1], argv[2], out);
	return r;
}
#define ip(...) sh_ip((const char *const[]){"ip", __VA_ARGS__, NULL})

static inline int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (!f || ip("link", "add", "v0", "type", "veth", "peer", "name", "v1") ||
	    ip("link", "set", "v0", "up") || ip("link", "set", "v1", "up"))
		return -1;
	f->limit[0] = (struct weir_conf_limit){
		.name = "per-source",
		.match = {.any_protocol = true, .fragment = -1},
		.per = WEIR_PER_SOURCE,
		.ipv4_prefix = 32,
		.ipv6_prefix = 64,
		.algorithm = WEIR_ALGO_TOKEN_BUCKET,
		.rate = 1,
		.rate_per_ns =
			3600000000000ull, /* no token comes back within a test, however slow */
		.burst = BURST,
		.mode = WEIR_MODE_ENFORCE,
	};
	f->ifaces[0] = (char *)"v0";
	f->ifaces[1] = (char *)"v1";
	f->conf = (struct weir_conf){
		.instance = "weir",
		.interfaces = f->ifaces,
		.n_interfaces = 2,
		.bpffs = (char *)BPFFS,
		.events_per_second = 20,
		.packet_sources_bytes = 1 << 18,
		.limits = f->limit,
		.n_limits = 1,
	};
	*state = f;
	return 0;
}

static inline int tear_down(void **state)
{
	struct fix *f = *state;
	struct weir_error e;
	int r;

	weir_datapath_free(f->d);
	(void)weir_datapath_detach_pinned(BPFFS, "weir", NULL, &e); /* often it is gone already */
	r = ip("link", "del", "v0");
	free(f);
	return r;
}

static inline void open_it(struct fix *f)
{
	f->e.text[0] = '\0';
	if (weir_datapath_open(&f->conf, &f->d, &f->e) < 0)
		fail_msg("open: %s", f->e.text);
}

static inline void apply_it(struct fix *f)
{
	if (weir_datapath_apply(f->d, &f->conf, f->conf.mode, NULL, &f->e) < 0)
		fail_msg("apply: %s", f->e.text);
}

static inline void attach_it(struct fix *f, const char *ifname)
{
	if (weir_datapath_attach(f->d, ifname, &f->e) < 0)
		fail_msg("attach: %s", f->e.text);
}

static inline void reopen(struct fix *f)
{
	weir_datapath_free(f->d);
	f->d = NULL;
	open_it(f);
}

static inline bool exists(const char *name)
{
	char path[256];
	struct stat s;

	(void)snprintf(path, sizeof(path), FOLDER "/%s", name);
	return stat(path, &s) == 0;
}

/* Verdict of the pinned program for one packet: on the real maps. */
static inline __u32 send_it(struct pkt p)
{
	_cleanup_close_ int fd = bpf_obj_get(FOLDER "/prog");
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = p.data, .data_size_in = p.len);

	assert_true(fd >= 0);
	assert_int_equal(bpf_prog_test_run_opts(fd, &o), 0);
	return o.retval;
}

static inline __u32 send_from(const char *src)
{
	return send_it(PKT(ETH(), IP4(.src = src), UDP()));
}

static inline int passed_of(const char *src, int n)
{
	int passed = 0;

	while (n--)
		passed += send_from(src) == XDP_PASS;
	return passed;
}

static inline struct weir_iface iface(const char *name)
{
	struct weir_iface i;

	assert_int_equal(weir_iface_get(name, &i, NULL), 0);
	return i;
}

static inline struct weir_list_item item(const char *text, __u64 expires_ns)
{
	struct weir_list_item i = {.expires_ns = expires_ns,
				   .origin = 1,
				   .prefix = prefix_of(text)};

	return i;
}

/* What the pinned maps say of their version. */
static inline void set_abi(__u32 abi)
{
	_cleanup_close_ int fd = bpf_obj_get(FOLDER "/meta");
	struct weir_meta meta;
	__u32 zero = 0;

	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &meta), 0);
	meta.abi = abi;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &meta, BPF_ANY), 0);
}

/* Somebody else's program. */
static inline int foreign_prog(void)
{
	struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "someone_else", "GPL", pass, ARRAY_LEN(pass),
			       NULL);

	assert_true(fd >= 0);
	return fd;
}

static inline void assert_says(const char *text, const char *word)
{
	if (!strstr(text, word))
		fail_msg("\"%s\" does not say \"%s\"", text, word);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* What main() returns: cmocka's result, 77 without root. */
#define datapath_run(name, tests) datapath_run_tests(name, tests, ARRAY_LEN(tests))

static inline int datapath_run_tests(const char *name, const struct CMUnitTest *tests, size_t n)
{
	if (run_lacks_root())
		return 77;
	if (lab_mounts() < 0 || unshare(CLONE_NEWNET) < 0) {
		print_error("cannot make a laboratory\n");
		return 1;
	}
	return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

#endif
