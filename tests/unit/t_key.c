/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/key.h: which requests share a key, and that nothing else does. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "tests/lib/prefix.h"
#include "user/base/cleanup.h"
#include "user/l7/key.h"
#include "user/l7/path.h"

static struct weir_key_context context;
static struct weir_header_list headers;
static struct weir_prefix client;
static struct weir_key_request request;

static void add(const char *name, const char *value)
{
	assert_int_equal(weir_header_list_add(&headers, weir_text_of(name), weir_text_of(value)),
			 0);
}

static int plain_request(void **state)
{
	(void)state;
	context = (struct weir_key_context){.secret = "0123456789abcdef0123456789abcde"};
	assert_int_equal(weir_key_part_parse("header:X-API-Key", &context.api_key[0], NULL), 0);
	assert_int_equal(weir_key_part_parse("query:api_key", &context.api_key[1], NULL), 0);
	context.n_api_key = 2;
	headers.n = 0;
	client = prefix_of("192.0.2.1");
	request = (struct weir_key_request){.headers = &headers,
					    .client = &client,
					    .method = weir_text_of("GET"),
					    .path = weir_text_of("/a"),
					    .host = weir_text_of("example.com"),
					    .endpoint = weir_text_of("/a/*")};
	return 0;
}

/* "a b, c" is {any: [[a, b], c]}. */
static struct weir_key_spec spec_of(const char *text)
{
	struct weir_key_spec s = {.ipv4_prefix = 32, .ipv6_prefix = 64};
	struct weir_error e = {.text = ""};
	char buf[WEIR_KEY_NAME_MAX + 16];

	s.n = 1;
	while (*text) {
		struct weir_key_choice *c = &s.choice[s.n - 1];
		size_t n = strcspn(text, " ,");

		if (n) {
			assert_true(n < sizeof(buf));
			memcpy(buf, text, n);
			buf[n] = '\0';
			if (weir_key_part_parse(buf, &c->part[c->n++], &e) < 0)
				fail_msg("%s", e.text);
		}
		s.n += text[n] == ',';
		text += n + (text[n] != '\0');
	}
	return s;
}

static struct weir_key key_of(const char *text)
{
	struct weir_key_spec s = spec_of(text);
	struct weir_key k = {.client_chosen = false};

	assert_int_equal(weir_key_build(&s, &context, &request, &k), 0);
	return k;
}

static bool same(struct weir_key a, struct weir_key b)
{
	return memcmp(a.byte, b.byte, sizeof(a.byte)) == 0;
}

static void parts_are_parsed_or_explained(void **state)
{
	static const char *const good[] = {"ip",	 "user",     "api-key",	 "token",
					   "user-agent", "endpoint", "path",	 "host",
					   "global",	 "method",   "header:X", "cookie:sid",
					   "query:a b"};
	static const char *const bad[] = {"",		"IP",	  "ipp",     "ip:",
					  "ip:x",	"header", "header:", "header:a b",
					  "cookie:a;b", "query:", ":x",	     "header:a:b"};
	struct weir_key_part p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(weir_key_part_parse(good[i], &p, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct weir_error e = {.text = ""};

		assert_int_equal(weir_key_part_parse(bad[i], &p, &e), -EINVAL);
		assert_true(e.text[0]);
	}
}

static void addresses_count_by_their_prefix(void **state)
{
	struct weir_key a, b, c;

	(void)state;
	a = key_of("ip");
	client = prefix_of("192.0.2.2");
	assert_false(same(a, key_of("ip")));
	client = prefix_of("::ffff:192.0.2.1");
	assert_true(same(a, key_of("ip")));
	assert_false(a.client_chosen || a.fallback);
	client = prefix_of("2001:db8:0:1::1");
	b = key_of("ip");
	client = prefix_of("2001:db8:0:1:ffff::2");
	assert_true(same(b, key_of("ip")));
	client = prefix_of("2001:db8:0:2::1");
	c = key_of("ip");
	assert_false(same(b, c));
	client = prefix_of("c000:201::"); /* the bytes of 192.0.2.1 */
	assert_false(same(a, key_of("ip")));
}

static void the_secret_changes_every_key(void **state)
{
	struct weir_key a = key_of("ip"), b = key_of("global");

	(void)state;
	context.secret[31] ^= 1;
	assert_false(same(a, key_of("ip")));
	assert_false(same(b, key_of("global")));
}

static void the_first_choice_that_is_there_is_taken(void **state)
{
	const char *any = "api-key, token, ip user-agent";
	struct weir_key k;

	(void)state;
	k = key_of(any); /* nothing at all: missing: ip */
	assert_true(k.fallback && !k.client_chosen);
	assert_true(same(k, key_of("ip")));
	add("User-Agent", "curl");
	assert_true(same(key_of(any), key_of("ip user-agent")));
	assert_true(key_of(any).client_chosen);
	add("Authorization", "Bearer t");
	assert_true(same(key_of(any), key_of("token")));
	request.query = weir_text_of("api_key=k");
	assert_true(same(key_of(any), key_of("api-key")));
	k = key_of("api-key");
	add("x-api-key", "k"); /* the same key, wherever it is written */
	assert_true(same(k, key_of("api-key")));
	request.query = weir_text_of("api_key=other");
	assert_true(same(k, key_of("api-key")));
}

static void missing_says_what_happens(void **state)
{
	struct weir_key_spec s = spec_of("api-key");
	struct weir_key k = {.byte = {7}};

	(void)state;
	add("X-API-Key", " "); /* empty is not there */
	s.missing = WEIR_KEY_MISSING_SKIP;
	assert_int_equal(weir_key_build(&s, &context, &request, &k), -ENOENT);
	s.missing = WEIR_KEY_MISSING_DENY;
	assert_int_equal(weir_key_build(&s, &context, &request, &k), -EACCES);
	s.missing = WEIR_KEY_MISSING_IP;
	request.client = NULL;
	assert_int_equal(weir_key_build(&s, &context, &request, &k), -EADDRNOTAVAIL);
	assert_int_equal(weir_key_build_ip(&s, &context, &request, &k), -EADDRNOTAVAIL);
	assert_int_equal(k.byte[0], 7);
	request.client = &client;
	assert_int_equal(weir_key_build(&s, &context, &request, &k), 0);
	assert_true(k.fallback);
}

/* Each header of a request that a proxy passes on as the client wrote it. */
static void forged_headers_change_no_key_of_ours(void **state)
{
	static const char *const ours[] = {"ip",     "ip endpoint", "global", "user",
					   "method", "path",	    "host"};
	static const char *const forged[][2] = {{"X-Forwarded-Uri", "/harmless"},
						{"X-Forwarded-Method", "OPTIONS"},
						{"X-Original-URL", "/harmless"},
						{"X-Original-URI", "/harmless"},
						{"X-Real-IP", "192.0.2.66"},
						{"Forwarded", "for=192.0.2.66"},
						{"X-Forwarded-For", "192.0.2.66"},
						{"X-Plan", "pro"},
						{"X-Cost", "0"},
						{"X-Weir-User", "bob"},
						{"X-Forwarded-Host", "other"},
						{"Host", "other"},
						{"X-HTTP-Method-Override", "PUT"},
						{"True-Client-IP", "192.0.2.66"}};
	struct weir_key before[ARRAY_LEN(ours)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		before[i] = key_of(ours[i]);
	for (size_t i = 0; i < ARRAY_LEN(forged); i++)
		add(forged[i][0], forged[i][1]);
	request.query = weir_text_of("deny_status=200&ip=192.0.2.66&user=bob");
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		assert_true(same(before[i], key_of(ours[i])));
}

static void only_bearer_is_a_token(void **state)
{
	static const char *const not [] = {"Basic dXNlcjpwdw==", "Bearer", "Bearer ", "Bearert",
					   "t"};
	struct weir_key k;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(not ); i++) {
		headers.n = 0;
		add("Authorization", not [i]);
		assert_true(key_of("token").fallback);
	}
	headers.n = 0;
	add("authorization", "bEARER \t t");
	k = key_of("token");
	assert_false(k.fallback);
	headers.n = 0;
	add("Authorization", "Bearer t");
	add("Authorization", "Bearer u");
	assert_true(same(k, key_of("token")));
}

static void invented_methods_make_no_keys(void **state)
{
	struct weir_key a, b;

	(void)state;
	request.method = weir_text_of("AAAA");
	a = key_of("ip endpoint");
	b = key_of("method");
	request.method = weir_text_of("BBBB");
	assert_true(same(a, key_of("ip endpoint")));
	assert_true(same(b, key_of("method")));
	request.method = weir_text_of("POST");
	assert_false(same(a, key_of("ip endpoint")));
	a = key_of("endpoint");
	request.endpoint_is_limit = true;
	assert_false(same(a, key_of("endpoint")));
}

static void cookies_are_read_as_rfc_6265_writes_them(void **state)
{
	static const struct {
		const char *line, *second;
		bool there;
	} table[] = {
		{"sid=v", NULL, true},	       {"a=b; sid=v; sid=w", NULL, true},
		{"a=b;sid=\"v\"", NULL, true}, {"a=b", "sid=v", true},
		{" sid = v ", NULL, true},     {"sid=v", "sid=w", true},
		{";;sid=v", NULL, true},       {"xsid=1; sid=v", NULL, true},
		{"sid; sid=v", NULL, true},    {"SID=v", NULL, false},
		{"sid=", NULL, false},	       {"sid=\"\"", NULL, false},
		{"a=sid=v", NULL, false},      {"", NULL, false},
		{"sid=; sid=v", NULL, false},
	};
	struct weir_key v;

	(void)state;
	add("Cookie", "sid=v");
	v = key_of("cookie:sid");
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		headers.n = 0;
		add("Cookie", table[i].line);
		if (table[i].second)
			add("cookie", table[i].second);
		if (table[i].there != same(v, key_of("cookie:sid")) ||
		    table[i].there == key_of("cookie:sid").fallback)
			fail_msg("%s", table[i].line);
	}
	headers.n = 0;
	add("Cookie", "sid=\"v"); /* one quote is part of the value */
	assert_false(same(v, key_of("cookie:sid")));
}

static void parameters_count_decoded_and_cut(void **state)
{
	static char many[2 * WEIR_KEY_QUERY_MAX] = "q=";
	struct weir_key k;

	(void)state;
	request.query = weir_text_of("q=a b");
	k = key_of("query:q");
	request.query = weir_text_of("x=1&%71=a+%62&q=c");
	assert_true(same(k, key_of("query:q")));
	request.query = weir_text_of("q=");
	assert_true(key_of("query:q").fallback);
	memset(many + 2, 'a', sizeof(many) - 2);
	request.query = (struct weir_text){many, sizeof(many)};
	k = key_of("query:q");
	many[sizeof(many) - 1] = 'b'; /* more of them make no more keys */
	assert_true(same(k, key_of("query:q")));
	many[2] = 'b';
	assert_false(same(k, key_of("query:q")));
}

static void no_separator_moves_a_border(void **state)
{
	static const char *const values[][2] = {{"a", "bc"},
						{"ab", "c"},
						{"a,b", "c"},
						{"a", "b,c"},
						{"a:b", "c"},
						{"a", "b:c"},
						{"a\x01", "b"},
						{"a", "\x01"
						      "b"},
						{"a|x-b", "c"}};
	struct weir_key keys[ARRAY_LEN(values)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		headers.n = 0;
		add("X-A", values[i][0]);
		add("X-B", values[i][1]);
		keys[i] = key_of("header:x-a header:X-B");
		assert_false(same(keys[i], key_of("header:x-b header:x-a")));
		for (size_t j = 0; j < i; j++)
			assert_false(same(keys[i], keys[j]));
	}
	headers.n = 0;
	add("X-A", "v");
	add("User-Agent", "v");
	add("Cookie", "x-a=v");
	request.query = weir_text_of("x-a=v");
	request.user = weir_text_of("v");
	assert_false(same(key_of("header:x-a"), key_of("user-agent")));
	assert_false(same(key_of("header:x-a"), key_of("cookie:x-a")));
	assert_false(same(key_of("cookie:x-a"), key_of("query:x-a")));
	assert_false(same(key_of("user"), key_of("user-agent")));
	assert_false(same(key_of("header:user-agent"), key_of("user-agent")));
	assert_true(same(key_of("header:X-A"), key_of("header:x-a")));
}

/* A value that looks as what is hashed would look with the border elsewhere: kind 13, length 1, name b. */
static void a_value_cannot_play_the_next_part(void **state)
{
	struct weir_key k;

	(void)state;
	request.query = weir_text_of("a=1&b=2%0d%01%00b3");
	k = key_of("query:a query:b");
	request.query = weir_text_of("a=1%0d%01%00b2&b=3");
	assert_false(same(k, key_of("query:a query:b")));
	request.query = weir_text_of("a=1&b=2");
	k = key_of("query:a query:b");
	request.query = weir_text_of("a=1%0d%01%00b2");
	assert_false(same(k, key_of("query:a")));
	request.query = weir_text_of("a=1%0d%01%00b%01%00%00%002");
	assert_false(same(k, key_of("query:a")));
}

struct bytes {
	unsigned char b[512];
	size_t n;
};

static void collect(void *arg, const void *bytes, size_t n)
{
	struct bytes *c = arg;

	assert_true(n <= sizeof(c->b) - c->n);
	memcpy(c->b + c->n, bytes, n);
	c->n += n;
}

/* The list as plain text, written without the code under test: kinds, names and values in hexadecimal. */
struct entry {
	struct bytes input;
	char list[256];
};

static __u32 next_random(__u32 *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static int by_input(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->input.n != y->input.n)
		return x->input.n < y->input.n ? -1 : 1;
	return memcmp(x->input.b, y->input.b, x->input.n);
}

static void random_list(__u32 *x, struct weir_key_spec *spec, struct entry *e, char value[4][4])
{
	static const char *const names[] = {"a", "b", "ab", "ba"};
	struct weir_key_choice *c = &spec->choice[0];
	size_t n = 0;

	c->n = 1 + next_random(x) % 3;
	for (size_t i = 0; i < c->n; i++) {
		unsigned name = next_random(x) % 4;
		bool is_header = next_random(x) & 1;

		c->part[i] = (struct weir_key_part){.kind = is_header ? WEIR_KEY_HEADER
								      : WEIR_KEY_QUERY};
		(void)snprintf(c->part[i].name, WEIR_KEY_NAME_MAX, "%s", names[name]);
		n += (size_t)snprintf(e->list + n, sizeof(e->list) - n, "[%d %s %s]", is_header,
				      names[name], value[name]);
	}
}

static void two_lists_of_parts_are_never_one_input(void **state)
{
	enum { N = 4000 };
	static const char *const names[] = {"a", "b", "ab", "ba"};
	static const char letter[] = "ab\x01\x02";
	_cleanup_free_ struct entry *e = calloc(N, sizeof(*e));
	struct weir_key_spec spec = {.n = 1};
	__u32 x = 1;

	(void)state;
	assert_non_null(e);
	for (size_t i = 0; i < N; i++) {
		char value[4][4] = {{0}}, query[64] = "";
		size_t n = 0;

		headers.n = 0;
		for (unsigned v = 0; v < 4; v++) {
			for (unsigned l = 1 + next_random(&x) % 3; l; l--)
				value[v][l - 1] = letter[next_random(&x) % 4];
			if (!value[v][0])
				value[v][0] = 'a';
			add(names[v], value[v]);
			n += (size_t)snprintf(query + n, sizeof(query) - n, "%s=%s&", names[v],
					      value[v]);
		}
		request.query = weir_text_of(query);
		random_list(&x, &spec, &e[i], value);
		assert_int_equal(weir_key_feed(&spec, &spec.choice[0], &context, &request, collect,
					       &e[i].input),
				 0);
	}
	qsort(e, N, sizeof(*e), by_input);
	for (size_t i = 1; i < N; i++) {
		if (by_input(&e[i - 1], &e[i]) == 0)
			assert_string_equal(e[i - 1].list, e[i].list);
		else
			assert_true(strcmp(e[i - 1].list, e[i].list) != 0);
	}
}

static void nothing_is_fed_for_a_list_that_is_not_there(void **state)
{
	struct weir_key_spec spec = spec_of("ip header:x");
	struct bytes b = {.n = 0};

	(void)state;
	assert_int_equal(weir_key_feed(&spec, &spec.choice[0], &context, &request, collect, &b),
			 -ENOENT);
	assert_int_equal(b.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(parts_are_parsed_or_explained, plain_request),
		cmocka_unit_test_setup(addresses_count_by_their_prefix, plain_request),
		cmocka_unit_test_setup(the_secret_changes_every_key, plain_request),
		cmocka_unit_test_setup(the_first_choice_that_is_there_is_taken, plain_request),
		cmocka_unit_test_setup(missing_says_what_happens, plain_request),
		cmocka_unit_test_setup(forged_headers_change_no_key_of_ours, plain_request),
		cmocka_unit_test_setup(only_bearer_is_a_token, plain_request),
		cmocka_unit_test_setup(invented_methods_make_no_keys, plain_request),
		cmocka_unit_test_setup(cookies_are_read_as_rfc_6265_writes_them, plain_request),
		cmocka_unit_test_setup(parameters_count_decoded_and_cut, plain_request),
		cmocka_unit_test_setup(no_separator_moves_a_border, plain_request),
		cmocka_unit_test_setup(a_value_cannot_play_the_next_part, plain_request),
		cmocka_unit_test_setup(two_lists_of_parts_are_never_one_input, plain_request),
		cmocka_unit_test_setup(nothing_is_fed_for_a_list_that_is_not_there, plain_request),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
