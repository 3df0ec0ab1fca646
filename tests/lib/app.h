/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The application behind a proxy, for tests: an HTTP server in a thread that says what it was asked. It takes what
 * proxies send (HTTP/1.0 and 1.1, a body by Content-Length), up to APP_CONNS connections at once.
 *
 *	/status/NNN   answers with that status
 *	/forge        also says X-Weir-Decision, X-RateLimit-Limit and RateLimit itself
 *	all others    200
 * The answer has "X-App: yes", and its body is the request: request line, header lines with names in lower case, an empty
 * line, the body.
 */
#ifndef WEIR_TEST_APP_H
#define WEIR_TEST_APP_H

#include <pthread.h>
#include <stdatomic.h>

#define APP_CONNS 1024

struct app {
	char where[32];	       /* "127.0.0.1:PORT" */
	_Atomic unsigned seen; /* requests so far */
	int listen_fd, stop_fd[2];
	pthread_t thread;
	struct app_conn *conns;
};

/* 0 or -errno. */
int app_start(struct app *a);
void app_stop(struct app *a);

#endif
