/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The normal form of targets, and patterns; see path.h. */
#include "user/l7/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/cleanup.h"

/* How a server may read a target, beside the normal form; a set of bits. */
enum {
	READ_SEPARATORS = 1, /* \ %2F %5C separate; %3B begins parameters as ; does */
	READ_PARAMS = 2,     /* parameters the other way: kept where they are stripped */
	READ_EMPTY = 4,	     /* ".." takes an empty segment away, "//" is folded afterwards */
	READ_DOTS = 8,	     /* ".." is a name like any other */
	READ_AUTHORITY = 16, /* "//host/x" is a reference to /x */
	READ_ALL = 31
};

/* What a reading met that other servers read otherwise. */
struct seen {
	bool separator;
	bool params;
	bool empty;
	bool dots;
};

struct reader {
	struct weir_text in; /* raw path */
	size_t i;
	unsigned how;
	bool fold_case;
	bool strip;
	char *out;
	size_t n;
	size_t max;
	struct seen seen;
};

static bool plain(unsigned char c)
{
	char low = weir_ascii_lower((char)c);

	return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~!$&'()*+,=:@", c));
}

static int put(struct reader *r, char c)
{
	if (r->n == r->max)
		return -ENAMETOOLONG;
	r->out[r->n++] = c;
	return 0;
}

static int put_byte(struct reader *r, unsigned char c, bool kept_semicolon)
{
	static const char digit[] = "0123456789ABCDEF";

	if (plain(c) || kept_semicolon)
		return put(r, r->fold_case ? weir_ascii_lower((char)c) : (char)c);
	if (r->max - r->n < 3)
		return -ENAMETOOLONG;
	r->out[r->n++] = '%';
	r->out[r->n++] = digit[c >> 4];
	r->out[r->n++] = digit[c & 15];
	return 0;
}

/* The next byte of the path, decoded once. */
static int next_byte(struct reader *r, unsigned char *ret, bool *ret_encoded)
{
	unsigned char c = (unsigned char)r->in.p[r->i];
	bool encoded = c == '%';
	size_t n = 1;

	if (encoded) {
		int high, low;

		if (r->in.n - r->i < 3)
			return -EBADMSG;
		high = weir_hex_digit(r->in.p[r->i + 1]);
		low = weir_hex_digit(r->in.p[r->i + 2]);
		if (high < 0 || low < 0)
			return -EBADMSG;
		c = (unsigned char)(high << 4 | low);
		n = 3;
	}
	if (c < 0x20 || c == 0x7f)
		return -EBADMSG;
	r->i += n;
	*ret = c;
	*ret_encoded = encoded;
	return 0;
}

/* Appends the text of one segment, up to and over its separator. */
static int read_segment(struct reader *r, bool *ret_ended)
{
	bool params = false;

	*ret_ended = false;
	while (r->i < r->in.n) {
		unsigned char c;
		bool encoded, odd;
		int e = next_byte(r, &c, &encoded);

		if (e < 0)
			return e;
		odd = c == '\\' || (c == '/' && encoded);
		r->seen.separator |= odd || (c == ';' && encoded);
		r->seen.params |= c == ';';
		if ((c == '/' && !encoded) || (odd && r->how & READ_SEPARATORS)) {
			*ret_ended = true;
			return 0;
		}
		if (c == ';' && r->strip && (!encoded || r->how & READ_SEPARATORS))
			params = true;
		e = params ? 0 : put_byte(r, c, c == ';' && !encoded);
		if (e < 0)
			return e;
	}
	return 0;
}

/* @out is "/", or ends in a slash after some segment: takes that one away. */
static void pop(struct reader *r)
{
	if (r->n > 1)
		r->n--;
	while (r->out[r->n - 1] != '/')
		r->n--;
}

static bool is(const struct reader *r, size_t at, const char *text)
{
	return r->n - at == strlen(text) && memcmp(r->out + at, text, r->n - at) == 0;
}

static void fold_slashes(struct reader *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (r->out[i] != '/' || n == 0 || r->out[n - 1] != '/')
			r->out[n++] = r->out[i];
	}
	r->n = n;
}

static int read_path(struct reader *r, bool slash_distinct)
{
	bool more = true, named = false;
	int e = put(r, '/');

	while (e == 0 && more) {
		size_t at = r->n;

		e = read_segment(r, &more);
		if (e < 0)
			break;
		named = false;
		r->seen.dots |= is(r, at, "..");
		if (is(r, at, "..") && !(r->how & READ_DOTS)) {
			r->n = at;
			pop(r);
		} else if (is(r, at, ".")) {
			r->n = at;
		} else if (r->n > at || (more && r->how & READ_EMPTY)) {
			named = r->n > at;
			e = put(r, '/');
		}
		r->seen.empty |= more && r->n == at;
	}
	if (e < 0)
		return e;
	fold_slashes(r);
	if (r->n > 1 && (named || !slash_distinct))
		r->n--;
	return 0;
}

static bool is_separator(char c)
{
	return c == '/' || c == '\\';
}

/* Where the path of "//host/path" begins. */
static size_t after_authority(struct weir_text path)
{
	size_t i = 2;

	while (i < path.n && !is_separator(path.p[i]))
		i++;
	return i;
}

static void keep_if_new(struct weir_path *path, size_t at, size_t n)
{
	for (unsigned i = 0; i < path->n; i++) {
		if (path->reading[i].n == n &&
		    memcmp(path->text + path->reading[i].at, path->text + at, n) == 0)
			return;
	}
	path->reading[path->n].at = (__u16)at;
	path->reading[path->n].n = (__u16)n;
	path->n++;
}

static int read_all(struct weir_text raw, const struct weir_path_options *o, struct weir_path *ret)
{
	unsigned may = 0;

	if (raw.n >= 2 && is_separator(raw.p[0]) && is_separator(raw.p[1]))
		may |= READ_AUTHORITY;
	for (unsigned how = 0; how <= READ_ALL; how++) {
		size_t at = ret->n ? ret->reading[ret->n - 1].at + ret->reading[ret->n - 1].n : 0;
		struct reader r = {.in = raw,
				   .how = how,
				   .fold_case = o->fold_case,
				   .strip = !o->keep_params != !!(how & READ_PARAMS),
				   .out = ret->text + at,
				   .max = sizeof(ret->text) - at};
		int e;

		/* where nothing is taken away it does not matter what is taken first */
		if (how & ~may || (how & READ_EMPTY && how & READ_DOTS))
			continue;
		if (r.max > WEIR_PATH_MAX)
			r.max = WEIR_PATH_MAX;
		r.i = how & READ_AUTHORITY ? after_authority(raw) : 0;
		r.i += r.i < raw.n; /* the first separator */
		e = read_path(&r, o->slash_distinct);
		if (e < 0)
			return e;
		keep_if_new(ret, at, r.n);
		may |= r.seen.separator ? READ_SEPARATORS : 0;
		may |= r.seen.params ? READ_PARAMS : 0;
		may |= r.seen.dots ? READ_DOTS : 0;
		may |= r.seen.empty && r.seen.dots ? READ_EMPTY : 0;
	}
	return 0;
}

/* Cuts "scheme://authority" off; a target without it must begin with a slash. */
static int cut_authority(struct weir_text *path, struct weir_text *ret_authority)
{
	size_t i = 0, start;

	if (path->n && path->p[0] == '/')
		return 0;
	while (i < path->n && weir_text_is_token((struct weir_text){path->p + i, 1}))
		i++;
	if (i == 0 || path->n - i < 3 || memcmp(path->p + i, "://", 3) != 0)
		return -EBADMSG;
	start = i += 3;
	while (i < path->n && path->p[i] != '/') {
		unsigned char c = (unsigned char)path->p[i++];

		if (!plain(c) && c != '[' && c != ']' && c != '%' && c != ';')
			return -EBADMSG;
	}
	if (i == start)
		return -EBADMSG;
	*ret_authority = (struct weir_text){path->p + start, i - start};
	path->p += i;
	path->n -= i;
	return 0;
}

int weir_path_read(struct weir_text target, const struct weir_path_options *options,
		   struct weir_path *ret)
{
	const char *end = target.n ? memchr(target.p, '#', target.n) : NULL;
	struct weir_text path = {target.p, end ? (size_t)(end - target.p) : target.n};
	int r;

	ret->n = 0;
	ret->query = ret->authority = (struct weir_text){.n = 0};
	end = path.n ? memchr(path.p, '?', path.n) : NULL;
	if (end) {
		ret->query = (struct weir_text){end + 1, path.n - (size_t)(end - path.p) - 1};
		path.n = (size_t)(end - path.p);
	}
	if (path.n > WEIR_PATH_MAX)
		return -ENAMETOOLONG;
	if (path.n == 1 && path.p[0] == '*') {
		ret->text[0] = '*';
		keep_if_new(ret, 0, 1);
		return 0;
	}
	r = cut_authority(&path, &ret->authority);
	if (r == 0)
		r = read_all(path, options, ret);
	if (r < 0)
		ret->n = 0;
	return r;
}

struct weir_text weir_path_text(const struct weir_path *path, unsigned i)
{
	return (struct weir_text){path->text + path->reading[i].at, path->reading[i].n};
}

int weir_path_pattern_parse(const char *text, const struct weir_path_options *options,
			    struct weir_path_pattern *ret, struct weir_error *error)
{
	struct weir_path_pattern p = {.n = strlen(text)};
	struct weir_text normal;
	struct weir_path path;
	const char *odd;

	p.below = p.n >= 2 && memcmp(text + p.n - 2, "/*", 2) == 0;
	if (p.below)
		p.n -= p.n > 2 ? 2 : 1;
	if (text[0] != '/')
		return weir_error_set(error, -EINVAL, "the path '%s' must begin with a slash",
				      text);
	odd = strpbrk(text, options->keep_params ? "?#\\" : "?#\\;");
	if (odd)
		return weir_error_set(
			error, -EINVAL,
			"'%c' never stands in the normal form of a path: write '%s' without it",
			*odd, text);
	if (memchr(text, '*', p.n))
		return weir_error_set(error, -EINVAL,
				      "in '%s' the star must be the whole last segment (/x/*: /x "
				      "and all below it; a star itself is %%2A)",
				      text);
	if (weir_path_read((struct weir_text){text, p.n}, options, &path) < 0)
		return weir_error_set(error, -EINVAL,
				      "'%.64s' is no path: longer than %d bytes, a control byte, "
				      "or a %% without two hex digits",
				      text, WEIR_PATH_MAX);
	normal = weir_path_text(&path, 0);
	p.n = normal.n;
	/* below /x/ is below /x */
	if (p.below && p.n > 1 && normal.p[p.n - 1] == '/')
		p.n--;
	p.text = strndup(normal.p, p.n);
	if (!p.text)
		return -ENOMEM;
	*ret = p;
	return 0;
}

void weir_path_pattern_done(struct weir_path_pattern *pattern)
{
	free(pattern->text);
	*pattern = (struct weir_path_pattern){.n = 0};
}

static bool matches(const struct weir_path_pattern *p, struct weir_text t)
{
	if (!p->below)
		return weir_text_equal((struct weir_text){p->text, p->n}, t);
	if (p->n == 1)
		return true;
	return t.n >= p->n && memcmp(t.p, p->text, p->n) == 0 && (t.n == p->n || t.p[p->n] == '/');
}

bool weir_path_matches_reading(const struct weir_path_pattern *pattern,
			       const struct weir_path *path, unsigned i)
{
	return matches(pattern, weir_path_text(path, i));
}
