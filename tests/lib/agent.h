/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent as a process, for tests of the request layer: a folder with a configuration, `weir run` on it, the ports it
 * has really got, commands that talk to it. No interface and no privilege is needed; everything goes with agent_stop.
 *
 *	_cleanup_(agent_stop) struct agent a = {};
 *
 *	assert_int_equal(agent_start(&a, "http: {listeners: [{listen: 127.0.0.1:0, profile: nginx}]}\n"), 0);
 *	web_open(&w, agent_where(&a, "nginx"));
 *	assert_int_equal(agent_cmd(&a, "status"), 0);
 */
#ifndef WEIR_TEST_AGENT_H
#define WEIR_TEST_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AGENT_WAIT_MS	    20000
#define AGENT_OUT_BYTES	    (1 << 20)
#define AGENT_LISTENERS_MAX 16

struct agent {
	/* set before agent_start, all may be left */
	bool nobody;		     /* as a user without any right, with a copy of the program */
	unsigned int files;	     /* RLIMIT_NOFILE; 0: as it is */
	unsigned int files_at_first; /* the soft limit alone */

	pid_t pid; /* 0: not running */
	char dir[64], conf[96], log[96], socket[96], program[512];
	struct {
		char where[128], profile[16];
	} listener[AGENT_LISTENERS_MAX];
	size_t n_listener;
	char *out; /* of the last command, and what agent_start has to say when it fails */
};

/* Makes the folder (a->dir; nothing else is in it but what the test writes before: see agent_prepare), writes @conf with
 * `interfaces: []`, state_dir and admin socket before it and the folder's path for every @DIR@ in it, starts the agent and
 * waits until it answers. -errno: a->out says what it said.
 */
int agent_start(struct agent *a, const char *conf);
/* The folder alone, for files that the configuration names. agent_start keeps one that is there. */
int agent_prepare(struct agent *a);
/* Replaces the configuration in the file; agent_reload also has it read (`weir reload`), and the ports anew. */
int agent_write(struct agent *a, const char *conf);
int agent_reload(struct agent *a, const char *conf);
/* SIGTERM; returns the exit status as run_wait. The folder stays. */
int agent_end(struct agent *a);
/* Ends it if it runs, removes the folder, frees. Takes one that was never started. */
void agent_stop(struct agent *a);

/* Where the first, or the @i-th, listener of that profile listens, as web_open takes it; NULL: there is none. */
const char *agent_where(const struct agent *a, const char *profile);
const char *agent_where_nth(const struct agent *a, const char *profile, size_t i);

/* Runs `weir ARGS...`; its exit status, output and errors in a->out. */
int agent_cmdv(struct agent *a, const char *const argv[]);
#define agent_cmd(a, ...) agent_cmdv(a, (const char *const[]){(a)->program, __VA_ARGS__, NULL})

/* Writes a file in the folder. */
int agent_file(struct agent *a, const char *name, const char *text);
/* Resident memory of the agent; 0: it is gone. */
uint64_t agent_rss_bytes(const struct agent *a);
bool agent_runs(struct agent *a);

#endif
