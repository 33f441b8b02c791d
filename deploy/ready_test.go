//go:build !race

package deploy_test

import (
	"fmt"
	"net/http"
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
	config := fmt.Sprintf("redis: {url: 'redis://127.0.0.1:%d'}\nproviders: [{name: s, protocol: simulated}]\n"+
		"targets:\n  login: {type: turnstile, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com, "+
		"depth: 1}\n", testkit.FreePort(t))
	file := write(t, filepath.Join(t.TempDir(), "pools.yaml"), config)
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	command := exec.Command(daemontest.Binary(t), "serve", "--config", file, "--listen", address)
	testkit.Daemon(t, command, func() bool { return true })
	began, answers := time.Now(), 0
	for ; answers < 100 && time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		if response, err := http.Get("http://" + address + "/readyz"); err == nil {
			_ = response.Body.Close()
			testkit.Equal(t, fmt.Sprintf("status of response %d", answers), response.StatusCode, http.StatusServiceUnavailable)
			answers++
		}
	}
	testkit.AtLeast(t, "responses of /readyz", answers, 100)
}
