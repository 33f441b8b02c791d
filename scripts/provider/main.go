// Command provider serves the simulated solving service over HTTP, so that a poold in another
// process can buy tokens over the network. Use it to test a deployment without an account:
//
//	go run ./scripts/provider --listen 127.0.0.1:8090
//
// A provider of pools.yaml with url: http://127.0.0.1:8090 and any key then buys from it. GET
// /ledger returns how many tasks it accepted and charged.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"poold/internal/provider/simulated"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// run prints the address of the service and serves until ctx ends.
func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:0", "`host:port` to listen on; port 0 chooses a free port")
	options := flag.String("options", "{}", "options of the service, as the `JSON` of simulated.Options")
	flag.Parse()
	var o simulated.Options
	if err := json.Unmarshal([]byte(*options), &o); err != nil {
		return fmt.Errorf("--options: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return simulated.New(o).Serve(ctx, listener)
}
