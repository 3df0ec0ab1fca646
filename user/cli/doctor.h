/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What weir doctor's parts share: a line for each finding. Called by cmd_doctor.c and doctor_store.c. */
#ifndef WEIR_CLI_DOCTOR_H
#define WEIR_CLI_DOCTOR_H

#include "user/config/conf.h"

struct weir_doctor {
	unsigned fails, warns;
};
enum weir_finding { WEIR_FINDING_GOOD, WEIR_FINDING_WARN, WEIR_FINDING_FAIL };

/* Prints one finding about @what; failures and warnings are counted. */
void weir_doctor_tell(struct weir_doctor *d, enum weir_finding f, const char *what,
		      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The server of a shared store: is it there, is it the right kind, what will it do when it is full? Asks it, for three
 * seconds at most; nothing where the store is embedded.
 */
void weir_doctor_store(struct weir_doctor *d, const struct weir_conf *c);

#endif
