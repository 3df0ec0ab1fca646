/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keys of requests; see key.h. */
#include "user/l7/key.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "user/base/str.h"
#include "user/l7/path.h"

#define SIPHASH_KEY crypto_shorthash_siphashx24_KEYBYTES

_Static_assert(WEIR_KEY_SECRET >= SIPHASH_KEY, "SipHash's key");
_Static_assert(WEIR_KEY_BYTES == crypto_shorthash_siphashx24_BYTES, "SipHash's longer hash");
_Static_assert(WEIR_KEY_BYTES == crypto_generichash_BYTES_MIN, "BLAKE2b's shortest hash");

#define VERSION 1

static const char *const kind_names[WEIR_KEY_KIND_MAX] = {
	[WEIR_KEY_IP] = "ip",
	[WEIR_KEY_USER] = "user",
	[WEIR_KEY_API_KEY] = "api-key",
	[WEIR_KEY_TOKEN] = "token",
	[WEIR_KEY_USER_AGENT] = "user-agent",
	[WEIR_KEY_ENDPOINT] = "endpoint",
	[WEIR_KEY_METHOD] = "method",
	[WEIR_KEY_PATH] = "path",
	[WEIR_KEY_HOST] = "host",
	[WEIR_KEY_GLOBAL] = "global",
	[WEIR_KEY_HEADER] = "header",
	[WEIR_KEY_COOKIE] = "cookie",
	[WEIR_KEY_QUERY] = "query",
};

const char *weir_key_kind_name(enum weir_key_kind kind)
{
	return kind_names[kind] ? kind_names[kind] : "";
}

/* Where a part's value is, once found: the feeding must not fail half way. */
struct value {
	struct weir_text text;
	unsigned char ip[2 + 16]; /* family, length, address */
	char query[WEIR_KEY_QUERY_MAX];
};

static bool has_name(enum weir_key_kind kind)
{
	return kind == WEIR_KEY_HEADER || kind == WEIR_KEY_COOKIE || kind == WEIR_KEY_QUERY;
}

int weir_key_part_parse(const char *text, struct weir_key_part *ret, struct weir_error *error)
{
	struct weir_key_part p = {.kind = WEIR_KEY_NONE};
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	const char *near;

	for (unsigned k = WEIR_KEY_IP; k < WEIR_KEY_KIND_MAX; k++) {
		if (strlen(kind_names[k]) == n && memcmp(kind_names[k], text, n) == 0)
			p.kind = k;
	}
	if (p.kind == WEIR_KEY_NONE) {
		near = weir_str_closest(text, kind_names, WEIR_KEY_KIND_MAX);
		return weir_error_set(error, -EINVAL, "'%.64s' is no part of a key%s%s%s", text,
				      near ? " (did you mean " : "", near ? near : "",
				      near ? "?)" : "");
	}
	if (has_name(p.kind) != (colon != NULL))
		return weir_error_set(error, -EINVAL,
				      colon ? "'%s' takes no name" : "'%s' needs a name: %s:NAME",
				      kind_names[p.kind], kind_names[p.kind]);
	if (!colon)
		goto out;
	if (!weir_str_copy(p.name, sizeof(p.name), colon + 1) || !p.name[0])
		return weir_error_set(error, -EINVAL,
				      "the name after '%s:' must have 1 to %d characters",
				      kind_names[p.kind], WEIR_KEY_NAME_MAX - 1);
	if (p.kind != WEIR_KEY_QUERY && !weir_text_is_token(weir_text_of(p.name)))
		return weir_error_set(error, -EINVAL, "'%s' is no name of a %s", p.name,
				      kind_names[p.kind]);
	for (char *c = p.name; p.kind == WEIR_KEY_HEADER && *c; c++)
		*c = weir_ascii_lower(*c);
out:
	*ret = p;
	return 0;
}

static struct weir_text header(const struct weir_key_request *q, const char *name)
{
	const struct weir_header *h = weir_header_list_next(q->headers, weir_text_of(name), NULL);

	return h ? h->value : (struct weir_text){.n = 0};
}

/* RFC 6265: NAME=VALUE; NAME=VALUE, a value perhaps in quotes. The first of that name, over all lines. */
static struct weir_text cookie(const struct weir_key_request *q, const char *name)
{
	const struct weir_text wanted = weir_text_of(name), line_name = weir_text_of("Cookie");
	const struct weir_header *h = NULL;

	while ((h = weir_header_list_next(q->headers, line_name, h))) {
		struct weir_text rest = h->value;

		while (rest.n) {
			const char *end = memchr(rest.p, ';', rest.n);
			size_t n = end ? (size_t)(end - rest.p) : rest.n;
			const char *equal = n ? memchr(rest.p, '=', n) : NULL;
			struct weir_text v;

			if (equal && weir_text_equal(weir_text_trim((struct weir_text){
							     rest.p, (size_t)(equal - rest.p)}),
						     wanted)) {
				v = weir_text_trim(
					(struct weir_text){equal + 1,
							   n - (size_t)(equal - rest.p) - 1});
				if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"')
					v = (struct weir_text){v.p + 1, v.n - 2};
				return v;
			}
			n += end ? 1 : 0;
			rest.p += n;
			rest.n -= n;
		}
	}
	return (struct weir_text){.n = 0};
}

static struct weir_text token(const struct weir_key_request *q)
{
	struct weir_text t = header(q, "authorization");

	if (t.n <= 7 || (t.p[6] != ' ' && t.p[6] != '\t') ||
	    !weir_text_equal_fold((struct weir_text){t.p, 6}, weir_text_of("Bearer")))
		return (struct weir_text){.n = 0};
	return weir_text_trim((struct weir_text){t.p + 7, t.n - 7});
}

const char *const weir_key_methods[WEIR_KEY_METHODS] = {"GET",	   "POST",    "PUT",
							"DELETE",  "OPTIONS", "PATCH",
							"CONNECT", "TRACE",   "*"};

static struct weir_text method(const struct weir_key_request *q)
{
	for (size_t i = 0; i < WEIR_KEY_METHODS - 1; i++) {
		if (weir_text_equal(q->method, weir_text_of(weir_key_methods[i])))
			return q->method;
	}
	return weir_text_of(weir_key_methods[WEIR_KEY_METHODS - 1]);
}

static struct weir_text named(const struct weir_key_request *q, const struct weir_key_part *part,
			      char buf[static WEIR_KEY_QUERY_MAX])
{
	struct weir_text found = {.n = 0};

	if (part->kind == WEIR_KEY_HEADER)
		return header(q, part->name);
	if (part->kind == WEIR_KEY_COOKIE)
		return cookie(q, part->name);
	if (weir_query_find(q->query, weir_text_of(part->name), buf, WEIR_KEY_QUERY_MAX, &found) <
	    0)
		return (struct weir_text){.n = 0};
	return found;
}

struct weir_text weir_key_api_key(const struct weir_key_context *context,
				  const struct weir_key_request *request,
				  char buf[static WEIR_KEY_QUERY_MAX])
{
	struct weir_text key = request->api_key;

	for (size_t i = 0; i < context->n_api_key && !key.n; i++)
		key = named(request, &context->api_key[i], buf);
	return key;
}

static struct weir_text address(const struct weir_key_spec *spec, const struct weir_key_request *q,
				struct value *v)
{
	struct weir_prefix p;

	if (!q->client)
		return (struct weir_text){.n = 0};
	p = weir_client_prefix(q->client, spec->ipv4_prefix, spec->ipv6_prefix);
	v->ip[0] = p.family;
	v->ip[1] = p.len;
	memcpy(v->ip + 2, p.addr.ip, sizeof(p.addr.ip));
	return (struct weir_text){(const char *)v->ip, sizeof(v->ip)};
}

/* Is the part there, and what is its value? */
static bool find(const struct weir_key_spec *spec, const struct weir_key_part *part,
		 const struct weir_key_context *c, const struct weir_key_request *q,
		 struct value *v)
{
	v->text = (struct weir_text){.n = 0};
	switch (part->kind) {
	case WEIR_KEY_IP:
		v->text = address(spec, q, v);
		break;
	case WEIR_KEY_USER:
		v->text = q->user;
		break;
	case WEIR_KEY_API_KEY:
		v->text = weir_key_api_key(c, q, v->query);
		break;
	case WEIR_KEY_TOKEN:
		v->text = q->token.n ? q->token : token(q);
		break;
	case WEIR_KEY_USER_AGENT:
		v->text = header(q, "user-agent");
		break;
	case WEIR_KEY_METHOD:
		v->text = method(q);
		break;
	case WEIR_KEY_PATH:
		v->text = q->path;
		break;
	case WEIR_KEY_HOST:
		v->text = q->host;
		break;
	case WEIR_KEY_ENDPOINT:
		v->text = q->endpoint;
		return true;
	case WEIR_KEY_GLOBAL:
		return true;
	case WEIR_KEY_HEADER:
	case WEIR_KEY_COOKIE:
	case WEIR_KEY_QUERY:
		v->text = named(q, part, v->query);
		break;
	case WEIR_KEY_NONE:
	case WEIR_KEY_KIND_MAX:
		return false;
	}
	return v->text.n > 0;
}

static void feed_sized(weir_key_feed_fn *feed, void *arg, struct weir_text t, unsigned width)
{
	unsigned char n[4];

	for (unsigned i = 0; i < width; i++)
		n[i] = (unsigned char)(t.n >> (8 * i));
	feed(arg, n, width);
	if (t.n)
		feed(arg, t.p, t.n);
}

static void feed_part(const struct weir_key_part *part, const struct weir_key_request *q,
		      const struct value *v, weir_key_feed_fn *feed, void *arg)
{
	unsigned char kind = (unsigned char)part->kind;
	struct weir_text name = weir_text_of(part->name);

	/* an endpoint's name is its method; a limit named as a pattern is written is not that pattern */
	if (part->kind == WEIR_KEY_ENDPOINT)
		name = method(q);
	feed(arg, &kind, 1);
	if (part->kind == WEIR_KEY_ENDPOINT) {
		unsigned char of_limit = q->endpoint_is_limit;

		feed(arg, &of_limit, 1);
	}
	feed_sized(feed, arg, name, 2);
	feed_sized(feed, arg, v->text, 4);
}

/* -ENOENT: a part is not there; what was fed is worth nothing then. */
static int feed_choice(const struct weir_key_spec *spec, const struct weir_key_choice *choice,
		       const struct weir_key_context *context,
		       const struct weir_key_request *request, weir_key_feed_fn *feed, void *arg)
{
	static const unsigned char version = VERSION;
	struct value v;

	if (choice->n == 0)
		return -ENOENT;
	feed(arg, &version, 1);
	for (size_t i = 0; i < choice->n; i++) {
		if (!find(spec, &choice->part[i], context, request, &v))
			return -ENOENT;
		feed_part(&choice->part[i], request, &v, feed, arg);
	}
	return 0;
}

int weir_key_feed(const struct weir_key_spec *spec, const struct weir_key_choice *choice,
		  const struct weir_key_context *context, const struct weir_key_request *request,
		  weir_key_feed_fn *feed, void *arg)
{
	struct value v;

	for (size_t i = 0; i < choice->n; i++)
		if (!find(spec, &choice->part[i], context, request, &v))
			return -ENOENT;
	return feed_choice(spec, choice, context, request, feed, arg);
}

/* --- hashing ---- */

/* The input in one piece while it is short, as it nearly always is: SipHash takes no other. */
struct input {
	const unsigned char *secret;
	unsigned char byte[512];
	size_t n;
	bool is_long;
	int r;
	crypto_generichash_state state; /* of what is long */
};

static void gather(void *arg, const void *bytes, size_t n)
{
	struct input *in = arg;

	if (!in->is_long && n <= sizeof(in->byte) - in->n) {
		memcpy(in->byte + in->n, bytes, n);
		in->n += n;
		return;
	}
	if (!in->is_long) {
		in->is_long = true;
		in->r |= crypto_generichash_init(&in->state, in->secret, WEIR_KEY_SECRET,
						 WEIR_KEY_BYTES);
		in->r |= crypto_generichash_update(&in->state, in->byte, in->n);
	}
	in->r |= crypto_generichash_update(&in->state, bytes, n);
}

static bool client_chosen(const struct weir_key_choice *choice)
{
	for (size_t i = 0; i < choice->n; i++) {
		switch (choice->part[i].kind) {
		case WEIR_KEY_API_KEY:
		case WEIR_KEY_TOKEN:
		case WEIR_KEY_USER_AGENT:
		case WEIR_KEY_PATH:
		case WEIR_KEY_HOST:
		case WEIR_KEY_HEADER:
		case WEIR_KEY_COOKIE:
		case WEIR_KEY_QUERY:
			return true;
		case WEIR_KEY_NONE:
		case WEIR_KEY_IP:
		case WEIR_KEY_USER:
		case WEIR_KEY_ENDPOINT:
		case WEIR_KEY_METHOD:
		case WEIR_KEY_GLOBAL:
		case WEIR_KEY_KIND_MAX:
			break;
		}
	}
	return false;
}

static int hash_choice(const struct weir_key_spec *spec, const struct weir_key_choice *choice,
		       const struct weir_key_context *context,
		       const struct weir_key_request *request, struct weir_key *ret)
{
	struct input in;
	int r;

	in.secret = context->secret;
	in.n = WEIR_KEY_SECRET - SIPHASH_KEY;
	memcpy(in.byte, context->secret + SIPHASH_KEY, in.n); /* the rest of it goes in front */
	in.is_long = false;
	in.r = 0;
	r = feed_choice(spec, choice, context, request, gather, &in);
	if (r < 0)
		return r;
	if (in.is_long)
		in.r |= crypto_generichash_final(&in.state, ret->byte, sizeof(ret->byte));
	else
		in.r = crypto_shorthash_siphashx24(ret->byte, in.byte, in.n, in.secret);
	ret->client_chosen = client_chosen(choice);
	ret->fallback = false;
	return in.r < 0 ? -EIO : 0;
}

int weir_key_build_ip(const struct weir_key_spec *spec, const struct weir_key_context *context,
		      const struct weir_key_request *request, struct weir_key *ret)
{
	static const struct weir_key_choice ip = {.part = {{.kind = WEIR_KEY_IP}}, .n = 1};
	int r = hash_choice(spec, &ip, context, request, ret);

	return r == -ENOENT ? -EADDRNOTAVAIL : r;
}

int weir_key_build(const struct weir_key_spec *spec, const struct weir_key_context *context,
		   const struct weir_key_request *request, struct weir_key *ret)
{
	struct weir_key k;
	int r;

	for (size_t i = 0; i < spec->n; i++) {
		r = hash_choice(spec, &spec->choice[i], context, request, ret);
		if (r != -ENOENT)
			return r;
	}
	if (spec->missing == WEIR_KEY_MISSING_SKIP)
		return -ENOENT;
	if (spec->missing == WEIR_KEY_MISSING_DENY)
		return -EACCES;
	r = weir_key_build_ip(spec, context, request, &k);
	if (r < 0)
		return r;
	k.fallback = true;
	*ret = k;
	return 0;
}
