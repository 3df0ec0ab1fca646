/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Small helpers over jansson for requests and replies of the admin socket. A setter that runs out of memory leaves
 * its key out, which a reader sees; nothing crashes. Used by the agent and the commands.
 */
#ifndef WEIR_AGENT_JSON_H
#define WEIR_AGENT_JSON_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "user/base/cleanup.h"
#include "weir/types.h"

static inline void json_freep(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ _cleanup_(json_freep)

/* Text that is not UTF-8 (a file name may be anything) is shown with '?' for what is not ASCII. */
static inline json_t *weir_json_text(const char *s)
{
	json_t *j = json_string(s);
	char *copy;

	if (j)
		return j;
	copy = strdup(s);
	if (!copy)
		return NULL;
	for (char *c = copy; *c; c++)
		if (*c & 0x80)
			*c = '?';
	j = json_string(copy);
	free(copy);
	return j;
}

/* The results are ignored: see above. */
static inline void weir_json_set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static inline void weir_json_set_text(json_t *o, const char *key, const char *value)
{
	(void)json_object_set_new(o, key, value ? weir_json_text(value) : json_null());
}

static inline void weir_json_set_u64(json_t *o, const char *key, __u64 value)
{
	(void)json_object_set_new(o, key, json_integer((json_int_t)value));
}

static inline void weir_json_set_bool(json_t *o, const char *key, bool value)
{
	(void)json_object_set_new(o, key, json_boolean(value));
}

/* Getters: NULL, 0 or false where the key is missing or of another type. */
static inline const char *weir_json_text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static inline __u64 weir_json_u64_of(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (__u64)v : 0;
}

static inline bool weir_json_bool_of(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

/* Appends a line of text, at most 767 bytes of it. */
__attribute__((format(printf, 2, 3))) static inline void weir_json_say(json_t *list,
								       const char *format, ...)
{
	char line[768];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	(void)json_array_append_new(list, weir_json_text(line)); /* out of memory: not shown */
}

#endif
