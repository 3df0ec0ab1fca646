/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SPOE messages to questions, and answers to variables. Called by spop.c for each message of spoe.c's connections.
 *
 * Arguments, by name (whatever the message is called): method, url, ip, headers (req.hdrs), host, header.NAME, user, plan,
 * cost. They are the proxy's own words: user, plan and cost are taken from arguments only, never from the client's headers
 * among `headers`. Variables, in scope txn: decision, status, code, limit, retry_after, limit_n, remaining, reset,
 * ratelimit, ratelimit_policy, would, body; those that an answer does not have are left unset. docs/proxies describes both.
 *
 * Each message is a question of its own. A NOTIFY has one ACK: the first refusal among its answers, else the first answer.
 */
#include <stdio.h>
#include <string.h>

#include "user/http/spoe_int.h"

#define VARS_MAX     12
#define VARS_LEAST   6 /* the first ones, which fit into the smallest frame */
#define HEADER_ARG   "header."
#define HEADER_ARG_N (sizeof(HEADER_ARG) - 1)

struct weir_spoe_notify {
	struct weir_spoe_conn *conn;
	__u64 stream, frame;
	unsigned questions; /* under way, and one while messages are still read */
	bool only;	    /* one message: no answer to compare with */
	bool refused;	    /* shown, or bad */
	const char *bad;    /* refused by us: the name to give; NULL: not */
	struct weir_l7_call *shown;
};

void weir_spoe_notify_free(struct weir_spoe_notify *n)
{
	free(n);
}

/* --- the answer ---- */

static struct weir_spop_var text_var(const char *name, const char *text, size_t n)
{
	return (struct weir_spop_var){.scope = WEIR_SPOP_TXN,
				      .name = name,
				      .value = {.type = WEIR_SPOP_STRING,
						.text = {.data = text, .n = n}}};
}

static struct weir_spop_var number_var(const char *name, __u64 v)
{
	return (struct weir_spop_var){.scope = WEIR_SPOP_TXN,
				      .name = name,
				      .value = {.type = WEIR_SPOP_UINT64, .natural = v}};
}

/* What a refusal needs comes first: it is what is left of an answer that is too large for the peer's frames. */
static size_t vars_of(const struct weir_answer *a, struct weir_spop_var to[static VARS_MAX])
{
	const char *ratelimit = weir_answer_header(a, "RateLimit");
	const char *policy = weir_answer_header(a, "RateLimit-Policy");
	bool allowed = a->code == WEIR_ANSWER_ALLOW;
	const char *code = weir_answer_code_text(a->code);
	size_t n = 0;

	to[n++] = text_var("decision", allowed ? "allow" : "deny", allowed ? 5 : 4);
	to[n++] = number_var("status", a->client_status);
	if (!allowed) {
		to[n++] = text_var("code", code, strlen(code));
		if (a->limit)
			to[n++] = text_var("limit", a->limit, strlen(a->limit));
		if (a->retry_after_s)
			to[n++] = number_var("retry_after", a->retry_after_s);
	}
	if (a->would)
		to[n++] = text_var("would", a->would, strlen(a->would));
	if (ratelimit) {
		to[n++] = number_var("limit_n", a->limit_n);
		to[n++] = number_var("remaining", a->remaining);
		to[n++] = number_var("reset", a->reset_s);
		to[n++] = text_var("ratelimit", ratelimit, strlen(ratelimit));
	}
	if (policy)
		to[n++] = text_var("ratelimit_policy", policy, strlen(policy));
	if (a->body_n > 1) /* without its line end, of which HAProxy's lf-string makes %0A */
		to[n++] = text_var("body", a->body, a->body_n - 1);
	return n;
}

static void send_ack(const struct weir_spoe_notify *n)
{
	struct weir_spop *s = n->conn->spop;
	struct weir_spop_var vars[VARS_MAX];
	const struct weir_answer *a = NULL;
	struct weir_answer own;
	size_t n_vars = 0;

	if (n->bad) {
		weir_answer_refuse(WEIR_ANSWER_SPOE, WEIR_ANSWER_BAD_REQUEST, n->bad, &own);
		a = &own;
	} else if (n->shown) {
		a = weir_l7_call_answer(n->shown);
	}
	if (a) /* else we have no answer, and whether that is open or closed is HAProxy's to say */
		n_vars = vars_of(a, vars);
	if (weir_spop_ack(s, n->stream, n->frame, vars, n_vars) == -EMSGSIZE)
		(void)weir_spop_ack(s, n->stream, n->frame, vars,
				    n_vars < VARS_LEAST ? n_vars : VARS_LEAST);
	/* any other error: the session has ended, and so has the stream's wait */
}

static void finish(struct weir_spoe_notify *n)
{
	struct weir_spoe_conn *c = n->conn;

	if (--n->questions)
		return;
	if (c->port)
		send_ack(n);
	if (n->shown)
		weir_l7_call_free(n->shown);
	c->open--;
	if (c->spare)
		free(n);
	else
		c->spare = n;
	if (!c->port && !c->open)
		weir_spoe_conn_free(c);
	else if (c->port && !c->feeding)
		weir_spoe_queued(c);
}

static void on_answer(void *arg, struct weir_l7_call *call)
{
	struct weir_spoe_notify *n = arg;
	bool refused = !n->only && weir_l7_call_answer(call)->code != WEIR_ANSWER_ALLOW;

	if (n->shown && (n->refused || !refused)) {
		weir_l7_call_free(call);
	} else {
		if (n->shown)
			weir_l7_call_free(n->shown);
		n->shown = call;
		n->refused |= refused;
	}
	finish(n);
}

/* --- the question ---- */

struct message {
	struct weir_l7_query query;
	struct weir_header_list headers;
	struct weir_prefix client;
	bool has_ip;
	bool bad_headers;
	char cost[24];
};

static struct weir_text text_of(const struct weir_spop_value *v)
{
	if (v->type != WEIR_SPOP_STRING && v->type != WEIR_SPOP_BINARY)
		return (struct weir_text){NULL, 0};
	return (struct weir_text){v->text.data, v->text.n};
}

static void add_header(struct message *to, struct weir_text name, struct weir_text value)
{
	if (weir_header_list_add(&to->headers, name, weir_text_trim(value)) < 0)
		to->bad_headers = true;
}

/* req.hdrs: "Name: value" CR LF each, and an empty line. */
static void read_headers(struct message *to, struct weir_text all)
{
	const char *p = all.p, *end = p + all.n;

	while (p < end && !to->bad_headers) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		const char *stop = lf ? lf : end;
		const char *colon;

		if (stop > p && stop[-1] == '\r')
			stop--;
		if (stop == p)
			return;
		colon = memchr(p, ':', (size_t)(stop - p));
		if (!colon) {
			to->bad_headers = true;
			return;
		}
		add_header(to, (struct weir_text){p, (size_t)(colon - p)},
			   (struct weir_text){colon + 1, (size_t)(stop - colon - 1)});
		p = lf ? lf + 1 : end;
	}
}

static void read_ip(struct message *to, const struct weir_spop_value *v)
{
	if (v->type == WEIR_SPOP_IPV4 || v->type == WEIR_SPOP_IPV6) {
		bool v4 = v->type == WEIR_SPOP_IPV4;

		to->client = (struct weir_prefix){.addr = v->ip,
						  .family = v4 ? 4 : 6,
						  .len = v4 ? 32 : 128};
		to->has_ip = true;
	} else {
		to->has_ip = weir_client_parse(text_of(v), &to->client) == 0;
	}
}

static void read_cost(struct message *to, const struct weir_spop_value *v)
{
	int n;

	to->query.cost = text_of(v);
	if (v->type == WEIR_SPOP_INT32 || v->type == WEIR_SPOP_INT64)
		n = snprintf(to->cost, sizeof(to->cost), "%lld", v->number);
	else if (v->type == WEIR_SPOP_UINT32 || v->type == WEIR_SPOP_UINT64)
		n = snprintf(to->cost, sizeof(to->cost), "%llu", v->natural);
	else
		return;
	to->query.cost = (struct weir_text){to->cost, (size_t)n};
}

static bool is_named(const struct weir_spop_arg *a, const char *name)
{
	return a->name_n == strlen(name) && memcmp(a->name, name, a->name_n) == 0;
}

/* false: no argument of ours. */
static bool read_arg(struct message *to, const struct weir_spop_arg *a)
{
	if (a->name_n > HEADER_ARG_N && memcmp(a->name, HEADER_ARG, HEADER_ARG_N) == 0) {
		if (a->value.type != WEIR_SPOP_NULL)
			add_header(to,
				   (struct weir_text){a->name + HEADER_ARG_N,
						      a->name_n - HEADER_ARG_N},
				   text_of(&a->value));
	} else if (is_named(a, "method")) {
		to->query.method = text_of(&a->value);
	} else if (is_named(a, "url")) {
		to->query.target = text_of(&a->value);
	} else if (is_named(a, "ip")) {
		read_ip(to, &a->value);
	} else if (is_named(a, "headers")) {
		read_headers(to, text_of(&a->value));
	} else if (is_named(a, "host")) {
		to->query.host = text_of(&a->value);
	} else if (is_named(a, "user")) {
		to->query.user = text_of(&a->value);
	} else if (is_named(a, "plan")) {
		to->query.plan = text_of(&a->value);
	} else if (is_named(a, "cost")) {
		read_cost(to, &a->value);
	} else {
		return false;
	}
	return true;
}

/* "method" and "url" are needed for every rule, and "ip" for all that count by address: where they are missing, the
 * engine refuses what it cannot judge.
 */
static void count_missing(struct weir_spoe_conn *c, const struct message *q)
{
	struct weir_http_worker *w = c->worker;

	if (!q->query.method.n || !q->query.target.n) {
		weir_http_count(&w->counters.no_target, 1);
		weir_http_note(w, WEIR_HTTP_NOTE_NO_TARGET, c->port,
			       "the SPOE message has no method or no url");
	}
	if (!q->has_ip) {
		weir_http_count(&w->counters.no_address, 1);
		weir_http_note(w, WEIR_HTTP_NOTE_NO_ADDRESS, c->port,
			       "the SPOE message has no ip, or it is no address");
	}
}

static void read_message(struct weir_spoe_conn *c, const struct weir_spop_message *m,
			 struct message *to)
{
	const struct weir_header *host;

	to->headers.n = 0; /* its lines are not cleared: 4 KB a request */
	to->has_ip = false;
	to->bad_headers = false;
	to->query = (struct weir_l7_query){.profile = WEIR_ANSWER_SPOE,
					   .headers = &to->headers,
					   .client_seen = true};
	for (size_t i = 0; i < m->n_args; i++)
		if (!read_arg(to, &m->args[i]))
			weir_http_note(c->worker, WEIR_HTTP_NOTE_SPOP, c->port,
				       "a SPOE argument whose name weir does not know");
	if (!to->query.host.n) {
		host = weir_header_list_next(&to->headers, weir_text_of("Host"), NULL);
		if (host)
			to->query.host = host->value;
	}
	count_missing(c, to);
}

/* As the other profiles have it: IPv4-mapped addresses are IPv4, and NAT64 as configured. */
static void set_client(struct weir_spoe_conn *c, struct message *q)
{
	const struct weir_client_options options = {.header = WEIR_CLIENT_NONE,
						    .nat64 = c->worker->settings->nat64};
	struct weir_client found;

	if (!q->has_ip || weir_client_find(&options, &q->client, &q->headers, &found) < 0)
		return;
	q->client = found.addr;
	q->query.client = &q->client;
	weir_http_saw_client(c->port, &q->client, true);
}

static struct weir_spoe_notify *begin(struct weir_spoe_conn *c, const struct weir_spop_message *m)
{
	struct weir_spoe_notify *n = c->spare ? TAKE_PTR(c->spare) : malloc(sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct weir_spoe_notify){
		.conn = c, .stream = m->stream, .frame = m->frame, .questions = 1, .only = m->last};
	c->open++;
	return n;
}

void weir_spoe_ask(struct weir_spop *s, const struct weir_spop_message *m, void *arg)
{
	struct weir_spoe_conn *c = arg;
	struct weir_spoe_notify *n = c->current;
	struct weir_l7_call *call;
	struct message q;

	if (!n)
		n = begin(c, m);
	if (!n) {
		weir_spop_end(s, WEIR_SPOP_RESOURCE);
		return;
	}
	c->current = m->last ? NULL : n;
	if (m->last)
		c->frames++;
	weir_http_count(&c->worker->counters.requests, 1);
	read_message(c, m, &q);
	if (q.bad_headers) {
		weir_http_count(&c->worker->counters.bad_requests, 1);
		n->bad = "bad-headers";
	} else {
		set_client(c, &q);
		n->questions++;
		if (weir_l7_ask(c->worker->l7, &q.query, on_answer, n, &call) < 0)
			n->questions--; /* and the ACK is empty */
	}
	if (m->last)
		finish(n);
}
