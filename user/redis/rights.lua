-- SPDX-License-Identifier: GPL-2.0-or-later
-- Which commands may this user not run, with the key that is given? For weir doctor; Redis 7.0 or later, Valkey.
-- KEYS: one of weir's. ARGV: commands, "get" or "script|load". Replies: those of them that it may not, by spaces; or "?": a
-- server before 7.0 does not tell.

if not redis.acl_check_cmd then
	return '?'
end
local missing = {}
for _, name in ipairs(ARGV) do
	local words = {}
	for word in string.gmatch(name, '[^|]+') do
		words[#words + 1] = word
	end
	for _ = 1, 3 do -- as many as any has keys, or words before them
		words[#words + 1] = KEYS[1]
	end
	if not redis.acl_check_cmd(unpack(words)) then
		missing[#missing + 1] = name
	end
end
return table.concat(missing, ' ')
