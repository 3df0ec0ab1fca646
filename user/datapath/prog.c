/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who an XDP program belongs to, for the sentence that refuses an occupied interface. Called by the attach files. */
#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h>
#include <string.h>

#include "user/datapath/datapath_int.h"

/* The first process that holds the program, or a link to it, open. */
static bool find_holder(__u32 prog_id, char *ret, size_t size)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	char want[32];

	(void)snprintf(want, sizeof(want), "prog_id:\t%u\n", prog_id);
	for (struct dirent *p = proc ? readdir(proc) : NULL; p; p = readdir(proc)) {
		_cleanup_closedir_ DIR *fds = NULL;
		char path[600];

		if (!isdigit((unsigned char)p->d_name[0]))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.20s/fdinfo", p->d_name);
		fds = opendir(path);
		for (struct dirent *f = fds ? readdir(fds) : NULL; f; f = readdir(fds)) {
			_cleanup_fclose_ FILE *info = NULL;
			char line[128], comm[32] = "";
			bool hit = false;

			(void)snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.20s", p->d_name,
				       f->d_name);
			info = fopen(path, "re");
			while (info && !hit && fgets(line, sizeof(line), info))
				hit = strcmp(line, want) == 0;
			if (!hit)
				continue;
			fclosep(&info);
			(void)snprintf(path, sizeof(path), "/proc/%.20s/comm", p->d_name);
			info = fopen(path, "re");
			if (info && fgets(comm, sizeof(comm), info))
				comm[strcspn(comm, "\n")] = '\0';
			(void)snprintf(ret, size, "%s (pid %.20s)", comm, p->d_name);
			return true;
		}
	}
	return false;
}

void weir_prog_describe(__u32 prog_id, char *ret, size_t size)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(prog_id);
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);
	char holder[80] = "";

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0) {
		(void)snprintf(ret, size, "program %u", prog_id);
		return;
	}
	closep(&fd); /* or we would be found as its holder */
	fd = -1;
	if (!find_holder(prog_id, holder, sizeof(holder)))
		(void)snprintf(holder, sizeof(holder), "no running process");
	(void)snprintf(ret, size, "program %u \"%s\", loaded by user %u, held by %s", prog_id,
		       info.name, info.created_by_uid, holder);
}
