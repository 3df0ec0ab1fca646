/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `store:` of the configuration, as plain data; see conf_request.h, which includes this. */
#ifndef WEIR_USER_CONF_STORE_H
#define WEIR_USER_CONF_STORE_H

#include <stdbool.h>

#include "weir/types.h"

enum weir_limits_from { WEIR_LIMITS_FROM_FILE, WEIR_LIMITS_FROM_STORE };

struct weir_conf_store {
	char *url;   /* "embedded", or as weir_redis_url_parse reads it */
	bool shared; /* it is not embedded */
	int line;
	char *user;	     /* NULL: the URL's */
	char *password_file; /* NULL: WEIR_STORE_PASSWORD of the environment, else the URL's */
	char *sentinel_user;
	char *sentinel_password_file; /* NULL: WEIR_STORE_SENTINEL_PASSWORD, else the server's if it asks */
	char *tls_ca, *tls_cert, *tls_key;
	char *prefix;	       /* "weir:" */
	char *key_secret_file; /* NULL: the fleet's, made once in the store */
	__u64 timeout_ns;
	__u64 breaker_errors;
	__u64 breaker_within_ns, breaker_probe_ns;
	__u64 batch;		 /* decisions in one call of the script; 64 */
	__u64 local_share_parts; /* of a million; 0: auto, 1 / live agents */
	bool fleet_lists;
	enum weir_limits_from limits_from;
};

#endif
