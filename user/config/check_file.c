/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the settings of a whole file mean together, packet layer first: mostly what is allowed but rarely meant. Called
 * once all of it is read.
 */
#include <string.h>

#include "user/base/str.h"
#include "user/config/schema.h"

static void warn_at(const struct weir_reader *r, int line, const char *text)
{
	weir_problems_add(r->problems, true, NULL, line, 0, "%s", text);
}

/* allow beats block: what is blocked inside an allowed prefix never is. */
static void warn_overlap(const struct weir_reader *r, const struct weir_conf *c)
{
	char a[WEIR_PREFIX_STRLEN], b[WEIR_PREFIX_STRLEN];

	if (c->allow.n * c->block.n > 1000000)
		return; /* a help for people who write lists by hand */
	for (size_t i = 0; i < c->block.n; i++) {
		for (size_t j = 0; j < c->allow.n; j++) {
			if (!weir_prefix_contains(&c->allow.item[j], &c->block.item[i]))
				continue;
			weir_problems_add(r->problems, true, NULL, c->block.line[i], 0,
					  "block: %s is inside the allowed %s (line %d), and allow "
					  "wins: it is not blocked",
					  weir_prefix_format(&c->block.item[i], b),
					  weir_prefix_format(&c->allow.item[j], a),
					  c->allow.line[j]);
			break;
		}
	}
}

/* block_for on connection attempts is what people want, but those too can be forged. */
static void warn_forged_syn(const struct weir_reader *r, const struct weir_conf *c)
{
	const __u8 syn = 1u << 1, ack = 1u << 4;

	if (c->never_block.n)
		return;
	for (size_t i = 0; i < c->n_limits; i++) {
		const struct weir_conf_limit *l = &c->limits[i];

		if ((l->block_for_ns || l->scope == WEIR_SCOPE_FLEET) &&
		    (l->match.tcp_flags_set & (syn | ack)) == syn)
			weir_problems_add(
				r->problems, true, NULL, l->line, 0,
				"limit \"%s\": %s on SYN packets, which can be sent in somebody "
				"else's name (list under lists.never_block who must get through)",
				l->name, l->block_for_ns ? "block_for" : "scope: fleet");
	}
}

/* Whether packets reach weir at all; without packet limits the request layer needs no interface. */
static void warn_interfaces(const struct weir_reader *r, const struct weir_conf *c)
{
	bool packets = c->n_limits || c->block.n || c->n_block_files;

	if (c->n_interfaces || c->attach == WEIR_ATTACH_EXTERNAL)
		return;
	if (packets && c->request.n_listener)
		weir_reader_warn(r, weir_reader_at(r, "", "interfaces"),
				 "interfaces: none is named, so no packet is limited or blocked "
				 "(unless -i names one)");
	else if (!c->request.n_listener)
		weir_reader_warn(
			r, weir_reader_at(r, "", "interfaces"),
			"interfaces: none is named, so nothing is protected (unless -i names one)");
}

static void warn(struct weir_reader *r, const struct weir_conf *c)
{
	char text[160], prefix[WEIR_PREFIX_STRLEN];

	for (size_t i = 0; i < c->allow.n; i++) {
		if (c->allow.item[i].len)
			continue;
		(void)snprintf(text, sizeof(text),
			       "allow: %s lets everybody through: no packet limit acts",
			       weir_prefix_format(&c->allow.item[i], prefix)); /* it fits */
		warn_at(r, c->allow.line[i], text);
	}
	warn_overlap(r, c);
	warn_forged_syn(r, c);
	if (c->mode == WEIR_MODE_MONITOR)
		weir_reader_warn(r, weir_reader_at(r, "", "mode"),
				 "mode: monitor: nothing is dropped%s (mode: enforce when the "
				 "numbers look right)",
				 c->request.n_limit ? " or refused" : "");
	warn_interfaces(r, c);
	if (c->n_limits == 0 && c->block.n == 0 && c->n_block_files == 0 && c->request.n_limit == 0)
		warn_at(r, 0, "no limit and nothing blocked: there is nothing to enforce");
	weir_request_warn(r, c);
}

void weir_conf_finish(struct weir_reader *r, struct weir_conf *c)
{
	weir_request_finish(r, c);
	weir_store_finish(r, c);
	for (size_t i = 0; i < c->n_limits && !weir_reader_top_wrong(r, "store", "url"); i++)
		weir_limit_check_fleet_store(r, c, &c->limits[i]);
	if (!r->problems->n_errors && c->path)
		warn(r, c);
}

void weir_conf_warnings(const struct weir_conf *c, struct weir_conf_problems *ret)
{
	struct weir_reader r = {.problems = ret};

	warn(&r, c);
}
