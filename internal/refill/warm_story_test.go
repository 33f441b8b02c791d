package refill

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// windows parses a list of warm windows in the YAML syntax of pools.yaml.
func windows(t testing.TB, list string) []targets.Warm {
	t.Helper()
	file := `providers: [{name: s, api: simulated}]
targets: {login: {type: recaptcha_v2, sitekey: k, pageurl: "https://example.com/", owner: qa@example.com, warm: ` + list + `}}`
	set, err := targets.Parse("pools.yaml", []byte(file), targets.References{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Targets[0].Warm
}

// The tokens of a warm window are ready when the window begins, but not long before. While the
// window runs, the tokens of the window are kept even if there are more of them than the depth.
func TestWarmWindow(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	t.Run("fixed", func(t *testing.T) { warmStory(t, target("login", 2), 2) })
	t.Run("adaptive", func(t *testing.T) { warmStory(t, learning("login", 2*warmTokens), 0) })
	t.Run("adaptive, more than the depth", func(t *testing.T) { warmStory(t, learning("login", 2), 0) })
}

const warmTokens = 6

// warmStory plays a window of a target that keeps `before` tokens outside the window.
func warmStory(t *testing.T, login targets.Target, before int) {
	const wanted = warmTokens
	play(t, 20, func(t *testing.T, w *scenario) {
		w.provider.lead = func() time.Duration { return 18 * time.Second }
		begins := time.Now().Truncate(time.Minute).Add(4 * time.Minute)
		login.Warm = windows(t, fmt.Sprintf(`[{cron: "%d * * * *", tokens: 6, for: 5m}]`, begins.Minute()))
		w.apply(login)
		w.after(time.Until(begins) - 45*time.Second)
		if n := w.held(login); n > 2*before {
			t.Errorf("%d held 45 s before the window", n)
		}
		if n := w.status("login"); n.Warm != 0 {
			t.Errorf("warm is %d before the window", n.Warm)
		}
		w.after(time.Until(begins) + 2*time.Second) // the last poll is up to 2 s late
		if n := w.fresh(login); n < wanted-before { // some tokens of the depth may be on order at this time
			t.Errorf("%d fresh when the window begins", n)
		}
		if n := w.status("login"); n.Warm != wanted || n.Want < wanted {
			t.Errorf("status in the window: %+v", n)
		}
		short := 0
		for range 280 {
			w.after(time.Second)
			if w.fresh(login) < wanted-1 {
				short++
			}
		}
		room := 28 // in seconds; one in five tokens is renewed a little late
		if login.Depth < wanted && login.Refill == targets.RefillAdaptive {
			room = 120 // without spare depth, each token is renewed only after it has expired
		}
		if short > room {
			t.Errorf("in %d seconds of 280 fewer than %d were fresh", short, wanted-1)
		}
		w.after(20*time.Second + 2*time.Minute)
		if n := w.held(login); n > 2*before {
			t.Errorf("%d held two minutes after the window", n)
		}
		if n := w.status("login"); n.Warm != 0 || n.Want != before {
			t.Errorf("status after the window: %+v", n)
		}
	})
}
