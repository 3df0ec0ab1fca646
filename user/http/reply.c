/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Answers and refusals as libmicrohttpd's responses. Called by mhd.c, ask.c, json.c and pages.c. */
#include <string.h>
#include <sys/socket.h>

#include "user/http/conn.h"

const struct weir_http_refusal weir_http_no_memory = {503, "OUT_OF_MEMORY",
						      "The agent is out of memory; try again."};
static const struct weir_http_refusal no_room = {
	431, "HEADERS_TOO_LARGE", "The request could not be read: its headers are too large."};

static bool is_check(const struct weir_http_conn *c)
{
	return c->profile != WEIR_PROFILE_JSON && c->profile != WEIR_PROFILE_METRICS;
}

void weir_http_count_refusal(struct weir_http_counters *n, unsigned status)
{
	if (status == 431 || status == 413)
		weir_http_count(&n->too_large, 1);
	else if (status >= 400 && status < 500)
		weir_http_count(&n->bad_requests, 1);
}

/* Takes @r over. */
enum MHD_Result weir_http_conn_send(struct weir_http_conn *c, unsigned status,
				    struct MHD_Response *r)
{
	enum MHD_Result queued;

	if (c->port->closing)
		(void)MHD_add_response_header(r, "Connection",
					      "close"); /* without it the sweep closes */
	queued = MHD_queue_response(c->mhd, status, r);
	MHD_destroy_response(r);
	if (queued == MHD_YES) {
		c->phase = WEIR_HTTP_WRITING;
		c->since_ns = c->port->worker->now_ns;
	}
	return queued;
}

/* nginx takes anything but 401 and 403 for an error, which its fail-open recipes undo; a wrong path is one, though. */
static unsigned status_for(const struct weir_http_conn *c, unsigned status)
{
	return c->profile == WEIR_PROFILE_NGINX && status != 404 ? 403 : status;
}

static int refusal_body(const struct weir_http_refusal *why, char *buf, size_t size)
{
	return snprintf(buf, size, "{\"code\":\"%s\",\"message\":\"%s\"}\n", why->code,
			why->message);
}

enum MHD_Result weir_http_conn_refuse(struct weir_http_conn *c, const struct weir_http_refusal *why)
{
	struct MHD_Response *r;
	char body[512], status[8];
	int n = refusal_body(why, body, sizeof(body));

	r = MHD_create_response_from_buffer((size_t)n, body, MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO;
	weir_http_count_refusal(&c->port->worker->counters, why->status);
	(void)snprintf(status, sizeof(status), "%u", why->status);
	/* a header that finds no memory is left out; the status says enough */
	(void)MHD_add_response_header(r, "Content-Type", "application/json");
	(void)MHD_add_response_header(r, "Cache-Control", "no-store");
	if (is_check(c)) {
		(void)MHD_add_response_header(r, "X-Weir-Decision", "deny");
		(void)MHD_add_response_header(r, "X-Weir-Status", status);
	} else if (why->status == 401) {
		(void)MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
	} else if (why->status == 405) {
		(void)MHD_add_response_header(r, "Allow",
					      c->profile == WEIR_PROFILE_JSON ? "POST"
									      : "GET, HEAD");
	}
	return weir_http_conn_send(c, status_for(c, why->status), r);
}

/* @body: heap, taken over, with its type among @a's headers if @a has a body of its own; NULL: that of @a. */
enum MHD_Result weir_http_conn_answer(struct weir_http_conn *c, unsigned status,
				      const struct weir_answer *a, char *body, size_t body_n)
{
	struct MHD_Response *r;

	if (body)
		r = MHD_create_response_from_buffer(body_n, body, MHD_RESPMEM_MUST_FREE);
	else if (a && a->body_n)
		r = MHD_create_response_from_buffer(a->body_n, (void *)(uintptr_t)a->body,
						    MHD_RESPMEM_MUST_COPY);
	else
		r = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
						    MHD_RESPMEM_PERSISTENT);
	if (!r) {
		free(body);
		return MHD_NO;
	}
	for (size_t i = 0; a && i < a->n_headers; i++) {
		if (MHD_add_response_header(r, a->headers[i].name, a->headers[i].value) == MHD_NO) {
			MHD_destroy_response(
				r); /* an answer without its headers says something else */
			return MHD_NO;
		}
	}
	if (body && !(a && a->body_n))
		(void)MHD_add_response_header(r, "Content-Type", "application/json"); /* as above */
	return weir_http_conn_send(c, status, r);
}

enum MHD_Result weir_http_conn_refuse_path(struct weir_http_conn *c)
{
	struct weir_answer a;

	weir_answer_refuse(weir_http_answer_profile(c->profile), WEIR_ANSWER_BAD_REQUEST,
			   "bad-path", &a);
	weir_http_count(&c->port->worker->counters.bad_requests, 1);
	return weir_http_conn_answer(c, a.status, &a, NULL, 0);
}

bool weir_http_has_left(const struct weir_http_conn *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* The library gives up on a request without having written a word: there is no room for it, or nobody. */
void weir_http_last_word(struct weir_http_conn *c)
{
	char body[256], text[768];
	unsigned status = status_for(c, no_room.status);
	int n = refusal_body(&no_room, body, sizeof(body));
	bool left = weir_http_has_left(c);

	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %u %s\r\nConnection: close\r\nX-Weir-Decision: deny\r\n"
		     "X-Weir-Status: %u\r\nContent-Type: application/json\r\n"
		     "Content-Length: %d\r\n\r\n%s",
		     status, status == 403 ? "Forbidden" : "Request Header Fields Too Large",
		     no_room.status, n, body);
	/* nobody is told of a failure: there is nobody left to tell */
	(void)!send(c->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (left)
		weir_http_count(&c->port->worker->counters.left, 1);
	else
		weir_http_count_refusal(&c->port->worker->counters, no_room.status);
}
