package purchase

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"poold/internal/captcha"
)

const (
	// maxLetterBytes bounds one file. A token has about 2 KiB.
	maxLetterBytes = 64 << 10
	// letterVersion is the form of a file. Another one is set aside.
	letterVersion = 1
	// shownLetterText is how many characters of a text from outside a list shows.
	shownLetterText = 100

	letterMode    = 0o600
	letterDirMode = 0o700
)

var (
	// errLetterTooLarge means that the letter would be larger than a file may be.
	errLetterTooLarge = errors.New("a dead letter that is too large")
	// errLetterBad means that a file, or what was to be one, is no letter.
	errLetterBad = errors.New("not a dead letter")
)

// The only names that a box knows; all others in its directory are ignored.
var (
	letterName           = regexp.MustCompile(`^[0-9a-f]{64}\.json$`)
	badLetterName        = regexp.MustCompile(`^[0-9a-f]{64}\.json\.[A-Z2-7]+\.bad$`)
	unfinishedLetterName = regexp.MustCompile(`^letter-[A-Z2-7]+\.tmp$`)
)

// letter is a provider's callback that Redis could not take: a token that is
// paid for, or an error code. It must not be printed.
type letter struct {
	Order     string     `json:"order"`
	Identity  captcha.ID `json:"identity"`
	Provider  string     `json:"provider"`
	Task      string     `json:"task"`
	Token     string     `json:"token,omitempty"`
	UserAgent string     `json:"user_agent,omitempty"`
	Code      string     `json:"code,omitempty"`    // instead of a token
	Refused   bool       `json:"refused,omitempty"` // with Code: a fault of the target's parameters
	Arrived   time.Time  `json:"arrived"`           // the first time, by the wall clock
	Until     time.Time  `json:"until"`             // of no use afterwards
}

// letterFile is a letter as it lies on disk.
type letterFile struct {
	Version int `json:"version"`
	letter
}

// Letter is what may be shown of a dead letter: no token and no user agent.
type Letter struct {
	Order    string    `json:"order"` // the part of the id before the first dot
	Provider string    `json:"provider"`
	Kind     string    `json:"kind"`           // token | error
	Code     string    `json:"code,omitempty"` // of an error; printable ASCII, 100 characters at most
	Arrived  time.Time `json:"arrived"`        // UTC
	Until    time.Time `json:"until"`          // UTC; of no use afterwards
	Size     int64     `json:"bytes"`          // of the file
}

// encode is the file of a letter.
func (l letter) encode() ([]byte, error) {
	if why := l.fault(); why != "" {
		return nil, fmt.Errorf("%w: %s", errLetterBad, why)
	}
	l.Arrived, l.Until = l.Arrived.UTC(), l.Until.UTC()
	data, err := json.Marshal(letterFile{letterVersion, l})
	if err != nil {
		// Only a time outside of years 0 to 9999 can do this.
		return nil, fmt.Errorf("%w: %w", errLetterBad, err)
	}
	if len(data) > maxLetterBytes {
		return nil, errLetterTooLarge
	}
	return data, nil
}

// fault tells why l is no letter; "" where it is one. JSON would change what is
// no UTF-8, and a changed token or id is of no use.
func (l letter) fault() string {
	switch {
	case l.Order == "":
		return "without an order"
	case (l.Token == "") == (l.Code == ""):
		return "without a token and a code, or with both"
	case l.Arrived.IsZero() || l.Until.IsZero():
		return "without a time"
	case !utf8.ValidString(l.Order + l.Provider + l.Task + l.Token):
		return "with text that is not UTF-8"
	}
	return ""
}

// shown is the part of a letter that is no secret.
func (l letter) shown(size int64) Letter {
	order, _, _ := strings.Cut(l.Order, ".")
	s := Letter{
		Order: letterText(order), Provider: letterText(l.Provider), Kind: "token",
		Arrived: l.Arrived.UTC(), Until: l.Until.UTC(), Size: size,
	}
	if l.Token == "" {
		s.Kind, s.Code = "error", letterText(l.Code)
	}
	return s
}

// letterText makes a text fit for a terminal and a page: what others wrote may
// be in it.
func letterText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), shownLetterText)]
}

// letterFileName is where the letter of an order lies. An order's id may hold
// anything, and its secret part is no reading for those who see names.
func letterFileName(order string) string {
	sum := sha256.Sum256([]byte(order))
	return hex.EncodeToString(sum[:]) + ".json"
}

// readLetter reads one letter and the size of its file. Its errors name the
// file and quote nothing of what is in it. What the disk did is no reason to
// call a file bad; what the file is, is one.
func readLetter(root *os.Root, name string) (letter, int64, error) {
	bad := func(why string) (letter, int64, error) {
		return letter{}, 0, fmt.Errorf("%s: %w: %s", name, errLetterBad, why)
	}
	there, err := root.Lstat(name)
	if err != nil {
		return letter{}, 0, err
	}
	if !there.Mode().IsRegular() {
		return bad("no regular file")
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return bad("not readable")
	} else if err != nil {
		return letter{}, 0, err
	}
	defer func() { _ = f.Close() }()
	// Open follows links.
	if opened, err := f.Stat(); err != nil {
		return letter{}, 0, err
	} else if !os.SameFile(there, opened) {
		return bad("replaced while it was opened")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLetterBytes+1))
	if err != nil {
		return letter{}, 0, err
	}
	if len(data) > maxLetterBytes {
		return bad("too large")
	}
	var l letterFile
	if !utf8.Valid(data) || json.Unmarshal(data, &l) != nil {
		return bad("broken")
	}
	if l.Version != letterVersion {
		return bad(fmt.Sprintf("of version %d", l.Version))
	}
	if why := l.fault(); why != "" {
		return bad(why)
	}
	if letterFileName(l.Order) != name {
		return bad("of another order than its name says")
	}
	return l.letter, int64(len(data)), nil
}

// makeLetterDir makes a directory and those above it, each written down in its
// parent before it is used. The mode of one that exists is its owner's choice.
func makeLetterDir(dir string) error {
	above := filepath.Dir(dir)
	err := os.Mkdir(dir, letterDirMode)
	if errors.Is(err, fs.ErrNotExist) && above != dir {
		if err := makeLetterDir(above); err != nil {
			return err
		}
		err = os.Mkdir(dir, letterDirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Whatever the umask took away.
	if err := os.Chmod(dir, letterDirMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return syncDir(root)
}

// writeUnfinished writes a file to disk, under a name that is no letter's.
func writeUnfinished(root *os.Root, data []byte) (name string, err error) {
	name = "letter-" + rand.Text() + ".tmp"
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, letterMode)
	if err != nil {
		return "", err
	}
	err = f.Chmod(letterMode) // whatever the umask took away
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = root.Remove(name)
		return "", err
	}
	return name, nil
}

// syncDir makes the names in a directory outlive a power cut.
func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
