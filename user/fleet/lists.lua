-- SPDX-License-Identifier: GPL-2.0-or-later
-- weir's fleet, version 1; Redis 6.2 or later, Valkey. The keys are described in fleet.h, the rules in merge.c.
-- KEYS 1 list 2 changes 3 gone 4 ends 5 pushed 6 agents 7 limits 8 secret 9 key
-- ARGV 1 what to do 2 the store's id as the caller knows it ("": not) 3 one to take if a new one is needed
--      4 the caller 5 changes it has seen 6 the version of the last; the rest is what to do
-- Replies: microseconds, id, changes, last version, generation of limits, "ok" or "new" or what went wrong, the rest
-- What is no word of weir's under its keys counts as nothing, is overwritten, and is not sent to anybody.

local LIST, CHANGES, GONE, ENDS, PUSHED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local AGENTS, LIMITS, SECRET, KEY = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local DAY_MS = 86400000
local STREAM_MAX, GONE_MAX, GONE_MS = 16384, 100000, 30 * DAY_MS
local ORIGINS_MAX, LINE_MAX, VALUE_MAX, BEAT_MAX, LIMITS_MAX = 16, 400, 8191, 2048, 1048576 -- bytes, as in fleet_int.h
local SEQ = 4096 -- a version is milliseconds * SEQ + number
local NUMBER_MAX = 2 ^ 53 - 2 ^ 40 -- a year of versions below what is exact

local call, floor = redis.call, math.floor
local t = call('TIME')
local now_ms = tonumber(t[1]) * 1000 + floor(tonumber(t[2]) / 1000)

local function text(n)
	return string.format('%.0f', n)
end

-- nil: it is none of weir's.
local function number(word)
	local v = word and tonumber(word)
	return v and v >= 0 and v < NUMBER_MAX and v % 1 == 0 and v or nil
end

-- --- keys of another type

local mended = {}
if ARGV[1] == 'mend' then
	local reads = {{'HGET', LIST, 'id'}, {'XRANGE', CHANGES, '-', '+', 'COUNT', 1}, {'ZCARD', GONE}, {'ZCARD', ENDS},
		{'HGET', PUSHED, ''}, {'HGET', AGENTS, ''}, {'HGET', LIMITS, 'at'}, {'GET', SECRET}, {'GET', KEY}}
	for i, read in ipairs(reads) do
		local r = redis.pcall(unpack(read))
		if type(r) == 'table' and r.err and string.find(r.err, 'WRONGTYPE', 1, true) then
			call('DEL', KEYS[i])
			mended[#mended + 1] = KEYS[i]
		end
	end
end

-- --- the store's own fields

local meta = call('HMGET', LIST, 'id', 'n', 'last', 'born')
local id, n, last, born = meta[1], number(meta[2]), number(meta[3]), number(meta[4])
local dirty = false

if not id or #id ~= 32 or not n or not last or not born then
	local top = number(call('ZREVRANGE', GONE, 0, 0, 'WITHSCORES')[2])
	call('DEL', LIST, CHANGES, ENDS, GONE)
	id, n, last = ARGV[3], 0, now_ms * SEQ
	if top and top > last then
		last = top
	end
	born = last
	call('HSET', LIST, 'id', id, 'born', text(born))
	dirty = true
elseif ARGV[2] == id and (tonumber(ARGV[5]) > n or tonumber(ARGV[6]) > last) then
	-- An older copy of the store is in its place: who knows more says it again.
	id = ARGV[3]
	call('HSET', LIST, 'id', id)
end

-- Versions only grow, whatever the clock does, and those of a former store are below.
local function raise(v)
	if v > (now_ms + DAY_MS) * SEQ then
		v = now_ms * SEQ
	end
	if v > last then
		last = v
		dirty = true
	end
	return v
end

local function next_version()
	local v = now_ms * SEQ
	if v <= last then
		v = last + 1
	end
	last = v
	n = n + 1
	dirty = true
	return v
end

-- --- entries: END_MS, CREATED_MS, FLAGS, ORIGIN, HOST, WHO, REASON; a line each

local function parse(lines)
	local all = {}
	for line in string.gmatch(lines, '([^\n]*)\n') do
		local e = {string.match(line, '^(%d+)\t(%d+)\t(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$')}
		if e[1] and #line <= LINE_MAX and #all < ORIGINS_MAX and (e[1] == '0' or tonumber(e[1]) > now_ms) then
			all[#all + 1] = e
		end
	end
	return all
end

local function join(all)
	local lines = {}
	for i, e in ipairs(all) do
		lines[i] = table.concat(e, '\t') .. '\n'
	end
	return table.concat(lines)
end

-- The later end, for ever beats all; what was made first stays so; the newer reason and its author.
local function add(all, e)
	for _, old in ipairs(all) do
		if old[4] == e[4] then
			if old[1] ~= '0' and (e[1] == '0' or tonumber(e[1]) > tonumber(old[1])) then
				old[1] = e[1]
			end
			if tonumber(e[2]) < tonumber(old[2]) then
				old[2] = e[2]
			end
			if tonumber(e[3]) > tonumber(old[3]) then
				old[3] = e[3]
			end
			if e[7] ~= '' or old[7] == '' then
				old[5], old[6], old[7] = e[5], e[6], e[7]
			end
			return
		end
	end
	if #all >= ORIGINS_MAX then
		local first = 1
		for i, old in ipairs(all) do
			if old[1] ~= '0' and (all[first][1] == '0' or tonumber(old[1]) < tonumber(all[first][1])) then
				first = i
			end
		end
		table.remove(all, first)
	end
	all[#all + 1] = e
end

local function set_end(key, all)
	local first
	for _, e in ipairs(all) do
		local at = tonumber(e[1])
		if at > 0 and (not first or at < first) then
			first = at
		end
	end
	if first then
		call('ZADD', ENDS, text(first), key)
	else
		call('ZREM', ENDS, key)
	end
end

-- VERSION BASE RESTORED, then the lines
local function read(key)
	local value = call('HGET', LIST, key)
	if not value or #value > VALUE_MAX then
		return nil
	end
	local v, b, r, lines = string.match(value, '^(%d+) (%d+) (%d)\n(.*)$')
	v, b = number(v), number(b)
	if not v or not b or v > last then
		return nil
	end
	return {version = v, base = b, restored = r, lines = lines}
end

local function write(key, lines, version, base, restored)
	call('HSET', LIST, key, text(version) .. ' ' .. text(base) .. ' ' .. restored .. '\n' .. lines)
end

local function tell(key, lines, version)
	local words = {'XADD', CHANGES, 'MAXLEN', '~', STREAM_MAX, text(floor(version / SEQ)) .. '-' .. text(version % SEQ),
		'k', key, 'v', lines, 'n', text(n)}
	local r = redis.pcall(unpack(words))
	if type(r) == 'table' and r.err then
		if string.find(r.err, 'equal or smaller', 1, true) then
			call('DEL', CHANGES) -- somebody else's entry is in the way; the hosts read the whole
		end
		call(unpack(words))
	end
end

local function put(key, all, base, restored)
	local version, lines = next_version(), join(all)
	write(key, lines, version, base, restored)
	set_end(key, all)
	tell(key, lines, version)
end

-- gone: of a deletion that the store had lost, its version; beside that of the change by which it was told here.
local function remove(key, gone)
	local version = next_version()
	call('HDEL', LIST, key)
	call('ZREM', ENDS, key)
	call('ZADD', GONE, text(version), key)
	if gone then
		call('ZADD', GONE, text(gone), 'lost ' .. key)
	else
		call('ZREM', GONE, 'lost ' .. key)
	end
	tell(key, '', version)
end

-- --- changes

local ops = {}

function ops.A(key, line)
	local cur, new = read(key), parse(line .. '\n')[1]
	if not new then
		return
	end
	local all = cur and parse(cur.lines) or {}
	add(all, new)
	if cur and join(all) == cur.lines then
		if cur.restored ~= '0' then
			write(key, cur.lines, cur.version, cur.base, '0')
		end
	else
		put(key, all, cur and cur.base or 0, '0')
	end
end

function ops.D(key, origin)
	local cur = read(key)
	if origin == '' then
		remove(key)
		return
	end
	if not cur then
		return
	end
	local all, rest, found = parse(cur.lines), {}, false
	for _, e in ipairs(all) do
		if e[4] == origin then
			found = true
		else
			rest[#rest + 1] = e
		end
	end
	if #rest == 0 then
		remove(key)
	elseif found then
		put(key, rest, cur.base, '0')
	end
end

-- What was said in a former store is deleted by what was deleted there, or by anybody here.
local function is_gone(key, version)
	local at = version < born and call('ZSCORE', GONE, 'lost ' .. key) or call('ZSCORE', GONE, key)
	return at and tonumber(at) >= version
end

-- What a host has of a store that lost it.
function ops.R(key, data)
	local v, lines = string.match(data, '^(%d+)\n(.*)$')
	if not v then
		return
	end
	local version, cur, all = raise(tonumber(v)), read(key), parse(lines)
	if #all == 0 or is_gone(key, version) then
		return
	end
	if not cur or cur.version < version then
		put(key, all, version, '1')
	elseif cur.version == version or version >= born or cur.base >= version then
		return -- the same, or older
	elseif cur.restored == '1' then
		put(key, all, version, '1')
	else
		local union = parse(cur.lines)
		for _, e in ipairs(all) do
			add(union, e)
		end
		put(key, union, version, '0')
	end
end

-- The same of deletions.
function ops.T(key, v)
	local version, cur = raise(tonumber(v)), read(key)
	if is_gone(key, version) then
		return
	end
	if cur and (cur.version < version or (cur.restored == '1' and cur.base < version)) then
		remove(key, version) -- what came after it may still be told
	else
		call('ZADD', GONE, text(version), (version < born and 'lost ' or '') .. key)
	end
end

local function apply(from)
	for i = from, #ARGV - 2, 3 do
		ops[ARGV[i]](ARGV[i + 1], ARGV[i + 2])
	end
	local over = call('ZCARD', GONE) - GONE_MAX
	if over > 0 then
		call('ZREMRANGEBYRANK', GONE, 0, over - 1)
	end
end

-- What is there now of the keys that were asked for: key, value, version.
local function state(from)
	local out, seen = {}, {}
	for i = from, #ARGV - 2, 3 do
		local key = ARGV[i + 1]
		if not seen[key] then
			seen[key] = true
			local value = read(key) and call('HGET', LIST, key)
			out[#out + 1] = key
			out[#out + 1] = value or ''
			out[#out + 1] = value and '' or text(tonumber(call('ZSCORE', GONE, key) or 0))
		end
	end
	return out
end

-- Entries that have ended go without a word: every host knows their end.
local function prune()
	for _, key in ipairs(call('ZRANGEBYSCORE', ENDS, '-inf', text(now_ms), 'LIMIT', 0, 50)) do
		local cur = read(key)
		local all = cur and parse(cur.lines) or {}
		if #all == 0 then
			call('HDEL', LIST, key)
			call('ZREM', ENDS, key)
		else
			write(key, join(all), cur.version, cur.base, cur.restored)
			set_end(key, all)
		end
	end
	call('ZREMRANGEBYSCORE', GONE, '-inf', text((now_ms - GONE_MS) * SEQ))
end

-- --- agents

local AHEAD_MS = 60000 -- seen then: this clock was set back, and who is alive says so again

-- Returns them, and what the caller's name had said before.
local function beat(words, former)
	local before = call('HGET', AGENTS, ARGV[4]) or ''
	if former ~= '' then
		call('HDEL', AGENTS, former)
		call('HDEL', PUSHED, former)
	end
	call('HSET', AGENTS, ARGV[4], text(now_ms) .. ' ' .. words)
	local all, known = call('HGETALL', AGENTS), {}
	for i = 1, #all, 2 do
		local seen = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
		if seen < now_ms - GONE_MS or seen > now_ms + AHEAD_MS or #all[i + 1] > BEAT_MAX then
			call('HDEL', AGENTS, all[i])
			call('HDEL', PUSHED, all[i])
		else
			known[#known + 1] = all[i]
			known[#known + 1] = all[i + 1]
		end
	end
	prune()
	return known, #before <= BEAT_MAX and before or ''
end

local function secret()
	local s = call('GET', SECRET)
	return s and #s == 64 and not string.find(s, '%X') and s or ''
end

local function fingerprint()
	return string.sub(call('GET', KEY) or '', 1, 63)
end

local function published()
	return number(call('HGET', LIMITS, 'generation')) or 0
end

-- --- what to do

local what, status, rest = ARGV[1], 'ok', mended

if id ~= ARGV[2] then
	status = 'new'
end
if what == 'poll' then
	-- 7 how many changes at most, or 0 8 what the caller says of itself ("": nothing) 9 its former name, or ""
	local events, agents, before = {}, {}, ''
	if status == 'ok' and ARGV[7] ~= '0' and tonumber(ARGV[5]) < n then
		local v = tonumber(ARGV[6])
		events = call('XRANGE', CHANGES, '(' .. text(floor(v / SEQ)) .. '-' .. text(v % SEQ), '+', 'COUNT', ARGV[7])
		for _, e in ipairs(events) do
			if #e[2] ~= 6 or #e[2][2] + #e[2][4] + #e[2][6] > VALUE_MAX then
				e[2] = {} -- not a change: the caller reads the whole
			end
		end
	end
	if ARGV[8] ~= '' then
		agents, before = beat(ARGV[8], ARGV[9])
	end
	rest = {events, agents, secret(), fingerprint(), before}
elseif what == 'scan' then
	-- 7 cursor 8 about how many
	if status == 'ok' then
		local page, kept = call('HSCAN', LIST, ARGV[7], 'COUNT', ARGV[8]), {}
		for i = 1, #page[2], 2 do
			if #page[2][i] + #page[2][i + 1] <= VALUE_MAX then
				kept[#kept + 1] = page[2][i]
				kept[#kept + 1] = page[2][i + 1]
			end
		end
		rest = {page[1], kept}
	end
elseif what == 'push' then
	-- 7 number of the batch, then op, key, data
	local pushed = number(call('HGET', PUSHED, ARGV[4])) or 0
	if status == 'ok' and pushed > tonumber(ARGV[7]) then
		status, rest = 'behind', {text(pushed)}
	elseif status == 'ok' then
		if pushed < tonumber(ARGV[7]) then
			apply(8)
			call('HSET', PUSHED, ARGV[4], ARGV[7])
		end
		rest = state(8)
	end
elseif what == 'restore' then
	-- 7 op, key, data
	apply(7)
	status = 'ok'
elseif what == 'secret' then
	-- 7 secret ("": none) 8 its fingerprint 9 "replace": nobody alive has another
	if ARGV[7] ~= '' and secret() == '' then
		call('SET', SECRET, ARGV[7])
	end
	if ARGV[9] == 'replace' then
		call('SET', KEY, ARGV[8])
	else
		call('SET', KEY, ARGV[8], 'NX')
	end
	rest = {secret(), fingerprint()}
elseif what == 'limits' then
	rest = call('HMGET', LIMITS, 'generation', 'text', 'host', 'who', 'at')
	for i = 1, 5 do
		rest[i] = string.sub(rest[i] or '', 1, i == 2 and LIMITS_MAX + 1 or 63) -- one too many is refused
	end
elseif what == 'publish' then
	-- 7 the generation that it follows 8 the one that it gets 9 text 10 host 11 who
	local generation = published()
	if generation ~= tonumber(ARGV[7]) then
		status, rest = 'behind', {text(generation), string.sub(call('HGET', LIMITS, 'host') or '', 1, 63)}
	else
		call('HSET', LIMITS, 'generation', ARGV[8], 'text', ARGV[9], 'host', ARGV[10], 'who', ARGV[11],
			'at', text(now_ms))
		status, rest = 'ok', {ARGV[8]}
	end
end
if dirty then
	call('HSET', LIST, 'n', text(n), 'last', text(last))
end
return {text(tonumber(t[1]) * 1000000 + tonumber(t[2])), id, text(n), text(last),
	text(published()), status, rest}
