/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a plans_file: refused with a sentence, or every key in it has one of the plans. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user/l7/plans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char plan[][WEIR_NAME_MAX] = {"free", "pro"};
	_cleanup_(weir_plans_freep) struct weir_plans *p = NULL;
	_cleanup_close_ int fd = memfd_create("plans", MFD_CLOEXEC);
	unsigned char hash[WEIR_PLANS_HASH_BYTES];
	struct weir_error e = {};
	char path[64];
	unsigned which;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (weir_plans_load(path, plan, 2, &p, &e) < 0) {
		if (!e.text[0])
			abort();
		return 0;
	}
	if (weir_plans_find(p, weir_text_of("k"), &which, hash) == 0 && which > 1)
		abort();
	return 0;
}
