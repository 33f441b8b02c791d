package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/testkit"
)

// letterTime is the arrival of the first letter, and secret is in the token of each one.
var letterTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

const secret = "03AF"

func letter(n int) Letter {
	at := letterTime.Add(time.Duration(n) * time.Second)
	return Letter{
		Order: fmt.Sprintf("order-%d.0123abcd", n), Identity: "turnstile:k:example.com:0", Provider: "one",
		Task: fmt.Sprint("t", n), Token: fmt.Sprintf("%s<&>ü-%d", secret, n), Extra: `{"userAgent":"Mozilla/5.0"}`,
		Arrived: at, Until: at.Add(time.Minute),
	}
}

// opened returns an open spool in its own folder.
func opened(t *testing.T) *Spool {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "deep", "dead-letters"))
	testkit.NoError(t, s.Open())
	return s
}

func (s *Spool) mustKeep(t *testing.T, letters ...Letter) {
	t.Helper()
	for _, l := range letters {
		testkit.NoError(t, s.Keep(l))
	}
}

func (s *Spool) file(l Letter) string { return s.path(nameOf(l.Order)) }

// all returns all letters that Each finds.
func (s *Spool) all() (letters []Letter, err error) {
	err = s.Each(func(l Letter) bool {
		letters = append(letters, l)
		return true
	})
	slices.SortFunc(letters, func(a, b Letter) int { return a.Arrived.Compare(b.Arrived) })
	return letters, err
}

// wantAll checks the letters, the counts and that no other file is in the folder.
func (s *Spool) wantAll(t *testing.T, what string, want ...Letter) {
	t.Helper()
	got, err := s.all()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: the letters are %+v, %v\nwant %+v", what, got, err, want)
	}
	files, _ := filepath.Glob(s.path("*"))
	if s.Count() != len(want) || len(files) != len(want) {
		t.Errorf("%s: counted %d letters, want %d in %q", what, s.Count(), len(want), files)
	}
}

func TestLettersAreReadAsTheyWereKept(t *testing.T) {
	s := opened(t)
	hostile, fault := letter(1), letter(0)
	hostile.Order = "../../etc/passwd\x00\n"
	fault.Token, fault.Extra, fault.Code, fault.BadParameters = "", "", "ERROR_CAPTCHA_UNSOLVABLE", true
	s.mustKeep(t, fault, hostile, letter(2))
	testkit.NoError(t, os.WriteFile(s.path("letter-ABC.tmp"), []byte("{"), 0o600))
	later := New(s.dir) // of a process that starts after a crash
	testkit.NoError(t, later.Open())
	later.wantAll(t, "later", fault, hostile, letter(2))
	// A repeated callback makes no token younger, and needs no room.
	later.most = 3
	again := letter(2)
	again.Token, again.Arrived = "another", again.Arrived.Add(time.Hour)
	later.mustKeep(t, again)
	later.wantAll(t, "again", fault, hostile, letter(2))
	// A replay removes letters while it reads them, and others are stored meanwhile.
	n := 0
	if err := later.Each(func(l Letter) bool {
		n++
		for _, order := range []string{l.Order, l.Order, letter(2).Order, "never heard of"} {
			testkit.NoError(t, later.Remove(order))
		}
		later.mustKeep(t, letter(9))
		return true
	}); err != nil || n < 2 {
		t.Errorf("each gave %d letters, %v", n, err)
	}
	later.wantAll(t, "replayed", letter(9))
}

// A bad file does not hide the other letters. It is reported only by name; its letter can still be stored.
func TestBadFiles(t *testing.T) {
	l := letter(1)
	data, err := json.Marshal(l)
	testkit.NoError(t, err)
	whole, name := string(data), nameOf(l.Order)
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for what, plant := range map[string]func(path string) error{
		"empty":          file(""),
		"truncated":      file(whole[:len(whole)/2]),
		"a wrong type":   file(`{"order":["` + secret + `"]}`),
		"two documents":  file(whole + whole),
		"a flipped byte": file(strings.Replace(whole, `03AF`, "03\xffAF", 1)),
		"no order":       file(strings.Replace(whole, `"order"`, `"broken"`, 1)),
		"another order":  file(strings.Replace(whole, `order-1`, `order-2`, 1)),
	} {
		s := opened(t)
		s.mustKeep(t, letter(0), letter(2))
		testkit.NoError(t, plant(s.file(l)))
		got, err := s.all()
		if want := name + ": not a dead letter"; !errors.Is(err, ErrBad) || err.Error() != want {
			t.Errorf("%s: told %v, want %s", what, err, want)
		}
		testkit.DeepEqual(t, what, got, []Letter{letter(0), letter(2)})
		testkit.Equal(t, what+": letters", s.Count(), 3)
		s.mustKeep(t, l)
		s.wantAll(t, what, letter(0), l, letter(2))
	}
}

// After concurrent calls, some for one order, each letter is stored once, and the limit holds. A removed folder counts
// as empty, and is made again.
func TestConcurrentLettersAreStoredOnce(t *testing.T) {
	const most, orders = 20, 40
	s := opened(t)
	s.most = most
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]bool{}
	for i := range 4 * orders {
		wg.Go(func() {
			switch err := s.Keep(letter(i % orders)); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				stored[letter(i%orders).Order] = true
			case !errors.Is(err, ErrFull):
				t.Error(err)
			}
			if _, err := s.all(); err != nil { // finds only complete letters
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.all()
	if err != nil || len(got) != most || len(stored) != most || s.Count() != most {
		t.Errorf("%d letters, %d acknowledged, want %d: %v", len(got), len(stored), most, err)
	}
	for _, l := range got {
		if !stored[l.Order] {
			t.Errorf("%s is stored, and Keep did not return nil", l.Order)
		}
	}
	if err := os.Remove(s.file(got[0])); err != nil { // by an operator, who makes room
		t.Error(err)
	}
	_, _ = s.all()
	s.mustKeep(t, letter(most+orders))
	testkit.NoError(t, os.RemoveAll(s.dir))
	s.wantAll(t, "removed")
	s.mustKeep(t, letter(1))
	s.wantAll(t, "made again", letter(1))
}

// If the disk is full or the folder unusable, Keep and Open say so, and no part of a letter stays. On the full disk of
// the child process a file can have at most one byte; here the log of the test cache would have no room, either.
func TestDiskErrorsLoseNothing(t *testing.T) {
	if !isChild() {
		output, err := child(t).CombinedOutput()
		testkit.Equal(t, string(output), err, nil)
		return
	}
	s := opened(t)
	s.mustKeep(t, letter(1))
	signal.Ignore(syscall.SIGXFSZ) // otherwise the signal that a longer write causes would end the process
	testkit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}))
	for what, call := range map[string]func() error{
		"keep": func() error { return s.Keep(letter(3)) },
		"open": s.Open,
	} {
		testkit.ErrorIs(t, what, call(), syscall.EFBIG)
		s.wantAll(t, what, letter(1))
	}
	blocked := New(filepath.Join(s.file(letter(1)), "letters"))
	if blocked.Open() == nil || blocked.Keep(letter(1)) == nil || blocked.Remove("x") == nil {
		t.Error("a folder below a file took a letter")
	}
}

// Only the user of the process can read a token, whatever the umask allows.
func TestLettersArePrivate(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "a", "b"))
	old := syscall.Umask(0)
	err := errors.Join(s.Open(), s.Keep(letter(1)))
	syscall.Umask(old)
	testkit.NoError(t, err)
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(s.dir): 0o700 | fs.ModeDir, s.dir: 0o700 | fs.ModeDir, s.file(letter(1)): 0o600,
	} {
		if got, err := os.Lstat(path); err != nil || got.Mode() != want {
			t.Errorf("%s is %v, want %v (%v)", path, got.Mode(), want, err)
		}
	}
}

func TestAListShowsNoSecret(t *testing.T) {
	s := opened(t)
	token, fault := letter(1), letter(2)
	token.Identity, token.Extra = secret, secret
	token.Reason = "redis does not answer (127.0.0.1:6379)"
	fault.Token, fault.Code = "", "<ERROR>"
	s.mustKeep(t, token, fault)
	shown, err := s.Show(fault.Arrived.Add(90 * time.Second))
	if err != nil || len(shown) != 2 {
		t.Fatal(shown, err)
	}
	text, _ := json.Marshal(shown)
	want := `[{"order":"order-1.0123abcd","provider":"one","task":"t1","kind":"token",` +
		`"reason":"redis does not answer (127.0.0.1:6379)",` +
		`"arrived":"2026-01-02T03:04:06.678Z","age_s":91,"until":"2026-01-02T03:05:06.678Z"},` +
		`{"order":"order-2.0123abcd","provider":"one","task":"t2","kind":"error","code":"\u003cERROR\u003e",` +
		`"arrived":"2026-01-02T03:04:07.678Z","age_s":90,"until":"2026-01-02T03:05:07.678Z"}]`
	testkit.Equal(t, "shown", string(text), want)
}
