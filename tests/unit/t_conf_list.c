/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: list files of addresses and prefixes. */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf_case.h"

static int parse(const char *text, struct weir_prefix_list *list, struct weir_conf_problems *p)
{
	return weir_conf_list_parse("drop.netset", text, strlen(text), list, p);
}

static void comments_blanks_and_both_families(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	char buf[WEIR_PREFIX_STRLEN];

	(void)state;
	assert_int_equal(parse("# firehol\n"
			       "\n"
			       "; drop.txt\n"
			       "198.51.100.0/24 ; SBL123\r\n"
			       "  2001:db8::/32\t# lab\n"
			       "203.0.113.7",
			       &list, &p),
			 0);
	assert_int_equal(list.n, 3);
	assert_string_equal(weir_prefix_format(&list.item[0], buf), "198.51.100.0/24");
	assert_string_equal(weir_prefix_format(&list.item[1], buf), "2001:db8::/32");
	assert_string_equal(weir_prefix_format(&list.item[2], buf), "203.0.113.7");
	assert_int_equal(list.line[0], 4);
	assert_int_equal(list.line[2], 6);
	assert_int_equal(p.n, 0);
}

static void empty_files_are_empty_lists(void **state)
{
	static const char *const texts[] = {"", "\n", "#", "\xef\xbb\xbf", "\r\n\r\n"};
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(parse(texts[i], &list, &p), 0);
	assert_int_equal(list.n, 0);
}

static void every_bad_line_is_named_and_nothing_is_taken(void **state)
{
	static const struct {
		int line, column;
		const char *words;
	} said[] = {{2, 1, "\"example.org\" is neither an address nor a prefix"},
		    {3, 3, "did you mean 10.0.0.0/8?"},
		    {5, 1, "the length is out of range (0 to 32)"},
		    {6, 1, "(0 to 128)"},
		    {7, 1, "\"10.0.0.0 10.0.0.1\""}};
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};

	(void)state;
	assert_int_equal(parse("192.0.2.9\n", &list, &p), 0);
	assert_int_equal(
		parse("192.0.2.1\nexample.org\n  10.1.0.0/8\n192.0.2.2\n10.0.0.0/40\n::/200\n"
		      "10.0.0.0 10.0.0.1\n",
		      &list, &p),
		-EINVAL);
	assert_int_equal(list.n, 1); /* what was there before */
	assert_int_equal(p.n, ARRAY_LEN(said));
	for (size_t i = 0; i < p.n; i++) {
		assert_string_equal(p.item[i].file, "drop.netset");
		assert_int_equal(p.item[i].line, said[i].line);
		assert_int_equal(p.item[i].column, said[i].column);
		assert_non_null(strstr(p.item[i].text, said[i].words));
	}
}

static void reading_stops_after_twenty_bad_lines(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	char text[100 * 2 + 1];

	(void)state;
	for (size_t i = 0; i < 100; i++)
		memcpy(text + 2 * i, "x\n", 3);
	assert_int_equal(parse(text, &list, &p), -EINVAL);
	assert_int_equal(p.n, 21);
	assert_non_null(strstr(p.item[20].text, "stopped after 20 bad lines"));
}

static void a_long_list_is_read_whole(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	_cleanup_free_ char *text = malloc(70000 * 20);
	size_t n = 0;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < 70000; i++)
		n += (size_t)snprintf(text + n, 20, "10.%u.%u.%u\n", i >> 16, i >> 8 & 255,
				      i & 255);
	assert_int_equal(weir_conf_list_parse("x", text, n, &list, &p), 0);
	assert_int_equal(list.n, 70000);
	assert_int_equal(list.line[69999], 70000);
}

/* A temporary file with @text; the caller unlinks it. */
static void write_temp(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_in_range(fd, 0, 1 << 20);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static void files_that_the_configuration_names(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	char good[] = "/tmp/weir-list-XXXXXX", bad[] = "/tmp/weir-list-XXXXXX", text[256];

	(void)state;
	write_temp(good, "192.0.2.1\n192.0.2.2\n");
	write_temp(bad, "192.0.2.3\nnonsense\n");
	(void)snprintf(text, sizeof(text),
		       "lists:\n  allow_files: [%s]\n  block_files:\n    - %s\n    - "
		       "/nonexistent/a.netset\n"
		       "    - %s\n",
		       good, good, bad);
	c = conf_of(text);
	assert_int_equal(weir_conf_allow_files(c, &list, &p), 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(weir_conf_block_files(c, &list, &p), -EINVAL);
	assert_int_equal(list.n, 2); /* all or nothing */
	assert_int_equal(p.n, 2);
	assert_null(p.item[0].file);
	assert_int_equal(p.item[0].line, 5);
	assert_string_equal(p.item[0].text, "block_files: /nonexistent/a.netset cannot be read: "
					    "No such file or directory");
	assert_string_equal(p.item[1].file, bad);
	assert_int_equal(p.item[1].line, 2);
	assert_int_equal(unlink(good), 0);
	assert_int_equal(unlink(bad), 0);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
	static const char *const paths[] = {"/nonexistent", "/tmp", "/dev/zero"};
	static const int codes[] = {-ENOENT, -EISDIR, -EFBIG};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
		_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
		struct weir_conf *c = NULL;

		assert_int_equal(weir_conf_list_file(paths[i], &list, &p), codes[i]);
		assert_int_equal(p.n, 1);
		assert_string_equal(p.item[0].file, paths[i]);
		assert_int_equal(weir_conf_load(paths[i], &c, &p), codes[i]);
		assert_int_equal(p.n, 2);
		assert_null(c);
	}
}

/* It would pass for an empty list. */
static void a_named_pipe_is_refused(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	char folder[] = "/tmp/weir-pipe-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/list", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(weir_conf_list_file(path, &list, &p), -ESPIPE);
	assert_int_equal(p.n, 1);
	assert_string_equal(p.item[0].text, "cannot be read: a named pipe or a socket, not a file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* As of `weir block load <(command)`: the writer takes its time. */
static void what_comes_through_a_pipe_is_waited_for(void **state)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	int ends[2], wstatus = -1;
	char path[64];
	pid_t child;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)poll(NULL, 0, 50);
		_exit(write(ends[1], "192.0.2.7\n", 10) != 10);
	}
	assert_int_equal(close(ends[1]), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_int_equal(weir_conf_list_file(path, &list, &p), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(close(ends[0]), 0);
	assert_int_equal(waitpid(child, &wstatus, 0), child);
	assert_int_equal(wstatus, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comments_blanks_and_both_families),
		cmocka_unit_test(empty_files_are_empty_lists),
		cmocka_unit_test(every_bad_line_is_named_and_nothing_is_taken),
		cmocka_unit_test(reading_stops_after_twenty_bad_lines),
		cmocka_unit_test(a_long_list_is_read_whole),
		cmocka_unit_test(files_that_the_configuration_names),
		cmocka_unit_test(a_file_that_cannot_be_read_is_named),
		cmocka_unit_test(a_named_pipe_is_refused),
		cmocka_unit_test(what_comes_through_a_pipe_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
