/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one listener is set to, from the configuration; see http_int.h. Called by http.c in the main thread. */
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#include "user/http/http_int.h"

#define TOKEN_MIN_BYTES 16
#define TOKEN_MAX_BYTES 4096

void weir_http_port_settings_free(struct weir_http_port_settings *s)
{
	if (!s)
		return;
	if (s->token)
		sodium_memzero(s->token, s->token_n);
	free(s->token);
	free(s->trusted);
	free(s->header_user);
	free(s->header_plan);
	free(s->header_cost);
	free(s);
}

static int read_token(const struct weir_conf_listener *c, struct weir_http_port_settings *s,
		      struct weir_error *e)
{
	char buf[TOKEN_MAX_BYTES + 1];
	_cleanup_close_ int fd = open(c->token_file, O_RDONLY | O_CLOEXEC);
	struct weir_text t = {.p = buf};
	ssize_t n = -1;

	if (fd >= 0)
		n = read(fd, buf, sizeof(buf));
	if (n < 0)
		return weir_error_set(e, -errno, "http.listeners: %s: token_file %s: %s", c->listen,
				      c->token_file, strerror(errno));
	t.n = (size_t)n;
	while (t.n && strchr(" \t\r\n", t.p[t.n - 1]))
		t.n--;
	t = weir_text_trim(t);
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= 0x20 || t.p[i] >= 0x7f)
			t.n = 0;
	if (n <= TOKEN_MAX_BYTES && t.n >= TOKEN_MIN_BYTES)
		s->token = malloc(t.n);
	if (s->token) {
		memcpy(s->token, t.p, t.n);
		s->token_n = t.n;
	}
	sodium_memzero(buf, sizeof(buf));
	if (n > TOKEN_MAX_BYTES || t.n < TOKEN_MIN_BYTES)
		return weir_error_set(
			e, -EINVAL,
			"http.listeners: %s: token_file %s must hold one line of %d to %d visible "
			"ASCII characters (openssl rand -hex 32 makes one)",
			c->listen, c->token_file, TOKEN_MIN_BYTES, TOKEN_MAX_BYTES);
	return s->token ? 0 : weir_error_set(e, -ENOMEM, "out of memory");
}

static void add_name(struct weir_http_port_settings *s, const char *name, enum weir_http_slot slot)
{
	if (name)
		s->names[s->n_names++] =
			(struct weir_http_name){.name = weir_text_of(name), .slot = slot};
}

/* Which header says what: the whole of a profile, beside its paths. */
static void add_names(struct weir_http_port_settings *s)
{
	add_name(s, "Content-Length", WEIR_HTTP_SLOT_LENGTH);
	add_name(s, "Transfer-Encoding", WEIR_HTTP_SLOT_ENCODING);
	if (s->profile == WEIR_PROFILE_JSON) {
		add_name(s, "Authorization", WEIR_HTTP_SLOT_AUTHORIZATION);
		return;
	}
	if (s->profile == WEIR_PROFILE_METRICS)
		return;
	add_name(s, "Host", WEIR_HTTP_SLOT_HOST);
	add_name(s, "X-Forwarded-For", WEIR_HTTP_SLOT_FOR);
	if (s->profile == WEIR_PROFILE_NGINX) {
		add_name(s, "X-Original-Method", WEIR_HTTP_SLOT_METHOD);
		add_name(s, "X-Original-URI", WEIR_HTTP_SLOT_TARGET);
	} else if (s->profile == WEIR_PROFILE_CADDY || s->profile == WEIR_PROFILE_TRAEFIK) {
		add_name(s, "X-Forwarded-Method", WEIR_HTTP_SLOT_METHOD);
		add_name(s, "X-Forwarded-Uri", WEIR_HTTP_SLOT_TARGET);
		add_name(s, "X-Forwarded-Host", WEIR_HTTP_SLOT_FORWARDED_HOST);
	}
	add_name(s, s->header_user, WEIR_HTTP_SLOT_USER);
	add_name(s, s->header_plan, WEIR_HTTP_SLOT_PLAN);
	add_name(s, s->header_cost, WEIR_HTTP_SLOT_COST);
}

static int copy_name(const char *from, char **ret)
{
	if (!from)
		return 0;
	*ret = strdup(from);
	return *ret ? 0 : -ENOMEM;
}

int weir_http_port_settings_new(const struct weir_conf_request *r,
				const struct weir_conf_listener *c,
				struct weir_http_port_settings **ret, struct weir_error *e)
{
	_cleanup_(weir_http_port_settings_freep) struct weir_http_port_settings *s =
		calloc(1, sizeof(*s));
	int err;

	if (!s)
		return weir_error_set(e, -ENOMEM, "out of memory");
	s->profile = c->profile;
	if (c->trusted.n) {
		s->trusted = malloc(c->trusted.n * sizeof(*s->trusted));
		if (!s->trusted)
			return weir_error_set(e, -ENOMEM, "out of memory");
		for (size_t i = 0; i < c->trusted.n; i++)
			s->trusted[i] = c->trusted.item[i];
		s->n_trusted = c->trusted.n;
	}
	if (copy_name(r->header_user, &s->header_user) < 0 ||
	    copy_name(r->header_plan, &s->header_plan) < 0 ||
	    copy_name(r->header_cost, &s->header_cost) < 0)
		return weir_error_set(e, -ENOMEM, "out of memory");
	if (c->profile == WEIR_PROFILE_JSON && c->token_file) {
		err = read_token(c, s, e);
		if (err < 0)
			return err;
	}
	if (c->profile == WEIR_PROFILE_JSON && !c->token_file && !c->unix_path)
		return weir_error_set(e, -EINVAL,
				      "http.listeners: %s: profile json needs token_file, or a "
				      "Unix socket: whoever can ask can spend any client's limits",
				      c->listen);
	add_names(s);
	*ret = TAKE_PTR(s);
	return 0;
}
