-- Sends POST requests with the body in the file BODY to the path in TARGET. HEADERS has one `name: value` on each line.
--
-- Every request names another client in X-Forwarded-For, so that no client reaches its limit. If SLUGS names a file, the slugs of the
-- pages that were made are appended to it.

local file = io.open(os.getenv("BODY"))
local body = file:read("*a")
file:close()

local headers = {}
for name, value in (os.getenv("HEADERS") or ""):gmatch("([^:\n]+): ([^\n]+)") do
  headers[name] = value
end

local target = os.getenv("TARGET")
-- Runs begin with other clients, so that no run repeats those of the run before.
local client = (os.time() * 104729) % 16777216

function request()
  client = (client + 1) % 16777216
  local network, subnet = math.floor(client / 65536), math.floor(client / 256) % 256
  headers["X-Forwarded-For"] = string.format("10.%d.%d.%d", network, subnet, client % 256)
  return wrk.format("POST", target, headers, body)
end

-- Without this function `wrk` does not look at the answers, which is cheaper.
if os.getenv("SLUGS") then
  local slugs = io.open(os.getenv("SLUGS"), "a")
  slugs:setvbuf("line")
  function response(status, _, answer)
    if status == 201 then
      slugs:write(answer:match('"slug":"([^"]+)"'), "\n")
    end
  end
end

-- With DELAY each connection waits after an answer: so many milliseconds on average, and at random, so that the connections do not
-- send in step.
if os.getenv("DELAY") then
  function delay()
    return math.random(0, 2 * tonumber(os.getenv("DELAY")))
  end
end
