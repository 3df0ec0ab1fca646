/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the request layer's bench asks: the servers, each a process of one worker on a free loopback port. Called by
 * l7.c. Configurations and logs are in a folder that the caller makes.
 */
#ifndef WEIR_BENCH_L7_SERVERS_H
#define WEIR_BENCH_L7_SERVERS_H

#include <stdint.h>
#include <sys/types.h>

#define SERVER_ERR_BYTES 512
#define SERVER_ABSENT	 1 /* this machine does not have it: the row is left out */

struct agent;
struct server {
	pid_t pid;
	uint16_t port;
	struct agent *agent; /* weir's; NULL: another */
};

/* What a server is started with. @build: build folder; @dir: for its files; @cpu: where it runs, below 0: anywhere. */
struct server_place {
	const char *build, *dir;
	int cpu;
};

/* Each returns 0, SERVER_ABSENT or -errno; the last two with a sentence in @err. End them with server_stop. */
typedef int server_start_fn(const struct server_place *at, const char *config,
			    char err[SERVER_ERR_BYTES], struct server *ret);
server_start_fn server_bare;	   /* libmicrohttpd alone; no configuration */
server_start_fn server_nginx;	   /* limit_req with two zones; no configuration */
server_start_fn server_node;	   /* rate-limiter-flexible, in memory; no configuration */
server_start_fn server_node_redis; /* the same in Redis; @config: its Unix socket */
server_start_fn server_weir;	   /* @config: see agent_start; asked at its listener for Caddy */
void server_stop(struct server *s);

/* Processor time of all its threads until now, and memory in use; 0 if it is gone. */
uint64_t server_cpu_ns(const struct server *s);
uint64_t server_rss_bytes(const struct server *s);
/* States that weir keeps and the bytes they take, by its own account; -errno: it does not say. */
int server_weir_store(struct server *s, uint64_t *ret_entries, uint64_t *ret_bytes);

#endif
