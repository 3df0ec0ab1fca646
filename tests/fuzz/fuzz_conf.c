/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a configuration: it is right, or there are errors with places; never a crash. What is right can be put
 * into words, and each of its limits can be set to what it says already and edited in the text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/config/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void edit(const char *text, size_t n, const struct weir_conf *c)
{
	for (size_t i = 0; i < c->n_limits; i++) {
		_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
		_cleanup_(weir_conf_freep) struct weir_conf *again = NULL;
		_cleanup_free_ char *out = NULL;
		struct weir_error e;
		size_t out_n;

		if (weir_conf_edit_limit(text, n, c->limits[i].name, "mode", "monitor", &out,
					 &out_n, &e) < 0)
			continue;
		if (weir_conf_parse("edited", out, out_n, &again, &problems) < 0 ||
		    again->n_limits != c->n_limits || again->limits[i].mode != WEIR_MODE_MONITOR)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	_cleanup_free_ char *out = NULL;
	struct weir_error e;
	size_t n;
	FILE *f;
	int r = weir_conf_parse("fuzz", (const char *)data, size, &c, &problems);

	if ((r < 0) != (problems.n_errors > 0) || (r == 0) != (c != NULL))
		abort();
	f = open_memstream(&out, &n);
	if (!f)
		return 0;
	weir_conf_problems_print(&problems, "fuzz", f);
	if (c) {
		weir_conf_explain(c, f);
		edit((const char *)data, size, c);
		for (size_t i = 0; i < c->n_limits; i++)
			if (weir_conf_limit_set(c, c->limits[i].name, "mode", "enforce", &e) < 0)
				abort();
	}
	(void)fclose(f);
	return 0;
}
