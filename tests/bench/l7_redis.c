/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See l7_redis.h. Everything asks one Redis of the bench's own over its Unix socket, with the same two limits in every
 * case. On two processors Redis shares one with the client (beside redis-benchmark and the store there is none), else it
 * has its own.
 */
#include "tests/bench/l7_redis.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/l7.h"
#include "tests/bench/l7_load.h"
#include "tests/bench/l7_servers_int.h"
#include "tests/bench/l7_store.h"
#include "tests/lib/redis.h"
#include "tests/lib/redis_bench.h"

#define BATCH		 64
#define LEASE		 1000
#define FIRST_DECISIONS	 8000 /* of redis-benchmark, before its rate is known */
#define OVER_AGENTS	 4
#define OVER_RATE	 1000
#define OVER_BURST	 10000
#define OVER_LEASE	 1000
#define OVER_DURATION_NS (3500 * MS_NS)
/* What a moment's delay between server and client can look like. */
#define OVER_CLOCK 100

/* Bars of the project. */
#define BAR_STORE     1.0
#define BAR_HTTP      0.45
#define BAR_COALESCED 1.15
#define BAR_LEASE     5.0

/* Wide enough for every request, states that last, time enough to wait on a busy machine. */
static const char weir_config[] =
	"http:\n"
	"  threads: 1\n"
	"  budget: 1s\n"
	"  listeners:\n"
	"    - {listen: 127.0.0.1:0, profile: caddy, trusted_proxies: [127.0.0.1]}\n"
	"store:\n"
	"  url: \"redis+unix://%s?db=%d\"\n"
	"  key_secret_file: %s\n"
	"  timeout: 1s\n"
	"  batch: %d\n"
	"request_limits:\n"
	"  - {name: per-address, key: ip, rate: 1/m, burst: 10000000%s}\n"
	"  - {name: api, match: {path: /api/*}, key: [ip, endpoint],\n"
	"     algorithm: sliding-window-counter, limit: 10000000, window: 60s%s}\n";

enum server_no { AGENT, AGENT_ONE, AGENT_LEASE, PEER, SERVERS };
static const struct {
	const char *name;
	int db; /* of its own: whatever counts together is one case */
	int batch;
	bool lease;
	server_start_fn *start;
} servers[SERVERS] = {
	[AGENT] = {"weir with Redis", 0, BATCH, false, server_weir},
	[AGENT_ONE] = {"weir with Redis, batch: 1", 1, 1, false, server_weir},
	[AGENT_LEASE] = {"weir with Redis, lease", 2, BATCH, true, server_weir},
	[PEER] = {"rate-limiter-flexible with Redis", 0, 0, false, server_node_redis},
};

enum {
	BENCHMARK,
	STORE,
	STORE_ONE,
	HTTP,
	HTTP_ONE,
	NODE,
	HOT_STORE,
	HOT_STORE_LEASE,
	HOT_HTTP,
	HOT_HTTP_LEASE,
	CASES
};
#define DB_STORE	       3 /* of its own */
#define AT_SERVER(server)      server, 0, 0, 0
#define AT_STORE(batch, lease) -1, batch, DB_STORE, lease

static const struct {
	const char *name, *what;
	int server, batch, db; /* server below 0: none */
	uint64_t lease;
	uint32_t addresses;
} cases[CASES] = {
	[BENCHMARK] = {"redis-benchmark", "weir's script, a decision a call, -P 16", AT_STORE(0, 0),
		       ADDRESSES},
	[STORE] = {"redis-store", "weir's store without HTTP", AT_STORE(BATCH, 0), ADDRESSES},
	[STORE_ONE] = {"redis-store-1", "the same, a decision a call (batch: 1)", AT_STORE(1, 0),
		       ADDRESSES},
	[HTTP] = {"redis-weir", "weir, two limits in Redis", AT_SERVER(AGENT), ADDRESSES},
	[HTTP_ONE] = {"redis-weir-1", "the same, a decision a call (batch: 1)",
		      AT_SERVER(AGENT_ONE), ADDRESSES},
	[NODE] = {"redis-rate-limiter-flexible", "node, ioredis, two limits", AT_SERVER(PEER),
		  ADDRESSES},
	[HOT_STORE] = {"redis-store-hot", "weir's store, one hot key", AT_STORE(BATCH, 0), 1},
	[HOT_STORE_LEASE] = {"redis-store-hot-lease", "the same, lease: 1000",
			     AT_STORE(BATCH, LEASE), 1},
	[HOT_HTTP] = {"redis-weir-hot", "weir, one hot key", AT_SERVER(AGENT), 1},
	[HOT_HTTP_LEASE] = {"redis-weir-hot-lease", "the same, lease: 1000", AT_SERVER(AGENT_LEASE),
			    1},
};

struct shared_bench {
	struct server_place place;
	int redis_cpu;
	uint64_t round_ns;
	struct redis_server redis;
	struct server redis_process; /* for its processor time */
	redisContext *c;
	struct redis_bench benchmark;
	bool has_benchmark;
	struct server server[SERVERS];
	bool there[SERVERS];
	struct {
		double per_s[ROUNDS_MAX], cpu_us[ROUNDS_MAX], redis_us[ROUNDS_MAX];
	} all[CASES];
	bool over_known;
	double over, over_without;
};

static double rate(const struct shared_bench *b, int i, int base, int rounds)
{
	return bench_median(b->all[i].per_s, base < 0 ? NULL : b->all[base].per_s, rounds);
}

/* --- coming and going ---------------------------------------------------------------------- */

static int start_redis(struct shared_bench *b)
{
	struct weir_store_limit limit[STORE_LAYERS];
	int r;

	bench_pin(b->redis_cpu);
	r = redis_start(&b->redis, NULL);
	bench_pin(b->place.cpu >= 0 ? 1 : -1);
	if (r < 0)
		return r;
	b->redis_process.pid = b->redis.pid;
	b->c = redis_open(&b->redis);
	if (!b->c)
		return -ECONNREFUSED;
	b->benchmark =
		(struct redis_bench){.r = &b->redis, .layers = STORE_LAYERS, .clients = ADDRESSES};
	if (store_limits(0, limit) == 0)
		b->has_benchmark = redis_bench_load(&b->benchmark, b->c, limit) == 0;
	return 0;
}

static int start_server(struct shared_bench *b, int i, const char *secret, char *err)
{
	static const char lease[] = ", lease: 1000";
	char config[2048];

	if (servers[i].start == server_weir)
		(void)snprintf(config, sizeof(config), weir_config, b->redis.sock, servers[i].db,
			       secret, servers[i].batch, servers[i].lease ? lease : "",
			       servers[i].lease ? lease : "");
	else
		(void)snprintf(config, sizeof(config), "%s", b->redis.sock);
	return servers[i].start(&b->place, config, err, &b->server[i]);
}

int shared_open(const struct server_place *at, uint64_t round_ns, struct shared_bench **ret)
{
	static const char digits[] =
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	char err[SERVER_ERR_BYTES] = "", secret[SERVER_PATH_BYTES];
	struct shared_bench *b;
	int r, failed = 0;

	*ret = NULL;
	if (!redis_installed()) {
		printf("skipped: redis-* (there is no redis-server)\n");
		return 0;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return 1;
	b->place = *at;
	b->round_ns = round_ns;
	b->redis_cpu = at->cpu < 0 ? -1 : sysconf(_SC_NPROCESSORS_ONLN) > 2 ? 2 : 1;
	r = start_redis(b);
	if (!r)
		r = bench_write(at, "fleet.key", digits, err, secret);
	if (r < 0) {
		(void)bench_complain("Redis", r, err);
		shared_close(b);
		return 1;
	}
	if (!b->has_benchmark)
		printf("skipped: redis-benchmark is not installed\n");
	for (int i = 0; i < SERVERS; i++) {
		*err = '\0';
		r = start_server(b, i, secret, err);
		if (r == SERVER_ABSENT)
			printf("skipped: %s is not installed\n", servers[i].name);
		else if (r < 0)
			failed += !!bench_complain(servers[i].name, r, err);
		b->there[i] = !r;
	}
	*ret = b;
	return failed;
}

void shared_close(struct shared_bench *b)
{
	if (!b)
		return;
	for (int i = 0; i < SERVERS; i++)
		server_stop(&b->server[i]);
	if (b->c)
		redisFree(b->c);
	redis_stop(&b->redis);
	free(b);
}

/* --- measuring ----------------------------------------------------------------------------- */

static void note(struct shared_bench *b, int i, int round, double answers, double per_s,
		 uint64_t cpu_ns, uint64_t redis_ns)
{
	b->all[i].per_s[round] = per_s;
	b->all[i].cpu_us[round] = (double)cpu_ns / 1e3 / answers;
	b->all[i].redis_us[round] = (double)redis_ns / 1e3 / answers;
}

static int measure_benchmark(struct shared_bench *b, int i, int round)
{
	double before = round ? b->all[i].per_s[round - 1] : 0, per_s = 0;
	double n = before > 0 ? before * (double)b->round_ns / 1e9 : FIRST_DECISIONS;
	uint64_t cpu_ns = bench_children_ns(), redis_ns = server_cpu_ns(&b->redis_process);
	int r;

	bench_pin(b->place.cpu);
	r = redis_bench_run(&b->benchmark, (uint64_t)n, &per_s);
	bench_pin(b->place.cpu >= 0 ? 1 : -1);
	if (r < 0)
		return bench_complain(cases[i].name, r, "");
	note(b, i, round, n, per_s, bench_children_ns() - cpu_ns,
	     server_cpu_ns(&b->redis_process) - redis_ns);
	return 0;
}

static int measure_store(struct shared_bench *b, int i, int round)
{
	struct store_plan plan = {.batch = (unsigned)cases[i].batch,
				  .clients = cases[i].addresses,
				  .lease = cases[i].lease,
				  .duration_ns = b->round_ns};
	char err[SERVER_ERR_BYTES] = "", url[160];
	struct store_result result = {};
	uint64_t redis_ns;
	int r;

	(void)snprintf(url, sizeof(url), "redis+unix://%s?db=%d", b->redis.sock, cases[i].db);
	plan.url = url;
	bench_pin(b->place.cpu);
	redis_ns = server_cpu_ns(&b->redis_process);
	r = store_run(&plan, err, sizeof(err), &result);
	bench_pin(b->place.cpu >= 0 ? 1 : -1);
	if (r < 0)
		return bench_complain(cases[i].name, r, err);
	redis_ns = server_cpu_ns(&b->redis_process) - redis_ns;
	/* its share of what was measured: the warm-up is in it */
	redis_ns = redis_ns * b->round_ns / (b->round_ns + WARM_NS);
	note(b, i, round, (double)result.answers,
	     (double)result.answers * 1e9 / (double)result.elapsed_ns, result.cpu_ns, redis_ns);
	return 0;
}

static int measure_server(struct shared_bench *b, int i, int round)
{
	struct server *s = &b->server[cases[i].server];
	bool spin = b->place.cpu >= 0 && b->redis_cpu > 1;
	struct load_plan plan = {.duration_ns = WARM_NS,
				 .addresses = cases[i].addresses,
				 .spin = spin};
	static struct load_result result;
	char err[LOAD_ERR_BYTES] = "";
	uint64_t cpu_ns, redis_ns;
	struct load *l;
	int r = load_open(s->port, CONNECTIONS, err, &l);

	if (r < 0)
		return bench_complain(cases[i].name, r, err);
	r = load_run(l, &plan, &result);
	plan.duration_ns = b->round_ns;
	cpu_ns = server_cpu_ns(s);
	redis_ns = server_cpu_ns(&b->redis_process);
	if (!r)
		r = load_run(l, &plan, &result);
	cpu_ns = server_cpu_ns(s) - cpu_ns;
	redis_ns = server_cpu_ns(&b->redis_process) - redis_ns;
	load_close(l);
	if (!r && (!result.answers || result.allowed < result.answers - result.answers / 100)) {
		(void)snprintf(err, sizeof(err), "%" PRIu64 " of %" PRIu64 " answers allow",
			       result.allowed, result.answers);
		r = -EIO;
	}
	if (r < 0)
		return bench_complain(cases[i].name, r, err);
	note(b, i, round, (double)result.answers,
	     (double)result.answers * 1e9 / (double)result.elapsed_ns, cpu_ns, redis_ns);
	return 0;
}

int shared_measure(struct shared_bench *b, int i, int round, const char **ret_name)
{
	int r = 0;

	*ret_name = i < CASES ? cases[i].name : NULL;
	if (i >= CASES)
		return 0;
	if (cases[i].server >= 0)
		r = b->there[cases[i].server] ? measure_server(b, i, round) : 0;
	else if (i == BENCHMARK)
		r = b->has_benchmark ? measure_benchmark(b, i, round) : 0;
	else
		r = measure_store(b, i, round);
	return r < 0;
}

int shared_measure_over(struct shared_bench *b)
{
	char err[SERVER_ERR_BYTES] = "", url[160];
	struct store_over plan = {.url = url,
				  .agents = OVER_AGENTS,
				  .rate_per_s = OVER_RATE,
				  .burst = OVER_BURST,
				  .duration_ns = OVER_DURATION_NS};
	uint64_t admitted;
	int r;

	(void)snprintf(url, sizeof(url), "redis+unix://%s?db=4", b->redis.sock);
	r = store_over_admission(&plan, err, sizeof(err), &b->over_without, &admitted);
	plan.lease = OVER_LEASE;
	(void)snprintf(url, sizeof(url), "redis+unix://%s?db=5", b->redis.sock);
	if (r >= 0)
		r = store_over_admission(&plan, err, sizeof(err), &b->over, &admitted);
	b->over_known = r >= 0;
	return r < 0 ? !!bench_complain("over-admission", r, err) : 0;
}

/* --- what came out ------------------------------------------------------------------------- */

void shared_print(const struct shared_bench *b, int rounds)
{
	printf("%-28s%10s%8s%10s%10s  %s\n", "limits in Redis", "checks/s", "ratio", "CPU us",
	       "Redis us", "ratio to redis-benchmark; CPU: of who asks Redis, a check");
	for (int i = 0; i < CASES; i++)
		if (rate(b, i, -1, rounds) > 0)
			printf("%-28s%10.0f%8.2f%10.2f%10.2f  %s\n", cases[i].name,
			       rate(b, i, -1, rounds), rate(b, i, BENCHMARK, rounds),
			       bench_median(b->all[i].cpu_us, NULL, rounds),
			       bench_median(b->all[i].redis_us, NULL, rounds), cases[i].what);
	if (b->over_known)
		printf("\nlease: %d, %d agents, one key of %d/s and %d at once: at most %.0f "
		       "admitted above that (bound %d, without leases %.0f)\n",
		       OVER_LEASE, OVER_AGENTS, OVER_RATE, OVER_BURST, b->over > 0 ? b->over : 0,
		       OVER_AGENTS * OVER_LEASE, b->over_without > 0 ? b->over_without : 0);
	if (rate(b, HTTP, NODE, rounds) > 0)
		printf("weir with Redis answers %.1f times as many checks as rate-limiter-flexible "
		       "with Redis, a check takes %.2f of its processor time (Redis: %.2f)\n",
		       rate(b, HTTP, NODE, rounds),
		       bench_median(b->all[HTTP].cpu_us, b->all[NODE].cpu_us, rounds),
		       bench_median(b->all[HTTP].redis_us, b->all[NODE].redis_us, rounds));
	printf("\n");
}

void shared_json(const struct shared_bench *b, int rounds, json_t *out)
{
	for (int i = 0; i < CASES; i++)
		if (rate(b, i, -1, rounds) > 0)
			json_array_append_new(
				out,
				json_pack("{s:s,s:s,s:f,s:f,s:f,s:f}", "case", cases[i].name,
					  "what", "redis", "checks_per_s", rate(b, i, -1, rounds),
					  "ratio", rate(b, i, BENCHMARK, rounds), "cpu_us",
					  bench_median(b->all[i].cpu_us, NULL, rounds),
					  "redis_cpu_us",
					  bench_median(b->all[i].redis_us, NULL, rounds)));
	if (b->over_known)
		json_array_append_new(out, json_pack("{s:s,s:s,s:i,s:i,s:i,s:f,s:f}", "case",
						     "redis-lease", "what", "over-admission",
						     "agents", OVER_AGENTS, "lease", OVER_LEASE,
						     "bound", OVER_AGENTS * OVER_LEASE, "over",
						     b->over, "over_without", b->over_without));
}

static const struct {
	int of, base;
	double bar;
	const char *who, *whom;
} bars[] = {
	{STORE, BENCHMARK, BAR_STORE, "the store reaches", "redis-benchmark"},
	{HTTP, BENCHMARK, BAR_HTTP, "weir with Redis", "redis-benchmark"},
	{HTTP, HTTP_ONE, BAR_COALESCED, "weir with Redis", "itself without coalescing"},
	{HOT_STORE_LEASE, HOT_STORE, BAR_LEASE, "a hot key with a lease", "one without"},
};
#define BARS ((int)(sizeof(bars) / sizeof(bars[0])))

int shared_judge(const struct shared_bench *b, int rounds)
{
	int missed = 0;

	for (int i = 0; i < BARS; i++) {
		double reached = rate(b, bars[i].of, bars[i].base, rounds);

		if (reached <= 0 || reached >= bars[i].bar) /* not there: sets no bar */
			continue;
		printf("missed: %s %.2f of %s (bar %.2f)\n", bars[i].who, reached, bars[i].whom,
		       bars[i].bar);
		missed++;
	}
	if (b->over_known && b->over > OVER_AGENTS * OVER_LEASE) {
		printf("missed: leases admit %.0f too many (bound %d)\n", b->over,
		       OVER_AGENTS * OVER_LEASE);
		missed++;
	}
	if (b->over_known && b->over_without > OVER_CLOCK) {
		printf("missed: %.0f too many are admitted without leases (bound 0)\n",
		       b->over_without);
		missed++;
	}
	return missed;
}

void shared_say(const struct shared_bench *b, int rounds)
{
	for (int i = 0; i < BARS; i++) {
		double reached = rate(b, bars[i].of, bars[i].base, rounds);

		if (reached > 0)
			printf("; %s %.2f of %s (bar %.2f)", bars[i].who, reached, bars[i].whom,
			       bars[i].bar);
	}
}
