/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a configuration says before it is put in force: the text, what it means with overrides, and its part of the lists;
 * all that is wrong in one pass. Called by start.c, config.c and limits.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "user/agent/agent_int.h"
#include "user/agent/json.h"
#include "user/base/str.h"

void weir_source_done(struct weir_source *s)
{
	free(s->path);
	free(s->text);
	*s = (struct weir_source){};
}

int weir_source_make(const char *path, const char *text, size_t n, __s64 read_s,
		     struct weir_source *ret)
{
	struct weir_source s = {.n = n, .read_s = read_s};

	s.path = path ? strdup(path) : NULL;
	s.text = malloc(n + 1);
	if (!s.text || (path && !s.path)) {
		weir_source_done(&s);
		return -ENOMEM;
	}
	if (n)
		memcpy(s.text, text, n);
	s.text[n] = '\0';
	*ret = s;
	return 0;
}

int weir_source_read(const char *path, struct weir_source *ret, struct weir_error *e)
{
	_cleanup_free_ char *buf = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t n = 0;
	int r;

	if (!path) {
		r = weir_source_make(NULL, "", 0, weir_now().wall_s, ret);
		return r < 0 ? weir_error_set(e, r, "out of memory") : 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return weir_error_set(e, -errno, "%s: cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return weir_error_set(e, -EINVAL, "%s: is not a regular file", path);
	if (st.st_size > WEIR_CONF_TEXT_MAX)
		return weir_error_set(e, -EFBIG,
				      "%s: is larger than 16 MiB (put long lists into allow_files "
				      "and block_files)",
				      path);
	buf = malloc(WEIR_CONF_TEXT_MAX + 1);
	if (!buf)
		return weir_error_set(e, -ENOMEM, "out of memory");
	for (ssize_t got; n <= WEIR_CONF_TEXT_MAX; n += (size_t)got) {
		got = read(fd, buf + n, WEIR_CONF_TEXT_MAX + 1 - n);
		if (got < 0)
			return weir_error_set(e, -errno, "%s: cannot be read: %s", path,
					      strerror(errno));
		if (!got)
			break;
	}
	if (n > WEIR_CONF_TEXT_MAX)
		return weir_error_set(e, -EFBIG,
				      "%s: is larger than 16 MiB (put long lists into allow_files "
				      "and block_files)",
				      path);
	r = weir_source_make(path, buf, n, weir_now().wall_s, ret);
	return r < 0 ? weir_error_set(e, r, "out of memory") : 0;
}

void weir_loaded_done(struct weir_loaded *l)
{
	weir_conf_free(l->conf);
	weir_book_free(l->book);
	json_decref(l->problems);
	*l = (struct weir_loaded){};
}

void weir_problem_lines(const struct weir_conf_problems *p, const char *name, json_t *lines)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct weir_conf_problem *q = &p->item[i];
		const char *kind = q->warning ? "warning: " : "", *file = q->file ? q->file : name;
		_cleanup_free_ char *line = NULL;
		int n;

		if (q->line && !q->column)
			n = asprintf(&line, "%s:%d: %s%s", file, q->line, kind, q->text);
		else if (q->line)
			n = asprintf(&line, "%s:%d:%d: %s%s", file, q->line, q->column, kind,
				     q->text);
		else
			n = asprintf(&line, "%s: %s%s", file, kind, q->text);
		if (n >= 0)
			(void)json_array_append_new(lines, weir_json_text(line));
		else
			line = NULL;
	}
}

/* Moves what is wrong into the list of lines. */
static void take_problems(struct weir_loaded *l, const char *name, struct weir_conf_problems *p)
{
	weir_problem_lines(p, name, l->problems);
	l->n_errors += p->n_errors;
	weir_conf_problems_done(p);
	*p = (struct weir_conf_problems){};
}

static int add_prefixes(struct weir_book *book, enum weir_list list,
			const struct weir_prefix_list *from, enum weir_origin origin,
			const char *name, const char *reason)
{
	_cleanup_(
		weir_shared_text_freep) struct weir_shared_text *file = weir_shared_text_new(name),
								*why = weir_shared_text_new(reason);
	int r = 0;

	for (size_t i = 0; i < from->n && r == 0; i++) {
		struct weir_book_entry entry = {
			.prefix = from->item[i],
			.origin = origin,
			.line = from->line ? from->line[i] : 0,
			.name = file,
			.reason = why,
		};

		r = weir_book_add(book, list, &entry);
	}
	return r;
}

static int load_list_files(struct weir_loaded *l, enum weir_list list, char *const *files, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct weir_conf_problems problems = {};
		struct weir_prefix_list prefixes = {};
		int failed = weir_conf_list_file(files[i], &prefixes, &problems);

		take_problems(l, files[i], &problems);
		if (failed == 0)
			r = add_prefixes(l->book, list, &prefixes, WEIR_ORIGIN_LIST_FILE, files[i],
					 NULL);
		else if (failed == -ENOMEM)
			r = failed;
		else if (!l->n_errors)
			l->n_errors++; /* the file says why, or could not be read */
		weir_prefix_list_done(&prefixes);
	}
	return r;
}

static int load_lists(struct weir_loaded *l, const char *name)
{
	const struct weir_conf *c = l->conf;
	int r;

	l->book = weir_book_new();
	r = l->book ? 0 : -ENOMEM;
	if (r == 0)
		r = add_prefixes(l->book, WEIR_LIST_ALLOW, &c->allow, WEIR_ORIGIN_FILE, name, NULL);
	if (r == 0)
		r = add_prefixes(l->book, WEIR_LIST_BLOCK, &c->block, WEIR_ORIGIN_FILE, name, NULL);
	if (r == 0)
		r = add_prefixes(l->book, WEIR_LIST_GUARD, &c->never_block, WEIR_ORIGIN_FILE, name,
				 "lists.never_block");
	if (r == 0)
		r = load_list_files(l, WEIR_LIST_ALLOW, c->allow_files, c->n_allow_files);
	if (r == 0)
		r = load_list_files(l, WEIR_LIST_BLOCK, c->block_files, c->n_block_files);
	if (l->book)
		weir_book_settle(l->book);
	return r;
}

/* -i in place of what the file says. */
static int use_only_interfaces(const struct weir_agent *a, struct weir_conf *c)
{
	size_t n = 0;
	char **copy;

	if (!a->only_interfaces)
		return 0;
	while (a->only_interfaces[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		copy[i] = strdup(a->only_interfaces[i]);
		if (!copy[i]) {
			while (i)
				free(copy[--i]);
			free(copy);
			return -ENOMEM;
		}
	}
	for (size_t i = 0; i < c->n_interfaces; i++)
		free(c->interfaces[i]);
	free(c->interfaces);
	c->interfaces = copy;
	c->n_interfaces = n;
	return 0;
}

/* All overrides of one limit at once: a change of unit needs that. */
static void put_overrides_of(const struct weir_agent *a, const char *limit, const char *name,
			     struct weir_loaded *l)
{
	char pairs[32][sizeof(a->override[0].key) + sizeof(a->override[0].value) + 1], line[1024];
	const char *list[ARRAY_LEN(pairs)];
	struct weir_conf_problems warnings = {};
	struct weir_error e = {};
	size_t n = 0;
	int r;

	for (size_t i = 0; i < a->n_override && n < ARRAY_LEN(pairs); i++) {
		if (strcmp(a->override[i].limit, limit) != 0)
			continue;
		(void)snprintf(pairs[n], sizeof(pairs[n]), "%s=%s", a->override[i].key,
			       a->override[i].value);
		list[n] = pairs[n];
		n++;
	}
	r = weir_conf_limit_set_all(l->conf, limit, list, n, &warnings, &e);
	take_problems(l, name, &warnings);
	if (r == 0)
		return;
	(void)snprintf(
		line, sizeof(line),
		"warning: overrides of %s do not fit this configuration and are left out: %s",
		limit, e.text);
	(void)json_array_append_new(l->problems, weir_json_text(line));
}

const char *weir_warning_of(const json_t *line)
{
	const char *at =
		json_string_value(line) ? strstr(json_string_value(line), "warning: ") : NULL;

	return at ? at + strlen("warning: ") : NULL;
}

bool weir_warns(const json_t *problems, const char *text)
{
	json_t *line;
	size_t i;

	json_array_foreach(problems, i, line) {
		const char *known = weir_warning_of(line);

		if (known && !strcmp(known, text))
			return true;
	}
	return false;
}

/* What is rarely meant now that overrides are on it, and was not so without them. */
static void warn_of_all(struct weir_loaded *l, const char *name)
{
	struct weir_conf_problems all = {}, fresh = {};

	weir_conf_warnings(l->conf, &all);
	fresh.item = calloc(all.n ? all.n : 1, sizeof(*fresh.item));
	for (size_t i = 0; i < all.n && fresh.item; i++)
		if (!weir_warns(l->problems, all.item[i].text)) {
			fresh.item[fresh.n++] = all.item[i];
			all.item[i] = (struct weir_conf_problem){};
		}
	take_problems(l, name, &fresh);
	weir_conf_problems_done(&all);
}

static void put_overrides_on(const struct weir_agent *a, const char *name, struct weir_loaded *l)
{
	for (size_t i = 0; i < a->n_override; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first = first && strcmp(a->override[k].limit, a->override[i].limit) != 0;
		if (first)
			put_overrides_of(a, a->override[i].limit, name, l);
	}
	if (a->n_override)
		warn_of_all(l, name);
}

/* The file again, with the store's limits in place of its own. */
static int load_pushed(struct weir_agent *a, const struct weir_source *source,
		       struct weir_loaded *l, struct weir_error *e)
{
	const struct weir_pushed *p = a->trial ? a->trial : &a->pushed;
	struct weir_conf_problems problems = {};
	_cleanup_free_ char *text = NULL;
	char name[160];
	size_t n = 0;
	int r = weir_agent_compose(source, p, &text, &n, e);

	if (r < 0)
		return r;
	weir_conf_free(TAKE_PTR(l->conf));
	(void)snprintf(name, sizeof(name), "limits of the store, generation %llu",
		       (unsigned long long)p->generation);
	r = weir_conf_parse(source->path ? source->path : name, text, n, &l->conf, &problems);
	take_problems(l, name, &problems);
	return r;
}

void weir_source_digest(const struct weir_source *s, char ret[static 33])
{
	__u8 hash[16];

	/* fails only for lengths that are none */
	(void)crypto_generichash(hash, sizeof(hash), (const __u8 *)s->text, s->n, NULL, 0);
	(void)sodium_bin2hex(ret, 33, hash, sizeof(hash));
}

int weir_agent_load(struct weir_agent *a, const struct weir_source *source, bool overrides,
		    bool lists, struct weir_loaded *ret, struct weir_error *e)
{
	const char *name = source->path ? source->path : "built-in defaults";
	struct weir_conf_problems problems = {};
	struct weir_loaded l = {.problems = json_array()};
	int r;

	if (!l.problems)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (source->path)
		r = weir_conf_parse(source->path, source->text, source->n, &l.conf, &problems);
	else
		r = weir_conf_load(NULL, &l.conf, &problems);
	take_problems(&l, name, &problems);
	if (r == 0 && weir_agent_uses_pushed(a, l.conf))
		r = load_pushed(a, source, &l, e);
	if (r == 0)
		r = use_only_interfaces(a, l.conf);
	if (r == 0 && overrides)
		put_overrides_on(a, name, &l);
	if (r == 0 && lists)
		r = load_lists(&l, name);
	if (r == 0 && l.n_errors)
		r = -EINVAL;
	*ret = l;
	if (r == -EINVAL)
		return weir_error_set(e, r, "%s: %zu error%s; nothing was changed", name,
				      l.n_errors, l.n_errors == 1 ? "" : "s");
	return r < 0 ? weir_error_set(e, r, "%s: %s", name, strerror(-r)) : 0;
}
