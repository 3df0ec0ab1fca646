/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which keys can be made of what is known of one client; see search.h. */
#include "user/l7/search.h"

#include <stdarg.h>
#include <string.h>

/* GET and POST, of a limit on any method; what is forgotten is forgotten of all. */
#define SHOWN_METHODS 2

__attribute__((format(printf, 3, 4))) static void say(char *buf, size_t size, const char *format,
						      ...)
{
	size_t n = strlen(buf);
	va_list list;

	if (n + 1 >= size)
		return;
	va_start(list, format);
	(void)vsnprintf(buf + n, size - n, format, list); /* cut where it is too long */
	va_end(list);
}

/* Can all parts be made, and is one of them the client's? */
static bool is_known(const struct weir_search *s, const struct weir_key_choice *c)
{
	const struct weir_l7_who *who = s->who;
	bool own = false;

	for (size_t i = 0; i < c->n; i++) {
		bool here = false;

		switch (c->part[i].kind) {
		case WEIR_KEY_IP:
			here = who->ip;
			break;
		case WEIR_KEY_USER:
			here = who->user.n;
			break;
		case WEIR_KEY_API_KEY:
			here = who->api_key.n;
			break;
		case WEIR_KEY_TOKEN:
			here = who->token.n;
			break;
		case WEIR_KEY_ENDPOINT:
		case WEIR_KEY_METHOD:
		case WEIR_KEY_GLOBAL:
			continue;
		default:
			break;
		}
		if (!here)
			return false;
		own = true;
	}
	return own || !s->own_only;
}

bool weir_search_is_everybodys(const struct weir_key_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind != WEIR_KEY_ENDPOINT && c->part[i].kind != WEIR_KEY_METHOD &&
		    c->part[i].kind != WEIR_KEY_GLOBAL)
			return false;
	return true;
}

static bool has_part(const struct weir_key_choice *c, enum weir_key_kind kind)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind == kind)
			return true;
	return false;
}

static void put_words(const struct weir_search *s, const struct weir_key_choice *c, char *buf,
		      size_t size)
{
	const struct weir_key_request *k = &s->asked.key;

	for (size_t i = 0; i < c->n; i++) {
		const char *comma = i ? ", " : "";

		switch (c->part[i].kind) {
		case WEIR_KEY_ENDPOINT:
			say(buf, size, "%sendpoint %.*s ", comma, (int)k->method.n, k->method.p);
			if (k->endpoint_is_limit)
				say(buf, size, "(all paths)");
			else
				say(buf, size, "%.*s", (int)k->endpoint.n, k->endpoint.p);
			break;
		case WEIR_KEY_METHOD:
			say(buf, size, "%smethod %.*s", comma, (int)k->method.n, k->method.p);
			break;
		case WEIR_KEY_IP:
			say(buf, size, "%sip", comma);
			break;
		case WEIR_KEY_USER:
			say(buf, size, "%suser", comma);
			break;
		case WEIR_KEY_API_KEY:
			say(buf, size, "%sapi-key", comma);
			break;
		case WEIR_KEY_TOKEN:
			say(buf, size, "%stoken", comma);
			break;
		default:
			say(buf, size, "%sglobal", comma);
		}
	}
}

static int one_key(struct weir_search *s, const struct weir_rule *rule,
		   const struct weir_key_choice *c)
{
	struct weir_key_spec spec = {.n = 1,
				     .missing = WEIR_KEY_MISSING_SKIP,
				     .ipv4_prefix = rule->key->ipv4_prefix,
				     .ipv6_prefix = rule->key->ipv6_prefix};
	char words[sizeof(((struct weir_l7_view *)NULL)->key)] = "";
	struct weir_key key;
	int r;

	spec.choice[0] = *c;
	r = weir_key_build(&spec, &s->rules->key, &s->asked.key, &key);
	if (r < 0)
		return r == -EIO ? r : 0;
	put_words(s, c, words, sizeof(words));
	s->n++;
	return s->fn(s->arg, &(struct weir_found){rule, &key, words, weir_search_is_everybodys(c)});
}

/* Every endpoint of one method. */
static int each_endpoint(struct weir_search *s, const struct weir_rule *rule,
			 const struct weir_key_choice *c)
{
	bool several = has_part(c, WEIR_KEY_ENDPOINT) && rule->match.n_path;
	int r = 0;

	s->asked.key.endpoint_is_limit = !rule->match.n_path;
	s->asked.key.endpoint = weir_text_of(rule->name);
	for (size_t i = 0; r >= 0 && i < (several ? rule->match.n_path : 1); i++) {
		if (several)
			s->asked.key.endpoint = rule->match.path[i].endpoint;
		r = one_key(s, rule, c);
	}
	return r;
}

static int each_method(struct weir_search *s, const struct weir_rule *rule,
		       const struct weir_key_choice *c)
{
	struct weir_text usual[WEIR_KEY_METHODS];
	const struct weir_text *list = rule->match.n_method ? rule->match.method : usual;
	size_t n = rule->match.n_method ? rule->match.n_method
		   : s->all_methods	? ARRAY_LEN(usual)
					: SHOWN_METHODS;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		usual[i] = weir_text_of(weir_key_methods[i]);
	if (!has_part(c, WEIR_KEY_ENDPOINT) && !has_part(c, WEIR_KEY_METHOD))
		n = 1;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		s->asked.key.method = list[i];
		r = each_endpoint(s, rule, c);
	}
	return r;
}

/* Is there always such a key where the address is known? */
static bool is_always(const struct weir_key_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind != WEIR_KEY_IP && c->part[i].kind != WEIR_KEY_ENDPOINT &&
		    c->part[i].kind != WEIR_KEY_METHOD && c->part[i].kind != WEIR_KEY_GLOBAL)
			return false;
	return true;
}

/* All choices, and the address where it may stand in for them. */
static int each_choice(struct weir_search *s, const struct weir_rule *rule)
{
	static const struct weir_key_choice ip = {.part = {{.kind = WEIR_KEY_IP}}, .n = 1};
	bool stands_in = rule->key->missing == WEIR_KEY_MISSING_IP;
	int r = 0;

	for (size_t i = 0; i < rule->key->n; i++)
		stands_in &= !is_always(&rule->key->choice[i]);
	stands_in |= rule->has_fresh;

	for (size_t i = 0; r >= 0 && i < rule->key->n; i++) {
		const struct weir_key_choice *c = &rule->key->choice[i];

		if (c->n == 1 && c->part[0].kind == WEIR_KEY_IP)
			stands_in = false;
		if (is_known(s, c))
			r = each_method(s, rule, c);
	}
	if (r >= 0 && stands_in && s->who->ip)
		r = one_key(s, rule, &ip);
	return r;
}

int weir_search_run(struct weir_search *s, const char *limit)
{
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	int r = 0;

	s->query = (struct weir_l7_query){.headers = &s->headers, .may_wait = true, .cost_n = 1};
	s->asked = (struct weir_l7_asked){.query = &s->query};
	s->asked.key = (struct weir_key_request){.headers = &s->headers,
						 .client = s->who->ip,
						 .user = s->who->user,
						 .api_key = s->who->api_key,
						 .token = s->who->token};
	if (s->rules->plans && s->who->api_key.n)
		(void)weir_plans_find(s->rules->plans, s->who->api_key, &s->asked.plan, hash);
	for (size_t i = 0; r >= 0 && i < s->rules->n; i++)
		if (!limit || strcmp(limit, s->rules->rule[i].name) == 0)
			r = each_choice(s, &s->rules->rule[i]);
	return r;
}
