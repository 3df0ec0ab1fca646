/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of a client by command: shown, and forgotten. */
#include "engine_case.h"

struct seen {
	char text[2048];
};

static void on_view(void *arg, const struct weir_l7_view *v)
{
	struct seen *s = arg;

	(void)snprintf(s->text + strlen(s->text), sizeof(s->text) - strlen(s->text),
		       "%s (%s): %llu of %llu\n", v->limit, v->key, v->state->remaining,
		       v->state->limit);
}

#define LIMITS                                                                                     \
	"http: {api_key: [header X-API-Key, query key]}\n"                                         \
	"request_limits:\n"                                                                        \
	"  - {name: a, key: ip, algorithm: fixed-window, limit: 9, window: 60s}\n"                 \
	"  - {name: login, key: [ip, endpoint], match: {method: POST, path: [/in, /out/*]}, "      \
	"algorithm: sliding-window-log, limit: 3, window: 60s}\n"                                  \
	"  - {name: api, key: {any: [api-key, [ip, user-agent]]}, missing: ip, algorithm: "        \
	"sliding-window-counter, limit: 8, window: 60s}\n"                                         \
	"  - {name: all, key: global, rate: 1/h, burst: 50}\n"

static void the_state_of_one_client_is_shown(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LIMITS);
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip};
	struct seen s = {""};

	(void)state;
	assert_int_equal(PASSING(e, 2, .target = "/in", .method = "POST"), 2);
	assert_int_equal(ASK(e, .target = "/x?key=k1"), WEIR_ANSWER_ALLOW);
	assert_int_equal(weir_l7_inspect(e->w, &who, NULL, on_view, &s), 0);
	assert_string_equal(s.text, "a (ip): 6 of 9\n"
				    "login (ip, endpoint POST /in): 1 of 3\n"
				    "login (ip, endpoint POST /out/*): 3 of 3\n"
				    "api (ip): 6 of 8\n"
				    "all (global): 47 of 50\n");
	s.text[0] = '\0';
	who = (struct weir_l7_who){.api_key = weir_text_of("k1")};
	assert_int_equal(weir_l7_inspect(e->w, &who, "api", on_view, &s), 0);
	assert_string_equal(s.text, "api (api-key): 7 of 8\n");
	assert_int_equal(weir_l7_inspect(e->w, &who, "none", on_view, &s), -ENOENT);
}

static void a_reset_forgets_one_client_or_all(void **state)
{
	_cleanup_(engine_freep) struct engine *e = engine_of(LIMITS);
	struct weir_prefix ip = {.family = 4, .len = 32, .addr = {.ip = {198, 51, 100, 1}}};
	struct weir_l7_who who = {.ip = &ip}, key = {.api_key = weir_text_of("k1")};
	struct weir_error error = {""};
	size_t n = 99;

	(void)state;
	assert_int_equal(PASSING(e, 5, .target = "/in", .method = "POST"), 3);
	assert_int_equal(PASSING(e, 1, .target = "/in", .method = "POST", .ip = "192.0.2.1"), 1);
	assert_int_equal(weir_l7_reset(e->w, "login", &who, &n, &error), 0);
	assert_int_equal(n, 1);
	assert_int_equal(PASSING(e, 5, .target = "/in", .method = "POST"), 3);
	assert_int_equal(weir_l7_reset(e->w, "login", &key, &n, &error), -EINVAL);
	assert_non_null(strstr(error.text, "ip+endpoint"));
	assert_int_equal(weir_l7_reset(e->w, "none", &key, &n, &error), -ENOENT);
	assert_int_equal(weir_l7_reset(e->w, "all", &who, &n, &error), -EINVAL);
	assert_non_null(
		strstr(error.text, "key is global (everybody's: reset it without a client)"));
	/* all of a limit, and of no other; again and again */
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(weir_l7_reset(e->w, "login", NULL, &n, &error), 0);
		assert_int_equal(ASK(e, .target = "/in", .method = "POST", .ip = "192.0.2.1"),
				 WEIR_ANSWER_ALLOW);
		assert_int_equal(engine_limit(e, "login")->remaining, 2);
		assert_int_equal(engine_limit(e, "a")->remaining, 7 - i);
	}
	/* a reload does not bring the old counts back */
	engine_configure(e, LIMITS);
	assert_int_equal(ASK(e, .target = "/in", .method = "POST", .ip = "192.0.2.1"),
			 WEIR_ANSWER_ALLOW);
	assert_int_equal(engine_limit(e, "login")->remaining, 1);
	assert_int_equal(weir_l7_reset(e->w, NULL, &who, &n, &error), 0);
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_state_of_one_client_is_shown),
		cmocka_unit_test(a_reset_forgets_one_client_or_all),
	};

	return cmocka_run_group_tests_name("engine_inspect", tests, NULL, NULL);
}
