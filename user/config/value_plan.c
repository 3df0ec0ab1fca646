/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of a request limit's numbers: rates, amounts and times, of which each may differ by plan; and of its cost.
 * See value.h.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/value.h"

#define SECOND_NS 1000000000ull
#define YEAR_NS	  (366 * 86400 * SECOND_NS)

/* "10/s", "100/m", "0.5/s", "20 per 60s". -EDOM: bytes. */
static int parse_rate(const char *text, struct weir_conf_rate *ret)
{
	const char *per = strstr(text, " per ");
	struct weir_rate rate = {.amount = 0};
	char count[32];
	int r;

	if (!per) {
		r = weir_str_rate(text, &rate);
	} else {
		size_t n = (size_t)(per - text);

		if (n >= sizeof(count))
			return -EINVAL;
		memcpy(count, text, n);
		count[n] = '\0';
		r = weir_str_amount(count, &rate.amount, &rate.bytes);
		if (r == 0)
			r = weir_str_duration_ns(per + 5, &rate.per_ns);
		if (r == 0 && rate.per_ns == 0)
			r = -ERANGE;
	}
	if (r == 0 && rate.bytes)
		r = -EDOM;
	if (r == 0)
		*ret = (struct weir_conf_rate){rate.amount, rate.per_ns};
	return r;
}

/* At least one a year, at most a billion a second. Of events at most @max in at most a day, and what a bucket that holds
 * all of them counts exactly.
 */
static bool rate_in_range(const struct weir_target *t, const struct weir_conf_rate *rate)
{
	struct weir_conf_request_limit l = {.rate = {*rate}, .burst = {rate->count}};
	struct weir_store_limit s;

	if (t->s->kind == WEIR_KIND_REQUEST_RATE)
		return rate->count <= t->s->max && rate->per_ns <= 86400 * SECOND_NS &&
		       rate->per_ns >= 1000000 && weir_conf_store_limit(&l, 0, 0, &s) == 0;
	return (unsigned __int128)rate->count * SECOND_NS <=
		       (unsigned __int128)rate->per_ns * 1000000000ull &&
	       (unsigned __int128)rate->count * YEAR_NS >= rate->per_ns;
}

static int read_rate(const struct weir_target *t, const yaml_node_t *n, void *ret)
{
	const char *text = weir_value_scalar(t, n);
	struct weir_conf_rate rate;
	char buf[WEIR_SHOWN_MAX];
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	weir_value_shown(n, buf);
	r = parse_rate(text, &rate);
	if (r == -EDOM)
		weir_reader_error(t->r, n, "%s: %s counts bytes (requests: 10/s, 20 per 60s)",
				  weir_value_key(t), buf);
	else if (r == -EINVAL && weir_str_u64(text, ~0ull, &v) == 0)
		weir_reader_error(
			t->r, n,
			"%s: %s says how many, but not in what time (for example %s/s, %s per 60s)",
			weir_value_key(t), buf, buf, buf);
	else if (r == -EINVAL)
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is not a rate (for example 10/s, 100/m, 20 per 60s)",
				  weir_value_key(t), buf);
	else if (r == 0 && rate.count == 0)
		weir_reader_error(t->r, n, "%s: %s admits nothing (1 or more)", weir_value_key(t),
				  buf);
	else if (r < 0 || !rate_in_range(t, &rate))
		weir_reader_error(
			t->r, n, "%s: %s is out of range (%s)", weir_value_key(t), buf,
			t->s->kind == WEIR_KIND_REQUEST_RATE
				? "1 to 1000000, in 1ms to 1d, that can be counted exactly"
				: "from 1/366d to 1000000000/s");
	else {
		*(struct weir_conf_rate *)ret = rate;
		return 0;
	}
	return -EINVAL;
}

static int read_number(const struct weir_target *t, const yaml_node_t *n, void *ret)
{
	const char *text = weir_value_scalar(t, n);
	char buf[WEIR_SHOWN_MAX];
	bool bytes = false;
	__u64 v;
	int r;

	if (!text)
		return -EINVAL;
	weir_value_shown(n, buf);
	r = weir_str_amount(text, &v, &bytes);
	if (r == 0 && bytes)
		weir_reader_error(t->r, n, "%s: %s counts bytes (a number of requests)",
				  weir_value_key(t), buf);
	else if (r == -EINVAL)
		weir_reader_error(t->r, n, "%s: \"%s\" is not a number (for example 60, 10k)",
				  weir_value_key(t), buf);
	else if (r == 0 && v == 0 && t->s->min)
		weir_reader_error(t->r, n, "%s: 0 %s (1 or more)", weir_value_key(t),
				  t->s->kind == WEIR_KIND_COST ? "limits nothing"
							       : "admits nothing");
	else if (r < 0 || v > t->s->max)
		weir_reader_error(t->r, n, "%s: %s is out of range (%llu to %llu)",
				  weir_value_key(t), buf, t->s->min, t->s->max);
	else {
		*(__u64 *)ret = v;
		return 0;
	}
	return -EINVAL;
}

static int read_duration(const struct weir_target *t, const yaml_node_t *n, void *ret)
{
	char buf[WEIR_SHOWN_MAX];
	__u64 ns;
	int r = weir_value_duration_of(t, n, &ns);

	if (r < 0)
		return r;
	if (ns % 1000) {
		weir_reader_error(t->r, n, "%s: %s is no whole number of microseconds",
				  weir_value_key(t), weir_value_shown(n, buf));
		return -EINVAL;
	}
	*(__u64 *)ret = ns;
	return 0;
}

/* --- by plan ---- */

typedef int read_fn(const struct weir_target *t, const yaml_node_t *n, void *ret);

/* The plan a key names; -EINVAL and the mistake said. */
static int find_plan(const struct weir_target *t, const yaml_node_t *key)
{
	const struct weir_conf_request *q = &t->r->conf->request;
	const char *names[WEIR_PLANS_MAX] = {0}, *near, *text;
	char buf[WEIR_SHOWN_MAX];

	text = weir_value_scalar(t, key);
	if (!text)
		return -EINVAL;
	for (size_t i = 0; i < q->n_plan; i++) {
		names[i] = q->plan[i];
		if (strcmp(text, names[i]) == 0)
			return (int)i;
	}
	near = weir_str_closest(text, names, q->n_plan);
	if (weir_reader_top_wrong(t->r, "", "plans"))
		return -EINVAL; /* that is said where they stand */
	if (near)
		weir_reader_error(t->r, key, "%s: no plan is called \"%s\" (did you mean \"%s\"?)",
				  weir_value_key(t), weir_value_shown(key, buf), near);
	else
		weir_reader_error(t->r, key, "%s: no plan is called \"%s\" (plans has them)",
				  weir_value_key(t), weir_value_shown(key, buf));
	return -EINVAL;
}

/* One value for all, or a group with one for each plan; into an array of WEIR_PLANS_MAX values of @size bytes. */
static int read_by_plan(const struct weir_target *t, size_t size, read_fn *read)
{
	unsigned char all[WEIR_PLANS_MAX * sizeof(struct weir_conf_rate)] = {0};
	const struct weir_conf_request *q = t->r->conf ? &t->r->conf->request : NULL;
	const yaml_node_t *map = t->node;
	bool seen[WEIR_PLANS_MAX] = {false};
	size_t before = t->r->problems->n_errors;
	int r = 0;

	if (map->type != YAML_MAPPING_NODE) {
		r = read(t, map, all);
		for (size_t i = 0; i < WEIR_PLANS_MAX && r == 0; i++)
			memcpy(t->to + i * size, all, size);
		return r;
	}
	if (!q || (!q->n_plan && !weir_reader_top_wrong(t->r, "", "plans"))) {
		weir_reader_error(t->r, map,
				  "%s: by plan, but there are no plans (plans: [free, pro])",
				  weir_value_key(t));
		return -EINVAL;
	}
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = yaml_document_get_node(t->r->doc, p->key);
		const yaml_node_t *value = yaml_document_get_node(t->r->doc, p->value);
		int plan = find_plan(t, key);

		if (plan >= 0 && seen[plan]) {
			weir_reader_error(t->r, key, "%s: %s is there twice", weir_value_key(t),
					  q->plan[plan]);
			plan = -EINVAL;
		}
		if (plan >= 0) {
			seen[plan] = true;
			r = read(t, value, all + (size_t)plan * size);
			if (r == -ENOMEM)
				return r;
		}
	}
	for (size_t i = 0; i < q->n_plan; i++)
		if (!seen[i])
			weir_reader_error(t->r, map, "%s: nothing for plan %s (each plan needs it)",
					  weir_value_key(t), q->plan[i]);
	if (t->r->problems->n_errors > before || weir_reader_top_wrong(t->r, "", "plans"))
		return -EINVAL;
	memcpy(t->to, all, WEIR_PLANS_MAX * size);
	return 0;
}

int weir_value_request_rate(const struct weir_target *t)
{
	struct weir_conf_rate rate;
	int r = read_rate(t, t->node, &rate);

	if (r == 0)
		memcpy(t->to, &rate, sizeof(rate));
	return r;
}

int weir_value_plan_rate(const struct weir_target *t)
{
	return read_by_plan(t, sizeof(struct weir_conf_rate), read_rate);
}

int weir_value_plan_number(const struct weir_target *t)
{
	return read_by_plan(t, sizeof(__u64), read_number);
}

int weir_value_plan_duration(const struct weir_target *t)
{
	return read_by_plan(t, sizeof(__u64), read_duration);
}

int weir_value_cost(const struct weir_target *t)
{
	struct weir_conf_cost *cost = (struct weir_conf_cost *)t->to;
	size_t before = t->r->problems->n_errors;
	__u64 fixed;
	int r;

	((struct weir_conf_request_limit *)t->base)->given &= (__u16)~WEIR_REQUEST_GIVEN_COST_MAX;
	if (t->node->type != YAML_MAPPING_NODE) {
		r = read_number(t, t->node, &fixed);
		if (r == 0)
			*cost = (struct weir_conf_cost){.fixed = fixed, .min = 1};
		return r;
	}
	*cost = (struct weir_conf_cost){.fixed = 1, .min = 1};
	r = weir_group_read(t->r, t->s->path, t->node, t->base);
	if (r < 0 || t->r->problems->n_errors > before)
		return r < 0 ? r : -EINVAL;
	if (cost->from_proxy)
		return 0;
	weir_reader_error(t->r, t->node,
			  "%s: from where? (a number, or {from: proxy, min: 1, max: 50})",
			  weir_value_key(t));
	return -EINVAL;
}
