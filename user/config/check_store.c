/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the values of `store:` mean together and with the rest of a file; its password. Called once a whole file is read,
 * and by the agent when it connects.
 */
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"
#include "user/redis/redis.h"

#define PASSWORD_MAX_BYTES 512
#define PASSWORD_VARIABLE  "WEIR_STORE_PASSWORD"
#define SENTINEL_VARIABLE  "WEIR_STORE_SENTINEL_PASSWORD"

const char *const weir_words_limits_from[] = {"file", "store", NULL};

/* --- reading ---- */

/* A variable that is set to nothing says nothing. */
static const char *variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

static const yaml_node_t *at(const struct weir_reader *r, const char *section, const char *key)
{
	return weir_reader_top_at(r, section, key);
}

/* Settings of a shared store beside `url: embedded`. */
static void warn_idle(const struct weir_reader *r)
{
	static const char *const keys[] = {"user",    "password_file",	 "sentinel",
					   "tls",     "key_secret_file", "timeout",
					   "breaker", "batch",		 "local_share",
					   "fleet"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (!weir_reader_top_has(r, "store", keys[i]))
			continue;
		weir_reader_warn(r, at(r, "store", keys[i]),
				 "%s: means nothing to the embedded store (url: redis://…)",
				 keys[i]);
		return;
	}
}

static void check_tls(const struct weir_reader *r, const struct weir_conf_store *s,
		      const struct weir_redis_url *u)
{
	if (weir_reader_top_has(r, "store", "tls") && !u->tls)
		weir_reader_error(r, at(r, "store", "tls"),
				  "tls: what url says goes in clear text (rediss:// is with TLS)");
	else if (!s->tls_cert != !s->tls_key)
		weir_reader_error(r, at(r, "store", "tls"),
				  "tls: cert and key belong together (give both or neither)");
}

static void check_password(const struct weir_reader *r, const struct weir_conf_store *s,
			   const struct weir_redis_url *u)
{
	bool user = s->user || u->user;

	if (u->password)
		weir_reader_warn(r, at(r, "store", "url"),
				 "url: there is a password in it, for everybody who may read this "
				 "file%s (password_file)",
				 s->password_file ? ", and password_file has another" : "");
	else if (user && !s->password_file && !variable(PASSWORD_VARIABLE))
		weir_reader_warn(r, at(r, "store", s->user ? "user" : "url"),
				 "user: no password is here (password_file, or " PASSWORD_VARIABLE
				 " in the agent's environment)");
}

static void check_sentinel(const struct weir_reader *r, const struct weir_conf_store *s,
			   const struct weir_redis_url *u)
{
	const yaml_node_t *where = at(r, "store", "sentinel");

	if (!weir_reader_top_has(r, "store", "sentinel"))
		return;
	if (u->kind != WEIR_REDIS_SENTINEL)
		weir_reader_error(
			r, where,
			"sentinel: url names no Sentinels (redis+sentinel://host,…/MASTER)");
	else if (s->sentinel_user && !s->sentinel_password_file && !variable(SENTINEL_VARIABLE))
		weir_reader_warn(r, where,
				 "sentinel: no password for user is here (password_file, "
				 "or " SENTINEL_VARIABLE " in the agent's environment)");
}

void weir_store_finish(struct weir_reader *r, struct weir_conf *c)
{
	struct weir_conf_store *s = &c->store;
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	struct weir_redis_url u;
	bool budget = weir_reader_top_has(r, "http", "budget");

	if (!s->shared) {
		if (!weir_reader_top_wrong(r, "store", "url"))
			warn_idle(r);
		return;
	}
	if (weir_redis_url_parse(s->url, &u, NULL) < 0)
		return; /* it was right a moment ago: no memory */
	check_tls(r, s, &u);
	check_password(r, s, &u);
	check_sentinel(r, s, &u);
	weir_redis_url_done(&u);
	if (s->timeout_ns > c->request.budget_ns && !weir_reader_top_wrong(r, "store", "timeout") &&
	    !weir_reader_top_wrong(r, "http", "budget"))
		weir_reader_error(r, budget ? at(r, "http", "budget") : at(r, "store", "timeout"),
				  "%s: a check has %s in all and the store may take %s of it "
				  "(http.budget at least store.timeout)",
				  budget ? "budget" : "timeout",
				  weir_str_format_duration(c->request.budget_ns, a),
				  weir_str_format_duration(s->timeout_ns, b));
}

/* --- one limit ---- */

static void refuse_unfit(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			 const char *key, const char *what, const char *plan)
{
	weir_reader_error(r, weir_reader_at(r, "request_limits", key),
			  "%s: the shared store counts in numbers below 2^52, and %s%s needs more "
			  "(%s, or scope: host)",
			  key, what, plan,
			  weir_request_has_window(l->algorithm)
				  ? "a smaller limit, a shorter window"
				  : "a rounder rate such as 10/s, a smaller burst");
}

void weir_limit_check_shared(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			     const struct weir_store_limit *s, const char *plan)
{
	struct weir_conf_request_limit fresh = {.rate = {l->new_per_ip},
						.burst = {l->new_per_ip.count}};
	struct weir_store_limit bucket;

	if (!r->conf->store.shared || l->scope != WEIR_SCOPE_FLEET)
		return;
	if (!weir_redis_limit_fits(s))
		refuse_unfit(r, l, weir_request_has_window(l->algorithm) ? "limit" : "rate",
			     "this limit", plan);
	else if (l->new_per_ip.count && weir_conf_store_limit(&fresh, 0, 0, &bucket) == 0 &&
		 !weir_redis_limit_fits(&bucket))
		refuse_unfit(r, l, "key", "new_per_ip", plan);
}

/* Why no lease can be taken of it; NULL: one can. */
static const char *no_lease(const struct weir_conf_request_limit *l)
{
	if (l->algorithm == WEIR_REQUEST_SLIDING_LOG)
		return "a sliding-window-log keeps the time of each request, and a lease has one "
		       "(sliding-window-counter, or no lease)";
	if (l->algorithm == WEIR_REQUEST_LEAKY_BUCKET)
		return "a place in a queue cannot be taken before there is somebody for it "
		       "(token-bucket, or no lease)";
	if (l->new_per_ip.count)
		return "where new keys are counted the store must see each request (no new_per_ip, "
		       "or no lease)";
	return NULL;
}

void weir_limit_check_lease(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			    size_t plan, const char *plan_words)
{
	const yaml_node_t *where = weir_reader_at(r, "request_limits", "lease");
	const char *why = no_lease(l),
		   *room_key = weir_request_has_window(l->algorithm) ? "limit" : "burst";
	__u64 room = weir_request_has_window(l->algorithm) ? l->limit[plan] : l->burst[plan];

	if (!l->lease[plan])
		return;
	if (why)
		weir_reader_error(r, where, "lease: %s", why);
	else if (l->lease[plan] == 1)
		weir_reader_error(r, where,
				  "lease: 1%s saves nothing (2 or more, or leave lease out)",
				  plan_words);
	else if (l->lease[plan] > room / 10)
		weir_reader_error(r, where,
				  "lease: %llu is more than a tenth of %s %llu%s: a few agents "
				  "would hold all of it (at most %llu)",
				  l->lease[plan], room_key, room, plan_words, room / 10);
	else if (!plan && (!r->conf->store.shared || l->scope == WEIR_SCOPE_HOST))
		weir_reader_warn(r, where, "lease: saves nothing: this limit counts in the agent%s",
				 r->conf->store.shared ? " (scope: host)"
						       : " (store: {url: redis://…})");
}

/* --- for the agent ---- */

static int read_password(const char *key, const char *path, char **ret, struct weir_error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[PASSWORD_MAX_BYTES + 2];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	int r;

	if (n < 0)
		return weir_error_set(e, -errno, "%s %s: %s", key, path, strerror(errno));
	while (n && (buf[n - 1] == '\n' || buf[n - 1] == '\r'))
		n--;
	buf[n] = '\0';
	r = n && n <= PASSWORD_MAX_BYTES && strcspn(buf, "\r\n") == (size_t)n ? 0 : -EINVAL;
	if (r == 0) {
		*ret = strdup(buf);
		r = *ret ? 0 : -ENOMEM;
	}
	explicit_bzero(buf, sizeof(buf));
	return r == -EINVAL ? weir_error_set(
				      e, r,
				      "%s %s must hold the password alone, in one line of 1 to %d "
				      "bytes",
				      key, path, PASSWORD_MAX_BYTES)
	       : r < 0 ? weir_error_set(e, r, "out of memory")
		       : 0;
}

/* That of the file, else of the environment; NULL: there is none. */
static int find_password(const char *key, const char *path, const char *name, char **ret,
			 struct weir_error *e)
{
	const char *text = variable(name);

	*ret = NULL;
	if (path)
		return read_password(key, path, ret, e);
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : weir_error_set(e, -ENOMEM, "out of memory");
}

int weir_conf_store_password(const struct weir_conf_store *s, char **ret, struct weir_error *e)
{
	return find_password("store.password_file", s->password_file, PASSWORD_VARIABLE, ret, e);
}

int weir_conf_sentinel_password(const struct weir_conf_store *s, char **ret, struct weir_error *e)
{
	return find_password("store.sentinel.password_file", s->sentinel_password_file,
			     SENTINEL_VARIABLE, ret, e);
}

const char *weir_conf_store_shown(const struct weir_conf_store *s, char *buf, size_t n)
{
	struct weir_redis_url u;

	if (!s->shared || weir_redis_url_parse(s->url, &u, NULL) < 0)
		return s->shared ? "redis" : "embedded";
	(void)weir_redis_url_shown(&u, buf, n);
	weir_redis_url_done(&u);
	return buf;
}

void weir_conf_store_digest(const struct weir_conf_store *s,
			    __u8 ret[static WEIR_CONF_STORE_DIGEST])
{
	const char *const texts[] = {s->url,
				     s->user,
				     s->password_file,
				     s->sentinel_user,
				     s->sentinel_password_file,
				     s->tls_ca,
				     s->tls_cert,
				     s->tls_key,
				     s->prefix,
				     s->key_secret_file};
	const __u64 numbers[] = {s->timeout_ns, s->breaker_errors, s->breaker_within_ns,
				 s->breaker_probe_ns, s->batch};
	crypto_generichash_state h;

	/* none of these fails for lengths that are right */
	(void)crypto_generichash_init(&h, NULL, 0, WEIR_CONF_STORE_DIGEST);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) /* with its NUL; none is not "" */
		(void)crypto_generichash_update(&h, (const __u8 *)(texts[i] ? texts[i] : "\1"),
						texts[i] ? strlen(texts[i]) + 1 : 2);
	(void)crypto_generichash_update(&h, (const __u8 *)numbers, sizeof(numbers));
	(void)crypto_generichash_final(&h, ret, WEIR_CONF_STORE_DIGEST);
}

void weir_conf_store_done(struct weir_conf_store *s)
{
	if (s->url)
		explicit_bzero(s->url, strlen(s->url));
	free(s->url);
	free(s->user);
	free(s->password_file);
	free(s->sentinel_user);
	free(s->sentinel_password_file);
	free(s->tls_ca);
	free(s->tls_cert);
	free(s->tls_key);
	free(s->prefix);
	free(s->key_secret_file);
}
