package reload

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"poold/internal/redisdb/redistest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func env(string) (string, bool) { return "", false }

// minimal returns the smallest valid file. The argument `extra` contains further lines of the target.
func minimal(extra ...string) string {
	return "providers: [{name: acme, url: 'https://solver.example.com', key: k1}]\ntargets:\n  login:\n" +
		"    type: recaptcha_v2\n    sitekey: k\n" +
		"    pageurl: https://staging.example.com/login\n    owner: qa@example.com\n    " + strings.Join(extra, "\n    ") +
		"\n"
}

// testFile is a File in a temporary directory, with its log.
type testFile struct {
	*File
	t   *testing.T
	dir string
	log *testkit.Log

	mu      sync.Mutex
	applied []*targets.Set
}

func newBench(t *testing.T, text string) *testFile {
	t.Helper()
	b := &testFile{t: t, dir: t.TempDir(), log: new(testkit.Log)}
	b.write(text)
	b.File = NewFile(b.path("pools.yaml"), env, slog.New(slog.NewTextHandler(b.log, nil)))
	b.quiet, b.latest = 20*time.Millisecond, 200*time.Millisecond
	b.Apply = func(_ context.Context, s *targets.Set) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.applied = append(b.applied, s)
	}
	return b
}

func (b *testFile) path(name string) string { return filepath.Join(b.dir, name) }

func (b *testFile) write(text string) {
	b.t.Helper()
	b.put(b.path("pools.yaml"), text)
}

func (b *testFile) put(path, text string) {
	b.t.Helper()
	testkit.NoError(b.t, os.WriteFile(path, []byte(text), 0o600))
}

func (b *testFile) must(err error) {
	b.t.Helper()
	testkit.NoError(b.t, err)
}

func (b *testFile) load() *targets.Set {
	b.t.Helper()
	set, err := b.Load()
	b.must(err)
	return set
}

// apply writes a file and reloads it.
func (b *testFile) apply(text string) {
	b.t.Helper()
	b.write(text)
	b.must(b.Reload(context.Background(), "ci"))
}

// refuse writes a file, and checks that a reload refuses it and says why.
func (b *testFile) refuse(text, why string) {
	b.t.Helper()
	b.write(text)
	if err := b.Reload(context.Background(), "ci"); err == nil || !strings.Contains(err.Error(), why) {
		b.t.Errorf("reload: %v, want %s", err, why)
	}
}

// startWatch runs the File until the test ends.
func (b *testFile) startWatch() { testkit.Run(b.t, b.Run) }

// depth returns the depth of the first target in use.
func (b *testFile) depth() int { return b.Current().Targets[0].Depth }

func (b *testFile) untilDepth(depth int) {
	b.t.Helper()
	testkit.Within(b.t, 5*time.Second, "the new depth", func() bool { return b.depth() == depth && b.Status().OK })
}

func TestLoadFails(t *testing.T) {
	b := newBench(t, "budget: 5\ntargets: {}\n")
	_, err := b.Load()
	var problems targets.Problems
	if !errors.As(err, &problems) || len(problems) != 2 {
		t.Errorf("bad file: %v", err)
	}
	if s := b.Status(); s.OK || len(s.Problems) != 2 || !s.LoadedAt.IsZero() || b.Current() != nil {
		t.Errorf("status %+v", s)
	}
	b.must(os.Remove(b.path("pools.yaml")))
	_, err = b.Load()
	if err == nil || !strings.HasSuffix(err.Error(),
		"pools.yaml: the file cannot be read: no such file or directory; name the file with --config (or POOLD_CONFIG)") {
		t.Errorf("missing file: %v", err)
	}
}

// An invalid file changes nothing and is logged only once, even after repeated reads. The Status
// recovers when the valid content is back.
func TestInvalidFileChangesNothing(t *testing.T) {
	b := newBench(t, minimal("depth: 3"))
	good := b.load()
	loadedAt := b.Status().LoadedAt
	ctx := context.Background()

	b.must(b.Reload(ctx, "ci"))
	if b.Current() != good || len(b.applied) != 0 || b.log.Count("level=INFO") != 0 {
		t.Error("an unchanged file is not silence")
	}

	var since time.Time
	for _, bad := range []string{"", minimal("depth: many"), minimal()[:40], "\x00", minimal("sitekey: 1")} {
		b.write(bad)
		var problems targets.Problems
		for range 3 {
			if err := b.Reload(ctx, "ci"); !errors.As(err, &problems) {
				t.Fatalf("%q: %v", bad, err)
			}
		}
		s := b.Status()
		if since.IsZero() {
			since = s.RefusedAt
		}
		if since.IsZero() || s.RefusedAt != since || s.OK || len(s.Problems) != len(problems) ||
			s.Problems[0] != problems[0] || s.LoadedAt != loadedAt {
			t.Errorf("%q: status %+v", bad, s)
		}
		if b.Current() != good || len(b.applied) != 0 {
			t.Errorf("%q changed something", bad)
		}
	}
	testkit.Equal(t, "errors in the log for five bad contents, each read three times",
		b.log.Count("level=ERROR", "refused"), 5)

	b.apply(minimal("depth: 3"))
	b.must(b.Reload(ctx, "ci"))
	if s := b.Status(); !s.OK || !s.RefusedAt.IsZero() || len(s.Problems) != 0 || b.depth() != 3 || len(b.applied) != 1 {
		t.Errorf("after the good content is back: %+v", s)
	}
	testkit.Equal(t, "lines about the recovery", b.log.Count("level=INFO", "was applied", `changes=""`), 1)

	b.apply("# The lines of the warnings differ.\n" + minimal("depth: 4"))
	if b.depth() != 4 || len(b.applied) != 2 || b.applied[1] != b.Current() || !b.Status().LoadedAt.After(loadedAt) {
		t.Errorf("a good change: %+v", b.Status())
	}
	testkit.Equal(t, "lines of a warning that was there before", b.log.Count("embedded Redis keeps nothing"), 1)
}

// A Set is applied completely even if the caller disconnects. Readers see a Set only after it was
// applied, so a removed target that is missing on /status has no worker any more. A removed key has ended before.
func TestSetIsPublishedAfterItWasApplied(t *testing.T) {
	key := "server: {keys: [{name: a, key: canary-canary-canary, scopes: [token]}]}\n"
	b := newBench(t, key+minimal("depth: 3"))
	testkit.Equal(t, "keys at first", len(b.load().Server.Keys), 1)
	b.Apply = func(ctx context.Context, s *targets.Set) {
		if b.depth() != 3 || len(b.Current().Server.Keys) != 0 || len(b.Status().Problems) != 0 || s.Targets[0].Depth != 4 ||
			ctx.Err() != nil {
			t.Errorf("applied %+v, in use %+v, context %v", s, b.Current(), ctx.Err())
		}
	}
	b.write(minimal("depth: 4"))
	ctx, hangUp := context.WithCancel(context.Background())
	hangUp()
	if err := b.Reload(ctx, "ci"); err != nil || b.depth() != 4 {
		t.Errorf("reload %v, depth %d", err, b.depth())
	}
}

// The settings server.listen, server.tls, redis, dead_letters, dedup and history keep the values
// that they had at the start. A reload applies the other settings, and reports once that the listed
// settings need a restart.
func TestReloadKeepsWhatNeedsARestart(t *testing.T) {
	b := newBench(t, minimal("depth: 3"))
	b.load()
	certificates := redistest.Certificates(t)
	changed := "server:\n  listen: 127.0.0.1:9999\n  tls: {cert: " + certificates + "/cert.pem, key: " + certificates +
		"/key.pem}\nredis:\n  url: redis://redis.example.com:6379\n" +
		"dead_letters:\n  dir: /elsewhere\nbudget: {per_day: 7}\ndedup:\n  backend: postgres\n" +
		"  url: postgres://db.example.com/poold\nhistory:\n  backend: none\n" + minimal("depth: 4")
	b.apply(changed)
	b.must(b.Reload(context.Background(), "ci"))
	set := b.Current()
	if set.Server.Listen != "127.0.0.1:8080" || set.Server.TLS != (targets.TLS{}) || !set.Redis.Embedded() ||
		set.Targets[0].Depth != 4 ||
		set.DeadLetters != "./dead-letters" || set.Dedup != (targets.Dedup{Backend: targets.DedupRedis}) ||
		set.History != (targets.History{Backend: targets.HistoryRedis, Keep: 168 * time.Hour, Audit: 168 * time.Hour}) ||
		set.Budget.PerDay != 7 {
		t.Errorf("set %+v", set)
	}
	want := ""
	for _, part := range []string{"dead_letters", "dedup", "history", "redis", "server.listen", "server.tls"} {
		want += b.path("pools.yaml: "+part) + ": changed, but needs a restart: until then the old value stays in use\n"
	}
	remarks := func() string { return targets.Problems(b.Status().Problems).Error() + "\n" }
	testkit.Equal(t, "remarks", remarks(), want)
	testkit.Equal(t, "status OK", b.Status().OK, true)
	testkit.Equal(t, "lines about a restart", b.log.Count("level=WARN", "needs a restart"), 1)

	b.refuse("bad", "")
	b.apply(changed)
	testkit.Equal(t, "remarks after a bad file", remarks(), want)
	b.apply(minimal("depth: 5"))
	testkit.Equal(t, "remarks with the old values back", len(b.Status().Problems), 0)
}

// A running daemon may refuse a file with which a daemon could start.
func TestReloadDoesNotOpenTheDaemon(t *testing.T) {
	open := "server: {listen: ':8080', keys: [{name: ci, key: 0123456789abcdef, scopes: [token]}]}\n"
	b := newBench(t, open+minimal())
	b.load()
	// the file has a loopback address and no keys, but the daemon still listens on the network
	b.refuse(minimal(), "still listens where it did at the start")
	testkit.Equal(t, "keys", len(b.Current().Server.Keys), 1)

	b = newBench(t, "redis: {url: 'redis://redis.example.com'}\n"+minimal())
	b.load()
	// the embedded Redis in the file would allow simulated tokens
	b.refuse(strings.Replace(minimal(), "key: k1", "key: ''", 1), "no simulated token may go there")
}

// The address of a flag overrides the file at the start and in reloads.
func TestOverrideListen(t *testing.T) {
	key := "server: {keys: [{name: ci, key: 0123456789abcdef, scopes: [token]}]}\n"
	b := newBench(t, minimal())
	b.Listen = "0.0.0.0:80"
	const open = "server.listen: without server.keys the daemon listens on loopback"
	if _, err := b.Load(); err == nil || !strings.Contains(err.Error(), open) {
		t.Errorf("open address without keys: %v", err)
	}
	b.write(key + minimal())
	testkit.Equal(t, "listen", b.load().Server.Listen, "0.0.0.0:80")
	for _, listen := range []string{":9", "127.0.0.1:11"} {
		b.apply(strings.Replace(key, "{keys", "{listen: '"+listen+"', keys", 1) + minimal())
		testkit.Equal(t, "listen with "+listen+" in the file", b.Current().Server.Listen, "0.0.0.0:80")
		testkit.Equal(t, "remarks with "+listen+" in the file", len(b.Status().Problems), 0)
	}
	b.refuse(minimal(), open)
}
