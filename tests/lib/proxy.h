/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Real proxies in tests: where the program is, its configuration from docs/proxies with addresses put in, the process.
 *
 *	struct proxy_change to[] = {{"127.0.0.1:8080", app.where}, {NULL, NULL}};
 *
 *	proxy_file("docs/proxies/nginx.conf", "/tmp/x/weir.conf", to);
 *	proxy_start(&p, "/tmp/x/log", where, argv);
 */
#ifndef WEIR_TEST_PROXY_H
#define WEIR_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROXY_WAIT_MS 20000

/* The program of that name: from PATH, or where scripts/setup --proxies puts it; NULL: there is none. */
const char *proxy_find(const char *name);

/* "127.0.0.1:PORT" that nobody listens on, for a program that must be told one. */
int proxy_free_port(char *buf, size_t n);

struct proxy_change {
	const char *from, *to; /* NULL: the end of the list */
};

/* The file with every @from replaced. -ENOENT with the text on standard error: one is not in it, so the test would not
 * test what it should.
 */
int proxy_file(const char *from, const char *to, const struct proxy_change *changes);

struct proxy {
	pid_t pid; /* 0: not running */
	char where[64], log[128];
};

/* Starts it and waits until @where takes connections. -errno: what it said is on standard error. */
int proxy_start(struct proxy *p, const char *log, const char *where, const char *const argv[]);
/* SIGTERM; 0 if it ended by that, else its exit status as run_wait. Takes one that was never started. */
int proxy_stop(struct proxy *p);

#endif
