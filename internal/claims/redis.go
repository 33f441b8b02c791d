package claims

import (
	"context"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb"
)

// script loads the value of a claim, or swaps it if it has the expected version. The script also works while Redis has
// no free memory, because its first write, an HDEL, needs none. On a read-only replica the HDEL ends the script.
//
//	KEYS   the claim
//	ARGV   the expected version, 0 = no value; the next one, 0 = load; the value; its life in ms
//	Reply  1 = swapped; else the time in ms, and the version and the value that are not swapped
var script = redisdb.NewScript(`
local found = redis.call('HMGET', KEYS[1], 'version', 'value')
local version = found[1] or '0'
redis.call('HDEL', KEYS[1], '')
if ARGV[2] == '0' or version ~= ARGV[1] then
  local t = redis.call('TIME')
  return {0, t[1] * 1000 + math.floor(t[2] / 1000), tonumber(version), found[2] or ''}
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'value', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1, 0, 0, ''}`)

// redisStore is a Store in Redis.
type redisStore struct{ db *redisdb.DB }

// InRedis returns the Store of an installation in Redis. The caller runs and closes db.
func InRedis(db *redisdb.DB) Store { return redisStore{db} }

func (s redisStore) call(ctx context.Context, key captcha.ID, version int64, to Change) ([]any, error) {
	return script.Run(ctx, s.db.Slow, []string{"{" + s.db.Prefix + "}:claim:" + string(key)},
		version, to.Version, to.Value, to.Keep.Milliseconds()).Slice()
}

func (s redisStore) Load(ctx context.Context, key captcha.ID) ([]byte, int64, time.Time, error) {
	reply, err := s.call(ctx, key, 0, Change{})
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	now, _ := reply[1].(int64)
	version, _ := reply[2].(int64)
	value, _ := reply[3].(string)
	return []byte(value), version, time.UnixMilli(now), nil
}

func (s redisStore) Swap(ctx context.Context, key captcha.ID, version int64, to Change) (bool, error) {
	reply, err := s.call(ctx, key, version, to)
	return err == nil && reply[0] == int64(1), err
}
