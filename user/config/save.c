/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes a limit's value back into the text of its file (`weir limit set --save`): only the value's own characters
 * change, found by libyaml's marks; comments and layout stay. The result must be a right configuration before it takes
 * the file's place.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "user/config/schema.h"

/* An edit: bytes [at, until) of the text become @text. */
struct edit {
	size_t at, until;
	char text[512];
};

/* libyaml counts characters; texts are bytes. */
static size_t byte_of(const char *text, size_t n, size_t character)
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

/* The value as the file shall say it. Flow text goes in as it is: it was parsed by itself and is one line, so it cannot
 * end a group that it stands in. Other text is quoted unless it is harmless everywhere.
 */
static int spell_value(const char *key, const char *value, char *buf, size_t size,
		       struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	const yaml_node_t *root;
	yaml_document_t doc;
	bool flow = false, empty;
	size_t n = 0;

	if (weir_yaml_load(value, strlen(value), &doc, &problems) < 0)
		return weir_error_set(e, -EINVAL, "%s",
				      problems.n ? problems.item[0].text : "out of memory");
	root = yaml_document_get_root_node(&doc);
	empty = !root;
	if (root && root->type != YAML_SCALAR_NODE)
		flow = *value == '[' || *value == '{';
	if (root && root->type == YAML_SCALAR_NODE)
		value = weir_yaml_text(root);
	if (empty || (root->type != YAML_SCALAR_NODE && !flow) || strpbrk(value, "\n\r#") ||
	    strlen(value) + 3 > size) {
		yaml_document_delete(&doc);
		return weir_error_set(e, -EINVAL, "%s: the value cannot be written in one line",
				      key);
	}
	if (flow ||
	    strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._ -") ==
		    strlen(value)) {
		n = (size_t)snprintf(buf, size, "%s", value);
	} else {
		buf[n++] = '"';
		for (const char *c = value; *c && n + 4 < size; c++) {
			if (*c == '"' || *c == '\\')
				buf[n++] = '\\';
			buf[n++] = *c;
		}
		buf[n++] = '"';
		buf[n] = '\0';
	}
	yaml_document_delete(&doc);
	return 0;
}

static const yaml_node_t *value_in(yaml_document_t *doc, const yaml_node_t *map, const char *key)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = yaml_document_get_node(doc, p->key);

		if (k->type == YAML_SCALAR_NODE && strcmp(weir_yaml_text(k), key) == 0)
			return yaml_document_get_node(doc, p->value);
	}
	return NULL;
}

static const yaml_node_t *limit_in(yaml_document_t *doc, const char *name)
{
	const yaml_node_t *list = value_in(doc, yaml_document_get_root_node(doc), "packet_limits");

	if (!list || list->type != YAML_SEQUENCE_NODE)
		return NULL;
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const yaml_node_t *map = yaml_document_get_node(doc, *i);
		const yaml_node_t *v = value_in(doc, map, "name");

		if (v && v->type == YAML_SCALAR_NODE && strcmp(weir_yaml_text(v), name) == 0)
			return map;
	}
	return NULL;
}

/* Does a value end exactly where libyaml says? (A group in block style ends at the next thing.) */
static bool ends_exactly(const yaml_node_t *v)
{
	if (v->type == YAML_SCALAR_NODE)
		return v->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ||
		       v->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
		       v->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	if (v->type == YAML_SEQUENCE_NODE)
		return v->data.sequence.style == YAML_FLOW_SEQUENCE_STYLE;
	return v->data.mapping.style == YAML_FLOW_MAPPING_STYLE;
}

/* Where the name's value stands is where a new key goes: after it in flow style, on the next line in block style. */
static void insert_key(const char *text, size_t n, yaml_document_t *doc, const yaml_node_t *map,
		       const char *key, const char *value, struct edit *ret)
{
	const yaml_node_t *name = value_in(doc, map, "name");
	const yaml_node_t *first = yaml_document_get_node(doc, map->data.mapping.pairs.start->key);
	size_t at = byte_of(text, n, name->end_mark.index);
	bool crlf;

	if (map->data.mapping.style == YAML_FLOW_MAPPING_STYLE) {
		ret->at = ret->until = at;
		(void)snprintf(ret->text, sizeof(ret->text), ", %s: %.400s", key,
			       value); /* it fits */
		return;
	}
	while (at < n && text[at] != '\n')
		at++;
	crlf = at > 0 && at < n && text[at - 1] == '\r';
	ret->at = ret->until = at - crlf;
	(void)snprintf(ret->text, sizeof(ret->text), "%s%*s%s: %.400s", crlf ? "\r\n" : "\n",
		       (int)(first->start_mark.column % 64), "", key, value); /* it fits */
}

static int find_edit(const char *text, size_t n, yaml_document_t *doc, const char *name,
		     const char *key, const char *value, struct edit *ret, struct weir_error *e)
{
	const yaml_node_t *map = limit_in(doc, name), *v = value_in(doc, map, key);

	if (!map)
		return weir_error_set(e, -ENOENT,
				      "the file has no limit \"%s\" (nothing was saved)", name);
	if (!v) {
		insert_key(text, n, doc, map, key, value, ret);
		return 0;
	}
	if (!ends_exactly(v))
		return weir_error_set(
			e, -EINVAL,
			"line %zu: %s spans several lines there (edit the file by hand)",
			v->start_mark.line + 1, key);
	ret->at = byte_of(text, n, v->start_mark.index);
	ret->until = byte_of(text, n, v->end_mark.index);
	(void)snprintf(ret->text, sizeof(ret->text), "%s%.400s", ret->at == ret->until ? " " : "",
		       value); /* it fits */
	return 0;
}

int weir_conf_edit_limit(const char *text, size_t n, const char *name, const char *key,
			 const char *value, char **ret, size_t *ret_n, struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	size_t bom = weir_yaml_bom(text, n); /* which the places in the document do not count */
	struct edit edit = {.at = 0};
	yaml_document_t doc;
	char spelt[400], *out;
	size_t len;
	int r;

	if (!weir_setting_find("packet_limits", key) || strcmp(key, "name") == 0)
		return weir_error_set(
			e, -EINVAL,
			"%s cannot be saved by itself (rate, burst, limit, window, block_for, "
			"mode, match…)",
			key);
	r = spell_value(key, value, spelt, sizeof(spelt), e);
	if (r < 0)
		return r;
	r = weir_yaml_load(text, n, &doc, &problems);
	if (r < 0)
		return weir_error_set(e, -EINVAL, "%s",
				      problems.n ? problems.item[0].text : "out of memory");
	r = find_edit(text + bom, n - bom, &doc, name, key, spelt, &edit, e);
	yaml_document_delete(&doc);
	if (r < 0)
		return r;
	edit.at += bom;
	edit.until += bom;
	len = strlen(edit.text);
	out = malloc(n - (edit.until - edit.at) + len + 1);
	if (!out)
		return weir_error_set(e, -ENOMEM, "out of memory");
	memcpy(out, text, edit.at);
	memcpy(out + edit.at, edit.text, len);
	memcpy(out + edit.at + len, text + edit.until, n - edit.until);
	*ret_n = n - (edit.until - edit.at) + len;
	out[*ret_n] = '\0';
	*ret = out;
	return 0;
}

/* What would stand in the file must be right as a whole. */
static int check_text(const char *path, const char *text, size_t n, struct weir_error *e)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	int r = weir_conf_parse(path, text, n, &c, &problems);

	if (r == 0)
		return 0;
	for (size_t i = 0; i < problems.n; i++)
		if (!problems.item[i].warning)
			return weir_error_set(e, r, "%s:%d:%d: %s (nothing was saved)", path,
					      problems.item[i].line, problems.item[i].column,
					      problems.item[i].text);
	return weir_error_set(e, r, "%s: out of memory", path);
}

static int write_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t w = write(fd, text, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		text += w;
		n -= (size_t)w;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* A file beside @path with its owner and mode takes its place, unless @path has changed since @before. */
static int replace_file(const char *path, const struct stat *before, const char *text, size_t n)
{
	char temp[PATH_MAX], folder[PATH_MAX];
	_cleanup_close_ int fd = -1, dir = -1;
	struct stat now;
	char *slash;
	int len, r;

	len = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	if (len < 0 || (size_t)len >= sizeof(temp))
		return -ENAMETOOLONG;
	memcpy(folder, temp, (size_t)len + 1);
	slash = strrchr(folder, '/');
	if (!slash)
		return -EINVAL; /* realpath's answers have one */
	slash[slash == folder] = '\0';
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fchown(fd, before->st_uid, before->st_gid) < 0 && geteuid() == 0 ? -errno : 0;
	if (r == 0 && fchmod(fd, before->st_mode & 07777) < 0)
		r = -errno;
	if (r == 0)
		r = write_all(fd, text, n);
	if (r == 0 && stat(path, &now) < 0)
		r = -errno;
	if (r == 0 && (now.st_ino != before->st_ino || now.st_size != before->st_size ||
		       now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
		       now.st_mtim.tv_nsec != before->st_mtim.tv_nsec))
		r = -ESTALE;
	if (r == 0 && rename(temp, path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(temp); /* r tells what went wrong first */
		return r;
	}
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)fsync(dir); /* the new name is in place either way */
	return 0;
}

int weir_conf_save_limit_all(const char *path, const char *name, const char *const *pairs,
			     size_t n_pairs, struct weir_error *e)
{
	_cleanup_free_ char *real = realpath(path, NULL), *text = NULL;
	struct stat before;
	size_t n = 0;
	int r;

	if (!real || stat(real, &before) < 0)
		return weir_error_set(e, -errno, "%s: %s", path, strerror(errno));
	r = weir_file_read(real, &text, &n);
	if (r < 0)
		return weir_error_set(e, r, "%s: cannot be read: %s", path, weir_file_problem(r));
	for (size_t i = 0; i < n_pairs; i++) {
		const char *eq = strchr(pairs[i], '=');
		char key[64], *next = NULL;

		if (!eq || (size_t)(eq - pairs[i]) >= sizeof(key))
			return weir_error_set(e, -EINVAL, "\"%.40s\" is not KEY=VALUE", pairs[i]);
		memcpy(key, pairs[i], (size_t)(eq - pairs[i]));
		key[eq - pairs[i]] = '\0';
		r = weir_conf_edit_limit(text, n, name, key, eq + 1, &next, &n, e);
		if (r < 0)
			return weir_error_prefix(e, r, "%s", path);
		free(text);
		text = next;
	}
	r = check_text(path, text, n, e);
	if (r < 0)
		return r;
	r = replace_file(real, &before, text, n);
	if (r == -ESTALE)
		return weir_error_set(e, r,
				      "%s was changed meanwhile (nothing was saved; try again)",
				      path);
	if (r < 0)
		return weir_error_set(e, r, "%s: cannot be written: %s", path, strerror(-r));
	return 0;
}

int weir_conf_save_limit(const char *path, const char *name, const char *key, const char *value,
			 struct weir_error *e)
{
	size_t n = strlen(key) + strlen(value) + 2;
	_cleanup_free_ char *pair = malloc(n);
	const char *pairs[] = {pair};

	if (!pair)
		return weir_error_set(e, -ENOMEM, "out of memory");
	(void)snprintf(pair, n, "%s=%s", key, value); /* it fits */
	return weir_conf_save_limit_all(path, name, pairs, 1, e);
}
