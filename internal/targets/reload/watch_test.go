package reload

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// An editor writes in place, or renames a new file over the old file. A watch of the file itself
// would miss the second rename.
func TestWatchSeesWritesAndRenames(t *testing.T) {
	for name, save := range map[string]func(b *testFile, text string){
		"in place": (*testFile).write,
		"rename": func(b *testFile, text string) {
			b.put(b.path("pools.yaml.new"), text)
			b.must(os.Rename(b.path("pools.yaml.new"), b.path("pools.yaml")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, minimal("depth: 1"))
			b.load()
			b.startWatch()
			for depth := 2; depth <= 4; depth++ {
				save(b, minimal("depth: "+strconv.Itoa(depth)))
				b.untilDepth(depth)
			}
		})
	}
}

// The file may be a link into another directory. Changes in that directory are noticed. They are
// also noticed after the link was changed to a third directory.
func TestWatchFollowsLinks(t *testing.T) {
	b := newBench(t, "")
	b.must(os.Remove(b.path("pools.yaml")))
	for _, dir := range []string{"one", "two"} {
		b.must(os.Mkdir(b.path(dir), 0o700))
		b.put(b.path(dir+"/real.yaml"), minimal("depth: 1"))
	}
	// The directory of the link contains no other file, so events come only from the directory of
	// the link's target.
	b.must(os.Mkdir(b.path("etc"), 0o700))
	b.File.path = b.path("etc/pools.yaml")
	b.must(os.Symlink("../one/real.yaml", b.File.path))
	b.load()
	b.startWatch()
	b.put(b.path("one/real.yaml"), minimal("depth: 2"))
	b.untilDepth(2)
	b.put(b.path("two/real.yaml"), minimal("depth: 3"))
	b.must(os.Symlink("../two/real.yaml", b.path("etc/new")))
	b.must(os.Rename(b.path("etc/new"), b.File.path))
	b.untilDepth(3)
	// The link was changed before the new directory was watched. From here on, the new directory is
	// watched.
	b.put(b.path("two/real.yaml"), minimal("depth: 4"))
	b.untilDepth(4)
}

// A link in the middle of a chain may be pointed elsewhere.
func TestWatchFollowsAChainOfLinks(t *testing.T) {
	b := newBench(t, "")
	b.must(os.Remove(b.path("pools.yaml")))
	for _, dir := range []string{"etc", "middle", "one", "two"} {
		b.must(os.Mkdir(b.path(dir), 0o700))
	}
	b.put(b.path("one/real.yaml"), minimal("depth: 1"))
	b.put(b.path("two/real.yaml"), minimal("depth: 2"))
	b.File.path = b.path("etc/pools.yaml")
	b.must(os.Symlink("../middle/link", b.File.path))
	b.must(os.Symlink("../one/real.yaml", b.path("middle/link")))
	b.load()
	b.startWatch()
	b.must(os.Symlink("../two/real.yaml", b.path("middle/new")))
	b.must(os.Rename(b.path("middle/new"), b.path("middle/link")))
	b.untilDepth(2)
}

// An unusable file is reported, and the last valid Set stays in use. The Status recovers when a
// valid file is back.
func TestWatchRecoversFromAnUnusableFile(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.startWatch()
	whole := minimal("depth: 2")
	remove := func() { b.must(os.Remove(b.path("pools.yaml"))) }
	pipe := func() {
		remove()
		b.must(syscall.Mkfifo(b.path("pools.yaml"), 0o600))
	}
	for i, c := range []struct {
		spoil func()
		want  string // part of the first problem
	}{
		{func() { b.write(whole[:strings.Index(whole, "sitekey")+15]) }, "targets.login."},
		{func() { b.write("") }, "the file is empty"},
		{remove, "the file cannot be read: no such file or directory"},
		{pipe, "not a regular file"},
	} {
		c.spoil()
		b.waitUntil("the report "+c.want, func() bool {
			s := b.Status()
			return !s.OK && len(s.Problems) > 0 && strings.Contains(s.Problems[0].Text, c.want)
		})
		if b.depth() != i+1 {
			t.Errorf("%s: the set is gone with the file", c.want)
		}
		_ = os.Remove(b.path("pools.yaml")) // a write into a pipe would wait for a reader
		b.write(minimal("depth: " + strconv.Itoa(i+2)))
		b.untilDepth(i + 2)
	}
}

// Run notices a change between Load and Run.
func TestWatchReadsAtItsStart(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.write(minimal("depth: 2"))
	b.startWatch()
	b.untilDepth(2)
}

// inBubble runs a test in virtual time on a File with the daemon's intervals. The test starts after
// the first read and sends the events.
func inBubble(t *testing.T, test func(b *testFile, events chan<- fsnotify.Event)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, minimal("depth: 1"))
		b.File = NewFile(b.File.path, env, b.File.log)
		b.load()
		events := make(chan fsnotify.Event)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.follow(ctx, events, nil)
		}()
		defer func() {
			cancel()
			<-done
		}()
		synctest.Wait()
		test(b, events)
	})
}

// readAfter checks that the file is read after the given time, within 20 ms, and not earlier. It
// calls the function `tick` every 10 ms.
func (b *testFile) readAfter(d time.Duration, depth int, tick func()) {
	b.t.Helper()
	b.write(minimal("depth: " + strconv.Itoa(depth)))
	for began := time.Now(); time.Since(began) < d+20*time.Millisecond; {
		if b.depth() == depth && time.Since(began) < d-20*time.Millisecond {
			b.t.Fatalf("read after %v, want %v", time.Since(began), d)
		}
		tick()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	if b.depth() != depth {
		b.t.Errorf("not read after %v: %+v", d, b.Status())
	}
}

// A file is read after a quiet time without events. If other files in the directory change
// constantly, the file is read after the maximum delay.
func TestWatchReadsInABusyDirectory(t *testing.T) {
	inBubble(t, func(b *testFile, events chan<- fsnotify.Event) {
		event := func() { events <- fsnotify.Event{} }
		event()
		b.readAfter(200*time.Millisecond, 2, func() {})
		b.readAfter(800*time.Millisecond, 3, event)
		time.Sleep(time.Second) // long enough for the read that the last event caused
		b.readAfter(800*time.Millisecond, 4, event)
	})
}

// On a file system without events, such as some network disks, the poll finds the change.
func TestWatchPollsWithoutEvents(t *testing.T) {
	inBubble(t, func(b *testFile, _ chan<- fsnotify.Event) {
		b.readAfter(30*time.Second, 2, func() {})
		b.readAfter(30*time.Second, 3, func() {})
	})
}
