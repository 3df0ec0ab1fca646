/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a check of the request layer costs: weir's agent with two limits that match, beside a bare libmicrohttpd answer
 * and what one would use instead. Servers run on one core and the client on another; the cases take turns, and ratios
 * are taken within a round, so that what the machine's other guests do meanwhile hits both sides. Rates swing with them
 * all the same, processor time per check much less: both are printed. `make bench-l7`.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/bench/l7.h"
#include "tests/bench/l7_away.h"
#include "tests/bench/l7_load.h"
#include "tests/bench/l7_redis.h"
#include "tests/bench/l7_servers.h"
#include "tests/bench/l7_servers_int.h"
#include "tests/lib/run.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define OPEN_RATE	 20000
#define IDLE_CONNECTIONS 2000
#define CLIENTS		 400000 /* of the memory figure: their two states fit in the default of a million */
#define FILES		 (IDLE_CONNECTIONS + 4096)

/* Bars of the project. */
#define BAR_BARE   0.6
#define BAR_NGINX  1.0
#define BAR_P99_NS (1 * MS_NS)

#define COMMON                                                                                     \
	"http:\n"                                                                                  \
	"  threads: 1\n"                                                                           \
	"  listeners:\n"                                                                           \
	"    - {listen: 127.0.0.1:0, profile: caddy, trusted_proxies: [127.0.0.1]}\n"

/* Wide enough for every request, and states that last as long as the bench: each is found, none is new. */
static const char weir_wide[] =
	COMMON "request_limits:\n"
	       "  - {name: per-address, key: ip, rate: 1/m, burst: 100000}\n"
	       "  - {name: api, match: {path: /api/*}, key: [ip, endpoint],\n"
	       "     algorithm: sliding-window-counter, limit: 10000000, window: 60s}\n";
/* One request of each client in an hour. */
static const char weir_narrow[] =
	COMMON "request_limits:\n"
	       "  - {name: per-address, key: ip, rate: 1/h, burst: 1}\n"
	       "  - {name: api, match: {path: /api/*}, key: [ip, endpoint],\n"
	       "     algorithm: sliding-window-counter, limit: 1, window: 1h}\n";

struct bench_case {
	const char *name, *what;
	server_start_fn *start;
	const char *config;
	bool refused; /* what is expected */
	bool latency; /* also at a fixed rate */
};
enum { BARE, WEIR, WEIR_REFUSED, NGINX, NODE, CASES };
static const struct bench_case cases[CASES] = {
	[BARE] = {.name = "bare",
		  .what = "libmicrohttpd alone, three headers",
		  .start = server_bare,
		  .latency = true},
	[WEIR] = {.name = "weir",
		  .what = "two limits match, all admitted",
		  .start = server_weir,
		  .config = weir_wide,
		  .latency = true},
	[WEIR_REFUSED] = {.name = "weir-refused",
			  .what = "two limits match, all refused",
			  .start = server_weir,
			  .config = weir_narrow,
			  .refused = true},
	[NGINX] = {.name = "nginx-limit-req",
		   .what = "two zones, a static file",
		   .start = server_nginx},
	[NODE] = {.name = "rate-limiter-flexible",
		  .what = "node, two limits in memory",
		  .start = server_node},
};

struct figures {
	double per_s[ROUNDS_MAX], cpu_us[ROUNDS_MAX];
	double busy[ROUNDS_MAX]; /* share of its core that the server used */
	double p50_us[ROUNDS_MAX], p99_us[ROUNDS_MAX], p999_us[ROUNDS_MAX];
};

struct bench {
	struct server_place place;
	struct server server[CASES];
	bool there[CASES];
	struct figures all[CASES];
	struct shared_bench *shared; /* NULL: not measured */
	struct away_bench *away;     /* the same */
	int rounds;
	uint64_t round_ns;
	uint64_t store_entries, store_bytes; /* 0: not known */
	double client_bytes, connection_bytes;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(const double *of, const double *base, int rounds)
{
	double v[ROUNDS_MAX];
	int n = 0;

	for (int i = 0; i < rounds; i++)
		if (of[i] > 0 && (!base || base[i] > 0))
			v[n++] = base ? of[i] / base[i] : of[i];
	qsort(v, (size_t)n, sizeof(v[0]), by_value);
	return n ? v[n / 2] : 0;
}

/* --- measuring ----------------------------------------------------------------------------- */

int bench_complain(const char *name, int r, const char *err)
{
	fprintf(stderr, "\nweir-bench-l7: %s: %s\n", name, *err ? err : strerror(-r));
	return r;
}

/* Almost all answers are what the case is about, or nothing is measured. */
static int check_answers(const struct bench_case *c, const struct load_result *result)
{
	uint64_t right = c->refused ? result->refused : result->allowed;
	char text[LOAD_ERR_BYTES];

	if (result->answers && right >= result->answers - result->answers / 100)
		return 0;
	(void)snprintf(text, sizeof(text),
		       "%" PRIu64 " answers, %" PRIu64 " allowed, %" PRIu64 " refused, %" PRIu64
		       " others: nothing is measured",
		       result->answers, result->allowed, result->refused, result->other);
	return bench_complain(c->name, -EIO, text);
}

/* Every address once or more, so that states, caches and pools are as in use. */
static int warm_up(struct bench *b, int i)
{
	static const struct load_plan plan = {.requests = 2 * ADDRESSES,
					      .addresses = ADDRESSES,
					      .in_order = true};
	char err[LOAD_ERR_BYTES] = "";
	struct load_result result;
	struct load *l;
	int r = load_open(b->server[i].port, CONNECTIONS, err, &l);

	if (r < 0)
		return bench_complain(cases[i].name, r, err);
	r = load_run(l, &plan, &result);
	load_close(l);
	return r < 0 ? bench_complain(cases[i].name, r, err) : 0;
}

/* One case of one round: as fast as it goes, then at the fixed rate. */
static int measure(struct bench *b, int i, int round)
{
	bool spin = b->place.cpu >= 0; /* a core of its own */
	const struct load_plan warm = {.duration_ns = WARM_NS,
				       .addresses = ADDRESSES,
				       .spin = spin},
			       fast = {.duration_ns = b->round_ns,
				       .addresses = ADDRESSES,
				       .spin = spin},
			       fixed = {.duration_ns = b->round_ns,
					.addresses = ADDRESSES,
					.rate_per_s = OPEN_RATE};
	static struct load_result result;
	struct figures *f = &b->all[i];
	char err[LOAD_ERR_BYTES] = "";
	uint64_t cpu_ns;
	struct load *l;
	int r = load_open(b->server[i].port, CONNECTIONS, err, &l);

	if (r < 0)
		return bench_complain(cases[i].name, r, err);
	r = load_run(l, &warm, &result);
	cpu_ns = server_cpu_ns(&b->server[i]);
	if (!r)
		r = load_run(l, &fast, &result);
	cpu_ns = server_cpu_ns(&b->server[i]) - cpu_ns;
	if (!r)
		r = check_answers(&cases[i], &result);
	if (!r) {
		f->per_s[round] = (double)result.answers * 1e9 / (double)result.elapsed_ns;
		f->cpu_us[round] = (double)cpu_ns / 1e3 / (double)result.answers;
		f->busy[round] = (double)cpu_ns / (double)result.elapsed_ns;
	}
	if (!r && cases[i].latency)
		r = load_run(l, &fixed, &result);
	if (!r && cases[i].latency) {
		r = check_answers(&cases[i], &result);
		f->p50_us[round] = (double)load_quantile_ns(&result.latency, 0.5) / 1e3;
		f->p99_us[round] = (double)load_quantile_ns(&result.latency, 0.99) / 1e3;
		f->p999_us[round] = (double)load_quantile_ns(&result.latency, 0.999) / 1e3;
	}
	load_close(l);
	return r < 0 && *err ? bench_complain(cases[i].name, r, err) : r;
}

/* How much the agent grows by clients it has not seen, and then by connections that have asked once and keep quiet (in
 * this order: what they give back would hide what the clients take).
 */
static int measure_memory(struct bench *b)
{
	static const struct load_plan idle = {.requests = IDLE_CONNECTIONS, .addresses = ADDRESSES},
				      clients = {.requests = CLIENTS - ADDRESSES,
						 .first = ADDRESSES,
						 .addresses = CLIENTS - ADDRESSES,
						 .in_order = true};
	static struct load_result result;
	struct server *s = &b->server[WEIR];
	uint64_t rss = server_rss_bytes(s);
	char err[LOAD_ERR_BYTES] = "";
	struct load *l;
	int r = load_open(s->port, CONNECTIONS, err, &l);

	if (r < 0)
		return bench_complain("weir, clients", r, err);
	r = load_run(l, &clients, &result);
	b->client_bytes = ((double)server_rss_bytes(s) - (double)rss) / (double)clients.requests;
	load_close(l);
	if (r < 0)
		return bench_complain("weir, clients", r, err);
	(void)server_weir_store(s, &b->store_entries, &b->store_bytes);
	rss = server_rss_bytes(s);
	r = load_open(s->port, IDLE_CONNECTIONS, err, &l);
	if (r < 0)
		return bench_complain("weir, idle connections", r, err);
	r = load_run(l, &idle, &result);
	b->connection_bytes = ((double)server_rss_bytes(s) - (double)rss) / IDLE_CONNECTIONS;
	load_close(l);
	return r < 0 ? bench_complain("weir, idle connections", r, err)
		     : check_answers(&cases[WEIR], &result);
}

/* --- what came out ------------------------------------------------------------------------- */

static void print_table(const struct bench *b)
{
	int n = b->rounds;

	printf("\n%-22s%10s%8s%12s%8s  %s\n", "", "checks/s", "ratio", "CPU us", "ratio",
	       "ratios to bare; CPU: of the server, a check");
	for (int i = 0; i < CASES; i++) {
		const struct figures *f = &b->all[i], *bare = &b->all[BARE];

		if (bench_median(f->per_s, NULL, n) <= 0)
			continue;
		printf("%-22s%10.0f%8.2f%12.2f%8.2f  %s%s\n", cases[i].name,
		       bench_median(f->per_s, NULL, n), bench_median(f->per_s, bare->per_s, n),
		       bench_median(f->cpu_us, NULL, n), bench_median(f->cpu_us, bare->cpu_us, n),
		       cases[i].what,
		       bench_median(f->busy, NULL, n) < 0.9 ? " (did not fill its core)" : "");
	}
	printf("\n%-22s%10s%10s%10s   us, at %d checks/s, from when each was due\n", "latency",
	       "p50", "p99", "p99.9", OPEN_RATE);
	for (int i = 0; i < CASES; i++)
		if (bench_median(b->all[i].p50_us, NULL, n) > 0)
			printf("%-22s%10.0f%10.0f%10.0f\n", cases[i].name,
			       bench_median(b->all[i].p50_us, NULL, n),
			       bench_median(b->all[i].p99_us, NULL, n),
			       bench_median(b->all[i].p999_us, NULL, n));
	if (b->client_bytes > 0) {
		printf("\nmemory of weir: %.0f bytes for each of %d clients with two limits",
		       b->client_bytes, CLIENTS);
		if (b->store_entries)
			printf(" (its store: %" PRIu64 " states, %.0f bytes each)",
			       b->store_entries, (double)b->store_bytes / (double)b->store_entries);
		printf(", %.0f bytes for an idle connection\n", b->connection_bytes);
	}
	printf("\n");
	if (b->shared)
		shared_print(b->shared, n);
	if (b->away)
		away_print(b->away, n);
}

static json_t *case_json(const struct bench *b, int i)
{
	const struct figures *f = &b->all[i], *bare = &b->all[BARE];
	int n = b->rounds;

	return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f}", "case", cases[i].name, "checks_per_s",
			 bench_median(f->per_s, NULL, n), "ratio",
			 bench_median(f->per_s, bare->per_s, n), "cpu_us",
			 bench_median(f->cpu_us, NULL, n), "cpu_ratio",
			 bench_median(f->cpu_us, bare->cpu_us, n), "busy",
			 bench_median(f->busy, NULL, n));
}

/* What weir reaches of @i: by rate or by processor time, whichever is more. The core's other users take from a rate what
 * they do not take from the time.
 */
static double reach(const struct bench *b, int i)
{
	const struct figures *weir = &b->all[WEIR], *other = &b->all[i];
	double rate = bench_median(weir->per_s, other->per_s, b->rounds),
	       time = bench_median(other->cpu_us, weir->cpu_us, b->rounds);

	return rate > time ? rate : time;
}

/* Median of the rounds in which the machine was quiet enough for a bare answer to meet the bar; 0: fewer than three. */
static double quiet_p99_us(const struct bench *b)
{
	double v[ROUNDS_MAX];
	int n = 0;

	for (int i = 0; i < b->rounds; i++)
		if (b->all[BARE].p99_us[i] * 1e3 < (double)BAR_P99_NS)
			v[n++] = b->all[WEIR].p99_us[i];
	return n < 3 ? 0 : bench_median(v, NULL, n);
}

/* What is judged, null where it is not. */
static json_t *bars_json(const struct bench *b)
{
	double bare = reach(b, BARE), nginx = reach(b, NGINX), p99_us = quiet_p99_us(b);

	return json_pack("{s:s,s:s,s:o,s:o,s:b,s:o}", "case", "weir", "what", "bars", "of_bare",
			 bare > 0 ? json_real(bare) : json_null(), "of_nginx",
			 nginx > 0 ? json_real(nginx) : json_null(), "p99_judged", p99_us > 0,
			 "p99_us", p99_us > 0 ? json_real(p99_us) : json_null());
}

static int write_json(const char *path, const struct bench *b)
{
	json_t *out = json_array();
	int n = b->rounds, r = 0;

	for (int i = 0; i < CASES; i++) {
		const struct figures *f = &b->all[i];

		if (bench_median(f->per_s, NULL, n) > 0)
			json_array_append_new(out, case_json(b, i));
		if (bench_median(f->p50_us, NULL, n) > 0)
			json_array_append_new(out,
					      json_pack("{s:s,s:s,s:i,s:f,s:f,s:f}", "case",
							cases[i].name, "what", "latency",
							"checks_per_s", OPEN_RATE, "p50_us",
							bench_median(f->p50_us, NULL, n), "p99_us",
							bench_median(f->p99_us, NULL, n), "p999_us",
							bench_median(f->p999_us, NULL, n)));
	}
	if (b->client_bytes > 0)
		json_array_append_new(out, json_pack("{s:s,s:s,s:i,s:f,s:I,s:I,s:f}", "case",
						     "weir", "what", "memory", "clients", CLIENTS,
						     "client_bytes", b->client_bytes,
						     "store_entries", (json_int_t)b->store_entries,
						     "store_bytes", (json_int_t)b->store_bytes,
						     "idle_connection_bytes", b->connection_bytes));
	if (b->shared)
		shared_json(b->shared, n, out);
	if (b->away)
		away_json(b->away, n, out);
	json_array_append_new(out, bars_json(b));
	if (json_dump_file(out, path, JSON_INDENT(2) | JSON_REAL_PRECISION(5))) {
		fprintf(stderr, "weir-bench-l7: cannot write %s: %s\n", path, strerror(errno));
		r = -EIO;
	}
	json_decref(out);
	return r;
}

/* Returns how many bars are missed. A peer that is not there sets none. */
static int judge(const struct bench *b)
{
	double bare = reach(b, BARE), nginx = reach(b, NGINX), p99_us = quiet_p99_us(b);
	uint64_t bar_us = BAR_P99_NS / 1000;
	int missed = 0;

	if (bare < BAR_BARE) {
		printf("missed: weir reaches %.2f of a bare answer (bar %.1f)\n", bare, BAR_BARE);
		missed++;
	}
	if (b->there[NGINX] && nginx <= BAR_NGINX) {
		printf("missed: weir reaches %.2f of nginx limit_req (bar: above %.1f)\n", nginx,
		       BAR_NGINX);
		missed++;
	}
	if (p99_us * 1e3 >= (double)BAR_P99_NS) {
		printf("missed: p99 is %.0f us at %d checks/s (bar: under %" PRIu64 ")\n", p99_us,
		       OPEN_RATE, bar_us);
		missed++;
	}
	if (b->shared)
		missed += shared_judge(b->shared, b->rounds);
	if (b->away)
		missed += away_judge(b->away, b->rounds);
	printf("%s: weir reaches %.2f of a bare answer (bar %.1f)",
	       missed ? "bars are missed" : "all bars met", bare, BAR_BARE);
	if (b->there[NGINX])
		printf(", %.2f of nginx limit_req (bar %.1f)", nginx, BAR_NGINX);
	if (p99_us > 0)
		printf(", p99 %.0f us (bar %" PRIu64 ")", p99_us, bar_us);
	else
		printf(", p99 not judged (this machine is too busy for a bare answer to have one "
		       "under %" PRIu64 " us)",
		       bar_us);
	if (b->shared)
		shared_say(b->shared, b->rounds);
	if (b->away)
		away_say(b->away, b->rounds);
	printf("\n");
	return missed;
}

/* --- the run ------------------------------------------------------------------------------- */

/* Starts what is wanted and there. Returns how many could not be. */
static int start_all(struct bench *b, const char *only)
{
	int failed = 0;

	for (int i = 0; i < CASES; i++) {
		char err[SERVER_ERR_BYTES] = "";
		int r;

		if (only && i != BARE && strcmp(only, cases[i].name))
			continue;
		r = cases[i].start(&b->place, cases[i].config, err, &b->server[i]);
		if (r == SERVER_ABSENT) {
			printf("skipped: %s is not installed\n", cases[i].name);
			continue;
		}
		if (r < 0)
			(void)bench_complain(cases[i].name, r, err);
		else
			r = warm_up(b, i);
		b->there[i] = !r;
		failed += r < 0;
	}
	return failed;
}

static void say_case(const struct bench *b, int round, const char *name, bool tty)
{
	if (tty)
		printf("\r\033[Kround %d of %d: %s", round + 1, b->rounds, name);
	(void)fflush(stdout);
}

static int run_shared(struct bench *b, int round, bool tty)
{
	const char *name = NULL;
	int failed = 0;

	for (int i = 0; b->shared && (!i || name); i++) {
		failed += shared_measure(b->shared, i, round, &name);
		if (name)
			say_case(b, round, name, tty);
	}
	return failed;
}

/* Returns how many figures could not be taken. */
static int run_rounds(struct bench *b)
{
	bool tty = isatty(STDOUT_FILENO);
	int failed = 0;

	for (int round = 0; round < b->rounds; round++) {
		for (int i = 0; i < CASES; i++) {
			if (!b->there[i])
				continue;
			say_case(b, round, cases[i].name, tty);
			failed += measure(b, i, round) < 0;
		}
		failed += run_shared(b, round, tty);
		if (b->away) {
			say_case(b, round, "away", tty);
			away_measure(b->away, round);
		}
	}
	if (tty)
		printf("\r\033[K%s", b->there[WEIR] ? "memory" : "");
	(void)fflush(stdout);
	if (b->there[WEIR])
		failed += measure_memory(b) < 0;
	if (b->shared)
		failed += shared_measure_over(b->shared);
	if (tty)
		printf("\r\033[K");
	return failed;
}

static void usage(void)
{
	puts("usage: weir-bench-l7 [--rounds N] [--ms N] [--only CASE] [--build DIR] [--json FILE] "
	     "[--no-bars]\n"
	     "\n"
	     "--only redis: all cases with limits in Redis; --only away: those while it is away.\n"
	     "Checks per second of one worker, processor time and latency of a check, and memory.\n"
	     "--ms: how long a case runs in a round. Needs no privilege.\n"
	     "Exit status: 0 all bars met, 1 a bar missed or something not measured.");
}

/* Returns how many things failed or were missed. */
static int run(struct bench *b, const char *only, const char *json, bool bars)
{
	int failed;

	printf("checks per second of one worker, %d connections, %d client addresses, median of %d "
	       "rounds of %" PRIu64 " ms\n",
	       CONNECTIONS, ADDRESSES, b->rounds, b->round_ns / MS_NS);
	failed = start_all(b, only);
	if (!failed && (!only || !strcmp(only, "redis")))
		failed = shared_open(&b->place, b->round_ns, &b->shared);
	if (!failed && (!only || !strcmp(only, "away")))
		failed = away_open(b->place.dir, &b->away);
	if (!failed) {
		failed = run_rounds(b);
		print_table(b);
	}
	for (int i = 0; i < CASES; i++)
		server_stop(&b->server[i]);
	if (json && write_json(json, b) < 0)
		failed++;
	if (bars && !only && !failed)
		failed += judge(b);
	shared_close(b->shared);
	away_close(b->away);
	return failed;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"rounds", required_argument, NULL, 'r'}, {"ms", required_argument, NULL, 'm'},
		{"only", required_argument, NULL, 'o'},	  {"build", required_argument, NULL, 'b'},
		{"json", required_argument, NULL, 'j'},	  {"no-bars", no_argument, NULL, 'n'},
		{"help", no_argument, NULL, 'h'},	  {}};
	static struct bench b = {.rounds = 15, .round_ns = 400 * MS_NS, .place = {.cpu = -1}};
	const char *only = NULL, *json = NULL, *tmp = getenv("TMPDIR");
	struct rlimit files;
	char dir[64];
	bool bars = true;
	int o, failed;
	__u64 n;

	b.place.build = "build";
	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (o == 'h') {
			usage();
			return 0;
		}
		if (o == 'o')
			only = optarg;
		else if (o == 'b')
			b.place.build = optarg;
		else if (o == 'j')
			json = optarg;
		else if (o == 'n')
			bars = false;
		else if (o == '?' || weir_str_u64(optarg, 60000, &n) < 0 || n < 1 ||
			 (o == 'r' && n > ROUNDS_MAX)) {
			usage();
			return 2;
		} else if (o == 'r')
			b.rounds = (int)n;
		else
			b.round_ns = n * MS_NS;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max < FILES) {
		fprintf(stderr, "weir-bench-l7: needs %d open files (ulimit -n)\n", FILES);
		return 1;
	}
	files.rlim_cur = FILES;
	(void)setrlimit(RLIMIT_NOFILE, &files); /* within what is allowed */
	(void)snprintf(dir, sizeof(dir), "%s/weir-bench.XXXXXX",
		       tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		fprintf(stderr, "weir-bench-l7: cannot make %s: %s\n", dir, strerror(errno));
		return 1;
	}
	b.place.dir = dir;
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		b.place.cpu = 0;
		bench_pin(1);
	}
	failed = run(&b, only, json, bars);
	(void)run_cmd(0, NULL, 0, "rm", "-r", dir);
	return failed ? 1 : 0;
}
