package purchase_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
	"poold/internal/next/purchase"
	"poold/internal/provider"
)

var update = flag.Bool("update", false, "write testdata/ends.txt")

// TestEnds plays every way in which an order of a guest, for which a caller waits, can end, and compares what
// the end leaves with testdata/ends.txt: the rows, the counters, the brakes, the budget, and what the caller
// learns.
func TestEnds(t *testing.T) {
	var text strings.Builder
	for _, c := range []struct {
		name   string
		submit error
		poll   error
		wait   time.Duration
	}{
		{name: "solved", wait: 20 * second},
		{name: "refused at the submit", submit: fails(provider.Task, "ERROR_ODD"), wait: second},
		{name: "parameters rejected at the submit", submit: fails(provider.Parameters, "ERROR_SITEKEY"), wait: second},
		{name: "no capacity", submit: &provider.Error{Class: provider.Capacity, Code: "ERROR_NO_SLOT", Delay: 30 * second}, wait: second},
		{name: "account fault", submit: fails(provider.Account, "ERROR_ZERO_BALANCE"), wait: second},
		{name: "submit without an answer", submit: unheard("timeout"), wait: 170 * second},
		{name: "submit with an unknown error", submit: errors.New("odd"), wait: 170 * second},
		{name: "unsolvable", poll: fails(provider.Task, "ERROR_CAPTCHA_UNSOLVABLE"), wait: 20 * second},
		{name: "parameters rejected at a poll", poll: fails(provider.Parameters, "ERROR_PAGEURL"), wait: 20 * second},
		{name: "not solved in time", poll: provider.ErrNotReady, wait: 130 * second},
		{name: "last poll without an answer", poll: unheard("http_502"), wait: 130 * second},
	} {
		bubble(t, c.name, func(t *testing.T, w *world) {
			f := newFake("main")
			f.submit = func(int, provider.Request) (string, error) { return "T1", c.submit }
			if c.submit != nil {
				f.submit = func(int, provider.Request) (string, error) { return "", c.submit }
			}
			f.poll = func(int, string) (provider.Solution, error) {
				return provider.Solution{Token: "03AF", UserAgent: "agent"}, c.poll
			}
			r := w.replica("r1", nil, f.entry())
			s := spec()
			s.Target, s.Guest, s.Depth = "/solve", true, 0
			answer := make(chan string, 1)
			go func() {
				token, err := r.pool.Take(t.Context(), &pool.Call{
					Name: "waiting", Nonce: "n", ID: s.ID, Wait: c.wait, Margin: s.Margin, MostTickets: 9,
				})
				answer <- fmt.Sprintf("%q %v", token.Value, err)
			}()
			time.Sleep(time.Millisecond)
			r.mustBuy(s)
			time.Sleep(c.wait)
			fmt.Fprintf(&text, "# %s\n", c.name)
			for _, m := range w.db.XRange(t.Context(), "{p}:outbox:ends", "-", "+").Val() {
				var p purchase.Purchase
				if err := json.Unmarshal([]byte(fmt.Sprint(m.Values["row"])), &p); err != nil {
					t.Fatal(err)
				}
				after := func(at time.Time) string {
					if at.IsZero() {
						return "-"
					}
					return at.Sub(p.Placed).Round(100 * time.Millisecond).String()
				}
				if p.Identity.Proxy != "" || p.Identity.Sitekey == "" || p.ID != s.ID || p.Order != m.Values["order"] {
					t.Errorf("row %+v", p)
				}
				fmt.Fprintf(&text, "row %s: %s %s %s by %q at %s, task %q code %q price %d submitted %s solved %s polls %d"+
					" callback %v chosen %s\n",
					m.Values["kind"], p.Status, p.Outcome, p.Target, p.EndedBy, p.Provider, p.Task, p.Code, p.Price, after(p.Submitted),
					after(p.Solved), min(p.Polls, 20), p.Callback, p.Choice) // pauses between polls are random
			}
			stats := ""
			for _, field := range []string{"bought", "solved", "failed", "lost", "refused", "spent", "leads"} {
				if n := w.number("stats:"+string(s.ID), field); n != "" && n != "0" {
					stats += " " + field + "=" + n
				}
			}
			fmt.Fprintf(&text, "stats%s; %d in flight; spend %d\n", stats, w.inFlight("main"), w.spend())
			for _, key := range []string{"main.main-key", string(s.ID)} {
				b := w.db.HGetAll(t.Context(), "{p}:brake:"+key).Val()
				if b["kind"] != "" {
					fmt.Fprintf(&text, "brake %.4s: %s count %q every %q: %s\n", key, b["kind"], b["count"], b["every"], b["reason"])
				}
			}
			fmt.Fprintf(&text, "observed %s\n", r.outcomes())
			r.stop()
			fmt.Fprintf(&text, "caller %s\n\n", <-answer)
		})
	}
	if *update {
		if err := os.WriteFile("testdata/ends.txt", []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("testdata/ends.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(text.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("line %d differs (-update writes the table):\ngot  %s\nwant %s", i+1, got[min(i, len(got)-1)], line)
		}
	}
}

// A picture's bytes go to the provider once, and nowhere else.
func TestPictures(t *testing.T) {
	bubble(t, "a picture", func(t *testing.T, w *world) {
		f := newFake("main")
		f.poll = func(int, string) (provider.Solution, error) { return provider.Solution{Token: "same text"}, nil }
		r := w.replica("r1", nil, f.entry())
		s := spec()
		s.Identity = captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: "abc"}}
		s.ID, s.Depth, s.Image = s.Identity.ID(), 0, []byte("PICTURE-BYTES")
		for range 2 { // two pictures may have the same text
			r.mustBuy(s)
		}
		for _, key := range w.db.Keys(t.Context(), "*order:*").Val() {
			if all := fmt.Sprint(w.db.HGetAll(t.Context(), key).Val()); strings.Contains(all, "PICTURE") {
				t.Error("the journal has the picture")
			}
		}
		time.Sleep(20 * second)
		same(t, "request", string(f.requests[0].Image), "PICTURE-BYTES")
		same(t, "solved", w.number("stats:"+string(s.ID), "solved"), "2")
		same(t, "ends", w.kinds(), "open open solved solved")
	})
}
