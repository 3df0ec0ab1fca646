/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQLite's result codes as -errno: for the state file and the fleet's. */
#ifndef WEIR_USER_SQLITE_H
#define WEIR_USER_SQLITE_H

#include <errno.h>
#include <sqlite3.h>

/* 0 for what is no failure. */
static inline int weir_sqlite_errno(int r)
{
	switch (r & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_PERM:
		return -EACCES;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
		return -EACCES;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	default:
		return -EIO;
	}
}

#endif
