-- Shared by the scripts of this directory, which are loaded as this text followed by their own.
--
-- Keys of one tenant, all under its hash tag (prefix = "<namespace>:{<tenant>}:"):
--   <prefix>leases      sorted set: call id -> second at which its lease ends
--   <prefix>call:<id>   hash: state = open | expired | done; "<kind>|<bucket>" = amount held
--   <prefix>b:<bucket>  hash: used, held, at (second of the last drain), cap, win
-- Kinds: R rate (``used`` is a level that drains, holds included), B budget, L level. Amounts travel as %.17g text, because Redis
-- cuts Lua numbers to integers. The arithmetic is that of gateway/core/limits/bucket.py.

local ROUNDING = 1e-6
local CLOCK_STEP_S = 5     -- a bucket or lease further in the future than this: the clock was set back
local REAPED_AT_ONCE = 100

local function text(number)
  return string.format('%.17g', number)
end

local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1e6
end

local function load(key)
  local v = redis.call('HMGET', key, 'used', 'held', 'at', 'cap', 'win')
  return {
    key = key,
    exists = v[3] and true or false,
    used = tonumber(v[1]) or 0,
    held = tonumber(v[2]) or 0,
    at = tonumber(v[3]) or 0,
    cap = tonumber(v[4]) or 0,
    win = tonumber(v[5]) or 60,
  }
end

local function drain(bucket, kind, now)
  if kind == 'R' and bucket.exists and now > bucket.at then
    bucket.used = math.max(0, bucket.used - (now - bucket.at) * bucket.cap / bucket.win)
  end
  bucket.stepped = bucket.exists and bucket.at - now > CLOCK_STEP_S
  if not bucket.exists or now > bucket.at or bucket.stepped then
    bucket.at = now
  end
end

local function save(bucket)
  redis.call('HSET', bucket.key, 'used', text(bucket.used), 'held', text(bucket.held),
    'at', text(bucket.at), 'cap', text(bucket.cap), 'win', text(bucket.win))
end

-- What counts against the capacity.
local function level(bucket, kind)
  return kind == 'R' and bucket.used or bucket.used + bucket.held
end

local function give_back(bucket, kind, amount)
  bucket.held = math.max(0, bucket.held - amount)
  if kind == 'R' then
    bucket.used = math.max(0, bucket.used - amount)
  end
end

-- Gives back what a call holds. A bucket that has expired since is not made anew.
local function release(prefix, fields, now)
  for i = 1, #fields, 2 do
    local kind, name = string.match(fields[i], '^([RBL])|(.*)$')
    if kind then
      local bucket = load(prefix .. 'b:' .. name)
      if bucket.exists then
        drain(bucket, kind, now)
        give_back(bucket, kind, tonumber(fields[i + 1]))
        save(bucket)
      end
    end
  end
end

-- Ends leases that ran out, as if those calls had been abandoned; their records stay to be revived.
local function reap(prefix, now, lease_s)
  local leases = prefix .. 'leases'
  local far = redis.call('ZRANGEBYSCORE', leases, text(now + lease_s + CLOCK_STEP_S), '+inf',
    'LIMIT', 0, REAPED_AT_ONCE)
  for _, id in ipairs(far) do
    redis.call('ZADD', leases, text(now + lease_s), id)
  end
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', text(now), 'LIMIT', 0, REAPED_AT_ONCE)
  for _, id in ipairs(over) do
    local call = prefix .. 'call:' .. id
    release(prefix, redis.call('HGETALL', call), now)
    if redis.call('EXISTS', call) == 1 then
      redis.call('HSET', call, 'state', 'expired')
    end
    redis.call('ZREM', leases, id)
  end
end
