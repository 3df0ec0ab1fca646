/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arguments and replies of the script without a server: keys, slots, bounds, and replies that make no sense. */
#include "unit/request.h"

#include "user/redis/redis_int.h"

static void a_key_says_what_it_is(void **state)
{
	struct weir_store_limit l = request_limit("login", WEIR_REQUEST_SLIDING_LOG, 5, SEC);
	__u8 tag[3] = {0xff, 0xff, 0xff}, none[3] = {}, key[16] = {};
	char text[128];

	(void)state;
	memset(l.identity.byte, 0, sizeof(l.identity.byte));
	assert_int_equal(weir_redis_layer_key("weir:", &l, tag, key, text, sizeof(text)), 47);
	assert_string_equal(text, "weir:1:AAAAAAAAAAA:{____}AAAAAAAAAAAAAAAAAAAAAA");
	key[0] = 0xfb;
	(void)weir_redis_layer_key("w", &l, none, key, text, sizeof(text));
	assert_string_equal(text, "w1:AAAAAAAAAAA:{-wAA}-wAAAAAAAAAAAAAAAAAAAA");
	assert_int_equal(weir_redis_layer_key("weir:", &l, tag, key, text, 40), -ENAMETOOLONG);
}

static void slots_are_those_of_a_cluster(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_SLIDING_LOG, 5, SEC);
	struct weir_store_layer a = request_layer(&l, 1, 1), b = request_layer(&l, 2, 1);

	(void)state;
	assert_int_equal(weir_redis_slot("123456789", 9), 12739); /* of Redis' own specification */
	assert_int_equal(weir_redis_slot("foo", 3), 12182);
	assert_int_not_equal(weir_redis_layer_slot(&a), weir_redis_layer_slot(&b));
	a.tag[1] = b.tag[1] = 9; /* of one client */
	assert_int_equal(weir_redis_layer_slot(&a), weir_redis_layer_slot(&b));
}

static void a_key_is_stated_once(void **state)
{
	static struct weir_redis_pack p = {.prefix = "weir:"};
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_SLIDING_LOG, 5, SEC),
				m = request_limit("y", WEIR_REQUEST_TOKEN_BUCKET, 5, SEC);
	struct weir_store_layer y[2] = {request_layer(&l, 1, 1), request_layer(&m, 1, 1)};
	struct weir_store_request q = {.layer = y, .n = 2};
	struct weir_redis_text command = {};
	size_t at, n;

	(void)state;
	for (int round = 0; round < 3; round++) {
		weir_redis_pack_begin(&p);
		for (int i = 0; i < 10; i++)
			assert_int_equal(weir_redis_pack_add(&p, &q, 3, WEIR_REDIS_DECIDE), 0);
		assert_int_equal(p.n_keys, 2);
	}
	assert_int_equal(weir_redis_command("0123456789012345678901234567890123456789", p.n_keys,
					    p.keys.at, p.keys.n, 0, p.blob.at, p.blob.n, &command,
					    &at),
			 0);
	n = strlen("*7\r\n$7\r\nEVALSHA\r\n$40\r\n");
	assert_memory_equal(command.at, "*7\r\n$7\r\nEVALSHA\r\n$40\r\n", n);
	assert_memory_equal(command.at + at, p.keys.at, p.keys.n);
	free(command.at);
	weir_redis_pack_done(&p);
}

static void a_call_has_a_bound(void **state)
{
	static struct weir_redis_pack p = {.prefix = "weir:"};
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_SLIDING_LOG, 5, SEC);
	__u64 client = 0;

	(void)state;
	weir_redis_pack_begin(&p);
	for (; weir_redis_pack_has_room(&p) && client < 100000; client++) {
		struct weir_store_layer y = request_layer(&l, client, 1);
		struct weir_store_request q = {.layer = &y, .n = 1};

		assert_int_equal(weir_redis_pack_add(&p, &q, 1, WEIR_REDIS_DECIDE), 0);
		assert_int_equal(p.n_keys, client + 1);
	}
	assert_in_range(client, 100, WEIR_REDIS_KEYS_MAX);
	weir_redis_pack_done(&p);
}

static void numbers_that_a_double_cannot_hold_do_not_fit(void **state)
{
	struct weir_store_identity id = {};
	struct weir_store_limit l;

	(void)state;
	assert_int_equal(weir_store_limit_bucket(&id, 7, SEC, 1000000, &l), 0);
	assert_true(weir_redis_limit_fits(&l));
	assert_int_equal(weir_store_limit_bucket(&id, 1000000, DAY, 1000000, &l), 0);
	assert_true(weir_redis_limit_fits(&l)); /* divided by their common divisor */
	assert_int_equal(weir_store_limit_bucket(&id, 1, DAY, 1000000, &l), 0);
	assert_false(weir_redis_limit_fits(&l));
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_FIXED_WINDOW, 1ull << 52, SEC,
						 &l),
			 0);
	assert_false(weir_redis_limit_fits(&l));
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_FIXED_WINDOW, 1000000000, DAY,
						 &l),
			 0);
	assert_true(weir_redis_limit_fits(&l));
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_COUNTER, 1000000000, DAY,
						 &l),
			 0);
	assert_true(weir_redis_limit_fits(&l));
	assert_int_equal(weir_store_limit_window(&id, WEIR_REQUEST_SLIDING_COUNTER, 1, 1ull << 51,
						 &l),
			 0);
	assert_false(weir_redis_limit_fits(&l));
}

/* Whatever the bytes are: an error or answers, never a read beyond them. */
static void replies_of_any_bytes_are_harmless(void **state)
{
	struct weir_store_limit l = request_limit("x", WEIR_REQUEST_LEAKY_BUCKET, 5, SEC);
	struct weir_store_layer y[3] = {request_layer(&l, 1, 1), request_layer(&l, 2, 1),
					request_layer(&l, 3, 1)};
	struct weir_store_request q = {.layer = y, .n = 3};
	static struct weir_redis_pack p = {.prefix = "weir:"};
	struct weir_redis_text late = {};
	__u64 seed = 9, live;
	bool admitted;

	(void)state;
	weir_redis_pack_begin(&p);
	assert_int_equal(weir_redis_pack_add(&p, &q, 7, WEIR_REDIS_DECIDE), 0);
	for (int round = 0; round < 200000; round++) {
		size_t n = below(&seed, 160);
		unsigned char *bytes = malloc(n ? n : 1); /* so that a sanitizer sees its end */
		struct weir_redis_answers a;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (unsigned char)(below(&seed, 4) ? below(&seed, 16)
								   : below(&seed, 256));
		if (weir_redis_answers_open(bytes, n, &a) >= 0) {
			struct weir_redis_answers b = a;

			(void)weir_redis_answers_next(&a, &q, 7, WEIR_REDIS_DECIDE, &admitted,
						      &live);
			late.n = 0;
			(void)weir_redis_give_back((unsigned char *)p.blob.at, p.blob.n, &b, &late);
		}
		free(bytes);
	}
	free(late.at);
	weir_redis_pack_done(&p);
}

static void an_error_in_a_script_is_read_as_the_commands(void **state)
{
#define RUNNING "ERR Error running script (call to f_577f5f2f69cfbe38ff14057089675503041eb2fc): "
	static const struct {
		const char *said, *meant;
	} rows[] = {
		{RUNNING "@user_script:686: @user_script: 686: -OOM command not allowed when used "
			 "memory > 'maxmemory'.",
		 "OOM command not allowed when used memory > 'maxmemory'."},
		{RUNNING "@user_script:391: ERR Invalid stream ID", "ERR Invalid stream ID"},
		{RUNNING "@user_script:1: -READONLY You can't", "READONLY You can't"},
		/* what is Lua's own, and what 7.0 says, stays */
		{RUNNING "@user_script:1: attempt to index a nil value", NULL},
		{RUNNING "@user_script:1: @user_script: 1: -", NULL},
		{RUNNING "@user_script:1", NULL},
		{RUNNING, NULL},
		{"ERR Error running script", NULL},
		{"OOM command not allowed when used memory > 'maxmemory'. script: 577f, on "
		 "@user_script:686.",
		 NULL},
		{"NOSCRIPT No matching script. Please use EVALSHA.", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *meant = rows[i].meant ? rows[i].meant : rows[i].said;
		char *text = strdup(rows[i].said);

		assert_non_null(text);
		assert_int_equal(weir_redis_error_unwrap(text, strlen(text)), strlen(meant));
		assert_string_equal(text, meant);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_says_what_it_is),
		cmocka_unit_test(slots_are_those_of_a_cluster),
		cmocka_unit_test(a_key_is_stated_once),
		cmocka_unit_test(a_call_has_a_bound),
		cmocka_unit_test(numbers_that_a_double_cannot_hold_do_not_fit),
		cmocka_unit_test(replies_of_any_bytes_are_harmless),
		cmocka_unit_test(an_error_in_a_script_is_read_as_the_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
