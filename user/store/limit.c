/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Identities and numbers of request limits, the same for every store. Called when a configuration is loaded. */
#include <string.h>

#include <sodium.h>

#include "user/store/store.h"

static void add_part(crypto_generichash_state *h, const char *part)
{
	__u64 n = strlen(part);

	crypto_generichash_update(h, (const unsigned char *)&n, sizeof(n));
	crypto_generichash_update(h, (const unsigned char *)part, n);
}

int weir_store_identity_of(const char *name, enum weir_request_algorithm algorithm, const char *key,
			   const char *window, const char *scope, struct weir_store_identity *ret)
{
	static const char *const algorithms[WEIR_REQUEST_ALGORITHM_MAX] = {
		"token-bucket", "leaky-bucket", "fixed-window", "sliding-window-log",
		"sliding-window-counter"};
	crypto_generichash_state h;

	if ((unsigned)algorithm >= WEIR_REQUEST_ALGORITHM_MAX)
		return -EINVAL;
	crypto_generichash_init(&h, NULL, 0, sizeof(ret->byte));
	add_part(&h, name);
	add_part(&h, algorithms[algorithm]);
	add_part(&h, key);
	add_part(&h, window);
	add_part(&h, scope);
	crypto_generichash_final(&h, ret->byte, sizeof(ret->byte));
	return 0;
}

int weir_store_limit_window(const struct weir_store_identity *id,
			    enum weir_request_algorithm algorithm, __u64 limit, __u64 window_us,
			    struct weir_store_limit *ret)
{
	struct weir_store_limit l = {.identity = *id,
				     .algorithm = algorithm,
				     .window_us = window_us};

	if (window_us >= WEIR_REQUEST_EXACT_MAX || limit >= WEIR_REQUEST_EXACT_MAX ||
	    (!window_us && algorithm != WEIR_REQUEST_FIXED_WINDOW))
		return -ERANGE;
	switch (algorithm) {
	case WEIR_REQUEST_FIXED_WINDOW:
		l.fixed.limit = limit;
		break;
	case WEIR_REQUEST_SLIDING_LOG:
		if (limit > WEIR_STORE_LOG_MAX)
			return -ERANGE;
		l.log.limit = limit;
		l.log.window_us = window_us;
		break;
	case WEIR_REQUEST_SLIDING_COUNTER:
		if (!weir_request_sliding_prepare(limit, window_us, &l.sliding))
			return -ERANGE;
		break;
	default:
		return -EINVAL;
	}
	*ret = l;
	return 0;
}

int weir_store_limit_bucket(const struct weir_store_identity *id, __u64 count, __u64 period_us,
			    __u64 burst, struct weir_store_limit *ret)
{
	struct weir_store_limit l = {.identity = *id, .algorithm = WEIR_REQUEST_TOKEN_BUCKET};

	if (!weir_request_bucket_prepare(count, period_us, burst, &l.bucket))
		return -ERANGE;
	*ret = l;
	return 0;
}

int weir_store_limit_queue(const struct weir_store_identity *id, __u64 count, __u64 period_us,
			   __u64 queue, __u64 max_wait_us, struct weir_store_limit *ret)
{
	struct weir_store_limit l = {.identity = *id, .algorithm = WEIR_REQUEST_LEAKY_BUCKET};

	if (!weir_request_queue_prepare(count, period_us, queue, max_wait_us, &l.bucket))
		return -ERANGE;
	*ret = l;
	return 0;
}
