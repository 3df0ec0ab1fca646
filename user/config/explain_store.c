/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `store:` in words, for `weir check`: where limits count, and what each does while the store is away. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"
#include "user/config/words.h"

static void print_store(const struct weir_conf_store *s, FILE *f)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], d[WEIR_STR_MAX], url[1024];

	(void)fprintf(f,
		      "\nStore: %s, keys begin with %s; a decision may take %s, up to %llu go in "
		      "one call.\n",
		      weir_conf_store_shown(s, url, sizeof(url)), s->prefix,
		      weir_str_format_duration(s->timeout_ns, a), s->batch);
	(void)fprintf(f,
		      "  After %llu failures in %s it is not asked any more, but tried every %s.\n",
		      s->breaker_errors, weir_str_format_duration(s->breaker_within_ns, b),
		      weir_str_format_duration(s->breaker_probe_ns, d));
	(void)fprintf(f, "  Clients' keys are hashed with a secret that all agents share: %s.\n",
		      s->key_secret_file ? s->key_secret_file : "made once in the store");
	(void)fprintf(f,
		      "  Lists made by command or by escalation hold on %s; request limits come "
		      "from %s.\n",
		      s->fleet_lists ? "every agent of the store" : "this host alone",
		      s->limits_from == WEIR_LIMITS_FROM_STORE
			      ? "the store (weir limit push), those of this file until then"
			      : "this file");
}

static void print_share(const struct weir_conf_store *s, FILE *f)
{
	if (!s->local_share_parts)
		(void)fprintf(f, "its numbers divided by the agents that live");
	else
		(void)fprintf(f, "%llu.%llu %% of its numbers", s->local_share_parts / 10000,
			      s->local_share_parts / 1000 % 10);
	(void)fprintf(f, ", at least one request; forgotten when the store has been back for 10s");
}

static void print_away(const struct weir_conf_store *s, const struct weir_conf_request_limit *l,
		       FILE *f)
{
	(void)fprintf(f, "  %s: ", l->name);
	if (l->scope == WEIR_SCOPE_HOST) {
		(void)fprintf(f,
			      "each host counts by itself, whether the store is there or not.\n");
		return;
	}
	(void)fprintf(f, "all agents count together; while the store is away ");
	switch (l->on_store_failure) {
	case WEIR_FAILURE_OPEN:
		(void)fprintf(f, "all pass.\n");
		break;
	case WEIR_FAILURE_CLOSED:
		(void)fprintf(f, "all are refused (503, never as over the limit).\n");
		break;
	default:
		(void)fprintf(f, "each agent grants ");
		print_share(s, f);
		(void)fprintf(f, ".\n");
	}
}

/* What a lease may do to the limit. */
static void print_lease(const struct weir_conf_request *q, const struct weir_conf_request_limit *l,
			FILE *f)
{
	size_t n = q->n_plan ? q->n_plan : 1;

	if (l->scope == WEIR_SCOPE_HOST)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!l->lease[i])
			continue;
		(void)fprintf(f, "    Of it%s%s a busy agent takes up to %llu at once: ",
			      q->n_plan > 1 ? ", plan " : "", q->n_plan > 1 ? q->plan[i] : "",
			      l->lease[i]);
		if (l->algorithm == WEIR_REQUEST_FIXED_WINDOW)
			(void)fprintf(f,
				      "spent in the window that it was taken in, so never more "
				      "than the limit; agents × %llu of it may stay unused.\n",
				      l->lease[i]);
		else
			(void)fprintf(f,
				      "at most agents × %llu more than the limit in one %s (2 "
				      "agents: %llu, 10: %llu); what is not spent goes back.\n",
				      l->lease[i],
				      weir_request_has_window(l->algorithm) ? "window" : "burst",
				      2 * l->lease[i], 10 * l->lease[i]);
	}
}

void weir_store_explain(const struct weir_conf *c, FILE *f)
{
	const struct weir_conf_request *q = &c->request;

	if (!c->store.shared)
		return;
	print_store(&c->store, f);
	for (size_t i = 0; i < q->n_limit; i++) {
		print_away(&c->store, &q->limit[i], f);
		print_lease(q, &q->limit[i], f);
	}
	if (q->suspicious.given) {
		print_away(&c->store, &q->suspicious.limit, f);
		print_lease(q, &q->suspicious.limit, f);
	}
}
