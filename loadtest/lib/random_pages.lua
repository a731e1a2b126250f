-- Reads pages at random. PAGES names a file with one path on each line.

local paths = {}
for line in io.lines(os.getenv("PAGES")) do
  paths[#paths + 1] = line
end

function init()
  math.randomseed(20261122)
end

function request()
  return wrk.format("GET", paths[math.random(#paths)])
end

-- With DELAY each connection waits after an answer: so many milliseconds on average, and at random, so that the connections do not
-- send in step.
if os.getenv("DELAY") then
  function delay()
    return math.random(0, 2 * tonumber(os.getenv("DELAY")))
  end
end
