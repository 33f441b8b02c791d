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

// builds is the folder of the built program, "" before the first build. It exists until all tests have ended.
var builds string

// Main runs the tests and returns their exit code. It removes the program that Binary built.
func Main(m *testing.M) int {
	defer func() { _ = os.RemoveAll(builds) }()
	return m.Run()
}

// poold builds the program and returns its path.
var poold = sync.OnceValues(func() (path string, err error) {
	if builds, err = os.MkdirTemp("", "poold-test-"); err != nil {
		return "", err
	}
	path = filepath.Join(builds, "poold")
	//nolint:gosec // G204: the path is that of this test
	command := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "poold/cmd/poold")
	// a static binary, as in the image and the releases
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building poold: %w\n%s", err, output)
	}
	return path, nil
})

// Binary returns the path of the poold binary. The first call builds it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := poold()
	testkit.NoError(t, err)
	return path
}

// Provider serves the simulated service until the test ends, and returns its URL. With
// Setup.LedgerHTTP, GET /ledger returns its books, and /faults sets its faults.
func Provider(t testing.TB, o simulatedtest.Setup) string {
	t.Helper()
	service := simulatedtest.New(o)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	t.Cleanup(service.Close)
	return server.URL
}
