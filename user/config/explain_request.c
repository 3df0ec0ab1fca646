/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's part of a configuration in words, for `weir check`. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/schema.h"
#include "user/config/words.h"

static void print_prefixes(const struct weir_prefix_list *list, FILE *f)
{
	char buf[WEIR_PREFIX_STRLEN];

	for (size_t i = 0; i < list->n && i < WEIR_ITEMS_SHOWN; i++)
		(void)fprintf(f, "%s%s", weir_comma(i, list->n, " or "),
			      weir_prefix_format(&list->item[i], buf));
	if (list->n > WEIR_ITEMS_SHOWN)
		(void)fprintf(f, " and %zu more", list->n - WEIR_ITEMS_SHOWN);
}

static void print_listener(const struct weir_conf_listener *l, FILE *f)
{
	char shown[WEIR_SHOWN_MAX];

	(void)fprintf(f, "  %-24s %s", weir_conf_shown(l->listen, strlen(l->listen), shown),
		      weir_profile_name(l->profile));
	if (l->unix_path)
		(void)fprintf(f, ": whoever may connect is trusted (mode %04o, group %s)",
			      l->unix_mode, l->group ? l->group : "of the agent");
	if (l->trusted.n) {
		(void)fprintf(f, "%s",
			      l->unix_path ? "; proxies before it: "
			      : l->profile == WEIR_PROFILE_SPOE
				      ? ": may connect, if it is "
				      : ": says who the client is, if it is ");
		print_prefixes(&l->trusted, f);
	}
	if (l->token_file)
		(void)fprintf(f, "%s with the token in %s", l->unix_path ? "," : ":",
			      weir_conf_shown(l->token_file, strlen(l->token_file), shown));
	(void)fputc('\n', f);
}

static void print_http(const struct weir_conf_request *q, FILE *f)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], c[WEIR_STR_MAX], shown[WEIR_SHOWN_MAX];

	(void)fprintf(f, "\nWhere proxies ask:\n");
	for (size_t i = 0; i < q->n_listener; i++)
		print_listener(&q->listener[i], f);
	(void)fprintf(f,
		      "  A check takes at most %s, a request %s to arrive; headers up to %s; %llu "
		      "connections.\n",
		      weir_str_format_duration(q->budget_ns, a),
		      weir_str_format_duration(q->request_deadline_ns, b),
		      weir_str_format_size(q->headers_bytes, c), q->connections);
	if (q->header_user || q->header_plan || q->header_cost)
		(void)fprintf(
			f, "  From the proxy, which must set or remove them:%s%s%s%s%s%s%s%s.\n",
			q->header_user ? " user in " : "", q->header_user ? q->header_user : "",
			q->header_user && q->header_plan ? "," : "",
			q->header_plan ? " plan in " : "", q->header_plan ? q->header_plan : "",
			(q->header_user || q->header_plan) && q->header_cost ? "," : "",
			q->header_cost ? " cost in " : "", q->header_cost ? q->header_cost : "");
	(void)fprintf(f, "  An API key is in");
	for (size_t i = 0; i < q->n_api_key; i++)
		(void)fprintf(f, "%s %s %s", i ? ", else" : "",
			      weir_key_part_words[q->api_key[i].kind],
			      weir_conf_shown(q->api_key[i].name, strlen(q->api_key[i].name),
					      shown));
	(void)fprintf(f, ".\n  Paths: /A %s /a, /a/ %s /a, ;parameters are %s.%s\n",
		      q->path.fold_case ? "is" : "is not", q->path.slash_distinct ? "is not" : "is",
		      q->path.keep_params ? "kept" : "stripped",
		      q->nat64 ? " A client in 64:ff9b::/96 is the IPv4 address in it." : "");
}

static void print_plans(const struct weir_conf_request *q, FILE *f)
{
	if (!q->n_plan)
		return;
	(void)fprintf(f, "\nPlans: ");
	for (size_t i = 0; i < q->n_plan; i++)
		(void)fprintf(f, "%s%s", weir_comma(i, q->n_plan, " and "), q->plan[i]);
	(void)fprintf(f, "; who has none of them has %s.", q->plan[0]);
	if (q->plans_file)
		(void)fprintf(f, " API keys and their plans are in %s.", q->plans_file);
	(void)fputc('\n', f);
}

static void print_exempt(const struct weir_conf_request *q, FILE *f)
{
	char text[1024];

	if (q->n_exempt)
		(void)fprintf(f, "\nExempt from request limits:\n");
	for (size_t i = 0; i < q->n_exempt; i++) {
		const struct weir_conf_exempt *x = &q->exempt[i];
		struct weir_words o = {.buf = text, .size = sizeof(text)};

		*text = '\0';
		if (x->preflight)
			weir_say(&o, "preflight ");
		weir_say_texts(&o, "", x->method, x->n_method);
		weir_say(&o, "%srequests", x->n_method ? " " : "");
		weir_say_texts(&o, " to ", x->path, x->n_path);
		(void)fprintf(f, "  %s", text); /* too long: cut */
		if (x->source.n) {
			(void)fprintf(f, " from ");
			print_prefixes(&x->source, f);
		}
		(void)fputc('\n', f);
	}
}

static void print_names(char (*const name)[WEIR_NAME_MAX], size_t n, FILE *f)
{
	for (size_t i = 0; i < n; i++)
		(void)fprintf(f, "%s%s", weir_comma(i, n, " or "), name[i]);
}

static void print_suspicious(const struct weir_conf_request *q, FILE *f)
{
	const struct weir_conf_suspicious *s = &q->suspicious;
	char a[WEIR_STR_MAX], text[2048];

	if (!s->given)
		return;
	(void)fprintf(f, "\nSuspicious for %s is", weir_str_format_duration(s->lasts_ns, a));
	if (s->n_packet_limits) {
		(void)fprintf(f, " who is over ");
		print_names(s->packet_limits, s->n_packet_limits, f);
	}
	if (s->refused.n_limits) {
		(void)fprintf(f, "%s who is refused %llu times in %s by ",
			      s->n_packet_limits ? ", and" : "", s->refused.count,
			      weir_str_format_duration(s->refused.within_ns, a));
		print_names(s->refused.limits, s->refused.n_limits, f);
	}
	(void)weir_conf_request_words(q, &s->limit, text, sizeof(text)); /* too long: cut */
	(void)fprintf(f, "; these also meet:\n      %s\n", text);
}

static void print_escalate(const struct weir_conf_request *q, FILE *f)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], d[WEIR_STR_MAX];

	if (q->n_escalate)
		(void)fprintf(f, "\nFrom the request layer to the packet layer:\n");
	for (size_t i = 0; i < q->n_escalate; i++) {
		const struct weir_conf_escalate *e = &q->escalate[i];

		(void)fprintf(f, "  %s: who is refused %llu times in %s by ", e->name,
			      e->refused.count, weir_str_format_duration(e->refused.within_ns, a));
		print_names(e->refused.limits, e->refused.n_limits, f);
		(void)fprintf(f, " is blocked for %s, at most %llu in %s",
			      weir_str_format_duration(e->block_for_ns, b), e->at_most.count,
			      weir_str_format_duration(e->at_most.per_ns, d));
		if (e->unless_identities)
			(void)fprintf(f, ", unless %llu users or API keys share the address",
				      e->unless_identities);
		(void)fprintf(f, "%s.\n",
			      e->mode == WEIR_MODE_MONITOR ? " (monitor: only said)" : "");
	}
}

void weir_request_explain(const struct weir_conf *c, FILE *f)
{
	const struct weir_conf_request *q = &c->request;
	struct weir_store_embedded_options o = {.entries_max = (size_t)q->keys,
						.bytes_max = q->bytes};
	char text[2048], a[WEIR_STR_MAX], b[WEIR_STR_MAX];
	__u64 index;

	if (!q->n_listener && !q->n_limit && !q->suspicious.given)
		return;
	if (q->n_listener)
		print_http(q, f);
	print_plans(q, f);
	print_exempt(q, f);
	(void)fprintf(f, "\nRequest limits%s\n",
		      q->n_limit ? ", all that match must admit, and all are charged or none:"
				 : ": none");
	for (size_t i = 0; i < q->n_limit; i++) {
		(void)weir_conf_request_words(q, &q->limit[i], text, sizeof(text)); /* cut */
		(void)fprintf(f, "  %2zu. %s\n", i + 1, text);
	}
	print_suspicious(q, f);
	print_escalate(q, f);
	(void)fprintf(f,
		      "\nMemory of request limits: %llu states in at most %s (all of them take "
		      "%sB, the times of sliding-window-log 8 bytes a request more); full: the "
		      "state that would be over first goes.\n",
		      q->keys, weir_str_format_size(q->bytes, a),
		      weir_str_format_count(weir_store_embedded_bytes(&o, &index), b));
}
