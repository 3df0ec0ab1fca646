/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many agents, each a process with a store of its own, on one real server: what is admitted is exactly the limit. As a
 * contrast, the same race by GET and INCR, as many limiters have it.
 */
#include "redis/fixture.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define AGENTS 5

/* What the processes tell; shared memory. */
struct shared {
	unsigned ready, go, admitted, failed, refused;
};

struct agent {
	struct fix f;
	struct shared *shared;
	unsigned number, asks, at_once, layers;
	struct weir_store_limit limit[2];
	struct ask *a;
	unsigned begun, ended;
};

static void agent_next(struct agent *g, struct ask *a);

static void agent_done(struct weir_store_request *q, int r, void *data)
{
	struct ask *a = data;
	struct agent *g = a->owner;

	__atomic_add_fetch(r < 0	 ? &g->shared->failed
			   : q->admitted ? &g->shared->admitted
					 : &g->shared->refused,
			   1, __ATOMIC_RELAXED);
	g->ended++;
	if (g->begun < g->asks)
		agent_next(g, a);
}

static void agent_next(struct agent *g, struct ask *a)
{
	g->begun++;
	a->owner = g;
	for (unsigned i = 0; i < g->layers; i++)
		a->y[i] = request_layer(&g->limit[i], 1, 1);
	a->q = (struct weir_store_request){.layer = a->y,
					   .n = g->layers,
					   /* clocks half a minute apart change nothing */
					   .now_us = EPOCH + g->number * 15 * SEC};
	g->f.s->ops->decide(g->f.s, &a->q, agent_done, a);
}

static int agent_run(struct agent *g)
{
	struct weir_far_stats s;

	fix_options(&g->f);
	g->f.o.timeout_ns = 20000 * MS;
	g->f.o.batch_max = 1 + g->number * 7; /* with and without coalescing */
	fix_store(&g->f);
	g->a = calloc(g->at_once, sizeof(*g->a));
	if (!g->a || !fix_wait(&g->f, (weir_store_far_stats(g->f.s, &s), s.server[0]), 10000))
		return 1;
	__atomic_add_fetch(&g->shared->ready, 1, __ATOMIC_RELAXED);
	if (!wait_for(__atomic_load_n(&g->shared->go, __ATOMIC_ACQUIRE), 10000))
		return 1;
	for (unsigned i = 0; i < g->at_once && g->begun < g->asks; i++)
		agent_next(g, &g->a[i]);
	if (!fix_wait(&g->f, g->ended == g->asks, 60000))
		return 1;
	weir_store_free(g->f.s);
	event_base_free(g->f.base);
	free(g->a);
	return 0;
}

static void race(struct fix *f, struct agent *model, unsigned agents, struct shared *shared)
{
	pid_t pid[64];
	int status;

	memset(shared, 0, sizeof(*shared));
	for (unsigned i = 0; i < agents; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (!pid[i]) {
			struct agent g = *model;

			g.f.r = f->r;
			g.number = i;
			g.shared = shared;
			_exit(agent_run(&g));
		}
	}
	assert_true(wait_for(__atomic_load_n(&shared->ready, __ATOMIC_RELAXED) == agents, 20000));
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < agents; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(shared->failed, 0);
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	*state = f;
	fix_options(f);
	return redis_start(&f->r, NULL);
}

static int teardown(void **state)
{
	struct fix *f = *state;

	fix_done(f);
	free(f);
	return 0;
}

static struct shared *shared_new(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void exactly_100_of_200_three_times_of_three(void **state)
{
	struct shared *shared = shared_new();
	struct fix *f = *state;

	for (int a = 0; a < WEIR_REQUEST_ALGORITHM_MAX; a++)
		for (int time = 0; time < 3; time++) {
			struct agent model = {.asks = 200 / AGENTS,
					      .at_once = 200 / AGENTS,
					      .layers = 1};
			char name[32];

			(void)snprintf(name, sizeof(name), "race%d", time);
			model.limit[0] =
				request_limit(name, (enum weir_request_algorithm)a, 100, DAY);
			race(f, &model, AGENTS, shared);
			assert_int_equal(shared->admitted, 100);
			assert_int_equal(shared->refused, 100);
		}
	(void)munmap(shared, 4096);
}

static void two_layers_of_500_admit_500_and_charge_500(void **state)
{
	struct agent model = {.asks = 1000, .at_once = 16, .layers = 2};
	struct shared *shared = shared_new();
	struct fix *f = *state;
	struct ask a = {};

	model.limit[0] = request_limit("narrow", WEIR_REQUEST_SLIDING_COUNTER, 500, DAY);
	model.limit[1] = request_limit("broad", WEIR_REQUEST_FIXED_WINDOW, 2000, DAY);
	race(f, &model, 32, shared);
	assert_int_equal(shared->admitted, 500);
	assert_int_equal(shared->refused, 31500);
	fix_store(f);
	a.y[0] = request_layer(&model.limit[1], 1, 0);
	ask_start(f, &a, 1);
	assert_true(fix_wait(f, a.r != 1, 5000));
	assert_int_equal(a.y[0].answer.remaining, 1500);
	(void)munmap(shared, 4096);
}

/* What a limiter does that reads, decides and then counts. */
static int naive(struct fix *f, struct shared *shared, unsigned asks)
{
	redisContext *c = redis_open(&f->r);
	redisReply *reply;
	long long n;

	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_RELAXED);
	if (!wait_for(__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE), 10000))
		return 1;
	for (unsigned i = 0; i < asks; i++) {
		reply = redis_do(c, "GET naive");
		n = reply->type == REDIS_REPLY_STRING ? reply->str[0] - '0' : 0;
		for (const char *at = reply->type == REDIS_REPLY_STRING ? reply->str + 1 : ""; *at;
		     at++)
			n = n * 10 + (*at - '0');
		freeReplyObject(reply);
		if (n >= 100)
			continue;
		(void)redis_int(c, "INCR naive");
		__atomic_add_fetch(&shared->admitted, 1, __ATOMIC_RELAXED);
	}
	redisFree(c);
	return 0;
}

static void get_then_incr_admits_more(void **state)
{
	struct shared *shared = shared_new();
	struct fix *f = *state;
	unsigned most = 0;
	int status;

	for (int time = 0; time < 50 && most <= 100; time++) {
		pid_t pid[AGENTS];
		redisContext *c = redis_open(&f->r);

		(void)redis_int(c, "DEL naive");
		redisFree(c);
		memset(shared, 0, sizeof(*shared));
		for (unsigned i = 0; i < AGENTS; i++) {
			pid[i] = fork();
			if (!pid[i])
				_exit(naive(f, shared, 200));
		}
		(void)wait_for(__atomic_load_n(&shared->ready, __ATOMIC_RELAXED) == AGENTS, 20000);
		__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
		for (unsigned i = 0; i < AGENTS; i++)
			assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		if (shared->admitted > most)
			most = shared->admitted;
	}
	print_message("GET then INCR admitted %u of 100\n", most);
	assert_true(most > 100);
	(void)munmap(shared, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exactly_100_of_200_three_times_of_three, setup,
						teardown),
		cmocka_unit_test_setup_teardown(two_layers_of_500_admit_500_and_charge_500, setup,
						teardown),
		cmocka_unit_test_setup_teardown(get_then_incr_admits_more, setup, teardown),
	};

	if (redis_is_missing())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
