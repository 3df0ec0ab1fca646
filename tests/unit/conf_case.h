/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Configurations as text for the t_conf tests: parse, look up a limit, expect a problem at its place. */
#ifndef WEIR_TEST_CONF_CASE_H
#define WEIR_TEST_CONF_CASE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/base/cleanup.h"
#include "user/config/conf.h"

/* Parses what must be right. */
static inline struct weir_conf *conf_of(const char *text)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	struct weir_conf *c = NULL;
	int r = weir_conf_parse("test.yaml", text, strlen(text), &c, &p);

	if (r < 0)
		weir_conf_problems_print(&p, "test.yaml", stderr);
	assert_int_equal(r, 0);
	assert_int_equal(p.n_errors, 0);
	return c;
}

struct conf_said {
	int line, column;
	const char *text;
};
/* Expects these errors of a text, in their order, to the letter, and nothing else. */
static inline void expect_said(const char *text, const struct conf_said *said, size_t n)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	struct weir_conf *c = NULL;

	assert_int_equal(weir_conf_parse("bad.yaml", text, strlen(text), &c, &p), -EINVAL);
	assert_null(c);
	for (size_t i = 0; i < p.n && i < n; i++) {
		assert_string_equal(p.item[i].text, said[i].text);
		assert_int_equal(p.item[i].line, said[i].line);
		assert_int_equal(p.item[i].column, said[i].column);
		assert_false(p.item[i].warning);
	}
	assert_int_equal(p.n, n);
	assert_int_equal(p.n_errors, n);
}

/* Expects exactly @n_errors errors (or, where 0, warnings) and, among them, one at @line:@column with @words in it. */
static inline void expect_problem(const char *text, size_t n_errors, int line, int column,
				  const char *words)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	int r = weir_conf_parse("test.yaml", text, strlen(text), &c, &p);
	bool found = false;

	for (size_t i = 0; i < p.n; i++)
		found |= p.item[i].warning == !n_errors && p.item[i].line == line &&
			 p.item[i].column == column && strstr(p.item[i].text, words);
	if (!found || p.n_errors != n_errors) {
		weir_conf_problems_print(&p, "test.yaml", stderr);
		fail_msg("no \"%s\" at %d:%d among these, or not %zu errors", words, line, column,
			 n_errors);
	}
	assert_int_equal(r, n_errors ? -EINVAL : 0);
	assert_int_equal(c == NULL, n_errors != 0);
}

/* The same for one limit in flow style, of @list: @limit is what stands between {name: x, and }. One error in line 2. */
static inline void expect_entry_error(const char *list, const char *limit, const char *words)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s:\n  - {name: x, %s}\n", list, limit);

	assert_in_range(n, 1, sizeof(text) - 1);
	assert_int_equal(weir_conf_parse("test.yaml", text, (size_t)n, &c, &p), -EINVAL);
	if (p.n_errors != 1 || p.item[0].line != 2 || !p.item[0].column ||
	    !strstr(p.item[0].text, words)) {
		weir_conf_problems_print(&p, "test.yaml", stderr);
		fail_msg("%s: expected one error with \"%s\" in line 2", limit, words);
	}
}

static inline void expect_limit_error(const char *limit, const char *words)
{
	expect_entry_error("packet_limits", limit, words);
}

/* Sets one KEY=VALUE of a limit. */
static inline int set_limit(struct weir_conf *c, const char *name, const char *key,
			    const char *value, struct weir_error *e)
{
	_cleanup_free_ char *pair = NULL;

	assert_true(asprintf(&pair, "%s=%s", key, value) > 0);
	return weir_conf_limit_set_all(c, name, (const char *const[]){pair}, 1, NULL, e);
}

/* Parses one limit that must be right; @before: other settings. */
static inline struct weir_conf *conf_of_entry(const char *before, const char *list,
					      const char *limit)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s%s:\n  - {name: x, %s}\n", before, list, limit);

	assert_in_range(n, 1, sizeof(text) - 1);
	return conf_of(text);
}

static inline struct weir_conf *conf_of_limit(const char *limit)
{
	struct weir_conf *c = conf_of_entry("", "packet_limits", limit);

	assert_int_equal(c->n_limits, 1);
	return c;
}

static inline struct weir_conf *conf_of_request_limit(const char *limit)
{
	struct weir_conf *c = conf_of_entry("", "request_limits", limit);

	assert_int_equal(c->request.n_limit, 1);
	return c;
}

/* All @words are in what `weir check` says of @c. */
static inline void expect_explained(const struct weir_conf *c, const char *const *words,
				    size_t n_words)
{
	_cleanup_free_ char *out = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);

	assert_non_null(f);
	weir_conf_explain(c, f);
	assert_int_equal(fclose(f), 0);
	for (size_t i = 0; i < n_words; i++)
		if (!strstr(out, words[i]))
			fail_msg("no \"%s\" in:\n%s", words[i], out);
}

#endif
