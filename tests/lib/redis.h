/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Redis servers for tests: each with a folder of its own, a Unix socket in it, and, where asked, a free port of
 * loopback. They die with the test.
 *
 *	_cleanup_(redis_stop) struct redis_server r = {};
 *
 *	assert_int_equal(redis_start(&r, "--maxmemory", "4mb", NULL), 0);
 *	c = redis_open(&r);
 */
#ifndef WEIR_TEST_REDIS_H
#define WEIR_TEST_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct redisContext;
struct redisReply;

struct redis_server {
	/* set before redis_start, all may be left */
	bool tcp;	      /* listens on 127.0.0.1:port too */
	bool sentinel;	      /* its words are a configuration file (redis_file) and "--sentinel" */
	const char *password; /* that redis_open says */

	pid_t pid;     /* 0: not running */
	uint16_t port; /* kept by a restart */
	char dir[64], sock[96], log[96];
};

/* $WEIR_TEST_REDIS, the path of a server; without it from PATH, or where scripts/setup --proxies puts it. */
bool redis_installed(void);
/* The same the other way round, for main() or a test that skips then: says why, as scripts/run-tests reads it. */
bool redis_is_missing(void);
/* The path of redis-server or redis-benchmark; NULL: there is none. */
const char *redis_program(const char *name);
/* A port that is free now. */
uint16_t redis_free_port(void);
/* Starts it with these words after its own ("--save", "", …), NULL at the end; waits until it answers. -errno. */
int redis_start(struct redis_server *r, ...) __attribute__((sentinel));
/* Writes a file in its folder, made if need be; its path goes to @ret. */
int redis_file(struct redis_server *r, const char *name, const char *text, char *ret, size_t size);
/* SIGKILL; the folder stays, redis_start starts it anew. */
void redis_kill(struct redis_server *r);
/* Ends it if it runs, removes the folder. */
void redis_stop(struct redis_server *r);

/* A blocking connection, 5 s; NULL: none. */
struct redisContext *redis_open(const struct redis_server *r);
/* One command; the reply is the caller's (freeReplyObject). Fails the test without one. */
struct redisReply *redis_do(struct redisContext *c, const char *format, ...);
/* The same, where a number or the text "OK" is the answer; -1 for anything else. */
long long redis_int(struct redisContext *c, const char *format, ...);

#endif
