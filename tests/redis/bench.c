/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the shared store reaches without HTTP, beside redis-benchmark with the same script, one decision a call and 16
 * calls pipelined, in the same run on the same server. One thread asks; 256 decisions are under way. Rates, and CPU
 * microseconds a decision of the agent's side and of Redis. `build/weir-bench-redis [--seconds N] [--rounds N] [--json FILE]`
 * With --memory: what a client takes in the server instead, by algorithm, beside a log in a sorted set.
 */
#include <getopt.h>
#include <sys/resource.h>

#include "lib/redis_bench.h"
#include "redis/fixture.h"
#include "user/base/str.h"

#define CLIENTS 100000

struct row {
	const char *name;
	unsigned layers, batch; /* 0: redis-benchmark */
	unsigned under_way;
	double rate[16], own_us[16], redis_us[16];
};

struct bench {
	struct fix f;
	redisContext *c;
	struct weir_store_limit limit[3];
	__u64 seed;
	unsigned layers;
	unsigned long long done, failed;
	bool stopping;
	unsigned open;
};

struct asking {
	struct bench *b;
	struct weir_store_request q;
	struct weir_store_layer y[3];
};

static void answered(struct weir_store_request *q, int r, void *data);

static void ask_next(struct asking *a)
{
	struct bench *b = a->b;
	__u64 client = below(&b->seed, CLIENTS);

	for (unsigned i = 0; i < b->layers; i++)
		a->y[i] = request_layer(&b->limit[i], client, 1);
	a->q = (struct weir_store_request){.layer = a->y, .n = b->layers, .now_us = EPOCH};
	b->f.s->ops->decide(b->f.s, &a->q, answered, a);
}

static void answered(struct weir_store_request *q, int r, void *data)
{
	struct asking *a = data;

	(void)q;
	a->b->done++;
	a->b->failed += r < 0;
	if (a->b->stopping)
		a->b->open--;
	else
		ask_next(a);
}

static double cpu_us(int who)
{
	struct rusage u;

	(void)getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double info(struct bench *b, const char *name)
{
	redisReply *reply = redis_do(b->c, "INFO cpu");
	const char *at = strstr(reply->str, name);
	double value = at ? strtod(at + strlen(name), NULL) : 0;

	freeReplyObject(reply);
	return value;
}

static double redis_cpu_us(struct bench *b)
{
	return (info(b, "used_cpu_user:") + info(b, "used_cpu_sys:")) * 1e6;
}

static void run_store(struct bench *b, struct row *w, unsigned round, unsigned seconds)
{
	static struct asking all[4096];
	double own, redis;
	uint64_t began;

	fix_options(&b->f);
	b->f.o.batch_max = w->batch;
	b->f.o.timeout_ns = 5000 * MS;
	fix_store(&b->f);
	b->layers = w->layers;
	b->stopping = false;
	b->open = w->under_way;
	for (unsigned i = 0; i < w->under_way; i++) {
		all[i].b = b;
		ask_next(&all[i]);
	}
	fix_turn(&b->f, 200);
	b->done = 0;
	own = cpu_us(RUSAGE_SELF);
	redis = redis_cpu_us(b);
	began = wait_now_ns();
	while (wait_now_ns() - began < seconds * 1000 * MS)
		(void)event_base_loop(b->f.base, EVLOOP_ONCE);
	w->rate[round] = (double)b->done * 1e9 / (double)(wait_now_ns() - began);
	w->own_us[round] = (cpu_us(RUSAGE_SELF) - own) / (double)b->done;
	w->redis_us[round] = (redis_cpu_us(b) - redis) / (double)b->done;
	b->stopping = true;
	(void)fix_wait(&b->f, !b->open, 5000);
	if (b->failed)
		(void)fprintf(stderr, "%llu decisions failed\n", b->failed);
	weir_store_free(b->f.s);
	b->f.s = NULL;
}

static void run_benchmark(struct bench *b, struct row *w, unsigned round, unsigned seconds)
{
	struct redis_bench rb = {.r = &b->f.r, .layers = w->layers, .clients = CLIENTS};
	__u64 n = 100000ull * seconds;
	double own, redis;

	if (redis_bench_load(&rb, b->c, b->limit) < 0)
		return;
	own = cpu_us(RUSAGE_CHILDREN);
	redis = redis_cpu_us(b);
	if (redis_bench_run(&rb, n, &w->rate[round]) < 0)
		(void)fprintf(stderr, "redis-benchmark failed\n");
	w->own_us[round] = (cpu_us(RUSAGE_CHILDREN) - own) / (double)n;
	w->redis_us[round] = (redis_cpu_us(b) - redis) / (double)n;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *all, unsigned n)
{
	double sorted[16];

	memcpy(sorted, all, n * sizeof(*all));
	qsort(sorted, n, sizeof(*sorted), by_number);
	return sorted[n / 2];
}

static void report(struct row *rows, size_t n, unsigned rounds, FILE *json)
{
	(void)printf("%-44s %14s %10s %10s\n", "decisions", "per second", "agent us", "Redis us");
	if (json)
		(void)fprintf(json, "{\"rows\":[");
	for (size_t i = 0; i < n; i++) {
		double rate = median(rows[i].rate, rounds), own = median(rows[i].own_us, rounds);
		double redis = median(rows[i].redis_us, rounds);
		double than = 0;

		for (size_t k = 0; k < n; k++)
			if (!rows[k].batch && rows[k].layers == rows[i].layers)
				than = median(rows[k].rate, rounds);
		(void)printf("%-44s %14.0f %10.2f %10.2f   %.2f\n", rows[i].name, rate, own, redis,
			     than > 0 ? rate / than : 0);
		if (json)
			(void)fprintf(json,
				      "%s{\"name\":\"%s\",\"per_second\":%.0f,\"agent_us\":%.3f,"
				      "\"redis_us\":%.3f,\"ratio\":%.3f}",
				      i ? "," : "", rows[i].name, rate, own, redis,
				      than > 0 ? rate / than : 0);
	}
	if (json)
		(void)fprintf(json, "]}\n");
	(void)printf("The last column is the rate over redis-benchmark's with as many layers.\n");
}

/* --- memory ---- */

#define MEMORY_CLIENTS 1000

static double used_memory(struct bench *b)
{
	redisReply *reply = redis_do(b->c, "INFO memory");
	const char *at = strstr(reply->str, "used_memory:");
	double value = at ? strtod(at + strlen("used_memory:"), NULL) : 0;

	freeReplyObject(reply);
	return value;
}

/* Of one key that is there. */
static long long key_bytes(struct bench *b)
{
	redisReply *reply = redis_do(b->c, "RANDOMKEY");
	long long n = redis_int(b->c, "MEMORY USAGE %s SAMPLES 0", reply->str);

	freeReplyObject(reply);
	return n;
}

static void print_memory(struct bench *b, const char *name, unsigned requests, double before)
{
	(void)printf("%-28s %10u %14lld %14.0f\n", name, requests, key_bytes(b),
		     (used_memory(b) - before) / MEMORY_CLIENTS);
}

static void measure_limit(struct bench *b, const char *name, const struct weir_store_limit *l,
			  unsigned requests)
{
	double before;
	bool admitted;

	(void)redis_int(b->c, "FLUSHALL");
	before = used_memory(b);
	for (__u64 i = 1; i <= MEMORY_CLIENTS; i++)
		if (ask_one(&b->f, l, i, requests, &admitted) < 0 || !admitted)
			fail_msg("%s: not admitted", name ? name : "the first");
	if (name)
		print_memory(b, name, requests, before);
}

/* As tutorials have it: score and the beginning of the member are the time, the rest of it is random. */
static void measure_sorted_set(struct bench *b, unsigned requests)
{
	double before;

	(void)redis_int(b->c, "FLUSHALL");
	before = used_memory(b);
	for (unsigned i = 0; i < MEMORY_CLIENTS; i++) {
		for (unsigned k = 0; k < requests; k++)
			(void)redis_int(b->c, "ZADD rate_limit:192.0.%u.%u %llu %llu:%08x", i / 250,
					i % 250, EPOCH / 1000 + k, EPOCH / 1000 + k,
					(unsigned)below(&b->seed, UINT32_MAX));
		(void)redis_int(b->c, "PEXPIRE rate_limit:192.0.%u.%u 3600000", i / 250, i % 250);
	}
	print_memory(b, "(a sorted set as a log)", requests, before);
}

static void measure_memory(struct bench *b)
{
	static const unsigned logs[] = {1, 5, 60, 600};
	struct weir_store_limit l;

	fix_options(&b->f);
	b->f.o.timeout_ns = 5000 * MS;
	fix_store(&b->f);
	l = request_limit("first", WEIR_REQUEST_FIXED_WINDOW, 1000, DAY);
	measure_limit(b, NULL, &l, 1); /* what the server needs for the connection and the script */
	(void)printf("%-28s %10s %14s %14s\n", "bytes of a client", "requests", "MEMORY USAGE",
		     "used_memory");
	l = request_limit("bucket", WEIR_REQUEST_TOKEN_BUCKET, 1000, 3600 * SEC);
	measure_limit(b, "token-bucket", &l, 1);
	l = request_limit("queue", WEIR_REQUEST_LEAKY_BUCKET, 1000, 3600 * SEC);
	measure_limit(b, "leaky-bucket", &l, 1);
	l = request_limit("fixed", WEIR_REQUEST_FIXED_WINDOW, 1000, DAY);
	measure_limit(b, "fixed-window", &l, 1);
	l = request_limit("sliding", WEIR_REQUEST_SLIDING_COUNTER, 1000, 3600 * SEC);
	measure_limit(b, "sliding-window-counter", &l, 1);
	l = request_limit("log", WEIR_REQUEST_SLIDING_LOG, 1000, 3600 * SEC);
	for (size_t i = 0; i < ARRAY_LEN(logs); i++)
		measure_limit(b, "sliding-window-log", &l, logs[i]);
	for (size_t i = 0; i < ARRAY_LEN(logs); i++)
		measure_sorted_set(b, logs[i]);
	(void)printf(
		"MEMORY USAGE: of one key. used_memory: what the server has grown by, with its "
		"tables, for each of %d clients.\n",
		MEMORY_CLIENTS);
}

int main(int argc, char **argv)
{
	static struct row rows[] = {
		{.name = "1 layer: redis-benchmark, 1 a call, -P 16", .layers = 1},
		{.name = "1 layer: weir, 1 a call", .layers = 1, .batch = 1, .under_way = 256},
		{.name = "1 layer: weir, up to 64 a call",
		 .layers = 1,
		 .batch = 64,
		 .under_way = 256},
		{.name = "3 layers: redis-benchmark, 1 a call, -P 16", .layers = 3},
		{.name = "3 layers: weir, 1 a call", .layers = 3, .batch = 1, .under_way = 256},
		{.name = "3 layers: weir, up to 64 a call",
		 .layers = 3,
		 .batch = 64,
		 .under_way = 256},
	};
	static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
						{"rounds", required_argument, NULL, 'r'},
						{"json", required_argument, NULL, 'j'},
						{"memory", no_argument, NULL, 'm'},
						{}};
	struct bench b = {.seed = 42};
	__u64 seconds = 2, rounds = 3;
	FILE *json = NULL;
	bool memory = false;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		memory |= o == 'm';
		if ((o == 's' && weir_str_u64(optarg, 60, &seconds) < 0) ||
		    (o == 'r' && weir_str_u64(optarg, 15, &rounds) < 0) ||
		    (o == 'j' && !(json = fopen(optarg, "we"))) || o == '?') {
			(void)fprintf(stderr,
				      "usage: %s [--seconds N] [--rounds N] [--json FILE] "
				      "[--memory]\n",
				      argv[0]);
			return 2;
		}
	}
	if (redis_is_missing())
		return 77;
	if (!redis_program("redis-benchmark")) {
		(void)puts("skip: there is no redis-benchmark (it comes with redis-tools)");
		return 77;
	}
	if (redis_start(&b.f.r, NULL) < 0 || !(b.c = redis_open(&b.f.r)))
		return 1;
	if (memory) {
		measure_memory(&b);
		redisFree(b.c);
		fix_done(&b.f);
		return 0;
	}
	/* Nothing is refused: every decision reads and writes all of its states. */
	b.limit[0] =
		request_limit("per-address", WEIR_REQUEST_TOKEN_BUCKET, 1000000000, 1000 * SEC);
	b.limit[1] = request_limit("api", WEIR_REQUEST_SLIDING_COUNTER, 1000000000, 60 * SEC);
	b.limit[2] = request_limit("day", WEIR_REQUEST_FIXED_WINDOW, 1000000000, DAY);
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			if (rows[i].batch)
				run_store(&b, &rows[i], round, (unsigned)seconds);
			else
				run_benchmark(&b, &rows[i], round, (unsigned)seconds);
			(void)redis_int(b.c, "FLUSHALL");
		}
	report(rows, ARRAY_LEN(rows), (unsigned)rounds, json);
	if (json)
		(void)fclose(json);
	redisFree(b.c);
	fix_done(&b.f);
	return 0;
}
