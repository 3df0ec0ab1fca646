/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client is told: from the outcomes of all limits of one request to status, headers and body, as each proxy
 * needs them. Pure and bounded; called by the listeners of every profile.
 *
 * - Any enforced limit that does not admit refuses the request. Of several reasons a cost that can never fit wins (no
 *   waiting helps), then a limit that is exceeded, then a store that is away.
 * - The limit that is reported is, in a refusal, the one with the latest retry among those with the winning reason (the
 *   first of equals); else the one with the smallest remaining / limit, of equals the one with the longer reset. All
 *   headers and the body speak of that one, so they agree.
 * - Retry-After is the latest over all refusing limits, in whole seconds, rounded up, at least 1; in a refusal
 *   1 <= reset <= Retry-After. COST_TOO_LARGE and KEY_MISSING have none. STORE_UNAVAILABLE and KEY_MISSING have no
 *   X-RateLimit and no RateLimit: no count is known.
 * - A monitor limit is in no header but X-Weir-Would, which an allowed request has when one would have refused it.
 */
#ifndef WEIR_L7_ANSWER_H
#define WEIR_L7_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/types.h"

#define WEIR_ANSWER_LIMITS_MAX	 64 /* outcomes of one request */
#define WEIR_ANSWER_POLICIES_MAX 16 /* in RateLimit-Policy; with more only the reported one */
#define WEIR_ANSWER_HEADERS_MAX	 12
#define WEIR_ANSWER_NAME_MAX	 64   /* bytes of a limit's name, with its NUL */
#define WEIR_ANSWER_TEXT_MAX	 4096 /* all values and the body */
#define WEIR_ANSWER_QUANTITY_MAX                                                                   \
	999999999999999ull /* what RFC 9651 has room for; more is shown as this */

enum weir_answer_profile {
	WEIR_ANSWER_NGINX, /* refusals are 403, the real status is in X-Weir-Status: auth_request knows no other */
	WEIR_ANSWER_CADDY,   /* 429, 413, 503 */
	WEIR_ANSWER_TRAEFIK, /* the same */
	WEIR_ANSWER_ENVOY, /* 200 (no other 2xx passes), 429, 413; 403 for 5xx, which fail-open undoes */
	WEIR_ANSWER_SPOE, /* 200, 429, 413, 503: a status to set as a variable */
	WEIR_ANSWER_JSON  /* the same; its body is that of check_json.h */
};

enum weir_answer_outcome {
	WEIR_ANSWER_ADMITTED,
	WEIR_ANSWER_EXCEEDED,
	WEIR_ANSWER_NO_STORE,  /* on_store_failure: closed, and the store is away */
	WEIR_ANSWER_TOO_LARGE, /* the cost is above burst or limit */
	WEIR_ANSWER_NO_KEY     /* missing: deny, and what the limit counts by is not there */
};

/* One limit's part. After a refusal nothing was charged: remaining is what is left, whatever the cost was. A limit that
 * let the request through without its store (on_store_failure: open) knows no count: it is left out of the list.
 */
struct weir_answer_limit {
	const char *name; /* see weir_answer_name_ok */
	enum weir_answer_outcome outcome;
	bool monitor;
	__u64 limit, remaining; /* burst of a bucket; remaining above limit is shown as limit */
	__u64 reset_after_ns;	/* until there is more quota; 0: nothing to wait for */
	__u64 retry_after_ns; /* EXCEEDED: until this cost fits; NO_STORE: until asking again is worth it */
	__u64 window_ns; /* of RateLimit-Policy; 0, or no whole seconds: w is left out */
};

enum weir_answer_code {
	WEIR_ANSWER_ALLOW,
	WEIR_ANSWER_RATE_LIMITED,
	WEIR_ANSWER_COST_TOO_LARGE,
	WEIR_ANSWER_STORE_UNAVAILABLE,
	WEIR_ANSWER_KEY_MISSING,  /* 403 */
	WEIR_ANSWER_BAD_REQUEST,  /* 400: no target that can be judged, or no client address */
	WEIR_ANSWER_SHUTTING_DOWN /* 503 */
};

struct weir_answer_header {
	const char *name, *value;
};

/* The result. It points into itself: copy what is needed, not the struct. */
struct weir_answer {
	enum weir_answer_code code;
	__u16 status;	     /* to send */
	__u16 client_status; /* what the client should see (X-Weir-Status) */
	const char *limit;   /* as given: the reported one; NULL: none */
	const char *would;   /* as given: a monitor limit that would have refused; NULL: none */
	__u64 limit_n, remaining;     /* of the reported one; 0 where they are not known */
	__u64 reset_s, retry_after_s; /* retry 0: no Retry-After */
	struct weir_answer_header headers[WEIR_ANSWER_HEADERS_MAX];
	size_t n_headers;
	const char *body; /* "" when allowed, else JSON, with Content-Type among the headers */
	size_t body_n;
	char text[WEIR_ANSWER_TEXT_MAX];
};

/* a-z, 0-9, '-' and '_', 1 to WEIR_ANSWER_NAME_MAX - 1 of them: what the configuration allows, and nothing that means
 * something in a header, a structured field or JSON. */
bool weir_answer_name_ok(const char *name);

/* 0; -E2BIG: more than WEIR_ANSWER_LIMITS_MAX; -EINVAL: a name that is not one. @n 0: no limit matched. */
int weir_answer_make(enum weir_answer_profile profile, const struct weir_answer_limit *limits,
		     size_t n, struct weir_answer *ret);

/* A refusal that no count has decided: BAD_REQUEST ("bad-path", "bad-address"), SHUTTING_DOWN, STORE_UNAVAILABLE. No
 * X-RateLimit; Retry-After 1 where waiting helps. @name stands in X-Weir-Limit.
 */
void weir_answer_refuse(enum weir_answer_profile profile, enum weir_answer_code code,
			const char *name, struct weir_answer *ret);

/* The limit that an answer speaks of, among the enforced or the monitor ones; NULL: there is none. And what it says. */
const struct weir_answer_limit *weir_answer_reported(const struct weir_answer_limit *limits,
						     size_t n, bool monitor);
enum weir_answer_code weir_answer_code_of(const struct weir_answer_limit *limit);

/* The value of a header by its exact name; NULL if it is not there. */
const char *weir_answer_header(const struct weir_answer *a, const char *name);

/* "RATE_LIMITED" and so on; "" for ALLOW. */
const char *weir_answer_code_text(enum weir_answer_code code);

/* Whole seconds, rounded up. */
__u64 weir_answer_seconds(__u64 ns);

#endif
