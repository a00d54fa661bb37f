-- Prolongs leases. Returns the ids that hold none: their holder asks for them anew (adopt).
--
-- KEYS: leases          ARGV: lease_s, call ids

local ends = text(clock() + tonumber(ARGV[1]))
local lost = {}
for i = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], ends, ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
