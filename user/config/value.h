/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One reader for each kind of value in the table of settings. A reader says every mistake of its value, with the place
 * and an example of what would be right; it returns 0, -EINVAL or -ENOMEM. Between the value*.c files only.
 */
#ifndef WEIR_USER_CONF_VALUE_H
#define WEIR_USER_CONF_VALUE_H

#include "user/config/schema.h"

/* A value being read: what, where from, where to. */
struct weir_target {
	struct weir_reader *r;
	const struct weir_setting *s;
	const yaml_node_t *node;
	unsigned char *to;
	void *base; /* struct weir_conf or the entry of a list, as the setting's offset says */
};

/* Name of the setting and text of a value, for messages. */
const char *weir_value_key(const struct weir_target *t);
const char *weir_value_shown(const yaml_node_t *n, char buf[static WEIR_SHOWN_MAX]);
/* "link, chain or external", or what else to write. */
const char *weir_value_wanted(const struct weir_setting *s, char *buf, size_t size);

/* Text of a scalar with something in it; NULL and the mistake said. */
const char *weir_value_scalar(const struct weir_target *t, const yaml_node_t *n);
/* Lists: [a, b], or just a. */
size_t weir_value_count(const yaml_node_t *n);
const yaml_node_t *weir_value_item(const struct weir_target *t, const yaml_node_t *n, size_t i);
/* A list of at most @max; NULL and the mistake said. A condition may not be empty. */
const yaml_node_t *weir_value_list(const struct weir_target *t, const yaml_node_t *n, size_t max);
const yaml_node_t *weir_value_condition(const struct weir_target *t, const yaml_node_t *n,
					size_t max);
/* {not: [...]}: what is in it. */
const yaml_node_t *weir_value_unwrap_not(const struct weir_target *t, bool *ret_negate);

/* Puts @v into the integer of t->s->size bytes that the setting is. */
void weir_value_store(const struct weir_target *t, __u64 v);
/* value.c */
int weir_value_word(const struct weir_target *t);
int weir_value_bool(const struct weir_target *t);
int weir_value_user(const struct weir_target *t);
int weir_value_path(const struct weir_target *t);
int weir_value_texts(const struct weir_target *t);
/* A copy of @text into the char * that the setting is; into @to; one more in a list of texts. */
int weir_value_text(const struct weir_target *t, const char *text);
int weir_value_name(const struct weir_target *t, const yaml_node_t *n, char *to, size_t size);
int weir_value_add_text(const struct weir_target *t, const char *text, int line);
bool weir_value_has_text(const struct weir_target *t, const char *text);

/* value_number.c */
int weir_value_number(const struct weir_target *t);
int weir_value_table(const struct weir_target *t);
int weir_value_size(const struct weir_target *t);
/* @n: the value itself, or one of several. */
int weir_value_duration_of(const struct weir_target *t, const yaml_node_t *n, __u64 *ret);
int weir_value_duration(const struct weir_target *t);
int weir_value_rate(const struct weir_target *t);
int weir_value_amount(const struct weir_target *t);
/* value_match.c */
int weir_value_prefixes(const struct weir_target *t);
int weir_value_nets(const struct weir_target *t);
int weir_value_ports(const struct weir_target *t);
int weir_value_protocols(const struct weir_target *t);
int weir_value_flags(const struct weir_target *t);
/* value_request.c: all kinds of the request layer; value_plan.c: numbers by plan; value_key.c; value_web.c */
int weir_value_request(const struct weir_target *t);
int weir_value_request_rate(const struct weir_target *t);
int weir_value_plan_rate(const struct weir_target *t);
int weir_value_plan_number(const struct weir_target *t);
int weir_value_plan_duration(const struct weir_target *t);
int weir_value_cost(const struct weir_target *t);
int weir_value_key_choices(const struct weir_target *t);
int weir_value_key_spec(const struct weir_target *t);
int weir_value_api_key(const struct weir_target *t);
int weir_value_listen(const struct weir_target *t);
int weir_value_header(const struct weir_target *t);
int weir_value_methods(const struct weir_target *t);
int weir_value_patterns(const struct weir_target *t);
int weir_value_hosts(const struct weir_target *t);
int weir_value_header_match(const struct weir_target *t);
/* value_store.c: all kinds of `store:` */
int weir_value_of_store(const struct weir_target *t);

#endif
