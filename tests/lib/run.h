/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Other programs, for tests: run one and read what it says, or keep one in the background. No shell.
 * A program started here dies with the thread that started it, so a killed test leaves none behind.
 */
#ifndef WEIR_TEST_RUN_H
#define WEIR_TEST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUN_TIMEOUT_MS 20000

/* Start @argv (NULL at the end; found by PATH) in the network namespace @netns_fd (0 or below: the
 * caller's), input from /dev/null, output and errors to @out_fd (below 0: the caller's own).
 * -ENOENT and others from exec are reported here. End it with run_stop() or run_wait().
 */
int run_start(int netns_fd, int out_fd, const char *const argv[], pid_t *ret_pid);

/* Wait for the end of @pid. Returns its exit status (0 .. 255), 128 + signal if one killed it, or
 * -ETIMEDOUT: then it was killed and is gone.
 */
int run_wait(pid_t pid, unsigned int timeout_ms);

/* SIGTERM; SIGKILL if that has not worked within @grace_ms. Returns as run_wait(). */
int run_stop(pid_t pid, unsigned int grace_ms);

/* Run to the end, at most RUN_TIMEOUT_MS, and keep the first @out_bytes - 1 bytes of output and errors
 * in @out as a string (not touched if @out_bytes is 0). Returns as run_wait(), or as run_start().
 */
int run_cmdv(int netns_fd, char *out, size_t out_bytes, const char *const argv[]);

/* The same with arguments in a list: run_cmd(0, buf, sizeof(buf), "ip", "link"). */
#define run_cmd(netns_fd, out, out_bytes, ...)                                                     \
	run_cmdv(netns_fd, out, out_bytes, (const char *const[]){__VA_ARGS__, NULL})

/* Run @fn in a forked child in @netns_fd; the child ends with what it returns (0 .. 127). Standard
 * streams are shared. Returns as run_wait() with RUN_TIMEOUT_MS.
 */
int run_fn(int netns_fd, int (*fn)(void *arg), void *arg);

/* For main(): without root it says that the test is skipped, as scripts/run-tests reads it. */
bool run_lacks_root(void);

/* The path of a program of the build: $WEIR_BUILD/NAME, else NAME beside build/tests/KIND/THIS. */
void run_program(const char *name, char *ret, size_t size);

#endif
