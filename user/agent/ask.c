/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Questions to the request layer from the shell: `weir request`, and who a client is in explain and limit reset. Asked
 * of the engine that runs, on a worker of the agent's own. Called by commands.c.
 */
#include <errno.h>
#include <string.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/str.h"

#define KEY_MAX 4096 /* bytes of an API key or user */

int weir_asked_read(const json_t *request, struct weir_asked *ret, struct weir_error *e)
{
	const char *ip = weir_json_text_of(request, "ip"),
		   *key = weir_json_text_of(request, "api_key"),
		   *user = weir_json_text_of(request, "user");
	struct weir_asked q = {};
	char text[WEIR_PREFIX_STRLEN];
	int n = 0;

	ip = ip ? ip : weir_json_text_of(request, "address");
	if (ip && (weir_prefix_parse(ip, strlen(ip), true, &q.ip) < 0 ||
		   q.ip.len != (q.ip.family == 4 ? 32 : 128)))
		return weir_error_set(e, -EINVAL, "%.48s is no address (198.51.100.7, 2001:db8::1)",
				      ip);
	if ((key && (!key[0] || strlen(key) > KEY_MAX)) ||
	    (user && (!user[0] || strlen(user) > KEY_MAX)))
		return weir_error_set(e, -EINVAL, "%s: 1 to %d bytes",
				      key && (!key[0] || strlen(key) > KEY_MAX) ? "the API key"
										: "the user",
				      KEY_MAX);
	if (ip)
		n += snprintf(q.text, sizeof(q.text), "%s", weir_prefix_format(&q.ip, text));
	if (user)
		n += snprintf(q.text + n, sizeof(q.text) - (size_t)n, "%suser %.48s", n ? ", " : "",
			      user);
	if (key)
		n += snprintf(q.text + n, sizeof(q.text) - (size_t)n, "%sthis API key",
			      n ? ", " : "");
	n = 0;
	if (ip)
		n += snprintf(q.by, sizeof(q.by), " --ip %s", text);
	if (user)
		n += snprintf(q.by + n, sizeof(q.by) - (size_t)n, " --user '%.48s'", user);
	if (key)
		(void)snprintf(q.by + n, sizeof(q.by) - (size_t)n, " --api-key -");
	if (key)
		q.who.api_key = weir_text_of(key);
	if (user)
		q.who.user = weir_text_of(user);
	*ret = q;
	ret->who.ip = ip ? &ret->ip : NULL;
	ret->words = ret->text[0] ? ret->text : NULL;
	return 0;
}

/* --- weir request ---- */

struct question {
	struct weir_l7_query query;
	struct weir_header_list headers;
	struct weir_prefix ip;
	json_t *reply; /* filled in by done */
};

/* What a proxy would send by these names is taken for its word: who may ask here may do anything. */
static void take_special(const struct weir_conf_request *c, struct weir_l7_query *q,
			 struct weir_text name, struct weir_text value)
{
	if (c->header_user && weir_text_equal_fold(name, weir_text_of(c->header_user)))
		q->user = value;
	if (c->header_plan && weir_text_equal_fold(name, weir_text_of(c->header_plan)))
		q->plan = value;
	if (c->header_cost && weir_text_equal_fold(name, weir_text_of(c->header_cost)))
		q->cost = value;
	if (weir_text_equal_fold(name, weir_text_of("host")))
		q->host = value;
}

static int read_headers(const struct weir_conf *c, const json_t *list, struct question *q,
			struct weir_error *e)
{
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, item) {
		const char *text = json_string_value(item),
			   *colon = text ? strchr(text, ':') : NULL;
		struct weir_text name, value;
		int r;

		if (!colon)
			return weir_error_set(e, -EINVAL,
					      "%.64s is no header (--header \"X-API-Key: abc\")",
					      text ? text : "(no text)");
		name = (struct weir_text){text, (size_t)(colon - text)};
		value = weir_text_trim(weir_text_of(colon + 1));
		r = weir_header_list_add(&q->headers, name, value);
		if (r == -E2BIG)
			return weir_error_set(e, -EINVAL, "more than %d headers",
					      WEIR_HEADER_LINES_MAX);
		if (r < 0)
			return weir_error_set(e, -EINVAL,
					      "%.64s: neither name nor value may hold such bytes",
					      text);
		take_special(&c->request, &q->query, name, value);
	}
	return 0;
}

static int read_question(struct weir_agent *a, const json_t *request, struct question *q,
			 struct weir_error *e)
{
	const char *method = weir_json_text_of(request, "method"),
		   *path = weir_json_text_of(request, "path"),
		   *ip = weir_json_text_of(request, "ip");

	if (!method || !weir_text_is_token(weir_text_of(method)))
		return weir_error_set(e, -EINVAL, "\"%.32s\" is no method (GET, POST)",
				      method ? method : "");
	if (!path || !path[0])
		return weir_error_set(e, -EINVAL, "the path is missing (/api/items?id=7)");
	if (ip && (weir_prefix_parse(ip, strlen(ip), true, &q->ip) < 0 ||
		   q->ip.len != (q->ip.family == 4 ? 32 : 128)))
		return weir_error_set(e, -EINVAL, "%.48s is no address (198.51.100.7, 2001:db8::1)",
				      ip);
	q->query.profile = WEIR_ANSWER_CADDY; /* whose statuses are those of the client */
	q->query.method = weir_text_of(method);
	q->query.target = weir_text_of(path);
	q->query.headers = &q->headers;
	q->query.client = ip ? &q->ip : NULL;
	q->query.peek = weir_json_bool_of(request, "peek");
	q->query.may_wait = true;
	return read_headers(a->conf, json_object_get(request, "headers"), q, e);
}

static json_t *limit_json(const struct weir_answer_limit *l)
{
	static const char *const names[] = {"admitted", "exceeded", "no-store", "too-large",
					    "no-key"};
	json_t *o = json_object();

	weir_json_set_text(o, "limit", l->name);
	weir_json_set_text(o, "outcome",
			   (unsigned)l->outcome < ARRAY_LEN(names) ? names[l->outcome] : "?");
	weir_json_set_bool(o, "monitor", l->monitor);
	weir_json_set_u64(o, "size", l->limit);
	weir_json_set_u64(o, "remaining", l->remaining);
	weir_json_set_u64(o, "reset_after_ms", (l->reset_after_ns + 999999) / 1000000);
	weir_json_set_u64(o, "retry_after_ms", (l->retry_after_ns + 999999) / 1000000);
	return o;
}

/* The call ends here: what would be held is said, not held. */
static void on_answer(void *arg, struct weir_l7_call *call)
{
	struct question *q = arg;
	const struct weir_answer *answer = weir_l7_call_answer(call);
	json_t *o = weir_reply_ok(), *headers = json_array(), *limits = json_array();
	const struct weir_answer_limit *l;
	size_t n = 0;

	weir_json_set_bool(o, "allowed", answer->code == WEIR_ANSWER_ALLOW);
	weir_json_set_text(o, "code",
			   answer->code == WEIR_ANSWER_ALLOW ? NULL
							     : weir_answer_code_text(answer->code));
	weir_json_set_u64(o, "status",
			  answer->client_status ? answer->client_status : answer->status);
	weir_json_set_text(o, "limit", answer->limit);
	weir_json_set_text(o, "would", answer->would);
	weir_json_set_u64(o, "retry_after_s", answer->retry_after_s);
	weir_json_set_u64(o, "held_ms", weir_l7_call_wait_us(call) / 1000);
	for (size_t i = 0; i < answer->n_headers; i++)
		(void)json_array_append_new(headers, json_pack("[s, s]", answer->headers[i].name,
							       answer->headers[i].value));
	weir_json_set(o, "headers", headers);
	weir_json_set_text(o, "body", answer->body_n ? answer->body : NULL);
	l = weir_l7_call_limits(call, &n);
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(limits, limit_json(&l[i])); /* without memory: fewer */
	weir_json_set(o, "limits", limits);
	q->reply = o;
}

json_t *weir_agent_ask(struct weir_agent *a, const json_t *request)
{
	_cleanup_free_ struct question *q = calloc(1, sizeof(*q));
	struct weir_l7_call *call = NULL;
	struct weir_error e = {};
	int r;

	if (!a->l7)
		return weir_reply_error(-ENOENT,
					"this agent has no request layer: its configuration has "
					"neither http.listeners nor request_limits");
	if (!q)
		return weir_reply_error(-ENOMEM, NULL);
	r = read_question(a, request, q, &e);
	if (r == 0)
		r = weir_l7_ask(a->asker, &q->query, on_answer, q, &call);
	if (call)
		weir_l7_call_free(call);
	if (r == 0 && !q->reply)
		r = weir_error_set(&e, -EAGAIN, "the store has not answered");
	if (r < 0) {
		json_decref(q->reply);
		return weir_reply_error(r, e.text);
	}
	weir_json_set_bool(q->reply, "peek", q->query.peek);
	return q->reply;
}
