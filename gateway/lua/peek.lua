-- Reads buckets without writing: drained to now, without the holds of leases that ran out.
--
-- KEYS: leases, one per bucket      ARGV: prefix, then per bucket: kind, name
-- Returns used, held, used, held, ...

local prefix = ARGV[1]
local now = clock()

local over = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, REAPED_AT_ONCE)) do
  local record = redis.call('HGETALL', prefix .. 'call:' .. id)
  for i = 1, #record, 2 do
    over[record[i]] = (over[record[i]] or 0) + (tonumber(record[i + 1]) or 0)
  end
end

local numbers = {}
for i = 2, #KEYS do
  local kind, name = ARGV[(i - 1) * 2], ARGV[(i - 1) * 2 + 1]
  local bucket = load(KEYS[i])
  drain(bucket, kind, now)
  give_back(bucket, kind, over[kind .. '|' .. name] or 0)
  numbers[#numbers + 1] = text(bucket.used)
  numbers[#numbers + 1] = text(bucket.held)
end
return numbers
