/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a request is counted by: 16 bytes made from parts of it. Parts are parsed once from the configuration; a key is
 * built per request and limit, by the rules.
 *
 * What is hashed, with the secret, to 16 bytes: one byte version; per part a byte kind (of an endpoint another one: is it
 * a limit's name?), a u16 length and the name (of an endpoint the method), a u32 length and the value; little endian.
 * SipHash-2-4 takes up to 512 bytes of it (a tenth of BLAKE2b's cost), keyed BLAKE2b what is longer. Different lists of
 * parts are thus different inputs, whatever stands in them, and neither a token nor a user agent is kept. The key is that
 * of the client alone: a store adds the identity of the limit's state.
 *
 * Values, and when a part is there:
 *   ip          the address, cut to the limit's prefix length; if an address is known
 *   user        the user that the proxy names; not empty
 *   api-key     the first of the configured places that has one
 *   token       of the first Authorization line, if its scheme is Bearer
 *   user-agent, header:NAME   the first line of that name; not empty
 *   endpoint    the method and the written pattern that matched, else the limit's name; always
 *   method      always; all methods beside those of RFC 9110 and PATCH are one, so inventing some makes no keys
 *   path, host  normal form; if known
 *   cookie:NAME the first of that name over all lines, without quotes; not empty
 *   query:NAME  the first of that name, decoded, cut at WEIR_KEY_QUERY_MAX bytes; not empty
 *   global      always, and empty
 */
#ifndef WEIR_USER_KEY_H
#define WEIR_USER_KEY_H

#include "user/base/error.h"
#include "user/l7/client.h"
#include "user/l7/header_list.h"

/* The numbers are hashed, and stores outlive processes: append only. */
enum weir_key_kind {
	WEIR_KEY_NONE,
	WEIR_KEY_IP,
	WEIR_KEY_USER,
	WEIR_KEY_API_KEY,
	WEIR_KEY_TOKEN,
	WEIR_KEY_USER_AGENT,
	WEIR_KEY_ENDPOINT,
	WEIR_KEY_METHOD,
	WEIR_KEY_PATH,
	WEIR_KEY_HOST,
	WEIR_KEY_GLOBAL,
	WEIR_KEY_HEADER,
	WEIR_KEY_COOKIE,
	WEIR_KEY_QUERY,
	WEIR_KEY_KIND_MAX
};

#define WEIR_KEY_NAME_MAX    64
#define WEIR_KEY_PARTS_MAX   8
#define WEIR_KEY_CHOICES_MAX 8
#define WEIR_KEY_QUERY_MAX   1024
#define WEIR_KEY_BYTES	     16
#define WEIR_KEY_SECRET	     32

struct weir_key_part {
	enum weir_key_kind kind;
	char name[WEIR_KEY_NAME_MAX]; /* of header, cookie, query; a header's in lower case */
};

/* Joined: it is there if all its parts are. */
struct weir_key_choice {
	struct weir_key_part part[WEIR_KEY_PARTS_MAX];
	size_t n;
};

enum weir_key_missing { WEIR_KEY_MISSING_IP, WEIR_KEY_MISSING_SKIP, WEIR_KEY_MISSING_DENY };

/* `key:` and `missing:` of a limit. The first choice that is there is taken; a plain key has one. */
struct weir_key_spec {
	struct weir_key_choice choice[WEIR_KEY_CHOICES_MAX];
	size_t n;
	enum weir_key_missing missing;
	__u8 ipv4_prefix;
	__u8 ipv6_prefix;
};

/* The same for all limits: the secret, and the places of `api_key:` (header, cookie or query). */
struct weir_key_context {
	unsigned char secret[WEIR_KEY_SECRET];
	struct weir_key_part api_key[WEIR_KEY_PARTS_MAX];
	size_t n_api_key;
};

/* What `method` and `endpoint` tell apart; "*" is any other one. */
#define WEIR_KEY_METHODS 9
extern const char *const weir_key_methods[WEIR_KEY_METHODS];

struct weir_key_request {
	const struct weir_header_list *headers;
	const struct weir_prefix *client; /* NULL: no address is known */
	struct weir_text user;		  /* n = 0: the proxy names none */
	struct weir_text method;	  /* of weir_method_normal */
	struct weir_text path;		  /* normal form: reading 0 of weir_path_read */
	struct weir_text host;		  /* of weir_host_normal; n = 0: none */
	struct weir_text query;		  /* raw */
	struct weir_text endpoint; /* the pattern that matched as text, or the limit's name */
	bool endpoint_is_limit;
	struct weir_text api_key, token; /* known already; n = 0: to be looked for */
};

struct weir_key {
	unsigned char byte[WEIR_KEY_BYTES];
	bool client_chosen; /* some part is what the client likes to write: new_per_ip counts it */
	bool fallback;	    /* by `missing: ip` */
};

/* As the configuration writes it, without a name: "ip", "header". */
const char *weir_key_kind_name(enum weir_key_kind kind);
/* "ip", "header:X-Tenant". -EINVAL with a sentence in @error. */
int weir_key_part_parse(const char *text, struct weir_key_part *ret, struct weir_error *error);

/* -ENOENT: nothing is there and `missing: skip`. -EACCES: the same and `deny`. -EADDRNOTAVAIL: the address would have to
 * stand in and is not known; the caller decides, and never counts all such requests as one client.
 */
int weir_key_build(const struct weir_key_spec *spec, const struct weir_key_context *context,
		   const struct weir_key_request *request, struct weir_key *ret);
/* The key of the address alone, the same as `key: ip` gives: where new_per_ip is exceeded. -EADDRNOTAVAIL as above. */
int weir_key_build_ip(const struct weir_key_spec *spec, const struct weir_key_context *context,
		      const struct weir_key_request *request, struct weir_key *ret);

/* The API key of a request; n = 0: none. @buf holds it where it comes from a query. */
struct weir_text weir_key_api_key(const struct weir_key_context *context,
				  const struct weir_key_request *request,
				  char buf[static WEIR_KEY_QUERY_MAX]);

typedef void weir_key_feed_fn(void *arg, const void *bytes, size_t n);
/* The bytes that are hashed for @choice, in pieces; -ENOENT, before the first piece: a part is not there. So that a test
 * sees what no hash shows: that different parts are different bytes.
 */
int weir_key_feed(const struct weir_key_spec *spec, const struct weir_key_choice *choice,
		  const struct weir_key_context *context, const struct weir_key_request *request,
		  weir_key_feed_fn *feed, void *arg);

#endif
