/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin socket: see admin.h. Called by the agent. */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "user/agent/admin.h"
#include "user/agent/json.h"
#include "user/base/clock.h"
#include "user/base/unix.h"

#define WRITE_S 30 /* a client that reads nothing for so long is dropped */

struct weir_client {
	struct weir_admin *admin;
	struct weir_client *next, **link;
	struct bufferevent *bev;
	__u64 line_since_ns; /* 0 = no unfinished line */
	char who[64];
	void *data;
	void (*data_free)(void *data);
	bool follows;
	bool closing;		    /* once its output is written */
	struct weir_client **waits; /* the owner's pointer to it: an answer is due */
	char *follow_limit;
	__u64 lost;
};

struct weir_admin {
	struct event_base *base;
	struct evconnlistener *listener;
	char *path;
	weir_admin_fn fn;
	void *arg;
	struct weir_client *clients;
	unsigned n_clients;
};

/* --- binding --------------------------------------------------------------------------------- */

/* What somebody can do who is not root. */
static const char *advice(int error)
{
	return geteuid() && (error == EACCES || error == EPERM)
		       ? " (admin.listen: names a place where this user may write, such as a "
			 "folder of its own in /run/user)"
		       : "";
}

static int make_parent(const struct sockaddr_un *a, struct weir_error *e)
{
	char dir[sizeof(a->sun_path)];
	int r = weir_unix_make_parent(a, dir);

	return r < 0 ? weir_error_set(e, r, "admin socket: cannot make %s: %s%s", dir, strerror(-r),
				      advice(-r))
		     : 0;
}

static int clear_stale(const struct sockaddr_un *a, struct weir_error *e)
{
	bool unlinking;
	int r = weir_unix_clear_stale(a, &unlinking);

	if (r == -EEXIST)
		return weir_error_set(e, r,
				      "admin socket: %s exists and is no socket; remove it, or set "
				      "admin.listen to another path",
				      a->sun_path);
	if (r == -EADDRINUSE)
		return weir_error_set(
			e, r,
			"an agent already answers on %s; stop that one first (systemctl stop "
			"weir), or give this one another instance, state_dir and admin.listen",
			a->sun_path);
	if (r < 0 && unlinking)
		return weir_error_set(e, r, "admin socket: cannot remove the stale %s: %s",
				      a->sun_path, strerror(-r));
	return r < 0 ? weir_error_set(e, r, "admin socket %s: %s", a->sun_path, strerror(-r)) : 0;
}

static int give_to_group(const char *path, const char *group, char **ret_note, struct weir_error *e)
{
	gid_t gid = 0;

	if (!group)
		return 0;
	if (!weir_group_find(group, &gid)) {
		if (asprintf(ret_note,
			     "admin.group %s does not exist (addgroup --system %s): only %s may "
			     "use %s",
			     group, group, geteuid() ? "this user" : "root", path) < 0)
			*ret_note = NULL;
		return 0;
	}
	if (lchown(path, (uid_t)-1, gid) < 0 && errno != EPERM)
		return weir_error_set(e, -errno, "admin socket: cannot give %s to group %s: %s",
				      path, group, strerror(errno));
	return 0;
}

int weir_admin_bind(const char *path, const char *group, int *ret_fd, char **ret_note,
		    struct weir_error *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	mode_t mask;
	int r;

	if (strlen(path) >= sizeof(a.sun_path))
		return weir_error_set(e, -ENAMETOOLONG, "admin socket: %s is longer than %zu bytes",
				      path, sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, path, strlen(path) + 1);
	r = make_parent(&a, e);
	if (r == 0)
		r = clear_stale(&a, e);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return weir_error_set(e, -errno, "admin socket: %s", strerror(errno));
	mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	(void)umask(mask); /* cannot fail */
	if (r < 0)
		return weir_error_set(e, r, "admin socket: cannot make %s: %s%s", path,
				      strerror(-r), advice(-r));
	r = give_to_group(path, group, ret_note, e);
	if (r == 0 && chmod(path, 0660) < 0)
		r = weir_error_set(e, -errno, "admin socket: %s: %s", path, strerror(errno));
	if (r == 0 && listen(fd, 16) < 0)
		r = weir_error_set(e, -errno, "admin socket: %s: %s", path, strerror(errno));
	if (r < 0) {
		(void)unlink(path); /* the error says what matters */
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- clients --------------------------------------------------------------------------------- */

static void client_free(struct weir_client *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->admin->n_clients--;
	if (c->waits)
		*c->waits = NULL;
	weir_client_set_data(c, NULL, NULL);
	bufferevent_free(c->bev);
	free(c->follow_limit);
	free(c);
}

void weir_client_set_data(struct weir_client *c, void *data, void (*free_fn)(void *data))
{
	if (c->data && c->data_free)
		c->data_free(c->data);
	c->data = data;
	c->data_free = free_fn;
}

void *weir_client_data(const struct weir_client *c)
{
	return c->data;
}

const char *weir_client_who(const struct weir_client *c)
{
	return c->who;
}

int weir_client_follow(struct weir_client *c, const char *limit)
{
	struct timeval write = {.tv_sec = WRITE_S};
	char *copy = limit ? strdup(limit) : NULL;

	if (limit && !copy)
		return -ENOMEM;
	free(c->follow_limit);
	c->follow_limit = copy;
	c->follows = true;
	return bufferevent_set_timeouts(c->bev, NULL, &write) < 0 ? -EIO
								  : 0; /* may be silent for ever */
}

static void free_dumped(const void *data, size_t n, void *arg)
{
	(void)n;
	(void)arg;
	free((void *)(uintptr_t)data);
}

/* Queues one line. */
static void send_json(struct weir_client *c, const json_t *j)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (!text) {
		(void)evbuffer_add_printf(
			out, "{\"ok\":false,\"error\":\"out of memory\",\"code\":1}\n");
		return;
	}
	if (evbuffer_add_reference(out, text, strlen(text), free_dumped, NULL) < 0)
		free(text);
	(void)evbuffer_add(out, "\n", 1); /* without memory the client sees an unfinished line */
}

static void send_error(struct weir_client *c, const char *text)
{
	_cleanup_json_ json_t *j = json_object();

	weir_json_set_bool(j, "ok", false);
	weir_json_set_text(j, "error", text);
	weir_json_set_u64(j, "code", 2);
	send_json(c, j);
}

/* Answers, then closes once the answer is written. */
static void refuse(struct weir_client *c, const char *text)
{
	c->closing = true;
	c->line_since_ns = 0;
	(void)bufferevent_disable(c->bev, EV_READ); /* nothing more is read either way */
	send_error(c, text);
}

static void answer(struct weir_client *c, const char *line, size_t n)
{
	json_error_t why;
	_cleanup_json_ json_t *request = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why),
			      *reply = NULL;
	char text[JSON_ERROR_TEXT_LENGTH + 64];

	if (!request) {
		(void)snprintf(text, sizeof(text), "the request is not JSON: %s", why.text);
		send_error(c, text);
		return;
	}
	if (!json_is_object(request) || !weir_json_text_of(request, "cmd")) {
		send_error(c, "the request is no object with a \"cmd\"");
		return;
	}
	reply = c->admin->fn(c->admin->arg, c, request);
	if (!c->waits)
		send_json(c, reply);
}

/* One line at a time: a client that does not read its answers gets no more of them. */
static void serve(struct weir_client *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev), *out = bufferevent_get_output(c->bev);

	while (!c->closing && !c->waits && evbuffer_get_length(out) <= WEIR_ADMIN_PUSH_MAX_BYTES) {
		_cleanup_free_ char *line = NULL;
		size_t n = 0;

		line = evbuffer_readln(in, &n, EVBUFFER_EOL_LF);
		if (!line)
			break;
		c->line_since_ns = 0;
		if (n > WEIR_ADMIN_LINE_MAX_BYTES)
			refuse(c, "the request is longer than 256 KiB");
		else if (n)
			answer(c, line, n);
	}
	if (c->closing)
		return;
	if (evbuffer_get_length(in) > WEIR_ADMIN_LINE_MAX_BYTES &&
	    evbuffer_get_length(out) <= WEIR_ADMIN_PUSH_MAX_BYTES)
		refuse(c, "the request is longer than 256 KiB");
	else if (!evbuffer_get_length(in))
		c->line_since_ns = 0;
	else if (!c->line_since_ns)
		c->line_since_ns = weir_clock_ns(CLOCK_MONOTONIC);
}

void weir_client_defer(struct weir_client *c, struct weir_client **waits)
{
	c->waits = waits;
	*waits = c;
}

void weir_client_reply(struct weir_client *c, const json_t *reply)
{
	*c->waits = NULL;
	c->waits = NULL;
	send_json(c, reply);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	(void)bev;
	serve(arg);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct weir_client *c = arg;

	if (c->closing)
		client_free(c);
	else if (evbuffer_get_length(bufferevent_get_input(bev)))
		serve(c); /* lines that waited for room */
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct weir_client *c = arg;

	/* A client that has sent all it had still reads the answers. */
	if ((what & BEV_EVENT_EOF) &&
	    (c->waits || evbuffer_get_length(bufferevent_get_output(bev)))) {
		c->closing = true;
		return;
	}
	client_free(c);
}

/* Who is at the other end: the login user behind sudo where the kernel knows it. */
static void find_who(int fd, char *ret, size_t size)
{
	struct ucred cred = {};
	socklen_t n = sizeof(cred);
	_cleanup_fclose_ FILE *f = NULL;
	struct passwd *p;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0) {
		(void)snprintf(ret, size, "?");
		return;
	}
	(void)snprintf(ret, size, "uid %u", cred.uid);
	f = fopen("/etc/passwd", "re"); /* a directory service could block the loop */
	while (f && (p = fgetpwent(f)))
		if (p->pw_uid == cred.uid) {
			(void)snprintf(ret, size, "%s", p->pw_name);
			return;
		}
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n,
		      void *arg)
{
	struct timeval idle = {.tv_sec = WEIR_ADMIN_IDLE_S}, write_time = {.tv_sec = WRITE_S};
	struct weir_admin *admin = arg;
	struct weir_client *c = NULL;

	(void)l;
	(void)a;
	(void)n;
	if (admin->n_clients >= WEIR_ADMIN_CLIENTS_MAX) {
		static const char busy[] = "{\"ok\":false,\"error\":\"the agent has 32 clients "
					   "already; try again\",\"code\":1}\n";

		(void)!write(fd, busy, sizeof(busy) - 1); /* fits the empty socket buffer */
	} else {
		c = calloc(1, sizeof(*c));
	}
	if (c)
		c->bev = bufferevent_socket_new(admin->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c || !c->bev) {
		free(c);
		(void)close(fd);
		return;
	}
	c->admin = admin;
	c->next = admin->clients;
	c->link = &admin->clients;
	if (c->next)
		c->next->link = &c->next;
	admin->clients = c;
	admin->n_clients++;
	find_who(fd, c->who, sizeof(c->who));
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, WEIR_ADMIN_LINE_MAX_BYTES + 4096);
	(void)bufferevent_set_timeouts(
		c->bev, &idle, &write_time); /* without them only idle clients stay longer */
	if (bufferevent_enable(c->bev, EV_READ | EV_WRITE) < 0)
		client_free(c);
}

int weir_admin_new(struct event_base *base, int fd, const char *path, weir_admin_fn fn, void *arg,
		   struct weir_admin **ret, struct weir_error *e)
{
	_cleanup_(weir_admin_freep) struct weir_admin *a = calloc(1, sizeof(*a));

	if (!a)
		goto no_memory;
	a->base = base;
	a->fn = fn;
	a->arg = arg;
	a->path = strdup(path);
	a->listener = evconnlistener_new(base, on_accept, a,
					 LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	if (!a->path || !a->listener)
		goto no_memory;
	*ret = TAKE_PTR(a);
	return 0;
no_memory:
	if (!a || !a->listener)
		(void)close(fd);
	return weir_error_set(e, -ENOMEM, "admin socket: out of memory");
}

void weir_admin_free(struct weir_admin *a)
{
	if (!a)
		return;
	if (a->path && a->listener)
		(void)unlink(a->path); /* a stale file is replaced at the next start */
	while (a->clients)
		client_free(a->clients);
	if (a->listener)
		evconnlistener_free(a->listener);
	free(a->path);
	free(a);
}

unsigned weir_admin_clients(const struct weir_admin *a)
{
	return a->n_clients;
}

void weir_admin_tick(struct weir_admin *a, __u64 now_ns)
{
	for (struct weir_client *c = a->clients, *next; c; c = next) {
		next = c->next;
		if (c->line_since_ns && now_ns > c->line_since_ns + WEIR_ADMIN_LINE_NS &&
		    !evbuffer_get_length(bufferevent_get_output(c->bev)))
			refuse(c, "the request was not finished within 30 s");
	}
}

void weir_admin_push(struct weir_admin *a, const char *limit, const json_t *line)
{
	for (struct weir_client *c = a->clients; c; c = c->next) {
		if (!c->follows || c->closing ||
		    (c->follow_limit && (!limit || strcmp(limit, c->follow_limit) != 0)))
			continue;
		if (evbuffer_get_length(bufferevent_get_output(c->bev)) >
		    WEIR_ADMIN_PUSH_MAX_BYTES) {
			c->lost++;
			continue;
		}
		if (c->lost) {
			_cleanup_json_ json_t *lost =
				json_pack("{s:I}", "lost", (json_int_t)c->lost);

			c->lost = 0;
			send_json(c, lost);
		}
		send_json(c, line);
	}
}
