package spool

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MostLetters is the maximum number of letters in a spool, so that an outage cannot fill the disk.
// MostLetters is also the maximum number of files set aside.
const MostLetters = 10_000

var (
	// ErrFull means that the spool has MostLetters letters.
	ErrFull = fmt.Errorf("the spool is full: it has %d dead letters", MostLetters)
	// ErrTooLarge means that the letter's file would be larger than 64 KiB.
	ErrTooLarge = fmt.Errorf("the dead letter is larger than %d bytes", maxBytes)
	// ErrBad means that a file, or the argument of Keep, is not a valid dead letter.
	ErrBad = errors.New("not a dead letter")
)

// Spool keeps dead letters in a folder, one file each. Spool is safe for concurrent use.
type Spool struct {
	dir  string
	most int // maximum number of letters, and of files set aside

	// The mutex `names` is held while the name of a file changes, and while the folder is listed or
	// opened. Therefore the counts match the folder. The mutex is not held during writes of files.
	// Count and SetAside do not need the mutex.
	names   sync.Mutex
	letters atomic.Int64
	bad     atomic.Int64 // number of files set aside
}

// New returns a spool for the given folder. The spool does not access the folder before a call of
// Open or Keep.
func New(folder string) *Spool { return &Spool{dir: folder, most: MostLetters} }

// Open creates the folder, checks that a letter could be written now, removes unfinished files and
// counts the letters.
func (s *Spool) Open() error {
	if err := s.open(); err != nil {
		return fmt.Errorf("opening the dead letters: %w", err)
	}
	return nil
}

func (s *Spool) open() error {
	root, err := s.makeRoot()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, unfinished, err := s.list(root)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		_ = root.Remove(name) // a remaining unfinished file does no harm
	}
	name, err := writeUnfinished(root, []byte("{}"))
	if err != nil {
		return err
	}
	_ = root.Remove(name)
	return syncDir(root.Open("."))
}

// Keep stores a dead letter. If it returns nil, the letter survives a crash and a power cut. If an
// order already has a letter, that letter stays. The errors are ErrFull, ErrTooLarge, ErrBad and disk
// errors.
func (s *Spool) Keep(l Letter) error {
	data, err := l.encode()
	if err == nil {
		name := nameOf(l.Order)
		if err = s.put(name, data); errors.Is(err, fs.ErrNotExist) {
			err = s.put(name, data) // second try, because another process removed the folder or the unfinished file
		}
	}
	if err != nil {
		return fmt.Errorf("storing a dead letter: %w", err)
	}
	return nil
}

// put writes a letter to disk under the name of an unfinished letter, and renames the file to its
// final name.
func (s *Spool) put(name string, data []byte) error {
	root, err := s.makeRoot()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if _, _, err := readFile(root, name); err == nil {
		return syncDir(root.Open(".")) // the letter exists, so a full disk does not matter
	}
	unfinished, err := writeUnfinished(root, data)
	if err != nil {
		return err
	}
	if err := s.place(root, unfinished, name); err != nil {
		_ = root.Remove(unfinished)
		return err
	}
	return syncDir(root.Open("."))
}

// place renames a written file to the name of its letter. If this letter already exists, place
// removes the file.
func (s *Spool) place(root *os.Root, from, to string) error {
	s.names.Lock()
	defer s.names.Unlock()
	_, _, err := s.readLocked(root, to)
	switch {
	case err == nil:
		return root.Remove(from)
	case !errors.Is(err, ErrBad) && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if errors.Is(err, ErrBad) || s.Count() >= s.most {
		// This call counts the files again, because the bad file may not have been counted, and an
		// operator may have deleted letters.
		if _, _, err := s.listLocked(root); err != nil {
			return err
		}
	}
	if s.Count() >= s.most {
		return ErrFull
	}
	if err := root.Rename(from, to); err != nil {
		return err
	}
	s.letters.Add(1)
	return nil
}

// Each calls the function `yield` with each dead letter and the size of the letter's file in bytes,
// until yield returns false. The function `yield` may store and remove letters. The function
// `compare` sorts the letters by the ids of their orders. If compare returns 0, the older letter
// comes first. If compare is nil, all letters come oldest first. After an unreadable file, Each
// continues. The joined error contains the name of the file, but no part of its content. A bad file
// is set aside, so that only one call returns an error about it.
func (s *Spool) Each(compare func(x, y string) int, yield func(l Letter, size int64) bool) error {
	root, err := s.root()
	if root == nil {
		return err
	}
	defer func() { _ = root.Close() }()
	names, _, err := s.list(root)
	if err != nil {
		return fmt.Errorf("reading the dead letters: %w", err)
	}
	type entry struct {
		name, order string
		arrived     time.Time
	}
	var entries []entry
	var problems []error
	for _, name := range names {
		if l, _, err := s.read(root, name); err == nil {
			entries = append(entries, entry{name, l.Order, l.Arrived})
		} else if !errors.Is(err, fs.ErrNotExist) { // a missing letter was removed meanwhile
			problems = append(problems, err)
		}
	}
	slices.SortFunc(entries, func(x, y entry) int {
		first := 0
		if compare != nil {
			first = compare(x.order, y.order)
		}
		return cmp.Or(first, x.arrived.Compare(y.arrived), cmp.Compare(x.name, y.name))
	})
	for _, e := range entries {
		// Letters are read one at a time, because all letters together may be large.
		l, size, err := s.read(root, e.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			problems = append(problems, err)
		} else if !yield(l, size) {
			break
		}
	}
	return errors.Join(problems...)
}

// Show returns the dead letters without their secrets, oldest first. The list is never nil. The error
// is the error of Each.
func (s *Spool) Show(at time.Time) ([]Summary, error) {
	shown := []Summary{}
	err := s.Each(nil, func(l Letter, size int64) bool {
		shown = append(shown, l.summary(size, at))
		return true
	})
	return shown, err
}

// Remove removes the letter of an order if this letter exists.
func (s *Spool) Remove(order string) error {
	root, err := s.root()
	if root == nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err = s.drop(root, nameOf(order)); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = syncDir(root.Open(".")) // an earlier call may have removed the letter without a sync
	}
	if err != nil {
		return fmt.Errorf("removing a dead letter: %w", err)
	}
	return nil
}

func (s *Spool) drop(root *os.Root, name string) error {
	s.names.Lock()
	defer s.names.Unlock()
	err := root.Remove(name)
	if err == nil {
		s.letters.Add(-1)
	}
	return err
}

// Count returns the number of letters, without I/O.
func (s *Spool) Count() int { return int(max(0, s.letters.Load())) }

// SetAside returns the number of files set aside, without I/O.
func (s *Spool) SetAside() int { return int(s.bad.Load()) }

// read reads a letter and the size of the letter's file. A bad file is set aside.
func (s *Spool) read(root *os.Root, name string) (Letter, int64, error) {
	l, size, err := readFile(root, name)
	if !errors.Is(err, ErrBad) {
		return l, size, err
	}
	s.names.Lock()
	defer s.names.Unlock()
	return s.readLocked(root, name) // another process may have replaced the bad file by a good letter
}

func (s *Spool) readLocked(root *os.Root, name string) (Letter, int64, error) {
	l, size, err := readFile(root, name)
	if !errors.Is(err, ErrBad) {
		return l, size, err
	}
	if s.SetAside() >= s.most {
		if removed := root.Remove(name); removed != nil {
			return Letter{}, 0, errors.Join(err, removed)
		}
		s.letters.Add(-1)
		return Letter{}, 0, fmt.Errorf("%w; deleted, because %d bad files are kept", err, s.most)
	}
	if moved := root.Rename(name, name+"."+rand.Text()+".bad"); moved != nil {
		return Letter{}, 0, errors.Join(err, moved)
	}
	s.letters.Add(-1)
	s.bad.Add(1)
	return Letter{}, 0, err
}

// list lists and counts the files of the folder.
func (s *Spool) list(root *os.Root) (letters, unfinished []string, err error) {
	s.names.Lock()
	defer s.names.Unlock()
	return s.listLocked(root)
}

func (s *Spool) listLocked(root *os.Root) (letters, unfinished []string, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	bad := 0
	for _, name := range names {
		switch {
		case letterName.MatchString(name):
			letters = append(letters, name)
		case asideName.MatchString(name):
			bad++
		case unfinishedName.MatchString(name):
			unfinished = append(unfinished, name)
		}
	}
	s.letters.Store(int64(len(letters)))
	s.bad.Store(int64(bad))
	return letters, unfinished, nil
}

// root opens the folder. If the folder does not exist, the results are nil.
func (s *Spool) root() (*os.Root, error) {
	s.names.Lock()
	defer s.names.Unlock()
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		s.letters.Store(0)
		s.bad.Store(0)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters: %w", err)
	}
	return root, nil
}

// makeRoot opens the folder, and creates the folder if necessary.
func (s *Spool) makeRoot() (*os.Root, error) {
	if err := makeDir(s.dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(s.dir)
}
