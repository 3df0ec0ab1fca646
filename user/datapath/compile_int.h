/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the parts of the compiler of limits: compile.c (counters, what changed), compile_units.c (units),
 * compile_match.c (which packets a limit is about) and layout.c (where its state lies). Nobody else includes this.
 */
#ifndef WEIR_USER_COMPILE_INT_H
#define WEIR_USER_COMPILE_INT_H

#include "user/datapath/compile.h"

/* "FILE:LINE: limit NAME: " before what @e says; returns @r. */
int weir_compile_blame(const struct weir_conf *conf, const struct weir_conf_limit *l, int r,
		       struct weir_error *e);

/* Fills the units of one limit (@ret is zeroed before), those of @was if they still fit. *ret_fine: it needs the fine
 * clock.
 */
int weir_units_of(const struct weir_conf_limit *l, const struct weir_limit *was, __u64 jiffy_ns,
		  struct weir_limit *ret, bool *ret_fine, struct weir_error *e);

/* The counting limit of @l, which is at index @of and has scope: fleet. */
void weir_fleet_units_of(const struct weir_conf_limit *l, unsigned of, __u64 window_ns,
			 struct weir_limit *ret);

/* Fills the masks, port and VLAN classes, family4/family6 and nets of @c. */
int weir_compile_match(const struct weir_conf *conf, struct weir_compiled *c, struct weir_error *e);

/* Groups and words; needs the limits' units and families. @old: prefer the words that a limit has there. What counts for
 * a fleet stands behind its limit, wherever its index is.
 */
int weir_layout_place(const struct weir_conf *conf, const struct weir_policy *old, __u32 buckets4,
		      __u32 buckets6, struct weir_policy *p, struct weir_error *e);
/* Do both policies keep the state of the same limits in the same words of the same buckets? */
bool weir_layout_same(const struct weir_policy *a, const struct weir_policy *b);

#endif
