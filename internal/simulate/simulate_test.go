package simulate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"poold/internal/cli"
	"poold/internal/testkit"
)

// Before its first solve, a simulated target expects the same lead time as the daemon does. This
// lead time comes from the poll times of the file's first provider, or from the defaults of the
// target's type.
func TestSimulateBeginsAsTheDaemon(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		providers       string
		first, interval time.Duration
	}{
		"no file":   {"", 15 * time.Second, 5 * time.Second},
		"simulated": {"{name: s, protocol: simulated}", 2 * time.Second, time.Second},
		"tasks": {"{name: s, protocol: create_task, url: \"https://solver.example.com\", key: 0123456789abcdef0123456789abcdef}",
			10 * time.Second, 3 * time.Second},
		"said": {"{name: s, url: \"https://solver.example.com\", key: 0123456789abcdef0123456789abcdef, first_poll: 7s, poll_interval: 2s}",
			7 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			command := &cobra.Command{Use: "simulate"}
			s := simulationFlags(command, &cli.Console{Lookup: none})
			testkit.NoError(t, command.ParseFlags([]string{"--depth", "1"}))
			if c.providers != "" {
				s.config, s.target = filepath.Join(t.TempDir(), "pools.yaml"), "login"
				file := "providers: [" + c.providers + "]\n" +
					"targets: {login: {type: recaptcha_v2, sitekey: k, pageurl: 'https://example.com/', owner: qa@example.com}}\n"
				testkit.NoError(t, os.WriteFile(s.config, []byte(file), 0o600))
			}
			k, err := s.fill(t.Context(), &cli.Console{Lookup: none}, command.Flags())
			testkit.NoError(t, err)
			if k.FirstPoll != c.first || k.PollInterval != c.interval {
				t.Errorf("first poll %v, interval %v", k.FirstPoll, k.PollInterval)
			}
		})
	}
}
