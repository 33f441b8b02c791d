// Command page takes the screenshots of the status page for README and docs. The screenshots show a
// daemon with some targets and an hour of history: in a light and a dark color scheme, on a phone,
// without scripts, with 300 targets, just after its start, and with problems. The command needs
// redis-server and chromium. With the file axe.min.js of axe-core, it also fails if axe-core finds
// a serious or critical problem on one of the pages.
//
//	go run ./scripts/page docs/img [axe.min.js]
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/httpapi/browsertest"
	"poold/internal/provider/simulated"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/page FOLDER [axe.min.js]")
		os.Exit(2)
	}
	axe := ""
	if len(os.Args) == 3 {
		text, err := os.ReadFile(os.Args[2]) //nolint:gosec // G703: the user chose the file
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		axe = string(text)
	}
	if err := run(context.Background(), os.Args[1], axe); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder, axe string) error {
	dir, err := build(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	browser, stop, err := browsertest.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	solver := simulated.Options{Median: 9 * time.Second, Min: 5 * time.Second, Max: 20 * time.Second, Sigma: 0.3, Threads: 60}
	solving, unused := httptest.NewServer(simulated.New(solver)), httptest.NewServer(simulated.New(solver))
	defer solving.Close()
	defer unused.Close()
	broke := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "ERROR_ZERO_BALANCE")
	}))
	defer broke.Close()
	base := scene{dir: dir, provider: solving.URL, browser: browser, folder: folder, axe: axe, targets: list, seeded: true}
	well, trouble, outage, large, empty := base, base, base, base, base
	well.settle = 20 * time.Second
	trouble.provider, trouble.settle = broke.URL, 8*time.Second
	outage.settle, outage.away = 8*time.Second, true
	large.settle, large.targets = 30*time.Second, many(300)
	empty.provider, empty.seeded = unused.URL, false
	for _, s := range []struct {
		scene
		shots []shot
	}{
		{well, []shot{
			{name: "status-light"}, {name: "status-dark", dark: true, query: "?open=checkout-pay#o-checkout-pay"},
			{name: "status-phone", width: 375, height: 812}, {name: "status-events", height: 700, query: "?tab=events"},
			{name: "status-money", height: 700, query: "?tab=money"}, {name: "status-action", height: 700, query: "?act=flush&of=checkout-pay"},
			{name: "status-noscript", scriptless: true},
		}},
		{trouble, []shot{{name: "status-trouble"}}},
		{outage, []shot{{name: "status-outage"}}},
		{large, []shot{{name: "status-many", width: 1366, height: 768}}},
		{empty, []shot{{name: "status-empty"}}},
	} {
		if err := s.shoot(ctx, s.shots...); err != nil {
			return err
		}
	}
	return nil
}

type shot struct {
	name          string
	width, height int64  // 0 = 1280, 900
	dark          bool   // the color scheme
	query         string // of the page's address
	scriptless    bool   // the page runs no scripts of its own
}

// scene is a daemon in a certain state, for screenshots.
type scene struct {
	dir, provider, folder string
	axe                   string // the script of axe-core; "" = no check by axe-core
	browser               *browsertest.Browser
	settle                time.Duration // wait before the screenshots, so that tokens land
	targets               []target
	seeded                bool // Redis has the counters of the last days
	away                  bool // Redis is stopped before the screenshots
}

func (s *scene) shoot(ctx context.Context, shots ...shot) error {
	store, stopStore, err := startRedis(ctx, s.dir)
	if err != nil {
		return err
	}
	defer stopStore()
	config := filepath.Join(s.dir, "pools.yaml")
	if err := os.WriteFile(config, []byte(file(s.provider, store, s.targets)), 0o600); err != nil {
		return err
	}
	if s.seeded {
		if err := seed(ctx, store, s.targets); err != nil {
			return err
		}
	}
	url, stopDaemon, err := startPoold(ctx, filepath.Join(s.dir, "poold"), config)
	if err != nil {
		return err
	}
	defer stopDaemon()
	asking, enough := context.WithCancel(ctx)
	defer enough()
	if s.seeded {
		go takeTokens(asking, url, s.targets)
	}
	time.Sleep(s.settle)
	if s.away {
		if err := get(ctx, url+"/status.json"); err != nil { // reads the figures that the page will show
			return err
		}
		stopStore()
		time.Sleep(5 * time.Second)
	}
	for _, picture := range shots {
		if err := s.take(url, picture); err != nil { //nolint:contextcheck // the browser has its own context
			return fmt.Errorf("%s: %w", picture.name, err)
		}
	}
	return nil
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (s *scene) take(url string, picture shot) error {
	page, closing, err := s.browser.Open()
	if err != nil {
		return err
	}
	defer closing()
	scheme := "light"
	if picture.dark {
		scheme = "dark"
	}
	if err := page.Look(cmp.Or(picture.width, 1280), cmp.Or(picture.height, 900), 1, scheme); err != nil {
		return err
	}
	if picture.scriptless {
		if err := page.DisableScripts(); err != nil {
			return err
		}
	}
	if err := page.Visit(url + "/status" + picture.query); err != nil {
		return err
	}
	time.Sleep(time.Second)
	png, err := page.Picture()
	if err != nil {
		return err
	}
	for _, trouble := range page.Troubles() {
		fmt.Println(picture.name, trouble)
	}
	if err := os.WriteFile(filepath.Join(s.folder, picture.name+".png"), png, 0o644); err != nil { //nolint:gosec // every user may read a picture
		return err
	}
	if s.axe == "" || picture.scriptless { // axe-core is a script, which this page would not run
		return nil
	}
	found, err := browsertest.Eval[string](page, s.axe+`
		;axe.run().then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
			.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes.map((n) => n.target + ' ' + n.failureSummary).slice(0, 3).join(' | ')).join('\n'))`)
	if err == nil && found != "" {
		err = errors.New(found)
	}
	return err
}

// target is one target of the screenshots.
type target struct {
	name, owner, more string
	depth             int
	perMinute         float64 // requests per minute in the hour before the screenshots
	every             time.Duration
	misses            float64
}

var list = []target{
	{"checkout-pay", "payments@example.com", "", 8, 14, 4 * time.Second, 0.02},
	{"checkout-voucher", "payments@example.com", "", 5, 3, 12 * time.Second, 0},
	{"staging-login", "identity@example.com", "", 6, 9, 7 * time.Second, 0.04},
	{"staging-signup", "identity@example.com", "refill: adaptive, hit_rate: 0.97,", 10, 6, 10 * time.Second, 0.03},
	{"password-reset", "identity@example.com", "refill: adaptive,", 6, 0, 0, 0},
	{"search-crawl", "search@example.com", "budget: {per_hour: 40},", 4, 2, 20 * time.Second, 0.2},
	{"newsletter", "marketing@example.com", "paused: true,", 3, 0.4, 0, 0.5},
	{"contact-form", "support@example.com", "", 3, 1, 40 * time.Second, 0},
	{"api-smoke", "qa@example.com", "type: turnstile,", 4, 4, 15 * time.Second, 0.01},
}

// many returns n targets of ten owners.
func many(n int) []target {
	targets := make([]target, n)
	for i := range targets {
		targets[i] = list[i%len(list)]
		targets[i].name = fmt.Sprintf("%s-%03d", targets[i].name, i)
		targets[i].owner = fmt.Sprintf("team-%d@example.com", i%10)
		targets[i].depth = 2
		targets[i].every *= 10
	}
	return targets
}

func file(provider, store string, list []target) string {
	var b strings.Builder
	fmt.Fprintf(&b, "redis: {url: %q}\n", "redis://"+store)
	fmt.Fprintf(&b, "providers:\n  - {name: 2captcha, protocol: in_php, profile: 2captcha, url: %q, key: picture-key, concurrency: 40, first_poll: 3s, poll_interval: 1s, price_per_1000: 1.20}\n", provider)
	b.WriteString("budget: {per_day: 20000}\ncurrency: $\nhistory: {backend: redis}\ntargets:\n")
	for _, t := range list {
		kind := "type: recaptcha_v2, "
		if strings.Contains(t.more, "type:") {
			kind = ""
		}
		fmt.Fprintf(&b, "  %s: {%ssitekey: %q, pageurl: %q, depth: %d, %s owner: %q}\n", t.name, kind, sitekey(t), pageurl(t), t.depth, t.more, t.owner)
	}
	return b.String()
}

func sitekey(t target) string { return "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_" + t.name[:4] }
func pageurl(t target) string { return "https://" + t.name + ".example.com/" }

// seed writes the counters of an hour and some days into Redis, in the format of package pool.
func seed(ctx context.Context, store string, list []target) error {
	client := redis.NewClient(&redis.Options{Addr: store})
	defer func() { _ = client.Close() }()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // pictures are public
	for _, t := range list {
		identity := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: sitekey(t), Pageurl: pageurl(t)}
		if strings.Contains(t.more, "turnstile") {
			identity.Type = captcha.Turnstile
		}
		key := func(kind string) string { return "{captcha}:" + kind + ":" + string(identity.ID()) }
		pipe, minute := client.Pipeline(), time.Now().Unix()/60
		var requests, misses int
		for i := range int64(60) {
			n := int(t.perMinute * (0.4 + 0.5*random.Float64() + 0.5*float64(60-i)/60))
			missed := 0
			for range n {
				if random.Float64() < t.misses {
					missed++
				}
			}
			requests, misses = requests+n, misses+missed
			at := fmt.Sprint((minute - i) % 60)
			pipe.HSet(ctx, key("minutes")+fmt.Sprint(":", (minute-i)/60), "hits"+at, n-missed, "missed"+at, missed, "bought"+at, n, "solved"+at, n)
		}
		hour := minute / 60
		note := func(list string, at int64, n, miss int) {
			pipe.RPush(ctx, key(list), fmt.Sprintf("%d|%d|0|%d|0|%d|%d|0|0|%d|%d", at, n-miss, miss, n+n/20, n, n/20, n*1_200_000))
		}
		for back, of := range []int{34, 24, 14, 6} {
			note("days", 24*(hour/24-int64(back)), of*requests, of*misses)
		}
		for back := range 24 {
			note("hours", hour-int64(back), (40-back)*requests+int(float64(requests)/2*random.Float64()), (40-back)*misses)
		}
		n, miss, leads := 41*requests, 41*misses, make([]string, 20)
		for i := range leads {
			leads[i] = fmt.Sprint(7000 + random.IntN(9000))
		}
		pipe.HSet(ctx, key("stats"), "hits", n-miss, "missed", miss, "bought", n+n/20, "solved", n, "expired", n/20, "spent", n*1_200_000, "hour", hour,
			"leads", strings.Join(leads, ","))
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// takeTokens takes tokens of each target at the given interval until ctx ends.
func takeTokens(ctx context.Context, url string, list []target) {
	for _, t := range list {
		if t.every == 0 {
			continue
		}
		go func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pool/"+t.name+"/token", nil)
				if err != nil {
					return
				}
				if answer, err := http.DefaultClient.Do(request); err == nil {
					_ = answer.Body.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(t.every):
				}
			}
		}()
	}
}
