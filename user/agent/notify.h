/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tells the service manager how the agent is, by the plain protocol of sd_notify(3): one datagram to $NOTIFY_SOCKET.
 * Does nothing where there is none. Called by the agent.
 */
#ifndef WEIR_AGENT_NOTIFY_H
#define WEIR_AGENT_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=..."; several lines may go in one. */
void weir_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* RELOADING=1 with the time that Type=notify-reload asks for. */
void weir_notify_reloading(void);

#endif
