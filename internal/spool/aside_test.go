package spool

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
	s := opened(t)
	s.most = 3
	for i := range 5 {
		s.plant(t, nameOf(fmt.Sprint(i))+".ABC234.bad", "rubbish")
	}
	s.mustPut(t, nth(1), nth(2), nth(3))
	again := s.twin() // also after a restart
	if err := again.Open(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Spool{s, again} {
		if err := s.Put(nth(4).data()); !errors.Is(err, ErrFull) {
			t.Errorf("put = %v, want ErrFull", err)
		}
		s.wantCounts(t, 3, 5)
	}
}

// As many bad files as letters are kept to be looked at; what is more is deleted, so
// that a disk which spoils what it is given does not fill up with it.
func TestBadFilesHaveAnEnd(t *testing.T) {
	s := opened(t)
	s.most = 3
	spoil := func(from, to int) (told string) {
		t.Helper()
		for i := from; i < to; i++ {
			s.plant(t, nameOf(fmt.Sprint(i)), "rubbish")
		}
		_, err := s.List()
		if !errors.Is(err, ErrBad) {
			t.Errorf("list told %v", err)
		}
		return err.Error()
	}
	if told := spoil(0, 3); strings.Contains(told, "deleted") {
		t.Errorf("three bad files: %v", told)
	}
	s.wantCounts(t, 0, 3)
	if told := spoil(3, 5); strings.Count(told, "deleted: as many are set aside as may be") != 2 {
		t.Errorf("two more: %v", told)
	}
	s.wantCounts(t, 0, 3)
	if got := s.files(t); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	s.mustPut(t, nth(1), nth(2), nth(3))
	s.wantCounts(t, 3, 3)
	// An operator has looked at one.
	old, err := filepath.Glob(filepath.Join(s.dir, "*.bad"))
	if err != nil || len(old) != 3 {
		t.Fatal(old, err)
	}
	if err := os.Remove(old[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(); err != nil {
		t.Error(err)
	}
	if told := spoil(5, 6); strings.Contains(told, "deleted") {
		t.Errorf("one more: %v", told)
	}
	s.wantCounts(t, 3, 3)
}
