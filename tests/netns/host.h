/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host for tests of the whole: a lab (lib/netns.h), a folder, and the program weir there, as agent and as commands.
 *
 *	assert_int_equal(host_open(h), 0);
 *	host_configure(h, "packet_limits:\n  - {name: per-source, rate: %d/s}\n", 100);
 *	host_start(h);
 *	assert_int_equal(host_weir(h, "status"), 0);
 *	host_close(h);
 */
#ifndef WEIR_TEST_HOST_H
#define WEIR_TEST_HOST_H

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/netns.h"
#include "lib/run.h"
#include "lib/wait.h"

#define HOST_WAIT_MS 30000

struct host {
	struct lab lab;
	char program[512]; /* weir; a test may set another one before host_start */
	char dir[64], conf[96], socket[96], log[96];
	pid_t agent;	   /* 0: not running */
	char out[1 << 20]; /* of the last command */
};

/* A lab and a folder; nothing runs. 0, or -1: it cannot be made. */
static inline int host_open(struct host *h)
{
	char err[LAB_ERR_BYTES];

	if (lab_open(&h->lab, NULL, err)) {
		print_error("%s\n", err);
		return -1;
	}
	(void)snprintf(h->dir, sizeof(h->dir), "/tmp/weir-host-XXXXXX");
	if (!mkdtemp(h->dir))
		return -1;
	(void)snprintf(h->conf, sizeof(h->conf), "%s/weir.yaml", h->dir);
	(void)snprintf(h->socket, sizeof(h->socket), "%s/admin.sock", h->dir);
	(void)snprintf(h->log, sizeof(h->log), "%s/log", h->dir);
	run_program("weir", h->program, sizeof(h->program));
	return 0;
}

/* The configuration: what every host has (weir0, its folder, its socket), then the rest. */
__attribute__((format(printf, 2, 3))) static inline void host_configure(struct host *h,
									const char *format, ...)
{
	FILE *f = fopen(h->conf, "we");
	va_list ap;

	assert_non_null(f);
	(void)fprintf(f, "interfaces: [weir0]\nstate_dir: %s/state\nadmin: {listen: %s}\n", h->dir,
		      h->socket);
	va_start(ap, format);
	(void)vfprintf(f, format, ap);
	va_end(ap);
	assert_int_equal(fclose(f), 0);
}

/* Runs a command there; its exit status, its output in h->out. */
static inline int host_say(struct host *h, const char *const argv[])
{
	(void)setenv("WEIR_SOCKET", h->socket, 1);
	return run_cmdv(h->lab.netns_fd[LAB_WEIR], h->out, sizeof(h->out), argv);
}
#define host_weir(h, ...) host_say(h, (const char *const[]){(h)->program, __VA_ARGS__, NULL})

/* A command that answers in JSON; the reply is the caller's. */
static inline json_t *host_ask(struct host *h, const char *const argv[])
{
	json_error_t e;
	json_t *j;

	assert_int_equal(host_say(h, argv), 0);
	j = json_loads(h->out, 0, &e);
	if (!j)
		fail_msg("%s: %.800s", e.text, h->out);
	return j;
}

static inline json_t *host_status(struct host *h)
{
	return host_ask(h, (const char *const[]){h->program, "status", "--json", NULL});
}

/* `weir run`, until it answers. */
static inline void host_start(struct host *h)
{
	int fd = open(h->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	const char *const argv[] = {h->program, "run", "-c", h->conf, NULL};

	assert_int_equal(run_start(h->lab.netns_fd[LAB_WEIR], fd, argv, &h->agent), 0);
	(void)close(fd);
	if (!wait_for(host_weir(h, "status") == 0, HOST_WAIT_MS)) {
		(void)run_cmd(0, h->out, sizeof(h->out), "tail", "-n", "20", h->log);
		fail_msg("the agent does not answer: %.1500s", h->out);
	}
}

/* Ends the agent by a signal, as it should be ended by that. */
static inline void host_stop(struct host *h, int number)
{
	if (h->agent <= 0)
		return;
	(void)kill(h->agent, number);
	assert_int_equal(run_wait(h->agent, HOST_WAIT_MS), number == SIGTERM ? 0 : 128 + number);
	h->agent = 0;
}

/* Ends the agent if it runs, takes everything away. */
static inline void host_close(struct host *h)
{
	if (h->agent > 0)
		(void)run_stop(h->agent, HOST_WAIT_MS);
	h->agent = 0;
	if (h->program[0])
		(void)host_weir(h, "detach", "-c", h->conf);
	if (h->dir[0])
		(void)run_cmd(0, h->out, sizeof(h->out), "rm", "-r", h->dir);
	lab_close(&h->lab);
}

#endif
