/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's side of the admin socket, and a clear sentence where nobody answers. Called by the commands. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "user/agent/json.h"
#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

#define REPLY_MAX_BYTES (64u << 20)
#define REPLY_TIME_MS	60000 /* a reload of long lists takes seconds */
#define DEFAULT_CONF	"/etc/weir/weir.yaml"

struct weir_talk {
	int fd;
	char *buf;
	size_t n, room, line; /* line: bytes of the line that was last returned */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

const char *weir_conf_path(const struct weir_args *a)
{
	const char *path = weir_args_get(a, "config");

	if (path)
		return path;
	return access(DEFAULT_CONF, R_OK) == 0 || errno != ENOENT ? DEFAULT_CONF : NULL;
}

/* --socket, $WEIR_SOCKET, the configuration's, the default's. A configuration with errors does not stop a command. */
static int find_path(const struct weir_args *a, struct weir_talk *t)
{
	const char *path = weir_args_get(a, "socket"), *file;
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	struct weir_conf_problems problems = {};

	if (!path)
		path = getenv("WEIR_SOCKET");
	if (!path) {
		file = weir_args_get(a, "config");
		if (weir_conf_load(file ? file : weir_conf_path(a), &c, &problems) < 0) {
			if (file) {
				weir_conf_problems_print(&problems, file, stderr);
				weir_conf_problems_done(&problems);
				return WEIR_EXIT_USAGE;
			}
			weir_conf_problems_done(&problems);
			(void)weir_conf_load(NULL, &c, &problems); /* the default socket then */
		}
		weir_conf_problems_done(&problems);
		path = c ? c->admin_listen : "/run/weir/admin.sock";
	}
	if (!weir_str_copy(t->path, sizeof(t->path), path))
		return weir_fail(WEIR_EXIT_USAGE, "the socket's path is longer than %zu bytes",
				 sizeof(t->path) - 1);
	return WEIR_EXIT_OK;
}

static int cannot_connect(const struct weir_talk *t, int error)
{
	switch (error) {
	case ENOENT:
		return weir_fail(WEIR_EXIT_FAILED,
				 "no agent: there is no socket %s (is it running? systemctl status "
				 "weir; another place: --socket)",
				 t->path);
	case ECONNREFUSED:
		return weir_fail(WEIR_EXIT_FAILED,
				 "no agent answers on %s: it has ended, and what it attached goes "
				 "on (systemctl status weir)",
				 t->path);
	case EACCES:
	case EPERM:
		return weir_fail(WEIR_EXIT_FAILED,
				 "you may not talk to the agent on %s: use sudo, or join the group "
				 "of that file (ls -l %s)",
				 t->path, t->path);
	default:
		return weir_fail(WEIR_EXIT_FAILED, "cannot talk to the agent on %s: %s", t->path,
				 strerror(error));
	}
}

/* Exit code of the search for the path, else 0 or -errno of the connection. */
static int connect_to(const struct weir_args *a, struct weir_talk *t)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int r;

	t->fd = -1;
	r = find_path(a, t);
	if (r)
		return r;
	memcpy(addr.sun_path, t->path, sizeof(addr.sun_path));
	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return t->fd < 0 || connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
}

int weir_talk_open(const struct weir_args *a, struct weir_talk **ret)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return weir_fail(WEIR_EXIT_FAILED, "out of memory");
	r = connect_to(a, t);
	if (r)
		return r < 0 ? cannot_connect(t, -r) : r;
	*ret = TAKE_PTR(t);
	return WEIR_EXIT_OK;
}

bool weir_talk_probe(const struct weir_args *a)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = calloc(1, sizeof(*t));

	return t && connect_to(a, t) == 0;
}

void weir_talk_free(struct weir_talk *t)
{
	if (!t)
		return;
	closep(&t->fd);
	free(t->buf);
	free(t);
}

static int send_all(struct weir_talk *t, const char *text, size_t n)
{
	while (n) {
		ssize_t done = send(t->fd, text, n, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		text += done;
		n -= (size_t)done;
	}
	return 0;
}

/* More bytes into the buffer: 1, 0 at the end, -EAGAIN after @timeout_ms, another -errno. */
static int fill(struct weir_talk *t, int timeout_ms)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};
	ssize_t got;
	int r;

	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 65536;
		char *buf = room > REPLY_MAX_BYTES ? NULL : realloc(t->buf, room);

		if (!buf)
			return -ENOMEM;
		t->buf = buf;
		t->room = room;
	}
	r = poll(&p, 1, timeout_ms);
	if (r <= 0)
		return r == 0 || errno == EINTR ? -EAGAIN : -errno;
	got = recv(t->fd, t->buf + t->n, t->room - t->n, 0);
	if (got < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	t->n += (size_t)got;
	return got > 0;
}

int weir_talk_next(struct weir_talk *t, int timeout_ms, json_t **ret)
{
	size_t seen = 0;
	json_error_t why;
	char *end;
	int r;

	if (t->line) {
		memmove(t->buf, t->buf + t->line, t->n - t->line);
		t->n -= t->line;
		t->line = 0;
	}
	while (!t->n || !(end = memchr(t->buf + seen, '\n', t->n - seen))) {
		seen = t->n;
		r = fill(t, timeout_ms);
		if (r == -EAGAIN)
			return r;
		if (r == 0)
			return weir_fail(WEIR_EXIT_FAILED, "the agent has ended the talk");
		if (r < 0)
			return weir_fail(WEIR_EXIT_FAILED, "the talk with the agent broke: %s",
					 strerror(-r));
	}
	t->line = (size_t)(end - t->buf) + 1;
	*ret = json_loadb(t->buf, t->line - 1, 0, &why);
	if (!*ret)
		return weir_fail(WEIR_EXIT_FAILED, "the agent's answer is no JSON: %s", why.text);
	return WEIR_EXIT_OK;
}

/* Prints what a refusal says; its exit code. */
static int print_refusal(const json_t *reply)
{
	const char *error = weir_json_text_of(reply, "error");
	__u64 code = weir_json_u64_of(reply, "code");

	weir_print_notes(reply);
	return weir_fail(code == 2 ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED, "%s",
			 error ? error : "the agent refused without a reason");
}

int weir_talk_ask(struct weir_talk *t, json_t *request, json_t **ret)
{
	_cleanup_free_ char *text = json_dumps(request, JSON_COMPACT);
	_cleanup_json_ json_t *reply = NULL;
	int r;

	json_decref(request);
	if (!text)
		return weir_fail(WEIR_EXIT_FAILED, "the request cannot be written: is it UTF-8?");
	r = send_all(t, text, strlen(text));
	if (r == 0)
		r = send_all(t, "\n", 1);
	if (r < 0 && r != -EPIPE) /* the agent may have said why before it closed */
		return weir_fail(WEIR_EXIT_FAILED, "the talk with the agent broke: %s",
				 strerror(-r));
	r = weir_talk_next(t, REPLY_TIME_MS, &reply);
	if (r == -EAGAIN)
		return weir_fail(WEIR_EXIT_FAILED, "the agent has not answered within a minute");
	if (r)
		return r;
	if (!weir_json_bool_of(reply, "ok"))
		return print_refusal(reply);
	*ret = TAKE_PTR(reply);
	return WEIR_EXIT_OK;
}

json_t *weir_request(const char *cmd)
{
	json_t *o = json_object();
	const char *ssh = weir_ssh_connection();

	weir_json_set_text(o, "cmd", cmd);
	if (ssh)
		weir_json_set_text(o, "ssh", ssh);
	return o;
}

int weir_ask(const struct weir_args *a, json_t *request, json_t **ret)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	int r = weir_talk_open(a, &t);

	if (r) {
		json_decref(request);
		return r;
	}
	return weir_talk_ask(t, request, ret);
}

void weir_print_notes(const json_t *reply)
{
	(void)fflush(
		stdout); /* what the notes are about comes first; its failure shows at the end */
	weir_say_lines(stderr, reply, "problems", "weir: ");
	weir_say_lines(stderr, reply, "notes", "note: ");
}

/* --- who sits at the other end of SSH ------------------------------------------------------------ */

static size_t read_proc(long pid, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	size_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n < size - 1) {
		ssize_t got = read(fd, buf + n, size - 1 - n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	buf[n] = '\0';
	return n;
}

/* The fourth word of stat, after the name in brackets that may hold anything. */
static long parent_of(long pid)
{
	char buf[512], word[16], *p;
	__u64 parent;

	if (!read_proc(pid, "stat", buf, sizeof(buf)))
		return 0;
	p = strrchr(buf, ')');
	if (!p || strlen(p) < 5)
		return 0;
	(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(p + 4, " "), p + 4);
	return weir_str_u64(word, 1 << 30, &parent) == 0 ? (long)parent : 0;
}

const char *weir_ssh_connection(void)
{
	static const char key[] = "SSH_CONNECTION=";
	static char buf[65536];
	const char *own = getenv("SSH_CONNECTION");
	long pid = (long)getpid();

	if (own)
		return own;
	/* sudo leaves it out, but the shell above sudo has it */
	for (int i = 0; i < 16 && (pid = parent_of(pid)) > 1; i++) {
		size_t n = read_proc(pid, "environ", buf, sizeof(buf));

		for (size_t at = 0; at < n; at += strlen(buf + at) + 1)
			if (!strncmp(buf + at, key, sizeof(key) - 1))
				return buf + at + sizeof(key) - 1;
	}
	return NULL;
}
