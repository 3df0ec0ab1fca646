/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of addresses and prefixes, and the files they come from. */
#include <ctype.h>
#include <string.h>

#include "user/config/yaml.h"

#define BAD_LINES_MAX 20

int weir_prefix_list_add(struct weir_prefix_list *list, const struct weir_prefix *p, int line)
{
	if (list->n == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct weir_prefix *item = reallocarray(list->item, room, sizeof(*item));
		int *lines;

		if (!item)
			return -ENOMEM;
		list->item = item;
		lines = reallocarray(list->line, room, sizeof(*lines));
		if (!lines)
			return -ENOMEM;
		list->line = lines;
		list->room = room;
	}
	list->item[list->n] = *p;
	list->line[list->n++] = line;
	return 0;
}

void weir_prefix_list_done(struct weir_prefix_list *list)
{
	free(list->item);
	free(list->line);
	*list = (struct weir_prefix_list){.n = 0};
}

/* What is wrong with a line, in words. */
static void bad_line(struct weir_conf_problems *problems, const char *file, int line, int column,
		     const char *text, size_t n, int r)
{
	char shown[WEIR_SHOWN_MAX], right[WEIR_PREFIX_STRLEN];
	struct weir_prefix p;

	weir_conf_shown(text, n, shown);
	if (r == -EDOM && weir_prefix_parse(text, n, true, &p) == 0)
		weir_problems_add(problems, false, file, line, column,
				  "%s has bits set beyond its length (did you mean %s?)", shown,
				  weir_prefix_format(&p, right));
	else if (r == -ERANGE)
		weir_problems_add(problems, false, file, line, column,
				  "%s: the length is out of range (0 to %d)", shown,
				  memchr(text, ':', n) ? 128 : 32);
	else
		weir_problems_add(problems, false, file, line, column,
				  "\"%s\" is neither an address nor a prefix (one a line; # begins "
				  "a comment)",
				  shown);
}

int weir_conf_list_parse(const char *file, const char *text, size_t n,
			 struct weir_prefix_list *list, struct weir_conf_problems *problems)
{
	const char *at = text, *stop = text + n;
	size_t before = list->n;
	unsigned bad = 0;
	int r = 0;

	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		at += 3; /* byte order mark */
	for (int line = 1; at < stop && bad < BAD_LINES_MAX; line++) {
		const char *end = memchr(at, '\n', (size_t)(stop - at));
		const char *begin = at, *last = end ? end : stop;
		struct weir_prefix p;

		at = end ? end + 1 : stop;
		for (const char *c = begin; c < last; c++)
			if (*c == '#' || *c == ';')
				last = c;
		while (begin < last && isspace((unsigned char)*begin))
			begin++;
		while (last > begin && isspace((unsigned char)last[-1]))
			last--;
		if (begin == last)
			continue;
		r = weir_prefix_parse(begin, (size_t)(last - begin), false, &p);
		if (r == 0)
			r = weir_prefix_list_add(list, &p, line);
		if (r == -ENOMEM)
			break;
		if (r < 0) {
			const char *start = begin;

			while (start > text && start[-1] != '\n')
				start--;
			bad_line(problems, file, line, (int)(begin - start) + 1, begin,
				 (size_t)(last - begin), r);
			bad++;
		}
	}
	if (r != -ENOMEM && !bad)
		return 0;
	if (bad == BAD_LINES_MAX)
		weir_problems_add(problems, false, file, 0, 0,
				  "reading stopped after %d bad lines (is it a list of addresses?)",
				  BAD_LINES_MAX);
	list->n = before; /* all or nothing */
	return r == -ENOMEM ? r : -EINVAL;
}

int weir_conf_list_file(const char *path, struct weir_prefix_list *list,
			struct weir_conf_problems *problems)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	int r = weir_file_read(path, &text, &n);

	if (r < 0) {
		weir_problems_add(problems, false, path, 0, 0, "cannot be read: %s",
				  weir_file_problem(r));
		return r;
	}
	return weir_conf_list_parse(path, text, n, list, problems);
}

static int read_files(char *const *files, const int *lines, size_t n, const char *what,
		      struct weir_prefix_list *list, struct weir_conf_problems *problems)
{
	size_t before = list->n;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *text = NULL;
		size_t size = 0;
		int r2 = weir_file_read(files[i], &text, &size);

		if (r2 < 0)
			weir_problems_add(problems, false, NULL, lines[i], 0,
					  "%s: %s cannot be read: %s", what, files[i],
					  weir_file_problem(r2));
		else
			r2 = weir_conf_list_parse(files[i], text, size, list, problems);
		if (r2 < 0)
			r = r2;
	}
	if (r < 0)
		list->n = before;
	weir_problems_sort(problems);
	return r;
}

int weir_conf_allow_files(const struct weir_conf *c, struct weir_prefix_list *list,
			  struct weir_conf_problems *problems)
{
	return read_files(c->allow_files, c->allow_file_lines, c->n_allow_files, "allow_files",
			  list, problems);
}

int weir_conf_block_files(const struct weir_conf *c, struct weir_prefix_list *list,
			  struct weir_conf_problems *problems)
{
	return read_files(c->block_files, c->block_file_lines, c->n_block_files, "block_files",
			  list, problems);
}
