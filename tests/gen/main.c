/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * weir-gen: flood a veth pair with frames from inside the kernel. The command line of
 * tests/lib/gen.h.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/gen.h"
#include "lib/wait.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define BAR_AFTER_NS 2000000000ULL /* shorter runs show no progress */
#define BAR_STEP_MS  200
#define BAR_WIDTH    40

struct args {
	struct gen_opts gen;
	unsigned int cpus[GEN_CPUS_MAX];
	uint64_t count;
	uint64_t time_ns;
	bool json;
};

/* Long options without a letter. */
enum opt {
	OPT_SRC = 256,
	OPT_DST,
	OPT_DST_MAC,
	OPT_SPORT,
	OPT_DPORT,
	OPT_VLAN,
	OPT_VLAN2,
	OPT_IN_TURN,
	OPT_CPUS,
	OPT_BATCH,
	OPT_SEED,
	OPT_BOTH,
	OPT_KEEP_LENGTH,
	OPT_JSON,
};

static const struct option options[] = {
	{"dev", required_argument, NULL, 'd'},
	{"proto", required_argument, NULL, 'p'},
	{"sources", required_argument, NULL, 's'},
	{"ipv6", no_argument, NULL, '6'},
	{"size", required_argument, NULL, 'z'},
	{"rate", required_argument, NULL, 'r'},
	{"count", required_argument, NULL, 'n'},
	{"time", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{"src", required_argument, NULL, OPT_SRC},
	{"dst", required_argument, NULL, OPT_DST},
	{"dst-mac", required_argument, NULL, OPT_DST_MAC},
	{"sport", required_argument, NULL, OPT_SPORT},
	{"dport", required_argument, NULL, OPT_DPORT},
	{"vlan", required_argument, NULL, OPT_VLAN},
	{"vlan2", required_argument, NULL, OPT_VLAN2},
	{"in-turn", no_argument, NULL, OPT_IN_TURN},
	{"cpus", required_argument, NULL, OPT_CPUS},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"seed", required_argument, NULL, OPT_SEED},
	{"both", no_argument, NULL, OPT_BOTH},
	{"keep-length", no_argument, NULL, OPT_KEEP_LENGTH},
	{"json", no_argument, NULL, OPT_JSON},
	{},
};

static const char help[] =
	"Usage: weir-gen --dev DEV (--count N | --time SECONDS) [OPTION]...\n"
	"Send made-up frames into a veth pair as fast as the kernel can make them.\n"
	"\n"
	"Where\n"
	"  -d, --dev DEV          sending end of a veth pair; its peer has to be in another\n"
	"                         network namespace, and to have an XDP program or GRO\n"
	"      --both             allow a peer in the same namespace\n"
	"      --dst-mac MAC      destination (default: the peer)\n"
	"\n"
	"What\n"
	"  -p, --proto KIND       udp (default), syn, ack, icmp, icmp6, frag, frag-first, mixed\n"
	"  -6, --ipv6             IPv6; sources then differ in the upper 64 bits\n"
	"  -s, --sources N        number of sources, or random for any address (default: 1)\n"
	"      --src ADDR         first source (default: 10.0.0.0 or 2001:db8::1)\n"
	"      --in-turn          sources one after the other, not drawn at random\n"
	"      --dst ADDR         (default: 192.0.2.2 or 2001:db8:ffff::2)\n"
	"      --sport PORT       or random (default)\n"
	"      --dport PORT       or random (default: 9 for UDP, 80 for TCP)\n"
	"      --vlan ID          802.1Q tag\n"
	"      --vlan2 ID         inner tag; the outer one is then 802.1ad\n"
	"  -z, --size BYTES       of a frame, without FCS (default: 64, or what the headers need)\n"
	"      --seed N           same seed, same frames (default: 0)\n"
	"\n"
	"How much\n"
	"  -n, --count N          frames\n"
	"  -t, --time SECONDS     such as 10 or 0.5\n"
	"  -r, --rate PPS         frames a second; 0: as fast as it goes (default)\n"
	"      --cpus LIST        a thread on each, such as 0,2-3 (default: one, anywhere)\n"
	"      --batch N          frames per kernel batch, 1 to 256 (default: 64)\n"
	"      --keep-length      do not reset the length of each frame: cheaper, right if the\n"
	"                         receiver changes no lengths\n"
	"\n"
	"      --json             result as JSON\n"
	"  -h, --help             this text\n"
	"\n"
	"ns/frame is CPU time, sending and receiving together, on all CPUs; pauses are left out.\n"
	"Lost frames are those of the sent that the receiving end had no room for.\n";

static struct gen *running; /* for the signal handler */

static void on_signal(int sig)
{
	(void)sig;
	gen_stop(running);
}

static int bad(const char *option, const char *value)
{
	fprintf(stderr, "weir-gen: --%s: '%s' is not valid; see --help\n", option, value);
	return -EINVAL;
}

static int parse_u16(const char *s, __u64 min, __u64 max, uint16_t *ret)
{
	__u64 v;

	if (weir_str_u64(s, max, &v) < 0 || v < min)
		return -EINVAL;
	*ret = (uint16_t)v;
	return 0;
}

static int parse_seconds(const char *s, uint64_t *ret_ns)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(s, &end);
	if (errno || end == s || *end || !(v >= 1e-9 && v <= 1e6))
		return -EINVAL;
	*ret_ns = (uint64_t)(v * 1e9);
	return 0;
}

/* "3" or "2-5" */
static int parse_cpu_range(char *s, struct args *a)
{
	char *dash = strchr(s, '-');
	__u64 first, last;

	if (dash)
		*dash = '\0';
	if (weir_str_u64(s, UINT16_MAX, &first) < 0)
		return -EINVAL;
	last = first;
	if (dash && weir_str_u64(dash + 1, UINT16_MAX, &last) < 0)
		return -EINVAL;
	if (last < first || last - first >= GEN_CPUS_MAX - a->gen.n_cpus)
		return -EINVAL;
	for (; first <= last; first++)
		a->cpus[a->gen.n_cpus++] = (unsigned int)first;
	return 0;
}

/* "0,2-3" */
static int parse_cpus(const char *s, struct args *a)
{
	_cleanup_free_ char *copy = strdup(s);
	char *rest = copy, *part;

	if (!copy)
		return -ENOMEM;
	a->gen.n_cpus = 0;
	while ((part = strsep(&rest, ","))) {
		if (parse_cpu_range(part, a) < 0)
			return -EINVAL;
	}
	a->gen.cpus = a->cpus;
	return 0;
}

static int parse_what(int c, const char *v, struct gen_opts *g)
{
	__u64 n;

	switch (c) {
	case 'p':
		return gen_proto_parse(v, &g->proto, &g->ipv6);
	case 's':
		g->any_source = !strcmp(v, "random");
		if (g->any_source)
			return 0;
		if (weir_str_u64(v, GEN_SOURCES_ALL, &n) < 0 || !n)
			return -EINVAL;
		g->sources = n;
		return 0;
	case 'z':
		return parse_u16(v, 1, GEN_SIZE_MAX, &g->size);
	case OPT_SPORT:
		g->sport = 0;
		return strcmp(v, "random") ? parse_u16(v, 1, UINT16_MAX, &g->sport) : 0;
	case OPT_DPORT:
		g->rand_dport = !strcmp(v, "random");
		return g->rand_dport ? 0 : parse_u16(v, 1, UINT16_MAX, &g->dport);
	case OPT_VLAN:
		return parse_u16(v, 1, 4094, &g->vlan);
	case OPT_VLAN2:
		return parse_u16(v, 1, 4094, &g->vlan2);
	case OPT_SRC:
		g->src = v;
		return 0;
	case OPT_DST:
		g->dst = v;
		return 0;
	case OPT_DST_MAC:
		g->dst_mac = v;
		return 0;
	default:
		return -EINVAL;
	}
}

static int parse_how(int c, const char *v, struct args *a)
{
	__u64 n;
	int r;

	switch (c) {
	case 'n':
		r = weir_str_u64(v, UINT64_MAX, &n);
		if (r == 0)
			a->count = n;
		return r == 0 && !n ? -EINVAL : r;
	case 't':
		return parse_seconds(v, &a->time_ns);
	case 'r':
		r = weir_str_u64(v, 1000000000, &n);
		if (r == 0)
			a->gen.rate_pps = n;
		return r;
	case OPT_CPUS:
		return parse_cpus(v, a);
	case OPT_BATCH:
		r = weir_str_u64(v, GEN_BATCH_MAX, &n);
		if (r < 0 || !n)
			return -EINVAL;
		a->gen.batch = (unsigned int)n;
		return 0;
	case OPT_SEED:
		r = weir_str_u64(v, UINT32_MAX, &n);
		if (r == 0)
			a->gen.seed = (uint32_t)n;
		return r;
	default:
		return parse_what(c, v, &a->gen);
	}
}

/* Returns 1 to go on, 0 if help was all that was asked for. */
static int parse_args(int argc, char **argv, struct args *a)
{
	int c, index = -1;

	while ((c = getopt_long(argc, argv, "d:p:s:6z:r:n:t:h", options, &index)) != -1) {
		switch (c) {
		case 'h':
			fputs(help, stdout);
			return 0;
		case '?':
			return -EINVAL;
		case 'd':
			a->gen.dev = optarg;
			break;
		case '6':
			a->gen.ipv6 = true;
			break;
		case OPT_IN_TURN:
			a->gen.pick = GEN_IN_TURN;
			break;
		case OPT_BOTH:
			a->gen.both = true;
			break;
		case OPT_KEEP_LENGTH:
			a->gen.keep_length = true;
			break;
		case OPT_JSON:
			a->json = true;
			break;
		default:
			for (index = 0; options[index].val != c;)
				index++;
			if (parse_how(c, optarg, a) < 0)
				return bad(options[index].name, optarg);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "weir-gen: '%s' is not an option; see --help\n", argv[optind]);
		return -EINVAL;
	}
	if (!a->gen.dev || (!a->count && !a->time_ns)) {
		fprintf(stderr, "weir-gen: --dev, and --count or --time, are needed; see --help\n");
		return -EINVAL;
	}
	return 1;
}

static void print_bar(const struct args *a, uint64_t sent, uint64_t spent_ns)
{
	double done = a->time_ns ? (double)spent_ns / (double)a->time_ns : 0;
	double by_count = a->count ? (double)sent / (double)a->count : 0;
	char bar[BAR_WIDTH + 1];
	int full;

	if (by_count > done)
		done = by_count;
	full = done < 1 ? (int)(done * BAR_WIDTH) : BAR_WIDTH;
	memset(bar, '-', BAR_WIDTH);
	memset(bar, '#', (size_t)full);
	bar[BAR_WIDTH] = '\0';
	fprintf(stderr, "\r[%s] %3.0f%% %6.2f Mpps ", bar, done < 1 ? done * 100 : 100.0,
		(double)sent * 1e3 / (double)spent_ns);
}

/* Would the run last long enough for a bar, going by its first moments? */
static bool is_long(const struct args *a, uint64_t sent, uint64_t spent_ns)
{
	if (a->time_ns && a->time_ns < BAR_AFTER_NS)
		return false;
	return !a->count ||
	       (double)sent / (double)spent_ns * (double)BAR_AFTER_NS < (double)a->count;
}

static void show_progress(const struct args *a)
{
	uint64_t begin_ns = wait_now_ns(), spent_ns, sent;
	bool shown = false;

	while (!wait_for(gen_is_done(running), BAR_STEP_MS)) {
		spent_ns = wait_now_ns() - begin_ns;
		sent = gen_sent(running);
		if (!shown && !is_long(a, sent, spent_ns))
			continue;
		print_bar(a, sent, spent_ns);
		shown = true;
	}
	if (shown)
		fputs("\r\033[K", stderr);
}

static void print_result(const struct args *a, const struct gen_result *res)
{
	double seconds = (double)res->elapsed_ns / 1e9;
	double mpps = res->elapsed_ns ? (double)res->frames * 1e3 / (double)res->elapsed_ns : 0;
	double ns = res->frames ? (double)res->busy_ns / (double)res->frames : 0;

	if (!a->json) {
		printf("%" PRIu64 " frames in %.3f s, %.3f Mpps, %.1f ns/frame, %" PRIu64 " lost\n",
		       res->frames, seconds, mpps, ns, res->lost);
		return;
	}
	printf("{\"proto\": \"%s\", \"ipv6\": %s, \"size\": %u, \"threads\": %u, \"frames\": "
	       "%" PRIu64
	       ", \"seconds\": %.6f, \"mpps\": %.6f, \"ns_per_frame\": %.2f, \"lost\": %" PRIu64
	       ", \"thread_frames\": [",
	       gen_proto_name(a->gen.proto), a->gen.ipv6 ? "true" : "false",
	       gen_frame_bytes(running), res->threads, res->frames, seconds, mpps, ns, res->lost);
	for (unsigned int i = 0; i < res->threads; i++)
		printf("%s%" PRIu64, i ? ", " : "", res->thread_frames[i]);
	printf("]}\n");
}

static int run(const struct args *a)
{
	struct sigaction act = {.sa_handler = on_signal};
	struct gen_result res;
	int r;

	(void)sigaction(SIGINT, &act, NULL); /* cannot fail for these two */
	(void)sigaction(SIGTERM, &act, NULL);
	r = gen_start(running, a->count, a->time_ns);
	if (r == 0 && isatty(STDERR_FILENO))
		show_progress(a);
	if (r == 0)
		r = gen_join(running, &res);
	if (r < 0) {
		fprintf(stderr, "weir-gen: sending: %s\n", strerror(-r));
		return r;
	}
	print_result(a, &res);
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = {};
	char err[GEN_ERR_BYTES];
	int r;

	r = parse_args(argc, argv, &a);
	if (r <= 0)
		return r < 0 ? 2 : 0;
	r = gen_open(&a.gen, err, sizeof(err), &running);
	if (r < 0) {
		fprintf(stderr, "weir-gen: %s\n", err);
		return 1;
	}
	r = run(&a);
	gen_close(running);
	return r < 0 ? 1 : 0;
}
