-- SPDX-License-Identifier: GPL-2.0-or-later
-- Which commands may this user not run, with the key that is given? For weir doctor; Redis 7.0 or later, Valkey.
-- KEYS: one of weir's. ARGV: commands, "get" or "script|load". Replies: those of them that it may not, by spaces; or "?": a
-- server before 7.0 does not tell.

if not redis.acl_check_cmd then
	return '?'
end
-- Redis 8 wants as many words as the command takes, and raises an error else; before that too many do no harm.
local tails = {{KEYS[1], KEYS[1], KEYS[1]}, {KEYS[1], KEYS[1], KEYS[1], KEYS[1]}, {KEYS[1], KEYS[1]}, {KEYS[1]}, {}}

local function may(name)
	for _, tail in ipairs(tails) do
		local words = {}
		for word in string.gmatch(name, '[^|]+') do
			words[#words + 1] = word
		end
		for _, word in ipairs(tail) do
			words[#words + 1] = word
		end
		local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
		if known then
			return allowed
		end
	end
	return false -- a server that has no such command
end

local missing = {}
for _, name in ipairs(ARGV) do
	if not may(name) then
		missing[#missing + 1] = name
	end
end
return table.concat(missing, ' ')
