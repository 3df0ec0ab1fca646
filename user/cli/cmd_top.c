/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir top: rates by limit and reason, the loudest sources and clients, redrawn on a terminal, lines elsewhere. Called by the
 * table.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "user/agent/json.h"
#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/cli.h"

#define REFRESH_MS 1000

static volatile sig_atomic_t stopped;

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
}

static __u64 rate(const json_t *o)
{
	return weir_json_u64_of(o, "packets_per_second");
}

static __u64 per_second(const json_t *o, const char *key)
{
	return weir_json_u64_of(json_object_get(o, key), "per_second");
}

/* Rows that still fit the screen; lines elsewhere have no end. */
struct screen {
	int rows;
	bool terminal;
};

static bool next_row(struct screen *s)
{
	if (s->terminal && s->rows <= 0)
		return false;
	s->rows--;
	return true;
}

static void end_row(const struct screen *s)
{
	(void)fputs(s->terminal ? "\033[K\r\n" : "\n", stdout);
}

static void draw_head(const json_t *o, struct screen *s)
{
	const json_t *totals = json_object_get(o, "totals"),
		     *pass = json_object_get(totals, "passed"),
		     *drop = json_object_get(totals, "dropped"),
		     *checks = json_object_get(json_object_get(o, "request"), "checks");
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], c[WEIR_SAY_MAX], d[WEIR_SAY_MAX],
		when[WEIR_TIME_STRLEN];
	const char *mode = weir_json_text_of(o, "mode");

	if (!next_row(s))
		return;
	(void)printf("%s %s %s:", weir_clock_format(weir_now().wall_s, when),
		     weir_json_text_of(o, "instance"),
		     !mode || strcmp(mode, "monitor") != 0 ? "enforcing"
		     : weir_json_bool_of(o, "packets")	   ? "MONITOR, drops nothing"
							   : "MONITOR, refuses nothing");
	if (weir_json_bool_of(o, "packets"))
		(void)printf(" passes %s/s (%s), drops %s/s (%s)",
			     weir_str_format_count(rate(pass), a),
			     weir_say_bits(weir_json_u64_of(pass, "bytes_per_second"), c),
			     weir_str_format_count(rate(drop), b),
			     weir_say_bits(weir_json_u64_of(drop, "bytes_per_second"), d));
	if (checks)
		(void)printf("%s %s checks/s, refuses %s/s",
			     weir_json_bool_of(o, "packets") ? ";" : "",
			     weir_str_format_count(per_second(checks, "all"), a),
			     weir_str_format_count(per_second(checks, "refused"), b));
	end_row(s);
	if (json_object_get(o, "unconfirmed") && next_row(s)) {
		(void)printf("UNCONFIRMED: goes back in %llu s unless you say weir confirm",
			     (unsigned long long)weir_json_u64_of(json_object_get(o, "unconfirmed"),
								  "rest_s"));
		end_row(s);
	}
}

static void draw_limits(const json_t *o, struct screen *s)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], c[WEIR_SAY_MAX], d[WEIR_SAY_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(o, "limits"), i, l) {
		const json_t *pass = json_object_get(l, "pass"), *over = json_object_get(l, "over");
		const char *mode = weir_json_text_of(l, "mode");

		if (!next_row(s))
			return;
		(void)printf("limit  %-24s passes %8s/s %12s  over %8s/s %12s%s",
			     weir_json_text_of(l, "name"), weir_str_format_count(rate(pass), a),
			     weir_say_bits(weir_json_u64_of(pass, "bytes_per_second"), c),
			     weir_str_format_count(rate(over), b),
			     weir_say_bits(weir_json_u64_of(over, "bytes_per_second"), d),
			     mode && !strcmp(mode, "monitor") ? "  monitor" : "");
		end_row(s);
	}
}

static void draw_reasons(const json_t *o, const char *key, const char *word, struct screen *s)
{
	char a[WEIR_STR_MAX], c[WEIR_SAY_MAX];
	json_t *r;
	size_t i;

	json_array_foreach(json_object_get(o, key), i, r) {
		if (!rate(r))
			continue;
		if (!next_row(s))
			return;
		(void)printf("%-6s %-24s        %8s/s %12s", word, weir_json_text_of(r, "reason"),
			     weir_str_format_count(rate(r), a),
			     weir_say_bits(weir_json_u64_of(r, "bytes_per_second"), c));
		end_row(s);
	}
}

static void draw_loudest(const json_t *o, struct screen *s)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], c[WEIR_SAY_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(o, "loudest"), i, l) {
		__u64 blocked_ms = weir_json_u64_of(l, "blocked_ms");
		const char *source = weir_json_text_of(l, "source");

		if ((!s->terminal && i >= 10) || !next_row(s))
			return;
		(void)printf("%s %-40s %-20s", source ? "source" : "to    ",
			     source ? source : weir_json_text_of(l, "destination"),
			     weir_json_text_of(l, "limit"));
		if (blocked_ms)
			(void)printf(" blocked for %s more", weir_say_ms(blocked_ms, c));
		else
			(void)printf(" %s of %s used",
				     weir_str_format_count(weir_json_u64_of(l, "used"), a),
				     weir_str_format_count(weir_json_u64_of(l, "capacity"), b));
		end_row(s);
	}
}

static void draw_request_limits(const json_t *r, struct screen *s)
{
	char a[WEIR_STR_MAX], b[WEIR_STR_MAX], c[WEIR_STR_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(r, "limits"), i, l) {
		const char *mode = weir_json_text_of(l, "mode");

		if (!next_row(s))
			return;
		(void)printf("request %-23s passes %8s/s  refuses %8s/s  would %8s/s%s",
			     weir_json_text_of(l, "name"),
			     weir_str_format_count(per_second(l, "passed"), a),
			     weir_str_format_count(per_second(l, "refused_all"), b),
			     weir_str_format_count(per_second(l, "would"), c),
			     mode && !strcmp(mode, "monitor") ? "  monitor" : "");
		end_row(s);
	}
}

static void draw_loud_clients(const json_t *r, struct screen *s)
{
	char a[WEIR_STR_MAX];
	json_t *l;
	size_t i;

	json_array_foreach(json_object_get(r, "loudest"), i, l) {
		if ((!s->terminal && i >= 10) || !next_row(s))
			return;
		(void)printf("client %-40s %-20s %s refused lately", weir_json_text_of(l, "client"),
			     weir_json_text_of(l, "limit"),
			     weir_str_format_count(weir_json_u64_of(l, "refused"), a));
		end_row(s);
	}
}

static void draw(const json_t *o, struct screen s)
{
	const json_t *requests = json_object_get(o, "request");

	if (s.terminal)
		(void)fputs("\033[H", stdout);
	draw_head(o, &s);
	draw_limits(o, &s);
	draw_reasons(o, "reasons", "reason", &s);
	draw_reasons(o, "would", "would", &s);
	draw_request_limits(requests, &s);
	draw_loud_clients(requests, &s);
	draw_loudest(o, &s);
	if (s.terminal)
		(void)fputs("\033[J", stdout);
	(void)fflush(stdout); /* the next one tells */
}

static struct screen look_at_screen(bool terminal)
{
	struct screen s = {.terminal = terminal, .rows = 24};
	struct winsize w;

	if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row)
		s.rows = w.ws_row;
	s.rows--;
	return s;
}

static int sample(struct weir_talk *t, bool json, bool terminal)
{
	_cleanup_json_ json_t *reply = NULL;
	int r = weir_talk_ask(t, weir_request("top"), &reply);

	if (r)
		return r;
	if (json) {
		(void)json_dumpf(reply, stdout, JSON_COMPACT); /* the flush tells of failures */
		(void)fputc('\n', stdout);
		return fflush(stdout) == EOF ? WEIR_EXIT_FAILED : WEIR_EXIT_OK;
	}
	draw(reply, look_at_screen(terminal));
	return WEIR_EXIT_OK;
}

/* Waits for the next refresh; true if somebody pressed q. */
static bool wait_for_key(bool keys)
{
	__u64 until_ns = weir_clock_ns(CLOCK_MONOTONIC) + REFRESH_MS * 1000000ull, now_ns;
	struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	char c;

	while (!stopped && (now_ns = weir_clock_ns(CLOCK_MONOTONIC)) < until_ns) {
		if (poll(&p, 1, (int)((until_ns - now_ns) / 1000000) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &c, 1) != 1)
			p.fd = -1; /* no more keys; the time goes on */
		else if (c == 'q' || c == 'Q')
			return true;
	}
	return stopped;
}

static int run_terminal(struct weir_talk *t)
{
	struct termios old, raw;
	bool keys = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &old) == 0;
	int r;

	if (keys) {
		raw = old;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	(void)fputs("\033[?1049h\033[?25l\033[?7l", stdout);
	do { /* without ?7 the terminal cuts long lines, which would push the first ones out */
		r = sample(t, false, true);
	} while (r == WEIR_EXIT_OK && !wait_for_key(keys));
	(void)fputs("\033[?7h\033[?25h\033[?1049l", stdout);
	(void)fflush(stdout); /* the terminal may have gone */
	if (keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &old);
	return r;
}

/* Can the cursor be moved? */
static bool is_screen(void)
{
	const char *term = getenv("TERM");

	return weir_is_terminal() && term && *term && strcmp(term, "dumb") != 0;
}

int weir_cmd_top(const struct weir_args *a)
{
	_cleanup_(weir_talk_freep) struct weir_talk *t = NULL;
	bool json = weir_args_has(a, "json"), once = weir_args_has(a, "once");
	const char *count = weir_args_get(a, "count");
	struct sigaction stop = {.sa_handler = on_stop};
	__u64 n = once ? 1 : 0;
	int r;

	if (count && (once || weir_str_u64(count, 1000000000, &n) < 0 || !n))
		return weir_fail(WEIR_EXIT_USAGE,
				 "--count is a number of samples from 1, without --once");
	r = weir_talk_open(a, &t);
	if (r)
		return r;
	(void)sigaction(SIGINT, &stop, NULL); /* so that the terminal is put right */
	(void)sigaction(SIGTERM, &stop, NULL);
	if (!n && !json && is_screen())
		return run_terminal(t);
	for (__u64 i = 0; r == WEIR_EXIT_OK && !stopped; i++) {
		r = sample(t, json, false);
		if ((n && i + 1 == n) || wait_for_key(false))
			break;
	}
	return r;
}
