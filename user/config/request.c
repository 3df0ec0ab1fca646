/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's part of the configuration once it is read: names, what a store decides by, a key in its one
 * written form, and the end of it all. Called by the readers here, by user/l7 and by the agent.
 */
#include "user/config/request.h"

#include <string.h>

#include "user/base/str.h"

/* Positions are the enums' values. */
const char *const weir_words_profile[] = {"nginx",	  "caddy", "traefik", "envoy",
					  "haproxy-spoe", "json",  "metrics", NULL};
const char *const weir_words_request_algorithm[] = {"token-bucket",	      "leaky-bucket",
						    "fixed-window",	      "sliding-window-log",
						    "sliding-window-counter", NULL};
const char *const weir_words_on_store_failure[] = {"local", "open", "closed", NULL};
const char *const weir_words_scope[] = {"host", "fleet", NULL};
const char *const weir_words_missing[] = {"ip", "skip", "deny", NULL};
/* From WEIR_WINDOW_DAY on. */
const char *const weir_words_calendar[] = {"day", "week", "month", NULL};

_Static_assert(ARRAY_LEN(weir_words_profile) == WEIR_PROFILE_MAX + 1, "one name each");
_Static_assert(ARRAY_LEN(weir_words_request_algorithm) == WEIR_REQUEST_ALGORITHM_MAX + 1,
	       "one name each");

const char *weir_profile_name(enum weir_profile profile)
{
	return weir_words_profile[profile];
}

const char *weir_request_algorithm_name(enum weir_request_algorithm algorithm)
{
	return weir_words_request_algorithm[algorithm];
}

const char *weir_on_store_failure_name(enum weir_on_store_failure f)
{
	return weir_words_on_store_failure[f];
}

bool weir_request_has_window(enum weir_request_algorithm algorithm)
{
	return algorithm != WEIR_REQUEST_TOKEN_BUCKET && algorithm != WEIR_REQUEST_LEAKY_BUCKET;
}

/* --- what a store decides by ---- */

/* @count every @per_ns as a whole number of microseconds; the fraction of both stays as it is. */
static int rate_us(const struct weir_conf_rate *rate, __u64 *ret_count, __u64 *ret_period_us)
{
	unsigned __int128 a = (unsigned __int128)rate->count * 1000, b = rate->per_ns;
	unsigned __int128 count = a, period = b;

	while (b) {
		unsigned __int128 rest = a % b;

		a = b;
		b = rest;
	}
	if (!count || !period)
		return -ERANGE;
	count /= a;
	period /= a;
	if (count >= WEIR_REQUEST_EXACT_MAX || period >= WEIR_REQUEST_EXACT_MAX)
		return -ERANGE;
	*ret_count = (__u64)count;
	*ret_period_us = (__u64)period;
	return 0;
}

static void print_window(const struct weir_conf_request_limit *l, char *buf, size_t n)
{
	char text[WEIR_STR_MAX];

	*buf = '\0';
	if (!weir_request_has_window(l->algorithm))
		return;
	if (l->window_kind == WEIR_WINDOW_LENGTH)
		(void)snprintf(buf, n, "%s", weir_str_format_duration(l->window_ns, text));
	else
		(void)snprintf(buf, n, "%s %.80s",
			       weir_words_calendar[l->window_kind - WEIR_WINDOW_DAY],
			       l->timezone ? l->timezone : "UTC");
}

int weir_conf_store_limit(const struct weir_conf_request_limit *l, size_t plan, __u64 salt,
			  struct weir_store_limit *ret)
{
	char name[WEIR_NAME_MAX + 24], window[128];
	struct weir_store_identity id;
	__u64 count, period_us;
	int r;

	/* no name has a '#' in it */
	(void)snprintf(name, sizeof(name), salt ? "%s#%llu" : "%s", l->name, salt);
	print_window(l, window, sizeof(window));
	r = weir_store_identity_of(name, l->algorithm, l->key_text ? l->key_text : "", window,
				   weir_words_scope[l->scope], &id);
	if (r < 0)
		return r;
	if (weir_request_has_window(l->algorithm)) {
		bool length = l->window_kind == WEIR_WINDOW_LENGTH;

		if (length && (!l->window_ns || l->window_ns % 1000))
			return -ERANGE;
		return weir_store_limit_window(&id, l->algorithm, l->limit[plan],
					       length ? l->window_ns / 1000 : 0, ret);
	}
	r = rate_us(&l->rate[plan], &count, &period_us);
	if (r < 0)
		return r;
	if (l->algorithm == WEIR_REQUEST_TOKEN_BUCKET)
		return weir_store_limit_bucket(&id, count, period_us, l->burst[plan], ret);
	if (l->max_wait_ns[plan] % 1000)
		return -ERANGE;
	return weir_store_limit_queue(&id, count, period_us, l->queue[plan],
				      l->max_wait_ns[plan] / 1000, ret);
}

/* --- a key in its one written form ---- */

bool weir_choice_has(const struct weir_key_choice *c, enum weir_key_kind kind)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->part[i].kind == kind)
			return true;
	return false;
}

bool weir_choice_is_chosen(const struct weir_key_choice *c)
{
	static const enum weir_key_kind kinds[] = {WEIR_KEY_API_KEY,	WEIR_KEY_TOKEN,
						   WEIR_KEY_USER_AGENT, WEIR_KEY_PATH,
						   WEIR_KEY_HOST,	WEIR_KEY_HEADER,
						   WEIR_KEY_COOKIE,	WEIR_KEY_QUERY};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (weir_choice_has(c, kinds[i]))
			return true;
	return false;
}

bool weir_key_counts_ip(const struct weir_key_spec *key)
{
	if (key->missing == WEIR_KEY_MISSING_IP)
		return true;
	for (size_t i = 0; i < key->n; i++)
		if (weir_choice_has(&key->choice[i], WEIR_KEY_IP))
			return true;
	return false;
}

/* A name's bytes, those that mean something here as %XX. */
static void put_name(FILE *f, const char *name)
{
	for (const char *c = name; *c; c++) {
		if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		    (*c >= '0' && *c <= '9') || strchr("-_.", *c))
			(void)fputc(*c, f);
		else
			(void)fprintf(f, "%%%02X", (unsigned)(unsigned char)*c);
	}
}

/* "api-key|ip+user-agent/32,64": choices, their parts, and the prefix lengths where an address may be counted. */
int weir_key_text_make(const struct weir_key_spec *key, char **ret)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < key->n; i++) {
		for (size_t j = 0; j < key->choice[i].n; j++) {
			const struct weir_key_part *p = &key->choice[i].part[j];

			(void)fprintf(f, "%s%s",
				      j	  ? "+"
				      : i ? "|"
					  : "",
				      weir_key_kind_name(p->kind));
			if (p->name[0]) {
				(void)fputc(':', f);
				put_name(f, p->name);
			}
		}
	}
	if (weir_key_counts_ip(key))
		(void)fprintf(f, "/%u,%u", key->ipv4_prefix, key->ipv6_prefix);
	if (fclose(f) == EOF) {
		free(text);
		return -ENOMEM;
	}
	free(*ret);
	*ret = text;
	return 0;
}

/* --- the end ---- */

void weir_texts_done(char ***item, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		free((*item)[i]);
	free(*item);
	*item = NULL;
	*n = 0;
}

void weir_header_matches_done(struct weir_conf_request_match *m)
{
	for (size_t i = 0; i < m->n_header; i++) {
		free(m->header[i].name);
		free(m->header[i].value);
	}
	free(m->header);
	m->header = NULL;
	m->n_header = 0;
}

void weir_request_match_done(struct weir_conf_request_match *m)
{
	weir_texts_done(&m->method, &m->n_method);
	weir_texts_done(&m->path, &m->n_path);
	weir_texts_done(&m->host, &m->n_host);
	weir_header_matches_done(m);
}

void weir_request_limit_done(void *entry)
{
	struct weir_conf_request_limit *l = entry;

	weir_request_match_done(&l->match);
	free(l->key_text);
	free(l->timezone);
}

void weir_listener_done(void *entry)
{
	struct weir_conf_listener *l = entry;

	free(l->listen);
	free(l->unix_path);
	weir_prefix_list_done(&l->trusted);
	free(l->token_file);
	free(l->group);
}

void weir_exempt_done(void *entry)
{
	struct weir_conf_exempt *x = entry;

	weir_prefix_list_done(&x->source);
	weir_texts_done(&x->path, &x->n_path);
	weir_texts_done(&x->method, &x->n_method);
}

void weir_escalate_done(void *entry)
{
	free(((struct weir_conf_escalate *)entry)->refused.limits);
}

void weir_conf_request_done(struct weir_conf_request *q)
{
	for (size_t i = 0; i < q->n_listener; i++)
		weir_listener_done(&q->listener[i]);
	free(q->listener);
	free(q->header_user);
	free(q->header_plan);
	free(q->header_cost);
	free(q->plans_file);
	for (size_t i = 0; i < q->n_exempt; i++)
		weir_exempt_done(&q->exempt[i]);
	free(q->exempt);
	for (size_t i = 0; i < q->n_limit; i++)
		weir_request_limit_done(&q->limit[i]);
	free(q->limit);
	free(q->suspicious.packet_limits);
	free(q->suspicious.refused.limits);
	weir_request_limit_done(&q->suspicious.limit);
	for (size_t i = 0; i < q->n_escalate; i++)
		weir_escalate_done(&q->escalate[i]);
	free(q->escalate);
}
