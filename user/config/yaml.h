/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML text to a libyaml document that is safe to walk: bounded, no aliases, no tags, one document. Used inside
 * user/config only.
 */
#ifndef WEIR_USER_CONF_YAML_H
#define WEIR_USER_CONF_YAML_H

#include <yaml.h>

#include "user/config/problems.h"

#define WEIR_FILE_MAX_BYTES  (16u << 20)
#define WEIR_YAML_MAX_DEPTH  16
#define WEIR_YAML_MAX_VALUES 500000

/* Returns 0 and a document (yaml_document_delete) whose root may be missing (an empty file); -EINVAL with problems. */
int weir_yaml_load(const char *text, size_t n, yaml_document_t *ret,
		   struct weir_conf_problems *problems);

/* Reads a whole file into heap memory, NUL-terminated. @ret_n without the NUL. -EFBIG above WEIR_FILE_MAX_BYTES. */
int weir_file_read(const char *path, char **ret, size_t *ret_n);

static inline const char *weir_yaml_text(const yaml_node_t *n)
{
	return (const char *)n->data.scalar.value;
}

/* A plain scalar that means nothing: `key:`, ~ or null. */
bool weir_yaml_is_null(const yaml_node_t *n);
/* "a list", "a text"… for messages */
const char *weir_yaml_kind(const yaml_node_t *n);

#endif
