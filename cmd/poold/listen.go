package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"poold/internal/backend"
	"poold/internal/cli"
	"poold/internal/httpapi/delivery"
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

// bind opens the port. It uses TLS if the file configures a certificate.
func bind(ctx context.Context, address string, files targets.TLS) (net.Listener, error) {
	var config net.ListenConfig
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4" // with "tcp", 0.0.0.0 would include IPv6
	}
	listener, err := config.Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening: %w by another program or another poold: stop it, or choose another address with --listen (or POOLD_LISTEN, or server.listen in the file)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	listener = delivery.CountListener(listener)
	if files.Cert == "" {
		return listener, nil
	}
	pair, err := backend.LoadCertificate(files)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}), nil
}
