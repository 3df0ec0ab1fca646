/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent: one libevent loop that owns the datapath, the lists, the state file and the admin socket. `weir run`
 * calls weir_agent_run; tests start it with doubles of the datapath and call weir_agent_handle.
 */
#ifndef WEIR_AGENT_AGENT_H
#define WEIR_AGENT_AGENT_H

#include <jansson.h>
#include <stdbool.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "weir/types.h"

struct event_base;
struct weir_agent;
struct weir_client;

struct weir_agent_options {
	const char *conf_path; /* NULL: the built-in defaults */
	const char *const
		*interfaces; /* in place of the configuration's; NULL-terminated or NULL */
	bool monitor;	     /* --monitor: until `weir mode enforce` */
	__u64 confirm_ns;    /* --confirm; 0 = none */
	const char *ssh;     /* SSH_CONNECTION of who starts it; may be NULL */
};

/* Everything up to the loop: configuration, state, datapath, lists, attachments, socket. On error the sentence is in
 * @e and nothing that was not attached before stays attached. -EINVAL: the configuration is wrong (problems are
 * printed to stderr, all of them).
 */
int weir_agent_start(const struct weir_agent_options *o, struct weir_agent **ret,
		     struct weir_error *e);
/* Runs the loop until SIGTERM, SIGINT or `weir_agent_stop`; what is attached stays attached. */
int weir_agent_loop(struct weir_agent *a);
void weir_agent_stop(struct weir_agent *a);
void weir_agent_free(struct weir_agent *a);
DEFINE_CLEANUP(struct weir_agent, weir_agent_free)

/* start, loop, free; returns the exit code. */
int weir_agent_run(const struct weir_agent_options *o);

/* One request of the admin socket (@client may be NULL in tests); the reply is a new reference. */
json_t *weir_agent_handle(void *agent, struct weir_client *client, const json_t *request);
/* What the loop does once a second. */
void weir_agent_tick(struct weir_agent *a);

#endif
