/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bodies of profile json: see check_json.h. The text is bounded in size and depth before jansson sees it (it recurses
 * per level). Called by the listener of profile json.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "user/base/addr.h"
#include "user/base/str.h"
#include "user/l7/check_json.h"
#include "user/l7/put.h"

#define MEMBERS "method, path, ip, headers, cost, peek"

void weir_check_json_free(struct weir_check_json *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->requests && i < c->n; i++)
		free((void *)c->requests[i].headers);
	free(c->requests);
	json_decref(c->owned);
	free(c);
}

/* --- the text ---- */

/* Levels of brackets outside of strings; the parser judges everything else. */
static bool is_too_deep(const char *body, size_t n)
{
	bool in_string = false;
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		char c = body[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '[' || c == '{') {
			if (++depth > WEIR_CHECK_JSON_DEPTH_MAX)
				return true;
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return false;
}

/* A piece of the body for a sentence: short, and '?' for what is not printable ASCII. */
struct shown {
	char text[80];
};

static struct shown show(const char *s)
{
	struct shown out;

	if (!weir_str_copy(out.text, sizeof(out.text), s))
		memcpy(out.text + sizeof(out.text) - 4, "...", 4);
	for (char *p = out.text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return out;
}

static bool is_token(const char *s, size_t n)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || (s[i] && strchr(marks, s[i]))))
			return false;
	return n > 0;
}

static bool has_control(const char *s, size_t n, bool tab_too)
{
	for (size_t i = 0; i < n; i++)
		if (((unsigned char)s[i] < ' ' && (tab_too || s[i] != '\t')) || s[i] == 0x7f)
			return true;
	return false;
}

/* --- one member each; @e gets the sentence, the caller adds which request it is ---- */

static int read_method(json_t *v, struct weir_check_json_request *q, struct weir_error *e)
{
	if (!json_is_string(v) || json_string_length(v) > WEIR_CHECK_JSON_METHOD_MAX ||
	    !is_token(json_string_value(v), json_string_length(v)))
		return weir_error_set(
			e, -EINVAL,
			"method is no HTTP method (a string like \"GET\", at most %d bytes)",
			WEIR_CHECK_JSON_METHOD_MAX);
	q->method = json_string_value(v);
	return 0;
}

static int read_path(json_t *v, struct weir_check_json_request *q, struct weir_error *e)
{
	const char *s = json_string_value(v);

	if (!s || *s != '/' || json_string_length(v) > WEIR_CHECK_JSON_PATH_MAX ||
	    has_control(s, json_string_length(v), true))
		return weir_error_set(e, -EINVAL,
				      "path is none (a string that begins with '/', without "
				      "control characters, at most %d bytes)",
				      WEIR_CHECK_JSON_PATH_MAX);
	q->path = s;
	return 0;
}

static int read_ip(json_t *v, struct weir_check_json_request *q, struct weir_error *e)
{
	const char *s = json_string_value(v);
	struct weir_prefix p;

	if (!s)
		return weir_error_set(e, -EINVAL,
				      "ip is no string (\"192.0.2.1\" or \"2001:db8::1\")");
	if (strchr(s, '/') || weir_prefix_parse(s, json_string_length(v), false, &p) < 0)
		return weir_error_set(e, -EINVAL,
				      "ip: \"%s\" is no address (one IPv4 or IPv6 address, without "
				      "port or length)",
				      show(s).text);
	q->ip = p.addr;
	q->family = p.family;
	return 0;
}

static int read_cost(json_t *v, struct weir_check_json_request *q, struct weir_error *e)
{
	json_int_t cost = json_integer_value(v);

	if (!json_is_integer(v) || cost < 1 || (__u64)cost > WEIR_CHECK_JSON_COST_MAX)
		return weir_error_set(e, -EINVAL, "cost is no whole number from 1 to %llu",
				      WEIR_CHECK_JSON_COST_MAX);
	q->cost = (__u64)cost;
	return 0;
}

static int read_header(const char *name, json_t *v, struct weir_check_json_request *q,
		       struct weir_check_json_header *list, struct weir_error *e)
{
	const char *s = json_string_value(v);

	if (!is_token(name, strlen(name)))
		return weir_error_set(e, -EINVAL,
				      "headers: \"%s\" is no header name (letters, digits and '-')",
				      show(name).text);
	if (!s || has_control(s, json_string_length(v), false))
		return weir_error_set(e, -EINVAL,
				      "headers: %s is no string without control characters",
				      show(name).text);
	for (size_t i = 0; i < q->n_headers; i++)
		if (strcasecmp(list[i].name, name) == 0)
			return weir_error_set(
				e, -EINVAL,
				"headers: %s is there twice (once, lines joined by a comma)",
				show(name).text);
	list[q->n_headers++] = (struct weir_check_json_header){name, s};
	return 0;
}

static int read_headers(json_t *v, struct weir_check_json_request *q, struct weir_error *e)
{
	struct weir_check_json_header *list;
	const char *name;
	json_t *value;
	int r;

	if (!json_is_object(v) || json_object_size(v) > WEIR_CHECK_JSON_HEADERS_MAX)
		return weir_error_set(e, -EINVAL, "headers is no object of at most %d strings",
				      WEIR_CHECK_JSON_HEADERS_MAX);
	list = calloc(json_object_size(v) + 1, sizeof(*list));
	if (!list)
		return weir_error_set(e, -ENOMEM, "out of memory");
	q->headers = list;
	json_object_foreach(v, name, value) {
		r = read_header(name, value, q, list, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_member(const char *key, json_t *v, struct weir_check_json_request *q,
		       struct weir_error *e)
{
	if (strcmp(key, "method") == 0)
		return read_method(v, q, e);
	if (strcmp(key, "path") == 0)
		return read_path(v, q, e);
	if (strcmp(key, "ip") == 0)
		return read_ip(v, q, e);
	if (strcmp(key, "headers") == 0)
		return read_headers(v, q, e);
	if (strcmp(key, "cost") == 0)
		return read_cost(v, q, e);
	if (strcmp(key, "peek") != 0)
		return weir_error_set(e, -EINVAL, "\"%s\" is not known (" MEMBERS ")",
				      show(key).text);
	if (!json_is_boolean(v))
		return weir_error_set(e, -EINVAL, "peek is neither true nor false");
	q->peek = json_is_true(v);
	return 0;
}

static int read_request(json_t *j, struct weir_check_json_request *q, struct weir_error *e)
{
	const char *key;
	json_t *value;
	int r;

	if (!json_is_object(j))
		return weir_error_set(e, -EINVAL, "a request is no object (with " MEMBERS ")");
	json_object_foreach(j, key, value) {
		r = read_member(key, value, q, e);
		if (r < 0)
			return r;
	}
	if (!q->method || !q->path)
		return weir_error_set(e, -EINVAL, "%s is missing (it is required)",
				      q->method ? "path" : "method");
	return 0;
}

static int read_all(json_t *root, struct weir_check_json *c, struct weir_error *e)
{
	size_t n = json_is_array(root) ? json_array_size(root) : 1;
	int r;

	c->is_list = json_is_array(root);
	if (n == 0 || n > WEIR_CHECK_JSON_BATCH_MAX)
		return weir_error_set(e, -EINVAL, "the list has %zu requests (1 to %d)", n,
				      WEIR_CHECK_JSON_BATCH_MAX);
	c->requests = calloc(n, sizeof(*c->requests));
	if (!c->requests)
		return weir_error_set(e, -ENOMEM, "out of memory");
	c->n = n;
	for (size_t i = 0; i < n; i++) {
		r = read_request(c->is_list ? json_array_get(root, i) : root, &c->requests[i], e);
		if (r < 0)
			return c->is_list
				       ? weir_error_prefix(e, r, "request %zu of the list", i + 1)
				       : r;
	}
	return 0;
}

int weir_check_json_parse(const char *body, size_t n, struct weir_check_json **ret,
			  struct weir_error *ret_error)
{
	_cleanup_(weir_check_json_freep) struct weir_check_json *c = NULL;
	json_error_t error;
	int r;

	if (n > WEIR_CHECK_JSON_BODY_MAX)
		return weir_error_set(ret_error, -E2BIG, "the body is too long (at most %d bytes)",
				      WEIR_CHECK_JSON_BODY_MAX);
	if (is_too_deep(body, n))
		return weir_error_set(ret_error, -EINVAL,
				      "the body is nested too deeply (at most %d levels)",
				      WEIR_CHECK_JSON_DEPTH_MAX);
	c = calloc(1, sizeof(*c));
	if (!c)
		return weir_error_set(ret_error, -ENOMEM, "out of memory");
	c->owned = json_loadb(body, n, JSON_REJECT_DUPLICATES, &error);
	if (!c->owned)
		return weir_error_set(ret_error, -EINVAL,
				      "the body is no JSON: line %d, column %d: %s", error.line,
				      error.column, show(error.text).text);
	r = read_all(c->owned, c, ret_error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

/* --- the answer ---- */

#define RESULT_MAX                                                                                 \
	512 /* bytes of one result without its limits, and of one limit: names 64, numbers 20 */
#define LIMIT_MAX 320

static void put_bool(struct weir_put *p, const char *key, bool v)
{
	weir_put_text(p, key);
	weir_put_text(p, v ? "true" : "false");
}

static void put_name(struct weir_put *p, const char *key, const char *name)
{
	weir_put_text(p, key);
	weir_put_text(p, name ? "\"" : "null");
	weir_put_text(p, name ? name : "");
	weir_put_text(p, name ? "\"" : "");
}

static void put_number(struct weir_put *p, const char *key, bool known, __u64 v)
{
	weir_put_text(p, key);
	if (known)
		weir_put_u64(p, v < WEIR_ANSWER_QUANTITY_MAX ? v : WEIR_ANSWER_QUANTITY_MAX);
	else
		weir_put_text(p, "null");
}

/* One limit by itself, with the same rounding as the whole. */
static void put_limit(struct weir_put *p, const struct weir_answer_limit *l)
{
	bool allowed = l->outcome == WEIR_ANSWER_ADMITTED;
	bool no_key = l->outcome == WEIR_ANSWER_NO_KEY;
	bool counted = l->outcome != WEIR_ANSWER_NO_STORE && !no_key;
	bool waits = !allowed && !no_key && l->outcome != WEIR_ANSWER_TOO_LARGE;
	__u64 reset_s = weir_answer_seconds(l->reset_after_ns);
	__u64 retry_s = weir_answer_seconds(l->retry_after_ns);

	retry_s = retry_s ? retry_s : 1;
	if (waits && reset_s > retry_s)
		reset_s = retry_s;
	if (!allowed && !reset_s)
		reset_s = 1;
	put_name(p, "{\"name\":", l->name);
	put_bool(p, ",\"allowed\":", allowed);
	put_bool(p, ",\"monitor\":", l->monitor);
	put_number(p, ",\"limit\":", true, l->limit);
	put_number(p, ",\"remaining\":", counted,
		   l->remaining < l->limit ? l->remaining : l->limit);
	put_number(p, ",\"reset_after\":", counted, reset_s);
	put_number(p, ",\"retry_after\":", waits, retry_s);
	weir_put_text(p, "}");
}

static void put_result(struct weir_put *p, const struct weir_check_json_result *r)
{
	const struct weir_answer *a = r->answer;
	bool counted = a->code <= WEIR_ANSWER_COST_TOO_LARGE && a->limit;

	put_bool(p, "{\"allowed\":", a->code == WEIR_ANSWER_ALLOW);
	if (a->code != WEIR_ANSWER_ALLOW)
		put_name(p, ",\"code\":", weir_answer_code_text(a->code));
	put_name(p, ",\"limit\":", a->limit);
	put_number(p, ",\"remaining\":", counted, a->remaining);
	put_number(p, ",\"reset_after\":", counted, a->reset_s);
	put_number(p, ",\"retry_after\":", a->retry_after_s > 0, a->retry_after_s);
	if (a->would)
		put_name(p, ",\"would\":", a->would);
	weir_put_text(p, ",\"limits\":[");
	for (size_t i = 0; i < r->n_limits; i++) {
		if (i)
			weir_put_text(p, ",");
		put_limit(p, &r->limits[i]);
	}
	weir_put_text(p, "]}");
}

static bool names_ok(const struct weir_check_json_result *r)
{
	for (size_t i = 0; i < r->n_limits; i++)
		if (!weir_answer_name_ok(r->limits[i].name))
			return false;
	return true;
}

int weir_check_json_write(const struct weir_check_json_result *results, size_t n, bool is_list,
			  char **ret, size_t *ret_n)
{
	_cleanup_free_ char *text = NULL;
	struct weir_put p = {.max = 8};

	if (n == 0 || (n > 1 && !is_list))
		return -EINVAL;
	if (n > WEIR_CHECK_JSON_BATCH_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (results[i].n_limits > WEIR_ANSWER_LIMITS_MAX)
			return -E2BIG;
		if (!names_ok(&results[i]))
			return -EINVAL;
		p.max += RESULT_MAX + results[i].n_limits * LIMIT_MAX;
	}
	text = malloc(p.max);
	if (!text)
		return -ENOMEM;
	p.to = text;
	if (is_list)
		weir_put_text(&p, "[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			weir_put_text(&p, ",");
		put_result(&p, &results[i]);
	}
	weir_put_text(&p, is_list ? "]\n" : "\n");
	weir_put_bytes(&p, "", 1);
	if (p.cut)
		return -E2BIG; /* the sizes above are wrong */
	*ret_n = p.n - 1;
	*ret = TAKE_PTR(text);
	return 0;
}
