/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An agent over doubles of the datapath and of the request layer, in a folder of its own, and how tests talk to it.
 * Each test includes it once.
 */
#ifndef WEIR_TEST_AGENT_CASE_H
#define WEIR_TEST_AGENT_CASE_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent_double.h"
#include "l7_double.h"
#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/log.h"

struct fix {
	char dir[64], conf[96], list[96];
	struct weir_agent *a;
	struct weir_error e;
	struct weir_agent_options o;
};

static FILE *quiet;

static inline void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* The head that every test's configuration has, then @rest. */
static inline void write_conf(struct fix *f, const char *rest)
{
	char text[4096];

	(void)snprintf(text, sizeof(text),
		       "interfaces: [lo]\nstate_dir: %s/state\nadmin: {listen: %s/admin.sock}\n%s",
		       f->dir, f->dir, rest);
	write_file(f->conf, text);
}

#define LIMIT "packet_limits:\n  - {name: per-source, per: source, rate: 20000/s}\n"

static inline int start(struct fix *f)
{
	int r = weir_agent_start(&f->o, &f->a, &f->e);

	weir_log_open(quiet, false, WEIR_LOG_ERROR);
	return r;
}

static inline void stop(struct fix *f)
{
	weir_agent_free(f->a);
	f->a = NULL;
}

static inline void restart(struct fix *f)
{
	stop(f);
	assert_int_equal(start(f), 0);
}

/* A folder, and nothing started yet. */
static inline int make_case(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	dp_reset();
	l7_reset();
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/weir-agent-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->conf, sizeof(f->conf), "%s/weir.yaml", f->dir);
	(void)snprintf(f->list, sizeof(f->list), "%s/drop.netset", f->dir);
	f->o.conf_path = f->conf;
	*state = f;
	return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline int tear_down(void **state)
{
	struct fix *f = *state;

	stop(f);
	(void)nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

/* Asks in JSON (' for "); the reply is to be released. */
static inline json_t *ask(struct fix *f, const char *text)
{
	char *copy = strdup(text);
	json_t *q, *reply;

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	q = json_loads(copy, 0, NULL);
	assert_non_null(q);
	reply = weir_agent_handle(f->a, NULL, q);
	json_decref(q);
	free(copy);
	assert_non_null(reply);
	return reply;
}

static inline void does(struct fix *f, const char *text)
{
	_cleanup_json_ json_t *j = ask(f, text);

	if (!weir_json_bool_of(j, "ok"))
		fail_msg("%s: %s", text, weir_json_text_of(j, "error"));
}

static inline void refuses(struct fix *f, const char *text, const char *words, int code)
{
	_cleanup_json_ json_t *j = ask(f, text);

	assert_false(weir_json_bool_of(j, "ok"));
	if (!strstr(weir_json_text_of(j, "error"), words))
		fail_msg("%s: %s", text, weir_json_text_of(j, "error"));
	assert_int_equal(weir_json_u64_of(j, "code"), code);
}

static inline bool is_degraded(struct fix *f, const char *words)
{
	_cleanup_json_ json_t *s = ask(f, "{'cmd':'status'}");
	json_t *line;
	size_t i;

	json_array_foreach(json_object_get(s, "degraded"), i, line)
		if (strstr(json_string_value(line), words))
			return true;
	return false;
}

/* --- a test's usual start: an address that the file blocks, prefixes from a list file, one limit ---- */

#define LISTS "lists:\n  block: [198.51.100.7]\n  never_block: [203.0.113.0/24]\n"

static inline int set_up_packets(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_file(f->list, "# comment\n192.0.2.128/25\n198.51.100.7\n");
	write_conf(f, LISTS LIMIT);
	return start(f);
}

static inline void notes(struct fix *f, const char *text, const char *words)
{
	_cleanup_json_ json_t *j = ask(f, text);
	json_t *note;
	size_t i;
	bool found = false;

	assert_true(weir_json_bool_of(j, "ok"));
	json_array_foreach(json_object_get(j, "notes"), i, note)
		found = found || strstr(json_string_value(note), words);
	if (!found)
		fail_msg("%s: no note says %s", text, words);
}

static inline __u64 count(struct fix *f, const char *list, const char *what)
{
	_cleanup_json_ json_t *j = ask(f, "{'cmd':'status'}");

	return weir_json_u64_of(json_object_get(json_object_get(j, "lists"), list), what);
}

#define PACKETS(name) cmocka_unit_test_setup_teardown(name, set_up_packets, tear_down)

/* Of a group: what the agent logs is not shown. */
static inline int open_quiet(void **state)
{
	(void)state;
	quiet = fopen("/dev/null", "we");
	return quiet ? 0 : -1;
}

static inline int close_quiet(void **state)
{
	(void)state;
	return fclose(quiet);
}

#endif
