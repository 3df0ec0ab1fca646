/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes from a peer that speaks SPOP, or does not: messages that lie within the frame, or an end with a code; never
 * a crash or more output than agreed upon. The same bytes in small pieces give the same messages and the same output.
 * The first byte chooses: bit 0 a HELLO is put before, bit 1 messages are acknowledged.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/l7/spop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char hello[] =
	"\x00\x00\x00\x41\x01\x00\x00\x00\x01\x00\x00\x12supported-versions\x08\x03"
	"2.0\x0emax-frame-size\x03\xfc\xf0\x06\x0c"
	"capabilities\x08\x00";
static const struct weir_spop_limits limits = {.frame_max = 4096,
					       .output_max = 8192,
					       .inflight_max = 100};

struct run {
	bool ack;
	uint64_t sum; /* of everything that was handed over or sent */
	size_t out;
};

static void add(struct run *run, const void *data, size_t n)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++)
		run->sum = (run->sum ^ p[i]) * 0x100000001b3ull;
}

static void on_message(struct weir_spop *s, const struct weir_spop_message *m, void *arg)
{
	struct run *run = arg;
	struct weir_spop_var vars[WEIR_SPOP_ARGS_MAX];
	char name[] = "x";

	if (m->n_args > WEIR_SPOP_ARGS_MAX || !m->name_n)
		abort();
	add(run, m->name, m->name_n);
	for (size_t i = 0; i < m->n_args; i++) {
		const struct weir_spop_value *v = &m->args[i].value;

		add(run, m->args[i].name, m->args[i].name_n);
		if (v->type == WEIR_SPOP_STRING || v->type == WEIR_SPOP_BINARY)
			add(run, v->text.data, v->text.n);
		vars[i] = (struct weir_spop_var){WEIR_SPOP_TXN, name, *v};
	}
	if (run->ack && m->last) {
		int r = weir_spop_ack(s, m->stream, m->frame, vars, m->n_args);

		if (r == -EINVAL) /* what was read can be written */
			abort();
	}
}

static void drain(struct weir_spop *s, struct run *run)
{
	const void *out;
	size_t n = weir_spop_pending(s, &out);

	if (n > limits.output_max + 128)
		abort();
	add(run, out, n);
	run->out += n;
	weir_spop_written(s, n);
}

static struct run feed(const uint8_t *data, size_t size, uint8_t how, size_t piece)
{
	struct run run = {.ack = how & 2}, told = {.ack = how & 2};
	struct weir_spop *s;

	if (weir_spop_new(&limits, on_message, &told, &s) < 0)
		abort();
	if ((how & 1) && weir_spop_feed(s, hello, sizeof(hello) - 1) < 0)
		abort();
	drain(s, &run);
	for (size_t i = 0; i < size; i += piece) {
		size_t n = size - i < piece ? size - i : piece;
		uint8_t *exact = malloc(n);

		if (!exact)
			abort();
		memcpy(exact, data + i, n);
		if ((weir_spop_feed(s, exact, n) < 0) != weir_spop_ended(s))
			abort();
		free(exact);
		if (weir_spop_inflight(s) > limits.inflight_max)
			abort();
		drain(s, &run);
	}
	weir_spop_free(s);
	run.sum ^= told.sum << 1;
	return run;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run a, b;

	if (size < 2)
		return 0;
	a = feed(data + 1, size - 1, data[0], 512);
	b = feed(data + 1, size - 1, data[0], 3);
	if (a.sum != b.sum || a.out != b.out)
		abort();
	return 0;
}
