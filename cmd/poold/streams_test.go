package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/httpapi/browsertest"
	"poold/internal/redisdb/redistest"
)

// The status page shows that its daemon was killed. When another daemon starts at the same address,
// the page continues by itself. A daemon with a hundred open streams ends as fast as a daemon
// without streams.
func TestStreamsOutliveNoDaemon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pools.yaml")
	writeFile(t, path, serverless)
	address := redistest.FreeAddress(t)
	browser, stop, err := browsertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	page, closing, err := browser.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	shows := func(mode string) {
		t.Helper()
		if err := page.WaitUntil(30*time.Second, `document.getElementById('mode').textContent === '`+mode+`' && document.querySelectorAll('.target').length === 1`); err != nil {
			t.Fatal(err)
		}
	}

	p := startAt(t, address, poold, path, "")
	if err := page.Visit(p.url+"/status", ""); err != nil {
		t.Fatal(err)
	}
	shows("Live")
	p.signal(syscall.SIGKILL)
	p.waitForDeath(10 * time.Second)
	shows("Not live")
	p = startAt(t, address, poold, path, "")
	began := time.Now()
	shows("Live")
	t.Logf("live again after %v", time.Since(began))
	for _, trouble := range page.Troubles() {
		if !strings.HasPrefix(trouble, "network") { // this text says that the daemon was not reachable
			t.Error(trouble)
		}
	}

	var ended sync.WaitGroup
	for range 100 {
		answer, err := http.Get(p.url + "/status/stream")
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			defer func() { _ = answer.Body.Close() }()
			_, _ = io.Copy(io.Discard, answer.Body)
		})
	}
	with := elapsed(t, p.stop)
	ended.Wait()
	without := elapsed(t, startPoold(t, path, "").stop)
	t.Logf("a stop with 100 streams took %v, one without %v", with, without)
	if with > without+5*time.Second { // a stop that waits for streams takes drainLimit, 10 s
		t.Errorf("a stop with 100 streams took %v, one without %v", with, without)
	}
}

func elapsed(t *testing.T, do func() error) time.Duration {
	t.Helper()
	began := time.Now()
	if err := do(); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}
