/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hiredis on the agent's loop; everything that differs between its versions is here (0.14: Debian 12, 1.x: later; TLS
 * since 1.0). Its command timeouts are not used: they drop the whole connection. Called by conn.c and batch.c.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#ifdef WEIR_HIREDIS_SSL
#include <hiredis/hiredis_ssl.h>
#endif

#include "user/redis/redis_int.h"

/* What hiredis asks the loop for. */
struct wire {
	struct redisAsyncContext *ac;
	struct event *readable, *writable;
	bool reads, writes, corked;
};

/* --- TLS --------------------------------------------------------------------------------------------------------- */

#ifdef WEIR_HIREDIS_SSL
struct weir_hi_tls {
	char *ca, *cert, *key;
};

static redisSSLContext *tls_context(const struct weir_hi_tls *t, const char *name,
				    const char **ret_why)
{
	redisSSLContextError why = REDIS_SSL_CTX_NONE;
	redisSSLContext *c;

	c = redisCreateSSLContext(t->ca, t->ca ? NULL : "/etc/ssl/certs", t->cert, t->key, name,
				  &why);
	*ret_why = c ? NULL : redisSSLContextGetError(why);
	return c;
}

int weir_redis_tls_check(struct weir_error *e)
{
	(void)e;
	return 0;
}

static int copy_path(const char *from, char **ret)
{
	*ret = from ? strdup(from) : NULL;
	return from && !*ret ? -ENOMEM : 0;
}

int weir_hi_tls_new(const struct weir_redis_options *o, struct weir_hi_tls **ret,
		    struct weir_error *e)
{
	struct weir_hi_tls *t = calloc(1, sizeof(*t));
	redisSSLContext *c;
	const char *why;

	if (!t || copy_path(o->tls_ca, &t->ca) < 0 || copy_path(o->tls_cert, &t->cert) < 0 ||
	    copy_path(o->tls_key, &t->key) < 0) {
		weir_hi_tls_free(t);
		return -ENOMEM;
	}
	redisInitOpenSSL();
	c = tls_context(t, NULL, &why);
	if (!c) {
		weir_hi_tls_free(t);
		return weir_error_set(e, -EINVAL, "tls: %s (ca %s, cert %s, key %s)", why,
				      o->tls_ca ? o->tls_ca : "/etc/ssl/certs",
				      o->tls_cert ? o->tls_cert : "none",
				      o->tls_key ? o->tls_key : "none");
	}
	redisFreeSSLContext(c);
	*ret = t;
	return 0;
}

void weir_hi_tls_free(struct weir_hi_tls *t)
{
	if (!t)
		return;
	free(t->ca);
	free(t->cert);
	free(t->key);
	free(t);
}

static int start_tls(struct redisAsyncContext *ac, struct weir_hi_tls *t, const char *name,
		     const char **ret_why)
{
	redisSSLContext *c = tls_context(t, name, ret_why);
	int r;

	if (!c)
		return -EIO;
	r = redisInitiateSSLWithContext(&ac->c, c) == REDIS_OK ? 0 : -EIO;
	if (r < 0)
		*ret_why = ac->c.errstr;
	redisFreeSSLContext(c);
	return r;
}
#else
int weir_redis_tls_check(struct weir_error *e)
{
	return weir_error_set(e, -EOPNOTSUPP,
			      "TLS needs hiredis 1.0 or later; this weir was built with %d.%d.%d "
			      "(Debian 13 and Ubuntu 24.04 have 1.2)",
			      HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

int weir_hi_tls_new(const struct weir_redis_options *o, struct weir_hi_tls **ret,
		    struct weir_error *e)
{
	(void)o;
	(void)ret;
	return weir_redis_tls_check(e);
}

void weir_hi_tls_free(struct weir_hi_tls *t)
{
	(void)t;
}

static int start_tls(struct redisAsyncContext *ac, struct weir_hi_tls *t, const char *name,
		     const char **ret_why)
{
	(void)ac;
	(void)t;
	(void)name;
	*ret_why = "built without TLS";
	return -EOPNOTSUPP;
}
#endif

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static void readable(evutil_socket_t fd, short what, void *arg)
{
	struct wire *w = arg;

	(void)fd;
	(void)what;
	redisAsyncHandleRead(w->ac); /* w may be gone after it */
}

static void writable(evutil_socket_t fd, short what, void *arg)
{
	struct wire *w = arg;

	(void)fd;
	(void)what;
	redisAsyncHandleWrite(w->ac);
}

static void add_read(void *arg)
{
	struct wire *w = arg;

	if (!w->reads)
		w->reads = event_add(w->readable, NULL) == 0;
}

static void del_read(void *arg)
{
	struct wire *w = arg;

	(void)event_del(w->readable);
	w->reads = false;
}

static void add_write(void *arg)
{
	struct wire *w = arg;

	if (!w->writes && !w->corked)
		w->writes = event_add(w->writable, NULL) == 0;
}

static void del_write(void *arg)
{
	struct wire *w = arg;

	if (w->writes)
		(void)event_del(w->writable);
	w->writes = false;
}

static void wire_free(void *arg)
{
	struct wire *w = arg;

	if (w->readable)
		event_free(w->readable);
	if (w->writable)
		event_free(w->writable);
	free(w);
}

static int attach(struct redisAsyncContext *ac, struct event_base *base)
{
	struct wire *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->ac = ac;
	w->readable = event_new(base, ac->c.fd, EV_READ | EV_PERSIST, readable, w);
	w->writable = event_new(base, ac->c.fd, EV_WRITE | EV_PERSIST, writable, w);
	if (!w->readable || !w->writable) {
		wire_free(w);
		return -ENOMEM;
	}
	ac->ev.data = w;
	ac->ev.addRead = add_read;
	ac->ev.delRead = del_read;
	ac->ev.addWrite = add_write;
	ac->ev.delWrite = del_write;
	ac->ev.cleanup = wire_free;
	return 0;
}

static void set_options(int fd, bool tcp)
{
	int on = 1, idle_s = 15, every_s = 5, times = 3;

	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (!tcp)
		return;
	/* An idle connection that a firewall forgot is noticed before a check meets it. */
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int weir_hi_connect(struct event_base *base, const struct weir_hi_target *t,
		    struct weir_hi_tls *tls, void *data, weir_hi_status_fn *up,
		    weir_hi_status_fn *down, char cause[static WEIR_REDIS_CAUSE_BYTES],
		    struct redisAsyncContext **ret)
{
	struct redisAsyncContext *ac =
		t->path ? redisAsyncConnectUnix(t->path) : redisAsyncConnect(t->address, t->port);
	const char *why = "no memory";
	int r;

	if (!ac)
		return -ENOMEM;
	if (ac->err) {
		(void)snprintf(cause, WEIR_REDIS_CAUSE_BYTES, "%s", ac->errstr);
		redisAsyncFree(ac);
		return -EIO;
	}
	set_options(ac->c.fd, !t->path);
	r = attach(ac, base);
	if (r >= 0 && tls)
		r = start_tls(ac, tls, t->name, &why);
	if (r < 0) {
		(void)snprintf(cause, WEIR_REDIS_CAUSE_BYTES, "%s", why);
		redisAsyncFree(ac);
		return r;
	}
	ac->data = data;
	(void)redisAsyncSetDisconnectCallback(ac, down); /* fails only if there is one */
	(void)redisAsyncSetConnectCallback(ac, up);	 /* asks for writability */
	*ret = ac;
	return 0;
}

void weir_hi_cork(struct redisAsyncContext *ac)
{
	((struct wire *)ac->ev.data)->corked = true;
}

void weir_hi_flush(struct redisAsyncContext *ac)
{
	((struct wire *)ac->ev.data)->corked = false;
	redisAsyncHandleWrite(ac);
}
