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
)

// A directory that cannot be is told of: no letter is lost in silence.
func TestADiskThatTakesNothing(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{blocked, filepath.Join(blocked, "letters"), filepath.Join(blocked, "deep", "letters"), ""} {
		s := New(path, parseSample)
		if s.Open() == nil || s.Put(nth(1).data()) == nil {
			t.Errorf("%q took a letter", path)
		}
		s.wantCounts(t, 0, 0)
	}
	s := New(blocked, parseSample)
	if _, err := s.List(); err == nil {
		t.Error("list did not tell")
	}
	if _, err := s.Read("x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read told %v", err)
	}
	if s.Remove("x") == nil {
		t.Error("remove did not tell")
	}
}

func TestNoDirectoryHoldsNoLetters(t *testing.T) {
	s := opened(t)
	s.mustPut(t, nth(1))
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read(nth(1).Key); !errors.Is(err, fs.ErrNotExist) || data != nil {
		t.Errorf("read: %q, %v", data, err)
	}
	s.wantAll(t)
	if err := s.Remove(nth(1).Key); err != nil {
		t.Error(err)
	}
	s.wantCounts(t, 0, 0)
	s.mustPut(t, nth(1)) // makes it again
	s.wantCounts(t, 1, 0)
}

// Another process on the directory starts and clears away what is being
// written, or takes the whole directory, or stores the same key first.
func TestOthersInTheSameDirectory(t *testing.T) {
	s := opened(t)
	meddle := func(times int, how func(from, to string) error) {
		s.link = func(root *os.Root, from, to string) error {
			if times--; times >= 0 {
				if err := how(filepath.Join(s.dir, from), filepath.Join(s.dir, to)); err != nil {
					t.Fatal(err)
				}
			}
			return root.Link(from, to)
		}
	}
	remove := func(from, _ string) error { return os.Remove(from) }
	meddle(2, remove)
	s.mustPut(t, nth(1))
	meddle(1, func(string, string) error { return os.RemoveAll(s.dir) })
	s.mustPut(t, nth(2))
	s.wantCounts(t, 2, 0) // as far as this process knows
	s.wantAll(t, nth(2))
	s.wantCounts(t, 1, 0)

	// Nothing tries for ever, and what failed leaves nothing behind.
	meddle(putTries, remove)
	if err := s.Put(nth(3).data()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("put = %v", err)
	}
	s.wantCounts(t, 1, 0)
	if got := s.files(t); len(got) != 1 {
		t.Errorf("left: %q", got)
	}

	meddle(1, func(string, string) error { return s.twin().Put(nth(3).data()) })
	second := nth(3)
	second.Text = "another"
	s.mustPut(t, second)
	s.wantAll(t, nth(2), nth(3))
	s.wantCounts(t, 2, 0)
	if got := s.files(t); len(got) != 2 {
		t.Errorf("left: %q", got)
	}
}

// Where the file system has no links a letter is stored all the same, and
// replaces nothing.
func TestWithoutLinks(t *testing.T) {
	s := opened(t)
	s.link = func(*os.Root, string, string) error { return syscall.EPERM }
	s.mustPut(t, nth(1))
	planted := filepath.Join(s.dir, nameOf(nth(2).Key))
	s.link = func(*os.Root, string, string) error {
		// Only now, so that Put meets it at the last step. Once: it is set aside.
		s.link = func(*os.Root, string, string) error { return syscall.EPERM }
		return errors.Join(os.Symlink("nowhere", planted), syscall.EPERM)
	}
	s.mustPut(t, nth(2))
	s.wantCounts(t, 2, 1)
	s.wantAll(t, nth(1), nth(2))
	s.wantCounts(t, 2, 1)
	if got := s.files(t); len(got) != 3 {
		t.Errorf("files: %q", got)
	}
}

// Without links a rename could replace: of many at the last step one wins.
func TestOneWinsWithoutLinks(t *testing.T) {
	const copies = 8
	for n := range 20 {
		s := opened(t)
		var arrived, done sync.WaitGroup
		arrived.Add(copies)
		s.link = func(*os.Root, string, string) error {
			arrived.Done()
			arrived.Wait()
			return syscall.EPERM
		}
		for range copies {
			done.Go(func() {
				if err := s.Put(nth(n).data()); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		s.wantCounts(t, 1, 0)
	}
}

func TestASpoolFillsUp(t *testing.T) {
	s := opened(t)
	if s.most != 10_000 {
		t.Errorf("the cap is %d", s.most)
	}
	s.most = 3
	s.mustPut(t, nth(1), nth(2), nth(3))
	if err := s.Put(nth(4).data()); !errors.Is(err, ErrFull) {
		t.Errorf("put = %v, want ErrFull", err)
	}
	again := s.twin() // also after a restart
	if err := errors.Join(again.Open(), again.Put(nth(4).data())); !errors.Is(err, ErrFull) {
		t.Errorf("put = %v, want ErrFull", err)
	}
	if got := s.files(t); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	// Another process takes one away.
	if err := again.Remove(nth(2).Key); err != nil {
		t.Fatal(err)
	}
	s.mustPut(t, nth(4))
	if err := s.Put(nth(5).data()); !errors.Is(err, ErrFull) {
		t.Errorf("put = %v, want ErrFull", err)
	}
	if err := s.Remove(nth(1).Key); err != nil {
		t.Fatal(err)
	}
	s.mustPut(t, nth(5))
	s.wantCounts(t, 3, 0)
}

// Many at once, among them some of one key: each is stored once, the cap
// holds, and the counts are those of the directory.
func TestLettersAtOnce(t *testing.T) {
	const most, keys, copies = 20, 40, 4
	for _, link := range []func(*os.Root, string, string) error{
		(*os.Root).Link, func(*os.Root, string, string) error { return syscall.EPERM },
	} {
		s := opened(t)
		s.most, s.link = most, link
		var wg sync.WaitGroup
		var mu sync.Mutex
		stored := map[string]bool{}
		for n := range keys {
			for c := range copies {
				wg.Go(func() {
					l := nth(n)
					l.Text = fmt.Sprint(c)
					switch err := s.Put(l.data()); {
					case err == nil:
						mu.Lock()
						defer mu.Unlock()
						stored[l.Key] = true
					case !errors.Is(err, ErrFull):
						t.Error(err)
					}
				})
			}
			wg.Go(func() {
				// Whoever looks meanwhile sees whole letters only.
				if _, err := s.all(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s.wantCounts(t, len(s.files(t)), 0) // without another look
		got, err := s.all()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got {
			if !stored[l.Key] {
				t.Errorf("%s is there, and nobody was told so", l.Key)
			}
		}
		if len(got) > most || len(got) != len(stored) || len(s.files(t)) != len(got) {
			t.Errorf("%d letters in %d files, %d acknowledged, at most %d", len(got), len(s.files(t)), len(stored), most)
		}
		s.wantCounts(t, len(got), 0)
	}
}

// Bad files are planted, letters stored and removed while others look: each bad
// file is set aside, and no good one.
func TestComingAndGoingAtOnce(t *testing.T) {
	s := opened(t)
	var aside atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			path := filepath.Join(s.dir, nameOf(nth(n).Key))
			for range 25 {
				if err := os.Symlink("nowhere", path); err != nil {
					t.Error(err)
				}
				aside.Add(1)
				if err := errors.Join(s.Put(nth(n).data()), s.Remove(nth(n).Key)); err != nil {
					t.Error(err)
				}
			}
			if err := s.Put(nth(n).data()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 25 {
				_, _ = s.all() // may or may not find a bad one
			}
		})
	}
	wg.Wait()
	s.wantAll(t, nth(0), nth(1), nth(2), nth(3), nth(4), nth(5), nth(6), nth(7))
	s.wantCounts(t, 8, int(aside.Load()))
}

// A listing that may be older than what is counted corrects nothing.
func TestStaleListingsCountNothing(t *testing.T) {
	var c counts
	want := func(what string, letters, bad int) {
		t.Helper()
		if l, b := c.now(); l != letters || b != bad {
			t.Errorf("%s: %d letters, %d bad; want %d, %d", what, l, b, letters, bad)
		}
	}
	c.correct(c.begin(), 5, 2)
	want("nothing happened meanwhile", 5, 2)
	none := func() {}
	begin := func() { c.reserve(10_000) }
	for what, story := range map[string]struct {
		before, meanwhile func()
		letters           int
	}{
		"a put began": {none, begin, 5},
		"a put is on": {begin, none, 5},
		"a put ended": {begin, func() { c.stored(true) }, 6},
		"one failed":  {begin, func() { c.stored(false) }, 5},
		"one went":    {none, func() { c.moved(-1, 0) }, 4},
	} {
		c = counts{letters: 5, bad: 2}
		story.before()
		listing := c.begin()
		story.meanwhile()
		c.correct(listing, 100, 100)
		want(what, story.letters, 2)
	}
	// A replay may remove a letter before its put has counted it.
	c = counts{}
	c.reserve(10_000)
	c.moved(-1, 0)
	want("removed early", 0, 0)
	c.stored(true)
	want("then counted", 0, 0)
}

// Nobody else on the machine can read a token, whatever the umask.
func TestLettersAreNobodyElses(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		s := New(filepath.Join(t.TempDir(), "a", "b"), parseSample)
		old := syscall.Umask(umask)
		err := errors.Join(s.Open(), s.Put(nth(1).data()))
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{
			filepath.Dir(s.dir):                      0o700 | fs.ModeDir,
			s.dir:                                    0o700 | fs.ModeDir,
			filepath.Join(s.dir, nameOf(nth(1).Key)): 0o600,
		} {
			if got, err := os.Lstat(path); err != nil || got.Mode() != want {
				t.Errorf("umask %o: %s is %v, want %v (%v)", umask, path, got.Mode(), want, err)
			}
		}
	}
}
