/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The instance's folder in bpffs: mounted if it is not, private, locked by the agent that uses it. A pin is replaced
 * by renaming over it, so that its name always leads somewhere. Called by datapath.c, apply.c and attach_link.c.
 *
 *	prog, link_IFNAME, every map by its plain name (of a map of maps the inner map in force), outer/NAME
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "user/base/str.h"
#include "user/datapath/datapath_int.h"
#include "user/datapath/kernel_error.h"

#define BPFFS_MAGIC 0xcafe4a11

static bool is_bpffs(const char *path)
{
	struct statfs s;

	return statfs(path, &s) == 0 && (unsigned long)s.f_type == BPFFS_MAGIC;
}

static int make_folder(const char *path)
{
	struct stat s;

	if (mkdir(path, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (lstat(path, &s) < 0)
		return -errno;
	if (!S_ISDIR(s.st_mode) || s.st_uid != geteuid())
		return -ENOTDIR;
	return chmod(path, 0700) < 0 ? -errno : 0;
}

static bool is_empty(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);

	for (struct dirent *f = dir ? readdir(dir) : NULL; f; f = readdir(dir)) {
		if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
			return false;
	}
	return dir != NULL;
}

static int mount_bpffs(struct weir_datapath *d, struct weir_error *e)
{
	struct stat s;

	if (is_bpffs(d->bpffs))
		return 0;
	if (stat(d->bpffs, &s) < 0 && mkdir(d->bpffs, 0700) < 0)
		return weir_error_set(e, -errno, "%s: cannot make this folder for bpffs: %s",
				      d->bpffs, strerror(errno));
	if (is_bpffs(d->bpffs)) /* a folder within a bpffs */
		return 0;
	if (!is_empty(d->bpffs))
		return weir_error_set(
			e, -ENOTEMPTY,
			"%s: no bpffs is mounted there, and mounting one would hide what is in "
			"this folder (bpffs: /sys/fs/bpf is the usual one)",
			d->bpffs);
	if (mount("bpf", d->bpffs, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return weir_error_set(e, -errno,
				      "%s: no bpffs is mounted there and mounting one failed: %s "
				      "(try: mount -t bpf bpf %s)",
				      d->bpffs, strerror(errno), d->bpffs);
	weir_note(d, "mounted bpffs at %s", d->bpffs);
	return 0;
}

bool weir_pin_lock(int folder_fd)
{
	return flock(folder_fd, LOCK_EX | LOCK_NB) == 0;
}

int weir_pin_folder(struct weir_datapath *d, struct weir_error *e)
{
	char outer[sizeof(d->folder) + 8];
	_cleanup_close_ int fd = -1;
	int r = mount_bpffs(d, e);

	if (r < 0)
		return r;
	(void)snprintf(outer, sizeof(outer), "%s/outer", d->folder);
	r = make_folder(d->folder);
	if (r == 0)
		r = make_folder(outer);
	if (r < 0)
		return weir_error_set(e, r, "%s: cannot make the folder for pins: %s", d->folder,
				      strerror(-r));
	fd = open(d->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return weir_error_set(e, -errno, "%s: %s", d->folder, strerror(errno));
	if (!weir_pin_lock(fd))
		return weir_error_set(e, -EBUSY,
				      "another agent runs as instance \"%s\" (%s is locked); stop "
				      "it, or give this one another instance:",
				      d->instance, d->folder);
	d->lock_fd = TAKE_FD(fd);
	return 0;
}

static int pin_path(const struct weir_datapath *d, const char *name, char *ret, size_t size)
{
	int n = snprintf(ret, size, "%s/%s", d->folder, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int weir_pin_get(const struct weir_datapath *d, const char *name)
{
	char path[PATH_MAX];
	int r = pin_path(d, name, path, sizeof(path));

	return r < 0 ? r : bpf_obj_get(path);
}

int weir_pin(const struct weir_datapath *d, int fd, const char *name, struct weir_error *e)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	int r = pin_path(d, name, path, sizeof(path));

	if (r == 0)
		r = pin_path(d, "fresh_pin", fresh, sizeof(fresh));
	if (r == 0) {
		(void)unlink(fresh); /* left by an agent that was killed here */
		r = bpf_obj_pin(fd, fresh);
	}
	if (r == 0 && rename(fresh, path) < 0) {
		r = -errno;
		(void)unlink(fresh);
	}
	if (r < 0)
		return weir_error_set(e, r, "%s/%s: cannot pin: %s", d->folder, name, strerror(-r));
	return 0;
}

int weir_unpin(const struct weir_datapath *d, const char *name)
{
	char path[PATH_MAX];
	int r = pin_path(d, name, path, sizeof(path));

	if (r < 0)
		return r;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Bank of @m that is in force. */
static __u32 bank_of(const struct weir_datapath *d, enum weir_map m)
{
	switch (weir_map_desc[m].set) {
	case WEIR_SET_TABLES:
		return d->sources_bank;
	case WEIR_SET_LISTS:
		return d->lists_bank;
	case WEIR_SET_NETS:
		return d->nets_bank;
	default:
		return 0;
	}
}

int weir_pin_inner(struct weir_datapath *d, struct weir_error *e)
{
	int r = 0;

	for (int m = 0; m < WEIR_MAP_MAX && r == 0; m++) {
		int fd;

		if (!weir_map_desc[m].banks)
			continue;
		fd = d->inner_fd[m][bank_of(d, (enum weir_map)m)];
		r = fd >= 0 ? weir_pin(d, fd, weir_map_desc[m].name, e)
			    : weir_unpin(d, weir_map_desc[m].name);
	}
	return r;
}

int weir_pin_all(struct weir_datapath *d, struct weir_error *e)
{
	int r = 0;

	for (int m = 0; m < WEIR_MAP_MAX && r == 0; m++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "%s%s", weir_map_desc[m].banks ? "outer/" : "",
			       weir_map_desc[m].name);
		r = weir_pin(d, d->map_fd[m], name, e);
	}
	if (r == 0)
		r = weir_pin_inner(d, e);
	if (r == 0)
		r = weir_pin(d, d->base_fd, "count_bases", e);
	if (r == 0)
		r = weir_pin(d, d->prog_fd, "prog", e);
	if (r == 0)
		d->pinned = true;
	return r;
}

void weir_unpin_all(struct weir_datapath *d)
{
	char path[PATH_MAX], name[32];

	for (int m = 0; m < WEIR_MAP_MAX; m++) { /* what cannot be removed stays */
		(void)snprintf(name, sizeof(name), "outer/%s", weir_map_desc[m].name);
		(void)weir_unpin(d, name);
		(void)weir_unpin(d, weir_map_desc[m].name);
	}
	(void)weir_unpin(d, "count_bases");
	(void)weir_unpin(d, "prog");
	d->pinned = false;
	if (pin_path(d, "outer", path, sizeof(path)) == 0)
		(void)rmdir(path);
	(void)rmdir(d->folder);
}

/* Somebody may have removed the folder, or what is in it. */
static bool is_gone(const struct weir_datapath *d)
{
	char path[PATH_MAX];
	struct stat there, ours;

	if (stat(d->folder, &there) < 0 || fstat(d->lock_fd, &ours) < 0)
		return true;
	return there.st_ino != ours.st_ino || there.st_dev != ours.st_dev ||
	       (d->pinned && pin_path(d, "prog", path, sizeof(path)) == 0 &&
		access(path, F_OK) < 0);
}

int weir_pin_again(struct weir_datapath *d, struct weir_error *e)
{
	int r;

	if (!is_gone(d))
		return 0;
	closep(&d->lock_fd);
	d->lock_fd = -1;
	r = weir_pin_folder(d, e);
	if (r == 0 && d->pinned)
		r = weir_pin_all(d, e);
	return r;
}

const char *weir_pin_link_name(const char *ifname, char buf[static WEIR_LINK_NAME_MAX])
{
	size_t at = (size_t)snprintf(buf, WEIR_LINK_NAME_MAX, "link_");

	for (; *ifname && at + 4 < WEIR_LINK_NAME_MAX; ifname++) {
		if (*ifname == '.' || *ifname == '%')
			at += (size_t)snprintf(buf + at, WEIR_LINK_NAME_MAX - at, "%%%02x",
					       (unsigned char)*ifname);
		else
			buf[at++] = *ifname;
	}
	buf[at] = '\0';
	return buf;
}
