/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fails when a reason of weir/reason.h was produced by no packet test. Each packet test binary
 * notes what it produced in coverage/NAME beside itself, anew in each run; scripts/run-tests runs
 * this one last. Notes of binaries that are there no longer do not count.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/packet/packet_test.h"

static bool seen[WEIR_REASON_MAX];

static void read_note(const char *dir, const char *name)
{
	char path[PATH_MAX + 300], line[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/../%s", dir, name);
	if (access(path, X_OK))
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		for (unsigned r = 0; r < WEIR_REASON_MAX; r++)
			if (!strcmp(line, xdp_reason_name(r)))
				seen[r] = true;
	}
	fclose(f);
}

static void every_reason_was_produced_by_a_packet_test(void **state)
{
	const char *dir = xdp_cover_dir();
	DIR *d = opendir(dir);
	struct dirent *e;
	int missing = 0;

	(void)state;
	if (!d)
		fail_msg("%s: %s (run the other packet tests first)", dir, strerror(errno));
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			read_note(dir, e->d_name);
	closedir(d);
	for (unsigned r = 0; r < WEIR_REASON_MAX; r++)
		if (!seen[r]) {
			print_error("no packet test produced %s\n", xdp_reason_name(r));
			missing++;
		}
	assert_int_equal(missing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_was_produced_by_a_packet_test),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
