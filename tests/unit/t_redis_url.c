/* SPDX-License-Identifier: GPL-2.0-or-later */
/* store.url of a Redis: what it means, what is refused, and that no sentence holds a password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "user/redis/redis.h"

static struct weir_redis_url parsed(const char *text)
{
	struct weir_redis_url u = {};
	struct weir_error e = {};

	if (weir_redis_url_parse(text, &u, &e) < 0)
		fail_msg("%s: %s", text, e.text);
	return u;
}

static void a_server_and_its_defaults(void **state)
{
	struct weir_redis_url u = parsed("redis://10.0.0.5");

	(void)state;
	assert_int_equal(u.kind, WEIR_REDIS_ONE);
	assert_int_equal(u.n_seed, 1);
	assert_string_equal(u.seed[0].host, "10.0.0.5");
	assert_int_equal(u.seed[0].port, 6379);
	assert_int_equal(u.db, 0);
	assert_false(u.tls);
	assert_null(u.user);
	assert_null(u.password);
	weir_redis_url_done(&u);
}

static void login_port_and_database(void **state)
{
	struct weir_redis_url u = parsed("rediss://weir:a%3Ab%2f@[2001:db8::1]:7000/5"), copy;
	char text[128];

	(void)state;
	assert_true(u.tls);
	assert_string_equal(u.user, "weir");
	assert_string_equal(u.password, "a:b/");
	assert_string_equal(u.seed[0].host, "2001:db8::1");
	assert_int_equal(u.seed[0].port, 7000);
	assert_int_equal(u.db, 5);
	assert_int_equal(weir_redis_url_copy(&u, &copy), 0);
	weir_redis_url_done(&u);
	assert_string_equal(copy.password, "a:b/");
	assert_string_equal(weir_redis_url_shown(&copy, text, sizeof(text)),
			    "rediss://[2001:db8::1]:7000/5");
	weir_redis_url_done(&copy);
	u = parsed("redis://:only@host");
	assert_null(u.user);
	assert_string_equal(u.password, "only");
	weir_redis_url_done(&u);
	u = parsed("redis://u:p/with@and/@host:1");
	assert_string_equal(u.password, "p/with@and/");
	assert_string_equal(u.seed[0].host, "host");
	weir_redis_url_done(&u);
}

static void sockets(void **state)
{
	struct weir_redis_url u = parsed("redis+unix:///run/redis/a%20b@c?db=2");
	char text[128];

	(void)state;
	assert_string_equal(u.unix_path, "/run/redis/a b@c");
	assert_int_equal(u.db, 2);
	assert_int_equal(u.n_seed, 0);
	assert_string_equal(weir_redis_url_shown(&u, text, sizeof(text)),
			    "redis+unix:///run/redis/a b@c?db=2");
	weir_redis_url_done(&u);
	u = parsed("redis+unix://weir:pw@/s");
	assert_string_equal(u.user, "weir");
	assert_string_equal(u.unix_path, "/s");
	weir_redis_url_done(&u);
}

static void several_servers(void **state)
{
	struct weir_redis_url u = parsed("redis+sentinel://a,b:1,[::1]:2/mymaster/3");
	char text[128];

	(void)state;
	assert_int_equal(u.kind, WEIR_REDIS_SENTINEL);
	assert_int_equal(u.n_seed, 3);
	assert_int_equal(u.seed[0].port, 26379);
	assert_int_equal(u.seed[2].port, 2);
	assert_string_equal(u.master, "mymaster");
	assert_int_equal(u.db, 3);
	assert_string_equal(weir_redis_url_shown(&u, text, sizeof(text)),
			    "redis+sentinel://a:26379,b:1,[::1]:2/mymaster/3");
	weir_redis_url_done(&u);
	u = parsed("rediss+cluster://x:y@a,b");
	assert_int_equal(u.kind, WEIR_REDIS_CLUSTER);
	assert_true(u.tls);
	assert_int_equal(u.n_seed, 2);
	assert_int_equal(u.seed[1].port, 6379);
	weir_redis_url_done(&u);
}

static void mistakes_have_sentences_without_the_password(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"http://u:hush@x", "no address of a store"},
		{"redis", "no address of a store"},
		{"REDIS://x", "no address of a store"},
		{"redis://u:hush@", "no name"},
		{"redis://u:hush@:6379", "no name"},
		{"redis://u:hush@x y", "blank"},
		{"redis://u:hush@[::1\n]", "blank"},
		{"redis://u:hush@x:0", "port"},
		{"redis://u:hush@x:65536", "port"},
		{"redis://u:hush@x:", "port"},
		{"redis://u:hush@x:99999999999999999999", "port"},
		{"redis://u:hush@2001:db8::1", "brackets"},
		{"redis://u:hush@[::1", "brackets"},
		{"redis://u:hush@[::1]x", "brackets"},
		{"redis://u:hush@a,b", "takes one server"},
		{"redis://u:hush@x/y", "database"},
		{"redis://u:hush@x/1/2", "database"},
		{"redis://u:hush@x?db=1", "? or #"},
		{"redis://u:hush@x/0?timeout=1", "? or #"},
		{"redis+sentinel://u:hush@x/m?db=1", "? or #"},
		{"redis://u:hush%@x", "no escape"},
		{"redis://u:hush%00@x", "no escape"},
		{"redis+sentinel://u:hush@x", "name of the master"},
		{"redis+sentinel://u:hush@x/", "name of the master"},
		{"redis+cluster://u:hush@x/1", "no databases"},
		{"redis+unix://u:hush@run/x", "whole path"},
		{"redis+unix:///x?hush=1", "?db=N"},
		{"redis://u:hush", "port"},
		{"redis://u:hu/sh", "port"},
		{"redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "more than 16"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct weir_redis_url u = {.db = 77};
		struct weir_error e = {};

		if (weir_redis_url_parse(bad[i].text, &u, &e) != -EINVAL)
			fail_msg("%s was taken", bad[i].text);
		if (!strstr(e.text, bad[i].says))
			fail_msg("%s: %s", bad[i].text, e.text);
		if (strstr(e.text, "hush") || strstr(e.text, "hu/"))
			fail_msg("the password is said: %s", e.text);
		assert_int_equal(u.db, 77); /* written only on success */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_and_its_defaults),
		cmocka_unit_test(login_port_and_database),
		cmocka_unit_test(sockets),
		cmocka_unit_test(several_servers),
		cmocka_unit_test(mistakes_have_sentences_without_the_password),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
