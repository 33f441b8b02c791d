package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"poold/internal/captcha"
	"poold/internal/cli"
	"poold/internal/httpapi/delivery"
	"poold/internal/listener"
	"poold/internal/postgres"
	"poold/internal/targets"
)

// checkAddress returns a usage error if the value of --listen is malformed.
func checkAddress(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return cli.UsageError(fmt.Sprintf("--listen (or POOLD_LISTEN) is host:port with a port up to 65535, not %q", address))
	}
	return nil
}

// bind opens the port.
func (d *daemon) bind(ctx context.Context, server targets.Server) (err error) {
	if d.port, err = listener.Listen(ctx, server.Listen, server.Connections, d.log); err != nil {
		return err
	}
	d.listener = delivery.CountListener(d.port)
	if server.TLS.Certificate != nil {
		d.listener = d.port.TLS(d.listener)
	}
	return nil
}

// setServer applies the parts of the section server that concern the port.
func (d *daemon) setServer(server targets.Server) {
	d.port.SetLimit(server.Connections)
	if server.TLS.Certificate != nil {
		d.port.SetCertificate(server.TLS.Certificate)
	}
}

// setPasswords applies the passwords in the addresses of Redis and of the databases.
func (d *daemon) setPasswords(set *targets.Set) {
	d.redis.SetPassword(targets.Password(set.Redis.URL).Reveal())
	for _, at := range []struct {
		db  *postgres.DB // nil if the section uses no PostgreSQL
		url captcha.Secret
	}{{d.claims.db, set.Dedup.URL}, {d.history.db, set.History.URL}} {
		if at.db != nil {
			at.db.SetPassword(targets.Password(at.url).Reveal())
		}
	}
}
