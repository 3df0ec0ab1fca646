/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What servers answer when they are greeted that no real one here would: too old, loading, without a command, repeating the
 * password. Each is said in one sentence, and none holds the password.
 */
#include "redis/fake.h"

#define PASSWORD "pa55word-of-nobody"

struct set {
	struct fix f;
	struct fake server;
};

static int setup(void **state)
{
	struct set *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	*state = s;
	fix_options(&s->f);
	s->f.base = event_base_new();
	return 0;
}

static int teardown(void **state)
{
	struct set *s = *state;

	fake_stop(&s->server);
	fix_done(&s->f);
	free(s);
	return 0;
}

/* What is said of a server that answers @word with @reply, and everything else with OK. */
struct row {
	const char *kind; /* of the URL */
	const char *word, *reply, *says;
};

static const char *answers(struct fake *f, const struct redisReply *command)
{
	const struct row *row = f->arg;

	return fake_is(command, row->word)  ? row->reply
	       : fake_is(command, "SCRIPT") ? "$40\r\n"
					      "0123456789012345678901234567890123456789\r\n"
					    : "+OK\r\n";
}

static void each_refusal_is_one_sentence_without_the_password(void **state)
{
	static const struct row rows[] = {
		{"redis", "AUTH",
		 "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
		 "user or password is wrong"},
		{"redis", "AUTH",
		 "-ERR unknown command 'AUTH', with args beginning with: '" PASSWORD "' \r\n",
		 "it does not take AUTH"},
		{"redis", "AUTH", "-ERR AUTH <password> called without any password configured\r\n",
		 "the server has none"},
		{"redis", "INFO", "$21\r\nredis_version:5.0.14\n\r\n",
		 "Redis 5.0.14 is too old: 6.2 or later is needed"},
		{"redis", "INFO", "-NOAUTH Authentication required.\r\n", "a password is needed"},
		{"redis", "SCRIPT", "-LOADING Redis is loading the dataset in memory\r\n",
		 "it is loading its data"},
		{"redis", "SCRIPT",
		 "-NOPERM this user has no permissions to run the 'script|load' command\r\n",
		 "the user may not run script|load (ACL)"},
		{"redis", "SCRIPT",
		 "-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD'\r\n",
		 "it has no scripts (a Sentinel is redis+sentinel://)"},
		{"redis", "SCRIPT", ":1\r\n", "makes no sense"},
		{"redis", "SELECT", "-ERR DB index is out of range\r\n", "it has no such database"},
		{"redis", "SCRIPT",
		 "-DENIED Redis is running in protected mode because protected mode is enabled\r\n",
		 "it is in protected mode"},
		{"redis", "SCRIPT", "HTTP/1.0 400 Bad Request\r\n\r\n",
		 "what answers is no Redis: Protocol error"},
		{"redis+cluster", "CLUSTER", "-ERR This instance has cluster support disabled\r\n",
		 "it is no node of a Cluster (redis:// is for one server)"},
		{"redis+cluster", "CLUSTER", "*0\r\n", "it has no slots"},
		{"redis+cluster", "CLUSTER", "*1\r\n:1\r\n", "makes no sense"},
		{"redis+cluster", "CLUSTER",
		 "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n",
		 "the user may not run cluster|slots (ACL)"},
		{"redis+sentinel", "SENTINEL",
		 "-ERR unknown command 'SENTINEL', with args beginning with: 'get-'\r\n",
		 "it is no Sentinel (redis:// is for the server itself)"},
		{"redis+sentinel", "SENTINEL",
		 "-ERR unknown command `SENTINEL`, with args beginning with: `get-`\r\n",
		 "it is no Sentinel (redis:// is for the server itself)"},
		{"redis+sentinel", "SENTINEL", "*-1\r\n", "knows no master '7'"},
	};
	struct set *s = *state;

	s->server.says = answers;
	fake_start(&s->server, s->f.base);
	s->f.o.password = PASSWORD;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct weir_far_stats st;
		char url[80];

		s->server.arg = (void *)&rows[i];
		(void)snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", rows[i].kind,
			       s->server.port, !strcmp(rows[i].kind, "redis+cluster") ? "" : "/7");
		fix_store_at(&s->f, url);
		assert_true(fix_wait(&s->f, fix_health(&s->f) == WEIR_FAR_OPEN, 5000));
		weir_store_far_stats(s->f.s, &st);
		if (!strstr(st.cause, rows[i].says) || strstr(st.cause, PASSWORD))
			fail_msg("%s instead of %s", st.cause, rows[i].says);
		weir_store_free(s->f.s);
		s->f.s = NULL;
		fix_turn(&s->f, 5); /* it is gone at the other end too */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_refusal_is_one_sentence_without_the_password,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
