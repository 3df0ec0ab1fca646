/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/l7/path.h: spellings of one target are one target, for patterns and for requests. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/cleanup.h"
#include "user/l7/path.h"

static const struct weir_path_options defaults;
static struct weir_path path;

static void assert_text(struct weir_text t, const char *want)
{
	char buf[8192];

	assert_true(t.n < sizeof(buf));
	if (t.n)
		memcpy(buf, t.p, t.n);
	buf[t.n] = '\0';
	assert_string_equal(buf, want);
}

static void assert_normal(const char *target, const struct weir_path_options *o, const char *want)
{
	assert_int_equal(weir_path_read(weir_text_of(target), o, &path), 0);
	assert_text(weir_path_text(&path, 0), want);
}

static void spellings_have_one_normal_form(void **state)
{
	static const char *const table[][2] = {
		{"/", "/"},
		{"//", "/"},
		{"/a/b", "/a/b"},
		{"//a///b/", "/a/b"},
		{"/a/./b/.", "/a/b"},
		{"/a/b/../c", "/a/c"},
		{"/a/b/..", "/a"},
		{"/..", "/"},
		{"/../../a", "/a"},
		{"/a/..b/...", "/a/..b/..."},
		{"/%61%70%69/log%69n", "/api/login"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/.%2e/b", "/b"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%5cb", "/a%5Cb"},
		{"/a\\b", "/a%5Cb"},
		{"/a%3bx", "/a%3Bx"},
		{"/a%252fb", "/a%252fb"},
		{"/a%7Eb", "/a~b"},
		{"/a%40b%21", "/a@b!"},
		{"/a b", "/a%20b"},
		{"/\xc3\xa9", "/%C3%A9"},
		{"/%c3%a9", "/%C3%A9"},
		{"/a;x=1/b;y", "/a/b"},
		{"/a/..;/b", "/b"},
		{"/a/;x/b", "/a/b"},
		{"/A/b", "/A/b"},
		{"/a%3Fb%23", "/a%3Fb%23"},
		{"/a?x=/../", "/a"},
		{"/a#f?x", "/a"},
		{"http://example.com/a/", "/a"},
		{"HTTPS://u@[::1]:80", "/"},
		{"http://example.com?x", "/"},
		{"*", "*"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		assert_normal(table[i][0], &defaults, table[i][1]);
}

static void options_keep_what_they_say(void **state)
{
	const struct weir_path_options fold = {.fold_case = true}, keep = {.keep_params = true},
				       slash = {.slash_distinct = true};

	(void)state;
	assert_normal("/API/%4Cogin%2fX", &fold, "/api/login%2Fx");
	assert_normal("/a;x=1/b", &keep, "/a;x=1/b");
	assert_normal("/a%3Bx", &keep, "/a%3Bx");
	assert_normal("/a/", &slash, "/a/");
	assert_normal("/a//", &slash, "/a/");
	assert_normal("/a", &slash, "/a");
	assert_normal("/a/b/..", &slash, "/a/");
	assert_normal("/a/.", &slash, "/a/");
	assert_normal("//", &slash, "/");
}

static void what_is_no_target_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  "a",
					  "?x",
					  "#",
					  "/%00",
					  "/a%0ab",
					  "/\x01",
					  "/\x7f",
					  "/%7f",
					  "/%",
					  "/%4",
					  "/%zz",
					  "/a%2",
					  "host:443",
					  "http:/a",
					  "http://",
					  "http:///a",
					  "://h/a",
					  "http://h\\x/a",
					  "http://h h/",
					  "**",
					  "/a/%1f/.."};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(weir_path_read(weir_text_of(bad[i]), &defaults, &path), -EBADMSG);
		assert_int_equal(path.n, 0);
	}
	assert_int_equal(weir_path_read((struct weir_text){"/a\0b", 4}, &defaults, &path),
			 -EBADMSG);
}

static void length_is_bounded_raw_and_normal(void **state)
{
	static char buf[WEIR_PATH_MAX + 2];

	(void)state;
	memset(buf, 'a', sizeof(buf));
	buf[0] = '/';
	assert_int_equal(weir_path_read((struct weir_text){buf, WEIR_PATH_MAX - 1}, &defaults,
					&path),
			 0);
	assert_int_equal(weir_path_read((struct weir_text){buf, WEIR_PATH_MAX + 1}, &defaults,
					&path),
			 -ENAMETOOLONG);
	memset(buf + 1, ' ', WEIR_PATH_MAX / 2); /* three times as long */
	assert_int_equal(weir_path_read((struct weir_text){buf, WEIR_PATH_MAX}, &defaults, &path),
			 -ENAMETOOLONG);
	buf[1] = '?'; /* a query has no part in it */
	assert_int_equal(weir_path_read((struct weir_text){buf, sizeof(buf)}, &defaults, &path), 0);
	assert_text(weir_path_text(&path, 0), "/");
}

static void query_and_authority_are_split_off(void **state)
{
	(void)state;
	assert_normal("http://Example.com:80/a?x=1?#f", &defaults, "/a");
	assert_text(path.authority, "Example.com:80");
	assert_text(path.query, "x=1?");
	assert_normal("/a", &defaults, "/a");
	assert_int_equal(path.authority.n, 0);
	assert_int_equal(path.query.n, 0);
}

/* As limits ask, and as exemptions do. */
enum rule { ANY, ALL };

static bool matches(const struct weir_path_pattern *p, const struct weir_path *read, enum rule rule)
{
	unsigned n = 0;

	for (unsigned i = 0; i < read->n; i++)
		n += weir_path_matches_reading(p, read, i);
	return rule == ANY ? n > 0 : n && n == read->n;
}

static bool login_matches(const char *target, enum rule rule)
{
	struct weir_path_pattern p;
	bool r;

	assert_int_equal(weir_path_pattern_parse("/api/auth/login", &defaults, &p, NULL), 0);
	assert_int_equal(weir_path_read(weir_text_of(target), &defaults, &path), 0);
	r = matches(&p, &path, rule);
	weir_path_pattern_done(&p);
	return r;
}

/* Whatever the server behind reads as the login meets the login's limit. */
static void no_spelling_dodges_a_limit(void **state)
{
	static const char *const dodges[] = {
		"/api/auth/login/",	   "/api//auth/login",
		"/api/auth/./login",	   "/api/auth/x/../login",
		"/api/auth/%6cogin",	   "/api/auth/login;jsessionid=1",
		"/api;a/auth;b/login;c",   "/api%2Fauth%2flogin",
		"/api\\auth\\login",	   "/api%5cauth/login",
		"/api/auth/login%3Bx",	   "//api/auth/login",
		"/x/..;/api/auth/login",   "/api/auth//../login",
		"//h/api/auth/login",	   "/\\h/api/auth/login",
		"/x%2f../api/auth/login",  "/api/auth/login?x",
		"http://h/api/auth/login", "/api/auth/login#x",
		"/..%2fapi/auth/login",	   "//h/api//auth//../auth/login",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(dodges); i++) {
		if (!login_matches(dodges[i], ANY))
			fail_msg("%s is not limited", dodges[i]);
	}
	assert_false(login_matches("/api/auth/loginx", ANY));
	assert_false(login_matches("/api/auth", ANY));
	assert_false(login_matches("/api/auth/Login", ANY));
}

static void a_path_below_stays_below_for_servers_that_leave_dots(void **state)
{
	static const char *const dodges[] = {"/api/x/../../static/y", "/api/..;/static/x",
					     "/api/%2e%2e/x", "/api%2f..%2fx", "/api/..\\x"};
	const struct weir_path_options keep = {.keep_params = true};
	struct weir_path_pattern p;

	(void)state;
	assert_int_equal(weir_path_pattern_parse("/api/*", &defaults, &p, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(dodges); i++) {
		assert_int_equal(weir_path_read(weir_text_of(dodges[i]), &defaults, &path), 0);
		if (!matches(&p, &path, ANY))
			fail_msg("%s is not limited", dodges[i]);
	}
	/* parameters that are kept are stripped by some server */
	assert_int_equal(weir_path_read(weir_text_of("/x/..;/api"), &keep, &path), 0);
	assert_true(matches(&p, &path, ANY));
	assert_false(matches(&p, &path, ALL));
	weir_path_pattern_done(&p);
}

/* What some server reads as another path is not exempt. */
static void no_spelling_makes_a_path_exempt(void **state)
{
	static const char *const tricks[] = {"/static/..%2fapi",     "/static/..\\api",
					     "/static/%2e%2e%5capi", "/static/x//../../api",
					     "/static/..%3b/api",    "/x//../static/..//../api",
					     "//static/api",	     "/api/x/../../static/y",
					     "/api/..;/static/x",    "/api/..;/..%3b/static/x"};
	struct weir_path_pattern p;

	(void)state;
	assert_int_equal(weir_path_pattern_parse("/static/*", &defaults, &p, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(tricks); i++) {
		assert_int_equal(weir_path_read(weir_text_of(tricks[i]), &defaults, &path), 0);
		if (matches(&p, &path, ALL))
			fail_msg("%s is exempt", tricks[i]);
	}
	assert_int_equal(weir_path_read(weir_text_of("/static/a/b"), &defaults, &path), 0);
	assert_int_equal(path.n, 1);
	assert_true(matches(&p, &path, ALL));
	weir_path_pattern_done(&p);
}

static void patterns_have_the_same_normal_form(void **state)
{
	static const struct {
		const char *pattern, *target;
		bool yes;
	} table[] = {
		{"/api/*", "/api", true},
		{"/api/*", "/api/", true},
		{"/api/*", "/api/x/y", true},
		{"/api/*", "/apix", false},
		{"/api/*", "/", false},
		{"/*", "/", true},
		{"/*", "/x", true},
		{"/*", "*", true},
		{"/", "/", true},
		{"/", "/x", false},
		{"//%61pi/./*", "/api/x", true},
		{"/a/", "/a", true},
		{"/a%2a", "/a*", true},
		{"/x/%2A", "/x/y", false},
		{"/a b", "/a%20b", true},
		{"/\xc3\xa9/*", "/%c3%a9/x", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct weir_path_pattern p;

		assert_int_equal(weir_path_pattern_parse(table[i].pattern, &defaults, &p, NULL), 0);
		assert_int_equal(weir_path_read(weir_text_of(table[i].target), &defaults, &path),
				 0);
		if (matches(&p, &path, ANY) != table[i].yes)
			fail_msg("%s and %s", table[i].pattern, table[i].target);
		weir_path_pattern_done(&p);
	}
	path.n = 0; /* what was refused matches nothing */
	for (int rule = ANY; rule <= ALL; rule++) {
		struct weir_path_pattern p;

		assert_int_equal(weir_path_pattern_parse("/*", &defaults, &p, NULL), 0);
		assert_false(matches(&p, &path, (enum rule)rule));
		weir_path_pattern_done(&p);
	}
}

static void distinct_slashes_hold_for_patterns(void **state)
{
	const struct weir_path_options o = {.slash_distinct = true};
	struct weir_path_pattern exact, below;

	(void)state;
	assert_int_equal(weir_path_pattern_parse("/a/", &o, &exact, NULL), 0);
	assert_int_equal(weir_path_pattern_parse("/a/*", &o, &below, NULL), 0);
	assert_int_equal(weir_path_read(weir_text_of("/a"), &o, &path), 0);
	assert_false(matches(&exact, &path, ANY));
	assert_true(matches(&below, &path, ANY));
	assert_int_equal(weir_path_read(weir_text_of("/a/"), &o, &path), 0);
	assert_true(matches(&exact, &path, ANY));
	assert_true(matches(&below, &path, ANY));
	weir_path_pattern_done(&exact);
	weir_path_pattern_done(&below);
}

static void wrong_patterns_get_a_sentence(void **state)
{
	static const char *const bad[] = {"",	    "a",      "*",	   "/a*",  "/*/a",
					  "/a/*/*", "/a?b=1", "/a#b",	   "/a;b", "/a\\b",
					  "/%zz",   "/%00",   "http://h/a"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct weir_path_pattern p;
		struct weir_error e = {.text = ""};

		assert_int_equal(weir_path_pattern_parse(bad[i], &defaults, &p, &e), -EINVAL);
		assert_true(e.text[0]);
	}
}

static __u32 next_random(__u32 *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static void normal_form_is_idempotent(void **state)
{
	static const char *const piece[] = {"/",   "/",	  "//",	 ".", "..",  "%2e",
					    "%2F", "%5c", "\\",	 ";", "%3b", "a",
					    "B",   "%41", "%25", "*", " ",   "\xff"};
	__u32 x = 1;
	unsigned done = 0;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		struct weir_path_options o = {.fold_case = i & 1,
					      .keep_params = i & 2,
					      .slash_distinct = i & 4};
		struct weir_path again;
		struct weir_text t, t2;
		char buf[64] = "/";
		size_t end = 1;

		for (unsigned n = next_random(&x) % 12; n; n--)
			end += (size_t)snprintf(buf + end, sizeof(buf) - end, "%.4s",
						piece[next_random(&x) % ARRAY_LEN(piece)]);
		if (weir_path_read(weir_text_of(buf), &o, &path) < 0)
			continue;
		done++;
		t = weir_path_text(&path, 0);
		assert_int_equal(weir_path_read(t, &o, &again), 0);
		t2 = weir_path_text(&again, 0);
		if (!weir_text_equal(t, t2))
			fail_msg("%s: %.*s, then %.*s", buf, (int)t.n, t.p, (int)t2.n, t2.p);
	}
	assert_true(done > 100000);
}

static void head_is_get_and_case_does_not_matter(void **state)
{
	char m[WEIR_METHOD_MAX + 1];

	(void)state;
	assert_int_equal(weir_method_normal(weir_text_of("HEAD"), m), 0);
	assert_string_equal(m, "GET");
	assert_int_equal(weir_method_normal(weir_text_of("head"), m), 0);
	assert_string_equal(m, "GET");
	assert_int_equal(weir_method_normal(weir_text_of("post"), m), 0);
	assert_string_equal(m, "POST");
	assert_int_equal(weir_method_normal(weir_text_of(""), m), -EBADMSG);
	assert_int_equal(weir_method_normal(weir_text_of("GE T"), m), -EBADMSG);
	assert_int_equal(weir_method_normal(weir_text_of("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), m),
			 -EBADMSG);
}

static void hosts_lose_case_port_and_dot(void **state)
{
	static const char *const table[][2] = {{"Example.COM", "example.com"},
					       {"example.com:443", "example.com"},
					       {"example.com.:80", "example.com"},
					       {"example.com:", "example.com"},
					       {"[2001:DB8::1]:80", "[2001:db8::1]"},
					       {"[2001:db8::1]", "[2001:db8::1]"},
					       {"10.0.0.1", "10.0.0.1"}};
	static const char *const bad[] = {"",	  ":80", ".",	"a b", "a/b",
					  "a\\b", "u@h", "a,b", "\xff"};
	char h[WEIR_HOST_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		assert_int_equal(weir_host_normal(weir_text_of(table[i][0]), h), 0);
		assert_string_equal(h, table[i][1]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(weir_host_normal(weir_text_of(bad[i]), h), -EBADMSG);
}

static void the_first_parameter_of_a_name_counts(void **state)
{
	static const struct {
		const char *query, *want; /* NULL: none */
	} table[] = {
		{"k=1", "1"},
		{"k=1&k=2", "1"},
		{"a=1&k=2", "2"},
		{"%6b=1", "1"},
		{"k=a+b%2Bc", "a b+c"},
		{"k=%zz%4", "%zz%4"},
		{"k", ""},
		{"k=", ""},
		{"k==x", "=x"},
		{"kk=1&k=2", "2"},
		{"&&k=1", "1"},
		{"=1", NULL},
		{"K=1", NULL},
		{"", NULL},
		{"x=k=1", NULL},
		{"k=12345678", "1234"},
	};
	struct weir_text v;
	char buf[4 + 4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		size_t size = i + 1 == ARRAY_LEN(table) ? 4 : sizeof(buf);
		int r = weir_query_find(weir_text_of(table[i].query), weir_text_of("k"), buf, size,
					&v);

		assert_int_equal(r, table[i].want ? 0 : -ENOENT);
		if (table[i].want)
			assert_text(v, table[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings_have_one_normal_form),
		cmocka_unit_test(options_keep_what_they_say),
		cmocka_unit_test(what_is_no_target_is_refused),
		cmocka_unit_test(length_is_bounded_raw_and_normal),
		cmocka_unit_test(query_and_authority_are_split_off),
		cmocka_unit_test(no_spelling_dodges_a_limit),
		cmocka_unit_test(a_path_below_stays_below_for_servers_that_leave_dots),
		cmocka_unit_test(no_spelling_makes_a_path_exempt),
		cmocka_unit_test(patterns_have_the_same_normal_form),
		cmocka_unit_test(distinct_slashes_hold_for_patterns),
		cmocka_unit_test(wrong_patterns_get_a_sentence),
		cmocka_unit_test(normal_form_is_idempotent),
		cmocka_unit_test(head_is_get_and_case_does_not_matter),
		cmocka_unit_test(hosts_lose_case_port_and_dot),
		cmocka_unit_test(the_first_parameter_of_a_name_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
