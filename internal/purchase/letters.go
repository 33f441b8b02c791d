package purchase

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"poold/internal/captcha"
)

const (
	// maxLetters bounds the letters of a box, so that an outage cannot fill the disk,
	// and its bad files, so that a disk that spoils letters cannot do so either.
	maxLetters = 10_000
	// letterTries bounds how often a put starts again because somebody else moved
	// a file or the directory under it.
	letterTries = 3
)

// errLettersFull means that the box holds as many letters as it may.
var errLettersFull = errors.New("as many dead letters as there may be")

// letterBox keeps letters in a directory, one file each. It is safe for
// concurrent use, also by several processes on one directory.
//
// A letter has its name from the moment at which it is whole on disk, so a
// crash leaves behind files without a letter's name, never half a letter. What
// has the name and is no letter all the same is set aside (renamed to *.bad)
// for an operator to look at; it is never read again. Where there are as many of
// those as there may be letters it is deleted: nobody looks at them.
type letterBox struct {
	dir  string
	most int // letters, and files set aside
	link func(root *os.Root, from, to string) error

	// moving is held while a letter's name is taken away, so that nobody takes
	// away one that was given to another file since it was looked at. It is the
	// one lock that is held during I/O; put and count do not meet it, unless a
	// file is bad or the file system knows no links.
	moving sync.Mutex

	counts letterCounts
}

// newLetterBox makes a box; it touches the directory no earlier than open or put.
func newLetterBox(dir string) *letterBox {
	return &letterBox{dir: dir, most: maxLetters, link: (*os.Root).Link}
}

// open creates the directory, checks that a letter could be written there now,
// clears away what a crash left unfinished and counts the rest.
func (b *letterBox) open() error {
	root, err := b.makeRoot()
	if err != nil {
		return fmt.Errorf("opening the dead letters: %w", err)
	}
	defer func() { _ = root.Close() }()
	_, unfinished, err := b.look(root)
	if err != nil {
		return fmt.Errorf("opening the dead letters: %w", err)
	}
	for _, name := range unfinished {
		// Not worth a refusal to start: it is in nobody's way.
		_ = root.Remove(name)
	}
	name, err := writeUnfinished(root, []byte("{}"))
	if err == nil {
		_ = root.Remove(name)
		err = syncDir(root)
	}
	if err != nil {
		return fmt.Errorf("opening the dead letters: %w", err)
	}
	return nil
}

// put stores a letter: without an error it outlives a crash and a power cut.
// Of several letters of one order the first stays. It fails with
// errLettersFull, errLetterTooLarge, errLetterBad for one that lacks an order,
// a time or exactly one of token and code, and with the disk's own errors.
func (b *letterBox) put(l letter) error {
	data, err := l.encode()
	if err != nil {
		return fmt.Errorf("storing a dead letter: %w", err)
	}
	for range letterTries {
		err = b.tryPut(letterFileName(l.Order), data)
		// A name that was taken, or a directory or file that went, since we looked.
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("storing a dead letter: %w", err)
	}
	return nil
}

// each gives the letters to yield, oldest first, until yield returns false; it
// may put and remove. A file that cannot be read blocks no other: the error, a
// joined one, names it, never what is in it. A bad one (errLetterBad) was set
// aside and is told of this once. No directory holds no letters.
func (b *letterBox) each(yield func(letter) bool) error {
	return b.eachIn(func(_, _ foundLetter) int { return 0 }, yield)
}

// eachIn is each in another order, the oldest first among equals.
func (b *letterBox) eachIn(order func(x, y foundLetter) int, yield func(letter) bool) error {
	root, err := b.root()
	if root == nil {
		return err
	}
	defer func() { _ = root.Close() }()
	found, err := b.scan(root)
	slices.SortStableFunc(found, order)
	problems := []error{err}
	for _, f := range found {
		// Read again rather than kept: all letters together may be large.
		l, _, err := b.read(root, f.name)
		if err == nil {
			if !yield(l) {
				break
			}
		} else if !errors.Is(err, fs.ErrNotExist) { // else removed meanwhile
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// list shows the letters, oldest first; never nil. With an error, as of each,
// it shows those that can be read.
func (b *letterBox) list() ([]Letter, error) {
	shown := []Letter{}
	root, err := b.root()
	if root == nil {
		return shown, err
	}
	defer func() { _ = root.Close() }()
	found, err := b.scan(root)
	for _, f := range found {
		shown = append(shown, f.Letter)
	}
	return shown, err
}

// remove forgets the letter of an order. None is fine.
func (b *letterBox) remove(order string) error {
	root, err := b.root()
	if root == nil {
		return err
	}
	defer func() { _ = root.Close() }()
	b.moving.Lock()
	err = root.Remove(letterFileName(order))
	b.moving.Unlock()
	if err == nil {
		b.counts.moved(-1, 0)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a dead letter: %w", err)
	}
	// Also where it was gone: the one who removed it may not have come this far.
	if err := syncDir(root); err != nil {
		return fmt.Errorf("removing a dead letter: %w", err)
	}
	return nil
}

// count is how many letters wait to be replayed, as this process knows it
// since its last look at the directory. It does no I/O.
func (b *letterBox) count() int {
	letters, _ := b.counts.now()
	return letters
}

// badCount is how many files are set aside, known as for count.
func (b *letterBox) badCount() int {
	_, bad := b.counts.now()
	return bad
}

// tryPut stores data under name, unless a whole letter has it already. It fails
// with fs.ErrExist or fs.ErrNotExist where somebody else came in between.
func (b *letterBox) tryPut(name string, data []byte) error {
	root, err := b.makeRoot()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, _, err = b.read(root, name)
	switch {
	case err == nil:
		// Whoever wrote it may not have come this far.
		return syncDir(root)
	case errors.Is(err, errLetterBad):
		// What was set aside may never have been counted as a letter.
		if _, _, err := b.look(root); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if !b.counts.reserve(b.most) {
		// An operator may have made room.
		if _, _, err := b.look(root); err != nil {
			return err
		}
		if !b.counts.reserve(b.most) {
			return errLettersFull
		}
	}
	placed, err := b.write(root, name, data)
	b.counts.stored(placed)
	return err
}

// write stores data under a name that nothing has; placed tells whether it has
// it now, also with an error.
func (b *letterBox) write(root *os.Root, name string, data []byte) (placed bool, err error) {
	unfinished, err := writeUnfinished(root, data)
	if err != nil {
		return false, err
	}
	err = b.place(root, unfinished, name)
	// After a link it is a second name; what stays, the next start removes.
	_ = root.Remove(unfinished)
	if err != nil {
		return false, err
	}
	return true, syncDir(root)
}

// place gives a finished file its name. It replaces nothing: fs.ErrExist.
func (b *letterBox) place(root *os.Root, from, to string) error {
	err := b.link(root, from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Some file systems know no links. A rename replaces what is there, so that
	// between processes the last letter may win; within this one it cannot.
	b.moving.Lock()
	defer b.moving.Unlock()
	_, err = root.Lstat(to)
	if err == nil {
		return fs.ErrExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Rename(from, to)
}

// foundLetter is a letter in the directory and what may be shown of it.
type foundLetter struct {
	name     string
	identity captcha.ID
	Letter
}

// scan reads the whole directory, oldest letter first. With an error it
// answers those that can be read.
func (b *letterBox) scan(root *os.Root) ([]foundLetter, error) {
	names, _, err := b.look(root)
	if err != nil {
		return nil, fmt.Errorf("reading the dead letters: %w", err)
	}
	var found []foundLetter
	var problems []error
	for _, name := range names {
		l, size, err := b.read(root, name)
		if err == nil {
			found = append(found, foundLetter{name, l.Identity, l.shown(size)})
		} else if !errors.Is(err, fs.ErrNotExist) { // else removed meanwhile
			problems = append(problems, err)
		}
	}
	slices.SortFunc(found, func(x, y foundLetter) int {
		return cmp.Or(x.Arrived.Compare(y.Arrived), cmp.Compare(x.name, y.name))
	})
	return found, errors.Join(problems...)
}

// read reads one letter and the size of its file. One that is bad is set aside, or
// deleted.
func (b *letterBox) read(root *os.Root, name string) (letter, int64, error) {
	l, size, err := readLetter(root, name)
	if !errors.Is(err, errLetterBad) {
		return l, size, err
	}
	b.moving.Lock()
	defer b.moving.Unlock()
	// Once more: a good letter may have got the name since.
	l, size, err = readLetter(root, name)
	if !errors.Is(err, errLetterBad) {
		return l, size, err
	}
	if b.badCount() >= b.most {
		if removed := root.Remove(name); removed != nil {
			return letter{}, 0, errors.Join(err, removed)
		}
		b.counts.moved(-1, 0)
		return letter{}, 0, fmt.Errorf("%w; deleted: as many are set aside as may be", err)
	}
	if moved := root.Rename(name, name+"."+rand.Text()+".bad"); moved != nil {
		return letter{}, 0, errors.Join(err, moved)
	}
	b.counts.moved(-1, +1)
	return letter{}, 0, err
}

// look lists the directory and corrects the counts by it.
func (b *letterBox) look(root *os.Root) (letters, unfinished []string, err error) {
	before := b.counts.begin()
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
		case badLetterName.MatchString(name):
			bad++
		case unfinishedLetterName.MatchString(name):
			unfinished = append(unfinished, name)
		}
	}
	b.counts.correct(before, len(letters), bad)
	return letters, unfinished, nil
}

// root opens the directory; nil without an error where there is none.
func (b *letterBox) root() (*os.Root, error) {
	before := b.counts.begin()
	root, err := os.OpenRoot(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		b.counts.correct(before, 0, 0)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters: %w", err)
	}
	return root, nil
}

// makeRoot opens the directory and makes it where there is none.
func (b *letterBox) makeRoot() (*os.Root, error) {
	if err := makeLetterDir(b.dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(b.dir)
}
