package refill

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"poold/internal/captcha"
	"poold/internal/purchase"
	"poold/internal/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type deaf struct{}

func (deaf) Solve(string, string, string, time.Duration) {}
func (deaf) Callback(string)                             {}
func (deaf) Letter(string)                               {}
func (deaf) Report(string, string)                       {}

// world is one replica with its doubles, in a bubble.
type world struct {
	t       *testing.T
	shelf   *shelf
	market  *market
	desk    *purchase.Desk
	manager *Manager
	set     *targets.Set
}

// play runs a story in a bubble: time in it is virtual, and a goroutine that is
// left behind fails the test.
func play(t *testing.T, concurrency int, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, shelf: newShelf(), market: newMarket("one")}
		w.desk = purchase.NewDesk(w.shelf, "no letters", deaf{}, slog.New(slog.DiscardHandler))
		w.desk.SetProviders([]purchase.Entry{{Provider: w.market, Concurrency: concurrency}})
		w.manager = NewManager(w.shelf, w.desk, slog.New(slog.DiscardHandler))
		w.shelf.changed = w.manager.Kick
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.manager.Run(ctx) }()
		synctest.Wait()
		story(t, w)
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		for _, p := range w.shelf.placed() {
			if p.sum >= p.Depth {
				t.Errorf("an order was placed on top of %d with depth %d", p.sum, p.Depth)
			}
		}
	})
}

// apply makes these the targets.
func (w *world) apply(list ...targets.Target) {
	w.set = &targets.Set{Targets: list}
	w.manager.Apply(w.t.Context(), w.set)
}

// after lets time pass and everything that was due in it happen.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) note(name string) Note {
	w.t.Helper()
	n, ok := w.manager.Note(name)
	if !ok {
		w.t.Fatalf("no note for %q", name)
	}
	return n
}

// target is one of its own identity.
func target(name string, depth int) targets.Target {
	id := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: name, Pageurl: "https://example.com/"}
	return targets.Target{
		Name: name, Identity: id, ID: id.ID(), Depth: depth,
		Lifetime: 120 * time.Second, Margin: 40 * time.Second, Owner: "qa@example.com",
	}
}
