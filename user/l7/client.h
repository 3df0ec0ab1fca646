/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which address a request comes from: the peer's own, or what proxies that are trusted say. Called by the HTTP side
 * once per request, before rules and keys.
 *
 * The walk starts at the peer and goes through the named header from the right, over all its lines in the order of the
 * wire. An entry counts only if the one before it (the first: the peer) is a trusted proxy; the first that is none is
 * the client. An entry that is no address (empty, garbage, "unknown", an obfuscated name) ends the walk at the last
 * trusted hop: nothing to the left of it is believed. If all entries are trusted, the leftmost is the client.
 */
#ifndef WEIR_USER_CLIENT_H
#define WEIR_USER_CLIENT_H

#include "user/base/addr.h"
#include "user/l7/header_list.h"

#define WEIR_CLIENT_HOPS_MAX 64 /* entries looked at; the walk ends there */

/* The one header that is read; a listener's profile says which. */
enum weir_client_header {
	WEIR_CLIENT_NONE, /* always the peer */
	WEIR_CLIENT_X_FORWARDED_FOR,
	WEIR_CLIENT_FORWARDED, /* RFC 7239, for= */
	WEIR_CLIENT_X_REAL_IP, /* one address, of the last line; no walk */
	WEIR_CLIENT_HEADER_MAX
};

struct weir_client_options {
	enum weir_client_header header;
	const struct weir_prefix *trusted;
	size_t n_trusted;
	bool nat64; /* a client in 64:ff9b::/96 is the IPv4 address in it; trust is judged before */
};

struct weir_client {
	struct weir_prefix addr; /* a whole address, IPv4-mapped ones as IPv4 */
	unsigned hops;		 /* entries that were believed; 0: it is the peer's address */
	bool ended;		 /* an entry that is no address, or too many, ended the walk */
	bool ignored;		 /* the header is there, and the peer is not trusted */
};

/* @peer NULL: a Unix socket, trusted by its mode. -ENODATA: no address at all (only where @peer is NULL): the caller
 * must not take that for one client.
 */
int weir_client_find(const struct weir_client_options *options, const struct weir_prefix *peer,
		     const struct weir_header_list *headers, struct weir_client *ret);

/* "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80", each IPv6 one with a zone ("%eth0",
 * which is dropped). -EINVAL: none of these.
 */
int weir_client_parse(struct weir_text text, struct weir_prefix *ret);

/* The part of @addr that is counted: its first @ipv4_len or @ipv6_len bits. */
struct weir_prefix weir_client_prefix(const struct weir_prefix *addr, __u8 ipv4_len, __u8 ipv6_len);

#endif
