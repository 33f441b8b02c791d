package backend

import (
	"log/slog"

	"poold/internal/redisdb"
	"poold/internal/targets"
)

// RedisOptions converts the section redis. The argument address is the URL of the section, or the address of the
// embedded server.
func RedisOptions(r targets.Redis, address string, log *slog.Logger) redisdb.Options {
	return redisdb.Options{
		Addresses: address, SentinelMaster: r.SentinelMaster, SentinelUser: r.SentinelUser,
		SentinelPassword: r.SentinelPassword.Reveal(), TLS: r.TLS, Prefix: r.Prefix, Log: log,
	}
}
