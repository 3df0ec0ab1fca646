/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What changing a packet limit and changing a request limit share; between set.c and set_request.c only. */
#ifndef WEIR_USER_CONF_SET_H
#define WEIR_USER_CONF_SET_H

#include "user/config/schema.h"

/* The setting of an entry of @section that "rate" or "match.protocol" names; NULL with a sentence in @e. */
const struct weir_setting *weir_set_find(const char *section, const char *key,
					 struct weir_error *e);
/* Reads @value as the file would be read, into @base. */
int weir_set_read(struct weir_conf *c, const struct weir_setting *s, const char *key,
		  const char *value, void *base, struct weir_error *e);
/* The first error among problems, as one sentence. */
int weir_set_first_error(const struct weir_conf_problems *p, struct weir_error *e);
/* Hands the warnings among @p over, by the limit's name. */
void weir_set_warnings(const struct weir_conf_problems *p, const char *name,
		       struct weir_conf_problems *warnings);
/* KEY=VALUE: the key into @key, the value in place. -EINVAL with a sentence. */
int weir_set_split(const char *pair, char *key, size_t size, const char **ret_value,
		   struct weir_error *e);

/* weir_conf_limit_set_all of a request limit. */
int weir_set_request_limit(struct weir_conf *c, struct weir_conf_request_limit *l,
			   const char *const *pairs, size_t n, struct weir_conf_problems *warnings,
			   struct weir_error *e);

#endif
