/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir request: asks the request layer of the running agent what it would answer a proxy, and shows why. Also the secret
 * that explain and limit reset read from standard input. Called by the table.
 */
#include <errno.h>
#include <string.h>
#include <termios.h>

#include "user/agent/json.h"
#include "user/cli/cli.h"

#define SECRET_MAX 4096

static void print_clean(const char *before, const char *text, const char *after)
{
	(void)fputs(before, stdout);
	weir_say_clean(stdout, text ? text : "?");
	(void)fputs(after, stdout);
}

static void print_limits(const json_t *reply)
{
	char span[WEIR_SAY_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(reply, "limits"), i, l) {
		const char *outcome = weir_json_text_of(l, "outcome");
		bool admitted = outcome && !strcmp(outcome, "admitted");
		__u64 retry_ms = weir_json_u64_of(l, "retry_after_ms"),
		      reset_ms = weir_json_u64_of(l, "reset_after_ms");

		print_clean("limit    ", weir_json_text_of(l, "limit"), ": ");
		(void)printf("%s, %llu of %llu left", outcome ? outcome : "?",
			     (unsigned long long)weir_json_u64_of(l, "remaining"),
			     (unsigned long long)weir_json_u64_of(l, "size"));
		if (!admitted && retry_ms)
			(void)printf(", admits this again in %s", weir_say_ms(retry_ms, span));
		else if (reset_ms)
			(void)printf(", more in %s", weir_say_ms(reset_ms, span));
		(void)printf("%s\n", weir_json_bool_of(l, "monitor") ? " (monitor)" : "");
	}
	if (!json_array_size(json_object_get(reply, "limits")))
		(void)printf("limit    none matches, or the request is exempt\n");
}

static void print_answer(const json_t *reply)
{
	const char *limit = weir_json_text_of(reply, "limit"),
		   *would = weir_json_text_of(reply, "would");
	__u64 held_ms = weir_json_u64_of(reply, "held_ms");
	_cleanup_free_ char *body = NULL;
	char span[WEIR_SAY_MAX];
	json_t *h;
	size_t i;

	if (weir_json_text_of(reply, "body")) {
		body = strdup(weir_json_text_of(reply, "body"));
		if (body)
			body[strcspn(body, "\n")] = '\0';
	}
	if (weir_json_bool_of(reply, "allowed")) {
		(void)printf("allowed");
		if (held_ms)
			(void)printf(", its answer is held for %s", weir_say_ms(held_ms, span));
		if (would)
			print_clean("; without monitor mode ", would, " would refuse it");
	} else {
		print_clean("refused: ", weir_json_text_of(reply, "code"), "");
		if (limit)
			print_clean(" by ", limit, "");
	}
	(void)printf(" (%llu)%s\n", (unsigned long long)weir_json_u64_of(reply, "status"),
		     weir_json_bool_of(reply, "peek") ? ", nothing was charged" : "");
	print_limits(reply);
	json_array_foreach(json_object_get(reply, "headers"), i, h) {
		print_clean("header   ", json_string_value(json_array_get(h, 0)), ": ");
		print_clean("", json_string_value(json_array_get(h, 1)), "\n");
	}
	if (body)
		print_clean("body     ", body, "\n");
	if (limit && !strcmp(limit, "bad-address"))
		(void)printf(
			"note     limits count by address: --ip ADDR says whose request it is\n");
}

int weir_cmd_request(const struct weir_args *a)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *q = weir_request("request"), *headers = json_array();
	int r;

	weir_json_set_text(q, "method", a->arg[0]);
	weir_json_set_text(q, "path", a->arg[1]);
	if (weir_args_get(a, "ip"))
		weir_json_set_text(q, "ip", weir_args_get(a, "ip"));
	weir_json_set_bool(q, "peek", weir_args_has(a, "peek"));
	for (size_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i].option->name, "header"))
			(void)json_array_append_new(headers, weir_json_text(a->given[i].value));
	weir_json_set(q, "headers", headers);
	r = weir_ask(a, q, &reply);
	if (r)
		return r;
	if (weir_args_has(a, "json"))
		return weir_print_json(reply);
	print_answer(reply);
	return WEIR_EXIT_OK;
}

/* --- secrets ---- */

/* A line without its end; nobody sees it on a terminal. */
static int read_line(char *buf, size_t size, size_t *ret_n)
{
	struct termios old, quiet;
	bool terminal = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &old) == 0;
	size_t n = 0;
	ssize_t got = 0;

	if (terminal) {
		(void)fputs("API key: ", stderr);
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		terminal = tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
	}
	while (n < size && (got = read(STDIN_FILENO, buf + n, size - n)) > 0) {
		char *end = memchr(buf + n, '\n', (size_t)got);

		n += (size_t)got;
		if (end) {
			n = (size_t)(end - buf);
			break;
		}
	}
	if (terminal) {
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &old);
		(void)fputc('\n', stderr);
	}
	if (got < 0)
		return -errno;
	while (n && (buf[n - 1] == '\r' || buf[n - 1] == ' '))
		n--;
	*ret_n = n;
	return 0;
}

int weir_set_client(const struct weir_args *a, json_t *q)
{
	const char *key = weir_args_get(a, "api-key");
	char secret[SECRET_MAX + 2];
	size_t n = 0;
	int r;

	if (weir_args_get(a, "ip"))
		weir_json_set_text(q, "ip", weir_args_get(a, "ip"));
	if (weir_args_get(a, "user"))
		weir_json_set_text(q, "user", weir_args_get(a, "user"));
	if (!key)
		return WEIR_EXIT_OK;
	if (strcmp(key, "-") != 0)
		return weir_fail(WEIR_EXIT_USAGE,
				 "an API key is read from standard input, since everybody on this "
				 "machine sees a command line: weir %s --api-key - < FILE",
				 a->command->name);
	r = read_line(secret, sizeof(secret), &n);
	if (r < 0)
		return weir_fail(WEIR_EXIT_FAILED, "standard input: %s", strerror(-r));
	if (!n || n > SECRET_MAX)
		return weir_fail(WEIR_EXIT_USAGE,
				 "standard input has no API key in its first line (1 to %d bytes)",
				 SECRET_MAX);
	weir_json_set(q, "api_key", json_stringn(secret, n));
	explicit_bzero(secret, sizeof(secret));
	if (!weir_json_text_of(q, "api_key"))
		return weir_fail(WEIR_EXIT_USAGE, "the API key is not UTF-8");
	return WEIR_EXIT_OK;
}
