/* SPDX-License-Identifier: GPL-2.0-or-later */
/* user/config: mistakes in the request layer's part, each said once, at its place; and warnings. */
#include "conf_case.h"

/* clang-format off */
static const char mistakes[] =
	"interfaces: []\n"
	"memory: {request_keys: 1000000000, request_bytes: 1 MB}\n"
	"http:\n"
	"  threads: 0\n"
	"  budget: 0\n"
	"  headers: 1\n"
	"  connections: 0\n"
	"  request_deadline: 1h\n"
	"  nat64: maybe\n"
	"  proxy_headers: {user: X User, plan: X-Plan, cost: x-plan, role: X-R}\n"
	"  api_key: [header, query api key, cookie a;b, body key, header X-A, header x-a]\n"
	"  path: {case: fold, trailing_slash: distint, params: no}\n"
	"  listeners:\n"
	"    - {listen: localhost:9470, profile: nginx}\n"
	"    - {listen: 127.0.0.1, profile: ngnix}\n"
	"    - {listen: \"::1:9470\", profile: nginx}\n"
	"    - {listen: \"*:9470\", profile: nginx}\n"
	"    - {listen: 127.0.0.1:99999, profile: nginx}\n"
	"    - {listen: \"unix:web.sock\", profile: nginx}\n"
	"    - {listen: 127.0.0.1:9470, profile: json}\n"
	"    - {listen: 127.0.0.1:9470, profile: metrics, trusted_proxies: [10.0.0.1]}\n"
	"    - {listen: \"unix:/run/a\", profile: haproxy-spoe, trusted_proxies: [10.0.0.1], mode: \"0999\"}\n"
	"    - {listen: \"unix:/run/a\", profile: caddy, token_file: /x}\n"
	"    - {listen: \"127.0.0.1:1\", profile: nginx, mode: \"0660\", group: x}\n"
	"    - {profile: nginx}\n"
	"    - {listen: 127.0.0.1:2}\n"
	"    -\n"
	"    - {listen: \"unix:/run/weir/admin.sock\", profile: nginx}\n"
	"plans: [free, Pro, free]\n"
	"exempt:\n"
	"  - {}\n"
	"  - {path: healthz}\n"
	"  - {source: 10.0.0.1/8}\n"
	"  - {preflight: perhaps}\n"
	"request_limits:\n"
	"  - {name: a, key: ip}\n"
	"  - {name: b, rate: 5/s}\n"
	"  - {name: c, key: ipp, rate: 5}\n"
	"  - {name: d, key: [ip, ip], rate: 5 MB/s}\n"
	"  - {name: e, key: {any: [], new_per_ip: x}, rate: 0/s}\n"
	"  - {name: f, key: {all: [ip]}, limit: 5, window: 1s}\n"
	"  - {name: g, key: user, algorithm: fixed-window, limit: 5, window: dayly}\n"
	"  - {name: h, key: ip, algorithm: sliding-window-log, limit: 2000000, window: day}\n"
	"  - {name: i, key: ip, algorithm: sliding-window-log, limit: 2000000, window: 1h}\n"
	"  - {name: j, key: ip, algorithm: leaky-bucket, rate: 5/s, burst: 5}\n"
	"  - {name: k, key: ip, rate: 5/s, burst: {free: 1, por: 2}}\n"
	"  - {name: l, key: ip, rate: 5/s, cost: 6}\n"
	"  - {name: m, key: ip, rate: 5/s, cost: {min: 1}}\n"
	"  - {name: n, key: ip, rate: 5/s, cost: {from: proxy, min: 9, max: 3}}\n"
	"  - {name: o, key: ip, algorithm: fixed-window, limit: 5, window: month, timezone: Mars/Phobos}\n"
	"  - {name: p, key: ip, algorithm: fixed-window, limit: 5, window: 1s, timezone: UTC}\n"
	"  - {name: q, key: [global, ip], rate: 1/s, match: {method: \"P T\", path: \"/a*b\", host: \"a b\", header: {\"x y\": 1}}}\n"
	"  - {name: q, key: ip, rate: 1/s, on_store_failure: close, scope: world, missing: nothing}\n"
	"  - {name: r, key: ip, rate: 20 per 0s, match: {method: MKCOL, header: []}}\n"
	"  - {name: s, key: header, rate: 20 per hour}\n"
	"  - {name: t, key: \"header:a b\", rate: 1/400d, window: 0}\n"
	"suspicious:\n"
	"  packet_limits: [nope]\n"
	"  refused: {limits: [b, lgoin]}\n"
	"  limit: {name: x, match: {}, key: ip, rate: 1/s}\n"
	"escalate:\n"
	"  - {name: x, limits: [bb], refused: 0, block_for: 100ms}\n"
	"  - {limits: []}\n"
	"store: {url: x}\n";

static const struct conf_said said[] = {
	{2, 51, "request_bytes: 1 MB cannot even hold the index of 1000000000 request_keys (4.33GB; with the states themselves 60.3GB)"},
	{4, 12, "threads: \"0\" is neither auto nor 1 to 64"},
	{5, 11, "budget: 0 is too short (1ms to 10s)"},
	{6, 12, "headers: 1 is out of range (1 kB to 1 MiB)"},
	{7, 16, "connections: 0 is out of range (1 to 1000000)"},
	{8, 21, "request_deadline: 1h is too long (10ms to 5m)"},
	{9, 10, "nat64: \"maybe\" is neither true nor false"},
	{10, 25, "user: \"X User\" is no name of a header (letters, digits and '-', at most 63 of them)"},
	{10, 53, "cost: x-plan says the plan already (another header)"},
	{10, 61, "unknown key \"role\" (http.proxy_headers: user, plan, cost)"},
	{11, 13, "api_key: \"header\" is no place (header NAME, query NAME or cookie NAME)"},
	{11, 36, "api_key: 'a;b' is no name of a cookie"},
	{11, 48, "api_key: \"body key\" is no place (header NAME, query NAME or cookie NAME)"},
	{11, 70, "api_key: header x-a is there twice"},
	{12, 16, "case: unknown word \"fold\" (sensitive or insensitive)"},
	{12, 38, "trailing_slash: unknown word \"distint\" (did you mean \"distinct\"?)"},
	{12, 55, "params: unknown word \"no\" (strip or keep)"},
	{14, 16, "listen: \"localhost:9470\" is no address that can be listened on (127.0.0.1:9470, \"[::1]:9470\" or unix:/run/weir/web.sock; names are not looked up)"},
	{15, 16, "listen: \"127.0.0.1\" has no port (127.0.0.1:9470, \"[::1]:9470\" or unix:/run/weir/web.sock)"},
	{15, 36, "profile: unknown word \"ngnix\" (did you mean \"nginx\"?)"},
	{16, 16, "listen: \"::1:9470\" needs its IPv6 address in brackets (\"[::1]:9470\")"},
	{17, 16, "listen: \"*:9470\" names no address (127.0.0.1:9470; 0.0.0.0:9470 is every one of IPv4)"},
	{18, 16, "listen: \"127.0.0.1:99999\" has no port of 0 to 65535 after the last colon (127.0.0.1:9470)"},
	{19, 16, "listen: \"unix:web.sock\" is no Unix socket (unix:/run/weir/web.sock, a whole path of at most 107 characters)"},
	{20, 16, "listen: json on TCP needs a token_file, or a Unix socket (\"unix:/run/weir/json.sock\"): its callers name any client"},
	{21, 16, "listen: 127.0.0.1:9470 is taken (by the listener in line 20)"},
	{21, 67, "trusted_proxies: means nothing to metrics (it answers about weir alone)"},
	{22, 71, "trusted_proxies: a Unix socket trusts whoever may connect (mode and group)"},
	{22, 89, "mode: \"0999\" is not a file mode (octal, for example \"0660\")"},
	{23, 16, "listen: unix:/run/a is taken (by the listener in line 22)"},
	{23, 59, "token_file: only the profile json has a token"},
	{24, 53, "mode: only a Unix socket has one (listen: \"unix:/run/weir/web.sock\")"},
	{24, 68, "group: only a Unix socket has one (listen: \"unix:/run/weir/web.sock\")"},
	{25, 7, "a listener without listen (for example listen: 127.0.0.1:9470)"},
	{26, 7, "a listener without profile (nginx, caddy, traefik, envoy, haproxy-spoe, json or metrics)"},
	{27, 6, "an empty entry where a listener belongs (listen and profile)"},
	{28, 16, "listen: /run/weir/admin.sock is admin.listen already (another path)"},
	{29, 15, "plans: \"Pro\" is not a name (a-z, 0-9, '-' and '_', at most 31 of them)"},
	{29, 20, "plans: free is there twice"},
	{31, 5, "an exemption without a condition would exempt every request (source, path, method or preflight: true)"},
	{32, 12, "path: the path 'healthz' must begin with a slash"},
	{33, 14, "source: 10.0.0.1/8 has bits set beyond its length (did you mean 10.0.0.0/8, or the address alone?)"},
	{34, 17, "preflight: \"perhaps\" is neither true nor false"},
	{36, 5, "limit \"a\" has no rate (for example rate: 10/s)"},
	{37, 5, "limit \"b\" has no key (for example key: ip)"},
	{38, 20, "key: 'ipp' is no part of a key (did you mean ip?)"},
	{38, 31, "rate: 5 says how many, but not in what time (for example 5/s, 5 per 60s)"},
	{39, 25, "key: ip is there twice"},
	{39, 36, "rate: 5 MB/s counts bytes (requests: 10/s, 20 per 60s)"},
	{40, 26, "any: nothing in it (for example [api-key, ip])"},
	{40, 42, "new_per_ip: \"x\" is not a rate (for example 10/s, 100/m, 20 per 60s)"},
	{40, 52, "rate: 0/s admits nothing (1 or more)"},
	{41, 21, "unknown key \"all\" (request_limits.key: any, new_per_ip)"},
	{41, 40, "limit: a token-bucket has rate and burst (or say algorithm: sliding-window-counter)"},
	{41, 51, "window: a token-bucket has rate and burst (or say algorithm: sliding-window-counter)"},
	{42, 69, "window: \"dayly\" is neither a duration (for example 60s) nor day, week or month"},
	{43, 79, "window: only fixed-window goes by the calendar (1d for any 24 hours, or algorithm: fixed-window)"},
	{44, 62, "limit: 2000000 is too much for sliding-window-log, which keeps the time of each request (at most 1000000; sliding-window-counter keeps two numbers)"},
	{45, 67, "burst: a leaky-bucket has rate, queue and max_wait (or say algorithm: token-bucket)"},
	{47, 41, "cost: 6 is above what burst can hold (5, the default), so that no request would ever pass"},
	{48, 41, "cost: from where? (a number, or {from: proxy, min: 1, max: 50})"},
	{49, 41, "cost: min 9 is above max 3"},
	{50, 84, "timezone: there is no time zone 'Mars/Phobos': give UTC, or a name of the time zone database as Europe/Berlin"},
	{51, 81, "timezone: this limit does not go by the calendar (algorithm: fixed-window with window: day, week or month does)"},
	{52, 20, "key: global adds nothing to others (leave it out)"},
	{52, 61, "method: \"P T\" is no method (for example POST)"},
	{52, 74, "path: in '/a*b' the star must be the whole last segment (/x/*: /x and all below it; a star itself is %2A)"},
	{52, 88, "host: \"a b\" is no host (example.org, or *.example.org for every name below it)"},
	{52, 104, "header: \"x y\" is no name of a header (letters, digits and '-', at most 63 of them)"},
	{53, 12, "name: \"q\" is taken (by the limit in line 52)"},
	{53, 53, "on_store_failure: unknown word \"close\" (did you mean \"closed\"?)"},
	{53, 67, "scope: unknown word \"world\" (host or fleet)"},
	{53, 83, "missing: unknown word \"nothing\" (ip, skip or deny)"},
	{54, 30, "rate: 20 per 0s is out of range (from 1/366d to 1000000000/s)"},
	{54, 72, "header: nothing in it (leave header out to match everything)"},
	{55, 20, "key: 'header' needs a name: header:NAME"},
	{55, 34, "rate: \"20 per hour\" is not a rate (for example 10/s, 100/m, 20 per 60s)"},
	{56, 20, "key: 'a b' is no name of a header"},
	{56, 40, "rate: 1/400d is out of range (from 1/366d to 1000000000/s)"},
	{56, 56, "window: 0 is too short (1ms to 366d)"},
	{56, 56, "window: a token-bucket has rate and burst (or say algorithm: sliding-window-counter)"},
	{58, 19, "packet_limits: no packet limit is called \"nope\" (packet_limits has them)"},
	{59, 12, "refused: how often? (count: 5)"},
	{59, 25, "limits: no request limit is called \"lgoin\" (request_limits has them)"},
	{60, 17, "name: the limit of suspicious has none (it is called suspicious, and meets every request)"},
	{60, 27, "match: the limit of suspicious has none (it is called suspicious, and meets every request)"},
	{62, 24, "limits: no request limit is called \"bb\" (did you mean \"b\"?)"},
	{62, 38, "refused: 0 is out of range (1 to 100000)"},
	{62, 52, "block_for: 100ms is too short (1s to 7d)"},
	{63, 5, "escalate: a rule without name (for example name: login-hammer)"},
	{63, 5, "escalate: a rule without refused (for example refused: 20)"},
	{63, 5, "escalate: a rule without block_for (for example block_for: 10m)"},
	{63, 14, "limits: nothing in it (names of limits)"},
	{64, 14, "url: this is no address of a store (embedded, redis://, rediss://, redis+unix://, redis+sentinel://, redis+cluster://)"},
};
/* clang-format on */

static void all_mistakes_of_a_file_in_one_pass(void **state)
{
	(void)state;
	expect_said(mistakes, said, ARRAY_LEN(said));
}

static void impossible_values_of_a_limit(void **state)
{
	static const struct {
		const char *limit, *words;
	} rows[] = {
		{"key: ip", "has no rate (for example rate: 10/s)"},
		{"rate: 5/s", "has no key (for example key: ip)"},
		{"key: ip, algorithm: fixed-window, window: 1s", "has no limit"},
		{"key: ip, algorithm: sliding-window-log, limit: 5", "has no window"},
		{"key: ip, rate: 5/s, algorithm: tokenbucket", "did you mean \"token-bucket\""},
		{"key: ip, limit: 5",
		 "limit: a token-bucket has rate and burst (or say algorithm:"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 1s, rate: 5/s",
		 "rate: a fixed-window has limit and window"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 1s, queue: 5",
		 "queue: a fixed-window has limit and window (or say algorithm: leaky-bucket)"},
		{"key: ip, rate: 5/s, max_wait: 1s", "or say algorithm: leaky-bucket"},
		{"key: ip, rate: 5/s, timezone: UTC", "or say algorithm: fixed-window"},
		{"key: ip, algorithm: fixed-window, limit: 0, window: 1s", "0 admits nothing"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 0", "too short"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 100us", "too short"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 400d", "too long"},
		{"key: ip, algorithm: fixed-window, limit: 5, window: 1000001ns",
		 "no whole number of microseconds"},
		{"key: ip, algorithm: fixed-window, limit: 9007199254740992, window: 1s",
		 "out of range"},
		{"key: ip, algorithm: sliding-window-log, limit: 1000001, window: 1d",
		 "keeps the time of each request"},
		{"key: ip, algorithm: sliding-window-counter, limit: 4294967296, window: 1d",
		 "too much for sliding-window-counter"},
		{"key: ip, algorithm: sliding-window-counter, limit: 5, window: week",
		 "only fixed-window goes by the calendar"},
		{"key: ip, rate: 1000003/1000033us, burst: 9007199254740991",
		 "rate and burst cannot be counted exactly together"},
		{"key: ip, rate: 5/s, burst: 0", "0 admits nothing"},
		{"key: ip, rate: 5/s, burst: 4 MB", "counts bytes"},
		{"key: ip, rate: 5 Mbit/s", "counts bytes"},
		{"key: ip, rate: 20 per", "is not a rate"},
		{"key: ip, rate: x per 5s", "is not a rate"},
		{"key: ip, rate: 20 per 5", "is not a rate"},
		{"key: ip, rate: 2000000000/s", "out of range"},
		{"key: ip, rate: [5/s]", "a list instead of a value (rate, or {PLAN: rate})"},
		{"key: ip, rate: {free: 5/s}", "by plan, but there are no plans"},
		{"key: ip, algorithm: leaky-bucket, rate: 5/s, max_wait: 10m", "too long"},
		{"key: ip, algorithm: leaky-bucket, rate: 5/s, max_wait: 1ns",
		 "no whole number of microseconds"},
		{"key: ip, algorithm: leaky-bucket, rate: 5/s, queue: 2000000", "out of range"},
		{"key: ip, algorithm: leaky-bucket, rate: 5/s, queue: 2, cost: 4",
		 "above what queue and max_wait can hold (3)"},
		{"key: ip, rate: 5/s, cost: 0", "0 limits nothing"},
		{"key: ip, rate: 5/s, cost: x", "is not a number"},
		{"key: ip, rate: 5/s, cost: [1]", "a list instead of a value"},
		{"key: ip, rate: 5/s, burst: 3, cost: 4", "above what burst can hold (3)"},
		{"key: ip, rate: 5/s, cost: {from: proxy}", "no header of the proxy says it"},
		{"key: ip, rate: 5/s, cost: {from: client}", "unknown word \"client\" (proxy)"},
		{"key: [], rate: 5/s", "nothing in it"},
		{"key: {}, rate: 5/s", "any is missing"},
		{"key: {any: {a: b}}, rate: 5/s", "a group of settings where"},
		{"key: {new_per_ip: 5/s}, rate: 5/s", "any is missing"},
		{"key: {any: [ip], new_per_ip: 20}, rate: 5/s", "not in what time"},
		{"key: {any: [ip], new_per_ip: 2 per 2d}, rate: 5/s", "out of range"},
		{"key: {any: [ip], new_per_ip: 999983 per 86399999999999ns}, rate: 5/s",
		 "that can be counted exactly"},
		{"key: user, rate: 5/s", "no header of the proxy says who that is"},
		{"key: [ip, global], rate: 5/s", "global adds nothing"},
		{"key: [\"header:A\", \"header:a\"], rate: 5/s", "is there twice"},
		{"key: \"header:\", rate: 5/s", "1 to 63 characters"},
		{"key: \"ip:x\", rate: 5/s", "takes no name"},
		{"key: zebra, rate: 5/s", "(ip, user, api-key, token"},
		{"key: ip, rate: 5/s, ipv4_prefix: 33", "out of range (0 to 32)"},
		{"key: ip, rate: 5/s, rate: 6/s", "rate is set twice"},
		{"key: ip, rate: 5/s, per: source", "does not belong here"},
		{"key: ip, rate: 5/s, rat: 6/s", "unknown key \"rat\" (did you mean \"rate\"?)"},
		{"key: ip, rate: 5/s, match: {path: []}", "leave path out to match everything"},
		{"key: ip, rate: 5/s, match: {path: [/a, /a]}", "/a is there twice"},
		{"key: ip, rate: 5/s, match: {path: \"/a?b\"}", "never stands in the normal form"},
		{"key: ip, rate: 5/s, match: {path: \"/\\e[31m%zz\"}", "'/?[31m%zz' is no path"},
		{"key: ip, rate: 5/s, match: {host: \"*\"}", "is no host"},
		{"key: ip, rate: 5/s, match: {host: \"a.*.b\"}", "is no host"},
		{"key: ip, rate: 5/s, match: {method: [get, Get]}", "Get is there twice"},
		{"key: ip, rate: 5/s, match: {header: {X: [a]}}", "a list instead of a value"},
		{"key: ip, rate: 5/s, match: {header: {X: a, x: b}}", "x is there twice"},
		{"key: ip, rate: 5/s, match: {header: {}}", "1 to 32 headers"},
		{"key: ip, rate: 5/s, match: {header: {X: \"a\\nb\"}}", "two lines"},
		{"key: ip, rate: 5/s, match: {protocol: tcp}", "under packet_limits.match"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_entry_error("request_limits", rows[i].limit, rows[i].words);
}

static void numbers_by_plan_name_each_plan_once(void **state)
{
	static const struct {
		const char *rate, *words;
		int column;
	} rows[] = {
		{"{free: 5/s}", "rate: nothing for plan pro (each plan needs it)", 28},
		{"{free: 5/s, pro: 6/s, fre: 1/s}",
		 "no plan is called \"fre\" (did you mean \"free\"?)", 50},
		{"{free: 5/s, pro: 6/s, pro: 1/s}", "pro is there twice", 50},
		{"{free: 5/s, pro: fast}", "\"fast\" is not a rate", 45},
		{"{free: 5/s, pro: 6/s, gold: 1/s}", "no plan is called \"gold\" (plans has them)",
		 50},
		{"{free: 5/s, pro: 6/s, [a]: 1/s}", "a list instead of a value", 50},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[160];

		(void)snprintf(
			text, sizeof(text),
			"plans: [free, pro]\nrequest_limits:\n- {name: x, key: ip, rate: %s}\n",
			rows[i].rate);
		expect_problem(text, 1, 3, rows[i].column, rows[i].words);
	}
	expect_problem(
		"plans: [free, pro]\nrequest_limits:\n- {name: x, key: ip, rate: 5/s, burst: "
		"{free: 3, pro: 5}, cost: 4}\n",
		1, 3, 65, "4 is above what burst for plan free can hold (3)");
	expect_problem("plans: [Free]\nrequest_limits:\n- {name: x, key: ip, rate: {Free: 5/s}}\n",
		       1, 1, 9, "is not a name"); /* and nothing about what follows from it */
	expect_problem("plans_file: /x\n", 1, 1, 13, "there are no plans");
	expect_problem("http: {proxy_headers: {user: x-forwarded-for}}\n", 1, 1, 30,
		       "means something else already");
}

static void names_of_limits_are_one_name_space(void **state)
{
	(void)state;
	expect_problem(
		"request_limits:\n- {name: x, key: ip, rate: 1/s}\n- {name: x, key: ip, rate: "
		"1/s}\n",
		1, 3, 10, "name: \"x\" is taken (by the limit in line 2)");
	expect_problem(
		"request_limits:\n- {name: x, key: ip, rate: 1/s}\npacket_limits:\n- {name: x, "
		"rate: 1/s}\n",
		1, 2, 10, "name: \"x\" is taken (by the limit in line 4)");
	expect_problem(
		"request_limits:\n- {name: suspicious, key: ip, rate: 1/s}\nsuspicious: {refused: "
		"{limits: suspicious, count: 1}, limit: {key: ip, rate: 1/s}}\n",
		1, 3, 13, "the limit in line 2 has this name already");
}

static void what_rules_need_and_name(void **state)
{
	static const struct {
		const char *text;
		int line, column;
		const char *words;
	} rows[] = {
		{"suspicious: {packet_limits: p}\n", 3, 13, "without limit nothing follows"},
		{"suspicious: {limit: {key: ip, rate: 1/s}}\n", 3, 13, "suspicious: who?"},
		{"suspicious: {refused: {count: 1}, limit: {key: ip, rate: 1/s}}\n", 3, 23,
		 "by which limits?"},
		{"suspicious: {refused: {limits: p, count: 1}, limit: {key: ip, rate: 1/s}}\n", 3,
		 32, "\"p\" is a packet limit (name a request limit)"},
		{"suspicious: {packet_limits: r, limit: {key: ip, rate: 1/s}}\n", 3, 29,
		 "\"r\" is a request limit (name a packet limit)"},
		{"suspicious: {packet_limits: d, limit: {key: ip, rate: 1/s}}\n", 3, 29,
		 "\"d\" is a limit per: destination, and who sends then need not be at fault"},
		{"suspicious: {packet_limits: p, limit: {rate: 1/s}}\n", 3, 39,
		 "limit \"suspicious\" has no key"},
		{"suspicious: {packet_limits: p, limit: {key: ip, rate: 1/s}}\nlog: "
		 "{events_per_second: 0}\n",
		 3, 29, "never hears of them"},
		{"suspicious: [p]\n", 3, 13, "a list where settings belong"},
		{"escalate: [{name: e, limits: p, refused: 1, block_for: 1m}]\n", 3, 30,
		 "is a packet limit"},
		{"escalate: [{name: e, limits: suspicious, refused: 1, block_for: 1m}]\n", 3, 30,
		 "no request limit is called \"suspicious\""},
		{"escalate: [{name: e, limits: [r, r], refused: 1, block_for: 1m}]\n", 3, 34,
		 "r is there twice"},
		{"escalate:\n- {name: e, limits: r, refused: 1, block_for: 1m}\n- {name: e, "
		 "limits: r, "
		 "refused: 1, block_for: 1m}\n",
		 5, 10, "is taken (by the rule in line 4)"},
		{"escalate: [{name: e, limits: r, refused: 1, block_for: 1m, at_most: 30}]\n", 3,
		 69, "not in what time"},
		{"escalate: {name: e}\n", 3, 11, "a list of rules belongs"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[400];

		(void)snprintf(text, sizeof(text),
			       "packet_limits: [{name: p, rate: 1/s}, {name: d, per: destination, "
			       "rate: 1/s}]\n"
			       "request_limits: [{name: r, key: ip, rate: 1/s}]\n%s",
			       rows[i].text);
		expect_problem(text, 1, rows[i].line, rows[i].column, rows[i].words);
	}
}

/* With a listener that says nothing wrong, and a limit over all of what follows. */
#define FINE                                                                                       \
	"interfaces: [eth0]\nhttp: {listeners: [{listen: 127.0.0.1:1, profile: %s%s}]}\n"          \
	"request_limits:\n- {name: all, key: ip, rate: 50/s%s}\n"
#define NGINX "nginx", ", trusted_proxies: [127.0.0.1]"

/* Expects a right file: exactly one warning with @words in @line, or none at all where @words is NULL. */
static void expect_warning(const char *profile, const char *more, const char *limit,
			   const char *rest, int line, const char *words)
{
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	char text[1024];
	int n = snprintf(text, sizeof(text), FINE "%s", profile, more, limit, rest);

	assert_int_equal(weir_conf_parse("test.yaml", text, (size_t)n, &c, &p), 0);
	if (p.n != (words != NULL) || (words && !strstr(p.item[0].text, words)) ||
	    (words && p.item[0].line != line)) {
		weir_conf_problems_print(&p, "test.yaml", stderr);
		fail_msg("%s: expected \"%s\" in line %d and nothing else", rest,
			 words ? words : "nothing", line);
	}
}

static void a_key_that_clients_choose_wants_an_address_over_it(void **state)
{
	static const struct {
		const char *all, *limit, *words;
	} rows[] = {
		{"", "key: api-key", NULL},
		{"", "key: ip, match: {path: /a}", NULL},
		{", match: {path: /a/*}", "key: token, match: {path: /a/b}", NULL},
		{", match: {path: /a/*}", "key: token, match: {path: [/a, /a/b/*]}", NULL},
		{", match: {path: /a/*}", "key: token, match: {path: /ab}", "another token into"},
		{", match: {path: /a/*}", "key: token", "another token into"},
		{", match: {path: /a}", "key: token, match: {path: /a/*}", "another token into"},
		{", match: {path: /*}", "key: token, match: {path: /a/*}", NULL},
		{", match: {method: POST}", "key: token, match: {method: [POST, PUT]}",
		 "another token into"},
		{", match: {method: [PUT, POST]}", "key: token, match: {method: POST}", NULL},
		{", match: {host: \"*.a.b\"}", "key: token, match: {host: x.a.b}", NULL},
		{", match: {host: \"*.a.b\"}", "key: token, match: {host: \"*.x.a.b\"}", NULL},
		{", match: {host: \"*.a.b\"}", "key: token, match: {host: a.b}", "another token"},
		{", match: {header: X-A}", "key: token, match: {header: {x-a: \"1\"}}", NULL},
		{", match: {header: {X-A: \"1\"}}", "key: token, match: {header: X-A}",
		 "another token"},
		{", mode: monitor", "key: token", "another token into"},
		{", match: {path: /a}", "key: {any: [api-key, ip]}", "another api-key into"},
		{", match: {path: /a}", "key: {any: [api-key, ip], new_per_ip: 20 per 60s}",
		 "keep every api-key"},
		{"", "key: {any: [api-key, ip], new_per_ip: 20 per 60s}", NULL},
		{", match: {path: /a}", "key: [ip, user-agent]", "another user-agent into"},
		{", match: {path: /a}", "key: \"query:q\"", "another query:q into"},
		{", match: {path: /a}", "key: [ip, path], match: {path: [/b, /c]}", NULL},
		{", match: {path: /a}", "key: [ip, path], match: {path: /b/*}", "another path"},
		{", match: {path: /a}", "key: host, match: {host: a.b}", NULL},
		{", match: {path: /a}", "key: global", NULL},
		{", match: {path: /a}", "key: [endpoint, ip]", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char limit[200];

		(void)snprintf(limit, sizeof(limit), "- {name: x, rate: 5/s, %s}\n", rows[i].limit);
		expect_warning(NGINX, rows[i].all, limit, 5, rows[i].words);
	}
}

static void listeners_that_mean_something_else(void **state)
{
	static const struct {
		const char *profile, *more, *words;
	} rows[] = {
		{"nginx", "", "every request counts as the proxy's own"},
		{"envoy", "", "every request counts as the proxy's own"},
		{"haproxy-spoe", "", NULL},
		{"haproxy-spoe", ", trusted_proxies: [10.0.0.2]", "nobody may connect"},
		{"haproxy-spoe", ", trusted_proxies: [10.0.0.2, 127.0.0.0/30]", NULL},
		{"nginx", ", trusted_proxies: [10.0.0.2]", "what the proxy says is ignored"},
		{"nginx", ", trusted_proxies: [10.0.0.2, 127.0.0.1]", NULL},
		{"json", ", token_file: /x", NULL},
		{"nginx", ", trusted_proxies: [0.0.0.0/0]", "everybody is trusted"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_warning(rows[i].profile, rows[i].more, "", "", 2, rows[i].words);
	expect_problem("http: {listeners: [{listen: \"[::1]:80\", profile: caddy, trusted_proxies: "
		       "[127.0.0.1]}]}\n",
		       0, 1, 0, "what the proxy says is ignored");
	expect_problem("http: {listeners: [{listen: 0.0.0.0:80, profile: metrics}]}\n", 0, 1, 29,
		       "is open on every network");
	expect_problem("http: {listeners: [{listen: 10.0.0.1:80, profile: haproxy-spoe}]}\n", 0, 1,
		       29, "SPOP has no password, so only this host may connect");
	expect_problem(
		"http: {listeners: [{listen: \"unix:/x\", profile: caddy, mode: \"0666\"}]}\n", 0,
		1, 62, "every user of this machine");
	expect_problem("http:\n listeners:\n - {listen: 0.0.0.0:80, profile: metrics}\n - {listen: "
		       "127.0.0.1:80, profile: metrics}\n",
		       1, 4, 13, "is taken (by the listener in line 3)");
}

/* Of a list that was wrong nothing is said but that. */
static void one_mistake_is_one_problem(void **state)
{
	static const char text[] = "interfaces: [eth0]\nhttp: {listeners: [{listen: 127.0.0.1:80, "
				   "profile: caddy, trusted_proxies: [localhost]}]}\n"
				   "request_limits:\n- {name: all, key: ip, rate: 50/s}\n";
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;

	(void)state;
	assert_true(weir_conf_parse("test.yaml", text, sizeof(text) - 1, &c, &p) < 0);
	assert_int_equal(p.n, 1);
	assert_non_null(strstr(p.item[0].text, "neither an address nor a prefix"));
}

static void answers_that_a_proxy_does_not_wait_for(void **state)
{
	static const struct {
		const char *profile, *more, *limit, *words;
	} rows[] = {
		{NGINX, "rate: 1/s", NULL},
		{NGINX, "rate: 1/s, queue: 100, max_wait: 61s",
		 "longer than nginx waits (1m unless"},
		{"traefik", ", trusted_proxies: [127.0.0.1]",
		 "rate: 1/s, queue: 100, max_wait: 31s", "longer than traefik waits (30s unless"},
		{"envoy", ", trusted_proxies: [127.0.0.1]", "rate: 1/s",
		 "no answer is held for envoy"},
		{"haproxy-spoe", "", "rate: 1/s", "no answer is held for haproxy-spoe"},
		{"haproxy-spoe", "", "rate: 1/s, max_wait: 0", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char limit[200];

		(void)snprintf(limit, sizeof(limit),
			       "- {name: x, key: ip, algorithm: leaky-bucket, %s}\n",
			       rows[i].limit);
		expect_warning(rows[i].profile, rows[i].more, "", limit, 5, rows[i].words);
	}
}

static void what_never_acts(void **state)
{
	static const struct {
		const char *rest;
		int line;
		const char *words;
	} rows[] = {
		{"", 0, NULL},
		{"plans: [free, pro]\n", 5, "nothing says who has which"},
		{"exempt: [{path: /*}]\n", 5, "this exempts every request"},
		{"exempt: [{source: 0.0.0.0/0}]\n", 5, "this exempts everybody"},
		{"- {name: x, rate: 5/s, key: {any: [ip, api-key]}}\n", 5,
		 "key: ip is always there, so that what stands after it never counts"},
		{"- {name: x, rate: 5/s, key: {any: ip, new_per_ip: 1/s}}\n", 5,
		 "new_per_ip never acts"},
		{"- {name: x, rate: 5/s, key: ip, ipv6_prefix: 128}\n", 5, "/64 of them to change"},
		{"- {name: x, rate: 5/s, key: ip, match: {method: MKCOL}}\n", 5, NULL},
		{"- {name: x, rate: 5/s, key: ip, match: {method: POSTT}}\n", 5,
		 "did you mean POST?"},
		{"escalate: [{name: e, limits: all, refused: 1, block_for: 1m}]\n", 5, NULL},
		{"escalate: [{name: e, limits: all, refused: 1, block_for: 1m, unless_identities: "
		 "2}]\n",
		 5, "never spares anybody"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_warning(NGINX, "", rows[i].rest, rows[i].line, rows[i].words);
	expect_warning("json", ", token_file: /x", "",
		       "escalate: [{name: e, limits: all, refused: 1, block_for: 1m}]\n", 5,
		       "no listener has a proxy's profile");
	expect_problem("request_limits: [{name: x, key: ip, rate: 1/s}]\n", 0, 1, 17,
		       "no proxy can ask");
	expect_problem("http: {listeners: [{listen: 127.0.0.1:1, profile: nginx, trusted_proxies: "
		       "127.0.0.1}]}\n",
		       0, 1, 19, "every answer is yes");
	expect_problem("http: {proxy_headers: {plan: X-Plan}}\n", 0, 1, 30, "there are no plans");
	expect_problem("http: {proxy_headers: {user: X-User, plan: X-Plan, cost: X-Cost}}\n", 0, 1,
		       23, "must set or remove X-User, X-Plan and X-Cost on every request");
	expect_problem(
		"http: {proxy_headers: {user: X-User}}\n", 0, 1, 23,
		"must set or remove X-User on every request, or clients write what they like "
		"into it");
}

static void layers_without_each_other(void **state)
{
	static const char http[] = "http: {listeners: [{listen: 127.0.0.1:1, profile: nginx, "
				   "trusted_proxies: 127.0.0.1}]}\n"
				   "request_limits: [{name: r, key: ip, rate: 1/s}]\n";
	_cleanup_(weir_conf_problems_done) struct weir_conf_problems p = {.n = 0};
	_cleanup_(weir_conf_freep) struct weir_conf *c = NULL;
	char text[600];

	(void)state;
	/* the request layer alone is nothing to warn of */
	assert_int_equal(weir_conf_parse("x", http, strlen(http), &c, &p), 0);
	weir_conf_problems_print(&p, "x", stderr);
	assert_int_equal(p.n, 0);
	(void)snprintf(text, sizeof(text), "%spacket_limits: [{name: p, rate: 1/s}]\n", http);
	expect_problem(text, 0, 0, 0, "no packet is limited or blocked (unless -i names one)");
	(void)snprintf(text, sizeof(text),
		       "%sescalate: [{name: e, limits: r, refused: 1, block_for: 1m}]\n", http);
	expect_problem(text, 0, 3, 0, "escalate: e: no interface is named");
	(void)snprintf(
		text, sizeof(text),
		"%spacket_limits: [{name: p, rate: 1/s}]\nsuspicious: {packet_limits: p, limit: "
		"{key: ip, rate: 1/s}}\n",
		http);
	expect_problem(text, 0, 4, 29, "nobody is ever over them");
}

static void memory_must_hold_its_index(void **state)
{
	(void)state;
	expect_problem("memory: {request_keys: 100000000, request_bytes: 1 MB}\n", 1, 1, 50,
		       "1 MB cannot even hold the index of 100000000 request_keys");
	expect_problem("memory: {request_keys: 1000000000}\n", 1, 1, 24,
		       "256 MB cannot even hold the index");
	weir_conf_free(conf_of("memory: {request_keys: 10000, request_bytes: 1 MB}\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_mistakes_of_a_file_in_one_pass),
		cmocka_unit_test(impossible_values_of_a_limit),
		cmocka_unit_test(numbers_by_plan_name_each_plan_once),
		cmocka_unit_test(names_of_limits_are_one_name_space),
		cmocka_unit_test(what_rules_need_and_name),
		cmocka_unit_test(a_key_that_clients_choose_wants_an_address_over_it),
		cmocka_unit_test(listeners_that_mean_something_else),
		cmocka_unit_test(one_mistake_is_one_problem),
		cmocka_unit_test(answers_that_a_proxy_does_not_wait_for),
		cmocka_unit_test(what_never_acts),
		cmocka_unit_test(layers_without_each_other),
		cmocka_unit_test(memory_must_hold_its_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
