package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sample is the letter of these tests: a JSON object.
type sample struct {
	Key  string    `json:"key"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// secret stands in each sample, and must stand in no error.
const secret = "03AF"

func parseSample(data []byte) (string, time.Time, error) {
	var l sample
	if json.Unmarshal(data, &l) != nil {
		return "", time.Time{}, errors.New("broken")
	}
	if l.Key == "" {
		return "", time.Time{}, errors.New("without a key")
	}
	return l.Key, l.At, nil
}

func (l sample) data() []byte {
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return data
}

// nth is the n-th letter of a test, a second younger than the one before.
func nth(n int) sample {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	return sample{fmt.Sprintf("order-%d.0123abcd", n), at.Add(time.Duration(n) * time.Second), fmt.Sprint(secret, n)}
}

// opened is an open spool in a directory of its own.
func opened(t *testing.T) *Spool {
	t.Helper()
	s := New(filepath.Join(t.TempDir(), "deep", "dead-letters"), parseSample)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	return s
}

// twin is what a second process on the directory has.
func (s *Spool) twin() *Spool {
	other := New(s.dir, parseSample)
	other.most = s.most
	return other
}

func (s *Spool) mustPut(t *testing.T, letters ...sample) {
	t.Helper()
	for _, l := range letters {
		if err := s.Put(l.data()); err != nil {
			t.Fatal(err)
		}
	}
}

// plant makes a file that no spool wrote.
func (s *Spool) plant(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// all is what a replay reads: the letters that are listed, in that order.
func (s *Spool) all() (letters []sample, err error) {
	keys, err := s.List()
	for _, key := range keys {
		data, failed := s.Read(key)
		if errors.Is(failed, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var l sample
		if failed == nil {
			failed = json.Unmarshal(data, &l)
		}
		if failed != nil {
			return letters, errors.Join(err, failed)
		}
		letters = append(letters, l)
	}
	return letters, err
}

// files is what lies in the directory; the random part of names is left out.
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

func (s *Spool) wantAll(t *testing.T, want ...sample) {
	t.Helper()
	if got, err := s.all(); err != nil || !slices.Equal(got, want) {
		t.Errorf("the letters are %q, %v\nwant %q", got, err, want)
	}
}

func TestLettersComeBackAsTheyWere(t *testing.T) {
	s := opened(t)
	hostile := nth(1)
	hostile.Key = "../../etc/passwd\x00\n"
	s.mustPut(t, nth(3), hostile, nth(2), nth(0)) // not by age

	// A later process finds the same.
	for _, s := range []*Spool{s, s.twin()} {
		s.wantAll(t, nth(0), hostile, nth(2), nth(3))
		s.wantCounts(t, 4, 0)
	}
	again := s.twin()
	if err := again.Open(); err != nil {
		t.Fatal(err)
	}
	again.wantCounts(t, 4, 0)

	// What a replay does: removing while it goes through them.
	keys, err := s.List()
	if err != nil || len(keys) != 4 {
		t.Fatalf("list = %q, %v", keys, err)
	}
	for _, listed := range keys {
		for _, key := range []string{listed, listed, nth(3).Key, "never heard of"} {
			if err := s.Remove(key); err != nil {
				t.Error(err)
			}
			if data, err := s.Read(key); !errors.Is(err, fs.ErrNotExist) || data != nil {
				t.Errorf("read %q, which is gone: %q, %v", key, data, err)
			}
		}
		s.mustPut(t, nth(9))
	}
	s.wantCounts(t, 1, 0)
	if got := s.files(t); !slices.Equal(got, []string{nameOf(nth(9).Key)}) {
		t.Errorf("left: %q", got)
	}
}

// The bytes are the caller's, and letters of one moment have an order all the same.
func TestBytesAreKeptAsTheyAre(t *testing.T) {
	s := opened(t)
	spaced := " {\"key\" : \"b\"}\n"
	if err := s.Put([]byte(spaced)); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read("b"); err != nil || string(data) != spaced {
		t.Errorf("read %q, %v", data, err)
	}
	want := []string{"b"}
	for n := range 8 {
		l := sample{Key: fmt.Sprint(n)}
		s.mustPut(t, l)
		want = append(want, l.Key)
	}
	slices.SortFunc(want, func(x, y string) int { return strings.Compare(nameOf(x), nameOf(y)) })
	if keys, err := s.List(); err != nil || !slices.Equal(keys, want) {
		t.Errorf("list = %q, %v; want %q", keys, err, want)
	}
}

// A provider that repeats its callback makes the token no younger, also where
// the spool is full.
func TestTheFirstLetterOfAKeyStays(t *testing.T) {
	s := opened(t)
	s.most = 1
	second := nth(1)
	second.At, second.Text = second.At.Add(time.Hour), "another"
	s.mustPut(t, nth(1), second)
	s.wantAll(t, nth(1))
	s.wantCounts(t, 1, 0)
}

func TestLettersThatAreNone(t *testing.T) {
	s := opened(t)
	largest := nth(1)
	largest.Text += strings.Repeat("x", 65536-len(largest.data()))
	for name, c := range map[string]struct {
		text string
		want error
		says string
	}{
		"nothing":         {"", ErrBad, "storing a dead letter: not a dead letter: broken"},
		"no JSON":         {secret, ErrBad, "storing a dead letter: not a dead letter: broken"},
		"no key":          {`{"text":"` + secret + `"}`, ErrBad, "storing a dead letter: not a dead letter: without a key"},
		"a byte too many": {string(largest.data()) + " ", ErrTooLarge, "storing a dead letter: a dead letter that is too large"},
	} {
		if err := s.Put([]byte(c.text)); !errors.Is(err, c.want) || err.Error() != c.says {
			t.Errorf("%s: put = %v, want %v", name, err, c.says)
		}
	}
	s.wantCounts(t, 0, 0)
	if got := s.files(t); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	// The largest one that fits is read again.
	s.mustPut(t, largest)
	s.wantAll(t, largest)
	s.wantCounts(t, 1, 0)
}

// Whatever has a letter's name and is none blocks no other, is told of once and
// by name alone, and makes room for the letter itself.
func TestBadFilesAreSetAside(t *testing.T) {
	whole := nth(1).data()
	name := nameOf(nth(1).Key)
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		plant func(path string) error
		says  string
	}{
		"empty":            {file(""), "broken"},
		"truncated":        {file(string(whole[:len(whole)/2])), "broken"},
		"no JSON":          {file(secret), "broken"},
		"a wrong type":     {file(`{"key":["` + secret + `"]}`), "broken"},
		"a wrong time":     {file(`{"key":"k","at":"` + secret + `"}`), "broken"},
		"two documents":    {file(string(whole) + string(whole)), "broken"},
		"no key":           {file(strings.Replace(string(whole), `"key"`, `"kex"`, 1)), "without a key"},
		"another key":      {file(strings.Replace(string(whole), `order-1`, `order-2`, 1)), "of another order than its name says"},
		"too large":        {file(string(whole) + strings.Repeat(" ", 65536)), "too large"},
		"a directory":      {func(path string) error { return os.Mkdir(path, 0o700) }, "no regular file"},
		"a full directory": {func(path string) error { return os.MkdirAll(filepath.Join(path, "in"), 0o700) }, "no regular file"},
		"a symlink":        {func(path string) error { return os.Symlink(outside, path) }, "no regular file"},
		"a link inside":    {func(path string) error { return os.Symlink("other", path) }, "no regular file"},
		"a dangling link":  {func(path string) error { return os.Symlink("nowhere", path) }, "no regular file"},
		"a pipe":           {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "no regular file"},
	} {
		t.Run(what, func(t *testing.T) {
			for read, meet := range map[string]func(s *Spool) error{
				"list": func(s *Spool) error {
					keys, err := s.List()
					if !slices.Equal(keys, []string{nth(0).Key, nth(2).Key}) {
						t.Errorf("list gave %q", keys)
					}
					return err
				},
				"read": func(s *Spool) error {
					data, err := s.Read(nth(1).Key)
					if data != nil {
						t.Errorf("read gave %q", data)
					}
					return err
				},
			} {
				s := opened(t)
				s.plant(t, "other", string(whole))
				s.mustPut(t, nth(0), nth(2))
				if err := c.plant(filepath.Join(s.dir, name)); err != nil {
					t.Fatal(err)
				}
				err := meet(s)
				if want := name + ": not a dead letter: " + c.says; !errors.Is(err, ErrBad) || err.Error() != want {
					t.Errorf("%s told %v, want %s", read, err, want)
				}
				s.wantCounts(t, 2, 1)
				s.wantAll(t, nth(0), nth(2))
				s.wantCounts(t, 2, 1)
				if !slices.Contains(s.files(t), name+".bad") {
					t.Errorf("%s: nothing was set aside: %q", read, s.files(t))
				}
				// It is in nobody's way when the letter itself comes.
				if err := c.plant(filepath.Join(s.dir, name)); err != nil {
					t.Fatal(err)
				}
				s.mustPut(t, nth(1))
				s.wantCounts(t, 3, 2)
				s.wantAll(t, nth(0), nth(1), nth(2))
				for _, path := range []string{outside, filepath.Join(s.dir, "other")} {
					if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, whole) {
						t.Errorf("%s was changed: %v", path, err)
					}
				}
			}
		})
	}
}

// What a crash leaves unfinished is cleared away; files of others are not even
// counted.
func TestAfterACrash(t *testing.T) {
	s := opened(t)
	s.mustPut(t, nth(1))
	name := nameOf(nth(2).Key)
	foreign := []string{
		"-rf", "a\nb.json", "letter-A.tmp.bak", "notes.bad", strings.ToUpper(name),
		name + ".bad", name[1:], name + "\n", "x" + name,
	}
	for _, f := range foreign {
		s.plant(t, f, `{"key":"k"}`)
	}
	s.plant(t, "letter-ABC234.tmp", `{"key":"k","te`)
	// Where the crash came between the second name and the end of the first.
	if err := os.Link(filepath.Join(s.dir, nameOf(nth(1).Key)), filepath.Join(s.dir, "letter-XYZ.tmp")); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(foreign), nameOf(nth(1).Key))
	slices.Sort(want)
	for range 2 {
		s = s.twin()
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		s.wantCounts(t, 1, 0)
		s.wantAll(t, nth(1))
		if got := s.files(t); !slices.Equal(got, want) {
			t.Errorf("files:\n%q\nwant:\n%q", got, want)
		}
	}
}
