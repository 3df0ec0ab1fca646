/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Saves a limit's new values in its file (`weir limit set --save`): the text as edit.c changes it must be a right
 * configuration before it takes the file's place.
 */
#include "user/config/set.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

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
		char key[64], *next = NULL;
		const char *value;

		r = weir_set_split(pairs[i], key, sizeof(key), &value, e);
		if (r < 0)
			return r;
		r = weir_conf_edit_limit(text, n, name, key, value, &next, &n, e);
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
