/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts nic.bpf.c on a veth: frames that come in at WIRE wait in a queue of LENGTH frames for CPU, which hands them on to
 * SERVER. Started by scripts/demo, which ends it. A line on standard input is the speed of the wire from then on, in
 * frames a second (0: none). Ten times a second, "ARRIVED TAKEN QUEUE" goes to the start of FILE: frames from the wire
 * so far, of those the ones that found room, and the id of the queue's map, after which the kernel names its thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "nic.skel.h"
#include "user/base/str.h"

#define REPORT_EVERY_MS 100
#define QUEUE_MAX	16384 /* of the kernel's map */
#define LINE_BYTES	64

static int fail(const char *what, int r)
{
	(void)fprintf(stderr, "nic: %s: %s\n", what, strerror(-r)); /* nowhere else to tell */
	return 1;
}

static int attach(struct nic *n, const char *wire, const char *server, __u32 cpu, __u32 length)
{
	struct bpf_cpumap_val queue = {.qsize = length};
	struct bpf_devmap_val to = {.ifindex = if_nametoindex(server)};
	__u32 zero = 0;
	int r;

	queue.bpf_prog.fd = bpf_program__fd(n->progs.from_queue);
	r = bpf_map_update_elem(bpf_map__fd(n->maps.queue), &cpu, &queue, BPF_ANY);
	if (r == 0)
		r = bpf_map_update_elem(bpf_map__fd(n->maps.server), &zero, &to, BPF_ANY);
	if (r == 0)
		r = bpf_xdp_attach((int)if_nametoindex(wire), bpf_program__fd(n->progs.from_wire),
				   XDP_FLAGS_DRV_MODE, NULL);
	return r;
}

static __u64 sum(const struct nic *n, __u32 which, __u64 *per_cpu, int cpus)
{
	__u64 all = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(n->maps.frames), &which, per_cpu) == 0)
		for (int i = 0; i < cpus; i++)
			all += per_cpu[i];
	return all;
}

static void set_speed(struct nic *n)
{
	char line[LINE_BYTES];
	ssize_t len = read(STDIN_FILENO, line, sizeof(line) - 1);
	__u64 pps;

	if (len <= 0)
		exit(0); /* whoever started us is gone */
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (weir_str_u64(line, 1000000000, &pps) == 0)
		n->bss->frame_ns = pps ? 1000000000 / pps : 0;
}

/* Until the end of the laboratory. */
static void report(struct nic *n, int fd)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	int cpus = libbpf_num_possible_cpus();
	__u64 *per_cpu = calloc((size_t)cpus, sizeof(*per_cpu));
	struct bpf_map_info info = {};
	__u32 info_len = sizeof(info);
	char line[LINE_BYTES];

	(void)bpf_obj_get_info_by_fd(bpf_map__fd(n->maps.queue), &info,
				     &info_len); /* without: its thread is not found */
	while (per_cpu) {
		__u64 arrived = sum(n, 0, per_cpu, cpus), taken = sum(n, 1, per_cpu, cpus);
		int len = snprintf(line, sizeof(line), "%llu %llu %u", (unsigned long long)arrived,
				   (unsigned long long)taken, info.id);

		memset(line + len, ' ', sizeof(line) - (size_t)len);
		line[sizeof(line) - 1] = '\n';
		(void)pwrite(fd, line, sizeof(line), 0); /* the next one is soon */
		if (poll(&in, 1, REPORT_EVERY_MS) > 0)
			set_speed(n);
	}
}

int main(int argc, char **argv)
{
	struct nic *n;
	__u64 cpu, length;
	int r, fd;

	if (argc != 6 || weir_str_u64(argv[3], 1023, &cpu) < 0 ||
	    weir_str_u64(argv[4], QUEUE_MAX, &length) < 0) {
		(void)fprintf(stderr, "Usage: demo-nic WIRE SERVER CPU LENGTH FILE\n");
		return 2;
	}
	n = nic__open();
	if (!n)
		return fail("open", -errno);
	n->rodata->server_cpu = (__u32)cpu;
	r = bpf_map__set_max_entries(n->maps.queue, (__u32)libbpf_num_possible_cpus());
	if (r == 0)
		r = nic__load(n);
	if (r < 0)
		return fail("load", r);
	r = attach(n, argv[1], argv[2], (__u32)cpu, (__u32)length);
	if (r < 0)
		return fail("attach", r);
	fd = open(argv[5], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(argv[5], -errno);
	report(n, fd);
	return 1;
}
