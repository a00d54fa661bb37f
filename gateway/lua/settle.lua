-- Replaces what a call held by what it used, once.
--
-- KEYS: leases, call, one per charged bucket
-- ARGV: prefix, call id, remember_s, then per charged bucket: kind, amount, least used, lives_s (0: for
--       ever)
-- Returns what is used now of each charged bucket; nothing when the call was settled before.

local prefix, call_id, remember_s = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now = clock()

local charges = {}
for i = 1, #KEYS - 2 do
  local at = 3 + (i - 1) * 4
  charges[i] = {
    key = KEYS[i + 2], kind = ARGV[at + 1],
    amount = assert(tonumber(ARGV[at + 2])), least = assert(tonumber(ARGV[at + 3])),
    lives = assert(tonumber(ARGV[at + 4])),
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
  return {}
end

for _, charge in ipairs(charges) do
  local bucket = load(charge.key)
  drain(bucket, charge.kind, now)
  if charge.kind == 'B' then
    bucket.used = math.max(bucket.used, charge.least)
  end
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

local used = {}
for i, charge in ipairs(charges) do
  used[i] = redis.call('HGET', charge.key, 'used') or '0'
end
return used
