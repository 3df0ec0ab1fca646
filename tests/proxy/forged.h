/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a client can write that has been believed somewhere. Included by the tests of proxies: none of it may gain anything
 * through any of them.
 */
#ifndef WEIR_TESTS_FORGED_H
#define WEIR_TESTS_FORGED_H

/* Header lines that some proxy, guide or server believes. */
static const char *const forged_headers[] = {
	"X-Forwarded-Uri: /harmless\r\n",
	"X-Forwarded-Method: OPTIONS\r\n",
	"X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /harmless\r\nX-Forwarded-Host: other\r\n",
	"X-Forwarded-Host: other.example\r\n",
	"X-Forwarded-Proto: https\r\n",
	"X-Original-URI: /harmless\r\n",
	"X-Original-URL: /harmless\r\n",
	"X-Original-Method: OPTIONS\r\n",
	"X-Rewrite-URL: /harmless\r\n",
	"X-Original-URI: /harmless\r\nX-Original-URI: /harmless\r\nX-Original-Method: GET\r\n",
	"x_original_uri: /harmless\r\nX_Forwarded_For: 192.0.2.66\r\n",
	"X-Forwarded-For: 192.0.2.66\r\n",
	"X-Forwarded-For: 192.0.2.66, 127.0.0.1\r\n",
	"X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 192.0.2.67\r\n",
	"X-Forwarded-For: 127.0.0.1, 127.0.0.1, 127.0.0.1\r\n",
	"X-Forwarded-For: garbage\r\n",
	"X-Forwarded-For:\r\n",
	"X-Forwarded-For: \"192.0.2.66\", [2001:db8::1]:80\r\n",
	"X-Real-IP: 192.0.2.66\r\n",
	"X-Client-IP: 192.0.2.66\r\nTrue-Client-IP: 192.0.2.66\r\nCF-Connecting-IP: 192.0.2.66\r\n",
	"Forwarded: for=192.0.2.66\r\n",
	"Forwarded: for=192.0.2.66;by=127.0.0.1, for=127.0.0.1\r\n",
	"X-Plan: pro\r\n",
	"X-Plan: pro\r\nX-Plan: pro\r\n",
	"x-plan: pro\r\nX_Plan: pro\r\n",
	"X-Cost: 0\r\n",
	"X-Weir-User: somebody-else\r\n",
	"X-Weir-Decision: allow\r\nX-Weir-Status: 200\r\nX-Weir-Limit: none\r\n",
	"X-Weir-Decision: allow\r\nRateLimit: \"x\";r=9\r\nX-RateLimit-Remaining: 99\r\n",
	"X-HTTP-Method-Override: OPTIONS\r\n",
	"Connection: X-Original-URI, X-Forwarded-For, X-Forwarded-Uri\r\n",
	"Connection: keep-alive, X-Forwarded-Method\r\n",
	"User-Agent: another\r\nX-API-Key: fresh\r\nAuthorization: Bearer fresh\r\nCookie: a=b\r\n",
	"Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n",
};

/* Spellings of /exact/page, to some server or other. */
static const char *const forged_targets[] = {
	"/exact/page?deny_status=200",
	"/exact/page?peek=true&cost=0&plan=pro&profile=json",
	"/exact/page?",
	"//exact/page",
	"/exact//page",
	"/exact///page//",
	"/exact/page/",
	"/exact/./page",
	"/./exact/page",
	"/exact/other/../page",
	"/other/../exact/page",
	"/../exact/page",
	"/exact/%70age",
	"/%65xact/page",
	"/exact/%2e/page",
	"/exact/other/%2e%2e/page",
	"/exact/other/%2E./page",
	"/exact%2fpage",
	"/exact%2Fpage",
	"/exact/page;v=1",
	"/exact;v=1/page",
	"/exact/page;",
	"/exact/page%3b",
	"/exact/page#fragment",
	"/exact\\page",
	"/exact%5cpage",
	"http://app.example/exact/page",
	"HTTP://app.example/exact/page",
	"http://other.example/exact/page",
	"http://app.example//exact/page?x",
	"//app.example/exact/page",
};

#endif
