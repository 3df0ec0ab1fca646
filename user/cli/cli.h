/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line: one table of commands and options, from which parsing, --help and the man page come; the talk with
 * the agent; numbers and times for people. Shared by user/cli only; main.c calls weir_cli_main.
 */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/config/conf.h"

#define WEIR_EXIT_OK	 0
#define WEIR_EXIT_FAILED 1
#define WEIR_EXIT_USAGE	 2 /* or configuration */

#define WEIR_ARGS_MAX	 64

struct weir_option {
	const char *name;  /* without dashes; NULL ends a list */
	char letter;	   /* 0 = none */
	const char *value; /* what stands for it in help; NULL = a flag */
	const char *help;
	bool many; /* may be given several times */
};

struct weir_args;
struct weir_command {
	const char *name;    /* "status", "block add" */
	const char *usage;   /* after the name: "CIDR [--for TIME]" */
	const char *summary; /* one line */
	const char *detail;  /* paragraph; may be NULL */
	const struct weir_option *options;
	int min_args, max_args; /* without options */
	bool talks;		/* has --socket and -c */
	int (*run)(const struct weir_args *args);
};

struct weir_args {
	const struct weir_command *command;
	struct {
		const struct weir_option *option;
		const char *value; /* NULL for a flag */
	} given[WEIR_ARGS_MAX];
	size_t n_given;
	const char *arg[WEIR_ARGS_MAX];
	size_t n;
};

extern const struct weir_command weir_commands[];
extern const size_t weir_n_commands;
extern const struct weir_option weir_talk_options[]; /* of all commands that talk */

/* --- opt.c ---- */
int weir_cli_main(int argc, char **argv);
/* -EINVAL with @e: unknown option, missing value, too few or many arguments. *ret_help: --help was asked for. */
int weir_args_parse(const struct weir_command *c, int argc, char **argv, struct weir_args *ret,
		    bool *ret_help, struct weir_error *e);
bool weir_args_has(const struct weir_args *a, const char *name);
const char *weir_args_get(const struct weir_args *a,
			  const char *name); /* the last one; NULL = not given */
/* A duration of at least one second; 0 if not given. */
int weir_args_seconds(const struct weir_args *a, const char *name, __u64 *ret_s,
		      struct weir_error *e);

/* --- help.c ---- */
void weir_help_all(FILE *f);
void weir_help_command(const struct weir_command *c, FILE *f);
/* Commands that begin with the word @group; false if there are none. */
bool weir_help_group(const char *group, FILE *f);
void weir_help_man(FILE *f);
int weir_cmd_help(const struct weir_args *a);

/* --- say.c ---- */
/* "weir: ..." on stderr; returns @code. */
int weir_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define WEIR_SAY_MAX 64
/* Of a shared store: an open breaker means that it is away, and "open" sounds like the opposite. */
const char *weir_say_health(const char *health);
/* The same of a shared store, as status has it: some of its nodes may answer. */
const char *weir_say_store(const json_t *shared);
/* "3 d 4 h", "2 h 3 min", "12 s". */
const char *weir_say_span(__u64 seconds, char buf[static WEIR_SAY_MAX]);
/* The same of milliseconds: "250 ms" below ten seconds. */
const char *weir_say_ms(__u64 ms, char buf[static WEIR_SAY_MAX]);
/* "1.2 Gbit/s" of bytes a second. */
const char *weir_say_bits(__u64 bytes_per_second, char buf[static WEIR_SAY_MAX]);
/* Control bytes of a terminal that came from outside are shown as '?'. */
void weir_say_clean(FILE *f, const char *text);
/* "loss  @n @text" of what has happened; nothing if @n is 0. */
void weir_say_loss(__u64 n, const char *text);
/* The strings of the list @key of @o, a line each, with @before in front. */
void weir_say_lines(FILE *f, const json_t *o, const char *key, const char *before);
int weir_print_json(const json_t *j);
bool weir_is_terminal(void);

/* --- talk.c ---- */
struct weir_talk;
/* Connects to the agent that --socket, -c or $WEIR_SOCKET names. 0, or an exit code after the sentence was printed. */
int weir_talk_open(const struct weir_args *a, struct weir_talk **ret);
/* Does an agent answer? Says nothing. */
bool weir_talk_probe(const struct weir_args *a);
void weir_talk_free(struct weir_talk *t);
DEFINE_CLEANUP(struct weir_talk, weir_talk_free)
/* Sends @request (stolen) and waits for its reply. Returns 0 and *ret, or an exit code after the sentence was printed. */
int weir_talk_ask(struct weir_talk *t, json_t *request, json_t **ret);
/* The next line that the agent sends by itself: waits @timeout_ms (-1 = ever). Exit code, or -EAGAIN: none yet. */
int weir_talk_next(struct weir_talk *t, int timeout_ms, json_t **ret);
/* Open, ask, close. */
int weir_ask(const struct weir_args *a, json_t *request, json_t **ret);
json_t *weir_request(const char *cmd);
/* Prints "notes" and "problems" of a reply. */
void weir_print_notes(const json_t *reply);
/* The SSH_CONNECTION of this session, also behind sudo; NULL if there is none. Static storage. */
const char *weir_ssh_connection(void);
/* -c, else /etc/weir/weir.yaml if it is there, else NULL. */
const char *weir_conf_path(const struct weir_args *a);

/* --- cmd_request.c ---- */
/* --ip, --user and --api-key - (from standard input) into @q; an exit code, with its sentence printed. */
int weir_set_client(const struct weir_args *a, json_t *q);

/* --- status_request.c ---- */
void weir_print_request_status(const json_t *request);
void weir_print_request_limit(const json_t *limit, const char *head);

/* --- the commands ---- */
int weir_cmd_run(const struct weir_args *a);
int weir_cmd_check(const struct weir_args *a);
int weir_cmd_status(const struct weir_args *a);
int weir_cmd_top(const struct weir_args *a);
int weir_cmd_explain(const struct weir_args *a);
int weir_cmd_events(const struct weir_args *a);
int weir_cmd_list_add(const struct weir_args *a);
int weir_cmd_list_del(const struct weir_args *a);
int weir_cmd_list_list(const struct weir_args *a);
int weir_cmd_list_load(const struct weir_args *a);
int weir_cmd_limit_list(const struct weir_args *a);
int weir_cmd_limit_set(const struct weir_args *a);
int weir_cmd_limit_unset(const struct weir_args *a);
int weir_cmd_limit_reset(const struct weir_args *a);
int weir_cmd_limit_diff(const struct weir_args *a);
int weir_cmd_limit_push(const struct weir_args *a);
int weir_cmd_limit_pull(const struct weir_args *a);
/* Of `limit diff` and `status`; nothing without a fleet. */
void weir_print_store_diff(const json_t *diff);
void weir_print_fleet(const json_t *fleet);
int weir_cmd_mode(const struct weir_args *a);
int weir_cmd_reload(const struct weir_args *a);
int weir_cmd_confirm(const struct weir_args *a);
int weir_cmd_detach(const struct weir_args *a);
int weir_cmd_doctor(const struct weir_args *a);
int weir_cmd_request(const struct weir_args *a);
int weir_cmd_version(const struct weir_args *a);

#endif
