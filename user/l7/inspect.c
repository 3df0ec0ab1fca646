/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One client as an operator sees it: the state of every limit that its address, key, user or token leads to. Called by the
 * agent, on its own worker, in its main thread.
 */
#include <string.h>

#include "user/l7/search.h"

struct view {
	struct weir_search *s;
	weir_l7_view_fn *fn;
	void *arg;
};

static int show(void *arg, const struct weir_found *f)
{
	struct view *v = arg;
	struct weir_answer_limit state;
	struct weir_store_layer layer;
	struct weir_l7_view view = {.limit = f->rule->name,
				    .state = &state,
				    .everybodys = f->everybodys,
				    .mode = f->rule->monitor ? WEIR_MODE_MONITOR
							     : WEIR_MODE_ENFORCE};
	int r = weir_search_ask(v->s, f, false, &layer);

	if (r < 0)
		return r;
	weir_l7_show(f->rule, &f->rule->numbers[v->s->asked.plan], &layer, f->rule->monitor,
		     &state);
	memcpy(view.key, f->words, strlen(f->words) + 1);
	v->fn(v->arg, &view);
	return 0;
}

int weir_l7_inspect(struct weir_l7_worker *w, const struct weir_l7_who *who, const char *limit,
		    weir_l7_view_fn *fn, void *arg)
{
	struct weir_search s = {.w = w, .rules = weir_l7_worker_rules(w), .who = who, .fn = show};
	struct view v = {.s = &s, .fn = fn, .arg = arg};

	if (!s.rules)
		return -ENOMEM;
	if (limit && !weir_rules_find(s.rules, limit))
		return -ENOENT;
	s.arg = &v;
	return weir_search_run(&s, limit);
}

__s64 weir_l7_suspicious_until(struct weir_l7_worker *w, const struct weir_prefix *ip)
{
	const struct weir_rules *rules = weir_l7_worker_rules(w);
	__u64 until_us;

	if (!rules || !rules->has_suspicion)
		return 0;
	until_us = weir_suspects_until(w->l7->offences.suspects, ip, weir_l7_now_us(w->l7));
	return (__s64)((until_us + 999999) / 1000000);
}
