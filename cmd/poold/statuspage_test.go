package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"poold/internal/httpapi/browsertest"
	"poold/internal/redisdb/redistest"
)

// The status page shows that its daemon was killed. When another daemon starts at the same address,
// the page continues by itself.
func TestPageOutlivesItsDaemon(t *testing.T) {
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
	shows := func(part string) {
		t.Helper()
		if err := page.WaitUntil(30*time.Second, `getComputedStyle(document.querySelector('#asof .`+part+`')).visibility === 'visible' && document.querySelectorAll('.target').length === 1`); err != nil {
			t.Fatal(err)
		}
	}

	p := startAt(t, address, poold, path, "")
	if err := page.Visit(p.url+"/status", ""); err != nil {
		t.Fatal(err)
	}
	shows("now")
	p.signal(syscall.SIGKILL)
	p.waitForDeath(10 * time.Second)
	shows("stale")
	startAt(t, address, poold, path, "")
	began := time.Now()
	shows("now")
	t.Logf("live again after %v", time.Since(began))
	for _, trouble := range page.Troubles() {
		if !strings.HasPrefix(trouble, "network") && !strings.Contains(trouble, "htmx:") { // the daemon was not reachable
			t.Error(trouble)
		}
	}
}
