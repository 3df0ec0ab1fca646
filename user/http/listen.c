/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Listening sockets; see http.h. Called by http.c in the main thread. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "user/base/unix.h"
#include "user/http/http_int.h"

void weir_http_listen_ref(struct weir_http_listen *l)
{
	atomic_fetch_add(&l->refs, 1);
}

void weir_http_listen_unref(struct weir_http_listen *l)
{
	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	weir_http_listen_close(l, true);
	weir_http_port_settings_free(l->settings);
	pthread_mutex_destroy(&l->crowd_lock);
	free(l->listen);
	free(l->unix_path);
	free(l);
}

void weir_http_listen_close(struct weir_http_listen *l, bool keep_path)
{
	struct stat st;

	if (l->fd < 0)
		return;
	(void)close(l->fd); /* nothing was written */
	l->fd = -1;
	/* another agent may have put its own there */
	if (l->unix_path && !keep_path && lstat(l->unix_path, &st) == 0 &&
	    st.st_dev == l->unix_dev && st.st_ino == l->unix_ino)
		(void)unlink(l->unix_path); /* a stale one is replaced at the next start */
}

/* --- TCP ---- */

static socklen_t tcp_address(const struct weir_conf_listener *c, struct sockaddr_storage *ret)
{
	struct sockaddr_in *a4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (c->family == 6) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = htons(c->port);
		memcpy(&a6->sin6_addr, c->addr.ip, 16);
		return sizeof(*a6);
	}
	a4->sin_family = AF_INET;
	a4->sin_port = htons(c->port);
	memcpy(&a4->sin_addr, c->addr.ip, 4);
	return sizeof(*a4);
}

static void tcp_name(int fd, char *ret, size_t size)
{
	struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
	socklen_t n = sizeof(a);
	char text[INET6_ADDRSTRLEN] = "?";

	if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return;
	if (a.ss_family == AF_INET6) {
		const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)&a;

		(void)inet_ntop(AF_INET6, &a6->sin6_addr, text, sizeof(text));
		(void)snprintf(ret, size, "[%s]:%u", text, ntohs(a6->sin6_port));
	} else {
		const struct sockaddr_in *a4 = (const struct sockaddr_in *)&a;

		(void)inet_ntop(AF_INET, &a4->sin_addr, text, sizeof(text));
		(void)snprintf(ret, size, "%s:%u", text, ntohs(a4->sin_port));
	}
}

static int tcp_error(const struct weir_conf_listener *c, int r, struct weir_error *e)
{
	if (r == -EADDRINUSE)
		return weir_error_set(
			e, r,
			"http.listeners: %s is in use by another program (ss -ltnp shows which); "
			"stop that one, or give this listener another port",
			c->listen);
	if (r == -EADDRNOTAVAIL)
		return weir_error_set(e, r,
				      "http.listeners: %s: this host has no such address (ip addr "
				      "shows those it has; 0.0.0.0 and [::] mean all)",
				      c->listen);
	if (r == -EACCES)
		return weir_error_set(e, r,
				      "http.listeners: %s: ports below 1024 need root or "
				      "CAP_NET_BIND_SERVICE; use another port",
				      c->listen);
	return weir_error_set(e, r, "http.listeners: cannot listen on %s: %s", c->listen,
			      strerror(-r));
}

static int open_tcp(const struct weir_conf_listener *c, struct weir_http_listen *l,
		    struct weir_error *e)
{
	struct sockaddr_storage a;
	socklen_t n = tcp_address(c, &a);
	int one = 1;

	l->fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return tcp_error(c, -errno, e);
	/* a port in TIME_WAIT is free; each family is listed by itself */
	(void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (c->family == 6)
		(void)setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(l->fd, (struct sockaddr *)&a, n) < 0 || listen(l->fd, WEIR_HTTP_BACKLOG) < 0)
		return tcp_error(c, -errno, e);
	tcp_name(l->fd, l->name, sizeof(l->name));
	return 0;
}

/* --- Unix sockets ---- */

static int unix_error(const struct weir_conf_listener *c, int r, struct weir_error *e)
{
	return weir_error_set(e, r, "http.listeners: %s: %s", c->listen, strerror(-r));
}

static int make_parent(const struct weir_conf_listener *c, const struct sockaddr_un *a,
		       struct weir_error *e)
{
	char dir[sizeof(a->sun_path)];
	int r = weir_unix_make_parent(a, dir);

	return r < 0 ? weir_error_set(e, r, "http.listeners: %s: cannot make %s: %s", c->listen,
				      dir, strerror(-r))
		     : 0;
}

static int clear_stale(const struct weir_conf_listener *c, const struct sockaddr_un *a,
		       struct weir_error *e)
{
	bool unlinking;
	int r = weir_unix_clear_stale(a, &unlinking);

	if (r == -EEXIST)
		return weir_error_set(e, r,
				      "http.listeners: %s exists and is no socket; remove it, or "
				      "listen on another path",
				      a->sun_path);
	if (r == -EADDRINUSE)
		return weir_error_set(e, r,
				      "http.listeners: another program answers on %s; stop that "
				      "one first, or listen on another path",
				      a->sun_path);
	if (r < 0 && unlinking)
		return weir_error_set(e, r, "http.listeners: cannot remove the stale socket %s: %s",
				      a->sun_path, strerror(-r));
	return r < 0 ? unix_error(c, r, e) : 0;
}

int weir_http_listen_settle(struct weir_http_listen *l, const struct weir_conf_listener *c,
			    struct weir_error *e)
{
	gid_t gid;

	if (!l->unix_path)
		return 0;
	if (c->group && !weir_group_find(c->group, &gid))
		return weir_error_set(e, -ENOENT,
				      "http.listeners: %s: there is no group %s in /etc/group "
				      "(addgroup --system %s makes it, or name the proxy's own)",
				      c->listen, c->group, c->group);
	if (lchown(l->unix_path, (uid_t)-1, c->group ? gid : getegid()) < 0 &&
	    (c->group || errno != EPERM))
		return weir_error_set(e, -errno, "http.listeners: cannot give %s to group %s: %s",
				      l->unix_path, c->group ? c->group : "of the agent",
				      strerror(errno));
	if (chmod(l->unix_path, c->unix_mode & 0777) < 0)
		return unix_error(c, -errno, e);
	return 0;
}

static int open_unix(const struct weir_conf_listener *c, struct weir_http_listen *l,
		     struct weir_error *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	mode_t mask;
	int r;

	if (strlen(c->unix_path) >= sizeof(a.sun_path))
		return weir_error_set(e, -ENAMETOOLONG,
				      "http.listeners: the path of %s is longer than %zu bytes",
				      c->listen, sizeof(a.sun_path) - 1);
	memcpy(a.sun_path, c->unix_path, strlen(c->unix_path) + 1);
	l->unix_path = strdup(c->unix_path);
	if (!l->unix_path)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = make_parent(c, &a, e);
	if (r == 0)
		r = clear_stale(c, &a, e);
	if (r < 0)
		return r;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return unix_error(c, -errno, e);
	mask = umask(0177); /* nobody may connect before mode and group are right */
	r = bind(l->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	(void)umask(mask); /* cannot fail */
	if (r < 0)
		return unix_error(c, r, e);
	if (lstat(a.sun_path, &st) == 0) {
		l->unix_dev = st.st_dev;
		l->unix_ino = st.st_ino;
	}
	r = weir_http_listen_settle(l, c, e);
	if (r == 0 && listen(l->fd, WEIR_HTTP_BACKLOG) < 0)
		r = unix_error(c, -errno, e);
	if (r < 0) {
		weir_http_listen_close(l, false);
		return r;
	}
	(void)snprintf(l->name, sizeof(l->name), "unix:%s", c->unix_path);
	return 0;
}

static struct weir_http_listen *new_listen(const struct weir_conf_listener *c)
{
	struct weir_http_listen *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fd = -1;
	l->spoe = c->profile == WEIR_PROFILE_SPOE;
	l->pages = c->profile == WEIR_PROFILE_METRICS;
	atomic_init(&l->refs, 1);
	l->listen = strdup(c->listen);
	if (!l->listen) {
		free(l);
		return NULL;
	}
	pthread_mutex_init(&l->crowd_lock, NULL);
	return l;
}

int weir_http_listen_open(const struct weir_conf_listener *c, struct weir_http_listen **ret,
			  struct weir_error *e)
{
	_cleanup_(weir_http_listen_unrefp) struct weir_http_listen *l = new_listen(c);
	int r;

	if (!l)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = c->unix_path ? open_unix(c, l, e) : open_tcp(c, l, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(l);
	return 0;
}

int weir_http_listen_take(struct weir_http_listen *old, const struct weir_conf_listener *c,
			  struct weir_http_listen **ret, struct weir_error *e)
{
	_cleanup_(weir_http_listen_unrefp) struct weir_http_listen *l = new_listen(c);
	int r;

	if (!l)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (old->unix_path) {
		l->unix_path = strdup(old->unix_path);
		if (!l->unix_path)
			return weir_error_set(e, -ENOMEM, "out of memory");
	}
	l->unix_dev = old->unix_dev;
	l->unix_ino = old->unix_ino;
	memcpy(l->name, old->name, sizeof(l->name));
	l->fd = fcntl(old->fd, F_DUPFD_CLOEXEC, 0);
	if (l->fd < 0)
		return weir_error_set(e, -errno, "http.listeners: %s: %s", c->listen,
				      strerror(errno));
	r = weir_http_listen_settle(l, c, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(l);
	return 0;
}
