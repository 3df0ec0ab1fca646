/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a packet costs, with real frames: a generator pushes live frames through a veth pair into a namespace, all on
 * one core; the figure is generator plus receive path. weir beside what one would use instead, in one run, median of
 * rounds; compare figures within a run only. `make bench`; what was tried to get here: docs/packet-path.md.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>
#include <linux/if_link.h>

#include "peers.skel.h"
#include "tests/bench/bench.h"
#include "tests/lib/gen.h"
#include "tests/lib/netns.h"
#include "tests/lib/run.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define ROUNDS_MAX 25
#define COLUMNS	   3

static const uint64_t sources_of[COLUMNS] = {1, 65536, 16777216};

/* Three limits, of packets, bytes and a protocol; all match what the generator sends. */
#define THREE_LIMITS                                                                               \
	"  - {name: packets, per: source, rate: 1000/s, burst: 200}\n"                             \
	"  - {name: bytes, per: source, rate: 200 Mbit/s, burst: 4 MB}\n"                          \
	"  - {name: udp, match: {protocol: udp}, per: source, rate: 5000/s, burst: 500}\n"

static const char three_limits[] = "packet_limits:\n" THREE_LIMITS;

/* The first one of the fleet: what counts for it is a fourth word, so that the third is in a group of its own. */
static const char fleet_limits[] =
	"store: {url: \"redis://127.0.0.1\"}\npacket_limits:\n"
	"  - {name: packets, per: source, rate: 1000/s, burst: 200, scope: fleet}\n"
	"  - {name: bytes, per: source, rate: 200 Mbit/s, burst: 4 MB}\n"
	"  - {name: udp, match: {protocol: udp}, per: source, rate: 5000/s, burst: 500}\n";
/* The same where there is room: a word more in the same slots. */
static const char fleet_two[] =
	"store: {url: \"redis://127.0.0.1\"}\npacket_limits:\n"
	"  - {name: packets, per: source, rate: 1000/s, burst: 200, scope: fleet}\n"
	"  - {name: bytes, per: source, rate: 200 Mbit/s, burst: 4 MB}\n";
static const char two_limits[] = "packet_limits:\n"
				 "  - {name: packets, per: source, rate: 1000/s, burst: 200}\n"
				 "  - {name: bytes, per: source, rate: 200 Mbit/s, burst: 4 MB}\n";

/* One more that all senders share, at its rate all the time. */
static const char destination_limits[] =
	"packet_limits:\n" THREE_LIMITS
	"  - {name: service, per: destination, rate: 1000000/s, burst: 100000}\n";

static const char all_limits[] =
	"packet_limits:\n" THREE_LIMITS
	"  - {name: everything, per: all, rate: 1000000/s, burst: 100000}\n";

/* 29 more that do not match, before the three that do. */
static char *many_limits(void)
{
	static char text[8192];
	size_t n = (size_t)snprintf(text, sizeof(text), "packet_limits:\n");

	for (int i = 0; i < 29; i++)
		n += (size_t)
			snprintf(text + n, sizeof(text) - n,
				 "  - {name: port-%d, match: {protocol: udp, destination_port: "
				 "%d}, per: source, rate: 100/s}\n",
				 i, 20000 + i);
	(void)snprintf(text + n, sizeof(text) - n, "%s", THREE_LIMITS);
	return text;
}

/* What receives. set up and taken away around its rounds; figures are checked by what it counted. */
struct receiver {
	const char *name;
	bool ipv6;
	bool slow; /* a peer outside of XDP: fewer frames are enough */
	int (*up)(struct bench *b, const struct receiver *r);
	void (*down)(struct bench *b, const struct receiver *r);
	uint64_t (*seen)(struct bench *b); /* frames that it has judged; NULL: not counted */
	struct weir_bare_opts weir;
};

static struct weir *weir_now;
static const struct lab *lab_now;

static int attach(struct bench *b, int prog_fd)
{
	int saved = lab_enter(lab_now, LAB_WEIR), r;

	r = bpf_xdp_attach(b->rx_ifindex, prog_fd, XDP_FLAGS_DRV_MODE, NULL);
	lab_leave(saved);
	return r;
}

static void detach(struct bench *b, const struct receiver *r)
{
	int saved = lab_enter(lab_now, LAB_WEIR);

	(void)r;
	(void)bpf_xdp_detach(b->rx_ifindex, XDP_FLAGS_DRV_MODE, NULL); /* the lab goes, too */
	lab_leave(saved);
}

static int drop_up(struct bench *b, const struct receiver *r)
{
	(void)r;
	return attach(b, bpf_program__fd(b->peers->progs.xdp_drop));
}

static int lru_up(struct bench *b, const struct receiver *r)
{
	(void)r;
	return attach(b, bpf_program__fd(b->peers->progs.lru_token_bucket));
}

static uint64_t peers_seen(struct bench *b)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *n = calloc((size_t)cpus, sizeof(*n)), sum = 0;
	__u32 zero = 0;

	if (n && !bpf_map_lookup_elem(bpf_map__fd(b->peers->maps.seen), &zero, n))
		for (int i = 0; i < cpus; i++)
			sum += n[i];
	free(n);
	return sum;
}

static int weir_up(struct bench *b, const struct receiver *r)
{
	int fd, err = weir_bare_open(&r->weir, &weir_now, &fd);

	if (err < 0)
		return err;
	err = attach(b, fd);
	if (err < 0)
		weir_bare_close(TAKE_PTR(weir_now));
	return err;
}

static void weir_down(struct bench *b, const struct receiver *r)
{
	detach(b, r);
	weir_bare_close(TAKE_PTR(weir_now));
}

static uint64_t weir_seen(struct bench *b)
{
	(void)b;
	return weir_bare_packets(weir_now);
}

/* Runs a command in the receiving namespace; its output is shown if it fails. */
static int in_lab(const char *const *argv)
{
	char out[2048];
	int r = run_cmdv(lab_now->netns_fd[LAB_WEIR], out, sizeof(out), argv);

	if (r)
		fprintf(stderr, "weir-bench: %s failed (%d): %s\n", argv[0], r, out);
	return r ? -EIO : 0;
}

static int nft_up(struct bench *b, const struct receiver *r)
{
	(void)b, (void)r;
	return in_lab((const char *const[]){
		"nft",
		"table netdev bench { set sources { type ipv4_addr; size 1000000; flags "
		"dynamic,timeout; "
		"timeout 10s; }; chain in { type filter hook ingress device " LAB_WEIR_DEV
		" priority 0; policy drop; update @sources { ip saddr limit rate over 1000/second "
		"burst 100 "
		"packets } drop; }; }",
		NULL});
}

static void nft_down(struct bench *b, const struct receiver *r)
{
	(void)b, (void)r;
	(void)in_lab((const char *const[]){"nft", "flush ruleset", NULL});
}

static int hashlimit_up(struct bench *b, const struct receiver *r)
{
	(void)b, (void)r;
	int err = in_lab((const char *const[]){"iptables",   "-t",
					       "raw",	     "-A",
					       "PREROUTING", "-m",
					       "hashlimit",  "--hashlimit-name",
					       "bench",	     "--hashlimit-mode",
					       "srcip",	     "--hashlimit-above",
					       "1000/sec",   "--hashlimit-burst",
					       "100",	     "--hashlimit-htable-max",
					       "1000000",    "--hashlimit-htable-size",
					       "262144",     "-j",
					       "DROP",	     NULL});

	if (err < 0)
		return err;
	return in_lab((const char *const[]){"iptables", "-t", "raw", "-A", "PREROUTING", "-j",
					    "DROP", NULL});
}

static void hashlimit_down(struct bench *b, const struct receiver *r)
{
	(void)b, (void)r;
	(void)in_lab((const char *const[]){"iptables", "-t", "raw", "-F", NULL});
}

#define MB (1024 * 1024)

static const struct receiver receivers[] = {
	{.name = "xdp-drop", .up = drop_up, .down = detach, .seen = peers_seen},
	{.name = "lru-token-bucket",

	 .up = lru_up,
	 .down = detach,
	 .seen = peers_seen},
	{.name = "nft-set", .slow = true, .up = nft_up, .down = nft_down},
	{.name = "hashlimit",

	 .slow = true,
	 .up = hashlimit_up,
	 .down = hashlimit_down},
	{.name = "weir",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = three_limits, .table_bytes = 16 * MB}},
	{.name = "weir-32-limits",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.table_bytes = 16 * MB}},
	{.name = "weir-64mb",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = three_limits, .table_bytes = 64 * MB}},
	{.name = "weir-ipv6",

	 .ipv6 = true,
	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = three_limits, .table_bytes = 16 * MB}},
	{.name = "weir-2-limits",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = two_limits, .table_bytes = 16 * MB}},
	{.name = "weir-2-fleet",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = fleet_two, .table_bytes = 16 * MB}},
	{.name = "weir-3-fleet",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = fleet_limits, .table_bytes = 16 * MB}},
	{.name = "weir-destination",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = destination_limits, .table_bytes = 16 * MB}},
	{.name = "weir-all",

	 .up = weir_up,
	 .down = weir_down,
	 .seen = weir_seen,
	 .weir = {.yaml = all_limits, .table_bytes = 16 * MB}},
};
#define RECEIVERS (sizeof(receivers) / sizeof(receivers[0]))

/* Figures of all rounds. A ratio is taken within its round, so that what the machine's other guests do meanwhile hits
 * both sides of it.
 */
struct figures {
	double ns[ROUNDS_MAX][COLUMNS];
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median over the rounds of column @c, as ns, or as a ratio to @base. 0 if there is none. */
static double median(const struct figures *f, const struct figures *base, int c, int rounds)
{
	double v[ROUNDS_MAX];
	int n = 0;

	for (int i = 0; i < rounds; i++)
		if (f->ns[i][c] > 0 && (!base || base->ns[i][c] > 0))
			v[n++] = base ? f->ns[i][c] / base->ns[i][c] : f->ns[i][c];
	qsort(v, (size_t)n, sizeof(v[0]), by_value);
	return n ? v[n / 2] : 0;
}

/* Sends, and checks that the receiver saw what was sent. */
static int send_frames(struct bench *b, const struct receiver *rx, struct gen *g, uint64_t frames,
		       double *ret_ns)
{
	uint64_t before = rx->seen ? rx->seen(b) : 0, seen;
	struct gen_result result;
	int r = gen_run(g, frames, 0, &result);

	if (r < 0)
		return r;
	seen = rx->seen ? rx->seen(b) - before : frames;
	if (seen < frames - frames / 100) {
		fprintf(stderr, "weir-bench: %s judged %lu of %lu frames: nothing is measured\n",
			rx->name, (unsigned long)seen, (unsigned long)frames);
		return -EIO;
	}
	*ret_ns = (double)result.elapsed_ns / (double)result.frames;
	return 0;
}

/* One round of all columns of one receiver: each warms up with a quarter of its frames first. */
static int measure(struct bench *b, const struct receiver *rx, const unsigned int *cpu,
		   double ret[COLUMNS])
{
	uint64_t frames = rx->slow ? b->frames / 4 : b->frames;
	char err[GEN_ERR_BYTES];
	double warm;
	struct gen *g;
	int r = rx->up(b, rx);

	if (r < 0) {
		fprintf(stderr, "weir-bench: %s: %s\n", rx->name, strerror(-r));
		return r;
	}
	for (int c = 0; c < COLUMNS && !r; c++) {
		struct gen_opts o = {.dev = LAB_GEN_DEV,
				     .netns_fd = lab_now->netns_fd[LAB_GEN],
				     .ipv6 = rx->ipv6,
				     .sources = sources_of[c],
				     .sport = 4000,
				     .cpus = cpu,
				     .n_cpus = 1,
				     .keep_length = true};

		r = gen_open(&o, err, sizeof(err), &g);
		if (r < 0) {
			fprintf(stderr, "weir-bench: generator: %s\n", err);
			break;
		}
		r = send_frames(b, rx, g, frames / 4, &warm);
		if (!r)
			r = send_frames(b, rx, g, frames, &ret[c]);
		gen_close(g);
	}
	rx->down(b, rx);
	return r;
}

/* Bars of the project for `weir`, as a ratio to XDP_DROP, by column; and to nft and hashlimit in the last. */
static const double bar[COLUMNS] = {1.6, 3.1, 4.2};
#define BAR_PEERS 0.4

static const struct figures *figures_of(const char *name, const struct figures *all)
{
	for (size_t i = 0; i < RECEIVERS; i++)
		if (!strcmp(receivers[i].name, name))
			return &all[i];
	return NULL;
}

static int judge(const struct figures *all, int rounds)
{
	const struct figures *weir = figures_of("weir", all);
	const char *const peers[] = {"nft-set", "hashlimit"};
	int missed = 0;

	for (int c = 0; c < COLUMNS; c++) {
		double ratio = median(weir, &all[0], c, rounds);

		if (ratio <= bar[c])
			continue;
		printf("missed: weir with %lu sources costs %.2f of xdp-drop (bar %.1f)\n",
		       (unsigned long)sources_of[c], ratio, bar[c]);
		missed++;
	}
	for (size_t i = 0; i < 2; i++) {
		double ratio = median(weir, figures_of(peers[i], all), 2, rounds);

		if (ratio <= BAR_PEERS)
			continue;
		printf("missed: weir with %lu sources costs %.2f of %s (bar %.1f)\n",
		       (unsigned long)sources_of[2], ratio, peers[i], BAR_PEERS);
		missed++;
	}
	return missed;
}

static int write_json(const char *path, const struct figures *all, int rounds)
{
	json_t *out = json_array();
	int r = 0;

	for (size_t i = 0; i < RECEIVERS; i++) {
		for (int c = 0; c < COLUMNS; c++) {
			double ns = median(&all[i], NULL, c, rounds);

			if (ns > 0)
				json_array_append_new(
					out,
					json_pack("{s:s,s:I,s:f,s:f}", "case", receivers[i].name,
						  "sources", (json_int_t)sources_of[c], "ns", ns,
						  "ratio", median(&all[i], &all[0], c, rounds)));
		}
	}
	if (json_dump_file(out, path, JSON_INDENT(2) | JSON_REAL_PRECISION(5))) {
		fprintf(stderr, "weir-bench: cannot write %s: %s\n", path, strerror(errno));
		r = -EIO;
	}
	json_decref(out);
	return r;
}

static void print_table(const struct figures *all, int rounds)
{
	printf("\n%-18s%18s%18s%18s\n", "", "1 source", "65536", "16777216");
	for (size_t i = 0; i < RECEIVERS; i++) {
		if (median(&all[i], NULL, 0, rounds) <= 0)
			continue;
		printf("%-18s", receivers[i].name);
		for (int c = 0; c < COLUMNS; c++)
			printf("  %7.0f ns %5.2f", median(&all[i], NULL, c, rounds),
			       median(&all[i], &all[0], c, rounds));
		printf("\n");
	}
	printf("\n");
}

/* All receivers, round by round. Returns how many could not be measured. */
static int run_rounds(struct bench *b, const char *only, const unsigned int *cpu,
		      struct figures *all)
{
	bool tty = isatty(STDOUT_FILENO);
	int failed = 0;

	for (int round = 0; round < b->rounds; round++) {
		for (size_t i = 0; i < RECEIVERS; i++) {
			struct receiver rx = receivers[i];

			if (only && i > 0 && strcmp(only, rx.name))
				continue;
			if (tty)
				printf("\r\033[Kround %d of %d: %s", round + 1, b->rounds, rx.name);
			(void)fflush(stdout);
			if (!rx.weir.yaml)
				rx.weir.yaml = many_limits();
			failed += measure(b, &rx, cpu, all[i].ns[round]) < 0;
		}
	}
	if (tty)
		printf("\r\033[K");
	return failed;
}

static void usage(void)
{
	puts("usage: weir-bench [--rounds N] [--frames N] [--cpu N] [--only CASE] [--json FILE] "
	     "[--no-bars]\n"
	     "\n"
	     "What a packet costs, in ns and as a ratio to XDP_DROP, with 1, 65536 and 16777216 "
	     "sources.\n"
	     "Exit status: 0 all bars met, 1 a bar missed or nothing measured.");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"rounds", required_argument, NULL, 'r'}, {"frames", required_argument, NULL, 'f'},
		{"cpu", required_argument, NULL, 'c'},	  {"only", required_argument, NULL, 'o'},
		{"json", required_argument, NULL, 'j'},	  {"no-bars", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},	  {}};
	struct bench b = {.frames = 2000000, .rounds = 5};
	const char *only = NULL, *json = NULL;
	unsigned int cpu = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	static struct figures all[RECEIVERS];
	char err[LAB_ERR_BYTES];
	bool bars = true;
	struct lab lab;
	__u64 n;
	int o, failed = 0;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (o == 'h') {
			usage();
			return 0;
		}
		if (o == 'o')
			only = optarg;
		else if (o == 'j')
			json = optarg;
		else if (o == 'n')
			bars = false;
		else if (o == '?' || weir_str_u64(optarg, UINT32_MAX, &n) < 0 ||
			 (o == 'r' && (n < 1 || n > ROUNDS_MAX)) || (o == 'f' && n < 1000)) {
			usage();
			return 2;
		} else if (o == 'r')
			b.rounds = (int)n;
		else if (o == 'f')
			b.frames = n;
		else
			cpu = (unsigned int)n;
	}
	if (geteuid()) {
		fprintf(stderr, "weir-bench: needs root (network namespaces and BPF)\n");
		return 1;
	}
	if (lab_open(&lab, NULL, err) < 0) {
		fprintf(stderr, "weir-bench: lab: %s\n", err);
		return 1;
	}
	lab_now = &lab;
	b.rx_ifindex = lab.ifindex[LAB_WEIR];
	b.peers = peers__open_and_load();
	if (!b.peers) {
		fprintf(stderr, "weir-bench: cannot load the peers: %s\n", strerror(errno));
		lab_close(&lab);
		return 1;
	}
	printf("ns a packet and ratio to xdp-drop: one core, generator included, median of %d "
	       "rounds of "
	       "%lu frames\n",
	       b.rounds, (unsigned long)b.frames);
	failed = run_rounds(&b, only, &cpu, all);
	print_table(all, b.rounds);
	if (json && write_json(json, all, b.rounds) < 0)
		failed++;
	if (bars && !only && !failed)
		failed += judge(all, b.rounds);
	if (bars && !only && !failed)
		printf("all bars met: %.1f / %.1f / %.1f of xdp-drop, %.1f of nft and hashlimit\n",
		       bar[0], bar[1], bar[2], BAR_PEERS);
	peers__destroy(b.peers);
	lab_close(&lab);
	return failed ? 1 : 0;
}
