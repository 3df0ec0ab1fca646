/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The shared store of the configuration, for whatever of the agent talks to it. Called by request.c and by what the
 * agents of a fleet share.
 */
#ifndef WEIR_AGENT_SHARED_H
#define WEIR_AGENT_SHARED_H

#include "user/l7/engine.h"
#include "user/redis/redis.h"

struct weir_shared;

/* *ret NULL: the store is embedded. Reads password and secret; a sentence on error. */
int weir_shared_new(const struct weir_conf *conf, struct weir_shared **ret, struct weir_error *e);
void weir_shared_free(struct weir_shared *s);
DEFINE_CLEANUP(struct weir_shared, weir_shared_free)

/* For weir_l7_new; @s (NULL: nothing is set) must outlive it. */
void weir_shared_options(struct weir_shared *s, struct weir_l7_options *ret);
/* Valid as long as @s. */
const struct weir_redis_options *weir_shared_redis(const struct weir_shared *s);
/* Of key_secret_file; NULL: the store's. */
const unsigned char *weir_shared_secret(const struct weir_shared *s);
/* Why a worker's store could not be made; "". */
const char *weir_shared_why(const struct weir_shared *s);

#endif
