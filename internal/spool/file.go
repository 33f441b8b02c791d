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
)

const (
	// maxBytes is the maximum size of one file. A token has about 2 KiB.
	maxBytes = 64 << 10

	fileMode = 0o600
	dirMode  = 0o700
)

// These patterns match the names of a spool's files. All other files in the folder are ignored.
var (
	letterName     = regexp.MustCompile(`^[0-9a-f]{64}\.json$`)
	asideName      = regexp.MustCompile(`^[0-9a-f]{64}\.json\.[A-Z2-7]+\.bad$`)
	unfinishedName = regexp.MustCompile(`^letter-[A-Z2-7]+\.tmp$`)
)

// nameOf returns the file name of an order's letter. The name is a hash of the order's id, because
// the id is untrusted and partly secret.
func nameOf(order string) string {
	sum := sha256.Sum256([]byte(order))
	return hex.EncodeToString(sum[:]) + ".json"
}

// readFile reads a letter and the size of the letter's file. readFile's errors contain the file's
// name, but no part of the content. ErrBad means that the content is invalid. An I/O error is not
// ErrBad.
func readFile(root *os.Root, name string) (Letter, int64, error) {
	data, reason, err := readRegular(root, name)
	if err != nil {
		return Letter{}, 0, err
	}
	var l Letter
	if reason == nil {
		l, reason = decodeLetter(data)
	}
	if reason == nil && nameOf(l.Order) != name {
		reason = errors.New("of another order than its name says")
	}
	if reason != nil {
		return Letter{}, 0, fmt.Errorf("%s: %w: %w", name, ErrBad, reason)
	}
	return l, int64(len(data)), nil
}

// readRegular reads a regular file of at most maxBytes. If the file cannot be a letter's file,
// readRegular returns the reason as the result `bad`.
func readRegular(root *os.Root, name string) (data []byte, bad, err error) {
	there, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !there.Mode().IsRegular() {
		return nil, errors.New("not a regular file"), nil
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil, errors.New("not readable"), nil
	} else if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	// Open follows symbolic links, so this check compares the opened file with the listed file.
	if opened, err := f.Stat(); err != nil || !os.SameFile(there, opened) {
		return nil, errors.New("replaced while it was opened"), err
	}
	data, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
	if len(data) > maxBytes {
		bad = errors.New("too large")
	}
	return data, bad, err
}

// makeDir creates a directory and its missing parents, and syncs the parent of each new directory.
// The mode of an existing directory does not change.
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
	if err := errors.Join(os.Chmod(dir, dirMode), syncDir(os.Open(above))); err != nil { //nolint:gosec // G304: the operator names the folder
		_ = os.Remove(dir) // the next call would not sync a directory that exists
		return err
	}
	return nil
}

// writeUnfinished writes and syncs a file under the name of an unfinished letter.
func writeUnfinished(root *os.Root, data []byte) (name string, err error) {
	name = "letter-" + rand.Text() + ".tmp"
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	err = f.Chmod(fileMode) // the umask may have removed mode bits
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

// syncDir syncs the entries of an opened directory to disk and closes the directory. If err is not
// nil, the directory could not be opened, and syncDir returns err.
func syncDir(dir *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
