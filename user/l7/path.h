/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One written normal form of what a request asks for: target, method, host, and a query's parameters. Rules match on it
 * and keys are built from it, so that no spelling of one thing is another thing. Called by rules and by key.c.
 *
 * The normal form of a path, from the raw target as the client sent it:
 *   1. An absolute-form target (http://host/x) loses scheme and authority, an empty path is "/". "*" stays "*".
 *   2. The fragment goes, then the query is split off.
 *   3. %-encoding is undone once: what may stand in a segment (letters, digits, -._~!$&'()*+,=:@) stands for itself;
 *      every other byte is %XX in upper case, raw or not. %2F is a byte of its segment, not a separator; %3B likewise
 *      no parameter. Control bytes, raw or encoded, %00 and a % without two hex digits are refused.
 *   4. ";..." of each segment is stripped (option: kept).
 *   5. Empty segments are folded ("//"), then "." and ".." removed (RFC 3986 5.2.4); ".." of the root is the root.
 *   6. A slash at the end goes (option: it is another path). Letters of ASCII are lower case, if case is folded.
 *
 * Servers disagree about some targets: one takes %2F or a backslash for a separator, another removes ".." before it
 * folds "//" or leaves it alone, another strips ";" or does not, or reads "//host/x" as /x on a host. Such a target has
 * further readings beside the normal form. A limit must match if any reading does, and an exemption only if all do:
 * then whatever the server behind does, the client gains nothing by the spelling. Keys take the normal form; a limit by
 * endpoint counts it at each of its patterns that a reading matches.
 */
#ifndef WEIR_USER_PATH_H
#define WEIR_USER_PATH_H

#include "user/base/error.h"
#include "user/l7/header_list.h"
#include "weir/types.h"

#define WEIR_PATH_MAX	   4096 /* bytes of a path, raw (without its query) and in normal form */
#define WEIR_PATH_READINGS 32

/* All zero: the defaults of `path:` in the configuration. */
struct weir_path_options {
	bool fold_case;
	bool keep_params;
	bool slash_distinct;
};

struct weir_path {
	struct weir_text query; /* raw, in the caller's target; n = 0: none */
	struct weir_text
		authority; /* raw, of an absolute-form target: it goes before the Host header */
	unsigned n;	   /* readings; 0 after a failure */
	struct {
		__u16 at;
		__u16 n;
	} reading[WEIR_PATH_READINGS]; /* the first is the normal form */
	char text[4 * WEIR_PATH_MAX];
};

/* -EBADMSG: not a target, or a byte that is refused. -ENAMETOOLONG: longer than WEIR_PATH_MAX (or its readings than
 * four times that). Both are refusals of the request ("bad-path"), never a reason to skip limits.
 * @ret points into @target and may be reused without being cleared.
 */
int weir_path_read(struct weir_text target, const struct weir_path_options *options,
		   struct weir_path *ret);
/* Reading @i < path->n; 0 is the normal form. Points into @path. */
struct weir_text weir_path_text(const struct weir_path *path, unsigned i);

struct weir_path_pattern {
	char *text; /* normal form, without the / * at the end */
	size_t n;
	bool below; /* written with / * : the path itself and all below it */
};

/* "/x": this path. "/x/" followed by "*": /x and everything below. A slash and a star: every target, "*" too.
 * -EINVAL with a sentence in @error: not such a pattern. Free with weir_path_pattern_done.
 */
int weir_path_pattern_parse(const char *text, const struct weir_path_options *options,
			    struct weir_path_pattern *ret, struct weir_error *error);
void weir_path_pattern_done(struct weir_path_pattern *pattern);
/* Does it match one reading, @i < path->n? Of a limit one reading is enough; an exemption must match all (match.c). */
bool weir_path_matches_reading(const struct weir_path_pattern *pattern,
			       const struct weir_path *path, unsigned i);

#define WEIR_METHOD_MAX 32

/* Upper case; HEAD is GET. For requests and for rules alike; ended by a NUL. -EBADMSG: no token, or too long. */
int weir_method_normal(struct weir_text method, char ret[static WEIR_METHOD_MAX + 1]);

#define WEIR_HOST_MAX 255

/* Lower case, without port and final dot; brackets of IPv6 stay. Ended by a NUL. -EBADMSG: empty, longer than
 * WEIR_HOST_MAX, or a byte that no host has (blanks, control, above 127, / \ ? # @ , ").
 */
int weir_host_normal(struct weir_text host, char ret[static WEIR_HOST_MAX + 1]);

/* The first parameter named @name in a raw query: names and values %-decoded once, + is a blank, & separates; a % without
 * hex digits stands for itself; a parameter without = has an empty value. Writes at most @size bytes and cuts there: long
 * values that begin alike are alike. -ENOENT: no such parameter.
 */
int weir_query_find(struct weir_text query, struct weir_text name, char *buf, size_t size,
		    struct weir_text *ret);

#endif
