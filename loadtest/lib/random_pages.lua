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
