-- SPDX-License-Identifier: GPL-2.0-or-later
-- Packet limits of the fleet, version 1; Redis 6.2 or later, Valkey. One bucket for each source, filled by what the hosts
-- say they have let through.
-- KEYS for each limit: debts (source -> when its debt is paid, ms), told (source -> until when nobody else is told, ms)
-- ARGV 1 when it was read, by the caller's idea of this clock (ms) 2 how late that may be (ms); then for each limit:
--      ms that one token takes to be forgiven, debt that is over (ms), debt at most (ms), n, and n times source, tokens
-- Replies: "ok", then limit, source, debt (ms) of each that is over and whom nobody was told; or "late"

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + tonumber(t[2]) / 1000
local TOLD_MS, SOURCES_MAX = 1000, 100000
local over = {'ok'}
local a = 3

local function text(ms)
	return string.format('%.3f', ms)
end

-- What is no word of weir's counts as nothing: another type, or scores beyond all that are written (a clock that was set
-- back leaves such behind too).
local function clear(key, most)
	local r = redis.pcall('ZCARD', key)
	if type(r) == 'table' and string.find(r.err, 'WRONGTYPE', 1, true) then
		redis.call('DEL', key)
	end
	redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
	redis.call('ZREMRANGEBYSCORE', key, '(' .. text(now + most), '+inf')
end

if now - tonumber(ARGV[1]) > tonumber(ARGV[2]) then
	return {'late'}
end
for l = 1, #KEYS / 2 do
	local debts, told = KEYS[2 * l - 1], KEYS[2 * l]
	local token, room, most, n = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
	a = a + 4
	clear(debts, most)
	clear(told, TOLD_MS)
	for _ = 1, n do
		local source = ARGV[a]
		local paid = tonumber(redis.call('ZSCORE', debts, source) or now)
		paid = math.min(paid + tonumber(ARGV[a + 1]) * token, now + most)
		redis.call('ZADD', debts, text(paid), source)
		if paid - now > room and not redis.call('ZSCORE', told, source) then
			redis.call('ZADD', told, text(now + TOLD_MS), source)
			over[#over + 1] = tostring(l)
			over[#over + 1] = source
			over[#over + 1] = string.format('%.0f', paid - now)
		end
		a = a + 2
	end
	if redis.call('ZCARD', debts) > SOURCES_MAX then
		redis.call('ZREMRANGEBYRANK', debts, 0, -SOURCES_MAX - 1)
	end
	redis.call('PEXPIRE', debts, string.format('%.0f', most + 1000))
	redis.call('PEXPIRE', told, TOLD_MS + 1000)
end
return over
