/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What weir is measured against, inside XDP: dropping without a look (the limit of what is possible), and the limiter
 * that tutorials teach, a token bucket per source in an LRU hash map of a million entries.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("xdp")
int xdp_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &zero);

	if (n)
		(*n)++;
	return XDP_DROP;
}

struct bucket {
	__u64 full_at_ns;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 20);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

#define INTERVAL_NS 1000000ull /* 1000 a second */
#define BURST_NS    100000000ull

SEC("xdp")
int lru_token_bucket(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u64 now = bpf_ktime_get_ns(), old, next;
	struct bucket *b, fresh = {};
	__u32 key, zero = 0;
	__u64 *n = bpf_map_lookup_elem(&seen, &zero);

	if (n)
		(*n)++;
	if ((void *)(ip + 1) > end)
		return XDP_DROP;
	key = ip->saddr;
	b = bpf_map_lookup_elem(&buckets, &key);
	if (!b) {
		fresh.full_at_ns = now + INTERVAL_NS;
		bpf_map_update_elem(&buckets, &key, &fresh, BPF_ANY);
		return XDP_DROP; /* weir drops what it passes here, too: the network stack is not measured */
	}
	old = b->full_at_ns;
	next = (old < now ? now : old) + INTERVAL_NS;
	if (next - now <= BURST_NS)
		__sync_val_compare_and_swap(&b->full_at_ns, old, next);
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
