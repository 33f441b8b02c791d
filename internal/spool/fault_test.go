package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// An unusable folder is an error, so that no letter is lost silently.
func TestAnUnusableFolderIsAnError(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{blocked, filepath.Join(blocked, "letters"), filepath.Join(blocked, "deep", "letters"), ""} {
		s := New(path)
		if s.Open() == nil || s.Keep(letter(1)) == nil {
			t.Errorf("%q took a letter", path)
		}
		s.wantCounts(t, 0, 0)
	}
	s := New(blocked)
	if _, err := s.all(); err == nil {
		t.Error("each did not fail")
	}
	if s.Remove("x") == nil {
		t.Error("remove did not fail")
	}
}

// If an operator removed the folder, the spool is empty. The next letter creates the folder again.
func TestAMissingFolderIsEmpty(t *testing.T) {
	s := opened(t)
	s.mustKeep(t, letter(1))
	s.plant(t, nameOf("bad"), "{")
	if _, err := s.all(); err == nil {
		t.Error("the bad file is not reported")
	}
	s.wantCounts(t, 1, 1)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.wantAll(t)
	s.wantCounts(t, 0, 0)
	if err := s.Remove(letter(1).Order); err != nil {
		t.Error(err)
	}
	s.wantCounts(t, 0, 0)
	s.mustKeep(t, letter(1))
	s.wantCounts(t, 1, 0)
	// A letter may create the folder just after a listing has found no folder. The listing must not
	// overwrite the count of this letter.
	for range 40 {
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _, _ = s.all() })
		}
		s.mustKeep(t, letter(1))
		wg.Wait()
		s.wantCounts(t, 1, 0)
	}
}

// Another process with the same folder stores and removes letters, and removes unfinished files when
// it starts. No letter is lost. A listing corrects the counts.
func TestTwoProcessesShareAFolder(t *testing.T) {
	s := opened(t)
	other := s.twin()
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			if err := []*Spool{s, other}[n%2].Keep(letter(n)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	second := letter(1)
	second.Token = "another"
	s.mustKeep(t, second)
	if got, err := s.all(); err != nil || len(got) != 40 || got[1] != letter(1) {
		t.Errorf("%d letters, %v", len(got), err)
	}
	s.wantCounts(t, 40, 0)
	if err := other.Remove(letter(2).Order); err != nil {
		t.Error(err)
	}
	if _, err := s.all(); err != nil {
		t.Error(err)
	}
	s.wantCounts(t, 39, 0)

	s.names.Lock()
	wg.Go(func() {
		if err := s.Keep(letter(40)); err != nil {
			t.Error(err)
		}
	})
	testkit.Within(t, 20*time.Second, "a letter is unfinished", func() bool { return len(s.files(t)) == 40 })
	other.mustOpen(t) // removes the unfinished file
	s.names.Unlock()
	wg.Wait()
	s.wantCounts(t, 40, 0)
}

func TestAFullSpoolKeepsNoFurtherLetter(t *testing.T) {
	s := opened(t)
	if s.most != 10_000 {
		t.Errorf("the cap is %d", s.most)
	}
	s.most = 3
	full := func(s *Spool, n int) {
		t.Helper()
		if err := s.Keep(letter(n)); !errors.Is(err, ErrFull) {
			t.Errorf("keep = %v, want ErrFull", err)
		}
	}
	s.mustKeep(t, letter(1), letter(2), letter(3))
	full(s, 4)
	again := s.twin() // also after a restart
	again.mustOpen(t)
	full(again, 4)
	if got := s.files(t); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	// Another process removes one of the letters.
	if err := again.Remove(letter(2).Order); err != nil {
		t.Fatal(err)
	}
	s.mustKeep(t, letter(4))
	full(s, 5)
	if err := s.Remove(letter(1).Order); err != nil {
		t.Fatal(err)
	}
	s.mustKeep(t, letter(5))
	s.wantCounts(t, 3, 0)
}

// The folder of a full spool is removed during the write of a letter. The letter is stored in a new
// folder.
func TestAFullFolderIsRemovedDuringAWrite(t *testing.T) {
	s := opened(t)
	s.most = 1
	s.mustKeep(t, letter(1))
	s.names.Lock()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Keep(letter(2)); err != nil {
			t.Error(err)
		}
	})
	testkit.Within(t, 20*time.Second, "a letter is unfinished", func() bool { return len(s.files(t)) == 2 })
	if err := os.RemoveAll(s.dir); err != nil {
		t.Error(err)
	}
	s.names.Unlock()
	wg.Wait()
	s.wantAll(t, letter(2))
	s.wantCounts(t, 1, 0)
}

// After concurrent calls, some for the same order, each letter is stored once, the limit holds, and
// the counts match the folder without another listing.
func TestConcurrentLettersAreStoredOnce(t *testing.T) {
	const most, orders, copies = 20, 40, 4
	s := opened(t)
	s.most = most
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]bool{}
	for n := range orders {
		for c := range copies {
			wg.Go(func() {
				l := letter(n)
				l.Token = fmt.Sprint(c)
				switch err := s.Keep(l); {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					stored[l.Order] = true
				case !errors.Is(err, ErrFull):
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			// A concurrent listing finds only complete letters.
			if _, err := s.all(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.wantCounts(t, most, 0)
	got, err := s.all()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range got {
		if !stored[l.Order] {
			t.Errorf("%s is stored, and Keep did not return nil", l.Order)
		}
	}
	if len(got) != most || len(stored) != most || len(s.files(t)) != most {
		t.Errorf("%d letters in %d files, %d acknowledged, want %d", len(got), len(s.files(t)), len(stored), most)
	}
}

// Bad files appear while letters are stored, removed and listed. All bad files, and no other files,
// are set aside.
func TestBadFilesAppearDuringOtherCalls(t *testing.T) {
	s := opened(t)
	var aside atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 25 {
				if err := os.Symlink("nowhere", s.path(letter(n))); err != nil {
					t.Error(err)
				}
				aside.Add(1)
				if err := errors.Join(s.Keep(letter(n)), s.Remove(letter(n).Order)); err != nil {
					t.Error(err)
				}
			}
			if err := s.Keep(letter(n)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 25 {
				_, _ = s.all() // may or may not find a bad file
			}
		})
	}
	wg.Wait()
	s.wantAll(t, letter(0), letter(1), letter(2), letter(3), letter(4), letter(5), letter(6), letter(7))
	s.wantCounts(t, 8, int(aside.Load()))
}

// Only the user of the process can read a token, whatever the umask is.
func TestLettersArePrivate(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		s := New(filepath.Join(t.TempDir(), "a", "b"))
		old := syscall.Umask(umask)
		err := errors.Join(s.Open(), s.Keep(letter(1)))
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{
			filepath.Dir(s.dir): 0o700 | fs.ModeDir,
			s.dir:               0o700 | fs.ModeDir,
			s.path(letter(1)):   0o600,
		} {
			if got, err := os.Lstat(path); err != nil || got.Mode() != want {
				t.Errorf("umask %o: %s is %v, want %v (%v)", umask, path, got.Mode(), want, err)
			}
		}
	}
}
