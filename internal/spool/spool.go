package spool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// MostLetters bounds the letters of a spool, so that an outage cannot fill the
	// disk, and its files set aside, so that a disk that spoils letters cannot do so
	// either.
	MostLetters = 10_000
	// putTries bounds how often a Put starts again because somebody else moved a file
	// or the directory under it.
	putTries = 3
)

var (
	// ErrFull means that the spool holds as many letters as it may.
	ErrFull = errors.New("as many dead letters as there may be")
	// ErrTooLarge means that a letter would be larger than a file may be.
	ErrTooLarge = errors.New("a dead letter that is too large")
	// ErrBad means that a file, or what was to be one, is no letter.
	ErrBad = errors.New("not a dead letter")
)

// Parse reads the key of a letter and when it came, or says what is wrong with the
// bytes, quoting nothing of them. It must be safe for concurrent use, and keep and
// change nothing of data.
type Parse func(data []byte) (key string, at time.Time, err error)

// Spool keeps letters in a directory, one file each. It is safe for concurrent use,
// also by several processes on one directory.
type Spool struct {
	dir   string
	parse Parse
	most  int // letters, and files set aside
	link  func(root *os.Root, from, to string) error

	// moving is held while a letter's name is taken away, so that nobody takes
	// away one that was given to another file since it was looked at. It is the
	// one lock that is held during I/O; Put and Count do not meet it, unless a
	// file is bad or the file system knows no links.
	moving sync.Mutex

	known counts
}

// New makes a spool; it touches the directory no earlier than Open or Put.
func New(dir string, parse Parse) *Spool {
	return &Spool{dir: dir, parse: parse, most: MostLetters, link: (*os.Root).Link}
}

// Open creates the directory, checks that a letter could be written there now,
// clears away what a crash left unfinished and counts the rest.
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
	_, unfinished, err := s.look(root)
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		// Not worth a refusal to start: it is in nobody's way.
		_ = root.Remove(name)
	}
	name, err := writeUnfinished(root, []byte("{}"))
	if err != nil {
		return err
	}
	_ = root.Remove(name)
	return syncDir(root)
}

// Put stores a letter: without an error it outlives a crash and a power cut. Of
// several letters of one key the first stays. It fails with ErrFull, ErrTooLarge
// (over 64 KiB), ErrBad and what Parse says, and with the disk's own errors.
func (s *Spool) Put(data []byte) error {
	if err := s.put(data); err != nil {
		return fmt.Errorf("storing a dead letter: %w", err)
	}
	return nil
}

func (s *Spool) put(data []byte) error {
	if len(data) > maxBytes {
		return ErrTooLarge
	}
	key, _, err := s.parse(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBad, err)
	}
	name := nameOf(key)
	for range putTries {
		err = s.tryPut(name, data)
		// A name that was taken, or a directory or file that went, since we looked.
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// List gives the keys of the letters, oldest first. A file that cannot be read blocks
// no other: with an error, a joined one, it gives those that can be read. The error
// names the file, never what is in it. A bad one (ErrBad) was set aside and is told of
// this once. No directory holds no letters.
func (s *Spool) List() (keys []string, err error) {
	root, err := s.root()
	if root == nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	names, _, err := s.look(root)
	if err != nil {
		return nil, fmt.Errorf("reading the dead letters: %w", err)
	}
	slices.Sort(names) // of letters of one moment
	var found []content
	var problems []error
	for _, name := range names {
		c, err := s.read(root, name)
		if err == nil {
			c.data = nil // all letters together may be large
			found = append(found, c)
		} else if !errors.Is(err, fs.ErrNotExist) { // else removed meanwhile
			problems = append(problems, err)
		}
	}
	slices.SortStableFunc(found, func(x, y content) int { return x.at.Compare(y.at) })
	for _, c := range found {
		keys = append(keys, c.key)
	}
	return keys, errors.Join(problems...)
}

// Read gives the bytes of the letter of a key: those that Parse accepts. It fails with
// fs.ErrNotExist where there is none, with ErrBad where there was a file that is none
// (it was set aside), and with the disk's own errors.
func (s *Spool) Read(key string) ([]byte, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fs.ErrNotExist
	}
	defer func() { _ = root.Close() }()
	c, err := s.read(root, nameOf(key))
	if errors.Is(err, ErrBad) {
		// What was set aside may never have been counted as a letter.
		_, _, failed := s.look(root)
		err = errors.Join(err, failed)
	}
	return c.data, err
}

// Remove forgets the letter of a key. None is fine.
func (s *Spool) Remove(key string) error {
	root, err := s.root()
	if root == nil {
		return err
	}
	defer func() { _ = root.Close() }()
	s.moving.Lock()
	err = root.Remove(nameOf(key))
	s.moving.Unlock()
	if err == nil {
		s.known.moved(-1, 0)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a dead letter: %w", err)
	}
	// Also where it was gone: the one who removed it may not have come this far.
	if err := syncDir(root); err != nil {
		return fmt.Errorf("removing a dead letter: %w", err)
	}
	return nil
}

// Count is how many letters there are, as this process knows it since its last look
// at the directory. It does no I/O.
func (s *Spool) Count() int {
	letters, _ := s.known.now()
	return letters
}

// SetAside is how many files are set aside, known as for Count.
func (s *Spool) SetAside() int {
	_, bad := s.known.now()
	return bad
}

// tryPut stores data under name, unless a whole letter has it already. It fails
// with fs.ErrExist or fs.ErrNotExist where somebody else came in between.
func (s *Spool) tryPut(name string, data []byte) error {
	root, err := s.makeRoot()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, err = s.read(root, name)
	switch {
	case err == nil:
		// Whoever wrote it may not have come this far.
		return syncDir(root)
	case errors.Is(err, ErrBad):
		// What was set aside may never have been counted as a letter.
		if _, _, err := s.look(root); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if !s.known.reserve(s.most) {
		// An operator may have made room.
		if _, _, err := s.look(root); err != nil {
			return err
		}
		if !s.known.reserve(s.most) {
			return ErrFull
		}
	}
	placed, err := s.write(root, name, data)
	s.known.stored(placed)
	return err
}

// write stores data under a name that nothing has; placed tells whether it has
// it now, also with an error.
func (s *Spool) write(root *os.Root, name string, data []byte) (placed bool, err error) {
	unfinished, err := writeUnfinished(root, data)
	if err != nil {
		return false, err
	}
	err = s.place(root, unfinished, name)
	// After a link it is a second name; what stays, the next start removes.
	_ = root.Remove(unfinished)
	if err != nil {
		return false, err
	}
	return true, syncDir(root)
}

// place gives a finished file its name. It replaces nothing: fs.ErrExist.
func (s *Spool) place(root *os.Root, from, to string) error {
	err := s.link(root, from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Some file systems know no links. A rename replaces what is there, so that
	// between processes the last letter may win; within this one it cannot.
	s.moving.Lock()
	defer s.moving.Unlock()
	_, err = root.Lstat(to)
	if err == nil {
		return fs.ErrExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Rename(from, to)
}

// read reads one letter. One that is bad is set aside, or deleted.
func (s *Spool) read(root *os.Root, name string) (content, error) {
	c, err := readFile(root, name, s.parse)
	if !errors.Is(err, ErrBad) {
		return c, err
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	// Once more: a good letter may have got the name since.
	c, err = readFile(root, name, s.parse)
	if !errors.Is(err, ErrBad) {
		return c, err
	}
	if s.SetAside() >= s.most {
		if removed := root.Remove(name); removed != nil {
			return content{}, errors.Join(err, removed)
		}
		s.known.moved(-1, 0)
		return content{}, fmt.Errorf("%w; deleted: as many are set aside as may be", err)
	}
	if moved := root.Rename(name, name+"."+rand.Text()+".bad"); moved != nil {
		return content{}, errors.Join(err, moved)
	}
	s.known.moved(-1, +1)
	return content{}, err
}

// look lists the directory and corrects the counts by it.
func (s *Spool) look(root *os.Root) (letters, unfinished []string, err error) {
	before := s.known.begin()
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
	s.known.correct(before, len(letters), bad)
	return letters, unfinished, nil
}

// root opens the directory; nil without an error where there is none.
func (s *Spool) root() (*os.Root, error) {
	before := s.known.begin()
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		s.known.correct(before, 0, 0)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters: %w", err)
	}
	return root, nil
}

// makeRoot opens the directory and makes it where there is none.
func (s *Spool) makeRoot() (*os.Root, error) {
	if err := makeDir(s.dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(s.dir)
}
