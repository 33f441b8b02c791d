package backend

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"

	"poold/internal/redisdb"
	"poold/internal/targets"
)

// RedisOptions converts the section redis. The address is its URL, or the embedded server's.
func RedisOptions(r targets.Redis, address string, log *slog.Logger) redisdb.Options {
	return redisdb.Options{
		Addresses: address, SentinelMaster: r.SentinelMaster, SentinelUser: r.SentinelUser,
		SentinelPassword: r.SentinelPassword.Reveal(), TLS: RedisTLS(r.TLS), Prefix: r.Prefix, Log: log,
	}
}

// RedisTLS converts the certificates of the section redis.
func RedisTLS(t targets.RedisTLS) (with redisdb.TLS) {
	if t.Certificate != nil {
		with.Certificates = []tls.Certificate{*t.Certificate}
	}
	if t.Issuers != "" {
		with.Issuers = x509.NewCertPool()
		with.Issuers.AppendCertsFromPEM([]byte(t.Issuers))
	}
	return with
}
