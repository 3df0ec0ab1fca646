/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one table of settings. From it come parsing, type and range checks, defaults, help, man page and the default
 * file. Used inside user/config only.
 */
#ifndef WEIR_USER_CONF_SCHEMA_H
#define WEIR_USER_CONF_SCHEMA_H

#include "user/config/yaml.h"

enum weir_kind {
	WEIR_KIND_SECTION,    /* a group of settings */
	WEIR_KIND_LIMITS,     /* the list of limits, each a group of settings */
	WEIR_KIND_NUMBER,     /* min..max, into an integer of @size bytes */
	WEIR_KIND_WORD,	      /* one of @words, into an enum by position */
	WEIR_KIND_NAME,	      /* [a-z0-9_-], into char[@size] */
	WEIR_KIND_USER,	      /* name of a group of the system, into char * */
	WEIR_KIND_PATH,	      /* absolute, at most @max characters, into char * */
	WEIR_KIND_PATHS,      /* list of absolute paths */
	WEIR_KIND_INTERFACES, /* list of interface names */
	WEIR_KIND_PREFIXES,   /* list of addresses and prefixes, into struct weir_prefix_list */
	WEIR_KIND_TABLE,      /* size rounded to a power of two, into __u64 */
	WEIR_KIND_DURATION,   /* min..max ns, into __u64 */
	WEIR_KIND_RATE,
	WEIR_KIND_AMOUNT, /* packets or bytes, into __u64 */
	WEIR_KIND_PROTOCOLS,
	WEIR_KIND_FLAGS,    /* TCP flags, into __u8 */
	WEIR_KIND_PORTS,    /* min..max and ranges, into struct weir_port_set */
	WEIR_KIND_NETS,	    /* into struct weir_net_set */
	WEIR_KIND_FRAGMENT, /* true, false, into int */
	WEIR_KIND_LATER, /* belongs to a layer that this version does not have: @help says which */
};

struct weir_setting {
	const char *path; /* "admin.listen", "packet_limits.match.vlan" */
	enum weir_kind kind;
	const char *type;     /* for help: what to write */
	const char *fallback; /* the default as the file would say it; NULL = none */
	const char *help;     /* one line */
	const char *const *words;
	__u64 min, max;
	size_t offset,
		size; /* in struct weir_conf; below packet_limits in struct weir_conf_limit */
	__u8 given;   /* enum weir_conf_given */
};

extern const struct weir_setting weir_settings[];
extern const size_t weir_settings_n;
extern const char *const weir_words_mode[],
	*const weir_words_attach[], *const weir_words_xdp_mode[],
					    *const weir_words_algorithm[],
						    *const weir_words_log_format[],
							    *const weir_words_per[],
								    *const weir_words_flags[];

struct weir_protocol {
	const char *name;
	__u8 number;
};
extern const struct weir_protocol weir_protocols[];
extern const size_t weir_protocols_n;

/* The last part of a setting's path. */
const char *weir_setting_key(const struct weir_setting *s);
/* Is @s directly below @section ("" = top level)? */
bool weir_setting_below(const struct weir_setting *s, const char *section, size_t section_len);
const struct weir_setting *weir_setting_find(const char *section, const char *key);
#define WEIR_SETTINGS_MAX 64 /* more than there are: for arrays by position in the table */

/* --- reading (read.c: groups; value.c: values) ---- */

/* What one limit's settings were read from, by position in the table; NULL = not in the file. */
struct weir_marks {
	const yaml_node_t *node;
	const yaml_node_t *value[WEIR_SETTINGS_MAX];
	__u8 bad; /* enum weir_conf_given: was there, but wrong */
};

struct weir_reader {
	yaml_document_t *doc;
	struct weir_conf_problems *problems;
	struct weir_marks *marks; /* of the limit being read */
};

void weir_reader_error(const struct weir_reader *r, const yaml_node_t *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void weir_reader_warn(const struct weir_reader *r, const yaml_node_t *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads one value into @base (conf or limit). Problems are said; returns 0, -EINVAL or -ENOMEM. */
int weir_setting_read(struct weir_reader *r, const struct weir_setting *s, const yaml_node_t *node,
		      void *base);
/* Gives every setting below @section that has a default its value. */
int weir_setting_defaults(const char *section, void *base);

/* Reads a group of settings. */
int weir_group_read(struct weir_reader *r, const char *section, const yaml_node_t *map, void *base);

/* Units, defaults that follow from other values, contradictions, warnings (check.c). */
void weir_limit_finish(struct weir_reader *r, struct weir_conf_limit *l);
void weir_conf_finish(struct weir_reader *r, struct weir_conf *c);
void weir_limit_init(struct weir_conf_limit *l);
void weir_limit_done(struct weir_conf_limit *l);

#endif
