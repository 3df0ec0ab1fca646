/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XDP program for tests: says what arrived, and whether lengths and checksums are right. It is slow and
 * exact; nothing of it is shared with what it checks. Results: tests/lib/count.h.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "count.h"

#define ADD(field) __sync_fetch_and_add(&count_seen.field, 1)

struct count_seen count_seen;
__u32 count_action = XDP_DROP;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COUNT_SOURCES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u64);
} count_sources SEC(".maps");

struct frag6 {
	__u8 next;
	__u8 reserved;
	__be16 off;
	__be32 id;
};

/* What comes after the IP header. */
struct l4 {
	__u32 off; /* in the frame */
	__u32 len;
	__u32 sum; /* of the addresses */
	__u8 proto;
	__u8 frag; /* 0: no, 1: first, 2: later */
};

static __always_inline __u32 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

struct sum {
	struct xdp_md *ctx;
	__u32 off, len; /* of what is to be added up */
	__u32 sum;
	__u32 missing; /* not all of it is there */
};

static long add_word(__u32 i, struct sum *s)
{
	__u16 word = 0;
	long r;

	if (2 * i + 1 < s->len)
		r = bpf_xdp_load_bytes(s->ctx, s->off + 2 * i, &word, 2);
	else
		r = bpf_xdp_load_bytes(s->ctx, s->off + 2 * i, &word, 1);
	s->sum += word;
	s->missing |= r < 0;
	return r < 0;
}

/* Sum of @len bytes from @off; 0, which no header has, if they are not all there. */
static __always_inline __u32 sum_bytes(struct xdp_md *ctx, __u32 off, __u32 len)
{
	struct sum s = {.ctx = ctx, .off = off, .len = len};

	bpf_loop((len + 1) / 2, add_word, &s, 0);
	return s.missing ? 0 : fold(s.sum);
}

static __always_inline void count_source(__u64 key)
{
	__u64 one = 1, *v = bpf_map_lookup_elem(&count_sources, &key);

	if (v)
		__sync_fetch_and_add(v, 1);
	else if (!bpf_map_update_elem(&count_sources, &key, &one, BPF_NOEXIST))
		ADD(sources);
	else
		ADD(sources_full);
}

static __always_inline void check_csum(struct xdp_md *ctx, const struct l4 *l4, __u32 whole,
				       int pseudo)
{
	__u32 sum = sum_bytes(ctx, l4->off, l4->len);

	if (pseudo)
		sum += l4->sum + bpf_htons(l4->proto) + bpf_htons(whole);
	if (fold(sum) != 0xffff)
		ADD(bad_l4_csum);
}

static __always_inline void count_udp(struct xdp_md *ctx, const struct l4 *l4)
{
	struct udphdr *udp = (void *)(long)ctx->data + (l4->off & 127);
	__u32 whole;

	if ((void *)(udp + 1) > (void *)(long)ctx->data_end) {
		ADD(bad_length);
		return;
	}
	whole = bpf_ntohs(udp->len);
	if (l4->frag ? whole <= l4->len : whole != l4->len)
		ADD(bad_length);
	if (!udp->check)
		ADD(bad_l4_csum); /* allowed in IPv4, but not what was meant */
	count_seen.last_sport = bpf_ntohs(udp->source);
	count_seen.last_dport = bpf_ntohs(udp->dest);
	if (l4->frag)
		ADD(frag_first);
	else
		ADD(udp);
	/* of a fragment it is right if the rest is zeros, which is what is sent */
	check_csum(ctx, l4, whole, 1);
}

static __always_inline void count_tcp(struct xdp_md *ctx, const struct l4 *l4)
{
	struct tcphdr *tcp = (void *)(long)ctx->data + (l4->off & 127);

	if ((void *)(tcp + 1) > (void *)(long)ctx->data_end || tcp->doff < 5 ||
	    tcp->doff * 4U > l4->len) {
		ADD(bad_length);
		return;
	}
	count_seen.last_sport = bpf_ntohs(tcp->source);
	count_seen.last_dport = bpf_ntohs(tcp->dest);
	if (tcp->syn && !tcp->ack)
		ADD(syn);
	else if (tcp->ack && !tcp->syn)
		ADD(ack);
	else
		ADD(other);
	check_csum(ctx, l4, l4->len, 1);
}

static __always_inline void count_l4(struct xdp_md *ctx, const struct l4 *l4)
{
	if ((void *)(long)ctx->data + (l4->off & 127) + l4->len > (void *)(long)ctx->data_end) {
		ADD(bad_length);
		return;
	}
	if (l4->frag == 2) {
		ADD(frag_last);
	} else if (l4->proto == IPPROTO_UDP) {
		count_udp(ctx, l4);
	} else if (l4->proto == IPPROTO_TCP) {
		count_tcp(ctx, l4);
	} else if (l4->proto == IPPROTO_ICMP || l4->proto == IPPROTO_ICMPV6) {
		ADD(icmp);
		check_csum(ctx, l4, l4->len, l4->proto == IPPROTO_ICMPV6);
	} else {
		ADD(other);
	}
}

static __always_inline void count_ip4(struct xdp_md *ctx, __u32 off)
{
	struct iphdr *ip = (void *)(long)ctx->data + off;
	struct l4 l4 = {.off = off + sizeof(*ip)};
	__u32 tot, frag;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || ip->ihl != 5 || ip->version != 4 ||
	    bpf_ntohs(ip->tot_len) < sizeof(*ip)) {
		ADD(bad_length);
		return;
	}
	ADD(ip4);
	tot = bpf_ntohs(ip->tot_len);
	frag = bpf_ntohs(ip->frag_off);
	l4.len = (tot - sizeof(*ip)) & 0x7ff;
	l4.proto = ip->protocol;
	l4.sum =
		(ip->saddr & 0xffff) + (ip->saddr >> 16) + (ip->daddr & 0xffff) + (ip->daddr >> 16);
	l4.frag = frag & 0x1fff ? 2 : frag & 0x2000 ? 1 : 0;
	count_seen.last_ip4 = ip->saddr;
	count_source(ip->saddr);
	if (sum_bytes(ctx, off, sizeof(*ip)) != 0xffff)
		ADD(bad_ip_csum);
	count_l4(ctx, &l4);
}

static __always_inline void count_ip6(struct xdp_md *ctx, __u32 off)
{
	struct ipv6hdr *ip = (void *)(long)ctx->data + off;
	struct frag6 *frag = (void *)(ip + 1);
	struct l4 l4 = {.off = off + sizeof(*ip)};
	__u64 key;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || ip->version != 6) {
		ADD(bad_length);
		return;
	}
	ADD(ip6);
	l4.len = bpf_ntohs(ip->payload_len) & 0x7ff;
	l4.proto = ip->nexthdr;
	__builtin_memcpy(&key, &ip->saddr, sizeof(key));
	if (l4.proto == IPPROTO_FRAGMENT) {
		if ((void *)(frag + 1) > (void *)(long)ctx->data_end || l4.len < sizeof(*frag)) {
			ADD(bad_length);
			return;
		}
		l4.proto = frag->next;
		l4.frag = bpf_ntohs(frag->off) & 0xfff8 ? 2 : 1;
		l4.off += sizeof(*frag);
		l4.len -= sizeof(*frag);
	}
	l4.sum = sum_bytes(ctx, off + 8, 32); /* both addresses */
	count_source(key);
	count_l4(ctx, &l4);
}

/* The tag at @off, if there is one: its id, and what follows. */
static __always_inline int take_tag(struct xdp_md *ctx, __u32 off, __be16 *type, __u16 *ret_id)
{
	__be16 *tag = (void *)(long)ctx->data + off;

	if (*type != bpf_htons(ETH_P_8021Q) && *type != bpf_htons(ETH_P_8021AD))
		return 0;
	if ((void *)(tag + 2) > (void *)(long)ctx->data_end)
		return 0;
	*ret_id = bpf_ntohs(tag[0]) & 0xfff;
	*type = tag[1];
	return 1;
}

SEC("xdp")
int count_frame(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	__u32 off = sizeof(*eth);
	__be16 type;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return count_action;
	if (eth->h_dest[0] & 1) {
		ADD(multicast);
		return count_action;
	}
	ADD(frames);
	__sync_fetch_and_add(&count_seen.bytes, ctx->data_end - ctx->data);
	type = eth->h_proto;
	if (take_tag(ctx, off, &type, &count_seen.last_tag)) {
		off += 4;
		if (take_tag(ctx, off, &type, &count_seen.last_tag2)) {
			off += 4;
			ADD(vlan2);
		} else {
			ADD(vlan);
		}
	}
	if (type == bpf_htons(ETH_P_IP))
		count_ip4(ctx, off);
	else if (type == bpf_htons(ETH_P_IPV6))
		count_ip6(ctx, off);
	else
		ADD(other);
	return count_action;
}

char _license[] SEC("license") = "GPL";
