package purchase

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that were set aside refuse no letter, however many there are.
func TestBadFilesTakeNoLettersRoom(t *testing.T) {
	b := openBox(t)
	b.most = 3
	for i := range 5 {
		b.plant(t, letterFileName(fmt.Sprint(i))+".ABC234.bad", "rubbish")
	}
	b.mustPut(t, deadLetter(1), deadLetter(2), deadLetter(3))
	again := newLetterBox(b.dir) // also after a restart
	again.most = 3
	if err := again.open(); err != nil {
		t.Fatal(err)
	}
	for _, box := range []*letterBox{b, again} {
		if err := box.put(deadLetter(4)); !errors.Is(err, errLettersFull) {
			t.Errorf("put = %v, want errLettersFull", err)
		}
		box.wantCounts(t, 3, 5)
	}
}

// As many bad files as letters are kept to be looked at; what is more is deleted, so
// that a disk which spoils what it is given does not fill up with it.
func TestBadFilesHaveAnEnd(t *testing.T) {
	b := openBox(t)
	b.most = 3
	spoil := func(from, to int) (told string) {
		t.Helper()
		for i := from; i < to; i++ {
			b.plant(t, letterFileName(fmt.Sprint(i)), "rubbish")
		}
		_, err := b.orders()
		if !errors.Is(err, errLetterBad) {
			t.Errorf("each told %v", err)
		}
		return err.Error()
	}
	if told := spoil(0, 3); strings.Contains(told, "deleted") {
		t.Errorf("three bad files: %v", told)
	}
	b.wantCounts(t, 0, 3)
	if told := spoil(3, 5); strings.Count(told, "deleted: as many are set aside as may be") != 2 {
		t.Errorf("two more: %v", told)
	}
	b.wantCounts(t, 0, 3)
	if got := b.files(t); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	b.mustPut(t, deadLetter(1), deadLetter(2), deadLetter(3))
	b.wantCounts(t, 3, 3)
	// An operator has looked at one.
	old, err := filepath.Glob(filepath.Join(b.dir, "*.bad"))
	if err != nil || len(old) != 3 {
		t.Fatal(old, err)
	}
	if err := os.Remove(old[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := b.orders(); err != nil {
		t.Error(err)
	}
	if told := spoil(5, 6); strings.Contains(told, "deleted") {
		t.Errorf("one more: %v", told)
	}
	b.wantCounts(t, 3, 3)
}
