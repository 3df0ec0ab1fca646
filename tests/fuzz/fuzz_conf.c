/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a configuration: it is right, or there are errors with places; never a crash. What is right can be put
 * into words, and each of its limits can be set to what it says already and edited in the text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/config/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text with a limit in monitor mode is a right one, in which that limit is. */
static void edit(const char *text, size_t n, const struct weir_conf *c, const char *name)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *again = NULL;
	const struct weir_conf_request *q;
	_cleanup_free_ char *out = NULL;
	enum weir_mode mode = WEIR_MODE_ENFORCE;
	struct weir_error e;
	size_t out_n;

	if (weir_conf_edit_limit(text, n, name, "mode", "monitor", &out, &out_n, &e) < 0)
		return;
	if (weir_conf_parse("edited", out, out_n, &again, &problems) < 0)
		abort();
	q = &again->request;
	if (again->n_limits != c->n_limits || q->n_limit != c->request.n_limit)
		abort();
	for (size_t i = 0; i < again->n_limits; i++)
		if (strcmp(again->limits[i].name, name) == 0)
			mode = again->limits[i].mode;
	for (size_t i = 0; i < q->n_limit; i++)
		if (strcmp(q->limit[i].name, name) == 0)
			mode = q->limit[i].mode;
	if (q->suspicious.given && strcmp(name, q->suspicious.limit.name) == 0)
		mode = q->suspicious.limit.mode;
	if (mode != WEIR_MODE_MONITOR)
		abort();
}

/* What a file may say a store can count, whatever the plan, and one written form of a key is there. */
static void count(const struct weir_conf *c, const struct weir_conf_request_limit *l)
{
	struct weir_store_limit s;

	for (size_t i = 0; i < (c->request.n_plan ? c->request.n_plan : 1); i++)
		if (weir_conf_store_limit(l, i, i, &s) < 0)
			abort();
	if (!l->key.n || !l->key_text || l->cost.max < (l->cost.from_proxy ? l->cost.min : 0))
		abort();
}

static void use(const char *text, size_t n, struct weir_conf *c)
{
	struct weir_conf_request *q = &c->request;
	const char *mode = "mode=enforce";
	struct weir_error e;

	for (size_t i = 0; i < c->n_limits; i++) {
		edit(text, n, c, c->limits[i].name);
		if (weir_conf_limit_set_all(c, c->limits[i].name, &mode, 1, NULL, &e) < 0)
			abort();
	}
	for (size_t i = 0; i < q->n_limit; i++) {
		count(c, &q->limit[i]);
		edit(text, n, c, q->limit[i].name);
		if (weir_conf_limit_set_all(c, q->limit[i].name, &mode, 1, NULL, &e) < 0)
			abort();
	}
	if (!q->suspicious.given)
		return;
	count(c, &q->suspicious.limit);
	edit(text, n, c, "suspicious");
	if (weir_conf_limit_set_all(c, "suspicious", &mode, 1, NULL, &e) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	_cleanup_free_ char *out = NULL;
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
		use((const char *)data, size, c);
	}
	(void)fclose(f);
	return 0;
}
