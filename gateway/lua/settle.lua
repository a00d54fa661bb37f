-- Replaces what a call held by what it used, once.
--
-- KEYS: leases, call, one per charged bucket
-- ARGV: prefix, call id, remember_s, then per charged bucket: kind, amount, lives_s (0: for ever)
-- Returns 1, or 0 when the call was settled before.

local prefix, call_id, remember_s = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now = clock()

local charges = {}
for i = 1, #KEYS - 2 do
  local at = 3 + (i - 1) * 3
  charges[i] = {
    key = KEYS[i + 2], kind = ARGV[at + 1],
    amount = assert(tonumber(ARGV[at + 2])), lives = assert(tonumber(ARGV[at + 3])),
  }
end

local record = redis.call('HGETALL', KEYS[2])
local state
for i = 1, #record, 2 do
  if record[i] == 'state' then
    state = record[i + 1]
  end
end
if state == 'done' then
  return 0
end

for _, charge in ipairs(charges) do
  local bucket = load(charge.key)
  drain(bucket, charge.kind, now)
  if charge.kind ~= 'L' then
    bucket.used = bucket.used + charge.amount
  end
  save(bucket)
  if charge.lives > 0 and not bucket.exists then
    redis.call('EXPIRE', bucket.key, charge.lives)
  end
end
if state == 'open' then
  release(prefix, record, now)
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'state', 'done')
redis.call('EXPIRE', KEYS[2], remember_s)
redis.call('ZREM', KEYS[1], call_id)
return 1
