/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the request layer's configuration share beside conf_request.h: words of the language, the parts of
 * its data and their end. Used inside user/config only.
 */
#ifndef WEIR_USER_CONF_REQUEST_INT_H
#define WEIR_USER_CONF_REQUEST_INT_H

#include "user/config/conf.h"

extern const char *const weir_words_profile[],
	*const weir_words_request_algorithm[], *const weir_words_on_store_failure[],
						       *const weir_words_scope[],
							       *const weir_words_missing[],
								       *const weir_words_calendar[];

extern const char *const weir_words_limits_from[];

/* Does it count in a window (limit, window), not by a rate? */
bool weir_request_has_window(enum weir_request_algorithm algorithm);

/* `given` bits of numbers that do not belong to an algorithm. */
unsigned weir_request_algorithm_lacks(enum weir_request_algorithm algorithm);

/* Is a part of this kind in it? */
bool weir_choice_has(const struct weir_key_choice *c, enum weir_key_kind kind);
/* Is some part what the client likes to write? (As user/l7/key.c has it.) */
bool weir_choice_is_chosen(const struct weir_key_choice *c);
/* May an address be counted, so that prefix lengths matter? */
bool weir_key_counts_ip(const struct weir_key_spec *key);
/* key_text of a limit; frees what *ret was. */
int weir_key_text_make(const struct weir_key_spec *key, char **ret);

void weir_texts_done(char ***item, size_t *n);
void weir_header_matches_done(struct weir_conf_request_match *m);
void weir_request_match_done(struct weir_conf_request_match *m);
/* Of entries of lists; the memory of the entry itself is the list's. */
void weir_request_limit_done(void *entry);
void weir_listener_done(void *entry);
void weir_exempt_done(void *entry);
void weir_escalate_done(void *entry);
void weir_conf_request_done(struct weir_conf_request *q);
void weir_conf_store_done(struct weir_conf_store *s);

#endif
