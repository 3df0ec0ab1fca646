/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The wire and the network card of the demo's server: frames come at the speed of the wire, wait in one queue of fixed
 * length for one CPU, and are lost where it is full. A veth pair alone cannot show that: its sender does the receiver's
 * work, and so never sends more than the receiver can take. Loaded by nic.c.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1); /* as many as there are CPUs: set by nic.c */
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} server SEC(".maps");

/* 0: from the wire; 1: out of the queue */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

const volatile __u32 server_cpu = 0;
__u64 frame_ns; /* that a frame takes on the wire; 0: none. Set by nic.c at any time */
__u64 wire_free_ns;

#define CATCH_UP_NS 20000 /* that the wire may be late, and then makes good */
#define LOOKS_MAX   256	  /* at the clock, for one frame */

/* Only one CPU sends a flood. The client's few frames may come by another and then share the wire inexactly. */
static __always_inline void wait_for_wire(void)
{
	__u64 now_ns = bpf_ktime_get_ns();
	int i;

	if (wire_free_ns + CATCH_UP_NS < now_ns)
		wire_free_ns = now_ns - CATCH_UP_NS;
	for (i = 0; i < LOOKS_MAX; i++)
		if (bpf_ktime_get_ns() >= wire_free_ns)
			break;
	wire_free_ns += frame_ns;
}

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&frames, &which);

	if (n)
		(*n)++;
}

SEC("xdp")
int from_wire(struct xdp_md *ctx)
{
	count(0);
	if (frame_ns)
		wait_for_wire();
	return bpf_redirect_map(&queue, server_cpu, XDP_DROP);
}

SEC("xdp/cpumap")
int from_queue(struct xdp_md *ctx)
{
	count(1);
	return bpf_redirect_map(&server, 0, XDP_DROP);
}

char _license[] SEC("license") = "GPL";
