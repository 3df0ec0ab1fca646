-- SPDX-License-Identifier: GPL-2.0-or-later
-- weir decide 1: request limits in Redis 6.2 or later (Valkey too). The algorithms of include/weir/algo_request_*.h,
-- step by step, in whole numbers below 2^53; one random trace runs through both in tests.
--
-- KEYS: states, each once. ARGV[1]: the time in microseconds of the Unix epoch (tests); "0": the server's TIME, read
-- once. ARGV[2]: requests one after another (user/redis/script.c writes them), little endian:
--	request	op u8 (0 decide, 1 judge only, 2 give back, 3 forget), layers u8
--	layer	key u16 (from 1), algorithm u8, flags u8, cost, a, b, c u56
--		flags: 1 monitor; 2 charged before (op 2: then ticket us, part u56); 4 calendar window (then four edges u56)
--		8 fresh (then count, period, size u56 of its bucket, its key u16, stand-in key u16)
--	a, b, c	bucket and queue: count, period, size in parts; windows: limit, length, tick; log: limit, length
-- Reply: now, then for each request admitted, then for each layer flags (1 admitted, 2 charged, 4 by the stand-in key),
-- remaining, reset, retry (-1: never), delay, ticket us, ticket part. Times count from now, in microseconds.
--
-- All enforcing layers of a request are charged or none. What is written expires when it is worth nothing.

local read, pack = struct.unpack, struct.pack
local fmod, max, min, ceil = math.fmod, math.max, math.min, math.ceil
local call, format = redis.call, string.format
local NEVER = -1

local now = tonumber(ARGV[1])
if now == 0 then
	local t = call('TIME')
	now = t[1] * 1000000 + t[2]
end

-- Exact, unlike floor(a / b), whose quotient is rounded first.
local function div(a, b)
	return (a - fmod(a, b)) / b
end

local function whole(n)
	return format('%.0f', n)
end

-- States of this call by key; loaded once, written once.
local states = {}

local function load_words(key, form)
	local text = call('GET', KEYS[key])
	if text and #text == form.bytes then
		local s = { read(form.pack, text) }
		s.new = false
		return s
	end
	return { 0, 0, 0, new = true }
end

local bucket, queue, fixed, log, sliding = {}, {}, {}, {}, {}
local algorithms = { [0] = bucket, queue, fixed, log, sliding }

-- --- token bucket, leaky bucket: {us, tokens, part} ---------------------------------------------------------------

bucket.pack, bucket.bytes = '<I7I7I7', 21

local function bucket_debt(s, y)
	local count, period, size = y.a, y.b, y.c
	local debt = size
	if s[2] <= div(size, period) then
		debt = min(s[2] * period + min(s[3], period), size)
	end
	if now <= s[1] then
		return debt
	end
	local passed = now - s[1]
	if passed > div(debt, count) then
		return 0
	end
	return debt - passed * count
end

local function bucket_set(s, y, debt)
	s[1] = max(now, s[1])
	s[2] = div(debt, y.b)
	s[3] = fmod(debt, y.b)
end

function bucket.settle(s, y)
	bucket_set(s, y, bucket_debt(s, y))
end

function bucket.look(s, y, ret)
	local count, period, size = y.a, y.b, y.c
	local room = size - bucket_debt(s, y)
	local behind = max(now, s[1]) - now
	local remaining = div(room, period)
	local need = (remaining + 1) * period
	ret.remaining = remaining
	ret.reset = need <= size and behind + div(need - room + count - 1, count) or 0
	ret.retry, ret.delay = 0, 0
	if y.cost > div(size, period) then
		ret.retry = NEVER
	elseif y.cost > remaining then
		ret.retry = behind + div(y.cost * period - room + count - 1, count)
	end
end

function bucket.take(s, y, ret)
	ret.us, ret.part = now, 0
	bucket_set(s, y, bucket_debt(s, y) + y.cost * y.b)
end

-- What has drained since the charge may have been drained from it.
function bucket.refund(s, y)
	local count, period, size = y.a, y.b, y.c
	local debt, back = bucket_debt(s, y), size
	if y.cost <= div(size, period) then
		back = y.cost * period
	end
	if now > y.us then
		if now - y.us > div(back, count) then
			return true
		end
		back = back - min((now - y.us) * count, back)
	end
	bucket_set(s, y, debt - min(back, debt))
	return true
end

function bucket.idle(s, y)
	return s[1] + div(s[2] * y.b + s[3] + y.a - 1, y.a)
end

for k, v in pairs(bucket) do
	queue[k] = v
end

local function queue_ticket(s, y)
	local debt = bucket_debt(s, y)
	return max(now, s[1]) + div(debt, y.a), fmod(debt, y.a)
end

function queue.look(s, y, ret)
	bucket.look(s, y, ret)
	ret.delay = max(now, s[1]) - now + div(bucket_debt(s, y) + y.a - 1, y.a)
end

function queue.take(s, y, ret)
	bucket.take(s, y, ret)
	ret.us, ret.part = queue_ticket(s, y)
end

-- A place is free again only if it is the last one and its turn has not come.
function queue.refund(s, y)
	local us, part = queue_ticket(s, y)
	local debt = bucket_debt(s, y)
	if us ~= y.us or part ~= y.part or y.cost > div(y.c, y.b) or debt < y.cost * y.b then
		return false
	end
	bucket_set(s, y, debt - y.cost * y.b)
	return true
end

-- --- fixed window: {end, count} ------------------------------------------------------------------------------------

fixed.pack, fixed.bytes = '<I7I7', 14

local function fixed_window(y)
	if not y.edge then
		y.start = now - fmod(now, y.b)
		y.stop = y.start + y.b
		return
	end
	local i = 1
	while i < 3 and now >= y.edge[i + 1] do
		i = i + 1
	end
	y.start, y.stop = y.edge[i], y.edge[i + 1]
end

function fixed.settle(s, y)
	fixed_window(y)
	if s[1] < y.stop then
		s[1], s[2] = y.stop, 0
	end
	s[2] = min(s[2], y.a)
end

function fixed.look(s, y, ret)
	local left = s[1] > now and s[1] - now or 1
	ret.remaining = y.a - s[2]
	ret.reset = s[2] > 0 and left or 0
	ret.retry, ret.delay = 0, 0
	if y.cost > y.a then
		ret.retry = NEVER
	elseif y.cost > ret.remaining then
		ret.retry = left
	end
end

function fixed.take(s, y, ret)
	ret.us, ret.part = now, 0
	s[2] = s[2] + y.cost
end

function fixed.refund(s, y)
	if s[1] == y.stop and y.us >= y.start and y.us < y.stop then
		s[2] = s[2] - min(y.cost, s[2])
	end
	return true
end

function fixed.idle(s)
	return s[2] > 0 and s[1] or 0
end

-- --- sliding-window counter: {index, current, previous} ------------------------------------------------------------

sliding.pack, sliding.bytes = '<I7I4I4', 15

function sliding.settle(s, y)
	local index = div(now, y.b)
	y.ticks = div(y.b + y.c - 1, y.c)
	if index > s[1] then
		s[3] = index == s[1] + 1 and s[2] or 0
		s[1], s[2] = index, 0
	end
	s[2], s[3] = min(s[2], y.a), min(s[3], y.a)
end

local function sliding_when(s, y, cost)
	local ticks, e = y.ticks, 0
	if s[2] + cost <= y.a then
		if s[3] > 0 then
			e = div((y.a - s[2] - cost) * ticks, s[3])
		end
		e = (s[3] == 0 or e >= ticks) and 0 or ticks - e
		if e < ticks then
			return e * y.c
		end
	end
	e = s[2] > 0 and div((y.a - cost) * ticks, s[2]) or ticks
	e = e >= ticks and 0 or ticks - e
	return e < ticks and y.b + e * y.c or 2 * y.b
end

function sliding.look(s, y, ret)
	local start = s[1] * y.b
	local e = div(max(now, start) - start, y.c)
	local used, all = s[2] * y.ticks + s[3] * (y.ticks - e), y.a * y.ticks
	ret.remaining = used < all and div(all - used, y.ticks) or 0
	ret.reset = ret.remaining < y.a and start + sliding_when(s, y, ret.remaining + 1) - now or 0
	ret.retry, ret.delay = 0, 0
	if y.cost > y.a then
		ret.retry = NEVER
	elseif y.cost > ret.remaining then
		ret.retry = start + sliding_when(s, y, y.cost) - now
	end
end

sliding.take = fixed.take

function sliding.refund(s, y)
	local index = div(y.us, y.b)
	if index == s[1] then
		s[2] = s[2] - min(y.cost, s[2])
	elseif index + 1 == s[1] then
		s[3] = s[3] - min(y.cost, s[3])
	end
	return true
end

function sliding.idle(s, y)
	return (s[1] + (s[2] > 0 and 2 or s[3] > 0 and 1 or 0)) * y.b
end

-- --- sliding-window log: a list of times, oldest first -------------------------------------------------------------

local function log_at(s, i)
	return tonumber(call('LINDEX', s.name, i))
end

function log.load(key)
	local name = KEYS[key]
	local n = call('LLEN', name)
	local s = { name = name, n = n, newest = 0, new = n == 0 }
	if n > 0 then
		s.oldest, s.newest = log_at(s, 0), log_at(s, -1)
	end
	return s
end

local function log_trim(s, keep)
	call('LTRIM', s.name, s.n - keep, -1)
	s.n = keep
	if keep > 0 then
		s.oldest = log_at(s, 0)
	else
		s.newest = 0
	end
end

function log.settle(s, y)
	local at = max(now, s.newest)
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
		log_trim(s, s.n - low)
	end
	if s.n > y.a then
		log_trim(s, y.a)
	end
end

function log.look(s, y, ret)
	ret.remaining = y.a - s.n
	ret.reset = s.n > 0 and s.oldest + y.b - now or 0
	ret.retry, ret.delay = 0, 0
	if y.cost > y.a then
		ret.retry = NEVER
	elseif y.cost > ret.remaining then
		ret.retry = log_at(s, y.cost - ret.remaining - 1) + y.b - now
	end
end

function log.take(s, y, ret)
	local at = max(now, s.newest)
	local text, left = whole(at), y.cost
	ret.us, ret.part = at, 0
	while left > 0 do -- unpack() has a bound
		local some = {}
		for i = 1, min(left, 1000) do
			some[i] = text
		end
		call('RPUSH', s.name, unpack(some))
		left = left - #some
	end
	if s.n == 0 then
		s.oldest = at
	end
	s.n, s.newest = s.n + y.cost, at
end

function log.refund(s, y)
	if s.n > 0 then
		s.n = s.n - call('LREM', s.name, y.cost, whole(y.us))
		s.oldest, s.newest = 0, 0
		if s.n > 0 then
			s.oldest, s.newest = log_at(s, 0), log_at(s, -1)
		end
	end
	return true
end

function log.idle(s, y)
	return s.n > 0 and s.newest + y.b or 0
end

-- --- requests ------------------------------------------------------------------------------------------------------

local function state_of(key, algorithm)
	local s = states[key]
	if not s then
		s = algorithm.load and algorithm.load(key) or load_words(key, algorithm)
		states[key] = s
	end
	return s
end

-- Keeps what was said of the state last: its numbers decide when it expires.
local function changed(s, key, y, algorithm)
	s.key, s.y, s.algorithm = key, y, algorithm
end

local function read_layer(at)
	local y = {}
	y.key, y.number, y.flags, y.cost, y.a, y.b, y.c, at = read('<I2I1I1I7I7I7I7', ARGV[2], at)
	local f = y.flags
	y.monitor = f % 2 == 1
	if f % 4 >= 2 then
		y.us, y.part, at = read('<I7I7', ARGV[2], at)
	end
	if f % 8 >= 4 then
		local e = {}
		e[1], e[2], e[3], e[4], at = read('<I7I7I7I7', ARGV[2], at)
		y.edge = e
	end
	if f >= 8 then
		local z = { cost = 1 }
		z.a, z.b, z.c, z.key, z.instead, at = read('<I7I7I7I2I2', ARGV[2], at)
		y.fresh = z
	end
	return y, at
end

-- A key that the client chose and that has no state must be worth one of its address's new keys; else the stand-in.
local function choose_key(y)
	local z = y.fresh
	if not z or not state_of(y.key, y.algorithm).new then
		y.fresh = nil
		return
	end
	z.state, z.answer = state_of(z.key, bucket), {}
	bucket.settle(z.state, z)
	bucket.look(z.state, z, z.answer)
	if z.answer.retry ~= 0 then
		y.key, y.instead, y.fresh = z.instead, true, nil
	end
end

local function judge(layers)
	local admitted = true
	for i = 1, #layers do
		local y = layers[i]
		choose_key(y)
		y.state = state_of(y.key, y.algorithm)
		y.algorithm.settle(y.state, y)
		y.algorithm.look(y.state, y, y)
		y.admitted = y.retry == 0
		if not y.admitted and not y.monitor then
			admitted = false
		end
	end
	return admitted
end

local function charge(layers, admitted)
	for i = 1, #layers do
		local y = layers[i]
		if y.cost > 0 and y.admitted and (y.monitor or admitted) then
			local delay, a = y.delay, y.algorithm
			y.charged = true
			a.take(y.state, y, y)
			a.look(y.state, y, y)
			y.retry, y.delay = 0, delay
			y.state.new = false
			changed(y.state, y.key, y, a)
			if y.fresh then
				bucket.take(y.fresh.state, y.fresh, y.fresh)
				changed(y.fresh.state, y.fresh.key, y.fresh, bucket)
			end
		end
	end
end

local function give_back(layers)
	for i = 1, #layers do
		local y = layers[i]
		if y.us then
			local s, a = state_of(y.key, y.algorithm), y.algorithm
			y.charged = a == queue
			if not s.new then
				a.settle(s, y)
				y.charged = not a.refund(s, y)
				changed(s, y.key, y, a)
			end
		end
	end
end

local function forget(layers)
	for i = 1, #layers do
		local y = layers[i]
		call('DEL', KEYS[y.key])
		states[y.key] = nil
	end
end

local reply = { now }
local at, size = 1, #ARGV[2]
while at <= size do
	local op, n, layers, admitted = 0, 0, {}, true
	op, n, at = read('<I1I1', ARGV[2], at)
	for i = 1, n do
		layers[i], at = read_layer(at)
		layers[i].algorithm = algorithms[layers[i].number]
	end
	if op <= 1 then
		admitted = judge(layers)
		if op == 0 then
			charge(layers, admitted)
		end
	elseif op == 2 then
		give_back(layers)
	else
		forget(layers)
	end
	reply[#reply + 1] = admitted and 1 or 0
	for i = 1, n do
		local y, m = layers[i], #reply
		reply[m + 1] = (y.admitted and 1 or 0) + (y.charged and 2 or 0) + (y.instead and 4 or 0)
		reply[m + 2], reply[m + 3], reply[m + 4] = y.remaining or 0, y.reset or 0, y.retry or 0
		reply[m + 5], reply[m + 6], reply[m + 7] = y.delay or 0, y.us or 0, y.part or 0
	end
end

for key, s in pairs(states) do
	if s.y then
		local live = ceil((s.algorithm.idle(s, s.y) - now) / 1000)
		if s.algorithm == log then
			if s.n > 0 then
				call('PEXPIRE', s.name, whole(max(live, 1)))
			end
		elseif live <= 0 then
			call('DEL', KEYS[key])
		else
			call('SET', KEYS[key], pack(s.algorithm.pack, s[1], s[2], s[3]), 'PX', whole(live))
		end
	end
end
return reply
