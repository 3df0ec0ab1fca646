/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See agent.h. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/agent.h"
#include "tests/lib/run.h"
#include "tests/lib/wait.h"
#include "user/base/cleanup.h"
#include "user/base/str.h"

#define NOBODY 65534

static bool drops_rights(const struct agent *a)
{
	return a->nobody && getuid() == 0;
}

int agent_file(struct agent *a, const char *name, const char *text)
{
	char path[160];
	size_t n = strlen(text);
	FILE *f;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", a->dir, name);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	r = fwrite(text, 1, n, f) == n ? 0 : -EIO;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	return r;
}

/* A folder that nobody may enter is no place for a program that runs as nobody. */
int agent_prepare(struct agent *a)
{
	const char *build = getenv("WEIR_BUILD"), *tmp = getenv("TMPDIR");

	if (a->dir[0])
		return 0;
	if (!a->out)
		a->out = calloc(1, AGENT_OUT_BYTES);
	if (!a->out)
		return -ENOMEM;
	if (!tmp || drops_rights(a) || strlen(tmp) > 40)
		tmp = "/tmp";
	(void)snprintf(a->dir, sizeof(a->dir), "%s/weir-http.XXXXXX", tmp);
	if (!mkdtemp(a->dir)) {
		a->dir[0] = '\0';
		return -errno;
	}
	(void)snprintf(a->conf, sizeof(a->conf), "%s/weir.yaml", a->dir);
	(void)snprintf(a->log, sizeof(a->log), "%s/log", a->dir);
	(void)snprintf(a->socket, sizeof(a->socket), "%s/admin.sock", a->dir);
	(void)snprintf(a->program, sizeof(a->program), "%s/weir", build ? build : "build");
	if (!drops_rights(a))
		return 0;
	if (chown(a->dir, NOBODY, NOBODY) < 0)
		return -errno;
	if (run_cmd(0, a->out, AGENT_OUT_BYTES, "cp", a->program, a->dir) != 0)
		return -EIO;
	(void)snprintf(a->program, sizeof(a->program), "%s/weir", a->dir);
	return 0;
}

/* @conf with the folder's path for @DIR@; to be freed. */
static char *with_dir(const struct agent *a, const char *conf)
{
	static const char mark[] = "@DIR@";
	_cleanup_free_ char *text = NULL;
	const char *at;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	if (!f)
		return NULL;
	(void)fprintf(f, "interfaces: []\nstate_dir: %s/state\nadmin: {listen: %s}\n", a->dir,
		      a->socket);
	for (; (at = strstr(conf, mark)); conf = at + sizeof(mark) - 1)
		(void)fprintf(f, "%.*s%s", (int)(at - conf), conf, a->dir);
	(void)fputs(conf, f);
	return fclose(f) == 0 ? TAKE_PTR(text) : NULL;
}

int agent_write(struct agent *a, const char *conf)
{
	_cleanup_free_ char *text = with_dir(a, conf);

	return text ? agent_file(a, "weir.yaml", text) : -ENOMEM;
}

int agent_cmdv(struct agent *a, const char *const argv[])
{
	const char *all[40] = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
	size_t n = drops_rights(a) ? 4 : 0;

	(void)setenv("WEIR_SOCKET", a->socket, 1);
	while (*argv && n < ARRAY_LEN(all) - 1)
		all[n++] = *argv++;
	all[n] = NULL;
	return run_cmdv(0, a->out, AGENT_OUT_BYTES, all);
}

/* Every object in @j that says where something listens, and by which profile. */
static void find_listeners(struct agent *a, json_t *j)
{
	const char *where = json_string_value(json_object_get(j, "listen"));
	const char *profile = json_string_value(json_object_get(j, "profile")), *key;
	json_t *v;
	size_t i;

	if (where && profile && a->n_listener < AGENT_LISTENERS_MAX) {
		(void)weir_str_copy(a->listener[a->n_listener].where, sizeof(a->listener[0].where),
				    where);
		(void)weir_str_copy(a->listener[a->n_listener++].profile,
				    sizeof(a->listener[0].profile), profile);
	}
	if (json_is_object(j)) {
		json_object_foreach(j, key, v)
			find_listeners(a, v);
	} else if (json_is_array(j)) {
		json_array_foreach(j, i, v)
			find_listeners(a, v);
	}
}

static int read_ports(struct agent *a)
{
	json_t *j;

	if (agent_cmd(a, "status", "--json") != 0)
		return -EAGAIN;
	j = json_loads(a->out, 0, NULL);
	if (!j)
		return -EBADMSG;
	a->n_listener = 0;
	find_listeners(a, j);
	json_decref(j);
	return 0;
}

bool agent_runs(struct agent *a)
{
	return a->pid > 0 && agent_rss_bytes(a) > 0;
}

/* What the agent has said, for a test that fails. */
static void read_log(struct agent *a)
{
	FILE *f = fopen(a->log, "re");
	size_t n = 0;

	if (f) {
		n = fread(a->out, 1, AGENT_OUT_BYTES - 1, f);
		(void)fclose(f);
	}
	a->out[n] = '\0';
}

static int launch(struct agent *a)
{
	char files[40];
	const char *argv[12];
	size_t n = 0;
	int fd, r;

	if (a->files || a->files_at_first) {
		if (a->files)
			(void)snprintf(files, sizeof(files), "--nofile=%u:%u", a->files, a->files);
		else
			(void)snprintf(files, sizeof(files), "--nofile=%u:", a->files_at_first);
		argv[n++] = "prlimit";
		argv[n++] = files;
	}
	if (drops_rights(a)) {
		argv[n++] = "setpriv";
		argv[n++] = "--reuid=65534";
		argv[n++] = "--regid=65534";
		argv[n++] = "--clear-groups";
	}
	argv[n++] = a->program;
	argv[n++] = "run";
	argv[n++] = "-c";
	argv[n++] = a->conf;
	argv[n] = NULL;
	fd = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = run_start(0, fd, argv, &a->pid);
	(void)close(fd);
	return r;
}

int agent_start(struct agent *a, const char *conf)
{
	int r = agent_prepare(a);

	if (r == 0)
		r = agent_write(a, conf);
	if (r == 0)
		r = launch(a);
	if (r < 0)
		return r;
	(void)wait_for(read_ports(a) == 0 || !agent_runs(a), AGENT_WAIT_MS);
	r = agent_runs(a) ? read_ports(a) : -ECHILD;
	if (r < 0) {
		read_log(a);
		(void)agent_end(a);
	}
	return r;
}

int agent_reload(struct agent *a, const char *conf)
{
	int r = agent_write(a, conf);

	if (r < 0)
		return r;
	if (agent_cmd(a, "reload") != 0)
		return -EIO;
	return read_ports(a);
}

int agent_end(struct agent *a)
{
	int r = 0;

	if (a->pid > 0)
		r = run_stop(a->pid, AGENT_WAIT_MS);
	a->pid = 0;
	return r;
}

void agent_stop(struct agent *a)
{
	(void)agent_end(a);
	if (a->dir[0])
		(void)run_cmd(0, NULL, 0, "rm", "-r", a->dir);
	free(a->out);
	*a = (struct agent){};
}

const char *agent_where_nth(const struct agent *a, const char *profile, size_t i)
{
	for (size_t j = 0; j < a->n_listener; j++)
		if (strcmp(a->listener[j].profile, profile) == 0 && i-- == 0)
			return a->listener[j].where;
	return NULL;
}

const char *agent_where(const struct agent *a, const char *profile)
{
	return agent_where_nth(a, profile, 0);
}

/* A process that has ended and is not reaped has no memory. */
uint64_t agent_rss_bytes(const struct agent *a)
{
	char path[64], line[256];
	__u64 kb = 0;
	FILE *f;

	if (a->pid <= 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)a->pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		char *at = line + 6, *end;

		if (strncmp(line, "VmRSS:", 6) != 0)
			continue;
		at += strspn(at, " \t");
		end = at + strspn(at, "0123456789");
		*end = '\0';
		(void)weir_str_u64(at, 1ULL << 40, &kb);
	}
	(void)fclose(f);
	return kb * 1024;
}
