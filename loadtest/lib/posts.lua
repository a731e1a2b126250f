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
local client = (os.time() * 104729) % 16777216

function request()
  client = (client + 1) % 16777216
  local network, subnet = math.floor(client / 65536), math.floor(client / 256) % 256
  headers["X-Forwarded-For"] = string.format("10.%d.%d.%d", network, subnet, client % 256)
  return wrk.format("POST", target, headers, body)
end

if os.getenv("SLUGS") then
  local slugs = io.open(os.getenv("SLUGS"), "a")
  slugs:setvbuf("line")
  function response(status, _, answer)
    if status == 201 then
      slugs:write(answer:match('"slug":"([^"]+)"'), "\n")
    end
  end
end
