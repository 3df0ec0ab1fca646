/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decide.lua in a real server at a time that the test says, for traces that run through it and through other judges.
 * States do not expire by the server's clock, which is not the trace's, but SCRIPT_PATIENCE_MS later.
 */
#ifndef WEIR_TEST_REDIS_SCRIPT_H
#define WEIR_TEST_REDIS_SCRIPT_H

#include "redis/fixture.h"
#include "user/redis/redis_int.h"

#define SCRIPT_PATIENCE_MS   3153600000000ull /* a hundred years */
#define SCRIPT_PATIENCE_TEXT "3153600000000"
#define SCRIPT_BATCH	     64 /* questions in one call */

struct script {
	redisContext *c;
	struct weir_redis_pack pack;
	char sha[48];
	size_t n;
	struct {
		struct weir_store_request *q;
		enum weir_redis_op op;
	} asked[SCRIPT_BATCH];
};

/* Puts @to where @from is in @text; the old text is freed. */
static inline char *script_replace(char *text, const char *from, const char *to)
{
	size_t size = strlen(text) + strlen(to) + 1;
	const char *at = strstr(text, from);
	char *other = malloc(size);

	assert_non_null(at);
	assert_non_null(other);
	(void)snprintf(other, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	free(text);
	return other;
}

/* Connects to @r and loads the script. 0 or -1. */
static inline int script_open(struct script *s, const struct redis_server *r)
{
	char *text = strdup(weir_redis_script);
	redisReply *reply;
	int e = 0;

	text = script_replace(
		text, "'PEXPIRE', name, short(max(live, 1))",
		"'PEXPIREAT', name, whole(ceil(now / 1000) + max(live, 1) + " SCRIPT_PATIENCE_TEXT
		")");
	text = script_replace(text, "'PX', short(live)",
			      "'PXAT', whole(ceil(now / 1000) + live + " SCRIPT_PATIENCE_TEXT ")");
	*s = (struct script){.c = redis_open(r), .pack = {.prefix = "weir:"}};
	if (!s->c) {
		free(text);
		return -1;
	}
	reply = redis_do(s->c, "SCRIPT LOAD %s", text);
	free(text);
	(void)snprintf(s->sha, sizeof(s->sha), "%s", reply->str);
	if (reply->type != REDIS_REPLY_STRING) {
		(void)fprintf(stderr, "%s\n", reply->str);
		e = -1;
	}
	freeReplyObject(reply);
	return e;
}

static inline void script_close(struct script *s)
{
	weir_redis_pack_done(&s->pack);
	redisFree(s->c);
	*s = (struct script){};
}

/* Puts a question beside the others; script_ask fills in its answers. */
static inline void script_add(struct script *s, struct weir_store_request *q, enum weir_redis_op op)
{
	assert_true(s->n < SCRIPT_BATCH);
	if (!s->n)
		weir_redis_pack_begin(&s->pack);
	assert_int_equal(weir_redis_pack_add(&s->pack, q, (1ull << q->n) - 1, op), 0);
	s->asked[s->n].q = q;
	s->asked[s->n++].op = op;
}

/* Asks all that was added in one call, at @now_us (0 would be the server's own time). */
static inline void script_ask(struct script *s, __u64 now_us)
{
	struct weir_redis_text command = {};
	struct weir_redis_answers a;
	redisReply *reply;
	size_t keys_at;
	__u64 live;

	assert_int_not_equal(now_us, 0);
	assert_int_equal(weir_redis_command(s->sha, s->pack.n_keys, s->pack.keys.at, s->pack.keys.n,
					    now_us, s->pack.blob.at, s->pack.blob.n, &command,
					    &keys_at),
			 0);
	assert_int_equal(redisAppendFormattedCommand(s->c, command.at, command.n), REDIS_OK);
	assert_int_equal(redisGetReply(s->c, (void **)&reply), REDIS_OK);
	if (reply->type != REDIS_REPLY_STRING)
		fail_msg("decide.lua at %llu: %s", now_us, reply->str ? reply->str : "no string");
	assert_int_equal(weir_redis_answers_open(reply->str, reply->len, &a), 0);
	for (size_t i = 0; i < s->n; i++) {
		struct weir_store_request *q = s->asked[i].q;

		assert_int_equal(weir_redis_answers_next(&a, q, (1ull << q->n) - 1, s->asked[i].op,
							 &q->admitted, &live),
				 0);
	}
	assert_ptr_equal(a.at, a.end);
	freeReplyObject(reply);
	free(command.at);
	s->n = 0;
}

#endif
