/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store as the configuration says it: one connection's worth of options, from which each worker of the request
 * layer has a store made, and what else talks to the same server. Called by request.c. No server needs to be there.
 */
#include "user/agent/shared.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#define WAITING_MAX 20000 /* decisions of one worker; then they are answered without the store */

struct weir_shared {
	struct weir_redis_url url;
	struct weir_redis_options o;
	char *user, *password, *sentinel_user, *sentinel_password, *ca, *cert, *key, *prefix;
	bool has_secret;
	unsigned char secret[WEIR_KEY_SECRET];
	unsigned made;
	struct weir_error error;
};

void weir_shared_free(struct weir_shared *s)
{
	if (!s)
		return;
	weir_redis_url_done(&s->url);
	if (s->password)
		sodium_memzero(s->password, strlen(s->password));
	if (s->sentinel_password)
		sodium_memzero(s->sentinel_password, strlen(s->sentinel_password));
	sodium_memzero(s->secret, sizeof(s->secret));
	free(s->user);
	free(s->password);
	free(s->sentinel_user);
	free(s->sentinel_password);
	free(s->ca);
	free(s->cert);
	free(s->key);
	free(s->prefix);
	free(s);
}

static int copy(const char *from, char **ret)
{
	*ret = from ? strdup(from) : NULL;
	return from && !*ret ? -ENOMEM : 0;
}

static int read_secret(const char *path, unsigned char ret[static WEIR_KEY_SECRET],
		       struct weir_error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[2 * WEIR_KEY_SECRET + 3];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	size_t bytes = 0;
	int r;

	if (n < 0)
		return weir_error_set(e, -errno, "store.key_secret_file %s: %s", path,
				      strerror(errno));
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	r = n == 2 * WEIR_KEY_SECRET
		    ? sodium_hex2bin(ret, WEIR_KEY_SECRET, text, (size_t)n, NULL, &bytes, NULL)
		    : -1;
	sodium_memzero(text, sizeof(text));
	if (r != 0 || bytes != WEIR_KEY_SECRET)
		return weir_error_set(e, -EINVAL,
				      "store.key_secret_file %s must hold %d hexadecimal digits "
				      "(openssl rand -hex %d makes them; the same on every host)",
				      path, 2 * WEIR_KEY_SECRET, WEIR_KEY_SECRET);
	return 0;
}

static int fill(struct weir_shared *s, const struct weir_conf_store *c, struct weir_error *e)
{
	int r = weir_redis_url_parse(c->url, &s->url, e);

	if (r >= 0)
		r = weir_conf_store_password(c, &s->password, e);
	if (r >= 0)
		r = weir_conf_sentinel_password(c, &s->sentinel_password, e);
	if (r >= 0 && c->key_secret_file)
		r = read_secret(c->key_secret_file, s->secret, e);
	if (r < 0)
		return r;
	s->has_secret = c->key_secret_file;
	if (copy(c->user, &s->user) < 0 || copy(c->sentinel_user, &s->sentinel_user) < 0 ||
	    copy(c->tls_ca, &s->ca) < 0 || copy(c->tls_cert, &s->cert) < 0 ||
	    copy(c->tls_key, &s->key) < 0 || copy(c->prefix, &s->prefix) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	s->o = (struct weir_redis_options){
		.url = &s->url,
		.user = s->user,
		.password = s->password,
		.sentinel_user = s->sentinel_user,
		.sentinel_password = s->sentinel_password,
		.tls_ca = s->ca,
		.tls_cert = s->cert,
		.tls_key = s->key,
		.prefix = s->prefix,
		.timeout_ns = c->timeout_ns,
		.breaker_errors = (unsigned)c->breaker_errors,
		.breaker_within_ns = c->breaker_within_ns,
		.probe_ns = c->breaker_probe_ns,
		.batch_max = (unsigned)c->batch,
		.waiting_max = WAITING_MAX,
	};
	return 0;
}

int weir_shared_new(const struct weir_conf *conf, struct weir_shared **ret, struct weir_error *e)
{
	_cleanup_(weir_shared_freep) struct weir_shared *s = NULL;
	int r;

	if (!conf->store.shared) {
		*ret = NULL;
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return weir_error_set(e, -ENOMEM, "out of memory");
	r = fill(s, &conf->store, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

/* The first is the agent's own, which is asked now and then; of the others one tells what changes. */
static int store_of(void *arg, struct event_base *base, struct weir_store **ret)
{
	struct weir_shared *s = arg;
	struct weir_redis_options o = s->o;

	o.quiet = s->made++ != 1;
	o.sizes = !o.quiet;
	return weir_store_redis_new(base, &o, ret, &s->error);
}

void weir_shared_options(struct weir_shared *s, struct weir_l7_options *ret)
{
	if (!s)
		return;
	s->made = 0;
	ret->store_of = store_of;
	ret->store_arg = s;
	ret->secret = s->has_secret ? s->secret : NULL;
}

const struct weir_redis_options *weir_shared_redis(const struct weir_shared *s)
{
	return &s->o;
}

const unsigned char *weir_shared_secret(const struct weir_shared *s)
{
	return s->has_secret ? s->secret : NULL;
}

const char *weir_shared_why(const struct weir_shared *s)
{
	return s ? s->error.text : "";
}
