/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See unix.h. */
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "user/base/cleanup.h"
#include "user/base/unix.h"

int weir_unix_make_parent(const struct sockaddr_un *a, char ret[static sizeof(a->sun_path)])
{
	char *slash;

	memcpy(ret, a->sun_path, sizeof(a->sun_path));
	slash = strrchr(ret, '/');
	if (!slash || slash == ret)
		return 0;
	*slash = '\0';
	return mkdir(ret, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int weir_unix_clear_stale(const struct sockaddr_un *a, bool *ret_unlink)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	*ret_unlink = false;
	if (lstat(a->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN ||
	    errno == EINPROGRESS)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	if (unlink(a->sun_path) < 0 && errno != ENOENT) {
		*ret_unlink = true;
		return -errno;
	}
	return 0;
}

bool weir_group_find(const char *name, gid_t *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/etc/group", "re");
	struct group *g;

	while (f && (g = fgetgrent(f)))
		if (!strcmp(g->gr_name, name)) {
			*ret = g->gr_gid;
			return true;
		}
	return false;
}
