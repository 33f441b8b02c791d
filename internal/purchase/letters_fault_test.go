package purchase

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A directory that cannot be is told of: no letter is lost in silence.
func TestADiskThatTakesNothing(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{blocked, filepath.Join(blocked, "letters"), filepath.Join(blocked, "deep", "letters"), ""} {
		b := newLetterBox(path)
		if b.open() == nil || b.put(deadLetter(1)) == nil {
			t.Errorf("%q took a letter", path)
		}
		b.wantCounts(t, 0, 0)
	}
	b := newLetterBox(blocked)
	if _, err := b.orders(); err == nil {
		t.Error("each did not tell")
	}
	if _, err := b.list(); err == nil {
		t.Error("list did not tell")
	}
	if b.remove("x") == nil {
		t.Error("remove did not tell")
	}
}

func TestNoDirectoryHoldsNoLetters(t *testing.T) {
	b := openBox(t)
	b.mustPut(t, deadLetter(1))
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	if got, err := b.orders(); err != nil || len(got) != 0 {
		t.Errorf("each: %q, %v", got, err)
	}
	if got, err := b.list(); err != nil || got == nil || len(got) != 0 {
		t.Errorf("list: %v, %v", got, err)
	}
	if err := b.remove(deadLetter(1).Order); err != nil {
		t.Error(err)
	}
	b.wantCounts(t, 0, 0)
	b.mustPut(t, deadLetter(1)) // makes it again
	b.wantCounts(t, 1, 0)
}

// Another process on the directory starts and clears away what is being
// written, or takes the whole directory, or stores the same order first.
func TestOthersInTheSameDirectory(t *testing.T) {
	b := openBox(t)
	meddle := func(times int, how func(from, to string) error) {
		b.link = func(root *os.Root, from, to string) error {
			if times--; times >= 0 {
				if err := how(filepath.Join(b.dir, from), filepath.Join(b.dir, to)); err != nil {
					t.Fatal(err)
				}
			}
			return root.Link(from, to)
		}
	}
	remove := func(from, _ string) error { return os.Remove(from) }
	meddle(2, remove)
	b.mustPut(t, deadLetter(1))
	meddle(1, func(string, string) error { return os.RemoveAll(b.dir) })
	b.mustPut(t, deadLetter(2))
	b.wantCounts(t, 2, 0) // as far as this process knows
	if got, err := b.orders(); err != nil || !slices.Equal(got, []string{deadLetter(2).Order}) {
		t.Errorf("each gave %q, %v", got, err)
	}
	b.wantCounts(t, 1, 0)

	// Nothing tries for ever, and what failed leaves nothing behind.
	meddle(letterTries, remove)
	if err := b.put(deadLetter(3)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("put = %v", err)
	}
	b.wantCounts(t, 1, 0)
	if got := b.files(t); len(got) != 1 {
		t.Errorf("left: %q", got)
	}

	first := deadLetter(3)
	meddle(1, func(string, string) error { return newLetterBox(b.dir).put(first) })
	second := first
	second.Token = "another"
	b.mustPut(t, second)
	if err := b.each(func(l letter) bool {
		if l.Token == second.Token {
			t.Error("the second letter won")
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	b.wantCounts(t, 2, 0)
	if got := b.files(t); len(got) != 2 {
		t.Errorf("left: %q", got)
	}
}

// Where the file system has no links a letter is stored all the same, and
// replaces nothing.
func TestWithoutLinks(t *testing.T) {
	b := openBox(t)
	b.link = func(*os.Root, string, string) error { return syscall.EPERM }
	b.mustPut(t, deadLetter(1))
	planted := filepath.Join(b.dir, letterFileName(deadLetter(2).Order))
	b.link = func(*os.Root, string, string) error {
		// Only now, so that put meets it at the last step. Once: it is set aside.
		b.link = func(*os.Root, string, string) error { return syscall.EPERM }
		return errors.Join(os.Symlink("nowhere", planted), syscall.EPERM)
	}
	b.mustPut(t, deadLetter(2))
	b.wantCounts(t, 2, 1)
	if got, err := b.orders(); err != nil || len(got) != 2 {
		t.Errorf("each gave %q, %v", got, err)
	}
	b.wantCounts(t, 2, 1)
	if got := b.files(t); len(got) != 3 {
		t.Errorf("files: %q", got)
	}
}

// Without links a rename could replace: of many at the last step one wins.
func TestOneWinsWithoutLinks(t *testing.T) {
	const copies = 8
	for n := range 20 {
		b := openBox(t)
		var arrived, done sync.WaitGroup
		arrived.Add(copies)
		b.link = func(*os.Root, string, string) error {
			arrived.Done()
			arrived.Wait()
			return syscall.EPERM
		}
		for range copies {
			done.Go(func() {
				if err := b.put(deadLetter(n)); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		b.wantCounts(t, 1, 0)
	}
}

func TestABoxFillsUp(t *testing.T) {
	b := openBox(t)
	if b.most != 10_000 {
		t.Errorf("the cap is %d", b.most)
	}
	b.most = 3
	b.mustPut(t, deadLetter(1), deadLetter(2), deadLetter(3))
	if err := b.put(deadLetter(4)); !errors.Is(err, errLettersFull) {
		t.Errorf("put = %v, want errLettersFull", err)
	}
	again := newLetterBox(b.dir) // also after a restart
	again.most = 3
	if err := errors.Join(again.open(), again.put(deadLetter(4))); !errors.Is(err, errLettersFull) {
		t.Errorf("put = %v, want errLettersFull", err)
	}
	if got := b.files(t); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	// Another process takes one away.
	if err := again.remove(deadLetter(2).Order); err != nil {
		t.Fatal(err)
	}
	b.mustPut(t, deadLetter(4))
	if err := b.put(deadLetter(5)); !errors.Is(err, errLettersFull) {
		t.Errorf("put = %v, want errLettersFull", err)
	}
	if err := b.remove(deadLetter(1).Order); err != nil {
		t.Fatal(err)
	}
	b.mustPut(t, deadLetter(5))
	b.wantCounts(t, 3, 0)
}

// Many at once, among them some of one order: each is stored once, the cap
// holds, and the counts are those of the directory.
func TestLettersAtOnce(t *testing.T) {
	const most, orders, copies = 20, 40, 4
	for _, link := range []func(*os.Root, string, string) error{
		(*os.Root).Link, func(*os.Root, string, string) error { return syscall.EPERM },
	} {
		b := openBox(t)
		b.most, b.link = most, link
		var wg sync.WaitGroup
		var mu sync.Mutex
		stored := map[string]bool{}
		for n := range orders {
			for c := range copies {
				wg.Go(func() {
					l := deadLetter(n)
					l.UserAgent = fmt.Sprint(c)
					switch err := b.put(l); {
					case err == nil:
						mu.Lock()
						defer mu.Unlock()
						stored[l.Order] = true
					case !errors.Is(err, errLettersFull):
						t.Error(err)
					}
				})
			}
			wg.Go(func() {
				// Whoever looks meanwhile sees whole letters only.
				if _, err := b.orders(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.wantCounts(t, len(b.files(t)), 0) // without another look
		got, err := b.orders()
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range got {
			if !stored[order] {
				t.Errorf("%s is there, and nobody was told so", order)
			}
		}
		if len(got) > most || len(got) != len(stored) || len(b.files(t)) != len(got) {
			t.Errorf("%d letters in %d files, %d acknowledged, at most %d", len(got), len(b.files(t)), len(stored), most)
		}
		b.wantCounts(t, len(got), 0)
	}
}

// Bad files are planted, letters stored and removed while others look: each bad
// file is set aside, and no good one.
func TestComingAndGoingAtOnce(t *testing.T) {
	b := openBox(t)
	var aside atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			path := filepath.Join(b.dir, letterFileName(deadLetter(n).Order))
			for range 25 {
				if err := os.Symlink("nowhere", path); err != nil {
					t.Error(err)
				}
				aside.Add(1)
				if err := errors.Join(b.put(deadLetter(n)), b.remove(deadLetter(n).Order)); err != nil {
					t.Error(err)
				}
			}
			if err := b.put(deadLetter(n)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 25 {
				_, _ = b.orders() // may or may not find a bad one
			}
		})
	}
	wg.Wait()
	got, err := b.orders()
	if err != nil || len(got) != 8 {
		t.Errorf("each gave %q, %v", got, err)
	}
	b.wantCounts(t, 8, int(aside.Load()))
}

// A listing that may be older than what is counted corrects nothing.
func TestStaleListingsCountNothing(t *testing.T) {
	var c letterCounts
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
		c = letterCounts{letters: 5, bad: 2}
		story.before()
		listing := c.begin()
		story.meanwhile()
		c.correct(listing, 100, 100)
		want(what, story.letters, 2)
	}
	// A replay may remove a letter before its put has counted it.
	c = letterCounts{}
	c.reserve(10_000)
	c.moved(-1, 0)
	want("removed early", 0, 0)
	c.stored(true)
	want("then counted", 0, 0)
}

// Nobody else on the machine can read a token, whatever the umask.
func TestLettersAreNobodyElses(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		b := newLetterBox(filepath.Join(t.TempDir(), "a", "b"))
		old := syscall.Umask(umask)
		err := errors.Join(b.open(), b.put(deadLetter(1)))
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]fs.FileMode{
			filepath.Dir(b.dir): 0o700 | fs.ModeDir,
			b.dir:               0o700 | fs.ModeDir,
			filepath.Join(b.dir, letterFileName(deadLetter(1).Order)): 0o600,
		} {
			if got, err := os.Lstat(path); err != nil || got.Mode() != want {
				t.Errorf("umask %o: %s is %v, want %v (%v)", umask, path, got.Mode(), want, err)
			}
		}
	}
}

func TestAListShowsNoSecret(t *testing.T) {
	const canary = "canary-4711"
	b := openBox(t)
	token := deadLetter(1)
	token.Order, token.Task, token.Token, token.UserAgent = "visible\x1b[2J."+canary, canary, canary, canary
	token.Identity = canary
	token.Arrived = token.Arrived.In(time.FixedZone("elsewhere", 3600))
	fault := deadLetter(2)
	fault.Token, fault.Code = "", "<ERROR>\x1b\r\n\u202e"+strings.Repeat("x", 2*shownLetterText)
	b.mustPut(t, fault, token)
	shown, err := b.list()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), canary) {
		t.Errorf("a secret is shown: %s", text)
	}
	size := func(l letter) int64 {
		info, err := os.Stat(filepath.Join(b.dir, letterFileName(l.Order)))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	want := fmt.Sprintf(`[{"order":"visible[2J","provider":"one","kind":"token","arrived":"2026-01-02T03:04:06.678Z","until":"2026-01-02T03:05:06.678Z","bytes":%d},`+
		`{"order":"order-2","provider":"one","kind":"error","code":"\u003cERROR\u003e%s","arrived":"2026-01-02T03:04:07.678Z","until":"2026-01-02T03:05:07.678Z","bytes":%d}]`,
		size(token), strings.Repeat("x", shownLetterText-len("<ERROR>")), size(fault))
	if string(text) != want {
		t.Errorf("list:\n%s\nwant:\n%s", text, want)
	}
}
