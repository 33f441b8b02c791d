package refill

import (
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/targets"
)

// windows reads warm windows as a file has them.
func windows(t testing.TB, list string) []targets.Warm {
	t.Helper()
	file := `providers: [{name: s, api: simulated}]
targets: {login: {type: recaptcha_v2, sitekey: k, pageurl: "https://example.com/", owner: qa@example.com, warm: ` + list + `}}`
	set, err := targets.Parse("pools.yaml", []byte(file), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return set.Targets[0].Warm
}

// A calendar tells what the windows want that run or begin within the lead time,
// and until when that holds.
func TestCalendar(t *testing.T) {
	day := time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC) // a Monday
	c := &calendar{
		windows: windows(t, `[{cron: "55 8 * * 1-5", tokens: 10, for: 30m}, {cron: "0 9 * * *", tokens: 4, for: 1h}]`),
		posted:  []pool.Window{{Tokens: 7, In: time.Hour, Left: 2 * time.Hour}},
		read:    day.Add(11 * time.Hour),
	}
	const lead = 20 * time.Second
	cases := []struct {
		at     time.Duration // since midnight
		tokens int
		change time.Duration
	}{
		{8 * time.Hour, 0, 55*time.Minute - lead},
		{8*time.Hour + 54*time.Minute + 40*time.Second, 10, 5 * time.Minute}, // a lead time before each
		{9 * time.Hour, 10, 25 * time.Minute},                                // both run
		{9*time.Hour + 25*time.Minute, 4, 35 * time.Minute},
		{10 * time.Hour, 0, 2*time.Hour - lead}, // the posted one is next
		{12*time.Hour - lead, 7, time.Hour + lead},
		{12*time.Hour + 59*time.Minute, 7, time.Minute},
		{13 * time.Hour, 0, 19*time.Hour + 55*time.Minute - lead},
		{8 * time.Hour, 0, 55*time.Minute - lead}, // the clock is put back
	}
	for _, x := range cases {
		if tokens, change := c.at(day.Add(x.at), lead); tokens != x.tokens || change != x.change {
			t.Errorf("at %v: %d tokens for %v, want %d for %v", x.at, tokens, change, x.tokens, x.change)
		}
	}
	// A lead time that turns out shorter does not take back what has begun.
	began := day.Add(32 * time.Hour)
	if tokens, _ := c.at(began, time.Hour); tokens != 10 {
		t.Errorf("an hour before: %d tokens", tokens)
	}
	if tokens, _ := c.at(began.Add(time.Second), lead); tokens != 10 {
		t.Errorf("then: %d tokens", tokens)
	}
	var none *calendar
	if tokens, change := none.at(day, lead); tokens != 0 || change != Never {
		t.Errorf("without windows: %d for %v", tokens, change)
	}
}

// A warm window has its tokens ready when it begins, not long before, keeps them
// while it runs, beyond depth too, and afterwards lets them go; for both ways of
// refilling, from the file and by POST.
func TestWarmWindow(t *testing.T) {
	for _, kind := range []targets.Refill{targets.RefillFixed, targets.RefillAdaptive} {
		for _, posted := range []bool{false, true} {
			name := string(kind) + map[bool]string{false: ", file", true: ", posted"}[posted]
			t.Run(name, func(t *testing.T) { warmStory(t, kind, posted) })
		}
	}
}

func warmStory(t *testing.T, kind targets.Refill, posted bool) {
	const wanted = 6
	play(t, 20, func(t *testing.T, w *world) {
		w.market.lead = func() time.Duration { return 18 * time.Second }
		login, before := learning("login", 2*wanted), 0
		if posted {
			login.Depth = 2 // the window's tokens beat it
		}
		if kind == targets.RefillFixed {
			login, before = target("login", 2), 2
		}
		begins := time.Now().Truncate(time.Hour).Add(10 * time.Minute)
		if posted {
			window := pool.Window{Tokens: wanted, In: time.Until(begins), Left: time.Until(begins) + 5*time.Minute}
			if err := w.elsewhere.Warm(t.Context(), login.ID, window, pool.WindowLimit{}); err != nil {
				t.Fatal(err)
			}
		} else {
			login.Warm = windows(t, `[{cron: "10 * * * *", tokens: 6, for: 5m}]`)
		}
		w.apply(login)
		w.after(time.Until(begins) - 45*time.Second)
		if n := w.held(login); n > 2*before {
			t.Errorf("%d held 45 s before the window", n)
		}
		if n := w.note("login"); n.Warm != 0 {
			t.Errorf("warm is %d before the window", n.Warm)
		}
		w.after(time.Until(begins) + time.Second)   // the last poll is up to a second late
		if n := w.fresh(login); n < wanted-before { // of the fixed ones some may just be replaced
			t.Errorf("%d fresh when the window begins", n)
		}
		if n := w.note("login"); n.Warm != wanted || n.Want < wanted {
			t.Errorf("note in the window: %+v", n)
		}
		short := 0
		for range 280 {
			w.after(time.Second)
			if w.fresh(login) < wanted-1 {
				short++
			}
		}
		room := 28 // seconds: one in five tokens is renewed a little late
		if login.Depth < wanted && kind == targets.RefillAdaptive {
			room = 120 // where depth leaves none, each is renewed after it died
		}
		if short > room {
			t.Errorf("in %d seconds of 280 fewer than %d were fresh", short, wanted-1)
		}
		w.after(20*time.Second + 2*time.Minute)
		if n := w.held(login); n > 2*before {
			t.Errorf("%d held two minutes after the window", n)
		}
		if n := w.note("login"); n.Warm != 0 || n.Want != before {
			t.Errorf("note after the window: %+v", n)
		}
	})
}

// A truthful hint is worth much to a job that comes every ten minutes.
func TestWarmHelpsAJob(t *testing.T) {
	s := Simulation{Knobs: usual(), Arrivals: trace(t, "cron10")}
	without := simulated(t, s)
	s.Warm = windows(t, `[{cron: "*/10 * * * *", tokens: 30, for: 1s}]`)
	first := s.Arrivals[0]
	for i := range s.Arrivals { // the trace's first time is a whole ten minutes
		s.Arrivals[i] += 600 - first + 3
	}
	with := simulated(t, s)
	t.Logf("with %.4f hits, %.3f waste; without %.4f, %.3f", with.HitRate, with.WastePerRequest, without.HitRate, without.WastePerRequest)
	if with.HitRate < 0.99 {
		t.Error("too few hits")
	}
}
