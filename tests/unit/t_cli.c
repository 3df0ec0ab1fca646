/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line: the table is whole, arguments are read as they should, and help and manual come from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/agent/metrics.h"
#include "user/agent/json.h"
#include "user/cli/cli.h"

static const struct weir_command *find(const char *name)
{
	for (size_t i = 0; i < weir_n_commands; i++)
		if (!strcmp(weir_commands[i].name, name))
			return &weir_commands[i];
	fail_msg("no command %s", name);
	return NULL;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static int parse(const char *name, const char *const *words, struct weir_args *ret, char *ret_error)
{
	struct weir_error e = {};
	bool help;
	int n = 0, r;

	while (words[n])
		n++;
	r = weir_args_parse(find(name), n, (char **)(uintptr_t)words, ret, &help, &e);
	(void)snprintf(ret_error, sizeof(e.text), "%s", e.text);
	return r;
}

static char error[sizeof(((struct weir_error *)0)->text)];

static void every_command_is_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < weir_n_commands; i++) {
		const struct weir_command *c = &weir_commands[i];

		assert_non_null(c->name);
		assert_non_null(c->usage);
		assert_true(strlen(c->summary) > 10);
		assert_non_null(c->options);
		assert_non_null(c->run);
		assert_true(c->min_args <= c->max_args);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(weir_commands[k].name, c->name);
		for (const struct weir_option *o = c->options; o->name; o++) {
			assert_true(strlen(o->help) > 10);
			for (const struct weir_option *p = c->options; p != o; p++) {
				assert_string_not_equal(p->name, o->name);
				assert_true(!o->letter || o->letter != p->letter);
			}
			for (const struct weir_option *p = weir_talk_options; c->talks && p->name;
			     p++)
				assert_string_not_equal(p->name, o->name);
		}
	}
}

static void options_may_stand_anywhere_and_in_every_form(void **state)
{
	struct weir_args a;

	(void)state;
	assert_int_equal(parse("block add", WORDS("--for", "10m", "192.0.2.1", "--reason=a b"), &a,
			       error),
			 0);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.arg[0], "192.0.2.1");
	assert_string_equal(weir_args_get(&a, "for"), "10m");
	assert_string_equal(weir_args_get(&a, "reason"), "a b");
	assert_false(weir_args_has(&a, "force"));
	assert_int_equal(parse("run", WORDS("-c", "a.yaml", "-iv0", "-i", "v1", "--monitor"), &a,
			       error),
			 0);
	assert_string_equal(weir_args_get(&a, "config"), "a.yaml");
	assert_string_equal(weir_args_get(&a, "interface"), "v1");
	assert_int_equal(a.n_given, 4);
	assert_true(weir_args_has(&a, "monitor"));
	assert_int_equal(parse("explain", WORDS("--api-key", "-"), &a, error), 0);
	assert_string_equal(weir_args_get(&a, "api-key"), "-");
	assert_int_equal(parse("block add", WORDS("--reason", "", "--", "-x"), &a, error), 0);
	assert_string_equal(weir_args_get(&a, "reason"), "");
	assert_string_equal(a.arg[0], "-x");
}

static void wrong_usage_is_refused_with_what_would_be_right(void **state)
{
	static const struct {
		const char *command;
		const char *words[4];
		const char *says;
	} bad[] = {
		{"block add", {"--fro", "10m"}, "did you mean --for?"},
		{"block add", {NULL}, "needs an argument"},
		{"block add", {"192.0.2.1", "192.0.2.2"}, "192.0.2.2 is too much"},
		{"block add", {"192.0.2.1", "--for"}, "--for needs a value"},
		{"block add", {"--force=yes", "192.0.2.1"}, "takes no value"},
		{"block add", {"--force", "--force", "192.0.2.1"}, "given twice"},
		{"status", {"-x"}, "no option -x"},
		{"status", {"--"}, ""},
		{"status", {"extra"}, "extra is too much"},
		{"check", {"./weir.yaml"}, "named with -c: weir check -c ./weir.yaml"},
		{"limit set", {"name"}, "needs more arguments"},
		{"request", {"GET"}, "needs more arguments"},
		{"request", {"GET", "/", "/x"}, "/x is too much"},
	};
	struct weir_args a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *words[5] = {};

		memcpy(words, bad[i].words, sizeof(bad[i].words));
		if (!bad[i].says[0]) {
			assert_int_equal(parse(bad[i].command, words, &a, error), 0);
			continue;
		}
		assert_int_equal(parse(bad[i].command, words, &a, error), -EINVAL);
		if (!strstr(error, bad[i].says))
			fail_msg("%s: %s", bad[i].command, error);
	}
}

static void times_need_a_unit_and_a_second_at_least(void **state)
{
	static const char *const bad[] = {"10",	 "-1s", "0s",	 "5ms",
					  "abc", "",	"1s 1s", "99999999999999999999s"};
	struct weir_error e;
	struct weir_args a;
	__u64 s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(parse("mode", WORDS("monitor", "--for", bad[i]), &a, error), 0);
		assert_int_equal(weir_args_seconds(&a, "for", &s, &e), -EINVAL);
	}
	assert_int_equal(parse("mode", WORDS("monitor", "--for", "15m"), &a, error), 0);
	assert_int_equal(weir_args_seconds(&a, "for", &s, &e), 0);
	assert_int_equal(s, 900);
	assert_int_equal(weir_args_seconds(&a, "confirm", &s, &e), 0);
	assert_int_equal(s, 0);
}

static void too_many_words_are_refused_not_written_beyond(void **state)
{
	const char *words[2 * WEIR_ARGS_MAX + 1] = {};
	struct weir_args a;

	(void)state;
	for (int i = 0; i < 2 * WEIR_ARGS_MAX; i++)
		words[i] = "x";
	assert_int_equal(parse("status", words, &a, error), -EINVAL);
	for (int i = 0; i < 2 * WEIR_ARGS_MAX; i++)
		words[i] = "-ix";
	assert_int_equal(parse("run", words, &a, error), -EINVAL);
}

/* What @fn prints; heap. */
static char *printed(void (*fn)(FILE *f))
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	fn(f);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void help_and_manual_name_every_command_and_option(void **state)
{
	_cleanup_free_ char *help = printed(weir_help_all), *man = printed(weir_help_man);
	char text[128];

	(void)state;
	assert_non_null(strstr(man, ".Dt WEIR 8"));
	for (size_t i = 0; i < weir_n_commands; i++) {
		(void)snprintf(text, sizeof(text), "weir %s", weir_commands[i].name);
		assert_non_null(strstr(help, text));
		assert_non_null(strstr(man, text));
		for (const struct weir_option *o = weir_commands[i].options; o->name; o++) {
			(void)snprintf(text, sizeof(text), "Fl -%s", o->name);
			assert_non_null(strstr(man, text));
		}
	}
}

static void help_is_asked_for_anywhere(void **state)
{
	struct weir_error e = {};
	struct weir_args a;
	bool help = false;

	(void)state;
	assert_int_equal(weir_args_parse(find("block add"), 2,
					 (char **)(uintptr_t)WORDS("--for", "--help"), &a, &help,
					 &e),
			 -EINVAL);
	assert_int_equal(weir_args_parse(find("block add"), 1, (char **)(uintptr_t)WORDS("--help"),
					 &a, &help, &e),
			 0);
	assert_true(help);
}

static void spans_and_rates_read_well(void **state)
{
	_cleanup_json_ json_t *some = NULL;
	char a[WEIR_SAY_MAX];

	(void)state;
	assert_string_equal(weir_say_span(0, a), "0 s");
	assert_string_equal(weir_say_span(119, a), "119 s");
	assert_string_equal(weir_say_span(3 * 3600 + 120, a), "3 h 2 min");
	assert_string_equal(weir_say_span(3 * 86400 + 3600, a), "3 d 1 h");
	assert_string_equal(weir_say_health("open"),
			    "AWAY"); /* the breaker's word reads like good news */
	assert_string_equal(weir_say_health("healthy"), "healthy");
	some = json_pack("{s:s,s:i,s:i}", "health", "open", "nodes", 3, "nodes_away", 1);
	assert_string_equal(weir_say_store(some), "partly AWAY");
	(void)json_object_set_new(some, "nodes_away", json_integer(3));
	assert_string_equal(weir_say_store(some), "AWAY");
	assert_string_equal(weir_say_ms(250, a), "250 ms");
	assert_string_equal(weir_say_ms(12001, a), "13 s");
	assert_string_equal(weir_say_bits(0, a), "0 bit/s");
	assert_string_equal(weir_say_bits(125, a), "1.0 kbit/s");
	assert_string_equal(weir_say_bits(25000000, a), "200 Mbit/s");
}

static void control_bytes_do_not_reach_the_terminal(void **state)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	(void)state;
	weir_say_clean(f, "a\033[2Jb\nc\x7f \xe9t\xc3\xa9 \xc2\x9b \xe2\x82\xac\xe2\x82");
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, "a?[2Jb?c? ?t\xc3\xa9 ?? \xe2\x82\xac??");
	free(text);
}

/* Counters and only counters end in _total, times are in seconds: what Prometheus' own tools expect. */
static void metrics_are_named_as_the_field_expects(void **state)
{
	_cleanup_free_ char *text = printed(weir_metrics_print);
	char *names[128] = {}, *at = NULL;
	size_t n = 0;

	(void)state;
	for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		char *name = strstr(line, "`weir_"), *end = name ? strchr(name + 1, '`') : NULL;
		bool counter = strstr(line, " | counter | ") != NULL, total;

		if (!name)
			continue;
		assert_non_null(end);
		*end = '\0';
		total = strlen(name) > 6 && !strcmp(end - 6, "_total");
		if (counter != total)
			fail_msg("%s", name);
		for (size_t i = 0; i < n; i++)
			assert_string_not_equal(names[i], name);
		assert_true(n < ARRAY_LEN(names));
		names[n++] = name;
	}
	assert_true(n > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command_is_whole),
		cmocka_unit_test(options_may_stand_anywhere_and_in_every_form),
		cmocka_unit_test(wrong_usage_is_refused_with_what_would_be_right),
		cmocka_unit_test(times_need_a_unit_and_a_second_at_least),
		cmocka_unit_test(too_many_words_are_refused_not_written_beyond),
		cmocka_unit_test(help_and_manual_name_every_command_and_option),
		cmocka_unit_test(help_is_asked_for_anywhere),
		cmocka_unit_test(spans_and_rates_read_well),
		cmocka_unit_test(control_bytes_do_not_reach_the_terminal),
		cmocka_unit_test(metrics_are_named_as_the_field_expects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
