/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From argv to a command and its arguments, by the table. Called by main.c. */
#include <errno.h>
#include <string.h>

#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

/* Option @i of a command, its own first, then those of all that talk; NULL after the last. */
static const struct weir_option *option_at(const struct weir_command *c, size_t i)
{
	size_t own = 0;

	while (c->options[own].name)
		own++;
	if (i < own)
		return &c->options[i];
	return c->talks && weir_talk_options[i - own].name ? &weir_talk_options[i - own] : NULL;
}

static const struct weir_option *find_option(const struct weir_command *c, const char *name,
					     size_t n, char letter)
{
	const struct weir_option *o;

	for (size_t i = 0; (o = option_at(c, i)); i++)
		if (name ? strlen(o->name) == n && !strncmp(o->name, name, n) : o->letter == letter)
			return o;
	return NULL;
}

static int unknown_option(const struct weir_command *c, const char *text, struct weir_error *e)
{
	const char *names[32] = {"help"}, *near;
	const struct weir_option *o;
	char word[48];

	for (size_t i = 0; (o = option_at(c, i)) && i + 1 < ARRAY_LEN(names); i++)
		names[i + 1] = o->name;
	(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(text + strspn(text, "-"), "="),
		       text + strspn(text, "-"));
	near = weir_str_closest(word, names, ARRAY_LEN(names));
	if (near)
		return weir_error_set(e, -EINVAL,
				      "weir %s has no option %.64s (did you mean --%s?)", c->name,
				      text, near);
	return weir_error_set(e, -EINVAL, "weir %s has no option %.64s (weir %s --help)", c->name,
			      text, c->name);
}

static int keep_option(struct weir_args *a, const struct weir_option *o, const char *value,
		       struct weir_error *e)
{
	if (!o->many && weir_args_has(a, o->name))
		return weir_error_set(e, -EINVAL, "--%s is given twice", o->name);
	if (a->n_given == WEIR_ARGS_MAX)
		return weir_error_set(e, -EINVAL, "more than %d options", WEIR_ARGS_MAX);
	a->given[a->n_given].option = o;
	a->given[a->n_given++].value = value;
	return 0;
}

/* One option at argv[*i]; its value may be the next word. */
static int take_option(struct weir_args *a, int argc, char **argv, int *i, struct weir_error *e)
{
	const char *text = argv[*i], *value = NULL;
	const struct weir_option *o;

	if (text[1] == '-') {
		size_t n = strcspn(text + 2, "=");

		o = find_option(a->command, text + 2, n, 0);
		if (text[2 + n])
			value = text + 2 + n + 1;
	} else {
		o = find_option(a->command, NULL, 0, text[1]);
		if (text[2])
			value = text + 2;
	}
	if (!o || (text[1] != '-' && !o->value && value))
		return unknown_option(a->command, text, e);
	if (!o->value && value)
		return weir_error_set(e, -EINVAL, "--%s takes no value", o->name);
	if (o->value && !value) {
		if (*i + 1 >= argc)
			return weir_error_set(e, -EINVAL, "--%s needs a value: --%s %s", o->name,
					      o->name, o->value);
		value = argv[++*i];
	}
	return keep_option(a, o, value, e);
}

static int check_count(const struct weir_args *a, struct weir_error *e)
{
	const struct weir_command *c = a->command;

	if ((int)a->n < c->min_args)
		return weir_error_set(e, -EINVAL, "weir %s needs %s: weir %s %s", c->name,
				      a->n ? "more arguments" : "an argument", c->name, c->usage);
	if (a->n && !c->max_args && find_option(c, "config", strlen("config"), 0) &&
	    strpbrk(a->arg[0], "./")) /* a file's name */
		return weir_error_set(
			e, -EINVAL, "weir %s: a configuration is named with -c: weir %s -c %.200s",
			c->name, c->name, a->arg[0]);
	if ((int)a->n > c->max_args)
		return weir_error_set(e, -EINVAL, "weir %s: %.64s is too much (weir %s%s%s)",
				      c->name, a->arg[c->max_args], c->name, c->usage[0] ? " " : "",
				      c->usage);
	return 0;
}

int weir_args_parse(const struct weir_command *c, int argc, char **argv, struct weir_args *ret,
		    bool *ret_help, struct weir_error *e)
{
	struct weir_args a = {.command = c};
	bool options = true;

	for (int i = 0; i < argc; i++) {
		int r = 0;

		if (options && !strcmp(argv[i], "--")) {
			options = false;
		} else if (options && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
			*ret_help = true;
			return 0;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			r = take_option(&a, argc, argv, &i, e);
		} else if (a.n == WEIR_ARGS_MAX) {
			r = weir_error_set(e, -EINVAL, "more than %d arguments", WEIR_ARGS_MAX);
		} else {
			a.arg[a.n++] = argv[i];
		}
		if (r < 0)
			return r;
	}
	*ret_help = false;
	*ret = a;
	return check_count(&a, e);
}

const char *weir_args_get(const struct weir_args *a, const char *name)
{
	for (size_t i = a->n_given; i-- > 0;)
		if (!strcmp(a->given[i].option->name, name))
			return a->given[i].value;
	return NULL;
}

bool weir_args_has(const struct weir_args *a, const char *name)
{
	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i].option->name, name))
			return true;
	return false;
}

int weir_args_seconds(const struct weir_args *a, const char *name, __u64 *ret_s,
		      struct weir_error *e)
{
	const char *text = weir_args_get(a, name);
	__u64 ns;

	if (!text) {
		*ret_s = 0;
		return 0;
	}
	if (weir_str_duration_ns(text, &ns) < 0 || ns < WEIR_NS_PER_S)
		return weir_error_set(
			e, -EINVAL,
			"--%s %.32s: a time of at least one second, such as 90s, 10m, 2h or 7d",
			name, text);
	*ret_s = (ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S;
	return 0;
}

/* The command whose words begin argv; *ret_words of them. */
static const struct weir_command *find_command(int argc, char **argv, int *ret_words)
{
	char two[64];

	for (int words = argc > 2 ? 2 : argc - 1; words > 0; words--) {
		if (words == 2)
			(void)snprintf(two, sizeof(two), "%.30s %.30s", argv[1], argv[2]);
		else
			(void)snprintf(two, sizeof(two), "%.60s", argv[1]);
		for (size_t i = 0; i < weir_n_commands; i++)
			if (!strcmp(weir_commands[i].name, two)) {
				*ret_words = words;
				return &weir_commands[i];
			}
	}
	return NULL;
}

static bool is_group(const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < weir_n_commands; i++)
		if (!strncmp(weir_commands[i].name, word, n) && weir_commands[i].name[n] == ' ')
			return true;
	return false;
}

static int unknown_command(int argc, char **argv)
{
	static const char *const groups[] = {"block", "allow", "limit"};
	const char *names[64], *near, *first;
	char words[64];
	size_t n = 0;

	if (is_group(argv[1])) {
		bool help = argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"));

		if (help) {
			(void)weir_help_group(argv[1], stdout);
			return WEIR_EXIT_OK;
		}
		if (argc < 3 || argv[2][0] == '-') {
			(void)weir_help_group(argv[1], stderr);
			return WEIR_EXIT_USAGE;
		}
		(void)snprintf(words, sizeof(words), "%.30s %.30s", argv[1], argv[2]);
	} else {
		(void)snprintf(words, sizeof(words), "%.60s", argv[1]);
	}
	for (size_t i = 0; i < weir_n_commands && n < ARRAY_LEN(names); i++)
		names[n++] = weir_commands[i].name;
	near = weir_str_closest(words, names, n);
	if (near)
		return weir_fail(WEIR_EXIT_USAGE, "there is no command %s (did you mean weir %s?)",
				 words, near);
	first = weir_str_closest(argv[1], groups, ARRAY_LEN(groups));
	if (first)
		return weir_fail(WEIR_EXIT_USAGE, "there is no command %s (did you mean weir %s?)",
				 words, first);
	return weir_fail(WEIR_EXIT_USAGE, "there is no command %s (weir help lists them)", words);
}

static int run(int argc, char **argv)
{
	const struct weir_command *c;
	struct weir_error e = {};
	struct weir_args args;
	bool help = false;
	int words = 0;

	if (argc < 2) {
		weir_help_all(stderr);
		return WEIR_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		weir_help_all(stdout);
		return WEIR_EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return weir_cmd_version(NULL);
	c = find_command(argc, argv, &words);
	if (!c)
		return unknown_command(argc, argv);
	if (weir_args_parse(c, argc - 1 - words, argv + 1 + words, &args, &help, &e) < 0)
		return weir_fail(WEIR_EXIT_USAGE, "%s", e.text);
	if (help) {
		weir_help_command(c, stdout);
		return WEIR_EXIT_OK;
	}
	return c->run(&args);
}

int weir_cli_main(int argc, char **argv)
{
	int r = run(argc, argv);

	/* what was lost on the way, to a full disk say, was not done */
	if ((fflush(stdout) == EOF || ferror(stdout)) &&
	    (r == WEIR_EXIT_OK || r == WEIR_EXIT_FAILED))
		return weir_fail(WEIR_EXIT_FAILED, "the output could not be written");
	return r;
}
