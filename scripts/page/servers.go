package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

// build builds poold into a new folder.
func build(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "poold-page-"); err != nil {
		return "", err
	}
	if err := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "poold"), "./cmd/poold").Run(); err != nil { //nolint:gosec // G204: the path is a new folder
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("building poold: %w", err)
	}
	return dir, nil
}

func startRedis(ctx context.Context, dir string) (address string, stop func(), err error) {
	address, err = freeAddress(ctx)
	if err != nil {
		return "", nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	command := exec.CommandContext(ctx, "redis-server", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--loglevel", "warning") //nolint:gosec // G204: the arguments are a new port and folder
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = os.RemoveAll(filepath.Join(dir, "appendonlydir"))
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	for range 100 {
		if err = client.Ping(ctx).Err(); err == nil {
			return address, stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, err
}

func startPoold(ctx context.Context, binary, config string) (url string, stop func(), err error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return "", nil, err
	}
	command := exec.CommandContext(ctx, binary, "serve", "--config", config, "--listen", address) //nolint:gosec // G204: the binary was built by this command
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	}
	for range 100 {
		answer, err := http.Get("http://" + address + "/readyz") //nolint:noctx // of this machine
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return "http://" + address, stop, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return "", nil, errors.New("poold did not become ready")
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}
