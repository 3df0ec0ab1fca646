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
#include <sys/ioctl.h>
#include <sys/socket.h>
#ifdef WEIR_HIREDIS_SSL
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#include "user/redis/redis_int.h"

#define REPLY_MAX                                                                                  \
	(32u << 20) /* a reply that is longer is none of ours; hiredis would gather 512 MB of it */

/* What hiredis asks the loop for. */
struct wire {
	struct redisAsyncContext *ac;
	struct event *readable, *writable;
	bool reads, writes, corked;
};

/* --- TLS --------------------------------------------------------------------------------------------------------- */

#ifdef WEIR_HIREDIS_SSL
struct weir_hi_tls {
	SSL_CTX *context;
};

int weir_redis_tls_check(struct weir_error *e)
{
	(void)e;
	return 0;
}

/* The newest words of OpenSSL. */
static const char *tls_words(char *buf, size_t size)
{
	unsigned long code = ERR_peek_last_error();

	ERR_error_string_n(code, buf, size);
	ERR_clear_error();
	return code ? buf : "no reason is given";
}

static int load_files(SSL_CTX *c, const struct weir_redis_options *o, struct weir_error *e)
{
	char words[160];

	if (!o->tls_ca && SSL_CTX_set_default_verify_paths(c) != 1)
		return weir_error_set(e, -EIO, "tls: the system's certificates cannot be read: %s",
				      tls_words(words, sizeof(words)));
	if (o->tls_ca && SSL_CTX_load_verify_locations(c, o->tls_ca, NULL) != 1)
		return weir_error_set(e, -EINVAL, "tls.ca: %s: %s", o->tls_ca,
				      tls_words(words, sizeof(words)));
	if (!o->tls_cert != !o->tls_key)
		return weir_error_set(e, -EINVAL, "tls.cert and tls.key go together");
	if (!o->tls_cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(c, o->tls_cert) != 1)
		return weir_error_set(e, -EINVAL, "tls.cert: %s: %s", o->tls_cert,
				      tls_words(words, sizeof(words)));
	if (SSL_CTX_use_PrivateKey_file(c, o->tls_key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(c) != 1)
		return weir_error_set(e, -EINVAL, "tls.key: %s: %s", o->tls_key,
				      tls_words(words, sizeof(words)));
	return 0;
}

int weir_hi_tls_new(const struct weir_redis_options *o, struct weir_hi_tls **ret,
		    struct weir_error *e)
{
	struct weir_hi_tls *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	redisInitOpenSSL();
	t->context = SSL_CTX_new(TLS_client_method());
	r = t->context && SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) == 1 ? 0
											 : -ENOMEM;
	if (r >= 0)
		r = load_files(t->context, o, e);
	if (r < 0) {
		weir_hi_tls_free(t);
		return r;
	}
	SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
	*ret = t;
	return 0;
}

void weir_hi_tls_free(struct weir_hi_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->context);
	free(t);
}

/* Writes down why a certificate is not accepted, which hiredis does not tell. */
static int verified(int good, X509_STORE_CTX *ctx)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	char *cause = SSL_get_app_data(ssl);

	if (!good)
		(void)snprintf(cause, WEIR_HI_TLS_CAUSE_BYTES, "its certificate: %s",
			       X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	return good;
}

/* The certificate must be the server's: its name, or its address where the configuration gives one. hiredis itself
 * would take any that the CA signed.
 */
static int start_tls(struct redisAsyncContext *ac, struct weir_hi_tls *t,
		     const struct weir_hi_target *to, const char **ret_why)
{
	SSL *ssl = SSL_new(t->context);
	X509_VERIFY_PARAM *p;

	*ret_why = "no memory for TLS";
	if (!ssl)
		return -ENOMEM;
	p = SSL_get0_param(ssl);
	if (X509_VERIFY_PARAM_set1_ip_asc(p, to->name) != 1 &&
	    (X509_VERIFY_PARAM_set1_host(p, to->name, 0) != 1 ||
	     SSL_set_tlsext_host_name(ssl, to->name) != 1)) {
		SSL_free(ssl);
		return -ENOMEM;
	}
	to->tls_cause[0] = '\0';
	SSL_set_app_data(ssl, to->tls_cause);
	SSL_set_verify(ssl, SSL_VERIFY_PEER, verified);
	ERR_clear_error();
	if (redisInitiateSSL(&ac->c, ssl) == REDIS_OK)
		return 0; /* the context has @ssl now */
	*ret_why = ac->c.errstr;
	SSL_free(ssl);
	return -EIO;
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

static int start_tls(struct redisAsyncContext *ac, struct weir_hi_tls *t,
		     const struct weir_hi_target *to, const char **ret_why)
{
	(void)ac;
	(void)t;
	(void)to;
	*ret_why = "built without TLS";
	return -EOPNOTSUPP;
}
#endif

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static void readable(evutil_socket_t fd, short what, void *arg)
{
	struct wire *w = arg;

	(void)what;
	if (w->ac->c.reader->len > REPLY_MAX)
		(void)shutdown(fd, SHUT_RDWR); /* what is read next is its end */
	redisAsyncHandleRead(w->ac);	       /* w may be gone after it */
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
		r = start_tls(ac, tls, t, &why);
	if (r < 0) {
		(void)snprintf(cause, WEIR_REDIS_CAUSE_BYTES, "%s", why); /* may be of @ac */
		redisAsyncFree(ac);
		return r;
	}
	ac->data = data;
	(void)redisAsyncSetDisconnectCallback(ac, down); /* fails only if there is one */
	(void)redisAsyncSetConnectCallback(ac, up);	 /* asks for writability */
	*ret = ac;
	return 0;
}

bool weir_hi_look(struct redisAsyncContext *ac)
{
	const struct wire *w = ac->ev.data;
	int n = 0;

	if (!w->reads || ioctl(ac->c.fd, FIONREAD, &n) < 0 || n <= 0)
		return false;
	readable(ac->c.fd, EV_READ, ac->ev.data);
	return true;
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
