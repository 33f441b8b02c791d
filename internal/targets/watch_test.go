package targets

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestWatchInPlace(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.run()
	for depth := 2; depth <= 4; depth++ {
		b.write(minimal("depth: " + string(rune('0'+depth))))
		b.untilDepth(depth)
	}
}

// An editor that writes a new file and renames it over the old one; after the
// first time, a watch on the file itself would be deaf.
func TestWatchRename(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.run()
	for depth := 2; depth <= 4; depth++ {
		b.put(b.path("pools.yaml.new"), minimal("depth: "+string(rune('0'+depth))))
		b.must(os.Rename(b.path("pools.yaml.new"), b.path("pools.yaml")))
		b.untilDepth(depth)
	}
}

// A Kubernetes ConfigMap: the file leads to ..data/pools.yaml, ..data to a
// directory with a date, and an update renames a new link over ..data.
func TestWatchSymlinkSwap(t *testing.T) {
	b := newBench(t, "")
	b.must(os.Remove(b.path("pools.yaml")))
	version := func(name, text string) {
		b.must(os.Mkdir(b.path(name), 0o700))
		b.put(b.path(name+"/pools.yaml"), text)
		b.must(os.Symlink(name, b.path("..data_tmp")))
		b.must(os.Rename(b.path("..data_tmp"), b.path("..data")))
	}
	version("..v1", minimal("depth: 1"))
	b.must(os.Symlink("..data/pools.yaml", b.path("pools.yaml")))
	b.load()
	b.run()
	version("..v2", minimal("depth: 2"))
	b.must(os.RemoveAll(b.path("..v1")))
	b.untilDepth(2)
	version("..v3", minimal("depth: 3"))
	b.must(os.RemoveAll(b.path("..v2")))
	b.untilDepth(3)
}

// A link into another directory: what is written there counts too, also after
// the link was turned to a third one.
func TestWatchLinkElsewhere(t *testing.T) {
	b := newBench(t, "")
	b.must(os.Remove(b.path("pools.yaml")))
	for _, dir := range []string{"one", "two"} {
		b.must(os.Mkdir(b.path(dir), 0o700))
		b.put(b.path(dir+"/real.yaml"), minimal("depth: 1"))
	}
	// The link stands in a directory of its own, so that only the target's shows events.
	b.must(os.Mkdir(b.path("etc"), 0o700))
	b.File.path = b.path("etc/pools.yaml")
	b.must(os.Symlink("../one/real.yaml", b.File.path))
	b.load()
	b.run()
	b.put(b.path("one/real.yaml"), minimal("depth: 2"))
	b.untilDepth(2)
	b.put(b.path("two/real.yaml"), minimal("depth: 3"))
	b.must(os.Symlink("../two/real.yaml", b.path("etc/new")))
	b.must(os.Rename(b.path("etc/new"), b.File.path))
	b.untilDepth(3)
	// The link was turned before the watch followed it; what comes now is seen.
	b.put(b.path("two/real.yaml"), minimal("depth: 4"))
	b.untilDepth(4)
}

// A file that is written slowly, or never to its end, leaves the last good Set in
// use and says why.
func TestWatchHalfWritten(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.run()
	whole := minimal("depth: 2")
	b.write(whole[:strings.Index(whole, "sitekey")+15])
	b.until("the report", func() bool { return !b.Status().OK })
	if b.depth() != 1 || len(b.Status().Problems) == 0 {
		t.Errorf("half a file changed the set: %+v", b.Status())
	}
	b.write("")
	b.until("the report of an empty file", func() bool {
		p := b.Status().Problems
		return len(p) == 1 && strings.HasPrefix(p[0].Text, "the file is empty")
	})
	b.write(whole)
	b.untilDepth(2)
}

func TestWatchDeleted(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.run()
	b.must(os.Remove(b.path("pools.yaml")))
	b.until("the report", func() bool {
		p := b.Status().Problems
		return len(p) == 1 && p[0].Text == "the file cannot be read: no such file or directory"
	})
	if b.depth() != 1 {
		t.Error("the set is gone with the file")
	}
	b.write(minimal("depth: 2"))
	b.untilDepth(2)
}

// What changed between Load and Run is not missed.
func TestWatchBegins(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.write(minimal("depth: 2"))
	b.run()
	b.untilDepth(2)
}

// Neighbours that never rest do not keep the file from being read.
func TestWatchBusyDirectory(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	b.load()
	b.run()
	// Written in place, the file would be seen empty now and then.
	replace := func(text string) {
		b.put(b.path("pools.yaml.new"), text)
		b.must(os.Rename(b.path("pools.yaml.new"), b.path("pools.yaml")))
	}
	replace(minimal("depth: 2"))
	b.untilDepth(2)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond): // far more often than the quiet that is waited for
				_ = os.WriteFile(b.path("neighbour"), []byte("x"), 0o600)
			}
		}
	}()
	replace(minimal("depth: 3"))
	b.untilDepth(3)
	close(stop)
	<-done
	if b.log.count("level=ERROR") != 0 {
		t.Error("a neighbour's change is taken for the file's")
	}
}

// Where no event tells, as on some network file systems, the slow look finds the
// change: here a directory further up is replaced.
func TestWatchSlowLook(t *testing.T) {
	b := newBench(t, minimal("depth: 1"))
	make := func(top string, depth string) {
		b.must(os.MkdirAll(b.path(top+"/sub"), 0o700))
		b.put(b.path(top+"/sub/pools.yaml"), minimal("depth: "+depth))
	}
	make("conf", "1")
	b.File.path = b.path("conf/sub/pools.yaml")
	b.every = 20 * time.Millisecond
	b.load()
	b.run()
	make("conf.new", "2")
	b.must(os.Rename(b.path("conf"), b.path("conf.old")))
	b.must(os.Rename(b.path("conf.new"), b.path("conf")))
	b.untilDepth(2)
}

// A directory that was replaced is watched anew after the next look.
func TestFollowReplacedDirectory(t *testing.T) {
	b := newBench(t, minimal())
	b.must(os.MkdirAll(b.path("conf"), 0o700))
	b.File.path = b.path("conf/pools.yaml")
	watcher, err := fsnotify.NewWatcher()
	b.must(err)
	defer func() { b.must(watcher.Close()) }()
	dirs := make(map[string]bool)
	b.follow(watcher, dirs)
	b.must(os.Rename(b.path("conf"), b.path("conf.old")))
	b.must(os.Mkdir(b.path("conf"), 0o700))
	b.follow(watcher, dirs)
	b.put(b.path("conf/pools.yaml"), minimal())
	for deadline := time.After(5 * time.Second); ; {
		select {
		case event := <-watcher.Events:
			if event.Name == b.path("conf/pools.yaml") {
				return
			}
		case <-deadline:
			t.Fatal("nothing is heard from the new directory")
		}
	}
}
