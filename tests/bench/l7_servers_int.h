/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Starting the bench's servers: shared by l7_servers.c, l7_bare.c and l7_peers.c. */
#ifndef WEIR_BENCH_L7_SERVERS_INT_H
#define WEIR_BENCH_L7_SERVERS_INT_H

#include <stdbool.h>

#include "tests/bench/l7_servers.h"

#define SERVER_PATH_BYTES 256
#define SERVER_START_MS	  10000

/* Formats the sentence and returns @r. */
int bench_fail(char err[SERVER_ERR_BYTES], int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A socket on a free port of 127.0.0.1: listening, or only holding the port for one that sets SO_REUSEPORT, too. */
int bench_socket(bool listening, char err[SERVER_ERR_BYTES], int *ret_fd, uint16_t *ret_port);
/* Runs this thread, and what it starts from now on, on one processor; below 0: on all. */
void bench_pin(int cpu);
/* Writes DIR/NAME. */
int bench_write(const struct server_place *at, const char *name, const char *text,
		char err[SERVER_ERR_BYTES], char ret_path[static SERVER_PATH_BYTES]);
/* Starts @argv on its processor, with its output in DIR/NAME. */
int bench_start(const struct server_place *at, const char *name, const char *const argv[],
		char err[SERVER_ERR_BYTES], pid_t *ret);
/* Processor time of all children that have ended. */
uint64_t bench_children_ns(void);
/* Waits until DIR/NAME has @label, and reads the number behind it; or until the port accepts. Both give up on a server
 * that has ended, and then say what is in DIR/NAME.
 */
int bench_await(const struct server_place *at, const char *name, const char *label,
		const struct server *s, char err[SERVER_ERR_BYTES], uint64_t *ret);
int bench_await_port(const struct server_place *at, const char *name, const struct server *s,
		     char err[SERVER_ERR_BYTES]);

#endif
