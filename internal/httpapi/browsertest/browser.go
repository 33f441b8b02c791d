// Package browsertest drives a headless Chromium, for tests of the status page and for its
// pictures. Only tests and scripts import it.
package browsertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a running Chromium process.
type Browser struct{ ctx context.Context }

// Start starts a Chromium. The returned function stops the browser and waits until the browser's
// process has ended.
func Start(ctx context.Context) (b *Browser, stop func(), err error) {
	allocating, free := chromedp.NewExecAllocator(ctx, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true))
	browsing, leave := chromedp.NewContext(allocating)
	stop = func() { leave(); free() }
	if err := chromedp.Do(browsing); err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting chromium: %w", err)
	}
	return &Browser{ctx: browsing}, stop, nil
}

// Page is a tab of the browser.
type Page struct {
	ctx context.Context

	mu       sync.Mutex
	troubles []string
}

// Open opens a tab. The returned function closes the tab.
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

// listen records the complaints of the browser: errors in the console, exceptions, and violations
// of the page's Content-Security-Policy.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.troubles = append(p.troubles, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			for _, arg := range e.Args {
				p.troubles = append(p.troubles, fmt.Sprintf("console: %s %s", arg.Value, arg.Description))
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.troubles = append(p.troubles, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// Troubles returns the complaints of the browser since the last call of Troubles.
func (p *Page) Troubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.troubles
	p.troubles = nil
	return list
}

// Visit loads an address.
func (p *Page) Visit(address string) error { return chromedp.Do(p.ctx, chromedp.Navigate(address)) }

// Viewport sets the size and scale of the viewport, and the color scheme: light or dark.
func (p *Page) Viewport(width, height int64, scale float64, scheme string) error {
	return chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
}

// DisableScripts disables the scripts of the pages that Visit loads afterwards.
func (p *Page) DisableScripts() error {
	return chromedp.Do(p.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// Picture returns a screenshot of the page as PNG.
func (p *Page) Picture() ([]byte, error) { return chromedp.Run(p.ctx, chromedp.CaptureScreenshot()) }

// Eval evaluates a JavaScript expression in the page. If the result is a promise, Eval waits for
// its value.
func Eval[T any](p *Page, expression string) (T, error) {
	return evalWithin[T](p, time.Minute, expression)
}

// Is reports whether an expression is true now. If the page does not answer, for example because it changes to another
// address, the result is false.
func (p *Page) Is(expression string) bool {
	is, err := evalWithin[bool](p, 5*time.Second, expression)
	return err == nil && is
}

func evalWithin[T any](p *Page, limit time.Duration, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}
