-- Decides one attempt in one or more exact sliding windows, as `Quota::decide` does for each, in
-- one atomic step and on this server's clock. The attempt is admitted if every window has room, and is then counted in all.
--
-- KEYS     the windows: sorted sets of the admitted attempts, each scored with its time. The first is the narrowest
-- ARGV[1]  the name of this attempt, which no other attempt in the windows has
-- ARGV[2]  the limit of the first window, at least 1; ARGV[3] its length in microseconds; and so on for each window
--
-- Returns whether the attempt is admitted (1 or 0) and the time of the decision in microseconds since 1970; then for each window
-- how many more attempts it would admit now and the microseconds until that number grows. All these numbers stay below 2^53 until
-- 2255, so Lua's numbers and the scores hold them exactly.
--
-- A window is a sorted set, because two attempts may have the same time. An attempt whose answer was lost is sent again under
-- its name. If the windows already have that name, the attempt is not counted again.
--
-- The first command that writes is ZADD, which Redis refuses when its memory is full. After another write Redis would let the
-- script go on, and the windows would grow beyond `maxmemory`.
local attempt = ARGV[1]

-- At most so many other attempts of a window are changed in one call. A shared network's window may hold 600 000, and Redis serves
-- nobody meanwhile: to remove 245 760 took 0.14 s, to move them 0.93 s (Redis 7.0).
local at_once = 1000

-- By default Lua writes large numbers with exponents.
local function text(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- A key is kept one millisecond longer than its window, because the server's clock for expiry has whole milliseconds.
local function keep(window, length)
  redis.call('PEXPIRE', window, text(math.ceil(length / 1000) + 1))
end

local repeated = redis.call('ZSCORE', KEYS[1], attempt)
local admitted = 1
local windows = {}
for number, window in ipairs(KEYS) do
  local limit, length = tonumber(ARGV[2 * number]), tonumber(ARGV[2 * number + 1])
  -- Attempts with a time in the future were counted before the clock went back, on this server or on the master that it
  -- replaced. They count as made now, so nobody is admitted twice, and nobody waits longer than one window.
  local ahead = redis.call('ZRANGEBYSCORE', window, '(' .. text(now), '+inf', 'LIMIT', 0, at_once)
  for _, early in ipairs(ahead) do
    redis.call('ZADD', window, text(now), early)
  end
  if #ahead > 0 then
    keep(window, length)
  end
  -- An attempt exactly one window ago no longer counts.
  local counted = redis.call('ZCOUNT', window, '(' .. text(now - length), '+inf')
  if not repeated and counted >= limit then
    admitted = 0
  end
  windows[number] = { key = window, limit = limit, length = length, counted = counted }
end

if admitted == 1 and not repeated then
  for _, window in ipairs(windows) do
    redis.call('ZADD', window.key, text(now), attempt)
    window.counted = window.counted + 1
    -- The attempts that have left are first.
    local left = redis.call('ZCARD', window.key) - window.counted
    if left > 0 then
      redis.call('ZREMRANGEBYRANK', window.key, 0, math.min(left, at_once) - 1)
    end
    keep(window.key, window.length)
  end
end

local answer = { admitted, now }
for _, window in ipairs(windows) do
  -- If the limit was lowered below the count, several attempts must leave before one more is admitted.
  local must_leave = math.max(window.counted - window.limit, 0)
  -- By rank, because an offset is walked. More than `at_once` times may still be in the future.
  local rank = redis.call('ZCARD', window.key) - window.counted + must_leave
  local next_to_leave = redis.call('ZRANGE', window.key, rank, rank, 'WITHSCORES')
  local more_after = next_to_leave[2] and math.min(tonumber(next_to_leave[2]), now) + window.length - now or 0
  table.insert(answer, math.max(window.limit - window.counted, 0))
  table.insert(answer, more_after)
end
return answer
