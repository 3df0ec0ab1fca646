/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer contract: see answer.h. Called once per request by the listeners. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "user/l7/answer.h"
#include "user/l7/put.h"

#define NS_PER_S 1000000000ull

/* By enum weir_answer_code. rank: which reason wins; a wait is only promised where waiting helps. */
static const struct {
	const char *text, *message;
	__u16 status;
	__u8 rank;
} codes[] = {
	[WEIR_ANSWER_ALLOW] = {"", "", 200, 0},
	[WEIR_ANSWER_RATE_LIMITED] = {"RATE_LIMITED", "Too many requests", 429, 2},
	[WEIR_ANSWER_COST_TOO_LARGE] =
		{"COST_TOO_LARGE", "This request costs more than the limit ever admits at once",
		 413, 3},
	[WEIR_ANSWER_STORE_UNAVAILABLE] = {"STORE_UNAVAILABLE",
					   "This request cannot be checked at the moment", 503, 1},
	[WEIR_ANSWER_KEY_MISSING] = {"KEY_MISSING", "This request lacks what it is counted by", 403,
				     4},
	[WEIR_ANSWER_BAD_REQUEST] = {"BAD_REQUEST", "This request cannot be judged", 400, 5},
	[WEIR_ANSWER_SHUTTING_DOWN] = {"SHUTTING_DOWN",
				       "The check was ended before this request's turn", 503, 1},
};

const char *weir_answer_code_text(enum weir_answer_code code)
{
	return codes[code].text;
}

/* By hand: it runs for every limit of every answer, and strspn would build its set each time. */
bool weir_answer_name_ok(const char *name)
{
	size_t n = 0;

	for (char c = name[0]; c; c = name[++n])
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') ||
		    n == WEIR_ANSWER_NAME_MAX - 1)
			return false;
	return n > 0;
}

__u64 weir_answer_seconds(__u64 ns)
{
	return ns / NS_PER_S + (ns % NS_PER_S != 0);
}

/* --- which limit is reported ---- */

enum weir_answer_code weir_answer_code_of(const struct weir_answer_limit *limit)
{
	switch (limit->outcome) {
	case WEIR_ANSWER_ADMITTED:
		return WEIR_ANSWER_ALLOW;
	case WEIR_ANSWER_TOO_LARGE:
		return WEIR_ANSWER_COST_TOO_LARGE;
	case WEIR_ANSWER_NO_STORE:
		return WEIR_ANSWER_STORE_UNAVAILABLE;
	case WEIR_ANSWER_NO_KEY:
		return WEIR_ANSWER_KEY_MISSING;
	case WEIR_ANSWER_EXCEEDED:
		break;
	}
	return WEIR_ANSWER_RATE_LIMITED; /* and whatever a mistake may pass: never an admission */
}

static __u64 shown_remaining(const struct weir_answer_limit *l)
{
	return l->remaining < l->limit ? l->remaining : l->limit;
}

/* remaining / limit of @a < that of @b, crosswise; a limit of 0 admits nothing and is the tightest of all. */
static bool is_tighter(const struct weir_answer_limit *a, const struct weir_answer_limit *b)
{
	unsigned __int128 left = (unsigned __int128)shown_remaining(a) * (b->limit ? b->limit : 1);
	unsigned __int128 right = (unsigned __int128)shown_remaining(b) * (a->limit ? a->limit : 1);

	return left != right ? left < right : a->reset_after_ns > b->reset_after_ns;
}

static bool is_before(const struct weir_answer_limit *a, const struct weir_answer_limit *b)
{
	unsigned int rank_a = codes[weir_answer_code_of(a)].rank,
		     rank_b = codes[weir_answer_code_of(b)].rank;

	if (rank_a != rank_b)
		return rank_a > rank_b;
	return rank_a ? a->retry_after_ns > b->retry_after_ns : is_tighter(a, b);
}

/* The one to speak of among the enforced or the monitor limits; NULL if there is none. */
const struct weir_answer_limit *weir_answer_reported(const struct weir_answer_limit *limits,
						     size_t n, bool monitor)
{
	const struct weir_answer_limit *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (limits[i].monitor == monitor && (!best || is_before(&limits[i], best)))
			best = &limits[i];
	return best;
}

static __u64 latest_retry_s(const struct weir_answer_limit *l, size_t n)
{
	__u64 latest_ns = 0, s;

	for (size_t i = 0; i < n; i++)
		if (!l[i].monitor && weir_answer_code_of(&l[i]) != WEIR_ANSWER_ALLOW &&
		    l[i].retry_after_ns > latest_ns)
			latest_ns = l[i].retry_after_ns;
	s = weir_answer_seconds(latest_ns);
	return s ? s : 1;
}

/* Seconds until there is more quota, as headers and body show it. */
static __u64 shown_reset_s(const struct weir_answer *a, const struct weir_answer_limit *l)
{
	__u64 s = weir_answer_seconds(l->reset_after_ns);

	if (a->code == WEIR_ANSWER_ALLOW)
		return s;
	if (a->retry_after_s && s > a->retry_after_s)
		s = a->retry_after_s;
	return s ? s : 1;
}

/* --- text ---- */

static const char *value_begin(const struct weir_put *p)
{
	return p->to + p->n;
}

static void value_end(struct weir_answer *a, struct weir_put *p, const char *name,
		      const char *value)
{
	weir_put_bytes(p, "", 1);
	if (!p->cut)
		a->headers[a->n_headers++] = (struct weir_answer_header){name, value};
}

static void add_text(struct weir_answer *a, const char *name, const char *value)
{
	a->headers[a->n_headers++] = (struct weir_answer_header){name, value};
}

static void add_u64(struct weir_answer *a, struct weir_put *p, const char *name, __u64 v)
{
	const char *value = value_begin(p);

	weir_put_u64(p, v);
	value_end(a, p, name, value);
}

static __u64 quantity(__u64 v)
{
	return v < WEIR_ANSWER_QUANTITY_MAX ? v : WEIR_ANSWER_QUANTITY_MAX;
}

static void put_quoted(struct weir_put *p, const char *name)
{
	weir_put_bytes(p, "\"", 1);
	weir_put_text(p, name);
	weir_put_bytes(p, "\"", 1);
}

static void put_policy(struct weir_put *p, const struct weir_answer_limit *l)
{
	put_quoted(p, l->name);
	weir_put_text(p, ";q=");
	weir_put_u64(p, quantity(l->limit));
	if (l->window_ns && l->window_ns % NS_PER_S == 0) {
		weir_put_text(p, ";w=");
		weir_put_u64(p, l->window_ns / NS_PER_S);
	}
}

/* All enforced limits of the request, in their order, so that the value stays the same from answer to answer. */
static void add_policies(struct weir_answer *a, struct weir_put *p,
			 const struct weir_answer_limit *l, size_t n,
			 const struct weir_answer_limit *only)
{
	const char *value = value_begin(p);
	size_t enforced = 0, done = 0;

	for (size_t i = 0; i < n; i++)
		enforced += !l[i].monitor;
	for (size_t i = 0; i < n; i++) {
		if (l[i].monitor || (enforced > WEIR_ANSWER_POLICIES_MAX && &l[i] != only))
			continue;
		if (done++)
			weir_put_text(p, ", ");
		put_policy(p, &l[i]);
	}
	value_end(a, p, "RateLimit-Policy", value);
}

static void add_quota(struct weir_answer *a, struct weir_put *p, const struct weir_answer_limit *l,
		      size_t n, const struct weir_answer_limit *which)
{
	const char *value;

	add_u64(a, p, "X-RateLimit-Limit", quantity(a->limit_n));
	add_u64(a, p, "X-RateLimit-Remaining", quantity(a->remaining));
	add_u64(a, p, "X-RateLimit-Reset", a->reset_s);
	add_policies(a, p, l, n, which);
	value = value_begin(p);
	put_quoted(p, which->name);
	weir_put_text(p, ";r=");
	weir_put_u64(p, quantity(a->remaining));
	weir_put_text(p, ";t=");
	weir_put_u64(p, a->reset_s);
	value_end(a, p, "RateLimit", value);
}

static void add_would(struct weir_answer *a, struct weir_put *p)
{
	const char *value = value_begin(p);

	weir_put_text(p, "deny; limit=");
	weir_put_text(p, a->would);
	value_end(a, p, "X-Weir-Would", value);
}

static void put_body(struct weir_answer *a, struct weir_put *p)
{
	const char *begin = value_begin(p);

	weir_put_text(p, "{\"code\":\"");
	weir_put_text(p, codes[a->code].text);
	weir_put_text(p, "\",\"message\":\"");
	weir_put_text(p, codes[a->code].message);
	if (a->retry_after_s) {
		weir_put_text(p, "; try again in ");
		weir_put_u64(p, a->retry_after_s);
		weir_put_text(p, a->retry_after_s == 1 ? " second" : " seconds");
	}
	weir_put_text(p, ".\",\"limit\":");
	put_quoted(p, a->limit);
	if (a->retry_after_s) {
		weir_put_text(p, ",\"retry_after_seconds\":");
		weir_put_u64(p, a->retry_after_s);
	}
	weir_put_bytes(p, "}\n", 3); /* with its NUL */
	a->body = begin;
	a->body_n = (size_t)(value_begin(p) - begin) - 1;
}

static void add_refusal(struct weir_answer *a, struct weir_put *p)
{
	add_u64(a, p, "X-Weir-Status", a->client_status);
	add_text(a, "X-Weir-Limit", a->limit);
	if (a->retry_after_s)
		add_u64(a, p, "Retry-After", a->retry_after_s);
	add_text(a, "Cache-Control", "no-store");
	add_text(a, "Content-Type", "application/json");
	put_body(a, p);
}

/* nginx makes 500 of everything but 401 and 403; to its fail-open recipes and to Envoy's a 5xx means "let through". Nor is
 * it 429 instead: what is no client's doing is never called that.
 */
static __u16 status_for(enum weir_answer_profile profile, __u16 client_status)
{
	if (profile == WEIR_ANSWER_NGINX && client_status != 200)
		return 403;
	if (profile == WEIR_ANSWER_ENVOY && client_status >= 500)
		return 403;
	return client_status;
}

int weir_answer_make(enum weir_answer_profile profile, const struct weir_answer_limit *limits,
		     size_t n, struct weir_answer *ret)
{
	const struct weir_answer_limit *which, *would;
	struct weir_put p = {.to = ret->text, .max = sizeof(ret->text)};

	if (n > WEIR_ANSWER_LIMITS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		if (!weir_answer_name_ok(limits[i].name))
			return -EINVAL;
	which = weir_answer_reported(limits, n, false);
	would = weir_answer_reported(limits, n, true);
	memset(ret, 0, offsetof(struct weir_answer, text));
	ret->body = "";
	ret->code = which ? weir_answer_code_of(which) : WEIR_ANSWER_ALLOW;
	ret->client_status = codes[ret->code].status;
	ret->status = status_for(profile, ret->client_status);
	ret->limit = which ? which->name : NULL;
	if (ret->code == WEIR_ANSWER_RATE_LIMITED || ret->code == WEIR_ANSWER_STORE_UNAVAILABLE)
		ret->retry_after_s = latest_retry_s(limits, n);
	add_text(ret, "X-Weir-Decision", ret->code == WEIR_ANSWER_ALLOW ? "allow" : "deny");
	if (which && ret->code != WEIR_ANSWER_STORE_UNAVAILABLE &&
	    ret->code != WEIR_ANSWER_KEY_MISSING) {
		ret->limit_n = which->limit;
		ret->remaining = shown_remaining(which);
		ret->reset_s = shown_reset_s(ret, which);
		add_quota(ret, &p, limits, n, which);
	}
	if (ret->code != WEIR_ANSWER_ALLOW) {
		add_refusal(ret, &p);
	} else if (would && weir_answer_code_of(would) != WEIR_ANSWER_ALLOW) {
		ret->would = would->name;
		add_would(ret, &p);
	}
	return 0;
}

void weir_answer_refuse(enum weir_answer_profile profile, enum weir_answer_code code,
			const char *name, struct weir_answer *ret)
{
	struct weir_put p = {.to = ret->text, .max = sizeof(ret->text)};

	memset(ret, 0, offsetof(struct weir_answer, text));
	ret->code = code;
	ret->client_status = codes[code].status;
	ret->status = status_for(profile, ret->client_status);
	ret->limit = name;
	ret->retry_after_s = ret->client_status == 503;
	add_text(ret, "X-Weir-Decision", "deny");
	add_refusal(ret, &p);
}

const char *weir_answer_header(const struct weir_answer *a, const char *name)
{
	for (size_t i = 0; i < a->n_headers; i++)
		if (strcmp(a->headers[i].name, name) == 0)
			return a->headers[i].value;
	return NULL;
}

/* The longest of everything: a name is quoted at most WEIR_ANSWER_POLICIES_MAX times in policies and four times
 * elsewhere, each with no more than 64 bytes of numbers and marks; the fixed words of headers and body fit in 512.
 */
_Static_assert((WEIR_ANSWER_POLICIES_MAX + 4) * (WEIR_ANSWER_NAME_MAX + 64) + 512 <=
		       WEIR_ANSWER_TEXT_MAX,
	       "an answer may not fit");
