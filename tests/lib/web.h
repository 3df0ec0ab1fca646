/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A small HTTP client for tests: says exactly the bytes it is given, on TCP or a Unix socket, and is strict about what
 * comes back. One struct web is one connection; it is kept open until web_close.
 *
 *	struct web w;
 *	struct web_reply r;
 *
 *	assert_int_equal(web_open(&w, "127.0.0.1:8080"), 0);
 *	assert_int_equal(web_ask(&w, &r, "GET /check HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
 *	assert_string_equal(web_header(&r, "Retry-After"), "3");
 *	web_close(&w);
 */
#ifndef WEIR_TEST_WEB_H
#define WEIR_TEST_WEB_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_IN_MAX	(1 << 20) /* bytes of one reply */
#define WEB_HEADERS_MAX 64
#define WEB_WAIT_MS	20000 /* of web_ask */

struct web {
	int fd;
	char *in;
	size_t room, n;	    /* of in */
	char *lines, *body; /* the last reply's */
	bool ended;	    /* the other side will send nothing more */
	bool head;	    /* the next reply has no body: set it before asking HEAD */
};

/* Points into the connection's memory: good until the next call for it. */
struct web_reply {
	int status;
	int minor;   /* of HTTP/1.x */
	bool closes; /* says that the connection ends */
	struct {
		const char *name, *value;
	} header[WEB_HEADERS_MAX];
	size_t n_headers;
	const char *body; /* ended by a NUL */
	size_t body_n;
};

/* @where: "127.0.0.1:80", "[::1]:80", "unix:/path". 0 or -errno; the connection is made (or refused) when it returns. */
int web_open(struct web *w, const char *where);
/* The same from the address @from (IPv4 or IPv6 text; NULL: any). */
int web_open_from(struct web *w, const char *where, const char *from);
/* Also takes one that could not be opened, and one twice. */
void web_close(struct web *w);

/* All of it, however long the other side takes to read. 0 or -errno. */
int web_send(struct web *w, const void *bytes, size_t n);
int web_say(struct web *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes what has arrived. 0: a whole reply, in @ret. -EAGAIN: not yet. -ENODATA: the other side has ended the connection
 * and nothing is left. -ECONNRESET: the same in the middle of a reply, or by a reset. -EBADMSG: not HTTP as it should be
 * (bare line ends, control bytes, lengths that disagree). -EPROTO: a reply, in @ret, which says that it is the last one,
 * and more after it. -EMSGSIZE: above WEB_IN_MAX.
 */
int web_take(struct web *w, struct web_reply *ret);
/* web_take until it is not -EAGAIN; -ETIMEDOUT after @ms. */
int web_wait(struct web *w, unsigned int ms, struct web_reply *ret);
/* web_say and web_wait. A connection that is closed while sending may have an answer all the same: it is read. */
int web_ask(struct web *w, struct web_reply *ret, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Waits for the end of the connection, reading whatever comes. 0 when it is there, or -ETIMEDOUT. */
int web_wait_end(struct web *w, unsigned int ms);

/* The value of the first header of that name, in any case of letters; NULL: there is none. */
const char *web_header(const struct web_reply *r, const char *name);
size_t web_header_count(const struct web_reply *r, const char *name);
/* A header that is a plain number without a sign; -1: it is not there, or not that. */
long long web_number(const struct web_reply *r, const char *name);

#endif
