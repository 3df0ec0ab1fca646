/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An array of mutexes, one for each part of a table: identities.c, suspects.c. */
#ifndef WEIR_L7_LOCKS_H
#define WEIR_L7_LOCKS_H

#include <pthread.h>

/* -errno; a mutex of glibc owns nothing, so what was made before needs no end. */
static inline int weir_locks_init(pthread_mutex_t *lock, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = -pthread_mutex_init(&lock[i], NULL);
	return r;
}

static inline void weir_locks_done(pthread_mutex_t *lock, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		pthread_mutex_destroy(&lock[i]);
}

#endif
