/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Configurations made by hand for the tests of compiler and tables, and a small random generator (xorshift64*) whose
 * traces are the same in every run.
 */
#ifndef WEIR_TESTS_LIMITS_H
#define WEIR_TESTS_LIMITS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/datapath/compile.h"

#define SEC	 1000000000ull
#define MIN	 (60 * SEC)
#define HOUR	 (60 * MIN)

#define BUCKETS4 (1u << 10)
#define BUCKETS6 (1u << 9)
#define JIFFY_NS 4000000

/* A configuration with room for every limit. */
struct limits {
	struct weir_conf conf;
	struct weir_conf_limit item[WEIR_LIMITS_MAX + 1];
};

static inline struct limits *limits_new(void)
{
	struct limits *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->conf.limits = l->item;
	l->conf.events_per_second = 20;
	return l;
}

/* A limit that matches everything, per /32 and /64. */
static inline struct weir_conf_limit *limits_add(struct limits *l, const char *name)
{
	struct weir_conf_limit *n = &l->item[l->conf.n_limits++];

	(void)snprintf(n->name, sizeof(n->name), "%s", name);
	n->match.any_protocol = true;
	n->match.fragment = -1;
	n->ipv4_prefix = 32;
	n->ipv6_prefix = 64;
	return n;
}

static inline struct weir_conf_limit *limits_bucket(struct limits *l, const char *name, __u64 rate,
						    __u64 burst)
{
	struct weir_conf_limit *n = limits_add(l, name);

	n->algorithm = WEIR_ALGO_TOKEN_BUCKET;
	n->rate = rate;
	n->rate_per_ns = SEC;
	n->burst = burst;
	return n;
}

static inline struct weir_conf_limit *limits_window(struct limits *l, const char *name,
						    enum weir_algorithm algorithm, __u64 limit,
						    __u64 window_ns)
{
	struct weir_conf_limit *n = limits_add(l, name);

	n->algorithm = algorithm;
	n->limit = limit;
	n->window_ns = window_ns;
	return n;
}

static inline struct weir_compiled *limits_compile(const struct limits *l,
						   const struct weir_compiled *old)
{
	struct weir_compiled *c = NULL;
	struct weir_error e = {""};
	int r = weir_compile(&l->conf, old ? &old->policy : NULL, old ? old->names : NULL, BUCKETS4,
			     BUCKETS6, JIFFY_NS, &c, &e);

	if (r < 0)
		print_error("%s\n", e.text);
	assert_int_equal(r, 0);
	assert_string_equal(e.text, "");
	return c;
}

/* Compiles what must be refused, with each of @words in the sentence (NULL ends them). */
static inline void limits_refuse(const struct limits *l, const char *const *words)
{
	struct weir_compiled *c = NULL;
	struct weir_error e = {""};

	assert_int_equal(weir_compile(&l->conf, NULL, NULL, BUCKETS4, BUCKETS6, JIFFY_NS, &c, &e),
			 -EINVAL);
	assert_null(c);
	for (; *words; words++) {
		if (!strstr(e.text, *words))
			print_error("no \"%s\" in: %s\n", *words, e.text);
		assert_non_null(strstr(e.text, *words));
	}
}
#define LIMITS_REFUSE(l, ...) limits_refuse(l, (const char *const[]){__VA_ARGS__, NULL})

struct random {
	__u64 s;
};

static inline __u64 random_next(struct random *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}

static inline __u64 random_below(struct random *r, __u64 n)
{
	return n ? (random_next(r) >> 11) % n : 0;
}

#endif
