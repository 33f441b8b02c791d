// Command provider serves the simulated solving service over HTTP, so that a poold in another
// process can buy tokens over the network. Use it to test a deployment without an account:
//
//	go run ./scripts/provider --listen 127.0.0.1:8090
//
// A provider of pools.yaml with url: http://127.0.0.1:8090 and any key then buys from this service. With --key, the
// service accepts only that key. With --options '{"LedgerHTTP": true}' the service also answers GET /ledger, with the
// number of tasks that it accepted and charged.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"poold/internal/provider/simulatedtest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`host:port` to listen on; port 0 chooses a free port")
	options := flag.String("options", "{}", "options of the service, as the `JSON` of simulatedtest.Setup")
	var o simulatedtest.Setup
	flag.StringVar(&o.Key, "key", "", "the only valid `key`; without it every key is valid")
	flag.Parse()
	d := json.NewDecoder(strings.NewReader(*options))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		log.Fatal("the options of the provider: ", err)
	}
	listener, err := net.Listen("tcp", *listen) //nolint:noctx // until the process ends
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, simulatedtest.New(o))) //nolint:gosec // G114: for tests
}
