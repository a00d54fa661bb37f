-- Meets every demand of a call, or none. Idempotent: an open or settled call is not held again.
--
-- KEYS: leases, call, one per bucket
-- ARGV: prefix, call id, lease_s, remember_s, adopt (1: hold without asking whether it fits),
--       then per bucket: kind, name, capacity, amount, window_s, least used, lives_s (0: for ever)
-- Returns {outcome, {used, held, used, held, ...}}; outcome: 0 does not fit, 1 held, 2 settled before

local prefix, call_id = ARGV[1], ARGV[2]
local lease_s, remember_s, adopt = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local count = #KEYS - 2
local now = clock()

local asked = {}
for i = 1, count do
  local at = 5 + (i - 1) * 7
  asked[i] = {
    kind = ARGV[at + 1], name = ARGV[at + 2],
    capacity = assert(tonumber(ARGV[at + 3])), amount = assert(tonumber(ARGV[at + 4])),
    window = assert(tonumber(ARGV[at + 5])), least = assert(tonumber(ARGV[at + 6])),
    lives = assert(tonumber(ARGV[at + 7])),
  }
end

reap(prefix, now, lease_s)
local state = redis.call('HGET', KEYS[2], 'state')
local known = state == 'open' or state == 'done'

local fits = 1
for i, ask in ipairs(asked) do
  local bucket = load(KEYS[i + 2])
  if bucket.cap == 0 then
    bucket.cap, bucket.win = ask.capacity, ask.window
  end
  drain(bucket, ask.kind, now)
  ask.changed = bucket.stepped
    or (bucket.exists and (bucket.cap ~= ask.capacity or bucket.win ~= ask.window))
  bucket.cap, bucket.win = ask.capacity, ask.window
  if ask.kind == 'B' then
    bucket.used = math.max(bucket.used, ask.least)
  end
  ask.bucket = bucket
  if not known and not adopt and level(bucket, ask.kind) + ask.amount > ask.capacity + ROUNDING then
    fits = 0
  end
end

if fits == 1 then
  for _, ask in ipairs(asked) do
    local bucket = ask.bucket
    if not known then
      bucket.held = bucket.held + ask.amount
      if ask.kind == 'R' then
        bucket.used = bucket.used + ask.amount
      end
    end
    save(bucket)
    if ask.lives > 0 then
      redis.call('EXPIRE', bucket.key, ask.lives)
    end
  end
  if not known then
    local record = {'state', 'open'}
    for _, ask in ipairs(asked) do
      record[#record + 1] = ask.kind .. '|' .. ask.name
      record[#record + 1] = text(ask.amount)
    end
    redis.call('HSET', KEYS[2], unpack(record))
    redis.call('EXPIRE', KEYS[2], remember_s)
  end
  if state ~= 'done' then
    redis.call('ZADD', KEYS[1], text(now + lease_s), call_id)
  end
end

-- A refusal still makes a changed limit or clock known, so that the level drains at its new speed.
for _, ask in ipairs(asked) do
  if fits == 0 and ask.changed then
    save(ask.bucket)
  end
end

local numbers = {}
for _, ask in ipairs(asked) do
  numbers[#numbers + 1] = text(ask.bucket.used)
  numbers[#numbers + 1] = text(ask.bucket.held)
end
return {state == 'done' and 2 or fits, numbers}
