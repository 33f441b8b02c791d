package spool

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

const (
	// maxBytes bounds one file. A token has about 2 KiB.
	maxBytes = 64 << 10

	fileMode = 0o600
	dirMode  = 0o700
)

// The only names that a spool knows; all others in its directory are ignored.
var (
	letterName     = regexp.MustCompile(`^[0-9a-f]{64}\.json$`)
	asideName      = regexp.MustCompile(`^[0-9a-f]{64}\.json\.[A-Z2-7]+\.bad$`)
	unfinishedName = regexp.MustCompile(`^letter-[A-Z2-7]+\.tmp$`)
)

// nameOf is where the letter of a key lies. A key may hold anything, and its secret
// part is no reading for those who see names.
func nameOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + ".json"
}

// content is a letter's file.
type content struct {
	key  string
	at   time.Time
	data []byte
}

// readFile reads one letter. Its errors name the file and quote nothing of what is in
// it. What the disk did is no reason to call a file bad; what the file is, is one.
func readFile(root *os.Root, name string, parse Parse) (content, error) {
	bad := func(why error) (content, error) {
		return content{}, fmt.Errorf("%s: %w: %w", name, ErrBad, why)
	}
	there, err := root.Lstat(name)
	if err != nil {
		return content{}, err
	}
	if !there.Mode().IsRegular() {
		return bad(errors.New("no regular file"))
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return bad(errors.New("not readable"))
	} else if err != nil {
		return content{}, err
	}
	defer func() { _ = f.Close() }()
	// Open follows links.
	if opened, err := f.Stat(); err != nil {
		return content{}, err
	} else if !os.SameFile(there, opened) {
		return bad(errors.New("replaced while it was opened"))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return content{}, err
	}
	if len(data) > maxBytes {
		return bad(errors.New("too large"))
	}
	key, at, err := parse(data)
	if err != nil {
		return bad(err)
	}
	if nameOf(key) != name {
		// A key is the id of an order to those who read this.
		return bad(errors.New("of another order than its name says"))
	}
	return content{key, at, data}, nil
}

// makeDir makes a directory and those above it, each written down in its parent
// before it is used. The mode of one that exists is its owner's choice.
func makeDir(dir string) error {
	above := filepath.Dir(dir)
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) && above != dir {
		if err := makeDir(above); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Whatever the umask took away.
	if err := os.Chmod(dir, dirMode); err != nil {
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
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	err = f.Chmod(fileMode) // whatever the umask took away
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
