package reload

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/testkit"
)

// A change of pools.yaml, and of a file to which it refers, causes a reload: a write, a rename, as editors do it, and
// a new link in the middle of a chain, as Kubernetes does it. A file that cannot be used is reported, and the last
// valid Set stays in use.
func TestWatchSeesEachChange(t *testing.T) {
	for name, c := range map[string]struct {
		text    func(depth int) string
		missing string
	}{
		"pools.yaml": {func(depth int) string { return minimal(fmt.Sprint("depth: ", depth)) }, "no such file or directory"},
		"secret":     {strconv.Itoa, "secret does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			b.write(minimal("depth: ${file:" + b.path("secret") + "}"))
			path := b.path(name)
			_ = os.Remove(path)
			b.must(os.Symlink("..data/file", path))
			mount := func(depth int) { // a version of a volume of Kubernetes
				dir := fmt.Sprint("..", depth)
				b.must(os.Mkdir(b.path(dir), 0o700))
				b.put(b.path(dir+"/file"), c.text(depth))
				b.must(os.Symlink(dir, b.path("..new")))
				b.must(os.Rename(b.path("..new"), b.path("..data")))
			}
			mount(1)
			b.load()
			mount(2) // the first attempt of the watch notices it
			b.startWatch()
			b.untilDepth(2)
			mount(3)
			b.untilDepth(3)
			b.must(os.RemoveAll(b.path("..1")))
			b.put(path, c.text(4))
			b.untilDepth(4)
			for _, depth := range []int{5, 6} { // a watch of the file itself would miss the second rename
				b.put(path+".new", c.text(depth))
				b.must(os.Rename(path+".new", path))
				b.untilDepth(depth)
			}

			reported := func(why string) {
				testkit.Within(t, 5*time.Second, "the report "+why, func() bool {
					s := b.Status()
					return !s.OK && len(s.Problems) == 1 && strings.Contains(s.Problems[0].Text, why)
				})
				testkit.Equal(t, "depth", b.depth(), 6)
			}
			b.must(os.Remove(path))
			reported(c.missing)
			b.must(syscall.Mkfifo(path, 0o600))
			reported("not a regular file")
			b.must(os.Remove(path))
			b.put(path, c.text(6))
			b.untilDepth(6)
			b.put(path, c.text(7))
			b.untilDepth(7)
		})
	}
}

// A file is read when it has been quiet for a moment. If it changes constantly, it is read after the maximum delay.
func TestWatchWaitsForAQuietFile(t *testing.T) {
	for name, c := range map[string]struct {
		constantly  bool
		least, most time.Duration
	}{
		"changed once":       {false, 200 * time.Millisecond, 450 * time.Millisecond},
		"changed constantly": {true, 600 * time.Millisecond, 850 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, minimal("depth: 1"))
				b.File = NewFile(b.File.path, env, b.File.log)
				b.load()
				b.startWatch()
				time.Sleep(time.Second) // until the first attempt is over
				began := time.Now()
				for text := minimal("depth: 2"); b.depth() == 1 && time.Since(began) <= c.most; text += "#\n" {
					if synctest.Wait(); c.constantly || time.Since(began) == 0 { // no read of a half-written file
						b.write(text)
					}
					time.Sleep(50 * time.Millisecond)
				}
				testkit.AtLeast(t, "the time of the read", time.Since(began), c.least)
				testkit.AtMost(t, "the time of the read", time.Since(began), c.most)
			})
		})
	}
}
