-- SPDX-License-Identifier: GPL-2.0-or-later
-- weir's fleet, version 1; Redis 6.2 or later, Valkey. The keys are described in fleet.h, the rules in merge.c.
-- KEYS 1 list 2 changes 3 gone 4 ends 5 pushed 6 agents 7 limits 8 secret 9 key
-- ARGV 1 what to do 2 the store's id as the caller knows it ("": not) 3 one to take if a new one is needed
--      4 the caller 5 changes it has taken 6 the version of the last of them 7, 8 the same as of the last reply that it had;
--      the rest is what to do
-- Replies: microseconds, id, changes, version of the last of them, last version of all, that of the latest deletion that is
-- forgotten, generation of limits, "ok" or "new" or what went wrong, the rest
-- What is no word of weir's under its keys counts as nothing, is overwritten, and is not sent to anybody.

local LIST, CHANGES, GONE, ENDS, PUSHED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local AGENTS, LIMITS, SECRET, KEY = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local DAY_MS = 86400000
local STREAM_MAX, GONE_MAX, GONE_MS = 16384, 100000, 30 * DAY_MS
local FORGET_MAX = 4096 -- in one call: more than it can delete, and a hundredth of a second
local ORIGINS_MAX, LINE_MAX, VALUE_MAX, BEAT_MAX, LIMITS_MAX = 16, 700, 8191, 2048, 1048576 -- bytes, as in fleet_int.h
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

local meta = call('HMGET', LIST, 'id', 'n', 'told', 'last', 'forgot')
local id, n, told, last, forgot = meta[1], number(meta[2]), number(meta[3]), number(meta[4]), number(meta[5])
local dirty = false

if not id or #id ~= 32 or not n or not told or not last or not forgot then
	call('DEL', LIST, CHANGES, ENDS, GONE)
	id, n, told, last, forgot = ARGV[3], 0, 0, now_ms * SEQ, 0
	call('HSET', LIST, 'id', id)
	dirty = true
end

-- "1795977139110-3"
local function stream_id(v)
	return text(floor(v / SEQ)) .. '-' .. text(v % SEQ)
end

-- Was the store there, of which the caller last heard? Else an older copy is in its place, or it is not known any more: the
-- caller says what it has before it takes the store's word for anything.
local function has_been(at_n, version)
	if at_n == n or at_n == 0 then
		return at_n == 0 or version == told
	end
	local at = stream_id(version)
	local change = call('XRANGE', CHANGES, at, at)[1]
	return change and #change[2] == 6 and change[2][6] == text(at_n)
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
	last = math.max(now_ms * SEQ, last + 1)
	dirty = true
	return last
end

-- --- entries: a line for each origin: SAID GONE ENDS CREATED_MS FLAGS ORIGIN HOST WHO REASON
-- ENDS: that of the last addition, then ",SAID:END" of each one before it that ends later; for when one of them turns out to
-- be deleted. Here {said, end}, the newest first; 0 is for ever.

-- Those that are none, or later than anything (top), could never be deleted.
local LINE = '^(%d+)\t(%d+)\t(%d+)([%d,:]*)\t(%d+)\t(%d+)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$'
local SAID, ENTRY_GONE, ENDS_OF, CREATED, FLAGS, ORIGIN, HOST, WHO, REASON = 1, 2, 3, 4, 5, 6, 7, 8, 9
local ENDS_MAX = 8

local function parse(lines, top)
	local all = {}
	for line in string.gmatch(lines, '([^\n]*)\n') do
		local said, gone, first, more, created, flags, origin, host, who, reason = string.match(line, LINE)
		if said and #line <= LINE_MAX and #all < ORIGINS_MAX then
			local ends = {{number(said), number(first)}}
			for s, v in string.gmatch(more, ',(%d+):(%d+)') do
				ends[#ends + 1] = {number(s), number(v)}
			end
			local e = {ends[1][1], number(gone), ends, number(created), number(flags), origin, host, who, reason}
			local right = e[ENTRY_GONE] and e[ENTRY_GONE] <= top and e[CREATED] and e[FLAGS]
			for _, x in ipairs(ends) do
				right = right and x[1] and x[2] and x[1] <= top
			end
			if right then
				all[#all + 1] = e
			end
		end
	end
	return all
end

-- The latest of its ends is the oldest that is kept.
local function last_end(e)
	return e[ENDS_OF][#e[ENDS_OF]][2]
end

local function is_over(e)
	return last_end(e) > 0 and last_end(e) <= now_ms
end

local function is_later(a, b)
	return b > 0 and (a == 0 or a > b)
end

-- A deletion alone.
local function nothing(origin, gone)
	return {0, gone, {{0, 0}}, 0, 0, origin, '', '', ''}
end

-- Without what is deleted or over, but with its deletion: gone is that of all origins.
local function settle(all, gone)
	local out = {}
	for _, e in ipairs(all) do
		if e[ENTRY_GONE] <= gone then
			e[ENTRY_GONE] = 0
		end
		local ends, deleted = e[ENDS_OF], math.max(gone, e[ENTRY_GONE])
		while #ends > 1 and ends[#ends][1] <= deleted do
			table.remove(ends)
		end
		if e[SAID] <= deleted or is_over(e) then
			e = nothing(e[ORIGIN], e[ENTRY_GONE])
		end
		if e[SAID] > 0 or e[ENTRY_GONE] > 0 then
			out[#out + 1] = e
		end
	end
	return out
end

local function join(all)
	local lines = {}
	for i, e in ipairs(all) do
		local ends = text(e[ENDS_OF][1][2])
		for k = 2, #e[ENDS_OF] do
			ends = ends .. ',' .. text(e[ENDS_OF][k][1]) .. ':' .. text(e[ENDS_OF][k][2])
		end
		lines[i] = text(e[SAID]) .. '\t' .. text(e[ENTRY_GONE]) .. '\t' .. ends .. '\t' .. text(e[CREATED]) .. '\t' ..
			text(e[FLAGS]) .. '\t' .. table.concat(e, '\t', ORIGIN) .. '\n'
	end
	return table.concat(lines)
end

local function find(all, origin)
	for i, e in ipairs(all) do
		if e[ORIGIN] == origin then
			return e, i
		end
	end
end

-- Of both what ends later than all that was said after it.
local function join_ends(a, b)
	local all, out = {}, {}
	for _, ends in ipairs({a, b}) do
		for _, x in ipairs(ends) do
			all[#all + 1] = x
		end
	end
	table.sort(all, function(x, y)
		return x[1] > y[1] or (x[1] == y[1] and is_later(x[2], y[2]))
	end)
	for _, x in ipairs(all) do
		if #out == 0 or is_later(x[2], out[#out][2]) then
			out[#out + 1] = x
		end
	end
	while #out > ENDS_MAX do
		table.remove(out, 2)
	end
	return out
end

-- The later end, for ever beats all; what was made first stays so; the reason, and its author, of what was said later.
local function extend(old, e)
	old[ENDS_OF] = join_ends(old[ENDS_OF], e[ENDS_OF])
	if e[CREATED] < old[CREATED] then
		old[CREATED] = e[CREATED]
	end
	if e[FLAGS] > old[FLAGS] then
		old[FLAGS] = e[FLAGS]
	end
	if old[REASON] == '' or (e[SAID] > old[SAID] and e[REASON] ~= '') then
		old[HOST], old[WHO], old[REASON] = e[HOST], e[WHO], e[REASON]
	end
	if e[SAID] > old[SAID] then
		old[SAID] = e[SAID]
	end
end

-- Of too many the one goes that is deleted, or else ends first.
local function make_room(all)
	local first = 1
	local function rank(e)
		return e[SAID] == 0 and -1 or last_end(e) == 0 and math.huge or last_end(e)
	end
	for i, e in ipairs(all) do
		if rank(e) < rank(all[first]) then
			first = i
		end
	end
	table.remove(all, first)
end

-- What two say of one origin, in whichever order they come: what the other has deleted since goes, the rest is one.
local function merge(all, e)
	local old = find(all, e[ORIGIN])
	if not old then
		if #all >= ORIGINS_MAX then
			if e[SAID] == 0 then
				return
			end
			make_room(all)
		end
		all[#all + 1] = e
		return
	end
	local gone = math.max(old[ENTRY_GONE], e[ENTRY_GONE])
	local old_counts, counts = old[SAID] > gone, e[SAID] > gone
	if old_counts and counts then
		extend(old, e)
	elseif counts then
		for i = SAID, REASON do
			old[i] = e[i]
		end
	elseif not old_counts then
		old[SAID] = 0
	end
	old[ENTRY_GONE] = gone
end

-- VERSION GONE, then the lines
local function split(value, top)
	local v, g, lines = string.match(#value <= VALUE_MAX and value or '', '^(%d+) (%d+)\n(.*)$')
	v, g = number(v), number(g)
	if v and g and v <= top and g <= top then
		return v, g, parse(lines, top)
	end
end

-- Version 0: there is nothing.
local function read(key)
	local version, gone, all = split(call('HGET', LIST, key) or '', last)
	return version or 0, gone or 0, settle(all or {}, gone or 0)
end

-- Deletions and ends are found by these when their time has come.
local function index(key, gone, all)
	local deleted, first = gone, math.huge
	for _, e in ipairs(all) do
		deleted = math.max(deleted, e[ENTRY_GONE])
		if last_end(e) > 0 and last_end(e) < first then
			first = last_end(e)
		end
	end
	if deleted > 0 then
		call('ZADD', GONE, text(deleted), key)
	end
	if first < math.huge then
		call('ZADD', ENDS, text(first), key)
	else
		call('ZREM', ENDS, key)
	end
end

local function body_of(gone, all)
	local body = text(gone) .. '\n' .. join(all)
	if #body <= VALUE_MAX - 64 then
		return body
	end
	for _, e in ipairs(all) do -- that much always fits
		e[ENDS_OF] = {e[ENDS_OF][1], #e[ENDS_OF] > 1 and e[ENDS_OF][#e[ENDS_OF]] or nil}
	end
	return text(gone) .. '\n' .. join(all)
end

-- Returns the body.
local function write(key, version, gone, all)
	local body = body_of(gone, all)
	if gone > 0 or #all > 0 then
		call('HSET', LIST, key, text(version) .. ' ' .. body)
	else
		call('HDEL', LIST, key)
	end
	index(key, gone, all)
	return body
end

local function tell(key, body, version)
	local words = {CHANGES, 'MAXLEN', '~', STREAM_MAX, stream_id(version), 'k', key, 'v', body, 'n', text(n)}
	local r = redis.pcall('XADD', unpack(words))
	if type(r) == 'table' and r.err then
		if string.find(r.err, 'equal or smaller', 1, true) then
			call('DEL', CHANGES) -- somebody else's entry is in the way; the hosts read the whole
		end
		call('XADD', unpack(words))
	end
end

-- Writes it and tells the others.
local function put(key, version, gone, all)
	n, told = n + 1, version
	tell(key, write(key, version, gone, all), version)
end

-- --- changes

local ops = {}

local function shown(all)
	local out = {}
	for _, e in ipairs(all) do
		if e[SAID] > 0 then
			out[#out + 1] = table.concat({text(last_end(e)), text(e[CREATED]), text(e[FLAGS]), e[ORIGIN], e[HOST], e[WHO],
				e[REASON]}, '\t')
		end
	end
	return table.concat(out, '\n')
end

-- One that changes nothing is no news; but it was said now, should somebody have deleted it in a store that was lost.
function ops.A(key, line)
	local version, gone, all = read(key)
	local new = parse(line .. '\n', last)[1]
	if not new or is_over(new) then
		return
	end
	local was = shown(all)
	new[SAID], new[ENTRY_GONE] = next_version(), 0
	new[ENDS_OF] = {{new[SAID], last_end(new)}}
	merge(all, new)
	if shown(all) == was then
		write(key, version, gone, all)
	else
		put(key, new[SAID], gone, all)
	end
end

function ops.D(key, origin)
	local _, gone, all = read(key)
	local version = next_version()
	if origin == '' then
		put(key, version, version, {})
	else
		merge(all, nothing(origin, version))
		put(key, version, gone, settle(all, gone))
	end
end

-- What a host knows, which a store may have lost; in any order.
function ops.R(key, data)
	local version, theirs, lines = split(data, NUMBER_MAX)
	if not version then
		return
	end
	local cur, ours, all = read(key)
	local was, gone = join(all), math.max(ours, raise(theirs))
	version = raise(version)
	for _, e in ipairs(settle(lines, gone)) do
		e[SAID], e[ENTRY_GONE] = raise(e[SAID]), raise(e[ENTRY_GONE])
		for _, x in ipairs(e[ENDS_OF]) do
			x[1] = raise(x[1])
		end
		merge(all, e)
	end
	all = settle(all, gone)
	if (gone > 0 or #all > 0) and (gone ~= ours or join(all) ~= was or cur < version) then
		put(key, next_version(), gone, all)
	end
end

-- From now on nobody may bring back what was deleted up to then: who was away since before it reads and says nothing.
local function forget(members)
	for i = 1, #members, 2 do
		local version, _, all = read(members[i])
		for _, e in ipairs(all) do
			e[ENTRY_GONE] = 0
		end
		write(members[i], version, 0, settle(all, 0))
		call('ZREM', GONE, members[i])
		local deleted = number(members[i + 1])
		if deleted and deleted <= last then
			forgot, dirty = math.max(forgot, deleted), true
		end
	end
end

local function apply(from)
	for i = from, #ARGV - 2, 3 do
		ops[ARGV[i]](ARGV[i + 1], ARGV[i + 2])
	end
	local over = call('ZCARD', GONE) - GONE_MAX
	if over > 0 then
		forget(call('ZRANGE', GONE, 0, math.min(over, FORGET_MAX) - 1, 'WITHSCORES'))
	end
end

-- What is there now of the keys that were asked for: key, value.
local function state(from)
	local out, seen = {}, {}
	for i = from, #ARGV - 2, 3 do
		local key = ARGV[i + 1]
		if not seen[key] then
			seen[key] = true
			out[#out + 1] = key
			out[#out + 1] = read(key) > 0 and call('HGET', LIST, key) or ''
		end
	end
	return out
end

-- Entries that have ended go without a word: every host knows their end.
local function prune()
	for _, key in ipairs(call('ZRANGEBYSCORE', ENDS, '-inf', text(now_ms), 'LIMIT', 0, 50)) do
		write(key, read(key))
	end
	forget(call('ZRANGEBYSCORE', GONE, '-inf', text((now_ms - GONE_MS) * SEQ), 'WITHSCORES', 'LIMIT', 0, 50))
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

if id ~= ARGV[2] or not has_been(tonumber(ARGV[7]), tonumber(ARGV[8])) then
	status = 'new'
end
if what == 'poll' then
	-- 9 how many changes at most, or 0 10 what the caller says of itself ("": nothing) 11 its former name, or ""
	local events, agents, before = {}, {}, ''
	if status == 'ok' and ARGV[9] ~= '0' and tonumber(ARGV[5]) < n then
		events = call('XRANGE', CHANGES, '(' .. stream_id(tonumber(ARGV[6])), '+', 'COUNT', ARGV[9])
		for _, e in ipairs(events) do
			if #e[2] ~= 6 or #e[2][2] + #e[2][4] + #e[2][6] > VALUE_MAX then
				e[2] = {} -- not a change: the caller reads the whole
			end
		end
	end
	if ARGV[10] ~= '' then
		agents, before = beat(ARGV[10], ARGV[11])
	end
	rest = {events, agents, secret(), fingerprint(), before}
elseif what == 'scan' then
	-- 9 cursor 10 about how many
	if status == 'ok' then
		local page, kept = call('HSCAN', LIST, ARGV[9], 'COUNT', ARGV[10]), {}
		for i = 1, #page[2], 2 do
			if #page[2][i] + #page[2][i + 1] <= VALUE_MAX then
				kept[#kept + 1] = page[2][i]
				kept[#kept + 1] = page[2][i + 1]
			end
		end
		rest = {page[1], kept}
	end
elseif what == 'push' then
	-- 9 number of the batch, then op, key, data
	local pushed = number(call('HGET', PUSHED, ARGV[4])) or 0
	if status == 'ok' and pushed > tonumber(ARGV[9]) then
		status, rest = 'behind', {text(pushed)}
	elseif status == 'ok' then
		if pushed < tonumber(ARGV[9]) then
			apply(10)
			call('HSET', PUSHED, ARGV[4], ARGV[9])
		end
		rest = state(10)
	end
elseif what == 'restore' then
	-- 9 what was forgotten, as the caller knows it, then op, key, data
	if status == 'ok' then
		forgot, dirty = math.max(forgot, raise(tonumber(ARGV[9]))), true
		apply(10)
	end
elseif what == 'secret' then
	-- 9 secret ("": none) 10 its fingerprint 11 "replace": nobody alive has another
	if ARGV[9] ~= '' and secret() == '' then
		call('SET', SECRET, ARGV[9])
	end
	if ARGV[11] == 'replace' then
		call('SET', KEY, ARGV[10])
	else
		call('SET', KEY, ARGV[10], 'NX')
	end
	rest = {secret(), fingerprint()}
elseif what == 'limits' then
	rest = call('HMGET', LIMITS, 'generation', 'text', 'host', 'who', 'at')
	for i = 1, 5 do
		rest[i] = string.sub(rest[i] or '', 1, i == 2 and LIMITS_MAX + 1 or 63) -- one too many is refused
	end
elseif what == 'publish' then
	-- 9 the generation that it follows 10 the one that it gets 11 text 12 host 13 who
	local generation = published()
	if generation ~= tonumber(ARGV[9]) then
		status, rest = 'behind', {text(generation), string.sub(call('HGET', LIMITS, 'host') or '', 1, 63)}
	else
		call('HSET', LIMITS, 'generation', ARGV[10], 'text', ARGV[11], 'host', ARGV[12], 'who', ARGV[13],
			'at', text(now_ms))
		status, rest = 'ok', {ARGV[10]}
	end
end
if dirty then
	call('HSET', LIST, 'n', text(n), 'told', text(told), 'last', text(last), 'forgot', text(forgot))
end
return {text(tonumber(t[1]) * 1000000 + tonumber(t[2])), id, text(n), text(told), text(last), text(forgot),
	text(published()), status, rest}
