/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profile json: POST /v1/check and POST /v1/refund, one request or a list of them, for programs that ask without a
 * proxy. Called by mhd.c; the bodies are check_json.h's.
 */
#include <jansson.h>
#include <sodium.h>
#include <string.h>

#include "user/http/conn.h"

static const struct weir_http_refusal only_post = {405, "METHOD_NOT_ALLOWED",
						   "Ask with POST and a body of JSON."};
static const struct weir_http_refusal no_token = {
	401, "UNAUTHORIZED",
	"Authorization: Bearer and the token of this listener's token_file are needed."};
static const struct weir_http_refusal body_too_large = {
	413, "BODY_TOO_LARGE", "The body is larger than this listener reads."};

struct weir_http_batch {
	struct weir_check_json *question;
	size_t n, n_done;
	struct weir_l7_call **calls; /* NULL: not asked, for want of memory */
};

/* --- before the body ---- */

static bool token_is_right(const struct weir_http_port_settings *s, struct weir_text given)
{
	static const char scheme[] = "Bearer ";
	size_t n = sizeof(scheme) - 1;

	if (given.n <= n ||
	    !weir_text_equal_fold((struct weir_text){given.p, n}, (struct weir_text){scheme, n}))
		return false;
	given = weir_text_trim((struct weir_text){given.p + n, given.n - n});
	/* how long it is may be learned, what it is not */
	return given.n == s->token_n && sodium_memcmp(given.p, s->token, given.n) == 0;
}

const struct weir_http_refusal *weir_http_json_begin(struct weir_http_conn *c, const char *method,
						     const struct weir_http_lines *lines)
{
	const struct weir_http_port_settings *s = c->port->settings;

	if (s->token ? lines->n[WEIR_HTTP_SLOT_AUTHORIZATION] != 1 ||
			       !token_is_right(s, lines->slot[WEIR_HTTP_SLOT_AUTHORIZATION])
		     : !c->is_unix)
		return &no_token;
	return strcmp(method, "POST") == 0 ? NULL : &only_post;
}

int weir_http_json_body(struct weir_http_conn *c, const char *data, size_t n)
{
	size_t used = (size_t)c->body_n - n; /* body_n counts these already */

	if (c->body_n > c->body_max) {
		size_t max = c->body_max ? 2 * c->body_max : 1024;
		char *body;

		while (max < c->body_n)
			max *= 2;
		body = realloc(c->body, max);
		if (!body)
			return -ENOMEM;
		c->body = body;
		c->body_max = max;
	}
	memcpy(c->body + used, data, n);
	return 0;
}

/* --- questions ---- */

static struct weir_text named(const struct weir_check_json_request *r, const char *name)
{
	for (size_t i = 0; name && i < r->n_headers; i++)
		if (weir_text_equal_fold(weir_text_of(r->headers[i].name), weir_text_of(name)))
			return weir_text_of(r->headers[i].value);
	return (struct weir_text){.n = 0};
}

/* Everything it says is the caller's word: the token makes it a trusted proxy, but no address was seen by us. */
static int ask_one(struct weir_http_conn *c, const struct weir_check_json_request *r,
		   struct weir_l7_call **ret)
{
	struct weir_http_worker *w = c->port->worker;
	const struct weir_http_port_settings *s = c->port->settings;
	struct weir_header_list *headers = &weir_http_worker_lines(w)->headers;
	struct weir_prefix client = {.addr = r->ip,
				     .family = r->family,
				     .len = r->family == 4 ? 32 : 128};
	const struct weir_l7_query q = {
		.profile = WEIR_ANSWER_JSON,
		.method = weir_text_of(r->method),
		.target = weir_text_of(r->path),
		.host = named(r, "Host"),
		.headers = headers,
		.client = r->family ? &client : NULL,
		.user = named(r, s->header_user),
		.plan = named(r, s->header_plan),
		.cost = named(r, s->header_cost),
		.cost_n = r->cost > 1 ? r->cost : 0, /* 1 is what is meant where nothing is said */
		.peek = r->peek,
		.may_wait = weir_http_worker_may_hold(w),
	};

	headers->n = 0;
	for (size_t i = 0; i < r->n_headers; i++)
		if (weir_header_list_add(headers, weir_text_of(r->headers[i].name),
					 weir_text_of(r->headers[i].value)) < 0)
			return -EINVAL; /* not after check_json.c has read them */
	weir_http_count(&w->counters.requests, 1);
	if (c->path == WEIR_HTTP_PATH_REFUND)
		return weir_l7_refund(w->l7, &q, weir_http_conn_done, c, ret);
	return weir_l7_ask(w->l7, &q, weir_http_conn_done, c, ret);
}

static enum MHD_Result refuse_body(struct weir_http_conn *c, const struct weir_error *e)
{
	char *text;
	json_t *j = json_pack("{s:s,s:s}", "code", "BAD_REQUEST", "message", e->text);
	struct weir_http_refusal why = {400, "BAD_REQUEST", "The body is not what is asked for."};

	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		return weir_http_conn_refuse(c, &why);
	weir_http_count(&c->port->worker->counters.bad_requests, 1);
	return weir_http_conn_answer(c, 400, NULL, text, strlen(text));
}

enum MHD_Result weir_http_json_ask(struct weir_http_conn *c)
{
	struct weir_http_batch *b = calloc(1, sizeof(*b));
	struct weir_error e = {.text = ""};
	int r;

	if (!b)
		return weir_http_conn_refuse(c, &weir_http_no_memory);
	c->batch = b;
	r = weir_check_json_parse(c->body ? c->body : "", (size_t)c->body_n, &b->question, &e);
	if (r == -EINVAL || r == -E2BIG) {
		weir_http_json_free(b, false);
		c->batch = NULL;
		return r == -E2BIG ? weir_http_conn_refuse(c, &body_too_large) : refuse_body(c, &e);
	}
	if (r == 0) {
		b->n = b->question->n;
		b->calls = calloc(b->n, sizeof(*b->calls));
	}
	if (!b->calls) {
		weir_http_json_free(b, false);
		c->batch = NULL;
		return weir_http_conn_refuse(c, &weir_http_no_memory);
	}
	weir_http_worker_lines(c->port->worker)->of = NULL; /* written over */
	c->asking = true;
	for (size_t i = 0; i < b->n; i++) {
		r = ask_one(c, &b->question->requests[i], &b->calls[i]);
		if (r < 0) { /* its answer says so; the others are charged already */
			b->calls[i] = NULL;
			weir_http_conn_done(c, NULL);
		}
	}
	return weir_http_conn_asked(c);
}

bool weir_http_json_done(struct weir_http_batch *b)
{
	return ++b->n_done == b->n;
}

__u64 weir_http_json_wait_us(const struct weir_http_batch *b)
{
	__u64 longest = 0;

	for (size_t i = 0; i < b->n; i++) {
		__u64 us = b->calls[i] ? weir_l7_call_wait_us(b->calls[i]) : 0;

		longest = us > longest ? us : longest;
	}
	return longest;
}

void weir_http_json_abort(struct weir_http_batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->calls[i] && weir_l7_call_wait_us(b->calls[i]))
			weir_l7_call_abort(b->calls[i]);
}

void weir_http_json_free(struct weir_http_batch *b, bool held)
{
	for (size_t i = 0; b->calls && i < b->n; i++) {
		if (b->calls[i] && held && weir_l7_call_wait_us(b->calls[i]))
			weir_l7_call_leave(b->calls[i]);
		else if (b->calls[i])
			weir_l7_call_free(b->calls[i]);
	}
	free(b->calls);
	weir_check_json_free(b->question);
	free(b);
}

/* --- answers ---- */

/* An answer lives until the next one is made, so each is written by itself. */
static int write_one(struct weir_l7_call *call, const struct weir_answer *a, char **ret,
		     size_t *ret_n)
{
	struct weir_check_json_result result = {.answer = a};

	if (call)
		result.limits = weir_l7_call_limits(call, &result.n_limits);
	return weir_check_json_write(&result, 1, false, ret, ret_n);
}

static enum MHD_Result answer_one(struct weir_http_conn *c, struct weir_l7_call *call)
{
	const struct weir_answer *a;
	struct weir_answer none;
	char *text;
	size_t n;

	if (call) {
		a = weir_l7_call_answer(call);
	} else {
		weir_answer_refuse(WEIR_ANSWER_JSON, WEIR_ANSWER_STORE_UNAVAILABLE, "weir", &none);
		a = &none;
	}
	if (write_one(call, a, &text, &n) < 0)
		return MHD_NO;
	return weir_http_conn_answer(c, a->status, a, text, n);
}

static enum MHD_Result answer_list(struct weir_http_conn *c, const struct weir_http_batch *b)
{
	char *list = NULL, *one;
	size_t n = 0, max = 0, n_one;

	for (size_t i = 0; i < b->n; i++) {
		const struct weir_answer *a;
		struct weir_answer none;

		weir_answer_refuse(WEIR_ANSWER_JSON, WEIR_ANSWER_STORE_UNAVAILABLE, "weir", &none);
		a = b->calls[i] ? weir_l7_call_answer(b->calls[i]) : &none;
		if (write_one(b->calls[i], a, &one, &n_one) < 0)
			goto failed;
		if (n + n_one + 4 > max) {
			char *more;

			max = 2 * (n + n_one + 4);
			more = realloc(list, max);
			if (!more) {
				free(one);
				goto failed;
			}
			list = more;
		}
		list[n++] = i ? ',' : '[';
		memcpy(list + n, one, n_one - 1); /* without the end of its line */
		n += n_one - 1;
		free(one);
	}
	memcpy(list + n, "]\n", 2);
	return weir_http_conn_answer(c, 200, NULL, list, n + 2);
failed:
	free(list);
	return MHD_NO;
}

enum MHD_Result weir_http_json_answer(struct weir_http_conn *c)
{
	struct weir_http_batch *b = c->batch;
	enum MHD_Result r = b->question->is_list ? answer_list(c, b) : answer_one(c, b->calls[0]);

	c->batch = NULL;
	weir_http_json_free(b, false);
	return r;
}
