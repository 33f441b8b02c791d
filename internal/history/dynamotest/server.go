// Package dynamotest starts an emulator of DynamoDB for tests on a free port, and a proxy that injects faults. The
// emulator keeps everything in memory. Only tests import the package.
package dynamotest

import (
	"go/build"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"poold/internal/testkit"
)

// Secret is the secret key that Credentials sets. It is long and rare, so that a test can search errors
// for it.
const Secret = "canary-51c0ffee7d"

// Emulator is a running emulator. It stops when the test ends.
type Emulator struct{ URL string }

// Start starts an emulator.
func Start(t testing.TB) *Emulator {
	t.Helper()
	port := strconv.Itoa(testkit.FreePort(t))
	address := net.JoinHostPort("127.0.0.1", port)
	testkit.Daemon(t, exec.Command(program(t), "serve", "--host", "127.0.0.1", "--port", port), func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return &Emulator{URL: "http://" + address}
}

// Credentials sets credentials that any emulator accepts, and hides other credentials of this machine from the SDK. The
// function set is t.Setenv or, for all tests of a package, a function that calls os.Setenv.
func Credentials(set func(name, value string)) {
	NoCredentials(set)
	set("AWS_ACCESS_KEY_ID", "dynamotest")
	set("AWS_SECRET_ACCESS_KEY", Secret)
}

// NoCredentials hides all credentials of this machine from the SDK.
func NoCredentials(set func(name, value string)) {
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		set(name, "")
	}
	const none = "/nonexistent/aws"
	set("AWS_CONFIG_FILE", none)
	set("AWS_SHARED_CREDENTIALS_FILE", none)
	set("AWS_EC2_METADATA_DISABLED", "true")
}

// program returns the path of the emulator's program. It searches the PATH first, and then the folder
// of installed Go tools.
func program(t testing.TB) string {
	t.Helper()
	const name = "dynoxide"
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := exec.LookPath(filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "bin", name))
	if err != nil {
		t.Fatal("the emulator of DynamoDB, dynoxide, is not on this machine (scripts/test installs it)")
	}
	return path
}
