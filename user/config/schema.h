/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one table of settings. From it come parsing, type and range checks, defaults, help, man page and the default
 * file. Used inside user/config only.
 */
#ifndef WEIR_USER_CONF_SCHEMA_H
#define WEIR_USER_CONF_SCHEMA_H

#include "user/config/yaml.h"

enum weir_kind {
	WEIR_KIND_SECTION,    /* a group of settings */
	WEIR_KIND_LIST,	      /* a list of groups, as @entries says */
	WEIR_KIND_NUMBER,     /* min..max, into an integer of @size bytes */
	WEIR_KIND_WORD,	      /* one of @words, into an enum by position, counted from @min */
	WEIR_KIND_BOOL,	      /* true, false, into an integer of @size bytes */
	WEIR_KIND_NAME,	      /* [a-z0-9_-], into char[@size] */
	WEIR_KIND_USER,	      /* name of a group of the system, into char * */
	WEIR_KIND_PATH,	      /* absolute, at most @max characters, into char * */
	WEIR_KIND_PATHS,      /* list of absolute paths */
	WEIR_KIND_INTERFACES, /* list of interface names */
	WEIR_KIND_PREFIXES,   /* list of addresses and prefixes, into struct weir_prefix_list */
	WEIR_KIND_TABLE,      /* size rounded to a power of two, into __u64 */
	WEIR_KIND_SIZE,	      /* min..max bytes, into __u64 */
	WEIR_KIND_DURATION,   /* min..max ns, into __u64 */
	WEIR_KIND_RATE,
	WEIR_KIND_AMOUNT, /* packets or bytes, into __u64 */
	WEIR_KIND_PROTOCOLS,
	WEIR_KIND_FLAGS, /* TCP flags, into __u8 */
	WEIR_KIND_PORTS, /* min..max and ranges, into struct weir_port_set */
	WEIR_KIND_NETS,	 /* into struct weir_net_set */

	/* the request layer's; value_request.c, value_key.c, value_web.c */
	WEIR_KIND_LISTEN,    /* address and port or a Unix socket, into struct weir_conf_listener */
	WEIR_KIND_FILE_MODE, /* octal, into unsigned */
	WEIR_KIND_THREADS,   /* auto or min..max, into unsigned */
	WEIR_KIND_HEADER,    /* a header's name, into char * */
	WEIR_KIND_API_KEY,   /* list of "header NAME", "query NAME", "cookie NAME" */
	WEIR_KIND_PLANS,     /* list of names */
	WEIR_KIND_METHODS,   /* lists of texts, into char ** */
	WEIR_KIND_PATTERNS,
	WEIR_KIND_HOSTS,
	WEIR_KIND_HEADER_MATCH,
	WEIR_KIND_KEY, /* parts, or a group with any: and new_per_ip: */
	WEIR_KIND_KEY_CHOICES,
	WEIR_KIND_REQUEST_RATE,	 /* into struct weir_conf_rate */
	WEIR_KIND_PLAN_RATE,	 /* the same by plan, into an array of them */
	WEIR_KIND_PLAN_NUMBER,	 /* min..max, into an array of __u64 */
	WEIR_KIND_PLAN_DURATION, /* the same in ns */
	WEIR_KIND_WINDOW, /* duration, day, week or month, into struct weir_conf_request_limit */
	WEIR_KIND_ZONE,	  /* name of a time zone, into char * */
	WEIR_KIND_COST,	  /* number, or a group with from: */
	WEIR_KIND_LIMIT_NAMES,	 /* list of names of limits, into char (*)[WEIR_NAME_MAX] */
	WEIR_KIND_SUSPICIOUS,	 /* a group of settings of its own */
	WEIR_KIND_REQUEST_LIMIT, /* one limit as in request_limits, without name and match */

	/* `store:`; value_store.c */
	WEIR_KIND_STORE_URL,	/* embedded or the address of a Redis, into char * */
	WEIR_KIND_STORE_USER,	/* one word, into char * */
	WEIR_KIND_STORE_PREFIX, /* of keys, into char * */
	WEIR_KIND_SHARE		/* auto, 0.25 or 25%: parts of a million into __u64 */
};

struct weir_reader;

/* A list of groups of settings, each an entry of an array in struct weir_conf. */
struct weir_entries {
	const char *section;	     /* path of an entry's settings: "packet_limits" */
	const char *entry, *entries; /* for messages: "limit", "limits" */
	const char *needs;	     /* what an entry has at least */
	size_t size;		     /* of an entry */
	size_t items, n;	     /* in struct weir_conf */
	size_t line;		     /* in an entry */
	void (*init)(void *entry);
	/* Once its settings are read. 0, -EINVAL (said) or -ENOMEM. */
	int (*finish)(struct weir_reader *r, void *entry);
};

struct weir_setting {
	const char *path; /* "admin.listen", "packet_limits.match.vlan" */
	enum weir_kind kind;
	const char *type;     /* for help: what to write */
	const char *fallback; /* the default as the file would say it; NULL = none */
	const char *help;     /* one line */
	const char *const *words;
	__u64 min, max;
	size_t offset, size; /* in struct weir_conf, or in the entry of the list it is in */
	size_t count;	     /* lists of texts or names: where their number is */
	size_t lines;	     /* and the lines of each; 0: nowhere */
	__u16 given;	     /* enum weir_conf_given or weir_request_given */
	const struct weir_entries *entries;
};

extern const struct weir_setting weir_settings[];
extern const size_t weir_settings_n;
extern const char *const weir_words_mode[],
	*const weir_words_attach[], *const weir_words_xdp_mode[],
					    *const weir_words_algorithm[],
						    *const weir_words_log_format[],
							    *const weir_words_per[],
								    *const weir_words_flags[];
extern const struct weir_entries weir_entries_packet_limits, weir_entries_listeners,
	weir_entries_exempt, weir_entries_request_limits, weir_entries_escalate;

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
/* The list that the setting belongs to an entry of; NULL: none, it is in struct weir_conf. */
const struct weir_entries *weir_setting_entries(const struct weir_setting *s);
/* Groups that it is in. */
unsigned weir_setting_depth(const struct weir_setting *s);
/* Only a group of settings, with no value of its own? */
bool weir_setting_is_group(const struct weir_setting *s);
/* One value for all, or one for each plan? */
bool weir_setting_is_by_plan(const struct weir_setting *s);
#define WEIR_SETTINGS_MAX 192 /* more than there are: for arrays by position in the table */

/* --- reading (read.c: groups; value.c: values) ---- */

/* What the settings of an entry, or of the file, were read from, by position in the table; NULL = not in the file. */
struct weir_marks {
	const yaml_node_t *node;
	const yaml_node_t *value[WEIR_SETTINGS_MAX];
	bool wrong[WEIR_SETTINGS_MAX]; /* was there, but wrong */
	unsigned bad;		       /* `given` of those */
};

struct weir_reader {
	yaml_document_t *doc;
	struct weir_conf_problems *problems;
	struct weir_conf *conf;	  /* as far as it is read; NULL while defaults are set */
	struct weir_marks *marks; /* of the entry being read */
	struct weir_marks *top;	  /* of the file; NULL outside of one */
};

/* The value's place in the file; the entry's where the key is absent; NULL outside a file. */
const yaml_node_t *weir_reader_at(const struct weir_reader *r, const char *section,
				  const char *key);
/* Is the key in the entry (or the file: weir_reader_top_has)? Was it wrong there? */
bool weir_reader_has(const struct weir_reader *r, const char *section, const char *key);
bool weir_reader_top_has(const struct weir_reader *r, const char *section, const char *key);
bool weir_reader_top_wrong(const struct weir_reader *r, const char *section, const char *key);
const yaml_node_t *weir_reader_top_at(const struct weir_reader *r, const char *section,
				      const char *key);

/* Adds a problem at that place of the file (NULL: of the file as a whole). */
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
void weir_limit_check_fleet_store(const struct weir_reader *r, const struct weir_conf *c,
				  const struct weir_conf_limit *l);
void weir_limit_init(void *entry);
void weir_limit_done(struct weir_conf_limit *l);
/* The same of the request layer (check_limit.c, check_request.c). 0 or -ENOMEM. */
int weir_request_limit_finish(struct weir_reader *r, struct weir_conf_request_limit *l);
int weir_suspicious_finish(struct weir_reader *r, struct weir_conf_suspicious *s);
/* What is wrong with the file as a whole; what is rarely meant. */
void weir_request_finish(struct weir_reader *r, struct weir_conf *c);
void weir_request_warn(struct weir_reader *r, const struct weir_conf *c);
/* check_store.c. Can a shared store count it? @plan: " for plan pro", or "". Of one plan each. */
void weir_limit_check_shared(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			     const struct weir_store_limit *s, const char *plan);
void weir_limit_check_lease(const struct weir_reader *r, const struct weir_conf_request_limit *l,
			    size_t plan, const char *plan_words);
void weir_store_finish(struct weir_reader *r, struct weir_conf *c);
/* Names of limits of both layers are one name space. The line of the one that has @name already; 0: none. */
int weir_limit_name_line(const struct weir_conf *c, const char *name, const void *but);

#endif
