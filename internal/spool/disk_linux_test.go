package spool_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/spool"
	"poold/internal/testkit"
)

func letter(n int) spool.Letter {
	at := time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC)
	return spool.Letter{Order: fmt.Sprint("order-", n), Provider: "one", Token: strings.Repeat("t", 300), Arrived: at, Until: at.Add(time.Minute)}
}

func path(dir string, l spool.Letter) string {
	return filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(l.Order))))
}

// read reads all letters and returns the ids of their orders.
func read(s *spool.Spool) (orders []string, err error) {
	err = s.Each(nil, func(l spool.Letter, _ int64) bool {
		orders = append(orders, l.Order)
		return true
	})
	return orders, err
}

// wantLetters checks that the folder contains exactly these letters and no unfinished file, and that
// the counts match.
func wantLetters(t *testing.T, what string, s *spool.Spool, dir string, letters ...spool.Letter) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != len(letters) || s.Count() != len(letters) || s.SetAside() != 0 {
		t.Errorf("%s: %d letters and %d bad files are counted, want %d letters in %q", what, s.Count(), s.SetAside(), len(letters), files)
	}
	for _, l := range letters {
		if _, err := os.Lstat(path(dir, l)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// kept returns a spool with two letters.
func kept(t *testing.T) (s *spool.Spool, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "letters")
	s = spool.New(dir)
	if err := errors.Join(s.Keep(letter(1)), s.Keep(letter(2))); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// If the process can open no more files, each call returns EMFILE. If it can open no file at all,
// it cannot open the folder. If it can open only one file, it can open the folder, but no file in
// the folder. The letters and the counts stay, no unfinished file is left, and the call can be
// repeated.
func TestCallsReportThatNoFileCanBeOpened(t *testing.T) {
	one, two, three := letter(1), letter(2), letter(3)
	both := []spool.Letter{one, two}
	for name, c := range map[string]struct {
		call    func(*spool.Spool) error
		says    string
		second  []spool.Letter // letters after the second failure
		finally []spool.Letter // letters after a success
	}{
		"Open":       {(*spool.Spool).Open, "opening the dead letters: ", both, both},
		"Keep":       {func(s *spool.Spool) error { return s.Keep(three) }, "storing a dead letter: ", both, []spool.Letter{one, two, three}},
		"Keep again": {func(s *spool.Spool) error { return s.Keep(two) }, "storing a dead letter: ", both, both},
		"Each":       {func(s *spool.Spool) error { _, err := read(s); return err }, "ing the dead letters: ", both, both},
		"Show":       {func(s *spool.Spool) error { _, err := s.Show(time.Now()); return err }, "ing the dead letters: ", both, both},
		// If Remove can open only one file, the sync after the removal fails.
		"Remove": {func(s *spool.Spool) error { return s.Remove(two.Order) }, "ing ", []spool.Letter{one}, []spool.Letter{one}},
	} {
		for n, letters := range [][]spool.Letter{both, c.second, c.finally} {
			s, dir := kept(t)
			var err error
			testkit.WithFiles(t, n, func() { err = c.call(s) })
			what := fmt.Sprintf("%s with %d files", name, n)
			if n < 2 && (!errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), c.says)) || n == 2 && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			wantLetters(t, what, s, dir, letters...)
			if err := c.call(s); err != nil {
				t.Errorf("%s, and again with all: %v", what, err)
			}
			wantLetters(t, what+", and again with all", s, dir, c.finally...)
		}
	}
}

// If the name of a folder is not synced, a power cut loses the folder and its letters. So a new
// folder that cannot be synced is removed, and the next call makes and syncs the folder again.
func TestNewFolderIsSyncedOrRemoved(t *testing.T) {
	top := t.TempDir()
	s := spool.New(filepath.Join(top, "deep", "letters"))
	var err error
	testkit.WithFiles(t, 0, func() { err = s.Keep(letter(1)) })
	if found, _ := filepath.Glob(filepath.Join(top, "*")); !errors.Is(err, syscall.EMFILE) || len(found) != 0 {
		t.Errorf("%v, left %q", err, found)
	}
	if err := s.Keep(letter(1)); err != nil || s.Count() != 1 {
		t.Errorf("and again: %v, %d letters", err, s.Count())
	}
}

// If the disk has no room for a letter, no part of the letter stays.
func TestFullDiskKeepsNoPartOfALetter(t *testing.T) {
	s, dir := kept(t)
	for what, call := range map[string]func() error{
		"storing a dead letter: ":    func() error { return s.Keep(letter(3)) },
		"opening the dead letters: ": s.Open,
	} {
		var err error
		testkit.WithFullDisk(t, func() { err = call() })
		if !errors.Is(err, syscall.EFBIG) || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%s%v", what, err)
		}
		wantLetters(t, what, s, dir, letter(1), letter(2))
	}
	if err := s.Keep(letter(3)); err != nil {
		t.Error(err)
	}
	if orders, err := read(s); err != nil || len(orders) != 3 {
		t.Errorf("with room: %q, %v", orders, err)
	}
}

// Remove fails if a folder with files has the name of the letter's file.
func TestRemoveReportsAFolderInTheWay(t *testing.T) {
	s, dir := kept(t)
	if err := os.MkdirAll(filepath.Join(path(dir, letter(3)), "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(letter(3).Order); !errors.Is(err, syscall.ENOTEMPTY) || !strings.HasPrefix(err.Error(), "removing a dead letter: ") {
		t.Errorf("removing: %v", err)
	}
	if s.Count() != 2 {
		t.Errorf("%d letters", s.Count())
	}
}

// nobody is a user to whom the modes of files apply, unlike root.
const nobody = 65534

// asNobody calls the function `do` without the rights of root. Only the folder top, which the user
// owns, is accessible.
func asNobody(t *testing.T, top string, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	if err := os.Chmod(filepath.Dir(top), 0o711); err != nil { // TempDir made this folder
		t.Fatal(err)
	}
	if err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the user is set for this thread, which ends with the goroutine
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// An unreadable file is set aside. If the folder is not writable, the file stays, each call returns
// the reason, and the counts do not change.
func TestFolderThatMayNotBeChanged(t *testing.T) {
	s, dir := kept(t)
	asNobody(t, filepath.Dir(dir), func() {
		for _, l := range []spool.Letter{letter(1), letter(2)} {
			if err := os.Chmod(path(dir, l), 0); err != nil {
				t.Error(err)
			}
		}
		chmod := func(mode fs.FileMode) {
			if err := os.Chmod(dir, mode); err != nil {
				t.Error(err)
			}
		}
		chmod(0o500)
		below := spool.New(filepath.Join(dir, "none", "letters"))
		for what, call := range map[string]func() error{
			"opening the dead letters: ":    s.Open,
			"storing a dead letter: ":       func() error { return s.Keep(letter(3)) },
			"storing a dead letter: mkdir ": func() error { return below.Keep(letter(3)) },
			"removing a dead letter: ":      func() error { return s.Remove(letter(1).Order) },
			filepath.Base(path(dir, letter(1))) + ": not a dead letter: not readable\n": func() error { _, err := read(s); return err },
		} {
			if err := call(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s%v", what, err)
			}
			wantLetters(t, what, s, dir, letter(1), letter(2))
		}
		chmod(0o700)
		if orders, err := read(s); !errors.Is(err, spool.ErrBad) || errors.Is(err, fs.ErrPermission) || len(orders) != 0 {
			t.Errorf("in a folder that may be changed: %q, %v", orders, err)
		}
		if s.Count() != 0 || s.SetAside() != 2 {
			t.Errorf("%d letters, %d set aside", s.Count(), s.SetAside())
		}
	})
}
