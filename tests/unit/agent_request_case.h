/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An agent that judges requests, alone or beside a packet layer, and events as its workers would put them. */
#ifndef WEIR_TEST_AGENT_REQUEST_CASE_H
#define WEIR_TEST_AGENT_REQUEST_CASE_H

#include "agent_case.h"
#include "tests/lib/prefix.h"

#define NGINX                                                                                      \
	"http: {listeners: [{listen: 127.0.0.1:9470, profile: nginx, trusted_proxies: "            \
	"[192.0.2.80]}]}\n"
#define OTHER "http: {listeners: [{listen: 127.0.0.1:9471, profile: nginx}]}\n"
#define LOGIN                                                                                      \
	"request_limits:\n"                                                                        \
	"  - {name: login, key: ip, algorithm: sliding-window-log, limit: 5, window: 60s}\n"
#define LOGIN7                                                                                     \
	"request_limits:\n"                                                                        \
	"  - {name: login, key: ip, algorithm: sliding-window-log, limit: 7, window: 60s}\n"
#define RULE                                                                                       \
	"escalate:\n"                                                                              \
	"  - {name: login-hammer, limits: [login], refused: 20, within: 60s, block_for: 10m}\n"

/* Without interfaces. */
static inline void write_alone(struct fix *f, const char *rest)
{
	char text[4096];

	(void)snprintf(text, sizeof(text),
		       "interfaces: []\nstate_dir: %s/state\nadmin: {listen: %s/admin.sock}\n%s",
		       f->dir, f->dir, rest);
	write_file(f->conf, text);
}

static inline int set_up_alone(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_alone(f, NGINX LOGIN);
	return start(f);
}

static inline int set_up_both(void **state)
{
	struct fix *f;

	if (make_case(state))
		return -1;
	f = *state;
	write_conf(f,
		   "lists: {never_block: [203.0.113.0/24], allow: [192.0.2.128/25]}\n" NGINX LOGIN
			   RULE LIMIT);
	return start(f);
}

/* As a worker would: an event, and the descriptor readable; then the loop has a turn. */
static inline void happens(struct fix *f, const struct weir_l7_event *event)
{
	__u64 one = 1;

	l7.event[l7.n_event++] = *event;
	assert_int_equal(write(l7.engine.fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(event_base_loop(f->a->base, EVLOOP_NONBLOCK), 0);
	assert_int_equal(l7.n_event, 0);
}

#define ALONE(name) cmocka_unit_test_setup_teardown(name, set_up_alone, tear_down)
#define BOTH(name)  cmocka_unit_test_setup_teardown(name, set_up_both, tear_down)

#endif
