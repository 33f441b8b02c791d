package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// env makes a lookup of fixed variables.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// minimal is the smallest good file; extra lines belong to its target.
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

func mustParse(t *testing.T, text string, lookup func(string) (string, bool)) *Set {
	t.Helper()
	set, err := Parse("pools.yaml", []byte(text), lookup)
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

// Every key that this version knows arrives where it belongs.
func TestEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/good-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := mustParse(t, string(data), environment(data))

	if got, want := set.Server, (Server{
		Listen: "0.0.0.0:9443", TLS: TLS{"cert.pem", "key.pem"}, BodyBudget: 1 << 30,
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
			Warm: []Warm{warm(t, "55 8 * * 1-5", 10, "30m")}},
		{Name: "turnstile", Identity: captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA",
			Pageurl: "https://staging.example.com/t", Data: "42"},
			Depth: 4, Lifetime: 200 * time.Second, Margin: 50 * time.Second, OnEmpty: OnEmptyFail, Rate: Rate{30, time.Minute},
			Refill: RefillAdaptive, Min: 1, HitRate: 0.9, MaxWaste: 10, Budget: Budget{20, 0}, Owner: "qa@example.com", Line: 38,
			Warm: []Warm{warm(t, "CRON_TZ=Europe/Berlin  0 7-9,22 * * mon-FRI", 30, "45m"), warm(t, "@Weekly", 2, "24h")}},
		{Name: "v3", Identity: captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "12345", Pageurl: "https://staging.example.com/v3",
			Enterprise: true, Action: "${literal} and $5", MinScore: 0.3, Proxy: "other.example.com:1", ProxyType: "http"},
			Depth: 0, Lifetime: 90 * time.Second, Margin: 0, OnEmpty: OnEmptyWait, Rate: Rate{0.5, time.Second},
			Refill: RefillFixed, HitRate: 0.97, MaxWaste: 4, IdleAfter: 20 * time.Minute, Budget: Budget{50, 500}, Owner: "someone@example.com", Paused: true, Line: 14},
	}
	for i := range want {
		want[i].ID = want[i].Identity.ID()
	}
	if !reflect.DeepEqual(set.Targets, want) {
		t.Errorf("targets:\n%+v\nwant:\n%+v", set.Targets, want)
	}
	if got, want := warnings(set), `pools.yaml:14: targets.v3.depth: 0 keeps nothing ready: a token is bought only once a caller waits for it
pools.yaml:38: targets.turnstile.depth: is inherited (4): with refill: adaptive it is the most ever kept and on order, so say how many that shall be
pools.yaml:86: providers.third.url: http sends the account's key unencrypted: use https
pools.yaml:86: providers.third: the key is empty, so this provider is left out: set EMPTY
pools.yaml:96: server.callback_secrets[1]: the secret is empty, so it is left out: set EMPTY
pools.yaml:101: server.keys.ci.targets[1]: no target matches this
pools.yaml:107: server.keys.absent: the key is empty, so this entry is left out: set EMPTY
pools.yaml:109: solve: no key of server.keys has the scope solve, so nobody may ask
pools.yaml:113: solve.budget.per_day: is above the overall budget (30000 of 20000), which stops everything first
`; got != want {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, want)
	}
}

// Absent keys have the documented defaults.
func TestDefaults(t *testing.T) {
	set := mustParse(t, minimal(), nil)
	if got, want := set.Server, (Server{Listen: "127.0.0.1:8080", BodyBudget: 256 << 20}); !reflect.DeepEqual(got, want) {
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
		if got := mustParse(t, text, nil).Targets[0].Usable(); got != usable {
			t.Errorf("%s: usable %s, want %s", kind, got, usable)
		}
	}
}

// A target beats the defaults, they beat the types, and those the built-in life.
func TestLifetimePrecedence(t *testing.T) {
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
		got := mustParse(t, tc.text, nil).Targets[0]
		if got.Lifetime != tc.lifetime || got.Margin != tc.margin {
			t.Errorf("%s: %s less %s, want %s less %s", tc.name, got.Lifetime, got.Margin, tc.lifetime, tc.margin)
		}
	}
}

func TestReferences(t *testing.T) {
	lookup := env("SET", "value", "EMPTY", "", "BRACES", "${SET}")
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
		{"${BRACES}", "${SET}", ""}, // what the environment gives is not read again
		{"$${SET}", "${SET}", ""},
		{"$$${SET}", "$${SET}", ""},
		{"$${", "${", ""},
		{"${UNSET}", "", "the environment variable UNSET is not set: set it, or write ${UNSET:-default}"},
		{"${SET", "", "a reference is not closed: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"},
		{"${}", "", "this is no reference: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"},
		{"${1A}", "", "this is no reference: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"},
		{"${A-b}", "", "this is no reference: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"},
		{"${A:-${B}}", "", "references do not nest: the default of one cannot be another"},
	} {
		got, problem := expand(tc.text, lookup)
		if problem != tc.problem || problem == "" && got.text != tc.want {
			t.Errorf("%q: %q, %q; want %q, %q", tc.text, got.text, problem, tc.want, tc.problem)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for _, tc := range []struct {
		listen string
		keys   int
		want   error
	}{
		{"127.0.0.1:8080", 0, nil},
		{"127.8.8.8:0", 0, nil},
		{"[::1]:8080", 0, nil},
		{"[::ffff:127.0.0.1]:8080", 0, nil},
		{"localhost:8080", 0, nil},
		{":8080", 0, errOpenWithoutKeys},
		{"0.0.0.0:8080", 0, errOpenWithoutKeys},
		{"[::]:8080", 0, errOpenWithoutKeys},
		{"192.0.2.1:8080", 0, errOpenWithoutKeys},
		{"localhost.example.com:8080", 0, errOpenWithoutKeys},
		{"127.0.0.1.example.com:8080", 0, errOpenWithoutKeys},
		{"0:8080", 0, errOpenWithoutKeys},
		{"2130706433:8080", 0, errOpenWithoutKeys},
		{":8080", 1, nil},
		{"host.example.com:443", 1, nil},
		{"127.0.0.1", 1, errListenForm},
		{"127.0.0.1:", 1, errListenForm},
		{"127.0.0.1:http", 1, errListenForm},
		{"127.0.0.1:65536", 1, errListenForm},
		{"127.0.0.1:+1", 1, errListenForm},
		{"", 1, errListenForm},
	} {
		if got := CheckListen(tc.listen, tc.keys); !errors.Is(got, tc.want) {
			t.Errorf("%q with %d keys: %v, want %v", tc.listen, tc.keys, got, tc.want)
		}
	}
}

// The choice between real, listed simulated and built-in simulated providers.
func TestProviderChoice(t *testing.T) {
	const redis = "redis: {url: 'redis://redis.example.com:6379'}\n"
	real := func(key string) string {
		return "  - {name: acme, url: 'https://solver.example.com', key: '" + key + "'}\n"
	}
	const listed = "  - {name: own, api: simulated, concurrency: 3, key: ignored}\n"
	file := func(redis, providers string) string {
		_, targets, _ := strings.Cut(minimal(), "targets:\n")
		return redis + "providers:\n" + providers + "targets:\n" + targets
	}
	for _, tc := range []struct {
		name, text, provider string
		api                  API
		warning              string
	}{
		{"real, embedded", file("", real("k")), "acme", APILegacy, "the embedded Redis keeps nothing over a restart"},
		{"real beats listed", file("", listed+real("k")), "acme", APILegacy, "providers.own: is not used, because a real provider has a key"},
		{"listed where no real is left", file("", real("")+listed), "own", APISimulated, "providers.own: tokens are simulated"},
		{"listed alone with Redis", file(redis, listed), "own", APISimulated, "providers.own.key: is not used with api: simulated"},
		{"built in", file("", real("")), "simulated", APISimulated, "no site accepts its tokens"},
		{"built in for an empty list", file("", ""), "simulated", APISimulated, "no site accepts its tokens"},
		{"built in without a list", strings.Replace(file("", ""), "providers:\n", "", 1), "simulated", APISimulated, "no site accepts its tokens"},
	} {
		set := mustParse(t, tc.text, nil)
		if len(set.Providers) != 1 || set.Providers[0].Name != tc.provider || set.Providers[0].API != tc.api {
			t.Errorf("%s: providers %+v", tc.name, set.Providers)
		}
		if got := warnings(set); !strings.Contains(got, tc.warning) {
			t.Errorf("%s: warnings\n%s\nwant one with %q", tc.name, got, tc.warning)
		}
	}
}

// What is unusual for a vendor is warned about and accepted.
func TestUnusual(t *testing.T) {
	base := strings.Replace(minimal(), "key: k1", "key: k1, profile: captchaai, poll_interval: 100ms", 1)
	set := mustParse(t, strings.Replace(base, "recaptcha_v2", "hcaptcha", 1)+"    lifetime: 1h\n", nil)
	got := warnings(set)
	for _, want := range []string{
		"pools.yaml:4: targets.login.lifetime: is unusually long: hcaptcha tokens are dead after 2m",
		"pools.yaml:4: targets.login.type: captchaai does not list hcaptcha among what it solves",
		"pools.yaml:2: providers.acme.poll_interval: services ask for seconds between two polls and ban who polls faster",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no warning %q in\n%s", want, got)
		}
	}
	if set.Targets[0].Lifetime != time.Hour || set.Providers[0].PollInterval != 100*time.Millisecond {
		t.Error("the unusual values were not taken")
	}
}

func shipped(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The shipped file works unchanged, and three variables make it production.
func TestShippedFile(t *testing.T) {
	data := shipped(t)
	set, err := Parse("pools.yaml", data, env())
	if err != nil {
		t.Fatal(err)
	}
	if !set.Redis.Embedded() || len(set.Providers) != 1 || set.Providers[0].API != APISimulated || len(set.Server.Keys) != 0 {
		t.Errorf("with an empty environment: %+v", set)
	}
	if len(set.Targets) < 2 {
		t.Errorf("%d targets", len(set.Targets))
	}
	for _, target := range set.Targets {
		if target.Depth < 1 || target.Paused || !strings.Contains(target.Identity.Pageurl, "example.com/") {
			t.Errorf("target %+v is not warm from the start or not an example", target)
		}
	}

	set, err = Parse("pools.yaml", data, env("REDIS_URL", "redis://redis.example.com:6379", "CAPTCHAAI_API_KEY", "k", "POOLD_KEY", "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if set.Redis.Embedded() || len(set.Providers) != 1 || set.Providers[0].API != APILegacy ||
		set.Providers[0].Profile != "captchaai" || len(set.Server.Keys) != 1 {
		t.Errorf("in production: %+v", set)
	}
	if len(set.Warnings) != 0 {
		t.Errorf("in production it warns:\n%s", warnings(set))
	}
	if _, err := Parse("pools.yaml", data, env("REDIS_URL", "redis://redis.example.com:6379")); err == nil ||
		!strings.Contains(err.Error(), "set CAPTCHAAI_API_KEY") {
		t.Errorf("with a real Redis and no provider: %v", err)
	}
}

// Every key that Parse knows is explained in the shipped file.
func TestShippedFileNamesEveryKey(t *testing.T) {
	data := shipped(t)
	known := fieldsOf(pools)
	if len(known) < 60 {
		t.Fatalf("the table has only %d keys", len(known))
	}
	for _, f := range known {
		if !strings.Contains(string(data), f.key+":") {
			t.Errorf("the shipped pools.yaml does not show %s", f.key)
		}
		if f.doc == "" || strings.Contains(f.doc, "\n") || !strings.HasSuffix(f.doc, ".") {
			t.Errorf("%s is not explained in one line: %q", f.key, f.doc)
		}
	}
}

// The defaults that the shipped file names are those of the table.
func TestShippedFileNamesDefaults(t *testing.T) {
	data := shipped(t)
	named := regexp.MustCompile(`(?m)^[ #]*([a-z0-9_]+): .*[Dd]efault ([0-9][0-9a-z.]*|true|false|captcha)\b`).FindAllStringSubmatch(string(data), -1)
	if len(named) < 10 {
		t.Fatalf("the shipped file names only %d defaults", len(named))
	}
	for _, m := range named {
		key, value := m[1], strings.TrimRight(m[2], ".")
		d, _ := time.ParseDuration(value)
		if !slices.ContainsFunc(fieldsOf(pools), func(f field) bool {
			if f.key != key || !f.preset.IsValid() {
				return false
			}
			preset := f.preset.Interface()
			return fmt.Sprint(preset) == value || preset == d
		}) {
			t.Errorf("the shipped file gives %s the default %s, the table does not", key, value)
		}
	}
}

// fieldsOf are those of a kind and of all kinds inside it.
func fieldsOf(k kind) (fields []field) {
	switch k := k.(type) {
	case section:
		for _, f := range k.fields {
			fields = append(append(fields, f), fieldsOf(f.kind)...)
		}
	case list:
		return fieldsOf(k.item)
	case mapping:
		return fieldsOf(k.item)
	case numberOr:
		return fieldsOf(k.section)
	}
	return fields
}

// A key below 8 characters is refused, one below 16 causes a warning. The length of a
// hashed key is unknown. No message quotes a key.
func TestShortKeys(t *testing.T) {
	const (
		refused = "pools.yaml:4: server.keys.ci.key: must be at least 8 characters long, or it can be guessed: make one with `openssl rand -hex 16`"
		warned  = "pools.yaml:4: server.keys.ci.key: is shorter than 16 characters and may be guessed: make one with `openssl rand -hex 16`\n"
	)
	for _, tc := range []struct{ key, err, warning string }{
		{key: "key: x", err: refused},
		{key: "key: hunter2", err: refused},
		{key: "key: ${KEY:-hunter2}", err: refused},
		{key: "key: hunter22", warning: warned},
		{key: "key: hunter2-hunter2", warning: warned},
		{key: "key: hunter2-hunter22"},
		{key: "key_sha256: " + hex.EncodeToString(hashOf("x"))},
	} {
		set, err := Parse("pools.yaml", []byte("server:\n  keys:\n    - name: ci\n      "+tc.key+"\n      scopes: [token]\n"+minimal()), nil)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s: %v", tc.key, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.key, err)
			continue
		}
		if got := warnings(set); strings.Contains(got, "server.keys") != (tc.warning != "") || !strings.Contains(got, tc.warning) {
			t.Errorf("%s: warnings\n%s", tc.key, got)
		}
	}
}

func hashOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
