/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/check_json.h: bodies of profile json. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "user/base/cleanup.h"
#include "user/l7/check_json.h"

#define S 1000000000ull

static struct weir_check_json *good(const char *body)
{
	struct weir_check_json *c = NULL;
	struct weir_error e = {""};

	if (weir_check_json_parse(body, strlen(body), &c, &e) < 0)
		fail_msg("%s: %s", body, e.text);
	return c;
}

/* Refused, with @words in the sentence. */
static void bad_n(const char *body, size_t n, int error, const char *words)
{
	struct weir_check_json *c = NULL;
	struct weir_error e = {""};

	assert_int_equal(weir_check_json_parse(body, n, &c, &e), error);
	assert_null(c);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, e.text);
	for (const char *p = e.text; *p; p++)
		assert_true(*p >= ' ' && *p <= '~');
}

static void bad(const char *body, const char *words)
{
	bad_n(body, strlen(body), -EINVAL, words);
}

static void one_request_is_read(void **state)
{
	_cleanup_(weir_check_json_freep) struct weir_check_json *c = good(
		"{\"method\":\"POST\",\"path\":\"/a?b=%41\",\"ip\":\"2001:db8::1\",\"headers\":"
		"{\"X-Api-Key\":\"k\\tk\",\"user-agent\":\"caf\xc3\xa9\"},\"cost\":7,\"peek\":"
		"true}");
	const struct weir_check_json_request *q = &c->requests[0];

	(void)state;
	assert_int_equal(c->n, 1);
	assert_false(c->is_list);
	assert_string_equal(q->method, "POST");
	assert_string_equal(q->path, "/a?b=%41");
	assert_int_equal(q->family, 6);
	assert_int_equal(q->ip.ip[15], 1);
	assert_int_equal(q->n_headers, 2);
	assert_string_equal(q->headers[0].name, "X-Api-Key");
	assert_string_equal(q->headers[0].value, "k\tk");
	assert_string_equal(q->headers[1].value, "caf\xc3\xa9");
	assert_true(q->cost == 7);
	assert_true(q->peek);
}

static void what_is_absent_has_its_default(void **state)
{
	_cleanup_(weir_check_json_freep) struct weir_check_json *c =
		good(" [{\"method\":\"GET\",\"path\":\"/\",\"ip\":\"::ffff:192.0.2.1\"},"
		     "{\"method\":\"GET\",\"path\":\"/\",\"headers\":{}}]");

	(void)state;
	assert_true(c->is_list);
	assert_int_equal(c->n, 2);
	assert_int_equal(c->requests[0].family, 4); /* a mapped address is IPv4 */
	assert_int_equal(c->requests[1].family, 0);
	assert_true(c->requests[1].cost == 0);
	assert_false(c->requests[1].peek);
	assert_int_equal(c->requests[1].n_headers, 0);
}

static void mistakes_are_named(void **state)
{
#define R "{\"method\":\"GET\",\"path\":\"/\""
	static const struct {
		const char *body, *words;
	} cases[] = {
		{"", "no JSON"},
		{"{", "no JSON: line 1"},
		{R "} x", "no JSON"},
		{"7", "no JSON"},
		{"null", "no JSON"},
		{"[]", "0 requests"},
		{"[7]", "request 1 of the list: a request is no object"},
		{"[" R "}," R ",\"x\":1}]",
		 "request 2 of the list: \"x\" is not known (method, path"},
		{"{\"path\":\"/\"}", "method is missing"},
		{"{\"method\":\"GET\"}", "path is missing"},
		{R ",\"Method\":\"GET\"}", "\"Method\" is not known"},
		{R ",\"cost\":1,\"cost\":2}", "duplicate object key"},
		{R ",\"\xc3\xa9\\n\":1}", "\"???\" is not known"},
		{"{\"method\":1,\"path\":\"/\"}", "method is no HTTP method"},
		{"{\"method\":\"\",\"path\":\"/\"}", "method is no HTTP method"},
		{"{\"method\":\"G T\",\"path\":\"/\"}", "method is no HTTP method"},
		{"{\"method\":\"G\\r\\n\",\"path\":\"/\"}", "method is no HTTP method"},
		{"{\"method\":\"GET\",\"path\":\"\"}", "begins with '/'"},
		{"{\"method\":\"GET\",\"path\":\"http://x/\"}", "begins with '/'"},
		{"{\"method\":\"GET\",\"path\":\"/\\n\"}", "begins with '/'"},
		{"{\"method\":\"GET\",\"path\":\"/\\u0000\"}", "no JSON"},
		{R ",\"ip\":4}", "ip is no string"},
		{R ",\"ip\":\"\"}", "no address"},
		{R ",\"ip\":\"192.0.2.1:80\"}", "\"192.0.2.1:80\" is no address"},
		{R ",\"ip\":\"192.0.2.1/32\"}", "no address"},
		{R ",\"ip\":\"192.0.2.1 \"}", "no address"},
		{R ",\"cost\":0}", "cost is no whole number from 1 to 9007199254740991"},
		{R ",\"cost\":-1}", "cost is no whole number"},
		{R ",\"cost\":1.0}", "cost is no whole number"},
		{R ",\"cost\":\"1\"}", "cost is no whole number"},
		{R ",\"cost\":true}", "cost is no whole number"},
		{R ",\"cost\":9007199254740992}", "cost is no whole number"},
		{R ",\"cost\":99999999999999999999}", "no JSON"},
		{R ",\"peek\":1}", "peek is neither"},
		{R ",\"peek\":null}", "peek is neither"},
		{R ",\"headers\":[]}", "headers is no object"},
		{R ",\"headers\":{\"a\":1}}", "headers: a is no string"},
		{R ",\"headers\":{\"a\":[\"b\"]}}", "headers: a is no string"},
		{R ",\"headers\":{\"\":\"b\"}}", "no header name"},
		{R ",\"headers\":{\"a b\":\"b\"}}", "\"a b\" is no header name"},
		{R ",\"headers\":{\"a:\":\"b\"}}", "no header name"},
		{R ",\"headers\":{\"a\":\"b\\r\\nc: d\"}}", "without control characters"},
		{R ",\"headers\":{\"a\":\"\\u007f\"}}", "without control characters"},
		{R ",\"headers\":{\"aB\":\"1\",\"Ab\":\"2\"}}", "Ab is there twice"},
		{R ",\"headers\":{\"a\":\"\xff\"}}", "no JSON"},
		{R ",\"headers\":{\"a\":\"\xed\xa0\x80\"}}", "no JSON"}, /* a surrogate */
		{R ",\"headers\":{\"a\":\"\xc0\xaf\"}}", "no JSON"},	 /* overlong */
		{R ",\"headers\":{\"a\":{\"b\":[{}]}}}", "nested too deeply"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		bad(cases[i].body, cases[i].words);
}

static void sizes_are_bounded(void **state)
{
	static char big[WEIR_CHECK_JSON_BODY_MAX + 2];
	_cleanup_free_ char *text = NULL;
	struct weir_check_json *c;
	size_t n;
	FILE *f;

	(void)state;
	memset(big, ' ', sizeof(big));
	bad_n(big, WEIR_CHECK_JSON_BODY_MAX + 1, -E2BIG, "too long (at most 262144 bytes)");
	bad_n(big, WEIR_CHECK_JSON_BODY_MAX, -EINVAL, "no JSON");
	memset(big, '[', sizeof(big));
	bad_n(big, WEIR_CHECK_JSON_BODY_MAX, -EINVAL, "nested too deeply");
	for (int extra = 0; extra < 2; extra++) {
		f = open_memstream(&text, &n);
		assert_non_null(f);
		for (int i = 0; i < WEIR_CHECK_JSON_BATCH_MAX + extra; i++)
			(void)fprintf(f, "%s" R "}", i ? "," : "[");
		(void)fputc(']', f);
		(void)fclose(f);
		if (extra) {
			bad(text, "257 requests (1 to 256)");
		} else {
			c = good(text);
			assert_int_equal(c->n, WEIR_CHECK_JSON_BATCH_MAX);
			weir_check_json_free(c);
		}
		free(TAKE_PTR(text));
	}
	f = open_memstream(&text, &n);
	assert_non_null(f);
	(void)fprintf(f, R ",\"headers\":{");
	for (int i = 0; i < WEIR_CHECK_JSON_HEADERS_MAX + 1; i++)
		(void)fprintf(f, "%s\"h%d\":\"\"", i ? "," : "", i);
	(void)fprintf(f, "}}");
	(void)fclose(f);
	bad(text, "at most 64 strings");
}

static void brackets_in_strings_are_no_depth(void **state)
{
	_cleanup_(weir_check_json_freep) struct weir_check_json *c =
		good("{\"method\":\"GET\",\"path\":\"/[[[[[{{{\\\"[[[[\\\\\"}");

	(void)state;
	assert_string_equal(c->requests[0].path, "/[[[[[{{{\"[[[[\\");
}

static void every_cut_is_refused(void **state)
{
	static const char body[] =
		"[" R ",\"ip\":\"192.0.2.1\",\"headers\":{\"a\":\"\xc3\xa9\"},\"cost\":3}]";

	(void)state;
	weir_check_json_free(good(body));
	for (size_t n = 0; n < sizeof(body) - 1; n++) {
		_cleanup_free_ char *exact =
			malloc(n ? n : 1); /* so that a sanitizer sees one byte more */

		assert_non_null(exact);
		memcpy(exact, body, n);
		bad_n(exact, n, -EINVAL, "");
	}
}

static void answers_agree_with_the_headers(void **state)
{
	struct weir_answer_limit l[] = {
		{.name = "login",
		 .outcome = WEIR_ANSWER_EXCEEDED,
		 .limit = 5,
		 .retry_after_ns = 19 * S,
		 .reset_after_ns = 18 * S + 1},
		{.name = "api", .limit = 60, .remaining = 59, .reset_after_ns = S},
		{.name = "gone", .monitor = true, .outcome = WEIR_ANSWER_NO_STORE, .limit = 9},
	};
	struct weir_answer a, b;
	struct weir_check_json_result r[] = {{&a, l, 3}, {&b, NULL, 0}};
	_cleanup_free_ char *text = NULL;
	size_t n;

	(void)state;
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, l, 3, &a), 0);
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, NULL, 0, &b), 0);
	assert_int_equal(weir_check_json_write(r, 2, true, &text, &n), 0);
	assert_int_equal(n, strlen(text));
	assert_string_equal(
		text,
		"[{\"allowed\":false,\"code\":\"RATE_LIMITED\",\"limit\":\"login\",\"remaining\":0,"
		"\"reset_after\":19,\"retry_after\":19,\"limits\":["
		"{\"name\":\"login\",\"allowed\":false,\"monitor\":false,\"limit\":5,\"remaining\":"
		"0,"
		"\"reset_after\":19,\"retry_after\":19},"
		"{\"name\":\"api\",\"allowed\":true,\"monitor\":false,\"limit\":60,\"remaining\":"
		"59,"
		"\"reset_after\":1,\"retry_after\":null},"
		"{\"name\":\"gone\",\"allowed\":false,\"monitor\":true,\"limit\":9,\"remaining\":"
		"null,"
		"\"reset_after\":null,\"retry_after\":1}]},"
		"{\"allowed\":true,\"limit\":null,\"remaining\":null,\"reset_after\":null,"
		"\"retry_after\":null,\"limits\":[]}]\n");
}

static void monitor_says_would(void **state)
{
	struct weir_answer_limit l = {.name = "trial",
				      .monitor = true,
				      .outcome = WEIR_ANSWER_EXCEEDED,
				      .limit = 1};
	_cleanup_free_ char *text = NULL;
	struct weir_answer a;
	size_t n;

	(void)state;
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, &l, 1, &a), 0);
	assert_int_equal(weir_check_json_write(&(struct weir_check_json_result){&a, &l, 1}, 1,
					       false, &text, &n),
			 0);
	assert_int_equal(strncmp(text, "{\"allowed\":true,\"limit\":null,", 29), 0);
	assert_non_null(strstr(text, "\"would\":\"trial\""));
}

static void a_refusal_without_a_count_has_none(void **state)
{
	struct weir_answer_limit l = {.name = "keyed", .outcome = WEIR_ANSWER_NO_KEY, .limit = 7};
	struct weir_answer a, b, c;
	struct weir_check_json_result r[] = {{&a, &l, 1}, {&b, NULL, 0}, {&c, NULL, 0}};
	_cleanup_free_ char *text = NULL;
	size_t n;

	(void)state;
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, &l, 1, &a), 0);
	weir_answer_refuse(WEIR_ANSWER_JSON, WEIR_ANSWER_BAD_REQUEST, "bad-path", &b);
	weir_answer_refuse(WEIR_ANSWER_JSON, WEIR_ANSWER_SHUTTING_DOWN, "shutting-down", &c);
	assert_int_equal(weir_check_json_write(r, 3, true, &text, &n), 0);
	assert_string_equal(
		text,
		"[{\"allowed\":false,\"code\":\"KEY_MISSING\",\"limit\":\"keyed\",\"remaining\":"
		"null,"
		"\"reset_after\":null,\"retry_after\":null,\"limits\":["
		"{\"name\":\"keyed\",\"allowed\":false,\"monitor\":false,\"limit\":7,\"remaining\":"
		"null,\"reset_after\":null,\"retry_after\":null}]},"
		"{\"allowed\":false,\"code\":\"BAD_REQUEST\",\"limit\":\"bad-path\",\"remaining\":"
		"null,\"reset_after\":null,\"retry_after\":null,\"limits\":[]},"
		"{\"allowed\":false,\"code\":\"SHUTTING_DOWN\",\"limit\":\"shutting-down\","
		"\"remaining\":null,\"reset_after\":null,\"retry_after\":1,\"limits\":[]}]\n");
}

static void the_longest_answer_fits(void **state)
{
	static char name[WEIR_ANSWER_NAME_MAX];
	static struct weir_answer_limit l[WEIR_ANSWER_LIMITS_MAX];
	static struct weir_check_json_result r[WEIR_CHECK_JSON_BATCH_MAX + 1];
	static struct weir_answer a;
	_cleanup_free_ char *text = NULL;
	json_t *j;
	size_t n;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	for (size_t i = 0; i < ARRAY_LEN(l); i++)
		l[i] = (struct weir_answer_limit){.name = name,
						  .outcome = WEIR_ANSWER_EXCEEDED,
						  .limit = ~0ull,
						  .remaining = ~0ull,
						  .reset_after_ns = ~0ull,
						  .retry_after_ns = ~0ull};
	assert_int_equal(weir_answer_make(WEIR_ANSWER_JSON, l, ARRAY_LEN(l), &a), 0);
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		r[i] = (struct weir_check_json_result){&a, l, ARRAY_LEN(l)};
	assert_int_equal(weir_check_json_write(r, ARRAY_LEN(r) - 1, true, &text, &n), 0);
	j = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	assert_int_equal(json_array_size(j), WEIR_CHECK_JSON_BATCH_MAX);
	json_decref(j);
	assert_int_equal(weir_check_json_write(r, ARRAY_LEN(r), true, &text, &n), -E2BIG);
	assert_int_equal(weir_check_json_write(r, 2, false, &text, &n), -EINVAL);
	assert_int_equal(weir_check_json_write(r, 0, true, &text, &n), -EINVAL);
	l[3].name = "a\"b";
	assert_int_equal(weir_check_json_write(r, 1, true, &text, &n), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_request_is_read),
		cmocka_unit_test(what_is_absent_has_its_default),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(brackets_in_strings_are_no_depth),
		cmocka_unit_test(every_cut_is_refused),
		cmocka_unit_test(answers_agree_with_the_headers),
		cmocka_unit_test(monitor_says_would),
		cmocka_unit_test(a_refusal_without_a_count_has_none),
		cmocka_unit_test(the_longest_answer_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
