/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a list file, as one prefix, and as numbers with units: taken or refused, never a crash; what is taken
 * reads back from what is printed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/base/str.h"
#include "user/config/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void prefixes(const struct weir_prefix_list *list)
{
	char buf[WEIR_PREFIX_STRLEN];
	struct weir_prefix p;

	for (size_t i = 0; i < list->n; i++) {
		weir_prefix_format(&list->item[i], buf);
		if (weir_prefix_parse(buf, strlen(buf), false, &p) < 0 ||
		    weir_prefix_compare(&p, &list->item[i]) != 0)
			abort();
	}
}

static void numbers(const char *text)
{
	char buf[WEIR_STR_MAX];
	struct weir_rate rate, rate2;
	__u64 v, v2;
	bool b;

	if (weir_str_duration_ns(text, &v) == 0 &&
	    (weir_str_duration_ns(weir_str_format_duration(v, buf), &v2) < 0 || v != v2))
		abort();
	if (weir_str_size_bytes(text, &v) == 0 &&
	    (weir_str_size_bytes(weir_str_format_size(v, buf), &v2) < 0 || v != v2))
		abort();
	if (weir_str_rate(text, &rate) == 0 && rate.amount &&
	    (weir_str_rate(weir_str_format_rate(&rate, buf), &rate2) < 0 ||
	     (unsigned __int128)rate.amount * rate2.per_ns !=
		     (unsigned __int128)rate2.amount * rate.per_ns))
		abort();
	(void)weir_str_amount(text, &v, &b); /* only that it returns */
	(void)weir_str_u64(text, ~0ull, &v);
	(void)weir_str_closest(text, (const char *const[]){"rate", "burst", "packet_limits"}, 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems problems = {.n = 0};
	_cleanup_(weir_prefix_list_done) struct weir_prefix_list list = {.n = 0};
	_cleanup_free_ char *text = strndup((const char *)data, size);
	int r = weir_conf_list_parse("fuzz", (const char *)data, size, &list, &problems);

	if ((r < 0) != (problems.n_errors > 0) || (r < 0 && list.n))
		abort();
	prefixes(&list);
	if (text)
		numbers(text);
	return 0;
}
