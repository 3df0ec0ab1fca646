/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML text to a libyaml document that is safe to walk: bounded, no aliases, no tags, one document. Used inside
 * user/config only.
 */
#ifndef WEIR_USER_CONF_YAML_H
#define WEIR_USER_CONF_YAML_H

#include <string.h>
#include <yaml.h>

#include "user/config/problems.h"

#define WEIR_FILE_MAX_BYTES  (16u << 20)
#define WEIR_YAML_MAX_DEPTH  16
#define WEIR_YAML_MAX_VALUES 500000

/* Returns 0 and a document (yaml_document_delete) whose root may be missing (an empty file); -EINVAL with problems. */
int weir_yaml_load(const char *text, size_t n, yaml_document_t *ret,
		   struct weir_conf_problems *problems);

/* The bytes of a byte order mark that a text begins with: libyaml would count it as a column, and then find every
 * further key at another depth than the first.
 */
static inline size_t weir_yaml_bom(const char *text, size_t n)
{
	return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Reads a whole file into heap memory, NUL-terminated. @ret_n without the NUL. -EFBIG above WEIR_FILE_MAX_BYTES,
 * -ESPIPE if it is a named pipe or a socket, -ETIMEDOUT if nothing comes through a pipe (`<(command)`, /dev/stdin).
 */
int weir_file_read(const char *path, char **ret, size_t *ret_n);
/* What such a failure means, in words. */
const char *weir_file_problem(int r);

static inline const char *weir_yaml_text(const yaml_node_t *n)
{
	return (const char *)n->data.scalar.value;
}

/* A plain scalar that means nothing: `key:`, ~ or null. */
bool weir_yaml_is_null(const yaml_node_t *n);
/* "a list", "a text"… for messages */
const char *weir_yaml_kind(const yaml_node_t *n);

/* libyaml counts characters, texts are bytes: where the @character-th one of @text begins; @n if there is none. */
size_t weir_yaml_byte_of(const char *text, size_t n, size_t character);

#endif
