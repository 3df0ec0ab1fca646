/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The address of a Redis as the configuration writes it; see redis.h. Called by the configuration and by store.c. No
 * sentence that is made here holds a user or a password.
 */
#include "user/redis/redis.h"

#include <string.h>

#include "user/base/str.h"

#define TEXT_MAX 2048
#define PORT	 6379
#define SENTINEL 26379

static const struct {
	const char *name;
	enum weir_redis_kind kind;
	bool tls, path;
} schemes[] = {
	{"redis", WEIR_REDIS_ONE, false, false},
	{"rediss", WEIR_REDIS_ONE, true, false},
	{"redis+unix", WEIR_REDIS_ONE, false, true},
	{"redis+sentinel", WEIR_REDIS_SENTINEL, false, false},
	{"rediss+sentinel", WEIR_REDIS_SENTINEL, true, false},
	{"redis+cluster", WEIR_REDIS_CLUSTER, false, false},
	{"rediss+cluster", WEIR_REDIS_CLUSTER, true, false},
};

void weir_redis_url_done(struct weir_redis_url *u)
{
	for (size_t i = 0; i < WEIR_REDIS_SEEDS_MAX; i++)
		free(u->seed[i].host);
	free(u->unix_path);
	free(u->master);
	free(u->user);
	free(u->password);
	*u = (struct weir_redis_url){};
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* A copy with %-escapes resolved. -EINVAL: a broken escape, or one for a zero byte. */
static int decode(const char *text, size_t n, char **ret)
{
	_cleanup_(freep) char *s = malloc(n + 1);
	size_t to = 0;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		s[to] = text[i];
		if (text[i] == '%') {
			if (n - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
				return -EINVAL;
			s[to] = (char)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
			i += 2;
		}
		if (!s[to++])
			return -EINVAL;
	}
	s[to] = '\0';
	*ret = TAKE_PTR(s);
	return 0;
}

static int read_login(const char *text, size_t n, struct weir_redis_url *u, struct weir_error *e)
{
	const char *colon = memchr(text, ':', n);
	size_t user = colon ? (size_t)(colon - text) : n;
	int r = 0;

	if (user)
		r = decode(text, user, &u->user);
	if (r >= 0 && colon && user + 1 < n)
		r = decode(colon + 1, n - user - 1, &u->password);
	if (r == -EINVAL)
		return weir_error_set(e, r,
				      "user and password have a %% that is no escape (write %%25)");
	return r;
}

/* HOST, HOST:PORT, [ADDRESS]:PORT */
static int read_seed(const char *text, size_t n, struct weir_redis_url *u, struct weir_error *e)
{
	const char *end = text + n, *host = text, *port = NULL, *host_end;
	char number[8];
	__u64 value = u->kind == WEIR_REDIS_SENTINEL ? SENTINEL : PORT;

	if (n && *text == '[') {
		host = text + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end || (host_end + 1 < end && host_end[1] != ':'))
			return weir_error_set(e, -EINVAL,
					      "a server's brackets do not end (for example "
					      "redis://[2001:db8::1]:6379)");
		if (host_end + 1 < end)
			port = host_end + 2;
	} else {
		host_end = memchr(text, ':', n);
		if (host_end && memchr(host_end + 1, ':', (size_t)(end - host_end - 1)))
			return weir_error_set(e, -EINVAL,
					      "a server has more than one colon (an IPv6 address "
					      "needs brackets: redis://[2001:db8::1]:6379)");
		if (host_end)
			port = host_end + 1;
		else
			host_end = end;
	}
	if (host == host_end)
		return weir_error_set(e, -EINVAL, "a server has no name (for example %s)",
				      "redis://10.0.0.5:6379");
	for (const char *c = host; c < host_end; c++)
		if ((unsigned char)*c <= ' ' || *c == 127)
			return weir_error_set(e, -EINVAL, "a server's name has a blank in it");
	if (host_end - host > 253)
		return weir_error_set(e, -EINVAL, "the name of a server is longer than 253 bytes");
	if (port) {
		if (end - port >= (ptrdiff_t)sizeof(number))
			port = end;
		memcpy(number, port, (size_t)(end - port));
		number[end - port] = '\0';
		if (weir_str_u64(number, 65535, &value) < 0 || !value)
			return weir_error_set(e, -EINVAL,
					      "the port of a server is no number from 1 to 65535 "
					      "(and before a host there is an @)");
	}
	if (u->n_seed == WEIR_REDIS_SEEDS_MAX)
		return weir_error_set(e, -EINVAL, "more than %d servers", WEIR_REDIS_SEEDS_MAX);
	u->seed[u->n_seed].host = strndup(host, (size_t)(host_end - host));
	u->seed[u->n_seed].port = (__u16)value;
	return u->seed[u->n_seed++].host ? 0 : -ENOMEM;
}

static int read_db(const char *text, struct weir_redis_url *u, struct weir_error *e)
{
	__u64 db;

	if (weir_str_u64(text, 65535, &db) < 0)
		return weir_error_set(e, -EINVAL,
				      "the database at the end is no number from 0 to 65535 (a / "
				      "in a password is written %%2F)");
	if (u->kind == WEIR_REDIS_CLUSTER && db)
		return weir_error_set(e, -EINVAL, "a cluster has no databases but 0");
	u->db = (unsigned)db;
	return 0;
}

static int read_path(const char *path, struct weir_redis_url *u, struct weir_error *e)
{
	const char *query = strchr(path, '?');
	int r;

	r = decode(path, query ? (size_t)(query - path) : strlen(path), &u->unix_path);
	if (r == -EINVAL)
		return weir_error_set(e, r, "the path has a %% that is no escape");
	if (r < 0)
		return r;
	if (u->unix_path[0] != '/' || !u->unix_path[1] || strlen(u->unix_path) > 107)
		return weir_error_set(e, -EINVAL,
				      "redis+unix:// needs the whole path of a socket, at most 107 "
				      "bytes (for example redis+unix:///run/redis/redis.sock)");
	if (!query)
		return 0;
	if (strncmp(query, "?db=", 4))
		return weir_error_set(e, -EINVAL, "only ?db=N may follow the path of the socket");
	return read_db(query + 4, u, e);
}

/* After the servers: /db, or /master and perhaps /db. */
static int read_rest(const char *rest, struct weir_redis_url *u, struct weir_error *e)
{
	const char *slash;
	int r;

	if (u->kind == WEIR_REDIS_SENTINEL) {
		slash = strchr(rest, '/');
		if (!*rest || slash == rest)
			return weir_error_set(e, -EINVAL,
					      "the name of the master is missing (for example "
					      "redis+sentinel://10.0.0.5,10.0.0.6/mymaster)");
		r = decode(rest, slash ? (size_t)(slash - rest) : strlen(rest), &u->master);
		if (r == -EINVAL)
			return weir_error_set(e, r, "the master's name has a %% that is no escape");
		if (r < 0)
			return r;
		rest = slash ? slash + 1 : "";
	}
	return *rest ? read_db(rest, u, e) : 0;
}

static int read_servers(const char *text, struct weir_redis_url *u, struct weir_error *e)
{
	size_t n = strcspn(text, "/?#"), one;
	const char *rest = text + n;
	int r;

	if (strpbrk(rest, "?#"))
		return weir_error_set(e, -EINVAL,
				      "there is a ? or # after the servers (in a password they are "
				      "written %%3F and %%23)");
	for (;;) {
		const char *comma = memchr(text, ',', n);

		one = comma ? (size_t)(comma - text) : n;
		r = read_seed(text, one, u, e);
		if (r < 0)
			return r;
		if (!comma)
			break;
		if (u->kind == WEIR_REDIS_ONE)
			return weir_error_set(e, -EINVAL,
					      "redis:// takes one server (several: "
					      "redis+sentinel:// or redis+cluster://)");
		n -= one + 1;
		text += one + 1;
	}
	return read_rest(*rest ? rest + 1 : "", u, e);
}

static int parse(const char *text, struct weir_redis_url *u, struct weir_error *e)
{
	const char *body = strstr(text, "://"), *at;
	bool path = false, known = false;
	int r;

	for (size_t i = 0; body && i < ARRAY_LEN(schemes); i++) {
		if (strlen(schemes[i].name) != (size_t)(body - text) ||
		    strncmp(schemes[i].name, text, (size_t)(body - text)))
			continue;
		u->kind = schemes[i].kind;
		u->tls = schemes[i].tls;
		path = schemes[i].path;
		known = true;
	}
	if (!known)
		return weir_error_set(
			e, -EINVAL,
			"this is no address of a store (embedded, redis://, rediss://, "
			"redis+unix://, redis+sentinel://, redis+cluster://)");
	if (strlen(text) > TEXT_MAX)
		return weir_error_set(e, -EINVAL, "the address is longer than %d bytes", TEXT_MAX);
	body += 3;
	/* A password may hold a slash that nobody escaped: the last @ before a server's name ends it. */
	at = strrchr(body, '@');
	if (at && *body != '/') {
		r = read_login(body, (size_t)(at - body), u, e);
		if (r < 0)
			return r;
		body = at + 1;
	}
	return path ? read_path(body, u, e) : read_servers(body, u, e);
}

int weir_redis_url_parse(const char *text, struct weir_redis_url *ret, struct weir_error *e)
{
	struct weir_redis_url u = {};
	int r = parse(text, &u, e);

	if (r < 0) {
		weir_redis_url_done(&u);
		return r;
	}
	*ret = u;
	return 0;
}

static int copy_text(const char *from, char **ret)
{
	if (from) {
		*ret = strdup(from);
		if (!*ret)
			return -ENOMEM;
	}
	return 0;
}

int weir_redis_url_copy(const struct weir_redis_url *u, struct weir_redis_url *ret)
{
	struct weir_redis_url c = {.kind = u->kind, .tls = u->tls, .db = u->db};
	int r = copy_text(u->unix_path, &c.unix_path);

	r = r < 0 ? r : copy_text(u->master, &c.master);
	r = r < 0 ? r : copy_text(u->user, &c.user);
	r = r < 0 ? r : copy_text(u->password, &c.password);
	for (; r >= 0 && c.n_seed < u->n_seed; c.n_seed++) {
		r = copy_text(u->seed[c.n_seed].host, &c.seed[c.n_seed].host);
		c.seed[c.n_seed].port = u->seed[c.n_seed].port;
	}
	if (r < 0) {
		weir_redis_url_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

const char *weir_redis_url_shown(const struct weir_redis_url *u, char *buf, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (schemes[i].kind == u->kind && schemes[i].tls == u->tls &&
		    schemes[i].path == !!u->unix_path)
			n = (size_t)snprintf(buf, size, "%s://%s", schemes[i].name,
					     u->unix_path ? u->unix_path : "");
	for (size_t i = 0; i < u->n_seed && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n,
				      strchr(u->seed[i].host, ':') ? "%s[%s]:%u" : "%s%s:%u",
				      i ? "," : "", u->seed[i].host, u->seed[i].port);
	if (u->master && n < size)
		n += (size_t)snprintf(buf + n, size - n, "/%s", u->master);
	if (u->db && n < size)
		(void)snprintf(buf + n, size - n, u->unix_path ? "?db=%u" : "/%u", u->db);
	return buf;
}
