/* SPDX-License-Identifier: GPL-2.0-or-later */
/* redis-benchmark with weir's script; see redis_bench.h. */
#include "lib/redis_bench.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/run.h"
#include "user/base/cleanup.h"
#include "user/redis/redis_int.h"

#define OUT_BYTES 4096
#define WAIT_MS	  60000

/* The script with its second argument written into it: redis-benchmark cannot pass a zero byte. */
static int load(struct redisContext *c, const struct weir_redis_text *blob, char *ret_sha,
		size_t size)
{
	static char text[1 << 16];
	const char *from = "ARGV[2]", *at = strstr(weir_redis_script, "blob = KEYS, ARGV[2]");
	redisReply *reply;
	size_t n;
	int r;

	at = at ? strstr(at, from) : NULL;
	if (!at)
		return -EPROTO;
	n = (size_t)snprintf(text, sizeof(text), "%.*s'", (int)(at - weir_redis_script),
			     weir_redis_script);
	for (size_t i = 0; i < blob->n && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\\%03u",
				      (unsigned char)blob->at[i]);
	if (n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "'%s", at + strlen(from));
	if (n >= sizeof(text))
		return -E2BIG;
	reply = redisCommand(c, "SCRIPT LOAD %s", text);
	r = reply && reply->type == REDIS_REPLY_STRING && reply->len < size ? 0 : -EPROTO;
	if (!r)
		memcpy(ret_sha, reply->str, reply->len + 1);
	freeReplyObject(reply);
	return r;
}

int redis_bench_load(struct redis_bench *b, struct redisContext *c,
		     const struct weir_store_limit *limit)
{
	struct weir_store_layer y[REDIS_BENCH_LAYERS_MAX] = {};
	struct weir_store_request q = {.layer = y, .n = b->layers};
	struct weir_redis_pack p = {.prefix = "weir:"};
	int r;

	if (!redis_program("redis-benchmark") || b->layers > REDIS_BENCH_LAYERS_MAX)
		return -ENOENT;
	for (size_t i = 0; i < b->layers; i++)
		y[i] = (struct weir_store_layer){.limit = &limit[i], .cost = 1};
	weir_redis_pack_begin(&p);
	r = weir_redis_pack_add(&p, &q, (1ull << b->layers) - 1, WEIR_REDIS_DECIDE);
	if (r >= 0)
		r = load(c, &p.blob, b->sha, sizeof(b->sha));
	weir_redis_pack_done(&p);
	return r < 0 ? r : 0;
}

/* The last figure; those before are of the run so far. */
static double last_rate(const char *out)
{
	static const char words[] = " requests per second";
	const char *at = strstr(out, words);

	for (const char *next = at; next; next = strstr(next + 1, words))
		at = next;
	while (at && at > out && at[-1] != ' ')
		at--;
	return at ? strtod(at, NULL) : 0;
}

int redis_bench_run(const struct redis_bench *b, uint64_t decisions, double *ret_per_s)
{
	char out[OUT_BYTES] = "", count[24], clients[16], layers[8],
	     keys[REDIS_BENCH_LAYERS_MAX][96];
	const char *argv[32] = {redis_program("redis-benchmark"),
				"-s",
				b->r->sock,
				"-P",
				"16",
				"-c",
				"50",
				"-r",
				clients,
				"-q",
				"-n",
				count,
				"EVALSHA",
				b->sha,
				layers};
	_cleanup_close_ int fd = memfd_create("out", MFD_CLOEXEC);
	size_t k = 15;
	off_t end;
	pid_t pid;
	int r;

	(void)snprintf(count, sizeof(count), "%" PRIu64, decisions);
	(void)snprintf(clients, sizeof(clients), "%u", b->clients);
	(void)snprintf(layers, sizeof(layers), "%zu", b->layers);
	for (size_t i = 0; i < b->layers; i++) { /* as long as the real ones */
		(void)snprintf(keys[i], sizeof(keys[i]),
			       "weir:1:benchmark%zu__:{abcd}__rand_int__0123456789", i);
		argv[k++] = keys[i];
	}
	argv[k++] = "0";
	if (fd < 0)
		return -errno;
	r = run_start(0, fd, argv, &pid);
	if (r >= 0 && run_wait(pid, WAIT_MS) != 0)
		r = -EIO;
	end = lseek(fd, 0, SEEK_END);
	if (r < 0 ||
	    pread(fd, out, sizeof(out) - 1, end > OUT_BYTES - 1 ? end - (OUT_BYTES - 1) : 0) < 0)
		return r < 0 ? r : -errno;
	*ret_per_s = last_rate(out);
	return *ret_per_s > 0 ? 0 : -EPROTO;
}
