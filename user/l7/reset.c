/* SPDX-License-Identifier: GPL-2.0-or-later */
/* States forgotten by command: those of one client, or all of a limit. Called by the agent, on its own worker, in its main
 * thread.
 */
#include <sodium.h>
#include <string.h>

#include "user/l7/search.h"

struct forget {
	struct weir_search *s;
	size_t n;
};

static int forget(void *arg, const struct weir_found *f)
{
	struct forget *g = arg;
	struct weir_store_layer layer;
	int r = weir_search_ask(g->s, f, true, &layer);

	if (r >= 0)
		g->n += layer.charged;
	return r;
}

static bool is_for_everybody(const struct weir_rule *rule)
{
	for (size_t i = 0; i < rule->key->n; i++)
		if (!weir_search_is_everybodys(&rule->key->choice[i]))
			return false;
	return true;
}

/* @who without any part: the states of a limit that counts all clients together. */
static int reset_client(struct weir_l7_worker *w, const struct weir_rules *rules, const char *limit,
			const struct weir_l7_who *who, bool own_only, size_t *ret_n,
			struct weir_error *e)
{
	struct weir_search s = {.w = w,
				.rules = rules,
				.who = who,
				.own_only = own_only,
				.all_methods = true,
				.fn = forget};
	struct forget g = {.s = &s};
	const char *key;
	int r;

	s.arg = &g;
	r = weir_search_run(&s, limit);
	if (r < 0)
		return weir_error_set(e, r, "the store does not answer: %s", strerror(-r));
	if (!s.n && limit) {
		key = weir_rules_find(rules, limit)->conf->key_text;
		return weir_error_set(
			e, -EINVAL,
			"limit '%s' does not count by what was given, its key is %.*s%s", limit,
			(int)strcspn(key, "/"), key,
			is_for_everybody(weir_rules_find(rules, limit))
				? " (everybody's: reset it without a client)"
				: "");
	}
	if (who->ip)
		weir_offences_forget(&w->l7->offences, rules, who->ip, weir_l7_now_us(w->l7));
	*ret_n = g.n;
	return 0;
}

/* Of a limit of the fleet this host alone would count under another name. */
static int refuse_fleet(const struct weir_l7 *l7, const struct weir_rules *rules, const char *limit,
			struct weir_error *e)
{
	for (size_t i = 0; l7->shared && i < rules->n; i++)
		if (!rules->rule[i].host && (!limit || strcmp(limit, rules->rule[i].name) == 0))
			return weir_error_set(e, -EINVAL,
					      "limit '%s' counts for the whole fleet: reset one "
					      "client of it (for example --ip)",
					      rules->rule[i].name);
	return 0;
}

/* States have names: with another one they all begin anew, and the old ones are dropped once they are over. */
static int reset_all(struct weir_l7 *l7, const char *limit, struct weir_error *e)
{
	const struct weir_rules_options o = {.salt = weir_l7_salt_of, .arg = l7};
	struct weir_rules *rules;
	__u64 before[WEIR_L7_SLOTS];
	int r;

	pthread_mutex_lock(&l7->lock);
	for (size_t i = 0; i < WEIR_L7_SLOTS; i++) {
		before[i] = l7->slot[i].salt;
		if (l7->slot[i].name[0] && (!limit || strcmp(limit, l7->slot[i].name) == 0))
			randombytes_buf(&l7->slot[i].salt, sizeof(l7->slot[i].salt));
	}
	r = weir_rules_salted(l7->rules, &o, &rules);
	for (size_t i = 0; r < 0 && i < WEIR_L7_SLOTS; i++)
		l7->slot[i].salt = before[i];
	pthread_mutex_unlock(&l7->lock);
	if (r < 0)
		return weir_error_set(e, r, "out of memory");
	weir_l7_put_in_force(l7, rules);
	return 0;
}

int weir_l7_reset(struct weir_l7_worker *w, const char *limit, const struct weir_l7_who *who,
		  size_t *ret_n, struct weir_error *e)
{
	const struct weir_rules *rules = weir_l7_worker_rules(w);
	size_t n;
	int r;

	if (!rules)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (limit && !weir_rules_find(rules, limit))
		return weir_error_set(e, -ENOENT, "there is no request limit named '%s'", limit);
	if (who)
		return reset_client(w, rules, limit, who, true, ret_n, e);
	if (w->l7->shared && limit && is_for_everybody(weir_rules_find(rules, limit))) {
		r = reset_client(w, rules, limit, &(struct weir_l7_who){0}, false, &n, e);
	} else {
		r = refuse_fleet(w->l7, rules, limit, e);
		if (r >= 0)
			r = reset_all(w->l7, limit, e);
	}
	if (r >= 0)
		*ret_n = 0;
	return r;
}
