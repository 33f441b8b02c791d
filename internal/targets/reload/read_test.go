package reload

import (
	"bytes"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"poold/internal/testkit"
)

// A file that is not a regular file is refused immediately. A blocking open of a pipe would wait
// for a writer.
func TestIrregularFilesAreRefused(t *testing.T) {
	const want = "pools.yaml: the file cannot be read: it is not a regular file, but a directory, a pipe, a socket or a device"
	for name, make := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
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
	b.must(os.Remove(b.path("pools.yaml")))
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.path("pools.yaml")})
	b.must(err)
	defer func() { b.must(socket.Close()) }()
	if _, err := b.Load(); err == nil || !strings.HasPrefix(err.Error(), b.path("pools.yaml: the file cannot be read: ")) {
		t.Errorf("a socket: %v", err)
	}
}

// A file may have exactly 16 MiB.
func TestTooLargeFileIsRefused(t *testing.T) {
	testkit.WithoutRace(t)
	b := newBench(t, "")
	for size, want := range map[int]string{
		16777216: "",
		16777217: b.path("pools.yaml:1: the file is larger than 16 MiB"),
		30000000: b.path("pools.yaml:1: the file is larger than 16 MiB"),
	} {
		text := append([]byte(minimal()), "# "...)
		b.must(os.WriteFile(b.path("pools.yaml"), append(text, bytes.Repeat([]byte("x"), size-len(text))...), 0o600))
		got := ""
		if _, err := b.Load(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d bytes: %q, want %q", size, got, want)
		}
	}
}
