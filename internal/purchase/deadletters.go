package purchase

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/spool"
)

// deadLetters is a spool of dead letters by the ids of their orders. Open, Remove, Count
// and SetAside are the spool's.
type deadLetters struct{ *spool.Spool }

// newDeadLetters touches the folder no earlier than Open or keep.
func newDeadLetters(folder string) deadLetters {
	return deadLetters{spool.New(folder, func(data []byte) (string, time.Time, error) {
		l, err := decodeDeadLetter(data)
		return l.Order, l.Arrived, err
	})}
}

// keep stores a dead letter: without an error it outlives a crash and a power cut. Of
// several dead letters of one order the first stays. It fails as spool.Put does, with
// spool.ErrBad for one that lacks an order, a time or exactly one of token and code.
func (d deadLetters) keep(l deadLetter) error {
	data, err := l.encode()
	if err != nil {
		return fmt.Errorf("storing a dead letter: %w: %w", spool.ErrBad, err)
	}
	return d.Put(data)
}

// each gives the dead letters and the sizes of their files, in bytes, to yield until it
// returns false; it may keep and remove. They come in an order of identities, the oldest
// first among equals; nil: by age alone. A file that cannot be read blocks no other: the
// error, a joined one, names it, never what is in it. One that is no dead letter
// (spool.ErrBad) was set aside and is told of this once.
func (d deadLetters) each(order func(x, y captcha.ID) int, yield func(l deadLetter, size int64) bool) error {
	keys, err := d.List()
	if order != nil {
		keys = byIdentity(keys, order)
	}
	problems := []error{err}
	for _, key := range keys {
		// Read again rather than kept: all dead letters together may be large.
		data, err := d.Read(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var l deadLetter
		if err == nil {
			l, err = decodeDeadLetter(data)
		}
		if err != nil {
			problems = append(problems, err)
		} else if !yield(l, int64(len(data))) {
			break
		}
	}
	return errors.Join(problems...)
}

// byIdentity sorts the ids of orders by the identities in them; an id without one has
// the identity "".
func byIdentity(orders []string, order func(x, y captcha.ID) int) []string {
	refs := make(map[string]captcha.ID, len(orders))
	for _, o := range orders {
		ref, _ := pool.ParseRef(o)
		refs[o] = ref.Identity
	}
	return slices.SortedStableFunc(slices.Values(orders), func(x, y string) int { return order(refs[x], refs[y]) })
}

// show returns the dead letters as they may be shown at the given moment, oldest first;
// never nil. With an error, as of each, it shows those that can be read.
func (d deadLetters) show(at time.Time) ([]DeadLetter, error) {
	shown := []DeadLetter{}
	err := d.each(nil, func(l deadLetter, size int64) bool {
		shown = append(shown, l.shown(size, at))
		return true
	})
	return shown, err
}
