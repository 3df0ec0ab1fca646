/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sockets that are files: the admin socket and listeners on Unix sockets. */
#ifndef WEIR_USER_UNIX_H
#define WEIR_USER_UNIX_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* Makes the folder of @a's path, which goes to @ret (with mode 0755, one level; it may be there). -errno. */
int weir_unix_make_parent(const struct sockaddr_un *a,
			  char ret[static sizeof(((struct sockaddr_un *)0)->sun_path)]);
/* Removes a socket that nobody answers on. 0: there is none (any more); -EEXIST: it is no socket; -EADDRINUSE: somebody
 * answers; another -errno, of unlink if *ret_unlink.
 */
int weir_unix_clear_stale(const struct sockaddr_un *a, bool *ret_unlink);
/* In /etc/group only: a directory service could block the loop. */
bool weir_group_find(const char *name, gid_t *ret);

#endif
