/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A proxy's request to a question for the engine: which header gives method, target, host and address is all that
 * differs between nginx, Caddy, Traefik and Envoy. Called by mhd.c.
 *
 * Whatever a profile does not name is the client's, and is only ever a header of the client's request.
 */
#include <string.h>

#include "user/http/conn.h"

#define CHECK "/check"

static const struct weir_http_refusal too_many_lines = {431, "TOO_MANY_HEADERS",
							"A request may have 128 header lines."};
static const struct weir_http_refusal bad_header = {
	400, "BAD_HEADER", "A header line has a name or a byte that HTTP does not allow."};

enum weir_answer_profile weir_http_answer_profile(enum weir_profile profile)
{
	/* the first six have the same numbers */
	return profile < WEIR_PROFILE_METRICS ? (enum weir_answer_profile)profile
					      : WEIR_ANSWER_JSON;
}

/* --- the request line ---- */

static int keep_target(struct weir_http_conn *c, const char *before, const char *target)
{
	size_t n_before = strlen(before), n = strlen(target);

	if (n_before + n > c->target_max) {
		size_t max = (n_before + n + 255) & ~(size_t)255;
		char *t = realloc(c->target, max);

		if (!t)
			return -ENOMEM;
		c->target = t;
		c->target_max = max;
	}
	memcpy(c->target, before, n_before);
	memcpy(c->target + n_before, target, n);
	c->target_n = n_before + n;
	return 0;
}

/* @target is @path, whatever its query. */
static bool is_path(const char *target, const char *path)
{
	size_t n = strlen(path);

	return strncmp(target, path, n) == 0 && (!target[n] || target[n] == '?');
}

int weir_http_profile_target(struct weir_http_conn *c, const char *target)
{
	c->target_n = 0;
	c->path = WEIR_HTTP_PATH_NONE;
	switch (c->profile) {
	case WEIR_PROFILE_JSON:
		if (is_path(target, "/v1/check"))
			c->path = WEIR_HTTP_PATH_CHECK;
		else if (is_path(target, "/v1/refund"))
			c->path = WEIR_HTTP_PATH_REFUND;
		return 0;
	case WEIR_PROFILE_METRICS:
		c->path = WEIR_HTTP_PATH_CHECK;
		return keep_target(c, "", target);
	case WEIR_PROFILE_ENVOY:
		if (strncmp(target, CHECK, strlen(CHECK)) != 0)
			return 0;
		target += strlen(CHECK);
		if (*target && *target != '/' && *target != '?')
			return 0;
		c->path = WEIR_HTTP_PATH_CHECK;
		return keep_target(c, *target == '/' ? "" : "/", target);
	default:
		if (!c->trusted) {
			c->path = WEIR_HTTP_PATH_CHECK;
			return keep_target(c, "", target);
		}
		if (is_path(target, CHECK))
			c->path = WEIR_HTTP_PATH_CHECK;
		return 0;
	}
}

/* --- header lines ---- */

struct reading {
	struct weir_http_lines *lines;
	const struct weir_http_port_settings *settings;
	bool trusted;
	int r;
};

/* Where the client's list is not where a line belongs. */
static bool is_plumbing(enum weir_http_slot slot, bool trusted)
{
	switch (slot) {
	case WEIR_HTTP_SLOT_METHOD:
	case WEIR_HTTP_SLOT_TARGET:
	case WEIR_HTTP_SLOT_FORWARDED_HOST:
	case WEIR_HTTP_SLOT_FOR:
		return trusted;
	case WEIR_HTTP_SLOT_USER:
	case WEIR_HTTP_SLOT_PLAN:
	case WEIR_HTTP_SLOT_COST:
		return !trusted; /* forged: no rule may see it */
	default:
		return false;
	}
}

static enum MHD_Result take_line(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_n,
				 const char *value, size_t value_n)
{
	struct reading *r = arg;
	struct weir_text name = {key, key_n}, text = {value, value ? value_n : 0};
	struct weir_header_list *to = &r->lines->headers;

	(void)kind;
	if (value == weir_http_no_cookies)
		return MHD_YES; /* no line of the client's */
	for (size_t i = 0; i < r->settings->n_names; i++) {
		const struct weir_http_name *known = &r->settings->names[i];

		if (known->name.n != key_n || !weir_text_equal_fold(known->name, name))
			continue;
		r->lines->slot[known->slot] = weir_text_trim(text);
		r->lines->n[known->slot]++;
		if (is_plumbing(known->slot, r->trusted))
			to = known->slot == WEIR_HTTP_SLOT_FOR ? &r->lines->forwarded : NULL;
		break;
	}
	if (to)
		r->r = weir_header_list_add(to, name, text);
	return r->r < 0 ? MHD_NO : MHD_YES;
}

const struct weir_http_refusal *weir_http_profile_lines(struct weir_http_conn *c,
							struct weir_http_lines *lines)
{
	struct reading r = {.lines = lines, .settings = c->port->settings, .trusted = c->trusted};

	lines->of = NULL;
	lines->headers.n = 0;
	lines->forwarded.n = 0;
	memset(lines->n, 0, sizeof(lines->n));
	(void)MHD_get_connection_values_n(c->mhd, MHD_HEADER_KIND, take_line, &r);
	if (r.r == -E2BIG || lines->headers.n + lines->forwarded.n > WEIR_HEADER_LINES_MAX)
		return &too_many_lines;
	if (r.r < 0)
		return &bad_header;
	lines->of = c;
	return NULL;
}

/* --- the question ---- */

static const char *name_of(const struct weir_http_conn *c, enum weir_http_slot slot)
{
	const struct weir_http_port_settings *s = c->port->settings;

	for (size_t i = 0; i < s->n_names; i++)
		if (s->names[i].slot == slot)
			return s->names[i].name.p;
	return NULL;
}

static void note(const struct weir_http_conn *c, enum weir_http_note what, _Atomic __u64 *counter,
		 const char *detail)
{
	weir_http_count(counter, 1);
	weir_http_note(c->port->worker, what, c->port, detail);
}

static void missing(const struct weir_http_conn *c, enum weir_http_slot slot)
{
	char detail[128];

	(void)snprintf(detail, sizeof(detail), "the proxy must send %s", name_of(c, slot));
	note(c, WEIR_HTTP_NOTE_NO_TARGET, &c->port->worker->counters.no_target, detail);
}

/* Of a line that must be there at most once. */
static bool is_doubled(const struct weir_http_conn *c, const struct weir_http_lines *lines,
		       enum weir_http_slot slot)
{
	if (lines->n[slot] < 2)
		return false;
	note(c, WEIR_HTTP_NOTE_DOUBLED, &c->port->worker->counters.doubled, name_of(c, slot));
	return true;
}

static bool find_target(const struct weir_http_conn *c, const char *method,
			const struct weir_http_lines *lines, struct weir_l7_query *q)
{
	bool told = c->trusted && c->profile != WEIR_PROFILE_ENVOY;

	if (is_doubled(c, lines, WEIR_HTTP_SLOT_HOST))
		return false;
	if (lines->n[WEIR_HTTP_SLOT_HOST])
		q->host = lines->slot[WEIR_HTTP_SLOT_HOST];
	if (!told) {
		q->method = weir_text_of(method);
		q->target = (struct weir_text){c->target, c->target_n};
		return true;
	}
	if (is_doubled(c, lines, WEIR_HTTP_SLOT_METHOD) ||
	    is_doubled(c, lines, WEIR_HTTP_SLOT_TARGET) ||
	    is_doubled(c, lines, WEIR_HTTP_SLOT_FORWARDED_HOST))
		return false;
	for (enum weir_http_slot s = WEIR_HTTP_SLOT_METHOD; s <= WEIR_HTTP_SLOT_TARGET; s++) {
		if (!lines->n[s] || !lines->slot[s].n) {
			missing(c, s);
			return false;
		}
	}
	q->method = lines->slot[WEIR_HTTP_SLOT_METHOD];
	q->target = lines->slot[WEIR_HTTP_SLOT_TARGET];
	if (lines->n[WEIR_HTTP_SLOT_FORWARDED_HOST] && lines->slot[WEIR_HTTP_SLOT_FORWARDED_HOST].n)
		q->host = lines->slot[WEIR_HTTP_SLOT_FORWARDED_HOST];
	return true;
}

static void find_client(struct weir_http_conn *c, const struct weir_http_lines *lines,
			struct weir_prefix *ret_client, struct weir_l7_query *q)
{
	struct weir_http_worker *w = c->port->worker;
	const struct weir_client_options o = {
		.header = c->trusted ? WEIR_CLIENT_X_FORWARDED_FOR : WEIR_CLIENT_NONE,
		.trusted = c->port->settings->trusted,
		.n_trusted = c->port->settings->n_trusted,
		.nat64 = w->settings->nat64,
	};
	struct weir_client found;
	int r = weir_client_find(&o, c->is_unix ? NULL : &c->peer, &lines->forwarded, &found);

	/* the proxy itself is not a client: all of them would share its bucket */
	if (r < 0 || (c->trusted && !found.hops)) {
		note(c, WEIR_HTTP_NOTE_NO_ADDRESS, &w->counters.no_address, NULL);
		return;
	}
	*ret_client = found.addr;
	q->client = ret_client;
	q->client_seen = c->trusted;
	weir_http_saw_client(c->port, ret_client, c->trusted);
}

static void drop_lines(struct weir_header_list *list, struct weir_text name)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (!weir_text_equal_fold(list->line[i].name, name))
			list->line[n++] = list->line[i];
	list->n = n;
}

/* From a trusted proxy only; where two lines are there, one is the client's, and neither counts. */
static struct weir_text proxy_says(const struct weir_http_conn *c, struct weir_http_lines *lines,
				   enum weir_http_slot slot)
{
	if (!lines->n[slot] || !c->trusted)
		return (struct weir_text){.n = 0};
	if (is_doubled(c, lines, slot)) {
		drop_lines(&lines->headers, weir_text_of(name_of(c, slot)));
		return (struct weir_text){.n = 0};
	}
	return lines->slot[slot];
}

static void tell_untrusted(const struct weir_http_conn *c)
{
	char who[WEIR_PREFIX_STRLEN];

	if (!atomic_load_explicit(&c->port->listen->told_untrusted, memory_order_relaxed))
		weir_http_note(c->port->worker, WEIR_HTTP_NOTE_UNTRUSTED, c->port,
			       weir_prefix_format(&c->peer, who));
}

bool weir_http_profile_query(struct weir_http_conn *c, const char *method,
			     struct weir_http_lines *lines, struct weir_prefix *ret_client,
			     struct weir_l7_query *ret)
{
	struct weir_l7_query q = {
		.profile = weir_http_answer_profile(c->profile),
		.headers = &lines->headers,
		.may_wait = c->profile != WEIR_PROFILE_ENVOY &&
			    weir_http_worker_may_hold(c->port->worker),
	};

	if (!c->trusted &&
	    (lines->n[WEIR_HTTP_SLOT_FOR] || lines->n[WEIR_HTTP_SLOT_METHOD] ||
	     lines->n[WEIR_HTTP_SLOT_TARGET] || lines->n[WEIR_HTTP_SLOT_FORWARDED_HOST])) {
		weir_http_count(&c->port->worker->counters.untrusted_forwarded, 1);
		tell_untrusted(c);
	}
	if (!find_target(c, method, lines, &q))
		return false;
	find_client(c, lines, ret_client, &q);
	q.user = proxy_says(c, lines, WEIR_HTTP_SLOT_USER);
	q.plan = proxy_says(c, lines, WEIR_HTTP_SLOT_PLAN);
	q.cost = proxy_says(c, lines, WEIR_HTTP_SLOT_COST);
	*ret = q;
	return true;
}
