//go:build !race

package deploy_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"poold/internal/daemontest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait for timers of poold, so that two processors can run more tests than two.
	if err := flag.Set("test.parallel", "5"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(daemontest.Main(m))
}
