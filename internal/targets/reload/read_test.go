package reload

import (
	"os"
	"syscall"
	"testing"
)

// A file that is not a regular file, or larger than 16 MiB, is refused immediately. A blocking open of a pipe would
// wait for a writer.
func TestIrregularFilesAreRefused(t *testing.T) {
	const want = "pools.yaml: the file cannot be read: it is not a regular file, but a directory, a pipe, " +
		"a socket or a device"
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"socket":    func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			b.must(os.Remove(b.path("pools.yaml")))
			b.must(make(b.path("pools.yaml")))
			if _, err := b.Load(); err == nil || err.Error() != b.path(want) {
				t.Errorf("got %v", err)
			}
		})
	}
	b := newBench(t, "")
	b.must(os.Truncate(b.path("pools.yaml"), 16<<20+1))
	if _, err := b.Load(); err == nil || err.Error() != b.path("pools.yaml:1: the file is larger than 16 MiB") {
		t.Errorf("a large file: %v", err)
	}
}
