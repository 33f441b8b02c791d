// Package browsertest drives a Chromium without a window, for tests of the status page
// and for its pictures. Nothing but tests and scripts imports it.
package browsertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a running Chromium.
type Browser struct{ ctx context.Context }

// Start starts one; stop ends it and waits for that.
func Start(ctx context.Context) (b *Browser, stop func(), err error) {
	allocating, free := chromedp.NewExecAllocator(ctx, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	browsing, leave := chromedp.NewContext(allocating)
	stop = func() { leave(); free() }
	if err := chromedp.Do(browsing); err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting chromium: %w", err)
	}
	return &Browser{ctx: browsing}, stop, nil
}

// Page is one tab.
type Page struct {
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

// Open opens a tab; close closes it.
func (b *Browser) Open() (p *Page, closing func(), err error) {
	ctx, leave := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p = &Page{ctx: ctx}
	err = chromedp.Do(ctx)
	if err == nil {
		err = chromedp.Listen(ctx, p.listen)
	}
	if err != nil {
		leave()
		return nil, nil, fmt.Errorf("opening a tab: %w", err)
	}
	return p, leave, nil
}

// listen notes what the browser complains of: errors in the console, exceptions, and what
// the page's policy forbade.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.troubles = append(p.troubles, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			p.troubles = append(p.troubles, fmt.Sprintf("console: %v", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.troubles = append(p.troubles, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// Troubles returns what the browser complained of since the last call.
func (p *Page) Troubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.troubles
	p.troubles = nil
	return list
}

// Visit loads an address, with a header Authorization for all requests; "" = none.
func (p *Page) Visit(address, authorization string) error {
	if authorization != "" {
		err := chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
				return err
			}
			_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
				Headers: network.Headers{"Authorization": authorization},
			})
			return err
		}))
		if err != nil {
			return err
		}
	}
	return chromedp.Do(p.ctx, chromedp.Navigate(address))
}

// Look sets the width, the height and the color scheme: light or dark.
func (p *Page) Look(width, height int64, scale float64, scheme string) error {
	return chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
}

// Picture returns a PNG of the page.
func (p *Page) Picture() ([]byte, error) { return chromedp.Run(p.ctx, chromedp.CaptureScreenshot()) }

// Eval evaluates an expression in the page, and waits where it is a promise.
func Eval[T any](p *Page, expression string) (T, error) {
	return chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Until waits until an expression is true in the page, which it looks at at every frame.
func (p *Page) Until(limit time.Duration, expression string) error {
	_, err := Eval[bool](p, fmt.Sprintf(`new Promise((done, fail) => {
		const end = performance.now() + %d;
		const look = () => { let is = false; try { is = %s } catch {}
			if (is) done(true); else if (performance.now() > end) fail(new Error(%q)); else setTimeout(look, 20); };
		look();
	})`, limit.Milliseconds(), expression, "not within "+limit.String()+": "+expression))
	return err
}

// Effort is the work of a page.
type Effort struct {
	// CPU is the processor time of its tasks since Watch, scripts, style and layout
	// together: that the machine is busy elsewhere is not in it.
	CPU time.Duration
	// Heap are the bytes that its scripts hold, without garbage.
	Heap int64
	// Long are the tasks since Watch that took longer than 50 ms by the browser's own
	// long-task timing: by the clock, so that on a busy machine it says little.
	Long []time.Duration
}

// Watch begins to measure a page's effort.
func (p *Page) Watch() error {
	err := chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
		return err
	}))
	if err != nil {
		return err
	}
	_, err = Eval[bool](p, `(window.longTasks = [], new PerformanceObserver((list) => {
		for (const entry of list.getEntries()) longTasks.push(entry.duration);
	}).observe({ type: 'longtask' }), true)`)
	return err
}

// Effort is what the page has cost since Watch.
func (p *Page) Effort() (e Effort, err error) {
	err = chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		metrics, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, m := range metrics.Metrics {
			if m.Name == "TaskDuration" {
				e.CPU = time.Duration(m.Value * float64(time.Second))
			}
		}
		if _, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		heap, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
		e.Heap = int64(heap.UsedSize)
		return err
	}))
	if err != nil {
		return e, err
	}
	long, err := Eval[[]float64](p, `longTasks.map((ms) => ms)`)
	for _, ms := range long {
		e.Long = append(e.Long, time.Duration(ms*float64(time.Millisecond)))
	}
	return e, err
}
