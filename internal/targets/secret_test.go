package targets

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// No problem and no warning contains a secret. The secret may be literal, from the environment, in
// a value of the wrong kind, or in a line that is not YAML.
func TestNoSecretInAnyProblem(t *testing.T) {
	testkit.WithoutRace(t)
	const secret = "CANARY"
	places := []string{
		"server: {keys: [{name: ci, scopes: [token], key: %s}]}\n",
		"server: {keys: [{name: ci, scopes: [token], key_sha256: %s}]}\n",
		"redis: {url: %s}\n",
		"extra: [{name: beta, url: 'https://solver.example.com', key: %s}]\n",
		"extra: [{name: beta, key: k, url: %s}]\n",
		"extra: [{name: beta, key: k, url: 'https://solver.example.com', callback_url: %s}]\n",
		"server: {callback_secrets: [%s]}\n",
		"server: {callback_secrets: ['a-secret-of-some-length', %s]}\n",
		"server: {callback_secrets: %s}\n",
		"defaults: {proxy: %s}\n",
		"dedup: {backend: postgres, url: %s}\n",
		"dedup: {url: %s}\n",
		"history: {backend: postgres, url: %s}\n",
		"history: {url: %s}\n",
		"history: {backend: dynamodb, endpoint: %s, url: %[1]s}\n",
		"solve: {owner: o, budget: {per_day: 1}, pages: ['https://a.example/*'], url: %s}\n",
		"defaults: {proxy_type: http, proxy: %s}\n",
	}
	values := []string{
		secret, `"` + secret + `"`, `" ` + secret + `"`, `"` + secret + `\n"`, "*" + secret, "&" + secret, "!" + secret, "!!int " + secret,
		"@" + secret, "%" + secret, "`" + secret, "[" + secret + "]", "{" + secret + ": 1}", "{a: " + secret, `"` + secret, "'" + secret,
		secret + ": " + secret, `"\` + secret + `"`, "${" + secret + "-x}", "${X" + ":-" + secret, "${X:-${" + secret + "}}", "${SECRET}", `"${SECRET}"`, "x${SECRET}",
		"redis://user:" + secret + "@host:port", `"postgres://user:` + secret + `@host/db?password=` + secret + `"`, "postgresql://user:" + secret + "@/%zz", "http://user:" + secret + "@host/?" + secret, "user:" + secret + "@host", "https://" + secret + "@h",
		"long-enough-" + secret, `"long-enough-ä-` + secret + `"`, "[long-enough-" + secret + ", long-enough-" + secret + "]",
		`"redis://user:` + secret + `@host:1/` + secret + `"`, `"user:` + secret + `@host:99999"`, "{? [" + secret + "] : x}", "- " + secret,
	}
	lookup := lookupOf("SECRET", secret)
	refused := 0
	for _, place := range places {
		for _, value := range values {
			text := fmt.Sprintf(place, value) + minimal()
			text = strings.Replace(text, "extra: [", "providers: [", 1)
			for _, block := range []string{text, "server: {keys: []}\n" + text, strings.ReplaceAll(text, "{", "\n  {")} {
				set, err := Parse("pools.yaml", []byte(block), lookup)
				if err != nil {
					refused++
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s\nsays:\n%v", block, err)
					}
				} else if strings.Contains(warnings(set)+fmt.Sprintf("%+v", *set), secret) && !strings.Contains(place, "extra") {
					t.Errorf("%s\nwarns:\n%s", block, warnings(set))
				}
			}
		}
	}
	if refused < len(places)*len(values) {
		t.Errorf("only %d of the texts were refused: this test looks at too little", refused)
	}
}

// No message contains a value of the environment, even for a key that is not secret. A reference to
// the wrong variable may insert a secret there.
func TestNoEnvironmentValueInAnyProblem(t *testing.T) {
	for _, text := range []string{
		"server: {listen: '${V}'}\n", "server: {keys: [{name: '${V}', key: 0123456789abcdef, scopes: ['${V}'], targets: ['${V}'], rate: '${V}'}]}\n",
		"redis: {prefix: '${V}'}\n", "server: {callback_secrets: ['${V}', '${V}']}\n", "budget: {per_day: '${V}'}\n", "defaults: {budget: {per_hour: '${V}'}}\n",
		"defaults: {depth: '${V}', lifetime: '${V}', margin: '${V}', on_empty: '${V}', rate: '${V}', paused: '${V}'}\n",
		"types: {turnstile: {lifetime: '${V}', margin: '${V}'}}\n", "dedup: {backend: '${V}', url: '${V}'}\n",
		"history: {backend: '${V}', keep: '${V}', audit: '${V}', url: '${V}', table: '${V}', endpoint: '${V}', region: '${V}'}\n",
		"history: {backend: dynamodb, keep: '${V}', audit: '${V}', url: '${V}', table: '${V}', endpoint: '${V}', region: '${V}'}\n",
		"solve: {pages: ['${V}', 'https://${V}/*', 'https://a/${V}?'], sitekeys: ['${V}'], images: '${V}', budget: {per_day: '${V}'}, rate: '${V}'}\n",
		"defaults: {warm: [{cron: '${V}', tokens: '${V}', for: '${V}'}, {cron: 'CRON_TZ=${V} * * * * *'}, {cron: '0 0 1/${V} * *'}]}\n",
		"targets: {a: {type: '${V}', sitekey: '${V}', pageurl: '${V}', min_score: '${V}', refill: '${V}', proxy_type: '${V}', owner: '${V}'}}\n",
		"providers: [{name: '${V}', protocol: '${V}', profile: '${V}', url: '${V}', key: '${V}', concurrency: '${V}', first_poll: '${V}', balance: '${V}',\n" +
			"  callback_url: '${V}', fallback_after: '${V}', callback_delay: '${V}', price_per_1000: '${V}'}]\n",
		"providers: [{name: a, price_per_1000: {turnstile: '${V}'}}]\n",
	} {
		for _, value := range []string{"CANARY {[", "geetest CANARY", " CANARY", "CANARY\n"} {
			_, err := Parse("pools.yaml", []byte(text+minimal()), lookupOf("V", value))
			if err == nil || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%s%v", text, err)
			}
		}
	}
}

// FuzzParse looks for a panic, an error of another type than Problems, and a value of the
// environment in a message.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/bad.txtar", "testdata/good.txtar"} {
		for _, file := range caseFiles(f, path) {
			f.Add(file.data)
		}
	}
	full, err := os.ReadFile("testdata/good-full.yaml")
	testkit.NoError(f, err)
	f.Add(full)
	const secret = "ca+na/ry"
	lookup := References{Variable: func(string) (string, bool) { return secret, true }}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), secret) {
			t.Skip("the secret stands in the file itself")
		}
		set, err := Parse("pools.yaml", data, lookup)
		if err != nil {
			problems, ok := err.(Problems) //nolint:errorlint // Parse promises exactly this type
			if !ok || len(problems) == 0 || set != nil {
				t.Fatalf("set %v, error %T: %v", set, err, err)
			}
			for _, p := range problems {
				if strings.Contains(p.Text, secret) || strings.ContainsAny(p.Text, "\n\r\x1b") || p.Line < 0 || p.Line > strings.Count(string(data), "\n")+1 {
					t.Fatalf("problem %q", p)
				}
			}
			return
		}
		if strings.Contains(warnings(set), secret) {
			t.Fatalf("a warning shows the secret:\n%s", warnings(set))
		}
	})
}
