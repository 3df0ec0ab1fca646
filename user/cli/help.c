/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --help, `weir help` and the manual page, all from the table of commands. Called by opt.c. */
#include <string.h>

#include "user/agent/metrics.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

#define COLUMNS 100

/* Prints @text wrapped, indented by @in; the cursor is at @at. */
static void wrap(FILE *f, const char *text, int in, int at)
{
	while (*text) {
		size_t n = strcspn(text, " ");

		if (at > in && at + 1 + (int)n > COLUMNS) {
			(void)fprintf(f, "\n%*s", in, "");
			at = in;
		} else if (at > in) {
			(void)fputc(' ', f);
			at++;
		}
		(void)fprintf(f, "%.*s", (int)n, text);
		at += (int)n;
		text += n;
		while (*text == ' ')
			text++;
	}
	(void)fputc('\n', f);
}

static void print_option(FILE *f, const struct weir_option *o)
{
	char head[64], letter[8] = "    ";
	int n;

	if (o->letter)
		(void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	n = snprintf(head, sizeof(head), "  %s--%s%s%s", letter, o->name, o->value ? " " : "",
		     o->value ? o->value : "");
	(void)fprintf(f, "%-28s", head);
	if (n >= 28)
		(void)fprintf(f, "\n%28s", "");
	wrap(f, o->help, 28, 28);
}

void weir_help_command(const struct weir_command *c, FILE *f)
{
	(void)fprintf(f, "usage: weir %s%s%s%s\n\n", c->name, c->usage[0] ? " " : "", c->usage,
		      c->options[0].name || c->talks ? " [options]" : "");
	wrap(f, c->summary, 0, 0);
	if (c->detail) {
		(void)fputc('\n', f);
		wrap(f, c->detail, 0, 0);
	}
	(void)fputc('\n', f);
	for (const struct weir_option *o = c->options; o->name; o++)
		print_option(f, o);
	for (const struct weir_option *o = weir_talk_options; c->talks && o->name; o++)
		print_option(f, o);
	(void)fprintf(f, "  -h, --help                this text\n");
}

static void print_line(FILE *f, const struct weir_command *c)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "  weir %s %s", c->name, c->usage);

	(void)fprintf(f, "%-38s", head);
	if (n >= 38)
		(void)fprintf(f, "\n%38s", "");
	wrap(f, c->summary, 38, 38);
}

void weir_help_all(FILE *f)
{
	(void)fprintf(f,
		      "weir %s: limits the packets of each source in the kernel, and the requests "
		      "of each client for the proxy in front of you\n\n",
		      WEIR_VERSION);
	for (size_t i = 0; i < weir_n_commands; i++)
		print_line(f, &weir_commands[i]);
	(void)fprintf(f, "\nEach has --help. Exit status: 0 done, 1 failed, 2 wrong usage or "
			 "configuration.\n");
}

bool weir_help_group(const char *group, FILE *f)
{
	size_t n = strlen(group);
	bool any = false;

	for (size_t i = 0; i < weir_n_commands; i++) {
		if (strncmp(weir_commands[i].name, group, n) != 0 ||
		    weir_commands[i].name[n] != ' ')
			continue;
		print_line(f, &weir_commands[i]);
		any = true;
	}
	return any;
}

/* --- the manual --------------------------------------------------------------------------------- */

/* One word; a backslash would begin an escape. */
static int mdoc_word(FILE *f, const char *word, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)fputs(word[i] == '\\' ? "\\e" : (char[]){word[i], '\0'}, f);
	return (int)n;
}

/* Text in lines of less than 80 bytes, each sentence on its own. A line that begins with a dot or quote would be a
 * request.
 */
static void mdoc_text(FILE *f, const char *text)
{
	int at = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (at && at + 1 + (int)n > 76) {
			(void)fputc('\n', f);
			at = 0;
		}
		if (at)
			at += fputc(' ', f) == ' ';
		else if (*text == '.' || *text == '\'')
			at += fputs("\\&", f) >= 0 ? 2 : 0;
		at += mdoc_word(f, text, n);
		if (n && text[n - 1] == '.' && text[n] == ' ') {
			(void)fputc('\n', f);
			at = 0;
		}
		text += n;
		text += strspn(text, " ");
	}
	if (at)
		(void)fputc('\n', f);
}

static void mdoc_option(FILE *f, const struct weir_option *o)
{
	(void)fputs(".It ", f);
	if (o->letter)
		(void)fprintf(f, "Fl %c , ", o->letter);
	(void)fprintf(f, "Fl -%s", o->name);
	if (o->value && !strcmp(o->value, "-"))
		(void)fputs(" Ar \\-", f);
	else if (o->value)
		(void)fprintf(f, " Ar %s", o->value);
	(void)fputc('\n', f);
	mdoc_text(f, o->help);
}

static void mdoc_command(FILE *f, const struct weir_command *c)
{
	(void)fprintf(f, ".Ss weir %s\n", c->name);
	if (c->usage[0]) {
		(void)fprintf(f, ".D1 Nm weir Cm %s Ar ", c->name);
		for (const char *p = c->usage; *p; p++)
			(void)fprintf(f, *p == '|' ? " \\*(Ba " : "%c", *p);
		(void)fputs("\n.Pp\n", f);
	}
	mdoc_text(f, c->summary);
	if (c->detail) {
		(void)fputs(".Pp\n", f);
		mdoc_text(f, c->detail);
	}
	if (!c->options[0].name)
		return;
	(void)fputs(".Bl -tag -width Ds\n", f);
	for (const struct weir_option *o = c->options; o->name; o++)
		mdoc_option(f, o);
	(void)fputs(".El\n", f);
}

void weir_help_man(FILE *f)
{
	(void)fputs(".Dd November 29, 2026\n.Dt WEIR 8\n.Os\n.Sh NAME\n.Nm weir\n"
		    ".Nd limits what each source may send, from the network card up\n"
		    ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar arguments\n"
		    ".Sh DESCRIPTION\n"
		    ".Nm\n"
		    "enforces packet limits per source in XDP programs,\n"
		    "before the network stack sees a packet,\n"
		    "and answers proxies (nginx, Caddy, HAProxy, Envoy, Traefik) and programs\n"
		    "whether a request is within its limits.\n"
		    "An agent keeps limits and lists; it may stop or be upgraded at any time,\n"
		    "and what it put in force for packets goes on.\n"
		    ".Sh COMMANDS\n",
		    f);
	for (size_t i = 0; i < weir_n_commands; i++)
		mdoc_command(f, &weir_commands[i]);
	(void)fputs(".Ss Options of all commands that talk to the agent\n.Bl -tag -width Ds\n", f);
	for (const struct weir_option *o = weir_talk_options; o->name; o++)
		mdoc_option(f, o);
	(void)fputs(".El\n.Sh CONFIGURATION\n", f);
	weir_conf_print_mdoc(f);
	(void)fputs(".Sh FILES\n.Bl -tag -width Ds\n"
		    ".It Pa /etc/weir/weir.yaml\nthe configuration\n"
		    ".It Pa /run/weir/admin.sock\nthe admin socket: one JSON object a line\n"
		    ".It Pa /var/lib/weir/INSTANCE.db\nlist entries made by command, and what must "
		    "survive a restart\n"
		    ".It Pa /sys/fs/bpf/INSTANCE\nprogram, maps and links\n"
		    ".El\n.Sh EXIT STATUS\n"
		    "0 done, 1 failed, 2 wrong usage or configuration.\n"
		    ".Sh SEE ALSO\n.Xr bpftool 8 ,\n.Xr ip-link 8\n",
		    f);
}

int weir_cmd_help(const struct weir_args *a)
{
	char name[80];

	if (weir_args_has(a, "man")) {
		weir_help_man(stdout);
	} else if (weir_args_has(a, "config")) {
		weir_conf_print_settings(stdout);
	} else if (weir_args_has(a, "metrics")) {
		weir_metrics_print(stdout);
	} else if (weir_args_has(a, "default-config")) {
		weir_conf_print_default(stdout);
	} else if (!a->n) {
		weir_help_all(stdout);
	} else {
		(void)snprintf(name, sizeof(name), "%.30s%s%.30s", a->arg[0], a->n > 1 ? " " : "",
			       a->n > 1 ? a->arg[1] : "");
		for (size_t i = 0; i < weir_n_commands; i++)
			if (!strcmp(weir_commands[i].name, name)) {
				weir_help_command(&weir_commands[i], stdout);
				return WEIR_EXIT_OK;
			}
		if (!weir_help_group(name, stdout))
			return weir_fail(WEIR_EXIT_USAGE,
					 "there is no command %s (weir help lists them)", name);
	}
	return ferror(stdout) ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
}
