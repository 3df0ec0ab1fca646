/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the shared store reaches without HTTP, beside redis-benchmark with the same script, one decision a call and 16
 * calls pipelined, in the same run on the same server. One thread asks; 256 decisions are under way. Rates, and CPU
 * microseconds a decision of the agent's side and of Redis. `build/weir-bench-redis [--seconds N] [--rounds N] [--json FILE]`
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
						{}};
	struct bench b = {.seed = 42};
	__u64 seconds = 2, rounds = 3;
	FILE *json = NULL;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1)
		if ((o == 's' && weir_str_u64(optarg, 60, &seconds) < 0) ||
		    (o == 'r' && weir_str_u64(optarg, 15, &rounds) < 0) ||
		    (o == 'j' && !(json = fopen(optarg, "we"))) || o == '?') {
			(void)fprintf(stderr,
				      "usage: %s [--seconds N] [--rounds N] [--json FILE]\n",
				      argv[0]);
			return 2;
		}
	if (!redis_installed() || !redis_program("redis-benchmark")) {
		(void)puts(REDIS_SKIP);
		return 77;
	}
	if (redis_start(&b.f.r, NULL) < 0 || !(b.c = redis_open(&b.f.r)))
		return 1;
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
