/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which packets need look at the lists (struct weir_filter in weir/maps.h). Called by datapath.c when lists change. */
#ifndef WEIR_USER_FILTER_H
#define WEIR_USER_FILTER_H

#include "user/base/addr.h"
#include "user/base/error.h"
#include "user/datapath/datapath.h"
#include "weir/maps.h"

/* Adds one entry to a filter that may be in use (in mapped memory): at every moment it admits all that it did before.
 * Guards set no bits: they are only looked at once something else has matched. Adding twice is harmless. -E2BIG: no
 * room for its length; nothing changed.
 */
int weir_filter_add(struct weir_filter *f, enum weir_list list, const struct weir_prefix *p);

#endif
