package crash_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"poold/internal/crash"
	"poold/internal/testkit"
)

// If the variable crashEnv is set, the test binary is the child process that passes the points.
const crashEnv = "POOLD_TEST_CRASH"

// A process kills itself at the selected pass of the selected point, and at no other point.
func TestAProcessDiesAtItsPoint(t *testing.T) {
	if at, child := os.LookupEnv(crashEnv); child {
		crash.Arm(at)
		for range 2 {
			for _, point := range []string{"first", "second"} {
				crash.At(point)
				_, _ = os.Stdout.WriteString(point + " ")
			}
		}
		return
	}
	program, err := os.Executable()
	testkit.NoError(t, err)
	for at, want := range map[string]string{
		"":         "first second first second ",
		"third":    "first second first second ",
		"second":   "first ",
		"second:1": "first ",
		"first:2":  "first second ",
		"first:3":  "first second first second ",
	} {
		child := exec.CommandContext(t.Context(), program, "-test.run=^TestAProcessDiesAtItsPoint$")
		child.Env = append(os.Environ(), crashEnv+"="+at)
		out, err := child.Output()
		passed, _, ended := strings.Cut(string(out), "PASS")
		if passed != want || ended != (err == nil) {
			t.Errorf("armed for %q it passed %q, %v; want %q", at, passed, err, want)
		}
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
			t.Errorf("armed for %q it ended by %v", at, err)
		}
	}
}
