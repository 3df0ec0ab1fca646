/* SPDX-License-Identifier: GPL-2.0-or-later */
/* plans_file: which plan an API key has. A line: the SHA-256 of the key as 64 hexadecimal digits, blanks, the plan's name;
 * empty lines and what follows a '#' do not count. The keys themselves are nowhere. Read by rules.c, asked by layers.c.
 */
#ifndef WEIR_L7_PLANS_H
#define WEIR_L7_PLANS_H

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/l7/header_list.h"
#include "weir/maps.h"

#define WEIR_PLANS_KEYS_MAX   4000000
#define WEIR_PLANS_HASH_BYTES 32

struct weir_plans;

/* @plan: the names that may be meant. Errors name file and line. */
int weir_plans_load(const char *path, const char (*plan)[WEIR_NAME_MAX], size_t n_plan,
		    struct weir_plans **ret, struct weir_error *e);
void weir_plans_free(struct weir_plans *p);
DEFINE_CLEANUP(struct weir_plans, weir_plans_free)

/* The plan of @api_key, and its hash; -ENOENT: it is not in the file. */
int weir_plans_find(const struct weir_plans *p, struct weir_text api_key, unsigned *ret_plan,
		    unsigned char ret_hash[static WEIR_PLANS_HASH_BYTES]);

#endif
