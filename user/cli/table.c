/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All commands and their options: the one place from which parsing, --help and the man page come. Called by opt.c and
 * help.c.
 */
#include "user/cli/cli.h"

#define END                                                                                        \
	{                                                                                          \
		.name = NULL                                                                       \
	}
#define JSON                                                                                       \
	{                                                                                          \
		.name = "json", .help = "as JSON, with stable names"                               \
	}
#define FOR(help_text)                                                                             \
	{                                                                                          \
		.name = "for", .value = "TIME", .help = help_text                                  \
	}

const struct weir_option weir_talk_options[] = {
	{.name = "socket",
	 .value = "PATH",
	 .help = "the agent's admin socket; else $WEIR_SOCKET, else admin.listen of the "
		 "configuration"},
	{.name = "config",
	 .letter = 'c',
	 .value = "FILE",
	 .help = "where admin.listen is read from"},
	END,
};

static const struct weir_option none[] = {END};
static const struct weir_option json_only[] = {JSON, END};

static const struct weir_option run_options[] = {
	{.name = "config",
	 .letter = 'c',
	 .value = "FILE",
	 .help = "the configuration; else /etc/weir/weir.yaml if it is there, else the defaults"},
	{.name = "interface",
	 .letter = 'i',
	 .value = "IFACE",
	 .many = true,
	 .help = "attach to this interface, in place of the configuration's; several times for "
		 "several"},
	{.name = "monitor",
	 .help = "decide and count, drop and refuse nothing, until weir mode enforce"},
	{.name = "confirm",
	 .value = "TIME",
	 .help = "go to monitor mode after so long unless weir confirm comes first"},
	END,
};
static const struct weir_option check_options[] = {
	{.name = "config",
	 .letter = 'c',
	 .value = "FILE",
	 .help = "the configuration; else /etc/weir/weir.yaml"},
	END,
};
static const struct weir_option top_options[] = {
	{.name = "once", .help = "print one sample as lines and end"},
	{.name = "count", .value = "N", .help = "print N samples as lines and end"},
	JSON,
	END,
};
static const struct weir_option explain_options[] = {
	JSON,
	{.name = "api-key",
	 .value = "-",
	 .help = "what is counted by this API key, which is read from standard input"},
	{.name = "user",
	 .value = "NAME",
	 .help = "what is counted by this user, as the proxy names it"},
	END,
};
static const struct weir_option events_options[] = {
	{.name = "follow", .letter = 'f', .help = "go on with new ones as they come"},
	{.name = "limit", .value = "NAME", .help = "only those of this limit"},
	JSON,
	END,
};
#define ADD                                                                                        \
	FOR("ends by itself after so long; added again, the later end counts"),                    \
	{                                                                                          \
		.name = "reason", .value = "TEXT", .help = "shown by list, explain and the log"    \
	}
static const struct weir_option block_options[] = {
	ADD,
	{.name = "force", .help = "block even a guarded address"},
	END,
};
static const struct weir_option allow_options[] = {ADD, END};
static const struct weir_option del_options[] = {
	{.name = "origin",
	 .value = "NAME",
	 .help = "all entries of this origin: command, that of a load, escalation (of every rule) "
		 "or escalation:RULE"},
	END,
};
static const struct weir_option load_options[] = {
	FOR("the entries end by themselves after so long"),
	{.name = "reason", .value = "TEXT", .help = "shown by list, explain and the log"},
	{.name = "origin",
	 .value = "NAME",
	 .help = "for del --origin NAME; else the file's own name"},
	END,
};
static const struct weir_option set_options[] = {
	{.name = "save", .help = "write it into the configuration file too"},
	END,
};
static const struct weir_option reset_options[] = {
	{.name = "ip", .value = "ADDR", .help = "only of this address"},
	{.name = "api-key",
	 .value = "-",
	 .help = "only of this API key, which is read from standard input"},
	{.name = "user", .value = "NAME", .help = "only of this user, as the proxy names it"},
	END,
};
static const struct weir_option mode_options[] = {FOR("goes back by itself after so long"), END};
static const struct weir_option reload_options[] = {
	{.name = "confirm",
	 .value = "TIME",
	 .help = "go back to the configuration before after so long unless weir confirm comes "
		 "first"},
	END,
};
static const struct weir_option detach_options[] = {
	{.name = "interface", .letter = 'i', .value = "IFACE", .help = "only from this interface"},
	{.name = "instance",
	 .value = "NAME",
	 .help = "of this instance, where no agent runs; else the configuration's"},
	END,
};
static const struct weir_option doctor_options[] = {
	{.name = "config",
	 .letter = 'c',
	 .value = "FILE",
	 .help = "the configuration; else /etc/weir/weir.yaml"},
	{.name = "interface",
	 .letter = 'i',
	 .value = "IFACE",
	 .many = true,
	 .help = "look at this interface"},
	END,
};
static const struct weir_option help_options[] = {
	{.name = "man", .help = "the manual page, as mdoc"},
	{.name = "config", .help = "every setting of the configuration file"},
	{.name = "default-config", .help = "a commented configuration file in monitor mode"},
	{.name = "metrics", .help = "every metric of a listener of profile metrics, as Markdown"},
	END,
};
static const struct weir_option request_options[] = {
	{.name = "ip", .value = "ADDR", .help = "the client's address"},
	{.name = "header",
	 .value = "NAME:VALUE",
	 .many = true,
	 .help = "a header of the request, also Host and those of http.proxy_headers"},
	{.name = "peek", .help = "judge only: charge nothing"},
	JSON,
	END,
};

#define LIST_COMMANDS(list, what, add)                                                             \
	{                                                                                          \
		.name = list " add",                                                               \
		.usage = "CIDR",                                                                   \
		.summary = what " an address or prefix",                                           \
		.detail = "Acts at once, on every interface, and survives restart and reboot. "    \
			  "Expiry is "                                                             \
			  "checked by the kernel.",                                                \
		.options = add,                                                                    \
		.min_args = 1,                                                                     \
		.max_args = 1,                                                                     \
		.talks = true,                                                                     \
		.run = weir_cmd_list_add,                                                          \
	},                                                                                         \
		{                                                                                  \
			.name = list " del",                                                       \
			.usage = "CIDR | --origin NAME",                                           \
			.summary = "take an entry from the " list " list",                         \
			.detail = "Deleting what is not there is success. Entries of the "         \
				  "configuration and its "                                         \
				  "list files are removed there.",                                 \
			.options = del_options,                                                    \
			.min_args = 0,                                                             \
			.max_args = 1,                                                             \
			.talks = true,                                                             \
			.run = weir_cmd_list_del,                                                  \
		},                                                                                 \
		{                                                                                  \
			.name = list " list",                                                      \
			.usage = "",                                                               \
			.summary = "the " list " list: origin, end, reason",                       \
			.options = json_only,                                                      \
			.min_args = 0,                                                             \
			.max_args = 0,                                                             \
			.talks = true,                                                             \
			.run = weir_cmd_list_list,                                                 \
		},                                                                                 \
	{                                                                                          \
		.name = list " load", .usage = "FILE",                                             \
		.summary = "add a file of addresses and prefixes, all or nothing",                 \
		.detail = "FILE - is standard input. One address or prefix a line, # and ; begin " \
			  "comments. Bad lines are "                                               \
			  "all named, "                                                            \
			  "and nothing is added then.",                                            \
		.options = load_options, .min_args = 1, .max_args = 1, .talks = true,              \
		.run = weir_cmd_list_load,                                                         \
	}

const struct weir_command weir_commands[] = {
	{
		.name = "run",
		.usage = "",
		.summary = "the agent, in the foreground",
		.detail = "SIGHUP reloads the configuration. SIGTERM ends the agent; what is "
			  "attached stays attached and goes on with the last limits and lists "
			  "(weir detach ends that); requests are not judged any more. With "
			  "interfaces: [] it is the request layer alone, which needs no root.",
		.options = run_options,
		.run = weir_cmd_run,
	},
	{
		.name = "check",
		.usage = "",
		.summary = "is this configuration right, and what does it mean, in words; memory, "
			   "capacity, warnings",
		.detail = "Needs no root and no agent. Exit status 2 if there are errors; all of "
			  "them are printed.",
		.options = check_options,
		.run = weir_cmd_check,
	},
	{
		.name = "status",
		.usage = "",
		.summary = "the mode, what acts now and since when, then all the rest",
		.options = json_only,
		.talks = true,
		.run = weir_cmd_status,
	},
	{
		.name = "top",
		.usage = "",
		.summary = "live: rates by limit and reason, loudest sources and clients",
		.detail = "On a terminal it is redrawn every second, and q ends it; elsewhere it "
			  "prints lines.",
		.options = top_options,
		.talks = true,
		.run = weir_cmd_top,
	},
	{
		.name = "explain",
		.usage = "ADDR | --api-key - | --user NAME",
		.summary = "all that is known of one client: lists, state per limit, verdict now, "
			   "why, until when, and the command that lifts it",
		.detail = "Of an address in both layers, of an API key or a user in the request "
			  "layer. An address that was blocked by escalation sees no answer any "
			  "more, only time-outs.",
		.options = explain_options,
		.max_args = 1,
		.talks = true,
		.run = weir_cmd_explain,
	},
	{
		.name = "events",
		.usage = "",
		.summary = "sampled drops and refusals, and every escalation, a line each",
		.options = events_options,
		.talks = true,
		.run = weir_cmd_events,
	},
	LIST_COMMANDS("block", "block", block_options),
	LIST_COMMANDS("allow", "allow", allow_options),
	{
		.name = "limit list",
		.usage = "",
		.summary = "the limits in force, their rates, what is overridden",
		.options = json_only,
		.talks = true,
		.run = weir_cmd_limit_list,
	},
	{
		.name = "limit set",
		.usage = "NAME KEY=VALUE...",
		.summary = "change a packet or request limit now, until the next reload",
		.detail = "Keys and values are those of the file: rate=500/s burst=1000 "
			  "mode=monitor. State is kept.",
		.options = set_options,
		.min_args = 2,
		.max_args = 17,
		.talks = true,
		.run = weir_cmd_limit_set,
	},
	{
		.name = "limit unset",
		.usage = "NAME [KEY]",
		.summary = "back to what the file says",
		.options = none,
		.min_args = 1,
		.max_args = 2,
		.talks = true,
		.run = weir_cmd_limit_unset,
	},
	{
		.name = "limit reset",
		.usage = "NAME",
		.summary = "forget what a limit has counted, of one client or of all",
		.detail = "Packet limits know addresses; request limits also API keys and users, "
			  "as far as their key has them. Of an address, its refusals counted for "
			  "escalation and suspicion are forgotten too.",
		.options = reset_options,
		.min_args = 1,
		.max_args = 1,
		.talks = true,
		.run = weir_cmd_limit_reset,
	},
	{
		.name = "limit diff",
		.usage = "",
		.summary =
			"what a reload and a pull would change, and what is overridden by command",
		.options = json_only,
		.talks = true,
		.run = weir_cmd_limit_diff,
	},
	{
		.name = "limit push",
		.usage = "",
		.summary = "publish the limits of this host's file for the fleet",
		.detail = "packet_limits, request_limits, plans, exempt, suspicious and escalate "
			  "of the file as it is now, with the next generation; refused if somebody "
			  "else has published since this agent last heard. Agents with store: "
			  "{fleet: {limits_from: store}} put them in force in one step, or keep "
			  "the last good ones and say so.",
		.options = none,
		.talks = true,
		.run = weir_cmd_limit_push,
	},
	{
		.name = "limit pull",
		.usage = "",
		.summary = "put the published limits in force here, now",
		.detail = "Until the next reload where limits_from is file; what limit set has "
			  "changed stays on top.",
		.options = none,
		.talks = true,
		.run = weir_cmd_limit_pull,
	},
	{
		.name = "mode",
		.usage = "monitor|enforce",
		.summary = "the panic button: stop or start dropping and refusing, at once",
		.detail = "Stays through reload, restart and reboot. With --for it goes back by "
			  "itself, also if the agent is restarted meanwhile.",
		.options = mode_options,
		.min_args = 1,
		.max_args = 1,
		.talks = true,
		.run = weir_cmd_mode,
	},
	{
		.name = "request",
		.usage = "METHOD PATH",
		.summary = "ask the request layer what it answers to this request, and why",
		.detail = "Asks the running agent as a trusted proxy would; a charge is real "
			  "unless --peek is given. It counts neither for suspicion nor for "
			  "escalation, and what would be held in a queue is said at once.",
		.options = request_options,
		.min_args = 2,
		.max_args = 2,
		.talks = true,
		.run = weir_cmd_request,
	},
	{
		.name = "reload",
		.usage = "",
		.summary = "read the configuration and its list files anew",
		.detail = "A file with errors changes nothing, and they are all printed. State is "
			  "kept where name, algorithm, key and window are the same.",
		.options = reload_options,
		.talks = true,
		.run = weir_cmd_reload,
	},
	{
		.name = "confirm",
		.usage = "",
		.summary = "keep what run or reload --confirm would take back",
		.options = none,
		.talks = true,
		.run = weir_cmd_confirm,
	},
	{
		.name = "detach",
		.usage = "",
		.summary = "take weir from its interfaces: nothing is limited any more",
		.detail = "Works without an agent too; the pinned maps, and with them all limiter "
			  "state, are removed then.",
		.options = detach_options,
		.talks = true,
		.run = weir_cmd_detach,
	},
	{
		.name = "doctor",
		.usage = "",
		.summary =
			"can this machine do it, and how well: kernel, interfaces, store, limits",
		.detail = "Exit status 1 if something fails.",
		.options = doctor_options,
		.run = weir_cmd_doctor,
	},
	{
		.name = "version",
		.usage = "",
		.summary = "the version of this program",
		.options = none,
		.run = weir_cmd_version,
	},
	{
		.name = "help",
		.usage = "[COMMAND]",
		.summary = "this list, a command's page, or all of it as a manual",
		.options = help_options,
		.max_args = 2,
		.run = weir_cmd_help,
	},
};
const size_t weir_n_commands = ARRAY_LEN(weir_commands);
