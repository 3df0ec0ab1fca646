/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The datapath object against a real kernel: what it loads, pins, adopts, attaches and takes away again. Everything
 * happens in a network namespace and a bpffs of the test's own.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "lib/netns.h"
#include "lib/pkt.h"
#include "lib/prefix.h"
#include "lib/run.h"
#include "user/base/cleanup.h"
#include "user/datapath/datapath.h"
#include "user/datapath/iface.h"

#define BPFFS  "/sys/fs/bpf"
#define FOLDER BPFFS "/weir"
#define BURST  10

/* --- fixture -------------------------------------------------------------------------------- */

struct fix {
	struct weir_conf conf;
	struct weir_conf_limit limit[2];
	char *ifaces[2];
	struct weir_datapath *d;
	struct weir_error e;
};

static char object_path[512];

static int sh_ip(const char *const argv[])
{
	char out[1024] = "";
	int r = run_cmdv(-1, out, sizeof(out), argv);

	if (r)
		print_message("ip %s %s: %s\n", argv[1], argv[2], out);
	return r;
}
#define ip(...) sh_ip((const char *const[]){"ip", __VA_ARGS__, NULL})

static int set_up(void **state)
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

static int tear_down(void **state)
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

static void open_it(struct fix *f)
{
	f->e.text[0] = '\0';
	if (weir_datapath_open(&f->conf, &f->d, &f->e) < 0)
		fail_msg("open: %s", f->e.text);
}

static void apply_it(struct fix *f)
{
	if (weir_datapath_apply(f->d, &f->conf, f->conf.mode, NULL, &f->e) < 0)
		fail_msg("apply: %s", f->e.text);
}

static void attach_it(struct fix *f, const char *ifname)
{
	if (weir_datapath_attach(f->d, ifname, &f->e) < 0)
		fail_msg("attach: %s", f->e.text);
}

static void reopen(struct fix *f)
{
	weir_datapath_free(f->d);
	f->d = NULL;
	open_it(f);
}

static bool exists(const char *name)
{
	char path[256];
	struct stat s;

	(void)snprintf(path, sizeof(path), FOLDER "/%s", name);
	return stat(path, &s) == 0;
}

/* Verdict of the pinned program for one UDP packet: on the real maps. */
static __u32 send_from(const char *src)
{
	struct pkt p = PKT(ETH(), IP4(.src = src), UDP());
	_cleanup_close_ int fd = bpf_obj_get(FOLDER "/prog");
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = p.data, .data_size_in = p.len);

	assert_true(fd >= 0);
	assert_int_equal(bpf_prog_test_run_opts(fd, &o), 0);
	return o.retval;
}

static int passed_of(const char *src, int n)
{
	int passed = 0;

	while (n--)
		passed += send_from(src) == XDP_PASS;
	return passed;
}

static struct weir_iface iface(const char *name)
{
	struct weir_iface i;

	assert_int_equal(weir_iface_get(name, &i, NULL), 0);
	return i;
}

static struct weir_list_item item(const char *text, __u64 expires_ns)
{
	struct weir_list_item i = {.expires_ns = expires_ns,
				   .origin = 1,
				   .prefix = prefix_of(text)};

	return i;
}

static __u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000000000ull + (__u64)t.tv_nsec;
}

/* Somebody else's program. */
static int foreign_prog(void)
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

static void assert_says(const char *text, const char *word)
{
	if (!strstr(text, word))
		fail_msg("\"%s\" does not say \"%s\"", text, word);
}

/* --- open, pins, adoption ------------------------------------------------------------------- */

static void open_pins_program_and_every_map(void **state)
{
	static const char *const pin[] = {"prog",	  "meta",	  "spill",
					  "classes",	  "limits",	  "counters",
					  "events",	  "policy",	  "sources",
					  "sources6",	  "allows",	  "allows6",
					  "blocks",	  "blocks6",	  "guards",
					  "guards6",	  "filter",	  "nets",
					  "outer",	  "outer/policy", "outer/sources",
					  "outer/blocks", "outer/filter"};
	struct fix *f = *state;
	struct stat s;

	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_FRESH);
	assert_null(weir_datapath_policy(f->d));
	apply_it(f);
	for (size_t i = 0; i < ARRAY_LEN(pin); i++) {
		if (!exists(pin[i]))
			fail_msg("%s is not pinned", pin[i]);
	}
	assert_int_equal(stat(FOLDER, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0700);
}

static void bpftool_shows_entries_of_the_list_in_force(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it = item("198.51.100.7", 0);
	char out[4096] = "";
	int r;

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	r = run_cmd(-1, out, sizeof(out), "bpftool", "map", "dump", "pinned", FOLDER "/blocks");
	if (r < 0 || r == 127)
		skip();
	assert_says(out, "\"ip\": [198,51,100,7");
}

static void reopening_keeps_state_and_names(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	assert_non_null(weir_datapath_policy(f->d));
	assert_string_equal(
		weir_datapath_names(f->d)[weir_datapath_policy(f->d)->limit[0].stat].name,
		"per-source");
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(passed_of("192.0.2.10", 15), BURST);
}

static void a_second_agent_of_the_instance_is_refused(void **state)
{
	struct fix *f = *state;
	struct weir_datapath *second = NULL;

	open_it(f);
	assert_int_equal(weir_datapath_open(&f->conf, &second, &f->e), -EBUSY);
	assert_null(second);
	assert_says(f->e.text, "another agent");
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "weir", NULL, &f->e), -EBUSY);
}

static void without_root_it_is_said(void **state)
{
	struct fix *f = *state;
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct weir_datapath *d;

		if (setuid(65534) < 0)
			_exit(2);
		if (weir_datapath_open(&f->conf, &d, &f->e) != -EPERM ||
		    !strstr(f->e.text, "root is needed"))
			_exit(1);
		_exit(weir_datapath_detach_pinned(BPFFS, "weir", NULL, &f->e) != -EPERM ||
		      !strstr(f->e.text, "root is needed"));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_missing_bpffs_is_mounted_and_said(void **state)
{
	struct fix *f = *state;
	char dir[] = "/tmp/weir-bpffs-XXXXXX";

	assert_non_null(mkdtemp(dir));
	f->conf.bpffs = dir;
	open_it(f);
	assert_says(weir_datapath_notes(f->d), "mounted bpffs at /tmp/weir-bpffs-");
	weir_datapath_free(f->d);
	f->d = NULL;
	assert_int_equal(weir_datapath_detach_pinned(dir, "weir", NULL, &f->e), 0);
	assert_int_equal(umount(dir), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void no_bpffs_is_mounted_over_files(void **state)
{
	struct fix *f = *state;

	f->conf.bpffs = (char *)"/etc";
	assert_int_equal(weir_datapath_open(&f->conf, &f->d, &f->e), -ENOTEMPTY);
	assert_says(f->e.text, "would hide");
}

/* What the pinned maps say of their version. */
static void set_abi(__u32 abi)
{
	_cleanup_close_ int fd = bpf_obj_get(FOLDER "/meta");
	struct weir_meta meta;
	__u32 zero = 0;

	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &meta), 0);
	meta.abi = abi;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &meta, BPF_ANY), 0);
}

static void maps_of_another_abi_are_not_adopted(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	set_abi(99);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PARTLY);
	assert_says(weir_datapath_notes(f->d), "version 99");
	assert_null(weir_datapath_policy(f->d));
	apply_it(f);
	attach_it(f, "v0"); /* the old program is replaced all the same */
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
}

static void a_map_of_another_layout_is_made_anew_alone(void **state)
{
	struct fix *f = *state;
	int fd;

	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "classes", 4, 8, 4, NULL);
	assert_true(fd >= 0);
	assert_int_equal(unlink(FOLDER "/classes"), 0);
	assert_int_equal(bpf_obj_pin(fd, FOLDER "/classes"), 0);
	(void)close(fd);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PARTLY);
	assert_says(weir_datapath_notes(f->d), "anew: classes");
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
}

static void resizing_the_tables_copies_state(void **state)
{
	struct weir_table_use use[32];
	struct fix *f = *state;
	struct weir_list_item it = item("198.51.100.0/24", 0);
	int n;

	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	f->conf.packet_sources_bytes = 1 << 20;
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PARTLY);
	assert_says(weir_datapath_notes(f->d), "packet_sources");
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(send_from("198.51.100.1"), XDP_DROP);
	n = weir_datapath_memory(f->d, use, 32);
	for (int i = 0; i < n; i++) {
		if (strcmp(use[i].name, "sources") == 0)
			assert_int_equal(use[i].entries, (1 << 20) / 16);
	}
	reopen(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
}

/* --- applying --------------------------------------------------------------------------------- */

static void a_new_rate_keeps_state_and_a_new_limit_begins_empty(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	f->limit[0].burst = BURST + 5;
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), 5);
	f->limit[1] = f->limit[0];
	f->limit[1].burst = 3;
	(void)snprintf(f->limit[1].name, sizeof(f->limit[1].name), "second");
	f->conf.n_limits = 2;
	apply_it(f);
	assert_int_equal(weir_datapath_policy(f->d)->n_limits, 2);
	assert_int_equal(passed_of("192.0.2.9", 15), 0);
	assert_int_equal(passed_of("192.0.2.10", 15), 3);
}

static void a_limit_does_not_inherit_counts_of_its_index(void **state)
{
	struct weir_counters *c = calloc(1, sizeof(*c));
	struct fix *f = *state;
	unsigned stat = 0;

	assert_non_null(c);
	open_it(f);
	apply_it(f);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	for (int i = 0; i < WEIR_STATS_MAX; i++) { /* until the first index has another owner */
		(void)snprintf(f->limit[0].name, sizeof(f->limit[0].name), "limit-%d", i);
		apply_it(f);
	}
	stat = weir_datapath_policy(f->d)->limit[0].stat;
	assert_int_equal(passed_of("192.0.2.10", 15), BURST);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(weir_datapath_counters(f->d, c), 0);
		assert_int_equal(c->limit[stat].pass.packets, BURST);
		assert_int_equal(c->limit[stat].over.packets, 5);
		assert_int_equal(c->reason.pass_default.packets, 2 * BURST);
		reopen(f);
	}
	free(c);
}

static void monitor_mode_stops_nothing(void **state)
{
	struct weir_counters *c = calloc(1, sizeof(*c));
	struct fix *f = *state;

	assert_non_null(c);
	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_set_mode(f->d, WEIR_MODE_MONITOR, &f->e), 0);
	assert_int_equal(passed_of("192.0.2.9", 15), 15);
	assert_int_equal(weir_datapath_set_mode(f->d, WEIR_MODE_ENFORCE, &f->e), 0);
	assert_int_equal(passed_of("192.0.2.9", 5), 0);
	assert_int_equal(weir_datapath_counters(f->d, c), 0);
	assert_int_equal(c->reason.pass_default.packets, BURST);
	assert_int_equal(c->reason.pass_monitor.packets, 15 - BURST);
	assert_int_equal(c->reason.drop_limit.packets, 5);
	free(c);
}

static void a_refused_change_changes_nothing(void **state)
{
	struct fix *f = *state;
	size_t n = WEIR_LIST_ROOM + 7;
	struct weir_lists lists = {.n = {[WEIR_LIST_BLOCK] = n}};
	struct weir_list_item *it = calloc(n, sizeof(*it));
	__u32 generation;

	assert_non_null(it);
	lists.item[WEIR_LIST_BLOCK] = it;
	for (size_t i = 0; i < n; i++) {
		it[i] = (struct weir_list_item){.prefix = {.family = 4, .len = 32}};
		it[i].prefix.addr.word[0] = __builtin_bswap32(0x0a000000u + (__u32)i);
	}
	open_it(f);
	apply_it(f);
	generation = weir_datapath_policy(f->d)->generation;
	f->limit[0].burst = 1;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e),
			 -ENOSPC);
	assert_says(f->e.text, "7 do not fit");
	assert_int_equal(weir_datapath_policy(f->d)->generation, generation);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	assert_int_equal(send_from("10.0.0.1"), XDP_PASS);
	lists.n[WEIR_LIST_BLOCK] = WEIR_LIST_ROOM;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("10.0.0.1"), XDP_DROP);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK,
						(struct weir_list_item[]){item("10.9.9.1", 0),
									  item("10.9.9.2", 0),
									  item("10.0.0.1", 0)},
						3, &f->e),
			 -ENOSPC);
	assert_says(f->e.text, "holds 65536 entries");
	assert_says(f->e.text, "2 do not fit");
	free(it);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void lists_are_swapped_whole(void **state)
{
	struct fix *f = *state;
	struct weir_list_item a[] = {item("198.51.100.0/24", 0), item("203.0.113.0/28", 0)};
	struct weir_list_item ok[] = {item("198.51.100.7", 0)};
	struct weir_lists lists = {.item = {ok, a, NULL}, .n = {1, 2, 0}};

	open_it(f);
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("198.51.100.8"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.15"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.16"), XDP_PASS);
	assert_int_equal(passed_of("198.51.100.7", 30), 30); /* allow beats block and limits */
	a[0] = item("203.0.113.16", 0);
	lists.n[WEIR_LIST_ALLOW] = 0;
	assert_int_equal(weir_datapath_apply(f->d, &f->conf, WEIR_MODE_ENFORCE, &lists, &f->e), 0);
	assert_int_equal(send_from("198.51.100.8"), XDP_PASS);
	assert_int_equal(send_from("203.0.113.16"), XDP_DROP);
	reopen(f);
	assert_int_equal(send_from("203.0.113.16"), XDP_DROP);
}

static void entries_come_and_go_in_place(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it[] = {item("198.51.100.7", 0), item("203.0.113.0/24", 0),
				      item("198.51.100.0/25", now_ns() - 1)};
	struct weir_list_item *read = NULL;
	struct weir_prefix gone[2];
	size_t n = 0;

	open_it(f);
	apply_it(f);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, it, 3, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	assert_int_equal(send_from("203.0.113.77"), XDP_DROP); /* a length that was not there */
	assert_int_equal(send_from("198.51.100.9"), XDP_PASS); /* an expired entry is none */
	assert_int_equal(weir_datapath_list_read(f->d, WEIR_LIST_BLOCK, &read, &n), 0);
	assert_int_equal(n, 2);
	free(read);
	gone[0] = item("192.0.2.200", 0).prefix; /* never was there */
	gone[1] = it[0].prefix;
	assert_int_equal(weir_datapath_list_del(f->d, WEIR_LIST_BLOCK, gone, 2, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	assert_int_equal(send_from("203.0.113.77"), XDP_DROP);
}

static void adding_again_sets_the_new_expiry(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it = item("198.51.100.7", now_ns() + 3600ull * 1000000000ull);

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	it.expires_ns = 1; /* long ago: as good as a deletion */
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS);
	it.expires_ns = 0;
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_BLOCK, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
	it.prefix.len = 32;
	assert_int_equal(weir_datapath_list_add(f->d, WEIR_LIST_GUARD, &it, 1, &f->e), 0);
	assert_int_equal(send_from("198.51.100.7"), XDP_PASS); /* guarded */
}

static void count_event(void *arg, const struct weir_event *event)
{
	int *n = arg;

	if (event->reason == WEIR_DROP_LIMIT && event->family == 4)
		(*n)++;
}

static void drops_arrive_as_events(void **state)
{
	struct fix *f = *state;
	int n = 0;

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_events_open(f->d, count_event, &n, &f->e), 0);
	assert_true(weir_datapath_events_fd(f->d) >= 0);
	assert_int_equal(passed_of("192.0.2.9", BURST + 4), BURST);
	assert_true(weir_datapath_events_consume(f->d) >= 0);
	assert_int_equal(n, 4);
}

/* --- attaching -------------------------------------------------------------------------------- */

static void a_link_survives_the_agent_and_is_updated(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;
	__u32 first, second;

	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	attach_it(f, "v0"); /* twice is the same as once */
	assert_true(exists("link_v0"));
	first = iface("v0").native_id;
	assert_int_not_equal(first, 0);
	reopen(f);
	assert_int_equal(iface("v0").native_id, first);
	attach_it(f, "v0");
	second = iface("v0").native_id;
	assert_int_not_equal(second, 0);
	assert_int_not_equal(second, first);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_string_equal(a[0].ifname, "v0");
	assert_true(a[0].native && a[0].attached && !a[0].netlink);
	assert_int_equal(a[0].prog_id, second);
}

static void kill_9_leaves_program_lists_and_state(void **state)
{
	struct fix *f = *state;
	struct weir_list_item it = item("198.51.100.7", 0);
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct weir_datapath *d;

		if (weir_datapath_open(&f->conf, &d, NULL) < 0 ||
		    weir_datapath_apply(d, &f->conf, WEIR_MODE_ENFORCE, NULL, NULL) < 0 ||
		    weir_datapath_list_add(d, WEIR_LIST_BLOCK, &it, 1, NULL) < 0 ||
		    weir_datapath_attach(d, "v0", NULL) < 0)
			_exit(1);
		for (int i = 0; i < BURST; i++)
			(void)send_from("192.0.2.9");
		(void)raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_not_equal(iface("v0").native_id, 0);
	assert_int_equal(send_from("192.0.2.9"), XDP_DROP);
	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(send_from("192.0.2.9"), XDP_DROP);
	assert_int_equal(send_from("198.51.100.7"), XDP_DROP);
}

static void somebody_elses_program_is_refused_by_name(void **state)
{
	struct fix *f = *state;
	char extack[WEIR_EXTACK_MAX], id[48];
	_cleanup_close_ int fd = foreign_prog();

	assert_int_equal(weir_iface_xdp_set(iface("v0").index, fd, XDP_FLAGS_DRV_MODE, -1, extack),
			 0);
	(void)snprintf(id, sizeof(id), "program %u", iface("v0").native_id);
	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_attach(f->d, "v0", &f->e), -EBUSY);
	assert_says(f->e.text, id);
	assert_says(f->e.text, "\"someone_else\"");
	(void)snprintf(id, sizeof(id), "held by %.15s (pid ", program_invocation_short_name);
	assert_says(f->e.text, id);
	assert_says(f->e.text, "attach: chain");
	assert_int_equal(weir_datapath_detach(f->d, "v0", &f->e), -ENOENT);
	assert_says(f->e.text, "someone_else");
	assert_int_not_equal(iface("v0").native_id, 0);
}

/* veth refuses native mode where it has fewer receive queues than its peer has transmit queues. */
static void a_refused_native_mode_falls_back_in_auto_only(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;

	assert_int_equal(ip("link", "add", "q0", "numrxqueues", "1", "numtxqueues", "1", "type",
			    "veth", "peer", "name", "q1", "numrxqueues", "2", "numtxqueues", "2"),
			 0);
	open_it(f);
	apply_it(f);
	attach_it(f, "q0");
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_false(a[0].native);
	assert_says(a[0].note, "generic: native was refused: ");
	assert_says(a[0].note, "rx queues"); /* the kernel's words */
	assert_int_not_equal(iface("q0").generic_id, 0);
	assert_int_equal(weir_datapath_detach(f->d, "q0", &f->e), 0);
	assert_int_equal(iface("q0").generic_id, 0);
	weir_datapath_free(f->d);
	f->conf.xdp_mode = WEIR_XDP_NATIVE;
	open_it(f);
	assert_true(weir_datapath_attach(f->d, "q0", &f->e) < 0);
	assert_says(f->e.text, "cannot attach in native mode");
	assert_says(f->e.text, "the kernel says \"");
	assert_says(f->e.text, "ethtool -L q0");
	assert_int_equal(iface("q0").native_id, 0);
	assert_int_equal(iface("q0").generic_id, 0);
	assert_int_equal(ip("link", "del", "q0"), 0);
}

static void jumbo_frames_are_native(void **state)
{
	struct fix *f = *state;

	assert_int_equal(ip("link", "set", "v0", "mtu", "9000"), 0);
	assert_int_equal(ip("link", "set", "v1", "mtu", "9000"), 0);
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_not_equal(iface("v0").native_id, 0);
}

static void an_interface_with_a_dot_is_pinned(void **state)
{
	struct fix *f = *state;

	assert_int_equal(ip("link", "set", "v1", "down"), 0);
	assert_int_equal(ip("link", "set", "v1", "name", "v1.100"), 0);
	open_it(f);
	apply_it(f);
	attach_it(f, "v1.100");
	assert_true(exists("link_v1%2e100"));
	reopen(f);
	assert_int_equal(ip("link", "set", "v1.100", "name", "other"), 0);
	attach_it(f, "other"); /* found by its index, whatever it is called */
	assert_true(exists("link_other"));
	assert_false(exists("link_v1%2e100"));
	assert_int_equal(weir_datapath_detach(f->d, "other", &f->e), 0);
	assert_false(exists("link_other"));
}

static void a_missing_interface_names_those_that_exist(void **state)
{
	struct fix *f = *state;

	open_it(f);
	assert_int_equal(weir_datapath_attach(f->d, "eth99", &f->e), -ENODEV);
	assert_says(f->e.text, "\"eth99\"");
	assert_says(f->e.text, "v0");
	assert_says(f->e.text, "lo");
}

static void loopback_and_bridge_are_explained(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	assert_int_equal(weir_datapath_attach(f->d, "lo", &f->e), -EOPNOTSUPP);
	assert_says(f->e.text, "loopback");
	if (ip("link", "add", "br0", "type", "bridge"))
		skip();
	assert_int_equal(ip("link", "set", "v1", "master", "br0"), 0);
	assert_int_equal(weir_datapath_attach(f->d, "br0", &f->e), -EOPNOTSUPP);
	assert_says(f->e.text, "its ports instead (v1)");
	assert_int_equal(ip("link", "del", "br0"), 0);
}

static void a_program_of_ip_link_is_adopted_on_netlink(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;
	__u32 old;

	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "obj", object_path, "sec", "xdp"),
			 0);
	old = iface("v0").native_id;
	assert_int_not_equal(old, 0);
	f->conf.packet_sources_bytes = 16 << 20;
	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PROGRAM);
	assert_says(weir_datapath_notes(f->d), "v0");
	apply_it(f);
	attach_it(f, "v0");
	assert_int_not_equal(iface("v0").native_id, old);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_true(a[0].netlink && a[0].native);
	assert_says(a[0].note, "netlink");
	assert_false(exists("link_v0"));
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
	reopen(f); /* and again, without a change */
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PINS);
	attach_it(f, "v0");
	assert_int_equal(passed_of("192.0.2.9", 15), 0);
	assert_int_equal(weir_datapath_detach(f->d, "v0", &f->e), 0);
	assert_int_equal(iface("v0").native_id, 0);
}

static void a_program_of_ip_link_with_other_tables_is_adopted(void **state)
{
	struct fix *f = *state;
	__u32 old;

	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "obj", object_path, "sec",
			    "xdp.frags"),
			 0);
	old = iface("v0").native_id;
	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_PARTLY);
	assert_says(weir_datapath_notes(f->d), "packet_sources");
	apply_it(f);
	attach_it(f, "v0");
	assert_int_not_equal(iface("v0").native_id, 0);
	assert_int_not_equal(iface("v0").native_id, old);
	assert_int_equal(passed_of("192.0.2.9", 15), BURST);
}

static void a_link_of_a_vanished_interface_is_replaced(void **state)
{
	struct fix *f = *state;

	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(ip("link", "del", "v0"), 0);
	assert_int_equal(ip("link", "add", "v0", "type", "veth", "peer", "name", "v1"), 0);
	assert_int_equal(iface("v0").native_id, 0);
	attach_it(f, "v0");
	assert_int_not_equal(iface("v0").native_id, 0);
}

static void external_attaches_nothing_and_ip_link_can(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;

	f->conf.attach = WEIR_ATTACH_EXTERNAL;
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	assert_int_equal(iface("v0").native_id, 0);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "pinned", FOLDER "/prog"), 0);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_true(a[0].attached && a[0].netlink && !a[0].stale);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "off"), 0);
}

/* After an upgrade to another map layout: until somebody replaces it, the old program knows no new limit. */
static void an_external_program_of_another_abi_is_stale(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;

	f->conf.attach = WEIR_ATTACH_EXTERNAL;
	open_it(f);
	apply_it(f);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "pinned", FOLDER "/prog"), 0);
	set_abi(99);
	for (int i = 0; i < 2; i++) { /* the second agent finds only its own pins */
		reopen(f);
		apply_it(f);
		assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
		assert_true(a[0].stale && !a[0].attached);
		assert_int_equal(a[0].prog_id, iface("v0").native_id);
	}
	assert_int_equal(ip("-force", "link", "set", "dev", "v0", "xdp", "pinned", FOLDER "/prog"),
			 0);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_true(a[0].attached && !a[0].stale);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "off"), 0);
}

/* Neither on a link nor by netlink: two agents on one set of maps would undo each other's limits. */
static void maps_of_another_instance_are_left_alone(void **state)
{
	struct fix *f = *state;
	struct weir_datapath *first;

	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	first = TAKE_PTR(f->d);
	(void)snprintf(f->conf.instance, sizeof(f->conf.instance), "other");
	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_FRESH);
	apply_it(f);
	assert_int_equal(weir_datapath_attach(f->d, "v0", &f->e), -EBUSY);
	assert_says(f->e.text, "another instance of weir");
	weir_datapath_free(f->d);
	f->d = NULL;
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "other", NULL, &f->e), 0);

	assert_int_equal(weir_datapath_detach(first, "v0", &f->e), 0);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "pinned", FOLDER "/prog"), 0);
	open_it(f);
	assert_int_equal(weir_datapath_adoption(f->d), WEIR_ADOPT_FRESH);
	weir_datapath_free(f->d);
	f->d = NULL;
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "other", NULL, &f->e), 0);
	assert_int_equal(ip("link", "set", "dev", "v0", "xdp", "off"), 0);
	weir_datapath_free(first);
}

static void chain_works_or_says_that_it_is_alone(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;
	__u32 first;

	f->conf.attach = WEIR_ATTACH_CHAIN;
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	first = iface("v0").native_id;
	assert_int_not_equal(first, 0);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_true(a[0].attached && a[0].netlink);
	print_message("chain: %s\n", a[0].note[0] ? a[0].note : "by the dispatcher");
	reopen(f);
	attach_it(f, "v0");
	assert_int_not_equal(iface("v0").native_id, first);
	assert_int_equal(weir_datapath_attachments(f->d, a, 8), 1);
	assert_int_equal(weir_datapath_detach(f->d, "v0", &f->e), 0);
	assert_int_equal(iface("v0").native_id, 0);
}

static void detach_pinned_takes_only_what_is_ours(void **state)
{
	struct fix *f = *state;
	char extack[WEIR_EXTACK_MAX];
	_cleanup_close_ int fd = foreign_prog();

	assert_int_equal(weir_iface_xdp_set(iface("v1").index, fd, XDP_FLAGS_DRV_MODE, -1, extack),
			 0);
	open_it(f);
	apply_it(f);
	attach_it(f, "v0");
	weir_datapath_free(f->d);
	f->d = NULL;
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "weir", "v1", &f->e), -ENOENT);
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "weir", "v0", &f->e), 0);
	assert_true(exists("prog"));
	assert_int_equal(iface("v0").native_id, 0);
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "weir", NULL, &f->e), 0);
	assert_int_not_equal(access(FOLDER, F_OK), 0);
	assert_int_not_equal(iface("v1").native_id, 0);
	assert_int_equal(weir_datapath_detach_pinned(BPFFS, "weir", NULL, &f->e), -ENOENT);
}

/* The object that iproute2 loads lies beside this program: build/tests/netns/t_datapath, build/bpf/weir.bpf.o. */
static int find_object(void)
{
	ssize_t n = readlink("/proc/self/exe", object_path, sizeof(object_path) - 64);
	char *slash;

	if (n < 0)
		return -1;
	object_path[n] = '\0';
	for (int i = 0; i < 3; i++) {
		slash = strrchr(object_path, '/');
		if (!slash)
			return -1;
		*slash = '\0';
	}
	(void)snprintf(object_path + strlen(object_path), 64, "/bpf/weir.bpf.o");
	return access(object_path, R_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(open_pins_program_and_every_map),
		T(bpftool_shows_entries_of_the_list_in_force),
		T(reopening_keeps_state_and_names),
		T(a_second_agent_of_the_instance_is_refused),
		T(without_root_it_is_said),
		T(a_missing_bpffs_is_mounted_and_said),
		T(no_bpffs_is_mounted_over_files),
		T(maps_of_another_abi_are_not_adopted),
		T(a_map_of_another_layout_is_made_anew_alone),
		T(resizing_the_tables_copies_state),
		T(a_new_rate_keeps_state_and_a_new_limit_begins_empty),
		T(a_limit_does_not_inherit_counts_of_its_index),
		T(monitor_mode_stops_nothing),
		T(a_refused_change_changes_nothing),
		T(lists_are_swapped_whole),
		T(entries_come_and_go_in_place),
		T(adding_again_sets_the_new_expiry),
		T(drops_arrive_as_events),
		T(a_link_survives_the_agent_and_is_updated),
		T(kill_9_leaves_program_lists_and_state),
		T(somebody_elses_program_is_refused_by_name),
		T(a_refused_native_mode_falls_back_in_auto_only),
		T(jumbo_frames_are_native),
		T(an_interface_with_a_dot_is_pinned),
		T(a_missing_interface_names_those_that_exist),
		T(loopback_and_bridge_are_explained),
		T(a_program_of_ip_link_is_adopted_on_netlink),
		T(a_program_of_ip_link_with_other_tables_is_adopted),
		T(a_link_of_a_vanished_interface_is_replaced),
		T(external_attaches_nothing_and_ip_link_can),
		T(an_external_program_of_another_abi_is_stale),
		T(maps_of_another_instance_are_left_alone),
		T(chain_works_or_says_that_it_is_alone),
		T(detach_pinned_takes_only_what_is_ours),
	};

	if (geteuid() != 0) {
		print_message("t_datapath needs root: skipped\n");
		return 77;
	}
	if (find_object() < 0 || lab_mounts() < 0 || unshare(CLONE_NEWNET) < 0) {
		print_error("cannot make a laboratory\n");
		return 1;
	}
	return cmocka_run_group_tests_name("datapath", tests, NULL, NULL);
}
