-- Decides one attempt of one client in an exact sliding window, as `domain::quota::Quota::decide` does, in one atomic
-- step and on this server's clock.
--
-- KEYS[1]  the window: a sorted set of the admitted attempts, each scored with its time
-- ARGV[1]  the limit, at least 1
-- ARGV[2]  the window's length in microseconds
-- ARGV[3]  the name of this attempt, which no other attempt in the window has
--
-- Returns whether the attempt is admitted (1 or 0), how many more would be admitted now, the microseconds until that
-- number grows, and the time of the decision in microseconds since 1970. All these numbers stay below 2^53 until 2255,
-- so Lua's numbers and the scores hold them exactly.
--
-- The window is a sorted set, because two attempts may have the same time. An attempt whose answer was lost is sent
-- again under its name. If the window already has that name, the attempt is not counted again. The set has at most as
-- many members as the largest limit in force.
local window, limit, length, attempt = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

-- By default Lua writes large numbers with exponents.
local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- The key is kept one millisecond longer than the window, because the server's clock for expiry has whole milliseconds.
local function keep()
  redis.call('PEXPIRE', window, text(math.ceil(length / 1000) + 1))
end

-- Attempts with a time in the future were counted before the clock went back, on this server or on the master that it
-- replaced. They count as made now, so nobody is admitted twice, and nobody waits longer than one window.
local ahead = redis.call('ZRANGEBYSCORE', window, '(' .. text(now), '+inf')
for _, early in ipairs(ahead) do
  redis.call('ZADD', window, text(now), early)
end
if #ahead > 0 then
  keep()
end

-- An attempt exactly one window ago no longer counts.
redis.call('ZREMRANGEBYSCORE', window, '-inf', text(now - length))

local counted = redis.call('ZCARD', window)
local admitted = 1
if not redis.call('ZSCORE', window, attempt) then
  if counted < limit then
    redis.call('ZADD', window, text(now), attempt)
    keep()
    counted = counted + 1
  else
    admitted = 0
  end
end

-- If the limit was lowered below the count, several attempts must leave before one more is admitted.
local must_leave = math.max(counted - limit, 0)
local next_to_leave = redis.call('ZRANGE', window, must_leave, must_leave, 'WITHSCORES')
local more_after = tonumber(next_to_leave[2]) + length - now

return { admitted, math.max(limit - counted, 0), more_after, now }
