package reload

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"poold/internal/targets"
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
			read := startCall(func() error { _, err := b.Load(context.Background()); return err })
			select {
			case err := <-read:
				if err == nil || err.Error() != b.path(want) {
					t.Errorf("got %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it is still being read after 10s")
			}
		})
	}
	b := newBench(t, "")
	b.must(os.Remove(b.path("pools.yaml")))
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.path("pools.yaml")})
	b.must(err)
	defer func() { b.must(socket.Close()) }()
	if _, err := b.Load(context.Background()); err == nil || !strings.HasPrefix(err.Error(), b.path("pools.yaml: the file cannot be read: ")) {
		t.Errorf("a socket: %v", err)
	}
}

// startCall runs a function, which may never return, in a goroutine.
func startCall(run func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	return ended
}

// hangReads makes reads block without a time limit, like a network disk whose server has failed. It
// returns a counter of the reads, and a function that unblocks the reads.
func (b *testFile) hangReads() (begun *atomic.Int32, goOn func()) {
	begun, alive := new(atomic.Int32), make(chan struct{})
	b.content = func(path string, most int64) ([]byte, error) {
		begun.Add(1)
		<-alive
		return readFile(path, most)
	}
	return begun, func() { close(alive) }
}

const hangs = "the file cannot be read: it is still being read after 50ms: its disk or network does not answer"

// A hanging disk delays a caller at most by the limit. No second read starts until the first read
// ends, and the stale result of the first read is discarded.
func TestHangingReadIsBounded(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.limit = 50 * time.Millisecond
	begun, goOn := b.hangReads()
	b.write(minimal("depth: 2"))
	for range 5 {
		var problems targets.Problems
		err := b.Reload(context.Background(), "ci")
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Text != hangs || problems[0].File != b.path("pools.yaml") {
			t.Fatalf("got %v", err)
		}
		if s := b.Status(); s.OK || len(s.Problems) != 1 || s.Problems[0].Text != hangs {
			t.Errorf("status %+v", s)
		}
	}
	if n := begun.Load(); n != 1 {
		t.Errorf("%d reads at once of a disk that hangs", n)
	}
	if n := b.log.Count("level=ERROR"); n != 1 || b.depth() != 1 {
		t.Errorf("%d errors in the log, depth %d", n, b.depth())
	}
	goOn()
	b.waitUntil("the disk to be read again", func() bool { return b.Reload(context.Background(), "ci") == nil })
	if b.depth() != 2 || !b.Status().OK || begun.Load() != 2 {
		t.Errorf("depth %d after %d reads: %+v", b.depth(), begun.Load(), b.Status())
	}
}

// A read that ended in time does not count as hanging, however long ago it started.
func TestOldReadIsNotTakenForAHangingOne(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	old := &reading{began: time.Now().Add(-time.Hour), ended: make(chan struct{})}
	close(old.ended)
	for range 50 { // a select chooses randomly between two ready channels
		b.must(old.wait(context.Background(), b.limit))
	}
	b.readings[b.File.path] = old
	b.must(b.Reload(context.Background(), "ci"))
}

// If a caller cancels a reload, neither this reload nor the next reload reports a hanging disk.
func TestReadOutlivesItsCaller(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	begun, goOn := b.hangReads()
	b.write(minimal("depth: 2"))
	ctx, leave := context.WithCancel(context.Background())
	first := startCall(func() error { return b.Reload(ctx, "ci") })
	b.waitUntil("the read", func() bool { return begun.Load() == 1 })
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left got %v", err)
	}
	if s := b.Status(); !s.OK {
		t.Errorf("nobody asks any more, and the file is blamed: %+v", s)
	}
	second := startCall(func() error { return b.Reload(context.Background(), "ci") })
	goOn()
	if err := <-second; err != nil || b.depth() != 2 {
		t.Errorf("the next one: %v, depth %d", err, b.depth())
	}
}

// A stop does not wait for a hanging read or a hanging watch.
func TestStopDoesNotWaitForAHangingDisk(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	begun, goOn := b.hangReads()
	defer func() { goOn(); <-b.readings[b.File.path].ended }() // so that the read does not continue in the next test
	ctx, stop := context.WithCancel(context.Background())
	watching := startCall(func() error { return b.Run(ctx) })
	b.waitUntil("the read", func() bool { return begun.Load() == 1 })
	stop()
	select {
	case err := <-watching:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(4 * time.Second): // shorter than the limit of a read
		t.Fatal("the stop waits for the disk")
	}
	loading, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Load(loading); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was ended: %v", err)
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
		if _, err := b.Load(context.Background()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d bytes: %q, want %q", size, got, want)
		}
	}
}

// Run abandons a watcher whose disk hangs.
func TestCloseAbandonsAHangingWatcher(t *testing.T) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	w := newFollower(watcher)
	w.busy <- struct{}{}
	w.close()
	if err := watcher.Add(t.TempDir()); err != nil {
		t.Errorf("it was closed: %v", err)
	}
	<-w.busy
	w.close()
	if err := watcher.Add(t.TempDir()); !errors.Is(err, fsnotify.ErrClosed) {
		t.Errorf("it was not closed: %v", err)
	}
}
