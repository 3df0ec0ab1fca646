/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ownership that a reader can check in one function: _cleanup_(fn) releases at the end of the scope, TAKE_PTR and
 * TAKE_FD hand over. Used everywhere in user/.
 */
#ifndef WEIR_USER_CLEANUP_H
#define WEIR_USER_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn)	   __attribute__((cleanup(fn)))
#define _cleanup_free_	   _cleanup_(freep)
#define _cleanup_close_	   _cleanup_(closep)
#define _cleanup_fclose_   _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) *_p = &(p);                                                          \
		__typeof__(p) _taken = *_p;                                                        \
		*_p = NULL;                                                                        \
		_taken;                                                                            \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int *_fd = &(fd);                                                                  \
		int _taken = *_fd;                                                                 \
		*_fd = -1;                                                                         \
		_taken;                                                                            \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* For any pointer to heap memory. */
static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd); /* nothing left to do about it */
	errno = saved;
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f); /* read-only streams; writers check fclose themselves */
}

static inline void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* A cleanup function NAMEp for a type that has NAME(type *). */
#define DEFINE_CLEANUP(type, name)                                                                 \
	static inline void name##p(type **p)                                                       \
	{                                                                                          \
		if (*p)                                                                            \
			name(*p);                                                                  \
	}

#endif
