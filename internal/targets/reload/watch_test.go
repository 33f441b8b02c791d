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

	"poold/internal/testkit"
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
		testkit.Equal(t, "depth after: "+c.want, b.depth(), i+1)
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

// readAfter changes the file, calls tick every 50 ms, and checks that the file is read after a time from
// least to most.
func (b *testFile) readAfter(least, most time.Duration, tick func()) {
	b.t.Helper()
	depth, began := b.depth()+1, time.Now()
	b.writeLonger(depth)
	for b.depth() != depth && time.Since(began) <= most {
		time.Sleep(50 * time.Millisecond)
		synctest.Wait() // no read of a half-written file
		tick()
	}
	if took := time.Since(began); took < least || took > most {
		b.t.Errorf("read after %v, want %v to %v", took, least, most)
	}
}

// writeLonger writes a file that differs from all earlier ones.
func (b *testFile) writeLonger(depth int) {
	b.comment += "#"
	b.write(b.comment + "\n" + minimal("depth: "+strconv.Itoa(depth)))
}

// A file is read when it has been quiet for a moment. If it changes constantly, it is read after the
// maximum delay.
func TestWatchWaitsForAQuietFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, minimal("depth: 1"))
		b.File = NewFile(b.File.path, env, b.File.log)
		b.load()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		b.readAfter(200*time.Millisecond, 450*time.Millisecond, func() {})
		b.readAfter(600*time.Millisecond, 850*time.Millisecond, func() { b.writeLonger(3) })

		cancel()
		b.must(<-done)
	})
}
