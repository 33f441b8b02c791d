package targets

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// lookupOf returns references to fixed variables.
func lookupOf(pairs ...string) References {
	return References{Variable: func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}}
}

// minimal returns the smallest valid file. The extra lines belong to the target.
func minimal(extra ...string) string {
	lines := ""
	for _, line := range extra {
		lines += "    " + line + "\n"
	}
	return `providers:
  - {name: acme, url: "https://solver.example.com", key: k1}
targets:
  login:
    type: recaptcha_v2
    sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI
    pageurl: https://staging.example.com/login
    owner: qa@example.com
` + lines
}

func mustParse(t *testing.T, text string, refs References) *Set {
	t.Helper()
	set, err := Parse("pools.yaml", []byte(text), refs)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return set
}

func warnings(s *Set) string {
	var b strings.Builder
	for _, w := range s.Warnings {
		fmt.Fprintln(&b, w)
	}
	return b.String()
}

func TestParseReadsEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/good-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := mustParse(t, string(data), environment(data))

	if got, want := set.Server, (Server{
		Listen: "0.0.0.0:9443", TLS: TLS{Cert: "cert.pem", Key: "key.pem"}, Connections: 4096,
		Keys: []Key{
			{Name: "ci", SHA256: sha256.Sum256([]byte("bearer-of-ci-0123")), Scopes: []Scope{ScopeToken, ScopeStatus},
				Targets: []string{"a*", "nothing-*"}, Rate: Rate{50, time.Second}},
			{Name: "hashed", SHA256: sha256.Sum256([]byte("test")), Scopes: []Scope{ScopeAdmin}},
		},
		CallbackSecrets: []captcha.Secret{"exactly-16-chars", "a secret of last year"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("server:\n%+v\nwant:\n%+v", got, want)
	}
	if got, want := set.Redis, (Redis{
		URL:    "rediss://user:secret@a.example.com:6379,rediss://b.example.com:6379",
		Prefix: "test:x",
	}); got != want || got.Embedded() {
		t.Errorf("redis: %q %+v", got.URL.Reveal(), got)
	}
	if got, want := set.Providers, []Provider{
		{Name: "first", API: APITasks, Profile: "2captcha", URL: "https://solver.example.com/base", Key: "bearer-of-ci-0123", Concurrency: 7,
			FirstPoll: 10 * time.Second, PollInterval: 3 * time.Second, Timeout: 2 * time.Minute, Balance: true,
			CallbackURL: "https://pools.example.com/captcha", FallbackAfter: 40 * time.Second,
			Price: Prices{Turnstile: Costs(1.2), RecaptchaV2: Costs(2.99)}, Line: 71},
		{Name: "second", API: APILegacy, Profile: "generic", URL: "http://127.0.0.1:9", Key: "bearer-of-ci-0123", Concurrency: 7,
			Timeout: 3 * time.Minute, CallbackDelay: 10 * time.Second,
			Price: Prices{Costs(0.5), Costs(0.5), Costs(0.5), Costs(0.5), Costs(0.5), Costs(0.5), Costs(0.5)}, Line: 85},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("providers:\n%+v\nwant:\n%+v", got, want)
	}
	if set.Budget != (Budget{PerDay: 20000}) || set.DeadLetters != "/var/lib/poold/letters" {
		t.Errorf("budget %+v, dead letters in %s", set.Budget, set.DeadLetters)
	}
	if got, want := set.Solve, (&Solve{
		Owner: "qa@example.com", Images: true, Budget: Budget{20, 30000}, Rate: Rate{5, time.Minute},
		Pages: []page{{"https", "staging.example.com", "443", "/*"}, {"http", "*.example.com", "*", "/a*/b"}}, Sitekeys: []string{"6Le*", "*-test"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("solve:\n%+v\nwant:\n%+v", got, want)
	}
	if got, want := set.Dedup, (Dedup{DedupPostgres, "postgresql://poold:secret@db.example.com/poold"}); got != want {
		t.Errorf("dedup: %q %+v", got.URL.Reveal(), got)
	}
	if got, want := set.History, (History{
		Backend: HistoryDynamoDB, Keep: 240 * time.Hour, Audit: 48 * time.Hour, Table: "Solves.staging", Endpoint: "http://127.0.0.1:8000", Region: "eu-central-1", ActiveItems: true,
	}); got != want {
		t.Errorf("history: %+v", got)
	}
	want := []Target{
		{Name: "a.b-c_1", Identity: captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI",
			Pageurl: "https://staging.example.com/login?next=/home", Invisible: true, UserAgent: "Mozilla/5.0 (X11)",
			Proxy: "user:secret@proxy.example.com:3128", ProxyType: "socks5"},
			Depth: 4, Lifetime: 120 * time.Second, Margin: 40 * time.Second, OnEmpty: OnEmptyFail, Rate: Rate{30, time.Minute},
			Refill: RefillFixed, HitRate: 0.97, MaxWaste: 4, IdleAfter: 20 * time.Minute, Budget: Budget{20, 500}, Owner: "qa@example.com", Line: 30,
			Warm: []Warm{parseWarm(t, "55 8 * * 1-5", 10, "30m")}},
		{Name: "turnstile", Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA",
			Pageurl: "https://staging.example.com/t", Data: "42"},
			Depth: 4, Lifetime: 200 * time.Second, Margin: 50 * time.Second, OnEmpty: OnEmptyFail, Rate: Rate{30, time.Minute},
			Refill: RefillAdaptive, Min: 1, HitRate: 0.9, MaxWaste: 10, Budget: Budget{20, 0}, Owner: "qa@example.com", Line: 38,
			Warm: []Warm{parseWarm(t, "CRON_TZ=Europe/Berlin  0 7-9,22 * * mon-FRI", 30, "45m"), parseWarm(t, "@Weekly", 2, "24h")}},
		{Name: "v3", Identity: captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "12345", Pageurl: "https://staging.example.com/v3",
			Enterprise: true, Action: "${literal} and $5", MinScore: 0.3, Proxy: "other.example.com:1", ProxyType: "http"},
			Depth: 0, Lifetime: 90 * time.Second, Margin: 0, OnEmpty: OnEmptyWait, Rate: Rate{0.5, time.Second},
			Refill: RefillFixed, HitRate: 0.97, MaxWaste: 4, IdleAfter: 20 * time.Minute, Budget: Budget{50, 500}, Owner: "someone@example.com", Paused: true, Line: 14},
	}
	for i := range want {
		want[i].ProvidersPolicy = ProvidersOrdered
		want[i].ID = want[i].Identity.ID()
	}
	if !reflect.DeepEqual(set.Targets, want) {
		t.Errorf("targets:\n%+v\nwant:\n%+v", set.Targets, want)
	}
	if got, want := warnings(set), `pools.yaml:14: targets.v3.depth: 0 keeps nothing ready: a token is bought only once a caller waits for it
pools.yaml:38: targets.turnstile.depth: is inherited (4): with refill: adaptive it limits the tokens kept and on order, so set it in the target
pools.yaml:86: providers.third.url: http sends the account's key unencrypted: use https
pools.yaml:86: providers.third: the key is empty, so this provider is left out: set EMPTY
pools.yaml:95: server.callback_secrets[1]: the secret is empty, so it is left out: set EMPTY
pools.yaml:100: server.keys.ci.targets[1]: no target matches this
pools.yaml:106: server.keys.absent: the key is empty, so this entry is left out: set EMPTY
pools.yaml:108: solve: no key of server.keys has the scope solve, so every request is refused: give one of them the scope
pools.yaml:112: solve.budget.per_day: exceeds the overall budget (30000 of 20000), which ends all purchases first
`; got != want {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, want)
	}
}

// Absent keys have the documented defaults.
func TestParseFillsInDefaults(t *testing.T) {
	set := mustParse(t, minimal(), References{})
	if got, want := set.Server, (Server{Listen: "127.0.0.1:8080", Connections: 4096}); !reflect.DeepEqual(got, want) {
		t.Errorf("server %+v", got)
	}
	if got, want := set.Redis, (Redis{URL: "embedded", Prefix: "captcha"}); got != want || !got.Embedded() {
		t.Errorf("redis %+v", got)
	}
	if got, want := set.Providers[0], (Provider{Name: "acme", API: APILegacy, Profile: "generic", URL: "https://solver.example.com",
		Key: "k1", Concurrency: 20, Timeout: 180 * time.Second, CallbackDelay: 10 * time.Second, Line: 2}); got != want {
		t.Errorf("provider %+v", got)
	}
	if set.Budget != (Budget{}) || set.DeadLetters != "./dead-letters" {
		t.Errorf("budget %+v, dead letters in %s", set.Budget, set.DeadLetters)
	}
	target := set.Targets[0]
	if target.Budget != (Budget{}) {
		t.Errorf("target %+v has a budget", target)
	}
	if target.Depth != 5 || target.OnEmpty != OnEmptyFail || target.Rate != (Rate{}) || target.Usable() != 80*time.Second || target.Paused ||
		target.Refill != RefillFixed || target.Min != 0 || target.HitRate != 0.97 || target.MaxWaste != 3 || target.IdleAfter != 0 {
		t.Errorf("target %+v", target)
	}
	for kind, usable := range map[captcha.Type]time.Duration{
		captcha.RecaptchaV2: 80 * time.Second, captcha.RecaptchaV3: 80 * time.Second,
		captcha.HCaptcha: 80 * time.Second, captcha.Turnstile: 250 * time.Second,
	} {
		text := strings.Replace(minimal(), "type: recaptcha_v2", "type: "+string(kind), 1)
		if got := mustParse(t, text, References{}).Targets[0].Usable(); got != usable {
			t.Errorf("%s: usable %s, want %s", kind, got, usable)
		}
	}
}

// The lifetime comes from the target, the defaults, the types or the built-in values, in this
// order.
func TestTargetLifetimeOverridesDefaultsAndTypes(t *testing.T) {
	const types = "types: {recaptcha_v2: {lifetime: 100s, margin: 10s}}\n"
	const defaults = "defaults: {lifetime: 90s, margin: 0s}\n"
	for _, tc := range []struct {
		name, text       string
		lifetime, margin time.Duration
	}{
		{"built in", minimal(), 120 * time.Second, 40 * time.Second},
		{"type", types + minimal(), 100 * time.Second, 10 * time.Second},
		{"defaults", types + defaults + minimal(), 90 * time.Second, 0},
		{"target", types + defaults + minimal("lifetime: 80s", "margin: 5s"), 80 * time.Second, 5 * time.Second},
		{"target in part", types + minimal("margin: 0s"), 100 * time.Second, 0},
	} {
		got := mustParse(t, tc.text, References{}).Targets[0]
		if got.Lifetime != tc.lifetime || got.Margin != tc.margin {
			t.Errorf("%s: %s less %s, want %s less %s", tc.name, got.Lifetime, got.Margin, tc.lifetime, tc.margin)
		}
	}
}

func TestExpandReplacesReferences(t *testing.T) {
	lookup := lookupOf("SET", "value", "EMPTY", "", "BRACES", "${SET}")
	for _, tc := range []struct{ text, want, problem string }{
		{"plain", "plain", ""},
		{"", "", ""},
		{"$", "$", ""},
		{"$SET", "$SET", ""},
		{"${SET}", "value", ""},
		{"a${SET}b${SET}c", "avaluebvaluec", ""},
		{"${EMPTY}", "", ""},
		{"${EMPTY:-x}", "x", ""},
		{"${UNSET:-x}", "x", ""},
		{"${UNSET:-}", "", ""},
		{"${SET:-x}", "value", ""},
		{"${UNSET:-a:-b}", "a:-b", ""},
		{"${UNSET:-$5}", "$5", ""},
		{"${BRACES}", "${SET}", ""}, // references in the value of a variable are not replaced
		{"$${SET}", "${SET}", ""},
		{"$$${SET}", "$${SET}", ""},
		{"$${", "${", ""},
		{"${UNSET}", "", "the environment variable UNSET is not set: set it, or write ${UNSET:-default}"},
		{"${SET", "", "a reference is not closed: write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"},
		{"${}", "", "invalid reference: write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"},
		{"${1A}", "", "invalid reference: write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"},
		{"${A-b}", "", "invalid reference: write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"},
		{"${A:-${B}}", "", "references do not nest: the default of one cannot be another"},
	} {
		got, problem := expand(tc.text, lookup)
		if problem != tc.problem || problem == "" && got.text != tc.want {
			t.Errorf("%q: %q, %q; want %q, %q", tc.text, got.text, problem, tc.want, tc.problem)
		}
	}
}

// BenchmarkParse parses a file with 10,000 targets.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("providers:\n  - {name: acme, url: 'https://solver.example.com', key: k1}\ndefaults: {owner: qa@example.com, budget: {per_day: 500}}\ntargets:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "  login-%d:\n    type: turnstile\n    sitekey: 1x00000000000000000000AA\n    pageurl: https://staging.example.com/login/%d\n    depth: %d\n    lifetime: 200s\n", i, i, i%50+1)
	}
	data := []byte(text.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("pools.yaml", data, References{}); err != nil {
			b.Fatal(err)
		}
	}
}
