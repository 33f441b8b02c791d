package purchase

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
	"testing/synctest"
	"time"
)

// letterTime is when the first letter of a test arrived.
var letterTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// deadLetter is the n-th letter of a test, a second younger than the one before.
func deadLetter(n int) letter {
	at := letterTime.Add(time.Duration(n) * time.Second)
	return letter{
		Order: fmt.Sprintf("order-%d.0123abcd", n), Identity: spec().ID, Provider: "one", Task: fmt.Sprint("t", n),
		Token: fmt.Sprintf("03AF<&>ü-%d", n), UserAgent: "Mozilla/5.0", Arrived: at, Until: at.Add(time.Minute),
	}
}

// openBox is an open box in a directory of its own.
func openBox(t *testing.T) *letterBox {
	t.Helper()
	b := newLetterBox(filepath.Join(t.TempDir(), "deep", "dead-letters"))
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *letterBox) mustPut(t *testing.T, letters ...letter) {
	t.Helper()
	for _, l := range letters {
		if err := b.put(l); err != nil {
			t.Fatal(err)
		}
	}
}

// plant makes a file that no box wrote.
func (b *letterBox) plant(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// orders is what each gives, in its order.
func (b *letterBox) orders() (orders []string, err error) {
	err = b.each(func(l letter) bool {
		orders = append(orders, l.Order)
		return true
	})
	return orders, err
}

// files is what lies in the directory; the random part of names is left out.
func (b *letterBox) files(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if badLetterName.MatchString(name) {
			name = strings.SplitAfter(name, ".json")[0] + ".bad"
		}
		names = append(names, name)
	}
	return names
}

func (b *letterBox) wantCounts(t *testing.T, letters, bad int) {
	t.Helper()
	if l, s := b.count(), b.badCount(); l != letters || s != bad {
		t.Errorf("counted %d letters, %d bad; want %d, %d", l, s, letters, bad)
	}
}

func TestLettersComeBackAsTheyWere(t *testing.T) {
	b := openBox(t)
	fault := deadLetter(0)
	fault.Token, fault.UserAgent, fault.Code = "", "", "ERROR_CAPTCHA_UNSOLVABLE"
	hostile := deadLetter(1)
	hostile.Order = "../../etc/passwd\x00\n"
	hostile.Arrived = hostile.Arrived.In(time.FixedZone("elsewhere", 3600))
	b.mustPut(t, deadLetter(3), hostile, deadLetter(2), fault) // not by age
	hostile.Arrived = hostile.Arrived.UTC()
	want := []letter{fault, hostile, deadLetter(2), deadLetter(3)}

	// A later process finds the same.
	for _, box := range []*letterBox{b, newLetterBox(b.dir)} {
		var got []letter
		if err := box.each(func(l letter) bool { got = append(got, l); return true }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("came back:\n%+v\nwant:\n%+v", got, want)
		}
		box.wantCounts(t, 4, 0)
	}
	again := newLetterBox(b.dir)
	if err := again.open(); err != nil {
		t.Fatal(err)
	}
	again.wantCounts(t, 4, 0)

	n := 0
	if err := b.each(func(l letter) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("each went on to %d letters after false: %v", n, err)
	}
	// What a replay does: removing while it goes through them.
	if err := b.each(func(l letter) bool {
		for _, order := range []string{l.Order, l.Order, deadLetter(3).Order, "never heard of"} {
			if err := b.remove(order); err != nil {
				t.Error(err)
			}
		}
		b.mustPut(t, deadLetter(9))
		return true
	}); err != nil {
		t.Error(err)
	}
	b.wantCounts(t, 1, 0)
	if got := b.files(t); !slices.Equal(got, []string{letterFileName(deadLetter(9).Order)}) {
		t.Errorf("left: %q", got)
	}
}

// A provider that repeats its callback makes the token no younger, also where
// the box is full.
func TestTheFirstLetterOfAnOrderStays(t *testing.T) {
	b := openBox(t)
	b.most = 1
	first := deadLetter(1)
	second := first
	second.Arrived, second.Token = first.Arrived.Add(time.Hour), "another"
	b.mustPut(t, first, second)
	if err := b.each(func(l letter) bool {
		if l != first {
			t.Errorf("kept %+v", l)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	b.wantCounts(t, 1, 0)
}

func TestLettersThatAreNone(t *testing.T) {
	b := openBox(t)
	for name, c := range map[string]struct {
		change func(*letter)
		want   error
	}{
		"no order":          {func(l *letter) { l.Order = "" }, errLetterBad},
		"nothing":           {func(l *letter) { l.Token = "" }, errLetterBad},
		"token and code":    {func(l *letter) { l.Code = "ERROR" }, errLetterBad},
		"no arrival":        {func(l *letter) { l.Arrived = time.Time{} }, errLetterBad},
		"no end":            {func(l *letter) { l.Until = time.Time{} }, errLetterBad},
		"no year":           {func(l *letter) { l.Until = l.Until.AddDate(9000, 0, 0) }, errLetterBad},
		"a broken token":    {func(l *letter) { l.Token = "03AF\xff" }, errLetterBad},
		"a broken order":    {func(l *letter) { l.Order = "\xff" }, errLetterBad},
		"a large token":     {func(l *letter) { l.Token = strings.Repeat("x", 65536) }, errLetterTooLarge},
		"a swollen browser": {func(l *letter) { l.UserAgent = strings.Repeat("\x01", 65536/6) }, errLetterTooLarge},
	} {
		l := deadLetter(1)
		c.change(&l)
		err := b.put(l)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: put = %v, want %v", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "03AF") {
			t.Errorf("%s: the token is in the error: %v", name, err)
		}
	}
	// The largest one that fits is read again.
	l := deadLetter(1)
	data, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	l.UserAgent += strings.Repeat("x", 65536-len(data))
	b.mustPut(t, l)
	if got, err := b.orders(); err != nil || len(got) != 1 {
		t.Errorf("the largest letter: %q, %v", got, err)
	}
	b.wantCounts(t, 1, 0)
}

// Whatever has a letter's name and is none blocks no other, is told of once and
// by name alone, and makes room for the letter itself.
func TestBadFilesAreSetAside(t *testing.T) {
	whole, err := deadLetter(1).encode()
	if err != nil {
		t.Fatal(err)
	}
	const canary = "03AF"
	name := letterFileName(deadLetter(1).Order)
	file := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, plant := range map[string]func(path string) error{
		"empty":             file(""),
		"truncated":         file(string(whole[:len(whole)/2])),
		"no JSON":           file(canary),
		"a wrong type":      file(`{"version":1,"order":["` + canary + `"]}`),
		"a wrong time":      file(`{"version":1,"arrived":"` + canary + `"}`),
		"two documents":     file(string(whole) + string(whole)),
		"a foreign version": file(strings.Replace(string(whole), `"version":1`, `"version":2`, 1)),
		"no version":        file(strings.Replace(string(whole), `"version":1,`, ``, 1)),
		"another order":     file(strings.Replace(string(whole), `order-1`, `order-2`, 1)),
		"no token":          file(strings.Replace(string(whole), `"token"`, `"broken"`, 1)),
		"a flipped byte":    file(strings.Replace(string(whole), `03AF`, "03\xffAF", 1)),
		"too large":         file(string(whole) + strings.Repeat(" ", 65536)),
		"a directory":       func(path string) error { return os.Mkdir(path, 0o700) },
		"a full directory":  func(path string) error { return os.MkdirAll(filepath.Join(path, "in"), 0o700) },
		"a symlink":         func(path string) error { return os.Symlink(outside, path) },
		"a link inside":     func(path string) error { return os.Symlink("other", path) },
		"a dangling link":   func(path string) error { return os.Symlink("nowhere", path) },
		"a pipe":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			b := openBox(t)
			b.plant(t, "other", string(whole))
			b.mustPut(t, deadLetter(0), deadLetter(2))
			others := []string{deadLetter(0).Order, deadLetter(2).Order}
			check := func(read string, err error) {
				t.Helper()
				if !errors.Is(err, errLetterBad) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), canary) {
					t.Errorf("%s told %v", read, err)
				}
				b.wantCounts(t, 2, 1)
				if got, err := b.orders(); err != nil || !slices.Equal(got, others) {
					t.Errorf("%s, once more: %q, %v", read, got, err)
				}
				b.wantCounts(t, 2, 1)
				if !slices.Contains(b.files(t), name+".bad") {
					t.Errorf("%s: nothing was set aside: %q", read, b.files(t))
				}
			}
			if err := plant(filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
			got, err := b.orders()
			check("each", err)
			if !slices.Equal(got, others) {
				t.Errorf("each gave %q", got)
			}
			if err := errors.Join(os.RemoveAll(b.dir), b.open()); err != nil {
				t.Fatal(err)
			}
			b.plant(t, "other", string(whole))
			b.mustPut(t, deadLetter(0), deadLetter(2))
			if err := plant(filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
			shown, err := b.list()
			check("list", err)
			if len(shown) != 2 {
				t.Errorf("list gave %+v", shown)
			}
			// It is in nobody's way when the letter itself comes.
			if err := plant(filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
			b.mustPut(t, deadLetter(1))
			if got, err := b.orders(); err != nil || len(got) != 3 {
				t.Errorf("after put: %q, %v", got, err)
			}
			b.wantCounts(t, 3, 2)
			for _, path := range []string{outside, filepath.Join(b.dir, "other")} {
				if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, whole) {
					t.Errorf("%s was changed: %v", path, err)
				}
			}
		})
	}
}

// What a crash leaves unfinished is cleared away; files of others are not even
// counted.
func TestAfterACrash(t *testing.T) {
	b := openBox(t)
	b.mustPut(t, deadLetter(1))
	name := letterFileName(deadLetter(2).Order)
	foreign := []string{
		"-rf", "a\nb.json", "letter-A.tmp.bak", "notes.bad", strings.ToUpper(name),
		name + ".bad", name[1:], name + "\n", "x" + name,
	}
	for _, f := range foreign {
		b.plant(t, f, `{"version":1}`)
	}
	b.plant(t, "letter-ABC234.tmp", `{"version":1,"tok`)
	// Where the crash came between the second name and the end of the first.
	if err := os.Link(filepath.Join(b.dir, letterFileName(deadLetter(1).Order)), filepath.Join(b.dir, "letter-XYZ.tmp")); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(foreign), letterFileName(deadLetter(1).Order))
	slices.Sort(want)
	for range 2 {
		b = newLetterBox(b.dir)
		if err := b.open(); err != nil {
			t.Fatal(err)
		}
		b.wantCounts(t, 1, 0)
		if got, err := b.orders(); err != nil || len(got) != 1 {
			t.Errorf("read %q, %v", got, err)
		}
		if got := b.files(t); !slices.Equal(got, want) {
			t.Errorf("files:\n%q\nwant:\n%q", got, want)
		}
	}
}

// One broken dead letter keeps nobody from starting.
func TestABrokenLetterDoesNotStopTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBox(t)
		b.plant(t, strings.Repeat("0", 64)+".json", "{")
		s := newShopWith(t, 1, b.dir)
		for range 2 {
			if err := s.desk.OpenLetters(); err != nil {
				t.Errorf("opening: %v", err)
			}
		}
	})
}
