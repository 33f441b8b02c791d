package spool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"poold/internal/testkit"
)

// childEnv is a variable that is set in the child process of a test.
const childEnv = "POOLD_TEST_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// child returns a process that runs only this test.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	testkit.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), childEnv+"=1")
	return command
}

// storeUntilKilled stores letters and prints the number of each letter for which Keep returned nil.
func storeUntilKilled(t *testing.T, dir string) {
	s := New(dir) // the parent process chose dir
	testkit.NoError(t, s.Open())
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				i := int(n.Add(1))
				if err := s.Keep(letter(i)); err != nil {
					t.Error(err)
					return
				}
				if _, err := fmt.Printf("stored %d\n", i); err != nil {
					return // the parent process has ended
				}
			}
		})
	}
	wg.Wait()
}

// A process is killed while it stores letters. Each letter for which Keep returned nil is complete,
// and no other file has the name of a letter.
func TestLettersSurviveAKill(t *testing.T) {
	const dir = "dead-letters"
	if isChild() {
		storeUntilKilled(t, dir)
		return
	}
	for round := range 5 {
		home := t.TempDir()
		s := New(filepath.Join(home, dir))
		child := child(t)
		child.Dir, child.Stderr = home, os.Stderr
		out, err := child.StdoutPipe()
		testkit.NoError(t, err)
		testkit.NoError(t, child.Start())
		stored := map[string]Letter{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "stored %d", &n); err != nil {
				t.Errorf("the child said %q", lines.Text())
				continue
			}
			stored[letter(n).Order] = letter(n)
			if len(stored) == 20+7*round {
				testkit.NoError(t, child.Process.Kill())
			}
		}
		if err := child.Wait(); err == nil || len(stored) < 20 {
			t.Fatalf("the child ended by itself after %d letters: %v", len(stored), err)
		}
		testkit.NoError(t, s.Open())
		found, err := s.all()
		testkit.NoError(t, err)
		for _, l := range found {
			if want, told := stored[l.Order]; told && l != want {
				t.Errorf("stored %+v, found %+v", want, l)
			}
			delete(stored, l.Order)
		}
		testkit.Equal(t, "acknowledged letters that are gone", len(stored), 0)
		files, _ := filepath.Glob(s.path("*"))
		testkit.Equal(t, "files of letters", len(files), len(found))
	}
}
