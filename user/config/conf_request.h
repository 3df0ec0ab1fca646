/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The request layer's part of the configuration, as plain data; see conf.h, which includes this. Compiled by
 * user/l7/rules.c; the listeners are opened by user/http.
 */
#ifndef WEIR_USER_CONF_REQUEST_H
#define WEIR_USER_CONF_REQUEST_H

#include "user/config/conf_store.h"
#include "user/config/conf_types.h"
#include "user/l7/key.h"
#include "user/l7/path.h"
#include "user/store/calendar.h"
#include "user/store/store.h"
#include "weir/maps.h"
#include "weir/policy.h"

#define WEIR_REQUEST_LIMITS_MAX                                                                    \
	(WEIR_STORE_LAYERS_MAX - 1) /* and `suspicious`: one request may meet them all */
#define WEIR_PLANS_MAX	   16
#define WEIR_LISTENERS_MAX 16
#define WEIR_EXEMPT_MAX	   64
#define WEIR_ESCALATE_MAX  16

/* The first six have the numbers of enum weir_answer_profile. */
enum weir_profile {
	WEIR_PROFILE_NGINX,
	WEIR_PROFILE_CADDY,
	WEIR_PROFILE_TRAEFIK,
	WEIR_PROFILE_ENVOY,
	WEIR_PROFILE_SPOE,
	WEIR_PROFILE_JSON,
	WEIR_PROFILE_METRICS,
	WEIR_PROFILE_MAX
};

struct weir_conf_listener {
	char *listen;	 /* as written: "127.0.0.1:9470", "[::1]:9470", "unix:/run/weir/a.sock" */
	char *unix_path; /* NULL: TCP */
	union weir_addr addr;
	__u8 family; /* of addr: 4 or 6 */
	__u16 port;  /* 0: any free one; status says which */
	enum weir_profile profile;
	struct weir_prefix_list trusted; /* trusted_proxies; a Unix socket is trusted by its mode */
	char *token_file;		 /* json; NULL: none */
	unsigned unix_mode;		 /* 0660 */
	char *group;			 /* NULL: the agent's own */
	int line;
};

/* What a request must be; an empty list matches everything. */
struct weir_conf_header_match {
	char *name;
	char *value; /* exact; NULL: the header is there */
};
struct weir_conf_request_match {
	char **method; /* of weir_method_normal */
	size_t n_method;
	char **path; /* patterns as written; checked */
	size_t n_path;
	char **host; /* of weir_host_normal; "*.example.org": every name below it */
	size_t n_host;
	struct weir_conf_header_match *header; /* all of them */
	size_t n_header;
};

enum weir_on_store_failure { WEIR_FAILURE_LOCAL, WEIR_FAILURE_OPEN, WEIR_FAILURE_CLOSED };
enum weir_scope { WEIR_SCOPE_HOST, WEIR_SCOPE_FLEET };
enum weir_window_kind { WEIR_WINDOW_LENGTH, WEIR_WINDOW_DAY, WEIR_WINDOW_WEEK, WEIR_WINDOW_MONTH };

struct weir_conf_rate {
	__u64 count, per_ns; /* 20 per 60s = 20, 60 * 10^9 */
};

struct weir_conf_cost {
	bool from_proxy; /* proxy_headers.cost, clamped to min..max; 1 where it is absent */
	__u64 fixed;	 /* else; 1 */
	__u64 min, max;	 /* 1 <= min <= max, which every plan can pay by default */
};

/* Said by the user, not a default. */
enum weir_request_given {
	WEIR_REQUEST_GIVEN_RATE = 1,
	WEIR_REQUEST_GIVEN_BURST = 2,
	WEIR_REQUEST_GIVEN_LIMIT = 4,
	WEIR_REQUEST_GIVEN_WINDOW = 8,
	WEIR_REQUEST_GIVEN_QUEUE = 16,
	WEIR_REQUEST_GIVEN_MAX_WAIT = 32,
	WEIR_REQUEST_GIVEN_ALGORITHM = 64,
	WEIR_REQUEST_GIVEN_KEY = 128,
	WEIR_REQUEST_GIVEN_COST = 256,
	WEIR_REQUEST_GIVEN_TIMEZONE = 512,
	WEIR_REQUEST_GIVEN_COST_MAX = 1024,
	WEIR_REQUEST_GIVEN_LEASE = 2048,
};

/* Numbers are by plan, all filled in (the same one where the file gives one); without plans only [0] counts. */
struct weir_conf_request_limit {
	char name[WEIR_NAME_MAX];
	struct weir_conf_request_match match;
	struct weir_key_spec key; /* with missing and prefix lengths */
	char *key_text; /* of key and prefix lengths in one written form, whatever the spelling: for the state's identity */
	struct weir_conf_rate new_per_ip; /* count 0: not given */
	enum weir_request_algorithm algorithm;
	struct weir_conf_rate rate[WEIR_PLANS_MAX]; /* both buckets */
	__u64 burst[WEIR_PLANS_MAX];		    /* token bucket */
	__u64 limit[WEIR_PLANS_MAX];		    /* windows */
	__u64 queue[WEIR_PLANS_MAX];	   /* leaky bucket: that wait beside the one that leaves */
	__u64 max_wait_ns[WEIR_PLANS_MAX]; /* default: queue / rate, at most 1 s */
	__u64 lease[WEIR_PLANS_MAX];	   /* 0: none */
	enum weir_window_kind window_kind; /* only fixed windows have other than LENGTH */
	__u64 window_ns;		   /* LENGTH */
	char *timezone;			   /* of a calendar window; "UTC" */
	struct weir_conf_cost cost;
	enum weir_on_store_failure on_store_failure;
	enum weir_scope scope;
	enum weir_mode mode;
	int line;
	__u16 given; /* enum weir_request_given */
};

/* All that is given must match. */
struct weir_conf_exempt {
	struct weir_prefix_list source;
	char **path;
	size_t n_path;
	char **method;
	size_t n_method;
	bool preflight; /* OPTIONS with Origin and Access-Control-Request-Method */
	int line;
};

struct weir_conf_refused {
	char (*limits)[WEIR_NAME_MAX];
	size_t n_limits;
	__u64 count; /* 0: not given */
	__u64 within_ns;
};

struct weir_conf_suspicious {
	bool given;
	char (*packet_limits)[WEIR_NAME_MAX];
	size_t n_packet_limits;
	struct weir_conf_refused refused;
	__u64 lasts_ns;
	struct weir_conf_request_limit limit; /* named "suspicious"; matches every request */
	int line;
};

struct weir_conf_escalate {
	char name[WEIR_NAME_MAX];
	struct weir_conf_refused refused; /* limits, refused, within */
	__u64 block_for_ns;
	struct weir_conf_rate at_most; /* blocks of this rule; default 30 per 60s */
	__u64 unless_identities;       /* 0: whoever else shares the address */
	enum weir_mode mode;
	int line;
};

struct weir_conf_request {
	unsigned threads; /* 0: auto, one a CPU, at most 8 */
	__u64 budget_ns;
	__u64 headers_bytes;
	__u64 connections;
	__u64 request_deadline_ns;
	bool nat64;
	struct weir_conf_listener *listener;
	size_t n_listener;
	char *header_user, *header_plan, *header_cost; /* NULL: not taken from the proxy */
	struct weir_key_part api_key[WEIR_KEY_PARTS_MAX];
	size_t n_api_key;
	struct weir_path_options path;

	char plan[WEIR_PLANS_MAX][WEIR_NAME_MAX];
	size_t n_plan;	  /* 0: none; numbers are at [0] */
	char *plans_file; /* NULL: none. A line: SHA-256 of an API key in hex, blanks, plan */
	int plans_file_line;
	struct weir_conf_exempt *exempt;
	size_t n_exempt;
	struct weir_conf_request_limit *limit;
	size_t n_limit;
	struct weir_conf_suspicious suspicious;
	struct weir_conf_escalate *escalate;
	size_t n_escalate;

	__u64 keys;  /* memory.request_keys */
	__u64 bytes; /* memory.request_bytes */
};

/* From the configuration's numbers of one plan to what a store decides by; -ERANGE: cannot be exact (weir check has
 * said so before). @salt makes the state begin empty (weir limit reset).
 */
int weir_conf_store_limit(const struct weir_conf_request_limit *l, size_t plan, __u64 salt,
			  struct weir_store_limit *ret);
/* One request limit in a sentence (of plan 0, then where others differ); length as snprintf. */
int weir_conf_request_words(const struct weir_conf_request *r,
			    const struct weir_conf_request_limit *l, char *buf, size_t n);
const char *weir_profile_name(enum weir_profile profile);
const char *weir_request_algorithm_name(enum weir_request_algorithm algorithm);
const char *weir_on_store_failure_name(enum weir_on_store_failure f);

#endif
