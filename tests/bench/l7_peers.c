/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one would use instead: nginx limit_req, and rate-limiter-flexible behind node's own HTTP server. Two limits each,
 * on the client's address of X-Forwarded-For, wide enough to admit everything. See l7_servers.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/l7_servers_int.h"
#include "tests/lib/proxy.h"
#include "user/base/cleanup.h"

/* As an operator would tune it for this: one worker, no access log, the file kept open (limit_req acts on files only,
 * `return` comes before it). The port is held by a bound socket of ours until nginx shares it: none is guessed.
 */
static const char nginx_conf[] =
	"daemon off;\n"
	"master_process off;\n"
	"worker_processes 1;\n"
	"pid %s/nginx.pid;\n"
	"error_log stderr warn;\n"
	"events { worker_connections 4096; }\n"
	"http {\n"
	"	access_log off;\n"
	"	default_type text/plain;\n"
	"	keepalive_requests 1000000000;\n"
	"	open_file_cache max=16;\n"
	"	client_body_temp_path %s/body;\n"
	"	proxy_temp_path %s/proxy;\n"
	"	fastcgi_temp_path %s/fastcgi;\n"
	"	uwsgi_temp_path %s/uwsgi;\n"
	"	scgi_temp_path %s/scgi;\n"
	"	limit_req_zone $http_x_forwarded_for zone=address:16m rate=100000r/s;\n"
	"	limit_req_zone $http_x_forwarded_for$uri zone=page:16m rate=100000r/s;\n"
	"	server {\n"
	"		listen 127.0.0.1:%u reuseport;\n"
	"		root %s;\n"
	"		limit_req zone=address burst=100000 nodelay;\n"
	"		limit_req zone=page burst=100000 nodelay;\n"
	"	}\n"
	"}\n";

int server_nginx(const struct server_place *at, const char *config, char err[SERVER_ERR_BYTES],
		 struct server *ret)
{
	const char *nginx = proxy_find("nginx"), *d = at->dir;
	char path[SERVER_PATH_BYTES], text[4096];
	_cleanup_close_ int fd = -1;
	struct server s = {};
	int r;

	(void)config;
	if (!nginx)
		return SERVER_ABSENT;
	r = bench_socket(false, err, &fd, &s.port);
	if (!r)
		r = bench_write(at, "check", "ok\n", err, path);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), nginx_conf, d, d, d, d, d, d, s.port, d);
	r = bench_write(at, "nginx.conf", text, err, path);
	if (r < 0)
		return r;
	r = bench_start(at, "nginx.log",
			(const char *const[]){nginx, "-p", d, "-e", "stderr", "-c", path, NULL},
			err, &s.pid);
	if (!r)
		r = bench_await_port(at, "nginx.log", &s, err);
	if (r < 0) {
		server_stop(&s);
		return r;
	}
	*ret = s;
	return 0;
}

/* Two limiters, made by what stands in front of it. */
static const char node_script[] =
	"const http = require('http');\n"
	"const address = limiter('address'), page = limiter('page');\n"
	"const server = http.createServer((q, s) => {\n"
	"	const ip = q.headers['x-forwarded-for'];\n"
	"	Promise.all([address.consume(ip), page.consume(ip + q.url)]).then((r) => {\n"
	"		s.setHeader('X-RateLimit-Limit', wide.points);\n"
	"		s.setHeader('X-RateLimit-Remaining', r[0].remainingPoints);\n"
	"		s.setHeader('X-RateLimit-Reset', Math.ceil(r[0].msBeforeNext / 1000));\n"
	"		s.end('ok');\n"
	"	}, () => { s.statusCode = 429; s.end('no'); });\n"
	"});\n"
	"server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));\n";
static const char node_memory[] =
	"const { RateLimiterMemory } = require('rate-limiter-flexible');\n"
	"const wide = { points: 1e9, duration: 60 };\n"
	"const limiter = (n) => new RateLimiterMemory({ ...wide, keyPrefix: n });\n";
static const char node_redis[] =
	"const { RateLimiterRedis } = require('rate-limiter-flexible');\n"
	"const Redis = require('ioredis');\n"
	"const storeClient = new Redis('%s');\n"
	"const wide = { points: 1e9, duration: 60 };\n"
	"const limiter = (n) => new RateLimiterRedis({ ...wide, keyPrefix: n, storeClient });\n";

static bool has_package(const struct server_place *at, const char *name)
{
	char path[SERVER_PATH_BYTES + 64];

	(void)snprintf(path, sizeof(path), "%s/peers/node_modules/%s", at->build, name);
	return access(path, R_OK) == 0;
}

/* @name: of its files; @head: what makes its limiters. */
static int start_node(const struct server_place *at, const char *name, const char *head,
		      char err[SERVER_ERR_BYTES], struct server *ret)
{
	char modules[SERVER_PATH_BYTES], path[SERVER_PATH_BYTES], text[4096], log[64];
	_cleanup_free_ char *real = NULL;
	struct server s = {};
	uint64_t port;
	int r;

	(void)snprintf(modules, sizeof(modules), "%s/peers/node_modules", at->build);
	real = realpath(modules, NULL);
	if (!real || !has_package(at, "rate-limiter-flexible"))
		return SERVER_ABSENT;
	(void)snprintf(text, sizeof(text), "%s%s", head, node_script);
	(void)snprintf(log, sizeof(log), "%s.log", name);
	r = bench_write(at, name, text, err, path);
	if (r < 0)
		return r;
	if (setenv("NODE_PATH", real, 1) < 0)
		return -errno;
	r = bench_start(at, log, (const char *const[]){"node", path, NULL}, err, &s.pid);
	(void)unsetenv("NODE_PATH"); /* cannot fail with a good name */
	if (r == -ENOENT)
		return SERVER_ABSENT;
	if (r < 0)
		return r;
	r = bench_await(at, log, "port ", &s, err, &port);
	if (r < 0) {
		server_stop(&s);
		return r;
	}
	s.port = (uint16_t)port;
	*ret = s;
	return 0;
}

int server_node(const struct server_place *at, const char *config, char err[SERVER_ERR_BYTES],
		struct server *ret)
{
	(void)config;
	return start_node(at, "peer.js", node_memory, err, ret);
}

int server_node_redis(const struct server_place *at, const char *config, char err[SERVER_ERR_BYTES],
		      struct server *ret)
{
	char head[1024];

	if (!has_package(at, "ioredis"))
		return SERVER_ABSENT;
	(void)snprintf(head, sizeof(head), node_redis, config);
	return start_node(at, "peer-redis.js", head, err, ret);
}
