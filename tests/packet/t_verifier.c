/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loads each program with each combination of its load-time knobs and prints how many instructions
 * the verifier processed: the program must stay below 40 % of the kernel's limit, so that another
 * compiler or kernel still loads it.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>

#include "tests/packet/packet_test.h"
#include "user/base/str.h"

#define INSNS_MAX 400000
#define LOG_STATS 4 /* the verifier's log level for its summary */

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

/* Instructions that the verifier processed; 0 if it does not say. */
static __u64 processed(bool frags, bool fake_clock, unsigned pass_action)
{
	static char log[65536];
	struct weir *s = weir__open();
	struct bpf_program *p;
	const char *at;
	__u64 n = 0;
	char digits[24] = "";

	assert_non_null(s);
	s->rodata->weir_fake_clock = fake_clock;
	s->rodata->weir_pass_action = pass_action;
	p = frags ? s->progs.weir_xdp_frags : s->progs.weir_xdp;
	(void)bpf_program__set_autoload(s->progs.weir_xdp, !frags);
	(void)bpf_program__set_autoload(s->progs.weir_xdp_frags, frags);
	memset(log, 0, sizeof(log));
	assert_int_equal(bpf_program__set_log_level(p, LOG_STATS), 0);
	assert_int_equal(bpf_program__set_log_buf(p, log, sizeof(log)), 0);
	if (weir__load(s))
		fail_msg("does not load: %s: %.2000s", strerror(errno), log);
	at = strstr(log, "processed ");
	if (at && sscanf(at, "processed %23[0-9]", digits) == 1)
		assert_int_equal(weir_str_u64(digits, UINT32_MAX, &n), 0);
	weir__destroy(s);
	return n;
}

static void every_combination_of_knobs_loads_with_room_to_spare(void **state)
{
	(void)state;
	libbpf_set_print(quiet);
	for (int frags = 0; frags < 2; frags++)
		for (int fake = 0; fake < 2; fake++)
			for (unsigned pass = XDP_DROP; pass <= XDP_PASS; pass++) {
				__u64 n = processed(frags, fake, pass);

				printf("%s fake_clock=%d pass_action=%u: verifier processed %llu "
				       "instructions\n",
				       frags ? "weir_xdp_frags" : "weir_xdp", fake, pass, n);
				assert_true(n > 100 && n < INSNS_MAX);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination_of_knobs_loads_with_room_to_spare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
