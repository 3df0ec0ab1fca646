/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a target, with every option: refused, or a normal form that is its own normal form, holds no byte that
 * it must not hold, and matches itself as a pattern. The rest of the input as method, host and query.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/l7/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weir_path path, again;

static void check_text(struct weir_text t, const struct weir_path_options *o)
{
	if (t.n == 0 || t.n > WEIR_PATH_MAX)
		abort();
	if (t.n == 1 && t.p[0] == '*')
		return;
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];

		if (c <= 0x20 || c >= 0x7f || strchr("?#\\\"", c) ||
		    (c == ';' && !o->keep_params) || (c == '/' && i && t.p[i - 1] == '/') ||
		    (c == '%' && i + 2 >= t.n))
			abort();
	}
	if (t.p[0] != '/' || memmem(t.p, t.n, "/../", 4) || memmem(t.p, t.n, "/./", 3) ||
	    (t.n > 1 && !o->slash_distinct && t.p[t.n - 1] == '/'))
		abort();
	if (weir_path_read(t, o, &again) < 0 || !weir_text_equal(t, weir_path_text(&again, 0)))
		abort();
}

static void check_pattern(struct weir_text t, const struct weir_path_options *o)
{
	_cleanup_(weir_path_pattern_done) struct weir_path_pattern p = {.text = NULL};
	_cleanup_free_ char *text = strndup(t.p, t.n);
	bool matched = false;

	if (!text || weir_path_pattern_parse(text, o, &p, NULL) < 0)
		return; /* stars and kept parameters are refused */
	for (unsigned i = 0; !matched && i < path.n; i++)
		matched = weir_path_matches_reading(&p, &path, i);
	if (!matched)
		abort();
}

static void check_rest(struct weir_text t)
{
	char method[WEIR_METHOD_MAX + 1], host[WEIR_HOST_MAX + 1], buf[16];
	struct weir_text v;

	if (weir_method_normal(t, method) == 0 && (!method[0] || strcmp(method, "HEAD") == 0))
		abort();
	if (weir_host_normal(t, host) == 0 && !host[0])
		abort();
	if (weir_query_find(t, weir_text_of("k"), buf, sizeof(buf), &v) == 0 && v.n > sizeof(buf))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_path_options o;
	struct weir_text t;

	if (size == 0)
		return 0;
	o = (struct weir_path_options){.fold_case = data[0] & 1,
				       .keep_params = data[0] & 2,
				       .slash_distinct = data[0] & 4};
	t = (struct weir_text){(const char *)data + 1, size - 1};
	check_rest(t);
	if (weir_path_read(t, &o, &path) < 0)
		return 0;
	if (path.n == 0 || path.n > WEIR_PATH_READINGS)
		abort();
	check_text(weir_path_text(&path, 0), &o);
	for (unsigned i = 0; i < path.n; i++) {
		t = weir_path_text(&path, i);
		if (t.n == 0 || t.n > WEIR_PATH_MAX || memmem(t.p, t.n, "//", 2))
			abort();
	}
	check_rest(path.query);
	check_pattern(weir_path_text(&path, 0), &o);
	return 0;
}
