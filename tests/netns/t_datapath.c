/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the datapath loads and pins, and what of an earlier agent's it takes over. */
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "datapath_case.h"

static void open_pins_program_and_every_map(void **state)
{
	static const char *const pin[] = {"prog",	  "meta",	  "spill",
					  "classes",	  "limits",	  "counters",
					  "events",	  "policy",	  "sources",
					  "sources6",	  "allows",	  "allows6",
					  "blocks",	  "blocks6",	  "guards",
					  "guards6",	  "filter",	  "nets",
					  "outer",	  "outer/policy", "outer/sources",
					  "outer/blocks", "outer/filter", "totals"};
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(open_pins_program_and_every_map),
		TEST(bpftool_shows_entries_of_the_list_in_force),
		TEST(reopening_keeps_state_and_names),
		TEST(a_second_agent_of_the_instance_is_refused),
		TEST(without_root_it_is_said),
		TEST(a_missing_bpffs_is_mounted_and_said),
		TEST(no_bpffs_is_mounted_over_files),
		TEST(maps_of_another_abi_are_not_adopted),
		TEST(a_map_of_another_layout_is_made_anew_alone),
		TEST(resizing_the_tables_copies_state),
	};

	return datapath_run("datapath", tests);
}
