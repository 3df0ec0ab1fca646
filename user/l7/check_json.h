/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bodies of profile json: what POST /v1/check and POST /v1/refund take, and what /v1/check answers. Pure; called by the
 * listener, which has checked the token before.
 *
 *	{"method": "POST", "path": "/api/login", "ip": "192.0.2.7", "headers": {"X-API-Key": "…"}, "cost": 1, "peek": false}
 *
 * or a list of them. method and path are required; ip, headers, cost and peek (false) are not. Everything else is
 * refused: unknown and repeated members by their names, wrong types, bytes that are no UTF-8, NUL, control bytes in
 * anything that could get into a log or a key. One mistake refuses the whole body, so a batch is charged whole or not
 * at all.
 */
#ifndef WEIR_L7_CHECK_JSON_H
#define WEIR_L7_CHECK_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/l7/answer.h"
#include "weir/pkt.h"
#include "weir/types.h"

#define WEIR_CHECK_JSON_BODY_MAX    262144 /* bytes; longer: -E2BIG */
#define WEIR_CHECK_JSON_DEPTH_MAX   3	   /* list, object, headers */
#define WEIR_CHECK_JSON_BATCH_MAX   256
#define WEIR_CHECK_JSON_HEADERS_MAX 64
#define WEIR_CHECK_JSON_METHOD_MAX  32			/* bytes */
#define WEIR_CHECK_JSON_PATH_MAX    8192		/* bytes */
#define WEIR_CHECK_JSON_COST_MAX    9007199254740991ull /* 2^53 - 1: what JSON numbers carry exactly */

struct weir_check_json_header {
	const char *name, *value; /* a token; no control bytes but tab */
};

struct weir_check_json_request {
	const char *method; /* a token of RFC 9110, as written */
	const char *path;   /* begins with '/'; raw: not decoded, with its query */
	union weir_addr ip; /* IPv4-mapped ones are IPv4 */
	__u8 family;	    /* 4, 6; 0: no ip was given */
	bool peek;
	__u64 cost; /* 1 .. WEIR_CHECK_JSON_COST_MAX; 0: not given, each limit's own cost rule holds */
	const struct weir_check_json_header *headers;
	size_t n_headers; /* in the order written; no name twice, in any case of letters */
};

struct weir_check_json {
	struct weir_check_json_request *requests;
	size_t n;     /* at least 1 */
	bool is_list; /* the answer has the form of the question */
	void *owned;  /* what the strings live in */
};

/* @body: @n bytes, need not end with NUL. 0; -E2BIG: too long (413); -EINVAL: not what is asked for (400); -ENOMEM. On
 * failure @ret_error says what is wrong, where, and what would be right; it holds text of the body only where that is
 * printable.
 */
int weir_check_json_parse(const char *body, size_t n, struct weir_check_json **ret,
			  struct weir_error *ret_error);
void weir_check_json_free(struct weir_check_json *c);
DEFINE_CLEANUP(struct weir_check_json, weir_check_json_free)

/* One request's outcomes, as given to weir_answer_make, and what came of it. */
struct weir_check_json_result {
	const struct weir_answer *answer;
	const struct weir_answer_limit *limits;
	size_t n_limits;
};

/* The body of the answer, with its NUL, for the caller to free; *ret_n is without it.
 *
 *	{"allowed":false,"code":"RATE_LIMITED","limit":"login","remaining":0,"reset_after":19,"retry_after":19,"limits":[
 *	 {"name":"login","allowed":false,"monitor":false,"limit":5,"remaining":0,"reset_after":19,"retry_after":19}]}
 *
 * limit: the reported one's name, null if none matched. Seconds are whole, rounded up, those of the headers. remaining
 * and reset_after are null where no count is known, retry_after where waiting does not help or is not needed; code is
 * there in refusals only, would (a limit's name) only if a monitor limit would have refused. -ENOMEM; -E2BIG: more than
 * WEIR_CHECK_JSON_BATCH_MAX results or WEIR_ANSWER_LIMITS_MAX limits in one; -EINVAL: @n 0, more than one without
 * @is_list, or a name that is not one.
 */
int weir_check_json_write(const struct weir_check_json_result *results, size_t n, bool is_list,
			  char **ret, size_t *ret_n);

#endif
