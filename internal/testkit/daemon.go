package testkit

import (
	"os/exec"
	"testing"
	"time"
)

// Daemon starts a program, and returns when the function ready returns true. It fails the test if the program ends
// before. The program is killed when the test ends. The channel receives the error of the program when it has ended.
func Daemon(t testing.TB, command *exec.Cmd, ready func() bool) (output *Log, ended <-chan error) {
	t.Helper()
	output = new(Log)
	result, gone := make(chan error, 1), make(chan struct{})
	command.Stdout, command.Stderr, command.WaitDelay = output, output, time.Second
	NoError(t, command.Start())
	go func() {
		result <- command.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-gone
		if t.Failed() {
			text := output.String()
			t.Logf("%s printed:\n%s", command.Path, text[max(0, len(text)-8000):])
		}
	})
	Within(t, 2*time.Minute, command.Path+" to be ready", func() bool {
		select {
		case err := <-result:
			t.Fatalf("%s ended: %v", command.Path, err)
		default:
		}
		return ready()
	})
	return output, result
}
