-- SPDX-License-Identifier: Apache-2.0
-- What 200 clients of bench/page ask: the requests of the page, in turn.
local asked = {
  "summary", "timeline?points=600", "sites?mode=peak&limit=8", "functions?mode=live&limit=100",
  "tree?mode=peak&nodes=500", "tree?mode=allocated&direction=bottom_up&nodes=500", "sizes", "modules",
}
local at = 0

request = function()
  at = at % #asked + 1
  return wrk.format("GET", "/api/v1/traces/last/" .. asked[at])
end
