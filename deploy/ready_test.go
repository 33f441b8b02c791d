//go:build !race

package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/testkit"
)

// A poold that starts without Redis is never ready, not even in its first milliseconds. Otherwise a
// rolling update would count it as ready and stop the next replica.
func TestNeverReadyWithoutRedis(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pools.yaml")
	config := fmt.Sprintf("redis: {url: 'redis://127.0.0.1:%d'}\nproviders: [{name: s, protocol: simulated}]\n"+
		"targets:\n  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, "+
		"depth: 1}\n", testkit.FreePort(t))
	testkit.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	command := exec.Command(daemontest.Binary(t), "serve", "--config", file, "--listen", address)
	output := new(testkit.Log)
	command.Stdout, command.Stderr = output, output
	testkit.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	deadline := time.Now().Add(20 * time.Second)
	for answers := 0; answers < 100; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d responses of /readyz in 20 s\n%s", answers, output)
		}
		response, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("response %d of /readyz is %s\n%s", answers, response.Status, output)
		}
		answers++
	}
}
