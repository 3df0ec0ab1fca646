/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program on interfaces: attached, adopted, updated, and taken away again; never somebody else's. */
#include <dirent.h>
#include <linux/if_link.h>
#include <signal.h>
#include <sys/wait.h>

#include "datapath_case.h"

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

/* The object of this build, as iproute2 loads it. */
static int ip_link_loads(const char *ifname, const char *section)
{
	char object[512];

	run_program("bpf/weir.bpf.o", object, sizeof(object));
	return ip("link", "set", "dev", ifname, "xdp", "obj", object, "sec", section);
}

static void a_program_of_ip_link_is_adopted_on_netlink(void **state)
{
	struct weir_attachment a[8];
	struct fix *f = *state;
	__u32 old;

	assert_int_equal(ip_link_loads("v0", "xdp"), 0);
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

	assert_int_equal(ip_link_loads("v0", "xdp.frags"), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_link_survives_the_agent_and_is_updated),
		TEST(kill_9_leaves_program_lists_and_state),
		TEST(somebody_elses_program_is_refused_by_name),
		TEST(a_refused_native_mode_falls_back_in_auto_only),
		TEST(jumbo_frames_are_native),
		TEST(an_interface_with_a_dot_is_pinned),
		TEST(a_missing_interface_names_those_that_exist),
		TEST(loopback_and_bridge_are_explained),
		TEST(a_program_of_ip_link_is_adopted_on_netlink),
		TEST(a_program_of_ip_link_with_other_tables_is_adopted),
		TEST(a_link_of_a_vanished_interface_is_replaced),
		TEST(external_attaches_nothing_and_ip_link_can),
		TEST(an_external_program_of_another_abi_is_stale),
		TEST(maps_of_another_instance_are_left_alone),
		TEST(chain_works_or_says_that_it_is_alone),
		TEST(detach_pinned_takes_only_what_is_ours),
	};

	return datapath_run("datapath_attach", tests);
}
