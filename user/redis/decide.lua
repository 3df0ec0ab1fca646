-- SPDX-License-Identifier: GPL-2.0-or-later
-- weir decide 1: request limits in Redis 6.2 or later (Valkey too). The algorithms of include/weir/algo_request_*.h,
-- step by step, in whole numbers below 2^53; one random trace runs through both in tests.
--
-- KEYS: states, each once. ARGV[1]: the time in microseconds of the Unix epoch (tests); "0": the server's TIME, read
-- once. ARGV[2]: requests one after another (user/redis/script.c writes them), little endian:
--	request	op u8 (0 decide, 1 judge only, 2 give back, 3 forget), layers u8
--	layer	key u16 (from 1), algorithm u8, flags u8, cost, a, b, c u56; then by flags:
--		1 monitor  2 charged before, op 2 (ticket us, part u56)  4 calendar (four edges u56)
--		8 fresh (count, period, size u56 of its bucket, its key u16, stand-in key u16)
--		16 nobody waits in this queue  32 op 2: the newest charges are meant
--	a, b, c	bucket and queue: count, period, size in parts; windows: limit, length, tick; log: limit, length
-- Reply, a string: now u56, then for each request admitted u8, then for each layer flags u8, remaining, reset, retry u56
-- (all ones: never); times count from now, in microseconds. Flags: 1 admitted, 2 charged, 4 at the stand-in key,
-- 8 delay, ticket us, ticket part u56 follow (else 0, now, 0), 16 of op 1: there was a state.
--
-- All enforcing layers of a request are charged or none; a refusal changes nothing. What is written expires when it is
-- worth nothing. What weir did not write under its keys counts as nothing and is overwritten; so does what it wrote when
-- the clock was more than an hour ahead, or all those clients would wait for that date.

local read, pack = struct.unpack, struct.pack
local fmod, max, min, ceil = math.fmod, math.max, math.min, math.ceil
local call, format = redis.call, string.format
local KEYS, blob = KEYS, ARGV[2]
local NEVER = -1
local MONITOR, CHARGED, CALENDAR, FRESH, TURN_NOW, NEWEST = 1, 2, 4, 8, 16, 32

local now = tonumber(ARGV[1])
if now == 0 then
	local t = call('TIME')
	now = t[1] * 1000000 + t[2]
end

-- Exact: a % b is quick, and right while a + b <= 2^53 (beyond, a quotient below a whole number may be rounded to it).
local HALF = 2 ^ 52
local function div(a, b)
	if a < HALF then
		return (a - a % b) / b
	end
	return (a - fmod(a, b)) / b
end

local function whole(n)
	return format('%.0f', n)
end

-- Milliseconds of at most 14 digits, which is all that .. keeps.
local function short(n)
	return n .. ''
end

local AHEAD = 3600000000

-- States of this call by key: loaded once, written once. A state's words are as they are stored; what they mean for a
-- layer now is worked out into the layer.
local states, dirty = {}, {}

local function changed(s, y)
	if not s.over then
		dirty[#dirty + 1] = s
	end
	s.over = s.algorithm.idle(s, y) -- when it expires
end

-- A key of another type counts as nothing. Whatever else the server has against a command is the call's error: a right
-- that is missing must not empty the state. Then it is called again, in a line that names it (user/redis/script.c).
local function is_refused(r)
	return type(r) == 'table' and not string.find(r.err, 'WRONGTYPE', 1, true)
end

local function load_words(key, form, y)
	local text = redis.pcall('GET', KEYS[key])
	if type(text) == 'string' and #text == form.bytes then
		local a, b, c, d = read(form.pack, text)
		if form.since(a, y) - now <= AHEAD then
			return { a, b, c, d, key = key, algorithm = form, new = false, over = false }
		end
	end
	if is_refused(text) then
		call('GET', KEYS[key])
	end
	return { 0, 0, 0, 0, key = key, algorithm = form, new = true, over = false }
end

local bucket, queue, fixed, log, sliding = {}, {}, {}, {}, {}
local algorithms = { [0] = bucket, queue, fixed, log, sliding }

-- Each has
--	since	a moment of the clock by which a state was written
--	judge	what the state is worth now, and what the client is told
--	look	what the client is told after take
--	take, refund	change the state
--	idle	from when the state is the same as none

-- --- token bucket, leaky bucket: {us, tokens, part, idle} ---------------------------------------------------------

bucket.pack, bucket.bytes = '<I7I7I7I7', 28

function bucket.since(us)
	return us
end

local function bucket_debt(s, y)
	local period, debt, tokens, part = y.b, y.c, s[2], s[3]
	if part > period then
		part = period
	end
	if tokens <= (debt - debt % period) / period and tokens * period + part < debt then
		debt = tokens * period + part
	end
	local passed = now - s[1]
	if passed <= 0 then
		return debt
	end
	local drained = passed * y.a -- inexact only where it is far above any debt
	return drained < debt and debt - drained or 0
end

local function bucket_set(s, y, debt)
	local part = debt % y.b
	if s[1] < now then
		s[1] = now
	end
	s[2], s[3] = (debt - part) / y.b, part
	s[4] = s[1] + div(debt + y.a - 1, y.a)
end

function bucket.look(y)
	local count, period, size, behind, cost = y.a, y.b, y.c, y.behind, y.cost
	local room = size - y.debt
	local remaining = (room - room % period) / period
	local need = (remaining + 1) * period
	y.remaining, y.reset, y.retry = remaining, 0, 0
	if need <= size then
		need = need - room + count - 1
		y.reset = behind + (need - need % count) / count
	end
	if cost > remaining then
		y.retry = cost > div(size, period) and NEVER or behind + div(cost * period - room + count - 1, count)
	end
end

function bucket.judge(s, y)
	y.debt = bucket_debt(s, y)
	y.behind = s[1] > now and s[1] - now or 0
	bucket.look(y)
end

function bucket.take(s, y)
	y.debt = y.debt + y.cost * y.b
	bucket_set(s, y, y.debt)
end

-- What has drained since the charge may have been drained from it.
function bucket.refund(s, y)
	local count, debt, back = y.a, bucket_debt(s, y), y.c
	if y.newest then
		y.us = s[1]
	end
	if y.cost <= div(y.c, y.b) then
		back = y.cost * y.b
	end
	if now > y.us then
		if now - y.us > div(back, count) then
			back = 0
		end
		back = back - min((now - y.us) * count, back)
	end
	bucket_set(s, y, debt - min(back, debt))
	return true
end

function bucket.idle(s)
	return s[4]
end

-- Refused, where the rate was lowered: the state is over later than was thought.
function bucket.leave(s, y)
	local idle = y.behind + now + div(y.debt + y.a - 1, y.a)
	if idle > s[4] then
		s[4] = idle
		changed(s, y)
	end
end

for k, v in pairs(bucket) do
	queue[k] = v
end

local function queue_delay(y)
	y.delay = y.behind + div(y.debt + y.a - 1, y.a)
	if y.turn_now then
		if y.retry == 0 then
			y.retry = y.delay
		end
		y.remaining = y.delay == 0 and min(y.remaining, 1) or 0
		y.reset, y.delay = y.delay, 0
	end
end

function queue.look(y)
	bucket.look(y)
	queue_delay(y)
end

function queue.judge(s, y)
	bucket.judge(s, y)
	queue_delay(y)
end

local function queue_ticket(s, y, debt)
	return max(now, s[1]) + div(debt, y.a), debt % y.a
end

function queue.take(s, y)
	bucket.take(s, y)
	y.us, y.part = queue_ticket(s, y, y.debt)
	y.more = true
end

-- A place is free again only if it is the last one and its turn has not come.
function queue.refund(s, y)
	local debt = bucket_debt(s, y)
	local us, part = queue_ticket(s, y, debt)
	local last = y.newest or us == y.us and part == y.part
	if last and y.cost <= div(y.c, y.b) and debt >= y.cost * y.b then
		bucket_set(s, y, debt - y.cost * y.b)
		return true
	end
	bucket_set(s, y, debt)
	return false
end

-- --- fixed window: {end, count} ------------------------------------------------------------------------------------

fixed.pack, fixed.bytes = '<I7I7', 14
local MONTH = 31 * 86400000000

function fixed.since(stop, y)
	return stop - (y.b > 0 and y.b or MONTH)
end

-- The window of now, or a later one that was seen already.
local function fixed_window(s, y)
	local e, start, stop = y.edge, 0, 0
	if not e then
		start = now - now % y.b
		stop = start + y.b
	else
		local i = 1
		while i < 3 and now >= e[i + 1] do
			i = i + 1
		end
		start, stop = e[i], e[i + 1]
	end
	y.start, y.stop = start, stop
	if s[1] < stop then
		y.ends, y.count = stop, 0
	else
		y.ends, y.count = s[1], s[2] < y.a and s[2] or y.a
	end
end

function fixed.look(y)
	local left = y.ends > now and y.ends - now or 1
	y.remaining = y.a - y.count
	y.reset = y.count > 0 and left or 0
	y.retry = 0
	if y.cost > y.remaining then
		y.retry = y.cost > y.a and NEVER or left
	end
end

function fixed.judge(s, y)
	fixed_window(s, y)
	fixed.look(y)
end

function fixed.take(s, y)
	y.count = y.count + y.cost
	s[1], s[2] = y.ends, y.count
end

function fixed.refund(s, y)
	fixed_window(s, y)
	if y.newest then
		y.us = y.start
	end
	if y.ends == y.stop and y.us >= y.start and y.us < y.stop then
		y.count = y.count - min(y.cost, y.count)
	end
	s[1], s[2] = y.ends, y.count
	return true
end

function fixed.idle(s)
	return s[2] > 0 and s[1] or 0
end

-- --- sliding-window counter: {index, current, previous} ------------------------------------------------------------

sliding.pack, sliding.bytes = '<I7I4I4', 15

function sliding.since(index, y)
	return index * y.b
end

local function sliding_roll(s, y)
	local index = div(now, y.b)
	if index <= s[1] then
		return s[1], s[2], s[3]
	end
	return index, 0, index == s[1] + 1 and s[2] or 0
end

local function sliding_when(y, cost)
	local ticks, current, previous, e = y.ticks, y.current, y.previous, 0
	if current + cost <= y.a then
		if previous > 0 then
			e = div((y.a - current - cost) * ticks, previous)
			e = e >= ticks and 0 or ticks - e
		end
		if e < ticks then
			return e * y.c
		end
	end
	e = current > 0 and div((y.a - cost) * ticks, current) or ticks
	e = e >= ticks and 0 or ticks - e
	return e < ticks and y.b + e * y.c or 2 * y.b
end

function sliding.look(y)
	local ticks, start = y.ticks, y.index * y.b
	local e = now > start and div(now - start, y.c) or 0
	local left = y.a * ticks - (y.current * ticks + y.previous * (ticks - e))
	local remaining = left > 0 and div(left, ticks) or 0
	y.remaining = remaining
	y.reset = remaining < y.a and start + sliding_when(y, remaining + 1) - now or 0
	y.retry = 0
	if y.cost > remaining then
		y.retry = y.cost > y.a and NEVER or start + sliding_when(y, y.cost) - now
	end
end

-- Counts above a smaller plan's limit are kept for the bigger one, and mean the limit.
local function sliding_view(s, y)
	y.index, y.current, y.previous = sliding_roll(s, y)
	if y.current > y.a then
		y.current = y.a
	end
	if y.previous > y.a then
		y.previous = y.a
	end
	y.ticks = y.c == 1 and y.b or div(y.b + y.c - 1, y.c)
end

function sliding.judge(s, y)
	sliding_view(s, y)
	sliding.look(y)
end

function sliding.take(s, y)
	s[1], s[2], s[3] = sliding_roll(s, y)
	s[2] = s[2] + y.cost
	y.current = y.current + y.cost
end

function sliding.refund(s, y)
	sliding_view(s, y)
	local index = y.newest and y.index - (y.current == 0 and 1 or 0) or div(y.us, y.b)
	if index == y.index then
		y.current = y.current - min(y.cost, y.current)
	elseif index + 1 == y.index then
		y.previous = y.previous - min(y.cost, y.previous)
	end
	s[1], s[2], s[3] = y.index, y.current, y.previous
	return true
end

function sliding.idle(s, y)
	return (s[1] + (s[2] > 0 and 2 or s[3] > 0 and 1 or 0)) * y.b
end

-- --- sliding-window log: a list of times, oldest first; written at once ---------------------------------------------

local function log_at(s, i)
	local us = tonumber(call('LINDEX', s.name, i))
	return us and us < 2 * HALF and us or 0
end

function log.load(key)
	local name = KEYS[key]
	local n = redis.pcall('LLEN', name)
	if type(n) ~= 'number' then
		if is_refused(n) then
			call('LLEN', name)
		end
		call('DEL', name)
		n = 0
	end
	local s = { name = name, n = n, oldest = 0, newest = 0, key = key, algorithm = log, new = n == 0, over = false }
	if n > 0 then
		s.oldest, s.newest = log_at(s, 0), log_at(s, -1)
	end
	if s.newest - now > AHEAD then
		call('DEL', name)
		s.n, s.oldest, s.newest, s.new = 0, 0, 0, true
	end
	return s
end

-- How many of the oldest are over, or beyond a lowered limit; and how many count.
local function log_view(s, y)
	local at, over = max(now, s.newest), 0
	if s.n > 0 and at - s.oldest >= y.b then
		local low, high = 1, s.n
		while low < high do
			local mid = div(low + high, 2)
			if at - log_at(s, mid) >= y.b then
				low = mid + 1
			else
				high = mid
			end
		end
		over = low
	end
	y.used = min(s.n - over, y.a)
	y.over = s.n - y.used
end

function log.judge(s, y)
	log_view(s, y)
	y.remaining = y.a - y.used
	y.reset = y.used > 0 and (y.over == 0 and s.oldest or log_at(s, y.over)) + y.b - now or 0
	y.retry = 0
	if y.cost > y.a then
		y.retry = NEVER
	elseif y.cost > y.remaining then
		y.retry = log_at(s, y.over + y.cost - y.remaining - 1) + y.b - now
	end
end

-- After take: nothing is over.
function log.look(y)
	local s = y.state
	y.remaining, y.reset = y.a - s.n, s.oldest + y.b - now
end

local function log_read_ends(s)
	s.oldest, s.newest = 0, 0
	if s.n > 0 then
		s.oldest, s.newest = log_at(s, 0), log_at(s, -1)
	end
end

local function log_trim(s, drop)
	if drop > 0 then
		call('LTRIM', s.name, drop, -1)
		s.n = s.n - drop
		log_read_ends(s)
	end
end

function log.take(s, y)
	local at, left = max(now, s.newest), y.cost
	local text = whole(at)
	y.us, y.part, y.more = at, 0, true
	log_trim(s, y.over)
	if s.n == 0 then
		s.oldest = at
	end
	if left == 1 then
		call('RPUSH', s.name, text)
		left = 0
	end
	while left > 0 do -- unpack() has a bound
		local some = {}
		for i = 1, min(left, 1000) do
			some[i] = text
		end
		call('RPUSH', s.name, unpack(some))
		left = left - #some
	end
	s.n, s.newest = s.n + y.cost, at
end

function log.refund(s, y)
	log_view(s, y)
	log_trim(s, y.over)
	if s.n > 0 then
		if y.newest then
			call('LTRIM', s.name, 0, -1 - min(y.cost, s.n))
			s.n = s.n - min(y.cost, s.n)
		else
			s.n = s.n - call('LREM', s.name, y.cost, whole(y.us))
		end
		log_read_ends(s)
	end
	return true
end

function log.idle(s, y)
	return s.n > 0 and s.newest + y.b or 0
end

-- --- requests ------------------------------------------------------------------------------------------------------

local function state_of(key, algorithm, y)
	local s = states[key]
	if not s then
		s = algorithm.load and algorithm.load(key) or load_words(key, algorithm, y)
		states[key] = s
	end
	return s
end

-- A state that is over may be there for another millisecond.
local function is_live(s, y)
	return not s.new and y.algorithm.idle(s, y) > now
end

local function flag(flags, bit)
	return flags % (2 * bit) >= bit
end

local function read_fresh(at)
	local z = { algorithm = bucket, cost = 1, a = 0, b = 0, c = 0, key = 0, instead = 0, debt = 0, behind = 0 }
	z.a, z.b, z.c, z.key, z.instead, at = read('<I7I7I7I2I2', blob, at)
	return z, at
end

-- Layers are read into the tables of the request before: a new one costs more than all that is worked out in it.
local function read_layer(at, y)
	local key, number, flags
	key, number, flags, y.cost, y.a, y.b, y.c, at = read('<I2I1I1I7I7I7I7', blob, at)
	y.algorithm = algorithms[number]
	y.state = state_of(key, y.algorithm, y)
	y.admitted, y.charged, y.instead, y.more, y.delay = false, false, false, false, false
	y.remaining, y.reset, y.retry = 0, 0, 0
	y.monitor, y.turn_now, y.newest, y.us, y.edge, y.fresh = false, false, false, false, false, false
	if flags == 0 then
		return at
	end
	y.monitor, y.turn_now, y.newest = flag(flags, MONITOR), flag(flags, TURN_NOW), flag(flags, NEWEST)
	if flag(flags, CHARGED) then
		y.us, y.part, at = read('<I7I7', blob, at)
	end
	if flag(flags, CALENDAR) then
		local e = {}
		e[1], e[2], e[3], e[4], at = read('<I7I7I7I7', blob, at)
		y.edge = e
	end
	if flag(flags, FRESH) then
		y.fresh, at = read_fresh(at)
	end
	return at
end

-- A key that the client chose and that has no state must be worth one of its address's new keys; else the stand-in.
local function welcome(y)
	local z = y.fresh
	if is_live(y.state, y) then
		y.fresh = false
		return
	end
	z.state = state_of(z.key, bucket, z)
	bucket.judge(z.state, z)
	if z.retry ~= 0 then
		y.state, y.instead, y.fresh = state_of(z.instead, y.algorithm, y), true, false
	end
end

local function judge(layers, n)
	local admitted = true
	for i = 1, n do
		local y = layers[i]
		if y.fresh then
			welcome(y)
		end
		y.algorithm.judge(y.state, y)
		if y.retry == 0 then
			y.admitted = true
		elseif not y.monitor then
			admitted = false
		end
	end
	return admitted
end

local function take(s, y)
	y.algorithm.take(s, y)
	s.new = false
	changed(s, y)
end

local function charge(layers, n, admitted)
	for i = 1, n do
		local y = layers[i]
		if y.cost > 0 and y.admitted and (admitted or y.monitor) then
			local delay = y.delay
			y.charged = true
			take(y.state, y)
			y.algorithm.look(y)
			y.retry, y.delay = 0, delay
			if y.fresh then
				take(y.fresh.state, y.fresh)
			end
		elseif y.algorithm.leave and not y.state.new then
			y.algorithm.leave(y.state, y)
		end
	end
end

local function give_back(layers, n)
	for i = 1, n do
		local y = layers[i]
		if y.us then
			if y.fresh and not is_live(y.state, y) then
				y.state, y.instead = state_of(y.fresh.instead, y.algorithm, y), true
			end
			local s = y.state
			y.charged = y.algorithm == queue
			if not s.new then
				y.charged = not y.algorithm.refund(s, y)
				changed(s, y)
			end
		end
	end
end

local function forget(layers, n)
	for i = 1, n do
		local y = layers[i]
		local s = y.state
		y.charged = is_live(s, y)
		s.gone = true
		call('DEL', KEYS[s.key])
		states[s.key] = nil
	end
end

local reply, n_reply = { pack('<I7', now) }, 1
local function say(y, op)
	local flags = (y.admitted and 1 or 0) + (y.charged and 2 or 0) + (y.instead and 4 or 0)
	if op == 1 and is_live(y.state, y) then
		flags = flags + 16
	end
	n_reply = n_reply + 1
	if y.more or y.delay then
		reply[n_reply] = pack('<I1I7I7I7I7I7I7', flags + 8, y.remaining, y.reset, y.retry, y.delay or 0,
			y.more and y.us or now, y.more and y.part or 0)
	else
		reply[n_reply] = pack('<I1I7I7I7', flags, y.remaining, y.reset, y.retry)
	end
end

local at, size, layers = 1, #blob, {}
while at <= size do
	local op, n, admitted = 0, 0, true
	op, n, at = read('<I1I1', blob, at)
	for i = 1, n do
		local y = layers[i]
		if not y then
			y = {}
			layers[i] = y
		end
		at = read_layer(at, y)
	end
	if op <= 1 then
		admitted = judge(layers, n)
		if op == 0 then
			charge(layers, n, admitted)
		end
	elseif op == 2 then
		give_back(layers, n)
	else
		forget(layers, n)
	end
	n_reply = n_reply + 1
	reply[n_reply] = admitted and '\1' or '\0'
	for i = 1, n do
		say(layers[i], op)
	end
end

for i = 1, #dirty do
	local s = dirty[i]
	if not s.gone then
		local form, name = s.algorithm, KEYS[s.key]
		local live = ceil((s.over - now) / 1000)
		if form == log then
			if s.n > 0 then
				call('PEXPIRE', name, short(max(live, 1)))
			end
		elseif live <= 0 then
			call('DEL', name)
		else
			call('SET', name, pack(form.pack, s[1], s[2], s[3], s[4]), 'PX', short(live))
		end
	end
end
return table.concat(reply)
