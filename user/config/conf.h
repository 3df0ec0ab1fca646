/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration as plain data: what the YAML file says, checked, in base units, with every default filled in.
 * Made by weir_conf_load() (config/read.c) from the table of settings (config/settings.c); it never touches the
 * system. The datapath compiles it (datapath/compile.c); nothing else knows YAML.
 */
#ifndef WEIR_USER_CONF_H
#define WEIR_USER_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "user/config/conf_request.h"
#include "weir/maps.h"
#include "weir/policy.h"

enum weir_attach { WEIR_ATTACH_LINK, WEIR_ATTACH_CHAIN, WEIR_ATTACH_EXTERNAL };
enum weir_xdp_mode { WEIR_XDP_AUTO, WEIR_XDP_NATIVE, WEIR_XDP_GENERIC };
enum weir_log_format { WEIR_LOG_TEXT, WEIR_LOG_JSON };
enum weir_per { WEIR_PER_SOURCE, WEIR_PER_DESTINATION, WEIR_PER_ALL };

struct weir_port_range {
	__u16 first, last; /* inclusive, host order */
};

/* A condition on a set; absent (n == 0) matches everything. @negate: matches what is not in it. */
struct weir_port_set {
	struct weir_port_range *item;
	size_t n;
	bool negate;
};
struct weir_net_set {
	struct weir_prefix *item;
	size_t n;
	bool negate;
};

struct weir_conf_match {
	bool protocol[256]; /* all false = any */
	bool any_protocol;
	__u8 tcp_flags_set; /* must all be set; FIN 1 SYN 2 RST 4 PSH 8 ACK 16 URG 32 ECE 64 CWR 128 */
	__u8 tcp_flags_clear; /* must all be clear */
	bool has_tcp_flags;
	struct weir_port_set source_port;
	struct weir_port_set destination_port;
	struct weir_port_set vlan; /* ids 1..4094; 0 = untagged */
	struct weir_net_set source;
	struct weir_net_set destination;
	int fragment; /* -1 any, 0 only whole datagrams, 1 only fragments */
};

enum weir_conf_given {
	WEIR_GIVEN_RATE = 1,
	WEIR_GIVEN_BURST = 2,
	WEIR_GIVEN_LIMIT = 4,
	WEIR_GIVEN_WINDOW = 8,
	WEIR_GIVEN_BLOCK_FOR = 16,
	WEIR_GIVEN_ALGORITHM = 32,
	WEIR_GIVEN_IPV4_PREFIX = 64,
	WEIR_GIVEN_IPV6_PREFIX = 128,
};

/* Half of the values of a state word must mean "idle": 2 * burst in tokens <= 2^31. */
#define WEIR_BURST_MAX_TOKENS 0x40000000ull
#define WEIR_FRAME_BYTES      1514 /* a full Ethernet frame without its checksum */
#define WEIR_FRAME_MIN_BYTES  60

struct weir_conf_limit {
	char name[WEIR_NAME_MAX];
	struct weir_conf_match match;
	enum weir_per per;
	__u8 ipv4_prefix; /* 32 */
	__u8 ipv6_prefix; /* 64 */
	enum weir_algorithm algorithm;
	bool bytes; /* counts frame bytes, not packets */
	/* token bucket: @rate tokens every @rate_per_ns. 20000/s = 20000, 10^9; 200 Mbit/s = 25000000, 10^9; 3/h = 3,
	 * 3600 * 10^9 */
	__u64 rate;
	__u64 rate_per_ns;
	__u64 burst; /* tokens; default one second's worth, at least 1 */
	__u64 limit; /* windows: tokens in one */
	__u64 window_ns;
	__u64 block_for_ns;    /* 0 = none */
	enum weir_scope scope; /* FLEET: what all hosts let through of a source counts too */
	enum weir_mode mode;
	int line;	  /* where it stands in the file */
	__u8 given;	  /* enum weir_conf_given: said by the user, not a default */
	__u8 given_bytes; /* which of them in bytes or bits */
};

struct weir_conf {
	char *path; /* as given; NULL = built-in defaults */
	int version;
	char instance[16];
	char **interfaces;
	size_t n_interfaces;
	enum weir_mode mode;
	enum weir_attach attach;
	enum weir_xdp_mode xdp_mode;
	char *bpffs; /* where the instance's folder is; /sys/fs/bpf */
	char *state_dir;
	char *admin_listen; /* path of the Unix socket */
	char *admin_group;  /* NULL = root only */
	enum weir_log_format log_format;
	unsigned events_per_second; /* 0 = off */
	__u64 packet_sources_bytes; /* of each family's state table; a power of two */
	__u64 packet_sources_asked; /* what the file says: rounded to the nearest power of two */
	struct weir_prefix_list allow, block, never_block;
	char **allow_files, **block_files;
	int *allow_file_lines, *block_file_lines;
	size_t n_allow_files, n_block_files;
	struct weir_conf_limit *limits;
	size_t n_limits;
	struct weir_conf_request request;
	struct weir_conf_store store;
};

/* All that is wrong with a file, in the order of its lines. */
struct weir_conf_problem {
	char *file;	  /* a list file; NULL = the configuration itself */
	int line, column; /* from 1; 0 = the file as a whole */
	bool warning;
	char *text; /* what is wrong (what would be right) */
};
struct weir_conf_problems {
	struct weir_conf_problem *item;
	size_t n, n_errors; /* errors beyond WEIR_PROBLEMS_MAX are counted, not kept */
	size_t n_warnings;
};
#define WEIR_PROBLEMS_MAX 200

/* Reads and checks @path (NULL: defaults). Returns 0 and *ret (warnings may still be in @problems); -EINVAL if there
 * are errors, all of them in @problems; another -errno if the file cannot be read (said in @problems too).
 */
int weir_conf_load(const char *path, struct weir_conf **ret, struct weir_conf_problems *problems);
/* The same from memory; @name is printed where a path would be. */
int weir_conf_parse(const char *name, const char *text, size_t n, struct weir_conf **ret,
		    struct weir_conf_problems *problems);
void weir_conf_free(struct weir_conf *c);
DEFINE_CLEANUP(struct weir_conf, weir_conf_free)
void weir_conf_problems_done(struct weir_conf_problems *p);
/* "weir: FILE:LINE:COLUMN: text", a line each; @name where a problem has no file of its own. */
void weir_conf_problems_print(const struct weir_conf_problems *p, const char *name, FILE *f);

/* Reads a list file: one address or prefix a line, '#' and ';' comments, blank lines. Appends to @list. On a bad line
 * fills @problems (all bad lines, at most 20) and returns -EINVAL; nothing is appended then. Host bits are refused.
 */
int weir_conf_list_file(const char *path, struct weir_prefix_list *list,
			struct weir_conf_problems *problems);
/* The same for all of allow_files or block_files; an unreadable file is named with the line that asks for it. */
int weir_conf_allow_files(const struct weir_conf *c, struct weir_prefix_list *list,
			  struct weir_conf_problems *problems);
int weir_conf_block_files(const struct weir_conf *c, struct weir_prefix_list *list,
			  struct weir_conf_problems *problems);
/* The same from memory (@file is what problems name). */
int weir_conf_list_parse(const char *file, const char *text, size_t n,
			 struct weir_prefix_list *list, struct weir_conf_problems *problems);
int weir_prefix_list_add(struct weir_prefix_list *list, const struct weir_prefix *p, int line);
void weir_prefix_list_done(struct weir_prefix_list *list);

/* Sets a limit's KEY=VALUE ("rate=500/s"; @n of them, since a change of unit needs several at once) as the file would,
 * checked the same way; @c is unchanged on error. For `weir limit set`, limits of both layers and that of `suspicious`.
 * Where a number differs by plan, "limit.pro" is one plan's and "limit" all of them: a number, or "{free: 60, pro:
 * 6000}". @warnings (may be NULL) gets what is allowed but rarely meant. -ENOENT: no such limit; -EINVAL; a sentence.
 */
int weir_conf_limit_set_all(struct weir_conf *c, const char *name, const char *const *pairs,
			    size_t n, struct weir_conf_problems *warnings, struct weir_error *e);
/* What the file as a whole would be warned of, as @c is now: limits that another one no longer bounds, and the like. */
void weir_conf_warnings(const struct weir_conf *c, struct weir_conf_problems *ret);
/* Writes the values into the file at their places; comments and everything else stay. The file is replaced atomically, with
 * the same mode and owner, and only if the result is a right configuration. For `limit set --save`.
 */
int weir_conf_save_limit_all(const char *path, const char *name, const char *const *pairs, size_t n,
			     struct weir_error *e);
/* The edit alone, in memory: *ret is heap text of *ret_n bytes. */
int weir_conf_edit_limit(const char *text, size_t n, const char *name, const char *key,
			 const char *value, char **ret, size_t *ret_n, struct weir_error *e);

/* The password of a shared store (heap): that of password_file, else WEIR_STORE_PASSWORD of the environment; NULL: the one
 * in url, if there is one. A sentence on error.
 */
int weir_conf_store_password(const struct weir_conf_store *s, char **ret, struct weir_error *e);
/* The same of its Sentinels: that of sentinel.password_file, else WEIR_STORE_SENTINEL_PASSWORD; NULL: none of their own. */
int weir_conf_sentinel_password(const struct weir_conf_store *s, char **ret, struct weir_error *e);
/* Its address for people: without user and password. */
const char *weir_conf_store_shown(const struct weir_conf_store *s, char *buf, size_t n);
/* Equal where the same connections would be made, in the same way. */
#define WEIR_CONF_STORE_DIGEST 16
void weir_conf_store_digest(const struct weir_conf_store *s,
			    __u8 ret[static WEIR_CONF_STORE_DIGEST]);

/* A text without (@ret_rest), and with nothing but (@ret_taken), these top-level settings; heap. What is in force by both
 * together is what was in force by @text.
 */
int weir_conf_part(const char *text, size_t n, const char *const *names, size_t n_names,
		   char **ret_taken, char **ret_rest, struct weir_error *e);

/* One limit in a sentence; returns the length as snprintf. */
int weir_conf_limit_words(const struct weir_conf_limit *l, char *buf, size_t n);
/* What a configuration means, in words (`weir check`). */
void weir_conf_explain(const struct weir_conf *c, FILE *f);
/* The table of settings as --help text, as mdoc for the man page, and as the commented default file. */
void weir_conf_print_settings(FILE *f);
void weir_conf_print_mdoc(FILE *f);
void weir_conf_print_default(FILE *f);

/* Names, as the file spells them. */
const char *weir_mode_name(enum weir_mode mode);
const char *weir_attach_name(enum weir_attach attach);
const char *weir_per_name(enum weir_per per);
const char *weir_algorithm_name(enum weir_algorithm algorithm);
/* "tcp", "udp", … or NULL where a number has no name here. */
const char *weir_protocol_name(__u8 protocol);

#endif
