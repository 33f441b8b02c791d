package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"poold/internal/httpapi/browsertest"
	"poold/internal/provider/simulated"
)

const (
	crowd     = 500 // targets
	perSecond = 10  // takes per second, from random targets
	// longestTask is the maximum duration of a task of the page, as measured by the browser's
	// long-task timing.
	longestTask = 200 * time.Millisecond
)

// fluid opens the status page of many targets in a browser for the given time. It returns an error
// if a task of the page takes too long or the heap of the page grows.
func fluid(ctx context.Context, lasts time.Duration) error {
	dir, err := build(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	solving := httptest.NewServer(simulated.New(simulated.Options{Flavour: simulated.TwoCaptcha, Median: 9 * time.Second, Min: 5 * time.Second, Max: 20 * time.Second, Sigma: 0.3, Threads: 2 * crowd}))
	defer solving.Close()
	store, stopStore, err := startRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer stopStore()
	config := filepath.Join(dir, "pools.yaml")
	if err := os.WriteFile(config, []byte(crowdFile(solving.URL, store)), 0o600); err != nil {
		return err
	}
	url, stopDaemon, err := startPoold(ctx, filepath.Join(dir, "poold"), config)
	if err != nil {
		return err
	}
	defer stopDaemon()
	asking, enough := context.WithCancel(ctx)
	defer enough()
	go askCrowd(asking, url)
	browser, stop, err := browsertest.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	page, closing, err := browser.Open() //nolint:contextcheck // the browser has its own context
	if err != nil {
		return err
	}
	defer closing()
	if err := page.Visit(url+"/status", ""); err != nil {
		return err
	}
	if err := page.WaitUntil(time.Minute, fmt.Sprintf(`document.querySelectorAll('.target').length === %d`, crowd)); err != nil {
		return err
	}
	return watch(ctx, page, url+"/status.json", lasts)
}

// watch measures the cost of the page and the size of the document ten times, and prints them. The
// document grows during the first hour, because it contains the requests of each of the last 60
// minutes.
func watch(ctx context.Context, page *browsertest.Page, document string, lasts time.Duration) error {
	if err := page.Watch(); err != nil {
		return err
	}
	if _, err := browsertest.Eval[bool](page, `(window.changes = 0, window.take = takeStatus, takeStatus = (d) => (changes++, take(d)), true)`); err != nil {
		return err
	}
	var heaps, sizes []int64
	var worst time.Duration
	for range 10 {
		time.Sleep(lasts / 10)
		effort, err := page.Effort()
		if err != nil {
			return err
		}
		changes, err := browsertest.Eval[int](page, `changes`)
		if err != nil {
			return err
		}
		size, err := sizeOf(ctx, document)
		if err != nil {
			return err
		}
		heaps, sizes = append(heaps, effort.Heap), append(sizes, size)
		worst = slices.Max(append(effort.Long, 0))
		fmt.Printf("%d changes, %v of processor time each, heap %d kB of a document of %d kB, %d tasks above 50 ms, the longest %v\n",
			changes, (effort.CPU / time.Duration(max(1, changes))).Round(time.Millisecond), effort.Heap>>10, size>>10, len(effort.Long), worst.Round(time.Millisecond))
	}
	for _, trouble := range page.Troubles() {
		return fmt.Errorf("the browser complains: %s", trouble)
	}
	if worst > longestTask {
		return fmt.Errorf("a task took %v, more than %v", worst, longestTask)
	}
	// The first measurement does not count, because the page has not received all figures yet. A
	// figure uses less than twice as many bytes on the heap as in the JSON document.
	first, last := slices.Max(heaps[1:4]), slices.Min(heaps[7:])
	if grown := sizes[len(sizes)-1] - sizes[1]; last > first+first/10+2*grown {
		return fmt.Errorf("the heap grew from %d kB to %d kB, the document by %d kB", first>>10, last>>10, grown>>10)
	}
	return nil
}

func sizeOf(ctx context.Context, url string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	return io.Copy(io.Discard, answer.Body)
}

func crowdFile(provider, store string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "redis: {url: %q}\n", "redis://"+store)
	fmt.Fprintf(&b, "providers:\n  - {name: 2captcha, api: legacy, profile: 2captcha, url: %q, key: picture-key, concurrency: %d, first_poll: 5s, poll_interval: 5s, price_per_1000: 1.20}\n", provider, crowd)
	b.WriteString("history: {backend: none}\ndefaults: {depth: 3, owner: qa@example.com}\ntargets:\n")
	for i := range crowd {
		fmt.Fprintf(&b, "  %s: {type: recaptcha_v2, sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI, pageurl: \"https://%s.example.com/\"}\n", crowdName(i), crowdName(i))
	}
	return b.String()
}

func crowdName(i int) string { return fmt.Sprintf("target-%03d", i) }

// askCrowd takes tokens of random targets until ctx ends.
func askCrowd(ctx context.Context, url string) {
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pool/"+crowdName(rand.IntN(crowd))+"/token", nil) //nolint:gosec // load needs no secrecy
		if err != nil {
			return
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
		}
	}
}
