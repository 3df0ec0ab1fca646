/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML text to a document; see yaml.h. Two passes: over the events, which show aliases, tags, depth and further
 * documents with their places, then libyaml's loader, which by then can meet nothing unbounded.
 */
#include "user/config/yaml.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define PIPE_WAIT_MS 10000

DEFINE_CLEANUP(yaml_parser_t, yaml_parser_delete)

const char *weir_file_problem(int r)
{
	switch (-r) {
	case EFBIG:
		return "larger than 16 MiB";
	case EISDIR:
		return "a folder, not a file";
	case ESPIPE:
		return "a named pipe or a socket, not a file";
	case ETIMEDOUT:
		return "nothing came through the pipe for 10 s";
	default:
		return strerror(-r);
	}
}

/* A named pipe that nobody writes to looks like an empty file, which would be taken for an empty list. */
static int check_type(int fd, const struct stat *st)
{
	struct statfs fs;

	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	if (!S_ISFIFO(st->st_mode))
		return 0;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == PIPEFS_MAGIC ? 0 : -ESPIPE;
}

/* Waits for what another program is still to write. */
static int wait_for_pipe(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r = poll(&p, 1, PIPE_WAIT_MS);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r ? 0 : -ETIMEDOUT;
}

int weir_file_read(const char *path, char **ret, size_t *ret_n)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t n = 0, room = 0;
	struct stat st;
	int r;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENXIO ? -ESPIPE : -errno; /* a socket */
	if (fstat(fd, &st) < 0)
		return -errno;
	r = check_type(fd, &st);
	if (r < 0)
		return r;
	if (st.st_size > WEIR_FILE_MAX_BYTES)
		return -EFBIG;
	for (;;) {
		ssize_t got;

		if (n + 1 >= room) {
			char *more =
				realloc(text, room = room ? 2 * room : (size_t)st.st_size + 4096);

			if (!more)
				return -ENOMEM;
			text = more;
		}
		got = read(fd, text + n, room - n - 1);
		if (got < 0 && errno == EAGAIN) {
			r = wait_for_pipe(fd);
			if (r < 0)
				return r;
			continue;
		}
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > WEIR_FILE_MAX_BYTES)
			return -EFBIG;
	}
	text[n] = '\0';
	*ret_n = n;
	*ret = TAKE_PTR(text);
	return 0;
}

bool weir_yaml_is_null(const yaml_node_t *n)
{
	const char *t;

	if (n->type != YAML_SCALAR_NODE || n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	t = weir_yaml_text(n);
	return !*t || strcmp(t, "~") == 0 || strcmp(t, "null") == 0;
}

const char *weir_yaml_kind(const yaml_node_t *n)
{
	if (n->type == YAML_SEQUENCE_NODE)
		return "a list";
	if (n->type == YAML_MAPPING_NODE)
		return "a group of settings";
	return weir_yaml_is_null(n) ? "nothing" : "a single value";
}

/* What libyaml says, and what a person can do with it. */
static const struct {
	const char *problem, *said;
} sentences[] = {
	{"mapping values are not allowed in this context",
	 "a ':' where no key can begin (wrong indentation, a ':' missing in the line before, or a "
	 "value with ': ' in it that needs quotes)"},
	{"did not find expected key",
	 "this line does not fit what stands before it (a key in line with its neighbours)"},
	{"did not find expected '-' indicator", "this line does not fit the list before it (a '-' "
						"in line with the others, or less indentation)"},
	{"did not find expected ',' or ']'",
	 "a ',' or the closing ']' of a list is missing before this"},
	{"did not find expected ',' or '}'",
	 "a ',' or the closing '}' of a group is missing before this"},
	{"did not find expected node content",
	 "a value is missing here (an address that begins with ':' needs quotes)"},
	{"block sequence entries are not allowed in this context",
	 "a '-' where no list can begin (put the list on lines of its own)"},
	{"could not find expected ':'", "a ':' is missing after this key (a space must follow it)"},
	{"found unexpected end of stream", "the file ends inside quotes that were opened here"},
	{"control characters are not allowed", "a control character that YAML does not allow"},
	{"found unexpected ':'", "a ':' inside a value (put the value in quotes)"},
	{"found incompatible YAML document", "another version of YAML (leave the %YAML line out)"},
	{"found undefined tag handle",
	 "a '!' tag (tags have no meaning here; put a text that begins with '!' in quotes)"},
	{"did not find expected <document start>",
	 "something follows the end of the settings (one file is one configuration)"},
	{"found a tab character that violates indentation",
	 "a tab (YAML is indented with spaces only)"},
	{"found a tab character where an indentation space is expected",
	 "a tab (YAML is indented with spaces only)"},
};

/* Line and column of a byte, for errors of libyaml's reader, which gives no mark. */
static void place_of(const char *text, size_t n, size_t at, int *ret_line, int *ret_column)
{
	int line = 1, column = 1;

	for (size_t i = 0; i < at && i < n; i++) {
		column++;
		if (text[i] == '\n') {
			line++;
			column = 1;
		} else if ((text[i] & 0xc0) == 0x80) {
			column--;
		}
	}
	*ret_line = line;
	*ret_column = column;
}

/* The character at a place, 0 beyond the end. */
static char char_at(const char *text, size_t n, int line, int column)
{
	size_t i = 0;

	for (; line > 1 && i < n; i++)
		if (text[i] == '\n')
			line--;
	for (; column > 1 && i < n && text[i] != '\n'; i++)
		if ((text[i] & 0xc0) != 0x80)
			column--;
	return i < n ? text[i] : 0;
}

static void syntax_problem(const yaml_parser_t *y, const char *text, size_t n,
			   struct weir_conf_problems *problems)
{
	const char *problem = y->problem ? y->problem : "not YAML";
	int line = (int)y->problem_mark.line + 1, column = (int)y->problem_mark.column + 1;
	char c;

	if (y->error == YAML_MEMORY_ERROR) {
		weir_problems_add(problems, false, NULL, 0, 0, "out of memory");
		return;
	}
	if (y->error == YAML_READER_ERROR) {
		place_of(text, n, y->problem_offset, &line, &column);
		if (strstr(problem, "UTF-8") || strstr(problem, "Unicode"))
			problem = "not UTF-8 text (save the file as UTF-8)";
	}
	c = char_at(text, n, line, column);
	if (strcmp(problem, "found character that cannot start any token") == 0) {
		if (c == '\t')
			problem = "a tab (YAML is indented with spaces only)";
		else {
			weir_problems_add(problems, false, NULL, line, column,
					  "'%c' cannot begin a value (put it in quotes)", c);
			return;
		}
	}
	if (y->context && strstr(y->context, "quoted scalar") && strstr(problem, "end of stream")) {
		line = (int)y->context_mark.line + 1; /* where the quotes began */
		column = (int)y->context_mark.column + 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(sentences); i++) {
		if (strcmp(problem, sentences[i].problem) == 0) {
			problem = sentences[i].said;
			break;
		}
	}
	weir_problems_add(problems, false, NULL, line, column, "%s", problem);
}

static void event_problem(const yaml_event_t *e, struct weir_conf_problems *problems,
			  const char *text)
{
	weir_problems_add(problems, false, NULL, (int)e->start_mark.line + 1,
			  (int)e->start_mark.column + 1, "%s", text);
}

struct scan {
	unsigned depth, documents;
	size_t values;
	bool stop; /* going on would tell nothing new */
};

static void scan_event(struct scan *s, const yaml_event_t *e, struct weir_conf_problems *problems)
{
	const void *anchor = NULL, *tag = NULL;

	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (++s->documents == 2) {
			event_problem(
				e, problems,
				"a second document begins here (one file is one configuration)");
			s->stop = true;
		}
		break;
	case YAML_ALIAS_EVENT:
		event_problem(e, problems,
			      "an alias '*' (write the value out; aliases and merge keys are not "
			      "supported)");
		break;
	case YAML_SCALAR_EVENT:
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
		s->depth++;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
		s->depth++;
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		s->depth--;
		return;
	default:
		return;
	}
	if (anchor)
		event_problem(e, problems, "an anchor '&' (anchors and aliases are not supported)");
	if (tag)
		event_problem(e, problems, "a tag '!' (tags have no meaning here)");
	if (s->depth > WEIR_YAML_MAX_DEPTH) {
		event_problem(e, problems, "nested deeper than any setting is");
		s->stop = true;
	}
	if (++s->values > WEIR_YAML_MAX_VALUES) {
		event_problem(e, problems,
			      "more than 500000 values (put long lists into allow_files and "
			      "block_files)");
		s->stop = true;
	}
	if (weir_problems_full(problems))
		s->stop = true;
}

static int parser_open(yaml_parser_t *y, const char *text, size_t n)
{
	if (!yaml_parser_initialize(y))
		return -ENOMEM;
	yaml_parser_set_encoding(y, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(y, (const unsigned char *)text, n);
	return 0;
}

static int scan_events(const char *text, size_t n, struct weir_conf_problems *problems)
{
	_cleanup_(yaml_parser_deletep) yaml_parser_t *open = NULL;
	size_t before = problems->n_errors;
	struct scan s = {.depth = 0};
	yaml_parser_t y;
	int r = parser_open(&y, text, n);

	if (r < 0)
		return r;
	open = &y;
	for (bool end = false; !end && !s.stop;) {
		yaml_event_t e;

		if (!yaml_parser_parse(&y, &e)) {
			syntax_problem(&y, text, n, problems);
			break;
		}
		scan_event(&s, &e, problems);
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	return problems->n_errors > before ? -EINVAL : 0;
}

int weir_yaml_load(const char *text, size_t n, yaml_document_t *ret,
		   struct weir_conf_problems *problems)
{
	_cleanup_(yaml_parser_deletep) yaml_parser_t *open = NULL;
	size_t bom = weir_yaml_bom(text, n);
	yaml_parser_t y;
	int r;

	text += bom;
	n -= bom;
	if (n > WEIR_FILE_MAX_BYTES) {
		weir_problems_add(problems, false, NULL, 0, 0, "larger than 16 MiB");
		return -EINVAL;
	}
	r = scan_events(text, n, problems);
	if (r < 0)
		return r;
	r = parser_open(&y, text, n);
	if (r < 0)
		return r;
	open = &y;
	if (!yaml_parser_load(&y, ret)) {
		syntax_problem(&y, text, n, problems);
		return -EINVAL;
	}
	return 0;
}

size_t weir_yaml_byte_of(const char *text, size_t n, size_t character)
{
	size_t i = 0;

	for (; i < n; i++) {
		if (((unsigned char)text[i] & 0xc0) == 0x80)
			continue;
		if (character-- == 0)
			break;
	}
	return i;
}
