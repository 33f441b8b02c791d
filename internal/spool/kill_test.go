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

// If the variable lettersEnv is set, TestLettersSurviveAKill is the child process that is killed.
const lettersEnv = "POOLD_TEST_LETTERS"

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
	if os.Getenv(lettersEnv) != "" {
		storeUntilKilled(t, dir)
		return
	}
	program, err := os.Executable()
	testkit.NoError(t, err)
	for round := range 5 {
		home := t.TempDir()
		s := New(filepath.Join(home, dir))
		child := exec.CommandContext(t.Context(), program, "-test.run=^TestLettersSurviveAKill$")
		child.Env, child.Dir = append(os.Environ(), lettersEnv+"=1"), home
		child.Stderr = os.Stderr
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
		s.mustOpen(t)
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
