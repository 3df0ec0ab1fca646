/* SPDX-License-Identifier: GPL-2.0-or-later */
/* weir doctor's look at a shared store, by the same connection that an agent makes: version, role, password and script are
 * tried by its greeting. Called by cmd_doctor.c.
 */
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "user/agent/shared.h"
#include "user/base/clock.h"
#include "user/base/str.h"
#include "user/cli/doctor.h"

#define ASK_NS 3000000000ull /* connecting included */
#define ROUNDS 5	     /* whose fastest counts: what the network takes */
#define KEY    "doctor"	     /* of no meaning: which server of a cluster is asked */

struct asked {
	struct event_base *base;
	bool answered;
	char cause[160];  /* "": it said something */
	char text[16384]; /* what it said; an error's too */
	bool is_error;
};

static void on_reply(void *arg, const struct redisReply *r, const char *cause)
{
	struct asked *q = arg;

	q->answered = true;
	if (!r)
		(void)weir_str_copy(q->cause, sizeof(q->cause), cause);
	q->is_error = r && r->type == REDIS_REPLY_ERROR;
	if (r && r->str)
		(void)weir_str_copy(q->text, sizeof(q->text), r->str);
}

/* False: nothing was answered, @q says why. */
static bool ask(struct weir_store *s, struct asked *q, unsigned n, const char *const *words)
{
	size_t bytes[4];
	int r;

	for (unsigned i = 0; i < n; i++)
		bytes[i] = strlen(words[i]);
	q->answered = q->is_error = false;
	q->cause[0] = q->text[0] = '\0';
	r = weir_redis_ask(s, KEY, n, words, bytes, ASK_NS, on_reply, q);
	if (r < 0) {
		(void)weir_str_copy(q->cause, sizeof(q->cause), strerror(-r));
		return false;
	}
	while (!q->answered && event_base_loop(q->base, EVLOOP_ONCE) == 0)
		;
	return q->answered && !q->cause[0];
}

/* The value of a line "name:value"; "" if there is none. */
static const char *value(const char *text, const char *name, char *buf, size_t size)
{
	size_t n = strlen(name);

	buf[0] = '\0';
	for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
		if (strncmp(at, name, n) == 0 && at[n] == ':')
			(void)snprintf(buf, size, "%.*s", (int)strcspn(at + n + 1, "\r\n"),
				       at + n + 1);
	return buf;
}

static void look_at_memory(struct weir_doctor *d, struct weir_store *s, struct asked *q)
{
	char most[32], policy[32];

	if (!ask(s, q, 2, (const char *const[]){"INFO", "memory"}) || q->is_error) {
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store memory",
				 "not to be seen (this user has no INFO)");
		return;
	}
	(void)value(q->text, "maxmemory", most, sizeof(most));
	(void)value(q->text, "maxmemory_policy", policy, sizeof(policy));
	if (strncmp(policy, "allkeys", 7) == 0)
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store memory",
				 "maxmemory-policy %s may forget the fleet's lists and key secret: "
				 "volatile-ttl drops nothing but counts",
				 policy);
	else if (!strcmp(most, "0"))
		weir_doctor_tell(
			d, WEIR_FINDING_WARN, "store memory",
			"no maxmemory: a flood of keys takes all that the machine has (set it, "
			"and maxmemory-policy volatile-ttl)");
	else if (!strcmp(policy, "noeviction"))
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store memory",
				 "maxmemory-policy noeviction: when it is full every new client is "
				 "on_store_failure's (volatile-ttl drops counts that end soon)");
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store memory", "at most %s bytes, %s", most,
				 policy);
}

static void look_at_time(struct weir_doctor *d, const struct weir_conf *c, struct weir_store *s,
			 struct asked *q)
{
	const __u64 timeout_us = c->store.timeout_ns / 1000;
	__u64 least_us = ~0ull;

	for (int i = 0; i < ROUNDS; i++) {
		__u64 asked_ns = weir_clock_ns(CLOCK_MONOTONIC), us;

		if (!ask(s, q, 2, (const char *const[]){"ECHO", "weir"}))
			return;
		us = (weir_clock_ns(CLOCK_MONOTONIC) - asked_ns) / 1000;
		if (us < least_us)
			least_us = us;
	}
	if (2 * least_us > timeout_us)
		weir_doctor_tell(d, WEIR_FINDING_WARN, "store time",
				 "a round trip takes %llu us of the %llu us that a decision has "
				 "(store.timeout, http.budget)",
				 (unsigned long long)least_us, (unsigned long long)timeout_us);
	else
		weir_doctor_tell(d, WEIR_FINDING_GOOD, "store time",
				 "a round trip takes %llu us; a decision has %llu us",
				 (unsigned long long)least_us, (unsigned long long)timeout_us);
}

static void look(struct weir_doctor *d, const struct weir_conf *c, struct weir_store *s,
		 struct asked *q)
{
	struct weir_far_stats stats = {};

	if (!ask(s, q, 1, (const char *const[]){"PING"})) {
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s", q->cause);
		return;
	}
	weir_store_far_stats(s, &stats);
	weir_doctor_tell(d, WEIR_FINDING_GOOD, "store", "%s",
			 stats.server[0] ? stats.server : "it answers");
	look_at_memory(d, s, q);
	look_at_time(d, c, s, q);
}

void weir_doctor_store(struct weir_doctor *d, const struct weir_conf *c)
{
	_cleanup_(weir_shared_freep) struct weir_shared *shared = NULL;
	struct weir_redis_options o;
	struct weir_error e = {""};
	struct weir_store *s = NULL;
	struct asked *q;

	if (weir_shared_new(c, &shared, &e) < 0) {
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s", e.text);
		return;
	}
	q = shared ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return;
	q->base = event_base_new();
	o = *weir_shared_redis(shared);
	o.quiet = true;
	if (!q->base || weir_store_redis_new(q->base, &o, &s, &e) < 0)
		weir_doctor_tell(d, WEIR_FINDING_FAIL, "store", "%s",
				 e.text[0] ? e.text : "out of memory");
	else
		look(d, c, s, q);
	weir_store_free(s);
	if (q->base)
		event_base_free(q->base);
	free(q);
}
