/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel means by an errno, in one sentence each, and the last words of libbpf and libxdp. Called by every
 * file here that asks the kernel for something.
 */
#ifndef WEIR_USER_KERNEL_ERROR_H
#define WEIR_USER_KERNEL_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "user/base/error.h"
#include "user/datapath/iface.h"

/* From now on libbpf and libxdp print nothing; their text is kept (the newest 16 KB) and goes to the log at debug. */
void weir_kernel_log_quiet(void);
void weir_kernel_log_clear(void);
/* The last line kept that says why the verifier or libbpf refused; "" if none. */
void weir_kernel_log_reason(char *ret, size_t size);

/* "loading the program" + errno: fills @e, returns @r. */
int weir_kernel_error(struct weir_error *e, int r, const char *doing);
/* Refused to attach to @i in native or generic mode: with the kernel's own words and what to do. */
int weir_attach_error(struct weir_error *e, int r, const struct weir_iface *i, bool native,
		      const char *extack);
/* The same, short enough for a note. */
void weir_attach_reason(const struct weir_iface *i, int r, const char *extack, char *ret,
			size_t size);

#endif
