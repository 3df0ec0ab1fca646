/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The whole of it: the program weir as agent and as commands, on a veth pair with real frames. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <bpf/bpf.h>

#include "host.h"
#include "lib/gen.h"
#include "user/base/cleanup.h"
#include "weir/maps.h"

#define WAIT_MS 15000

struct fix {
	struct host h;
	char list[96];
};
#define weir(...) host_weir(&f->h, __VA_ARGS__)

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void write_sized(struct fix *f, const char *memory, const char *rest)
{
	host_configure(&f->h, "memory: {packet_sources: %s}\n%s", memory, rest);
}

static void write_conf(struct fix *f, const char *rest)
{
	write_sized(f, "1 MB", rest);
}

#define LIMIT "packet_limits:\n  - {name: per-source, per: source, rate: 6/m, burst: 1000}\n"
#define BLOCK                                                                                      \
	"packet_limits:\n  - {name: udp, match: {protocol: udp}, per: source, rate: 6/m, burst: "  \
	"1000, block_for: 60s}\n"

#define SERVICE LIMIT "  - {name: service, per: destination, rate: 6/m, burst: 2000}\n"
#define TOTAL	LIMIT "  - {name: everything, per: all, rate: 6/m, burst: 2000}\n"

static void expect(struct fix *f, int status, int want, const char *words)
{
	if (status != want || !strstr(f->h.out, words))
		fail_msg("exit status %d, not %d with \"%s\": %.800s", status, want, words,
			 f->h.out);
}

static int set_up(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (!f || host_open(&f->h) < 0)
		return -1;
	(void)snprintf(f->list, sizeof(f->list), "%s/drop.netset", f->h.dir);
	write_conf(f, LIMIT);
	*state = f;
	host_start(&f->h);
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	host_close(&f->h);
	free(f);
	return 0;
}

static void flood_of(struct fix *f, uint64_t frames, uint64_t sources)
{
	struct gen_opts o = {.dev = "gen0",
			     .netns_fd = f->h.lab.netns_fd[LAB_GEN],
			     .src = "198.51.100.9",
			     .sources = sources};
	struct gen_result result;
	char err[GEN_ERR_BYTES];
	struct gen *g;

	if (gen_open(&o, err, sizeof(err), &g))
		fail_msg("%s", err);
	assert_int_equal(gen_run(g, frames, 0, &result), 0);
	gen_close(g);
	assert_int_equal(result.frames, frames);
}

static void flood(struct fix *f, uint64_t frames)
{
	flood_of(f, frames, 1);
}

/* Packets of a reason ("reasons" or "would"). */
static uint64_t counted(struct fix *f, const char *key, const char *reason)
{
	json_t *s = host_ask(&f->h, (const char *const[]){f->h.program, "status", "--json", NULL}),
	       *o;
	uint64_t n = 0;
	size_t i;

	json_array_foreach(json_object_get(s, key), i, o)
		if (!strcmp(json_string_value(json_object_get(o, "reason")), reason))
			n = (uint64_t)json_integer_value(json_object_get(o, "packets"));
	json_decref(s);
	return n;
}

static void a_flood_is_shed_and_everything_tells_of_it(void **state)
{
	struct fix *f = *state;

	flood(f, 50000);
	assert_true(wait_for(counted(f, "reasons", "drop_limit") > 40000, WAIT_MS));
	expect(f, weir("status"), 0, "enforcing 1 limit on weir0 (native)");
	expect(f, weir("explain", "198.51.100.9"), 0, "limit per-source is used up");
	expect(f, weir("events"), 0, "source=198.51.100.9");
	expect(f, weir("events", "--limit", "per-source", "--json"), 0, "\"limit\":\"per-source\"");
	expect(f, weir("top", "--once"), 0, "198.51.100.9");
	expect(f, weir("limit", "list"), 0, "per-source");
	expect(f, weir("limit", "reset", "per-source", "--ip", "198.51.100.9"), 0, "forgotten");
	expect(f, weir("explain", "198.51.100.9"), 0, "nothing counted");
}

static void a_block_acts_and_lifting_it_too(void **state)
{
	struct fix *f = *state;

	expect(f, weir("block", "add", "198.51.100.0/24", "--for", "10m", "--reason", "test"), 0,
	       "is blocked, until");
	flood(f, 500);
	assert_true(wait_for(counted(f, "reasons", "drop_block") == 500, WAIT_MS));
	expect(f, weir("explain", "198.51.100.9"), 0, "weir block del 198.51.100.0/24");
	expect(f, weir("block", "del", "198.51.100.0/24"), 0, "1 entry deleted");
	flood(f, 500);
	assert_true(wait_for(counted(f, "reasons", "pass_default") >= 500, WAIT_MS));
	assert_int_equal(counted(f, "reasons", "drop_block"), 500);
}

static void block_for_is_explained_and_lifted(void **state)
{
	struct fix *f = *state;

	write_conf(f, BLOCK);
	expect(f, weir("reload"), 0, "limit udp: added");
	flood(f, 5000);
	expect(f, weir("explain", "198.51.100.9"), 0, "it exceeded limit udp");
	expect(f, weir("explain", "198.51.100.9"), 0, "weir limit reset udp --ip 198.51.100.9");
	expect(f, weir("limit", "reset", "udp", "--ip", "198.51.100.9"), 0, "forgotten");
	expect(f, weir("explain", "198.51.100.9"), 0, "its packets pass");
}

static void a_destination_under_flood_is_told_apart_from_its_senders(void **state)
{
	struct fix *f = *state;

	write_conf(f, SERVICE);
	expect(f, weir("reload"), 0, "limit service: added");
	flood_of(f, 50000, 200);
	assert_true(wait_for(counted(f, "reasons", "drop_destination") > 40000, WAIT_MS));
	expect(f, weir("status"), 0, "service");
	expect(f, weir("events", "--limit", "service"), 0, "reason=drop_destination");
	expect(f, weir("limit", "list"), 0, "burst 2000 packets, per destination");
	expect(f, weir("top", "--once"), 0, "to     192.0.2.2");
	/* a sender is not at fault, and the destination sends nothing */
	expect(f, weir("explain", "198.51.100.9"), 0, "its packets pass");
	expect(f, weir("explain", "192.0.2.2"), 0, "its packets pass");
	expect(f, weir("explain", "192.0.2.2"), 0,
	       "as a destination it is over limit service: packets to it are dropped");
	expect(f, weir("explain", "192.0.2.2"), 0, "limit    service (sent to it): 2000 of 2000");
	expect(f, weir("limit", "reset", "service", "--ip", "192.0.2.2"), 0, "forgotten");
	expect(f, weir("explain", "192.0.2.2"), 0, "nothing counted");
	expect(f, weir("limit", "set", "service", "burst=3000"), 0, "limit service: ");
	flood_of(f, 5000, 200);
	assert_true(wait_for(counted(f, "reasons", "drop_destination") > 44000, WAIT_MS));
	expect(f, weir("explain", "192.0.2.2"), 0, "limit    service (sent to it): 3000 of 3000");
}

static void a_budget_of_all_is_told_to_whoever_asks(void **state)
{
	struct fix *f = *state;

	write_conf(f, TOTAL);
	expect(f, weir("reload"), 0, "limit everything: added");
	flood_of(f, 50000, 200);
	assert_true(wait_for(counted(f, "reasons", "drop_all") > 40000, WAIT_MS));
	expect(f, weir("events", "--limit", "everything"), 0, "reason=drop_all");
	expect(f, weir("limit", "list"), 0, "burst 2000 packets, per all");
	expect(f, weir("explain", "203.0.113.77"), 0,
	       "limit everything is used up by all senders together");
	expect(f, weir("explain", "203.0.113.77"), 0,
	       "limit    everything (by all together): 2000 of 2000");
	expect(f, weir("explain", "203.0.113.77"), 0, "to lift  weir limit reset everything\n");
	expect(f, weir("limit", "reset", "everything", "--ip", "203.0.113.77"), 2,
	       "one budget for all packets");
	expect(f, weir("limit", "reset", "everything"), 0, "forgotten");
	expect(f, weir("explain", "203.0.113.77"), 0, "its packets pass");
	expect(f, weir("limit", "set", "everything", "rate=7/m"), 0, "limit everything: ");
	flood_of(f, 3000, 200);
	assert_true(wait_for(counted(f, "reasons", "drop_all") > 48000, WAIT_MS));
}

static void monitor_mode_drops_nothing(void **state)
{
	struct fix *f = *state;

	expect(f, weir("mode", "monitor", "--for", "10m"), 0, "monitor mode for 10 min");
	flood(f, 5000);
	assert_true(wait_for(counted(f, "would", "drop_limit") > 3000, WAIT_MS));
	assert_int_equal(counted(f, "reasons", "drop_limit"), 0);
	expect(f, weir("status"), 0, "enforce again in");
	expect(f, weir("mode", "enforce"), 0, "enforce mode");
}

static void own_addresses_and_gateways_are_guarded(void **state)
{
	struct fix *f = *state;

	expect(f, weir("block", "add", "192.0.2.2"), 1, "own address on weir0");
	expect(f, weir("block", "add", "192.0.2.1"), 1, "default gateway");
	expect(f, weir("block", "add", "0.0.0.0/0", "--for", "1m"), 0, "stay reachable");
	/* a new address is guarded as soon as the kernel has it */
	assert_int_equal(run_cmd(f->h.lab.netns_fd[LAB_WEIR], f->h.out, sizeof(f->h.out), "ip",
				 "address", "add", "203.0.113.77/24", "dev", "weir0"),
			 0);
	assert_true(wait_for((weir("explain", "203.0.113.77"), strstr(f->h.out, "guarded") != NULL),
			     WAIT_MS));
}

static void kill_9_leaves_all_in_force_and_the_next_agent_takes_over(void **state)
{
	struct fix *f = *state;

	expect(f, weir("block", "add", "203.0.113.9"), 0, "is blocked");
	flood(f, 5000);
	host_stop(&f->h, SIGKILL);
	expect(f, weir("status"), 1, "no agent answers on");
	flood(f, 5000); /* nobody is there, and it is dropped all the same */
	host_start(&f->h);
	assert_true(counted(f, "reasons", "drop_limit") > 8000);
	expect(f, weir("status"), 0, "took over the maps of an earlier agent");
	expect(f, weir("block", "list"), 0, "203.0.113.9");
}

static void a_second_agent_is_refused(void **state)
{
	struct fix *f = *state;

	expect(f, weir("run", "-c", f->h.conf), 1, "another agent of instance weir");
	assert_int_equal(weir("status"), 0);
}

static void sighup_with_a_broken_file_changes_nothing(void **state)
{
	struct fix *f = *state;

	write_conf(f, LIMIT "nonsense: 1\n");
	assert_int_equal(kill(f->h.agent, SIGHUP), 0);
	assert_true(wait_for((weir("status"), strstr(f->h.out, "the last reload failed") != NULL),
			     WAIT_MS));
	expect(f, weir("reload"), 2, "nonsense");
	expect(f, weir("status"), 0, "enforcing 1 limit");
	expect(f, run_cmd(0, f->h.out, sizeof(f->h.out), "cat", f->h.log), 0, "reload-failed");
}

/* @n addresses from 10.0.0.0 on. */
static void write_list(struct fix *f, unsigned n)
{
	FILE *file = fopen(f->list, "we");

	for (unsigned i = 0; i < n; i++)
		(void)fprintf(file, "10.%u.%u.%u\n", i >> 16, i >> 8 & 255, i & 255);
	assert_int_equal(fclose(file), 0);
}

static void a_long_list_is_loaded_all_or_nothing(void **state)
{
	struct fix *f = *state;

	write_file(f->list, "10.0.0.1\n# fine\nnot an address\n10.0.0.3/33\n");
	expect(f, weir("block", "load", f->list), 2, "drop.netset:3:");
	expect(f, weir("block", "list"), 0, "the list is empty");
	write_list(f, 65536 + 100);
	expect(f, weir("block", "load", f->list), 1, "100 too many");
	expect(f, weir("block", "list"), 0, "the list is empty");
	write_list(f, 60000);
	expect(f, weir("block", "load", f->list, "--for", "1h"), 0, "60000 added");
	expect(f, weir("explain", "10.0.200.7"), 0, "its packets are dropped");
	expect(f, weir("block", "list", "--json"), 0, "10.0.0.77");
	host_stop(&f->h, SIGTERM);
	host_start(&f->h);
	expect(f, weir("explain", "10.0.200.7"), 0, "its packets are dropped");
	expect(f, weir("block", "del", "--origin", "drop.netset"), 0, "60000 entries deleted");
	expect(f, weir("block", "list"), 0, "the list is empty");
}

static void events_are_followed_as_they_come(void **state)
{
	struct fix *f = *state;
	char path[96];
	pid_t follower;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/events", f->h.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(run_start(f->h.lab.netns_fd[LAB_WEIR], fd,
				   (const char *const[]){f->h.program, "events", "--follow", NULL},
				   &follower),
			 0);
	(void)close(fd);
	assert_true(wait_for((flood(f, 2000), run_cmd(0, f->h.out, sizeof(f->h.out), "cat", path),
			      strstr(f->h.out, "source=198.51.100.9") != NULL),
			     WAIT_MS));
	(void)run_stop(follower, WAIT_MS);
}

static bool is_attached(struct fix *f)
{
	(void)run_cmd(f->h.lab.netns_fd[LAB_WEIR], f->h.out, sizeof(f->h.out), "ip", "link", "show",
		      "dev", "weir0");
	return strstr(f->h.out, "xdp") != NULL;
}

static void detach_works_with_and_without_an_agent(void **state)
{
	struct fix *f = *state;

	assert_true(is_attached(f));
	expect(f, weir("detach", "-i", "nosuch0"), 1, "not attached to nosuch0");
	expect(f, weir("detach"), 0, "detached from weir0");
	assert_true(wait_for(!is_attached(f), WAIT_MS));
	expect(f, weir("status"), 0, "NOT protected");
	expect(f, weir("reload"), 0, "weir0: attached");
	assert_true(is_attached(f));
	expect(f, weir("reload"), 0, "nothing has changed");
	host_stop(&f->h, SIGTERM);
	assert_true(is_attached(f));
	expect(f, weir("detach", "-c", f->h.conf), 0, "no agent was running");
	assert_true(wait_for(!is_attached(f), WAIT_MS));
}

static void tables_of_another_size_are_told_of_once(void **state)
{
	struct fix *f = *state;

	host_stop(&f->h, SIGTERM);
	write_sized(f, "2 MB", LIMIT);
	host_start(&f->h);
	expect(f, weir("status"), 0, "state is copied");
	expect(f, 0, 0, "a note below says");
	assert_null(strstr(f->h.out, "began empty"));
}

static void say_version(__u32 abi)
{
	_cleanup_close_ int fd = bpf_obj_get(LAB_BPFFS "/weir/meta");
	struct weir_meta meta;
	__u32 zero = 0;

	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &meta), 0);
	meta.abi = abi;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &meta, BPF_ANY), 0);
}

static bool log_says(struct fix *f, const char *words)
{
	return run_cmd(0, f->h.out, sizeof(f->h.out), "grep", "-q", words, f->h.log) == 0;
}

/* What it counted begins empty, once; a restart with the same layout keeps it. */
static void an_upgrade_to_another_layout_is_told_of(void **state)
{
	static const char words[] = "of version 99, this agent's of version";
	struct fix *f = *state;

	flood(f, 50000);
	assert_true(wait_for(counted(f, "reasons", "drop_limit") > 40000, WAIT_MS));
	host_stop(&f->h, SIGTERM);
	host_start(&f->h);
	assert_true(counted(f, "reasons", "drop_limit") > 40000);
	assert_false(log_says(f, words));
	host_stop(&f->h, SIGTERM);
	say_version(99);
	host_start(&f->h);
	assert_true(is_attached(f));
	assert_int_equal(counted(f, "reasons", "drop_limit"), 0);
	expect(f, weir("status"), 0, words);
	expect(f, 0, 0, "limits, counters and lists in the kernel begin empty");
	assert_true(log_says(f, words));
	host_stop(&f->h, SIGTERM);
	host_start(&f->h);
	expect(f, weir("status"), 0, "with all state");
}

static bool exists(struct fix *f, const char *path)
{
	return run_cmd(f->h.lab.netns_fd[LAB_WEIR], f->h.out, sizeof(f->h.out), "test", "-e",
		       path) == 0;
}

static void a_first_start_that_fails_leaves_nothing(void **state)
{
	struct fix *f = *state;

	host_stop(&f->h, SIGTERM);
	assert_true(exists(f, LAB_BPFFS "/weir/prog"));
	expect(f, weir("run", "-c", f->h.conf, "-i", "lo"), 1, "loopback");
	assert_true(exists(f, LAB_BPFFS "/weir/prog")); /* an earlier agent's */
	assert_true(is_attached(f));
	expect(f, weir("detach", "-c", f->h.conf), 0, "no agent was running");
	assert_false(exists(f, LAB_BPFFS "/weir"));
	expect(f, weir("run", "-c", f->h.conf, "-i", "lo"), 1, "loopback");
	assert_false(exists(f, LAB_BPFFS "/weir"));
}

static void pins_that_somebody_removed_come_back_with_a_reload(void **state)
{
	struct fix *f = *state;
	const int ns = f->h.lab.netns_fd[LAB_WEIR];

	assert_int_equal(run_cmd(ns, f->h.out, sizeof(f->h.out), "rm", "-r", LAB_BPFFS "/weir"), 0);
	assert_true(wait_for(!is_attached(f), WAIT_MS)); /* the link went with its pin */
	expect(f, weir("status"), 0, "NOT protected");
	expect(f, weir("reload"), 0, "weir0: attached");
	assert_true(is_attached(f));
	assert_true(exists(f, LAB_BPFFS "/weir/outer/sources"));
	expect(f, weir("run", "-c", f->h.conf), 1, "is running");
	host_stop(&f->h, SIGKILL);
	assert_true(is_attached(f));
	host_start(&f->h);
	expect(f, weir("status"), 0, "with all state");
}

static void an_interface_that_comes_back_is_protected_again(void **state)
{
	struct fix *f = *state;
	const int ns = f->h.lab.netns_fd[LAB_WEIR];

	write_conf(f, LIMIT);
	assert_int_equal(run_cmd(ns, f->h.out, sizeof(f->h.out), "ip", "link", "add", "vb0", "type",
				 "veth", "peer", "name", "vb1"),
			 0);
	{
		char text[1024];

		(void)snprintf(
			text, sizeof(text),
			"interfaces: [weir0, vb0]\nstate_dir: %s/state\nadmin: {listen: %s}\n"
			"memory: {packet_sources: 1 MB}\n" LIMIT,
			f->h.dir, f->h.socket);
		write_file(f->h.conf, text);
	}
	expect(f, weir("reload"), 0, "interfaces: + vb0");
	assert_int_equal(run_cmd(ns, f->h.out, sizeof(f->h.out), "ip", "link", "del", "vb0"), 0);
	assert_true(wait_for((weir("status"), strstr(f->h.out, "vb0 is NOT protected") != NULL),
			     WAIT_MS));
	assert_int_equal(run_cmd(ns, f->h.out, sizeof(f->h.out), "ip", "link", "add", "vb0", "type",
				 "veth", "peer", "name", "vb1"),
			 0);
	assert_true(wait_for((weir("status"), strstr(f->h.out, "NOT protected") == NULL), WAIT_MS));
}

static void the_service_manager_is_told(void **state)
{
	struct fix *f = *state;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[512] = "";
	ssize_t n;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", f->h.dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	(void)setenv("NOTIFY_SOCKET", a.sun_path, 1);
	host_stop(&f->h, SIGTERM);
	host_start(&f->h);
	(void)unsetenv("NOTIFY_SOCKET");
	assert_true(wait_for((n = recv(fd, text, sizeof(text) - 1, 0)) > 0, WAIT_MS));
	text[n] = '\0';
	assert_non_null(strstr(text, "READY=1"));
	assert_int_equal(kill(f->h.agent, SIGHUP), 0);
	assert_true(wait_for((n = recv(fd, text, sizeof(text) - 1, 0)) > 0, WAIT_MS));
	text[n] = '\0';
	assert_non_null(strstr(text, "RELOADING=1\nMONOTONIC_USEC="));
	assert_true(wait_for((n = recv(fd, text, sizeof(text) - 1, 0)) > 0, WAIT_MS));
	(void)close(fd);
}

static void wrong_use_has_its_sentence_and_exit_status(void **state)
{
	struct fix *f = *state;
	static const char *const told[] = {"version",	    "help",	  "help --man", "status",
					   "status --json", "limit list", "doctor"};
	char missing[128], line[1024];

	(void)snprintf(missing, sizeof(missing), "%s/missing.yaml", f->h.dir);
	expect(f, weir("nonsense"), 2, "no command nonsense");
	expect(f, weir("block", "add", "192.0.2.9/24"), 2, "192.0.2.0/24 would be right");
	expect(f, weir("block", "add"), 2, "needs an argument");
	expect(f, weir("status", "--socket", "/nonexistent/socket"), 1, "no agent");
	expect(f, weir("check", "-c", missing), 2, "missing.yaml");
	expect(f, weir("check", "-c", f->h.conf), 0, "is right");
	expect(f, weir("check", f->h.conf), 2, "weir check -c /tmp/");
	(void)snprintf(line, sizeof(line), "printf '203.0.113.9\n' | %s block load -",
		       f->h.program);
	expect(f, host_say(&f->h, (const char *const[]){"/bin/sh", "-c", line, NULL}), 0,
	       "1 added");
	expect(f, weir("block", "list"), 0, "stdin");
	(void)snprintf(line, sizeof(line), "printf 'caf\351\n' | %s block load -", f->h.program);
	expect(f, host_say(&f->h, (const char *const[]){"/bin/sh", "-c", line, NULL}), 2,
	       "\"caf?\" is neither");
	(void)snprintf(line, sizeof(line),
		       "printf 'admin: {group: nosuch0}\n' >%s.group; %s check -c %s.group",
		       f->h.conf, f->h.program, f->h.conf);
	expect(f, host_say(&f->h, (const char *const[]){"/bin/sh", "-c", line, NULL}), 0,
	       "no group nosuch0");
	expect(f, weir("limit", "push"), 2, "the store is embedded");
	expect(f, weir("request", "GET", "/"), 1, "no request layer");
	expect(f, weir("explain", "--user", "x"), 1, "no request layer");
	expect(f, weir("explain", "--api-key", "s3cret"), 2, "read from standard input");
	expect(f, weir("explain", "--api-key", "-"), 2, "has no API key");
	expect(f, weir("explain"), 2, "needs an address");
	expect(f, weir("doctor", "-c", f->h.conf), 0, "ok");
	expect(f, weir("doctor", "-i", "nosuch0"), 1, "nosuch0");
	expect(f,
	       host_say(&f->h, (const char *const[]){"ip", "link", "add", "q0", "numrxqueues", "2",
						     "type", "veth", NULL}),
	       0, "");
	expect(f, weir("doctor", "-i", "q0"), 0, "q0"); /* it has no combined queues to set */
	assert_null(strstr(f->h.out, "combined"));
	expect(f, weir("version"), 0, "weir ");
	expect(f, weir("help", "--man"), 0, ".Dt WEIR 8");
	expect(f, weir("allow", "add", "192.0.2.9", "--force"), 2, "has no option --force");
	for (size_t i = 0; i < ARRAY_LEN(told); i++) {
		(void)snprintf(line, sizeof(line), "exec %s %s >/dev/full", f->h.program, told[i]);
		expect(f, host_say(&f->h, (const char *const[]){"/bin/sh", "-c", line, NULL}), 1,
		       "the output could not be written");
	}
	host_stop(&f->h, SIGTERM);
	expect(f, weir("run", "-c", missing), 2, "missing.yaml");
	expect(f, weir("run", "-c", f->h.conf, "-i", "nosuch0"), 2,
	       "nosuch0 does not exist (there is: ");
	/* what an earlier agent has left is not touched for it */
	expect(f, host_say(&f->h, (const char *const[]){"/bin/rm", LAB_BPFFS "/weir/totals", NULL}),
	       0, "");
	expect(f, weir("run", "-c", f->h.conf, "-i", "nosuch0"), 2,
	       "nosuch0 does not exist (there is: ");
	assert_false(exists(f, LAB_BPFFS "/weir/totals"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_flood_is_shed_and_everything_tells_of_it),
		T(a_block_acts_and_lifting_it_too),
		T(block_for_is_explained_and_lifted),
		T(a_destination_under_flood_is_told_apart_from_its_senders),
		T(a_budget_of_all_is_told_to_whoever_asks),
		T(monitor_mode_drops_nothing),
		T(own_addresses_and_gateways_are_guarded),
		T(kill_9_leaves_all_in_force_and_the_next_agent_takes_over),
		T(a_second_agent_is_refused),
		T(sighup_with_a_broken_file_changes_nothing),
		T(a_long_list_is_loaded_all_or_nothing),
		T(events_are_followed_as_they_come),
		T(detach_works_with_and_without_an_agent),
		T(tables_of_another_size_are_told_of_once),
		T(an_upgrade_to_another_layout_is_told_of),
		T(a_first_start_that_fails_leaves_nothing),
		T(pins_that_somebody_removed_come_back_with_a_reload),
		T(an_interface_that_comes_back_is_protected_again),
		T(the_service_manager_is_told),
		T(wrong_use_has_its_sentence_and_exit_status),
	};

	if (run_lacks_root())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
