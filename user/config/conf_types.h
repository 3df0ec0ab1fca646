/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What both layers' parts of the configuration are made of. Included by conf_request.h and thus by conf.h. */
#ifndef WEIR_USER_CONF_TYPES_H
#define WEIR_USER_CONF_TYPES_H

#include <stddef.h>

#include "user/base/addr.h"

enum weir_mode { WEIR_MODE_ENFORCE, WEIR_MODE_MONITOR };

/* A growable list of prefixes; @line is where the configuration says it (0 elsewhere). */
struct weir_prefix_list {
	struct weir_prefix *item;
	int *line;
	size_t n, room;
};

#endif
