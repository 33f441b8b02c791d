package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// MostLetters limits the letters of a spool, so that an outage cannot fill the disk.
const MostLetters = 10_000

var (
	// ErrFull means that the spool has MostLetters letters and takes no further one.
	ErrFull = fmt.Errorf("the spool is full: it has %d dead letters", MostLetters)
	// ErrBad means that a file is not a dead letter.
	ErrBad = errors.New("not a dead letter")
)

// Spool keeps dead letters in a separate folder. It is safe for concurrent use.
type Spool struct {
	dir  string
	most int

	mu      sync.Mutex // held while files change
	letters atomic.Int64
}

// New returns a spool for a folder, which it does not access yet.
func New(folder string) *Spool { return &Spool{dir: folder, most: MostLetters} }

// Count returns the number of letters without I/O. Files that cannot be read as letters are included.
func (s *Spool) Count() int { return int(s.letters.Load()) }

// Open makes the folder, removes unfinished files, counts the letters, and checks that a letter could be written now.
func (s *Spool) Open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeFolder(); err != nil {
		return err
	}
	if _, err := s.list(); err != nil {
		return err
	}
	_, err := s.write([]byte("{}"))
	left, _ := filepath.Glob(filepath.Join(s.dir, "letter-*.tmp")) // this file, and files of a crash
	for _, name := range left {
		_ = os.Remove(name) // a remaining file does no harm
	}
	return err
}

// Keep stores a dead letter, unless its order has a letter already. If it returns nil, the letter survives a crash and
// a power cut. The errors are ErrFull and disk errors.
func (s *Spool) Keep(l Letter) error {
	data, _ := json.Marshal(l) // of texts and times: no error is possible
	name := nameOf(l.Order)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeFolder(); err != nil { // an operator may have removed it
		return err
	}
	if _, missing := s.read(name); missing != nil { // a repeated callback needs no room
		if s.Count() >= s.most {
			return ErrFull
		}
		written, err := s.write(data)
		if err != nil {
			return err
		}
		if err := os.Rename(written, s.path(name)); err != nil {
			_ = os.Remove(written)
			return err
		}
		if errors.Is(missing, fs.ErrNotExist) { // an invalid file has been counted
			s.letters.Add(1)
		}
	}
	// Keep also syncs if the letter exists already, because the call that wrote the letter may have failed to sync.
	return syncFolder(s.dir)
}

// Each calls yield with each dead letter, until yield returns false. The function yield may call Keep and Remove. The
// joined error names each invalid or unreadable file.
func (s *Spool) Each(yield func(l Letter) bool) error {
	s.mu.Lock()
	names, err := s.list()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range names { // one at a time: all letters together may be large
		l, err := s.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			problems = append(problems, err)
		case !yield(l):
			return errors.Join(problems...)
		}
	}
	return errors.Join(problems...)
}

// Show returns the dead letters without their secrets, oldest first, never nil. Show returns the error of Each.
func (s *Spool) Show(at time.Time) ([]Summary, error) {
	shown := []Summary{}
	err := s.Each(func(l Letter) bool {
		shown = append(shown, l.summary(at))
		return true
	})
	slices.SortFunc(shown, func(a, b Summary) int { return a.Arrived.Compare(b.Arrived) })
	return shown, err
}

// Remove removes the letter of an order if it exists.
func (s *Spool) Remove(order string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.Remove(s.path(nameOf(order)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.letters.Add(-1)
	return syncFolder(s.dir)
}

// nameOf returns the name of an order's file: a hash, because the id is untrusted.
func nameOf(order string) string {
	sum := sha256.Sum256([]byte(order))
	return hex.EncodeToString(sum[:]) + ".json"
}

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name) }

var ownFile = regexp.MustCompile(`^[0-9a-f]{64}\.json$`)

// list counts the files and returns the names of the letters.
func (s *Spool) list() (names []string, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no folder: no letters
		return nil, err
	}
	for _, file := range files {
		if name := file.Name(); ownFile.MatchString(name) {
			names = append(names, name)
		}
	}
	s.letters.Store(int64(len(names)))
	return names, nil
}

// read reads a letter. If the file is not a letter, the error is an ErrBad. No error has a part of the content.
func (s *Spool) read(name string) (l Letter, err error) {
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		return l, err
	}
	if !utf8.Valid(data) || json.Unmarshal(data, &l) != nil || nameOf(l.Order) != name {
		return Letter{}, fmt.Errorf("%s: %w", name, ErrBad)
	}
	return l, nil
}

// write writes a letter to a temporary file and syncs the file; Keep renames it afterwards.
func (s *Spool) write(data []byte) (name string, err error) {
	f, err := os.CreateTemp(s.dir, "letter-*.tmp") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// makeFolder makes the folder if it is missing, and then syncs the folder above it.
func (s *Spool) makeFolder() error {
	if _, err := os.Stat(s.dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(s.dir))
}

// syncFolder syncs a folder, so that the names of its files survive a power cut.
func syncFolder(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // G304: the operator names the folder
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
