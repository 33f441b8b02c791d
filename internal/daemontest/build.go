package daemontest

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// builds is the folder of the built program. It exists until all tests have ended.
var builds string

// Main runs the tests and returns their exit code. It removes the program that Binary built.
func Main(m *testing.M) int {
	var err error
	if builds, err = os.MkdirTemp("", "poold-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(builds) }()
	return m.Run()
}

var poold = sync.OnceValues(func() (string, error) { return build("cmd/poold") })

// build compiles a program of this module and returns its path.
func build(program string) (string, error) {
	path := filepath.Join(builds, filepath.Base(program))
	command := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "poold/"+program) //nolint:gosec,noctx // G204: a program of this module
	command.Env = append(os.Environ(), "CGO_ENABLED=0")                                                       // a static binary, as in the image and the releases
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", program, err, output)
	}
	return path, nil
}

// Binary returns the path of the poold binary. The first call builds it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := poold()
	testkit.NoError(t, err)
	return path
}

// Provider serves the simulated service until the test ends, and returns its URL. With
// Options.LedgerHTTP, GET /ledger returns its books, and /faults sets its faults.
func Provider(t testing.TB, o simulatedtest.Options) string {
	t.Helper()
	service := simulatedtest.New(o)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	t.Cleanup(service.Close)
	return server.URL
}
