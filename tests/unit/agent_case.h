/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An agent over doubles of the datapath and of the request layer, in a folder of its own, and how tests talk to it.
 * Included once, by t_agent.c and t_agent_request.c.
 */
#ifndef WEIR_TEST_AGENT_CASE_H
#define WEIR_TEST_AGENT_CASE_H

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

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	(void)fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* The head that every test's configuration has, then @rest. */
static void write_conf(struct fix *f, const char *rest)
{
	char text[4096];

	(void)snprintf(text, sizeof(text),
		       "interfaces: [lo]\nstate_dir: %s/state\nadmin: {listen: %s/admin.sock}\n%s",
		       f->dir, f->dir, rest);
	write_file(f->conf, text);
}

#define LIMIT "packet_limits:\n  - {name: per-source, per: source, rate: 20000/s}\n"

static int start(struct fix *f)
{
	int r = weir_agent_start(&f->o, &f->a, &f->e);

	weir_log_open(quiet, false, WEIR_LOG_ERROR);
	return r;
}

static void stop(struct fix *f)
{
	weir_agent_free(f->a);
	f->a = NULL;
}

static void restart(struct fix *f)
{
	stop(f);
	assert_int_equal(start(f), 0);
}

/* A folder, and nothing started yet. */
static int make_case(void **state)
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

static void remove_all(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%.200s", dir, e->d_name);
		if (unlink(path) < 0) {
			remove_all(path);
			(void)rmdir(path);
		}
	}
	if (d)
		(void)closedir(d);
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	stop(f);
	remove_all(f->dir);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

/* Asks in JSON (' for "); the reply is to be released. */
static json_t *ask(struct fix *f, const char *text)
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

static void does(struct fix *f, const char *text)
{
	_cleanup_json_ json_t *j = ask(f, text);

	if (!weir_json_bool_of(j, "ok"))
		fail_msg("%s: %s", text, weir_json_text_of(j, "error"));
}

static void refuses(struct fix *f, const char *text, const char *words, int code)
{
	_cleanup_json_ json_t *j = ask(f, text);

	assert_false(weir_json_bool_of(j, "ok"));
	if (!strstr(weir_json_text_of(j, "error"), words))
		fail_msg("%s: %s", text, weir_json_text_of(j, "error"));
	assert_int_equal(weir_json_u64_of(j, "code"), code);
}

static bool is_degraded(struct fix *f, const char *words)
{
	_cleanup_json_ json_t *s = ask(f, "{'cmd':'status'}");
	json_t *line;
	size_t i;

	json_array_foreach(json_object_get(s, "degraded"), i,
			   line) if (strstr(json_string_value(line), words)) return true;
	return false;
}

#endif
