package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/captcha"
)

// letterTime is the arrival time of a test's first dead letter.
var letterTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// secret is in the token of each letter. No error may contain it.
const secret = "03AF"

// letter returns the n-th dead letter of a test. Each letter is a second younger than the previous
// one.
func letter(n int) Letter {
	at := letterTime.Add(time.Duration(n) * time.Second)
	return Letter{
		Order: fmt.Sprintf("order-%d.0123abcd", n), Identity: "fc2942c577a5386e6ca58d3ddd8057bf", Provider: "one", Task: fmt.Sprint("t", n),
		Token: fmt.Sprintf("%s<&>ü-%d", secret, n), UserAgent: "Mozilla/5.0", Arrived: at, Until: at.Add(time.Minute),
	}
}

// failure returns the n-th dead letter of a test, with an error code instead of a token.
func failure(n int) Letter {
	l := letter(n)
	l.Token, l.UserAgent, l.Code, l.Refused = "", "", "ERROR_CAPTCHA_UNSOLVABLE", true
	return l
}

func encoded(t *testing.T, l Letter) string {
	t.Helper()
	data, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// opened returns an open spool in its own folder.
func opened(t *testing.T) *Spool {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "deep", "dead-letters"))
	s.mustOpen(t)
	return s
}

// twin returns the spool of another process, or of a later process, in the same folder.
func (s *Spool) twin() *Spool {
	other := New(s.dir)
	other.most = s.most
	return other
}

func (s *Spool) mustOpen(t *testing.T) {
	t.Helper()
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
}

func (s *Spool) mustKeep(t *testing.T, letters ...Letter) {
	t.Helper()
	for _, l := range letters {
		if err := s.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Spool) path(l Letter) string { return filepath.Join(s.dir, nameOf(l.Order)) }

// plant writes a file as a foreign program would.
func (s *Spool) plant(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// all returns all letters that Each finds, oldest first.
func (s *Spool) all() (letters []Letter, err error) {
	err = s.Each(nil, func(l Letter, _ int64) bool {
		letters = append(letters, l)
		return true
	})
	return letters, err
}

// files returns the names in the folder. For files set aside, it drops the random part of the name.
func (s *Spool) files(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if asideName.MatchString(name) {
			name = strings.SplitAfter(name, ".json")[0] + ".bad"
		}
		names = append(names, name)
	}
	return names
}

func (s *Spool) wantCounts(t *testing.T, letters, bad int) {
	t.Helper()
	if l, b := s.Count(), s.SetAside(); l != letters || b != bad {
		t.Errorf("counted %d letters, %d bad; want %d, %d", l, b, letters, bad)
	}
}

func (s *Spool) wantAll(t *testing.T, want ...Letter) {
	t.Helper()
	if got, err := s.all(); err != nil || !slices.Equal(got, want) {
		t.Errorf("the letters are %+v, %v\nwant %+v", got, err, want)
	}
}

func TestLettersAreReadAsTheyWereKept(t *testing.T) {
	s := opened(t)
	hostile := letter(1)
	hostile.Order = "../../etc/passwd\x00\n"
	hostile.Arrived = hostile.Arrived.In(time.FixedZone("elsewhere", 3600))
	s.mustKeep(t, letter(3), hostile, letter(2), failure(0)) // not in the order of their ages
	hostile.Arrived = hostile.Arrived.UTC()

	// A later process finds the same letters.
	later := s.twin()
	later.mustOpen(t)
	later.wantCounts(t, 4, 0)
	for _, s := range []*Spool{s, later, s.twin()} {
		s.wantAll(t, failure(0), hostile, letter(2), letter(3))
		s.wantCounts(t, 4, 0)
	}
	n := 0
	if err := s.Each(nil, func(Letter, int64) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("each gave %d letters after false: %v", n, err)
	}
	// A replay removes letters while it reads them, and other letters are stored meanwhile.
	n = 0
	if err := s.Each(nil, func(l Letter, _ int64) bool {
		n++
		for _, order := range []string{l.Order, l.Order, letter(3).Order, "never heard of"} {
			if err := s.Remove(order); err != nil {
				t.Error(err)
			}
		}
		s.mustKeep(t, letter(9))
		return true
	}); err != nil || n != 3 {
		t.Errorf("each gave %d letters, %v", n, err)
	}
	s.wantCounts(t, 1, 0)
	s.wantAll(t, letter(9))
	if got := s.files(t); !slices.Equal(got, []string{nameOf(letter(9).Order)}) {
		t.Errorf("left: %q", got)
	}
}

// A repeated callback does not make the token younger. A repeated callback writes nothing, so it also
// succeeds if the spool or the disk is full.
func TestTheFirstLetterOfAnOrderStays(t *testing.T) {
	s := opened(t)
	s.most = 1
	second := letter(1)
	second.Arrived, second.Token = second.Arrived.Add(time.Hour), "another"
	s.mustKeep(t, letter(1))
	if err := os.Chtimes(s.dir, letterTime, letterTime); err != nil {
		t.Fatal(err)
	}
	s.mustKeep(t, second)
	if folder, err := os.Stat(s.dir); err != nil || !folder.ModTime().Equal(letterTime) {
		t.Errorf("a repeated letter changed the folder: %v", err)
	}
	s.wantAll(t, letter(1))
	s.wantCounts(t, 1, 0)
	if got := s.files(t); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

// Each sorts letters first by the ids of their orders, with the function `compare`, then by age,
// then by name.
func TestEachSortsLetters(t *testing.T) {
	s := opened(t)
	low, high := captcha.ID(strings.Repeat("0", 32)), captcha.ID(strings.Repeat("f", 32))
	var orders []string
	for i, id := range []captcha.ID{high, low, high, low, high, high} {
		l := letter(min(i, 4))
		l.Order = fmt.Sprintf("o%d.%s", i, id)
		orders = append(orders, l.Order)
		s.mustKeep(t, l)
	}
	identity := func(order string) string { return strings.SplitAfter(order, ".")[1] }
	var got []string
	err := s.Each(func(x, y string) int { return strings.Compare(identity(x), identity(y)) }, func(l Letter, _ int64) bool {
		got = append(got, l.Order)
		return true
	})
	want := []string{orders[1], orders[3], orders[0], orders[2], orders[4], orders[5]}
	if nameOf(orders[4]) > nameOf(orders[5]) { // both letters have the same age
		want[4], want[5] = want[5], want[4]
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("each gave %q, %v, want %q", got, err, want)
	}
}

// A bad file does not hide the other letters. A bad file is reported once and only by name. The
// letter of a bad file can still be stored.
func TestBadFilesAreSetAside(t *testing.T) {
	whole := encoded(t, letter(1))
	name := nameOf(letter(1).Order)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for what, c := range map[string]struct {
		plant func(path string) error
		says  string
	}{
		"empty":             {file(""), "broken"},
		"truncated":         {file(whole[:len(whole)/2]), "broken"},
		"no JSON":           {file(secret), "broken"},
		"a wrong type":      {file(`{"version":1,"order":["` + secret + `"]}`), "broken"},
		"a wrong time":      {file(`{"version":1,"arrived":"` + secret + `"}`), "broken"},
		"two documents":     {file(whole + whole), "broken"},
		"a flipped byte":    {file(strings.Replace(whole, `03AF`, "03\xffAF", 1)), "broken"},
		"a foreign version": {file(strings.Replace(whole, `"version":1`, `"version":2`, 1)), "of version 2"},
		"no version":        {file(strings.Replace(whole, `"version":1,`, ``, 1)), "of version 0"},
		"no order":          {file(strings.Replace(whole, `"order"`, `"broken"`, 1)), "without an order"},
		"another order":     {file(strings.Replace(whole, `order-1`, `order-2`, 1)), "of another order than its name says"},
		"no token":          {file(strings.Replace(whole, `"token"`, `"broken"`, 1)), "without a token and a code, or with both"},
		"no end":            {file(strings.Replace(whole, `"until"`, `"broken"`, 1)), "without a time"},
		"too large":         {file(whole + strings.Repeat(" ", 65536)), "too large"},
		"a directory":       {func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		"a full directory":  {func(path string) error { return os.MkdirAll(filepath.Join(path, "in"), 0o700) }, "not a regular file"},
		"a symlink":         {func(path string) error { return os.Symlink(outside, path) }, "not a regular file"},
		"a link inside":     {func(path string) error { return os.Symlink("other", path) }, "not a regular file"},
		"a dangling link":   {func(path string) error { return os.Symlink("nowhere", path) }, "not a regular file"},
		"a pipe":            {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file"},
	} {
		t.Run(what, func(t *testing.T) {
			s := opened(t)
			s.plant(t, "other", whole)
			s.mustKeep(t, letter(0), letter(2))
			if err := c.plant(s.path(letter(1))); err != nil {
				t.Fatal(err)
			}
			got, err := s.all()
			if want := name + ": not a dead letter: " + c.says; !errors.Is(err, ErrBad) || err.Error() != want {
				t.Errorf("each told %v, want %s", err, want)
			}
			if !slices.Equal(got, []Letter{letter(0), letter(2)}) {
				t.Errorf("each gave %+v", got)
			}
			s.wantCounts(t, 2, 1)
			s.wantAll(t, letter(0), letter(2))
			if !slices.Contains(s.files(t), name+".bad") {
				t.Errorf("nothing was set aside: %q", s.files(t))
			}
			// Keep finds the second bad file.
			if err := c.plant(s.path(letter(1))); err != nil {
				t.Fatal(err)
			}
			s.mustKeep(t, letter(1))
			s.wantCounts(t, 3, 2)
			s.wantAll(t, letter(0), letter(1), letter(2))
			for _, path := range []string{outside, filepath.Join(s.dir, "other")} {
				if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, []byte(whole)) {
					t.Errorf("%s was changed: %v", path, err)
				}
			}
		})
	}
}

// If a letter becomes bad after the folder was listed, the other letters are still read.
func TestALetterSpoiledDuringEachIsSetAside(t *testing.T) {
	s := opened(t)
	s.mustKeep(t, letter(0), letter(1), letter(2))
	var got []Letter
	err := s.Each(nil, func(l Letter, _ int64) bool {
		if len(got) == 0 {
			s.plant(t, nameOf(letter(1).Order), "{")
		}
		got = append(got, l)
		return true
	})
	if !errors.Is(err, ErrBad) || !slices.Equal(got, []Letter{letter(0), letter(2)}) {
		t.Errorf("each gave %+v, %v", got, err)
	}
	s.wantCounts(t, 2, 1)
}

// The maximum number of bad files equals the maximum number of letters. Further bad files are
// deleted. Bad files do not take room from letters.
func TestBadFilesAreBounded(t *testing.T) {
	s := opened(t)
	s.most = 3
	spoil := func(from, to, deleted int) {
		t.Helper()
		for i := from; i < to; i++ {
			s.plant(t, nameOf(fmt.Sprint(i)), "rubbish")
		}
		_, err := s.all()
		if !errors.Is(err, ErrBad) || strings.Count(err.Error(), "deleted, because 3 bad files are kept") != deleted {
			t.Errorf("bad files %d to %d: %v, want %d deleted", from, to, err, deleted)
		}
		s.wantCounts(t, 0, 3)
	}
	spoil(0, 3, 0)
	spoil(3, 5, 2)
	old, err := filepath.Glob(filepath.Join(s.dir, "*.bad"))
	if err != nil || len(old) != 3 {
		t.Fatal(old, err)
	}
	// An operator has removed one of the files.
	if err := os.Remove(old[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.all(); err != nil {
		t.Error(err)
	}
	spoil(5, 6, 0)

	s.plant(t, nameOf("6")+".ABC234.bad", "rubbish") // from a former version of poold with a higher limit
	s.mustKeep(t, letter(1), letter(2), letter(3))
	again := s.twin() // also after a restart
	again.mustOpen(t)
	for _, s := range []*Spool{s, again} {
		if err := s.Keep(letter(4)); !errors.Is(err, ErrFull) {
			t.Errorf("keep = %v, want ErrFull", err)
		}
		s.wantCounts(t, 3, 4)
	}
}

// Open removes unfinished files. Files with foreign names are ignored.
func TestOpenCleansUpAfterACrash(t *testing.T) {
	s := opened(t)
	s.mustKeep(t, letter(1))
	name := nameOf(letter(2).Order)
	foreign := []string{
		"-rf", "a\nb.json", "letter-A.tmp.bak", "notes.bad", strings.ToUpper(name),
		name + ".bad", name[1:], name + "\n", "x" + name,
	}
	for _, f := range foreign {
		s.plant(t, f, encoded(t, letter(2)))
	}
	s.plant(t, "letter-ABC234.tmp", `{"version":1,"or`)
	// A former version of poold gave a letter its name by a hard link.
	if err := os.Link(s.path(letter(1)), filepath.Join(s.dir, "letter-XYZ.tmp")); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(foreign), nameOf(letter(1).Order))
	slices.Sort(want)
	for range 2 {
		s = s.twin()
		s.mustOpen(t)
		s.wantCounts(t, 1, 0)
		s.wantAll(t, letter(1))
		if got := s.files(t); !slices.Equal(got, want) {
			t.Errorf("files:\n%q\nwant:\n%q", got, want)
		}
	}
}
