/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic generator: floods the far end of a veth pair with frames made inside the kernel, millions
 * a second per CPU. Used by weir-gen (tests/gen), the benchmark, the demo and the namespace tests.
 *
 *	struct gen_opts o = { .dev = "tx", .netns_fd = lab->tx_fd, .sources = 65536 };
 *	char err[GEN_ERR_BYTES];
 *	struct gen *g;
 *
 *	r = gen_open(&o, err, sizeof(err), &g);
 *	r = gen_run(g, 1000000, 0, &result);
 *	gen_close(g);
 *
 * Frames have right lengths and checksums, so a network stack takes them. The receiving end needs an
 * XDP program or GRO, or veth refuses the frames (they are then counted as lost). Needs root (or
 * CAP_NET_ADMIN and CAP_BPF and CAP_SYS_ADMIN) and Linux 5.18.
 *
 * Calls return 0 or -errno and print nothing. A struct gen belongs to one thread, except for
 * gen_stop(), gen_sent() and gen_is_done(), which any thread may call while it is open.
 */
#ifndef WEIR_TEST_GEN_H
#define WEIR_TEST_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEN_ERR_BYTES	256	     /* enough for any message of gen_open() */
#define GEN_CPUS_MAX	256	     /* threads in one generator */
#define GEN_SOURCES_ALL (1ULL << 32) /* most sources there can be */
#define GEN_BATCH_MAX	256	     /* limit of the kernel */
#define GEN_SIZE_MAX	2048	     /* bytes of a frame; the MTU may allow fewer */

enum gen_proto {
	GEN_UDP,
	GEN_SYN,
	GEN_ACK,	/* TCP, ACK flag alone */
	GEN_ICMP,	/* echo request; ICMPv6 if ipv6 is set */
	GEN_FRAG,	/* last fragment of a UDP datagram: no ports in it */
	GEN_FRAG_FIRST, /* first fragment of it, with ports, more to come */
	GEN_MIXED,	/* of 16 frames: 6 UDP, 4 SYN, 2 ACK, 2 ICMP, 1 last and 1 first fragment */
	GEN_PROTO_MAX
};

enum gen_pick {
	GEN_DRAWN,   /* each source drawn at random (LCG of period 2^32), evenly */
	GEN_IN_TURN, /* first to last and again; each thread starts at its own share */
	GEN_PICK_MAX
};

/* All zeros but @dev is valid: UDP over IPv4 from one source, one thread, not pinned. */
struct gen_opts {
	const char *dev; /* sending end of the veth pair */
	int netns_fd;	 /* network namespace of @dev; 0 or below: the caller's own */
	bool both;	 /* allow a peer in the same namespace as @dev */

	enum gen_proto proto;
	bool ipv6;
	enum gen_pick pick;
	uint64_t
		sources; /* 1 .. GEN_SOURCES_ALL, counted up from @src; IPv6: that many /64. 0: 1 */
	bool any_source; /* IPv4 sources all over 1.0.0.0 - 223.255.255.255 without 127.0.0.0/8;
			   * IPv6: 2^32 /64 from @src; @sources is not used, and @src not by IPv4 */
	const char *src; /* first source; NULL: 10.0.0.0 or 2001:db8::1 */
	const char *dst; /* NULL: 192.0.2.2 or 2001:db8:ffff::2 */
	const char *dst_mac;  /* aa:bb:cc:dd:ee:ff; NULL: that of the peer */
	uint16_t sport;	      /* 0: drawn from 1024 .. 65535 */
	uint16_t dport;	      /* 0: 9 (discard) for UDP, 80 for TCP */
	bool rand_dport;      /* draw @dport as well */
	uint16_t vlan, vlan2; /* outer and inner 802.1Q id, 1 .. 4094; 0: none */
	uint16_t size; /* bytes of a frame without FCS; 0: 64, or the least its headers need */

	const unsigned int *cpus; /* a pinned thread for each; copied */
	unsigned int n_cpus;	  /* 0: one thread, not pinned */
	uint64_t rate_pps;	  /* of all threads together; 0: as fast as it goes */
	unsigned int batch;	  /* frames per kernel batch, 1 .. GEN_BATCH_MAX; 0: 64 */
	uint32_t seed;		  /* same seed, same frames */
	bool keep_length; /* leave out the reset of each frame's length: a few ns less, right
				   * only if the receiver never changes a length */
};

struct gen_result {
	uint64_t frames;     /* sent by all threads */
	uint64_t elapsed_ns; /* from the first thread's start to the last one's end */
	uint64_t busy_ns;    /* CPU time of the threads for frames, receive path included, by the
			      * kernel's count: without pauses, preparations and preemption */
	uint64_t lost;	     /* of @frames, refused by the veth (receive ring full or not there) */
	unsigned int threads;
	uint64_t thread_frames[GEN_CPUS_MAX]; /* in the order of gen_opts.cpus */
};

struct gen;

/* Checks @o, looks up the device and loads a program per thread. Nothing is sent yet. Strings and
 * arrays of @o are not needed afterwards, @netns_fd is duplicated. On failure @err (if @err_bytes is
 * not 0) has a sentence that names the option or device at fault.
 * -EINVAL: an option; -ENODEV: no such device; -EOPNOTSUPP: not a veth, or a peer in the same
 * namespace without @both; -ERANGE: sources run past the last address; -EMSGSIZE: @size below the
 * headers or above the MTU; -EPERM; others from the kernel.
 */
int gen_open(const struct gen_opts *o, char *err, size_t err_bytes, struct gen **ret);

/* Takes NULL. Stops and joins first if it has to. */
void gen_close(struct gen *g);

/* Start sending in the background: until @frames were sent (0: no limit) or @time_ns have passed
 * (0: no limit) or gen_stop(). -EBUSY if it is running. May be called again after gen_join().
 */
int gen_start(struct gen *g, uint64_t frames, uint64_t time_ns);

/* Wait for the end; *ret_result (may be NULL) is for this start only, and is also written when a
 * thread failed: then the first failure is returned. -EINVAL if not started.
 */
int gen_join(struct gen *g, struct gen_result *ret_result);

/* gen_start() and gen_join(). -EINVAL if both limits are 0. */
int gen_run(struct gen *g, uint64_t frames, uint64_t time_ns, struct gen_result *ret_result);

/* Ask for the end: within some 20 ms (100 on a contended machine). Any thread, or a signal handler. */
void gen_stop(struct gen *g);

/* Frames since gen_open(), of all threads or one (below the number of threads). Any thread. */
uint64_t gen_sent(const struct gen *g);
uint64_t gen_thread_sent(const struct gen *g, unsigned int thread);

/* True once nothing is left for gen_join() to wait for. Any thread. */
bool gen_is_done(const struct gen *g);

/* What gen_open() worked out. */
unsigned int gen_threads(const struct gen *g);
unsigned int gen_frame_bytes(const struct gen *g);

/* "udp", "syn", "ack", "icmp", "frag", "frag-first", "mixed"; NULL if @p is none of them. */
const char *gen_proto_name(enum gen_proto p);
/* Returns 0, or -EINVAL if @name is unknown. "icmp6" is GEN_ICMP with *ret_ipv6 set. */
int gen_proto_parse(const char *name, enum gen_proto *ret_proto, bool *ret_ipv6);

#endif
