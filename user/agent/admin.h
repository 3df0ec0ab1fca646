/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin socket: a Unix stream socket, one JSON object a line in each direction. Who may connect is decided by the
 * file's mode and group. Never blocks the loop; lines, clients, output and waiting are bounded. Called by the agent.
 */
#ifndef WEIR_AGENT_ADMIN_H
#define WEIR_AGENT_ADMIN_H

#include <jansson.h>
#include <sys/types.h>

#include "user/base/cleanup.h"
#include "user/base/error.h"
#include "weir/types.h"

#define WEIR_ADMIN_CLIENTS_MAX	  32
#define WEIR_ADMIN_LINE_MAX_BYTES (256 << 10)	       /* of a request */
#define WEIR_ADMIN_LINE_NS	  (30ull * 1000000000) /* from a line's first byte to its last */
#define WEIR_ADMIN_IDLE_S	  300
#define WEIR_ADMIN_PUSH_MAX_BYTES                                                                  \
	(256 << 10) /* waiting for one follower; more is lost, and it is told */

struct event_base;
struct weir_admin;
struct weir_client;

/* Answers one request; the reply is a new reference, NULL = out of memory. */
typedef json_t *(*weir_admin_fn)(void *arg, struct weir_client *client, const json_t *request);

/* Makes and binds the socket (mode 0660, @group or root). Replaces a stale one only if nobody answers on it: -EADDRINUSE
 * and a sentence if somebody does. @ret_note (heap or NULL): e.g. that the group does not exist.
 */
int weir_admin_bind(const char *path, const char *group, int *ret_fd, char **ret_note,
		    struct weir_error *e);
/* Serves @fd (taken over) until freed; freeing removes the file. */
int weir_admin_new(struct event_base *base, int fd, const char *path, weir_admin_fn fn, void *arg,
		   struct weir_admin **ret, struct weir_error *e);
void weir_admin_free(struct weir_admin *a);
DEFINE_CLEANUP(struct weir_admin, weir_admin_free)

/* Once a second: drops clients that have not finished a line in WEIR_ADMIN_LINE_NS. */
void weir_admin_tick(struct weir_admin *a, __u64 now_ns);
unsigned weir_admin_clients(const struct weir_admin *a);

/* For weir_admin_fn. The user by number and, where /etc/passwd has it, name. */
const char *weir_client_who(const struct weir_client *c);
/* Something that lives as long as the connection; @free is called when it ends or is set anew. */
void weir_client_set_data(struct weir_client *c, void *data, void (*free)(void *data));
void *weir_client_data(const struct weir_client *c);
/* The answer to this request comes later: @fn returns NULL then. *@waits becomes NULL when it was given, or when the client
 * has left. Until then nothing more of the client is served.
 */
void weir_client_defer(struct weir_client *c, struct weir_client **waits);
void weir_client_reply(struct weir_client *c, const json_t *reply);
/* From now on the client gets what weir_admin_push sends; @limit NULL = all. */
int weir_client_follow(struct weir_client *c, const char *limit);
void weir_admin_push(struct weir_admin *a, const char *limit, const json_t *line);

#endif
