package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Letters is a spool of dead letters by the ids of their orders. Open, Remove, Count
// and SetAside are the spool's.
type Letters struct{ *Spool }

// NewLetters touches the folder no earlier than Open or Keep.
func NewLetters(folder string) Letters {
	return Letters{New(folder, func(data []byte) (string, time.Time, error) {
		l, err := decodeLetter(data)
		return l.Order, l.Arrived, err
	})}
}

// Keep stores a dead letter: without an error it outlives a crash and a power cut. Of
// several dead letters of one order the first stays. It fails as Put does, with
// ErrBad for one that lacks an order, a time or exactly one of token and code.
func (d Letters) Keep(l Letter) error {
	data, err := l.encode()
	if err != nil {
		return fmt.Errorf("storing a dead letter: %w: %w", ErrBad, err)
	}
	return d.Put(data)
}

// Each calls yield with each dead letter and the size of its file, in bytes, until yield returns
// false; yield may keep and remove letters. order compares the ids of orders; among equals, and
// without order, the oldest comes first. A file that cannot be read blocks no other: the joined
// error names it and quotes nothing of its content. A file that is not a dead letter (ErrBad) is
// set aside and in the error once.
func (d Letters) Each(order func(x, y string) int, yield func(l Letter, size int64) bool) error {
	keys, err := d.List()
	if order != nil {
		slices.SortStableFunc(keys, order)
	}
	problems := []error{err}
	for _, key := range keys {
		// Read again rather than kept: all dead letters together may be large.
		data, err := d.Read(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var l Letter
		if err == nil {
			l, err = decodeLetter(data)
		}
		if err != nil {
			problems = append(problems, err)
		} else if !yield(l, int64(len(data))) {
			break
		}
	}
	return errors.Join(problems...)
}

// Show returns what may be shown of the dead letters at a moment, oldest first; never nil. With
// an error, as of Each, it returns those that can be read.
func (d Letters) Show(at time.Time) ([]Summary, error) {
	shown := []Summary{}
	err := d.Each(nil, func(l Letter, size int64) bool {
		shown = append(shown, l.shown(size, at))
		return true
	})
	return shown, err
}
