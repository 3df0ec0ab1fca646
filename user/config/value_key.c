/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readers of what requests are counted by, and of where an API key stands; see value.h. */
#include <string.h>

#include "user/base/str.h"
#include "user/config/request.h"
#include "user/config/value.h"

static bool same_part(const struct weir_key_part *a, const struct weir_key_part *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0;
}

static int read_part(const struct weir_target *t, const yaml_node_t *n, struct weir_key_part *ret)
{
	const char *text = weir_value_scalar(t, n);
	struct weir_error e = {""};

	if (!text)
		return -EINVAL;
	if (weir_key_part_parse(text, ret, &e) == 0)
		return 0;
	weir_reader_error(t->r, n, "%s: %s%s", weir_value_key(t), e.text,
			  strstr(e.text, "is no part") && !strstr(e.text, "did you mean")
				  ? " (ip, user, api-key, token, user-agent, endpoint, method, "
				    "path, host, global, header:NAME, cookie:NAME, query:NAME)"
				  : "");
	return -EINVAL;
}

/* ip, or [ip, endpoint]: joined. */
static int read_choice(const struct weir_target *t, const yaml_node_t *n,
		       struct weir_key_choice *ret)
{
	const yaml_node_t *list = weir_value_list(t, n, WEIR_KEY_PARTS_MAX);
	struct weir_key_choice c = {.n = 0};
	int r = list ? 0 : -EINVAL;

	if (list && weir_value_count(list) == 0) {
		weir_reader_error(t->r, n, "%s: nothing in it (for example ip)", weir_value_key(t));
		return -EINVAL;
	}
	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *item = weir_value_item(t, list, i);
		struct weir_key_part *p = &c.part[c.n];
		char buf[WEIR_SHOWN_MAX];

		if (read_part(t, item, p) < 0) {
			r = -EINVAL;
			continue;
		}
		for (size_t k = 0; k < c.n; k++) {
			if (!same_part(&c.part[k], p))
				continue;
			weir_reader_error(t->r, item, "%s: %s is there twice", weir_value_key(t),
					  weir_value_shown(item, buf));
			r = -EINVAL;
			break;
		}
		c.n++;
	}
	if (r == 0 && c.n > 1 && weir_choice_has(&c, WEIR_KEY_GLOBAL)) {
		weir_reader_error(t->r, n, "%s: global adds nothing to others (leave it out)",
				  weir_value_key(t));
		r = -EINVAL;
	}
	if (r == 0)
		*ret = c;
	return r;
}

int weir_value_key_choices(const struct weir_target *t)
{
	struct weir_key_spec *key = (struct weir_key_spec *)t->to;
	const yaml_node_t *list = weir_value_list(t, t->node, WEIR_KEY_CHOICES_MAX);
	size_t n = list ? weir_value_count(list) : 0;
	int r = list ? 0 : -EINVAL;

	if (list && n == 0) {
		weir_reader_error(t->r, list, "%s: nothing in it (for example [api-key, ip])",
				  weir_value_key(t));
		return -EINVAL;
	}
	key->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (read_choice(t, weir_value_item(t, list, i), &key->choice[key->n]) < 0)
			r = -EINVAL;
		else
			key->n++;
	}
	return r;
}

int weir_value_key_spec(const struct weir_target *t)
{
	struct weir_conf_request_limit *l = t->base;
	size_t before = t->r->problems->n_errors;
	int r;

	l->new_per_ip = (struct weir_conf_rate){.count = 0};
	l->key.n = 0;
	if (t->node->type != YAML_MAPPING_NODE) {
		r = read_choice(t, t->node, &l->key.choice[0]);
		l->key.n = r == 0;
		return r;
	}
	r = weir_group_read(t->r, t->s->path, t->node, l);
	if (r < 0 || t->r->problems->n_errors > before)
		return r < 0 ? r : -EINVAL;
	if (l->key.n)
		return 0;
	weir_reader_error(t->r, t->node, "%s: any is missing (for example {any: [api-key, ip]})",
			  weir_value_key(t));
	return -EINVAL;
}

/* "header X-API-Key" */
static int read_place(const struct weir_target *t, const yaml_node_t *n, struct weir_key_part *ret)
{
	const char *text = weir_value_scalar(t, n), *name;
	char part[16 + WEIR_KEY_NAME_MAX], buf[WEIR_SHOWN_MAX];
	struct weir_error e = {""};
	size_t len;

	if (!text)
		return -EINVAL;
	len = strcspn(text, " ");
	name = text + len + strspn(text + len, " ");
	if (!((len == 6 && memcmp(text, "header", 6) == 0) ||
	      (len == 6 && memcmp(text, "cookie", 6) == 0) ||
	      (len == 5 && memcmp(text, "query", 5) == 0)) ||
	    !*name) {
		weir_reader_error(t->r, n,
				  "%s: \"%s\" is no place (header NAME, query NAME or cookie NAME)",
				  weir_value_key(t), weir_value_shown(n, buf));
		return -EINVAL;
	}
	if (strlen(name) >= WEIR_KEY_NAME_MAX) {
		weir_reader_error(t->r, n, "%s: a name of more than %d characters",
				  weir_value_key(t), WEIR_KEY_NAME_MAX - 1);
		return -EINVAL;
	}
	(void)snprintf(part, sizeof(part), "%.*s:%s", (int)len, text, name); /* it fits */
	if (weir_key_part_parse(part, ret, &e) == 0)
		return 0;
	weir_reader_error(t->r, n, "%s: %s", weir_value_key(t), e.text);
	return -EINVAL;
}

int weir_value_api_key(const struct weir_target *t)
{
	struct weir_conf_request *q = &((struct weir_conf *)t->base)->request;
	const yaml_node_t *list = weir_value_list(t, t->node, ARRAY_LEN(q->api_key));
	int r = list ? 0 : -EINVAL;

	if (list && weir_value_count(list) == 0) {
		weir_reader_error(t->r, list, "%s: nothing in it (for example header X-API-Key)",
				  weir_value_key(t));
		return -EINVAL;
	}
	q->n_api_key = 0; /* what stands here replaces the default */
	for (size_t i = 0; list && i < weir_value_count(list); i++) {
		const yaml_node_t *n = weir_value_item(t, list, i);
		struct weir_key_part *p = &q->api_key[q->n_api_key];
		char buf[WEIR_SHOWN_MAX];
		bool twice = false;

		if (read_place(t, n, p) < 0) {
			r = -EINVAL;
			continue;
		}
		for (size_t k = 0; k < q->n_api_key; k++)
			twice |= same_part(&q->api_key[k], p);
		if (twice) {
			weir_reader_error(t->r, n, "%s: %s is there twice", weir_value_key(t),
					  weir_value_shown(n, buf));
			r = -EINVAL;
			continue;
		}
		q->n_api_key++;
	}
	return r;
}
